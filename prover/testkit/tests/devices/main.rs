//! Every device makes the same proofs, byte for byte, and a device that fails ends a proof with its error.

mod failing;

use blake2::{Blake2s256, Digest};
use serde_json::Value;
use tessera_circuits::model::WeightFormat;
use tessera_model::generate::GenerateOptions;
use tessera_prover::device::{Device, DeviceError};
use tessera_prover::scalar::Scalar;
use tessera_prover::vectors::Vectors;
use tessera_prover::{prove, ProveError, ProverModel};
use tessera_support::progress::Silent;
use tessera_testkit::{
    golden_statements, odd_config, random_ids, random_model, GoldenStatement, TestModel, GOLDEN_PROOFS,
};

use failing::Failing;

/// The digest of the proof of every golden statement.
fn golden_digests() -> Vec<String> {
    let text = std::fs::read_to_string(GOLDEN_PROOFS).expect("the golden file");
    let golden: Value = serde_json::from_str(&text).expect("golden JSON");
    let all = golden["digests"].as_array().expect("digests of keys and proofs");
    let text = |digest: &Value| digest.as_str().expect("a digest").to_owned();
    all.iter().skip(1).step_by(2).map(text).collect()
}

/// The digests of the proofs that a device makes of the golden statements.
fn digests_on(device: &'static dyn Device) -> Vec<String> {
    let digest = |mut statement: GoldenStatement| {
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

/// Whichever call fails first, the proof ends with the device's error: no step goes on without what it asked for.
#[test]
fn a_device_that_is_lost_ends_the_proof() {
    let model = TestModel::new(random_model(odd_config(), WeightFormat::Int8, 3));
    let prompt = random_ids(&model.key.config, 4, 3);
    let proved = |device: &Failing| {
        let prover = ProverModel {
            device,
            ..model.prover()
        };
        prove(&prover, &prompt, &GenerateOptions::exactly(3), &Silent)
    };
    let sound = Failing::at(usize::MAX);
    proved(&sound).expect("a device that is not lost");
    let calls = sound.calls();
    // Every call of the first phases and of the last ones, and some of all others.
    let some = (0..calls).filter(|at| *at < 12 || calls - at <= 12 || at % (calls / 24) == 0);
    for at in some {
        match proved(&Failing::at(at)) {
            Err(ProveError::Device(DeviceError::Lost(call))) => assert_eq!(call, format!("call {at}")),
            other => panic!("call {at} of {calls}: {:?}", other.map(|report| report.bytes.len())),
        }
    }
}
