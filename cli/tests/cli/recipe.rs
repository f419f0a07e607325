//! What a key says of its model beside the model: how it was made, and how close it is to its checkpoint.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::tempdir;
use tessera::recipe::{read_key, Recipe};
use tessera::verifier::codec::encode_part;

use crate::args;
use crate::support::{copy_dir, done, edited_checkpoint, fails, json, Shared, CHECKPOINT, GOLDEN};

fn number(report: &Value, name: &str) -> f64 {
    report[name]
        .as_f64()
        .unwrap_or_else(|| panic!("no number {name} in {report}"))
}

/// The floor of the bundled model: on its own texts, and on those that no scale was chosen by.
#[test]
fn tinystories_is_faithful_and_its_key_says_so() {
    let shared = Shared::get();
    let set_up = &shared.setup["fidelity"];
    assert_eq!(set_up["class"], "faithful", "{set_up}");
    assert!(
        number(set_up, "kl") <= 8e-5 && number(set_up, "top1") >= 0.985,
        "{set_up}"
    );
    assert_eq!(set_up["text"], "bundled held-out text 1");
    let inspected = done(args!["inspect", shared.key()]);
    assert_eq!(&inspected["recipe"]["fidelity"], set_up);
    let measured = done(args!["fidelity", "--model", shared.model(), "--checkpoint", CHECKPOINT]);
    for figure in [
        "kl",
        "kl_p99",
        "kl_worst",
        "top1",
        "perplexity_ratio",
        "kl_bfloat16",
        "top1_bfloat16",
    ] {
        assert_eq!(measured[figure], set_up[figure], "{figure}");
    }
    // Rounding to bfloat16 does more harm than this quantisation.
    assert!(number(&measured, "kl") < number(&measured, "kl_bfloat16"), "{measured}");
    let (p99, worst) = (number(&measured, "kl_p99"), number(&measured, "kl_worst"));
    assert!(number(&measured, "kl") <= p99 && p99 <= worst, "{measured}");
    let worst = &measured["worst"];
    assert!(worst["token_text"].is_string() && worst["text"].is_u64(), "{worst}");
    let golden = done(args![
        "fidelity",
        "--model",
        shared.model(),
        "--checkpoint",
        CHECKPOINT,
        "--text",
        GOLDEN
    ]);
    assert!(
        number(&golden, "kl") <= 5e-5 && golden["class"] == "faithful",
        "{golden}"
    );
}

/// Users can compare what a key lists with what a hub shows.
#[test]
fn a_key_lists_the_files_and_options_that_it_was_made_from() {
    let shared = Shared::get();
    let recipe = &done(args!["inspect", shared.key()])["recipe"];
    assert_eq!(recipe["settings"]["strategy"], "auto");
    assert_eq!(recipe["calibration"]["text"], "bundled calibration text 2");
    let files = recipe["files"].as_array().unwrap();
    let weights = files.iter().find(|f| f["name"] == "model.safetensors").unwrap();
    assert_eq!(
        weights["sha256"],
        "187d0d5e8360d9625e40e0b35ec57d1ef0eea1a60ddcf09412246bed3484852f"
    );
    assert!(files.iter().any(|f| f["name"] == "config.json" && f["bytes"] == 649));
}

/// A recipe is shown in terminals, so every command refuses a key whose recipe moves a cursor, whether it shows the recipe or not.
#[test]
fn a_key_whose_recipe_cannot_be_shown_is_refused_by_every_command() {
    let (shared, dir) = (Shared::get(), tempdir().unwrap());
    let model = dir.path().join("model");
    shared.copy_model(&model);
    let path = model.join("model.key");
    let (mut key, recipe) = read_key(&fs::read(&path).unwrap()).unwrap();
    let hostile = Recipe {
        tool: "\u{1b}[2J".to_owned(),
        ..recipe
    };
    key.recipe = encode_part(&hostile).unwrap();
    fs::write(&path, key.to_bytes().unwrap()).unwrap();
    for command in [
        args!["inspect", path],
        args!["inspect", model],
        args!["inspect", model, "--against", CHECKPOINT],
        args!["verify", "--key", path, shared.proof()],
        args!["generate", "--model", model, "--prompt", "Once", "--tokens", "1"],
    ] {
        let words = [
            "model.key: model key: the recipe's tool holds a control character",
            "the file is damaged",
        ];
        fails(command, &words);
    }
}

/// Room for larger values makes another model, which says so and is made again by its recipe; too little room is refused by value.
#[test]
fn headroom_is_chosen_and_told() {
    let dir = tempdir().unwrap();
    let out = |name: &str| dir.path().join(name);
    let wide = done(args![
        "setup",
        CHECKPOINT,
        "--out",
        out("wide"),
        "--no-fidelity",
        "--headroom",
        "4"
    ]);
    assert_ne!(wide["model_id"], Shared::get().setup["model_id"]);
    let told = done(args!["inspect", out("wide").join("model.key")]);
    assert_eq!(told["recipe"]["settings"]["headroom"], "4", "{told}");
    let same = done(args!["inspect", out("wide"), "--against", CHECKPOINT]);
    assert_eq!(same["agrees"], true, "{same}");
    for factor in ["0.5", "NaN", "1001"] {
        let setup = args!["setup", CHECKPOINT, "--out", out("none"), "--headroom", factor];
        fails(setup, &["headroom", factor, "1..=1000"]);
        assert!(!out("none").exists());
    }
}

#[test]
fn a_private_recipe_tells_neither_files_nor_texts_nor_figures_and_is_the_same_model() {
    let (shared, dir) = (Shared::get(), tempdir().unwrap());
    let text = dir.path().join("text");
    fs::write(&text, "A text that nobody else has. It is about a cat and a dog.").unwrap();
    let set_up = |name: &str, options: &[&str]| {
        let mut args = args![
            "setup",
            CHECKPOINT,
            "--out",
            dir.path().join(name),
            "--calibration",
            text
        ];
        args.extend(options.iter().map(Into::into));
        let report = done(args);
        (
            report,
            done(args!["inspect", dir.path().join(name).join("model.key")])["recipe"].clone(),
        )
    };
    let (open, told) = set_up("open", &[]);
    let (private, kept) = set_up("private", &["--private-recipe"]);
    let (unmeasured, why) = set_up("unmeasured", &["--no-fidelity"]);
    assert_eq!(open["model_id"], private["model_id"]);
    assert_eq!(open["model_id"], unmeasured["model_id"]);
    assert_ne!(open["model_id"], shared.setup["model_id"]);
    assert_ne!(told["digest"], kept["digest"]);
    assert!(told["calibration"]["sha256"].is_string() && told["files"].is_array());
    assert!(kept["calibration"]["sha256"].is_null() && kept["files"].is_null() && kept["fidelity"].is_null());
    // Whoever set it up is told all the same.
    assert_eq!(private["fidelity"], open["fidelity"]);
    assert_eq!(why["fidelity"]["measured"], false);
    assert_eq!(unmeasured["fidelity"]["reason"], "it was not asked for");
    assert_eq!(told["calibration"]["text"], "file");
    fails(
        args!["inspect", dir.path().join("open"), "--against", CHECKPOINT],
        &["calibrated on a text of its own", "--calibration"],
    );
    let same = done(args![
        "inspect",
        dir.path().join("open"),
        "--against",
        CHECKPOINT,
        "--calibration",
        text
    ]);
    assert_eq!(same["agrees"], true, "{same}");
}

#[test]
fn a_key_is_compared_with_the_checkpoint_that_it_is_said_to_be_of() {
    let (shared, dir) = (Shared::get(), tempdir().unwrap());
    let same = done(args!["inspect", shared.key(), "--against", CHECKPOINT]);
    assert_eq!(same["agrees"], true);
    assert_eq!(same["recomputed_model_id"], shared.setup["model_id"]);
    assert_eq!(same["other_files"], Value::Array(Vec::new()));
    // One bit of one weight, far from the largest of its matrix.
    let other = edited_checkpoint(dir.path(), |header, data| {
        let tensor = &header["model.layers.1.mlp.up_proj.weight"]["data_offsets"];
        let at = tensor[0].as_u64().unwrap() as usize + 4 * 77;
        data[at + 2] ^= 0x40;
    });
    let (status, report) = json(args!["inspect", shared.key(), "--against", other]);
    assert_eq!((status, &report["agrees"]), (1, &Value::Bool(false)), "{report}");
    let parts = &report["parts"];
    assert_eq!(
        (&parts["dimensions"], &parts["tokenizer"]),
        (&Value::Bool(true), &Value::Bool(true))
    );
    assert_eq!(parts["weights_root"], false, "{report}");
    assert!(
        report["other_files"].to_string().contains("model.safetensors"),
        "{report}"
    );
    // Another tokenizer is another model, too.
    let copied = dir.path().join("copied");
    copy_dir(Path::new(CHECKPOINT), &copied);
    let config = copied.join("tokenizer_config.json");
    fs::write(&config, fs::read_to_string(&config).unwrap() + " ").unwrap();
    let (status, report) = json(args!["inspect", shared.key(), "--against", copied]);
    let parts = &report["parts"];
    assert_eq!(
        (status, &parts["tokenizer"], &parts["weights_root"]),
        (1, &Value::Bool(false), &Value::Bool(true))
    );
}

#[test]
fn a_key_is_compared_with_a_checkpoint_and_with_nothing_else() {
    let shared = Shared::get();
    let against = |key: &Path, other: &Path| args!["inspect", key, "--against", other];
    for key in [shared.key(), shared.model()] {
        fails(
            against(&key, &shared.model()),
            &["is a model directory", "give the checkpoint that it was made from"],
        );
        fails(against(&key, &shared.proof()), &["is a proof, not a checkpoint"]);
    }
    fails(
        against(CHECKPOINT.as_ref(), CHECKPOINT.as_ref()),
        &["is a checkpoint, not a model directory"],
    );
    fails(
        against(&shared.proof(), CHECKPOINT.as_ref()),
        &["is a proof, not a model key"],
    );
}
