//! The commands: each turns its arguments into settings, makes one call and reports the result.

mod batch;
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
mod page;
mod planned;
mod predict;
mod program;
mod prompt;
mod prove;
mod proved;
mod rank;
mod recipe;
mod report;
mod reveal;
mod security;
mod serve;
mod setup;
mod status;
mod synth;
mod tokenize;
mod verify;
mod work;

use std::path::Path;

use crate::args::{Command, GlobalArgs};
use crate::bars::Display;
use crate::printer::{Failure, Report};

/// Runs a command.
pub fn run(command: &Command, progress: &Display, global: &GlobalArgs) -> Result<Report, Failure> {
    match command {
        Command::Resume(args) => work::resume(args, progress, global.quiet),
        Command::Status(args) => status::run(args, global.quiet),
        Command::ProveChunk(args) => work::prove_chunk(args, progress),
        Command::Compose(args) => work::compose(args, progress),
        Command::Demo(args) => demo::run(args, progress),
        Command::Setup(args) => setup::run(args, progress),
        Command::Prove(args) => prove::run(args, progress, global),
        Command::Verify(args) => verify::run(args, global),
        Command::Reveal(args) => reveal::run(args, progress),
        Command::Report(args) => page::run(args),
        Command::Chain(args) => chain::run(args),
        Command::Inspect(args) => inspect::run(args, progress),
        Command::Fidelity(args) => fidelity::run(args, progress),
        Command::Embed(args) => embed::run(args, progress),
        Command::Rank(args) => rank::run(args, progress),
        Command::Tokenize(args) => tokenize::run(args, global.quiet || global.json),
        Command::Generate(args) => generate::run(args, progress),
        Command::Serve(args) => serve::run(args),
        Command::Synth(args) => synth::run(args, progress),
        Command::Bench(args) => bench::run(args, progress),
        Command::Completions(args) => program::completions(args),
        Command::Man(args) => program::man(args),
    }
}

/// Names of files that come from others, beside which is said what they are.
pub fn names(command: &Command) -> Vec<&Path> {
    match command {
        Command::Verify(args) => args.names(),
        Command::Reveal(args) => vec![&args.key, &args.proof],
        Command::Report(args) => vec![&args.key, &args.proof],
        Command::Inspect(args) => vec![&args.path],
        _ => Vec::new(),
    }
}
