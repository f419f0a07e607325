//! The files of a checkpoint that belong to its tokenizer, as a model directory and a key hold them.

use std::io;
use std::path::Path;

use serde_json::{Map, Value};

use super::TokenizerError;
use crate::files::{self, FileError};
use crate::model_dir::{TOKENIZER_CONFIG_FILE, TOKENIZER_FILE};

/// The chat template of newer checkpoints, a file of its own.
pub const CHAT_TEMPLATE_FILE: &str = "chat_template.jinja";

/// `tokenizer.json` and `tokenizer_config.json`; empty where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenizerFiles {
    pub tokenizer: Vec<u8>,
    /// With the chat template of the checkpoint, if that has one.
    pub config: Vec<u8>,
}

impl TokenizerFiles {
    /// Reads the files of a checkpoint. A template in a file of its own becomes the field `chat_template` of
    /// `tokenizer_config.json`, in place of one that is there, so that it is covered by whatever covers that file.
    pub fn read(checkpoint: &Path) -> Result<Self, TokenizerError> {
        let tokenizer = optional(&checkpoint.join(TOKENIZER_FILE))?;
        let mut config = optional(&checkpoint.join(TOKENIZER_CONFIG_FILE))?;
        let template = optional(&checkpoint.join(CHAT_TEMPLATE_FILE))?;
        if !template.is_empty() {
            config = with_template(&config, template)?;
        }
        Ok(Self { tokenizer, config })
    }

    /// The files that there are, with their names.
    pub fn named(self) -> impl Iterator<Item = (&'static str, Vec<u8>)> {
        let all = [(TOKENIZER_FILE, self.tokenizer), (TOKENIZER_CONFIG_FILE, self.config)];
        all.into_iter().filter(|(_, bytes)| !bytes.is_empty())
    }
}

fn with_template(config: &[u8], template: Vec<u8>) -> Result<Vec<u8>, TokenizerError> {
    let template = String::from_utf8(template).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        TokenizerError::Config(format!("{CHAT_TEMPLATE_FILE} is not UTF-8 text: invalid byte at {at}"))
    })?;
    let invalid = |e: serde_json::Error| TokenizerError::Config(e.to_string());
    let mut fields: Map<String, Value> = match config {
        [] => Map::new(),
        config => serde_json::from_slice(config).map_err(invalid)?,
    };
    fields.insert("chat_template".to_owned(), Value::String(template));
    serde_json::to_vec_pretty(&fields).map_err(invalid)
}

/// The bytes of an optional file; empty if there is none.
fn optional(path: &Path) -> Result<Vec<u8>, FileError> {
    match files::read(path) {
        Err(FileError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other,
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
        assert_eq!(
            (&*read.tokenizer, &*read.config),
            (tokenizer.as_bytes(), config.as_bytes())
        );
        assert_eq!(written(&[]).unwrap(), TokenizerFiles::default());
        for files in [
            &[
                ("tokenizer_config.json", config),
                ("chat_template.jinja", "{{ new }}\n"),
            ][..],
            &[("chat_template.jinja", "{{ new }}\n")],
        ] {
            let merged: Value = serde_json::from_slice(&written(files).unwrap().config).unwrap();
            assert_eq!(merged["chat_template"], "{{ new }}\n");
            assert_eq!(merged.get("bos_token").is_some(), files.len() == 2);
        }
        let error = written(&[("tokenizer_config.json", "["), ("chat_template.jinja", "x")]).unwrap_err();
        assert!(error.to_string().starts_with("tokenizer_config.json: "), "{error}");
    }
}
