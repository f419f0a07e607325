//! Hostile text on a terminal. Texts of a model, names of tokens and of files come from others, and a verdict stands
//! beside them: nothing in them may look like a line of the verdict, move the cursor, or hide.
//!
//! What is shown is ASCII, and letters, digits and signs of other scripts. Everything else is escaped. Values are wrapped
//! before the terminal does it, so that only labels begin in the first column.

use std::path::Path;

use unicode_width::UnicodeWidthChar;

use crate::text::Piece;

/// Marks on one letter; more of them would grow into other lines.
const MARKS: usize = 2;
/// The longest name of a token, in characters.
const NAME: usize = 64;
/// What begins every line that goes on with a value.
pub const CONTINUED: &str = "| ";

/// What is escaped, beside everything that is not graphic.
#[derive(Clone, Copy)]
enum Also {
    /// Quotation marks and backslashes: the text will stand between quotation marks.
    Quotes,
    /// These and spaces: the text will be one word.
    Spaces,
    /// Nothing: the text has quotation marks and escapes of its own.
    Nothing,
}

impl Also {
    const fn escapes(self, c: char) -> bool {
        match self {
            Self::Quotes => matches!(c, '"' | '\\'),
            Self::Spaces => matches!(c, '"' | '\\' | ' '),
            Self::Nothing => false,
        }
    }
}

/// Whether a character leaves a mark of its own in one or two columns.
fn is_graphic(c: char) -> bool {
    // Letters and signs that are blank.
    let blank = matches!(
        c,
        '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}' | '\u{13441}' | '\u{13442}' | '\u{1d159}'
    );
    c.is_ascii_graphic() || c != ' ' && !blank && is_printable(c) && c.width().is_some_and(|w| w > 0)
}

/// Whether a character is drawn onto the letter before it.
fn is_mark(c: char) -> bool {
    // Marks that are not drawn at all.
    let ignored = matches!(
        c,
        '\u{34f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{e0100}'..='\u{e01ef}'
    );
    !ignored && is_printable(c) && c.width() == Some(0)
}

/// Whether Unicode has a graphic character here: neither control, format, space, private nor unassigned. The standard
/// library knows, if a letter precedes the character.
fn is_printable(c: char) -> bool {
    let text: String = ['a', c].iter().collect();
    text.escape_debug().nth(1) == Some(c)
}

fn escaped(text: &str, also: Also) -> String {
    let mut out = String::with_capacity(text.len());
    // Marks that the last character still takes; none at the beginning, after a space and after an escape.
    let mut marks = 0;
    for c in text.chars() {
        match c {
            c if also.escapes(c) && c != ' ' => {
                out.extend(['\\', c]);
                marks = 0;
            }
            ' ' if !also.escapes(c) => {
                out.push(c);
                marks = 0;
            }
            c if is_graphic(c) => {
                out.push(c);
                marks = MARKS;
            }
            c if marks > 0 && is_mark(c) => {
                out.push(c);
                marks -= 1;
            }
            c => {
                match c {
                    '\n' => out.push_str("\\n"),
                    '\r' => out.push_str("\\r"),
                    '\t' => out.push_str("\\t"),
                    c => out.extend(c.escape_unicode()),
                }
                marks = 0;
            }
        }
    }
    out
}

/// A text between quotation marks, on one line.
pub fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text, Also::Quotes))
}

/// The name of a token, as one word.
pub fn name(text: &str) -> String {
    match text.char_indices().nth(NAME) {
        Some((end, _)) => {
            let head = text.get(..end).unwrap_or_default();
            format!("{}...({} bytes)", escaped(head, Also::Spaces), text.len())
        }
        None => escaped(text, Also::Spaces),
    }
}

/// The name of a file. No two names are shown alike: a byte that is not UTF-8 is `\xff`, and a backslash `\\`.
pub fn path(path: &Path) -> String {
    of_name(path, |text| escaped(text, Also::Quotes))
}

/// The name of a file for programs, which have escapes of their own for all characters: only a byte that is not UTF-8 is
/// `\xff`, and so that no two names are spelled alike, a backslash is `\\`.
pub fn spelled(path: &Path) -> String {
    of_name(path, |text| text.replace('\\', "\\\\"))
}

/// The text in a name as `of` writes it, between bytes that are no text.
fn of_name(path: &Path, of: impl Fn(&str) -> String) -> String {
    let mut out = String::new();
    for chunk in path.as_os_str().as_encoded_bytes().utf8_chunks() {
        out.push_str(&of(chunk.valid()));
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

/// The most columns of a name that is plain.
const PLAIN: usize = 40;

/// Words that begin lines of verdicts and messages.
const LABELS: [&str; 6] = ["accepted", "rejected", "undecided", "error", "warning", "help"];

/// Whether a name looks like no line, wherever a terminal goes on in the next one: it is short and without escapes, and is one word, or
/// several with single spaces between them and none that begins a line of ours.
pub fn is_plain(name: &Path) -> bool {
    let shown = path(name);
    let blank = shown.starts_with(' ') || shown.ends_with(' ') || shown.contains("  ");
    let label = || {
        let small = shown.to_lowercase();
        LABELS.iter().any(|label| small.contains(label))
    };
    let words = shown.contains(' ');
    let odd = shown.chars().count() > PLAIN || shown.contains('\\') || blank || words && label();
    !odd
}

/// One line of a value that has its own quotation marks.
pub fn line(text: &str) -> String {
    escaped(text, Also::Nothing)
}

/// A text with its line ends as they are, for a place where they can do no harm: not beside lines of a verdict.
pub fn lines(text: &str) -> String {
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// A message for a terminal of this many columns, whose further lines cannot be taken for anything else.
pub fn message(text: &str, columns: usize) -> String {
    let lines = text.lines().enumerate().flat_map(|(i, text)| {
        let mut lines = wrapped(&line(text), columns.saturating_sub(8), CONTINUED);
        if let (true, Some(first)) = (i > 0, lines.first_mut()) {
            first.insert_str(0, CONTINUED);
        }
        lines
    });
    lines.collect::<Vec<_>>().join("\n  ")
}

/// Texts between quotation marks, and special tokens by name between them.
pub fn pieces(pieces: &[Piece]) -> String {
    let word = |piece: &Piece| match piece {
        Piece::Text(text) => quoted(text),
        Piece::Special { name: Some(text), .. } => name(text),
        Piece::Special { id, name: None, .. } => format!("(id {id}: no token)"),
        Piece::Hidden(tokens) => hidden(*tokens),
    };
    pieces.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// So many tokens that are hidden.
pub fn hidden(tokens: usize) -> String {
    match tokens {
        1 => "(1 hidden token)".to_owned(),
        _ => format!("({tokens} hidden tokens)"),
    }
}

/// A story as people read it on so many columns: its line ends are line ends. Not for verdicts.
pub fn story(text: &str, columns: usize) -> String {
    let lines = text
        .split('\n')
        .flat_map(|l| wrapped(&line(l), columns.saturating_sub(1), ""));
    format!("\"{}\"", lines.collect::<Vec<_>>().join("\n"))
}

/// The most columns in which a terminal draws a character. Terminals differ on signs that are ambiguous, on marks, which some draw beside
/// the letter, and on halves of flags.
fn widest(c: char) -> usize {
    match c {
        '\u{302e}' | '\u{302f}' | '\u{16ff0}' | '\u{16ff1}' | '\u{1f1e6}'..='\u{1f1ff}' => 2,
        c => c.width_cjk().unwrap_or(1).max(1),
    }
}

/// Bytes of the escape of a character by its number that a text begins with; none if it begins with something else.
fn numbered(text: &str) -> Option<usize> {
    let digits = text.strip_prefix("\\u{")?.split_once('}')?.0;
    let escape = (1..=6).contains(&digits.len()) && digits.bytes().all(|c| c.is_ascii_hexdigit());
    escape.then_some("\\u{}".len() + digits.len())
}

/// An escape as a whole, or a character with its marks; and the most columns that it takes.
fn units(line: &str) -> impl Iterator<Item = (&str, usize)> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let bytes = if let Some(bytes) = numbered(rest) {
            bytes
        } else if first == '\\' {
            1 + rest.chars().nth(1).map_or(0, char::len_utf8)
        } else {
            let marks = rest.char_indices().skip(1);
            let end = marks.filter(|(_, c)| c.width() != Some(0)).map(|(at, _)| at).next();
            end.unwrap_or(rest.len())
        };
        let (unit, after) = rest.split_at(bytes);
        rest = after;
        Some((unit, unit.chars().map(widest).sum()))
    })
}

/// Cuts a line into lines of at most `width` columns, all but the first beginning with `mark`. Words are torn only if they are
/// longer than a line: an id that is whole can be copied. Where a line is cut behind spaces, they are left out.
pub fn wrapped(line: &str, width: usize, mark: &str) -> Vec<String> {
    let (mut lines, mut current, mut columns) = (Vec::new(), String::new(), 0);
    let mut next_line = |current: &mut String| {
        let mut whole = std::mem::replace(current, mark.to_owned());
        let end = whole.trim_end_matches(' ').len();
        whole.truncate(if whole.starts_with(mark) {
            end.max(mark.len())
        } else {
            end
        });
        lines.push(whole);
        mark.len()
    };
    for word in line.split_inclusive(' ') {
        // With its space, so that no line begins with one.
        let long: usize = units(word).map(|(_, wide)| wide).sum();
        let begun = current.len() > mark.len();
        if begun && columns + long > width && mark.len() + long <= width {
            columns = next_line(&mut current);
        }
        for (unit, wide) in units(word) {
            if columns + wide > width && !current.is_empty() {
                columns = next_line(&mut current);
            }
            current.push_str(unit);
            columns += wide;
        }
    }
    lines.push(current);
    lines
}

#[cfg(test)]
mod tests;
