//! API keys: a file that says who may ask, and what for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tessera::support::files::{self, FileError};
use thiserror::Error;

/// A file with keys that cannot be used.
#[derive(Debug, Error)]
pub enum KeysError {
    /// It cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A line is wrong.
    #[error("{}, line {line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong, and what helps.
        problem: &'static str,
    },
    /// It has no key.
    #[error("{} has no key: write one line NAME KEY for each client", .0.display())]
    Empty(PathBuf),
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// The name in the file of keys; `None` where nobody needs a key.
    pub name: Option<Arc<str>>,
    /// The least number that the client may give as priority.
    pub priority: i32,
}

/// The keys of a server.
#[derive(Debug, Default)]
pub struct Keys {
    keys: Vec<Key>,
}

#[derive(Debug)]
struct Key {
    hash: [u8; 32],
    client: Client,
}

/// The shortest key, in characters.
const SHORTEST: usize = 16;
const HASHED: &str = "sha256:";

impl Keys {
    /// Reads a file of keys: lines `NAME KEY`, or `NAME sha256:HEX` so that the file holds no secret, and perhaps `priority=N` behind.
    /// Two keys may have one name: they are one client. Empty lines and lines that begin with `#` say nothing.
    ///
    /// # Errors
    /// If the file cannot be read, a line is wrong, or there is no key.
    pub fn read(path: &Path) -> Result<Self, KeysError> {
        let bytes = files::read(path)?;
        let text = String::from_utf8_lossy(&bytes);
        let mut keys = Vec::new();
        for (at, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            let wrong = |problem| KeysError::Line {
                path: path.to_owned(),
                line: at + 1,
                problem,
            };
            let key = Key::read(line).map_err(wrong)?;
            if keys.iter().any(|other: &Key| other.hash == key.hash) {
                return Err(wrong("a line above has the same key"));
            }
            keys.push(key);
        }
        match keys.is_empty() {
            true => Err(KeysError::Empty(path.to_owned())),
            false => Ok(Self { keys }),
        }
    }

    /// The client of the key in an `Authorization` header. Where there are no keys, everybody is one client; else `None` is
    /// somebody without a key. How long this takes does not depend on how much of a key is right.
    pub fn client(&self, authorization: Option<&[u8]>) -> Option<Client> {
        if self.keys.is_empty() {
            let (name, priority) = (None, i32::MIN);
            return Some(Client { name, priority });
        }
        let key = authorization.and_then(bearer)?;
        let hash: [u8; 32] = Sha256::digest(key).into();
        let mut found = None;
        for own in &self.keys {
            if bool::from(own.hash.ct_eq(&hash)) {
                found = Some(own.client.clone());
            }
        }
        found
    }
}

/// The key of a header `Bearer KEY`.
fn bearer(header: &[u8]) -> Option<&[u8]> {
    let (scheme, key) = header.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| key.trim_ascii())
}

impl Key {
    fn read(line: &str) -> Result<Self, &'static str> {
        let mut words = line.split_whitespace();
        let (Some(name), Some(key)) = (words.next(), words.next()) else {
            return Err("not NAME KEY");
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if !name.chars().all(plain) {
            return Err("a name has letters, digits, '.', '_' and '-' only");
        }
        let hash = match key.strip_prefix(HASHED) {
            Some(digits) => {
                let mut hash = [0; 32];
                hex::decode_to_slice(digits, &mut hash).map_err(|_| "sha256: needs 64 hexadecimal digits")?;
                hash
            }
            None if key.len() < SHORTEST => {
                return Err("a key has 16 characters at least: make one with openssl rand -hex 24")
            }
            None => Sha256::digest(key).into(),
        };
        let mut priority = 0;
        for word in words {
            let number = word.strip_prefix("priority=").and_then(|n| n.parse().ok());
            priority = number.ok_or("only priority=N may follow the key")?;
        }
        let name = Some(name.into());
        Ok(Self {
            hash,
            client: Client { name, priority },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Keys, KeysError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys");
        std::fs::write(&path, text).unwrap();
        Keys::read(&path)
    }

    #[test]
    fn a_key_is_that_of_one_client() {
        let hash = hex::encode(Sha256::digest("bob-0123456789abcdef"));
        let keys = read(&format!(
            "# clients\n\nalice alice-0123456789abcdef priority=-5\nbob sha256:{hash}\nalice another-0123456789abcdef\n"
        ))
        .unwrap();
        let name = |header: &str| {
            keys.client(Some(header.as_bytes()))
                .map(|c| (c.name.unwrap().to_string(), c.priority))
        };
        assert_eq!(name("Bearer alice-0123456789abcdef"), Some(("alice".to_owned(), -5)));
        assert_eq!(name("bearer bob-0123456789abcdef "), Some(("bob".to_owned(), 0)));
        assert_eq!(name("Bearer another-0123456789abcdef"), Some(("alice".to_owned(), 0)));
        for other in [
            "",
            "Bearer",
            "Bearer ",
            "Basic alice-0123456789abcdef",
            "Bearer alice-0123456789abcdeF",
            "Bearer é",
        ] {
            assert_eq!(name(other), None, "{other}");
        }
        assert_eq!(name(&format!("Bearer sha256:{hash}")), None);
        assert_eq!(keys.client(None), None);
        assert!(Keys::default().client(None).is_some());
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, words) in [
            ("alice", "line 1: not NAME KEY"),
            ("\nalice short", "line 2: a key has 16"),
            ("alice sha256:00", "64 hexadecimal"),
            ("a/b 0123456789abcdef", "letters"),
            ("alice 0123456789abcdef prio=1", "priority=N"),
            ("# nothing\n", "has no key"),
            (
                "a 0123456789abcdef\nb 0123456789abcdef",
                "line 2: a line above has the same key",
            ),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
