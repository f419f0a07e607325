//! Where an output ends, and that a reader of the verdict sees it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::{json, Value};
use tempfile::{tempdir, TempDir};

use crate::args;
use crate::support::{configured_checkpoint, done, fails, tessera, Shared, PROMPT};

/// The bundled model, which ends its texts with the sixth token of the shared proof, too: `generation_config.json` says
/// so, beside the end that `config.json` names.
pub struct Ending {
    dir: TempDir,
    /// The end token, and where it is in an output that goes on.
    pub id: u64,
    pub at: usize,
    /// 12 tokens, whatever they are.
    pub free: Vec<Value>,
}

impl Ending {
    pub fn get() -> &'static Self {
        static ENDING: OnceLock<Ending> = OnceLock::new();
        ENDING.get_or_init(|| {
            let free = Shared::get().prove["output_ids"].as_array().expect("ids").clone();
            let id = free[5].as_u64().expect("an id");
            let at = free.iter().position(|v| v.as_u64() == Some(id)).expect("an index");
            let dir = tempdir().expect("a temporary directory");
            let checkpoint = configured_checkpoint(dir.path(), &[]);
            let generation = json!({"eos_token_id": [2, id]}).to_string();
            fs::write(checkpoint.join("generation_config.json"), generation).expect("it is written");
            done(args!["setup", checkpoint, "--out", dir.path().join("model")]);
            Self { dir, id, at, free }
        })
    }

    pub fn model(&self) -> PathBuf {
        self.dir.path().join("model")
    }

    pub fn command(&self, command: &str, tokens: &str, more: &[&str]) -> Vec<std::ffi::OsString> {
        let mut args = args![command, "--model", self.model(), "--prompt", PROMPT, "--tokens", tokens];
        args.extend(more.iter().map(Into::into));
        args
    }

    /// What `verify` prints, as JSON and as text.
    fn verdict(&self, proof: &Path) -> (Value, String) {
        let verify = args!["verify", "--key", self.model().join("model.key"), proof];
        let text = tessera(&verify).stdout;
        (done(verify), String::from_utf8(text).expect("UTF-8"))
    }
}

#[test]
fn an_output_ends_where_the_model_ends_it() {
    let ending = Ending::get();
    let stopped = &ending.free[..=ending.at];
    let generated = done(ending.command("generate", "12", &[]));
    assert_eq!(generated["output_ids"], json!(stopped));
    let dir = tempdir().unwrap();
    let proof = dir.path().join("proof");
    let proved = done(ending.command("prove", "12", &["--out", proof.to_str().unwrap()]));
    let (verdict, text) = ending.verdict(&proof);
    for report in [&generated, &proved, &verdict] {
        assert_eq!(report["output_ids"], json!(stopped));
        assert_eq!(report["finish_reason"], "stop");
        assert_eq!(
            (&report["end_token"], &report["end_tokens_inside"]),
            (&json!(ending.id), &json!([]))
        );
    }
    assert!(text.contains("\nend       complete: ended with "), "{text}");
}

#[test]
fn an_output_that_is_cut_says_so() {
    let ending = Ending::get();
    let dir = tempdir().unwrap();
    let proof = dir.path().join("proof");
    let tokens = ending.at.to_string();
    done(ending.command("prove", &tokens, &["--out", proof.to_str().unwrap()]));
    let (verdict, text) = ending.verdict(&proof);
    assert_eq!(
        (&verdict["finish_reason"], &verdict["end_token"]),
        (&json!("length"), &Value::Null)
    );
    assert!(
        text.contains(&format!("\nend       cut after {tokens} token")),
        "{text}"
    );
}

#[test]
fn an_output_that_goes_on_past_its_end_says_where() {
    let ending = Ending::get();
    let dir = tempdir().unwrap();
    let proof = dir.path().join("proof");
    let proved = done(ending.command("prove", "12", &["--ignore-eos", "--out", proof.to_str().unwrap()]));
    let (verdict, text) = ending.verdict(&proof);
    for report in [&proved, &verdict] {
        assert_eq!(report["output_ids"], json!(ending.free));
        assert_eq!(report["finish_reason"], "length");
        assert_eq!(report["end_tokens_inside"][0], json!(ending.at));
    }
    assert!(
        text.contains("\nend       cut after 12 tokens\n          but it went on past "),
        "{text}"
    );
    assert!(text.contains(&format!(" at output position {}\n", ending.at)), "{text}");
    // The same with a special token, by its name.
    let ids = format!("{} 2", Shared::get().prove["prompt_ids"]).replace("] 2", ", 2]");
    let generated = tessera(args![
        "generate",
        "--model",
        ending.model(),
        "--prompt-ids",
        ids,
        "--tokens",
        "2"
    ]);
    let text = String::from_utf8(generated.stdout).unwrap();
    assert!(
        text.contains(" <|start_story|> \"Once upon a time\" <|end_story|>\n"),
        "{text}"
    );
}

#[test]
fn a_job_ends_where_the_model_ends_it_and_knows_what_was_asked_for() {
    let ending = Ending::get();
    let dir = tempdir().unwrap();
    let (work, proof) = (dir.path().join("work"), dir.path().join("proof"));
    let [out, place] = [&proof, &work].map(|p| p.to_str().unwrap());
    let request = |tokens: &str, more: &[&str]| {
        let common = ["--out", out, "--work", place, "--chunk-layers", "1"];
        ending.command("prove", tokens, &[&common[..], more].concat())
    };
    done(request("12", &["--prepare"]));
    done(args!["prove-chunk", "--work", work, "--chunk", "1"]);
    fails(request("11", &[]), &["a job of another number of tokens", "resume"]);
    fails(
        request("12", &["--ignore-eos"]),
        &["a job of another choice of --ignore-eos", "resume"],
    );
    let report = done(args!["resume", work]);
    assert_eq!(report["finish_reason"], "stop");
    assert!(
        report["saturated"].is_object() && report["warnings"] == json!([]),
        "{report}"
    );
    assert_eq!(report["output_ids"], json!(ending.free[..=ending.at]));
    // The same request goes on with the same job, though its output is shorter than the number that was asked for.
    assert_eq!(done(request("12", &[]))["output_ids"], report["output_ids"]);
    assert_eq!(done(args!["compose", work])["finish_reason"], "stop");
    assert_eq!(ending.verdict(&proof).0["finish_reason"], "stop");
}

/// A text does not show the tokens that end one, so the brief report names them, too.
#[test]
fn a_brief_report_shows_where_a_text_ended_and_went_on() {
    let dir = tempdir().unwrap();
    let out = dir.path().join("proof");
    // Its text spells the token before it, in letters.
    let prompt = "They lived happily ever after. The end.";
    let mut args = args!["prove", "--model", Shared::get().model(), "--prompt", prompt];
    args.extend(args!["--tokens", "12", "--ignore-eos", "--brief", "--out", out]);
    let text = String::from_utf8(tessera(args).stdout).unwrap();
    assert!(text.contains("\nend     cut after 12 tokens"), "{text}");
    assert!(
        text.contains("but it went on past <|end_story|> at output position 7"),
        "{text}"
    );
    assert!(
        text.contains("\noutput  \"sometime.<|end_story|>\" <|end_story|> \""),
        "{text}"
    );
}
