//! Upper and lower case as Python has them.

use super::error::{unsupported, Result};
use super::text::{Builder, Text};

pub fn upper(text: &Text) -> Text {
    text.map(|_, c, out| out.extend(c.to_uppercase()))
}

pub fn lower(text: &Text) -> Text {
    let string = text.as_str();
    text.map(|i, c, out| lowered(string, i, c, out))
}

/// The lower case of a character; a sigma at the end of a word has its own.
fn lowered(string: &str, at: usize, c: char, out: &mut String) {
    if c != 'Σ' {
        out.extend(c.to_lowercase());
        return;
    }
    // Rust knows the rule for whole texts: the part around it is enough.
    let lower = string[..at + c.len_utf8()].to_lowercase();
    let ends = lower.ends_with('ς');
    let followed = {
        let rest = &string[at + c.len_utf8()..];
        format!("Α{c}{rest}").to_lowercase().chars().nth(1) == Some('σ')
    };
    out.push(if ends && !followed { 'ς' } else { 'σ' });
}

fn is_cased(c: char) -> bool {
    c.is_lowercase() || c.is_uppercase() || is_titlecase(c)
}

fn is_titlecase(c: char) -> bool {
    matches!(c, 'ǅ' | 'ǈ' | 'ǋ' | 'ǲ' | '\u{1f88}'..='\u{1f8f}' | '\u{1f98}'..='\u{1f9f}' | '\u{1fa8}'..='\u{1faf}'
        | '\u{1fbc}' | '\u{1fcc}' | '\u{1ffc}')
}

fn titled(c: char, out: &mut String) {
    match c {
        'Ǆ'..='ǆ' => out.push('ǅ'),
        'Ǉ'..='ǉ' => out.push('ǈ'),
        'Ǌ'..='ǌ' => out.push('ǋ'),
        'Ǳ'..='ǳ' => out.push('ǲ'),
        'ŉ' => out.push_str("ʼN"),
        // Georgian has capitals only for texts that are wholly in capitals.
        '\u{10d0}'..='\u{10fa}' | '\u{10fd}'..='\u{10ff}' => out.push(c),
        '\u{1f80}'..='\u{1faf}' => out.extend(char::from_u32(u32::from(c) | 8)),
        '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => out.extend(char::from_u32(u32::from(c) + 9)),
        '\u{1fbc}' | '\u{1fcc}' | '\u{1ffc}' => out.push(c),
        c => {
            let upper: Vec<char> = c.to_uppercase().collect();
            for (i, u) in upper.iter().enumerate() {
                match i {
                    0 => out.push(*u),
                    _ if *u == '\u{399}' && ('\u{1f80}'..='\u{1fff}').contains(&c) => out.push('\u{345}'),
                    _ => out.extend(u.to_lowercase()),
                }
            }
        }
    }
}

pub fn capitalize(text: &Text) -> Text {
    let string = text.as_str();
    text.map(|i, c, out| match i {
        0 => titled(c, out),
        _ => lowered(string, i, c, out),
    })
}

pub fn title(text: &Text) -> Text {
    let (string, mut in_word) = (text.as_str(), false);
    text.map(|i, c, out| {
        match in_word {
            true => lowered(string, i, c, out),
            false => titled(c, out),
        }
        in_word = is_cased(c);
    })
}

pub fn swapcase(text: &Text) -> Text {
    let string = text.as_str();
    text.map(|i, c, out| match (c.is_uppercase(), c.is_lowercase()) {
        (true, _) => lowered(string, i, c, out),
        (_, true) => out.extend(c.to_uppercase()),
        _ => out.push(c),
    })
}

pub fn is_lower(text: &str) -> bool {
    text.chars().any(char::is_lowercase) && !text.chars().any(|c| c.is_uppercase() || is_titlecase(c))
}

pub fn is_upper(text: &str) -> bool {
    text.chars().any(char::is_uppercase) && !text.chars().any(|c| c.is_lowercase() || is_titlecase(c))
}

pub fn is_title(text: &str) -> bool {
    let (mut cased, mut before) = (false, false);
    for c in text.chars() {
        let (up, low) = (c.is_uppercase() || is_titlecase(c), c.is_lowercase());
        if up && before || low && !before {
            return false;
        }
        before = up || low;
        cased |= before;
    }
    cased
}

/// Python's `isalpha`, for characters of which Rust knows that they are letters.
pub fn is_alpha(c: char) -> Result<bool> {
    let letter = matches!(c, '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}' | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7a3}' | '\u{5d0}'..='\u{5ea}' | '\u{620}'..='\u{64a}');
    match c.is_alphabetic() {
        false => Ok(false),
        _ if c.is_ascii() || letter || u32::from(c) < 0x345 => Ok(true),
        _ if ('\u{370}'..='\u{52f}').contains(&c) => Ok(true),
        _ => unsupported(format!("isalpha of {c:?}")),
    }
}

/// Python's `isdigit` and `isdecimal`, which differ beyond ASCII.
pub fn is_digit(c: char) -> Result<bool> {
    match c.is_numeric() && !c.is_ascii() {
        true => unsupported(format!("isdigit of {c:?}")),
        false => Ok(c.is_ascii_digit()),
    }
}

/// Python's `isnumeric`: some ideographs are numbers to it.
pub fn is_numeric(c: char) -> Result<bool> {
    match c {
        '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'.. => unsupported(format!("isnumeric of {c:?}")),
        c => is_digit(c),
    }
}

/// Jinja2's filter `title`: words begin behind spaces and brackets.
pub fn title_words(text: &Text) -> Text {
    let breaks = |c: char| matches!(c, '-' | '(' | '{' | '[' | '<') || super::print::is_space(c);
    let (mut out, mut start, string) = (Builder::default(), 0, text.as_str());
    while start < string.len() {
        let rest = &string[start..];
        let broken = breaks(rest.chars().next().unwrap_or(' '));
        let length = rest.find(|c| breaks(c) != broken).unwrap_or(rest.len());
        let word = text.slice(start, start + length);
        let first = rest.chars().next().map_or(0, char::len_utf8);
        out.push_text(&upper(&word.slice(0, first)));
        out.push_text(&lower(&word.slice(first, length)));
        start += length;
    }
    out.done()
}
