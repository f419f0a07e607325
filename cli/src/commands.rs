//! The commands: each turns its arguments into settings, makes one call and reports the result.

mod bench;
mod chain;
mod claim;
mod demo;
mod embed;
mod fidelity;
mod generate;
mod inspect;
mod interrupt;
mod key;
mod planned;
mod predict;
mod prompt;
mod prove;
mod rank;
mod recipe;
mod report;
mod security;
mod setup;
mod synth;
mod tokenize;
mod verify;
mod work;

use std::path::Path;

use tessera::support::progress::Progress;

use crate::args::{Command, GlobalArgs};
use crate::printer::{Failure, Report};

/// Runs a command.
pub fn run(command: &Command, progress: &dyn Progress, global: &GlobalArgs) -> Result<Report, Failure> {
    let quiet = global.quiet;
    match command {
        Command::Resume(args) => work::resume(args, progress, quiet),
        Command::Status(args) => work::status(args),
        Command::ProveChunk(args) => work::prove_chunk(args, progress),
        Command::Compose(args) => work::compose(args, progress),
        Command::Demo(args) => demo::run(args, progress),
        Command::Setup(args) => setup::run(args, progress),
        Command::Prove(args) => prove::run(args, progress, quiet),
        Command::Verify(args) => verify::run(args, global),
        Command::Chain(args) => chain::run(args),
        Command::Inspect(args) => inspect::run(args, progress),
        Command::Fidelity(args) => fidelity::run(args, progress),
        Command::Embed(args) => embed::run(args, progress),
        Command::Rank(args) => rank::run(args, progress),
        Command::Tokenize(args) => tokenize::run(args, quiet || global.json),
        Command::Generate(args) => generate::run(args, progress),
        Command::Synth(args) => synth::run(args, progress),
        Command::Bench(args) => bench::run(args, progress),
    }
}

/// Names of files that come from others, beside which is said what they are.
pub fn names(command: &Command) -> Vec<&Path> {
    match command {
        Command::Verify(args) => args.names(),
        Command::Inspect(args) => vec![&args.path],
        _ => Vec::new(),
    }
}
