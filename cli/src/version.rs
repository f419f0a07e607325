//! What `--version` says: the commit, and the versions of everything that must fit together.

use std::sync::OnceLock;

use tessera::quantised::directory::VERSION as MODEL_VERSION;
use tessera::work::WORK_VERSION;
use tessera_verdict::command::version;

/// The version and the commit, on one line.
pub fn short() -> &'static str {
    static SHORT: OnceLock<String> = OnceLock::new();
    SHORT.get_or_init(|| format!("{} ({})", env!("CARGO_PKG_VERSION"), env!("TESSERA_COMMIT")))
}

/// The same with the protocol, and the version of every kind of file that this program reads and writes.
pub fn long() -> &'static str {
    version(
        short(),
        &[("model directories", MODEL_VERSION), ("work directories", WORK_VERSION)],
    )
}
