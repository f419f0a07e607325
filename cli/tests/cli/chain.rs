//! Plans and calls for contracts.

use std::fs;

use serde_json::{json, Value};
use tempfile::tempdir;
use tessera::verifier::key::ModelKey;

use crate::args;
use crate::support::{self, done, fails, names, Shared, CHECKPOINT, PROMPT};

#[test]
fn contracts_take_keys_of_their_hash_only() {
    let (shared, dir) = (Shared::get(), tempdir().unwrap());
    let (key, calls) = (shared.key(), dir.path().join("calls"));
    let words = ["model.key", "Keccak-256", "tessera setup --hash keccak"];
    let plan = args!["chain", "plan", "--key", key, "--length", "20", "--tokens", "12"];
    fails(plan, &words);
    let register = args!["chain", "register", "--key", key, "--length", "20", "--tokens", "12", "--out", calls];
    fails(register, &words);
    let words = &words[1..];
    fails(args!["chain", "estimate", shared.proof(), "--key", key], words);
    fails(
        args!["chain", "pack", shared.proof(), "--key", key, "--out", calls],
        words,
    );
    let own = args![
        "prove",
        "--model",
        shared.model(),
        "--prompt",
        PROMPT,
        "--tokens",
        "3",
        "--out",
        calls
    ];
    fails(
        [own, args!["--for-chain"]].concat(),
        &["Keccak-256", "setup --hash keccak"],
    );
    assert!(names(dir.path()).is_empty());
}

#[test]
fn plans_and_calls_of_a_proof_name_the_same_plan() {
    let dir = tempdir().unwrap();
    let (model, proof, calls) = (
        dir.path().join("model"),
        dir.path().join("story.proof"),
        dir.path().join("calls"),
    );
    done(args![
        "setup",
        CHECKPOINT,
        "--hash",
        "keccak",
        "--no-fidelity",
        "--out",
        model
    ]);
    let context = "12".repeat(32);
    let prove = args![
        "prove",
        "--model",
        model,
        "--prompt",
        PROMPT,
        "--tokens",
        "12",
        "--context",
        context,
        "--out"
    ];
    let proved = done([prove.clone(), args![proof]].concat());
    let ids = |side: &str| proved[side].as_array().expect("ids").len();
    let (length, tokens) = (ids("prompt_ids") + ids("output_ids"), ids("output_ids"));
    let key = model.join("model.key");
    let planned = done(args![
        "chain",
        "plan",
        "--key",
        key,
        "--length",
        length.to_string(),
        "--tokens",
        tokens.to_string(),
        "--check",
        "2"
    ]);
    for (name, expected) in [
        ("model_id", &proved["model_id"]),
        ("output_tokens", &json!(tokens)),
        (
            "security_bits",
            &json!((proved["security_bits"].as_f64().expect("bits") * 10.0).floor() / 10.0),
        ),
        ("checked_points", &json!(2)),
    ] {
        assert_eq!(planned[name], *expected, "{name}");
    }
    let prompts: Vec<usize> =
        serde_json::from_value(planned["prompt_tokens"].clone()).expect("the fewest and the most");
    assert!((prompts[0]..=prompts[1]).contains(&ids("prompt_ids")) && prompts[1] + tokens - 1 == planned["rows"]);
    let program = dir.path().join("program");
    let registered = done(args![
        "chain",
        "register",
        "--key",
        key,
        "--length",
        length.to_string(),
        "--tokens",
        tokens.to_string(),
        "--out",
        program
    ]);
    // `--for-chain` changes no byte of the proof, and contracts verify no proof that hides.
    let asked = dir.path().join("asked.proof");
    done([prove.clone(), args![asked, "--for-chain"]].concat());
    assert_eq!(fs::read(&asked).expect("a proof"), fs::read(&proof).expect("a proof"));
    let hidden = dir.path().join("hidden.proof");
    let proved = done([prove, args![hidden, "--hide"]].concat());
    assert_eq!(proved["hidden"]["activations"], json!(true));
    assert!(proved.get("saturated").is_none());
    let verified = done(args!["verify", "--key", key, hidden]);
    assert_eq!(verified["hidden"], proved["hidden"]);
    fails(
        args!["chain", "pack", hidden, "--key", key, "--out", calls],
        &["hides its activations"],
    );

    let packed = done(args!["chain", "pack", proof, "--key", key, "--out", calls]);
    let estimated = done(args!["chain", "estimate", proof, "--key", key]);
    let written: Value = serde_json::from_slice(&fs::read(&calls).expect("calls")).expect("JSON");
    for own in [&packed, &written] {
        assert_eq!(own["context"], json!(context));
    }
    let plan = planned["plan"].as_str().expect("a digest");
    assert_eq!(plan.len(), 64);
    for other in [&packed, &estimated, &written, &registered] {
        assert_eq!(other["plan"], planned["plan"]);
    }
    // What is stored once is what the calls need.
    let stored: Value = serde_json::from_slice(&fs::read(&program).expect("a program")).expect("JSON");
    for own in ["plan", "header", "program", "behind"] {
        assert_eq!(stored[own], written[own], "{own}");
    }
    assert!(stored["program"][0][0].as_str().is_some_and(|page| !page.is_empty()));

    // What is not a proof of the key is packed into nothing.
    let mut bytes = fs::read(&proof).expect("a proof");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&proof, bytes).expect("a proof");
    fs::remove_file(&calls).expect("calls");
    let (status, refused) = support::json(args!["chain", "pack", proof, "--key", key, "--out", calls]);
    assert_ne!(status, 0, "{refused}");
    assert!(!calls.exists());

    // Calls replace neither key nor proof, and no device.
    for own in [&key, &proof] {
        let before = fs::read(own).expect("a file");
        fails(
            args!["chain", "pack", proof, "--key", key, "--out", own],
            &["one of the files that this command reads"],
        );
        assert!(fs::read(own).expect("a file") == before);
    }

    // No key of Keccak-256 has a root of tables, which might be of other tables.
    let mut forged = ModelKey::from_bytes(&fs::read(&key).expect("a key")).expect("a key");
    forged.tables_root[0] ^= 1;
    fs::write(&key, forged.to_bytes().expect("a key")).expect("a key");
    for command in ["plan", "register"] {
        let mut args = args!["chain", command, "--key", key, "--length", "20", "--tokens", "12"];
        if command == "register" {
            args.extend(args!["--out", calls]);
        }
        fails(args, &["model.key", "root of lookup tables"]);
    }
    assert!(!calls.exists());
}
