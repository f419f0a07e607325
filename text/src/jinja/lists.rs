//! Filters of lists and maps.

use std::rc::Rc;

use super::call::{integer, needed, string, Call};
use super::error::{fail, unsupported, Result};
use super::letters;
use super::operators::sorted;
use super::sequences;
use super::text::Text;
use super::value::{items_fit, Value, View};

pub fn reverse(value: Value) -> Result<Value> {
    let reversed = |value: &Value| {
        let mut items = value.items()?;
        items.reverse();
        Ok(items)
    };
    match &value {
        Value::Text(_) | Value::Markup(_) => {
            let parts = [Value::None, Value::None, Value::Int(-1)];
            sequences::slice(&value, &parts)
        }
        Value::Iter(..) => Value::list(reversed(&value)?),
        Value::Undefined(_) | Value::List(_) | Value::Tuple(_) | Value::Range(_) | Value::Dict(_) | Value::View(..) => {
            let items = reversed(&value)?;
            Ok(Value::Iter(Rc::new(std::cell::RefCell::new(items.into())), "reversed"))
        }
        _ => fail("argument must be iterable"),
    }
}

pub fn dictsort(value: &Value, call: Call) -> Result<Value> {
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
    let pairs = Value::View(View::Items, Rc::clone(dict)).items()?;
    let mut keys = Vec::new();
    for pair in &pairs {
        let key = pair.items()?.swap_remove(at);
        keys.push(if case { key } else { ignore_case(key) });
    }
    let order = sorted(keys, reverse.is_some_and(|r| r.truth()))?;
    Value::list(order.into_iter().map(|i| pairs[i].clone()).collect())
}

pub fn pieces(name: &str, value: &Value, call: Call) -> Result<Value> {
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

/// A value for comparisons in which case makes no difference.
pub fn ignore_case(value: Value) -> Value {
    match value {
        Value::Text(text) | Value::Markup(text) => Value::Text(letters::lower(&text)),
        other => other,
    }
}
