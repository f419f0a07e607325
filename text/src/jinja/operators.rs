//! Python's operators.

use std::cmp::Ordering;
use std::rc::Rc;

use super::error::{fail, unsupported, Error, Result};
use super::format;
use super::text::{Builder, Text};
use super::value::{fits, items_fit, Value, View};

fn overflow() -> Error {
    Error::Unsupported("an integer of more than 127 bits".to_owned())
}

pub fn unary(op: &str, value: &Value) -> Result<Value> {
    let value = value.defined()?;
    match (op, value.as_int(), value) {
        ("-", Some(n), _) => Ok(Value::Int(n.checked_neg().ok_or_else(overflow)?)),
        (_, Some(n), _) => Ok(Value::Int(n)),
        ("-", _, Value::Float(f)) => Ok(Value::Float(-f)),
        (_, _, Value::Float(f)) => Ok(Value::Float(*f)),
        _ => fail(format!("bad operand type for unary {op}: '{}'", value.type_name())),
    }
}

pub fn binary(op: &str, a: &Value, b: &Value) -> Result<Value> {
    if op == "%" {
        if let Value::Text(text) = a {
            return Ok(Value::Text(format::percent(text, b)?));
        }
    }
    a.defined()?;
    b.defined()?;
    match (op, a, b) {
        ("+", Value::Text(x), Value::Text(y)) => return concat(x, y).map(Value::Text),
        ("+", Value::Markup(_) | Value::Text(_), Value::Markup(_) | Value::Text(_)) => {
            return concat(&escaped(a)?, &escaped(b)?).map(Value::Markup);
        }
        (_, Value::Markup(_), _) | (_, _, Value::Markup(_)) => {
            return unsupported(format!("{op} with what is safe"));
        }
        ("+", Value::List(x), Value::List(y)) => {
            items_fit(x.items.len() + y.items.len())?;
            return Value::list(x.items.iter().chain(&y.items).cloned().collect());
        }
        ("+", Value::Tuple(x), Value::Tuple(y)) => {
            items_fit(x.items.len() + y.items.len())?;
            return Value::tuple(x.items.iter().chain(&y.items).cloned().collect());
        }
        ("*", _, _) => {
            if let Some(value) = repeated(a, b)? {
                return Ok(value);
            }
        }
        ("|", Value::Dict(_), Value::Dict(_)) => return unsupported("| of dicts"),
        ("-", Value::View(View::Keys | View::Items, _), _) | ("-", _, Value::View(View::Keys | View::Items, _)) => {
            return unsupported("a set");
        }
        _ => {}
    }
    if let (Some(x), Some(y)) = (a.as_int(), b.as_int()) {
        return integers(op, x, y);
    }
    if let (Some(x), Some(y)) = (a.as_float(), b.as_float()) {
        return floats(op, x, y);
    }
    let (left, right) = (a.type_name(), b.type_name());
    fail(format!("unsupported operand type(s) for {op}: '{left}' and '{right}'"))
}

/// HTML's escapes, unless the value is safe.
pub fn escaped(value: &Value) -> Result<Text> {
    let text = match value {
        Value::Markup(text) => return Ok(text.clone()),
        other => super::print::text(other)?,
    };
    let out = text.map(|_, c, out| match c {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '\'' => out.push_str("&#39;"),
        '"' => out.push_str("&#34;"),
        c => out.push(c),
    });
    fits(out.len())?;
    Ok(out)
}

pub fn concat(x: &Text, y: &Text) -> Result<Text> {
    fits(x.len() + y.len())?;
    let mut out = Builder::default();
    out.push_text(x);
    out.push_text(y);
    Ok(out.done())
}

/// A text or list that is taken several times.
fn repeated(a: &Value, b: &Value) -> Result<Option<Value>> {
    let (what, count) = match (a, b.as_int(), b, a.as_int()) {
        (what, Some(n), ..) if what.as_int().is_none() => (what, n),
        (_, _, what, Some(n)) if what.as_int().is_none() => (what, n),
        _ => return Ok(None),
    };
    if i64::try_from(count).is_err() && matches!(what, Value::Text(_) | Value::List(_) | Value::Tuple(_)) {
        return fail("cannot fit 'int' into an index-sized integer");
    }
    let count = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
    Ok(match what {
        Value::Text(text) => {
            let bytes = text.len().saturating_mul(count);
            fits(bytes)?;
            let mut out = Builder::default();
            if bytes > 0 {
                (0..count).for_each(|_| out.push_text(text));
            }
            Some(Value::Text(out.done()))
        }
        Value::List(seq) | Value::Tuple(seq) => {
            items_fit(seq.items.len().saturating_mul(count))?;
            let count = if seq.items.is_empty() { 0 } else { count };
            let items: Vec<Value> = (0..count).flat_map(|_| seq.items.iter().cloned()).collect();
            Some(match what {
                Value::List(_) => Value::list(items)?,
                _ => Value::tuple(items)?,
            })
        }
        _ => None,
    })
}

fn integers(op: &str, x: i128, y: i128) -> Result<Value> {
    let checked = |result: Option<i128>| result.map(Value::Int).ok_or_else(overflow);
    match op {
        "+" => checked(x.checked_add(y)),
        "-" => checked(x.checked_sub(y)),
        "*" => checked(x.checked_mul(y)),
        "//" | "%" | "/" if y == 0 => fail("division by zero"),
        "//" => checked(floor_div(x, y)),
        "%" => checked(modulo(x, y)),
        "/" => match x.unsigned_abs().max(y.unsigned_abs()) < 1 << 53 {
            true => Ok(Value::Float(x as f64 / y as f64)),
            false => unsupported("the division of integers of more than 53 bits"),
        },
        "**" if y < 0 && x == 0 => fail("0.0 cannot be raised to a negative power"),
        "**" if y < 0 => floats(op, x as f64, y as f64),
        "**" => match (x, u32::try_from(y)) {
            (0 | 1, _) => Ok(Value::Int(if y == 0 { 1 } else { x })),
            (-1, _) => Ok(Value::Int(if y % 2 == 0 { 1 } else { -1 })),
            (x, Ok(y)) => checked(x.checked_pow(y)),
            _ => Err(overflow()),
        },
        _ => fail(format!("unsupported operand type(s) for {op}: 'int' and 'int'")),
    }
}

fn floor_div(x: i128, y: i128) -> Option<i128> {
    let quotient = x.checked_div(y)?;
    Some(quotient - i128::from(x % y != 0 && (x < 0) != (y < 0)))
}

fn modulo(x: i128, y: i128) -> Option<i128> {
    let rest = x.checked_rem(y)?;
    Some(rest + if rest != 0 && (rest < 0) != (y < 0) { y } else { 0 })
}

fn floats(op: &str, x: f64, y: f64) -> Result<Value> {
    Ok(Value::Float(match op {
        "+" => x + y,
        "-" => x - y,
        "*" => x * y,
        "/" | "//" | "%" if y == 0.0 => return fail("float division by zero"),
        "/" => x / y,
        "//" | "%" => {
            let (div, rest) = div_mod(x, y);
            if op == "//" {
                div
            } else {
                rest
            }
        }
        "**" if x == 0.0 && y < 0.0 => return fail("0.0 cannot be raised to a negative power"),
        "**" if x < 0.0 && y.fract() != 0.0 => return unsupported("a complex number"),
        "**" => match x.powf(y) {
            z if z.is_infinite() && x.is_finite() && y.is_finite() => return fail("Result too large"),
            z => z,
        },
        _ => return fail(format!("unsupported operand type(s) for {op}: 'float' and 'float'")),
    }))
}

/// As CPython divides floats.
fn div_mod(x: f64, y: f64) -> (f64, f64) {
    let mut rest = x % y;
    let mut div = (x - rest) / y;
    if rest != 0.0 {
        if (y < 0.0) != (rest < 0.0) {
            rest += y;
            div -= 1.0;
        }
    } else {
        rest = 0.0_f64.copysign(y);
    }
    let floor = match div != 0.0 {
        true => {
            let floor = div.floor();
            if div - floor > 0.5 {
                floor + 1.0
            } else {
                floor
            }
        }
        false => 0.0_f64.copysign(x / y),
    };
    (floor, rest)
}

/// Steps that a comparison takes.
pub fn effort(a: &Value, b: &Value) -> u64 {
    let size = |value: &Value| match value {
        Value::Text(text) | Value::Markup(text) => text.len() / 64,
        other => other.length().unwrap_or(0),
    };
    (size(a) + size(b)) as u64
}

pub fn compare(op: &str, a: &Value, b: &Value) -> Result<bool> {
    Ok(match op {
        "==" => equal(a, b)?,
        "!=" => !equal(a, b)?,
        "in" => contains(b, a)?,
        "not in" => !contains(b, a)?,
        _ => {
            let order = match order(a, b)? {
                Some(order) => order,
                None => return Ok(false),
            };
            match op {
                "<" => order == Ordering::Less,
                "<=" => order != Ordering::Greater,
                ">" => order == Ordering::Greater,
                _ => order != Ordering::Less,
            }
        }
    })
}

pub fn equal(a: &Value, b: &Value) -> Result<bool> {
    Ok(match (a, b) {
        (Value::Undefined(_), Value::Undefined(_)) | (Value::None, Value::None) => true,
        (Value::Text(x) | Value::Markup(x), Value::Text(y) | Value::Markup(y)) => x == y,
        (Value::List(x), Value::List(y)) | (Value::Tuple(x), Value::Tuple(y)) => {
            if x.items.len() != y.items.len() {
                return Ok(false);
            }
            for (a, b) in x.items.iter().zip(&y.items) {
                if !equal(a, b)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Dict(x), Value::Dict(y)) => {
            if x.len() != y.len() {
                return Ok(false);
            }
            for (key, value) in x.entries() {
                match y.get(key)? {
                    Some(other) if equal(value, other)? => {}
                    _ => return Ok(false),
                }
            }
            true
        }
        (Value::Range(x), Value::Range(y)) => {
            let count = x.len();
            count == y.len() && (count == 0 || x.start == y.start && (count == 1 || x.step == y.step))
        }
        (Value::View(..), Value::View(..)) => return unsupported("a comparison of views of dicts"),
        (Value::Namespace(x), Value::Namespace(y)) => Rc::ptr_eq(x, y),
        (Value::Macro(x), Value::Macro(y)) => Rc::ptr_eq(x, y),
        (Value::Loop(x), Value::Loop(y)) => Rc::ptr_eq(x, y),
        (Value::Cycler(x), Value::Cycler(y)) => Rc::ptr_eq(x, y),
        (Value::Joiner(x), Value::Joiner(y)) => Rc::ptr_eq(x, y),
        (Value::Iter(x, _), Value::Iter(y, _)) => Rc::ptr_eq(x, y),
        (Value::Function(x), Value::Function(y)) => x == y,
        (Value::Method(x), Value::Method(y)) => x.1 == y.1 && equal(&x.0, &y.0)?,
        _ => numbers(a, b) == Some(Some(Ordering::Equal)),
    })
}

/// The order of two numbers; `None` unless both are numbers.
fn numbers(a: &Value, b: &Value) -> Option<Option<Ordering>> {
    match (a.as_int(), b.as_int()) {
        (Some(x), Some(y)) => return Some(Some(x.cmp(&y))),
        (Some(x), None) => return b.as_float().map(|y| with_float(x, y)),
        (None, Some(y)) => return a.as_float().map(|x| with_float(y, x).map(Ordering::reverse)),
        (None, None) => {}
    }
    Some(a.as_float()?.partial_cmp(&b.as_float()?))
}

/// The order of an integer and a float, by their exact values.
fn with_float(x: i128, y: f64) -> Option<Ordering> {
    if y.is_nan() {
        return None;
    }
    if y.abs() >= 1e38 {
        return Some(if y > 0.0 { Ordering::Less } else { Ordering::Greater });
    }
    let whole = y.floor();
    match x.cmp(&(whole as i128)) {
        Ordering::Equal if y > whole => Some(Ordering::Less),
        order => Some(order),
    }
}

/// The order of two values; `None` with a float that is not a number.
pub fn order(a: &Value, b: &Value) -> Result<Option<Ordering>> {
    a.defined()?;
    b.defined()?;
    if let Some(order) = numbers(a, b) {
        return Ok(order);
    }
    match (a, b) {
        // The order of code points is the order of UTF-8.
        (Value::Text(x) | Value::Markup(x), Value::Text(y) | Value::Markup(y)) => Ok(Some(x.as_str().cmp(y.as_str()))),
        (Value::List(x), Value::List(y)) | (Value::Tuple(x), Value::Tuple(y)) => {
            for (a, b) in x.items.iter().zip(&y.items) {
                if !equal(a, b)? {
                    return order(a, b);
                }
            }
            Ok(Some(x.items.len().cmp(&y.items.len())))
        }
        (Value::View(..), Value::View(..)) => unsupported("a comparison of views of dicts"),
        _ => fail(format!(
            "comparison not supported between instances of '{}' and '{}'",
            a.type_name(),
            b.type_name()
        )),
    }
}

/// Python's `in`.
pub fn contains(container: &Value, item: &Value) -> Result<bool> {
    match container {
        Value::Text(text) | Value::Markup(text) => match item {
            Value::Text(part) | Value::Markup(part) => Ok(text.as_str().contains(part.as_str())),
            other => fail(format!(
                "'in <string>' requires string as left operand, not {}",
                other.type_name()
            )),
        },
        Value::Dict(dict) | Value::View(View::Keys, dict) => Ok(dict.get(item)?.is_some()),
        Value::Namespace(_) | Value::Macro(_) => {
            fail(format!("argument of type '{}' is not iterable", container.type_name()))
        }
        // An iterator is read up to the item.
        Value::Iter(items, _) => loop {
            let Some(next) = items.borrow_mut().pop_front() else {
                return Ok(false);
            };
            if same(&next, item)? {
                return Ok(true);
            }
        },
        other => {
            for one in other.items()? {
                if same(&one, item)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
    }
}

/// Identity or equality, as containers compare. A float that is not a number is the same as itself, which cannot be told
/// here.
fn same(a: &Value, b: &Value) -> Result<bool> {
    match (a, b) {
        (Value::Float(x), Value::Float(y)) if x.is_nan() && y.is_nan() => unsupported("nan in a container"),
        _ => equal(a, b),
    }
}

/// Indices of the values in ascending order; equal ones keep theirs, also from the end.
pub fn sorted(values: Vec<Value>, reverse: bool) -> Result<Vec<usize>> {
    let mut indices: Vec<usize> = (0..values.len()).collect();
    let mut problem = None;
    indices.sort_by(|a, b| match order(&values[*a], &values[*b]) {
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
        None => Ok(indices),
    }
}
