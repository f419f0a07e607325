//! Proofs and verdicts do not change from one build to another. Prover and verifier share the constraints, the claims
//! and the transcript: if these change, the two still agree with each other, and only what an earlier build has proved
//! tells. A difference means that the protocol changed: then raise the format version and remake the file with
//! `cargo test --release -p tessera-testkit --test tamper -- --ignored remake`.

use std::borrow::Cow;
use std::path::PathBuf;

use blake2::{Blake2s256, Digest};
use serde::{Deserialize, Serialize};
use tessera_testkit::{golden_statements, hidden_changes, reveal_changes, SplitMix, GOLDEN_PROOFS};
use tessera_verifier::key::ModelKey;
use tessera_verifier::proof::Proof;
use tessera_verifier::reveal::Reveal;
use tessera_verifier::verify::{verify_bytes, verify_revealed};

use crate::tree::{collapse, encode, Tree};
use crate::with_work;

/// A verdict, and what it is about.
type Verdict = (String, String);

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Golden {
    /// Blake2s-256 of every key and every proof.
    digests: Vec<String>,
    /// Of every proof as it is, and with one change of every kind in every kind of place.
    verdicts: Vec<Vec<Verdict>>,
    /// The same of a proof that hides ids, with a reveal of some of them that is as it is or changed.
    reveals: Vec<Verdict>,
    /// Blake2s-256 of the reveal as it is.
    reveal: String,
}

/// A key and its proof, as it is and tampered with.
struct Case {
    key: Vec<u8>,
    proofs: Vec<(String, Proved)>,
}

/// The bytes of a proof, or the file that has them.
enum Proved {
    Bytes(Vec<u8>),
    File(PathBuf),
}

fn made() -> Vec<(ModelKey, Proof)> {
    let made = golden_statements().into_iter().map(|statement| {
        let proof = statement.prove();
        (statement.model.key, proof)
    });
    made.collect()
}

/// Every place once for all those that differ in their indices, every operation. A proof in one piece has places without
/// anything in them, and is left as it is, unless it hides activations.
fn tampered(key: &ModelKey, proof: &Proof) -> Vec<(String, Vec<u8>)> {
    let mut all = vec![("as it is".to_owned(), encode(proof))];
    if proof.hidden.is_some() {
        let changes = hidden_changes(proof).into_iter();
        all.extend(changes.map(|(name, other)| (name.to_owned(), encode(&with_work(key, name, other)))));
        return all;
    }
    if proof.boundaries.is_empty() {
        return all;
    }
    let mut tree = Tree::new(proof);
    let (mut rng, mut seen) = (SplitMix(5), Vec::new());
    for node in tree.nodes.clone() {
        for op in node.ops.clone() {
            let name = format!("{op:?} of {}", collapse(&node.path));
            if seen.contains(&name) {
                continue;
            }
            if let Some(other) = tree.tampered(&node, op, false, &mut rng) {
                seen.push(name);
                let other = with_work(key, &node.path, other);
                all.push((format!("{op:?} of {}", node.path), encode(&other)));
            }
        }
    }
    all
}

fn cases() -> Vec<Case> {
    let bytes = |(name, bytes)| (name, Proved::Bytes(bytes));
    let case = |(key, proof): (ModelKey, Proof)| Case {
        key: key.to_bytes().expect("the key encodes"),
        proofs: tampered(&key, &proof).into_iter().map(bytes).collect(),
    };
    made().into_iter().map(case).collect()
}

/// The cases in files that another build has written, if there is a directory for them: this build is then only asked for
/// its verdicts.
fn stored() -> Option<Vec<Case>> {
    let directory = PathBuf::from(std::env::var_os("TESSERA_GOLDEN_PROOFS")?);
    let list = directory.join("cases.json");
    if !list.exists() {
        std::fs::create_dir_all(&directory).expect("a directory");
        let mut names: Vec<(PathBuf, Vec<(String, PathBuf)>)> = Vec::new();
        for (i, case) in cases().into_iter().enumerate() {
            let key = directory.join(format!("{i}.key"));
            std::fs::write(&key, case.key).expect("a key is stored");
            let mut proofs = Vec::new();
            for (j, (name, proof)) in case.proofs.into_iter().enumerate() {
                let path = directory.join(format!("{i}-{j}.proof"));
                std::fs::write(&path, proof.bytes()).expect("a proof is stored");
                proofs.push((name, path));
            }
            names.push((key, proofs));
        }
        let text = serde_json::to_string(&names).expect("JSON");
        std::fs::write(&list, text).expect("the list is stored");
    }
    let text = std::fs::read_to_string(list).expect("the list of cases");
    let names: Vec<(PathBuf, Vec<(String, PathBuf)>)> = serde_json::from_str(&text).expect("JSON");
    let file = |(name, path)| (name, Proved::File(path));
    let case = |(key, proofs): (PathBuf, Vec<_>)| Case {
        key: std::fs::read(key).expect("a stored key"),
        proofs: proofs.into_iter().map(file).collect(),
    };
    Some(names.into_iter().map(case).collect())
}

impl Proved {
    fn bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Bytes(bytes) => Cow::Borrowed(bytes),
            Self::File(path) => Cow::Owned(std::fs::read(path).expect("a stored proof")),
        }
    }
}

/// One by one, the proof as it is first.
fn verdicts(case: &Case) -> impl Iterator<Item = Verdict> + '_ {
    let key = ModelKey::from_bytes(&case.key).expect("an honest key is read");
    let verdict = move |(name, proof): &(String, Proved)| match verify_bytes(&key, &proof.bytes()) {
        Ok(_) => (name.clone(), "accepted".to_owned()),
        Err(error) => (name.clone(), error.to_string()),
    };
    case.proofs.iter().map(verdict)
}

/// A key, a proof that hides ids, and a reveal of some of them, as it is and changed, each with its name.
struct Revealed {
    key: Vec<u8>,
    proof: Vec<u8>,
    reveals: Vec<(String, Vec<u8>)>,
}

fn revealed() -> Revealed {
    let made = golden_statements()
        .into_iter()
        .find_map(|own| Some((own.reveal()?, own.model.key)));
    let ((proof, reveal), key) = made.expect("a golden statement that hides ids");
    let changes = reveal_changes(&reveal).into_iter();
    let all = [("as it is", reveal)].into_iter().chain(changes);
    let encoded = |(name, own): (&str, Reveal)| (name.to_owned(), own.to_bytes().expect("it encodes"));
    Revealed {
        key: key.to_bytes().expect("the key encodes"),
        proof: encode(&proof),
        reveals: all.map(encoded).collect(),
    }
}

impl Revealed {
    /// Stores the files for other programs, if there is a directory for them.
    fn store(&self) {
        let Some(directory) = std::env::var_os("TESSERA_GOLDEN_PROOFS") else {
            return;
        };
        let directory = PathBuf::from(directory).join("reveals");
        std::fs::create_dir_all(&directory).expect("a directory");
        let store = |name: String, bytes: &[u8]| {
            std::fs::write(directory.join(name), bytes).expect("a file is stored");
        };
        store("model.key".to_owned(), &self.key);
        store("hidden.proof".to_owned(), &self.proof);
        for (at, (_, reveal)) in self.reveals.iter().enumerate() {
            store(format!("{at}.reveal"), reveal);
        }
    }

    fn verdicts(&self) -> Vec<Verdict> {
        let key = ModelKey::from_bytes(&self.key).expect("an honest key is read");
        let verdict = |(name, reveal): &(String, Vec<u8>)| match verify_revealed(&key, &self.proof, &[reveal]) {
            Ok(_) => (name.clone(), "accepted".to_owned()),
            Err(error) => (name.clone(), error.to_string()),
        };
        self.reveals.iter().map(verdict).collect()
    }
}

#[test]
fn the_verdicts_on_reveals_are_those_of_earlier_builds() {
    let revealed = revealed();
    revealed.store();
    let expected = expected();
    assert_eq!(revealed.verdicts(), expected.reveals);
    assert_eq!(digest(&revealed.reveals[0].1), expected.reveal);
}

fn digest(bytes: &[u8]) -> String {
    hex::encode(Blake2s256::digest(bytes))
}

fn digests(made: &[(ModelKey, Proof)]) -> Vec<String> {
    let both = |(key, proof): &(ModelKey, Proof)| {
        [
            digest(&key.to_bytes().expect("the key encodes")),
            digest(&encode(proof)),
        ]
    };
    made.iter().flat_map(both).collect()
}

fn expected() -> Golden {
    let text = std::fs::read_to_string(GOLDEN_PROOFS).expect("the golden file");
    serde_json::from_str(&text).expect("golden JSON")
}

#[test]
fn the_verdicts_are_those_of_earlier_builds() {
    let expected = expected().verdicts;
    let cases = stored().unwrap_or_else(cases);
    assert_eq!(cases.len(), expected.len());
    for (case, expected) in cases.iter().zip(&expected) {
        let mut expected = expected.iter();
        for verdict in verdicts(case) {
            assert_eq!(Some(&verdict), expected.next());
        }
        assert_eq!(expected.next(), None);
    }
}

#[test]
fn the_proofs_are_those_of_earlier_builds() {
    assert_eq!(digests(&made()), expected().digests);
}

/// Not a check: the only way to change the golden file, so it must never run with the others.
#[test]
#[ignore = "is no test: it writes the golden file anew, for a new format version"]
fn remake() {
    let revealed = revealed();
    let golden = Golden {
        digests: digests(&made()),
        reveal: digest(&revealed.reveals[0].1),
        reveals: revealed.verdicts(),
        verdicts: cases().iter().map(|case| verdicts(case).collect()).collect(),
    };
    let text = serde_json::to_string_pretty(&golden).expect("JSON");
    std::fs::write(GOLDEN_PROOFS, text + "\n").expect("the golden file is written");
}
