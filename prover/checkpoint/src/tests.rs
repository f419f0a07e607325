use std::collections::BTreeMap;
use std::fs;

use safetensors::tensor::{serialize, Dtype, SafeTensors, TensorView};
use serde_json::{json, Value};
use tempfile::TempDir;
use tessera_circuits::model::MAX_CONTEXT;

mod brought;

use super::*;
use tessera_samples::{odd_config, FIXTURE};
use tessera_support::files::FileError;
use tessera_synthetic::{write_synthetic, write_synthetic_as, Layout};

fn synthetic(layout: Layout) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    write_synthetic_as(dir.path(), &odd_config(), 3, layout).unwrap();
    dir
}

fn plain() -> TempDir {
    synthetic(Layout::default())
}

/// A plain checkpoint with fields of its config replaced.
fn with_config(edits: Value) -> TempDir {
    let dir = plain();
    let path = dir.path().join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let fields = edits.as_object().unwrap().clone();
    config.as_object_mut().unwrap().extend(fields);
    fs::write(&path, config.to_string()).unwrap();
    dir
}

type Edited = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

/// A plain checkpoint with its tensors edited.
fn with_tensors(edit: impl FnOnce(&mut Edited)) -> TempDir {
    let dir = plain();
    let path = dir.path().join("model.safetensors");
    let bytes = fs::read(&path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let mut tensors: Edited = file
        .iter()
        .map(|(n, t)| (n.to_string(), (t.dtype(), t.shape().to_vec(), t.data().to_vec())))
        .collect();
    edit(&mut tensors);
    let view = |(d, s, b)| TensorView::new(d, s, b).unwrap();
    let views = tensors
        .iter()
        .map(|(n, (d, s, b))| (n, view((*d, s.clone(), b.as_slice()))));
    fs::write(&path, serialize(views, None).unwrap()).unwrap();
    dir
}

fn open_error(dir: &TempDir) -> CheckpointError {
    Checkpoint::open(dir.path()).unwrap_err()
}

#[test]
fn the_fixture_is_read() {
    let checkpoint = Checkpoint::open(Path::new(FIXTURE)).unwrap();
    assert_eq!(
        checkpoint.config(),
        &ModelConfig {
            rms_eps: 1e-6,
            ..tessera_samples::fixture_size_config()
        }
    );
    assert!(checkpoint.tied());
    let embed = checkpoint.values(EMBED).unwrap();
    assert_eq!(embed.len(), 2048 * 128);
    assert_eq!(embed, checkpoint.values(HEAD).unwrap());
    let survey = Checkpoint::survey(Path::new(FIXTURE)).unwrap();
    assert!(survey.is_supported(), "{survey:?}");
    assert_eq!(
        (survey.architecture.as_str(), survey.tensors.len()),
        ("LlamaForCausalLM", 20)
    );
}

#[test]
fn all_layouts_have_the_same_tensors() {
    let reference = plain();
    let reference = Checkpoint::open(reference.path()).unwrap();
    let names = expected_tensors(reference.family, reference.description());
    for (shards, prefix) in [(1, false), (3, true), (4, false)] {
        let dir = synthetic(Layout {
            shards,
            prefix,
            ..Layout::default()
        });
        let checkpoint = Checkpoint::open(dir.path()).unwrap();
        for name in names.keys() {
            assert_eq!(
                checkpoint.values(name).unwrap(),
                reference.values(name).unwrap(),
                "{name}"
            );
        }
    }
    for (dtype, error) in [(Dtype::F16, 1.0 / 2048.0), (Dtype::BF16, 1.0 / 256.0)] {
        let dir = synthetic(Layout {
            dtype,
            ..Layout::default()
        });
        let checkpoint = Checkpoint::open(dir.path()).unwrap();
        for name in names.keys() {
            let (got, expected) = (checkpoint.values(name).unwrap(), reference.values(name).unwrap());
            assert!(
                got.iter()
                    .zip(&expected)
                    .all(|(a, b)| (a - b).abs() <= error * b.abs() + 1e-7),
                "{name}"
            );
        }
    }
    for stored in [EMBED, HEAD] {
        let dir = synthetic(Layout {
            tied: Some(stored),
            ..Layout::default()
        });
        let checkpoint = Checkpoint::open(dir.path()).unwrap();
        assert_eq!(checkpoint.values(HEAD).unwrap(), reference.values(EMBED).unwrap());
        assert_eq!(checkpoint.values(EMBED).unwrap(), reference.values(EMBED).unwrap());
    }
}

#[test]
fn a_long_context_is_clamped() {
    let dir = with_config(json!({"max_position_embeddings": 1 << 20}));
    assert_eq!(Checkpoint::open(dir.path()).unwrap().config().context, MAX_CONTEXT);
}

#[test]
fn files_that_are_no_checkpoint_are_named() {
    let dir = plain();
    let path = dir.path().join("model.safetensors");
    let bytes = fs::read(&path).unwrap();
    for bad in [
        &bytes[..bytes.len() - 1],
        &bytes[..7],
        b"",
        b"hello, this is not a checkpoint",
    ] {
        fs::write(&path, bad).unwrap();
        assert!(matches!(open_error(&dir), CheckpointError::Format { path: p, .. } if p == path));
        assert!(matches!(Survey::of(dir.path()), Err(CheckpointError::Format { .. })));
    }
    fs::remove_file(&path).unwrap();
    assert!(matches!(open_error(&dir), CheckpointError::NoWeights { dir: d } if d == dir.path()));
    fs::remove_file(dir.path().join("config.json")).unwrap();
    assert!(open_error(&dir).to_string().contains("config.json"));
}

#[test]
fn shards_that_do_not_fit_their_index_are_named() {
    let sharded = || {
        synthetic(Layout {
            shards: 2,
            ..Layout::default()
        })
    };
    let dir = sharded();
    let second = dir.path().join("model-00002-of-00002.safetensors");
    fs::remove_file(&second).unwrap();
    assert!(matches!(open_error(&dir), CheckpointError::File(FileError::Read { path, .. }) if path == second));
    let dir = sharded();
    let index = dir.path().join("model.safetensors.index.json");
    let good: Value = serde_json::from_slice(&fs::read(&index).unwrap()).unwrap();
    for (tensor, file) in [
        ("extra", "model-00001-of-00002.safetensors"),
        ("lm_head.weight", "../x.safetensors"),
    ] {
        let mut json = good.clone();
        json["weight_map"][tensor] = file.into();
        fs::write(&index, json.to_string()).unwrap();
        assert!(matches!(open_error(&dir), CheckpointError::Format { path, .. } if path == index));
    }
}

#[test]
fn missing_and_misshapen_tensors_are_named() {
    let name = "model.layers.1.mlp.up_proj.weight";
    let dir = with_tensors(|t| {
        t.remove(name);
    });
    assert!(matches!(open_error(&dir), CheckpointError::Missing { tensor } if tensor == name));
    assert_eq!(Survey::of(dir.path()).unwrap().missing, [name]);
    let dir = with_tensors(|t| t.get_mut(name).unwrap().1.reverse());
    match open_error(&dir) {
        CheckpointError::Shape { tensor, got, expected } => {
            assert_eq!((tensor.as_str(), got, expected), (name, vec![20, 44], vec![44, 20]));
        }
        other => panic!("{other}"),
    }
    assert_eq!(Survey::of(dir.path()).unwrap().misshapen.len(), 1);
    let dir = plain();
    let checkpoint = Checkpoint::open(dir.path()).unwrap();
    assert!(matches!(checkpoint.values("x"), Err(CheckpointError::Missing { tensor }) if tensor == "x"));
}

#[test]
fn values_that_are_not_finite_are_named() {
    let name = "model.layers.0.self_attn.k_proj.weight";
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let dir = with_tensors(|t| t.get_mut(name).unwrap().2[4 * 17..][..4].copy_from_slice(&bad.to_le_bytes()));
        let checkpoint = Checkpoint::open(dir.path()).unwrap();
        match checkpoint.values(name) {
            Err(CheckpointError::NotFinite { tensor, index: 17, .. }) => assert_eq!(tensor, name),
            other => panic!("{other:?}"),
        }
    }
}

/// The feature is refused by `open` and reported by `survey`, with these tensors.
fn assert_unsupported(dir: &TempDir, feature: &str, tensors: &[&str]) {
    let error = open_error(dir);
    match &error {
        CheckpointError::Unsupported(list) => {
            let found = list
                .iter()
                .find(|u| u.feature == feature)
                .unwrap_or_else(|| panic!("{feature}: {list:?}"));
            assert_eq!(found.tensors, tensors, "{feature}");
        }
        other => panic!("{feature}: {other}"),
    }
    assert!(error.to_string().contains(feature));
    let survey = Survey::of(dir.path()).unwrap();
    assert!(!survey.is_supported() && survey.unsupported.iter().any(|u| u.feature == feature));
}

/// Names of a projection in both layers.
fn in_layers(parts: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = (0..2)
        .flat_map(|l| parts.iter().map(move |p| format!("model.layers.{l}.{p}")))
        .collect();
    names.sort();
    names
}

#[test]
fn features_of_the_config_are_refused_by_name() {
    let rotated = in_layers(&["self_attn.q_proj.weight", "self_attn.k_proj.weight"]);
    let attention = in_layers(
        &["q", "k", "v", "o"]
            .map(|p| format!("self_attn.{p}_proj.weight"))
            .each_ref()
            .map(|s| s.as_str()),
    );
    let gates = in_layers(&["mlp.gate_proj.weight"]);
    for (edit, feature, tensors) in [
        (
            json!({"rope_scaling": {"rope_type": "xpos", "factor": 8.0}}),
            "rope_scaling",
            &rotated,
        ),
        (
            json!({"rope_parameters": {"rope_type": "ntk", "rope_theta": 1e4}}),
            "rope_scaling",
            &rotated,
        ),
        (json!({"hidden_act": "gelu"}), "hidden_act", &gates),
        (json!({"sliding_window": 4096}), "sliding_window", &attention),
        (json!({"head_dim": 258}), "dimensions", &attention),
        (json!({"num_key_value_heads": 2}), "dimensions", &attention),
        (json!({"num_local_experts": 8}), "num_local_experts", &vec![]),
        (json!({"model_type": "gemma3"}), "architecture", &vec![]),
        (json!({"eos_token_id": 300}), "special tokens", &vec![]),
        (
            json!({"quantization_config": {"bits": 4}}),
            "quantised weights",
            &vec![],
        ),
    ] {
        let tensors: Vec<&str> = tensors.iter().map(String::as_str).collect();
        assert_unsupported(&with_config(edit), feature, &tensors);
    }
}

#[test]
fn biases_that_the_config_promises_must_be_there() {
    for (switch, bias) in [
        ("attention_bias", "self_attn.k_proj.bias"),
        ("mlp_bias", "mlp.down_proj.bias"),
    ] {
        let error = open_error(&with_config(json!({switch: true})));
        assert!(
            matches!(&error, CheckpointError::Missing { tensor } if tensor.ends_with(bias)),
            "{error}"
        );
    }
}

#[test]
fn other_architectures_are_refused_and_surveyed() {
    let dir = with_config(json!({"architectures": ["Olmo2ForCausalLM"], "model_type": "olmo2"}));
    let error = open_error(&dir);
    assert!(matches!(&error, CheckpointError::Architecture { found, .. } if found == "Olmo2ForCausalLM"));
    // What is missing, and what there is.
    let error = error.to_string();
    assert!(error.contains("one norm of all heads together") && error.contains("Granite 3"));
    let survey = Survey::of(dir.path()).unwrap();
    assert_eq!(survey.architecture, "Olmo2ForCausalLM");
    assert_eq!(survey.unsupported[0].feature, "architecture");
    let dir = with_config(json!({"hidden_size": null, "model_type": "bloom", "architectures": null}));
    let survey = Survey::of(dir.path()).unwrap();
    assert_eq!((survey.architecture.as_str(), survey.config), ("bloom", None));
    assert!(survey.unsupported.iter().any(|u| u.detail.contains("hidden_size")));
}

#[test]
fn foreign_tensors_are_refused_by_name() {
    for (tensor, feature) in [
        ("model.layers.0.self_attn.q_proj.bias", "attention_bias"),
        ("model.layers.1.mlp.down_proj.bias", "mlp_bias"),
        ("model.layers.1.self_attn.q_norm.weight", "qk_norm"),
        ("model.layers.0.input_layernorm.bias", "norm bias"),
        ("model.layers.0.block_sparse_moe.gate.weight", "mixture of experts"),
        ("model.layers.0.mlp.up_proj.qweight", "quantised weights"),
        ("model.layers.2.mlp.up_proj.weight", "unknown tensors"),
        ("vision_tower.patch", "unknown tensors"),
    ] {
        let dir = with_tensors(|t| {
            t.insert(tensor.to_string(), (Dtype::F32, vec![1], vec![0; 4]));
        });
        assert_unsupported(&dir, feature, &[tensor]);
    }
    let name = "model.layers.0.mlp.gate_proj.weight";
    let dir = with_tensors(|t| {
        let tensor = t.get_mut(name).unwrap();
        (tensor.0, tensor.2) = (Dtype::I8, tensor.2[..44 * 20].to_vec());
    });
    assert_unsupported(&dir, "dtype I8", &[name]);
    let dir = with_tensors(|t| {
        t.insert(
            "model.layers.0.self_attn.rotary_emb.inv_freq".to_string(),
            (Dtype::F32, vec![1], vec![0; 4]),
        );
    });
    Checkpoint::open(dir.path()).unwrap();
}

#[test]
fn unsupported_types_cannot_be_written() {
    let dir = tempfile::tempdir().unwrap();
    assert!(write_synthetic(dir.path(), &odd_config(), 1, Dtype::I8).is_err());
}
