//! Runs a template: statements and variables.

use std::collections::HashMap;
use std::rc::Rc;

use super::ast::{Frame, Load, Template};
use super::error::{Error, Result};
use super::text::{Builder, Text};
use super::value::{self, Scope, Value};

/// Statements and expressions in one another while a template runs.
const DEPTH: usize = 1500;
/// Steps of a template; those of the hub take some hundred for a message.
const FUEL: u64 = 10_000_000;
/// So many bytes of a result count as a step.
const BYTES_A_STEP: usize = 64;

/// The functions that every template can call.
const FUNCTIONS: [&str; 8] = [
    "range",
    "dict",
    "lipsum",
    "cycler",
    "joiner",
    "namespace",
    "raise_exception",
    "strftime_now",
];

/// A template at work.
pub struct Machine {
    context: HashMap<String, Value>,
    outputs: Vec<Builder>,
    fuel: u64,
    depth: usize,
    /// The most bytes of the prompt.
    limit: usize,
    /// Seconds since 1970, if anybody has said it.
    now: Option<u64>,
    dated: bool,
    /// Scopes that a macro still holds; they are ended when the template is.
    held: Vec<Rc<Scope>>,
}

/// A prompt that a template has made.
#[derive(Debug)]
pub struct Rendered {
    pub text: Text,
    /// Whether the template has asked for the present time.
    pub dated: bool,
}

/// The prompt that a template makes, of at most `limit` bytes.
pub fn run(template: &Template, context: HashMap<String, Value>, now: Option<u64>, limit: usize) -> Result<Rendered> {
    let mut machine = Machine {
        context,
        outputs: vec![Builder::default()],
        fuel: FUEL,
        depth: 0,
        limit,
        now,
        dated: false,
        held: Vec::new(),
    };
    let scope = Rc::new(Scope::default());
    machine.enter(&template.frame, &scope);
    let result = machine.body(&template.body, &scope);
    scope.clear();
    for scope in std::mem::take(&mut machine.held) {
        scope.clear();
    }
    result?;
    Ok(Rendered {
        text: machine.outputs.pop().unwrap_or_default().done(),
        dated: machine.dated,
    })
}

impl Machine {
    /// The present time, in seconds since 1970.
    pub fn clock(&mut self) -> Result<u64> {
        self.dated = true;
        self.now.ok_or(Error::NoTime)
    }

    /// Takes steps.
    pub fn step(&mut self, steps: u64) -> Result<()> {
        match self.fuel.checked_sub(steps) {
            Some(left) => {
                self.fuel = left;
                Ok(())
            }
            None => Err(Error::Limit("it takes too many steps (its fuel is used up)".to_owned())),
        }
    }

    /// Takes steps for the size of a result.
    pub fn charged(&mut self, value: Value) -> Result<Value> {
        let size = match &value {
            Value::Text(text) | Value::Markup(text) => text.len(),
            Value::List(seq) | Value::Tuple(seq) => 32 * seq.items.len(),
            Value::Iter(items, _) => 32 * items.borrow().len(),
            Value::Dict(dict) => 128 * dict.len(),
            _ => 0,
        };
        self.step((size / BYTES_A_STEP) as u64)?;
        Ok(value)
    }

    /// Runs something one level deeper.
    pub fn deeper<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= DEPTH {
            return Err(Error::Limit("its recursion is too deep".to_owned()));
        }
        self.depth += 1;
        let result = work(self);
        self.depth -= 1;
        result
    }

    fn resolve(&self, name: &str) -> Option<Value> {
        let function = FUNCTIONS.into_iter().find(|f| *f == name).map(Value::Function);
        self.context.get(name).cloned().or(function)
    }

    /// Gives the variables of a block their first values.
    pub fn enter(&self, frame: &Frame, scope: &Scope) {
        for (slot, load) in &frame.loads {
            match load {
                Load::Parameter => {}
                Load::Resolve(name) => scope.set(*slot, self.resolve(name)),
                Load::Alias(from) => scope.set(*slot, scope.get(*from)),
                Load::Missing => {}
            }
        }
        for (slot, load) in &frame.loads {
            if *load == Load::Missing {
                scope.set(*slot, None);
            }
        }
    }

    pub fn leave(frame: &Frame, scope: &Scope) {
        frame.loads.iter().for_each(|(slot, _)| scope.set(*slot, None));
    }

    /// The end of a scope; a macro that holds it may still use it.
    pub fn end(&mut self, scope: Rc<Scope>) {
        if Rc::strong_count(&scope) > 1 {
            self.held.push(scope);
        }
    }

    pub fn write(&mut self, text: &Text) -> Result<()> {
        let (root, limit) = (self.outputs.len() == 1, self.limit);
        if let Some(out) = self.outputs.last_mut() {
            if root && out.len() + text.len() > limit {
                return Err(Error::Limit(format!("it makes more than {limit} bytes")));
            }
            value::fits(out.len() + text.len())?;
            out.push_text(text);
        }
        self.step((text.len() / BYTES_A_STEP) as u64)
    }

    /// Runs a part of a template and captures the text that it writes.
    pub fn captured<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<(Text, T)> {
        self.outputs.push(Builder::default());
        let result = work(self);
        let text = self.outputs.pop().unwrap_or_default().done();
        Ok((text, result?))
    }
}
