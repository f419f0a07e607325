//! Checkpoints of the dimensions of public models, with random weights, to measure what such models cost. Written as
//! they are made: memory does not grow with them.

use std::collections::BTreeMap;
use std::path::Path;

use half::bf16;
use rayon::prelude::*;
use serde_json::{json, Value};
use tessera_circuits::model::{MatmulKind, ModelConfig};

use super::{normal, SynthError};
use tessera_checkpoint::families::{Description, HeadPart, Parameter};
use tessera_checkpoint::{tensors, CheckpointError, Needed};
use tessera_support::files::{self, AtomicDir, AtomicFile};
use tessera_support::progress::Progress;
use tessera_support::random::SplitMix;

/// Bytes of tensors in a file, unless one tensor has more.
const SHARD: u64 = 1 << 30;
/// Bytes of a tensor that are made at once.
const PIECE: usize = 16 << 20;
const WORD: usize = 2;
/// Deviates to draw from: as many as 16 bits tell apart.
const DEVIATES: usize = 1 << 16;

/// The dimensions of a public model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublicShape {
    SmolLm2_135m,
    /// With Llama's architecture.
    Gpt2_124mLlama,
    Gpt2_124m,
    Pythia160m,
    Phi2,
    StableLm2_1_6b,
    StarCoder2_3b,
    Qwen2_5_0_5b,
    Qwen3_0_6b,
    Gemma2b,
    Gemma2_2b,
    Gemma3_270m,
    TinyLlama1_1b,
    /// Layers of a model of 7 billion weights; one of them by default.
    Llama7bLayer,
    Llama3_2_1b,
    Mistral7b,
    Falcon7b,
    Phi3Mini,
    Granite3_2b,
    SmolLm3_3b,
    Ernie4_5_0_3b,
    Falcon3_1b,
    InternLm2_1_8b,
    Exaone3_5_2_4b,
    /// An encoder.
    MiniLmL6,
    /// An encoder of many languages.
    MultilingualE5Small,
    /// A reranker.
    MsMarcoMiniLmL6,
    /// A reranker of many languages.
    BgeRerankerBase,
}

/// What configs call the number of layers.
const LAYERS: [&str; 3] = ["num_hidden_layers", "n_layer", "num_layers"];

impl PublicShape {
    /// `config.json`, with another number of layers if one is given.
    pub fn hub(self, layers: Option<usize>) -> Value {
        let mut config = with(self.base(), self.fields());
        if let Some(layers) = layers {
            let named = LAYERS.into_iter().find(|name| config.get(name).is_some());
            config[named.unwrap_or(LAYERS[0])] = layers.into();
        }
        config
    }

    /// What [`llama`] or [`layer_norm`] make of its dimensions, or a config of its own.
    fn base(self) -> Value {
        match self {
            Self::SmolLm2_135m => llama([576, 30, 9, 3, 64, 1536, 49_152, 8192], true),
            Self::Gpt2_124mLlama => llama([768, 12, 12, 12, 64, 3072, 50_257, 1024], true),
            Self::Gpt2_124m => {
                json!({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 768, "n_layer": 12,
                "n_head": 12, "n_positions": 1024, "n_ctx": 1024, "vocab_size": 50_257, "activation_function": "gelu_new",
                "layer_norm_epsilon": 1e-5, "bos_token_id": 50_256, "eos_token_id": 50_256})
            }
            Self::Pythia160m => layer_norm([768, 12, 12, 12, 64, 3072, 50_304, 2048]),
            Self::Phi2 => layer_norm([2560, 32, 32, 32, 80, 10_240, 51_200, 2048]),
            Self::StableLm2_1_6b => layer_norm([2048, 24, 32, 32, 64, 5632, 100_352, 4096]),
            Self::StarCoder2_3b => layer_norm([3072, 30, 24, 2, 128, 12_288, 49_152, 16_384]),
            Self::Qwen2_5_0_5b => llama([896, 24, 14, 2, 64, 4864, 151_936, 32_768], true),
            Self::Qwen3_0_6b => llama([1024, 28, 16, 8, 128, 3072, 151_936, 40_960], true),
            Self::Gemma2b => llama([2048, 18, 8, 1, 256, 16_384, 256_000, 8192], true),
            Self::Gemma2_2b => llama([2304, 26, 8, 4, 256, 9216, 256_000, 8192], true),
            Self::Gemma3_270m => llama([640, 18, 4, 1, 256, 2048, 262_144, 32_768], true),
            Self::TinyLlama1_1b => llama([2048, 22, 32, 4, 64, 5632, 32_000, 2048], false),
            Self::Llama7bLayer => llama([4096, 1, 32, 32, 128, 11_008, 32_000, 4096], false),
            Self::Llama3_2_1b => llama([2048, 16, 32, 8, 64, 8192, 128_256, 131_072], true),
            Self::Mistral7b => llama([4096, 32, 32, 8, 128, 14_336, 32_000, 32_768], false),
            Self::Falcon7b => {
                json!({"architectures": ["FalconForCausalLM"], "model_type": "falcon", "hidden_size": 4544,
                "num_hidden_layers": 32, "num_attention_heads": 71, "multi_query": true, "parallel_attn": true, "bias": false,
                "alibi": false, "new_decoder_architecture": false, "vocab_size": 65_024, "layer_norm_epsilon": 1e-5,
                "bos_token_id": 11, "eos_token_id": 11})
            }
            Self::Phi3Mini => llama([3072, 32, 32, 32, 96, 8192, 32_064, 4096], false),
            Self::Granite3_2b => llama([2048, 40, 32, 8, 64, 8192, 49_155, 4096], true),
            Self::SmolLm3_3b => llama([2048, 36, 16, 4, 128, 11_008, 128_256, 65_536], true),
            Self::Ernie4_5_0_3b => llama([1024, 18, 16, 2, 128, 3072, 103_424, 131_072], true),
            Self::Falcon3_1b => llama([2048, 18, 8, 4, 256, 8192, 131_072, 8192], false),
            Self::InternLm2_1_8b => llama([2048, 24, 16, 8, 128, 8192, 92_544, 32_768], false),
            Self::Exaone3_5_2_4b => {
                json!({"architectures": ["ExaoneForCausalLM"], "model_type": "exaone", "activation_function": "silu",
                "hidden_size": 2560, "num_layers": 30, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 80,
                "intermediate_size": 7168, "vocab_size": 102_400, "max_position_embeddings": 32_768,
                "layer_norm_epsilon": 1e-5, "tie_word_embeddings": true, "rope_theta": 1e6, "rope_scaling": {
                    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 8192},
                "bos_token_id": 1, "eos_token_id": 361})
            }
            Self::MiniLmL6 => json!({"architectures": ["BertModel"], "model_type": "bert", "hidden_act": "gelu",
                "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536,
                "vocab_size": 30_522, "type_vocab_size": 2, "max_position_embeddings": 512, "layer_norm_eps": 1e-12,
                "position_embedding_type": "absolute"}),
            Self::MultilingualE5Small => json!({"architectures": ["XLMRobertaModel"], "model_type": "xlm-roberta",
                "hidden_act": "gelu", "hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 12,
                "intermediate_size": 1536, "vocab_size": 250_037, "type_vocab_size": 1, "max_position_embeddings": 514,
                "layer_norm_eps": 1e-5, "pad_token_id": 1, "position_embedding_type": "absolute"}),
            Self::MsMarcoMiniLmL6 => Self::MiniLmL6.base(),
            Self::BgeRerankerBase => with(
                Self::MultilingualE5Small.base(),
                json!({"hidden_size": 768, "intermediate_size": 3072,
                "vocab_size": 250_002}),
            ),
        }
    }

    /// What its config says beside or instead of that.
    fn fields(self) -> Value {
        match self {
            Self::Pythia160m => {
                json!({"architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox", "hidden_act": "gelu",
                "layer_norm_eps": 1e-5, "rotary_pct": 0.25, "rotary_emb_base": 10_000, "use_parallel_residual": true})
            }
            Self::MsMarcoMiniLmL6 => {
                json!({"architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"}, "sep_token_id": 102,
                "sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"})
            }
            Self::BgeRerankerBase => {
                json!({"architectures": ["XLMRobertaForSequenceClassification"], "id2label": {"0": "LABEL_0"}})
            }
            Self::Phi2 => {
                json!({"architectures": ["PhiForCausalLM"], "model_type": "phi", "hidden_act": "gelu_new",
                "layer_norm_eps": 1e-5, "partial_rotary_factor": 0.4, "rope_theta": 10_000.0})
            }
            Self::StableLm2_1_6b => {
                json!({"architectures": ["StableLmForCausalLM"], "model_type": "stablelm", "hidden_act": "silu",
                "layer_norm_eps": 1e-5, "partial_rotary_factor": 0.25, "rope_theta": 10_000.0, "use_qkv_bias": true})
            }
            Self::StarCoder2_3b => {
                json!({"architectures": ["Starcoder2ForCausalLM"], "model_type": "starcoder2",
                "hidden_act": "gelu_pytorch_tanh", "norm_epsilon": 1e-5, "use_bias": true, "sliding_window": 4096,
                "rope_theta": 999_999.442_036_548_6, "tie_word_embeddings": true})
            }
            Self::Qwen2_5_0_5b => {
                json!({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "rms_norm_eps": 1e-6, "rope_theta": 1e6})
            }
            Self::Qwen3_0_6b => {
                json!({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "rms_norm_eps": 1e-6, "rope_theta": 1e6})
            }
            Self::Gemma2b => {
                json!({"architectures": ["GemmaForCausalLM"], "model_type": "gemma", "hidden_act": "gelu",
                "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "torch_dtype": "bfloat16",
                "bos_token_id": 2, "eos_token_id": 1})
            }
            Self::Gemma2_2b => {
                json!({"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "hidden_act": "gelu_pytorch_tanh",
                "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "torch_dtype": "bfloat16",
                "sliding_window": 4096, "query_pre_attn_scalar": 256, "attn_logit_softcapping": 50.0,
                "final_logit_softcapping": 30.0, "cache_implementation": "hybrid", "bos_token_id": 2, "eos_token_id": 1})
            }
            Self::Gemma3_270m => {
                json!({"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "hidden_act": null,
                "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "torch_dtype": "bfloat16", "rope_theta": 1e6,
                "rope_local_base_freq": 10_000.0, "sliding_window": 512, "_sliding_window_pattern": 6,
                "query_pre_attn_scalar": 256, "bos_token_id": 2, "eos_token_id": 1})
            }
            Self::Llama3_2_1b => {
                json!({"rope_theta": 500_000.0, "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}})
            }
            Self::Mistral7b => {
                json!({"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": 4096})
            }
            Self::Phi3Mini => {
                json!({"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "sliding_window": 2047})
            }
            Self::Granite3_2b => {
                json!({"architectures": ["GraniteForCausalLM"], "model_type": "granite", "embedding_multiplier": 12.0,
                "attention_multiplier": 0.015_625, "residual_multiplier": 0.22, "logits_scaling": 8.0})
            }
            Self::SmolLm3_3b => {
                json!({"architectures": ["SmolLM3ForCausalLM"], "model_type": "smollm3", "rope_theta": 5_000_000.0,
                "no_rope_layer_interval": 4})
            }
            Self::Ernie4_5_0_3b => {
                json!({"architectures": ["Ernie4_5ForCausalLM"], "model_type": "ernie4_5", "rope_theta": 500_000.0})
            }
            Self::Falcon3_1b => json!({"rms_norm_eps": 1e-6, "rope_theta": 1_000_042.0}),
            Self::InternLm2_1_8b => {
                json!({"architectures": ["InternLM2ForCausalLM"], "model_type": "internlm2", "bias": false, "rope_theta": 1e6,
                "rope_scaling": {"type": "dynamic", "factor": 2.0}})
            }
            _ => json!({}),
        }
    }

    /// The architecture.
    pub fn description(self) -> Result<Description, CheckpointError> {
        Ok(tensors(self.hub(None).to_string().as_bytes())?.1)
    }
}

/// The config of a Llama model: hidden size, layers, heads of queries and of keys, their length, size of the MLP,
/// vocabulary, context.
fn llama(dimensions: [usize; 8], tied: bool) -> Value {
    let [hidden, layers, heads, kv_heads, head_dim, ff, vocab, context] = dimensions;
    json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
        "head_dim": head_dim, "intermediate_size": ff, "vocab_size": vocab, "max_position_embeddings": context,
        "rms_norm_eps": 1e-5, "rope_theta": 10_000.0, "tie_word_embeddings": tied, "bos_token_id": 1, "eos_token_id": [2],
    })
}

/// The config of a model with LayerNorm, of the dimensions of [`llama`]: what it is called follows.
fn layer_norm(dimensions: [usize; 8]) -> Value {
    let mut config = llama(dimensions, false);
    if let Some(config) = config.as_object_mut() {
        for field in ["rms_norm_eps", "rope_theta"] {
            config.remove(field);
        }
    }
    config
}

/// A config with other fields.
fn with(mut config: Value, fields: Value) -> Value {
    if let (Some(config), Value::Object(fields)) = (config.as_object_mut(), fields) {
        config.extend(fields);
    }
    config
}

/// A tensor to be written.
struct Planned {
    name: String,
    shape: Vec<usize>,
    /// Standard deviation of a matrix or bias, `None` for a gain.
    deviation: Option<f32>,
    seed: u64,
}

impl Planned {
    fn bytes(&self) -> u64 {
        (self.shape.iter().product::<usize>() * WORD) as u64
    }
}

/// Writes a random BF16 checkpoint of a `config.json`, without tokenizer, in files of about 1 GiB: `config.json`,
/// `model-0000i-of-0000n.safetensors` and their index. The same seed gives the same bytes. Returns the number of
/// parameters, and what the model is.
pub fn write_shape(
    dir: &Path,
    hub: &Value,
    seed: u64,
    progress: &dyn Progress,
) -> Result<(u64, Description), SynthError> {
    let (needed, description) = tensors(hub.to_string().as_bytes())?;
    let target = AtomicDir::create(dir)?;
    let json_file = |name: &str, value: &Value| files::write(&target.path().join(name), value.to_string().as_bytes());
    json_file("config.json", hub)?;
    let tensors = planned(needed, &description.config, seed);
    let bytes: u64 = tensors.iter().map(Planned::bytes).sum();
    progress.phase("write tensors", Some(bytes));
    let shards = shards(&tensors);
    let deviates = deviates();
    let mut weight_map = BTreeMap::new();
    for (i, shard) in shards.iter().enumerate() {
        let name = format!("model-{:05}-of-{:05}.safetensors", i + 1, shards.len());
        write_shard(&target.path().join(&name), shard, &deviates, progress)?;
        weight_map.extend(shard.iter().map(|t| (t.name.clone(), name.clone())));
    }
    json_file(
        "model.safetensors.index.json",
        &json!({"metadata": {"total_size": bytes}, "weight_map": weight_map}),
    )?;
    target.commit()?;
    progress.done();
    Ok((bytes / WORD as u64, description))
}

fn planned(needed: Vec<Needed>, config: &ModelConfig, seed: u64) -> Vec<Planned> {
    let mut seeds = SplitMix(seed);
    let plan = |Needed { parameter, name, shape }: Needed| {
        let deviation = match parameter {
            Parameter::Matrix(MatmulKind::Embed, _) => Some(0.05),
            Parameter::Matrix(kind, _) => {
                let inputs = config.dims(kind).0 as f32;
                Some(match kind {
                    // Deep models keep the residual stream bounded by small updates.
                    MatmulKind::O | MatmulKind::Down => 0.5 / (2.0 * config.layers as f32 * inputs).sqrt(),
                    _ => 1.0 / inputs.sqrt(),
                })
            }
            Parameter::Bias(..) | Parameter::NormBias(..) => Some(0.2),
            Parameter::Head(HeadPart::Dense | HeadPart::Scores, _) => Some(1.0 / (config.hidden as f32).sqrt()),
            Parameter::Head(HeadPart::DenseBias | HeadPart::ScoresBias, _) => Some(0.2),
            Parameter::Positions | Parameter::Types(_) => Some(0.05),
            _ => None,
        };
        let seed = seeds.next_u64();
        Planned {
            name,
            shape,
            deviation,
            seed,
        }
    };
    needed.into_iter().map(plan).collect()
}

/// Cuts the tensors into files.
fn shards(tensors: &[Planned]) -> Vec<&[Planned]> {
    let (mut shards, mut first, mut bytes) = (Vec::new(), 0, 0);
    for (i, tensor) in tensors.iter().enumerate() {
        if bytes > 0 && bytes + tensor.bytes() > SHARD {
            shards.push(&tensors[first..i]);
            (first, bytes) = (i, 0);
        }
        bytes += tensor.bytes();
    }
    shards.push(&tensors[first..]);
    shards
}

fn write_shard(path: &Path, tensors: &[Planned], deviates: &[f32], progress: &dyn Progress) -> Result<(), SynthError> {
    let mut header = serde_json::Map::new();
    let mut end = 0;
    for tensor in tensors {
        let start = end;
        end += tensor.bytes();
        let entry = json!({"dtype": "BF16", "shape": tensor.shape, "data_offsets": [start, end]});
        header.insert(tensor.name.clone(), entry);
    }
    let mut header = Value::Object(header).to_string();
    // The data are aligned to eight bytes.
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    let mut file = AtomicFile::create(path)?;
    file.append(&(header.len() as u64).to_le_bytes())?;
    file.append(header.as_bytes())?;
    for tensor in tensors {
        let rows = tensor.shape.len().checked_sub(2).map_or(1, |axis| tensor.shape[axis]);
        let width = tensor.bytes() as usize / rows;
        let piece_rows = (PIECE / width).max(1);
        let mut bytes = vec![0; piece_rows.min(rows) * width];
        for first in (0..rows).step_by(piece_rows) {
            let bytes = &mut bytes[..piece_rows.min(rows - first) * width];
            bytes
                .par_chunks_exact_mut(width)
                .enumerate()
                .for_each(|(i, row)| fill(tensor, (first + i) as u64, deviates, row));
            file.append(bytes)?;
            progress.advance(bytes.len() as u64);
        }
    }
    Ok(file.commit()?)
}

/// Fills a row: a row of a matrix has a scale of its own, as in trained models.
fn fill(tensor: &Planned, row: u64, deviates: &[f32], bytes: &mut [u8]) {
    let mut rng = SplitMix(tensor.seed ^ row.wrapping_mul(0xd6e8_feb8_6659_fd93));
    let words = bytes.as_chunks_mut::<WORD>().0;
    match tensor.deviation {
        None => words
            .iter_mut()
            .for_each(|word| *word = bf16::from_f64((0.3 * normal(&mut rng)).exp()).to_le_bytes()),
        Some(deviation) => {
            let scale = deviation * (0.3 * normal(&mut rng)).exp() as f32;
            for four in words.chunks_mut(4) {
                let bits = rng.next_u64();
                for (i, word) in four.iter_mut().enumerate() {
                    let deviate = deviates[(bits >> (16 * i)) as u16 as usize];
                    // Cut off, not rounded: these are random values.
                    *word = (((scale * deviate).to_bits() >> 16) as u16).to_le_bytes();
                }
            }
        }
    }
}

/// Normal deviates, one in 500 of them an outlier four times as large.
fn deviates() -> Vec<f32> {
    let mut rng = SplitMix(1);
    (0..DEVIATES)
        .map(|_| normal(&mut rng) as f32 * if rng.below(500) == 0 { 4.0 } else { 1.0 })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub_config;
    use tessera_checkpoint::{Checkpoint, EMBED};
    use tessera_samples::families::cases;
    use tessera_samples::odd_config;
    use tessera_support::progress::Silent;

    #[test]
    fn shapes_are_provable_models_of_the_published_sizes() {
        for (shape, parameters) in [
            (PublicShape::SmolLm2_135m, 134_515_008),
            (PublicShape::Gpt2_124mLlama, 0),
            (PublicShape::Gpt2_124m, 124_439_808),
            (PublicShape::Pythia160m, 162_322_944),
            (PublicShape::Phi2, 2_779_683_840),
            (PublicShape::StableLm2_1_6b, 1_644_515_328),
            (PublicShape::StarCoder2_3b, 3_030_371_328),
            (PublicShape::Qwen2_5_0_5b, 494_032_768),
            (PublicShape::Qwen3_0_6b, 596_049_920),
            (PublicShape::Gemma2b, 2_506_172_416),
            (PublicShape::Gemma2_2b, 2_614_341_888),
            (PublicShape::Gemma3_270m, 268_098_176),
            (PublicShape::TinyLlama1_1b, 1_100_048_384),
            (PublicShape::Llama7bLayer, 0),
            (PublicShape::Llama3_2_1b, 1_235_814_400),
            (PublicShape::Mistral7b, 7_241_732_096),
            (PublicShape::Falcon7b, 6_921_720_704),
            (PublicShape::Phi3Mini, 3_821_079_552),
            (PublicShape::Granite3_2b, 2_533_531_648),
            (PublicShape::SmolLm3_3b, 3_075_098_624),
            (PublicShape::Ernie4_5_0_3b, 360_748_032),
            (PublicShape::Falcon3_1b, 1_669_408_768),
            (PublicShape::InternLm2_1_8b, 1_889_110_016),
            (PublicShape::Exaone3_5_2_4b, 2_405_327_360),
            (PublicShape::MsMarcoMiniLmL6, 22_713_601),
            (PublicShape::BgeRerankerBase, 278_044_417),
        ] {
            let (needed, description) = tensors(shape.hub(None).to_string().as_bytes()).unwrap();
            assert_eq!(description.config.check(), Ok(()));
            assert_eq!(shape.description().unwrap(), description);
            let size = |t: &Planned| t.bytes() / 2;
            let total: u64 = planned(needed, &description.config, 1).iter().map(size).sum();
            assert!(parameters == 0 || total == parameters, "{shape:?}: {total}");
            let cut = shape.hub(Some(3)).to_string();
            assert_eq!(tensors(cut.as_bytes()).unwrap().1.config.layers, 3);
        }
    }

    #[test]
    fn checkpoints_are_read_back_and_the_seed_decides() {
        for tied in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let hub = hub_config(&odd_config(), tied).unwrap();
            let write = |name: &str, seed| {
                let path = dir.path().join(name);
                let (parameters, _) = write_shape(&path, &hub, seed, &Silent).unwrap();
                let checkpoint = Checkpoint::open(&path).unwrap();
                assert_eq!((checkpoint.config(), checkpoint.tied()), (&odd_config(), tied));
                assert!(parameters > 0);
                checkpoint.values(EMBED).unwrap()
            };
            let embed = write("a", 1);
            assert!(embed.iter().any(|v| *v != embed[0]));
            assert_eq!(embed, write("b", 1));
            assert_ne!(embed, write("c", 2));
        }
    }

    /// Tensors of every family are those that its checkpoints have.
    #[test]
    fn checkpoints_of_every_family_are_read_back() {
        for case in cases() {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("checkpoint");
            let (_, description) = write_shape(&path, &case.config, 1, &Silent).unwrap();
            assert_eq!(
                Checkpoint::open(&path).unwrap().description(),
                &description,
                "{}",
                case.name
            );
        }
    }

    #[test]
    fn files_hold_what_fits() {
        let tensor = |gib: usize| Planned {
            name: String::new(),
            shape: vec![gib << 27, 4],
            deviation: None,
            seed: 0,
        };
        let tensors = [tensor(1), tensor(2), tensor(1), tensor(1)];
        assert_eq!(
            shards(&tensors).iter().map(|s| s.len()).collect::<Vec<_>>(),
            [1, 1, 1, 1]
        );
        assert_eq!(shards(&tensors[..0]).len(), 1);
    }
}
