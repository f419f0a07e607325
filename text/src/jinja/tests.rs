//! Jinja2's tests: `value is name(..)`.

use super::call::{needed, Call};
use super::error::{fail, Result};
use super::filters;
use super::letters;
use super::machine::Machine;
use super::operators;
use super::print;
use super::value::{Key, Value};

const NAMES: [&str; 39] = [
    "odd",
    "even",
    "divisibleby",
    "defined",
    "undefined",
    "filter",
    "test",
    "none",
    "boolean",
    "false",
    "true",
    "integer",
    "float",
    "lower",
    "upper",
    "string",
    "mapping",
    "number",
    "sequence",
    "iterable",
    "callable",
    "sameas",
    "escaped",
    "in",
    "==",
    "eq",
    "equalto",
    "!=",
    "ne",
    ">",
    "gt",
    "greaterthan",
    "ge",
    ">=",
    "<",
    "lt",
    "lessthan",
    "<=",
    "le",
];

pub fn is_known(name: &str) -> bool {
    NAMES.contains(&name)
}

impl Machine {
    pub fn test(&mut self, name: &str, value: &Value, call: Call) -> Result<bool> {
        let comparison = match name {
            "==" | "eq" | "equalto" => Some("=="),
            "!=" | "ne" => Some("!="),
            ">" | "gt" | "greaterthan" => Some(">"),
            ">=" | "ge" => Some(">="),
            "<" | "lt" | "lessthan" => Some("<"),
            "<=" | "le" => Some("<="),
            "in" => Some("in"),
            _ => None,
        };
        if let Some(op) = comparison {
            let [other] = call.bind(name, [if op == "in" { "seq" } else { "" }])?;
            let other = needed(other, name)?;
            self.step(operators::effort(value, &other))?;
            return operators::compare(op, value, &other);
        }
        match name {
            "divisibleby" => {
                let [by] = call.bind(name, ["num"])?;
                let rest = operators::binary("%", value, &needed(by, name)?)?;
                return operators::equal(&rest, &Value::Int(0));
            }
            "sameas" => {
                let [other] = call.bind(name, ["other"])?;
                return same(value, &needed(other, name)?);
            }
            _ => {}
        }
        if !is_known(name) {
            return fail(format!("No test named '{name}'"));
        }
        let [] = call.bind(name, [])?;
        Ok(match name {
            "odd" | "even" => {
                let rest = operators::binary("%", value, &Value::Int(2))?;
                operators::equal(&rest, &Value::Int(i128::from(name == "odd")))?
            }
            "defined" => !value.is_undefined(),
            "undefined" => value.is_undefined(),
            "filter" | "test" => {
                Key::of(value)?;
                let known = if name == "filter" { filters::is_known } else { is_known };
                value.as_text().is_some_and(|t| known(t.as_str()))
            }
            "none" => matches!(value, Value::None),
            "boolean" => matches!(value, Value::Bool(_)),
            "false" => matches!(value, Value::Bool(false)),
            "true" => matches!(value, Value::Bool(true)),
            "integer" => matches!(value, Value::Int(_)),
            "float" => matches!(value, Value::Float(_)),
            "lower" => letters::is_lower(print::text(value)?.as_str()),
            "upper" => letters::is_upper(print::text(value)?.as_str()),
            "string" => value.as_text().is_some(),
            "mapping" => matches!(value, Value::Dict(_)),
            "number" => value.as_float().is_some(),
            "sequence" => matches!(
                value,
                Value::Undefined(_)
                    | Value::Text(_)
                    | Value::Markup(_)
                    | Value::List(_)
                    | Value::Tuple(_)
                    | Value::Dict(_)
                    | Value::Range(_)
            ),
            "iterable" => value.is_iterable(),
            "callable" => value.is_callable(),
            _ => matches!(value, Value::Markup(_)),
        })
    }
}

/// Python's `is`, where it does not depend on how Python stores values.
fn same(a: &Value, b: &Value) -> Result<bool> {
    match (a, b) {
        (Value::None, Value::None) => Ok(true),
        (Value::Bool(x), Value::Bool(y)) => Ok(x == y),
        _ if std::mem::discriminant(a) != std::mem::discriminant(b) => Ok(false),
        _ => super::error::unsupported(format!("sameas of two values of the type '{}'", a.type_name())),
    }
}
