//! Folders and files as people bring them.

use std::fs;
use std::path::Path;

use safetensors::tensor::Dtype;
use serde_json::{json, Value};
use tempfile::TempDir;

use super::{open_error, plain, synthetic, with_config, with_tensors};
use crate::{Checkpoint, CheckpointError, Survey, EMBED, HEAD};
use tessera_synthetic::Layout;

/// A checkpoint whose config says that the head is the embedding, with a head that was changed.
fn tied(edit: impl FnOnce(&mut Vec<usize>, &mut Vec<u8>)) -> TempDir {
    let dir = with_tensors(|tensors| {
        let (dtype, mut shape, mut bytes) = tensors[EMBED].clone();
        edit(&mut shape, &mut bytes);
        tensors.insert(HEAD.to_owned(), (dtype, shape, bytes));
    });
    let path = dir.path().join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    config["tie_word_embeddings"] = json!(true);
    fs::write(&path, config.to_string()).unwrap();
    dir
}

#[test]
fn a_tied_head_with_other_values_is_the_head_and_is_said_to_be() {
    let same = tied(|_, _| {});
    let checkpoint = Checkpoint::open(same.path()).unwrap();
    assert!(checkpoint.tied() && checkpoint.description().notes.is_empty());

    let other = tied(|_, bytes| bytes[3] ^= 1);
    let checkpoint = Checkpoint::open(other.path()).unwrap();
    assert!(!checkpoint.tied());
    assert_ne!(checkpoint.values(HEAD).unwrap(), checkpoint.values(EMBED).unwrap());
    let survey = Survey::of(other.path()).unwrap();
    assert!(survey.is_supported() && !survey.tied_embeddings);
    assert!(
        survey
            .notes
            .iter()
            .any(|note| note.contains("lm_head.weight has other values")),
        "{survey:?}"
    );

    let short = tied(|shape, bytes| {
        let width = shape[1];
        shape[0] -= 1;
        bytes.truncate(bytes.len() - 4 * width);
    });
    let error = open_error(&short);
    assert!(
        matches!(&error, CheckpointError::Shape { tensor, .. } if tensor == HEAD),
        "{error}"
    );
    let survey = Survey::of(short.path()).unwrap();
    assert!(survey.misshapen[0].contains("lm_head.weight has shape"), "{survey:?}");
}

#[test]
fn two_tensors_for_one_place_are_refused_with_both_names() {
    let add = |edit: fn(&mut Vec<u8>)| {
        with_tensors(|tensors| {
            for (own, other) in [
                ("model.norm.weight", "norm.weight"),
                (
                    "model.layers.1.mlp.up_proj.weight",
                    "transformer.layers.1.mlp.up_proj.weight",
                ),
            ] {
                let (dtype, shape, mut bytes) = tensors[own].clone();
                edit(&mut bytes);
                tensors.insert(other.to_owned(), (dtype, shape, bytes));
            }
        })
    };
    let error = open_error(&add(|bytes| bytes[0] ^= 1)).to_string();
    for name in [
        "model.norm.weight",
        "transformer.layers.1.mlp.up_proj.weight",
        "two tensors for one place",
    ] {
        assert!(error.contains(name), "{error}");
    }
    Checkpoint::open(add(|_| {}).path()).unwrap();
}

#[test]
fn shards_have_what_they_have_whatever_their_index_says() {
    let layout = Layout {
        shards: 2,
        ..Layout::default()
    };
    let dir = synthetic(layout);
    let values = Checkpoint::open(dir.path()).unwrap().values(EMBED).unwrap();
    let path = dir.path().join("model.safetensors.index.json");
    let good: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    // transformers reads all tensors of all files that the index names.
    let mut index = good.clone();
    let map = index["weight_map"].as_object_mut().unwrap();
    map.insert("lm_head.weight".to_owned(), map[EMBED].clone());
    map.remove(EMBED);
    fs::write(&path, index.to_string()).unwrap();
    assert_eq!(Checkpoint::open(dir.path()).unwrap().values(EMBED).unwrap(), values);
    // One tensor in both files.
    let [one, two] = [1, 2].map(|i| dir.path().join(format!("model-0000{i}-of-00002.safetensors")));
    fs::copy(&one, &two).unwrap();
    fs::write(&path, good.to_string()).unwrap();
    let error = open_error(&dir).to_string();
    assert!(
        error.contains("model-00001") && error.contains("model-00002"),
        "{error}"
    );
}

/// Surveys a plain checkpoint whose files were changed.
fn said(edit: impl FnOnce(&Path)) -> String {
    let dir = plain();
    edit(dir.path());
    open_error(&dir).to_string()
}

fn rename(dir: &Path, name: &str) {
    fs::rename(dir.join("model.safetensors"), dir.join(name)).unwrap();
}

fn touch(dir: &Path, names: &[&str]) {
    for name in names {
        fs::write(dir.join(name), "x").unwrap();
    }
}

#[test]
fn what_is_no_checkpoint_is_said_to_be_what_it_is() {
    let gone = |dir: &Path, name: &str| fs::remove_file(dir.join(name)).unwrap();
    type Edit<'a> = &'a dyn Fn(&Path);
    let cases: [(Edit<'_>, &[&str]); 11] = [
        (
            &|dir| rename(dir, "model-00001-of-00002.safetensors"),
            &["one of several shards", "index.json is missing"],
        ),
        (
            &|dir| rename(dir, "consolidated.safetensors"),
            &["consolidated.safetensors", "has not the name model.safetensors"],
        ),
        (
            &|dir| rename(dir, "pytorch_model.bin"),
            &["pytorch_model.bin", "PyTorch"],
        ),
        (&|dir| rename(dir, "tf_model.h5"), &["tf_model.h5", "another program"]),
        (
            &|dir| rename(dir, "adapter_model.safetensors"),
            &["LoRA adapter", "merge_and_unload"],
        ),
        (&|dir| rename(dir, "a.gguf"), &["GGUF files", "a.gguf"]),
        (&|dir| gone(dir, "model.safetensors"), &["has no weights"]),
        (
            &|dir| gone(dir, "config.json"),
            &["model.safetensors has no config.json"],
        ),
        (
            &|dir| {
                gone(dir, "config.json");
                gone(dir, "model.safetensors");
                touch(dir, &["b.gguf", "a.gguf"]);
            },
            &["GGUF files", "a.gguf, b.gguf"],
        ),
        (
            &|dir| {
                gone(dir, "config.json");
                touch(dir, &["adapter_config.json"]);
            },
            &["LoRA adapter"],
        ),
        (
            &|dir| {
                gone(dir, "config.json");
                gone(dir, "model.safetensors");
                fs::create_dir_all(dir.join("snapshots/0a")).unwrap();
                fs::create_dir_all(dir.join("snapshots/0b")).unwrap();
                fs::create_dir_all(dir.join("refs")).unwrap();
                fs::write(dir.join("refs/main"), "0b").unwrap();
            },
            &["root of a cached repository", "snapshots/0b"],
        ),
    ];
    for (edit, words) in cases {
        let said = said(edit);
        assert!(words.iter().all(|word| said.contains(word)), "{words:?}: {said}");
    }
}

#[test]
fn a_file_in_place_of_its_folder_is_answered_with_the_folder() {
    let dir = plain();
    for (name, words) in [
        ("model.safetensors", "give its folder"),
        ("config.json", "give the folder"),
    ] {
        let error = Checkpoint::open(&dir.path().join(name)).unwrap_err().to_string();
        assert!(
            error.contains(words) && error.contains(&dir.path().display().to_string()),
            "{error}"
        );
    }
}

#[cfg(unix)]
#[test]
fn a_snapshot_of_links_is_read_and_a_link_to_nowhere_is_named() {
    let (blobs, dir) = (plain(), tempfile::tempdir().unwrap());
    for name in ["config.json", "model.safetensors"] {
        std::os::unix::fs::symlink(blobs.path().join(name), dir.path().join(name)).unwrap();
    }
    Checkpoint::open(dir.path()).unwrap();
    for name in ["model.safetensors", "config.json"] {
        fs::remove_file(blobs.path().join(name)).unwrap();
        let error = open_error(&dir).to_string();
        assert!(
            error.contains(&format!("{name} is a link to")) && error.contains("is missing"),
            "{error}"
        );
    }
}

#[test]
fn a_config_without_weights_is_surveyed() {
    let dir = plain();
    let whole = Survey::of(dir.path()).unwrap();
    fs::remove_file(dir.path().join("model.safetensors")).unwrap();
    let survey = Survey::of(dir.path()).unwrap();
    assert!(whole.weights && !survey.weights && !survey.is_supported());
    assert_eq!(survey.config, whole.config);
    assert!(survey.missing.is_empty() && survey.tensors.is_empty() && survey.unsupported.is_empty());
    assert!(matches!(open_error(&dir), CheckpointError::NoWeights { .. }));
}

#[test]
fn a_tokenizer_of_sentencepiece_alone_is_noted_with_what_helps() {
    let dir = plain();
    fs::remove_file(dir.path().join("tokenizer.json")).unwrap();
    fs::write(dir.path().join("tokenizer.model"), "x").unwrap();
    let survey = Survey::of(dir.path()).unwrap();
    let noted = |survey: &Survey| {
        survey
            .notes
            .iter()
            .any(|note| note.contains("tokenizer.model is not read"))
    };
    assert!(noted(&survey), "{survey:?}");
    fs::remove_file(dir.path().join("tokenizer.model")).unwrap();
    assert!(!noted(&Survey::of(dir.path()).unwrap()));
}

#[test]
fn infinity_is_harmless_where_the_field_is_and_named_where_it_is_not() {
    let dir = plain();
    let path = dir.path().join("config.json");
    let config = fs::read_to_string(&path).unwrap();
    let with = |field: &str| fs::write(&path, config.replacen('{', &format!("{{{field},"), 1)).unwrap();
    with("\"initializer_range\": NaN, \"task_specific_params\": {\"a\": [Infinity, -Infinity]}");
    Checkpoint::open(dir.path()).unwrap();
    with("\"partial_rotary_factor\": Infinity");
    let error = open_error(&dir).to_string();
    assert!(
        error.contains("partial_rotary_factor: \"Infinity\" is not a positive number"),
        "{error}"
    );
    fs::write(&path, format!("\u{feff}{config}")).unwrap();
    let error = open_error(&dir).to_string();
    assert!(
        error.contains("byte order mark") && !error.contains("download"),
        "{error}"
    );
}

#[test]
fn models_inside_of_others_are_refused_for_what_they_lack() {
    for (name, words) in [
        ("Gemma3ForConditionalGeneration", "the text model alone"),
        ("Mistral3ForConditionalGeneration", "images are missing"),
    ] {
        let dir = with_config(json!({"architectures": [name], "text_config": {"hidden_size": 64}}));
        let error = open_error(&dir).to_string();
        assert!(error.contains(name) && error.contains(words), "{error}");
    }
}

#[test]
fn harmless_constants_may_be_there_and_other_heads_may_not() {
    let with = |name: &str| {
        with_tensors(|tensors| {
            tensors.insert(name.to_owned(), (Dtype::F32, vec![1], vec![0; 4]));
        })
    };
    for name in [
        "model.layers.0.self_attn.rotary_emb.inv_freq",
        "model.layers.1.attn.masked_bias",
    ] {
        Checkpoint::open(with(name).path()).unwrap();
    }
    for name in [
        "model.lm_head.weight",
        "transformer.lm_head.weight",
        "score.weight",
        "lm_head.bias",
    ] {
        let error = open_error(&with(name)).to_string();
        assert!(error.contains(name), "{error}");
    }
}
