//! JSON files with a digest of their contents: an edited or damaged one is noticed. The digest is no signature; what
//! matters is checked again when a proof is composed.

use serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

use super::files::digest;

const SEAL: &str = "digest";

/// A file that is not as it was written.
#[derive(Debug, Error)]
pub enum SealError {
    /// The file is not a JSON object; the text says why.
    #[error("not a JSON object: {0}")]
    Json(String),
    /// The digest in the file is not the digest of its other fields.
    #[error("was edited or damaged: its contents do not have its digest")]
    Digest,
    /// A field is missing, or has a value of another type; the text says which.
    #[error("lacks or misuses a field: {0}")]
    Fields(String),
}

fn of(value: &Value) -> String {
    digest(&[value.to_string().as_bytes()])
}

/// Contents of the file for a value whose JSON is an object of integers, texts and lists.
pub(super) fn text<T: Serialize>(value: &T) -> String {
    let mut value = serde_json::to_value(value).unwrap_or_default();
    let digest = of(&value);
    if let Value::Object(map) = &mut value {
        map.insert(SEAL.to_owned(), digest.into());
    }
    format!("{value:#}\n")
}

/// Reads a file that [`text`] made.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, SealError> {
    let mut value: Value = serde_json::from_slice(bytes).map_err(|e| SealError::Json(e.to_string()))?;
    let Value::Object(map) = &mut value else {
        return Err(SealError::Json("it is another value".to_owned()));
    };
    let seal = map.remove(SEAL);
    if seal != Some(Value::String(of(&value))) {
        return Err(SealError::Digest);
    }
    serde_json::from_value(value).map_err(|e| SealError::Fields(e.to_string()))
}
