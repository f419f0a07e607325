//! What `--version` says: everything that must fit together.

use std::sync::OnceLock;

use tessera_verifier::codec::FileKind;
use tessera_verifier::verify::PROTOCOL;

/// The version of this program, with the protocol and the version of every kind of file that verifiers read. `more` are kinds of files
/// that the program reads beside them.
pub fn version(program: &str, more: &[(&str, u32)]) -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    let files = [
        ("proofs", FileKind::Proof),
        ("proofs with a context", FileKind::ProofInContext),
        ("keys", FileKind::Key),
        ("chunks", FileKind::Chunk),
    ];
    let files = files.map(|(name, kind)| (name, kind.version()));
    let files = files
        .iter()
        .chain(more)
        .map(|(name, version)| format!("{name} {version}"));
    let files: Vec<String> = files.collect();
    TEXT.get_or_init(|| format!("{program}\nprotocol {PROTOCOL}\nfiles: {}", files.join(", ")))
}
