//! Where the bytes of a proof and the seconds of the prover are, for a random model of the fixture's
//! dimensions: the tables of docs/performance.md.
//! `cargo run --release -p tessera-prover --example breakdown [prompt tokens] [generated tokens]`

use std::time::Instant;

use serde::Serialize;
use tessera_circuits::model::Strategy;
use tessera_prover::progress::Silent;
use tessera_prover::prove::prove;
use tessera_prover::testing::{fixture_size_config, random_ids, random_model, TestModel};
use tessera_verifier::codec::{encode, FileKind};
use tessera_verifier::proof::Proof;
use tessera_verifier::verify::verify_bytes;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|a| a.parse().expect("a number of tokens"));
    let [prompt, tokens] = [16, 48].map(|default| arguments.next().unwrap_or(default));
    let config = fixture_size_config();
    let model = TestModel::new(random_model(config.clone(), Strategy::W12, 7));
    let prompt = random_ids(&config, prompt, 3);
    prove(&model.prover(), &prompt, tokens, &Silent).expect("a first proof, for warm caches");
    let report = prove(&model.prover(), &prompt, tokens, &Silent).expect("an honest proof");
    let start = Instant::now();
    verify_bytes(&model.key, &report.bytes).expect("the proof verifies");
    let seconds = start.elapsed().as_secs_f64();
    for (name, bytes) in parts(&report.proof) {
        println!("| {name} | {bytes} |");
    }
    println!("| whole file | {} |", report.bytes.len());
    for (name, seconds) in &report.phases {
        println!("| {name} | {seconds:.3} s |");
    }
    println!("| verify | {seconds:.4} s |");
}

/// Encoded bytes of a value, without the header of a file.
fn size(value: &impl Serialize) -> usize {
    encode(FileKind::Proof, value).map_or(0, |bytes| bytes.len() - 12)
}

fn parts(proof: &Proof) -> Vec<(String, usize)> {
    let opening = &proof.opening;
    let mut parts = vec![
        ("statement".to_owned(), size(&proof.statement)),
        ("row statistics".to_owned(), size(&proof.statistics)),
        ("matmul sumcheck".to_owned(), size(&proof.matmuls)),
        ("linear sumcheck".to_owned(), size(&proof.linear)),
        ("evaluations of claimed columns".to_owned(), size(&proof.evaluations)),
        ("weights: opened rows".to_owned(), size(&opening.rows.values)),
        ("weights: paths of the rows".to_owned(), size(&opening.rows.path)),
        ("weights: folded oracles".to_owned(), size(&opening.oracles)),
        (
            "weights: rest".to_owned(),
            size(opening) - size(&opening.rows) - size(&opening.oracles),
        ),
        ("STARK: sampled values".to_owned(), size(&proof.stark.sampled_values)),
    ];
    let trees = ["tables", "trace", "interaction", "composition"];
    for (i, tree) in trees.into_iter().enumerate() {
        let queried = &proof.stark.queried_values[i];
        parts.push((
            format!("STARK: queried values, {tree} ({} columns)", queried.len()),
            size(queried),
        ));
    }
    let (fri, stark) = (&proof.stark.fri_proof, &proof.stark);
    parts.push((
        "STARK: Merkle paths of the four trees".to_owned(),
        size(&stark.decommitments),
    ));
    parts.push(("STARK: FRI first layer".to_owned(), size(&fri.first_layer)));
    parts.push(("STARK: FRI inner layers".to_owned(), size(&fri.inner_layers)));
    parts.push(("STARK: FRI last layer".to_owned(), size(&fri.last_layer_poly)));
    parts
}
