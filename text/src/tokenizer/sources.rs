//! Files of a folder, and a record of those that were looked at for ids.

use std::path::Path;
use std::{fs, io};

use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::error::TokenizerError;
use crate::json;

/// The tokenizer in the hub layout.
pub const TOKENIZER_FILE: &str = "tokenizer.json";
/// The settings of the tokenizer, with the chat template in older checkpoints.
pub const TOKENIZER_CONFIG_FILE: &str = "tokenizer_config.json";
/// A file that was looked at for ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IdFile {
    /// The name, with the folder below the checkpoint's.
    pub name: String,
    /// SHA-256 in hexadecimal; `None` for a GGUF file, of which only the metadata was read.
    pub sha256: Option<String>,
    /// Fields that decide ids, or that make the file count where it has no fields.
    pub used: Vec<String>,
    /// Fields that do not.
    pub ignored: Vec<String>,
}

impl IdFile {
    /// A JSON file of which these fields are used, where they are there.
    pub(super) fn of(name: &str, sha256: String, fields: &Map<String, Value>, used: &[&str]) -> Self {
        Self::sorted(name, sha256, fields, |field| used.contains(&field))
    }

    /// Makes the record of a JSON file of which the fields that begin with these names are used.
    pub(super) fn starting(name: &str, sha256: String, fields: &Map<String, Value>, used: &[&str]) -> Self {
        Self::sorted(name, sha256, fields, |field| {
            used.iter().any(|begin| field.starts_with(begin))
        })
    }

    fn sorted(name: &str, sha256: String, fields: &Map<String, Value>, is_used: impl Fn(&str) -> bool) -> Self {
        let (used, ignored) = fields.keys().cloned().partition(|field| is_used(field));
        Self {
            name: name.to_owned(),
            sha256: Some(sha256),
            used,
            ignored,
        }
    }

    /// A file that counts as a whole.
    pub(super) fn whole(name: &str, sha256: String, used: &str) -> Self {
        Self {
            name: name.to_owned(),
            sha256: Some(sha256),
            used: vec![used.to_owned()],
            ignored: Vec::new(),
        }
    }
}

/// The content of a file, and the SHA-256 of its bytes in hexadecimal.
pub(super) type Digested<T> = (T, String);

/// A folder to read from.
pub(super) struct Sources<'a> {
    pub dir: &'a Path,
}

impl Sources<'_> {
    /// The bytes of a file and their digest; `None` if it is missing or empty.
    pub fn bytes(&self, name: &str) -> Result<Option<Digested<Vec<u8>>>, TokenizerError> {
        let bytes = optional(&self.dir.join(name))?;
        Ok(bytes.map(|bytes| {
            let digest = hex::encode(Sha256::digest(&bytes));
            (bytes, digest)
        }))
    }

    /// A JSON file.
    pub fn json(&self, name: &'static str) -> Result<Option<Digested<Value>>, TokenizerError> {
        let Some((bytes, digest)) = self.bytes(name)? else {
            return Ok(None);
        };
        let value = json::parse(&bytes).map_err(|problem| TokenizerError::Beside(name, problem))?;
        Ok(Some((value, digest)))
    }

    /// A JSON file that is an object.
    pub fn object(&self, name: &'static str) -> Result<Option<Digested<Map<String, Value>>>, TokenizerError> {
        match self.json(name)? {
            None => Ok(None),
            Some((Value::Object(fields), digest)) => Ok(Some((fields, digest))),
            Some(_) => Err(TokenizerError::Beside(name, "the file holds no JSON object".to_owned())),
        }
    }

    /// A text, with line ends as Python reads them.
    pub fn text(&self, name: &str) -> Result<Option<Digested<String>>, TokenizerError> {
        let Some((bytes, digest)) = self.bytes(name)? else {
            return Ok(None);
        };
        let text = String::from_utf8(bytes).map_err(|e| {
            let at = e.utf8_error().valid_up_to();
            TokenizerError::Config(format!("{name} is not UTF-8 text: invalid byte at {at}"))
        })?;
        Ok(Some((text.replace("\r\n", "\n").replace('\r', "\n"), digest)))
    }
}

/// The bytes of an optional file.
pub(super) fn optional(path: &Path) -> Result<Option<Vec<u8>>, TokenizerError> {
    let error = match fs::read(path) {
        Ok(bytes) => return Ok(Some(bytes).filter(|b| !b.is_empty())),
        Err(error) => error,
    };
    let path = path.to_path_buf();
    match (error.kind(), fs::read_link(&path)) {
        // A link to a file that is gone is no missing file.
        (io::ErrorKind::NotFound, Ok(target)) => Err(TokenizerError::Dangling { path, target }),
        (io::ErrorKind::NotFound, Err(_)) => Ok(None),
        _ => Err(TokenizerError::Read { path, source: error }),
    }
}
