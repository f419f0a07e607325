//! Attacks on the protocol: a simulating prover that knows the weights but never runs the model, step by step with
//! one more lie, and single lies in otherwise honest proofs. All of them are complete proofs.

use num_traits::{One, Zero};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use tessera_circuits::air::tables;
use tessera_circuits::eq_kernel::first;
use tessera_circuits::model::{MatmulKind, WeightFormat};
use tessera_circuits::semantics::requantise;
use tessera_circuits::shape::{Part, PARTS};
use tessera_circuits::statement::StatementError;
use tessera_circuits::statistics::StatisticsError;
use tessera_prover::model::tiles::{tile_bytes, TileSource};
use tessera_prover::model::weights::PackedWeights;
use tessera_prover::model::QuantisedModel;
use tessera_prover::prove::stark::eq_columns;
use tessera_prover::prove::stark::trace::Columns;
use tessera_prover::testing::{edit, odd_config, random_model, TestModel};
use tessera_verifier::gkr::GkrError;
use tessera_verifier::opening::OpeningError;
use tessera_verifier::proof::{ChunkProof, Proof};
use tessera_verifier::stark::StarkError;
use tessera_verifier::sumcheck::SumcheckError;
use tessera_verifier::verify::{verify, VerifyError};

use crate::cheat::{secure, Hooks, Interaction, Rounds, HONEST};
use crate::{assert_constraints_violated, assert_rejected, rejects_weights, witness_of, Scene};

type K = SecureField;

/// Without a lie the cheating prover is a prover: what the attacks are rejected for is what they alter.
#[test]
fn without_a_lie_the_proof_is_accepted() {
    let scene = Scene::honest();
    let verified = verify(&scene.model.key, &scene.forge(&HONEST)).expect("an honest proof");
    assert_eq!(verified.statement, scene.statement);
    Scene::quiet().attempt(&HONEST).expect("an honest proof");
}

/// An arbitrary output with a trace that is zero but for the logits of its tokens: all constraints and lookups of
/// the trace hold, nothing of it is computed by the model.
fn simulation() -> Scene {
    let mut scene = Scene::honest();
    scene.statement.output = vec![17, 250, 3, 99];
    let mut zero = scene.model.quantised.clone();
    for m in zero.config.matmuls() {
        edit(&mut zero, m.kind, m.layer, |matrix| matrix.fill(0));
    }
    scene.witness = witness_of(&zero, &scene.statement);
    let vocab = scene.model.key.config.vocab;
    for (row, id) in scene.statement.generated() {
        let at = row * vocab + id as usize;
        scene.witness.logits_acc_hi[at] = 1 << 18;
        let shift = tessera_circuits::rounding::shift_of(&zero.params, MatmulKind::Head, 0).expect("the head");
        scene.witness.logits[at] = requantise(1 << 26, shift.at(id as usize));
    }
    scene
}

/// The matmul sumcheck is honest about the false trace, and so is all that follows.
#[test]
fn a_simulated_trace_is_not_the_models() {
    assert_rejected!(simulation().attempt(&HONEST), VerifyError::Linear);
}

/// The matmul sumcheck claims the accumulators of the trace, with constant rounds and an operand that fits.
#[test]
fn simulated_matmuls_need_operands() {
    let hooks = Hooks {
        matmuls: Rounds::Constant,
        ..HONEST
    };
    assert_rejected!(simulation().attempt(&hooks), VerifyError::Linear);
}

const SIMULATED: Hooks<'static> = Hooks {
    matmuls: Rounds::Constant,
    linear: Rounds::Constant,
    ..HONEST
};

/// The linear sumcheck, too, with an evaluation that fits: no sumcheck catches this, the evaluations must be bound.
#[test]
fn simulated_evaluations_are_bound_to_the_trace() {
    assert_rejected!(
        simulation().attempt(&SIMULATED),
        VerifyError::Stark(StarkError::Unbalanced)
    );
}

/// A claimed sum makes up for the false evaluation: then it is not the sum of the trace.
#[test]
fn simulated_claimed_sums_are_bound_to_the_trace() {
    let hooks = Hooks {
        balance: true,
        ..SIMULATED
    };
    assert_constraints_violated(simulation().attempt(&hooks));
}

/// Multiplies `eq` (and, with `last`, the last-row column) of a part by a factor.
fn scale(own: &mut Columns, factor: K, last: Option<BaseField>) {
    for row in 0..own[0].len() {
        let scaled = (secure(own, row) * factor).to_m31_array();
        (0..4).for_each(|i| own[i][row] = scaled[i]);
        own[8][row] *= last.unwrap_or(BaseField::one());
    }
}

/// In every part in turn: a multiple of `eq`, chosen after all challenges, with which the sums balance. What it would
/// gain: everything, any lookup and any claim.
#[test]
fn a_multiple_of_the_eq_column_is_rejected_in_every_part() {
    let scene = simulation();
    for part in PARTS.into_iter().filter(|p| *p != Part::Tables) {
        let alter = |state: &Interaction<'_>, all: &mut [Columns], sums: &mut [K]| {
            let at = part.index();
            let factor = K::one() + state.missing(sums) * state.shares[at].inverse();
            let own = &mut all[at];
            // The share that the trace really has, which is what the multiple scales.
            let honest = sums[at];
            scale(own, factor, None);
            let scaled = state.rebuild(part, own);
            sums[at] = scaled;
            if state.missing(sums) != K::zero() {
                let real = (scaled - honest) * (factor - K::one()).inverse();
                sums[at] = honest;
                let exact = K::one() + state.missing(sums) * real.inverse();
                scale(own, exact * factor.inverse(), None);
                sums[at] = state.rebuild(part, own);
            }
        };
        let hooks = Hooks {
            interaction: &alter,
            ..SIMULATED
        };
        assert_constraints_violated(scene.attempt(&hooks));
    }
}

/// The same with the last-row column scaled alike: the recurrence holds, the column is not the public one.
#[test]
fn another_last_row_column_is_rejected_in_every_part() {
    let scene = Scene::honest();
    for part in PARTS.into_iter().filter(|p| *p != Part::Tables) {
        let alter = |state: &Interaction<'_>, all: &mut [Columns], sums: &mut [K]| {
            let factor = BaseField::from_u32_unchecked(5);
            scale(&mut all[part.index()], factor.into(), Some(factor));
            sums[part.index()] = state.rebuild(part, &mut all[part.index()]);
        };
        let hooks = Hooks {
            interaction: &alter,
            balance: true,
            ..HONEST
        };
        assert_rejected!(scene.attempt(&hooks), VerifyError::Stark(StarkError::LastRow(p)) if p == part);
    }
}

/// In every part in turn the evaluations of another point, with the `eq` and `carry` columns of that point.
#[test]
fn claims_at_another_point_are_rejected_in_every_part() {
    let scene = Scene::honest();
    for part in PARTS.into_iter().filter(|p| *p != Part::Tables) {
        let alter = |state: &Interaction<'_>, all: &mut [Columns], sums: &mut [K]| {
            let other: Vec<K> = (0..state.trace.shape.log_rows(part)).map(|i| K::from(i + 7)).collect();
            let own = &mut all[part.index()];
            *own = eq_columns(&other).expect("no degenerate point");
            // The recurrence starts with the product of the verifier's point.
            let wanted = state.bindings[part.index()].as_ref().expect("a binding").first;
            scale(own, wanted * first(&other).inverse(), None);
            sums[part.index()] = state.rebuild(part, own);
        };
        let hooks = Hooks {
            interaction: &alter,
            balance: true,
            ..HONEST
        };
        assert_rejected!(scene.attempt(&hooks), VerifyError::Stark(StarkError::Carry(p)) if p == part);
    }
}

/// The `eq` column of another point next to the public carries.
#[test]
fn an_eq_column_of_another_point_is_rejected() {
    let alter = |state: &Interaction<'_>, all: &mut [Columns], sums: &mut [K]| {
        let other: Vec<K> = (0..state.trace.shape.log_rows(Part::Ff))
            .map(|i| K::from(i + 7))
            .collect();
        let own = &mut all[Part::Ff.index()];
        own.splice(
            0..4,
            eq_columns(&other).expect("no degenerate point").into_iter().take(4),
        );
        sums[Part::Ff.index()] = state.rebuild(Part::Ff, own);
    };
    let hooks = Hooks {
        interaction: &alter,
        balance: true,
        ..HONEST
    };
    assert_constraints_violated(Scene::honest().attempt(&hooks));
}

/// Claimed sums: one altered; and one part's sum moved to another, so that the total stays.
#[test]
fn claimed_sums_are_those_of_the_parts() {
    let scene = Scene::honest();
    let one = |_: &Interaction<'_>, _: &mut [Columns], sums: &mut [K]| sums[2] += K::one();
    let hooks = Hooks {
        interaction: &one,
        ..HONEST
    };
    assert_rejected!(scene.attempt(&hooks), VerifyError::Stark(StarkError::Unbalanced));
    let moved = |to: usize| {
        move |_: &Interaction<'_>, _: &mut [Columns], sums: &mut [K]| {
            sums[2] += K::one();
            sums[to] -= K::one();
        }
    };
    let hooks = Hooks {
        interaction: &moved(3),
        ..HONEST
    };
    assert_constraints_violated(scene.attempt(&hooks));
    // The tables have an equation of their own.
    let hooks = Hooks {
        interaction: &moved(Part::Tables.index()),
        ..HONEST
    };
    assert_rejected!(scene.attempt(&hooks), VerifyError::Stark(StarkError::Lookups));
}

/// A running sum of every part altered in one row.
#[test]
fn running_sums_are_constrained() {
    let scene = Scene::honest();
    for part in PARTS {
        let alter = |_: &Interaction<'_>, all: &mut [Columns], _: &mut [K]| {
            let column = all[part.index()].last_mut().expect("a column");
            column[3] += BaseField::one();
        };
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
    for column in 0..tables::COLUMNS {
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
    let alter = |tables: &mut Columns| tables[3][40_000] += BaseField::one();
    let mut hooks = Hooks {
        tables: &alter,
        ..HONEST
    };
    assert_rejected!(scene.attempt(&hooks), VerifyError::Stark(StarkError::Tables));
    hooks.hide_tables = true;
    assert_rejected!(scene.attempt(&hooks), VerifyError::Stark(StarkError::Invalid(ref m)) if m == "Root mismatch.");
}

/// An honest proof, passed off as one of another output, prompt, or model.
#[test]
fn an_honest_proof_proves_nothing_else() {
    let scene = Scene::honest();
    let honest = scene.forge(&HONEST);
    let reuse = |alter: &dyn Fn(&mut Proof)| {
        let mut proof = honest.clone();
        alter(&mut proof);
        verify(&scene.model.key, &proof)
    };
    assert_rejected!(reuse(&|p| p.statement.output[3] ^= 1), VerifyError::Gkr(_));
    assert_rejected!(reuse(&|p| p.statement.prompt[0] ^= 1), VerifyError::Gkr(_));
    // One token is moved from the prompt to the output, and back: the rows are the same.
    let moved = |p: &mut Proof| {
        let token = p.statement.prompt.pop().expect("a prompt");
        p.statement.output.insert(0, token);
    };
    let tops = |got| move |e: &VerifyError| matches!(e, VerifyError::Statistics(StatisticsError::Tops { got: g, .. }) if *g == got);
    assert_rejected!(reuse(&moved), ref e if tops(4)(e));
    let shorter = |p: &mut Proof| p.statement.output.truncate(3);
    assert_rejected!(reuse(&shorter), ref e if tops(4)(e));
    // With as many logits as tokens, the sizes may be others, or all challenges are.
    let moved = |p: &mut Proof| {
        moved(p);
        p.chunks[0].statistics.tops.insert(0, 7);
    };
    assert_rejected!(reuse(&moved), VerifyError::Gkr(_) | VerifyError::Stark(_));
    let shorter = |p: &mut Proof| {
        shorter(p);
        p.chunks[0].statistics.tops.truncate(3);
    };
    assert_rejected!(reuse(&shorter), VerifyError::Gkr(_) | VerifyError::Stark(_));
    let empty = |p: &mut Proof| p.statement.output.clear();
    assert_rejected!(reuse(&empty), VerifyError::Statement(StatementError::EmptyOutput));

    let other = TestModel::new(random_model(odd_config(), WeightFormat::Int16, 8));
    assert_rejected!(verify(&other.key, &honest), VerifyError::OtherModel { .. });
    let mut relabelled = honest.clone();
    relabelled.model = other.prover().id;
    assert_rejected!(verify(&other.key, &relabelled), VerifyError::Gkr(_));
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
        VerifyError::Gkr(GkrError::Trees { got: 0, .. })
    );
    assert_rejected!(
        without(&|p| p.lookups[0].layers.clear()),
        VerifyError::Gkr(GkrError::Layers { tree: 0, got: 0, .. })
    );
    assert_rejected!(
        without(&|p| p.lookups[1].layers[2].rounds.clear()),
        VerifyError::Gkr(GkrError::Rounds {
            tree: 1,
            layer: 2,
            got: 0
        })
    );
    assert_rejected!(
        without(&|p| p.evaluations.clear()),
        VerifyError::Evaluations {
            what: "parts",
            got: 0,
            ..
        }
    );
    assert_rejected!(
        without(&|p| p.evaluations[4].clear()),
        VerifyError::Evaluations {
            what: "columns of a part",
            got: 0,
            ..
        }
    );
    assert_rejected!(
        without(&|p| p.claimed_sums.clear()),
        VerifyError::Stark(StarkError::Length {
            what: "claimed sums",
            got: 0,
            ..
        })
    );
    assert_rejected!(
        without(&|p| p.statistics.norms.clear()),
        VerifyError::Statistics(StatisticsError::Norms { got: 0, .. })
    );
    assert_rejected!(
        without(&|p| p.statistics.sums.clear()),
        VerifyError::Statistics(StatisticsError::Sums { got: 0, .. })
    );
    assert_rejected!(
        without(&|p| p.statistics.tops.clear()),
        VerifyError::Statistics(StatisticsError::Tops { got: 0, .. })
    );
    assert_rejected!(
        without(&|p| p.stark.0.commitments.0.clear()),
        VerifyError::Stark(StarkError::Length {
            what: "commitments",
            got: 0,
            ..
        })
    );
}

/// Statistics in clear: a false one, and one that is only true modulo p.
#[test]
fn statistics_are_those_of_the_trace() {
    let scene = Scene::honest();
    let norms = Hooks {
        statistics: &|s| s.norms[0][2] += 1,
        ..HONEST
    };
    assert_rejected!(scene.attempt(&norms), VerifyError::Linear);
    let sums = Hooks {
        statistics: &|s| s.sums[5] += 1,
        ..HONEST
    };
    assert_rejected!(scene.attempt(&sums), VerifyError::Linear);
    let p = stwo::core::fields::m31::P;
    let alias = Hooks {
        statistics: &|s| s.norms[3][0] -= p as i32,
        ..HONEST
    };
    assert_rejected!(
        scene.attempt(&alias),
        VerifyError::Statistics(StatisticsError::NormRange { index: 3 })
    );
    let alias = Hooks {
        statistics: &|s| s.sums[5] += p,
        ..HONEST
    };
    assert_rejected!(
        scene.attempt(&alias),
        VerifyError::Statistics(StatisticsError::SumRange { index: 5 })
    );
}

/// A model with other weights, everything consistent with them but the commitment.
fn other_weights(scene: &Scene) -> QuantisedModel {
    let mut other = scene.model.quantised.clone();
    edit(&mut other, MatmulKind::Down, 1, |down| down[5] ^= 1);
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
    assert_rejected!(scene.attempt(&hooks), VerifyError::Linear);
    let honest = Scene::honest();
    let hooks = Hooks {
        band_values: &|gamma, values| {
            values[0] += gamma[1];
            values[1] -= gamma[0];
        },
        ..HONEST
    };
    assert_rejected!(honest.attempt(&hooks), VerifyError::Weights(OpeningError::FoldClaim));
    let hooks = Hooks {
        band_values: &|_, values| values[0] += K::one(),
        ..HONEST
    };
    assert_rejected!(honest.attempt(&hooks), VerifyError::Weights(OpeningError::BandClaim));
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
    assert_rejected!(scene.attempt(&hooks), VerifyError::Linear);
    let mut other = scene.model.quantised.clone();
    // Outputs 5 and 69 of the first input: the same place in the first two tiles.
    edit(&mut other, MatmulKind::Down, 1, |down| down.swap(5, 69));
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
            VerifyError::Weights(OpeningError::Length {
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
