//! `tessera verify`: reads a key and proofs, nothing else.

use std::num::NonZeroUsize;

use tessera::given;
use tessera_verdict::command::{self, How, VerifyArgs};
use tessera_verdict::{input, rows};

use crate::args::GlobalArgs;
use crate::printer::{columns, Failure, Report};

pub fn run(args: &VerifyArgs, global: &GlobalArgs) -> Result<Report, Failure> {
    if !input::is_stdin(&args.key) {
        given::key(&args.key)?;
    }
    let terminal = columns(&console::Term::stdout());
    let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let how = How {
        columns: (!global.json).then(|| rows::columns(terminal, args.names())),
        threads: global.threads.map_or_else(cores, usize::from),
    };
    let command::Report { status, text, json } = command::verify(args, how).map_err(Failure)?;
    let status = status.into();
    Ok(Report { status, text, json })
}
