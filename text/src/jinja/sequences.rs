//! Subscripts and slices.

use super::error::{fail, unsupported, Error, Result};
use super::text::{Builder, Text};
use super::value::{Key, Range, Value};

/// `object[index]`, `None` where Python raises a `TypeError` or `LookupError`.
pub fn subscript(object: &Value, index: &Value) -> Result<Option<Value>> {
    let at = |length: usize| -> Option<usize> {
        let index = index.as_int()?;
        let index = if index < 0 { index + length as i128 } else { index };
        usize::try_from(index).ok().filter(|i| *i < length)
    };
    Ok(match object {
        Value::Dict(dict) => match Key::of(index) {
            Ok(_) => dict.get(index)?.cloned(),
            Err(Error::Runtime(_)) => None,
            Err(other) => return Err(other),
        },
        Value::List(seq) | Value::Tuple(seq) => at(seq.items.len()).map(|i| seq.items[i].clone()),
        Value::Text(text) | Value::Markup(text) => at(text.chars()).and_then(|i| {
            let (start, c) = text.as_str().char_indices().nth(i)?;
            let part = text.slice(start, start + c.len_utf8());
            Some(match object {
                Value::Markup(_) => Value::Markup(part),
                _ => Value::Text(part),
            })
        }),
        Value::Range(range) => at(range.len()).map(|i| Value::Int(range.at(i))),
        _ => None,
    })
}

/// The items that a slice of so many items takes, and how many they are.
fn bounds(parts: &[Value; 3], length: usize) -> Result<(Range, usize)> {
    let mut numbers = [None; 3];
    for (number, part) in numbers.iter_mut().zip(parts) {
        *number = match part {
            Value::None => None,
            other => match other.as_int() {
                Some(n) => Some(n),
                None => return fail("slice indices must be integers or None"),
            },
        };
    }
    let (step, length) = (numbers[2].unwrap_or(1), length as i128);
    if step == 0 {
        return fail("slice step cannot be zero");
    }
    let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let clamped = |n: Option<i128>, default: i128| match n {
        None => default,
        Some(n) if n < 0 => n.saturating_add(length).max(low),
        Some(n) => n.min(high),
    };
    let start = clamped(numbers[0], if step > 0 { low } else { high });
    let stop = clamped(numbers[1], if step > 0 { high } else { low });
    if step.unsigned_abs() > 1 << 62 {
        return unsupported("so long a step of a slice");
    }
    let range = Range { start, stop, step };
    Ok((range, range.len()))
}

pub fn slice(object: &Value, parts: &[Value; 3]) -> Result<Value> {
    let object = object.defined()?;
    let length = match object {
        Value::List(_) | Value::Tuple(_) | Value::Text(_) | Value::Range(_) | Value::Markup(_) => {
            object.length().unwrap_or(0)
        }
        // Python fails, but Jinja2 has an undefined value where it knows the whole expression beforehand.
        _ => return unsupported(format!("a slice of a value of the type '{}'", object.type_name())),
    };
    let (taken, count) = bounds(parts, length)?;
    let at = |i: usize| usize::try_from(taken.at(i)).unwrap_or(0);
    Ok(match object {
        Value::List(seq) => Value::list((0..count).map(|i| seq.items[at(i)].clone()).collect())?,
        Value::Tuple(seq) => Value::tuple((0..count).map(|i| seq.items[at(i)].clone()).collect())?,
        Value::Range(range) => Value::Range(Range {
            start: range.at_place(taken.start),
            stop: range.at_place(taken.stop),
            step: match taken.step.checked_mul(range.step) {
                Some(step) if step.unsigned_abs() < 1 << 100 => step,
                _ => return unsupported("so long a step of a range"),
            },
        }),
        Value::Text(text) | Value::Markup(text) => {
            let places: Vec<(usize, usize)> = text.marked().map(|(i, c, _)| (i, i + c.len_utf8())).collect();
            let part = match (taken.step, count) {
                (_, 0) => Text::of(""),
                (1, _) => text.slice(places[at(0)].0, places[at(count - 1)].1),
                _ => {
                    let mut out = Builder::default();
                    (0..count).for_each(|i| out.push_slice(text, places[at(i)].0, places[at(i)].1));
                    out.done()
                }
            };
            match object {
                Value::Markup(_) => Value::Markup(part),
                _ => Value::Text(part),
            }
        }
        _ => Value::None,
    })
}
