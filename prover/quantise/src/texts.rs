//! Text files as token sequences, for calibration and comparison.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use tessera_circuits::model::ModelConfig;
use thiserror::Error;

use tessera_support::files::{self, FileError};
use tessera_support::random::random_ids;
use tessera_text::tokenizer::{Tokenizer, TokenizerError};

/// Longest token sequence that a calibration text is cut into (or the model's context, if that is shorter).
pub const WINDOW: usize = 512;

/// A text that is bundled with the program: JSON lines of many kinds of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bundled {
    /// As recipes call it. A change of the text changes the name.
    pub name: &'static str,
    pub content: &'static str,
}

/// What scales are calibrated on where nobody gives a text.
pub const CALIBRATION: Bundled = Bundled {
    name: "bundled calibration text 2",
    content: include_str!("texts/calibration.jsonl"),
};
/// What the distance to the float model is measured on: other texts of the same kinds, never used for calibration.
pub const HELD_OUT: Bundled = Bundled {
    name: "bundled held-out text 1",
    content: include_str!("texts/heldout.jsonl"),
};
/// Characters of a text that stand for a query, where a reranker reads pairs.
const QUERY: usize = 60;
/// The name of text that is the user's own.
pub const OWN_TEXT: &str = "file";
/// The name of what stands for text where there is no tokenizer.
pub const RANDOM_IDS: &str = "random ids 1";

/// Models of more tiles are calibrated on [`LARGE_TOKENS`] tokens of the bundled texts, and compared with the float
/// model on fewer tokens the larger they are.
const LARGE_TILES: usize = 1 << 16;
/// Most tokens of the bundled calibration text: short contexts and small vocabularies need more for the same text.
const CALIBRATION_TOKENS: usize = 4096;
/// As [`CALIBRATION_TOKENS`], for large models: ranges grow slowly with the number of tokens.
const LARGE_TOKENS: usize = 1024;
/// Most tokens of the bundled held-out text, and fewest, as far as there are so many.
const HELD_OUT_TOKENS: usize = 2048;
const LEAST_HELD_OUT_TOKENS: usize = 128;
/// Length of a window of random ids, and number of windows to calibrate on.
const RANDOM_WINDOW: usize = 128;
const RANDOM_WINDOWS: usize = 3;
/// Seed of the first window of random ids for a comparison.
const HELD_OUT_SEED: u64 = 1 << 32;

/// A text file that cannot be turned into token sequences.
#[derive(Debug, Error)]
pub enum TextError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} is not UTF-8 text: invalid byte at {offset}", path.display())]
    Utf8 { path: PathBuf, offset: usize },
    #[error("{}, line {line}: {problem}", path.display())]
    Line {
        path: PathBuf,
        line: usize,
        problem: String,
    },
    #[error("{}: {source}", path.display())]
    Encode { path: PathBuf, source: TokenizerError },
    #[error("{}: the model has no tokenizer.json, so texts must be given as JSON lines with \"ids\"", path.display())]
    NoTokenizer { path: PathBuf },
    #[error("{}: token id {id} is outside the vocabulary of {vocab}", path.display())]
    UnknownToken { path: PathBuf, id: u32, vocab: usize },
    #[error("{} holds no text of two tokens or more", path.display())]
    Empty { path: PathBuf },
}

/// One line of a file of JSON lines; `ids` come first, `text` is encoded if there are none.
#[derive(Deserialize)]
struct JsonLine {
    ids: Option<Vec<u32>>,
    text: Option<String>,
}

/// Turns texts into token sequences of one model.
#[derive(Clone, Copy)]
pub struct TextReader<'a> {
    pub config: &'a ModelConfig,
    pub tokenizer: Option<&'a Tokenizer>,
}

impl TextReader<'_> {
    /// Reads a file to calibrate on: plain text is one long text; JSON lines (objects with `ids` or `text`) are one text
    /// each. Every text is cut into windows of at most [`WINDOW`] tokens; all start with the BOS token if
    /// the text does.
    pub fn read(&self, path: &Path) -> Result<Vec<Vec<u32>>, TextError> {
        self.read_in(path, WINDOW)
    }

    /// As [`TextReader::read`], but cut only where a text is longer than the model's context.
    pub fn read_whole(&self, path: &Path) -> Result<Vec<Vec<u32>>, TextError> {
        self.read_in(path, usize::MAX)
    }

    fn read_in(&self, path: &Path, window: usize) -> Result<Vec<Vec<u32>>, TextError> {
        let bytes = files::read(path)?;
        let text = std::str::from_utf8(&bytes).map_err(|e| TextError::Utf8 {
            path: path.to_owned(),
            offset: e.valid_up_to(),
        })?;
        let texts = match text.trim_start().starts_with('{') {
            true => self.json_lines(path, text)?,
            false => vec![self.encode(path, text)?],
        };
        self.windows(path, texts, window)
    }

    /// The bundled calibration text, or so much of each of its texts as is worth the time.
    pub fn calibration(&self) -> Result<Vec<Vec<u32>>, TextError> {
        let budget = match self.config.total_tiles() > LARGE_TILES {
            true => LARGE_TOKENS,
            false => CALIBRATION_TOKENS,
        };
        self.bundled(CALIBRATION, budget)
    }

    /// The bundled held-out text, or so much of each of its texts that a comparison of a large model takes about as long
    /// as that of a small one.
    pub fn held_out(&self) -> Result<Vec<Vec<u32>>, TextError> {
        self.bundled(HELD_OUT, self.held_out_tokens())
    }

    fn held_out_tokens(&self) -> usize {
        let large = LARGE_TILES * HELD_OUT_TOKENS / self.config.total_tiles().max(1);
        large.clamp(LEAST_HELD_OUT_TOKENS, HELD_OUT_TOKENS)
    }

    /// Texts with tokens that the model does not have are left out: some tokenizers know more than their model.
    fn bundled(&self, text: Bundled, budget: usize) -> Result<Vec<Vec<u32>>, TextError> {
        let path = Path::new(text.name);
        let mut texts = self.json_lines(path, text.content)?;
        texts.retain(|ids| ids.iter().all(|id| (*id as usize) < self.config.vocab));
        self.windows(path, shorten(texts, budget), WINDOW)
    }

    /// Random ids, always the same, to calibrate a model that has no tokenizer.
    pub fn random(&self) -> Vec<Vec<u32>> {
        self.random_windows(RANDOM_WINDOWS, 0)
    }

    /// Other random ids, to measure such a model on.
    pub fn random_held_out(&self) -> Vec<Vec<u32>> {
        let windows = self.held_out_tokens() / RANDOM_WINDOW;
        self.random_windows(windows.clamp(1, RANDOM_WINDOWS), HELD_OUT_SEED)
    }

    fn random_windows(&self, windows: usize, seed: u64) -> Vec<Vec<u32>> {
        let length = self.config.context.min(RANDOM_WINDOW);
        let window = |i| {
            let mut ids = random_ids(self.config, length, seed + i as u64);
            if let (Some(first), Some(bos)) = (ids.first_mut(), self.config.bos) {
                *first = bos;
            }
            // Pairs whose first text is the shorter one.
            if let Some(separator) = self.config.reranker().and_then(|own| own.separator) {
                ids.iter_mut().skip(length / 4).take(1).for_each(|id| *id = separator);
            }
            ids
        };
        (0..windows).map(window).collect()
    }

    fn encode(&self, path: &Path, text: &str) -> Result<Vec<u32>, TextError> {
        let tokenizer = self
            .tokenizer
            .ok_or_else(|| TextError::NoTokenizer { path: path.to_owned() })?;
        let ids = match self.config.reranker() {
            None => tokenizer.encode(text),
            Some(_) => {
                let (query, document) = pair(text);
                tokenizer.encode_pair(query, document, self.config)
            }
        };
        ids.map_err(|source| TextError::Encode {
            path: path.to_owned(),
            source,
        })
    }

    fn json_lines(&self, path: &Path, text: &str) -> Result<Vec<Vec<u32>>, TextError> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        lines
            .map(|(at, line)| {
                let problem = |problem: String| TextError::Line {
                    path: path.to_owned(),
                    line: at + 1,
                    problem,
                };
                let line: JsonLine = serde_json::from_str(line).map_err(|e| problem(e.to_string()))?;
                match line {
                    JsonLine { ids: Some(ids), .. } => Ok(ids),
                    JsonLine { text: Some(text), .. } => self.encode(path, &text),
                    _ => Err(problem("neither \"ids\" nor \"text\"".to_owned())),
                }
            })
            .collect()
    }

    fn windows(&self, path: &Path, texts: Vec<Vec<u32>>, window: usize) -> Result<Vec<Vec<u32>>, TextError> {
        let vocab = self.config.vocab;
        if let Some(&id) = texts.iter().flatten().find(|id| **id as usize >= vocab) {
            return Err(TextError::UnknownToken {
                path: path.to_owned(),
                id,
                vocab,
            });
        }
        let length = self.config.context.min(window);
        // What follows a window of a pair is no pair.
        let most = self.config.reranker().map_or(usize::MAX, |_| 1);
        let windows = |ids: &Vec<u32>| cut(ids, length, self.config.bos).into_iter().take(most);
        let windows: Vec<_> = texts.iter().flat_map(windows).collect();
        match windows.is_empty() {
            true => Err(TextError::Empty { path: path.to_owned() }),
            false => Ok(windows),
        }
    }
}

/// A text as a pair: its beginning is the query, the rest the document.
fn pair(text: &str) -> (&str, &str) {
    let letters = text.chars().count();
    let at = text
        .char_indices()
        .nth(QUERY.min(letters / 2))
        .map_or(text.len(), |(at, _)| at);
    text.split_at(at)
}

/// The same part of every text, so that all together have about `budget` tokens, or less if there are not so many.
fn shorten(mut texts: Vec<Vec<u32>>, budget: usize) -> Vec<Vec<u32>> {
    let total: usize = texts.iter().map(Vec::len).sum();
    if total > budget {
        texts
            .iter_mut()
            .for_each(|ids| ids.truncate((ids.len() * budget).div_ceil(total).max(2)));
    }
    texts
}

/// Cuts a text into windows of at most `length` ids; those that predict nothing are left out.
fn cut(ids: &[u32], length: usize, bos: Option<u32>) -> Vec<Vec<u32>> {
    let (start, rest) = match ids.split_first() {
        Some((first, rest)) if Some(*first) == bos => (vec![*first], rest),
        _ => (Vec::new(), ids),
    };
    let chunks = rest.chunks(length.saturating_sub(start.len()).max(1));
    chunks
        .map(|chunk| [start.as_slice(), chunk].concat())
        .filter(|window| window.len() > 1)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tessera_samples::{odd_config, FIXTURE};

    fn read(content: &[u8]) -> Result<Vec<Vec<u32>>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("texts");
        std::fs::write(&path, content).unwrap();
        let config = odd_config();
        TextReader {
            config: &config,
            tokenizer: None,
        }
        .read(&path)
        .map_err(|e| e.to_string())
    }

    #[test]
    fn windows_keep_the_first_token_and_lose_nothing_else() {
        assert_eq!(cut(&[1, 5, 6, 7, 8], 3, Some(1)), [vec![1, 5, 6], vec![1, 7, 8]]);
        assert_eq!(cut(&[5, 6, 7, 8, 9], 3, Some(1)), [vec![5, 6, 7], vec![8, 9]]);
        assert_eq!(cut(&[1], 3, Some(1)), Vec::<Vec<u32>>::new());
        assert_eq!(cut(&[], 3, None), Vec::<Vec<u32>>::new());
    }

    fn lines(text: Bundled) -> Vec<serde_json::Value> {
        let lines = text.content.lines();
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Scales must hold for what people write to a model, and what they are measured on must not have made them.
    #[test]
    fn bundled_texts_are_of_many_kinds_and_have_nothing_in_common() {
        let [calibration, held_out] = [CALIBRATION, HELD_OUT].map(lines);
        let kinds = [
            "story", "prose", "dialogue", "rust", "python", "markdown", "table", "numbers", "newlines", "chat",
            "german", "french", "spanish", "russian", "chinese", "japanese", "arabic", "hindi", "korean", "upper",
            "math",
        ];
        for kind in kinds {
            for texts in [&calibration, &held_out] {
                assert!(texts.iter().any(|t| t["kind"] == kind), "{kind}");
            }
        }
        for texts in [&calibration, &held_out] {
            assert!(texts.iter().any(|t| t["text"].as_str().unwrap().starts_with("\n\n")));
            assert!(texts
                .iter()
                .any(|t| t["text"].as_str().unwrap().contains("<|im_start|>")));
        }
        // Of every held-out text, no run of 24 characters (8 of scripts without spaces) is in the other set.
        let all: String = calibration.iter().map(|t| t["text"].as_str().unwrap()).collect();
        for text in held_out.iter().filter(|t| t["kind"] != "chat") {
            let letters: Vec<char> = text["text"].as_str().unwrap().chars().collect();
            let length = if letters.iter().any(|c| *c > '\u{2fff}') { 8 } else { 24 };
            for run in letters.windows(length) {
                let run: String = run.iter().collect();
                assert!(!all.contains(&run), "{run:?} is in both");
            }
        }
    }

    /// However small the budget is, every kind of text has its share.
    #[test]
    fn a_large_model_sees_a_part_of_every_text() {
        let texts = vec![vec![1; 100], vec![2; 300], vec![3; 4]];
        let parts = shorten(texts.clone(), 101);
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [25, 75, 2]);
        assert_eq!(shorten(texts.clone(), 404), texts);
        let reader = |layers| {
            let config = ModelConfig {
                layers,
                hidden: 4096,
                ff: 11_008,
                heads: 32,
                kv_heads: 32,
                head_dim: 128,
                ..odd_config()
            };
            TextReader {
                config: &config,
                tokenizer: None,
            }
            .held_out_tokens()
        };
        assert_eq!((reader(1), reader(8), reader(32)), (2048, 339, 128));
    }

    /// A chat of the bundled texts may have a special token that was added to the tokenizer only.
    #[test]
    fn bundled_texts_with_tokens_that_the_model_lacks_are_left_out() {
        let file = |name: &str| std::fs::read(Path::new(FIXTURE).join(name)).unwrap();
        let tokenizer = Tokenizer::from_bytes(&file("tokenizer.json"), None).unwrap();
        let texts = |vocab| {
            let config = ModelConfig {
                vocab,
                context: 512,
                ..odd_config()
            };
            let reader = TextReader {
                config: &config,
                tokenizer: Some(&tokenizer),
            };
            reader.held_out().unwrap()
        };
        let (all, some) = (texts(2048), texts(2000));
        assert!(some.len() < all.len() && !some.is_empty());
        assert!(some.iter().flatten().all(|id| *id < 2000));
    }

    #[test]
    fn random_ids_for_a_comparison_are_not_those_of_the_calibration() {
        let config = ModelConfig {
            context: 200,
            ..odd_config()
        };
        let reader = TextReader {
            config: &config,
            tokenizer: None,
        };
        let (calibration, held_out) = (reader.random(), reader.random_held_out());
        assert_eq!((calibration.len(), held_out.len()), (3, 3));
        assert!(held_out
            .iter()
            .all(|ids| ids.len() == 128 && !calibration.contains(ids)));
    }

    #[test]
    fn json_lines_are_texts_of_their_own() {
        assert_eq!(
            read(b"{\"ids\": [1, 2, 3]}\n\n{\"ids\": [4, 5], \"text\": \"x\"}\n").unwrap(),
            [vec![1, 2, 3], vec![4, 5]]
        );
    }

    #[test]
    fn errors_name_file_line_and_value() {
        for (content, words) in [
            (
                &b"{\"ids\": [1, 2]}\n{\"other\": 1}"[..],
                vec!["texts, line 2", "neither"],
            ),
            (b"{\"ids\": [1, -2]}", vec!["texts, line 1"]),
            (b"{\"ids\": [1, 300]}", vec!["token id 300", "vocabulary of 300"]),
            (b"{\"ids\": [1]}", vec!["no text of two tokens"]),
            (b"plain", vec!["tokenizer.json"]),
            (b"ab\xff", vec!["not UTF-8", "at 2"]),
        ] {
            let error = read(content).unwrap_err();
            assert!(words.iter().all(|w| error.contains(w)), "{error}");
        }
    }
}
