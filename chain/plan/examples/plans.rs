//! Verifies proofs, makes their plans (docs/chain.md), and compares what these calculate with what the verifier does:
//! `cargo run --release -p tessera-plan --example plans -- FOLDER...`, with proofs and keys in the folders. Proofs that are
//! refused or have no plan are passed over.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tessera_circuits::chunk::Chunk;
use tessera_plan::calculate::in_order;
use tessera_plan::{band_ends, expected, has_plans, Plan};
use tessera_verifier::key::ModelKey;
use tessera_verifier::proof::Proof;
use tessera_verifier::suite::Suite;
use tessera_verifier::verify::{verify, verify_conversation, ChunkStatement};

/// All files of an extension in a folder and the folders in it.
fn files(folder: &Path, wanted: &str, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files(&path, wanted, found)?;
        } else if path.to_string_lossy().ends_with(wanted) {
            found.push(path);
        }
    }
    found.sort();
    Ok(())
}

/// Whether there is a plan for a proof; an error if it does not say what the verifier says.
fn compared(key: &ModelKey, proof: &Proof, about: &str) -> Result<bool, Box<dyn Error>> {
    if verify(key, proof).is_err() {
        return Ok(false);
    }
    let none = !has_plans(&key.config) || key.header.hash_suite != Suite::Keccak;
    let ([own], false) = (proof.chunks.as_slice(), none) else {
        return Ok(false);
    };
    let whole = Chunk::whole(key.config.layers);
    let claim = ChunkStatement::whole(key, &proof.model, &proof.statement, &whole, proof.context);
    let said = verify_conversation(&claim, own)?;
    if !own.statistics.clips.is_empty() {
        return Ok(false);
    }
    let outputs = proof.statement.output.len();
    let plan = Plan::new(key, proof.statement.rows(), outputs).map_err(|e| format!("{about}: {e}"))?;
    let words = plan.words(key, &proof.statement);
    let claims = said.claims(key, claim.chunk);
    let ends = band_ends(&claims, &own.opening, &mut said.transcript.clone());
    let results = plan.run(&[in_order(&said.inputs), ends.concat()].concat(), &words);
    if results != Some(expected(&said, &ends).in_order()) {
        return Err(format!("{about}: the plan says something else").into());
    }
    println!("{about}:");
    for own in &plan.program {
        println!(
            "  {} bytes, {} registers, {} given, {} left, about {} gas",
            own.bytes(),
            own.registers,
            own.given,
            own.left,
            own.gas
        );
    }
    Ok(true)
}

fn compare() -> Result<usize, Box<dyn Error>> {
    let (mut keys, mut proofs) = (Vec::new(), Vec::new());
    for folder in std::env::args().skip(1) {
        files(Path::new(&folder), ".key", &mut keys)?;
        files(Path::new(&folder), ".proof", &mut proofs)?;
    }
    let keys = keys
        .iter()
        .filter_map(|path| ModelKey::from_bytes(&std::fs::read(path).ok()?).ok());
    let keys: Vec<ModelKey> = keys.collect();
    let mut count = 0;
    for path in proofs {
        let Ok(proof) = Proof::from_bytes(&std::fs::read(&path)?) else {
            continue;
        };
        let of_model = |key: &&ModelKey| key.id().is_ok_and(|id| id == proof.model);
        if let Some(key) = keys.iter().find(of_model) {
            count += usize::from(compared(key, &proof, &path.to_string_lossy())?);
        }
    }
    Ok(count)
}

fn main() -> ExitCode {
    match compare() {
        Ok(0) => {
            eprintln!("no proof that has a plan");
            ExitCode::from(2)
        }
        Ok(count) => {
            println!("{count} plans say what the verifier says");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
