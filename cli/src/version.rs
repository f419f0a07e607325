//! What `--version` says: the commit, and the versions of everything that must fit together.

use std::sync::OnceLock;

use tessera::quantised::directory::VERSION as MODEL_VERSION;
use tessera::verifier::codec::FileKind;
use tessera::verifier::verify::PROTOCOL;
use tessera::work::WORK_VERSION;

/// The version and the commit, on one line.
pub fn short() -> &'static str {
    static SHORT: OnceLock<String> = OnceLock::new();
    SHORT.get_or_init(|| format!("{} ({})", env!("CARGO_PKG_VERSION"), env!("TESSERA_COMMIT")))
}

/// The same with the protocol, and the version of every kind of file that this program reads and writes.
pub fn long() -> &'static str {
    static LONG: OnceLock<String> = OnceLock::new();
    LONG.get_or_init(|| {
        let [proof, context, chunk, key] = [
            FileKind::Proof,
            FileKind::ProofInContext,
            FileKind::Chunk,
            FileKind::Key,
        ]
        .map(FileKind::version);
        format!(
            "{}\nprotocol {PROTOCOL}\nfiles: proofs {proof}, proofs with a context {context}, keys {key}, chunks {chunk}, model \
             directories {MODEL_VERSION}, work directories {WORK_VERSION}",
            short()
        )
    })
}
