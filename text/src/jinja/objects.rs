//! Attributes, calls and functions that every template has.

use std::cell::Cell;
use std::rc::Rc;

use super::call::{needed, string, Call};
use super::error::{fail, unsupported, Error, Result};
use super::machine::Machine;
use super::operators;
use super::print;
use super::sequences;
use super::strings;
use super::time;
use super::value::{Cycler, Dict, Joiner, Key, Loop, Namespace, Range, Value};

/// The most numbers of a range, as in Jinja2's sandbox.
const RANGE: usize = 100_000;

const DICT: [&str; 11] = [
    "clear",
    "copy",
    "fromkeys",
    "get",
    "items",
    "keys",
    "pop",
    "popitem",
    "setdefault",
    "update",
    "values",
];
const LIST: [&str; 11] = [
    "append", "clear", "copy", "count", "extend", "index", "insert", "pop", "remove", "reverse", "sort",
];
const INT: [&str; 9] = [
    "as_integer_ratio",
    "bit_count",
    "bit_length",
    "conjugate",
    "denominator",
    "from_bytes",
    "imag",
    "numerator",
    "real",
];
const FLOAT: [&str; 7] = [
    "as_integer_ratio",
    "conjugate",
    "fromhex",
    "hex",
    "imag",
    "is_integer",
    "real",
];

/// Methods that change a value: the sandbox hides them.
fn changes(object: &Value, name: &str) -> bool {
    match object {
        Value::Dict(_) => matches!(name, "clear" | "pop" | "popitem" | "setdefault" | "update"),
        Value::List(_) => matches!(
            name,
            "append" | "clear" | "pop" | "reverse" | "insert" | "sort" | "extend" | "remove"
        ),
        _ => false,
    }
}

fn loop_length(machine: &mut Machine, state: &Loop) -> Result<usize> {
    if let Some(length) = state.length.get() {
        return Ok(length);
    }
    use super::value::Source;
    let whole = match &*state.feed.borrow() {
        feed if feed.test.is_some() => None,
        feed => match &feed.source {
            Source::Items(seq, _) => Some(seq.items.len()),
            Source::Once(_) => None,
        },
    };
    let length = match whole {
        Some(length) => length,
        None => {
            let mut rest = Vec::new();
            while let Some(item) = machine.pull(state)? {
                rest.push(item);
            }
            let passed = (state.index0.get() + 1) as usize + usize::from(state.after.borrow().is_some());
            let length = rest.len() + passed;
            let mut feed = state.feed.borrow_mut();
            feed.test = None;
            feed.source = Source::Items(super::value::seq(rest)?, 0);
            length
        }
    };
    state.length.set(Some(length));
    Ok(length)
}

fn peek(machine: &mut Machine, state: &Loop) -> Result<Option<Value>> {
    let after = state.after.borrow().clone();
    if after.is_some() {
        return Ok(after);
    }
    let next = machine.pull(state)?;
    *state.after.borrow_mut() = next.clone();
    Ok(next)
}

fn loop_attribute(machine: &mut Machine, object: &Value, state: &Loop, name: &str) -> Result<Option<Value>> {
    let index0 = state.index0.get();
    Ok(Some(match name {
        "index0" => Value::Int(index0),
        "index" => Value::Int(index0 + 1),
        "first" => Value::Bool(index0 == 0),
        "last" => Value::Bool(peek(machine, state)?.is_none()),
        "length" => Value::Int(loop_length(machine, state)? as i128),
        "revindex" => Value::Int(loop_length(machine, state)? as i128 - index0),
        "revindex0" => Value::Int(loop_length(machine, state)? as i128 - index0 - 1),
        "depth0" => Value::Int(state.depth0),
        "depth" => Value::Int(state.depth0 + 1),
        "previtem" => match index0 {
            0 => Value::hinted("there is no previous item"),
            _ => {
                let before = state.before.borrow().clone();
                before.unwrap_or_else(|| Value::hinted("there is no previous item"))
            }
        },
        "nextitem" => peek(machine, state)?.unwrap_or_else(|| Value::hinted("there is no next item")),
        "cycle" | "changed" => Value::Method(Rc::new((object.clone(), name.to_owned()))),
        _ => return Ok(None),
    }))
}

impl Machine {
    /// Looks up an attribute as Python does; `None` if there is none.
    pub fn found(&mut self, object: &Value, name: &str) -> Result<Option<Value>> {
        let unsafe_one = || {
            let kind = object.type_name();
            Value::hinted(format!("access to attribute '{name}' of '{kind}' object is unsafe."))
        };
        if name.starts_with("__") && name.ends_with("__") {
            // Whether an object of Python has it makes no difference, except where an item has the name.
            return match object {
                Value::Dict(dict) if dict.named(name).is_some() => unsupported(format!("an item called {name}")),
                _ => Ok(Some(unsafe_one())),
            };
        }
        if changes(object, name) {
            return Ok(Some(unsafe_one()));
        }
        let method = |known: bool| Ok(known.then(|| Value::Method(Rc::new((object.clone(), name.to_owned())))));
        match object {
            Value::Text(_) | Value::Markup(_) => method(strings::METHODS.contains(&name)),
            Value::Dict(_) => method(DICT.contains(&name)),
            Value::List(_) => method(LIST.contains(&name)),
            Value::Tuple(seq) if seq.group && matches!(name, "grouper" | "list") => {
                Ok(seq.items.get(usize::from(name == "list")).cloned())
            }
            Value::Tuple(_) => method(matches!(name, "count" | "index")),
            Value::Int(n) if matches!(name, "real" | "numerator") => Ok(Some(Value::Int(*n))),
            Value::Int(_) | Value::Bool(_) => method(INT.contains(&name) || name == "to_bytes"),
            Value::Float(_) => method(FLOAT.contains(&name)),
            Value::Range(range) => Ok(match name {
                "start" => Some(Value::Int(range.start)),
                "stop" => Some(Value::Int(range.stop)),
                "step" => Some(Value::Int(range.step)),
                _ => return method(matches!(name, "count" | "index")),
            }),
            Value::View(..) => method(matches!(name, "mapping" | "isdisjoint")),
            Value::Iter(..) => method(matches!(
                name,
                "send" | "throw" | "close" | "gi_frame" | "gi_code" | "gi_running"
            )),
            Value::Namespace(namespace) => Ok(namespace.fields.borrow().named(name).cloned()),
            Value::Macro(code) => Ok(match name {
                "name" => Some(code.code.name.as_deref().map_or(Value::None, Value::text)),
                "arguments" => {
                    let names = code.code.args.iter().map(|(name, _)| Value::text(name));
                    Some(Value::list(names.collect())?)
                }
                "catch_kwargs" => Some(Value::Bool(code.code.kwargs.is_some())),
                "catch_varargs" => Some(Value::Bool(code.code.varargs.is_some())),
                "caller" | "explicit_caller" => return unsupported(format!("the attribute {name} of a macro")),
                _ => None,
            }),
            Value::Loop(state) => loop_attribute(self, object, state, name),
            Value::Cycler(cycler) => match name {
                "current" => Ok(cycler.items.items.get(cycler.at.get()).cloned()),
                "items" => Ok(Some(Value::Tuple(Rc::clone(&cycler.items)))),
                "pos" => Ok(Some(Value::Int(cycler.at.get() as i128))),
                _ => method(matches!(name, "next" | "reset")),
            },
            Value::Joiner(joiner) => Ok(match name {
                "sep" => Some(joiner.separator.clone()),
                "used" => Some(Value::Bool(joiner.used.get())),
                _ => None,
            }),
            Value::Function("dict") => method(name == "fromkeys"),
            _ => Ok(None),
        }
    }

    pub fn call(&mut self, callee: &Value, call: Call) -> Result<Value> {
        self.step(1)?;
        let value = self.deeper(|this| match callee {
            Value::Undefined(_) => fail(match callee.defined() {
                Err(error) => error.to_string(),
                Ok(_) => String::new(),
            }),
            Value::Macro(code) => this.call_macro(&code.code, &code.scope, call),
            Value::Method(method) => this.method(&method.0, &method.1, call),
            Value::Function(name) => this.function(name, call),
            Value::Loop(state) => match &state.recurse {
                Some((part, scope)) => {
                    let [iterable] = call.bind("loop", ["iterable"])?;
                    let iterable = needed(iterable, "loop")?;
                    this.recurse(part, scope, &iterable, state.depth0 + 1).map(Value::Text)
                }
                None => fail("The loop must have the 'recursive' marker to be called recursively."),
            },
            Value::Joiner(joiner) => match joiner.used.replace(true) {
                true => Ok(joiner.separator.clone()),
                false => Ok(Value::text("")),
            },
            other => fail(format!("'{}' object is not callable", other.type_name())),
        })?;
        self.charged(value)
    }

    fn function(&mut self, name: &str, call: Call) -> Result<Value> {
        match name {
            "range" => {
                if !call.named.is_empty() {
                    return fail("range() takes no keyword arguments");
                }
                let mut numbers = Vec::new();
                for arg in &call.args {
                    arg.defined()?;
                    let number = arg.as_int().filter(|n| n.unsigned_abs() < 1 << 100);
                    numbers.push(number.ok_or_else(|| Error::Runtime("range() takes integers".to_owned()))?);
                }
                let (start, stop, step) = match numbers[..] {
                    [stop] => (0, stop, 1),
                    [start, stop] => (start, stop, 1),
                    [start, stop, step] if step != 0 => (start, stop, step),
                    _ => return fail("range() takes one to three integers, and no step of zero"),
                };
                let range = Range { start, stop, step };
                match range.len() > RANGE {
                    true => fail(format!(
                        "Range too big. The sandbox blocks ranges larger than MAX_RANGE ({RANGE})."
                    )),
                    false => Ok(Value::Range(range)),
                }
            }
            "dict" => dict_of(call).map(|dict| Value::Dict(Rc::new(dict))),
            "namespace" => {
                let dict = dict_of(call)?;
                for (key, _) in dict.entries() {
                    match key.as_text() {
                        Some(name) if name.as_str().starts_with('_') => {
                            return fail("chat templates cannot store underscore-prefixed attributes on a namespace");
                        }
                        Some(_) => {}
                        None => return unsupported("a namespace with names that are not texts"),
                    }
                }
                Ok(Value::Namespace(Rc::new(Namespace::new(dict))))
            }
            "cycler" => match (call.args.is_empty(), call.named.is_empty()) {
                (false, true) => Ok(Value::Cycler(Rc::new(Cycler {
                    items: super::value::seq(call.args)?,
                    at: Cell::new(0),
                }))),
                _ => fail("cycler: at least one item has to be provided"),
            },
            "joiner" => {
                let [separator] = call.bind("joiner", ["sep"])?;
                Ok(Value::Joiner(Rc::new(Joiner {
                    separator: separator.unwrap_or_else(|| Value::text(", ")),
                    used: Cell::new(false),
                })))
            }
            "raise_exception" => {
                let [message] = call.bind("raise_exception", ["message"])?;
                let message = print::text(&needed(message, "raise_exception")?)?;
                Err(Error::Raised(message.as_str().to_owned()))
            }
            "strftime_now" => {
                let [format] = call.bind("strftime_now", ["format"])?;
                let format = string(format, "strftime_now")?;
                let text = time::strftime(format.as_str(), self.clock()?);
                text.map(|text| Value::text(&text)).map_err(Error::Unsupported)
            }
            other => unsupported(format!("the function {other}")),
        }
    }

    fn method(&mut self, object: &Value, name: &str, call: Call) -> Result<Value> {
        match object {
            Value::Text(text) => self.text_method(text, name, call),
            Value::Markup(_) => unsupported(format!("the method {name} of what is safe")),
            Value::Dict(dict) => dict_method(dict, name, call),
            Value::Function("dict") => dict_method(&Rc::new(Dict::default()), name, call),
            Value::List(seq) if name == "copy" => {
                let [] = call.bind("copy", [])?;
                Ok(Value::List(Rc::clone(seq)))
            }
            Value::List(_) | Value::Tuple(_) | Value::Range(_) if name == "count" => {
                let [item] = call.bind("count", [""])?;
                let item = needed(item, "count")?;
                let mut count = 0;
                for one in object.items()? {
                    count += i128::from(operators::equal(&one, &item)?);
                }
                Ok(Value::Int(count))
            }
            Value::List(_) | Value::Tuple(_) if name == "index" => {
                let [item, start, stop] = call.bind("index", ["", "", ""])?;
                let item = needed(item, "index")?;
                let items = object.items()?;
                let parts = [start.unwrap_or(Value::None), stop.unwrap_or(Value::None), Value::None];
                let places = Value::list((0..items.len()).map(|i| Value::Int(i as i128)).collect())?;
                for place in sequences::slice(&places, &parts)?.items()? {
                    let at = place.as_int().and_then(|i| usize::try_from(i).ok()).unwrap_or(0);
                    if operators::equal(&items[at], &item)? {
                        return Ok(place);
                    }
                }
                fail("the value is not in the list")
            }
            Value::Float(f) if name == "is_integer" => {
                let [] = call.bind("is_integer", [])?;
                Ok(Value::Bool(f.is_finite() && f.fract() == 0.0))
            }
            Value::Int(n) if name == "bit_length" => {
                let [] = call.bind("bit_length", [])?;
                Ok(Value::Int(i128::from(128 - n.unsigned_abs().leading_zeros())))
            }
            Value::Loop(_) | Value::Cycler(_) => cycle(object, name, call),
            other => unsupported(format!("the method {name} of '{}'", other.type_name())),
        }
    }
}

fn cycle(object: &Value, name: &str, call: Call) -> Result<Value> {
    match (object, name) {
        (Value::Loop(state), "cycle") => {
            let count = call.args.len();
            if count == 0 || !call.named.is_empty() {
                return fail("no items for cycling given");
            }
            let at = usize::try_from(state.index0.get()).unwrap_or(0) % count;
            Ok(call.args[at].clone())
        }
        (Value::Loop(state), _) => {
            if !call.named.is_empty() {
                return fail("changed takes no keyword arguments");
            }
            let value = Value::tuple(call.args)?;
            if value.depth() + state.depth > 100 {
                return Err(Error::Limit("values are nested too deep".to_owned()));
            }
            let old = state.changed.borrow_mut().replace(value.clone());
            match old {
                Some(old) => Ok(Value::Bool(!operators::equal(&old, &value)?)),
                None => Ok(Value::Bool(true)),
            }
        }
        (Value::Cycler(cycler), name) => {
            let [] = call.bind(name, [])?;
            let at = cycler.at.get();
            match name {
                "reset" => {
                    cycler.at.set(0);
                    Ok(Value::None)
                }
                _ => {
                    cycler.at.set((at + 1) % cycler.items.items.len().max(1));
                    Ok(cycler.items.items[at].clone())
                }
            }
        }
        _ => unsupported(format!("the method {name}")),
    }
}

/// Python's `dict(..)`.
fn dict_of(call: Call) -> Result<Dict> {
    let mut dict = Dict::default();
    let mut args = call.args.into_iter();
    match args.next() {
        None => {}
        Some(Value::Dict(other)) => dict = (*other).clone(),
        Some(Value::Namespace(_)) => return fail("'Namespace' object is not iterable"),
        Some(other) => {
            for pair in other.items()? {
                let items = pair.items()?;
                let [key, value]: [Value; 2] = items
                    .try_into()
                    .map_err(|_| Error::Runtime("a dict is made of pairs".to_owned()))?;
                dict.insert(key, value)?;
            }
        }
    }
    if args.next().is_some() {
        return fail("dict expected at most 1 argument");
    }
    for (name, value) in call.named {
        dict.insert(Value::text(&name), value)?;
    }
    Ok(dict)
}

fn dict_method(dict: &Rc<Dict>, name: &str, call: Call) -> Result<Value> {
    use super::value::View;
    let view = match name {
        "keys" => View::Keys,
        "values" => View::Values,
        "items" => View::Items,
        "copy" => {
            let [] = call.bind(name, [])?;
            return Ok(Value::Dict(Rc::clone(dict)));
        }
        "get" => {
            let [key, default] = call.bind(name, ["", ""])?;
            let key = needed(key, name)?;
            Key::of(&key)?;
            let found = dict.get(&key)?.cloned();
            return Ok(found.or(default).unwrap_or(Value::None));
        }
        "fromkeys" => {
            let [keys, value] = call.bind(name, ["", ""])?;
            let mut dict = Dict::default();
            for key in needed(keys, name)?.items()? {
                dict.insert(key, value.clone().unwrap_or(Value::None))?;
            }
            return Ok(Value::Dict(Rc::new(dict)));
        }
        other => return unsupported(format!("the method {other} of a dict")),
    };
    let [] = call.bind(name, [])?;
    Ok(Value::View(view, Rc::clone(dict)))
}
