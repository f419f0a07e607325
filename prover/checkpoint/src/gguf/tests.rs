mod families;

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::super::families::{Factors, Norm, Parameter};
use super::super::{expected_tensors, matmul_tensor, Checkpoint, CheckpointError, Survey, EMBED, HEAD};
use super::names;
use tessera_circuits::model::{Activation, MatmulKind, Rotation, ScoreCap};
use tessera_samples::gguf::{permuted, tiny, Gguf, Tensor, Value, BF16, F16, F32, Q8_0};
use tessera_samples::{odd_config, SplitMix, FIXTURE};
use tessera_synthetic::{write_synthetic_as, Dtype, Layout};

/// A small checkpoint as a directory, and the same as a file.
fn small(kind: u32) -> (TempDir, Checkpoint, Gguf) {
    let dir = tempfile::tempdir().unwrap();
    let dtype = match kind {
        F16 => Dtype::F16,
        BF16 => Dtype::BF16,
        _ => Dtype::F32,
    };
    let layout = Layout {
        dtype,
        ..Layout::default()
    };
    write_synthetic_as(dir.path(), &odd_config(), 3, layout).unwrap();
    let gguf = Gguf::of_checkpoint(dir.path(), kind);
    let hub = Checkpoint::open(dir.path()).unwrap();
    (dir, hub, gguf)
}

fn written(bytes: &[u8]) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    fs::write(&path, bytes).unwrap();
    (dir, path)
}

fn opened(gguf: &Gguf) -> Result<Checkpoint, CheckpointError> {
    let (_dir, path) = written(&gguf.to_bytes());
    Checkpoint::open(&path)
}

fn survey(gguf: &Gguf) -> Survey {
    let (_dir, path) = written(&gguf.to_bytes());
    Checkpoint::survey(&path).unwrap()
}

#[test]
fn a_file_holds_the_checkpoint_that_it_was_made_from() {
    for kind in [F32, F16, BF16] {
        for version in [2, 3] {
            let (_dir, hub, mut gguf) = small(kind);
            gguf.version = version;
            let own = opened(&gguf).unwrap();
            assert_eq!((own.config(), own.tied()), (hub.config(), false));
            for name in expected_tensors(hub.family, hub.description()).keys() {
                assert_eq!(own.values(name).unwrap(), hub.values(name).unwrap(), "{name}");
            }
        }
    }
}

#[test]
fn queries_and_keys_have_the_order_of_the_hub_wherever_they_are_read() {
    let (_dir, hub, gguf) = small(F32);
    let own = opened(&gguf).unwrap();
    for kind in [MatmulKind::Q, MatmulKind::K] {
        let expected = hub.matrix(kind.at(1)).unwrap().values().unwrap();
        let tensor = own.matrix(kind.at(1)).unwrap();
        for (first, len) in [(0, 1), (19, 2), (33, 71), (120, 0), (60, 60)] {
            let mut piece = vec![0.0; len];
            tensor.read(first, &mut piece).unwrap();
            assert_eq!(piece, expected[first..][..len], "{kind:?} {first} {len}");
        }
    }
    // Stored as they are in the directory, they would be read in another order.
    let mut gguf = gguf;
    let values = hub.matrix(MatmulKind::Q.at(0)).unwrap().values().unwrap();
    *gguf.tensor("blk.0.attn_q.weight") = Tensor::of(&[20, 18], F32, &values);
    let name = matmul_tensor(MatmulKind::Q.at(0));
    assert_ne!(opened(&gguf).unwrap().values(&name).unwrap(), values);
}

#[test]
fn the_fixture_in_blocks_is_close_to_itself_and_tied() {
    let hub = Checkpoint::open(FIXTURE.as_ref()).unwrap();
    let own = opened(&Gguf::of_checkpoint(FIXTURE.as_ref(), Q8_0)).unwrap();
    assert_eq!(own.config(), hub.config());
    assert!(own.tied());
    assert_eq!(own.values(EMBED).unwrap(), own.values(HEAD).unwrap());
    for name in expected_tensors(hub.family, hub.description()).keys() {
        let (got, expected) = (own.values(name).unwrap(), hub.values(name).unwrap());
        // Half a step of the block's largest value, and what its scale loses.
        for (got, expected) in got.chunks(32).zip(expected.chunks(32)) {
            let step = expected.iter().fold(0.0f32, |m, v| m.max(v.abs())) / 127.0;
            let near = got.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 0.6 * step);
            assert!(near, "{name}");
        }
    }
}

/// The feature is refused when a file is opened, and reported by its survey.
fn assert_unsupported(gguf: &Gguf, feature: &str, word: &str) {
    let error = opened(gguf).unwrap_err();
    let shown = error.to_string();
    match error {
        CheckpointError::Unsupported(list) => {
            let found = list
                .iter()
                .any(|u| u.feature == feature && u.to_string().contains(word));
            assert!(found, "{feature}: {shown}");
        }
        other => panic!("{feature}: {other}"),
    }
    let survey = survey(gguf);
    assert!(!survey.is_supported() && survey.unsupported.iter().any(|u| u.feature == feature));
}

#[test]
fn metadata_that_no_supported_model_has_are_refused_by_name() {
    let refused = |key: &str, value: Value, feature: &str| {
        let mut gguf = tiny(F32, false);
        gguf.set(key, value);
        assert_unsupported(&gguf, feature, key.rsplit('.').next().unwrap());
    };
    let text = |t: &str| Value::Text(t.to_string());
    refused("llama.rope.scaling.type", text("yarn"), "rope_scaling");
    refused("llama.rope.scaling.factor", Value::F32(8.0), "rope_scaling");
    refused("llama.rope.scale_linear", Value::F32(2.0), "rope_scaling");
    refused("llama.rope.dimension_count", Value::U32(1), "partial_rotary_factor");
    refused("llama.attention.value_length", Value::U32(9), "dimensions");
    refused("llama.attention.sliding_window", Value::U32(4096), "sliding_window");
    refused("llama.expert_count", Value::U32(8), "mixture of experts");
    refused("llama.attention.scale", Value::F32(0.1), "unknown metadata");
    refused("llama.attention.causal", Value::Flag(false), "unknown metadata");
    refused("llama.logit_scale", Value::F32(0.1), "unknown metadata");
    refused("general.type", text("adapter"), "general.type");
    refused("split.count", Value::U32(3), "split.count");
    for (key, value) in [
        ("llama.rope.scaling.type", text("none")),
        ("llama.rope.scaling.factor", Value::F32(1.0)),
        ("llama.rope.scale_linear", Value::F32(1.0)),
        ("llama.expert_count", Value::U32(0)),
        ("llama.attention.sliding_window", Value::U32(0)),
        ("llama.tensor_data_layout", text("Meta AI original pth")),
        ("general.name", text("a name")),
    ] {
        let mut gguf = tiny(F32, false);
        gguf.set(key, value);
        opened(&gguf).unwrap_or_else(|e| panic!("{key}: {e}"));
    }
}

#[test]
fn dimensions_that_are_missing_or_no_numbers_are_named() {
    for key in [
        "llama.context_length",
        "llama.embedding_length",
        "llama.block_count",
        "llama.feed_forward_length",
        "llama.attention.head_count",
        "llama.attention.layer_norm_rms_epsilon",
    ] {
        let mut gguf = tiny(F32, false);
        gguf.unset(key);
        assert_unsupported(&gguf, "metadata", key);
        for bad in [
            Value::from("x"),
            Value::I32(-1),
            Value::I32s(vec![1, 2]),
            Value::F32(f32::NAN),
        ] {
            gguf.set(key, bad);
            let error = opened(&gguf).unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
    }
    let mut gguf = tiny(F32, false);
    gguf.set("llama.rope.freq_base", Value::F32(f32::INFINITY));
    assert!(opened(&gguf).unwrap_err().to_string().contains("llama.rope.freq_base"));
    let mut gguf = tiny(F32, false);
    gguf.set("llama.vocab_size", Value::U32(13));
    assert_unsupported(&gguf, "tokenizer", "vocab_size");
    gguf.unset("llama.vocab_size");
    assert_eq!(opened(&gguf).unwrap().config().vocab, 12);
}

#[test]
fn defaults_and_numbers_are_those_of_the_format() {
    let mut gguf = tiny(F32, false);
    for key in [
        "llama.attention.head_count_kv",
        "llama.attention.key_length",
        "llama.rope.freq_base",
        "llama.rope.dimension_count",
        "general.alignment",
    ] {
        gguf.unset(key);
    }
    gguf.set("tokenizer.ggml.eot_token_id", Value::U32(5));
    gguf.set("tokenizer.ggml.eom_token_id", Value::U32(2));
    let config = survey(&gguf).config.unwrap();
    assert_eq!(
        (config.kv_heads, config.head_dim, config.rotations),
        (2, 2, vec![Rotation::Base(1e4)])
    );
    // The decimal number that was written, not the one of 32 bits next to it.
    assert_eq!(config.rms_eps, 1e-5);
    assert_eq!((config.bos, config.eos), (Some(1), vec![2, 5]));
}

#[test]
fn other_architectures_are_refused_and_surveyed() {
    let mut gguf = tiny(F32, false);
    gguf.set("general.architecture", "olmo2".into());
    gguf.set("olmo2.embedding_length", Value::U32(4));
    assert!(matches!(opened(&gguf), Err(CheckpointError::Architecture { found, .. }) if found == "olmo2"));
    let survey = survey(&gguf);
    assert_eq!((survey.architecture.as_str(), survey.config), ("olmo2", None));
    assert!(survey
        .unsupported
        .iter()
        .any(|u| u.detail.contains("olmo2.attention.head_count")));
    gguf.unset("general.architecture");
    let (_dir, path) = written(&gguf.to_bytes());
    let error = Checkpoint::survey(&path).unwrap_err().to_string();
    assert!(
        error.contains("general.architecture") && error.contains("model.gguf"),
        "{error}"
    );
}

/// Files of Qwen2 have biases, and rows of queries and keys in the order of the hub.
#[test]
fn files_of_qwen2_are_read() {
    let (_dir, hub, mut gguf) = small(F32);
    for (key, _) in &mut gguf.metadata {
        *key = key.replace("llama.", "qwen2.");
    }
    gguf.set("general.architecture", "qwen2".into());
    let parts = [
        (MatmulKind::Q, "attn_q"),
        (MatmulKind::K, "attn_k"),
        (MatmulKind::V, "attn_v"),
    ];
    let value = |layer: usize, i: usize| (100 * layer + i) as f32 / 8.0;
    for layer in 0..2 {
        for (kind, part) in parts {
            let matrix = hub.matrix(kind.at(layer)).unwrap();
            let (inputs, outputs) = hub.config().dims(kind);
            let name = format!("blk.{layer}.{part}");
            *gguf.tensor(&format!("{name}.weight")) = Tensor::of(&[inputs, outputs], F32, &matrix.values().unwrap());
            let bias: Vec<f32> = (0..outputs).map(|i| value(layer, i)).collect();
            gguf.tensors
                .push((format!("{name}.bias"), Tensor::of(&[outputs], F32, &bias)));
        }
    }
    let own = opened(&gguf).unwrap();
    assert_eq!(own.description().biases, parts.map(|(kind, _)| kind));
    for (kind, _) in parts {
        let values = |checkpoint: &Checkpoint| checkpoint.matrix(kind.at(1)).unwrap().values().unwrap();
        assert_eq!(values(&own), values(&hub));
        let bias = own.bias(kind.at(1)).unwrap().unwrap();
        assert_eq!((bias.len(), bias[5]), (own.config().dims(kind).1, value(1, 5)));
    }
    assert_eq!(own.bias(MatmulKind::O.at(1)).unwrap(), None);
    // Without one of them the file is no Qwen2.
    gguf.tensors.retain(|(name, _)| name != "blk.1.attn_v.bias");
    assert!(
        matches!(opened(&gguf), Err(CheckpointError::Missing { tensor }) if tensor.ends_with("1.self_attn.v_proj.bias"))
    );
}

/// Files of Qwen3 have gains for heads, and rows of queries and keys in the order of the hub.
#[test]
fn files_of_qwen3_are_read() {
    let (_dir, hub, mut gguf) = small(F32);
    for (key, _) in &mut gguf.metadata {
        *key = key.replace("llama.", "qwen3.");
    }
    gguf.set("general.architecture", "qwen3".into());
    let parts = [(MatmulKind::Q, "attn_q"), (MatmulKind::K, "attn_k")];
    let gains = |layer: usize| -> Vec<f32> {
        (0..hub.config().head_dim)
            .map(|i| (100 * layer + i) as f32 / 8.0)
            .collect()
    };
    for layer in 0..2 {
        for (kind, part) in parts {
            let matrix = hub.matrix(kind.at(layer)).unwrap();
            let (inputs, outputs) = hub.config().dims(kind);
            let name = format!("blk.{layer}.{part}");
            *gguf.tensor(&format!("{name}.weight")) = Tensor::of(&[inputs, outputs], F32, &matrix.values().unwrap());
            let own = gains(layer);
            gguf.tensors
                .push((format!("{name}_norm.weight"), Tensor::of(&[own.len()], F32, &own)));
        }
    }
    let own = opened(&gguf).unwrap();
    assert!(own.config().head_norms);
    for (kind, _) in parts {
        let values = |checkpoint: &Checkpoint| checkpoint.matrix(kind.at(1)).unwrap().values().unwrap();
        assert_eq!(values(&own), values(&hub));
        assert_eq!(own.head_gain(kind.at(1)).unwrap(), Some(gains(1)));
    }
    // Without one of them the file is no Qwen3.
    gguf.tensors.retain(|(name, _)| name != "blk.1.attn_k_norm.weight");
    assert!(
        matches!(opened(&gguf), Err(CheckpointError::Missing { tensor }) if tensor.ends_with("1.self_attn.k_norm.weight"))
    );
}

#[test]
fn foreign_tensors_and_types_are_refused_by_name() {
    for (tensor, feature) in [
        ("blk.0.attn_q.bias", "attention_bias"),
        ("blk.0.ffn_down.bias", "mlp_bias"),
        ("blk.0.attn_k_norm.weight", "qk_norm"),
        ("blk.0.ffn_gate_inp.weight", "mixture of experts"),
        ("rope_freqs.weight", "rope_scaling"),
        ("blk.0.attn_sinks.weight", "unknown tensors"),
        ("blk.00.attn_q.weight", "unknown tensors"),
        ("model.norm.weight", "unknown tensors"),
    ] {
        let mut gguf = tiny(F32, false);
        gguf.tensors.push((tensor.to_string(), Tensor::of(&[1], F32, &[0.0])));
        assert_unsupported(&gguf, feature, tensor);
    }
    for (kind, name) in [(10, "dtype Q2_K"), (24, "dtype I8"), (1000, "dtype GGML type 1000")] {
        let mut gguf = tiny(F32, false);
        gguf.tensor("blk.0.ffn_up.weight").kind = kind;
        assert_unsupported(&gguf, name, "blk.0.ffn_up.weight");
    }
    let mut gguf = tiny(F32, false);
    gguf.tensors.retain(|(name, _)| name != "blk.0.ffn_up.weight");
    assert!(matches!(opened(&gguf), Err(CheckpointError::Missing { tensor }) if tensor.contains("up_proj")));
    let mut gguf = tiny(F32, false);
    gguf.tensor("token_embd.weight").dimensions.reverse();
    assert!(matches!(opened(&gguf), Err(CheckpointError::Shape { got, .. }) if got == [4, 12]));
    let mut gguf = tiny(F32, false);
    gguf.tensor("blk.0.ffn_up.weight").bytes[4 * 5..][..4].copy_from_slice(&f32::NAN.to_le_bytes());
    let error = opened(&gguf).unwrap().matrix(MatmulKind::Up.at(0)).unwrap().values();
    assert!(
        matches!(error, Err(CheckpointError::NotFinite { tensor, index: 5, .. }) if tensor == "blk.0.ffn_up.weight")
    );
}

/// The file is refused, and the error names it and a word.
fn assert_broken(bytes: &[u8], word: &str) {
    let (_dir, path) = written(bytes);
    for error in [Checkpoint::open(&path).unwrap_err(), Survey::of(&path).unwrap_err()] {
        let shown = error.to_string();
        assert!(matches!(error, CheckpointError::Format { path: p, .. } if p == path));
        assert!(shown.contains(word), "{word}: {shown}");
    }
}

#[test]
fn headers_that_lie_are_refused() {
    let with = |edit: &dyn Fn(&mut Gguf)| {
        let mut gguf = tiny(F32, false);
        edit(&mut gguf);
        gguf.to_bytes()
    };
    let good = with(&|_| ());
    let patched = |at: usize, bytes: &[u8]| {
        let mut file = good.clone();
        file[at..][..bytes.len()].copy_from_slice(bytes);
        file
    };
    assert_broken(b"", "not a GGUF file");
    assert_broken(b"GGML\x03\0\0\0", "not a GGUF file");
    assert_broken(&patched(4, &[1]), "version 1");
    assert_broken(&patched(4, &[0, 0, 0, 3]), "big-endian");
    for count in [u64::MAX, 1 << 40, 1 << 20] {
        assert_broken(&patched(8, &count.to_le_bytes()), "tensors");
        assert_broken(&patched(16, &count.to_le_bytes()), "metadata");
        assert_broken(&patched(24, &count.to_le_bytes()), "longer than the file");
    }
    let nested = [9u32.to_le_bytes().as_slice(), &1u64.to_le_bytes()]
        .concat()
        .repeat(10_000);
    let array = |kind: u32, len: u64| Value::Raw(9, [kind.to_le_bytes().as_slice(), &len.to_le_bytes()].concat());
    for (value, word) in [
        (Value::Raw(9, nested), "nested"),
        (Value::Raw(13, Vec::new()), "13 is no type"),
        (Value::Raw(7, vec![2]), "neither true nor false"),
        (array(8, u64::MAX), "elements"),
        (array(12, 1 << 61), "elements"),
        (array(4, 1 << 20), "elements"),
        (Value::Raw(8, u64::MAX.to_le_bytes().to_vec()), "longer than the file"),
    ] {
        assert_broken(&with(&|g| g.set("x.value", value.clone())), word);
    }
    assert_broken(&with(&|g| g.metadata.push(g.metadata[3].clone())), "twice");
    assert_broken(&with(&|g| g.tensors.push(g.tensors[3].clone())), "twice");
    assert_broken(&with(&|g| g.set("", Value::U32(1))), "name");
    for alignment in [0, 24, 1 << 30] {
        assert_broken(
            &with(&|g| g.set("general.alignment", Value::U32(alignment))),
            "general.alignment",
        );
    }
    for (dimensions, word) in [
        (vec![1 << 40, 1 << 40], "too large"),
        (vec![u64::MAX, 2, 2], "too large"),
        (vec![1, 1, 1, 1, 1], "5 dimensions"),
        (vec![1 << 20, 1 << 20], "beyond the end"),
    ] {
        let edit = |g: &mut Gguf| g.tensor("blk.0.attn_q.weight").dimensions.clone_from(&dimensions);
        assert_broken(&with(&edit), word);
    }
    let ragged = |g: &mut Gguf| g.tensor("blk.0.attn_q.weight").kind = Q8_0;
    assert_broken(&with(&ragged), "whole blocks");
    let doubled = |g: &mut Gguf| g.tensor("blk.0.attn_k.weight").dimensions[1] = 12;
    assert_broken(&with(&doubled), "overlap");
}

#[test]
fn places_of_tensors_are_checked() {
    let good = tiny(F32, false);
    let bytes = good.to_bytes();
    let name = b"blk.0.ffn_up.weight";
    let at = bytes.windows(name.len()).position(|w| w == name).unwrap();
    // After the name: rank, two dimensions, type.
    let place = at + name.len() + 4 + 16 + 4;
    for (offset, word) in [
        (1u64, "multiple of 32"),
        (1 << 62, "beyond the end"),
        (u64::MAX - 31, "beyond the end"),
        (0, "overlap"),
    ] {
        let mut file = bytes.clone();
        file[place..][..8].copy_from_slice(&offset.to_le_bytes());
        assert_broken(&file, word);
    }
}

#[test]
fn files_that_end_early_are_refused_wherever_they_end() {
    for byte_level in [false, true] {
        let bytes = tiny(F32, byte_level).to_bytes();
        let data = bytes.len() - 32;
        for len in (0..data).step_by(7).chain([data]) {
            let (_dir, path) = written(&bytes[..len]);
            let error = Checkpoint::open(&path).unwrap_err();
            assert!(matches!(error, CheckpointError::Format { .. }), "{len}: {error}");
        }
    }
}

/// Whatever is changed, the file is read or refused; what is read has the values that its dimensions say.
#[test]
fn changed_files_are_read_or_refused() {
    let mut rng = SplitMix(11);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..1500 {
        let mut bytes = tiny(if rng.below(2) == 0 { F32 } else { Q8_0 }, rng.below(2) == 0).to_bytes();
        for _ in 0..1 + rng.below(2) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.next_u64() as u8;
        }
        let (_dir, path) = written(&bytes);
        match Checkpoint::open(&path) {
            Err(_) => refused += 1,
            Ok(checkpoint) => {
                read += 1;
                for m in checkpoint.config().matmuls() {
                    let tensor = checkpoint.matrix(m.id).unwrap();
                    assert_eq!(tensor.len(), m.in_dim * m.out_dim);
                    let _ = tensor.values();
                }
            }
        }
    }
    assert!(read > 100 && refused > 100, "{read} {refused}");
}

#[test]
fn scaling_that_changes_nothing_is_read_and_what_changes_something_is_refused() {
    let text = |t: &str| Value::Text(t.to_string());
    let plain = opened(&tiny(F32, false)).unwrap().config().clone();
    for neutral in [
        vec![("type", text("linear")), ("factor", Value::F32(1.0))],
        vec![("type", text("linear")), ("factor", Value::F32(0.0))],
        vec![("type", text("linear"))],
        vec![
            ("factor", Value::F32(1.0)),
            ("original_context_length", Value::U32(8192)),
        ],
        vec![
            ("type", text("none")),
            ("factor", Value::F32(8.0)),
            ("attn_factor", Value::F32(1.0)),
        ],
        vec![
            ("type", text("linear")),
            ("factor", Value::F32(1.0)),
            ("finetuned", Value::Flag(true)),
        ],
    ] {
        let mut gguf = tiny(F32, false);
        for (key, value) in neutral {
            gguf.set(&format!("llama.rope.scaling.{key}"), value);
        }
        assert_eq!(opened(&gguf).unwrap().config(), &plain);
    }
    for (scaling, key) in [
        (vec![("type", text("linear")), ("factor", Value::F32(2.0))], "factor"),
        (vec![("type", text("yarn")), ("factor", Value::F32(1.0))], "type"),
        (
            vec![("type", text("none")), ("attn_factor", Value::F32(1.25))],
            "attn_factor",
        ),
    ] {
        let mut gguf = tiny(F32, false);
        for (own, value) in scaling {
            gguf.set(&format!("llama.rope.scaling.{own}"), value);
        }
        assert_unsupported(&gguf, "rope_scaling", key);
    }
}

/// Converters write the scaling of Llama 3.x as a divisor of every frequency, of which llama.cpp makes the same frequencies.
#[test]
fn divisors_of_frequencies_are_the_scaling_of_llama_3() {
    let pairs = opened(&tiny(F32, false)).unwrap().config().head_dim / 2;
    let with = |divisors: &[f32], kind| {
        let mut gguf = tiny(F32, false);
        let tensor = Tensor::of(&[divisors.len()], kind, divisors);
        gguf.tensors.push(("rope_freqs.weight".to_string(), tensor));
        gguf
    };
    let plain = opened(&tiny(F32, false)).unwrap();
    let ones = opened(&with(&vec![1.0; pairs], F32)).unwrap();
    assert_eq!(ones.config(), plain.config());
    let divisors: Vec<f32> = (0..pairs).map(|x| 1.0 + 3.5 * x as f32).collect();
    let scaled = opened(&with(&divisors, F32)).unwrap();
    let frequency = |checkpoint: &Checkpoint, x| {
        let config = checkpoint.config();
        config.rotations[0].frequency(config.head_dim, x)
    };
    for (x, divisor) in divisors.iter().enumerate() {
        let expected = frequency(&plain, x) / f64::from(*divisor);
        assert!((frequency(&scaled, x) / expected - 1.0).abs() < 1e-12, "{x}");
    }
    // As many as there are pairs, and none that is no divisor.
    let error = opened(&with(&vec![2.0; pairs + 1], F32)).unwrap_err().to_string();
    assert!(error.contains("pairs are rotated"), "{error}");
    for bad in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        assert_unsupported(&with(&vec![bad; pairs], F32), "rope_scaling", "rope_freqs.weight");
    }
}
