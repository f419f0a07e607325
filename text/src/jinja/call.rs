//! Arguments of calls.

use super::error::{fail, unsupported, Error, Result};
use super::text::Text;
use super::value::Value;

/// Arguments of a call.
#[derive(Debug, Default)]
pub struct Call {
    pub args: Vec<Value>,
    pub named: Vec<(String, Value)>,
}

impl Call {
    /// Adds a keyword argument.
    pub fn name(&mut self, name: &str, value: Value) -> Result<()> {
        if self.named.iter().any(|(n, _)| n == name) {
            return fail(format!("keyword argument repeated: {name}"));
        }
        self.named.push((name.to_owned(), value));
        Ok(())
    }

    /// Takes a keyword argument out.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        let at = self.named.iter().position(|(n, _)| n == name)?;
        Some(self.named.remove(at).1)
    }

    /// The arguments by the names of parameters. Errors if there are others.
    pub fn bind<const N: usize>(mut self, what: &str, names: [&str; N]) -> Result<[Option<Value>; N]> {
        let count = self.args.len();
        if count > N {
            return fail(format!("{what}: {count} arguments, but it takes at most {N}"));
        }
        let mut given = std::mem::take(&mut self.args).into_iter();
        let mut bound = [const { None }; N];
        for (place, name) in bound.iter_mut().zip(names) {
            *place = given.next();
            // Parameters without a name are given by position.
            if let Some(value) = (!name.is_empty()).then(|| self.take(name)).flatten() {
                if place.is_some() {
                    return fail(format!("{what}: got multiple values for argument '{name}'"));
                }
                *place = Some(value);
            }
        }
        match self.named.first() {
            Some((name, _)) => fail(format!("{what}: unexpected keyword argument '{name}'")),
            None => Ok(bound),
        }
    }
}

/// An argument that must be there.
pub fn needed(value: Option<Value>, what: &str) -> Result<Value> {
    value.ok_or_else(|| Error::Runtime(format!("{what}: an argument is missing")))
}

/// An argument that is an integer.
pub fn integer(value: Option<Value>, default: i128, what: &str) -> Result<i128> {
    match value {
        None => Ok(default),
        Some(value) => match value.as_int() {
            Some(n) => Ok(n),
            None => fail(format!("{what}: '{}' object is no integer", value.type_name())),
        },
    }
}

/// A text that an argument is.
pub fn string(value: Option<Value>, what: &str) -> Result<Text> {
    match value {
        Some(Value::Text(text)) => Ok(text),
        Some(Value::Markup(_)) => unsupported(format!("{what} with what is safe")),
        Some(other) => fail(format!("{what}: expected a string, got '{}'", other.type_name())),
        None => fail(format!("{what}: an argument is missing")),
    }
}
