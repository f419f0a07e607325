//! Valid keys that make a verifier work the most for their size: every layer has lists of its own, so that no two share anything.

use std::sync::OnceLock;

use tessera_circuits::model::{
    Blocks, ChannelShift, ModelConfig, Pooling, PostNorm, PostNorms, StreamShift, WeightFormat, KINDS, LAYER_KINDS,
};
use tessera_prover::testing::{encoder_config, random_ids, random_model, TestModel};
use tessera_verifier::key::ModelKey;
use tessera_verifier::proof::Proof;
use tessera_verifier::verify::VerifyError;

use crate::faked::faked;
use crate::limits::{alone, answer, deepened, widened, with_own_shifts};
use crate::targets::honest;

/// The most layers, and the widest states.
const LAYERS: usize = 1000;
const WIDTH: usize = 1 << 14;

/// An encoder and a proof of a vector.
fn encoder() -> &'static (ModelKey, Proof) {
    static ENCODER: OnceLock<(ModelKey, Proof)> = OnceLock::new();
    ENCODER.get_or_init(|| {
        let config = ModelConfig {
            layers: 1,
            ..encoder_config(Pooling::Mean)
        };
        let model = TestModel::new(random_model(config.clone(), WeightFormat::Int16, 7));
        let proof = model.prove_chunks(&random_ids(&config, 9, 3), 1, &[1]);
        (model.key, proof)
    })
}

/// A list that no other layer or kind has.
fn own_list(of: u8, other: u8, len: usize, at: usize) -> ChannelShift {
    let mut list = ChannelShift(vec![of; len]);
    list.0[at % len] = other;
    list
}

/// Shifts of O and Down, some of which have narrow differences.
fn shifts_of_updates(key: &mut ModelKey) {
    widened(key, WIDTH);
    deepened(key, LAYERS);
    for (l, layer) in key.params.layers.iter_mut().enumerate() {
        layer.o.body = own_list(6, 7, WIDTH, 2 * l);
        layer.down.body = own_list(7, 6, WIDTH, 2 * l + 1);
    }
}

/// Shifts of Gate and Up.
fn shifts_of_gates(key: &mut ModelKey) {
    key.config.ff = 1 << 16;
    deepened(key, LAYERS);
    for (l, layer) in key.params.layers.iter_mut().enumerate() {
        layer.gate = own_list(7, 6, key.config.ff, 2 * l);
        layer.up = own_list(6, 7, key.config.ff, 2 * l + 1);
    }
}

/// Lists beside those of matmuls, of which there are as many as matrices.
fn with_gains(key: &mut ModelKey, gains: impl Fn(usize) -> Vec<i32>) {
    let matrices = key.config.layers * LAYER_KINDS.len() + 1;
    key.params.biases.resize(matrices, Vec::new());
    key.params.biases.extend((0..key.config.states()).map(gains));
}

/// Normed outputs, each with its gains.
fn gains_of_outputs(key: &mut ModelKey) {
    key.config.blocks = Blocks::PostNormed;
    widened(key, WIDTH);
    deepened(key, LAYERS);
    let post = PostNorm {
        norm: key.params.norm_final.clone(),
        sum: StreamShift::one(5),
    };
    for layer in &mut key.params.layers {
        layer.post_norms = Some(PostNorms {
            attn: post.clone(),
            mlp: post.clone(),
        });
    }
    with_gains(key, |state| match state % 2 {
        0 => Vec::new(),
        _ => (0..WIDTH).map(|c| 1 << 12 | (7 * c + state) as i32 % 4096).collect(),
    });
}

/// All lists that such a model can have.
fn everything_of_outputs(key: &mut ModelKey) {
    gains_of_outputs(key);
    with_own_shifts(key);
    for (l, layer) in key.params.layers.iter_mut().enumerate() {
        layer.o.body = own_list(6, 7, WIDTH, 2 * l);
        layer.down.body = own_list(7, 6, WIDTH, 2 * l + 1);
        if let Some(post) = &mut layer.post_norms {
            for (i, own) in [&mut post.attn, &mut post.mlp].into_iter().enumerate() {
                own.norm.scale -= 1;
                own.norm.shift.0[2 * l + i] -= 1;
                own.sum.body = own_list(6, 7, WIDTH, 2 * l + i);
            }
        }
    }
}

/// An encoder: gains of every state, and shifts that give the means of all channels 13 factors.
fn gains_of_encoder(key: &mut ModelKey) {
    widened(key, WIDTH);
    deepened(key, LAYERS);
    key.params.biases.clear();
    with_gains(key, |state| (0..WIDTH).map(|c| (c + state) as i32 % 61).collect());
    let head = key.config.layers * LAYER_KINDS.len();
    key.params.biases[head] = vec![0; WIDTH];
    for (l, layer) in key.params.layers.iter_mut().enumerate() {
        for (i, own) in [&mut layer.o, &mut layer.down].into_iter().enumerate() {
            let shifts = (0..WIDTH).map(|c| 1 + ((c + 2 * l + i) % 13) as u8);
            own.body = ChannelShift(shifts.collect());
        }
    }
}

/// The key made larger, as it is read back; weights have so few bits that its sums fit.
fn enlarged(own: &ModelKey, enlarge: fn(&mut ModelKey)) -> ModelKey {
    let mut key = own.clone();
    (key.params.format, key.params.weight_bits) = (WeightFormat::Int8, [8; KINDS]);
    key.params.biases.clear();
    enlarge(&mut key);
    key.params = key.params.with_largest_norms(&key.config);
    key.weights.tiles = key.config.total_tiles();
    let bytes = key.to_bytes().expect("a key");
    println!("{} bytes of key", bytes.len());
    ModelKey::from_bytes(&bytes).unwrap_or_else(|error| panic!("{error}"))
}

/// The verifier makes all claims, in the processor time and the memory that it has for any key.
fn answered(name: &str, (own, proof): (&ModelKey, &Proof), enlarge: fn(&mut ModelKey)) {
    let _alone = alone();
    let key = enlarged(own, enlarge);
    let mut proof = proof.clone();
    if own.config.is_encoder() {
        proof.statement.output = vec![0; key.config.hidden];
    }
    let bytes = faked(&key, proof).to_bytes().expect("below the limit of a proof");
    let error = answer(name, &key, &bytes);
    assert!(matches!(error, VerifyError::Opening(_)), "{name}: {error}");
}

#[test]
fn shifts_of_updates_in_every_layer_are_answered() {
    let own = honest();
    answered("shifts of O and Down", (&own.key, &own.proofs[0]), shifts_of_updates);
}

#[test]
fn shifts_of_gates_in_every_layer_are_answered() {
    let own = honest();
    answered("shifts of Gate and Up", (&own.key, &own.proofs[0]), shifts_of_gates);
}

#[test]
fn gains_of_outputs_in_every_layer_are_answered() {
    let own = honest();
    answered("normed outputs", (&own.key, &own.proofs[0]), gains_of_outputs);
}

#[test]
fn a_key_full_of_lists_is_answered() {
    let own = honest();
    answered("all lists", (&own.key, &own.proofs[0]), everything_of_outputs);
}

#[test]
fn gains_of_an_encoder_in_every_layer_are_answered() {
    let (key, proof) = encoder();
    answered("an encoder", (key, proof), gains_of_encoder);
}
