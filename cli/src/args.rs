//! The command line: what the user can say, nothing about how it is done.

mod chain;
mod chat;
mod embed;
mod program;
mod prove;
mod rank;
mod report;
mod reveal;
mod serve;
mod setup;
mod shapes;
mod tokenize;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tessera::batch;
use tessera::checkpoint::families::FAMILIES;
use tessera::plan::Budget;
use tessera::verifier::context::Context;

use prove::{BATCH, USAGE};

pub use chain::{ChainArgs, ChainCommand, CheckedPlanArgs, EstimateArgs, PackArgs, PlanArgs, RegisterArgs};
pub use chat::ChatArgs;
pub use embed::EmbedArgs;
pub use program::{CompletionsArgs, ManArgs};
pub use prove::{AnswerArgs, ChunksArg};
pub use rank::RankArgs;
pub use report::ReportArgs;
pub use reveal::RevealArgs;
pub use serve::ServeArgs;
pub use setup::{HashArg, SetupArgs, StrategyArg, TablesArg};
pub use shapes::ShapeArg;
pub use tessera_verdict::command::VerifyArgs;
pub use tessera_verdict::policy::Ids;
pub use tokenize::TokenizeArgs;

/// Proves cryptographically that a given language model, on a given prompt, generates exactly a given text.
///
/// Exit status: 0 done or proof accepted; 1 proof rejected (malformed included), another answer than the model's (prove --answer), or
/// a key of another checkpoint (inspect --against); 2 could not be done or decided (file not found, unreadable model, wrong usage);
/// 130 interrupted by Ctrl-C.
#[derive(Debug, Parser)]
#[command(name = "tessera", version, long_version = crate::version::VERSION.long(), max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub global: GlobalArgs,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command; help has them after the command's own.
#[derive(Clone, Debug, Args)]
pub struct GlobalArgs {
    /// Print one JSON object on stdout instead of text, also on failure
    #[arg(long, global = true, display_order = 1000)]
    pub json: bool,
    /// No progress display; prove and tokenize say nothing beside errors, ids and JSON. The reports of all other commands are printed,
    /// and so are verdicts
    #[arg(long, global = true, display_order = 1001)]
    pub quiet: bool,
    /// Number of worker threads [default: one per core]
    #[arg(
        long,
        global = true,
        display_order = 1002,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=1024)
    )]
    pub threads: Option<u16>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Set up, prove and verify a short story with the bundled checkpoint
    Demo(DemoArgs),
    /// Quantise a checkpoint and commit to its weights
    Setup(SetupArgs),
    /// Generate a text and prove that the model generates it
    Prove(Box<ProveArgs>),
    /// Go on with the chunks of a work directory, and compose the proof
    Resume(ResumeArgs),
    /// Say how far the chunks of a work directory are
    Status(StatusArgs),
    /// Prove one chunk of a work directory, for schedulers that run many processes
    ProveChunk(ProveChunkArgs),
    /// Compose the chunk proofs of a work directory into one proof
    Compose(ComposeArgs),
    /// Check proofs: needs the model key, but neither weights nor prover
    Verify(VerifyArgs),
    /// Reveal ids that a proof hides, with the secret that was written with it
    Reveal(RevealArgs),
    /// Check a proof, and write the verdict as a page to read, print and hand on
    Report(ReportArgs),
    /// Make plans and calls for contracts that verify proofs
    Chain(ChainArgs),
    /// Say what a checkpoint, model directory, model key or proof is, and what it would cost
    Inspect(InspectArgs),
    /// Compare the integer model with the float model of the same checkpoint
    Fidelity(FidelityArgs),
    /// Print the ids of a text or a conversation, as prove and verify make them
    Tokenize(TokenizeArgs),
    /// Generate a text without a proof
    Generate(GenerateArgs),
    /// Make the vector of a text with an encoder, without a proof
    Embed(EmbedArgs),
    /// Scores of a query and a document, with a reranker
    Rank(RankArgs),
    /// Answer requests of OpenAI's interface over HTTP, and prove the answers in the background
    Serve(Box<ServeArgs>),
    /// Write a random checkpoint of the dimensions of a public model, to measure what such models cost
    Synth(SynthArgs),
    /// Measure what set-up, proofs and verification cost for models of public dimensions
    Bench(BenchArgs),
    /// Print the completions of a shell
    Completions(CompletionsArgs),
    /// Write the manual pages
    Man(ManArgs),
}

/// What is wrong with arguments that ask for a text that depends on chance; none if they do not.
pub fn sampling(args: &[OsString]) -> Option<String> {
    let mut args = args.iter().filter_map(|arg| arg.to_str());
    let generates = args.by_ref().any(|arg| ["prove", "generate"].contains(&arg));
    let option = |arg: &str| {
        let option = arg.split_once('=').map_or(arg, |(option, _)| option);
        batch::sampling(&option.strip_prefix("--")?.replace('-', "_"), option)
    };
    args.take_while(|arg| generates && *arg != "--").find_map(option)
}

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// How the story begins
    #[arg(long, default_value = "Once upon a time")]
    pub prompt: String,
    /// The most tokens to generate
    #[arg(long, value_name = "N", default_value_t = 59, value_parser = tokens_to_generate)]
    pub tokens: usize,
    #[arg(long, value_enum, default_value_t = StrategyArg::Auto)]
    pub strategy: StrategyArg,
    /// Keep checkpoint, model directory and proof in this new directory
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
}

/// Where a prompt comes from.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct PromptSource {
    /// Prompt, encoded by the model's tokenizer; - reads standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub prompt: Option<String>,
    /// Prompt in a text file, without the line end at its end; - reads standard input
    #[arg(long, value_name = "FILE")]
    pub prompt_file: Option<PathBuf>,
    /// Prompt as token ids, between commas or spaces
    #[arg(long, value_name = "IDS", conflicts_with = "chat")]
    pub prompt_ids: Option<Ids>,
    /// File with token ids, between commas or white space, or as a JSON list
    #[arg(long, value_name = "FILE", conflicts_with = "chat")]
    pub prompt_ids_file: Option<PathBuf>,
    /// Conversation in a file, a JSON list of {"role", "content"}, in the words of the chat template
    #[arg(long, value_name = "FILE")]
    pub messages: Option<PathBuf>,
    /// Text of which an encoder makes a vector, in the place of a prompt; - reads standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "chat")]
    pub embed: Option<String>,
    /// The same as token ids, between commas or spaces
    #[arg(long, value_name = "IDS", conflicts_with = "chat")]
    pub embed_ids: Option<Ids>,
    /// Query and document of which a reranker makes scores, in the place of a prompt
    #[arg(long, num_args = 2, value_names = ["QUERY", "DOCUMENT"], allow_hyphen_values = true, conflicts_with = "chat")]
    pub rank: Option<Vec<String>>,
    /// The same as token ids, between commas or spaces
    #[arg(long, value_name = "IDS", conflicts_with = "chat")]
    pub rank_ids: Option<Ids>,
}

impl PromptSource {
    /// Whether a vector is asked for.
    pub const fn embeds(&self) -> bool {
        self.embed.is_some() || self.embed_ids.is_some()
    }

    /// Whether scores are asked for.
    pub const fn ranks(&self) -> bool {
        self.rank.is_some() || self.rank_ids.is_some()
    }

    /// Whether nothing is to be generated.
    pub const fn asks_for_vector(&self) -> bool {
        self.embeds() || self.ranks()
    }
}

/// A prompt as text, token ids or a conversation.
#[derive(Debug, Args)]
pub struct PromptArgs {
    #[command(flatten)]
    pub source: PromptSource,
    #[command(flatten)]
    pub chat: ChatArgs,
}

/// How much is generated.
#[derive(Debug, Args)]
pub struct LengthArgs {
    /// The most tokens to generate; there are fewer if the model ends the text
    #[arg(long, value_name = "N", value_parser = tokens_to_generate,
        conflicts_with_all = ["embed", "embed_ids", "rank", "rank_ids"])]
    pub tokens: Option<usize>,
    /// Go on past the end of the text, up to --tokens
    #[arg(long)]
    pub ignore_eos: bool,
}

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
    /// proved there already, by a proof of the same kind, is skipped
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
    /// Prove nothing that contracts do not verify: refuse, before anything is proved, an answer on which values are clipped, and one for which there is no
    /// plan (see chain plan). The model has to be set up with --hash keccak
    #[arg(long, conflicts_with_all = ["batch", "work", "hide"])]
    pub for_chain: bool,
    /// Hide the activations: readers of the proof learn nothing of them but what prompt and answer say (docs/privacy.md). The proof is made in one
    /// piece, and no value may be clipped
    #[arg(long, conflicts_with = "work")]
    pub hide: bool,
    #[command(flatten)]
    pub hidden: HiddenArgs,
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

/// Which ids a proof hides.
#[derive(Clone, Debug, Args)]
pub struct HiddenArgs {
    /// Hide the prompt, and the activations; --public-prefix and --public-suffix say which ids of it are shown [default: those around the text, which are special
    /// tokens or a chat template's]
    #[arg(long, conflicts_with_all = ["work", "batch", "for_chain"])]
    pub hide_prompt: bool,
    /// Hide the output, and the activations
    #[arg(long, conflicts_with_all = ["work", "batch", "for_chain"])]
    pub hide_output: bool,
    /// Leave room for so many reveals of hidden ids, which you make with tessera reveal and the file of --secret
    #[arg(long, value_name = "N", requires = "secret", conflicts_with_all = ["work", "batch", "for_chain"],
        value_parser = clap::value_parser!(u16).range(1..))]
    pub reveals: Option<u16>,
    /// Write the secret that reveals need to this new file, which only you can read: whoever has it can read all that the proof hides
    #[arg(long, value_name = "FILE", requires = "reveals")]
    pub secret: Option<PathBuf>,
    /// Show so many ids of a hidden prompt from its first one on
    #[arg(long, value_name = "N", requires = "hide_prompt")]
    pub public_prefix: Option<usize>,
    /// Show so many ids of a hidden prompt up to its last one
    #[arg(long, value_name = "N", requires = "hide_prompt")]
    pub public_suffix: Option<usize>,
}

/// How the chunks of a work directory are proved.
#[derive(Clone, Debug, Args)]
pub struct DrivingArgs {
    /// Chunks proved at the same time, each on its share of the cores and of the memory [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub devices: Option<u16>,
    /// Append what happens to this file, one JSON object per line
    #[arg(long, value_name = "FILE")]
    pub events: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// Work directory
    pub dir: PathBuf,
    /// Model directory [default: the one that the job was made with]
    #[arg(long, value_name = "DIR")]
    pub model: Option<PathBuf>,
    #[command(flatten)]
    pub driving: DrivingArgs,
    /// The most memory to use, such as 4GiB (or 4G) or 500MB: refuses before any work if that is not enough
    /// [default: 80 % of the available memory]
    #[arg(long, value_name = "BYTES")]
    pub memory: Option<Budget>,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Work directory
    pub dir: PathBuf,
    /// Look again every second until all chunks are proved: on a terminal in place, otherwise with a line for each change
    #[arg(long)]
    pub watch: bool,
}

#[derive(Debug, Args)]
pub struct ProveChunkArgs {
    /// Work directory
    #[arg(long, value_name = "DIR")]
    pub work: PathBuf,
    /// Number of the chunk, from 0 on
    #[arg(long, value_name = "I")]
    pub chunk: usize,
    /// Model directory [default: the one that the job was made with]
    #[arg(long, value_name = "DIR")]
    pub model: Option<PathBuf>,
    /// The most memory to use, such as 4GiB (or 4G) or 500MB: refuses before any work if that is not enough
    /// [default: 80 % of the available memory]
    #[arg(long, value_name = "BYTES")]
    pub memory: Option<Budget>,
}

/// How chunks are composed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModeArg {
    /// the chunk proofs one after the other: no work, but as large as all of them together
    Chain,
    /// one STARK for all layers, made anew: as small as a proof without chunks, for as much work and memory
    Unified,
    /// unified if it fits in memory, else chain
    Auto,
}

#[derive(Debug, Args)]
pub struct ComposeArgs {
    /// Work directory
    pub dir: PathBuf,
    /// Proof file to write, or - [default: the one that the job was made for]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t = ModeArg::Chain)]
    pub mode: ModeArg,
    /// Model directory [default: the one that the job was made with]
    #[arg(long, value_name = "DIR")]
    pub model: Option<PathBuf>,
    /// The most memory to use, such as 4GiB (or 4G) or 500MB: refuses before any work if that is not enough
    /// [default: 80 % of the available memory]
    #[arg(long, value_name = "BYTES")]
    pub memory: Option<Budget>,
}

/// The formulas of predictions (`commands/predict.rs`), as the help text shows them.
fn families_and_formulas() -> String {
    let families = FAMILIES.map(|f| format!("  {}: {}\n", f.architecture, f.models));
    format!("Supported families:\n{}\n{FORMULAS}", families.concat())
}

const FORMULAS: &str = "\
Predictions are rough and assume two cores of 2.5 GHz:
  disk     weights file: 2 bytes per padded weight, with w8 1 byte
           codeword: 8 bytes per padded weight, 16 up to 33 million, 32 up to
           4 million; set-up keeps it where the disk has three times as much free
           tables and Merkle tree
  memory   as the planner of prove adds it up, phase by phase; with less, down
           to what is printed, proofs are slower
  time     0.2 s + 7 ns per padded weight + 60 ns per committed cell
Padded weights fill whole tiles of 64 x 64. Committed cells are the values of
the run and their helpers, in tables whose sides are powers of two.";

#[derive(Debug, Args)]
#[command(after_long_help = families_and_formulas())]
pub struct InspectArgs {
    /// Checkpoint (directory or GGUF file), model directory, model key or proof file; - is a key or proof on standard
    /// input
    pub path: PathBuf,
    /// Prompt and generated tokens of the statement whose cost is predicted [default: 64]
    #[arg(long, value_name = "N", value_parser = token_count)]
    pub tokens: Option<usize>,
    /// Strategy that a checkpoint would be quantised with [default: as setup]
    #[arg(long, value_enum)]
    pub strategy: Option<StrategyArg>,
    /// Hash that a checkpoint would be committed to with [default: as setup]
    #[arg(long, value_enum)]
    pub hash: Option<HashArg>,
    /// How proofs of a checkpoint's model would prove the tables of its lookups [default: as setup]
    #[arg(long, value_enum)]
    pub tables: Option<TablesArg>,
    /// Make the model of a key again from this checkpoint, by the recipe in the key, and say which parts agree. Takes
    /// as long as setup; exit status 1 if the model is another one, or if its fidelity is not what the key says: shares of equal
    /// tokens may differ by 0.01 in all, other figures by 1 %, because machines add floating-point numbers in other orders
    #[arg(long, value_name = "CHECKPOINT", conflicts_with_all = ["strategy", "hash", "tables"])]
    pub against: Option<PathBuf>,
    /// The calibration text of the key, if it was not a bundled one
    #[arg(long, value_name = "FILE", requires = "against")]
    pub calibration: Option<PathBuf>,
    /// The most memory to use, such as 4GiB (or 4G) or 500MB [default: 80 % of the available memory]
    #[arg(long, value_name = "BYTES", requires = "against")]
    pub memory: Option<Budget>,
}

#[derive(Debug, Args)]
pub struct FidelityArgs {
    /// Model directory written by setup
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    /// The checkpoint it was made from, a directory or a GGUF file
    #[arg(long, value_name = "PATH")]
    pub checkpoint: PathBuf,
    /// Text to compare on: plain text, or JSON lines with "ids" or "text". What is longer than the model's context is
    /// cut into windows, each of which is a text of its own [default: bundled texts that no scale was chosen by]
    #[arg(long, value_name = "FILE")]
    pub text: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(override_usage = "tessera generate --model <DIR> --prompt <TEXT> --tokens <N> [OPTIONS]")]
pub struct GenerateArgs {
    /// Model directory written by setup
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    #[command(flatten)]
    pub prompt: PromptArgs,
    #[command(flatten)]
    pub length: LengthArgs,
    /// Write the logits of prompt and output, all rows but the last token's: int16, little-endian; - is
    /// standard output
    #[arg(long, value_name = "FILE")]
    pub logits_out: Option<PathBuf>,
    /// The most memory to use, such as 4GiB (or 4G) or 500MB: refuses before any work if that is not enough
    /// [default: 80 % of the available memory]
    #[arg(long, value_name = "BYTES")]
    pub memory: Option<Budget>,
}

#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Models whose dimensions to take
    #[arg(long, value_enum, value_delimiter = ',', required = true)]
    pub shape: Vec<ShapeArg>,
    /// Token rows of the statements: half of them prompt, the others generated
    #[arg(long, value_name = "N", value_delimiter = ',', required = true, value_parser = token_count)]
    pub tokens: Vec<usize>,
    /// Numbers of layers [default: the model's; one for llama-7b-layer]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub layers: Vec<u16>,
    /// Write the JSON report to this file, too
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Draw the times of all proofs, phase by phase, as a picture (SVG)
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Keep checkpoints and model directories here, and use those that are there
    /// [default: a temporary directory]
    #[arg(long, value_name = "DIR")]
    pub work: Option<PathBuf>,
    /// The most memory that each set-up and proof may use, such as 4GiB (or 4G) or 500MB
    /// [default: 80 % of the available memory]
    #[arg(long, value_name = "BYTES")]
    pub memory: Option<Budget>,
}

/// A positive number of token rows.
fn token_count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least one token is needed".to_owned()),
        Ok(n) => Ok(n),
        Err(_) => Err("expected a number of tokens, such as 64".to_owned()),
    }
}

/// A positive number of tokens.
fn tokens_to_generate(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("no token would be generated, ask for at least 1".to_owned()),
        Ok(n) => Ok(n),
        Err(_) => Err("expected a number of tokens, such as 48".to_owned()),
    }
}

#[derive(Debug, Args)]
pub struct SynthArgs {
    /// Model whose dimensions to take (of its own family; those that end in -llama with Llama's architecture)
    #[arg(long, value_enum)]
    pub shape: ShapeArg,
    /// Directory to create; one that exists must be empty
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Number of layers [default: the model's; one for llama-7b-layer]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub layers: Option<u16>,
    /// The same seed gives the same checkpoint
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}
