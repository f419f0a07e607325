//! Arguments.

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand};
use tessera_verdict::command::{VerifyArgs, Version};

/// This program.
pub const VERSION: Version = Version {
    program: env!("CARGO_PKG_VERSION"),
    commit: env!("TESSERA_COMMIT"),
    more: &[],
};

/// Checks proofs that a language model generates a text: needs the model key, but neither weights nor prover.
///
/// Exit status: 0 every proof accepted, 1 a proof rejected (malformed included), 2 could not be done or decided (file
/// not found, key of another model, wrong usage). Of several proofs, the worst decides: 1 if any is rejected, else 2 if any
/// could not be decided.
///
/// Write -- before files whose names you do not know, as in tessera-verify --key model.key -- *.proof: what follows it is a
/// file, even if its name begins with a hyphen.
#[derive(Debug, Parser)]
#[command(
    name = "tessera-verify",
    version,
    long_version = VERSION.long(),
    max_term_width = 100,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub verify: Option<VerifyArgs>,
    /// Print JSON on stdout instead of text, also on failure: one object, or one for each proof and a summary
    #[arg(long, global = true)]
    pub json: bool,
    /// Number of proofs that are checked at the same time [default: one per core]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}

impl Cli {
    /// Names of the files that were given.
    pub fn names(&self) -> Vec<&Path> {
        match (&self.command, &self.verify) {
            (Some(Command::Inspect(args)), _) => vec![&args.path],
            (Some(Command::Verify(args)), _) | (None, Some(args)) => args.names(),
            (None, None) => Vec::new(),
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check proofs; may be left out
    Verify(VerifyArgs),
    /// Say what a model key or proof is
    Inspect(InspectArgs),
}

#[derive(Debug, Args)]
pub struct InspectArgs {
    /// Model key or proof; - is standard input
    pub path: PathBuf,
    /// Prompt and generated tokens of the statement that security is said for [default: 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub tokens: Option<u32>,
}
