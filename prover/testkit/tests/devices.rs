//! Every device makes the same proofs, byte for byte.

use blake2::{Blake2s256, Digest};
use serde_json::Value;
use tessera_prover::device::Device;
use tessera_prover::scalar::Scalar;
use tessera_prover::vectors::Vectors;
use tessera_testkit::{golden_statements, GOLDEN_PROOFS};

/// The digest of the proof of every golden statement.
fn golden_digests() -> Vec<String> {
    let text = std::fs::read_to_string(GOLDEN_PROOFS).expect("the golden file");
    let golden: Value = serde_json::from_str(&text).expect("golden JSON");
    let all = golden["digests"].as_array().expect("digests of keys and proofs");
    let text = |digest: &Value| digest.as_str().expect("a digest").to_owned();
    all.iter().skip(1).step_by(2).map(text).collect()
}

/// The same of proofs that a device makes now.
fn digests_on(device: &'static dyn Device) -> Vec<String> {
    let digest = |mut statement: tessera_testkit::GoldenStatement| {
        statement.model.device = device;
        let bytes = statement.prove().to_bytes().expect("the proof encodes");
        hex::encode(Blake2s256::digest(bytes))
    };
    golden_statements().into_iter().map(digest).collect()
}

#[test]
fn all_devices_make_the_golden_proofs() {
    for device in [&Vectors as &dyn Device, &Scalar] {
        assert_eq!(digests_on(device), golden_digests());
    }
}
