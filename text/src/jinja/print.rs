//! Values as texts: Python's `str`, `repr` and `json.dumps`.

use super::error::{unsupported, Result};
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
