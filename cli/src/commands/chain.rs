//! `tessera chain`: reads a key and a proof, and no chain.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::path::Path;

use serde_json::{json, Value};
use tessera::verifier::codec::FileKind;
use tessera::verifier::key::ModelKey;
use tessera::verifier::proof::Proof;
use tessera::verifier::suite::Suite;
use tessera::verifier::verify::PROTOCOL;
use tessera_plan::packing::{Packed, Part};
use tessera_plan::{Plan, Segment};
use tessera_verdict::rows::{bytes, count, Rows};
use tessera_verdict::{input, mistaken};

use super::key;
use super::planned::output_beside;
use crate::args::{ChainArgs, ChainCommand, CheckedPlanArgs, EstimateArgs, PackArgs, PlanArgs, RegisterArgs};
use crate::price::Ether;
use crate::printer::{Failure, Report};

/// Bytes of a transaction, at most.
const TRANSACTION: usize = 1 << 17;

pub fn run(args: &ChainArgs) -> Result<Report, Failure> {
    match &args.command {
        ChainCommand::Plan(args) => plan(args),
        ChainCommand::Register(args) => register(args),
        ChainCommand::Pack(args) => pack(args),
        ChainCommand::Estimate(args) => estimate(args),
    }
}

/// A plan and the key that it is of.
struct Planned {
    key: ModelKey,
    plan: Plan,
    id: [u8; 32],
    json: Value,
}

fn planned(args: &PlanArgs) -> Result<Planned, Failure> {
    let key = key::read_key(&args.key)?;
    if key.header.hash_suite != Suite::Keccak {
        let advice = "contracts verify proofs of keys of Keccak-256: tessera setup --hash keccak";
        return Err(Failure(format!("{}: {advice}", args.key.display())));
    }
    let rows = (args.length as usize).saturating_sub(1);
    let plan = Plan::new(&key, rows, args.tokens as usize);
    let plan = plan.map_err(|e| Failure(e.to_string()))?;
    let id = plan.id(&key)?;
    let segments: Vec<Value> = (plan.program.iter())
        .map(|own| json!({"bytes": own.bytes(), "pages": own.pages.len(), "given": own.given, "left": own.left, "registers": own.registers, "gas": own.gas}))
        .collect();
    let lengths = plan.prompt_tokens(&key);
    let json = json!({
        "plan": hex::encode(id),
        "model_id": key.id()?.to_string(),
        "version": {"tessera": env!("CARGO_PKG_VERSION"), "protocol": PROTOCOL, "key": FileKind::Key.version()},
        "rows": plan.shape.text_rows(),
        "prompt_tokens": [lengths.start(), lengths.end()],
        "output_tokens": plan.shape.outputs,
        "security_bits": f64::from(plan.tenths_of_bits(&key)) / 10.0,
        "segments": segments,
    });
    Ok(Planned { key, plan, id, json })
}

fn plan(args: &CheckedPlanArgs) -> Result<Report, Failure> {
    let mut own = planned(&args.plan)?;
    let mut rows = shown(&own)?;
    if let Some(points) = args.check {
        for _ in 0..points {
            // The state of a hasher is random; it does not have to be secret.
            let random: [u64; 4] = std::array::from_fn(|_| RandomState::new().build_hasher().finish());
            own.plan.check(&own.key, random).map_err(|e| Failure(e.to_string()))?;
        }
        own.json["checked_points"] = json!(points);
        rows = rows.row(
            "checked",
            format!("agrees with the verifier at {}", count(points, "random point")),
        );
    }
    Ok(Report::done(rows.to_string(), own.json))
}

fn shown(own: &Planned) -> Result<Rows, Failure> {
    let Planned { key, plan, id, .. } = own;
    let all = |of: &dyn Fn(&Segment) -> u64| plan.program.iter().map(of).sum::<u64>();
    let lengths = plan.prompt_tokens(key);
    let rows = Rows::default()
        .digest("plan", id)
        .digest("model", &key.id()?.0)
        .row("prompt tokens", format!("{} to {}", lengths.start(), lengths.end()))
        .row("output tokens", plan.shape.outputs)
        .row(
            "security",
            format!("{:.1} bits", f64::from(plan.tenths_of_bits(key)) / 10.0),
        )
        .row("rows in whole blocks", plan.shape.text_rows())
        .row("segments", plan.program.len())
        .row("pages", all(&|own| own.pages.len() as u64))
        .row("bytes of the program", bytes(all(&|own| own.bytes() as u64)))
        .row("gas", format!("about {}", all(&|own| own.gas)));
    Ok(rows)
}

fn register(args: &RegisterArgs) -> Result<Report, Failure> {
    let out = output_beside(&args.out, [&args.plan.key])?;
    let mut own = planned(&args.plan)?;
    let content = program(&own.plan, own.plan.header(&own.key)?, own.id);
    out.write(content.to_string().as_bytes())?;
    let rows = shown(&own)?.path("program", &args.out);
    own.json["out"] = json!(args.out.display().to_string());
    Ok(Report::done(rows.to_string(), own.json))
}

/// What both files for submit.mjs have.
fn program(plan: &Plan, header: Vec<u8>, id: [u8; 32]) -> Value {
    let pages = |own: &Segment| own.pages.iter().map(hex::encode).collect::<Vec<_>>();
    json!({
        "plan": hex::encode(id),
        "header": hex::encode(header),
        "program": plan.program.iter().map(pages).collect::<Vec<_>>(),
        "gas": plan.program.iter().map(|own| own.gas).collect::<Vec<_>>(),
        "behind": plan.program_digests().iter().map(hex::encode).collect::<Vec<_>>(),
    })
}

fn packed(key: &Path, proof: &Path) -> Result<Packed, Failure> {
    input::once([key, proof]).map_err(Failure)?;
    let key = key::read_key(key)?;
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
        "trees": part.trees,
    })
}

fn pack(args: &PackArgs) -> Result<Report, Failure> {
    let out = output_beside(&args.out, [&args.key, &args.proof])?;
    let own = packed(&args.key, &args.proof)?;
    let [prompt, output, context] = [own.statement[0], own.statement[1], own.context].map(hex::encode);
    let mut content = program(&own.plan, own.header.clone(), own.id);
    for (name, value) in [
        ("prompt", json!(prompt)),
        ("output", json!(output)),
        ("context", json!(context)),
        ("said", json!(hex::encode(&own.said))),
        ("opening", part_json(&own.opening)),
    ] {
        content[name] = value;
    }
    out.write(content.to_string().as_bytes())?;
    let [prompt_digest, output_digest] = &own.statement;
    let rows = Rows::default()
        .digest("plan", &own.id)
        .digest("prompt", prompt_digest)
        .digest("output", output_digest)
        .digest("context", &own.context)
        .path("calls", &args.out);
    let out = args.out.display().to_string();
    let json = json!({"plan": hex::encode(own.id), "prompt": prompt, "output": output, "context": context, "out": out});
    Ok(Report::done(rows.to_string(), json))
}

fn estimate(args: &EstimateArgs) -> Result<Report, Failure> {
    let own = packed(&args.key, &args.proof)?;
    let calls = own.calls();
    let all: usize = calls.iter().map(|own| own.bytes).sum();
    let gas: u64 = calls.iter().map(|own| own.gas).sum();
    let mut rows = Rows::default().digest("plan", &own.id);
    for call in &calls {
        rows = rows.row(
            call.name.clone(),
            format!("{} gas, {}", call.gas, bytes(call.bytes as u64)),
        );
    }
    let mut rows = rows.row("all", format!("about {gas} gas, {}", bytes(all as u64))).row(
        "transactions",
        format!("{} or more, by their bytes", all.div_ceil(TRANSACTION)),
    );
    let calls: Vec<Value> = calls
        .iter()
        .map(|own| json!({"name": own.name, "bytes": own.bytes, "gas": own.gas}))
        .collect();
    let mut json = json!({"plan": hex::encode(own.id), "calls": calls, "gas": gas, "bytes": all, "transactions": all.div_ceil(TRANSACTION)});
    if let Some(price) = args.gas_price {
        let data = args.data_price.unwrap_or_default();
        let wei = u128::from(gas) * price.0 + all as u128 * data.0;
        rows = rows.row("cost", format!("about {} ether", Ether(wei)));
        // Numbers of JSON may be too small for wei.
        json["cost"] = json!({"wei": wei.to_string(), "ether": Ether(wei).to_string()});
    }
    Ok(Report::done(rows.to_string(), json))
}
