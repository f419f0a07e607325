//! The files of a checkpoint that decide ids, read as transformers 5.24 reads them: `fixtures/id_files.py` has made the
//! checkpoints and the ids.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use tessera_prover::intake::tokenizer::{IdFiles, TokenizerError};

/// `fixtures/id-files.json`.
#[derive(Deserialize)]
struct Goldens {
    texts: Vec<String>,
    /// Contents by keys.
    files: BTreeMap<String, String>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    /// Keys of contents by names of files.
    files: BTreeMap<String, String>,
    /// The class that transformers picks.
    class: String,
    /// The ids of every text; `None` if transformers reads no tokenizer.
    ids: Option<Vec<Vec<u32>>>,
    /// What an error must say, where this program refuses what transformers reads.
    refused: Option<String>,
}

impl Goldens {
    fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/id-files.json");
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    }

    fn write(&self, case: &Case, dir: &Path) {
        for (name, key) in &case.files {
            fs::write(dir.join(name), &self.files[key]).unwrap();
        }
    }

    /// The ids of all texts by the files of a case.
    fn ids(&self, case: &Case) -> Result<Vec<Vec<u32>>, TokenizerError> {
        let dir = tempfile::tempdir().unwrap();
        self.write(case, dir.path());
        let tokenizer = IdFiles::read(dir.path())?.files.parse()?.expect("a tokenizer");
        self.texts.iter().map(|text| tokenizer.encode(text)).collect()
    }
}

#[test]
fn ids_are_those_of_transformers_for_every_class_and_every_file() {
    let goldens = Goldens::read();
    assert!(goldens.cases.len() > 90);
    let mut wrong = Vec::new();
    for case in &goldens.cases {
        match (goldens.ids(case), &case.refused, &case.ids) {
            (Err(error), Some(words), _) if error.to_string().contains(words) => {}
            (Ok(ids), None, Some(expected)) if ids == *expected => {}
            (Ok(ids), None, Some(expected)) => {
                let at = (0..ids.len()).find(|at| ids[*at] != expected[*at]).unwrap();
                let (name, class, text) = (&case.name, &case.class, &goldens.texts[at]);
                wrong.push(format!(
                    "{name} ({class}), {text:?}: {:?}, not {:?}",
                    ids[at], expected[at]
                ));
            }
            (result, ..) => wrong.push(format!("{}: {:?}", case.name, result.map_err(|e| e.to_string()))),
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
