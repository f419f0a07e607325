//! Random checkpoints in the hub layout: small ones for tests, of dimensions that no public checkpoint has, and large
//! ones of the dimensions of public models.

mod shapes;

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use half::{bf16, f16};
use safetensors::tensor::{serialize, SafeTensorError, TensorView};
use serde_json::json;
use tessera_circuits::model::{MatmulKind, ModelConfig, Rotation};
use thiserror::Error;

use tessera_checkpoint::{
    attn_norm_tensor, head_norm_tensor, matmul_tensor, mlp_norm_tensor, CheckpointError, FINAL_NORM,
};
use tessera_support::files::{self, FileError};
use tessera_support::random::SplitMix;

pub use self::shapes::{write_shape, PublicShape};
pub use safetensors::tensor::Dtype;

/// Special tokens (`<unk>`, `<s>`, `</s>`) and one token per byte.
const SPECIALS: [&str; 3] = ["<unk>", "<s>", "</s>"];
const LEAST_VOCAB: usize = SPECIALS.len() + 256;
/// Characters with tokens of their own, in the order in which a vocabulary gets them.
const LETTERS: &str = "▁etaoinshrdlcumwfgypbvk.,";

/// Why a synthetic checkpoint could not be written.
#[derive(Debug, Error)]
pub enum SynthError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("the vocabulary has {0} tokens, but needs at least {LEAST_VOCAB}")]
    Vocabulary(usize),
    #[error("tensors cannot be stored as {0:?}, only as F32, F16 or BF16")]
    Dtype(Dtype),
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error("only models with one base of rotations can be written")]
    Rotations,
    #[error(transparent)]
    Format(#[from] SafeTensorError),
}

/// How a synthetic checkpoint is stored.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub dtype: Dtype,
    /// The name under which the one matrix of tied embeddings is stored; `None` for separate matrices.
    pub tied: Option<&'static str>,
    /// Number of safetensors files; more than one are listed in an index.
    pub shards: usize,
    /// Whether names start with `model.`.
    pub prefix: bool,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            dtype: Dtype::F32,
            tied: None,
            shards: 1,
            prefix: true,
        }
    }
}

/// Writes a random checkpoint with separate embeddings in one file: `config.json`, `model.safetensors`,
/// `tokenizer.json` and `tokenizer_config.json`. The same seed gives the same bytes.
pub fn write_synthetic(dir: &Path, config: &ModelConfig, seed: u64, dtype: Dtype) -> Result<(), SynthError> {
    write_synthetic_as(
        dir,
        config,
        seed,
        Layout {
            dtype,
            ..Layout::default()
        },
    )
}

/// As [`write_synthetic`], in any supported layout.
pub fn write_synthetic_as(dir: &Path, config: &ModelConfig, seed: u64, layout: Layout) -> Result<(), SynthError> {
    let json_file = |name: &str, value: serde_json::Value| files::write(&dir.join(name), value.to_string().as_bytes());
    json_file("tokenizer.json", tokenizer(config.vocab)?)?;
    json_file(
        "tokenizer_config.json",
        json!({"add_bos_token": true, "bos_token": SPECIALS[1]}),
    )?;
    json_file("config.json", hub_config(config, layout.tied.is_some())?)?;
    let tensors = tensors(config, seed, layout)?;
    if layout.shards <= 1 {
        return Ok(files::write(
            &dir.join("model.safetensors"),
            &encode(&tensors, layout.dtype)?,
        )?);
    }
    let all: Vec<_> = tensors.into_iter().collect();
    let mut weight_map = BTreeMap::new();
    for (i, part) in all.chunks(all.len().div_ceil(layout.shards)).enumerate() {
        let file = format!("model-{:05}-of-{:05}.safetensors", i + 1, layout.shards);
        weight_map.extend(part.iter().map(|(name, _)| (name.clone(), file.clone())));
        files::write(
            &dir.join(&file),
            &encode(&part.iter().cloned().collect(), layout.dtype)?,
        )?;
    }
    Ok(json_file(
        "model.safetensors.index.json",
        json!({ "weight_map": weight_map }),
    )?)
}

/// The `config.json` of a Llama model, or of a Qwen3 model where heads are normed.
pub fn hub_config(c: &ModelConfig, tied: bool) -> Result<serde_json::Value, SynthError> {
    let (architecture, model_type) = match c.head_norms {
        true => ("Qwen3ForCausalLM", "qwen3"),
        false => ("LlamaForCausalLM", "llama"),
    };
    Ok(json!({
        "architectures": [architecture],
        "model_type": model_type,
        "hidden_act": "silu",
        "hidden_size": c.hidden,
        "num_hidden_layers": c.layers,
        "num_attention_heads": c.heads,
        "num_key_value_heads": c.kv_heads,
        "head_dim": c.head_dim,
        "intermediate_size": c.ff,
        "vocab_size": c.vocab,
        "max_position_embeddings": c.context,
        "rms_norm_eps": c.rms_eps,
        "rope_theta": match c.rotations.as_slice() {
            [Rotation::Base(theta)] => *theta,
            _ => return Err(SynthError::Rotations),
        },
        "tie_word_embeddings": tied,
        "bos_token_id": c.bos,
        "eos_token_id": c.eos,
    }))
}

type Tensors = BTreeMap<String, (Vec<usize>, Vec<u8>)>;

fn encode(tensors: &Tensors, dtype: Dtype) -> Result<Vec<u8>, SynthError> {
    let views: Vec<(&String, TensorView<'_>)> = tensors
        .iter()
        .map(|(name, (shape, data))| Ok((name, TensorView::new(dtype, shape.clone(), data)?)))
        .collect::<Result<_, SafeTensorError>>()?;
    Ok(serialize(views, None)?)
}

/// Standard normal values, by Box and Muller.
fn normal(rng: &mut SplitMix) -> f64 {
    let mut uniform = || ((rng.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    let (u, v) = (uniform(), uniform());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// A matrix `[rows][columns]` with normal weights: rows differ in scale, and one weight in 500 is an
/// outlier, as in trained models.
fn matrix(rng: &mut SplitMix, rows: usize, columns: usize, deviation: f64) -> Vec<f64> {
    (0..rows)
        .flat_map(|_| {
            let scale = deviation * (0.3 * normal(rng)).exp();
            let weight = |rng: &mut SplitMix| scale * normal(rng) * if rng.below(500) == 0 { 4.0 } else { 1.0 };
            (0..columns).map(|_| weight(rng)).collect::<Vec<_>>()
        })
        .collect()
}

fn bytes(values: &[f64], dtype: Dtype) -> Result<Vec<u8>, SynthError> {
    Ok(match dtype {
        Dtype::F32 => values.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect(),
        Dtype::F16 => values.iter().flat_map(|v| f16::from_f64(*v).to_le_bytes()).collect(),
        Dtype::BF16 => values.iter().flat_map(|v| bf16::from_f64(*v).to_le_bytes()).collect(),
        other => return Err(SynthError::Dtype(other)),
    })
}

fn tensors(config: &ModelConfig, seed: u64, layout: Layout) -> Result<Tensors, SynthError> {
    let mut rng = SplitMix(seed);
    let mut all = Tensors::new();
    let mut add = |name: &str, shape: Vec<usize>, values: &[f64]| {
        let name = if layout.prefix {
            name
        } else {
            name.trim_start_matches("model.")
        };
        all.insert(name.to_string(), (shape, bytes(values, layout.dtype)?));
        Ok::<(), SynthError>(())
    };
    for m in config.matmuls() {
        let (rows, columns) = if m.id.kind() == MatmulKind::Embed {
            (m.in_dim, m.out_dim)
        } else {
            (m.out_dim, m.in_dim)
        };
        let spread = match m.id.kind() {
            MatmulKind::Embed => 0.1,
            // Deep models keep the residual stream bounded by small updates.
            MatmulKind::O | MatmulKind::Down => 0.5 / (2.0 * config.layers as f64 * m.in_dim as f64).sqrt(),
            _ => 1.0 / (m.in_dim as f64).sqrt(),
        };
        let values = matrix(&mut rng, rows, columns, spread);
        let name = match (m.id.kind(), layout.tied) {
            (MatmulKind::Embed, Some(name)) => name.to_string(),
            (MatmulKind::Head, Some(_)) => continue,
            _ => matmul_tensor(m.id),
        };
        add(&name, vec![rows, columns], &values)?;
    }
    let norms = (0..config.layers).flat_map(|l| [attn_norm_tensor(l), mlp_norm_tensor(l)]);
    for name in norms.chain([FINAL_NORM.to_string()]) {
        let gain: Vec<f64> = (0..config.hidden).map(|_| (0.3 * normal(&mut rng)).exp()).collect();
        add(&name, vec![config.hidden], &gain)?;
    }
    let heads =
        (0..config.layers).flat_map(|l| [MatmulKind::Q, MatmulKind::K].map(|kind| head_norm_tensor(kind.at(l))));
    for name in heads.filter(|_| config.head_norms) {
        let gain: Vec<f64> = (0..config.head_dim).map(|_| (0.3 * normal(&mut rng)).exp()).collect();
        add(&name, vec![config.head_dim], &gain)?;
    }
    Ok(all)
}

/// A byte-fallback BPE tokenizer: specials, bytes, letters, then merges of ever longer tokens.
fn tokenizer(vocab_size: usize) -> Result<serde_json::Value, SynthError> {
    if vocab_size < LEAST_VOCAB {
        return Err(SynthError::Vocabulary(vocab_size));
    }
    let mut tokens: Vec<String> = SPECIALS.iter().map(ToString::to_string).collect();
    tokens.extend((0..256).map(|b| format!("<0x{b:02X}>")));
    let letters: Vec<String> = LETTERS
        .chars()
        .map(String::from)
        .take(vocab_size - tokens.len())
        .collect();
    tokens.extend(letters.iter().cloned());
    let mut merges = Vec::new();
    let mut queue = VecDeque::from(letters.clone());
    while tokens.len() < vocab_size {
        let Some(left) = queue.pop_front() else { break };
        for right in letters.iter().take(vocab_size - tokens.len()) {
            merges.push(json!([left, right]));
            let merged = format!("{left}{right}");
            queue.push_back(merged.clone());
            tokens.push(merged);
        }
    }
    let vocab: serde_json::Map<_, _> = tokens
        .iter()
        .enumerate()
        .map(|(id, t)| (t.clone(), json!(id)))
        .collect();
    let special = |(id, t): (usize, &&str)| {
        json!({"id": id, "content": t, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true})
    };
    Ok(json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": SPECIALS.iter().enumerate().map(special).collect::<Vec<_>>(),
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        ]},
        "pre_tokenizer": null,
        "post_processor": null,
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ]},
        "model": {"type": "BPE", "dropout": null, "unk_token": SPECIALS[0], "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
            "vocab": vocab, "merges": merges},
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tessera_text::tokenizer::Tokenizer;

    #[test]
    fn tokenizers_of_all_sizes_round_trip() {
        let text = "the tea, naïve 猫 🦀\n";
        for size in [259, 260, 300, 512, 2000] {
            let json = tokenizer(size).unwrap().to_string();
            let tokenizer = Tokenizer::from_bytes(json.as_bytes(), None).unwrap();
            assert_eq!(tokenizer.vocab_size(), size);
            let ids = tokenizer.encode(text).unwrap();
            assert!(ids.iter().all(|id| (*id as usize) < size));
            assert_eq!(tokenizer.decode(&ids, true).unwrap(), text);
        }
        assert!(matches!(tokenizer(258), Err(SynthError::Vocabulary(258))));
    }

    #[test]
    fn the_seed_decides() {
        let config = tessera_samples::odd_config();
        let tensors = |seed| tensors(&config, seed, Layout::default()).unwrap();
        assert_eq!(tensors(1), tensors(1));
        assert_ne!(tensors(1), tensors(2));
    }
}
