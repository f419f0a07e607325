//! Text files as token sequences, for calibration and comparison.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use tessera_circuits::model::ModelConfig;
use thiserror::Error;

use crate::files::{self, FileError};
use crate::testing::random_ids;
use crate::tokenizer::{Tokenizer, TokenizerError};

/// Longest token sequence that a text is cut into (or the model's context, if that is shorter).
pub const WINDOW: usize = 512;

/// Models of more tiles are calibrated on [`LARGE_TOKENS`] tokens of the bundled texts.
const LARGE_TILES: usize = 1 << 14;
/// Tokens of calibration text that suffice: ranges grow slowly with their number.
const LARGE_TOKENS: usize = 384;
/// Length of a window of random ids.
const RANDOM_WINDOW: usize = 128;

/// The bundled calibration texts, separated by blank lines.
const BUNDLED: &str = include_str!("calibration.txt");

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
    /// Reads a file: plain text is one long text; JSON lines (objects with `ids` or `text`) are one text
    /// each. Every text is cut into windows of at most [`WINDOW`] tokens; all start with the BOS token if
    /// the text does.
    pub fn read(&self, path: &Path) -> Result<Vec<Vec<u32>>, TextError> {
        let bytes = files::read(path)?;
        let text = std::str::from_utf8(&bytes).map_err(|e| TextError::Utf8 {
            path: path.to_owned(),
            offset: e.valid_up_to(),
        })?;
        let texts = match text.trim_start().starts_with('{') {
            true => self.json_lines(path, text)?,
            false => vec![self.encode(path, text)?],
        };
        self.windows(path, texts)
    }

    /// The bundled calibration texts; for large models only as many as are worth their time.
    pub fn bundled(&self) -> Result<Vec<Vec<u32>>, TextError> {
        let path = Path::new("bundled calibration text");
        let texts = BUNDLED
            .split("\n\n")
            .map(|text| self.encode(path, text.trim()))
            .collect::<Result<_, _>>()?;
        let mut windows = self.windows(path, texts)?;
        if self.config.total_tiles() > LARGE_TILES {
            let mut tokens = 0;
            windows.retain(|window| {
                tokens += window.len();
                tokens <= LARGE_TOKENS || tokens == window.len()
            });
        }
        Ok(windows)
    }

    /// Random ids, always the same, to calibrate a model that has no tokenizer.
    pub fn random(&self) -> Vec<Vec<u32>> {
        let length = self.config.context.min(RANDOM_WINDOW);
        let window = |seed| {
            let mut ids = random_ids(self.config, length, seed as u64);
            if let (Some(first), Some(bos)) = (ids.first_mut(), self.config.bos) {
                *first = bos;
            }
            ids
        };
        (0..LARGE_TOKENS / RANDOM_WINDOW).map(window).collect()
    }

    fn encode(&self, path: &Path, text: &str) -> Result<Vec<u32>, TextError> {
        let tokenizer = self
            .tokenizer
            .ok_or_else(|| TextError::NoTokenizer { path: path.to_owned() })?;
        tokenizer.encode(text).map_err(|source| TextError::Encode {
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

    fn windows(&self, path: &Path, texts: Vec<Vec<u32>>) -> Result<Vec<Vec<u32>>, TextError> {
        let vocab = self.config.vocab;
        if let Some(&id) = texts.iter().flatten().find(|id| **id as usize >= vocab) {
            return Err(TextError::UnknownToken {
                path: path.to_owned(),
                id,
                vocab,
            });
        }
        let length = self.config.context.min(WINDOW);
        let windows: Vec<_> = texts.iter().flat_map(|ids| cut(ids, length, self.config.bos)).collect();
        match windows.is_empty() {
            true => Err(TextError::Empty { path: path.to_owned() }),
            false => Ok(windows),
        }
    }
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
    use crate::testing::odd_config;

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
