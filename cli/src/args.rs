//! The command line: what the user can say, nothing about how it is done.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tessera_circuits::model::Strategy;

/// Proves that a text is what a language model produces.
///
/// Exit status: 0 done or proof accepted, 1 proof rejected (malformed included), 2 could not be done or
/// decided (file not found, unreadable model, wrong usage).
#[derive(Debug, Parser)]
#[command(name = "tessera", version, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub global: GlobalArgs,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
pub struct GlobalArgs {
    /// Print one JSON object on stdout instead of text, also on failure
    #[arg(long, global = true)]
    pub json: bool,
    /// No progress display
    #[arg(long, global = true)]
    pub quiet: bool,
    /// Number of worker threads [default: one per core]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Set up, prove and verify a short story with the bundled checkpoint
    Demo(DemoArgs),
    /// Quantise a checkpoint and commit to its weights
    Setup(SetupArgs),
    /// Generate a text and prove that the model generates it
    Prove(ProveArgs),
    /// Check a proof: needs the model key, but neither weights nor prover
    Verify(VerifyArgs),
    /// Say what a checkpoint, model directory, model key or proof is, and what it would cost
    Inspect(InspectArgs),
    /// Compare the integer model with the float model of the same checkpoint
    Fidelity(FidelityArgs),
    /// Generate a text without a proof
    Generate(GenerateArgs),
}

/// Names of the quantisation strategies.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum StrategyArg {
    /// int8 weights, one power-of-two scale per output channel
    W8,
    /// int12 weights, one power-of-two scale per tensor
    W12,
}

impl From<StrategyArg> for Strategy {
    fn from(arg: StrategyArg) -> Self {
        match arg {
            StrategyArg::W8 => Self::W8,
            StrategyArg::W12 => Self::W12,
        }
    }
}

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// How the story begins
    #[arg(long, default_value = "Once upon a time")]
    pub prompt: String,
    /// Number of tokens to generate
    #[arg(long, value_name = "N", default_value_t = 59)]
    pub tokens: usize,
    #[arg(long, value_enum, default_value_t = StrategyArg::W12)]
    pub strategy: StrategyArg,
    /// Keep checkpoint, model directory and proof in this new directory
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct SetupArgs {
    /// Directory with config.json, model.safetensors (or shards with their index) and tokenizer.json
    pub checkpoint: PathBuf,
    /// Directory to create; must not exist or be empty
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    #[arg(long, value_enum, default_value_t = StrategyArg::W12)]
    pub strategy: StrategyArg,
    /// Text that fixes the scales of the activations: plain text, or JSON lines with "ids" or "text"
    /// [default: bundled English stories]
    #[arg(long, value_name = "FILE")]
    pub calibration: Option<PathBuf>,
}

/// A prompt as text or as token ids.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct PromptArgs {
    /// Prompt, encoded by the model's tokenizer
    #[arg(long, value_name = "TEXT")]
    pub prompt: Option<String>,
    /// Prompt as token ids, separated by commas
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    pub prompt_ids: Option<Vec<u32>>,
}

#[derive(Debug, Args)]
pub struct ProveArgs {
    /// Model directory written by setup
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    #[command(flatten)]
    pub prompt: PromptArgs,
    /// Number of tokens to generate
    #[arg(long, value_name = "N")]
    pub tokens: usize,
    /// Proof file to write
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Model key, from someone you trust or from your own setup
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// Proof file
    pub proof: PathBuf,
    /// Reject unless the prompt's ids are the encoding of this text
    #[arg(long, value_name = "TEXT", conflicts_with = "expect_prompt_ids")]
    pub expect_prompt: Option<String>,
    /// Reject unless the output reads exactly like this (special tokens are not shown in a text)
    #[arg(long, value_name = "TEXT", conflicts_with = "expect_output_ids")]
    pub expect_output: Option<String>,
    /// Reject unless the prompt has these ids
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    pub expect_prompt_ids: Option<Vec<u32>>,
    /// Reject unless the output has these ids
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    pub expect_output_ids: Option<Vec<u32>>,
}

#[derive(Debug, Args)]
#[command(after_long_help = crate::commands::predict::FORMULAS)]
pub struct InspectArgs {
    /// Checkpoint directory, model directory, model key or proof file
    pub path: PathBuf,
    /// Prompt and generated tokens of the statement whose cost is predicted
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub tokens: usize,
    #[arg(long, value_enum, default_value_t = StrategyArg::W12)]
    pub strategy: StrategyArg,
}

#[derive(Debug, Args)]
pub struct FidelityArgs {
    /// Model directory written by setup
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    /// The checkpoint it was made from
    #[arg(long, value_name = "DIR")]
    pub checkpoint: PathBuf,
    /// Text to compare on: plain text, or JSON lines with "ids" or "text"
    #[arg(long, value_name = "FILE")]
    pub text: PathBuf,
}

#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// Model directory written by setup
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    #[command(flatten)]
    pub prompt: PromptArgs,
    /// Number of tokens to generate
    #[arg(long, value_name = "N")]
    pub tokens: usize,
    /// Stop after the model's end-of-sequence token
    #[arg(long)]
    pub stop_at_eos: bool,
    /// Write the logits of prompt and output, all rows but the last token's: int16, little-endian
    #[arg(long, value_name = "FILE")]
    pub logits_out: Option<PathBuf>,
}
