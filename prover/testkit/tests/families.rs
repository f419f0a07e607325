//! Every family of models against an independent implementation, from the checkpoint to the proof.

use serde_json::{json, Value};
use tempfile::TempDir;
use tessera::model::Model;
use tessera::setup::{setup, SetupOptions};
use tessera_checkpoint::families::FAMILIES;
use tessera_checkpoint::{gguf_architectures, Checkpoint, CheckpointError};
use tessera_circuits::model::{Blocks, Rotation, ScoreCap, WeightFormat};
use tessera_circuits::semantics::arg_max;
use tessera_float::FloatModel;
use tessera_model::forward::ForwardState;
use tessera_model::QuantisedModel;
use tessera_quantise::Strategy;
use tessera_recipe::read_key;
use tessera_samples::families::{case, cases, write, Case};
use tessera_support::progress::Silent;
use tessera_testkit::{
    capped_config, quantised, random_ids, random_model, reworked, unrooted_key, SplitMix, TestModel,
};
use tessera_verifier::key::ModelKey;
use tessera_verifier::proof::Proof;
use tessera_verifier::verify::verify;

fn written(config: &Value) -> (TempDir, Checkpoint) {
    let dir = tempfile::tempdir().expect("a directory");
    write(dir.path(), config);
    let checkpoint = Checkpoint::open(dir.path()).expect("a supported checkpoint");
    (dir, checkpoint)
}

fn integer(case: &Case) -> (TempDir, QuantisedModel) {
    let (dir, checkpoint) = written(&case.config);
    let texts: Vec<Vec<u32>> = (0..4).map(|seed| random_ids(checkpoint.config(), 24, seed)).collect();
    let (model, _) = quantised(&checkpoint, Strategy::W12, &texts).expect("a quantised model");
    (dir, model)
}

fn furthest(got: &[f32], expected: &[f32]) -> f32 {
    let pairs = got.iter().zip(expected);
    pairs.fold(0.0, |most, (a, b)| most.max((a - b).abs()))
}

#[test]
fn the_float_model_of_every_family_is_that_of_transformers() {
    for case in cases() {
        let (_dir, checkpoint) = written(&case.config);
        let logits = FloatModel::new(&checkpoint).forward(&case.ids).expect("a forward pass");
        let vocab = checkpoint.config().vocab;
        let largest = case.logits.values().flatten().fold(0f32, |m, v| m.max(v.abs()));
        for (row, expected) in &case.logits {
            assert_eq!(expected.len(), vocab, "{}", case.name);
            let off = furthest(&logits[row * vocab..][..vocab], expected);
            assert!(
                off <= 3e-5 * largest,
                "{}: row {row} is off by {off} of {largest}",
                case.name
            );
        }
    }
}

/// Units of logits are a power of two; its integers are those of the float model to a hundredth of the largest.
#[test]
fn the_integer_model_of_every_family_is_near_the_float_model() {
    for case in cases() {
        let (_dir, model) = integer(&case);
        let logits = ForwardState::new(&model).run(&case.ids, None).expect("a forward pass");
        let (vocab, unit) = (model.config.vocab, f32::powi(0.5, model.params.logit_bits));
        let largest = case.logits.values().flatten().fold(0f32, |m, v| m.max(v.abs()));
        for (row, expected) in &case.logits {
            let own = &logits[row * vocab..][..vocab];
            let off = furthest(&own.iter().map(|v| f32::from(*v) * unit).collect::<Vec<_>>(), expected);
            assert!(
                off <= 0.01 * largest,
                "{}: row {row} is off by {off} of {largest}",
                case.name
            );
        }
    }
}

#[test]
fn every_family_is_proved() {
    for case in cases() {
        let (_dir, model) = integer(&case);
        let vocab = model.config.vocab;
        // Where layers have windows, texts are three windows long.
        let rows = if model.config.windows().is_some() {
            case.ids.len()
        } else {
            6
        };
        let prompt = &case.ids[..rows];
        let logits = ForwardState::new(&model).run(prompt, None).expect("a forward pass");
        let next = arg_max(&logits[(rows - 1) * vocab..]) as u32;
        let model = TestModel::new(model);
        let layers = model.key.config.layers;
        // In two chunks, so that layers have rotations of their own there, too.
        let proof = model.prove_chunks(prompt, 2, &[1, layers - 1]);
        verify(&model.key, &proof).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        assert_eq!(proof.statement.output[0], next, "{}", case.name);
    }
}

fn refusal(name: &str, edits: Value) -> String {
    let mut config = case(name).config;
    let dir = tempfile::tempdir().expect("a directory");
    write(dir.path(), &config);
    let edits = edits.as_object().expect("fields").clone();
    config.as_object_mut().expect("fields").extend(edits);
    std::fs::write(dir.path().join("config.json"), config.to_string()).expect("a config");
    match Checkpoint::open(dir.path()) {
        Err(error @ (CheckpointError::Unsupported(_) | CheckpointError::Config { .. })) => error.to_string(),
        other => panic!("{name}: {other:?}"),
    }
}

/// Whatever a config says and nobody reads refuses the model, and the message says what helps.
#[test]
fn an_unknown_switch_refuses_the_model_by_name() {
    for case in cases() {
        for edit in [
            json!({"use_new_trick": true}),
            json!({"use_new_trick": false}),
            json!({"use_new_trick": {"a": 1}}),
        ] {
            let error = refusal(&case.name, edit);
            assert!(
                error.contains("use_new_trick") && error.contains("may compute something else"),
                "{error}"
            );
        }
    }
    // Switches of one family are unknown to another.
    for (name, edit) in [
        ("llama", json!({"sliding_window": 4096})),
        ("llama", json!({"residual_multiplier": 0.5})),
        ("phi3", json!({"logits_scaling": 2.0})),
        ("granite", json!({"attn_logit_softcapping": 30.0})),
        ("gpt2", json!({"scale_attn_by_inverse_layer_idx": true})),
        ("gpt2", json!({"activation_function": "gelu_fast"})),
        ("gpt2", json!({"n_positions": 10_000})),
        ("gpt2", json!({"n_ctx": 32})),
        ("pythia", json!({"partial_rotary_factor": 0.9})),
        ("phi", json!({"qk_layernorm": true})),
        ("stablelm", json!({"use_parallel_residual": true})),
        ("stablelm", json!({"hidden_act": "gelu"})),
        ("starcoder2", json!({"mlp_type": "gated"})),
        ("starcoder2", json!({"norm_type": "rms_norm"})),
        ("falcon", json!({"alibi": true})),
        ("falcon", json!({"new_decoder_architecture": true})),
        ("qwen2", json!({"attention_bias": false})),
        ("internlm2", json!({"attention_bias": true})),
        ("exaone", json!({"activation_function": "gelu"})),
        ("exaone", json!({"head_dim": 12})),
        ("exaone", json!({"num_hidden_layers": 3})),
        ("glm", json!({"mlp_bias": true})),
        ("glm", json!({"hidden_act": "gelu"})),
        ("cohere", json!({"use_qk_norm": true})),
        ("cohere", json!({"hidden_act": "gelu"})),
        ("cohere", json!({"rms_norm_eps": 1e-5})),
        ("cohere", json!({"sliding_window": 16})),
        ("cohere2", json!({"sliding_window": null})),
        ("cohere2", json!({"use_parallel_block": false})),
        ("cohere2", json!({"position_embedding_type": "rope"})),
        ("cohere2", json!({"layer_switch": 3, "layer_types": null})),
        (
            "cohere2",
            json!({"layer_types": ["chunked_attention", "full_attention", "full_attention", "full_attention", "full_attention"]}),
        ),
        ("cohere2", json!({"layer_types": ["full_attention"]})),
        ("mistral, heads of their own length", json!({"attention_bias": true})),
        ("gemma", json!({"hidden_activation": "quick_gelu"})),
        ("gemma", json!({"hidden_act": "silu"})),
        ("gemma", json!({"attn_logit_softcapping": 50.0})),
        ("gemma2", json!({"attn_logit_softcapping": 50.001})),
        ("gemma2", json!({"attn_logit_softcapping": 2000.0})),
        ("gemma2", json!({"attn_logit_softcapping": "50"})),
        ("gemma2", json!({"final_logit_softcapping": -30.0})),
        ("gemma2", json!({"sliding_window": null})),
        ("gemma2", json!({"use_bidirectional_attention": true})),
        (
            "gemma2",
            json!({"layer_types": ["chunked_attention", "full_attention", "full_attention"]}),
        ),
        ("gemma3", json!({"attn_logit_softcapping": 50.0})),
        ("gemma3", json!({"final_logit_softcapping": 30.0})),
    ] {
        let field = edit
            .as_object()
            .and_then(|o| o.keys().next().cloned())
            .expect("a field");
        assert!(refusal(name, edit).contains(&field), "{name}");
    }
}

/// A config that does not say so has the cap of Gemma 2; null has none.
#[test]
fn scores_are_capped_as_the_config_says() {
    let mut config = case("gemma2").config;
    let cap = |config: &Value| written(config).1.config().blocks.score_cap.map(ScoreCap::value);
    assert_eq!(cap(&config), Some(1.5));
    config["attn_logit_softcapping"] = Value::Null;
    assert_eq!(cap(&config), None);
    let fields = config.as_object_mut().expect("fields");
    fields.remove("attn_logit_softcapping");
    fields.remove("sliding_window");
    fields.insert("max_position_embeddings".to_string(), json!(8192));
    assert_eq!(
        (cap(&config), windows(&config)),
        (Some(50.0), vec![Some(4096), None, Some(4096)])
    );
}

/// What is wrong with rotations is named, and so is what they cannot be.
#[test]
fn rotations_that_cannot_be_read_are_refused_by_name() {
    let scaling = |fields: Value| json!({ "rope_scaling": fields });
    let lists = |short: usize, long: usize| {
        scaling(json!({"type": "longrope", "short_factor": vec![1.5; short], "long_factor": vec![2.0; long]}))
    };
    let phi = "phi3, longrope and heads rotated in part";
    for (name, edit, words) in [
        (
            "llama",
            scaling(json!({"rope_type": "xpos", "factor": 2.0})),
            "xpos is none of",
        ),
        (
            "llama",
            scaling(json!({"rope_type": "linear"})),
            "rope_scaling.factor: missing",
        ),
        (
            "llama",
            scaling(json!({"rope_type": "dynamic"})),
            "rope_scaling.factor: missing",
        ),
        ("llama", scaling(json!({"factor": 2.0})), "no rope_type"),
        (
            "llama",
            scaling(json!({"rope_type": "linear", "factor": 2.0, "ntk_alpha": 3})),
            "rope_scaling.ntk_alpha",
        ),
        (
            "llama",
            scaling(json!({"rope_type": "linear", "factor": -2.0})),
            "not a positive number",
        ),
        ("llama", scaling(json!("linear")), "rope_scaling: not an object"),
        (
            "llama",
            scaling(
                json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 1.0,
                "original_max_position_embeddings": 64}),
            ),
            "is not below high_freq_factor",
        ),
        ("llama", json!({"partial_rotary_factor": 0.3}), "3 of 10 channels"),
        ("llama", json!({"partial_rotary_factor": 1.2}), "12 of 10 channels"),
        (
            "phi3",
            scaling(json!({"type": "yarn", "factor": 2.0})),
            "yarn is neither default nor longrope",
        ),
        (phi, lists(5, 6), "short_factor: 5 numbers, but 6 pairs"),
        (phi, lists(6, 7), "long_factor: 7 numbers, but 6 pairs"),
        (
            "smollm3",
            json!({"no_rope_layers": [1, 0]}),
            "no_rope_layers: 2 numbers, but the model has 5 layers",
        ),
        ("smollm3", json!({"use_sliding_window": "yes"}), "not true or false"),
    ] {
        let error = refusal(name, edit);
        assert!(error.contains(words), "{error}");
    }
}

/// Nothing is made of a size that a config says before it is known to be that of a model.
#[test]
fn absurd_dimensions_are_refused_by_name() {
    for (name, field) in [
        ("llama", "head_dim"),
        ("llama3 scaling, tied", "head_dim"),
        ("yarn scaling", "head_dim"),
        ("smollm3", "num_hidden_layers"),
        ("granite", "hidden_size"),
        ("phi3", "intermediate_size"),
    ] {
        let mut edit = json!({ field: 1u64 << 60 });
        if field == "num_hidden_layers" {
            edit["no_rope_layers"] = Value::Null;
        }
        let error = refusal(name, edit);
        assert!(error.contains("dimensions") && error.contains(field), "{name}: {error}");
    }
}

/// Beyond the short texts of longrope all rows are rotated otherwise.
#[test]
fn longrope_bounds_the_length_of_texts() {
    let (_dir, checkpoint) = written(&case("phi3, longrope and heads rotated in part").config);
    assert_eq!(checkpoint.config().context, 32);
    assert!(checkpoint.description().notes[0].contains("at most 32 token rows"));
}

/// The windows of the layers of a config, whose texts are as long as it says.
fn windows(config: &Value) -> Vec<Option<usize>> {
    let (_dir, checkpoint) = written(config);
    let own = checkpoint.config();
    assert_eq!(config["max_position_embeddings"], json!(own.context));
    (0..own.layers).map(|layer| own.window(layer)).collect()
}

/// Texts may be longer than the window; a window that no text is longer than is none.
#[test]
fn windows_are_those_of_the_config() {
    let mut config = case("mistral, heads of their own length").config;
    for (window, own) in [
        (json!(5), Some(5)),
        (json!(63), Some(63)),
        (json!(64), None),
        (json!(1000), None),
        (Value::Null, None),
    ] {
        config["sliding_window"] = window;
        assert_eq!(windows(&config), [own; 3]);
    }
    // Where programs differ in which layers have it, texts are as short as the window.
    config["sliding_window"] = json!(5);
    config["layer_types"] = json!(["sliding_attention", "full_attention", "sliding_attention"]);
    let (_dir, checkpoint) = written(&config);
    assert_eq!(checkpoint.config().context, 5);
    assert_eq!(checkpoint.description().notes.len(), 1);
    let ids = random_ids(checkpoint.config(), 6, 1);
    assert!(FloatModel::new(&checkpoint).forward(&ids).is_err());
    // Nothing said is not null: these families have a window then, too.
    for name in ["mistral, heads of their own length", "cohere2"] {
        let mut config = case(name).config;
        config["max_position_embeddings"] = json!(8192);
        config.as_object_mut().expect("fields").remove("sliding_window");
        let windows = windows(&config);
        // Where the config lists kinds of layers, one of them sees all keys.
        let listed = config.get("layer_types").is_some();
        assert!(
            windows.iter().all(|own| *own == Some(4096) || own.is_none() && listed),
            "{windows:?}"
        );
        assert!(windows.contains(&Some(4096)));
    }
}

fn python(script: &str, arguments: &[&std::ffi::OsStr]) -> std::process::Output {
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(script);
    let output = std::process::Command::new("python3")
        .arg(script)
        .args(arguments)
        .output();
    output.expect("python3 runs")
}

// `.ci/nightly` installs numpy and runs it; a plain `cargo test` must pass with rustup alone.
#[test]
#[ignore = "needs python3 with numpy, which .ci/nightly has: cargo test -- --ignored"]
fn the_independent_implementations_agree_on_every_family() {
    for case in cases() {
        let (dir, checkpoint) = written(&case.config);
        let out = dir.path().join("model");
        let options = SetupOptions {
            skip_fidelity: true,
            ..SetupOptions::default()
        };
        setup(dir.path(), &out, &options, &Silent).expect("a model directory");
        let model = Model::open(&out).expect("the model directory");
        // The forward pass, bit for bit.
        let logits = ForwardState::new(&model.quantised)
            .run(&case.ids, None)
            .expect("a forward pass");
        let ids: Vec<String> = case.ids.iter().map(u32::to_string).collect();
        let (ids, file) = (ids.join(","), dir.path().join("logits"));
        let arguments = [
            out.as_os_str(),
            "--ids".as_ref(),
            ids.as_ref(),
            "--logits-out".as_ref(),
            file.as_os_str(),
        ];
        let output = python("reference.py", &arguments);
        assert!(output.status.success(), "{}: {output:?}", case.name);
        let bytes: Vec<u8> = logits.iter().flat_map(|v| v.to_le_bytes()).collect();
        assert!(
            std::fs::read(&file).expect("logits") == bytes,
            "{}: the logits differ",
            case.name
        );
        // A proof in chunks, and one whose layers have other rotations.
        let mut model = TestModel::new(model.quantised.clone());
        let layers = checkpoint.config().layers;
        let proof = model.prove_chunks(&case.ids[..5], 2, &[1, layers - 1]);
        let verdict = |key: &[u8], proof: &[u8]| {
            let paths = ["key", "proof"].map(|name| dir.path().join(name));
            for (path, content) in paths.iter().zip([key, proof]) {
                std::fs::write(path, content).expect("a file");
            }
            let [key, proof] = paths.each_ref().map(|path| path.as_os_str());
            python("verify.py", &[key, proof])
        };
        let bytes = |proof: &Proof| proof.to_bytes().expect("the proof encodes");
        let output = verdict(&model.key.to_bytes().expect("the key encodes"), &bytes(&proof));
        assert!(output.status.success(), "{}: {output:?}", case.name);
        let half = checkpoint.config().head_dim / 2;
        model.key.config.rotations[0] = Rotation::Frequencies(vec![0.125; half]);
        let mut other = proof;
        other.model = model.key.id().expect("the key encodes");
        let other = reworked(&model.key, other);
        let output = verdict(&model.key.to_bytes().expect("the key encodes"), &bytes(&other));
        assert_eq!(output.status.code(), Some(1), "{}: {output:?}", case.name);
        assert!(verify(&model.key, &other).is_err(), "{}", case.name);
    }
}

/// `model.json` says of every frequency exactly what the key says: otherwise the model could not be opened.
#[test]
fn frequencies_are_written_and_read_exactly() {
    let mut rng = SplitMix(1);
    let all = (0..20_000).map(|_| (rng.next_u64() >> 11) as f64 / f64::powi(2.0, 53 + rng.below(40) as i32));
    let rotation = Rotation::Frequencies(all.collect());
    let text = serde_json::to_string(&rotation).expect("JSON");
    assert_eq!(serde_json::from_str::<Rotation>(&text).expect("a rotation"), rotation);
}

/// A cap is an option of a key: a byte says whether there is one.
#[test]
fn caps_are_written_and_read_exactly() {
    let capped = Blocks {
        norm_outputs: true,
        score_cap: Some(ScoreCap::new(50.0).expect("a cap")),
        ..Blocks::DECODER
    };
    let mut key = unrooted_key(&random_model(capped_config(), WeightFormat::Int8, 5));
    key.config.blocks = capped;
    let bytes = key.to_bytes().expect("the key encodes");
    assert_eq!(ModelKey::from_bytes(&bytes).expect("a key"), key);
    // Outputs are normed, there is a cap, and this one, where they stand in the file: without a cap four bytes are too many.
    let own = [&[1, 1][..], &12_800u32.to_le_bytes()].concat();
    let at = bytes.windows(6).position(|w| w == own).expect("the cap");
    for (place, byte) in [(at, 0), (at + 1, 0), (at + 1, 2), (at + 5, 1)] {
        let mut other = bytes.clone();
        other[place] = byte;
        // The verifier reads what follows as a recipe, so it refuses the key, or has another one, whose recipe nobody can read.
        let read = ModelKey::from_bytes(&other);
        assert!(
            read.is_err() || read.is_ok_and(|k| k.id() != key.id()),
            "byte {place} is {byte}"
        );
        assert!(read_key(&other).is_err(), "byte {place} is {byte}");
    }
    key.config.blocks = Blocks {
        norm_outputs: true,
        ..Blocks::DECODER
    };
    assert_eq!(key.to_bytes().expect("the key encodes").len() + 4, bytes.len());
}

/// What README says of models is what there is.
#[test]
fn the_readme_lists_every_family() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let readme = std::fs::read_to_string(path).expect("the README");
    let rows = FAMILIES.map(|f| format!("| {} | `{}` |\n", f.models, f.architecture));
    let table = format!("| models | `architectures` |\n|---|---|\n{}", rows.concat());
    assert!(readme.contains(&table), "README.md should have\n{table}");
    let architectures: Vec<String> = gguf_architectures().iter().map(|a| format!("`{a}`")).collect();
    let (last, others) = architectures.split_last().expect("architectures");
    let line = format!("GGUF files of the architectures {} and {last}", others.join(", "));
    for document in ["README.md", "docs/faq.md", "docs/format.md"] {
        let path = format!("{}/../../{document}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).expect("a document");
        let words: Vec<&str> = text.split_whitespace().collect();
        assert!(words.join(" ").contains(&line), "{document} should have: {line}");
    }
}
