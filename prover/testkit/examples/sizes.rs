//! Where the bytes of a proof are: `cargo run --release -p tessera-testkit --example sizes [TOKENS]`.
use tessera_circuits::model::WeightFormat;
use tessera_model::generate::GenerateOptions;
use tessera_prover::prove;
use tessera_support::progress::Silent;
use tessera_testkit::{fixture_size_config, random_ids, random_model, OfStark, TestModel};
use tessera_verifier::codec::{encode, FileKind};
use tessera_verifier::opening::parts::parts_of;

fn main() {
    let config = fixture_size_config();
    let model = TestModel::new(random_model(config.clone(), WeightFormat::Int16, 7));
    let tokens = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(48);
    let prompt = random_ids(&config, 16, 3);
    for _ in 0..3 {
        let report =
            prove(&model.prover(), &prompt, &GenerateOptions::exactly(tokens), &Silent).expect("an honest proof");
        let p = &report.proof.chunks[0];
        let size = |name: &str, bytes: usize| println!("{name:>24} {bytes:>8}");
        macro_rules! part {
            ($name:expr, $value:expr) => {
                size(
                    $name,
                    encode(FileKind::PROOF, &$value).map_or(0, |b| b.len() - 12),
                )
            };
        }
        part!("statistics", p.statistics);
        part!("matmuls", p.matmuls);
        part!("linear", p.linear);
        part!("lookups", p.lookups);
        let opening = parts_of(&p.opening);
        for (name, own) in ["weights", "activations"].into_iter().zip(&opening.codes) {
            println!("opening, {name}");
            part!("rows", own.rows.values);
            part!("paths", own.rows.path);
        }
        for oracle in &opening.oracles {
            println!("opening, oracle");
            part!("values", oracle.values);
            part!("paths", oracle.path);
        }
        part!("final message", opening.final_message);
        part!("opening", p.opening);
        part!("sampled values", p.of_stark().stark.sampled_values);
        for i in 0..4 {
            println!("tree {i}: {} columns", p.of_stark().stark.queried_values[i].len());
            part!("queried", p.of_stark().stark.queried_values[i]);
            part!("decommitment", p.of_stark().stark.decommitments[i]);
        }
        part!("fri first", p.of_stark().stark.fri_proof.first_layer);
        for l in &p.of_stark().stark.fri_proof.inner_layers {
            part!("fri inner witness", l.fri_witness);
            part!("fri inner paths", l.decommitment);
        }
        size("total", report.bytes.len());
        for (name, seconds) in &report.phases {
            println!("{name:>14} {seconds:.3} s");
        }
    }
}
