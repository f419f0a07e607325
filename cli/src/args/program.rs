use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Directory for the pages: one for tessera, and one for each of its commands. It is created if it is not there
    #[arg(long, value_name = "DIR")]
    pub out_dir: PathBuf,
}
