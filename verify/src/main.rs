//! `tessera-verify`: what `tessera verify` and `tessera inspect` say of keys and proofs, in one small program.
#![forbid(unsafe_code)]

mod batch;
mod input;

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::{Args, Parser, Subcommand};
use console::Term;
use serde_json::{json, Map, Value};
use tessera_circuits::chunk::Chunk;
use tessera_verdict::describe::{key_json, key_rows, proof_json, proof_rows};
use tessera_verdict::expected::{Expected, Ids};
use tessera_verdict::rows::{set_width, Rows};
use tessera_verdict::{mistaken, shown, Key, Status, Verdict};
use tessera_verifier::codec::FileKind;
use tessera_verifier::proof::Proof;
use tessera_verifier::security::{security_bits, MIN_BITS};

use self::input::{read, read_key};

/// Checks proofs that a language model generates a text: needs the model key, but neither weights nor prover.
///
/// Exit status: 0 every proof accepted, 1 a proof rejected (malformed included), 2 could not be done or decided (file
/// not found, key of another model, wrong usage). Of several proofs, one that is rejected decides.
#[derive(Debug, Parser)]
#[command(
    name = "tessera-verify",
    version,
    max_term_width = 100,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    verify: Option<VerifyArgs>,
    /// Print JSON on stdout instead of text, also on failure: one object, or one for each proof and a summary
    #[arg(long, global = true)]
    json: bool,
    /// Number of proofs that are checked at the same time [default: one per core]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check proofs; may be left out
    Verify(VerifyArgs),
    /// Say what a model key or proof is
    Inspect(InspectArgs),
}

#[derive(Debug, Args)]
struct VerifyArgs {
    /// Model key, from someone you trust
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Proof files; - is standard input. Of several, each has a line, and a summary follows
    #[arg(required = true)]
    proofs: Vec<PathBuf>,
    /// A line and a summary for a single proof, too
    #[arg(long)]
    lines: bool,
    /// Reject unless the prompt has these ids
    #[arg(long, value_name = "IDS")]
    expect_prompt_ids: Option<Ids>,
    /// Reject unless the output has these ids
    #[arg(long, value_name = "IDS")]
    expect_output_ids: Option<Ids>,
    /// Reject unless the output reads exactly like this (special tokens are not shown in a text)
    #[arg(
        long,
        value_name = "TEXT",
        conflicts_with = "expect_output_ids",
        allow_hyphen_values = true
    )]
    expect_output: Option<String>,
}

#[derive(Debug, Args)]
struct InspectArgs {
    /// Model key or proof
    path: PathBuf,
    /// Prompt and generated tokens of the statement that security is said for
    #[arg(long, value_name = "N", default_value_t = 64)]
    tokens: usize,
}

/// What a command prints, and what it comes to.
struct Report {
    status: Status,
    text: String,
    json: Value,
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    if let Some((_, columns)) = Term::stdout().size_checked() {
        set_width(usize::from(columns).max(40));
    }
    let threads = cli.threads.map_or_else(cores, usize::from);
    let status = match (&cli.command, &cli.verify) {
        (Some(Command::Inspect(args)), _) => finish(guarded(|| inspect(args)), cli.json),
        (Some(Command::Verify(args)), _) | (None, Some(args)) if args.lines || args.proofs.len() > 1 => {
            match prepare(args) {
                Ok((key, expected)) => batch::run(&key, args, &expected, threads, cli.json),
                Err(failure) => finish(Err(failure), cli.json),
            }
        }
        (Some(Command::Verify(args)), _) | (None, Some(args)) => finish(single(args), cli.json),
        (None, None) => finish(Err("nothing to do".to_owned()), cli.json),
    };
    ExitCode::from(status)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Wrong usage is a failure like any other; help and version are not.
fn usage(error: &clap::Error) -> ExitCode {
    if error.use_stderr() && std::env::args_os().any(|a| a == "--json") {
        let text = error.to_string();
        let message = text.trim().trim_start_matches("error: ").to_owned();
        return ExitCode::from(finish(Err(message), true));
    }
    let printed = error.print();
    ExitCode::from(if error.use_stderr() || printed.is_err() { 2 } else { 0 })
}

/// A panic is a defect of this program: it is reported as a failure, so that nothing looks decided.
fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    panic::set_hook(Box::new(|_| ()));
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    outcome.unwrap_or_else(|cause| {
        let text = cause.downcast_ref::<&str>().map(|s| (*s).to_owned());
        let text = text
            .or_else(|| cause.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        Err(format!("internal error, please report it: {}", text.replace('\n', " ")))
    })
}

/// The key, and what its proofs have to be about.
fn prepare(args: &VerifyArgs) -> Result<(Key, Expected), String> {
    let key = guarded(|| read_key(&args.key))?;
    if args.expect_output.is_some() && !key.tokenizer()? {
        return Err("the model has no tokenizer, so texts must be given as token ids".to_owned());
    }
    let expected = Expected {
        prompt: args.expect_prompt_ids.as_ref().map(|ids| ids.0.clone()),
        output: args.expect_output_ids.as_ref().map(|ids| ids.0.clone()),
        output_text: args.expect_output.clone(),
    };
    Ok((key, expected))
}

/// The verdict on one proof, and the seconds that it took.
fn judge(key: &Key, proof: &Path, expected: &Expected) -> Result<(Verdict, f64), String> {
    guarded(|| {
        let bytes = read(proof)?;
        let clock = Instant::now();
        let verdict = key.verify(&bytes);
        let time = clock.elapsed().as_secs_f64();
        let verdict = verdict.because(mistaken(&input::name(proof), &bytes));
        Ok((verdict.expecting(expected)?, time))
    })
}

fn single(args: &VerifyArgs) -> Result<Report, String> {
    let (key, expected) = prepare(args)?;
    let [proof] = args.proofs.as_slice() else {
        return Err("one proof is expected".to_owned());
    };
    let (verdict, time) = judge(&key, proof, &expected)?;
    let names = (input::name(proof), args.key.display().to_string());
    if let (Status::Undecided, Some(reason)) = (verdict.status(), verdict.reason(&names.0, &names.1)) {
        return Err(reason);
    }
    Ok(Report {
        status: verdict.status(),
        text: verdict.text(&names.0, &names.1, Some(time)),
        json: Value::Object(verdict.json(&names.0, &names.1, Some(time))),
    })
}

fn inspect(args: &InspectArgs) -> Result<Report, String> {
    let name = input::name(&args.path);
    let bytes = read(&args.path)?;
    let (text, json) = if bytes.starts_with(&FileKind::Key.magic()) {
        let key = Key::from_bytes(&bytes).map_err(|e| format!("{name}: {e}"))?;
        describe_key(&key, &name, args.tokens.max(2))?
    } else if bytes.starts_with(&FileKind::Proof.magic()) {
        let proof = Proof::from_bytes(&bytes).map_err(|e| format!("{name}: {e}"))?;
        let rows = proof_rows(&proof, &name, bytes.len());
        (rows.to_string(), proof_json(&proof, bytes.len()))
    } else {
        return Err(format!("{name} is neither a model key nor a proof"));
    };
    Ok(Report {
        status: Status::Accepted,
        text,
        json,
    })
}

fn describe_key(key: &Key, name: &str, tokens: usize) -> Result<(String, Value), String> {
    let model = key.model_key();
    let whole = [Chunk::whole(model.config.layers)];
    let full = model.config.context + 1;
    let bits = |tokens: usize| {
        let name = match tokens == full {
            true => format!("the full context of {tokens} tokens"),
            false => format!("{tokens} tokens"),
        };
        match security_bits(model, &whole, tokens - 1) {
            bits if bits >= MIN_BITS => format!("{:.1} bits for {name}", (bits * 10.0).floor() / 10.0),
            _ => format!("{name} cannot be proved in one piece"),
        }
    };
    let security = match tokens < full {
        true => format!("{}\n{}", bits(tokens), bits(full)),
        false => bits(full),
    };
    let rows = Rows::default().path("model key", name.as_ref());
    let rows = key_rows(rows, model, key.tokenizer(), &security).map_err(|e| e.to_string())?;
    let json = key_json(model, key.tokenizer() == Ok(true), tokens.min(full)).map_err(|e| e.to_string())?;
    Ok((rows.to_string(), Value::Object(json)))
}

/// Prints the outcome of a command; returns the exit status.
fn finish(outcome: Result<Report, String>, json: bool) -> u8 {
    let (status, written) = match outcome {
        Ok(report) if json => (report.status, line(io::stdout(), &report.json.to_string())),
        Ok(report) => (report.status, line(io::stdout(), report.text.trim_end())),
        Err(message) if json => {
            let object = Map::from_iter([("error".to_owned(), json!(message))]);
            (
                Status::Undecided,
                line(io::stdout(), &Value::Object(object).to_string()),
            )
        }
        Err(message) => {
            let columns = Term::stderr()
                .size_checked()
                .map_or(usize::MAX, |(_, c)| c.max(40).into());
            let text = format!("error: {}", shown::message(&message, columns));
            (Status::Undecided, line(io::stderr(), &text))
        }
    };
    delivered(status, written)
}

/// Whoever closed the pipe has seen enough; a verdict that could not be delivered for another reason must not look like an
/// acceptance.
fn delivered(status: Status, written: io::Result<()>) -> u8 {
    match written {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Status::Undecided.code(),
        _ => status.code(),
    }
}

fn line(mut to: impl Write, text: &str) -> io::Result<()> {
    writeln!(to, "{text}")?;
    to.flush()
}
