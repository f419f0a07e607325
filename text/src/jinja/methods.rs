//! Methods of strings.

use super::call::{integer, needed, string, Call};
use super::error::{fail, unsupported, Result};
use super::format::{self, Lookup};
use super::letters;
use super::machine::Machine;
use super::print::{is_printable, is_space};
use super::strings;
use super::text::{Builder, Text};
use super::value::Value;

impl Machine {
    pub fn text_method(&mut self, text: &Text, name: &str, call: Call) -> Result<Value> {
        self.step((text.len() / 64) as u64)?;
        let made = |text: Text| Ok(Value::Text(text));
        match name {
            "format" => return self.braces(text, &call).map(Value::Text),
            "format_map" => return unsupported("the method format_map"),
            "strip" | "lstrip" | "rstrip" => {
                let [chars] = call.bind(name, [""])?;
                let chars = chars.filter(|c| !matches!(c, Value::None));
                let chars = chars.map(|c| string(Some(c), name)).transpose()?;
                return made(strings::strip(text, chars.as_ref(), name != "rstrip", name != "lstrip"));
            }
            "split" | "rsplit" => {
                let [separator, count] = call.bind(name, ["sep", "maxsplit"])?;
                return Value::list(strings::split(
                    text,
                    separator,
                    integer(count, -1, name)?,
                    name == "rsplit",
                )?);
            }
            "splitlines" => {
                let [keep] = call.bind(name, ["keepends"])?;
                let lines = strings::lines(text, keep.is_some_and(|k| k.truth()));
                return Value::list(lines.into_iter().map(Value::Text).collect());
            }
            "replace" => {
                let [old, new, count] = call.bind(name, ["", "", ""])?;
                let (old, new) = (string(old, name)?, string(new, name)?);
                return made(strings::replace(text, &old, &new, integer(count, -1, name)?)?);
            }
            "startswith" | "endswith" => return strings::affix(text, name, call),
            "find" | "rfind" | "index" | "rindex" | "count" => return strings::search(text, name, call),
            "join" => {
                let [items] = call.bind(name, [""])?;
                return made(strings::join(text, joined(&needed(items, name)?)?)?);
            }
            "partition" | "rpartition" => {
                let [separator] = call.bind(name, [""])?;
                return strings::partition(text, &string(separator, name)?, name == "rpartition");
            }
            "removeprefix" | "removesuffix" => {
                let [affix] = call.bind(name, [""])?;
                let affix = string(affix, name)?;
                let rest = match name {
                    "removeprefix" => text.as_str().strip_prefix(affix.as_str()),
                    _ => text.as_str().strip_suffix(affix.as_str()),
                };
                return made(rest.map_or_else(|| text.clone(), |rest| text.part(rest)));
            }
            "center" | "ljust" | "rjust" => {
                let [width, fill] = call.bind(name, ["", ""])?;
                let width = needed(width, name)?;
                let fill = fill.map_or_else(|| Ok(Text::of(" ")), |f| string(Some(f), name))?;
                return made(strings::padded(text, integer(Some(width), 0, name)?, &fill, name)?);
            }
            "zfill" => {
                let [width] = call.bind(name, [""])?;
                let width = integer(Some(needed(width, name)?), 0, name)?;
                let sign = text.as_str().chars().next().filter(|c| matches!(c, '+' | '-'));
                let sign = sign.map_or(0, char::len_utf8);
                let padding = strings::padded(&Text::of(""), width - text.chars() as i128, &Text::of("0"), "ljust")?;
                let mut out = Builder::default();
                out.push_slice(text, 0, sign);
                out.push_text(&padding);
                out.push_slice(text, sign, text.len());
                return made(out.done());
            }
            "expandtabs" => {
                let [size] = call.bind(name, ["tabsize"])?;
                return made(strings::expanded(text, integer(size, 8, name)?)?);
            }
            "encode" | "maketrans" | "translate" | "casefold" => return unsupported(format!("the method {name}")),
            _ => {}
        }
        let [] = call.bind(name, [])?;
        match name {
            "upper" => made(letters::upper(text)),
            "lower" => made(letters::lower(text)),
            "title" => made(letters::title(text)),
            "capitalize" => made(letters::capitalize(text)),
            "swapcase" => made(letters::swapcase(text)),
            _ => Ok(Value::Bool(is(text.as_str(), name)?)),
        }
    }
}

/// Items to be joined.
fn joined(value: &Value) -> Result<Vec<Value>> {
    match value {
        Value::Text(_) | Value::List(_) | Value::Tuple(_) => value.items(),
        other if other.is_iterable() => other.items(),
        _ => fail("can only join an iterable"),
    }
}

/// The tests of strings, such as `isdigit`.
fn is(text: &str, name: &str) -> Result<bool> {
    let all = |test: fn(char) -> Result<bool>| -> Result<bool> {
        for c in text.chars() {
            if !test(c)? {
                return Ok(false);
            }
        }
        Ok(!text.is_empty())
    };
    match name {
        "isascii" => Ok(text.is_ascii()),
        "isspace" => Ok(!text.is_empty() && text.chars().all(is_space)),
        "isprintable" => Ok(text.chars().all(is_printable)),
        "islower" => Ok(letters::is_lower(text)),
        "isupper" => Ok(letters::is_upper(text)),
        "istitle" => Ok(letters::is_title(text)),
        "isalpha" => all(letters::is_alpha),
        "isalnum" => all(|c| Ok(letters::is_alpha(c)? || letters::is_digit(c)?)),
        "isnumeric" => all(letters::is_numeric),
        "isdigit" | "isdecimal" => all(letters::is_digit),
        "isidentifier" => {
            if !text.is_ascii() {
                return unsupported("isidentifier beyond ASCII");
            }
            let word = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            Ok(word && !text.is_empty() && !text.starts_with(|c: char| c.is_ascii_digit()))
        }
        other => unsupported(format!("the method {other}")),
    }
}

impl Machine {
    fn braces(&mut self, text: &Text, call: &Call) -> Result<Text> {
        format::braces(text, call, &mut |object, step| match step {
            Lookup::Attribute(name) => self.attribute(object, name),
            Lookup::Item(index) => self.item(object, &index),
        })
    }
}
