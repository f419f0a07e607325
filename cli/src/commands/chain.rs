//! `tessera chain`: reads a key and a proof, and no chain.

use std::path::Path;

use serde_json::{json, Value};
use tessera_circuits::model::ModelConfig;
use tessera_prover::support::files;
use tessera_verdict::rows::{bytes, Rows};
use tessera_verdict::{input, mistaken};
use tessera_verifier::packing::{Packed, Part};
use tessera_verifier::plan::Plan;
use tessera_verifier::proof::Proof;
use tessera_verifier::suite::Suite;

use super::given;
use crate::args::{ChainArgs, ChainCommand, EstimateArgs, PackArgs, PlanArgs};
use crate::printer::{Failure, Report};

/// Bytes of a transaction, at most.
const TRANSACTION: usize = 1 << 17;

pub fn run(args: &ChainArgs) -> Result<Report, Failure> {
    match &args.command {
        ChainCommand::Plan(args) => plan(args),
        ChainCommand::Pack(args) => pack(args),
        ChainCommand::Estimate(args) => estimate(args),
    }
}

fn plan(args: &PlanArgs) -> Result<Report, Failure> {
    let key = given::read_key(&args.key)?;
    if key.header.hash_suite != Suite::Keccak {
        let advice = "contracts verify proofs of keys of Keccak-256: tessera setup --hash keccak";
        return Err(Failure(format!("{}: {advice}", args.key.display())));
    }
    let rows = (args.length as usize).saturating_sub(1);
    let plan = Plan::new(&key, ModelConfig::token_log(rows), args.tokens as usize);
    let plan = plan.ok_or_else(|| {
        Failure(
            "there is no plan: of encoders, models that cap their scores or whose leading rows are those of one token, such lengths, or models that are too large"
                .into(),
        )
    })?;
    let id = plan.id(&key)?;
    let segments: Vec<Value> = (plan.program.iter())
        .map(|own| json!({"bytes": own.code.len(), "given": own.given, "left": own.left, "registers": own.registers, "gas": own.gas}))
        .collect();
    let rows = Rows::default()
        .row("plan", hex::encode(id))
        .row("padded rows", 1u64 << plan.shape.token)
        .row("segments", plan.program.len())
        .row(
            "program",
            bytes(plan.program.iter().map(|own| own.code.len() as u64).sum()),
        );
    let json = json!({"plan": hex::encode(id), "rows": 1u64 << plan.shape.token, "segments": segments});
    Ok(Report::done(rows.to_string(), json))
}

fn packed(key: &Path, proof: &Path) -> Result<Packed, Failure> {
    input::once([key, proof]).map_err(Failure)?;
    let key = given::read_key(key)?;
    let name = input::name(proof);
    let content = input::read(proof).map_err(Failure)?;
    let failed = |reason: String| Failure(format!("{name}: {}", mistaken(&name, &content).unwrap_or(reason)));
    let proof = Proof::from_bytes(&content).map_err(|e| failed(e.to_string()))?;
    Packed::new(&key, &proof).map_err(|e| failed(e.to_string()))
}

fn part_json(part: &Part) -> Value {
    json!({
        "conversation": hex::encode(&part.conversation),
        "stages": part.stages.iter().map(hex::encode).collect::<Vec<_>>(),
    })
}

fn pack(args: &PackArgs) -> Result<Report, Failure> {
    let own = packed(&args.key, &args.proof)?;
    let [prompt, output] = own.statement.map(hex::encode);
    let content = json!({
        "plan": hex::encode(own.id),
        "prompt": prompt,
        "output": output,
        "header": hex::encode(&own.header),
        "program": own.plan.program.iter().map(|own| hex::encode(&own.code)).collect::<Vec<_>>(),
        "behind": own.plan.program_digests().iter().map(hex::encode).collect::<Vec<_>>(),
        "said": hex::encode(&own.said),
        "opening": part_json(&own.opening),
        "stark": part_json(&own.stark),
    });
    files::write(&args.out, content.to_string().as_bytes())?;
    let rows = Rows::default()
        .row("plan", hex::encode(own.id))
        .row("prompt", &prompt)
        .row("output", &output)
        .path("calls", &args.out);
    let json =
        json!({"plan": hex::encode(own.id), "prompt": prompt, "output": output, "out": args.out.display().to_string()});
    Ok(Report::done(rows.to_string(), json))
}

fn estimate(args: &EstimateArgs) -> Result<Report, Failure> {
    let own = packed(&args.key, &args.proof)?;
    let calls = own.calls();
    let all: usize = calls.iter().map(|own| own.bytes).sum();
    let gas: u64 = calls.iter().map(|own| own.gas).sum();
    let mut rows = Rows::default().row("plan", hex::encode(own.id));
    for call in &calls {
        rows = rows.row(
            call.name.clone(),
            format!("{} gas, {}", call.gas, bytes(call.bytes as u64)),
        );
    }
    let rows = rows.row("all", format!("about {gas} gas, {}", bytes(all as u64))).row(
        "transactions",
        format!("{} or more, by their bytes", all.div_ceil(TRANSACTION)),
    );
    let calls: Vec<Value> = calls
        .iter()
        .map(|own| json!({"name": own.name, "bytes": own.bytes, "gas": own.gas}))
        .collect();
    let json = json!({"plan": hex::encode(own.id), "calls": calls, "gas": gas, "bytes": all, "transactions": all.div_ceil(TRANSACTION)});
    Ok(Report::done(rows.to_string(), json))
}
