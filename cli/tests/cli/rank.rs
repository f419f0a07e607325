//! Rerankers from a checkpoint with a tokenizer to a verdict.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{json, Value};
use tempfile::TempDir;
use tessera_samples::families::write;

use crate::args;
use crate::support::{done, fails, json as run, Shared};

const QUERY: &str = "who paints";
const DOCUMENT: &str = "a cat paints";

/// Words of letters, in the template of BERT.
fn tokenizer() -> Value {
    let specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"];
    let letters = ('a'..='z').flat_map(|c| [c.to_string(), format!("##{c}")]);
    let vocab: serde_json::Map<String, Value> = specials
        .iter()
        .map(ToString::to_string)
        .chain(letters)
        .enumerate()
        .map(|(id, token)| (token, json!(id)))
        .collect();
    let special = |(id, token): (usize, &&str)| {
        json!({"id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true})
    };
    let of = |name: &str, kind: u8| json!({"SpecialToken": {"id": name, "type_id": kind}});
    let text = |name: &str, kind: u8| json!({"Sequence": {"id": name, "type_id": kind}});
    let token = |name: &str, id: u8| json!({"id": name, "ids": [id], "tokens": [name]});
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": specials.iter().enumerate().map(special).collect::<Vec<_>>(),
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [of("[CLS]", 0), text("A", 0), of("[SEP]", 0)],
            "pair": [of("[CLS]", 0), text("A", 0), of("[SEP]", 0), text("B", 1), of("[SEP]", 1)],
            "special_tokens": {"[CLS]": token("[CLS]", 2), "[SEP]": token("[SEP]", 3)},
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocab},
    })
}

fn checkpoint(dir: &Path) -> PathBuf {
    let path = dir.join("checkpoint");
    fs::create_dir(&path).expect("a directory");
    let mut config = json!({
        "architectures": ["BertForSequenceClassification"], "model_type": "bert", "hidden_size": 36, "num_hidden_layers": 2,
        "num_attention_heads": 3, "intermediate_size": 50, "vocab_size": 60, "type_vocab_size": 2,
        "max_position_embeddings": 44, "id2label": {"0": "LABEL_0"}, "sep_token_id": 3,
        "sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid"},
    });
    write(&path, &config);
    // The tokenizer says which token it is.
    config.as_object_mut().expect("fields").remove("sep_token_id");
    fs::write(path.join("config.json"), config.to_string()).expect("a config");
    fs::write(path.join("tokenizer.json"), tokenizer().to_string()).expect("a tokenizer");
    path
}

/// The directory of a reranker with a tokenizer.
pub fn set_up(dir: &Path) -> PathBuf {
    let model = dir.join("model");
    done(args!["setup", checkpoint(dir), "--out", model, "--no-fidelity"]);
    model
}

struct Model {
    _dir: TempDir,
    checkpoint: PathBuf,
    model: PathBuf,
    proof: PathBuf,
}

fn model() -> Model {
    let dir = tempfile::tempdir().expect("a directory");
    let (checkpoint, model) = (checkpoint(dir.path()), dir.path().join("model"));
    let setup = done(args!["setup", checkpoint, "--out", model]);
    assert!(
        setup["fidelity"]["difference_worst"].as_f64().expect("a difference") < 0.05,
        "{setup}"
    );
    let proof = dir.path().join("pair.proof");
    Model {
        _dir: dir,
        checkpoint,
        model,
        proof,
    }
}

#[test]
fn a_pair_is_ranked_proved_and_verified() {
    let Model {
        checkpoint,
        model,
        proof,
        ..
    } = &model();
    let key = model.join("model.key");
    let said = done(args![
        "rank",
        "--model",
        model,
        "--query",
        QUERY,
        "--document",
        DOCUMENT
    ]);
    let ids = said["prompt_ids"].as_array().expect("ids").clone();
    assert_eq!((&ids[0], ids.iter().filter(|id| **id == 3).count()), (&json!(2), 2));
    assert_eq!(said["integers"].as_array().expect("integers").len(), 36);
    let [logit, score] = ["logits", "scores"].map(|name| said[name][0].as_f64().expect("a number"));
    assert!((score - 1.0 / (1.0 + (-logit).exp())).abs() < 1e-14);
    assert_eq!(
        (said["logits"].as_array().map(Vec::len), &said["embedding"]),
        (Some(1), &Value::Null)
    );
    let given: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let same = done(args!["rank", "--model", model, "--ids", given.join(",")]);
    assert_eq!(
        (&same["integers"], &same["scores"]),
        (&said["integers"], &said["scores"])
    );

    let proved = done(args![
        "prove", "--model", model, "--rank", QUERY, DOCUMENT, "--out", proof
    ]);
    let verified = done(args!["verify", "--key", key, proof, "--expect-pair", QUERY, DOCUMENT]);
    for name in ["prompt_ids", "integers", "logits", "scores"] {
        assert_eq!((&proved[name], &verified[name]), (&said[name], &said[name]), "{name}");
    }
    // A shorter query with the same letters, and the texts the other way round.
    for (query, document) in [("who", "paints a cat paints"), (DOCUMENT, QUERY)] {
        let (status, value) = run(args!["verify", "--key", key, proof, "--expect-pair", query, document]);
        assert_eq!((status, &value["verdict"]), (1, &json!("reject")), "{value}");
        assert!(value["reason"]
            .as_str()
            .expect("a reason")
            .contains("the prompt is not the expected one"));
    }
    let inspected = done(args!["inspect", key]);
    let output = &inspected["config"]["blocks"]["output"];
    assert_eq!(*output, json!({"Scores": {"separator": 3, "sigmoid": true}}));
    let fidelity = done(args!["fidelity", "--model", model, "--checkpoint", checkpoint]);
    assert!(
        fidelity["difference_worst"].as_f64().expect("a difference") < 0.05,
        "{fidelity}"
    );
}

#[test]
fn what_a_reranker_cannot_do_is_refused() {
    let Model { model, proof, .. } = &model();
    let separated = "who [SEP] paints";
    for (arguments, words) in [
        (
            args!["rank", "--model", model, "--query", separated, "--document", DOCUMENT],
            ["[SEP]", "must not spell"],
        ),
        (
            args!["prove", "--model", model, "--rank", separated, DOCUMENT, "--out", proof],
            ["[SEP]", "must not spell"],
        ),
        (
            args!["embed", "--model", model, "--text", QUERY],
            ["no embeddings", "tessera rank"],
        ),
        (
            args!["prove", "--model", model, "--embed", QUERY, "--out", proof],
            ["no embeddings", "--rank"],
        ),
        (
            args!["prove", "--model", model, "--prompt", QUERY, "--tokens", "3", "--out", proof],
            ["encoder", "vector"],
        ),
    ] {
        fails(arguments, &words);
    }
    // In the document it is a token like others.
    done(args![
        "rank",
        "--model",
        model,
        "--query",
        QUERY,
        "--document",
        separated
    ]);
    assert!(!proof.exists());
    let other = Shared::get();
    let pair = [QUERY, DOCUMENT];
    fails(
        args![
            "rank",
            "--model",
            other.model(),
            "--query",
            pair[0],
            "--document",
            pair[1]
        ],
        &["no reranker"],
    );
    fails(
        args![
            "prove",
            "--model",
            other.model(),
            "--rank",
            pair[0],
            pair[1],
            "--out",
            proof
        ],
        &["no reranker"],
    );
    fails(
        args![
            "verify",
            "--key",
            other.key(),
            other.proof(),
            "--expect-pair",
            pair[0],
            pair[1]
        ],
        &["no reranker"],
    );
}
