//! Filters of numbers.

use super::call::{integer, string, Call};
use super::error::{fail, unsupported, Result};
use super::print;
use super::text::Text;
use super::value::Value;

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

pub fn to_float(value: &Value) -> Result<Option<f64>> {
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

pub fn to_int(value: &Value, default: Value, base: i128) -> Result<Value> {
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

pub fn round(value: &Value, call: Call) -> Result<Value> {
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

pub fn file_size(value: &Value, call: Call) -> Result<Value> {
    let [binary] = call.bind("filesizeformat", ["binary"])?;
    let binary = binary.is_some_and(|b| b.truth());
    let Some(bytes) = to_float(value)? else {
        return fail("could not convert to float");
    };
    let base = if binary { 1024.0 } else { 1000.0 };
    Ok(Value::Text(Text::from(match bytes {
        1.0 => "1 Byte".to_owned(),
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
