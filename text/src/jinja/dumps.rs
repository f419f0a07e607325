//! Python's `json.dumps`.

use super::error::{fail, Result};
use super::operators;
use super::print;
use super::text::{Builder, Text};
use super::value::{fits, Value};

/// Arguments of `json.dumps` that templates may give.
pub struct Json {
    pub ascii: bool,
    /// The text that begins a line of the next level.
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
                let order = operators::sorted(keys, false)?;
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
        f => print::float(f),
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
