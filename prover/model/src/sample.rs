//! Models with random weights, for the tests and benchmarks of all crates that need a model and no checkpoint.

use tessera_circuits::bounds::MAX_BIAS;
use tessera_circuits::model::{
    max_weight, Activation, AttentionParams, ByClass, ChannelShift, HeadNorm, HeadNorms, LayerParams, LeadingRows,
    MatmulKind, MatrixId, MlpParams, ModelConfig, ModelParams, NormParams, PostNorm, StreamShift, WeightBits,
    WeightFormat,
};
use tessera_circuits::reranker::{HEAD_BITS, HEAD_LISTS};
use tessera_circuits::rounding::shift_of;
use tessera_support::random::SplitMix;

use crate::tiles::tile_bytes;
use crate::weights::{pack_matrix, PackedWeights, WeightsBuilder};
use crate::QuantisedModel;

/// A random model whose shifts keep activations near `2^11`: uniform weights over the whole range of their bits; shifts that
/// differ between output channels, and classes of rows that differ where one can be told from the other; channels of the
/// residual stream with exponents.
pub fn random_model(config: ModelConfig, format: WeightFormat, seed: u64) -> QuantisedModel {
    random_model_with(config, format, seed, |_, _| ())
}

/// The same model with weights that are changed: of every matrix, its inputs one after the other.
pub fn random_model_with(
    config: ModelConfig,
    format: WeightFormat,
    seed: u64,
    mut change: impl FnMut(MatrixId, &mut [i16]),
) -> QuantisedModel {
    let mut rng = SplitMix(seed);
    let mut params = random_params(&config, format, &mut rng);
    let mut weights = WeightsBuilder::new(&config, format);
    for m in config.matmuls() {
        let max = params.max_weight(m.id.kind()) as u64;
        let weight = |_| (rng.below(2 * max + 1) as i64 - max as i64) as i16;
        let mut own: Vec<i16> = (0..m.in_dim * m.out_dim).map(weight).collect();
        change(m.id, &mut own);
        weights.push(&own);
    }
    let weights = weights.finish();
    params.columns = weights.norms(&config);
    params.biases = random_biases(&config, &params, &mut rng);
    if config.sums_first() || config.norms_outputs() {
        params.biases.extend(random_gains(&config, &mut rng));
    }
    if config.reranker().is_some() {
        params.biases.extend(random_head(&config, &mut rng));
    }
    QuantisedModel::new(config, params, weights)
}

/// Biases of all matrices, as large as half of what their outputs are.
fn random_biases(config: &ModelConfig, params: &ModelParams, rng: &mut SplitMix) -> Vec<Vec<i32>> {
    let of = |id: MatrixId| {
        let own = ChannelShift(vec![6]);
        let shift = match id.kind() {
            MatmulKind::Head if !config.generates() => &own,
            _ => shift_of(params, id).expect("a layer"),
        };
        let bias = |out: usize| rng.below(2 << (18 + shift.at(out))) as i32 - (1 << (18 + shift.at(out)));
        let outputs = match id.kind() {
            MatmulKind::Gate if !config.gated => 0,
            kind => config.dims(kind).1,
        };
        (0..outputs).map(bias).collect()
    };
    config.listed_matrices().map(of).collect()
}

/// Gains of the norms of an encoder, or of what attention and MLP add, with which what is added is as large as a state; of both signs.
fn random_gains(config: &ModelConfig, rng: &mut SplitMix) -> Vec<Vec<i32>> {
    let last = config.states() - 1;
    let of = |n: usize, rng: &mut SplitMix| {
        let (most, channels) = match config.norms_outputs() {
            true => (1 << 14, if n % 2 == 1 { config.hidden } else { 0 }),
            false => (if n == last { 1 << 14 } else { 511 }, config.hidden),
        };
        (0..channels)
            .map(|_| rng.below(2 * most + 1) as i32 - most as i32)
            .collect()
    };
    (0..=last).map(|n| of(n, rng)).collect()
}

/// The head of a reranker with two scores: no argument of tanh is far from 0.
fn random_head(config: &ModelConfig, rng: &mut SplitMix) -> [Vec<i32>; HEAD_LISTS] {
    let scores = 2;
    let lengths = [
        config.hidden * config.hidden,
        config.hidden,
        scores * config.hidden,
        scores,
    ];
    let unit = 1 << HEAD_BITS;
    lengths.map(|length| {
        let weight = |_| (rng.below(unit) as i32 - (unit as i32 / 2)) >> 3;
        (0..length).map(weight).collect()
    })
}

/// A model of weights of the largest magnitude (the signs random) and the smallest shifts, which
/// saturates nearly everywhere; biases are as large as they may be.
pub fn extreme_model(config: ModelConfig, format: WeightFormat, seed: u64) -> QuantisedModel {
    let mut model = random_model(config, format, seed);
    for m in model.config.matmuls() {
        let max = model.params.max_weight(m.id.kind()) as i16;
        edit(&mut model, m.id, |matrix| {
            matrix.iter_mut().for_each(|w| *w = if *w < 0 { -max } else { max });
        });
    }
    let one = || ChannelShift(vec![1]);
    let params = &mut model.params;
    let biases = params.biases.iter_mut().flatten();
    biases.for_each(|b| *b = (MAX_BIAS as i32) * if *b < 0 { -1 } else { 1 });
    params.embed_exponent = 13;
    params.exponents.clear();
    (params.embed, params.head) = (StreamShift::one(1), one());
    params.norm_final.shift = one();
    for layer in &mut params.layers {
        (
            layer.attention.q,
            layer.attention.k,
            layer.attention.v,
            layer.attention.o,
        ) = (one(), one(), one(), StreamShift::one(1));
        (layer.mlp.up, layer.mlp.down) = (one(), StreamShift::one(1));
        (layer.attention.score, layer.attention.att) = (1, 1);
        if model.config.gated {
            (layer.mlp.gate, layer.mlp.act) = (one(), ByClass::both(1));
        }
        (layer.attention.skip, layer.mlp.skip) = (ByClass::both(12), ByClass::both(12));
        (layer.attention.norm.shift, layer.mlp.norm.shift) = (one(), one());
        for post in layer.post_norms_mut() {
            (post.norm.shift, post.sum) = (one(), StreamShift::one(1));
        }
    }
    model
}

/// Bits of the weights of a random model: all of one byte, or 12 of two, which every width here supports.
const fn random_bits(format: WeightFormat) -> u8 {
    match format {
        WeightFormat::Int8 => 8,
        WeightFormat::Int16 => 12,
    }
}

/// The norm with the largest scale that keys may have, and outputs of this size with the largest shift.
fn random_norm(hidden: usize) -> NormParams {
    let scale = (29 - (hidden as f64).sqrt().log2().ceil() as u8).min(26);
    NormParams {
        scale,
        eps: ByClass { body: 1700, lead: 7100 },
        shift: ChannelShift::one(scale - 8 - 11),
    }
}

/// Exponents of a few channels of the stream.
fn random_exponents(config: &ModelConfig) -> Vec<u8> {
    // What is added to a normed state has no room for more.
    let exponent = |c: usize| if config.sums_first() { 1 } else { 1 + (c % 3) as u8 };
    let exponents = (0..config.hidden).map(|c| if c % 17 == 3 { exponent(c) } else { 0 });
    exponents.collect()
}

fn random_params(config: &ModelConfig, format: WeightFormat, rng: &mut SplitMix) -> ModelParams {
    let bits = random_bits(format);
    // log2 of the root mean square of uniform weights.
    let weight_bits = f64::from(max_weight(bits)).log2() - 0.8;
    let plain = |inputs: usize| ((weight_bits + (inputs as f64).log2() / 2.0).round() as i64 - 8).clamp(1, 10) as u8;
    let mut channels = |kind: MatmulKind, spread: u64| {
        let (inputs, outputs) = config.dims(kind);
        let base = plain(inputs);
        ChannelShift(match format {
            WeightFormat::Int8 => (0..outputs).map(|_| base + rng.below(spread) as u8).collect(),
            WeightFormat::Int16 => vec![base],
        })
    };
    // What is read is in units of the channels of the stream, or in one unit, or between both.
    let norm = random_norm(config.hidden);
    let exponents = random_exponents(config);
    let normed = |back: fn(u8) -> u8| {
        let shift = |k: &u8| norm.shift.at(0) - back(*k);
        NormParams {
            shift: ChannelShift(exponents.iter().map(shift).collect()),
            ..norm.clone()
        }
    };
    let (flat, between) = (normed(|k| k), normed(|k| k / 2));
    let head_norm = |l: usize, part: usize| HeadNorm {
        scale: random_norm(config.head_dim).scale,
        eps: 1700 + l as u64,
        shift: random_norm(config.head_dim).shift.at(0),
        // Of either sign, and up to the largest there may be.
        gains: (0..config.head_dim)
            .map(|x| match (x + l + part) % 5 {
                0 => 1 << 14,
                i => (1i16 << 14) - (997 * (i + 3 * part) as i16),
            })
            .map(|gain| if gain % 7 == 3 { -gain } else { gain })
            .collect(),
    };
    let head_shift = (11.0 + (config.head_dim as f64).log2() / 2.0).round() as u8 - 8;
    let mut layer = |l: usize| {
        let mut stream = |kind| StreamShift {
            body: channels(kind, 2),
            lead: 1,
        };
        // Leading rows are a unit coarser from the first layer on.
        let skip = ByClass {
            body: 0,
            lead: if l == 0 { -1 } else { 0 },
        };
        let (o, down) = (stream(MatmulKind::O), stream(MatmulKind::Down));
        // Outputs have no exponents, so that their norms are not those of states.
        let post = |shift: u8| PostNorm {
            norm: NormParams {
                eps: ByClass {
                    body: 1900,
                    lead: 5300 + l as u64,
                },
                ..norm.clone()
            },
            sum: StreamShift {
                body: ChannelShift((0..config.hidden).map(|c| shift + (c % 2) as u8).collect()),
                lead: 1,
            },
        };
        let [norm, between] = match config.sums_first() {
            true => [&flat, &flat],
            false => [&norm, &between],
        };
        let attention = AttentionParams {
            norm: norm.clone(),
            q: channels(MatmulKind::Q, 3),
            k: channels(MatmulKind::K, 3),
            v: channels(MatmulKind::V, 3),
            head_norms: config.head_norms.then(|| HeadNorms {
                q: head_norm(l, 0),
                k: head_norm(l, 1),
            }),
            score: head_shift,
            att: 7,
            o,
            skip,
            post_norm: config.norms_outputs().then(|| post(7)),
        };
        let mlp = MlpParams {
            norm: between.clone(),
            gate: match config.gated {
                true => channels(MatmulKind::Gate, 3),
                false => ChannelShift(Vec::new()),
            },
            up: channels(MatmulKind::Up, 3),
            act: match config.gated {
                true => ByClass { body: 3, lead: 4 },
                false => ByClass::both(0),
            },
            down,
            skip: ByClass::both(0),
            post_norm: config.norms_outputs().then(|| post(6)),
        };
        LayerParams { attention, mlp }
    };
    let layers = (0..config.layers).map(&mut layer).collect();
    ModelParams {
        format,
        weight_bits: WeightBits::all(bits),
        leading: LeadingRows {
            first: 1,
            run: true,
            token: None,
        },
        exponents,
        embed_exponent: if format == WeightFormat::Int8 { 6 } else { 2 },
        embed: StreamShift::one(1),
        layers,
        norm_final: flat,
        head: match config.generates() {
            true => channels(MatmulKind::Head, 3),
            false => ChannelShift(Vec::new()),
        },
        score_bits: 10,
        activation: match config.gated {
            true => Activation::Silu,
            false => Activation::GeluTanh,
        },
        gate_bits: 10,
        silu_bits: 10,
        logit_bits: 10,
        // Of the weights, once they are made.
        columns: Vec::new(),
        biases: Vec::new(),
    }
}

/// Changes a matrix of a model, in natural order, and the norms of its columns.
pub fn edit(model: &mut QuantisedModel, id: MatrixId, change: impl FnOnce(&mut Vec<i16>)) {
    let mut matrix = model.matrix(id);
    change(&mut matrix);
    let (m, format) = (*model.matmul(id), model.params.format);
    let mut bytes = model.weights.all().to_vec();
    let size = tile_bytes(format);
    let tiles = &mut bytes[m.first_tile * size..][..m.tiles() * size];
    pack_matrix(&model.config, format, &m, &matrix, tiles);
    model.weights = PackedWeights::in_memory(format, bytes);
    model.params.columns = model.weights.norms(&model.config);
}
