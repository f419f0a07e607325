//! What the server says while it runs: a JSON object per line on standard error.
//!
//! Prompts, answers and keys are never in it, unless [`Log::with_texts`] is asked for texts.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};

/// The log of a server.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    texts: bool,
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs())
}

impl Log {
    /// A log, with prompts and answers if `texts`.
    pub const fn new(texts: bool) -> Self {
        Self { texts }
    }

    /// Writes an event. The fields of `of` must be no texts of users.
    pub fn event(self, event: &str, of: Value) {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut line = Map::new();
        line.insert("time".to_owned(), (time.as_millis() as f64 / 1e3).into());
        line.insert("event".to_owned(), event.into());
        if let Value::Object(fields) = of {
            line.extend(fields);
        }
        let mut text = Value::Object(line).to_string();
        text.push('\n');
        // Who reads the log no longer is no reason to stop.
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }

    /// Writes an event with texts of users, if they are asked for.
    pub fn with_texts(self, event: &str, of: impl FnOnce() -> Value) {
        if self.texts {
            self.event(event, of());
        }
    }
}
