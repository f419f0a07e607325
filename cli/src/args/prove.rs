//! The arguments of `tessera prove`.

use std::path::PathBuf;

use clap::Args;
use tessera::plan::Budget;
use tessera::verifier::context::Context;

use super::{DrivingArgs, Ids, LengthArgs, PromptArgs};

const USAGE: &str = "tessera prove --model <DIR> --prompt <TEXT> --tokens <N> --out <FILE>
       [OPTIONS]
       tessera prove --model <DIR> --prompt <TEXT> --answer <TEXT> --out <FILE>
       [OPTIONS]
       tessera prove --model <DIR> --batch <FILE> --out-dir <DIR> [OPTIONS]
       tessera prove --model <DIR> --embed <TEXT> --out <FILE> [OPTIONS]
       tessera prove --model <DIR> --rank <QUERY> <DOCUMENT> --out <FILE>
       [OPTIONS]";

const BATCH: &str = "\
Requests of --batch are lines such as
  {\"id\": \"a\", \"prompt\": \"Once upon a time\", \"tokens\": 48}
  {\"id\": \"b\", \"prompt\": \"Why?\", \"chat\": true, \"answer\": \"Because.\"}
with the fields id, prompt, prompt_ids, messages, chat, system, tools,
chat_template_name, embed, embed_ids, rank, rank_ids, tokens, ignore_eos,
answer, answer_ids and context, which mean what the options mean. The proof of
request a is a.proof. Without an id, a request is named by its line.";

#[derive(Debug, Args)]
#[command(override_usage = USAGE, after_long_help = BATCH)]
pub struct ProveArgs {
    /// Model directory written by setup
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    #[command(flatten)]
    pub prompt: PromptArgs,
    #[command(flatten)]
    pub length: LengthArgs,
    #[command(flatten)]
    pub answer: AnswerArgs,
    /// Prove a request for every line of this file, each with a proof of its own in --out-dir; - reads standard input. What is
    /// proved there already is skipped
    #[arg(
        long,
        value_name = "FILE",
        group = "PromptSource",
        requires = "out_dir",
        conflicts_with_all = ["AnswerArgs", "ChatArgs", "tokens", "ignore_eos", "context", "out", "work"]
    )]
    pub batch: Option<PathBuf>,
    /// Directory for the proofs of --batch, made if there is none
    #[arg(long, value_name = "DIR", requires = "batch")]
    pub out_dir: Option<PathBuf>,
    /// Tie the proof to these 32 bytes, such as the address that a contract is to pay (24 zeros, then its 40 digits)
    #[arg(long, value_name = "HEX")]
    pub context: Option<Context>,
    /// Proof file to write; - is standard output, and the report goes to standard error
    #[arg(long, value_name = "FILE", required_unless_present = "batch")]
    pub out: Option<PathBuf>,
    /// Report only the answer, how it ends, and what the proof is and took
    #[arg(long)]
    pub brief: bool,
    /// Prove in chunks of layers, and keep what is done in this directory: the proof can be interrupted, resumed, and
    /// shared among devices and processes
    #[arg(long, value_name = "DIR")]
    pub work: Option<PathBuf>,
    /// Number of chunks; auto makes as few as fit in memory [default: auto]
    #[arg(long, value_name = "N|auto", requires = "work", conflicts_with = "chunk_layers")]
    pub chunks: Option<ChunksArg>,
    /// Layers of a chunk
    #[arg(long, value_name = "N", requires = "work", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub chunk_layers: Option<u16>,
    /// Only write the job, so that other processes can prove its chunks
    #[arg(long, requires = "work")]
    pub prepare: bool,
    #[command(flatten)]
    pub driving: DrivingArgs,
    /// The most memory to use, such as 4GiB (or 4G) or 500MB: refuses before any work if that is not enough
    /// [default: 80 % of the available memory]
    #[arg(long, value_name = "BYTES")]
    pub memory: Option<Budget>,
}

/// An answer that exists already.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub struct AnswerArgs {
    /// Prove exactly this answer; if the model gives another one, end with exit status 1 before any proving. After the
    /// answer the model has to end the text, unless the answer has as many tokens as --tokens; - reads standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub answer: Option<String>,
    /// The same in a text file, without the line end at its end; - reads standard input
    #[arg(long, value_name = "FILE")]
    pub answer_file: Option<PathBuf>,
    /// The same as token ids, between commas or spaces, for an answer whose very tokens are known
    #[arg(long, value_name = "IDS")]
    pub answer_ids: Option<Ids>,
}

/// A number of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunksArg {
    /// As few as fit in memory.
    Auto,
    Number(usize),
}

impl std::str::FromStr for ChunksArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(n @ 1..) => Ok(Self::Number(n)),
            _ if text == "auto" => Ok(Self::Auto),
            _ => Err("expected a positive number, or auto".to_owned()),
        }
    }
}
