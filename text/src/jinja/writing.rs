//! Filters that lay out or encode.

use std::rc::Rc;

use super::call::{integer, string, Call};
use super::dumps::{self, Json};
use super::error::{fail, Error, Result};
use super::operators;
use super::print;
use super::sequences;
use super::strings;
use super::text::{Builder, Text};
use super::value::{fits, Value, View};

pub fn indent(value: &Value, call: Call) -> Result<Value> {
    let [width, first, blank] = call.bind("indent", ["width", "first", "blank"])?;
    let text = string(Some(value.clone()), "indent")?;
    let indention = match width {
        Some(Value::Text(text)) => text,
        width => strings::padded(&Text::of(""), integer(width, 4, "indent")?, &Text::of(" "), "ljust")?,
    };
    let (first, blank) = (first.is_some_and(|f| f.truth()), blank.is_some_and(|b| b.truth()));
    // Jinja2 adds a line end before it cuts the lines.
    let lines = strings::lines(&operators::concat(&text, &Text::of("\n"))?, false);
    fits(text.len().saturating_add(indention.len().saturating_mul(lines.len())))?;
    let mut out = Builder::default();
    for (i, line) in lines.iter().enumerate() {
        out.own(if i > 0 { "\n" } else { "" });
        if i == 0 && first || i > 0 && (blank || !line.is_empty()) {
            out.push_text(&indention);
        }
        out.push_text(line);
    }
    Ok(Value::Text(out.done()))
}

pub fn truncate(value: &Value, call: Call) -> Result<Value> {
    let [length, kill, end, leeway] = call.bind("truncate", ["length", "killwords", "end", "leeway"])?;
    let end = end.map_or_else(|| Ok(Text::of("...")), |e| string(Some(e), "truncate"))?;
    let length = integer(length, 255, "truncate")?;
    let leeway = integer(leeway.filter(|l| !matches!(l, Value::None)), 5, "truncate")?;
    if length < end.chars() as i128 || leeway < 0 {
        return fail("truncate: the length is less than the end has, or the leeway is negative");
    }
    match value.length() {
        None => return fail(format!("object of type '{}' has no len()", value.type_name())),
        Some(chars) if chars as i128 <= length.saturating_add(leeway) => return Ok(value.clone()),
        Some(_) => {}
    }
    let text = string(Some(value.clone()), "truncate")?;
    let parts = [Value::None, Value::Int(length - end.chars() as i128), Value::None];
    let Value::Text(cut) = sequences::slice(&Value::Text(text), &parts)? else {
        return fail("no text");
    };
    let cut = match kill.is_some_and(|k| k.truth()) {
        true => cut,
        false => match cut.as_str().rfind(' ') {
            Some(at) => cut.slice(0, at),
            None => cut,
        },
    };
    operators::concat(&cut, &end).map(Value::Text)
}

pub fn urlencode(value: &Value, call: Call) -> Result<Value> {
    let [] = call.bind("urlencode", [])?;
    let quoted = |value: &Value, query: bool| -> Result<Text> {
        let text = print::text(value)?.map(|_, c, out| match c {
            c if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '~') => out.push(c),
            '/' if !query => out.push(c),
            ' ' if query => out.push('+'),
            c => c
                .encode_utf8(&mut [0; 4])
                .bytes()
                .for_each(|b| out.push_str(&format!("%{b:02X}"))),
        });
        fits(text.len())?;
        Ok(text)
    };
    if value.as_text().is_some() || !value.is_iterable() {
        return quoted(value, false).map(Value::Text);
    }
    let pairs = match value {
        Value::Dict(dict) => Value::View(View::Items, Rc::clone(dict)).items()?,
        other => other.items()?,
    };
    let mut out = Builder::default();
    for (i, pair) in pairs.iter().enumerate() {
        let [key, value]: [Value; 2] = pair
            .items()?
            .try_into()
            .map_err(|_| Error::Runtime("urlencode takes pairs".to_owned()))?;
        out.own(if i > 0 { "&" } else { "" });
        out.push_text(&quoted(&key, true)?);
        out.own("=");
        out.push_text(&quoted(&value, true)?);
        fits(out.len())?;
    }
    Ok(Value::Text(out.done()))
}

pub fn xml_attributes(value: &Value, call: Call) -> Result<Value> {
    let [space] = call.bind("xmlattr", ["autospace"])?;
    let Value::Dict(dict) = value.defined()? else {
        return fail("xmlattr takes a mapping");
    };
    let mut out = Builder::default();
    for (key, value) in dict.entries() {
        if matches!(value, Value::None | Value::Undefined(_)) {
            continue;
        }
        let key = string(Some(key.clone()), "xmlattr")?;
        let bad = |c: char| matches!(c, '/' | '>' | '=' | '\t'..='\r' | ' ');
        if key.as_str().contains(bad) {
            return fail(format!("Invalid character in attribute name: {:?}", key.as_str()));
        }
        let spaced = out.len() > 0 || space.as_ref().is_none_or(Value::truth);
        out.own(if spaced { " " } else { "" });
        out.push_text(&operators::escaped(&Value::Text(key))?);
        out.own("=\"");
        out.push_text(&operators::escaped(value)?);
        out.own("\"");
        fits(out.len())?;
    }
    Ok(Value::Text(out.done()))
}

/// `json.dumps` with the arguments that `transformers` passes on.
pub fn to_json(value: &Value, call: Call) -> Result<Value> {
    let [ascii, indent, separators, sort] =
        call.bind("tojson", ["ensure_ascii", "indent", "separators", "sort_keys"])?;
    let indent = match indent {
        None | Some(Value::None) => None,
        Some(Value::Text(text)) => Some(text),
        other => {
            let width = integer(other, 0, "tojson")?;
            Some(strings::padded(&Text::of(""), width, &Text::of(" "), "ljust")?)
        }
    };
    let separators = match separators {
        None | Some(Value::None) => {
            let comma = if indent.is_some() { "," } else { ", " };
            (Text::of(comma), Text::of(": "))
        }
        Some(pair) => match &pair.items()?[..] {
            [Value::Text(item), Value::Text(key)] => (item.clone(), key.clone()),
            _ => return fail("tojson: separators are two texts"),
        },
    };
    let options = Json {
        ascii: ascii.is_some_and(|a| a.truth()),
        indent,
        separators,
        sort: sort.is_some_and(|s| s.truth()),
    };
    dumps::json(value, &options).map(Value::Text)
}
