//! Attacks on the protocol: a simulating prover that knows the weights but never runs the model, step by step with
//! one more lie, and single lies in otherwise honest proofs. All of them are complete proofs.

use num_traits::One;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::lookups::Relation;
use tessera_circuits::air::tables::LookupTables;
use tessera_circuits::model::{MatmulKind, MatrixId, WeightFormat};
use tessera_circuits::ops::stream;
use tessera_circuits::semantics::requantise;
use tessera_circuits::shape::{Part, Shape};
use tessera_circuits::statement::StatementError;
use tessera_model::tiles::{tile_bytes, TileSource};
use tessera_model::weights::PackedWeights;
use tessera_model::QuantisedModel;
use tessera_prover::stark::root_of;
use tessera_prover::trace::Columns;
use tessera_testkit::{column_of, edit, odd_config, random_model, reworked, OfStark, TestModel};
use tessera_verifier::gkr::GkrError;
use tessera_verifier::opening::parts::{parts_of, parts_of_mut, ProofParts};
use tessera_verifier::opening::{CommitmentName, OpeningError, TreeName};
use tessera_verifier::proof::{ChunkProof, Proof};
use tessera_verifier::stark::StarkError;
use tessera_verifier::sumcheck::SumcheckError;
use tessera_verifier::verify::{verify, VerifyError};

use crate::cheat::{Fit, Hooks, Interaction, Rounds, HONEST};
use crate::{assert_claims_violated, assert_constraints_violated, assert_rejected, rejects_weights, witness_of, Scene};

type K = SecureField;

/// Without a lie the cheating prover is a prover: what the attacks are rejected for is what they alter.
#[test]
fn without_a_lie_the_proof_is_accepted() {
    let scene = Scene::honest();
    let verified = verify(&scene.model.key, &scene.forge(&HONEST)).expect("an honest proof");
    assert_eq!(verified.statement, scene.statement);
    Scene::quiet().attempt(&HONEST).expect("an honest proof");
}

/// An arbitrary output with a trace that is zero but for the logits of its tokens: all lookups of
/// the trace hold, nothing of it is computed by the model.
fn simulation() -> Scene {
    let mut scene = Scene::honest();
    scene.statement.output = vec![17, 250, 3, 99];
    let mut zero = scene.model.quantised.clone();
    for m in zero.config.matmuls() {
        edit(&mut zero, m.id, |matrix| matrix.fill(0));
    }
    scene.witness = witness_of(&zero, &scene.statement);
    let vocab = scene.model.key.config.vocab;
    for (row, id) in scene.statement.generated() {
        let at = row * vocab + id as usize;
        scene.witness.logits_acc_hi[at] = 1 << 18;
        let shift = tessera_circuits::rounding::shift_of(&zero.params, MatrixId::HEAD).expect("the head");
        scene.witness.logits[at] = requantise(1 << 26, shift.at(id as usize));
    }
    scene
}

/// The matmul sumcheck is honest about the false trace, and so is all that follows.
#[test]
fn a_simulated_trace_is_not_the_models() {
    assert_claims_violated(simulation().attempt(&HONEST));
}

/// The matmul sumcheck claims the accumulators of the trace, with constant rounds and an operand that fits.
#[test]
fn simulated_matmuls_need_operands() {
    let hooks = Hooks {
        matmuls: Rounds::Constant,
        ..HONEST
    };
    assert_claims_violated(simulation().attempt(&hooks));
}

const SIMULATED: Hooks<'static> = Hooks {
    matmuls: Rounds::Constant,
    linear: Rounds::Constant,
    ..HONEST
};

/// The linear sumcheck, too: what it ends in is not the value of the activations, as they are opened.
#[test]
fn simulated_sums_end_in_the_activations() {
    assert_claims_violated(simulation().attempt(&SIMULATED));
}

/// An evaluation of the activations makes up for it: then it is not the one of what is folded.
#[test]
fn simulated_evaluations_are_those_of_what_is_folded() {
    let hooks = Hooks {
        fit: Fit::Values,
        ..SIMULATED
    };
    assert_rejected!(
        simulation().attempt(&hooks),
        VerifyError::Opening(OpeningError::FoldClaim)
    );
}

/// What is folded has that evaluation: then it is not what was committed to.
#[test]
fn what_is_folded_is_what_was_committed_to() {
    let hooks = Hooks {
        fit: Fit::Message,
        ..SIMULATED
    };
    assert_rejected!(
        simulation().attempt(&hooks),
        VerifyError::Opening(OpeningError::Root {
            tree: TreeName::Oracle(0)
        })
    );
}

/// The activations that are committed to are those of another trace: a true one, next to the false one that everything else is
/// about; and one that differs in a single cell. The opening cannot be made to fit, either.
#[test]
fn the_commitment_is_to_the_trace() {
    let honest = Scene::honest();
    let cell = |_: &Shape, all: &mut [Columns]| all[Part::STREAM.index()][stream::X_LO][77] += BaseField::one();
    let mut simulated = simulation();
    let truth = witness_of(&simulated.model.quantised, &simulated.statement);
    let told = std::mem::replace(&mut simulated.witness, truth);
    let (true_trace, _) = simulated.trace();
    simulated.witness = told;
    let trace = |_: &Shape, all: &mut [Columns]| all.clone_from_slice(&true_trace);
    let hooks = [
        Hooks {
            committed: &cell,
            ..HONEST
        },
        Hooks {
            committed: &trace,
            ..SIMULATED
        },
    ];
    for (scene, mut hooks) in [&honest, &simulated].into_iter().zip(hooks) {
        let mut attempt = |fit| {
            hooks.fit = fit;
            scene.attempt(&hooks)
        };
        assert_claims_violated(attempt(Fit::No));
        assert_rejected!(attempt(Fit::Values), VerifyError::Opening(OpeningError::FoldClaim));
        assert_rejected!(
            attempt(Fit::Message),
            VerifyError::Opening(OpeningError::Root {
                tree: TreeName::Oracle(0)
            })
        );
    }
}

/// The root of another trace, shown in an honest proof or absorbed with it: what is opened is not below it, or all challenges
/// are others.
#[test]
fn the_root_is_that_of_the_trace() {
    let scene = Scene::honest();
    let honest = scene.forge(&HONEST);
    let cell = |_: &Shape, all: &mut [Columns]| all[Part::FF.index()][0][5] += BaseField::one();
    let other = scene.forge(&Hooks {
        committed: &cell,
        ..HONEST
    });
    assert_ne!(other.chunks[0].activations, honest.chunks[0].activations);
    let mut relabelled = honest.clone();
    relabelled.chunks[0].activations = other.chunks[0].activations;
    let key = &scene.model.key;
    assert_rejected!(verify(key, &reworked(key, relabelled)), VerifyError::Gkr(_));
    // After all challenges a cell is altered, and so is the root: the opening is one of the new root.
    let late = |_: &Shape, _: &[K], _: &[K], all: &mut [Columns]| cell(&scene.shape(), all);
    let hooks = Hooks {
        late: Some(&late),
        ..HONEST
    };
    let late = scene.forge(&hooks);
    assert_rejected!(verify(key, &late), VerifyError::Work(_));
    assert_rejected!(verify(key, &reworked(key, late)), VerifyError::Gkr(_));
    // The leaves of another tree.
    let mut leaves = honest.clone();
    let rows = &parts_of(&other.chunks[0].opening).codes[1].rows;
    parts_of_mut(&mut leaves.chunks[0].opening).codes[1].rows = rows.clone();
    let result = verify(&scene.model.key, &leaves);
    let tree = TreeName::Committed(CommitmentName::Activations);
    assert!(
        matches!(
            &result,
            Err(VerifyError::Opening(
                OpeningError::Root { tree: t } | OpeningError::OpenedValues { tree: t, .. }
                    | OpeningError::PathTooShort { tree: t } | OpeningError::PathTooLong { tree: t, .. }
            )) if *t == tree
        ),
        "{result:?}"
    );
}

/// The activations are opened against another claim: with other coefficients, at another point of the units, or folded first at
/// another coordinate. Everything else is honest.
#[test]
fn activations_are_opened_where_the_claims_end() {
    let scene = Scene::honest();
    let coefficients = Hooks {
        gamma: &|gamma| gamma[3] += K::one(),
        ..HONEST
    };
    // Nobody absorbs coefficients: both sides have the same challenges, and what the band sumcheck ends in does not fit.
    assert_rejected!(
        scene.attempt(&coefficients),
        VerifyError::Opening(OpeningError::BandClaim { .. })
    );
    let zero = Hooks {
        gamma: &|gamma| gamma.iter_mut().for_each(|g| *g += *g),
        ..HONEST
    };
    assert_rejected!(
        scene.attempt(&zero),
        VerifyError::Opening(OpeningError::BandClaim { .. })
    );
    for coordinate in [0, 5, 11] {
        let alter = |local: &mut Vec<K>| local[coordinate] += K::one();
        let point = Hooks {
            local: &alter,
            ..HONEST
        };
        assert_claims_violated(scene.attempt(&point));
        // With evaluations that fit, what is folded has others.
        let fitted = Hooks {
            fit: Fit::Values,
            ..point
        };
        assert_rejected!(scene.attempt(&fitted), VerifyError::Opening(OpeningError::FoldClaim));
    }
    // Two units exchange what they lack of the claim.
    let moved = Hooks {
        unit_values: &|gamma, values| {
            values[0] += gamma[1];
            values[1] -= gamma[0];
        },
        ..HONEST
    };
    assert_rejected!(scene.attempt(&moved), VerifyError::Opening(OpeningError::FoldClaim));
}

/// What there is of weights and activations in an opening changes places, or one stands for both.
#[test]
fn openings_are_not_exchanged() {
    let scene = Scene::honest();
    let honest = scene.forge(&HONEST);
    let with = |alter: &dyn Fn(&mut ProofParts)| {
        let mut proof = honest.clone();
        alter(parts_of_mut(&mut proof.chunks[0].opening));
        verify(&scene.model.key, &proof)
    };
    assert_rejected!(with(&|own| own.codes.swap(0, 1)), VerifyError::Opening(_));
    assert_rejected!(
        with(&|own| own.codes[0] = own.codes[1].clone()),
        VerifyError::Opening(_)
    );
    assert_rejected!(
        with(&|own| own.codes[1] = own.codes[0].clone()),
        VerifyError::Opening(_)
    );
}

/// The claimed sum: shifted, it does not balance the lookups; and made to balance them, it is not the sum of the entries.
#[test]
fn the_claimed_sum_is_that_of_the_tables() {
    let scene = Scene::honest();
    let shifted = Hooks {
        interaction: &|_, _, sum| *sum += K::one(),
        ..HONEST
    };
    assert_rejected!(scene.attempt(&shifted), VerifyError::Stark(StarkError::Lookups));
    let fewer = Hooks {
        multiplicities: &|counts| counts[column_of(Relation::Range16)][9] += BaseField::one(),
        interaction: &|state, _, sum| *sum += state.missing_entries(*sum),
        ..HONEST
    };
    assert_constraints_violated(scene.attempt(&fewer));
    // In the proof alone.
    let mut proof = scene.forge(&HONEST);
    proof.chunks[0].of_stark_mut().claimed_sum += K::one();
    let result = verify(&scene.model.key, &proof).map(|_| ());
    assert_rejected!(result, VerifyError::Stark(StarkError::Lookups));
}

/// Every column of the running sums altered in one row.
#[test]
fn running_sums_are_constrained() {
    let scene = Scene::honest();
    for column in 0..8 {
        let alter = |_: &Interaction<'_>, all: &mut Columns, _: &mut K| all[column][3] += BaseField::one();
        let hooks = Hooks {
            interaction: &alter,
            ..HONEST
        };
        assert_constraints_violated(scene.attempt(&hooks));
    }
}

/// Every table of multiplicities with one use too many.
#[test]
fn lookups_that_nobody_uses_do_not_balance() {
    let scene = Scene::honest();
    for column in 0..scene.model.key.config.relations().len() {
        let hooks = Hooks {
            multiplicities: &|counts| counts[column][9] += BaseField::one(),
            ..HONEST
        };
        assert_rejected!(scene.attempt(&hooks), VerifyError::Stark(StarkError::Lookups));
    }
}

/// Own lookup tables: with their root, and with the root of the key.
#[test]
fn substituted_tables_are_rejected() {
    let scene = Scene::honest();
    // Exponential and zero of a row that is not used: the sums still balance.
    for column in [3, 4] {
        let alter = |tables: &mut Columns| tables[column][40_000] += BaseField::one();
        let mut hooks = Hooks {
            tables: &alter,
            ..HONEST
        };
        assert_rejected!(scene.attempt(&hooks), VerifyError::Stark(StarkError::Tables));
        hooks.hide_tables = true;
        assert_rejected!(
            scene.attempt(&hooks),
            VerifyError::Stark(StarkError::Invalid(ref m)) if m == "Root mismatch."
        );
    }
}

/// A key that has the root of other tables: nothing else of the proof is wrong.
#[test]
fn tables_are_those_of_the_parameters_whatever_root_the_key_has() {
    let mut scene = Scene::honest();
    let key = scene.model.key.clone();
    for column in 0..LookupTables::new(&key.params, &key.config).columns.len() {
        let alter = |tables: &mut Columns| tables[column][40_000] += BaseField::one();
        let mut own = LookupTables::new(&key.params, &key.config).columns;
        alter(&mut own);
        scene.model.key.tables_root = root_of(&own);
        let hooks = Hooks {
            tables: &alter,
            ..HONEST
        };
        let result = scene.attempt(&hooks);
        let caught = match result {
            Err(VerifyError::Stark(StarkError::OtherTables)) => true,
            // Of a row that is used.
            Err(VerifyError::Stark(StarkError::Lookups)) => false,
            other => panic!("column {column}: {other:?}"),
        };
        // Exponential and zero are of a row that is not used.
        assert!(caught || ![3, 4].contains(&column), "column {column}");
    }
}

/// An honest proof, passed off as one of another output, prompt, or model.
#[test]
fn an_honest_proof_proves_nothing_else() {
    let scene = Scene::honest();
    let honest = scene.forge(&HONEST);
    let reuse = |alter: &dyn Fn(&mut Proof)| {
        let mut proof = honest.clone();
        alter(&mut proof);
        let key = &scene.model.key;
        verify(key, &reworked(key, proof))
    };
    assert_rejected!(reuse(&|p| p.statement.output[3] ^= 1), VerifyError::Gkr(_));
    assert_rejected!(reuse(&|p| p.statement.prompt[0] ^= 1), VerifyError::Gkr(_));
    // One token is moved from the prompt to the output, and back: the rows are the same.
    let moved = |p: &mut Proof| {
        let token = p.statement.prompt.pop().expect("a prompt");
        p.statement.output.insert(0, token);
    };
    assert_rejected!(reuse(&moved), VerifyError::Gkr(_) | VerifyError::Stark(_));
    let shorter = |p: &mut Proof| p.statement.output.truncate(3);
    assert_rejected!(reuse(&shorter), VerifyError::Gkr(_) | VerifyError::Stark(_));
    let empty = |p: &mut Proof| p.statement.output.clear();
    assert_rejected!(reuse(&empty), VerifyError::Statement(StatementError::EmptyOutput));

    let other = TestModel::new(random_model(odd_config(), WeightFormat::Int16, 8));
    assert_rejected!(verify(&other.key, &honest), VerifyError::OtherModel { .. });
    let mut relabelled = honest.clone();
    relabelled.model = other.prover().id;
    assert_rejected!(
        verify(&other.key, &reworked(&other.key, relabelled)),
        VerifyError::Gkr(_)
    );
}

/// Empty messages: nothing may be left out.
#[test]
fn nothing_may_be_left_out() {
    let scene = Scene::honest();
    let honest = scene.forge(&HONEST);
    let without = |alter: &dyn Fn(&mut ChunkProof)| {
        let mut proof = honest.clone();
        alter(&mut proof.chunks[0]);
        verify(&scene.model.key, &proof)
    };
    let rounds = |label: &'static str| move |e: &SumcheckError| matches!(e, SumcheckError::Rounds { label: l, got: 0, .. } if l == label);
    assert_rejected!(without(&|p| p.matmuls.sumcheck.rounds.clear()), VerifyError::Sumcheck(ref e) if rounds("matmuls")(e));
    assert_rejected!(without(&|p| p.linear.rounds.clear()), VerifyError::Sumcheck(ref e) if rounds("claims")(e));
    assert_rejected!(
        without(&|p| p.lookups.clear()),
        VerifyError::Gkr(GkrError::Groups { got: 0, .. })
    );
    assert_rejected!(
        without(&|p| p.lookups[0].layers.clear()),
        VerifyError::Gkr(GkrError::Layers { group: 0, got: 0, .. })
    );
    assert_rejected!(
        without(&|p| p.lookups[0].layers[2].rounds.clear()),
        VerifyError::Gkr(GkrError::Rounds {
            group: 0,
            layer: 2,
            got: 0
        })
    );
    let opening = |what: &'static str| move |e: &OpeningError| matches!(e, OpeningError::Length { what: w, got: 0, .. } if *w == what);
    assert_rejected!(without(&|p| parts_of_mut(&mut p.opening).codes[1].band_rounds.clear()), VerifyError::Opening(ref e) if opening("band sumcheck")(e));
    assert_rejected!(without(&|p| parts_of_mut(&mut p.opening).cross_values.clear()), VerifyError::Opening(ref e) if opening("cross values")(e));
    assert_rejected!(without(&|p| parts_of_mut(&mut p.opening).fold_rounds.clear()), VerifyError::Opening(ref e) if opening("folding sumcheck")(e));
    assert_rejected!(without(&|p| parts_of_mut(&mut p.opening).final_message.clear()), VerifyError::Opening(ref e) if opening("final message")(e));
    assert_rejected!(
        without(&|p| parts_of_mut(&mut p.opening).codes[1].rows.values.clear()),
        VerifyError::Opening(OpeningError::OpenedValues { got: 0, .. })
    );
    assert_rejected!(
        without(&|p| p.matmuls.operands.clear()),
        VerifyError::Products { got: 0, .. }
    );
    assert_rejected!(
        without(&|p| p.of_stark_mut().stark.0.commitments.0.clear()),
        VerifyError::Stark(StarkError::Length {
            what: "commitments",
            got: 0,
            ..
        })
    );
}

/// A model with other weights, everything consistent with them but the commitment.
fn other_weights(scene: &Scene) -> QuantisedModel {
    let mut other = scene.model.quantised.clone();
    edit(&mut other, MatmulKind::Down.at(1), |down| down[5] ^= 1);
    other
}

/// The whole proof is made with one weight altered: the opening of the committed weights has another value. With one
/// tile's evaluation made up, the sum over the tiles is what is claimed, but not the one of the committed weights.
#[test]
fn another_weight_is_rejected() {
    let mut scene = Scene::honest();
    let other = other_weights(&scene);
    scene.witness = witness_of(&other, &scene.statement);
    rejects_weights(&scene, &other.weights);
    // The same weights in another tile.
    let swapped = swapped(&scene.model.quantised.weights);
    let hooks = Hooks {
        tiles: Some(&swapped),
        ..HONEST
    };
    // Before both columns are added, the claim on the activations does not hold: their accumulators are those of the committed weights.
    assert_claims_violated(scene.attempt(&hooks));
    let honest = Scene::honest();
    let hooks = Hooks {
        band_values: &|gamma, values| {
            values[0] += gamma[1];
            values[1] -= gamma[0];
        },
        ..HONEST
    };
    assert_rejected!(honest.attempt(&hooks), VerifyError::Opening(OpeningError::FoldClaim));
    let hooks = Hooks {
        band_values: &|_, values| values[0] += K::one(),
        ..HONEST
    };
    assert_rejected!(
        honest.attempt(&hooks),
        VerifyError::Opening(OpeningError::BandClaim {
            commitment: CommitmentName::Weights
        })
    );
}

/// Tiles of one band, exchanged as a whole or in one weight of each. As above.
#[test]
fn weights_do_not_move_within_a_band() {
    let mut scene = Scene::banded();
    scene.attempt(&HONEST).expect("an honest proof");
    let swapped = swapped(&scene.model.quantised.weights);
    let hooks = Hooks {
        tiles: Some(&swapped),
        ..HONEST
    };
    // Before both columns are added, the claim on the activations does not hold: their accumulators are those of the committed weights.
    assert_claims_violated(scene.attempt(&hooks));
    let mut other = scene.model.quantised.clone();
    // Outputs 5 and 69 of the first input: the same place in the first two tiles.
    edit(&mut other, MatmulKind::Down.at(1), |down| down.swap(5, 69));
    assert_ne!(other.weights.all(), scene.model.quantised.weights.all());
    scene.witness = witness_of(&other, &scene.statement);
    rejects_weights(&scene, &other.weights);
}

/// A complete proof whose opening is in shorter bands than those of the architecture, honest but for that: the coordinates
/// of a tile in its band are bound in the sumcheck instead of before.
#[test]
fn bands_are_those_of_the_architecture() {
    let scene = Scene::banded();
    for bands in [0, 1] {
        let hooks = Hooks {
            bands: Some(bands),
            ..HONEST
        };
        assert_rejected!(
            scene.attempt(&hooks),
            VerifyError::Opening(OpeningError::Length {
                what: "band sumcheck",
                ..
            })
        );
    }
}

/// The first two tiles exchanged.
fn swapped(weights: &PackedWeights) -> PackedWeights {
    let mut bytes = weights.all().to_vec();
    bytes[..2 * tile_bytes(weights.format())].rotate_left(tile_bytes(weights.format()));
    PackedWeights::in_memory(weights.format(), bytes)
}
