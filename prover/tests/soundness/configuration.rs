//! Attacks on the STARK's configuration: a weaker code or fewer queries, and constraints that are not proved.

use stwo::core::fri::FriConfig;
use stwo::core::pcs::PcsConfig;
use tessera_circuits::model::{ChannelShift, LimbSet, Limbs, WeightFormat};
use tessera_circuits::shape::{Part, PARTS};
use tessera_prover::testing::{odd_config, random_model};
use tessera_verifier::policy::TracePolicy;
use tessera_verifier::stark::StarkError;
use tessera_verifier::verify::{verify, VerifyError};

use crate::cheat::{Hooks, HONEST};
use crate::{assert_constraints_violated, assert_rejected, Scene};

/// Gains proofs that take a few guesses: a complete STARK of a weaker configuration, which it names; and the same
/// with the verifier's configuration written over it.
#[test]
fn weak_configurations_are_rejected() {
    let scene = Scene::honest();
    let strong = TracePolicy::of(&scene.shape()).pcs_config();
    let fri = strong.fri_config;
    let weak = |pow_bits: u32, last: u32, blowup: u32, queries: usize| PcsConfig {
        pow_bits,
        fri_config: FriConfig::new(last, blowup, queries, fri.fold_step),
        lifting_log_size: None,
    };
    let (work, last, blowup, queries) = (
        strong.pow_bits,
        fri.log_last_layer_degree_bound,
        fri.log_blowup_factor,
        fri.n_queries,
    );
    type Expected = fn(&VerifyError) -> bool;
    let attempts: [(PcsConfig, Expected); 4] = [
        // One query.
        (weak(work, last, blowup, 1), |e| {
            matches!(
                e,
                VerifyError::Stark(StarkError::Length {
                    what: "answers of a column",
                    ..
                })
            )
        }),
        // No work.
        (
            weak(0, last, blowup, queries),
            |e| matches!(e, VerifyError::Stark(StarkError::Invalid(m)) if m == "Proof of work verification failed."),
        ),
        // A code of rate 1/2 where 118 queries are enough for one of rate 1/4 only: the tables' root is another.
        (weak(work, last, 1, queries), |e| {
            matches!(e, VerifyError::Stark(StarkError::Tables))
        }),
        // A last layer of a degree that the code does not have room for.
        (weak(work, last + 3, blowup, queries), |e| {
            matches!(
                e,
                VerifyError::Stark(StarkError::Length {
                    what: "last FRI layer",
                    ..
                })
            )
        }),
    ];
    for (pcs, hidden) in attempts {
        let hooks = Hooks {
            pcs: Some(pcs),
            ..HONEST
        };
        let mut proof = scene.forge(&hooks);
        let key = &scene.model.key;
        assert_rejected!(verify(key, &proof), VerifyError::Stark(StarkError::Config));
        proof.chunks[0].stark.0.config = strong;
        let result = verify(key, &proof);
        assert!(result.as_ref().is_err_and(hidden), "{pcs:?}: {result:?}");
    }
}

/// Gains a part without rules: the composition polynomial has the constraints of all parts but one.
#[test]
fn no_part_is_left_out_of_the_composition() {
    let scene = Scene::honest();
    let shape = scene.shape();
    // Without the tallest part, the tables, the polynomial would have another size.
    let lower = |part: &Part| shape.log_rows(*part) < shape.max_log_rows();
    let parts: Vec<Part> = PARTS.into_iter().filter(lower).collect();
    assert_eq!(parts.len(), PARTS.len() - 1);
    for left_out in parts {
        let constrained = |part| part != left_out;
        let hooks = Hooks {
            constrained: &constrained,
            ..HONEST
        };
        assert_constraints_violated(scene.attempt(&hooks));
    }
}

/// Gains accumulators that wrap modulo p: what the key has in two limbs is claimed in one. And the other way round, which gains
/// nothing and is another proof.
#[test]
fn limbs_are_those_of_the_key() {
    let mut model = random_model(odd_config(), WeightFormat::Int16, 7);
    for layer in &mut model.params.layers {
        (layer.q, layer.gate) = (ChannelShift(vec![8]), ChannelShift(vec![8]));
    }
    let scene = Scene::of(model);
    let own = scene.shape().limbs;
    let expected = LimbSet {
        q: Limbs::Two,
        gate: Limbs::Two,
        ..LimbSet::all(Limbs::One)
    };
    assert_eq!(own, expected);
    scene.attempt(&HONEST).expect("an honest proof");
    let others = [
        LimbSet { q: Limbs::One, ..own },
        LimbSet {
            gate: Limbs::One,
            ..own
        },
        LimbSet {
            head: Limbs::Two,
            ..own
        },
        LimbSet::all(Limbs::One),
        LimbSet::all(Limbs::Two),
    ];
    for limbs in others {
        let hooks = Hooks {
            limbs: Some(limbs),
            ..HONEST
        };
        assert_rejected!(
            scene.attempt(&hooks),
            VerifyError::Matmuls | VerifyError::Evaluations { .. }
        );
    }
}
