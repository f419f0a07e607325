//! Methods of Python's strings.

use super::call::{integer, needed, string, Call};
use super::error::{fail, unsupported, Result};
use super::print::is_space;
use super::sequences;
use super::text::{Builder, Text};
use super::value::{fits, items_fit, Value};

/// All methods that Python's strings have.
pub const METHODS: [&str; 47] = [
    "capitalize",
    "casefold",
    "center",
    "count",
    "encode",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "format_map",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "maketrans",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "translate",
    "upper",
    "zfill",
];

pub fn strip(text: &Text, chars: Option<&Text>, left: bool, right: bool) -> Text {
    let in_set = |c: char| match chars {
        Some(chars) => chars.as_str().contains(c),
        None => is_space(c),
    };
    let mut rest = text.as_str();
    if left {
        rest = rest.trim_start_matches(in_set);
    }
    if right {
        rest = rest.trim_end_matches(in_set);
    }
    match rest.is_empty() {
        true => Text::of(""),
        false => text.part(rest),
    }
}

pub fn split(text: &Text, separator: Option<Value>, count: i128, right: bool) -> Result<Vec<Value>> {
    let count = usize::try_from(count).unwrap_or(usize::MAX - 1);
    let separator = separator.filter(|s| !matches!(s, Value::None));
    let string_text = text.as_str();
    let parts: Vec<&str> = match separator {
        Some(separator) => {
            let separator = string(Some(separator), "split")?;
            let separator = separator.as_str();
            match right {
                _ if separator.is_empty() => return fail("empty separator"),
                false => string_text.splitn(count + 1, separator).collect(),
                true => {
                    let mut parts: Vec<&str> = string_text.rsplitn(count + 1, separator).collect();
                    parts.reverse();
                    parts
                }
            }
        }
        None => words(string_text, count, right),
    };
    items_fit(parts.len())?;
    Ok(parts.into_iter().map(|part| Value::Text(text.part(part))).collect())
}

/// The text cut at white space.
fn words(text: &str, count: usize, right: bool) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = match right {
        true => text.trim_end_matches(is_space),
        false => text.trim_start_matches(is_space),
    };
    while !rest.is_empty() {
        let cut = match (parts.len() == count, right) {
            (true, _) => None,
            (false, true) => rest.rfind(is_space).map(|at| {
                let next = rest[at..].chars().next().map_or(1, char::len_utf8);
                (&rest[at + next..], rest[..at].trim_end_matches(is_space))
            }),
            (false, false) => rest
                .find(is_space)
                .map(|at| (&rest[..at], rest[at..].trim_start_matches(is_space))),
        };
        let Some((word, other)) = cut else {
            // The last one: only the far side loses its white space where the count ended.
            let last = match (parts.len() == count, right) {
                (true, true) => rest.trim_end_matches(is_space),
                (true, false) => rest,
                (false, _) => rest,
            };
            parts.push(last);
            break;
        };
        parts.push(word);
        rest = other;
    }
    if right {
        parts.reverse();
    }
    parts
}

fn is_line_end(c: char) -> bool {
    matches!(
        c,
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

pub fn lines(text: &Text, keep: bool) -> Vec<Text> {
    let (mut lines, mut start, string) = (Vec::new(), 0, text.as_str());
    while start < string.len() {
        let rest = &string[start..];
        let length = rest.find(is_line_end).unwrap_or(rest.len());
        let end = match rest[length..].starts_with("\r\n") {
            true => 2,
            false => rest[length..].chars().next().map_or(0, char::len_utf8),
        };
        lines.push(text.slice(start, start + length + if keep { end } else { 0 }));
        start += length + end;
    }
    lines
}

pub fn replace(text: &Text, old: &Text, new: &Text, count: i128) -> Result<Text> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let places: Vec<usize> = match old.is_empty() {
        true => {
            let starts = text.as_str().char_indices().map(|(i, _)| i);
            starts.chain([text.len()]).take(count).collect()
        }
        false => text
            .as_str()
            .match_indices(old.as_str())
            .map(|(i, _)| i)
            .take(count)
            .collect(),
    };
    fits(text.len().saturating_add(places.len().saturating_mul(new.len())))?;
    let (mut out, mut at) = (Builder::default(), 0);
    for place in places {
        out.push_slice(text, at, place);
        out.push_text(new);
        at = place + old.len();
    }
    out.push_slice(text, at, text.len());
    Ok(out.done())
}

/// The part of a text that `start` and `end` of a search name; `None` if the start lies behind the end.
fn window(text: &Text, start: Option<Value>, end: Option<Value>) -> Result<Option<(usize, Text)>> {
    let chars = text.chars() as i128;
    let place = |value: Option<Value>, default: i128| -> Result<i128> {
        let value = value.filter(|v| !matches!(v, Value::None));
        let n = integer(value, default, "a search")?;
        Ok(if n < 0 { (n + chars).max(0) } else { n })
    };
    let (start, end) = (place(start, 0)?, place(end, chars)?.min(chars));
    if start > end {
        return Ok(None);
    }
    let parts = [Value::Int(start), Value::Int(end), Value::None];
    match sequences::slice(&Value::Text(text.clone()), &parts)? {
        Value::Text(part) => Ok(Some((usize::try_from(start).unwrap_or(0), part))),
        _ => Ok(None),
    }
}

pub fn affix(text: &Text, name: &str, call: Call) -> Result<Value> {
    let [affix, start, end] = call.bind(name, ["", "", ""])?;
    let affixes = match needed(affix, name)? {
        Value::Tuple(seq) => seq.items.clone(),
        one => vec![one],
    };
    let part = window(text, start, end)?;
    let mut found = false;
    for affix in affixes {
        let affix = string(Some(affix), name)?;
        found |= part.as_ref().is_some_and(|(_, part)| match name {
            "startswith" => part.as_str().starts_with(affix.as_str()),
            _ => part.as_str().ends_with(affix.as_str()),
        });
    }
    Ok(Value::Bool(found))
}

pub fn search(text: &Text, name: &str, call: Call) -> Result<Value> {
    let [what, start, end] = call.bind(name, ["", "", ""])?;
    let what = string(what, name)?;
    let Some((first, part)) = window(text, start, end)? else {
        return match name {
            "count" => Ok(Value::Int(0)),
            "find" | "rfind" => Ok(Value::Int(-1)),
            _ => fail("substring not found"),
        };
    };
    let (part, what) = (part.as_str(), what.as_str());
    if name == "count" {
        let count = match what.is_empty() {
            true => part.chars().count() + 1,
            false => part.matches(what).count(),
        };
        return Ok(Value::Int(count as i128));
    }
    let found = match name {
        "find" | "index" => part.find(what),
        _ => part.rfind(what),
    };
    match found {
        Some(at) => Ok(Value::Int((first + part[..at].chars().count()) as i128)),
        None if name.ends_with("find") => Ok(Value::Int(-1)),
        None => fail("substring not found"),
    }
}

pub fn join(separator: &Text, items: Vec<Value>) -> Result<Text> {
    let mut out = Builder::default();
    for (i, item) in items.into_iter().enumerate() {
        let item = match item {
            Value::Text(text) => text,
            Value::Markup(_) => return unsupported("join with what is safe"),
            other => {
                return fail(format!(
                    "sequence item {i}: expected str instance, {} found",
                    other.type_name()
                ))
            }
        };
        fits(out.len() + separator.len() + item.len())?;
        if i > 0 {
            out.push_text(separator);
        }
        out.push_text(&item);
    }
    Ok(out.done())
}

pub fn partition(text: &Text, separator: &Text, right: bool) -> Result<Value> {
    if separator.is_empty() {
        return fail("empty separator");
    }
    let found = match right {
        true => text.as_str().rfind(separator.as_str()),
        false => text.as_str().find(separator.as_str()),
    };
    let empty = || Value::text("");
    Value::tuple(match found {
        Some(at) => {
            let end = at + separator.len();
            vec![
                Value::Text(text.slice(0, at)),
                Value::Text(text.slice(at, end)),
                Value::Text(text.slice(end, text.len())),
            ]
        }
        None if right => vec![empty(), empty(), Value::Text(text.clone())],
        None => vec![Value::Text(text.clone()), empty(), empty()],
    })
}

pub fn padded(text: &Text, width: i128, fill: &Text, name: &str) -> Result<Text> {
    if fill.chars() != 1 {
        return fail("The fill character must be exactly one character long");
    }
    let missing = usize::try_from(width - text.chars() as i128).unwrap_or(0);
    fits(text.len().saturating_add(missing.saturating_mul(fill.len())))?;
    let left = match name {
        "ljust" => 0,
        "rjust" => missing,
        // As CPython has it.
        _ => missing / 2 + (missing & usize::try_from(width).unwrap_or(0) & 1),
    };
    let mut out = Builder::default();
    (0..left).for_each(|_| out.push_text(fill));
    out.push_text(text);
    (left..missing).for_each(|_| out.push_text(fill));
    Ok(out.done())
}

pub fn expanded(text: &Text, size: i128) -> Result<Text> {
    let size = usize::try_from(size.max(0)).unwrap_or(usize::MAX);
    let tabs = text.as_str().matches('\t').count();
    fits(text.len().saturating_add(tabs.saturating_mul(size)))?;
    let mut column = 0;
    Ok(text.map(|_, c, out| match c {
        '\t' if size == 0 => {}
        '\t' => {
            let spaces = size - column % size;
            out.push_str(&" ".repeat(spaces));
            column += spaces;
        }
        c => {
            column = if matches!(c, '\n' | '\r') { 0 } else { column + 1 };
            out.push(c);
        }
    }))
}
