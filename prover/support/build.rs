//! Says why the prover's crates cannot be built where the compiler refuses unstable features. Without it, the first error would be
//! about a dependency (stwo) that needs them, and would not name the remedy; this script depends on nothing and runs before.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RUSTC_BOOTSTRAP");
    if env::var_os("RUSTC_BOOTSTRAP").is_some_and(|value| value != "-1") || is_nightly() {
        return;
    }
    let manifest = env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| "prover".to_owned());
    println!(
        "cargo::error=the prover needs unstable features of the pinned compiler, which .cargo/config.toml of this repository \
         switches on, and cargo has not read that file: it looks for it from the current directory upwards. Run cargo inside the \
         repository, or add --config {manifest}/../../.cargo/config.toml (cargo install --path finds it from anywhere)"
    );
}

/// Whether the compiler accepts unstable features by itself.
fn is_nightly() -> bool {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output();
    version.is_ok_and(|v| {
        let text = String::from_utf8_lossy(&v.stdout).into_owned();
        text.contains("nightly") || text.contains("-dev")
    })
}
