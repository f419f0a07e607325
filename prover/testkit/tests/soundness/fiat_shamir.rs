//! Attacks by a prover that knows challenges in advance. Each is carried out against challenges that are frozen: then
//! it works, which shows what it would gain. Against the verifier, which draws them from what was sent, it fails.

mod challenges;
mod dependence;
mod domains;

use std::cell::{Cell, RefCell};

use num_traits::{One, Zero};
use stwo::core::air::{Component, Components};
use stwo::core::channel::Channel;
use stwo::core::circle::CirclePoint;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use stwo_constraint_framework::INTERACTION_TRACE_IDX;
use tessera_circuits::air::tables;
use tessera_circuits::mle::index_eq;
use tessera_circuits::model::MIN_ROWS_LOG;
use tessera_circuits::ops::stream;
use tessera_circuits::shape::Product;
use tessera_circuits::shape::{Part, Shape};
use tessera_prover::trace::Columns;
use tessera_testkit::{place_of, reworked, OfStark};
use tessera_verifier::labels::CLAIMED_SUM;
use tessera_verifier::opening::{CommitmentName, OpeningError};
use tessera_verifier::proof::{ChunkProof, Proof};
use tessera_verifier::stark::component;
use tessera_verifier::sumcheck::instance_scale;
use tessera_verifier::verify::{verify, VerifyError};

use crate::cheat::{Hooks, Interaction, HONEST};
use crate::lookups::solve;
use crate::{assert_claims_violated, assert_constraints_violated, assert_rejected, Scene};

use challenges::{messages, messages_mut, Challenges, K};

/// An honest proof with its key.
fn honest() -> (Scene, Proof) {
    let scene = Scene::honest();
    let proof = scene.forge(&HONEST);
    (scene, proof)
}

/// Gains any output: the last round of a sumcheck is made to end in the honest value, and all that follows is
/// the honest proof.
#[test]
fn challenges_known_in_advance_would_prove_any_output() {
    let (scene, proof) = honest();
    let key = &scene.model.key;
    let frozen = Challenges::of(key, &proof);
    assert_eq!(frozen.accept(key, &proof, &proof), Ok(()));
    let mut forged = proof.clone();
    *forged.statement.output.last_mut().expect("an output") ^= 1;
    assert_eq!(frozen.accept(key, &proof, &forged), Err("linear"));
    frozen.mend(key, &proof, &mut forged);
    assert_eq!(frozen.accept(key, &proof, &forged), Ok(()));
    assert_rejected!(verify(key, &reworked(key, forged)), VerifyError::Gkr(_));
}

/// Gains free operands of the matmuls: with their weights among the claims on trace and weights known, four of them
/// are changed so that every equation still holds.
#[test]
fn operands_are_not_chosen_after_their_weights() {
    let (scene, proof) = honest();
    let key = &scene.model.key;
    let frozen = Challenges::of(key, &proof);
    let mut forged = proof.clone();
    let variables = frozen.shape.product_variables() as usize;
    let places = [Product::ATT, Product::FF];
    let [att, mlp] = places.map(|p| instance_scale(variables, p.variables(&frozen.shape) as usize));
    let family = |product| frozen.families.iter().find(|(own, _)| *own == product);
    let [phi, psi] = places.map(|p| family(p).expect("weights").1);
    let operands = &mut messages_mut(&mut forged).matmuls.operands;
    let [[a, b], [c, d]] = places.map(|p| operands[place_of(&frozen.shape, p)]);
    // The claims on the two trace operands follow each other: their sum in the batch stays.
    let (da, dc) = (K::one(), -frozen.claims.inverse());
    // The claim on the weights stays, and so does the sum of the products.
    let ratio = phi * psi.inverse();
    let db = -(att * da * b + mlp * dc * d) * (att * (a + da) - mlp * (c + dc) * ratio).inverse();
    operands[place_of(&frozen.shape, places[0])] = [a + da, b + db];
    operands[place_of(&frozen.shape, places[1])] = [c + dc, d - db * ratio];
    assert_eq!(frozen.accept(key, &proof, &forged), Ok(()));
    let result = verify(key, &reworked(key, forged)).map(|_| ());
    assert_rejected!(
        result,
        VerifyError::Opening(OpeningError::BandClaim {
            commitment: CommitmentName::Weights
        })
    );
}

/// Cells of the residual stream that an attack may alter: of one row each, in the first columns.
const CELLS: [usize; 5] = [40, 41, 42, 43, 44];

/// What a cell of the high limbs of the residual stream weighs in the opening of the activations.
fn weight_of(shape: &Shape, gamma: &[K], local: &[K], row: usize) -> K {
    assert_eq!(shape.committed(Part::STREAM)[stream::X_HI], stream::X_HI);
    gamma[row >> MIN_ROWS_LOG] * index_eq(row % (1 << MIN_ROWS_LOG), local)
}

/// Gains any trace: one that is chosen when all challenges up to its opening are known, the point of the first fold among them.
/// Five cells are changed so that the one equation on the trace that is left holds. With challenges that are drawn from the root of
/// before, the opening of the one after is accepted. Against the verifier all challenges are others.
#[test]
fn activations_are_not_chosen_after_the_challenges() {
    let scene = Scene::honest();
    let honest = scene.forge(&HONEST);
    let changes = RefCell::new(Vec::new());
    let late = |shape: &Shape, gamma: &[K], local: &[K], all: &mut [Columns]| {
        let weights = CELLS.map(|row| weight_of(shape, gamma, local, row));
        let [first, rest @ ..] = weights;
        // The first cell is one more, and four others make up for it.
        let others = solve(rest, -first);
        let all_changes: Vec<BaseField> = [BaseField::one()].into_iter().chain(others).collect();
        let effect = weights
            .iter()
            .zip(&all_changes)
            .fold(K::zero(), |sum, (w, by)| sum + *w * *by);
        assert!(effect.is_zero() && all_changes.iter().all(|by| !by.is_zero()));
        let column = &mut all[Part::STREAM.index()][stream::X_HI];
        CELLS
            .into_iter()
            .zip(&all_changes)
            .for_each(|(row, by)| column[row] += *by);
        changes.replace(all_changes);
    };
    let hooks = Hooks {
        late: Some(&late),
        ..HONEST
    };
    let mut forged = scene.forge(&hooks);
    assert_eq!(changes.borrow().len(), CELLS.len());
    let key = &scene.model.key;
    assert_rejected!(verify(key, &reworked(key, forged.clone())), VerifyError::Gkr(_));
    // With the challenges of before everything is accepted.
    let root = std::mem::replace(
        &mut messages_mut(&mut forged).activations,
        messages(&honest).activations,
    );
    assert_ne!(root, messages(&honest).activations);
    let frozen = Challenges::with_root(key, &forged, &root);
    assert_eq!(frozen.opened, Ok(()));
    assert_eq!(frozen.accept(key, &honest, &forged), Ok(()));
    // Committed before, with challenges that know them, the changes are caught.
    let early = |_: &Shape, all: &mut [Columns]| {
        let column = &mut all[Part::STREAM.index()][stream::X_HI];
        CELLS
            .into_iter()
            .zip(&*changes.borrow())
            .for_each(|(row, by)| column[row] += *by);
    };
    let hooks = Hooks {
        committed: &early,
        ..HONEST
    };
    assert_claims_violated(scene.attempt(&hooks));
}

/// Gains the same with the coordinate of the first fold alone: what is folded stays if two neighbours change in a ratio that
/// the coordinate says. It is drawn after the root, and no ratio of numbers of the base field fits.
#[test]
fn the_first_fold_is_not_known_before_the_root() {
    let scene = Scene::honest();
    let known = Cell::new(K::zero());
    let late = |_: &Shape, _: &[K], local: &[K], _: &mut [Columns]| known.set(*local.last().expect("coordinates"));
    let hooks = Hooks {
        late: Some(&late),
        ..HONEST
    };
    let honest = scene.forge(&hooks);
    let key = &scene.model.key;
    let fold = known.get();
    assert_eq!(Challenges::of(key, &honest).linear.last(), Some(&fold));
    assert!(!fold.is_zero() && !fold.is_one());
    // The ratio of an even entry and the odd one after it that a fold at this coordinate does not see.
    let ratio = fold * (fold - K::one()).inverse();
    assert_ne!(ratio.to_m31_array()[1..], [BaseField::zero(); 3]);
    // Another trace has another coordinate.
    let cell = |_: &Shape, all: &mut [Columns]| all[Part::STREAM.index()][stream::X_HI][CELLS[0]] += BaseField::one();
    let other = scene.forge(&Hooks {
        committed: &cell,
        ..hooks
    });
    assert_ne!(known.get(), fold);
    assert_ne!(messages(&other).activations, messages(&honest).activations);
}

/// The out-of-domain point of a forged proof: the composition coefficient, the point, and what the composition
/// polynomial lacks there.
fn out_of_domain(scene: &Scene, proof: &Proof) -> (K, CirclePoint<SecureField>, K) {
    let (key, own) = (&scene.model.key, messages(proof));
    let challenges = Challenges::of(key, proof);
    let [_, mut transcript] = challenges.transcripts.clone();
    transcript.send(CLAIMED_SUM, &own.of_stark().claimed_sum);
    let component = component(&challenges.relations, false, own.of_stark().claimed_sum);
    let all = Components {
        components: vec![&component as &dyn Component],
        n_preprocessed_columns: component.ids().len(),
    };
    transcript.root(&own.of_stark().stark.commitments[INTERACTION_TRACE_IDX].0);
    let coefficient = transcript.channel().draw_secure_felt();
    transcript.root(&own.of_stark().stark.commitments[3].0);
    let point = CirclePoint::get_random_point(transcript.channel());
    let wanted = all.eval_composition_polynomial_at_point(
        point,
        &own.of_stark().stark.sampled_values,
        coefficient,
        tables::LOG_ROWS,
    );
    let sent = composition(own, point, tables::LOG_ROWS);
    (coefficient, point, wanted - sent)
}

/// The value of the composition polynomial that a proof shows at the out-of-domain point.
fn composition(own: &ChunkProof, point: CirclePoint<SecureField>, log_degree: u32) -> K {
    let samples: Vec<K> = own.of_stark().stark.sampled_values[3]
        .iter()
        .map(|column| column[0])
        .collect();
    let [left, right] = [0, 4].map(|i| K::from_partial_evals(std::array::from_fn(|j| samples[i + j])));
    left + point.repeated_double(log_degree - 1).x * right
}

/// Gains any lookup: a composition polynomial that is made to fit at the out-of-domain point, which was known before
/// the polynomial was committed, or is used a second time.
#[test]
fn a_composition_polynomial_for_a_known_point_is_rejected() {
    let scene = Scene::honest();
    let alter = |_: &Interaction<'_>, columns: &mut Columns, _: &mut K| columns[7][100] += BaseField::one();
    let hooks = Hooks {
        interaction: &alter,
        ..HONEST
    };
    let attempt = |hooks: &Hooks<'_>| scene.forge(hooks);
    let first = attempt(&hooks);
    let (coefficient, point, lacks) = out_of_domain(&scene, &first);
    assert!(!lacks.is_zero(), "a constraint is violated");
    let hooks = Hooks {
        composition: lacks,
        ..hooks
    };
    let second = attempt(&hooks);
    // All challenges before the commitment are the same, so the new polynomial fits at the old point.
    let (same, redrawn, still) = out_of_domain(&scene, &second);
    assert_eq!(same, coefficient);
    assert_ne!(redrawn, point);
    assert!(!still.is_zero());
    assert_constraints_violated(verify(&scene.model.key, &second).map(|_| ()));
}
