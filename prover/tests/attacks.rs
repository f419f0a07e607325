//! Hostile bytes, and the shape of the claims under the most padding.

use tessera_circuits::claims::{batch, well_formed};
use tessera_circuits::model::{ModelConfig, Strategy};
use tessera_circuits::shape::Shape;
use tessera_circuits::statement::{Statement, Statistics};
use tessera_circuits::wiring::{product_variables, Points, Public};
use tessera_prover::progress::Silent;
use tessera_prover::prove::prove;
use tessera_prover::testing::{odd_config, random_ids, random_model, TestModel, TestRng};
use tessera_verifier::key::ModelId;
use tessera_verifier::stark::StarkError;
use tessera_verifier::verify::{open_transcript, verify_bytes, VerifyError};

/// Changed bytes: every one is rejected, and never by the library's panic.
#[test]
fn changed_bytes_are_rejected_without_a_panic() {
    let model = TestModel::new(random_model(odd_config(), Strategy::W12, 7));
    let prompt = random_ids(&model.key.config, 3, 3);
    let honest = prove(&model.prover(), &prompt, 2, &Silent)
        .expect("an honest proof")
        .bytes;
    assert!(verify_bytes(&model.key, &honest).is_ok());
    let mut rng = TestRng(11);
    let mut below = |n: usize| rng.below(n as u64) as usize;
    for round in 0..300 {
        let mut bytes = honest.clone();
        let at = below(bytes.len());
        match round % 4 {
            0 => bytes[at] ^= 1 << below(8),
            1 => bytes[at] = bytes[at].wrapping_add(1 + below(255) as u8),
            // A small change of a word: lengths, ids, low digits of field elements.
            2 => bytes[at & !3] ^= 1 + below(3) as u8,
            _ => {
                let len = 1 + below(64);
                let from = below(bytes.len() - len);
                let to = below(bytes.len() - len);
                bytes.copy_within(from..from + len, to);
            }
        }
        if bytes == honest {
            continue;
        }
        match verify_bytes(&model.key, &bytes) {
            Ok(_) => panic!("round {round}: accepted with a change at {at}"),
            Err(VerifyError::Stark(StarkError::Panicked)) => panic!("round {round}: a panic from a change at {at}"),
            Err(_) => {}
        }
    }
}

/// Every weight vector of every claim has the length of its axis, for the shapes with the most padding.
#[test]
fn claims_fit_the_axes_of_their_parts() {
    let small = ModelConfig {
        hidden: 2,
        layers: 1,
        heads: 1,
        kv_heads: 1,
        head_dim: 2,
        ff: 1,
        vocab: 2,
        ..odd_config()
    };
    let large_heads = ModelConfig {
        layers: 5,
        heads: 2,
        kv_heads: 2,
        head_dim: 128,
        ..odd_config()
    };
    for config in [small, large_heads, odd_config()] {
        let params = random_model(config.clone(), Strategy::W8, 1).params;
        for rows in [1, 2, 5, 25] {
            let statement = Statement {
                prompt: vec![0; rows],
                output: vec![1],
            };
            let shape = Shape::new(&config, rows);
            let tokens = 1usize << shape.token;
            let statistics = Statistics {
                norms: vec![[1, 0, 0]; shape.states() * tokens],
                sums: vec![1 << 15; config.layers * config.heads * tokens],
            };
            assert_eq!(statistics.check(&config, tokens), Ok(()));
            let mut transcript = open_transcript(&ModelId([0; 32]), &statement);
            let points = Points::new(&shape, transcript.challenges("points", Points::count(&shape)));
            let public = Public {
                shape: &shape,
                params: &params,
                statement: &statement,
                statistics: &statistics,
                points: &points,
            };
            let point = transcript.challenges("end", product_variables(&shape) as usize);
            let mut claims = public.trace_claims(points.kind);
            claims.extend(public.operand_claims(&point, &[[points.kind; 2]; 6]));
            assert!(claims.len() <= 64, "the ledger allows for 64 claims");
            let batch = batch(claims, points.limb);
            assert!(well_formed(&batch, &shape), "{shape:?}");
        }
    }
}
