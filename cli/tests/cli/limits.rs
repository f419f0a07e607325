//! What is too long for the security of a proof, or too much for the memory of the process.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::tempdir;
use tessera::circuits::model::MAX_CONTEXT;
use tessera::verifier::key::ModelKey;

use crate::args;
use crate::support::{done, fails, names, tessera, Shared, CHECKPOINT, PROMPT};

/// A directory that is a model directory as far as planning looks: the key of the shared model with the longest context, and so many layers
/// and heads that scores of long texts are too many rows.
fn long_context(dir: &Path) -> PathBuf {
    let mut key = ModelKey::from_bytes(&fs::read(Shared::get().key()).unwrap()).unwrap();
    key.config.context = MAX_CONTEXT;
    (
        key.config.layers,
        key.config.heads,
        key.config.kv_heads,
        key.config.head_dim,
    ) = (32, 256, 256, 2);
    let mut layer = key.params.layers[0].clone();
    let own = &mut layer.attention;
    for shift in [&mut own.q, &mut own.k, &mut own.v] {
        shift.0.truncate(1);
    }
    key.params.layers = vec![layer; 32];
    key.params = key.params.with_largest_norms(&key.config);
    key.weights.tiles = key.config.total_tiles();
    let model = dir.join("model");
    fs::create_dir(&model).unwrap();
    fs::write(model.join("model.key"), key.to_bytes().unwrap()).unwrap();
    model
}

/// `inspect` and `prove` name the longest text that can be proved in one piece, and neither speaks of memory: more of it
/// does not help.
#[test]
fn a_text_without_enough_security_is_refused_with_what_can_be_proved() {
    let dir = tempdir().unwrap();
    let model = long_context(dir.path());
    let key = model.join("model.key");
    let inspect = |tokens: usize| {
        let tokens = tokens.to_string();
        let report = done(args!["inspect", key, "--tokens", tokens]);
        let text = tessera(args!["inspect", key, "--tokens", tokens]);
        // Wherever a line was broken.
        let text = String::from_utf8(text.stdout).unwrap();
        let words: Vec<&str> = text.split_whitespace().filter(|word| *word != "|").collect();
        (report, words.join(" "))
    };
    let (report, text) = inspect(MAX_CONTEXT);
    assert_eq!(report["security_bits"], 0.0);
    let most = report["most_tokens_in_one_piece"].as_u64().unwrap() as usize;
    let can = format!("up to {most} tokens can be");
    assert!(
        most > 512 && text.contains(&can) && text.contains("cannot be proved"),
        "{text}"
    );
    assert!(!text.contains("-0.0 bits"), "{text}");
    let bits = |tokens| inspect(tokens).0["security_bits"].as_f64().unwrap();
    assert!(bits(most) >= 93.5 && bits(most + 1) < 93.5);
    assert!(inspect(most).1.contains(&format!("bits for {most} tokens")));

    let out = dir.path().join("proof");
    let prove = |tokens: usize, more: &[&str]| {
        let mut all = args![
            "prove",
            "--model",
            model,
            "--prompt-ids",
            "1,7",
            "--out",
            out,
            "--tokens",
            tokens.to_string()
        ];
        all.extend(more.iter().map(OsString::from));
        all
    };
    for memory in ["1MB", "1TB"] {
        fails(
            prove(most, &["--memory", memory]),
            &["cannot be proved in one piece", &can, "93.5"],
        );
    }
    let work = dir.path().join("work");
    let work = work.to_str().unwrap();
    fails(
        prove(MAX_CONTEXT - 1, &["--work", work]),
        &["cannot be proved", &can, "--work"],
    );
    fails(prove(MAX_CONTEXT, &[]), &["exceed the context"]);
    assert_eq!(names(dir.path()), ["model"]);
}

/// Runs `tessera` on two threads with so much address space.
#[cfg(target_os = "linux")]
fn within(mebibytes: u64, args: &[OsString]) -> std::process::Output {
    let script = format!("ulimit -v {}; exec \"$0\" \"$@\"", mebibytes << 10);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_tessera")]).args(args);
    command
        .args(["--threads", "2", "--quiet"])
        .output()
        .expect("the shell runs")
}

/// A limit of address space is a refusal that names it, before any work; whatever the limit, nothing is aborted, and no
/// file is left behind.
#[cfg(target_os = "linux")]
#[test]
fn a_limit_of_address_space_is_named_and_never_an_abort() {
    let shared = Shared::get();
    let dir = tempdir().unwrap();
    let (proof, model) = (dir.path().join("proof"), dir.path().join("model"));
    let commands = [
        args![
            "prove",
            "--model",
            shared.model(),
            "--prompt",
            PROMPT,
            "--tokens",
            "4",
            "--out",
            proof
        ],
        args![
            "generate",
            "--model",
            shared.model(),
            "--prompt",
            PROMPT,
            "--tokens",
            "4"
        ],
        args!["setup", CHECKPOINT, "--out", model],
    ];
    for command in &commands {
        for given in [&[][..], &["--memory".into(), "64GiB".into()]] {
            let output = within(95, &[command, given].concat());
            let text = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{text}");
            assert!(text.contains("ulimit -v") && text.contains("too small"), "{text}");
            assert!(names(dir.path()).is_empty());
        }
    }
    let output = within(190, &["demo".into()]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("ulimit -v") && text.contains("too small"), "{text}");
    let mut statuses = Vec::new();
    for mebibytes in [75, 100, 150, 200, 250, 300, 350, 400, 600, 1000, 2000] {
        let output = within(mebibytes, &commands[0]);
        let (status, text) = (output.status.code(), String::from_utf8_lossy(&output.stderr));
        assert!(
            matches!(status, Some(0 | 2)),
            "{mebibytes} MiB: {:?} {text}",
            output.status
        );
        assert!(
            status == Some(0) || text.starts_with("error: "),
            "{mebibytes} MiB: {text}"
        );
        assert!(!text.contains("internal error"), "{mebibytes} MiB: {text}");
        assert_eq!(
            names(dir.path()).len(),
            usize::from(status == Some(0)),
            "{mebibytes} MiB"
        );
        let _ = fs::remove_file(&proof);
        statuses.push(status);
    }
    assert_eq!(statuses.last(), Some(&Some(0)), "{statuses:?}");
}
