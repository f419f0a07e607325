//! Prints the soundness ledger of docs/security.md: every error term of three statements about a model of
//! the fixture's dimensions. `cargo run --release -p tessera-testkit --example ledger`

use tessera_circuits::chunk::Chunk;
use tessera_circuits::model::WeightFormat;
use tessera_testkit::{fixture_size_config, random_model, unrooted_key};
use tessera_verifier::ledger::ledger;

fn main() {
    let key = unrooted_key(&random_model(fixture_size_config(), WeightFormat::Int16, 7));
    let rows = [8, 64, 512];
    let ledgers = rows.map(|r| ledger(&key, &Chunk::whole(key.config.layers), r));
    println!(
        "| term | {} | formula (at {} token rows) |",
        rows.map(|r| r.to_string()).join(" | "),
        rows[1]
    );
    println!("|---|---|---|---|---|");
    let [_, middle, _] = &ledgers;
    for (i, term) in middle.terms.iter().enumerate() {
        let bits = ledgers.each_ref().map(|l| format!("{:.1}", l.terms[i].bits));
        println!("| {} | {} | {} |", term.name, bits.join(" | "), term.formula);
    }
    let total = ledgers.each_ref().map(|l| format!("{:.2}", l.bits()));
    println!("| total | {} | |", total.join(" | "));
}
