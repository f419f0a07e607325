//! Samples that the tests of all crates share: configs of small models, checkpoints and GGUF files that are made in place, and the
//! checkpoint of the fixtures with its golden texts. Only tests use this crate.

mod configs;
pub mod families;
pub mod gguf;

pub use configs::*;
pub use tessera_support::random::{random_ids, SplitMix};

/// Sorted names of the files of a directory.
///
/// # Panics
/// If it cannot be read.
pub fn names(dir: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("a directory");
    let name = |e: std::io::Result<std::fs::DirEntry>| e.expect("an entry").file_name().to_string_lossy().into_owned();
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}

/// The directory of the TinyStories fixture.
pub const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/tinystories-656k");

/// A text with the float reference's results for it.
#[derive(Clone, Debug, serde::Deserialize)]
pub struct GoldenSample {
    pub text: String,
    pub ids: Vec<u32>,
    /// Float arg max at every position.
    pub argmax: Vec<u32>,
    /// Negative log-likelihood of the next id at every position but the last.
    pub nll: Vec<f64>,
    /// Logits at the last position.
    pub logits_last: Vec<f32>,
}

/// The golden samples of the fixture.
///
/// # Panics
/// If the fixture cannot be read.
pub fn golden() -> Vec<GoldenSample> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/golden-float.jsonl");
    let text = std::fs::read_to_string(path).expect("golden samples are readable");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("golden samples are JSON"))
        .collect()
}
