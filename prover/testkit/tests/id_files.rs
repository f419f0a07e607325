//! The files of a checkpoint that decide ids, read as transformers 5.24 reads them: `fixtures/id_files.py` has made the
//! checkpoints and the ids.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use tessera_text::tokenizer::{IdFiles, TokenizerError};

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
    /// Words of the error, where this program refuses a checkpoint that transformers reads.
    refused: Option<String>,
}

impl Goldens {
    fn read(path: &Path) -> Self {
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
    let goldens = Goldens::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/id-files.json"));
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

/// `fixtures/id_files.py --random` has made the checkpoints. What differs must have been refused, or said in a note.
#[test]
#[ignore = "needs TESSERA_ID_FILES, a file that fixtures/id_files.py --random has made"]
fn random_files_are_read_as_transformers_reads_them_or_not_silently() {
    let goldens = Goldens::read(Path::new(&std::env::var("TESSERA_ID_FILES").unwrap()));
    let (mut equal, mut more, mut refused, mut silent) = (0, 0, BTreeMap::<String, usize>::new(), Vec::new());
    for case in &goldens.cases {
        let dir = tempfile::tempdir().unwrap();
        goldens.write(case, dir.path());
        let notes = IdFiles::read(dir.path()).map(|made| made.notes).unwrap_or_default();
        match (goldens.ids(case), &case.ids) {
            (Ok(ids), Some(expected)) if ids == *expected => equal += 1,
            (Ok(ids), Some(expected)) => {
                let at = (0..ids.len()).find(|at| ids[*at] != expected[*at]).unwrap();
                let files: Vec<&str> = case
                    .files
                    .iter()
                    .filter(|(name, _)| *name != "tokenizer.json")
                    .map(|(_, key)| goldens.files[key].as_str())
                    .collect();
                let text = &goldens.texts[at];
                let line = format!(
                    "{} ({}), {text:?}: {:?}, not {:?}; {notes:?}; {files:?}",
                    case.name, case.class, ids[at], expected[at]
                );
                silent.push(line);
            }
            // Where a class is named that does not exist, transformers gives up.
            (Ok(_), None) => more += 1,
            (Err(error), expected) => {
                let what = error.to_string().split('"').step_by(2).collect::<Vec<_>>().join("..");
                let what = format!(
                    "{what} (transformers: {})",
                    if expected.is_some() { "ids" } else { "refused" }
                );
                *refused.entry(what).or_default() += 1;
            }
        }
    }
    println!(
        "{equal} equal, {more} that transformers cannot read, {} refused",
        refused.values().sum::<usize>()
    );
    for (what, times) in &refused {
        println!("{times} x {what}");
    }
    assert!(silent.is_empty(), "{} differ:\n{}", silent.len(), silent.join("\n"));
}
