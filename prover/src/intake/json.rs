//! What is wrong with a file that should be JSON, and what helps.

use serde_json::error::Category;
use serde_json::Error;

/// The problem of a file with these bytes.
pub fn problem(bytes: &[u8], error: &Error) -> String {
    match error.classify() {
        _ if bytes.is_empty() => "the file is empty: download it again".to_owned(),
        Category::Eof => format!("the file is cut off ({error}): download it again"),
        Category::Syntax | Category::Io => format!("the file is not JSON ({error}): download it again"),
        // The text says what was found, and what belongs there.
        Category::Data => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_off_is_told_from_what_is_something_else() {
        for (text, words) in [
            ("", "is empty"),
            ("[1, 2", "is cut off"),
            ("hello", "is not JSON"),
            ("[\"a\"]", "expected u8"),
        ] {
            let error = serde_json::from_str::<Vec<u8>>(text).unwrap_err();
            assert!(problem(text.as_bytes(), &error).contains(words), "{text}: {error}");
        }
    }
}
