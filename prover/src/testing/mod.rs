//! Small deterministic models for tests.

pub mod families;
pub mod gguf;
mod work;

use std::time::Duration;

use crate::prove::opening::params_for;
use tessera_circuits::bounds::MAX_BIAS;
use tessera_circuits::chunk::{ends, Chunk};
use tessera_circuits::model::{
    max_weight, Activation, Blocks, ByClass, ChannelShift, HeadNorm, HeadNorms, LayerParams, LeadingRows, MatmulKind,
    ModelConfig, ModelParams, NormParams, Pooling, PostNorm, PostNorms, Reranker, Rotation, ScoreCap, StreamShift,
    WeightFormat, KINDS, LAYER_KINDS,
};
use tessera_circuits::reranker::{HEAD_BITS, HEAD_LISTS};
use tessera_circuits::rounding::shift_of;

use crate::intake::checkpoint::Checkpoint;
use crate::model::tiles::{tile_bytes, TileSource};
use crate::model::weights::{pack_matrix, PackedWeights, WeightsBuilder};
use crate::model::QuantisedModel;
use crate::prove::opening::{commit, Codeword, Split};
use crate::prove::stark::tables_root;
use crate::prove::{boundaries, generate_statement, prove_chunk, ProverModel};
use crate::quantise::{quantise, CalibrationReport, QuantiseError, QuantiseOptions};
use crate::run::generate::GenerateOptions;
use crate::support::files::{self, AtomicFile};
use crate::support::progress::Silent;
pub use crate::support::random::{random_ids, SplitMix};
use tessera_recipe::Recipe;
use tessera_verifier::context::Context;
use tessera_verifier::key::{CommitmentHeader, ModelKey};
use tessera_verifier::opening::CommitmentParams;
use tessera_verifier::proof::Proof;
use tessera_verifier::suite::Suite;
pub use work::reworked;

/// What all threads of this process have had of the processor so far; 0 where the system does not tell. Other programs do not count, so a
/// test may have a limit for it.
pub fn processor_time() -> Duration {
    #[cfg(unix)]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
    #[cfg(not(unix))]
    Duration::ZERO
}

/// A config without any power-of-two dimension and with grouped queries.
pub fn odd_config() -> ModelConfig {
    ModelConfig {
        hidden: 20,
        layers: 2,
        heads: 3,
        kv_heads: 1,
        head_dim: 6,
        ff: 44,
        vocab: 300,
        context: 25,
        rms_eps: 1e-6,
        rotations: vec![Rotation::Base(10_000.0)],
        rotation_of: Vec::new(),
        positions: false,
        gated: true,
        head_norms: false,
        blocks: Blocks::Sequential,
        bos: Some(1),
        eos: vec![2],
    }
}

/// A config whose first and last layers are rotated by one base, the ones between them in part and not at all.
pub fn rotations_config() -> ModelConfig {
    ModelConfig {
        layers: 4,
        rotations: vec![
            Rotation::Base(10_000.0),
            Rotation::Frequencies(vec![0.75, 0.03125, 0.0]),
            Rotation::Frequencies(vec![0.0; 3]),
        ],
        rotation_of: vec![0, 1, 2, 0],
        ..odd_config()
    }
}

/// A config with all that GPT-2 and its successors have and Llama has not: learned positions, an MLP without gates, attention and MLP
/// in parallel.
pub fn plain_config() -> ModelConfig {
    ModelConfig {
        positions: true,
        gated: false,
        blocks: Blocks::Parallel,
        ..odd_config()
    }
}

/// A config whose heads of queries and keys are normed, several queries to a key.
pub fn normed_config() -> ModelConfig {
    ModelConfig {
        heads: 6,
        kv_heads: 3,
        head_norms: true,
        ..odd_config()
    }
}

/// A config of which what attention and MLP add is normed, and heads, too.
pub fn post_normed_config() -> ModelConfig {
    ModelConfig {
        blocks: Blocks::PostNormed,
        ..normed_config()
    }
}

/// The same, with scores that are capped.
pub fn capped_config() -> ModelConfig {
    ModelConfig {
        blocks: Blocks::Capped(ScoreCap { units: 1 << 10 }),
        ..post_normed_config()
    }
}

/// A config of an encoder, with texts of more than a block of tokens.
pub fn encoder_config(pooling: Pooling) -> ModelConfig {
    ModelConfig {
        context: 40,
        positions: true,
        gated: false,
        blocks: Blocks::Encoder(pooling),
        bos: None,
        eos: Vec::new(),
        ..odd_config()
    }
}

/// A config of a reranker; with a separator, tokens after it are of a second type.
pub fn reranker_config(separator: Option<u32>) -> ModelConfig {
    ModelConfig {
        blocks: Blocks::Reranker(Reranker {
            separator,
            sigmoid: true,
        }),
        ..encoder_config(Pooling::First)
    }
}

/// A config with tiles and heads that are only partly filled.
pub fn ragged_config() -> ModelConfig {
    ModelConfig {
        hidden: 64,
        layers: 5,
        heads: 8,
        kv_heads: 4,
        head_dim: 8,
        ff: 172,
        vocab: 512,
        context: 128,
        ..odd_config()
    }
}

/// A config whose tiles are opened in bands of `2^log_band` (1 or 2), the last of a row being only partly filled.
pub fn banded_config(log_band: u32) -> ModelConfig {
    ModelConfig {
        hidden: 50 << log_band,
        heads: 4,
        kv_heads: 2,
        head_dim: 20 << log_band,
        ff: 55 << log_band,
        vocab: 185 << log_band,
        ..odd_config()
    }
}

/// The dimensions of the TinyStories fixture.
pub fn fixture_size_config() -> ModelConfig {
    ModelConfig {
        hidden: 128,
        layers: 2,
        heads: 8,
        kv_heads: 4,
        head_dim: 16,
        ff: 384,
        vocab: 2048,
        context: 512,
        ..odd_config()
    }
}

/// A random model whose shifts keep activations near `2^11`: uniform weights over the whole range of their bits; shifts that
/// differ between output channels, and classes of rows that differ where one can be told from the other; channels of the
/// residual stream with exponents.
pub fn random_model(config: ModelConfig, format: WeightFormat, seed: u64) -> QuantisedModel {
    let mut rng = SplitMix(seed);
    let mut params = random_params(&config, format, &mut rng);
    let mut weights = WeightsBuilder::new(&config, format);
    for m in config.matmuls() {
        let max = params.max_weight(m.kind) as u64;
        let weight = |_| (rng.below(2 * max + 1) as i64 - max as i64) as i16;
        weights.push(&(0..m.in_dim * m.out_dim).map(weight).collect::<Vec<i16>>());
    }
    let weights = weights.finish();
    params.columns = weights.norms(&config);
    params.biases = random_biases(&config, &params, &mut rng);
    if config.is_encoder() || config.is_post_normed() {
        params.biases.extend(random_gains(&config, &mut rng));
    }
    if config.reranker().is_some() {
        params.biases.extend(random_head(&config, &mut rng));
    }
    QuantisedModel::new(config, params, weights)
}

/// Biases of all matrices, as large as half of what their outputs are.
fn random_biases(config: &ModelConfig, params: &ModelParams, rng: &mut SplitMix) -> Vec<Vec<i32>> {
    let layers = (0..config.layers).flat_map(|layer| LAYER_KINDS.map(|kind| (kind, layer)));
    let of = |(kind, layer): (MatmulKind, usize)| {
        let own = ChannelShift(vec![6]);
        let shift = match kind {
            MatmulKind::Head if config.is_encoder() => &own,
            _ => shift_of(params, kind, layer).expect("a layer"),
        };
        let bias = |out: usize| rng.below(2 << (18 + shift.at(out))) as i32 - (1 << (18 + shift.at(out)));
        let outputs = match kind {
            MatmulKind::Gate if !config.gated => 0,
            _ => config.dims(kind).1,
        };
        (0..outputs).map(bias).collect()
    };
    layers.chain([(MatmulKind::Head, 0)]).map(of).collect()
}

/// Gains of the norms of an encoder, or of what attention and MLP add, with which what is added is as large as a state; of both signs.
fn random_gains(config: &ModelConfig, rng: &mut SplitMix) -> Vec<Vec<i32>> {
    let last = config.states() - 1;
    let of = |n: usize, rng: &mut SplitMix| {
        let (most, channels) = match config.is_post_normed() {
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
        let max = model.params.max_weight(m.kind) as i16;
        edit(&mut model, m.kind, m.layer, |matrix| {
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
        (layer.q, layer.k, layer.v, layer.o) = (one(), one(), one(), StreamShift::one(1));
        (layer.up, layer.down) = (one(), StreamShift::one(1));
        (layer.score, layer.att) = (1, 1);
        if model.config.gated {
            (layer.gate, layer.act) = (one(), ByClass::both(1));
        }
        (layer.skip_attn, layer.skip_mlp) = (ByClass::both(12), ByClass::both(12));
        (layer.norm_attn.shift, layer.norm_mlp.shift) = (one(), one());
        for post in layer
            .post_norms
            .iter_mut()
            .flat_map(|post| [&mut post.attn, &mut post.mlp])
        {
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
    // What is added to a state of an encoder has no room for more.
    let exponent = |c: usize| if config.is_encoder() { 1 } else { 1 + (c % 3) as u8 };
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
        LayerParams {
            o: stream(MatmulKind::O),
            skip_attn: skip,
            down: stream(MatmulKind::Down),
            skip_mlp: ByClass::both(0),
            head_norms: config.head_norms.then(|| HeadNorms {
                q: head_norm(l, 0),
                k: head_norm(l, 1),
            }),
            post_norms: config.is_post_normed().then(|| {
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
                PostNorms {
                    attn: post(7),
                    mlp: post(6),
                }
            }),
            norm_attn: if config.is_encoder() {
                flat.clone()
            } else {
                norm.clone()
            },
            q: channels(MatmulKind::Q, 3),
            k: channels(MatmulKind::K, 3),
            v: channels(MatmulKind::V, 3),
            score: head_shift,
            att: 7,
            norm_mlp: if config.is_encoder() {
                flat.clone()
            } else {
                between.clone()
            },
            gate: match config.gated {
                true => channels(MatmulKind::Gate, 3),
                false => ChannelShift(Vec::new()),
            },
            up: channels(MatmulKind::Up, 3),
            act: match config.gated {
                true => ByClass { body: 3, lead: 4 },
                false => ByClass::both(0),
            },
        }
    };
    let layers = (0..config.layers).map(&mut layer).collect();
    ModelParams {
        format,
        weight_bits: [bits; KINDS],
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
        head: match config.is_encoder() {
            true => ChannelShift(Vec::new()),
            false => channels(MatmulKind::Head, 3),
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

/// The key of a model, without the Merkle roots: what sizes and parameters follow from.
pub fn unrooted_key(model: &QuantisedModel) -> ModelKey {
    ModelKey {
        config: model.config.clone(),
        params: model.params.clone(),
        weights: params_for(model.config.total_tiles()),
        header: CommitmentHeader::CURRENT,
        weights_root: [0; 32],
        tables_root: [0; 32],
        tokenizer: Vec::new(),
        tokenizer_config: Vec::new(),
        recipe: Recipe::default().to_bytes().expect("a recipe of nothing"),
    }
}

/// Changes a matrix of a model, in natural order, and the norms of its columns.
pub fn edit(model: &mut QuantisedModel, kind: MatmulKind, layer: usize, change: impl FnOnce(&mut Vec<i16>)) {
    let mut matrix = model.matrix(kind, layer);
    change(&mut matrix);
    let (m, format) = (*model.matmul(kind, layer), model.params.format);
    let mut bytes = model.weights.all().to_vec();
    let size = tile_bytes(format);
    let tiles = &mut bytes[m.first_tile * size..][..m.tiles() * size];
    pack_matrix(&model.config, format, &m, &matrix, tiles);
    model.weights = PackedWeights::in_memory(format, bytes);
    model.params.columns = model.weights.norms(&model.config);
}

/// A committed model in memory, with everything that proving and verifying need.
pub struct TestModel {
    pub quantised: QuantisedModel,
    pub key: ModelKey,
    pub codeword: Codeword,
}

impl TestModel {
    /// Commits a model.
    pub fn new(quantised: QuantisedModel) -> Self {
        let weights = params_for(quantised.weights.tiles());
        Self::committed(quantised, weights)
    }

    /// Commits a model with these parameters.
    pub fn committed(quantised: QuantisedModel, weights: CommitmentParams) -> Self {
        Self::hashed(Suite::default(), quantised, weights)
    }

    /// Commits a model with the hash of a suite.
    pub fn of_suite(suite: Suite, quantised: QuantisedModel) -> Self {
        let weights = params_for(quantised.weights.tiles());
        Self::hashed(suite, quantised, weights)
    }

    fn hashed(suite: Suite, quantised: QuantisedModel, weights: CommitmentParams) -> Self {
        let tree = commit(suite, &quantised.weights, &weights, Split::default(), None, &Silent)
            .expect("the weights are committed");
        let weights_root = tree.root();
        let codeword = Codeword::new(weights, tree);
        let key = ModelKey {
            weights,
            header: CommitmentHeader::of(suite),
            weights_root,
            tables_root: tables_root(suite, &quantised.params, quantised.config.score_cap()),
            ..unrooted_key(&quantised)
        };
        key.check().expect("the key is valid");
        Self {
            quantised,
            key,
            codeword,
        }
    }

    /// As the prover takes it.
    pub fn prover(&self) -> ProverModel<'_> {
        ProverModel {
            key: &self.key,
            id: self.key.id().expect("the key encodes"),
            quantised: &self.quantised,
            codeword: &self.codeword,
        }
    }

    /// An honest proof in chunks of these numbers of layers.
    pub fn prove_chunks(&self, prompt: &[u32], tokens: usize, layers: &[usize]) -> Proof {
        self.prove_chunks_in(None, prompt, tokens, layers)
    }

    /// An honest proof in chunks, as [`Self::prove_chunks`] makes it, tied to a context.
    pub fn prove_chunks_in(&self, context: Option<Context>, prompt: &[u32], tokens: usize, layers: &[usize]) -> Proof {
        let prover = self.prover();
        let statement =
            generate_statement(&prover, prompt, &GenerateOptions::exactly(tokens), &Silent).expect("a text");
        let partition = layers.iter().copied();
        let chunks = Chunk::partition(partition, self.key.config.layers).expect("chunks of all layers");
        let boundaries = boundaries(&prover, &statement, &chunks, &Silent).expect("a forward pass");
        let tokens = 1 << ModelConfig::token_log(statement.rows());
        let ends = ends(&boundaries, chunks.len(), tokens, self.key.config.hidden).expect("boundaries");
        let proofs = chunks.iter().zip(ends).map(|(chunk, ends)| {
            let proved = prove_chunk(&prover, &statement, chunk, ends, context, &Silent);
            proved.expect("an honest proof").proof
        });
        Proof {
            model: prover.id,
            chunks: proofs.collect(),
            statement,
            boundaries,
            context,
        }
    }
}

/// Quantises a checkpoint and loads the model that set-up would write.
///
/// # Panics
/// If a temporary file cannot be written or is not read back.
pub fn quantised(
    checkpoint: &Checkpoint,
    options: impl Into<QuantiseOptions>,
    calibration_ids: &[Vec<u32>],
) -> Result<(QuantisedModel, CalibrationReport), QuantiseError> {
    let mut made = quantise(checkpoint, &options.into(), calibration_ids, &Silent)?;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("weights");
    let mut file = AtomicFile::create(&path)?;
    (_, made.params.columns) = made.write_weights(checkpoint, calibration_ids, &mut file, &Silent)?;
    file.commit()?;
    let weights = PackedWeights::in_memory(made.params.format, files::read(&path)?);
    let model = QuantisedModel::new(checkpoint.config().clone(), made.params, weights);
    Ok((model, made.report))
}

/// Sorted names of the files of a directory.
///
/// # Panics
/// If it cannot be read.
pub fn names(dir: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("a directory");
    let name = |e: std::io::Result<std::fs::DirEntry>| e.expect("an entry").file_name().to_string_lossy().into_owned();
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}

/// The directory of the TinyStories fixture.
pub const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/tinystories-656k");

/// A text with the float reference's results for it.
#[derive(Clone, Debug, serde::Deserialize)]
pub struct GoldenSample {
    pub text: String,
    pub ids: Vec<u32>,
    /// Float arg max at every position.
    pub argmax: Vec<u32>,
    /// Negative log-likelihood of the next id at every position but the last.
    pub nll: Vec<f64>,
    /// Logits at the last position.
    pub logits_last: Vec<f32>,
}

/// The golden samples of the fixture.
///
/// # Panics
/// If the fixture cannot be read.
pub fn golden() -> Vec<GoldenSample> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/golden-float.jsonl");
    let text = std::fs::read_to_string(path).expect("golden samples are readable");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("golden samples are JSON"))
        .collect()
}
