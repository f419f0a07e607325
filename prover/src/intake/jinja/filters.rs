//! Jinja2's filters.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::rc::Rc;

use super::error::{fail, unsupported, Error, Result};
use super::format;
use super::letters;
use super::machine::{integer, needed, string, Call, Machine};
use super::operators;
use super::print;
use super::strings;
use super::text::{Builder, Text};
use super::value::{fits, grouped, items_fit, seq, Key, Value};

const NAMES: [&str; 54] = [
    "abs",
    "attr",
    "batch",
    "capitalize",
    "center",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "filesizeformat",
    "first",
    "float",
    "forceescape",
    "format",
    "groupby",
    "indent",
    "int",
    "join",
    "last",
    "length",
    "list",
    "lower",
    "items",
    "map",
    "min",
    "max",
    "pprint",
    "random",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "string",
    "striptags",
    "sum",
    "title",
    "trim",
    "truncate",
    "unique",
    "upper",
    "urlencode",
    "urlize",
    "wordcount",
    "wordwrap",
    "xmlattr",
    "tojson",
];

pub fn is_known(name: &str) -> bool {
    NAMES.contains(&name)
}

/// The text of a value, for filters that take any value as one.
fn soft(value: &Value, what: &str) -> Result<Text> {
    match value {
        Value::Markup(_) => unsupported(format!("{what} of what is safe")),
        other => print::text(other),
    }
}

/// Indices of the values in ascending order; equal ones keep theirs, also from the end.
pub fn sorted(values: Vec<Value>, reverse: bool) -> Result<Vec<usize>> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    let mut problem = None;
    order.sort_by(|a, b| match operators::order(&values[*a], &values[*b]) {
        Ok(Some(order)) if reverse => order.reverse(),
        Ok(Some(order)) => order,
        Ok(None) => {
            problem.get_or_insert(Error::Unsupported("the order of nan".to_owned()));
            Ordering::Equal
        }
        Err(error) => {
            problem.get_or_insert(error);
            Ordering::Equal
        }
    });
    match problem {
        Some(error) => Err(error),
        None => Ok(order),
    }
}

fn ignore_case(value: Value) -> Value {
    match value {
        Value::Text(text) | Value::Markup(text) => Value::Text(letters::lower(&text)),
        other => other,
    }
}

impl Machine {
    pub fn filter(&mut self, name: &str, value: Value, call: Call) -> Result<Value> {
        self.step(1 + value.length().unwrap_or(0) as u64 / 16)?;
        match name {
            "d" | "default" => {
                let [default, boolean] = call.bind(name, ["default_value", "boolean"])?;
                let replaced = value.is_undefined() || boolean.is_some_and(|b| b.truth()) && !value.truth();
                Ok(match replaced {
                    true => default.unwrap_or_else(|| Value::text("")),
                    false => value,
                })
            }
            "count" | "length" => {
                let [] = call.bind(name, [])?;
                match (value.length(), &value) {
                    (Some(length), _) => Ok(Value::Int(length as i128)),
                    (None, Value::Loop(_)) => self.attribute(&value, "length"),
                    _ => fail(format!("object of type '{}' has no len()", value.type_name())),
                }
            }
            "upper" | "lower" | "capitalize" | "title" | "wordcount" | "string" | "safe" | "e" | "escape"
            | "forceescape" | "trim" | "replace" | "center" | "indent" | "truncate" | "format" | "urlencode" => {
                self.text_filter(name, value, call)
            }
            "abs" | "int" | "float" | "round" | "filesizeformat" | "sum" => self.number_filter(name, value, call),
            "map" => {
                let items = lazily(value)?;
                match items {
                    None => Ok(Value::generator(Vec::new())),
                    Some(items) => self.map(items, call),
                }
            }
            "select" | "reject" | "selectattr" | "rejectattr" => self.select(name, value, call),
            "tojson" => to_json(&value, call),
            "attr" => {
                let [name] = call.bind(name, ["name"])?;
                let name = string(name, "attr")?;
                value.defined()?;
                let found = super::objects::attribute(self, &value, name.as_str())?;
                Ok(found.unwrap_or_else(|| value.lacking(name.as_str())))
            }
            "items" => {
                let [] = call.bind(name, [])?;
                match &value {
                    Value::Undefined(_) => Ok(Value::generator(Vec::new())),
                    Value::Dict(dict) => {
                        let view = Value::View(super::value::View::Items, Rc::clone(dict));
                        Ok(Value::generator(view.items()?))
                    }
                    _ => fail("Can only get item pairs from a mapping."),
                }
            }
            _ if is_known(name) => self.list_filter(name, value, call),
            _ => fail(format!("No filter named '{name}'")),
        }
    }

    fn text_filter(&mut self, name: &str, value: Value, call: Call) -> Result<Value> {
        match name {
            "string" => {
                let [] = call.bind(name, [])?;
                return match value {
                    Value::Markup(_) => Ok(value),
                    other => print::text(&other).map(Value::Text),
                };
            }
            "safe" => {
                let [] = call.bind(name, [])?;
                return print::text(&value).map(Value::Markup);
            }
            "e" | "escape" => {
                let [] = call.bind(name, [])?;
                return operators::escaped(&value).map(Value::Markup);
            }
            "forceescape" => {
                let [] = call.bind(name, [])?;
                let plain = Value::Text(print::text(&value)?);
                return operators::escaped(&plain).map(Value::Markup);
            }
            "replace" => {
                let [old, new, count] = call.bind(name, ["old", "new", "count"])?;
                let text = print::text(&value)?;
                let (old, new) = (print::text(&needed(old, name)?)?, print::text(&needed(new, name)?)?);
                let count = integer(count.filter(|c| !matches!(c, Value::None)), -1, name)?;
                return strings::replace(&text, &old, &new, count).map(Value::Text);
            }
            "indent" => return indent(&value, call),
            "truncate" => return truncate(&value, call),
            "urlencode" => return urlencode(&value, call),
            _ => {}
        }
        let text = soft(&value, name)?;
        let made = |text: Text| Ok(Value::Text(text));
        match name {
            "trim" => {
                let [chars] = call.bind(name, ["chars"])?;
                let chars = chars.filter(|c| !matches!(c, Value::None));
                let chars = chars.map(|c| string(Some(c), name)).transpose()?;
                return made(strings::strip(&text, chars.as_ref(), true, true));
            }
            "center" => {
                let [width] = call.bind(name, ["width"])?;
                return made(strings::padded(&text, integer(width, 80, name)?, &Text::of(" "), name)?);
            }
            "format" => {
                let value = match (call.args.is_empty(), call.named.is_empty()) {
                    (false, false) => return fail("can't handle positional and keyword arguments at the same time"),
                    (_, true) => Value::tuple(call.args)?,
                    (true, false) => {
                        let mut dict = super::value::Dict::default();
                        for (name, value) in call.named {
                            dict.insert(Value::text(&name), value)?;
                        }
                        Value::Dict(Rc::new(dict))
                    }
                };
                return format::percent(self, &text, &value).map(Value::Text);
            }
            _ => {}
        }
        let [] = call.bind(name, [])?;
        match name {
            "upper" => made(letters::upper(&text)),
            "lower" => made(letters::lower(&text)),
            "capitalize" => made(letters::capitalize(&text)),
            "title" => made(letters::title_words(&text)),
            _ => {
                if !text.as_str().is_ascii() {
                    return unsupported("wordcount beyond ASCII");
                }
                let words = text.as_str().split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
                Ok(Value::Int(words.filter(|w| !w.is_empty()).count() as i128))
            }
        }
    }

    fn number_filter(&mut self, name: &str, value: Value, call: Call) -> Result<Value> {
        match name {
            "abs" => {
                let [] = call.bind(name, [])?;
                value.defined()?;
                match (value.as_int(), &value) {
                    (Some(n), _) => Ok(Value::Int(n.abs())),
                    (_, Value::Float(f)) => Ok(Value::Float(f.abs())),
                    _ => fail(format!("bad operand type for abs(): '{}'", value.type_name())),
                }
            }
            "int" => {
                let [default, base] = call.bind(name, ["default", "base"])?;
                to_int(&value, default.unwrap_or(Value::Int(0)), integer(base, 10, name)?)
            }
            "float" => {
                let [default] = call.bind(name, ["default"])?;
                let number = to_float(&value)?;
                Ok(number.map(Value::Float).or(default).unwrap_or(Value::Float(0.0)))
            }
            "round" => round(&value, call),
            "filesizeformat" => file_size(&value, call),
            _ => {
                let [attribute, start] = call.bind(name, ["attribute", "start"])?;
                let mut sum = start.unwrap_or(Value::Int(0));
                if sum.as_text().is_some() {
                    return fail("sum() can't sum strings");
                }
                for item in value.items()? {
                    let item = match attribute.clone().filter(|a| !matches!(a, Value::None)) {
                        Some(attribute) => self.path(item, &attribute, None)?,
                        None => item,
                    };
                    sum = operators::binary(self, "+", &sum, &item)?;
                }
                Ok(sum)
            }
        }
    }

    fn list_filter(&mut self, name: &str, value: Value, call: Call) -> Result<Value> {
        match name {
            "list" => {
                let [] = call.bind(name, [])?;
                Value::list(value.items()?)
            }
            "first" => {
                let [] = call.bind(name, [])?;
                if let Value::Iter(items, _) = &value {
                    let first = items.borrow_mut().pop_front();
                    return Ok(first.unwrap_or_else(|| Value::hinted("No first item, sequence was empty.")));
                }
                let first = value.items()?.into_iter().next();
                Ok(first.unwrap_or_else(|| Value::hinted("No first item, sequence was empty.")))
            }
            "last" => {
                let [] = call.bind(name, [])?;
                if matches!(value, Value::Iter(..)) {
                    return fail(format!("'{}' object is not reversible", value.type_name()));
                }
                let last = value.items()?.pop();
                Ok(last.unwrap_or_else(|| Value::hinted("No last item, sequence was empty.")))
            }
            "reverse" => {
                let [] = call.bind(name, [])?;
                reverse(value)
            }
            "join" => {
                let [separator, attribute] = call.bind(name, ["d", "attribute"])?;
                let separator = separator.map_or_else(|| Ok(Text::of("")), |s| print::text(&s))?;
                let mut out = Vec::new();
                for item in value.items()? {
                    let item = match attribute.clone().filter(|a| !matches!(a, Value::None)) {
                        Some(attribute) => self.path(item, &attribute, None)?,
                        None => item,
                    };
                    out.push(Value::Text(print::text(&item)?));
                }
                strings::join(&separator, out).map(Value::Text)
            }
            "dictsort" => dictsort(&value, call),
            "sort" => {
                let [reverse, case, attribute] = call.bind(name, ["reverse", "case_sensitive", "attribute"])?;
                let case = case.is_some_and(|c| c.truth());
                let items = value.items()?;
                let mut keys = Vec::new();
                for item in &items {
                    keys.push(self.many_paths(item, attribute.as_ref(), case)?);
                }
                self.step((keys.len() * 16) as u64)?;
                let order = sorted(keys, reverse.is_some_and(|r| r.truth()))?;
                Value::list(order.into_iter().map(|at| items[at].clone()).collect())
            }
            "unique" => {
                let [case, attribute] = call.bind(name, ["case_sensitive", "attribute"])?;
                let case = case.is_some_and(|c| c.truth());
                let (mut seen, mut out) = (HashSet::new(), Vec::new());
                for item in value.items()? {
                    let key = self.one_path(item.clone(), attribute.as_ref(), None, case)?;
                    if seen.insert(Key::of(&key)?) {
                        out.push(item);
                    }
                }
                Ok(Value::generator(out))
            }
            "min" | "max" => {
                let [case, attribute] = call.bind(name, ["case_sensitive", "attribute"])?;
                let case = case.is_some_and(|c| c.truth());
                let mut best: Option<(Value, Value)> = None;
                for item in value.items()? {
                    let key = self.one_path(item.clone(), attribute.as_ref(), None, case)?;
                    let better = match &best {
                        None => true,
                        Some((old, _)) if name == "min" => operators::compare("<", &key, old)?,
                        Some((old, _)) => operators::compare(">", &key, old)?,
                    };
                    if better {
                        best = Some((key, item));
                    }
                }
                Ok(best.map_or_else(
                    || Value::hinted("No aggregated item, sequence was empty."),
                    |(_, item)| item,
                ))
            }
            "groupby" => self.group(&value, call),
            "batch" | "slice" => pieces(name, &value, call),
            "xmlattr" => xml_attributes(&value, call),
            other => unsupported(format!("the filter {other}")),
        }
    }

    /// What a path such as `a.0.b` leads to.
    fn path(&mut self, mut item: Value, attribute: &Value, default: Option<&Value>) -> Result<Value> {
        let parts = match attribute {
            Value::Text(text) => {
                let one = |part: &str| match !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) {
                    true => Value::Int(part.parse().unwrap_or(i128::MAX)),
                    false => Value::text(part),
                };
                text.as_str().split('.').map(one).collect()
            }
            other => vec![other.clone()],
        };
        for part in parts {
            self.step(1)?;
            item = self.item(&item, &part)?;
            if let (Some(default), true) = (default, item.is_undefined()) {
                item = default.clone();
            }
        }
        Ok(item)
    }

    fn one_path(&mut self, item: Value, path: Option<&Value>, default: Option<&Value>, case: bool) -> Result<Value> {
        let item = match path.filter(|p| !matches!(p, Value::None)) {
            Some(path) => self.path(item, path, default)?,
            None => item,
        };
        Ok(if case { item } else { ignore_case(item) })
    }

    /// The keys of a sort by several attributes with commas.
    fn many_paths(&mut self, item: &Value, paths: Option<&Value>, case: bool) -> Result<Value> {
        let mut keys = Vec::new();
        match paths {
            Some(Value::Text(text)) => {
                for path in text.as_str().split(',') {
                    keys.push(self.one_path(item.clone(), Some(&Value::text(path)), None, case)?);
                }
            }
            other => keys.push(self.one_path(item.clone(), other, None, case)?),
        }
        Value::list(keys)
    }

    fn map(&mut self, items: Vec<Value>, mut call: Call) -> Result<Value> {
        let mut out = Vec::new();
        if call.args.is_empty() {
            let Some(attribute) = call.take("attribute") else {
                return fail("map requires a filter argument");
            };
            let default = call.take("default").filter(|d| !matches!(d, Value::None));
            if let Some((name, _)) = call.named.first() {
                return fail(format!("Unexpected keyword argument '{name}'"));
            }
            for item in items {
                let item = match attribute {
                    Value::None => item,
                    _ => self.path(item, &attribute, default.as_ref())?,
                };
                out.push(item);
            }
        } else {
            let name = string(Some(call.args.remove(0)), "map")?;
            for item in items {
                let call = Call {
                    args: call.args.clone(),
                    named: call.named.clone(),
                };
                let value = self.filter(name.as_str(), item, call)?;
                out.push(self.charged(value)?);
            }
        }
        Ok(Value::generator(out))
    }

    fn select(&mut self, name: &str, value: Value, mut call: Call) -> Result<Value> {
        let keep = name.starts_with("select");
        let Some(items) = lazily(value)? else {
            return Ok(Value::generator(Vec::new()));
        };
        let attribute = match name.ends_with("attr") {
            true if call.args.is_empty() => return fail("Missing parameter for attribute name"),
            true => Some(call.args.remove(0)),
            false => None,
        };
        let test = match call.args.is_empty() {
            true => None,
            false => Some(string(Some(call.args.remove(0)), name)?),
        };
        let mut out = Vec::new();
        for item in items {
            let value = match &attribute {
                Some(Value::None) | None => item.clone(),
                Some(attribute) => self.path(item.clone(), attribute, None)?,
            };
            let passes = match &test {
                None => value.truth(),
                Some(test) => {
                    let call = Call {
                        args: call.args.clone(),
                        named: call.named.clone(),
                    };
                    self.step(1)?;
                    self.test(test.as_str(), &value, call)?
                }
            };
            if passes == keep {
                out.push(item);
            }
        }
        Ok(Value::generator(out))
    }

    fn group(&mut self, value: &Value, call: Call) -> Result<Value> {
        let [attribute, default, case] = call.bind("groupby", ["attribute", "default", "case_sensitive"])?;
        let attribute = needed(attribute, "groupby")?;
        let default = default.filter(|d| !matches!(d, Value::None));
        let case = case.is_some_and(|c| c.truth());
        let items = value.items()?;
        let mut keys = Vec::new();
        for item in &items {
            keys.push(self.one_path(item.clone(), Some(&attribute), default.as_ref(), case)?);
        }
        let mut groups: Vec<(Value, Vec<Value>)> = Vec::new();
        for at in sorted(keys.clone(), false)? {
            match groups.last_mut() {
                Some((key, group)) if operators::equal(key, &keys[at])? => group.push(items[at].clone()),
                _ => groups.push((keys[at].clone(), vec![items[at].clone()])),
            }
        }
        let mut out = Vec::new();
        for (mut key, group) in groups {
            if !case {
                key = self.one_path(group[0].clone(), Some(&attribute), default.as_ref(), true)?;
            }
            out.push(Value::Tuple(grouped(vec![key, Value::List(seq(group)?)], true)?));
        }
        Value::list(out)
    }
}

/// Items for a filter that makes a generator; nothing where the value is false.
fn lazily(value: Value) -> Result<Option<Vec<Value>>> {
    match value.truth() {
        true => value.items().map(Some),
        false => Ok(None),
    }
}

fn reverse(value: Value) -> Result<Value> {
    let reversed = |value: &Value| {
        let mut items = value.items()?;
        items.reverse();
        Ok(items)
    };
    match &value {
        Value::Text(_) | Value::Markup(_) => {
            let parts = [Value::None, Value::None, Value::Int(-1)];
            operators::slice(&value, &parts)
        }
        Value::Iter(..) => Value::list(reversed(&value)?),
        Value::Undefined(_) | Value::List(_) | Value::Tuple(_) | Value::Range(_) | Value::Dict(_) | Value::View(..) => {
            let items = reversed(&value)?;
            Ok(Value::Iter(Rc::new(std::cell::RefCell::new(items.into())), "reversed"))
        }
        _ => fail("argument must be iterable"),
    }
}

fn indent(value: &Value, call: Call) -> Result<Value> {
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

fn truncate(value: &Value, call: Call) -> Result<Value> {
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
    let Value::Text(cut) = operators::slice(&Value::Text(text), &parts)? else {
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

fn urlencode(value: &Value, call: Call) -> Result<Value> {
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
        Value::Dict(dict) => Value::View(super::value::View::Items, Rc::clone(dict)).items()?,
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

/// An integer that a text spells, as Python reads it; `None` if it spells none.
fn parse_int(text: &str, base: u32) -> Result<Option<i128>> {
    let trimmed = text.trim_matches(print::is_space);
    if !trimmed.is_ascii() && trimmed.chars().any(char::is_numeric) {
        return unsupported("an integer of digits beyond ASCII");
    }
    let (negative, digits) = match trimmed.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, trimmed.strip_prefix('+').unwrap_or(trimmed)),
    };
    let prefix = match base {
        16 => ["0x", "0X"],
        8 => ["0o", "0O"],
        2 => ["0b", "0B"],
        _ => ["", ""],
    };
    let stripped = prefix
        .iter()
        .filter(|p| !p.is_empty())
        .find_map(|p| digits.strip_prefix(p));
    let digits = match stripped {
        Some(rest) => rest.strip_prefix('_').unwrap_or(rest),
        None => digits,
    };
    let valid = !digits.is_empty()
        && digits.chars().all(|c| c == '_' || c.is_digit(base))
        && !digits.starts_with('_')
        && !digits.ends_with('_')
        && !digits.contains("__");
    if !valid {
        return Ok(None);
    }
    match i128::from_str_radix(&digits.replace('_', ""), base) {
        Ok(n) => Ok(Some(if negative { -n } else { n })),
        Err(_) => unsupported("an integer of more than 127 bits"),
    }
}

/// A float that a text spells, as Python reads it.
fn parse_float(text: &str) -> Result<Option<f64>> {
    let text = text.trim_matches(print::is_space);
    if !text.is_ascii() && text.chars().any(char::is_numeric) {
        return unsupported("a number of digits beyond ASCII");
    }
    let bytes = text.as_bytes();
    let misplaced = bytes.iter().enumerate().any(|(i, b)| {
        let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
        *b == b'_' && !(digit(i.checked_sub(1)) && digit(Some(i + 1)))
    });
    if misplaced {
        return Ok(None);
    }
    Ok(text.replace('_', "").parse().ok())
}

fn to_float(value: &Value) -> Result<Option<f64>> {
    value.defined()?;
    match value {
        Value::Text(text) | Value::Markup(text) => parse_float(text.as_str()),
        Value::Int(n) if n.unsigned_abs() >= 1 << 100 => unsupported("so large a float"),
        other => Ok(other.as_float()),
    }
}

fn whole(f: f64) -> Result<Option<i128>> {
    match f {
        f if !f.is_finite() => Ok(None),
        f if f.abs() > 1e37 => unsupported("an integer of more than 127 bits"),
        f => Ok(Some(f as i128)),
    }
}

fn to_int(value: &Value, default: Value, base: i128) -> Result<Value> {
    value.defined()?;
    let found = match value {
        Value::Text(text) | Value::Markup(text) => {
            let base = match u32::try_from(base) {
                Ok(base @ 2..=36) => base,
                _ => return unsupported("this base of an integer"),
            };
            match parse_int(text.as_str(), base)? {
                Some(n) => Some(n),
                None => match parse_float(text.as_str())? {
                    Some(f) => whole(f)?,
                    None => None,
                },
            }
        }
        // Python's OverflowError is not caught the first time.
        Value::Float(f) if f.is_infinite() => return fail("cannot convert float infinity to integer"),
        Value::Float(f) => whole(*f)?,
        other => other.as_int(),
    };
    Ok(found.map_or(default, Value::Int))
}

fn round(value: &Value, call: Call) -> Result<Value> {
    let [precision, method] = call.bind("round", ["precision", "method"])?;
    let method = method.map_or_else(|| Ok(Text::of("common")), |m| string(Some(m), "round"))?;
    value.defined()?;
    let none = matches!(precision, Some(Value::None));
    let precision = integer(precision.filter(|p| !matches!(p, Value::None)), 0, "round")?;
    let Some(float) = value.as_float() else {
        return fail(format!("type {} doesn't define __round__ method", value.type_name()));
    };
    match method.as_str() {
        "common" if none => unsupported("round(none)"),
        "common" => match (value.as_int(), usize::try_from(precision)) {
            (Some(n), Ok(_)) => Ok(Value::Int(n)),
            (None, Ok(_)) if !float.is_finite() => Ok(Value::Float(float)),
            (None, Ok(digits)) if digits > 400 => Ok(Value::Float(float)),
            (None, Ok(digits)) => Ok(Value::Float(format!("{float:.digits$}").parse().unwrap_or(float))),
            _ => unsupported("round to a negative precision"),
        },
        "ceil" | "floor" => {
            let power = match i32::try_from(precision) {
                Ok(n @ 0..=22) => 10_f64.powi(n),
                _ => return unsupported("round by ceil or floor to this precision"),
            };
            let scaled = match value.as_int() {
                Some(n) if n.unsigned_abs() > 1 << 40 => return unsupported("round of so large an integer"),
                _ => float * power,
            };
            if !scaled.is_finite() {
                return fail("cannot convert float infinity or NaN to integer");
            }
            if scaled.abs() >= 9e15 {
                return unsupported("round of so large a number");
            }
            let whole = if method.as_str() == "ceil" {
                scaled.ceil()
            } else {
                scaled.floor()
            };
            // Python's ceil gives an integer, which has no negative zero.
            Ok(Value::Float((whole + 0.0) / power))
        }
        _ => fail("method must be common, ceil or floor"),
    }
}

fn file_size(value: &Value, call: Call) -> Result<Value> {
    let [binary] = call.bind("filesizeformat", ["binary"])?;
    let binary = binary.is_some_and(|b| b.truth());
    let Some(bytes) = to_float(value)? else {
        return fail("could not convert to float");
    };
    let base = if binary { 1024.0 } else { 1000.0 };
    Ok(Value::Text(Text::from(match bytes {
        b if b == 1.0 => "1 Byte".to_owned(),
        b if b < base => match whole(b)? {
            Some(n) => format!("{n} Bytes"),
            None => return fail("cannot convert float to integer"),
        },
        b => {
            let (mut unit, mut text) = (base * base, String::new());
            for prefix in ["k", "M", "G", "T", "P", "E", "Z", "Y"] {
                let name = match (binary, prefix) {
                    (true, "k") => "KiB".to_owned(),
                    (true, p) => format!("{p}iB"),
                    (false, p) => format!("{p}B"),
                };
                text = format!("{:.1} {name}", base * b / unit);
                if b < unit {
                    break;
                }
                unit *= base;
            }
            text
        }
    })))
}

fn dictsort(value: &Value, call: Call) -> Result<Value> {
    let [case, by, reverse] = call.bind("dictsort", ["case_sensitive", "by", "reverse"])?;
    let by = by.map_or_else(|| Ok(Text::of("key")), |b| string(Some(b), "dictsort"))?;
    let at = match by.as_str() {
        "key" => 0,
        "value" => 1,
        _ => return fail("You can only sort by either \"key\" or \"value\""),
    };
    let Value::Dict(dict) = value else {
        value.defined()?;
        return fail(format!("'{}' object has no attribute 'items'", value.type_name()));
    };
    let case = case.is_some_and(|c| c.truth());
    let pairs = Value::View(super::value::View::Items, Rc::clone(dict)).items()?;
    let mut keys = Vec::new();
    for pair in &pairs {
        let key = pair.items()?.swap_remove(at);
        keys.push(if case { key } else { ignore_case(key) });
    }
    let order = sorted(keys, reverse.is_some_and(|r| r.truth()))?;
    Value::list(order.into_iter().map(|i| pairs[i].clone()).collect())
}

fn pieces(name: &str, value: &Value, call: Call) -> Result<Value> {
    let second = if name == "batch" { "linecount" } else { "slices" };
    let [count, fill] = call.bind(name, [second, "fill_with"])?;
    let count = integer(Some(needed(count, name)?), 0, name)?;
    let fill = fill.filter(|f| !matches!(f, Value::None));
    let items = value.items()?;
    let mut out = Vec::new();
    if name == "batch" {
        let size = match usize::try_from(count) {
            Ok(size @ 1..) => size,
            _ => return unsupported("batch of less than one"),
        };
        for chunk in items.chunks(size) {
            let mut chunk = chunk.to_vec();
            if let Some(fill) = &fill {
                items_fit(size)?;
                chunk.resize(size, fill.clone());
            }
            out.push(Value::list(chunk)?);
        }
        return Ok(Value::generator(out));
    }
    let slices = match usize::try_from(count) {
        Ok(0) => return fail("integer division or modulo by zero"),
        Ok(n) => n,
        Err(_) => return Ok(Value::generator(Vec::new())),
    };
    items_fit(slices)?;
    let (each, extra) = (items.len() / slices, items.len() % slices);
    let mut start = 0;
    for i in 0..slices {
        let end = start + each + usize::from(i < extra);
        let mut piece = items[start..end].to_vec();
        if i >= extra {
            piece.extend(fill.clone());
        }
        out.push(Value::list(piece)?);
        start = end;
    }
    Ok(Value::generator(out))
}

fn xml_attributes(value: &Value, call: Call) -> Result<Value> {
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
fn to_json(value: &Value, call: Call) -> Result<Value> {
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
    let options = print::Json {
        ascii: ascii.is_some_and(|a| a.truth()),
        indent,
        separators,
        sort: sort.is_some_and(|s| s.truth()),
    };
    print::json(value, &options).map(Value::Text)
}
