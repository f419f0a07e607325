//! Valid keys that make a verifier work the most for their size: every layer has lists of its own, so that no two share anything.

use std::sync::OnceLock;

use tessera_circuits::model::{
    Blocks, ByClass, ChannelShift, ModelConfig, Pooling, PostNorm, StreamShift, WeightBits, WeightFormat, LAYER_KINDS,
    MAX_ENTRIES,
};
use tessera_circuits::statement::Statement;
use tessera_testkit::{encoder_config, odd_config, random_ids, random_model, TestModel};
use tessera_verifier::key::{KeyError, ModelKey};
use tessera_verifier::proof::Proof;
use tessera_verifier::verify::VerifyError;

use crate::faked::faked;
use crate::limits::{alone, answer, deepened, measured, widened, MEMORY};

/// The widest states.
const WIDTH: usize = 1 << 14;

/// A model of one layer and a proof about one token: more rows would leave keys of this size no security, which is looked at before the
/// rest.
fn smallest(config: ModelConfig) -> (ModelKey, Proof) {
    let config = ModelConfig { layers: 1, ..config };
    let model = TestModel::new(random_model(config.clone(), WeightFormat::Int16, 7));
    let proof = model.prove_chunks(&random_ids(&config, 1, 3), 1, &[1]);
    (model.key, proof)
}

/// One that generates.
fn generator() -> &'static (ModelKey, Proof) {
    static GENERATOR: OnceLock<(ModelKey, Proof)> = OnceLock::new();
    GENERATOR.get_or_init(|| smallest(odd_config()))
}

/// An encoder.
fn encoder() -> &'static (ModelKey, Proof) {
    static ENCODER: OnceLock<(ModelKey, Proof)> = OnceLock::new();
    ENCODER.get_or_init(|| smallest(encoder_config(Pooling::Mean)))
}

/// A list that no other layer or kind has.
fn own_list(of: u8, other: u8, len: usize, at: usize) -> ChannelShift {
    let mut list = ChannelShift(vec![of; len]);
    list.0[at % len] = other;
    list
}

/// Shifts of O and Down, some of which have narrow differences.
fn shifts_of_updates(key: &mut ModelKey, layers: usize) {
    widened(key, WIDTH);
    deepened(key, layers);
    // One shift of norms for all channels leaves more room for others.
    key.params.norm_final.shift.0.truncate(1);
    for (l, layer) in key.params.layers.iter_mut().enumerate() {
        layer.attention.norm.shift.0.truncate(1);
        layer.mlp.norm.shift.0.truncate(1);
        layer.attention.o.body = own_list(6, 7, WIDTH, 2 * l);
        layer.mlp.down.body = own_list(7, 6, WIDTH, 2 * l + 1);
    }
}

/// Shifts of Gate and Up.
fn shifts_of_gates(key: &mut ModelKey, layers: usize) {
    key.config.ff = 1 << 16;
    // So long columns have room for so many bits.
    key.params.weight_bits = WeightBits::all(6);
    deepened(key, layers);
    for (l, layer) in key.params.layers.iter_mut().enumerate() {
        layer.mlp.gate = own_list(6, 5, key.config.ff, 2 * l);
        layer.mlp.up = own_list(5, 6, key.config.ff, 2 * l + 1);
    }
}

/// Lists beside those of matmuls, of which there are as many as matrices.
fn with_gains(key: &mut ModelKey, gains: impl Fn(usize) -> Vec<i32>) {
    let matrices = key.config.layers * LAYER_KINDS.len() + 1;
    key.params.biases.resize(matrices, Vec::new());
    key.params.biases.extend((0..key.config.states()).map(gains));
}

/// Normed outputs, each with its gains.
fn gains_of_outputs(key: &mut ModelKey, layers: usize) {
    key.config.blocks = Blocks {
        norm_outputs: true,
        ..Blocks::DECODER
    };
    shifts_of_updates(key, layers);
    let post = PostNorm {
        norm: key.params.norm_final.clone(),
        sum: StreamShift::one(5),
    };
    for layer in &mut key.params.layers {
        (layer.attention.o.body, layer.mlp.down.body) = (ChannelShift::one(6), ChannelShift::one(6));
        (layer.attention.post_norm, layer.mlp.post_norm) = (Some(post.clone()), Some(post.clone()));
    }
    with_gains(key, |state| match state % 2 {
        0 => Vec::new(),
        _ => (0..WIDTH)
            .map(|c| (1 << 12) | ((7 * c + state) as i32 % 4096))
            .collect(),
    });
}

/// All lists that such a model can have.
fn everything_of_outputs(key: &mut ModelKey, layers: usize) {
    gains_of_outputs(key, layers);
    for (l, layer) in key.params.layers.iter_mut().enumerate() {
        let own = |other, i| own_list(6, other, WIDTH, 2 * l + i);
        (layer.attention.norm.shift, layer.mlp.norm.shift) = (own(5, 0), own(5, 1));
        (layer.attention.o.body, layer.mlp.down.body) = (own(7, 0), own(7, 1));
        for (i, post) in layer.post_norms_mut().enumerate() {
            post.norm.shift = own(5, i);
            post.sum.body = own(7, i);
        }
    }
}

/// An encoder: gains of every state, and shifts that give the means of all channels 13 factors.
fn gains_of_encoder(key: &mut ModelKey, layers: usize) {
    shifts_of_updates(key, layers);
    key.params.biases.clear();
    with_gains(key, |state| (0..WIDTH).map(|c| (c + state) as i32 % 61).collect());
    let head = key.config.layers * LAYER_KINDS.len();
    key.params.biases[head] = vec![0; WIDTH];
    for (l, layer) in key.params.layers.iter_mut().enumerate() {
        for (i, own) in [&mut layer.attention.o, &mut layer.mlp.down].into_iter().enumerate() {
            let shifts = (0..WIDTH).map(|c| 1 + ((c + 2 * l + i) % 13) as u8);
            (own.body, own.lead) = (ChannelShift(shifts.collect()), 0);
        }
        (layer.attention.skip, layer.mlp.skip) = (ByClass::both(0), ByClass::both(0));
    }
}

/// The key made larger, as it is read back. Its norms are said to be small, whatever its weights are.
fn enlarged(own: &ModelKey, enlarge: impl Fn(&mut ModelKey)) -> Result<ModelKey, KeyError> {
    let mut key = own.clone();
    (key.params.format, key.params.weight_bits) = (WeightFormat::Int8, WeightBits::all(8));
    key.params.biases.clear();
    enlarge(&mut key);
    key.params = key.params.with_largest_norms(&key.config);
    for norms in &mut key.params.columns {
        norms.l1 = norms.l1.div_ceil(1000);
        norms.square = norms.l1;
    }
    key.weights.tiles = key.config.total_tiles();
    let bytes = key.to_bytes().map_err(KeyError::from)?;
    println!("{} bytes of key, {} entries", bytes.len(), key.params.entries());
    ModelKey::from_bytes(&bytes)
}

/// The verifier makes all claims for the key of the most layers that is valid, in the processor time and the memory that it has for any
/// key. With one layer more it is not.
fn answered(name: &str, made: fn() -> &'static (ModelKey, Proof), layers: usize, enlarge: fn(&mut ModelKey, usize)) {
    let (own, proof) = made();
    let _alone = alone();
    let more = enlarged(own, |key| enlarge(key, layers + 1));
    assert!(
        more.is_err_and(|error| error.to_string().contains("entries of all lists")),
        "{name}"
    );
    let key = enlarged(own, |key| enlarge(key, layers)).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(key.params.entries() + 16 * WIDTH > MAX_ENTRIES, "{name}");
    let mut proof = proof.clone();
    if !own.config.generates() {
        proof.statement = Statement::of_vector(proof.statement.prompt, &vec![0; key.config.hidden]);
    }
    let bytes = faked(&key, proof).to_bytes().expect("below the limit of a proof");
    let error = answer(name, &key, &bytes);
    assert!(matches!(error, VerifyError::Opening(_)), "{name}: {error}");
}

#[test]
fn shifts_of_updates_in_every_layer_are_answered() {
    answered("shifts of O and Down", generator, 1023, shifts_of_updates);
}

#[test]
fn shifts_of_gates_in_every_layer_are_answered() {
    answered("shifts of Gate and Up", generator, 255, shifts_of_gates);
}

#[test]
fn gains_of_outputs_in_every_layer_are_answered() {
    answered("normed outputs", generator, 1023, gains_of_outputs);
}

#[test]
fn a_key_full_of_lists_is_answered() {
    answered("all lists", generator, 204, everything_of_outputs);
}

#[test]
fn gains_of_an_encoder_in_every_layer_are_answered() {
    answered("an encoder", encoder, 511, gains_of_encoder);
}

/// Keys that took more than five seconds or a gigabyte while nothing limited their lists.
#[test]
fn longer_lists_are_refused_at_once() {
    let _alone = alone();
    let [generator, encoder] = [generator, encoder].map(|made| &made().0);
    for (name, own, layers, enlarge) in [
        (
            "shifts of Gate and Up",
            generator,
            1000,
            shifts_of_gates as fn(&mut ModelKey, usize),
        ),
        ("an encoder", encoder, 1000, gains_of_encoder),
        ("all lists", generator, 1000, everything_of_outputs),
    ] {
        let refused = measured(name, MEMORY, || enlarged(own, |key| enlarge(key, layers)));
        assert!(
            refused.is_err_and(|error| error.to_string().contains("entries of all lists")),
            "{name}"
        );
    }
}
