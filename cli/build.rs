//! Names the commit that the program is built from, for `--version`.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=src");
    println!("cargo:rerun-if-changed=build.rs");
    println!(
        "cargo:rustc-env=TESSERA_COMMIT={}",
        commit().unwrap_or_else(|| "commit unknown".to_owned())
    );
}

/// The commit of the checkout, or of the package that cargo made of one; `None` outside of both, and without git.
fn commit() -> Option<String> {
    // In a package, cargo has written down where it came from. A checkout around it is another one.
    let packaged = std::fs::read_to_string(".cargo_vcs_info.json");
    if let Some(digest) = packaged
        .ok()
        .as_deref()
        .and_then(|json| json.split('"').find(|part| is_digest(part)))
    {
        return Some(format!("commit {}", digest.get(..12)?));
    }
    // The program of another repository that only happens to lie around this folder is not ours.
    let tracked = git(&["ls-files", "build.rs"])?;
    let head = git(&["rev-parse", "--short=12", "HEAD"]).filter(|_| tracked == "build.rs")?;
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo:rerun-if-changed={log}");
    }
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_none_or(|list| !list.is_empty());
    Some(match changed {
        true => format!("commit {head}, changed"),
        false => format!("commit {head}"),
    })
}

fn is_digest(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What git says, without white space around it; `None` if it fails.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
