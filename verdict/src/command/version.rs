//! What `--version` says: everything that must fit together.

use std::sync::OnceLock;

use serde_json::{json, Map, Value};
use tessera_verifier::codec::FileKind;
use tessera_verifier::verify::PROTOCOL;

/// Kinds of files that verifiers read.
const FILES: [(&str, FileKind); 7] = [
    ("proofs", FileKind::PROOF),
    ("proofs with a context", FileKind::proof(true, false)),
    ("proofs that hide", FileKind::proof(false, true)),
    ("proofs that hide with a context", FileKind::proof(true, true)),
    ("reveals", FileKind::Reveal),
    ("keys", FileKind::Key),
    ("chunks", FileKind::Chunk),
];

/// The version of a program, with the protocol and the version of every kind of file that it reads.
#[derive(Clone, Copy, Debug)]
pub struct Version {
    /// The version of the program.
    pub program: &'static str,
    /// The commit that it is built from, as the build script says it: `commit 0123456789ab`, perhaps with `, changed` behind it, or
    /// `commit unknown`.
    pub commit: &'static str,
    /// Kinds of files that the program reads beside those of verifiers, with their versions.
    pub more: &'static [(&'static str, u32)],
}

impl Version {
    /// The version and the commit, on one line.
    pub fn short(&self) -> String {
        format!("{} ({})", self.program, self.commit)
    }

    fn files(&self) -> impl Iterator<Item = (&'static str, u32)> {
        let own = FILES.map(|(name, kind)| (name, kind.version()));
        own.into_iter().chain(self.more.iter().copied())
    }

    /// For people, on three lines: of the first program that asks, because a process is one program.
    pub fn long(&self) -> &'static str {
        static TEXT: OnceLock<String> = OnceLock::new();
        TEXT.get_or_init(|| {
            let files: Vec<String> = self
                .files()
                .map(|(name, version)| format!("{name} {version}"))
                .collect();
            format!("{}\nprotocol {PROTOCOL}\nfiles: {}", self.short(), files.join(", "))
        })
    }

    /// For programs: `commit` is null if it is unknown, and `changed` says whether files differ from it.
    pub fn json(&self) -> Value {
        let mut words = self.commit.trim_start_matches("commit ").split(", ");
        let commit = words.next().filter(|word| *word != "unknown");
        let files = self
            .files()
            .map(|(name, version)| (name.replace(' ', "_"), json!(version)));
        json!({
            "version": self.program,
            "commit": commit,
            "changed": commit.map(|_| words.next().is_some()),
            "protocol": PROTOCOL,
            "files": files.collect::<Map<_, _>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_read_the_commit_or_that_it_is_unknown() {
        let of = |commit| {
            let program = "1.2.3";
            let more = &[("work directories", 4)];
            let said = Version { program, commit, more }.json();
            assert_eq!(
                (&said["version"], &said["protocol"]),
                (&json!(program), &json!(PROTOCOL))
            );
            assert_eq!(said["files"]["work_directories"], 4);
            assert_eq!(said["files"]["keys"], FileKind::Key.version());
            (said["commit"].clone(), said["changed"].clone())
        };
        assert_eq!(of("commit 0123456789ab"), (json!("0123456789ab"), json!(false)));
        assert_eq!(of("commit 0123456789ab, changed"), (json!("0123456789ab"), json!(true)));
        assert_eq!(of("commit unknown"), (Value::Null, Value::Null));
    }
}
