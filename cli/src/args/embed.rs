//! Arguments of `tessera embed`.

use std::path::PathBuf;

use clap::Args;
use tessera::plan::Budget;
use tessera_verdict::policy::Ids;

#[derive(Debug, Args)]
pub struct EmbedArgs {
    /// Model directory written by setup
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    #[command(flatten)]
    pub source: EmbedSource,
    /// The most memory to use, such as 4GiB (or 4G) or 500MB: refuses before any work if that is not enough
    /// [default: 80 % of the available memory]
    #[arg(long, value_name = "BYTES")]
    pub memory: Option<Budget>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct EmbedSource {
    /// The text; - reads standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub text: Option<String>,
    /// The text as token ids, between commas or spaces
    #[arg(long, value_name = "IDS")]
    pub ids: Option<Ids>,
}
