//! Proofs in a context.

use serde_json::json;
use tempfile::tempdir;

use crate::args;
use crate::support::{done, fails, json, Shared, PROMPT};

#[test]
fn a_proof_shows_its_context_and_holds_in_no_other() {
    let (shared, dir) = (Shared::get(), tempdir().unwrap());
    let (own, other) = ("12".repeat(32), "13".repeat(32));
    let (key, proof) = (shared.key(), dir.path().join("tied.proof"));
    let prove = |out: &std::path::Path, context: &str, more: Vec<std::ffi::OsString>| {
        let all = args![
            "prove",
            "--model",
            shared.model(),
            "--prompt",
            PROMPT,
            "--tokens",
            "3",
            "--context",
            context,
            "--out",
            out
        ];
        [all, more].concat()
    };
    assert_eq!(done(prove(&proof, &own, args![]))["context"], json!(own));
    let verify = |proof: &std::path::Path, expected: &str| {
        json(args!["verify", "--key", key, proof, "--expect-context", expected])
    };
    let (status, verdict) = verify(&proof, &format!("0x{own}"));
    assert_eq!((status, &verdict["context"]), (0, &json!(own)));
    let (status, verdict) = verify(&proof, &other);
    assert_eq!(status, 1, "{verdict}");
    assert!(
        verdict["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains(&own) && reason.contains(&other)),
        "{verdict}"
    );
    let (status, verdict) = verify(&shared.proof(), &own);
    assert_eq!(status, 1, "{verdict}");
    assert!(verdict.get("context").is_none(), "{verdict}");
    assert_eq!(done(args!["inspect", proof])["context"], json!(own));

    // In chunks, whoever goes on says the same context.
    let (work, chain) = (dir.path().join("work"), dir.path().join("chain.proof"));
    let chunks = args!["--work", work, "--chunk-layers", "1"];
    done(prove(&chain, &own, [chunks.clone(), args!["--prepare"]].concat()));
    fails(prove(&chain, &other, chunks.clone()), &["context"]);
    done(prove(&chain, &own, chunks));
    assert_eq!(verify(&chain, &own).0, 0);

    for wrong in ["0".repeat(64), "12".repeat(20), "12".repeat(33)] {
        fails(prove(&dir.path().join("none.proof"), &wrong, args![]), &["--context"]);
    }
    assert!(!dir.path().join("none.proof").exists());
}
