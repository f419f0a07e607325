//! What `--version` says: the commit, and the versions of everything that must fit together.

use tessera::quantised::directory::VERSION as MODEL_VERSION;
use tessera::work::WORK_VERSION;
use tessera_verdict::command::Version;

/// This program, with the version of every kind of file that it reads and writes.
pub const VERSION: Version = Version {
    program: env!("CARGO_PKG_VERSION"),
    commit: env!("TESSERA_COMMIT"),
    more: &[("model directories", MODEL_VERSION), ("work directories", WORK_VERSION)],
};
