//! The files of a checkpoint that belong to its tokenizer, as a model directory and a key hold them.

use std::io;
use std::path::Path;

use serde_json::{Map, Value};

use super::{Tokenizer, TokenizerError};
use crate::support::files::{self, FileError};

/// The tokenizer in the hub layout.
pub const TOKENIZER_FILE: &str = "tokenizer.json";
/// Its settings, and the chat template of older checkpoints.
pub const TOKENIZER_CONFIG_FILE: &str = "tokenizer_config.json";
/// The chat template of newer checkpoints, a file of its own.
pub const CHAT_TEMPLATE_FILE: &str = "chat_template.jinja";

/// The tokenizer files of a checkpoint, in the hub layout. An empty file says as much as none: a key does not tell the two
/// apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenizerFiles {
    /// `tokenizer.json`.
    pub tokenizer: Option<Vec<u8>>,
    /// `tokenizer_config.json`, with the chat template of the checkpoint, if that has one.
    pub config: Option<Vec<u8>>,
}

impl TokenizerFiles {
    /// Reads the files of a checkpoint. A template in a file of its own becomes the field `chat_template` of
    /// `tokenizer_config.json`, in place of one that is there, so that it is covered by whatever covers that file.
    pub fn read(checkpoint: &Path) -> Result<Self, TokenizerError> {
        let tokenizer = optional(&checkpoint.join(TOKENIZER_FILE))?;
        let mut config = optional(&checkpoint.join(TOKENIZER_CONFIG_FILE))?;
        if let Some(template) = optional(&checkpoint.join(CHAT_TEMPLATE_FILE))? {
            config = Some(with_template(config.as_deref(), template)?);
        }
        Ok(Self { tokenizer, config })
    }

    /// The tokenizer, within the limits on hostile files; `None` if there is none.
    pub fn parse(&self) -> Result<Option<Tokenizer>, TokenizerError> {
        let tokenizer = self.tokenizer.as_ref();
        let parsed = tokenizer.map(|bytes| Tokenizer::from_bytes(bytes, self.config.as_deref()));
        parsed.transpose()
    }
}

fn with_template(config: Option<&[u8]>, template: Vec<u8>) -> Result<Vec<u8>, TokenizerError> {
    let template = String::from_utf8(template).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        TokenizerError::Config(format!("{CHAT_TEMPLATE_FILE} is not UTF-8 text: invalid byte at {at}"))
    })?;
    let invalid = |e: serde_json::Error| TokenizerError::Config(e.to_string());
    let mut fields: Map<String, Value> = match config {
        None => Map::new(),
        Some(config) => serde_json::from_slice(config).map_err(invalid)?,
    };
    fields.insert("chat_template".to_owned(), Value::String(template));
    serde_json::to_vec_pretty(&fields).map_err(invalid)
}

/// The bytes of an optional file.
fn optional(path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    match files::read(path) {
        Err(FileError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(|bytes| Some(bytes).filter(|b| !b.is_empty())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(files: &[(&str, &str)]) -> Result<TokenizerFiles, TokenizerError> {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in files {
            std::fs::write(dir.path().join(name), content).unwrap();
        }
        TokenizerFiles::read(dir.path())
    }

    #[test]
    fn files_are_taken_as_they_are_unless_the_template_is_a_file_of_its_own() {
        let (tokenizer, config) = (r#"{"x":   1}"#, r#"{"bos_token":   "<s>", "chat_template": "old"}"#);
        let read = written(&[("tokenizer.json", tokenizer), ("tokenizer_config.json", config)]).unwrap();
        assert_eq!(read.tokenizer.as_deref(), Some(tokenizer.as_bytes()));
        assert_eq!(read.config.as_deref(), Some(config.as_bytes()));
        assert_eq!(written(&[]).unwrap(), TokenizerFiles::default());
        for files in [
            &[
                ("tokenizer_config.json", config),
                ("chat_template.jinja", "{{ new }}\n"),
            ][..],
            &[("chat_template.jinja", "{{ new }}\n")],
        ] {
            let merged: Value = serde_json::from_slice(&written(files).unwrap().config.unwrap()).unwrap();
            assert_eq!(merged["chat_template"], "{{ new }}\n");
            assert_eq!(merged.get("bos_token").is_some(), files.len() == 2);
        }
        let error = written(&[("tokenizer_config.json", "["), ("chat_template.jinja", "x")]).unwrap_err();
        assert!(error.to_string().starts_with("tokenizer_config.json: "), "{error}");
    }
}
