//! `tessera setup`, and the names of its choices, which other commands take, too.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tessera::circuits::table_tree::TableArgument;
use tessera::plan::Budget;
use tessera::quantise::Strategy;
use tessera::setup::CodewordCache;
use tessera::verifier::suite::Suite;

/// Names of the quantisation strategies.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum StrategyArg {
    /// two bytes per weight, as many bits, up to 14, as the sums of each matrix allow
    Auto,
    /// one byte per weight, 8 bits at most, errors of rounding fed back in a rotated residual stream
    W8,
    /// two bytes per weight, 12 bits at most
    W12,
}

impl From<StrategyArg> for Strategy {
    fn from(arg: StrategyArg) -> Self {
        match arg {
            StrategyArg::Auto => Self::Auto,
            StrategyArg::W8 => Self::W8,
            StrategyArg::W12 => Self::W12,
        }
    }
}

/// Names of the ways to keep the codeword.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum CodewordCacheArg {
    /// keep it: 8 bytes per weight (16 or 32 in small models), the fastest proofs
    Full,
    /// do not keep it: every proof makes what it opens in one more pass over the weights
    None,
    /// keep it if the disk has three times its size free; a note says if not
    Auto,
}

impl From<CodewordCacheArg> for CodewordCache {
    fn from(arg: CodewordCacheArg) -> Self {
        match arg {
            CodewordCacheArg::Full => Self::Full,
            CodewordCacheArg::None => Self::None,
            CodewordCacheArg::Auto => Self::Auto,
        }
    }
}

/// Names of the hash suites.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum HashArg {
    /// Blake2s-256, the fastest to prove and to verify
    Blake2s,
    /// Keccak-256, which contracts of Ethereum can verify
    Keccak,
}

impl From<HashArg> for Suite {
    fn from(arg: HashArg) -> Self {
        match arg {
            HashArg::Blake2s => Self::Blake2s,
            HashArg::Keccak => Self::Keccak,
        }
    }
}

/// Names of the ways to prove lookup tables.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum TablesArg {
    /// by a STARK, in which stwo aggregates what is looked up: only with Blake2s
    Stark,
    /// by one more tree of the sums of lookups: half as long a proof of a small model
    Gkr,
}

impl From<TablesArg> for TableArgument {
    fn from(arg: TablesArg) -> Self {
        match arg {
            TablesArg::Stark => Self::Stark,
            TablesArg::Gkr => Self::Gkr,
        }
    }
}

#[derive(Debug, Args)]
pub struct SetupArgs {
    /// Directory with config.json, model.safetensors (or shards with their index) and, if the model has one,
    /// tokenizer.json; or a GGUF file
    #[arg(required_unless_present = "rebuild_cache", conflicts_with = "rebuild_cache")]
    pub checkpoint: Option<PathBuf>,
    /// Directory to create; one that exists must be empty. While it is made it is called DIR.partial; a set-up that was
    /// interrupted goes on from there
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// How weights are quantised [default: auto]
    #[arg(long, value_enum, conflicts_with = "rebuild_cache")]
    pub strategy: Option<StrategyArg>,
    /// How many first rows have units of their own, for the massive values that first tokens cause. Rows that repeat the
    /// first token have them, too, unless the number is 0 [default: 1]
    #[arg(long, value_name = "N", conflicts_with = "rebuild_cache")]
    pub leading: Option<u8>,
    /// Choose scales that fit activations this many times as large as those of the calibration text, from 1 to 1000. A larger factor clips fewer
    /// values, so you can hide more prompts, but it rounds all values more coarsely [default: 1.25]
    #[arg(long, value_name = "FACTOR", conflicts_with = "rebuild_cache")]
    pub headroom: Option<f64>,
    /// The hash of the commitment to the model, and of all its proofs. A model set up with another hash is another
    /// model, of another id [default: blake2s]
    #[arg(long, value_enum, conflicts_with = "rebuild_cache")]
    pub hash: Option<HashArg>,
    /// How all proofs of the model prove the tables of its lookups. A model set up in another way is another model, of another id
    /// [default: stark, and with --hash keccak gkr]
    #[arg(long, value_enum, conflicts_with = "rebuild_cache")]
    pub tables: Option<TablesArg>,
    /// Whether to keep the codeword of the weights on disk: their encoded form, which makes proofs faster
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = CodewordCacheArg::Auto)]
    pub codeword_cache: CodewordCacheArg,
    /// Make tree and codeword of the model directory again from its weights, for instance after one was damaged
    #[arg(long)]
    pub rebuild_cache: bool,
    /// Text that fixes the scales of the activations: plain text, or JSON lines with "ids" or "text"
    /// [default: bundled texts of many kinds; random ids if there is no tokenizer]
    #[arg(long, value_name = "FILE", conflicts_with = "rebuild_cache")]
    pub calibration: Option<PathBuf>,
    /// Do not compare the model with its checkpoint in the end: nobody will know how close they are
    #[arg(long, conflicts_with = "rebuild_cache")]
    pub no_fidelity: bool,
    /// Leave digests of the checkpoint's files and of the calibration text, and the figures of the comparison, out of
    /// the key
    #[arg(long, conflicts_with = "rebuild_cache")]
    pub private_recipe: bool,
    /// The most memory to use, such as 4GiB (or 4G) or 500MB: refuses before any work if that is not enough
    /// [default: 80 % of the available memory]
    #[arg(long, value_name = "BYTES")]
    pub memory: Option<Budget>,
}
