//! What `inspect` predicts does not depend on which form of a model it looks at.

use std::fs;
use std::path::Path;

use serde_json::{json, Value};
use tempfile::tempdir;
use tessera::support::progress::Silent;
use tessera::synthetic::write_shape;

use crate::args;
use crate::support::{done, fails, tessera, Shared, CHECKPOINT, PROMPT};

/// What must be the same of a checkpoint, its `config.json`, its model directory and its key.
fn prospects(report: &Value) -> Value {
    let names = [
        "tokens",
        "prove_seconds",
        "memory_bytes",
        "proof_bytes",
        "verify_seconds",
    ];
    let costs = names.map(|name| report["predicted"][name].clone());
    json!({
        "provable": report["provable"],
        "security_bits": report["security_bits"],
        "most_tokens_in_one_piece": report["most_tokens_in_one_piece"],
        "fewest_chunks": report["fewest_chunks"],
        "predicted": costs,
    })
}

/// The gas of contracts, or why there is none.
fn gas(report: &Value) -> [Value; 3] {
    ["gas", "gas_output_tokens", "gas_unavailable"].map(|name| report["predicted"][name].clone())
}

/// `inspect` of every form of a model, with `--tokens`: what all forms agree on, and the gas of the key and of the checkpoint.
fn agree(forms: &[&Path], tokens: &str, more: &[&str]) -> (Value, [Value; 2]) {
    let inspect = |path: &&Path| {
        let mut args = args!["inspect", path, "--tokens", tokens];
        if path.join("config.json").exists() || path.ends_with("config.json") {
            args.extend(more.iter().map(Into::into));
        }
        done(args)
    };
    let reports: Vec<Value> = forms.iter().map(inspect).collect();
    for (form, other) in forms.iter().zip(&reports) {
        let all = prospects(&reports[0]);
        assert_eq!(prospects(other), all, "{} and {}", form.display(), forms[0].display());
    }
    // The shifts of a key decide its gas, so all forms with a key agree, and all without one.
    let gases = [true, false].map(|known| {
        let own = reports
            .iter()
            .filter(|report| report["predicted"]["gas_follows_from_key"] == known);
        let gases: Vec<_> = own.map(gas).collect();
        assert!(gases.len() > 1 && gases.iter().all(|gas| *gas == gases[0]), "{gases:?}");
        gases[0].clone()
    });
    if !more.contains(&"keccak") {
        assert!(gases[0][0].is_null() && gases[0] == gases[1], "{gases:?}");
    }
    (prospects(&reports[0]), gases.map(|[gas, ..]| gas))
}

/// A config that lies alone in a directory.
fn alone(config: &Path, dir: &Path) {
    fs::create_dir(dir).expect("a directory");
    fs::copy(config, dir.join("config.json")).expect("a copy");
}

const ARCHITECTURES: [&str; 12] = [
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "Phi3ForCausalLM",
    "GraniteForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
    "Gemma2ForCausalLM",
    "GPT2LMHeadModel",
    "GPTNeoXForCausalLM",
    "StableLmForCausalLM",
    "BertModel",
    "XLMRobertaForSequenceClassification",
];

#[test]
fn the_four_forms_of_a_model_have_one_prediction() {
    let file = Path::new(CHECKPOINT).join("../configs.json");
    let configs: Value = serde_json::from_slice(&fs::read(file).expect("configs")).expect("JSON");
    let families = configs["families"].as_array().expect("a list");
    for architecture in ARCHITECTURES {
        let own = |family: &&Value| family["given"]["architectures"] == json!([architecture]);
        let config = &families.iter().find(own).expect(architecture)["given"];
        let dir = tempdir().unwrap();
        let [checkpoint, config_alone, model] = ["checkpoint", "config", "model"].map(|name| dir.path().join(name));
        write_shape(&checkpoint, config, 1, &Silent).expect(architecture);
        alone(&checkpoint.join("config.json"), &config_alone);
        let hash = ["--hash", "keccak"];
        let mut setup = args!["setup", checkpoint, "--out", model, "--no-fidelity"];
        setup.extend(hash.map(Into::into));
        done(setup);
        let config_file = config_alone.join("config.json");
        let key = model.join("model.key");
        for tokens in ["2", "33", "100000"] {
            let forms = [&*checkpoint, &*config_alone, &*config_file, &*model, &*key];
            let (common, gases) = agree(&forms, tokens, &hash);
            // The context has no room for the last one.
            assert_eq!(common["provable"], tokens != "100000", "{architecture}: {common}");
            if tokens != "100000" {
                let [known, typical] = gases.each_ref().map(Value::as_f64);
                assert_eq!(known.is_some(), typical.is_some(), "{architecture}: {gases:?}");
                let ratio = typical.unwrap_or(1.0) / known.unwrap_or(1.0);
                assert!((0.9..1.1).contains(&ratio), "{architecture}: {gases:?}");
            }
        }
    }
}

/// The bundled model, under both hashes and with small weights.
#[test]
fn options_of_set_up_are_options_of_inspect() {
    let shared = Shared::get();
    let dir = tempdir().unwrap();
    let config_alone = dir.path().join("config");
    alone(&Path::new(CHECKPOINT).join("config.json"), &config_alone);
    let (model, key) = (shared.model(), shared.key());
    agree(&[Path::new(CHECKPOINT), &config_alone, &model, &key], "64", &[]);
    let other = dir.path().join("other");
    let options = ["--hash", "keccak", "--strategy", "w8"];
    let mut setup = args!["setup", CHECKPOINT, "--out", other, "--no-fidelity"];
    setup.extend(options.map(Into::into));
    done(setup);
    let forms = [Path::new(CHECKPOINT), &config_alone, &other, &other.join("model.key")];
    agree(&forms, "64", &options);
    let disk = |key: &Path| done(args!["inspect", key])["predicted"]["disk_bytes"].as_u64().unwrap();
    assert!(disk(&other.join("model.key")) < disk(&key));
}

/// The ledger decides, not the family: 4,096 tokens of a model of these dimensions have no proof, because their scores are too many rows in
/// few layers and too many chunks in fewer. 64 tokens have one.
#[test]
fn what_no_ledger_accepts_is_not_called_provable() {
    let dir = tempdir().unwrap();
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512, "num_hidden_layers": 1024,
        "num_attention_heads": 256, "num_key_value_heads": 256, "head_dim": 2, "intermediate_size": 512, "vocab_size": 1024,
        "max_position_embeddings": 40_960, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "hidden_act": "silu", "eos_token_id": 2,
        "attention_bias": false, "tie_word_embeddings": false,
    });
    fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    let report = |tokens: &str| done(args!["inspect", dir.path(), "--tokens", tokens]);
    let long = report("4096");
    assert_eq!(
        (&long["provable"], &long["fewest_chunks"]),
        (&json!(false), &Value::Null),
        "{long}"
    );
    assert!(long["security_bits"].as_f64().unwrap() < 93.5, "{long}");
    assert_eq!(long["predicted"]["asked_tokens"], 4096, "{long}");
    assert_eq!(long["predicted"]["tokens"], 4096, "{long}");
    let output = tessera(args!["inspect", dir.path(), "--tokens", "4096"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("provable      no: not 4096 tokens"), "{text}");
    let impossible = done(args!["inspect", dir.path(), "--tokens", "4096", "--hash", "keccak"]);
    assert_eq!(
        impossible["predicted"]["gas_unavailable"],
        "such a statement cannot be proved"
    );
    let short = report("64");
    assert_eq!(short["provable"], true, "{short}");
    let most = short["most_tokens_in_one_piece"].as_u64().unwrap();
    let bits = |tokens: u64| report(&tokens.to_string())["security_bits"].as_f64().unwrap();
    assert!(bits(most) >= 93.5 && bits(most + 1) < 93.5, "{most}");
}

/// A number of tokens that no statement has is neither replaced without a word nor called provable.
#[test]
fn a_number_of_tokens_that_does_not_fit_is_said() {
    let shared = Shared::get();
    for path in [shared.key(), shared.model(), CHECKPOINT.into()] {
        let inspect = |tokens: &str| args!["inspect", path, "--tokens", tokens];
        let text = |tokens: &str| {
            let text = String::from_utf8(tessera(inspect(tokens)).stdout).unwrap();
            text.split_whitespace()
                .filter(|word| *word != "|")
                .collect::<Vec<_>>()
                .join(" ")
        };
        let (fits, beyond, few) = (done(inspect("513")), done(inspect("514")), done(inspect("1")));
        let said = |report: &Value| {
            let predicted = &report["predicted"];
            (
                report["provable"].clone(),
                predicted["tokens"].clone(),
                predicted["asked_tokens"].clone(),
            )
        };
        assert_eq!(said(&fits), (json!(true), json!(513), json!(513)));
        assert_eq!(said(&beyond), (json!(false), json!(513), json!(514)));
        assert_eq!(said(&few), (json!(true), json!(2), json!(1)));
        assert_eq!(
            said(&done(args!["inspect", path])),
            (json!(true), json!(64), Value::Null)
        );
        assert!(
            text("514").contains("the most that the context has room for, not 514"),
            "{}",
            text("514")
        );
        assert!(
            text("1").contains("the fewest that a statement has, not 1"),
            "{}",
            text("1")
        );
        fails(inspect("0"), &["--tokens", "at least one token"]);
    }
}

/// Who publishes proofs is told how many give the weights away.
#[test]
fn the_number_of_proofs_that_determine_the_weights_is_said() {
    let key = Shared::get().key();
    let report = done(args!["inspect", key]);
    let number = report["proofs_that_determine_weights"].as_u64().unwrap();
    // Codewords of 2^18 points with two in a leaf, of which 97 are opened by a proof; 2^15 points determine a column.
    assert!((169..190).contains(&number), "{number}");
    let text = String::from_utf8(tessera(args!["inspect", key]).stdout).unwrap();
    assert!(text.contains(&format!("about {number} published proofs")), "{text}");
}

/// The length of a proof is known before to a few percent, in one piece and in chunks.
#[test]
fn proofs_have_the_predicted_length() {
    let (shared, dir) = (Shared::get(), tempdir().unwrap());
    let predicted = |tokens: usize| {
        let report = done(args!["inspect", shared.key(), "--tokens", tokens.to_string()]);
        report["predicted"]["proof_bytes"].as_f64().unwrap()
    };
    // The leaves that a proof opens are random: its length is that of proofs in some contexts, on average.
    let contexts = [1, 2, 3].map(|context| format!("{context:064x}"));
    for tokens in [1, 4, 60] {
        let out = dir.path().join("a.proof");
        let length = |context: &String| {
            let all = args![
                "--prompt",
                PROMPT,
                "--ignore-eos",
                "--tokens",
                tokens.to_string(),
                "--context",
                context,
                "--out",
                out
            ];
            let report = done([args!["prove", "--model", shared.model()], all].concat());
            report["proof_bytes"].as_f64().unwrap()
        };
        let real = contexts.iter().map(length).sum::<f64>() / contexts.len() as f64;
        let ratio = predicted(6 + tokens) / real;
        assert!(
            (0.97..1.03).contains(&ratio),
            "{ratio} of {real} bytes at {tokens} tokens"
        );
    }
}

/// Contracts verify proofs of one hash, in one piece, of models that they know: of others no number is invented.
#[test]
fn where_contracts_verify_nothing_there_is_no_gas() {
    let shared = Shared::get();
    for path in [Path::new(CHECKPOINT), &shared.model(), &shared.key()] {
        let [number, outputs, reason] = gas(&done(args!["inspect", path]));
        assert!(number.is_null() && outputs.is_null(), "{number}");
        assert!(
            reason.as_str().unwrap().contains("tessera setup --hash keccak"),
            "{reason}"
        );
    }
    let text = String::from_utf8(tessera(args!["inspect", shared.key()]).stdout).unwrap();
    let mut rows = text.lines().filter(|line| line.starts_with("  gas "));
    assert!(rows.any(|row| row.contains(" none: contracts verify proofs")), "{text}");
    let dir = tempdir().unwrap();
    let file = Path::new(CHECKPOINT).join("../configs.json");
    let configs: Value = serde_json::from_slice(&fs::read(file).expect("configs")).expect("JSON");
    for (architecture, words) in [("BertModel", "no encoders"), ("Gemma2ForCausalLM", "no capped scores")] {
        let families = configs["families"].as_array().expect("a list");
        let own = families
            .iter()
            .find(|family| family["given"]["architectures"] == json!([architecture]));
        let path = dir.path().join(architecture);
        fs::create_dir(&path).unwrap();
        fs::write(path.join("config.json"), own.expect(architecture)["given"].to_string()).unwrap();
        for hash in ["blake2s", "keccak"] {
            let report = done(args!["inspect", path, "--hash", hash]);
            let [number, _, reason] = gas(&report);
            assert!(number.is_null() && reason.as_str().unwrap().contains(words), "{report}");
        }
    }
}

/// Contracts verify proofs in one piece, of a balance group: a statement that takes chunks, or has more lookups, has no gas.
#[test]
fn statements_in_chunks_or_of_many_lookups_have_no_gas() {
    let dir = tempdir().unwrap();
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 16, "intermediate_size": 512, "vocab_size": 1024,
        "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 1e4, "hidden_act": "silu", "eos_token_id": 2,
        "tie_word_embeddings": true,
    });
    fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    // In one piece, but with more lookups than contracts verify.
    let report = done(args!["inspect", dir.path(), "--tokens", "1000", "--hash", "keccak"]);
    let [number, _, reason] = gas(&report);
    assert!(report["fewest_chunks"] == 1 && number.is_null(), "{report}");
    assert!(reason.as_str().unwrap().contains("fewer than 2^30 lookups"), "{reason}");
    let report = done(args!["inspect", dir.path(), "--tokens", "8000", "--hash", "keccak"]);
    let chunks = report["fewest_chunks"].as_u64().unwrap();
    let [number, _, reason] = gas(&report);
    assert!(chunks > 1 && number.is_null(), "{report}");
    assert!(
        reason
            .as_str()
            .unwrap()
            .contains(&format!("such a proof has {chunks} chunks")),
        "{reason}"
    );
}

/// The gas of a proof is known before: of a key but for what the queries open, of a checkpoint as far as its shifts are typical.
#[test]
fn proofs_take_the_predicted_gas() {
    let dir = tempdir().unwrap();
    let (model, proof) = (dir.path().join("model"), dir.path().join("a.proof"));
    done(args![
        "setup",
        CHECKPOINT,
        "--hash",
        "keccak",
        "--no-fidelity",
        "--out",
        model
    ]);
    let key = model.join("model.key");
    for tokens in [1, 12, 60] {
        let prove = args![
            "prove",
            "--model",
            model,
            "--prompt-ids",
            "1",
            "--ignore-eos",
            "--out",
            proof,
            "--tokens"
        ];
        done([prove, args![tokens.to_string()]].concat());
        let real = done(args!["chain", "estimate", proof, "--key", key])["gas"]
            .as_f64()
            .unwrap();
        for (path, most) in [(&*key, 0.02), (&*model, 0.02), (Path::new(CHECKPOINT), 0.04)] {
            let mut args = args!["inspect", path, "--tokens", (1 + tokens).to_string()];
            if path == Path::new(CHECKPOINT) {
                args.extend(args!["--hash", "keccak"]);
            }
            let [predicted, outputs, reason] = gas(&done(args));
            assert_eq!(outputs, json!(tokens), "{reason}");
            let ratio = predicted.as_f64().unwrap() / real;
            assert!(
                (ratio - 1.0).abs() <= most,
                "{}: {ratio} of {real} at {tokens} tokens",
                path.display()
            );
        }
    }
}
