use std::path::PathBuf;

use clap::Args;
use tessera_verdict::command::PolicyArgs;

#[derive(Debug, Args)]
#[command(override_usage = "tessera report --key <FILE> <PROOF> --out <FILE> [OPTIONS]")]
pub struct ReportArgs {
    /// Model key, from someone you trust or from your own setup; - is standard input
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// Proof file; - is standard input. Write -- before it if its name may begin with a hyphen
    pub proof: PathBuf,
    /// Page to write, a single file of HTML that fetches nothing and runs no script; - is standard output. A rejected proof has a
    /// page, too, which says so; so has one that is not about what is expected
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// What the proof has to be about.
    #[command(flatten)]
    pub policy: PolicyArgs,
}
