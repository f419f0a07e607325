//! Arguments of `tessera rank`.

use std::path::PathBuf;

use clap::Args;
use tessera::plan::Budget;
use tessera_verdict::policy::Ids;

#[derive(Debug, Args)]
pub struct RankArgs {
    /// Model directory written by setup
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    #[command(flatten)]
    pub source: RankSource,
    /// The most memory to use, such as 4GiB (or 4G) or 500MB: refuses before any work if that is not enough
    /// [default: 80 % of the available memory]
    #[arg(long, value_name = "BYTES")]
    pub memory: Option<Budget>,
}

#[derive(Debug, Args)]
pub struct RankSource {
    /// What is asked for
    #[arg(long, value_name = "TEXT", requires = "document", allow_hyphen_values = true)]
    pub query: Option<String>,
    /// The text that may answer it
    #[arg(long, value_name = "TEXT", requires = "query", allow_hyphen_values = true)]
    pub document: Option<String>,
    /// Both as token ids, between commas or spaces, with the special tokens around them
    #[arg(long, value_name = "IDS", required_unless_present = "query", conflicts_with_all = ["query", "document"])]
    pub ids: Option<Ids>,
}
