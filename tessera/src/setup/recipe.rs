//! The recipe in a key, which says how the key was made (docs/format.md, section 2): options, texts, files, and the
//! distance to the checkpoint.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use sha2::{Digest as _, Sha256};
use tessera_recipe::{Calibration, Fidelity, Recipe, Setting, SourceFile};

use super::{SetupError, SetupOptions};
use crate::plan::{Plan, Subject, Task};
use tessera_checkpoint::Checkpoint;
use tessera_model::QuantisedModel;
use tessera_quantise::comparison::{measure, FidelityReport};
use tessera_quantise::texts::{TextError, TextReader, CALIBRATION, HELD_OUT, OWN_TEXT, RANDOM_IDS};
use tessera_quantise::vectors::measure_vectors;
use tessera_quantise::{QuantiseOptions, Strategy};
use tessera_support::files::{self, FileError};
use tessera_support::progress::Progress;
use tessera_text::tokenizer::IdFile;

/// A file of a checkpoint that neither has tensors nor decides ids: the index of its tensors.
const INDEX_FILE: &str = "model.safetensors.index.json";
/// Largest number of first tokens, heads or exponents that a recipe may ask for.
const MOST_COUNT: usize = 1 << 12;
/// Bytes of a file that are read at once.
const PIECE: usize = 1 << 20;

/// The program and its version.
pub fn tool() -> String {
    format!("tessera {}", env!("CARGO_PKG_VERSION"))
}

/// Names and values of all options that the quantisation follows from.
pub(super) fn settings(options: &QuantiseOptions) -> Vec<Setting> {
    let QuantiseOptions {
        strategy,
        headroom,
        leading,
        exponents,
        feedback_bits,
        rotation,
        first_tokens,
        heads,
    } = options;
    let setting = |(name, value): (&str, String)| Setting {
        name: name.to_owned(),
        value,
    };
    let list = [
        ("strategy", strategy.name().to_owned()),
        ("headroom", headroom.to_string()),
        ("leading", leading.first.to_string()),
        ("leading run", leading.run.to_string()),
        (
            "exponents",
            exponents.map_or_else(|| "auto".to_owned(), |n| n.to_string()),
        ),
        ("feedback bits", feedback_bits.to_string()),
        (
            "rotation",
            rotation.map_or_else(|| "auto".to_owned(), |rotated| rotated.to_string()),
        ),
        ("first tokens", first_tokens.to_string()),
        ("heads", heads.to_string()),
    ];
    list.map(setting).into()
}

/// The options that a recipe names. Errors name a setting that this program cannot follow, or one that is missing.
pub(super) fn options(recipe: &Recipe) -> Result<QuantiseOptions, String> {
    fn number<T: std::str::FromStr>(value: &str) -> Option<T> {
        value.parse().ok()
    }
    // A key is anybody's: its numbers are no reason to work for hours.
    let count = |value: &str| number(value).filter(|n: &usize| *n <= MOST_COUNT);
    let mut options = QuantiseOptions::default();
    for setting in &recipe.settings {
        let (name, value) = (setting.name.as_str(), setting.value.as_str());
        let known = match name {
            "strategy" => Strategy::named(value).map(|v| options.strategy = v),
            "headroom" => number(value).map(|v| options.headroom = v),
            "leading" => number(value).map(|v| options.leading.first = v),
            "leading run" => number(value).map(|v| options.leading.run = v),
            "exponents" if value == "auto" => {
                options.exponents = None;
                Some(())
            }
            "exponents" => count(value).map(|v| options.exponents = Some(v)),
            "feedback bits" => number(value).map(|v| options.feedback_bits = v),
            "rotation" if value == "auto" => {
                options.rotation = None;
                Some(())
            }
            "rotation" => number(value).map(|v| options.rotation = Some(v)),
            "first tokens" => count(value).map(|v| options.first_tokens = v),
            "heads" => count(value).map(|v| options.heads = v),
            _ => None,
        };
        known.ok_or_else(|| format!("this program has no set-up with {name} {value}"))?;
    }
    let names = |settings: &[Setting]| settings.iter().map(|s| s.name.clone()).collect::<Vec<_>>();
    let own = names(&settings(&options));
    match own.iter().find(|name| !names(&recipe.settings).contains(name)) {
        Some(missing) => Err(format!("its recipe names no {missing}")),
        None => Ok(options),
    }
}

/// Token sequences, and what they were made from.
pub(super) struct CalibrationText {
    pub ids: Vec<Vec<u32>>,
    pub source: Calibration,
}

impl CalibrationText {
    /// The text in a file, or the bundled one, or random ids for a model without tokenizer.
    pub fn read(reader: &TextReader<'_>, path: Option<&PathBuf>) -> Result<Self, TextError> {
        let (ids, text, sha256) = match path {
            Some(path) => (reader.read(path)?, OWN_TEXT, Some(sha256(&files::read(path)?))),
            None if reader.tokenizer.is_none() => (reader.random(), RANDOM_IDS, None),
            None => {
                let bytes = CALIBRATION.content.as_bytes();
                (reader.calibration()?, CALIBRATION.name, Some(sha256(bytes)))
            }
        };
        let source = Calibration {
            text: text.to_owned(),
            sha256,
            tokens: ids.iter().map(|ids| ids.len() as u64).sum(),
        };
        Ok(Self { ids, source })
    }
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Names, sizes and SHA-256 of all files that a checkpoint is made of, as a hub shows them. `id_files` are the files
/// that decide ids.
pub fn source_files(dir: &Path, checkpoint: &Checkpoint, id_files: &[IdFile]) -> Result<Vec<SourceFile>, FileError> {
    let small = id_files
        .iter()
        .map(|file| dir.join(&file.name))
        .chain([dir.join(INDEX_FILE)])
        .filter(|path| path.exists());
    let tensors = checkpoint.files().map(|(path, _)| path.to_owned());
    let mut paths: Vec<PathBuf> = small.chain(tensors).collect();
    paths.sort();
    paths.dedup();
    paths.par_iter().map(|path| source_file(dir, path)).collect()
}

fn source_file(dir: &Path, path: &Path) -> Result<SourceFile, FileError> {
    let failed = |source| FileError::Read {
        path: path.to_owned(),
        source,
    };
    let mut file = File::open(path).map_err(failed)?;
    let (mut hash, mut bytes, mut piece) = (Sha256::new(), 0, vec![0; PIECE]);
    loop {
        let read = file.read(&mut piece).map_err(failed)?;
        if read == 0 {
            break;
        }
        hash.update(&piece[..read]);
        bytes += read as u64;
    }
    // The one of a file in a folder of its own has that folder, and a GGUF file has no other.
    let name = match path.strip_prefix(dir) {
        Ok(below) if !below.as_os_str().is_empty() => below.to_string_lossy(),
        _ => path.file_name().unwrap_or_default().to_string_lossy(),
    };
    // A name goes to terminals.
    let name = name.replace(char::is_control, "?");
    Ok(SourceFile {
        name,
        bytes,
        sha256: hash.finalize().into(),
    })
}

/// The texts that a set-up measures its model on, with their name.
pub(super) struct HeldOut {
    pub ids: Vec<Vec<u32>>,
    pub name: &'static str,
}

impl HeldOut {
    pub fn read(reader: &TextReader<'_>) -> Result<Self, TextError> {
        let (ids, name) = match reader.tokenizer {
            Some(_) => (reader.held_out()?, HELD_OUT.name),
            None => (reader.random_held_out(), RANDOM_IDS),
        };
        Ok(Self { ids, name })
    }

    /// How they are measured within the memory of a set-up, or why they are not.
    pub fn plan(&self, subject: &Subject, options: &SetupOptions) -> Result<Plan, String> {
        if options.skip_fidelity {
            return Err("it was not asked for".to_owned());
        }
        let task = Task::Compare {
            tokens: self.ids.iter().map(Vec::len).sum(),
            window: self.ids.iter().map(Vec::len).max().unwrap_or(0),
        };
        subject.plan(task, options.memory).map_err(|e| {
            let (needs, has) = (e.smallest.div_ceil(1 << 20), e.budget >> 20);
            format!("the comparison needs {needs} MiB of memory, the budget is {has} MiB")
        })
    }
}

/// How close a set-up found a model to its checkpoint, and the whole comparison, if there is one.
pub(super) struct Verdict {
    pub fidelity: Fidelity,
    pub report: Option<FidelityReport>,
}

/// Compares a quantised model with its checkpoint, as planned.
pub(super) fn verdict(
    model: QuantisedModel,
    checkpoint: &Checkpoint,
    held_out: &HeldOut,
    plan: &Result<Plan, String>,
    progress: &dyn Progress,
) -> Result<Verdict, SetupError> {
    let plan = match plan {
        Ok(plan) => plan,
        Err(why) => {
            return Ok(Verdict {
                fidelity: Fidelity::NotMeasured(why.clone()),
                report: None,
            })
        }
    };
    let weights = model.weights.with_residency(plan.choices.residency);
    let model = QuantisedModel::new(model.config, model.params, weights);
    if !model.config.generates() {
        let report = measure_vectors(&model, checkpoint, &held_out.ids, progress)?;
        return Ok(Verdict {
            fidelity: report.fidelity(held_out.name, &model.config),
            report: None,
        });
    }
    let report = measure(&model, checkpoint, &held_out.ids, progress)?;
    Ok(Verdict {
        fidelity: Fidelity::Measured(report.figures(held_out.name)),
        report: Some(report),
    })
}

/// The recipe of a key; if it is `private`, without digests of texts and files and without figures of the comparison.
pub(super) fn recipe(
    settings: Vec<Setting>,
    calibration: Calibration,
    files: Option<Vec<SourceFile>>,
    fidelity: &Fidelity,
    private: bool,
) -> Recipe {
    let public = Recipe {
        tool: tool(),
        settings,
        calibration,
        files,
        fidelity: Some(fidelity.clone()),
    };
    if !private {
        return public;
    }
    Recipe {
        calibration: Calibration {
            sha256: None,
            ..public.calibration
        },
        files: None,
        fidelity: None,
        ..public
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Budget;
    use tessera_synthetic::PublicShape;

    /// A comparison that does not fit in memory is left out, with the reason: a set-up must not fail for it.
    #[test]
    fn what_cannot_be_measured_is_said_with_its_reason() {
        let config = PublicShape::TinyLlama1_1b.description().unwrap().config;
        let subject = Subject::of_config(&config, Strategy::W8.format(), false);
        let held_out = HeldOut {
            ids: vec![vec![1; 128]; 4],
            name: "some text",
        };
        let options = |budget: u64| SetupOptions {
            memory: Some(Budget(budget)),
            ..SetupOptions::default()
        };
        let why = held_out.plan(&subject, &options(64 << 20)).unwrap_err();
        let needs: u64 = why.split(' ').find_map(|word| word.parse().ok()).unwrap();
        assert!(why.ends_with("the budget is 64 MiB") && needs > 64, "{why}");
        // With as much as it says, it streams the weights; with more, it keeps them.
        let streamed = held_out.plan(&subject, &options(needs << 20)).unwrap();
        let kept = held_out.plan(&subject, &options(64 << 30)).unwrap();
        assert!(streamed.predicted_bytes() < kept.predicted_bytes());
        assert_ne!(streamed.choices.residency, kept.choices.residency);
        let skipped = SetupOptions {
            skip_fidelity: true,
            ..SetupOptions::default()
        };
        assert_eq!(held_out.plan(&subject, &skipped).unwrap_err(), "it was not asked for");
    }

    #[test]
    fn settings_are_followed_or_refused_by_name() {
        let recipe = |settings| Recipe {
            settings,
            ..Recipe::default()
        };
        let other = QuantiseOptions {
            strategy: Strategy::W8,
            headroom: 1.75,
            leading: tessera_circuits::model::LeadingRows {
                first: 2,
                run: false,
                token: None,
            },
            exponents: Some(3),
            feedback_bits: 7,
            rotation: Some(false),
            first_tokens: 9,
            heads: 4,
        };
        for known in [QuantiseOptions::default(), Strategy::W12.into(), other] {
            assert_eq!(options(&recipe(settings(&known))), Ok(known));
        }
        let refused = |list| options(&recipe(list)).unwrap_err();
        let mut unknown = settings(&other);
        unknown[0].value = "w3".to_owned();
        assert!(refused(unknown).contains("strategy w3"));
        for (name, value) in [("heads", u64::MAX.to_string()), ("first tokens", "4097".to_owned())] {
            let mut much = settings(&other);
            much.iter_mut()
                .filter(|s| s.name == name)
                .for_each(|s| s.value = value.clone());
            assert!(refused(much).contains(name));
        }
        let mut missing = settings(&other);
        missing.retain(|s| s.name != "heads");
        assert!(refused(missing).contains("no heads"));
        let other = Setting {
            name: "mirror".to_owned(),
            value: "on".to_owned(),
        };
        assert!(refused([settings(&Strategy::W8.into()), vec![other]].concat()).contains("mirror on"));
        assert!(refused(Vec::new()).contains("no strategy"));
    }
}
