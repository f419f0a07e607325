//! The program `tessera-verify` checks proofs without a prover, for people who only receive them.
//!
//! It says about keys and proofs what `tessera verify` and `tessera inspect` say, in the same words. But it is small and needs no
//! libraries, because it does not contain the prover.
#![forbid(unsafe_code)]

mod args;

use std::ffi::OsString;
use std::io;
use std::num::NonZeroUsize;
use std::panic;
use std::path::Path;
use std::process::ExitCode;

use console::Term;
use serde_json::{json, Map, Value};
use tessera_circuits::chunk::Chunk;
use tessera_verdict::command::{delivered, guarded, line, verify, How, Report};
use tessera_verdict::describe::{key_json, key_rows, of_reveal, proof_json, proof_rows};
use tessera_verdict::input::{self, read};
use tessera_verdict::rows::{self, set_width, Rows};
use tessera_verdict::usage::{self, Usage};
use tessera_verdict::{shown, Key, Status};
use tessera_verifier::codec::FileKind;
use tessera_verifier::ledger::security_bits;
use tessera_verifier::policy::MIN_BITS;
use tessera_verifier::proof::Proof;

use self::args::{Cli, Command, InspectArgs, VERSION};

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let cli = match usage::parse::<Cli>(&args) {
        Ok(cli) => cli,
        Err(refused) => return ExitCode::from(refuse(&refused, &args)),
    };
    // A panic is answered where it is caught.
    panic::set_hook(Box::new(|_| ()));
    let terminal = columns(&Term::stdout());
    if let Some(columns) = terminal {
        set_width(columns);
    }
    let names = cli.names();
    let finish = |outcome| finish(outcome, cli.json, &names);
    let threads = cli.threads.map_or_else(cores, usize::from);
    let status = match (&cli.command, &cli.verify) {
        (Some(Command::Inspect(args)), _) => finish(guarded(|| inspect(args))),
        (Some(Command::Verify(args)), _) | (None, Some(args)) => {
            let columns = (!cli.json).then(|| rows::columns(terminal, names.iter().copied()));
            finish(verify(args, How { columns, threads }))
        }
        (None, None) => finish(Err("nothing to do".to_owned())),
    };
    ExitCode::from(status)
}

/// The narrowest width that the program wraps text to, whatever the terminal says.
const NARROW: usize = 40;

/// The number of columns of a terminal; `None` if the output is no terminal.
fn columns(term: &Term) -> Option<usize> {
    let (_, columns) = term.size_checked()?;
    Some(usize::from(columns).max(NARROW))
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Prints help and the version as asked for, and reports wrong usage as a failure; returns the exit status.
fn refuse(refused: &Usage, args: &[OsString]) -> u8 {
    match refused {
        Usage::Asked(asked) => usage::print(asked),
        Usage::Version => delivered(Status::Accepted, line(io::stdout(), &VERSION.json().to_string())),
        Usage::Wrong(wrong) if args.iter().any(|arg| arg == "--json") => finish(Err(wrong.clone()), true, &[]),
        Usage::Wrong(wrong) => {
            let names = args.iter().skip(1).map(Path::new);
            let columns = rows::columns(columns(&Term::stderr()), names);
            delivered(Status::Undecided, line(io::stderr(), &usage::wrapped(wrong, columns)))
        }
    }
}

fn inspect(args: &InspectArgs) -> Result<Report, String> {
    let name = input::name(&args.path);
    let bytes = read(&args.path)?;
    let (text, json) = if bytes.starts_with(&FileKind::Key.magic()) {
        let key = Key::from_bytes(&bytes).map_err(|e| format!("{name}: {e}{}", e.advice()))?;
        describe_key(&key, &name, args.tokens.map(|tokens| tokens as usize))?
    } else if bytes.starts_with(&FileKind::PROOF.magic()) {
        let proof = Proof::from_bytes(&bytes).map_err(|e| format!("{name}: {e}"))?;
        let rows = proof_rows(&proof, &name, bytes.len());
        (rows.to_string(), proof_json(&proof, bytes.len()))
    } else if bytes.starts_with(&FileKind::Reveal.magic()) {
        return Err(of_reveal(&name));
    } else {
        return Err(format!("{name} is neither a model key nor a proof"));
    };
    Ok(Report {
        status: Status::Accepted,
        text,
        json,
    })
}

/// Tokens of the statement that security is said for where nobody asks for a number.
const TOKENS: usize = 64;

fn describe_key(key: &Key, name: &str, asked: Option<usize>) -> Result<(String, Value), String> {
    let model = key.model_key();
    let whole = [Chunk::whole(model.config.layers)];
    // The last token of a generation is no row; an encoder generates none.
    let last = usize::from(model.config.generates());
    let full = model.config.context + last;
    let tokens = asked.unwrap_or(TOKENS).clamp(1 + last, full);
    let bits = |tokens: usize| {
        let name = match (tokens == full, last) {
            (true, 0) => format!("{tokens} tokens (the context)"),
            (true, _) => format!("{tokens} tokens (the context and one more)"),
            (false, _) => format!("{tokens} tokens"),
        };
        match security_bits(model, &whole, tokens - last) {
            bits if bits >= MIN_BITS => format!("{bits:.1} bits for {name}"),
            _ => format!("{name} cannot be proved in one piece"),
        }
    };
    let mut security = match tokens < full {
        true => format!("{}\n{}", bits(tokens), bits(full)),
        false => bits(full),
    };
    if let Some(asked) = asked.filter(|asked| *asked > full) {
        security.push_str(&format!("\nthe context has no room for {asked} tokens"));
    }
    let rows = Rows::default().row("model key", shown::line(name));
    let rows = key_rows(rows, (model, key.recipe()), key.tokenizer(), &security).map_err(|e| e.to_string())?;
    let mut json = key_json((model, key.recipe()), key.tokenizer() == Ok(true), tokens).map_err(|e| e.to_string())?;
    json.insert("tokens".to_owned(), json!(tokens));
    json.insert("asked_tokens".to_owned(), json!(asked));
    Ok((rows.to_string(), Value::Object(json)))
}

/// Prints the outcome of a command about files of these names; returns the exit status.
fn finish(outcome: Result<Report, String>, json: bool, names: &[&Path]) -> u8 {
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
            let columns = rows::columns(columns(&Term::stderr()), names.iter().copied());
            let text = format!("error: {}", shown::message(&message, columns));
            (Status::Undecided, line(io::stderr(), &text))
        }
    };
    delivered(status, written)
}
