//! Attacks on the configuration: a weaker code or fewer queries of the STARK, and accumulators in other limbs.

use stwo::core::fri::FriConfig;
use stwo::core::pcs::PcsConfig;
use tessera_circuits::model::{ChannelShift, LimbSet, Limbs, WeightFormat};
use tessera_testkit::{odd_config, random_model, OfStark};
use tessera_verifier::policy::stark_config;
use tessera_verifier::stark::StarkError;
use tessera_verifier::verify::{verify, VerifyError};

use crate::cheat::{Hooks, HONEST};
use crate::{assert_rejected, Scene};

/// Gains proofs that take a few guesses: a complete STARK of a weaker configuration, which it names; and the same
/// with the verifier's configuration written over it.
#[test]
fn weak_configurations_are_rejected() {
    let scene = Scene::honest();
    let strong = stark_config();
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
        // A code of rate 1/2 where 97 queries are enough for one of rate 1/8 only: the tables' root is another.
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
        proof.chunks[0].of_stark_mut().stark.0.config = strong;
        let result = verify(key, &proof);
        assert!(result.as_ref().is_err_and(hidden), "{pcs:?}: {result:?}");
    }
}

/// Gains accumulators that wrap modulo p: what the key has in two limbs is claimed in one. And the other way round, which gains
/// nothing and is another proof.
#[test]
fn limbs_are_those_of_the_key() {
    let mut model = random_model(odd_config(), WeightFormat::Int16, 7);
    for layer in &mut model.params.layers {
        (layer.attention.q, layer.mlp.gate) = (ChannelShift(vec![8]), ChannelShift(vec![8]));
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
            VerifyError::Products { .. } | VerifyError::Matmuls | VerifyError::Gkr(_) | VerifyError::Opening(_)
        );
    }
}
