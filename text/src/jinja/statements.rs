//! Runs a template: statements.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::ast::{Args, Expr, For, Macro, Stmt};
use super::call::Call;
use super::error::{fail, Error, Result};
use super::machine::Machine;
use super::print;
use super::text::Text;
use super::value::{self, Dict, Feed, Loop, Scope, Source, Value};

/// How a block ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Go,
    Break,
    Continue,
}

impl Machine {
    pub fn body(&mut self, body: &[Stmt], scope: &Rc<Scope>) -> Result<Flow> {
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

    /// Reads back the values that were assigned to a target.
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
