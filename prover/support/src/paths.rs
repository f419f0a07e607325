//! Paths in JSON, for `#[serde(with)]`: texts, or lists of their bytes where they are not UTF-8.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Deserialize)]
#[serde(untagged)]
enum Stored {
    Text(String),
    Bytes(Vec<u8>),
}

/// Writes a path.
pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    match path.to_str() {
        Some(text) => text.serialize(serializer),
        None => path.as_os_str().as_encoded_bytes().serialize(serializer),
    }
}

/// Reads what [`serialize`] has written.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    match Stored::deserialize(deserializer)? {
        Stored::Text(text) => Ok(text.into()),
        Stored::Bytes(bytes) => from_bytes(bytes)
            .map(PathBuf::from)
            .ok_or_else(|| D::Error::custom("a path that this system does not have")),
    }
}

#[cfg(unix)]
fn from_bytes(bytes: Vec<u8>) -> Option<OsString> {
    Some(std::os::unix::ffi::OsStringExt::from_vec(bytes))
}

#[cfg(not(unix))]
fn from_bytes(bytes: Vec<u8>) -> Option<OsString> {
    String::from_utf8(bytes).ok().map(OsString::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Own {
        #[serde(with = "super")]
        path: PathBuf,
    }

    #[test]
    fn paths_are_texts_unless_they_are_not_utf_8() {
        let written = |own: &Own| serde_json::to_string(own).unwrap();
        let own = Own { path: "a/b".into() };
        assert_eq!(written(&own), r#"{"path":"a/b"}"#);
        assert_eq!(serde_json::from_str::<Own>(&written(&own)).unwrap(), own);
        #[cfg(unix)]
        {
            let path = PathBuf::from(from_bytes(b"a\xff".to_vec()).unwrap());
            let own = Own { path };
            assert_eq!(written(&own), r#"{"path":[97,255]}"#);
            assert_eq!(serde_json::from_str::<Own>(&written(&own)).unwrap(), own);
        }
    }
}
