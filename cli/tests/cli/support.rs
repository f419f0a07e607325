//! Runs the binary and prepares its inputs.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

/// The bundled checkpoint.
pub const CHECKPOINT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/tinystories-656k");
/// Texts sampled from the bundled checkpoint.
pub const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/golden-float.jsonl");
/// The prompt of the shared proof.
pub const PROMPT: &str = "Once upon a time";

/// Runs `tessera`.
pub fn tessera<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tessera"))
        .args(args)
        .output()
        .expect("the binary runs")
}

/// Runs `tessera` where no file may grow beyond 200 kB: a write fails halfway, as on a full disk.
#[cfg(unix)]
pub fn with_full_disk(args: Vec<std::ffi::OsString>) -> Output {
    let script = "trap '' XFSZ; ulimit -f 400; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_tessera")]);
    command.args(args).output().expect("the shell runs")
}

/// Arguments from literals and paths.
#[macro_export]
macro_rules! args {
    ($($arg:expr),* $(,)?) => { vec![$(std::ffi::OsString::from(&$arg)),*] };
}

/// Runs with `--json`; returns the exit status and the one object that it prints.
pub fn json(mut args: Vec<std::ffi::OsString>) -> (i32, Value) {
    args.push("--json".into());
    let output = tessera(&args);
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let value: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{args:?} printed {text:?}: {e}"));
    assert!(value.is_object() && text.trim_end().lines().count() == 1, "{text}");
    (output.status.code().expect("an exit status"), value)
}

/// Runs with `--json` and expects success.
pub fn done(args: Vec<std::ffi::OsString>) -> Value {
    let (status, value) = json(args);
    assert_eq!(status, 0, "{value}");
    value
}

/// Expects exit status 2 and an error that has all of `words`, as text and as JSON.
pub fn fails(args: Vec<std::ffi::OsString>, words: &[&str]) {
    let output = tessera(&args);
    // Long lines go on in marked ones, cut between words or inside of long ones.
    let text = String::from_utf8_lossy(&output.stderr).replace("\n  | ", "\n| ");
    let [text, torn] = [" ", ""].map(|space| text.replace("\n| ", space));
    assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
    assert!(output.stdout.is_empty(), "{args:?}");
    let (status, value) = json(args);
    assert_eq!(status, 2, "{value}");
    let message = value["error"].as_str().expect("an error").to_owned();
    for word in words {
        let said = text.contains(word) || torn.contains(word);
        assert!(said, "{word:?} is not in {text:?}");
        assert!(message.contains(word), "{word:?} is not in {message:?}");
    }
}

/// A model directory and a proof, made once for all tests.
pub struct Shared {
    dir: TempDir,
    /// What setup and prove printed.
    pub setup: Value,
    pub prove: Value,
}

impl Shared {
    pub fn get() -> &'static Self {
        static SHARED: OnceLock<Shared> = OnceLock::new();
        SHARED.get_or_init(|| {
            let dir = tempfile::tempdir().expect("a temporary directory");
            let (model, proof) = (dir.path().join("model"), dir.path().join("story.proof"));
            let setup = done(args!["setup", CHECKPOINT, "--out", model]);
            let prove = done(args![
                "prove", "--model", model, "--prompt", PROMPT, "--tokens", "12", "--out", proof
            ]);
            Self { dir, setup, prove }
        })
    }

    pub fn model(&self) -> PathBuf {
        self.dir.path().join("model")
    }

    pub fn key(&self) -> PathBuf {
        self.model().join("model.key")
    }

    pub fn proof(&self) -> PathBuf {
        self.dir.path().join("story.proof")
    }

    /// A copy of the model directory.
    pub fn copy_model(&self, to: &Path) {
        copy_dir(&self.model(), to);
    }
}

/// Copies a directory of files.
pub fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a new directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
    }
}

/// Names in a directory, sorted.
pub fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a directory");
    let mut names: Vec<_> = entries
        .map(|e| e.expect("an entry").file_name().into_string().expect("UTF-8"))
        .collect();
    names.sort();
    names
}

/// A copy of the bundled checkpoint with its tensors changed: `edit` gets the header and the data.
pub fn edited_checkpoint(dir: &Path, edit: impl FnOnce(&mut Value, &mut Vec<u8>)) -> PathBuf {
    let copy = dir.join("checkpoint");
    copy_dir(Path::new(CHECKPOINT), &copy);
    let path = copy.join("model.safetensors");
    let bytes = fs::read(&path).expect("the tensors");
    let (length, rest) = bytes.split_first_chunk::<8>().expect("a header");
    let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
    let mut header: Value = serde_json::from_slice(header).expect("a JSON header");
    let mut data = data.to_vec();
    edit(&mut header, &mut data);
    let header = header.to_string();
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header.as_bytes());
    out.extend(data);
    fs::write(&path, out).expect("the tensors are written");
    copy
}

/// A copy of the bundled checkpoint with fields of its config changed.
pub fn configured_checkpoint(dir: &Path, fields: &[(&str, Value)]) -> PathBuf {
    let copy = dir.join("checkpoint");
    copy_dir(Path::new(CHECKPOINT), &copy);
    let path = copy.join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).expect("a config")).expect("JSON");
    for (name, value) in fields {
        config[*name] = value.clone();
    }
    fs::write(&path, config.to_string()).expect("the config is written");
    copy
}
