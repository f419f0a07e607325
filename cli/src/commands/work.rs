//! Proofs in chunks: `tessera prove --work`, `resume`, `status`, `prove-chunk` and `compose`.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Instant;

use serde_json::{json, Value};
use tessera::circuits::chunk::Chunk;
use tessera::circuits::statement::Lengths;
use tessera::in_chunks;
use tessera::lengths::fewest_chunks;
use tessera::model::{key_tokenizer, read_key, Model};
use tessera::plan::{equal_parts, Budget, Plan, Subject, Task};
use tessera::prover::prove_statement;
use tessera::quantised::directory::KEY_FILE;
use tessera::quantised::forward::Saturations;
use tessera::support::output::Output;
use tessera::support::progress::Progress;
use tessera::verifier::key::ModelKey;
use tessera::work::{self, core_sets, ChunkState, CpuWorker, Request, WorkDir, Worker};
use tessera_verdict::rows::{bytes, count, seconds, Rows};
use tessera_verdict::shown;
use tessera_verdict::{add_context, mode};

use super::claim::claim_of;
use super::interrupt;
use super::planned::{model_files, output, output_beside};
use super::prompt::{rows, Asked};
use super::proved::{answer_json, differs};
use super::report::{choices_json, memory, saturated_rows, warnings};
use super::security;
use super::status::{layers, report as status, resume_command};
use crate::args::{ChunksArg, ComposeArgs, DrivingArgs, ModeArg, ProveArgs, ProveChunkArgs, ResumeArgs};
use crate::printer::{peak_rss_bytes, Failure, Report};
use crate::watch::Watch;
use tessera::given;
use tessera::{mapped, Allowance, Error};

/// `tessera prove --work`
pub fn prove(
    args: &ProveArgs,
    dir: &Path,
    out: &Path,
    progress: &dyn Progress,
    quiet: bool,
) -> Result<Report, Failure> {
    // Who only prepares a job reports it, wherever its proof will go.
    match args.prepare {
        true => Output::of(out)?.check()?,
        false => drop(output_beside(out, model_files(&args.model))?),
    }
    let asked = Asked::read(args)?;
    progress.phase("open model", None);
    given::model_dir(&args.model)?;
    let path = args.model.join(KEY_FILE);
    let key = read_key(&path)?;
    let tokenizer = key_tokenizer(&key, &path)?;
    let read = asked.request(&key, tokenizer.as_ref())?;
    let lengths = read.lengths;
    let allowance = share(args.memory, &args.model, &args.driving);
    let subject = Subject::of_dir(&key, &args.model);
    let (layers, plan) = divide(args, &key, &subject, lengths, &allowance)?;
    let model = Model::of_key(&args.model, key, tokenizer)?.with_choices(plan.choices);
    let own = match model.expected_output(&read, progress) {
        Err(Error::Differs(difference)) => return Ok(differs(&difference)),
        other => other?,
    };
    let driver = work::drive(dir)?;
    on_interrupt(dir);
    let clock = Instant::now();
    let prompt = &read.prompt;
    let request = Request {
        prompt: &prompt.ids,
        options: read.options_for(own.as_ref().map(|own| &*own.output)),
        context: args.context,
        layers,
        out,
    };
    let job = WorkDir::create(dir, &driver, &model, &request, progress)?;
    progress.done();
    let mut report = match args.prepare {
        true => status(&job)?,
        false => drive(&job, &model, &plan, allowance.budget, &args.driving, quiet, clock)?,
    };
    report.json["spelled_special_tokens"] = json!(prompt.spelled);
    report.json["prompt_notes"] = json!(prompt.notes);
    report.json["answer"] = answer_json(own.is_some(), own.and_then(|own| own.other_from));
    report.text.push_str(&rows(prompt, Rows::default()).to_string());
    Ok(report)
}

/// `tessera resume`
pub fn resume(args: &ResumeArgs, progress: &dyn Progress, quiet: bool) -> Result<Report, Failure> {
    let job = WorkDir::open(&args.dir)?;
    output(&job.job.out)?;
    progress.phase("open model", None);
    let path = model_dir(&job, args.model.as_deref())?;
    let allowance = share(args.memory, &path, &args.driving);
    let (model, plan) = open_for(&job, &path, &job.chunks, &allowance)?;
    let _driver = work::drive(&args.dir)?;
    on_interrupt(&args.dir);
    progress.done();
    drive(
        &job,
        &model,
        &plan,
        allowance.budget,
        &args.driving,
        quiet,
        Instant::now(),
    )
}

/// `tessera prove-chunk`
pub fn prove_chunk(args: &ProveChunkArgs, progress: &dyn Progress) -> Result<Report, Failure> {
    let job = WorkDir::open(&args.work)?;
    let done_before = matches!(job.state(args.chunk)?, ChunkState::Done(_));
    progress.phase("open model", None);
    let path = model_dir(&job, args.model.as_deref())?;
    let allowance = Allowance::new(args.memory, mapped(&path));
    let own = [job.chunks[args.chunk]];
    let (model, plan) = open_for(&job, &path, &own, &allowance)?;
    on_interrupt(&args.work);
    let checkpoint = job.prove_chunk(&model, args.chunk, progress)?;
    let text = Rows::default()
        .row("chunk", format!("{} of {}", args.chunk, job.chunks.len()))
        .row("layers", layers(&job.chunks[args.chunk]))
        .row(
            "proof",
            match done_before {
                true => "was there already".to_owned(),
                false => bytes(checkpoint.proof_bytes),
            },
        )
        .row("time", seconds(checkpoint.milliseconds as f64 / 1e3))
        .row("peak memory", memory(plan.predicted_bytes()));
    let json = json!({
        "chunk": args.chunk,
        "chunks": job.chunks.len(),
        "done_before": done_before,
        "checkpoint": checkpoint,
        "predicted_bytes": plan.predicted_bytes(),
        "peak_rss_bytes": peak_rss_bytes(),
    });
    Ok(Report::done(text.to_string(), json))
}

/// `tessera compose`
pub fn compose(args: &ComposeArgs, progress: &dyn Progress) -> Result<Report, Failure> {
    let job = WorkDir::open(&args.dir)?;
    let path = args.out.as_deref().unwrap_or(&job.job.out);
    let (shown, out) = (path, output(path)?);
    progress.phase("open model", None);
    let _driver = work::drive(&args.dir)?;
    on_interrupt(&args.dir);
    let clock = Instant::now();
    let path = model_dir(&job, args.model.as_deref())?;
    let allowance = Allowance::new(args.memory, mapped(&path));
    let key = read_key(&path.join(KEY_FILE))?;
    let whole = Task::prove(job.job.statement().lengths(), Chunk::whole(key.config.layers));
    let provable = security::check_whole(&key, job.job.statement().lengths());
    let unified = match args.mode {
        ModeArg::Chain => None,
        ModeArg::Unified => {
            provable?;
            let plan = Subject::of_dir(&key, &path).plan(whole, allowance.budget);
            Some(plan.map_err(|e| allowance.refusal(e))?)
        }
        ModeArg::Auto => {
            let plan = provable.map(|()| Subject::of_dir(&key, &path).plan(whole, allowance.budget).ok());
            plan.unwrap_or_default()
        }
    };
    let mut model = Model::open(&path)?;
    if let Some(plan) = &unified {
        model = model.with_choices(plan.choices);
        job.check_model(&model)?;
        let report = prove_statement(&model.prover(), job.job.statement(), job.job.context().into(), progress)?;
        work::write_output(&out, &report.bytes)?;
        let bits = report.security_bits;
        return composed(&job, &model, shown, &report.bytes, bits, 1, &report.saturated, clock);
    }
    progress.phase("compose", None);
    let (proof, verified) = job.compose(&model)?;
    let encoded = proof.to_bytes()?;
    work::write_output(&out, &encoded)?;
    composed(
        &job,
        &model,
        shown,
        &encoded,
        verified.security_bits,
        verified.chunks,
        &saturated(&job)?,
        clock,
    )
}

/// Proves what is left and composes the chain.
fn drive(
    job: &WorkDir,
    model: &Model,
    plan: &Plan,
    budget: Option<Budget>,
    driving: &DrivingArgs,
    quiet: bool,
    clock: Instant,
) -> Result<Report, Failure> {
    job.check(model)?;
    let count = usize::from(driving.devices.unwrap_or(1));
    let memory_each = budget.map_or(u64::MAX, |Budget(bytes)| bytes);
    let devices = core_sets(count)?
        .into_iter()
        .enumerate()
        .map(|(i, cores)| CpuWorker::new(i, cores, memory_each))
        .collect::<Result<Vec<_>, _>>()?;
    let devices: Vec<&dyn Worker> = devices.iter().map(|d| d as &dyn Worker).collect();
    let done = job.chunks.len() - job.open_chunks().len();
    let watch = Watch::new(quiet, driving.events.as_deref(), job.chunks.len(), done)?;
    let proved = work::run(job, model, &devices, &watch);
    watch.finish();
    if let Err(error) = proved {
        watch.event(json!({"event": "failed", "error": error.to_string()}));
        return Err(Failure(format!("{error}; go on with {}", resume_command(job.dir()))));
    }
    let (proof, verified) = job.compose(model)?;
    let encoded = proof.to_bytes()?;
    let out = &job.job.out;
    work::write_output(&Output::of(out)?, &encoded)?;
    watch.event(json!({"event": "composed", "proof": out.display().to_string(), "proof_bytes": encoded.len()}));
    let mut report = composed(
        job,
        model,
        out,
        &encoded,
        verified.security_bits,
        verified.chunks,
        &saturated(job)?,
        clock,
    )?;
    report.json["memory"] = choices_json(plan);
    report.json["predicted_bytes"] = json!(plan.predicted_bytes() * count as u64);
    report.json["devices"] = json!(count);
    Ok(report)
}

/// What the chunks clipped.
fn saturated(job: &WorkDir) -> Result<Saturations, Failure> {
    let mut all = Saturations::new();
    for chunk in 0..job.chunks.len() {
        if let ChunkState::Done(checkpoint) = job.state(chunk)? {
            for (tensor, clipped) in checkpoint.saturated {
                *all.entry(tensor).or_default() += clipped;
            }
        }
    }
    Ok(all)
}

/// The report of a composed proof.
#[allow(clippy::too_many_arguments)]
fn composed(
    job: &WorkDir,
    model: &Model,
    out: &Path,
    encoded: &[u8],
    security_bits: f64,
    chunks: usize,
    saturated: &Saturations,
    clock: Instant,
) -> Result<Report, Failure> {
    let statement = job.job.statement();
    let claim = claim_of(&statement, &model.key, Ok(model.tokenizer.as_ref()));
    let time = clock.elapsed().as_secs_f64();
    let mut json = json!({
        "model_id": model.id.to_string(),
        "mode": mode(chunks),
        "chunks": chunks,
        "seconds": time,
        "proof_bytes": encoded.len(),
        "security_bits": security_bits,
        "saturated": saturated,
        "warnings": warnings(saturated),
        "peak_rss_bytes": peak_rss_bytes(),
        "proof": out.display().to_string(),
    });
    if let Value::Object(json) = &mut json {
        add_context(job.job.context(), json);
        claim.add_to(json);
    }
    let text = claim
        .rows(Rows::default())
        .row("model", model.id)
        .maybe("context", job.job.context())
        .row("mode", mode(chunks))
        .row("chunks", chunks)
        .row(
            "proof",
            format!("{}, {}", shown::path(out), bytes(encoded.len() as u64)),
        )
        .row("security", format!("{security_bits:.1} bits"))
        .row("time", seconds(time));
    let text = saturated_rows(text, saturated).row("peak memory", bytes(peak_rss_bytes()));
    Ok(Report::done(text.to_string(), json))
}

/// The budget of one device.
fn share(memory: Option<Budget>, model_dir: &Path, driving: &DrivingArgs) -> Allowance {
    Allowance::new(memory, mapped(model_dir)).shared_by(driving.devices.unwrap_or(1).into())
}

/// Layers of every chunk, and how the chunks are proved.
fn divide(
    args: &ProveArgs,
    key: &ModelKey,
    subject: &Subject,
    lengths: Lengths,
    allowance: &Allowance,
) -> Result<(Vec<usize>, Plan), Failure> {
    let (of, budget) = (key.config.layers, allowance.budget);
    let given = args.chunk_layers.is_some() || matches!(args.chunks, Some(ChunksArg::Number(_)));
    let layers = match (args.chunk_layers, args.chunks) {
        (Some(layers), _) => {
            let layers = usize::from(layers).min(of);
            let rest = of % layers;
            let mut list = vec![layers; of / layers];
            list.extend((rest > 0).then_some(rest));
            list
        }
        (None, Some(ChunksArg::Number(n))) if n > of => {
            return Err(Failure(format!(
                "{n} chunks are too many: a chunk has at least one layer, and the model has {}",
                count(of, "layer")
            )));
        }
        (None, Some(ChunksArg::Number(n))) => equal_parts(of, n),
        // As few as have enough security; perhaps more, for memory.
        (None, _) => equal_parts(of, fewest_chunks(key, lengths).unwrap_or(1)),
    };
    let chunks = Chunk::partition(layers.iter().copied(), of)?;
    security::check(key, &chunks, lengths)?;
    if given {
        let plan = subject.plan_chunks(lengths, &chunks, budget).map_err(|error| {
            let text = allowance.refusal(error).to_string();
            Failure(text + &in_chunks(key, subject, lengths, budget))
        })?;
        return Ok((layers, plan));
    }
    let divided = subject.divide(lengths, chunks.len(), budget);
    let (layers, plan) = divided.map_err(|e| allowance.refusal(e))?;
    security::check(key, &Chunk::partition(layers.iter().copied(), of)?, lengths)?;
    Ok((layers, plan))
}

fn model_dir(job: &WorkDir, named: Option<&Path>) -> Result<PathBuf, Failure> {
    let dir = named.unwrap_or(&job.job.model_dir);
    given::model_dir(dir)?;
    Ok(dir.to_owned())
}

/// Opens the model of a job, to prove some of its chunks within a budget each.
fn open_for(job: &WorkDir, path: &Path, chunks: &[Chunk], allowance: &Allowance) -> Result<(Model, Plan), Failure> {
    let key = read_key(&path.join(KEY_FILE))?;
    let lengths = job.job.statement().lengths();
    // Before dimensions of another model are planned with.
    let model = Model::open(path)?;
    job.check_model(&model)?;
    let plan = Subject::of_dir(&key, path).plan_chunks(lengths, chunks, allowance.budget);
    let plan = plan.map_err(|e| allowance.refusal(e))?;
    Ok((model.with_choices(plan.choices), plan))
}

/// From now on an interruption waits for the file that is being written, and says how to go on.
fn on_interrupt(dir: &Path) {
    static ONCE: OnceLock<()> = OnceLock::new();
    let dir = dir.to_owned();
    ONCE.get_or_init(|| {
        interrupt::answer(move || {
            let _writing = work::pause_writes();
            format!("what is proved is kept, go on with {}", resume_command(&dir))
        })
    });
}
