//! Jinja2's filters.

use std::collections::HashSet;
use std::rc::Rc;

use super::call::{integer, needed, string, Call};
use super::error::{fail, unsupported, Result};
use super::format;
use super::letters;
use super::lists;
use super::machine::Machine;
use super::numbers;
use super::operators;
use super::print;
use super::strings;
use super::text::Text;
use super::value::{grouped, seq, Key, Value};
use super::writing;

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
            "tojson" => writing::to_json(&value, call),
            "attr" => {
                let [name] = call.bind(name, ["name"])?;
                let name = string(name, "attr")?;
                value.defined()?;
                let found = self.found(&value, name.as_str())?;
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
            "indent" => return writing::indent(&value, call),
            "truncate" => return writing::truncate(&value, call),
            "urlencode" => return writing::urlencode(&value, call),
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
                return format::percent(&text, &value).map(Value::Text);
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
                numbers::to_int(&value, default.unwrap_or(Value::Int(0)), integer(base, 10, name)?)
            }
            "float" => {
                let [default] = call.bind(name, ["default"])?;
                let number = numbers::to_float(&value)?;
                Ok(number.map(Value::Float).or(default).unwrap_or(Value::Float(0.0)))
            }
            "round" => numbers::round(&value, call),
            "filesizeformat" => numbers::file_size(&value, call),
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
                    sum = operators::binary("+", &sum, &item)?;
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
                lists::reverse(value)
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
            "dictsort" => lists::dictsort(&value, call),
            "sort" => {
                let [reverse, case, attribute] = call.bind(name, ["reverse", "case_sensitive", "attribute"])?;
                let case = case.is_some_and(|c| c.truth());
                let items = value.items()?;
                let mut keys = Vec::new();
                for item in &items {
                    keys.push(self.many_paths(item, attribute.as_ref(), case)?);
                }
                self.step((keys.len() * 16) as u64)?;
                let order = operators::sorted(keys, reverse.is_some_and(|r| r.truth()))?;
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
            "batch" | "slice" => lists::pieces(name, &value, call),
            "xmlattr" => writing::xml_attributes(&value, call),
            other => unsupported(format!("the filter {other}")),
        }
    }

    /// Follows a path such as `a.0.b` through attributes and items.
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
        Ok(if case { item } else { lists::ignore_case(item) })
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
        for at in operators::sorted(keys.clone(), false)? {
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
