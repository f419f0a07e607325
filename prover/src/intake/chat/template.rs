//! Jinja as the hub's templates use it: `transformers` renders them with the settings and functions below.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value, ValueKind};
use minijinja::{context, AutoEscape, Environment, Error, ErrorKind};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::error::ChatError;
use super::time;

/// The most bytes of a rendered prompt.
pub const RENDERED_BYTES: usize = 1 << 20;
/// Steps of a template; those of the hub take some hundred for a message.
const FUEL: u64 = 2_000_000;
/// The longest template.
const SOURCE_BYTES: usize = 1 << 19;
/// The name of the template in messages.
const NAME: &str = "template";

/// What a template gets.
pub struct Variables<'a> {
    pub messages: &'a serde_json::Value,
    /// `bos_token` and the like.
    pub tokens: &'a serde_json::Map<String, serde_json::Value>,
    /// Seconds since 1970.
    pub now: u64,
}

/// Runs a template on messages; it is asked for the beginning of an answer.
pub fn render(source: &str, variables: &Variables<'_>) -> Result<String, ChatError> {
    if source.len() > SOURCE_BYTES {
        let bytes = source.len();
        return Err(ChatError::Template(format!(
            "it has {bytes} bytes, more than {SOURCE_BYTES}"
        )));
    }
    let raised = Arc::new(Mutex::new(None));
    let failed = |error: Error| match raised.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(message) => ChatError::Refused(message),
        None => ChatError::Template(error.to_string()),
    };
    let source = without_generation_tags(source);
    let environment = environment(&raised, variables).map_err(failed)?;
    let template = environment.template_from_named_str(NAME, &source).map_err(failed)?;
    let context = context! {
        messages => Value::from(Serde(variables.messages)),
        add_generation_prompt => true,
        ..Value::from(Serde(variables.tokens))
    };
    let mut out = Limited(Vec::new());
    let rendered = template.render_captured_to(context, &mut out).map(drop);
    if out.0.len() > RENDERED_BYTES {
        return Err(ChatError::Template(format!(
            "it makes more than {RENDERED_BYTES} bytes"
        )));
    }
    rendered.map_err(failed)?;
    String::from_utf8(out.0).map_err(|e| ChatError::Template(e.to_string()))
}

/// Takes as many bytes as a prompt may have, and one piece more.
struct Limited(Vec<u8>);

impl io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() > RENDERED_BYTES {
            return Err(io::Error::other("too long"));
        }
        // Enough to see that it is too long.
        self.0.extend_from_slice(&bytes[..bytes.len().min(RENDERED_BYTES + 1)]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

type Raised = Arc<Mutex<Option<String>>>;

fn environment<'a>(raised: &Raised, variables: &Variables<'_>) -> Result<Environment<'a>, Error> {
    let mut environment = Environment::new();
    environment.set_fuel(Some(FUEL));
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    let mut syntax = SyntaxConfig::builder();
    environment.set_syntax(syntax.trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_unknown_method_callback(unknown_method_callback);
    // As Python writes them.
    environment.set_formatter(|out, _, value| match value.kind() {
        ValueKind::None => Ok(out.write_str("None")?),
        ValueKind::Bool => Ok(out.write_str(if value.is_true() { "True" } else { "False" })?),
        ValueKind::Undefined => Ok(()),
        _ => Ok(write!(out, "{value}")?),
    });
    let raised = Arc::clone(raised);
    environment.add_function("raise_exception", move |message: String| -> Result<Value, Error> {
        *raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(message.clone());
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    let now = variables.now;
    environment.add_function("strftime_now", move |format: String| {
        time::strftime(&format, now).map_err(|problem| Error::new(ErrorKind::InvalidOperation, problem))
    });
    environment.add_filter("tojson", to_json);
    Ok(environment)
}

/// `json.dumps` of Python with `ensure_ascii=False`, which is what templates expect of `tojson`.
fn to_json(value: Value, indent: Option<usize>, options: Kwargs) -> Result<Value, Error> {
    let indent = match indent {
        Some(indent) => Some(indent),
        None => options.get::<Option<usize>>("indent")?,
    };
    // What Python takes, too, and what makes no difference here.
    let _: Option<bool> = options.get("ensure_ascii")?;
    let _: Option<bool> = options.get("sort_keys")?;
    options.assert_all_used()?;
    let value = serde_json::to_value(&value);
    let value = value.map_err(|e| Error::new(ErrorKind::InvalidOperation, format!("tojson: {e}")))?;
    if indent.is_some_and(|n| n > 64) {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "tojson: an indent of more than 64",
        ));
    }
    let mut text = String::new();
    python_json(&value, indent, 0, &mut text);
    Ok(Value::from(text))
}

fn python_json(value: &serde_json::Value, indent: Option<usize>, depth: usize, out: &mut String) {
    use serde_json::Value as Json;
    let line = |depth: usize, out: &mut String| {
        if let Some(indent) = indent {
            out.push('\n');
            out.push_str(&" ".repeat(indent * depth));
        }
    };
    let comma = |first: bool, out: &mut String| match (first, indent) {
        (true, _) => {}
        (false, None) => out.push_str(", "),
        (false, Some(_)) => out.push(','),
    };
    match value {
        Json::Array(list) if !list.is_empty() => {
            out.push('[');
            for (i, item) in list.iter().enumerate() {
                comma(i == 0, out);
                line(depth + 1, out);
                python_json(item, indent, depth + 1, out);
            }
            line(depth, out);
            out.push(']');
        }
        Json::Object(fields) if !fields.is_empty() => {
            out.push('{');
            for (i, (name, item)) in fields.iter().enumerate() {
                comma(i == 0, out);
                line(depth + 1, out);
                out.push_str(&Json::from(name.as_str()).to_string());
                out.push_str(": ");
                python_json(item, indent, depth + 1, out);
            }
            line(depth, out);
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

/// `{% generation %}` marks what an assistant says, for training; here it is a block like any other.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at + 2);
        out.push_str(before);
        let end = tag.find("%}").unwrap_or(tag.len());
        let (tag, after) = tag.split_at(end);
        let word = tag.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
        match word {
            "generation" => out.push_str(&tag.replace(word, "if true")),
            "endgeneration" => out.push_str(&tag.replace(word, "endif")),
            _ => out.push_str(tag),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}
