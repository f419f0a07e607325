//! Values as texts: Python's `str`, `repr` and `json.dumps`.

use super::error::{fail, unsupported, Result};
use super::text::{Builder, Text};
use super::value::{fits, Value, View};

/// Python's white space.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}

/// Python's `str`.
pub fn text(value: &Value) -> Result<Text> {
    match value {
        Value::Text(text) | Value::Markup(text) => Ok(text.clone()),
        Value::Undefined(_) => Ok(Text::of("")),
        other => repr(other),
    }
}

/// Python's `repr`.
pub fn repr(value: &Value) -> Result<Text> {
    let mut out = Builder::default();
    write(value, &mut out)?;
    Ok(out.done())
}

fn write(value: &Value, out: &mut Builder) -> Result<()> {
    fits(out.len())?;
    match value {
        Value::Undefined(_) => out.own("Undefined"),
        Value::None => out.own("None"),
        Value::Bool(true) => out.own("True"),
        Value::Bool(false) => out.own("False"),
        Value::Int(n) => out.own(&n.to_string()),
        Value::Float(f) => out.own(&float(*f)),
        Value::Text(text) => quoted(text, out),
        Value::Markup(text) => {
            out.own("Markup(");
            quoted(text, out);
            out.own(")");
        }
        Value::List(seq) => items(&seq.items, "[", "]", out)?,
        Value::Tuple(seq) => items(&seq.items, "(", if seq.items.len() == 1 { ",)" } else { ")" }, out)?,
        Value::Dict(dict) => {
            out.own("{");
            for (i, (key, value)) in dict.entries().iter().enumerate() {
                out.own(if i > 0 { ", " } else { "" });
                write(key, out)?;
                out.own(": ");
                write(value, out)?;
            }
            out.own("}");
        }
        Value::Range(range) => {
            let step = if range.step == 1 {
                String::new()
            } else {
                format!(", {}", range.step)
            };
            out.own(&format!("range({}, {}{step})", range.start, range.stop));
        }
        Value::View(view, dict) => {
            let (name, values) = match view {
                View::Keys => ("dict_keys(", dict.entries().iter().map(|(k, _)| k.clone()).collect()),
                View::Values => ("dict_values(", dict.entries().iter().map(|(_, v)| v.clone()).collect()),
                View::Items => ("dict_items(", value.items()?),
            };
            out.own(name);
            items(&values, "[", "]", out)?;
            out.own(")");
        }
        other => return unsupported(format!("the text of a value of the type '{}'", other.type_name())),
    }
    Ok(())
}

fn items(items: &[Value], open: &str, close: &str, out: &mut Builder) -> Result<()> {
    out.own(open);
    for (i, item) in items.iter().enumerate() {
        out.own(if i > 0 { ", " } else { "" });
        write(item, out)?;
    }
    out.own(close);
    Ok(())
}

/// A text in Python's quotes.
fn quoted(text: &Text, out: &mut Builder) {
    let string = text.as_str();
    let quote = match string.contains('\'') && !string.contains('"') {
        true => '"',
        false => '\'',
    };
    let escaped = text.map(|_, c, out| match c {
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if c == quote => {
            out.push('\\');
            out.push(c);
        }
        c if is_printable(c) => out.push(c),
        c => match u32::from(c) {
            n @ 0..=0xff => out.push_str(&format!("\\x{n:02x}")),
            n @ 0x100..=0xffff => out.push_str(&format!("\\u{n:04x}")),
            n => out.push_str(&format!("\\U{n:08x}")),
        },
    });
    let quote = quote.to_string();
    out.own(&quote);
    out.push_text(&escaped);
    out.own(&quote);
}

/// Python's `isprintable` of a character: Rust escapes the same ones behind a letter.
pub fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    let mut buffer = [0; 5];
    buffer[0] = b'a';
    let length = 1 + c.encode_utf8(&mut buffer[1..]).len();
    let pair = std::str::from_utf8(&buffer[..length]).unwrap_or("a");
    pair.escape_debug().count() == 2
}

/// Python's `repr` of a float.
pub fn float(f: f64) -> String {
    if f.is_nan() {
        return "nan".to_owned();
    }
    if f.is_infinite() {
        return if f > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    // The shortest digits that stand for it, as Python has them.
    let scientific = format!("{f:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = format!("{f}");
        return match plain.contains('.') {
            true => plain,
            false => plain + ".0",
        };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// Arguments of `json.dumps` that templates may give.
pub struct Json {
    pub ascii: bool,
    /// What a line of the next level begins with.
    pub indent: Option<Text>,
    /// Between items, and between key and value.
    pub separators: (Text, Text),
    pub sort: bool,
}

/// Python's `json.dumps`.
pub fn json(value: &Value, options: &Json) -> Result<Text> {
    let mut out = Builder::default();
    write_json(value, options, 0, &mut out)?;
    Ok(out.done())
}

fn write_json(value: &Value, options: &Json, depth: usize, out: &mut Builder) -> Result<()> {
    fits(out.len())?;
    match value {
        Value::None => out.own("null"),
        Value::Bool(true) => out.own("true"),
        Value::Bool(false) => out.own("false"),
        Value::Int(n) => out.own(&n.to_string()),
        Value::Float(f) => out.own(&json_float(*f)),
        Value::Text(text) | Value::Markup(text) => json_text(text, options, out),
        Value::List(seq) | Value::Tuple(seq) => {
            let mut first = true;
            out.own("[");
            for item in &seq.items {
                between(&mut first, options, depth + 1, out)?;
                write_json(item, options, depth + 1, out)?;
            }
            close(first, options, depth, out)?;
            out.own("]");
        }
        Value::Dict(dict) => {
            let mut entries: Vec<&(Value, Value)> = dict.entries().iter().collect();
            if options.sort {
                let keys = entries.iter().map(|(key, _)| key.clone()).collect();
                let order = super::filters::sorted(keys, false)?;
                entries = order.into_iter().map(|at| entries[at]).collect();
            }
            let mut first = true;
            out.own("{");
            for (key, item) in entries {
                between(&mut first, options, depth + 1, out)?;
                let key = match key {
                    Value::Text(text) => text.clone(),
                    Value::Bool(b) => Text::of(if *b { "true" } else { "false" }),
                    Value::None => Text::of("null"),
                    Value::Int(n) => Text::of(&n.to_string()),
                    Value::Float(f) => Text::of(&json_float(*f)),
                    other => {
                        return fail(format!(
                            "keys must be str, int, float, bool or None, not {}",
                            other.type_name()
                        ))
                    }
                };
                json_text(&key, options, out);
                out.push_text(&options.separators.1);
                write_json(item, options, depth + 1, out)?;
            }
            close(first, options, depth, out)?;
            out.own("}");
        }
        other => return fail(format!("Object of type {} is not JSON serializable", other.type_name())),
    }
    Ok(())
}

fn between(first: &mut bool, options: &Json, depth: usize, out: &mut Builder) -> Result<()> {
    if !std::mem::replace(first, false) {
        out.push_text(&options.separators.0);
    }
    line(options, depth, out)
}

fn close(empty: bool, options: &Json, depth: usize, out: &mut Builder) -> Result<()> {
    match empty {
        true => Ok(()),
        false => line(options, depth, out),
    }
}

fn line(options: &Json, depth: usize, out: &mut Builder) -> Result<()> {
    if let Some(indent) = &options.indent {
        fits(out.len() + indent.len().saturating_mul(depth))?;
        out.own("\n");
        (0..depth).for_each(|_| out.push_text(indent));
    }
    Ok(())
}

fn json_float(f: f64) -> String {
    match f {
        f if f.is_nan() => "NaN".to_owned(),
        f if f.is_infinite() => if f > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
        f => float(f),
    }
}

fn json_text(text: &Text, options: &Json, out: &mut Builder) {
    let escaped = text.map(|_, c, out| match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\0'..='\u{1f}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        '\u{7f}' if options.ascii => out.push(c),
        c if options.ascii && !c.is_ascii() => {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
        c => out.push(c),
    });
    out.own("\"");
    out.push_text(&escaped);
    out.own("\"");
}
