//! JSON as Python reads it, because Python wrote most of it; and what is wrong with a file that should be JSON, and what helps.

use std::borrow::Cow;

use serde_json::error::Category;
use serde_json::{Error, Value};

/// Parses a file as Python's `json` does: `NaN`, `Infinity` and `-Infinity` are numbers for it, and so is what is larger than any float,
/// which it takes to be infinite. JSON has no such numbers: each becomes the text of its name, which is no value of a field that is used
/// and harmless in all others. Of two fields of one name, the last counts. Errors say what is wrong, and what helps.
pub fn parse(bytes: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(bytes).or_else(|error: Error| match named(bytes) {
        Cow::Owned(named) => serde_json::from_slice(&named).map_err(|_| problem(bytes, &error)),
        Cow::Borrowed(_) => Err(problem(bytes, &error)),
    })
}

/// Turns numbers that JSON does not have into texts; borrows the input if there are none.
fn named(bytes: &[u8]) -> Cow<'_, [u8]> {
    let (mut out, mut copied, mut at) = (Vec::new(), 0, 0);
    while let Some(byte) = bytes.get(at) {
        let rest = &bytes[at..];
        let length = match byte {
            b'"' => {
                at += text(rest);
                continue;
            }
            b'N' | b'I' | b'-' | b'0'..=b'9' => number(rest),
            _ => 0,
        };
        if let Some(name) = infinite(&rest[..length]) {
            out.extend_from_slice(&bytes[copied..at]);
            out.extend_from_slice(format!("\"{name}\"").as_bytes());
            copied = at + length;
        }
        at += length.max(1);
    }
    match copied {
        0 => Cow::Borrowed(bytes),
        _ => {
            out.extend_from_slice(&bytes[copied..]);
            Cow::Owned(out)
        }
    }
}

/// Bytes of the text that begins here, with its quotes.
fn text(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Bytes of the number or name that begins here.
fn number(bytes: &[u8]) -> usize {
    let own = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    bytes.iter().take_while(|byte| own(byte)).count()
}

/// The name of a number that JSON does not have.
fn infinite(number: &[u8]) -> Option<&str> {
    let number = std::str::from_utf8(number).ok()?;
    let digits = number.bytes().any(|byte| byte.is_ascii_digit());
    match number {
        "NaN" | "Infinity" | "-Infinity" => Some(number),
        _ if digits && number.parse::<f64>().is_ok_and(f64::is_infinite) => Some(match number.starts_with('-') {
            true => "-Infinity",
            false => "Infinity",
        }),
        _ => None,
    }
}

/// Marks of other encodings than UTF-8, or of it, and what they are.
const MARKS: [(&[u8], &str); 3] = [
    (b"\xef\xbb\xbf", "UTF-8"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
];

/// The problem of a file with these bytes.
pub fn problem(bytes: &[u8], error: &Error) -> String {
    let begins = |with: &[u8]| bytes.trim_ascii_start().starts_with(with);
    if let Some((_, encoding)) = MARKS.iter().find(|(mark, _)| bytes.starts_with(mark)) {
        return format!(
            "the file begins with the byte order mark of {encoding}, which JSON does not have: save it as UTF-8 without one"
        );
    }
    match error.classify() {
        _ if bytes.is_empty() => "the file is empty: download it again".to_owned(),
        _ if begins(b"version https://git-lfs") => {
            "the file is a git-LFS pointer: fetch the file with git lfs pull in the checkpoint's repository".to_owned()
        }
        _ if begins(b"<") => "the file is a page of HTML: download the file itself".to_owned(),
        Category::Eof => format!("the file is cut off ({error}): download it again"),
        Category::Syntax | Category::Io => format!("the file is not JSON ({error})"),
        // The text says what was found, and what belongs there.
        Category::Data => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_cut_off_is_told_from_what_is_something_else() {
        for (text, words) in [
            ("", "is empty"),
            ("[1, 2", "is cut off"),
            ("hello", "is not JSON"),
            ("[\"a\"]", "expected u8"),
            ("\u{feff}{}", "byte order mark of UTF-8"),
            ("<!DOCTYPE html>", "a page of HTML"),
            ("version https://git-lfs.github.com/spec/v1", "git lfs pull"),
        ] {
            let error = serde_json::from_str::<Vec<u8>>(text).unwrap_err();
            assert!(problem(text.as_bytes(), &error).contains(words), "{text}: {error}");
        }
        let error = parse(b"\xff\xfe{\0}\0").unwrap_err();
        assert!(error.contains("byte order mark of UTF-16"), "{error}");
        // Another download is the same file.
        let error = parse(b"{'a': 1}").unwrap_err();
        assert!(error.contains("is not JSON") && !error.contains("download"), "{error}");
    }

    #[test]
    fn numbers_that_json_does_not_have_are_read_as_python_reads_them() {
        let text = br#"{"a": NaN, "b": [Infinity, -Infinity], "c": "NaN, \"Infinity", "d": -1e400, "e": 1e-400, "a": 2, "f": 1e400}"#;
        let expected = json!({
            "a": 2, "b": ["Infinity", "-Infinity"], "c": "NaN, \"Infinity", "d": "-Infinity", "e": 0.0, "f": "Infinity"
        });
        assert_eq!(parse(text).unwrap(), expected);
        for bad in [
            "{\"a\": Nan}",
            "{\"a\": infinity}",
            "{\"a\": +Infinity}",
            "{\"a\": NaN",
            "[NaN, \"",
            "[-]",
            "[1-1]",
        ] {
            parse(bad.as_bytes()).unwrap_err();
        }
    }
}
