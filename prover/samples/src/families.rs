//! Tiny models of every family, with golden logits of an independent implementation (`fixtures/families.py`).

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::tensor::{serialize, Dtype, TensorView};
use serde::Deserialize;
use serde_json::Value;

use tessera_checkpoint::{tensors, Needed};
use tessera_support::files;
use tessera_support::random::SplitMix;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/families.json");

/// A model and what it computes.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    pub name: String,
    /// `config.json`.
    pub config: Value,
    pub ids: Vec<u32>,
    /// Of some rows.
    pub logits: BTreeMap<usize, Vec<f32>>,
}

/// The bundled cases.
///
/// # Panics
/// If they are not there.
pub fn cases() -> Vec<Case> {
    let text = std::fs::read_to_string(FILE).expect("the golden file");
    serde_json::from_str(&text).expect("golden JSON")
}

/// A case by its name.
///
/// # Panics
/// If there is none.
pub fn case(name: &str) -> Case {
    let found = cases().into_iter().find(|case| case.name == name);
    found.unwrap_or_else(|| panic!("no case {name}"))
}

/// Uniform numbers that follow from the name of a tensor: gains in 1/2..3/2, biases in -1/2..1/2, matrices in `+-2^-floor(log2(width) / 2)`.
fn values(name: &str, shape: &[usize]) -> Vec<f32> {
    let hash = |h: u64, b: u8| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3);
    let mut rng = SplitMix(name.bytes().fold(0xcbf2_9ce4_8422_2325, hash));
    let scale = match shape {
        [_, width] => f32::powi(0.5, width.ilog2() as i32 / 2),
        _ => 0.5,
    };
    let uniform = |_| ((rng.next_u64() >> 40) as i64 - (1 << 23)) as f32 / f32::powi(2.0, 23);
    let gain = match shape {
        [_] if !name.ends_with(".bias") => 1.0,
        _ => 0.0,
    };
    let values = (0..shape.iter().product::<usize>()).map(uniform);
    values.map(|u| gain + scale * u).collect()
}

/// Writes the checkpoint of a `config.json`, without a tokenizer.
///
/// # Panics
/// If the config is not supported, or the files cannot be written.
pub fn write(dir: &Path, config: &Value) {
    let json = config.to_string();
    let (tensors, _) = tensors(json.as_bytes()).expect("a supported config");
    let bytes: BTreeMap<String, (Vec<usize>, Vec<u8>)> = tensors
        .into_iter()
        .map(|Needed { name, shape, .. }| {
            let bytes = values(&name, &shape).iter().flat_map(|v| v.to_le_bytes()).collect();
            (name, (shape, bytes))
        })
        .collect();
    let view = |(shape, bytes)| TensorView::new(Dtype::F32, shape, bytes).expect("a tensor");
    let views = bytes
        .iter()
        .map(|(name, (shape, bytes))| (name, view((shape.clone(), bytes))));
    let file = serialize(views, None).expect("safetensors");
    files::write(&dir.join("model.safetensors"), &file).expect("tensors are written");
    files::write(&dir.join("config.json"), json.as_bytes()).expect("the config is written");
}
