//! `tessera reveal`.

use serde_json::{json, Map, Value};
use tessera::support::progress::Progress as _;
use tessera::{given, reveal_ids, Key};
use tessera_verdict::rows::{bytes, count, Rows};
use tessera_verdict::{input, runs, shown};

use super::key::unusable_key;
use super::planned::output_beside;
use crate::args::RevealArgs;
use crate::bars::Display;
use crate::printer::{report_columns, Failure, Report};

/// For how many reveals there is room.
fn left(reveals: usize) -> String {
    match reveals {
        0 => "no more reveals: the secret is spent, delete it".to_owned(),
        left => format!("room for {}", count(left, "more reveal")),
    }
}

pub fn run(args: &RevealArgs, display: &Display) -> Result<Report, Failure> {
    let read = [&args.key, &args.proof, &args.secret];
    let out = output_beside(&args.out, read)?;
    if !input::is_stdin(&args.key) {
        given::key(&args.key)?;
    }
    let key = input::read(&args.key).map_err(Failure)?;
    let key = Key::from_bytes(&key).map_err(|e| unusable_key(&input::name(&args.key), &e))?;
    let proof = input::read_proof(&args.proof, key.model_key()).map_err(Failure)?;
    display.phase("reveal", None);
    let reveal = reveal_ids(&key, &proof, &args.secret, &args.rows)?;
    display.done();
    out.write(&reveal.bytes)?;

    let (positions, ids): (Vec<usize>, Vec<u32>) = reveal.ids.iter().copied().unzip();
    let claim = key.claim(&reveal.statement);
    let mut json = Map::new();
    for (name, value) in [
        ("model_id", json!(key.id().to_string())),
        ("proof", json!(args.proof.display().to_string())),
        ("reveal", json!(args.out.display().to_string())),
        ("reveal_bytes", json!(reveal.bytes.len())),
        ("revealed", json!(positions)),
        ("revealed_ids", json!(ids)),
        ("reveals_left", json!(reveal.left)),
    ] {
        json.insert(name.to_owned(), value);
    }
    claim.add_to(&mut json);
    let rows = Rows::default()
        .row(
            "revealed",
            format!("{} at {}", count(ids.len(), "id"), runs(&positions)),
        )
        .row(
            "reveal",
            format!("{}, {}", shown::path(&args.out), bytes(reveal.bytes.len() as u64)),
        )
        .row("left", left(reveal.left));
    let text = claim.rows(rows).render(report_columns());
    Ok(Report::done(text, Value::Object(json)))
}
