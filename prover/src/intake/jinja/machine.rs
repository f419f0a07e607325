//! Runs a template: statements and variables.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use super::ast::{Args, Expr, For, Frame, Load, Macro, Stmt, Template};
use super::error::{fail, unsupported, Error, Result};
use super::objects;
use super::print;
use super::scope::Scope;
use super::text::{Builder, Text};
use super::value::{self, Dict, Feed, Loop, Source, Value};

/// Statements and expressions in one another while a template runs.
const DEPTH: usize = 1500;
/// Steps of a template; those of the hub take some hundred for a message.
const FUEL: u64 = 10_000_000;
/// So many bytes of a result count as a step.
const BYTES_A_STEP: usize = 64;

/// A template at work.
pub struct Machine {
    context: HashMap<String, Value>,
    outputs: Vec<Builder>,
    fuel: u64,
    depth: usize,
    /// The most bytes of the prompt.
    limit: usize,
    /// Seconds since 1970.
    pub now: u64,
    /// Scopes that a macro still holds; they are ended when the template is.
    held: Vec<Rc<Scope>>,
}

/// Arguments of a call.
#[derive(Debug, Default)]
pub struct Call {
    pub args: Vec<Value>,
    pub named: Vec<(String, Value)>,
}

/// How a block ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Go,
    Break,
    Continue,
}

/// The prompt that a template makes, of at most `limit` bytes.
pub fn run(template: &Template, context: HashMap<String, Value>, now: u64, limit: usize) -> Result<Text> {
    let mut machine = Machine {
        context,
        outputs: vec![Builder::default()],
        fuel: FUEL,
        depth: 0,
        limit,
        now,
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
    Ok(machine.outputs.pop().unwrap_or_default().done())
}

impl Machine {
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
        self.context.get(name).cloned().or_else(|| objects::global(name))
    }

    /// Gives the variables of a block their first values.
    fn enter(&self, frame: &Frame, scope: &Scope) {
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

    fn leave(frame: &Frame, scope: &Scope) {
        frame.loads.iter().for_each(|(slot, _)| scope.set(*slot, None));
    }

    /// The end of a scope; a macro that holds it may still use it.
    fn end(&mut self, scope: Rc<Scope>) {
        if Rc::strong_count(&scope) > 1 {
            self.held.push(scope);
        }
    }

    fn write(&mut self, text: &Text) -> Result<()> {
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

    /// What a block writes.
    fn captured<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<(Text, T)> {
        self.outputs.push(Builder::default());
        let result = work(self);
        let text = self.outputs.pop().unwrap_or_default().done();
        Ok((text, result?))
    }

    fn body(&mut self, body: &[Stmt], scope: &Rc<Scope>) -> Result<Flow> {
        for stmt in body {
            let flow = self.deeper(|this| this.stmt(stmt, scope))?;
            if flow != Flow::Go {
                return Ok(flow);
            }
        }
        Ok(Flow::Go)
    }

    fn stmt(&mut self, stmt: &Stmt, scope: &Rc<Scope>) -> Result<Flow> {
        self.step(1)?;
        match stmt {
            Stmt::Data(text) => self.write(&Text::of(text))?,
            Stmt::Print(value) => {
                let value = self.eval(value, scope)?;
                self.write(&print::text(&value)?)?;
            }
            Stmt::Set(target, value) => {
                let value = self.eval(value, scope)?;
                self.assign(target, value, scope)?;
            }
            Stmt::SetBlock {
                target,
                filter,
                body,
                frame,
            } => {
                self.enter(frame, scope);
                let (text, flow) = self.captured(|this| this.body(body, scope))?;
                if flow != Flow::Go {
                    return Ok(flow);
                }
                let mut value = Value::Text(text);
                if let Some(filter) = filter {
                    value = self.block_filter(filter, value, scope)?;
                }
                self.assign(target, value, scope)?;
                Self::leave(frame, scope);
            }
            Stmt::For(part) => return self.for_loop(part, scope),
            Stmt::If(branch) => {
                if self.eval(&branch.test, scope)?.truth() {
                    return self.body(&branch.body, scope);
                }
                for elif in &branch.elifs {
                    if self.eval(&elif.test, scope)?.truth() {
                        return self.body(&elif.body, scope);
                    }
                }
                return self.body(&branch.other, scope);
            }
            Stmt::With {
                targets,
                values,
                body,
                frame,
            } => {
                self.enter(frame, scope);
                for (target, value) in targets.iter().zip(values) {
                    let value = self.eval(value, scope)?;
                    self.assign(target, value, scope)?;
                }
                let flow = self.body(body, scope)?;
                if flow == Flow::Go {
                    Self::leave(frame, scope);
                }
                return Ok(flow);
            }
            Stmt::Macro(code) => scope.set(code.slot, Some(new_macro(code, scope))),
            Stmt::Call(code, call) => {
                let caller = new_macro(code, scope);
                let value = match call {
                    None => self.call(&caller, Call::default())?,
                    Some(Expr::Call(callee, args)) => {
                        let callee = self.eval(callee, scope)?;
                        let mut call = self.args(args, scope)?;
                        call.named.push(("caller".to_owned(), caller));
                        self.call(&callee, call)?
                    }
                    Some(_) => return fail("expected call"),
                };
                self.write(&print::text(&value)?)?;
            }
            Stmt::FilterBlock { filter, body, frame } => {
                self.enter(frame, scope);
                let (text, flow) = self.captured(|this| this.body(body, scope))?;
                if flow != Flow::Go {
                    return Ok(flow);
                }
                let value = self.block_filter(filter, Value::Text(text), scope)?;
                self.write(&print::text(&value)?)?;
                Self::leave(frame, scope);
            }
            Stmt::Break => return Ok(Flow::Break),
            Stmt::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Go)
    }

    /// The filter of a block applied to what it wrote.
    fn block_filter(&mut self, filter: &Expr, value: Value, scope: &Rc<Scope>) -> Result<Value> {
        match filter {
            Expr::Filter(inner, name, args) => {
                let value = match inner {
                    Some(inner) => self.block_filter(inner, value, scope)?,
                    None => value,
                };
                let call = self.args(args, scope)?;
                self.filter(name, value, call)
            }
            other => self.eval(other, scope),
        }
    }

    fn assign(&mut self, target: &Expr, value: Value, scope: &Rc<Scope>) -> Result<()> {
        match target {
            Expr::Name(_, slot) => {
                scope.set(*slot, Some(value));
                Ok(())
            }
            Expr::Field(_, slot, field) => match scope.get(*slot) {
                Some(Value::Namespace(namespace)) => namespace.set(field, value),
                _ => fail("cannot assign attribute on non-namespace object"),
            },
            Expr::Tuple(targets) => {
                let items = value.items()?;
                if items.len() != targets.len() {
                    let (expected, got) = (targets.len(), items.len());
                    return fail(format!("{got} values to unpack, expected {expected}"));
                }
                let mut pairs = targets.iter().zip(items);
                pairs.try_for_each(|(target, item)| self.assign(target, item, scope))
            }
            _ => fail("can't assign to this"),
        }
    }

    fn for_loop(&mut self, part: &Rc<For>, scope: &Rc<Scope>) -> Result<Flow> {
        let iterable = self.eval(&part.iter, scope)?;
        if part.recursive {
            let text = self.recurse(part, scope, &iterable, 0)?;
            self.write(&text)?;
            return Ok(Flow::Go);
        }
        self.run_loop(part, scope, &iterable, 0, scope)
    }

    /// A recursive loop is a function of its own.
    pub fn recurse(&mut self, part: &Rc<For>, defined: &Rc<Scope>, iterable: &Value, depth0: i128) -> Result<Text> {
        let scope = Scope::inside(defined);
        let result = self.captured(|this| this.run_loop(part, &scope, iterable, depth0, defined));
        self.end(scope);
        Ok(result?.0)
    }

    fn run_loop(
        &mut self,
        part: &Rc<For>,
        scope: &Rc<Scope>,
        iterable: &Value,
        depth0: i128,
        defined: &Rc<Scope>,
    ) -> Result<Flow> {
        let test = part.test.as_ref().map(|_| {
            let inner = Scope::inside(scope);
            self.enter(&part.test_frame, &inner);
            (Rc::clone(part), inner)
        });
        let state = Rc::new(Loop {
            feed: RefCell::new(Feed {
                source: iterable.source()?,
                test,
            }),
            index0: Cell::new(-1),
            length: Cell::new(None),
            after: RefCell::default(),
            current: RefCell::default(),
            before: RefCell::default(),
            changed: RefCell::default(),
            depth0,
            recurse: part.recursive.then(|| (Rc::clone(part), Rc::clone(defined))),
            depth: 1 + iterable.depth(),
        });
        if state.depth > 100 {
            return Err(Error::Limit("values are nested too deep".to_owned()));
        }
        let mut nothing = true;
        loop {
            let after = state.after.borrow_mut().take();
            let item = match after {
                Some(item) => Some(item),
                None => self.pull(&state)?,
            };
            let Some(item) = item else {
                break;
            };
            self.step(1)?;
            state.index0.set(state.index0.get() + 1);
            let before = state.current.borrow_mut().replace(item.clone());
            *state.before.borrow_mut() = before;
            self.assign(&part.target, item, scope)?;
            if let Some(slot) = part.loop_slot {
                scope.set(slot, Some(Value::Loop(Rc::clone(&state))));
            }
            self.enter(&part.frame, scope);
            match self.body(&part.body, scope)? {
                // As in Jinja2: a body that continues does not count for the `else` of the loop.
                Flow::Go => nothing = false,
                Flow::Continue => {}
                Flow::Break => break,
            }
        }
        Self::leave(&part.frame, scope);
        if let Some((_, inner)) = state.feed.borrow_mut().test.take() {
            self.end(inner);
        }
        if nothing && !part.other.is_empty() {
            self.enter(&part.other_frame, scope);
            let flow = self.body(&part.other, scope)?;
            Self::leave(&part.other_frame, scope);
            return Ok(flow);
        }
        Ok(Flow::Go)
    }

    /// The next item of a loop that passes its condition.
    pub fn pull(&mut self, state: &Loop) -> Result<Option<Value>> {
        loop {
            let (item, test) = {
                let mut feed = state.feed.borrow_mut();
                let item = match &mut feed.source {
                    Source::Items(seq, at) => {
                        *at += 1;
                        seq.items.get(*at - 1).cloned()
                    }
                    Source::Once(items) => items.borrow_mut().pop_front(),
                };
                (item, feed.test.clone())
            };
            let (Some(item), Some((part, scope))) = (item.clone(), test) else {
                return Ok(item);
            };
            self.step(1)?;
            self.assign(&part.target, item.clone(), &scope)?;
            let Some(test) = &part.test else {
                return Ok(Some(item));
            };
            if self.deeper(|this| this.eval(test, &scope))?.truth() {
                return self.assigned(&part.target, &scope).map(Some);
            }
        }
    }

    /// What was assigned to a target.
    fn assigned(&mut self, target: &Expr, scope: &Rc<Scope>) -> Result<Value> {
        match target {
            Expr::Tuple(items) => {
                let items = items.iter().map(|item| self.assigned(item, scope));
                Value::tuple(items.collect::<Result<_>>()?)
            }
            other => self.eval(other, scope),
        }
    }

    /// Arguments of a call.
    pub fn args(&mut self, args: &Args, scope: &Rc<Scope>) -> Result<Call> {
        let mut call = Call::default();
        for arg in &args.args {
            call.args.push(self.eval(arg, scope)?);
        }
        for (name, arg) in &args.named {
            let value = self.eval(arg, scope)?;
            call.name(name, value)?;
        }
        if let Some(rest) = &args.rest {
            call.args.extend(self.eval(rest, scope)?.items()?);
        }
        if let Some(rest) = &args.rest_named {
            let Value::Dict(dict) = self.eval(rest, scope)? else {
                return fail("argument after ** must be a mapping");
            };
            for (key, value) in dict.entries() {
                match key.as_text() {
                    Some(key) => call.name(key.as_str(), value.clone())?,
                    None => return fail("keywords must be strings"),
                }
            }
        }
        Ok(call)
    }

    pub fn call_macro(&mut self, code: &Rc<Macro>, defined: &Rc<Scope>, mut call: Call) -> Result<Value> {
        let name = code.name.as_deref().unwrap_or("anonymous");
        let scope = Scope::inside(defined);
        let count = code.args.len();
        let mut given = std::mem::take(&mut call.args).into_iter();
        for (arg, slot) in &code.args {
            let value = given.next().or_else(|| call.take(arg));
            scope.set(*slot, value);
        }
        let rest: Vec<Value> = given.collect();
        if let Some(slot) = code.caller {
            let caller = call.take("caller").filter(|c| !matches!(c, Value::None));
            scope.set(slot, Some(caller.unwrap_or_else(|| Value::hinted("No caller defined"))));
        }
        match code.kwargs {
            Some(slot) => {
                let mut dict = Dict::default();
                for (name, value) in call.named {
                    dict.insert(Value::text(&name), value)?;
                }
                scope.set(slot, Some(Value::Dict(Rc::new(dict))));
            }
            None => {
                if let Some((arg, _)) = call.named.first() {
                    return fail(format!("macro '{name}' takes no keyword argument '{arg}'"));
                }
            }
        }
        match code.varargs {
            Some(slot) => scope.set(slot, Some(Value::tuple(rest)?)),
            None if !rest.is_empty() => {
                return fail(format!("macro '{name}' takes not more than {count} argument(s)"));
            }
            None => {}
        }
        self.enter(&code.frame, &scope);
        let first = count - code.defaults.len().min(count);
        let result = self.captured(|this| {
            for (at, (arg, slot)) in code.args.iter().enumerate() {
                if scope.get(*slot).is_some() {
                    continue;
                }
                let value = match at.checked_sub(first).and_then(|at| code.defaults.get(at)) {
                    Some(default) => this.eval(default, &scope)?,
                    None => Value::hinted(format!("parameter '{arg}' was not provided")),
                };
                scope.set(*slot, Some(value));
            }
            this.deeper(|this| this.body(&code.body, &scope))
        });
        self.end(scope);
        Ok(Value::Text(result?.0))
    }
}

fn new_macro(code: &Rc<Macro>, scope: &Rc<Scope>) -> Value {
    Value::Macro(Rc::new(value::Macro {
        code: Rc::clone(code),
        scope: Rc::clone(scope),
    }))
}

impl Call {
    fn name(&mut self, name: &str, value: Value) -> Result<()> {
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
