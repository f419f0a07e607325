//! Checkpoints of the dimensions of public models, with random weights, to measure what such models cost. Written as
//! they are made: memory does not grow with them.

use std::collections::BTreeMap;
use std::path::Path;

use half::bf16;
use rayon::prelude::*;
use serde_json::json;
use tessera_circuits::model::{MatmulKind, ModelConfig, Rotation, MAX_CONTEXT};

use super::{hub_config, normal, SynthError};
use crate::checkpoint::{attn_norm_tensor, matmul_tensor, mlp_norm_tensor, FINAL_NORM};
use crate::files::{self, AtomicDir, AtomicFile};
use crate::progress::Progress;
use crate::testing::TestRng;

/// Bytes of tensors in a file, unless one tensor has more.
const SHARD: u64 = 1 << 30;
/// Bytes of a tensor that are made at once.
const PIECE: usize = 16 << 20;
const WORD: usize = 2;
/// Deviates to draw from: as many as 16 bits tell apart.
const DEVIATES: usize = 1 << 16;

/// The dimensions of a public model, with Llama's architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublicShape {
    SmolLm2_135m,
    Gpt2_124m,
    Qwen2_5_0_5b,
    TinyLlama1_1b,
    /// Layers of a model of 7 billion weights; one of them by default.
    Llama7bLayer,
}

impl PublicShape {
    /// The architecture, and whether the head is the embedding.
    pub fn config(self) -> (ModelConfig, bool) {
        let (hidden, layers, heads, kv_heads, head_dim, ff, vocab, context, tied) = match self {
            Self::SmolLm2_135m => (576, 30, 9, 3, 64, 1536, 49_152, 8192, true),
            Self::Gpt2_124m => (768, 12, 12, 12, 64, 3072, 50_257, 1024, true),
            Self::Qwen2_5_0_5b => (896, 24, 14, 2, 64, 4864, 151_936, 32_768, true),
            Self::TinyLlama1_1b => (2048, 22, 32, 4, 64, 5632, 32_000, 2048, false),
            Self::Llama7bLayer => (4096, 1, 32, 32, 128, 11_008, 32_000, 4096, false),
        };
        let config = ModelConfig {
            hidden,
            layers,
            heads,
            kv_heads,
            head_dim,
            ff,
            vocab,
            context: MAX_CONTEXT.min(context),
            rms_eps: 1e-5,
            rotations: vec![Rotation::Base(10_000.0)],
            rotation_of: Vec::new(),
            bos: Some(1),
            eos: vec![2],
        };
        (config, tied)
    }
}

/// A tensor to be written.
struct Planned {
    name: String,
    shape: Vec<usize>,
    /// Standard deviation of a matrix, `None` for a gain.
    deviation: Option<f32>,
    seed: u64,
}

impl Planned {
    fn bytes(&self) -> u64 {
        (self.shape.iter().product::<usize>() * WORD) as u64
    }
}

/// Writes a random BF16 checkpoint without tokenizer in the hub layout, in files of about 1 GiB: `config.json`,
/// `model-0000i-of-0000n.safetensors` and their index. The same seed gives the same bytes. Returns the number of
/// parameters.
pub fn write_shape(
    dir: &Path,
    config: &ModelConfig,
    tied: bool,
    seed: u64,
    progress: &dyn Progress,
) -> Result<u64, SynthError> {
    let target = AtomicDir::create(dir)?;
    let json_file =
        |name: &str, value: serde_json::Value| files::write(&target.path().join(name), value.to_string().as_bytes());
    json_file("config.json", hub_config(config, tied)?)?;
    let tensors = tensors(config, tied, seed);
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
        json!({"metadata": {"total_size": bytes}, "weight_map": weight_map}),
    )?;
    target.commit()?;
    progress.done();
    Ok(bytes / WORD as u64)
}

fn tensors(config: &ModelConfig, tied: bool, seed: u64) -> Vec<Planned> {
    let mut seeds = TestRng(seed);
    let mut all = Vec::new();
    let mut add = |name: String, shape: Vec<usize>, deviation: Option<f32>| {
        all.push(Planned {
            name,
            shape,
            deviation,
            seed: seeds.next_u64(),
        });
    };
    for m in config.matmuls() {
        let shape = match m.kind {
            MatmulKind::Head if tied => continue,
            MatmulKind::Embed => vec![m.in_dim, m.out_dim],
            _ => vec![m.out_dim, m.in_dim],
        };
        let inputs = m.in_dim as f32;
        let deviation = match m.kind {
            MatmulKind::Embed => 0.05,
            // Deep models keep the residual stream bounded by small updates.
            MatmulKind::O | MatmulKind::Down => 0.5 / (2.0 * config.layers as f32 * inputs).sqrt(),
            _ => 1.0 / inputs.sqrt(),
        };
        add(matmul_tensor(m.kind, m.layer), shape, Some(deviation));
        if m.kind == MatmulKind::Down {
            add(attn_norm_tensor(m.layer), vec![config.hidden], None);
            add(mlp_norm_tensor(m.layer), vec![config.hidden], None);
        }
    }
    add(FINAL_NORM.to_string(), vec![config.hidden], None);
    all
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
    let mut header = serde_json::Value::Object(header).to_string();
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
    let mut rng = TestRng(tensor.seed ^ row.wrapping_mul(0xd6e8_feb8_6659_fd93));
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
    let mut rng = TestRng(1);
    (0..DEVIATES)
        .map(|_| normal(&mut rng) as f32 * if rng.below(500) == 0 { 4.0 } else { 1.0 })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::{Checkpoint, EMBED};
    use crate::progress::Silent;
    use crate::testing::odd_config;

    #[test]
    fn shapes_are_provable_models() {
        for (shape, parameters) in [
            (PublicShape::SmolLm2_135m, 134_515_008),
            (PublicShape::Gpt2_124m, 0),
            (PublicShape::Qwen2_5_0_5b, 0),
            (PublicShape::TinyLlama1_1b, 1_100_048_384),
            (PublicShape::Llama7bLayer, 0),
        ] {
            let (config, tied) = shape.config();
            assert_eq!(config.check(), Ok(()));
            let total: u64 = tensors(&config, tied, 1).iter().map(|t| t.bytes() / 2).sum();
            assert!(parameters == 0 || total == parameters, "{shape:?}: {total}");
        }
    }

    #[test]
    fn checkpoints_are_read_back_and_the_seed_decides() {
        for tied in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let write = |name: &str, seed| {
                let path = dir.path().join(name);
                let parameters = write_shape(&path, &odd_config(), tied, seed, &Silent).unwrap();
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
