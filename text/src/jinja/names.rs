//! Which variable a name is: Jinja2's rules of scopes (its module `idtracking`), which decide before a template runs.
//!
//! A block has variables of its own for all names that it sets anywhere; as it begins, each of them gets the value of
//! the outer variable or of the context, or none. So a name that a template sets only later is not yet the variable of
//! the context.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use super::ast::{Args, Expr, For, Frame, If, Load, Macro, Slot, Stmt, Template};
use super::error::{unsupported, Error, Result};
use super::{filters, tests};

/// Names of a block while it is looked at.
#[derive(Clone, Default)]
struct Symbols {
    refs: HashMap<String, Slot>,
    loads: Vec<(Slot, Load)>,
    stores: BTreeSet<String>,
}

#[derive(Default)]
struct Names {
    /// The blocks around, outermost first.
    stack: Vec<Symbols>,
    /// One number for a name and a depth.
    slots: HashMap<(usize, String), Slot>,
    /// Inside of a loop of the same function.
    in_loop: bool,
    in_for: bool,
    /// In a branch, which may never run.
    soft: bool,
}

/// A template of which all names are resolved.
pub fn resolved(mut body: Vec<Stmt>) -> Result<Template> {
    let mut names = Names::default();
    names.stack.push(Symbols::default());
    names.see_all(&body);
    names.stmts(&mut body)?;
    Ok(Template {
        body,
        frame: names.pop(),
    })
}

impl Names {
    fn top(&mut self) -> &mut Symbols {
        if self.stack.is_empty() {
            self.stack.push(Symbols::default());
        }
        let last = self.stack.len() - 1;
        &mut self.stack[last]
    }

    fn pop(&mut self) -> Frame {
        Frame {
            loads: self.stack.pop().unwrap_or_default().loads,
        }
    }

    fn define(&mut self, name: &str, load: Load) -> Slot {
        let count = self.slots.len();
        let level = self.stack.len();
        let slot = *self.slots.entry((level, name.to_owned())).or_insert(count);
        let top = self.top();
        top.refs.insert(name.to_owned(), slot);
        set_load(&mut top.loads, slot, load);
        slot
    }

    fn find(&self, name: &str) -> Option<Slot> {
        self.stack.iter().rev().find_map(|s| s.refs.get(name).copied())
    }

    fn outer(&self, name: &str) -> Option<Slot> {
        let outer = self.stack.len().saturating_sub(1);
        self.stack[..outer].iter().rev().find_map(|s| s.refs.get(name).copied())
    }

    fn store(&mut self, name: &str) {
        self.top().stores.insert(name.to_owned());
        if !self.top().refs.contains_key(name) {
            let load = self.outer(name).map_or(Load::Missing, Load::Alias);
            self.define(name, load);
        }
    }

    fn parameter(&mut self, name: &str) -> Slot {
        self.top().stores.insert(name.to_owned());
        self.define(name, Load::Parameter)
    }

    fn load(&mut self, name: &str) {
        if self.find(name).is_none() {
            self.define(name, Load::Resolve(name.to_owned()));
        }
    }

    // What a block sees of its own statements.

    fn see_all(&mut self, body: &[Stmt]) {
        body.iter().for_each(|stmt| self.see(stmt));
    }

    fn see(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Data(_) | Stmt::Break | Stmt::Continue | Stmt::Call(_, None) => {}
            Stmt::Print(value) => self.see_expr(value),
            Stmt::Set(target, value) => {
                self.see_expr(value);
                self.see_target(target, false);
            }
            Stmt::SetBlock { target, .. } => self.see_target(target, false),
            Stmt::For(part) => self.see_expr(&part.iter),
            Stmt::If(branch) => self.see_if(branch),
            Stmt::With { values, .. } => values.iter().for_each(|v| self.see_expr(v)),
            Stmt::Macro(part) => {
                if let Some(name) = &part.name {
                    self.store(name);
                }
            }
            Stmt::Call(_, Some(call)) => self.see_expr(call),
            Stmt::FilterBlock { filter, .. } => self.see_expr(filter),
        }
    }

    fn see_if(&mut self, branch: &If) {
        self.see_expr(&branch.test);
        let original = self.top().clone();
        let inner = |this: &mut Self, run: &mut dyn FnMut(&mut Self)| {
            *this.top() = original.clone();
            run(this);
            this.top().clone()
        };
        let branches = [
            inner(self, &mut |this| this.see_all(&branch.body)),
            inner(self, &mut |this| branch.elifs.iter().for_each(|b| this.see_if(b))),
            inner(self, &mut |this| this.see_all(&branch.other)),
        ];
        let stores: BTreeSet<String> = branches.iter().flat_map(|b| b.stores.iter().cloned()).collect();
        let stores: Vec<String> = stores.difference(&original.stores).cloned().collect();
        *self.top() = original;
        for one in branches {
            let top = self.top();
            top.refs.extend(one.refs);
            for (slot, load) in one.loads {
                set_load(&mut top.loads, slot, load);
            }
            top.stores.extend(one.stores);
        }
        for name in stores {
            if let Some(slot) = self.find(&name) {
                let load = self.outer(&name).map_or(Load::Resolve(name), Load::Alias);
                set_load(&mut self.top().loads, slot, load);
            }
        }
    }

    fn see_target(&mut self, target: &Expr, parameter: bool) {
        match target {
            Expr::Name(name, _) if parameter => {
                self.parameter(name);
            }
            Expr::Name(name, _) => self.store(name),
            Expr::Field(name, ..) => self.load(name),
            Expr::Tuple(items) => items.iter().for_each(|item| self.see_target(item, parameter)),
            _ => {}
        }
    }

    fn see_expr(&mut self, expr: &Expr) {
        each_name(expr, &mut |name| self.load(name));
    }

    // Gives all names of statements their variables.

    fn stmts(&mut self, body: &mut [Stmt]) -> Result<()> {
        body.iter_mut().try_for_each(|stmt| self.stmt(stmt))
    }

    fn stmt(&mut self, stmt: &mut Stmt) -> Result<()> {
        match stmt {
            Stmt::Data(_) => Ok(()),
            Stmt::Print(value) => self.expr(value),
            Stmt::Set(target, value) => {
                self.expr(value)?;
                self.target(target)
            }
            Stmt::SetBlock {
                target,
                filter,
                body,
                frame,
            } => {
                self.target(target)?;
                self.stack.push(Symbols::default());
                self.see_all(body);
                let soft = std::mem::take(&mut self.soft);
                self.stmts(body)?;
                filter.iter_mut().try_for_each(|f| self.expr(f))?;
                self.soft = soft;
                *frame = self.pop();
                Ok(())
            }
            Stmt::For(part) => self.for_loop(unique(part)?),
            Stmt::If(branch) => {
                let soft = std::mem::replace(&mut self.soft, true);
                self.branch(branch)?;
                self.soft = soft;
                Ok(())
            }
            Stmt::With {
                targets,
                values,
                body,
                frame,
            } => {
                values.iter_mut().try_for_each(|v| self.expr(v))?;
                self.stack.push(Symbols::default());
                targets.iter().for_each(|t| self.see_target(t, true));
                self.see_all(body);
                targets.iter_mut().try_for_each(|t| self.target(t))?;
                let soft = std::mem::take(&mut self.soft);
                self.stmts(body)?;
                self.soft = soft;
                *frame = self.pop();
                Ok(())
            }
            Stmt::Macro(part) => {
                let part = unique(part)?;
                part.slot = part.name.as_deref().and_then(|n| self.find(n)).unwrap_or(part.slot);
                self.macro_body(part)
            }
            Stmt::Call(part, call) => {
                call.iter_mut().try_for_each(|c| self.expr(c))?;
                self.macro_body(unique(part)?)
            }
            Stmt::FilterBlock { filter, body, frame } => {
                self.stack.push(Symbols::default());
                self.see_all(body);
                self.see_expr(filter);
                let soft = std::mem::take(&mut self.soft);
                self.stmts(body)?;
                self.expr(filter)?;
                self.soft = soft;
                *frame = self.pop();
                Ok(())
            }
            Stmt::Break | Stmt::Continue if self.in_loop => Ok(()),
            Stmt::Break | Stmt::Continue => Err(Error::Syntax("break or continue outside of a loop".to_owned())),
        }
    }

    fn branch(&mut self, branch: &mut If) -> Result<()> {
        self.expr(&mut branch.test)?;
        self.stmts(&mut branch.body)?;
        branch.elifs.iter_mut().try_for_each(|b| self.branch(b))?;
        self.stmts(&mut branch.other)
    }

    fn for_loop(&mut self, part: &mut For) -> Result<()> {
        self.expr(&mut part.iter)?;
        let soft = std::mem::take(&mut self.soft);
        let (in_loop, in_for) = (self.in_loop, std::mem::replace(&mut self.in_for, true));
        if !part.other.is_empty() {
            self.in_loop = in_loop && !part.recursive;
            self.stack.push(Symbols::default());
            self.see_all(&part.other);
            self.stmts(&mut part.other)?;
            part.other_frame = self.pop();
        }
        if let Some(test) = &mut part.test {
            self.stack.push(Symbols::default());
            self.see_target(&part.target, true);
            self.see_expr(test);
            self.expr(test)?;
            part.test_frame = self.pop();
        }
        self.stack.push(Symbols::default());
        let mut uses_loop = part.recursive;
        each_use(&part.body, &mut |name| uses_loop |= name == "loop");
        if uses_loop {
            part.loop_slot = Some(self.parameter("loop"));
        }
        self.see_target(&part.target, true);
        self.see_all(&part.body);
        self.target(&mut part.target)?;
        self.in_loop = true;
        self.stmts(&mut part.body)?;
        part.frame = self.pop();
        (self.in_loop, self.in_for, self.soft) = (in_loop, in_for, soft);
        Ok(())
    }

    fn macro_body(&mut self, part: &mut Macro) -> Result<()> {
        let (soft, in_loop) = (std::mem::take(&mut self.soft), std::mem::take(&mut self.in_loop));
        self.stack.push(Symbols::default());
        self.see_macro(part);
        let used = specials(&part.body);
        let has = |part: &Macro, name: &str| part.args.iter().position(|(n, _)| n == name);
        if used.contains("caller") {
            match has(part, "caller") {
                Some(at) if part.args.len() - at > part.defaults.len() => {
                    let problem = "the special \"caller\" argument must be omitted or be given a default";
                    return Err(Error::Syntax(problem.to_owned()));
                }
                Some(_) => {}
                None => part.caller = Some(self.parameter("caller")),
            }
        }
        if used.contains("kwargs") && has(part, "kwargs").is_none() {
            part.kwargs = Some(self.parameter("kwargs"));
        }
        if used.contains("varargs") && has(part, "varargs").is_none() {
            part.varargs = Some(self.parameter("varargs"));
        }
        self.see_macro(part);
        for (name, slot) in &mut part.args {
            *slot = self.find(name).unwrap_or(*slot);
        }
        part.defaults.iter_mut().try_for_each(|d| self.expr(d))?;
        self.stmts(&mut part.body)?;
        part.frame = self.pop();
        (self.soft, self.in_loop) = (soft, in_loop);
        Ok(())
    }

    fn see_macro(&mut self, part: &Macro) {
        for (name, _) in &part.args {
            self.parameter(name);
        }
        part.defaults.iter().for_each(|d| self.see_expr(d));
        self.see_all(&part.body);
    }

    fn target(&mut self, target: &mut Expr) -> Result<()> {
        match target {
            Expr::Name(name, _) if name == "loop" && self.in_for => {
                let problem = "Can't assign to special loop variable in for-loop target";
                Err(Error::Syntax(problem.to_owned()))
            }
            Expr::Name(name, slot) | Expr::Field(name, slot, _) => {
                *slot = self.slot(name)?;
                Ok(())
            }
            Expr::Tuple(items) => items.iter_mut().try_for_each(|item| self.target(item)),
            _ => Ok(()),
        }
    }

    fn slot(&self, name: &str) -> Result<Slot> {
        // Jinja2 fails on an assertion here.
        let unknown = || Error::Syntax(format!("the name {name:?} cannot be resolved"));
        self.find(name).ok_or_else(unknown)
    }

    fn expr(&mut self, expr: &mut Expr) -> Result<()> {
        match expr {
            Expr::Const(_) => Ok(()),
            Expr::Name(name, slot) => {
                *slot = self.slot(name)?;
                if name == "self" {
                    return unsupported("the variable self");
                }
                Ok(())
            }
            Expr::Field(..) => Ok(()),
            Expr::Tuple(items) | Expr::List(items) | Expr::Concat(items) => {
                items.iter_mut().try_for_each(|item| self.expr(item))
            }
            Expr::Dict(items) => items.iter_mut().try_for_each(|(key, value)| {
                self.expr(key)?;
                self.expr(value)
            }),
            Expr::Slice(parts) => parts.iter_mut().flatten().try_for_each(|part| self.expr(part)),
            Expr::Cond(test, value, other) => {
                let soft = std::mem::replace(&mut self.soft, true);
                self.expr(test)?;
                self.expr(value)?;
                other.iter_mut().try_for_each(|o| self.expr(o))?;
                self.soft = soft;
                Ok(())
            }
            Expr::Or(a, b) | Expr::And(a, b) | Expr::Binary(_, a, b) | Expr::Item(a, b) => {
                self.expr(a)?;
                self.expr(b)
            }
            Expr::Not(a) | Expr::Unary(_, a) | Expr::Attribute(a, _) => self.expr(a),
            Expr::Compare(a, ops) => {
                self.expr(a)?;
                ops.iter_mut().try_for_each(|(_, b)| self.expr(b))
            }
            Expr::Call(a, args) => {
                self.expr(a)?;
                self.args(args)
            }
            Expr::Filter(a, name, args) => {
                a.iter_mut().try_for_each(|a| self.expr(a))?;
                self.args(args)?;
                match self.soft || filters::is_known(name) {
                    true => Ok(()),
                    false => Err(Error::Syntax(format!("No filter named '{name}'"))),
                }
            }
            Expr::Test(a, name, args) => {
                self.expr(a)?;
                self.args(args)?;
                match self.soft || tests::is_known(name) {
                    true => Ok(()),
                    false => Err(Error::Syntax(format!("No test named '{name}'"))),
                }
            }
        }
    }

    fn args(&mut self, args: &mut Args) -> Result<()> {
        args.args.iter_mut().try_for_each(|a| self.expr(a))?;
        args.named.iter_mut().try_for_each(|(_, a)| self.expr(a))?;
        args.rest.iter_mut().try_for_each(|a| self.expr(a))?;
        args.rest_named.iter_mut().try_for_each(|a| self.expr(a))
    }
}

fn set_load(loads: &mut Vec<(Slot, Load)>, slot: Slot, load: Load) {
    match loads.iter_mut().find(|(s, _)| *s == slot) {
        Some(found) => found.1 = load,
        None => loads.push((slot, load)),
    }
}

/// A part that nobody else holds, as all parts of a template that was just read.
fn unique<T>(part: &mut Rc<T>) -> Result<&mut T> {
    Rc::get_mut(part).ok_or_else(|| Error::Syntax("a part of the template is shared".to_owned()))
}

/// All names that an expression reads.
fn each_name(expr: &Expr, see: &mut dyn FnMut(&str)) {
    match expr {
        Expr::Const(_) => {}
        Expr::Name(name, _) => see(name),
        Expr::Field(name, ..) => see(name),
        Expr::Tuple(items) | Expr::List(items) | Expr::Concat(items) => items.iter().for_each(|i| each_name(i, see)),
        Expr::Dict(items) => items.iter().for_each(|(key, value)| {
            each_name(key, see);
            each_name(value, see);
        }),
        Expr::Slice(parts) => parts.iter().flatten().for_each(|part| each_name(part, see)),
        Expr::Cond(test, value, other) => {
            each_name(test, see);
            each_name(value, see);
            other.iter().for_each(|o| each_name(o, see));
        }
        Expr::Or(a, b) | Expr::And(a, b) | Expr::Binary(_, a, b) | Expr::Item(a, b) => {
            each_name(a, see);
            each_name(b, see);
        }
        Expr::Not(a) | Expr::Unary(_, a) | Expr::Attribute(a, _) => each_name(a, see),
        Expr::Compare(a, ops) => {
            each_name(a, see);
            ops.iter().for_each(|(_, b)| each_name(b, see));
        }
        Expr::Call(a, args) | Expr::Test(a, _, args) => {
            each_name(a, see);
            args_names(args, see);
        }
        Expr::Filter(a, _, args) => {
            a.iter().for_each(|a| each_name(a, see));
            args_names(args, see);
        }
    }
}

fn args_names(args: &Args, see: &mut dyn FnMut(&str)) {
    args.args.iter().for_each(|a| each_name(a, see));
    args.named.iter().for_each(|(_, a)| each_name(a, see));
    args.rest.iter().for_each(|a| each_name(a, see));
    args.rest_named.iter().for_each(|a| each_name(a, see));
}

/// Uses of names in statements, inner blocks included; targets are not among them.
fn each_use(body: &[Stmt], see: &mut dyn FnMut(&str)) {
    walk(body, &mut |name, is_use| {
        if is_use {
            see(name);
        }
    });
}

/// The special names of macros that a body uses before it sets them.
fn specials(body: &[Stmt]) -> BTreeSet<&'static str> {
    let mut names: BTreeSet<&'static str> = ["caller", "kwargs", "varargs"].into();
    let mut used = BTreeSet::new();
    walk(body, &mut |name, is_use| {
        let Some(special) = names.get(name).copied() else {
            return;
        };
        match is_use {
            true => drop(used.insert(special)),
            false => drop(names.remove(special)),
        }
    });
    used
}

/// All names of statements in the order of the tree, and whether they are read.
fn walk(body: &[Stmt], see: &mut dyn FnMut(&str, bool)) {
    let target = |target: &Expr, see: &mut dyn FnMut(&str, bool)| each_name(target, &mut |name| see(name, false));
    fn read(expr: &Expr, see: &mut dyn FnMut(&str, bool)) {
        each_name(expr, &mut |name| see(name, true));
    }
    fn branch(one: &If, see: &mut dyn FnMut(&str, bool)) {
        read(&one.test, see);
        walk(&one.body, see);
        one.elifs.iter().for_each(|b| branch(b, see));
        walk(&one.other, see);
    }
    fn part(one: &Macro, see: &mut dyn FnMut(&str, bool)) {
        one.args.iter().for_each(|(name, _)| see(name, false));
        one.defaults.iter().for_each(|d| read(d, see));
        walk(&one.body, see);
    }
    for stmt in body {
        match stmt {
            Stmt::Data(_) | Stmt::Break | Stmt::Continue => {}
            Stmt::Print(value) => read(value, see),
            Stmt::Set(to, value) => {
                target(to, see);
                read(value, see);
            }
            Stmt::SetBlock {
                target: to,
                filter,
                body,
                ..
            } => {
                target(to, see);
                filter.iter().for_each(|f| read(f, see));
                walk(body, see);
            }
            Stmt::For(one) => {
                target(&one.target, see);
                read(&one.iter, see);
                walk(&one.body, see);
                walk(&one.other, see);
                one.test.iter().for_each(|t| read(t, see));
            }
            Stmt::If(one) => branch(one, see),
            Stmt::With {
                targets, values, body, ..
            } => {
                targets.iter().for_each(|t| target(t, see));
                values.iter().for_each(|v| read(v, see));
                walk(body, see);
            }
            Stmt::Macro(one) => part(one, see),
            Stmt::Call(one, call) => {
                call.iter().for_each(|c| read(c, see));
                part(one, see);
            }
            Stmt::FilterBlock { filter, body, .. } => {
                walk(body, see);
                read(filter, see);
            }
        }
    }
}
