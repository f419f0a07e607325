//! `cargo bench -p tessera-prover`: the phases of a proof of the bundled model's size, 16 + 48 tokens.
//! Compare figures of one run only.

use divan::Bencher;
use tessera_circuits::model::WeightFormat;
use tessera_model::forward::{ForwardState, Witness};
use tessera_model::generate::GenerateOptions;
use tessera_prover::prove;
use tessera_support::progress::Silent;
use tessera_testkit::{fixture_size_config, random_ids, random_model, TestModel};
use tessera_verifier::verify::verify_bytes;

fn main() {
    divan::main();
}

fn model() -> TestModel {
    TestModel::new(random_model(fixture_size_config(), WeightFormat::Int16, 7))
}

/// The integer forward pass of 64 rows, with the witness.
#[divan::bench]
fn forward(bencher: Bencher) {
    let model = model();
    let ids = random_ids(&model.key.config, 64, 3);
    bencher.bench_local(|| {
        let mut witness = Witness::default();
        ForwardState::new(&model.quantised)
            .run(&ids, Some(&mut witness))
            .expect("a forward pass");
        witness
    });
}

/// A whole proof, generation included.
#[divan::bench(sample_count = 10)]
fn prove_64_rows(bencher: Bencher) {
    let model = model();
    let prompt = random_ids(&model.key.config, 16, 3);
    bencher.bench_local(|| prove(&model.prover(), &prompt, &GenerateOptions::exactly(48), &Silent).expect("a proof"));
}

/// Verification of that proof from its bytes.
#[divan::bench]
fn verify(bencher: Bencher) {
    let model = model();
    let prompt = random_ids(&model.key.config, 16, 3);
    let proof = prove(&model.prover(), &prompt, &GenerateOptions::exactly(48), &Silent).expect("a proof");
    bencher.bench_local(|| verify_bytes(&model.key, &proof.bytes).expect("an accepted proof"));
}
