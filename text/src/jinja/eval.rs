//! Runs a template: expressions.

use std::rc::Rc;

use super::ast::{Expr, Literal};
use super::error::{fail, unsupported, Result};
use super::machine::Machine;
use super::operators;
use super::print;
use super::sequences;
use super::text::Builder;
use super::value::{self, Dict, Scope, Value};

impl Machine {
    pub fn eval(&mut self, expr: &Expr, scope: &Rc<Scope>) -> Result<Value> {
        self.step(1)?;
        match expr {
            Expr::Const(literal) => Ok(spelled(literal)),
            Expr::Name(name, slot) => Ok(scope.get(*slot).unwrap_or_else(|| Value::undefined(name))),
            _ => self.deeper(|this| this.compound(expr, scope)),
        }
    }

    fn all(&mut self, items: &[Expr], scope: &Rc<Scope>) -> Result<Vec<Value>> {
        items.iter().map(|item| self.eval(item, scope)).collect()
    }

    fn compound(&mut self, expr: &Expr, scope: &Rc<Scope>) -> Result<Value> {
        match expr {
            Expr::Tuple(items) => Value::tuple(self.all(items, scope)?),
            Expr::List(items) => Value::list(self.all(items, scope)?),
            Expr::Dict(items) => {
                let mut dict = Dict::default();
                for (key, value) in items {
                    let key = self.eval(key, scope)?;
                    let value = self.eval(value, scope)?;
                    dict.insert(key, value)?;
                }
                Ok(Value::Dict(Rc::new(dict)))
            }
            Expr::Cond(test, value, other) => match (self.eval(test, scope)?.truth(), other) {
                (true, _) => self.eval(value, scope),
                (false, Some(other)) => self.eval(other, scope),
                (false, None) => Ok(Value::hinted(
                    "the inline if-expression evaluated to false and no else section was defined.",
                )),
            },
            Expr::Or(a, b) => {
                let a = self.eval(a, scope)?;
                match a.truth() {
                    true => Ok(a),
                    false => self.eval(b, scope),
                }
            }
            Expr::And(a, b) => {
                let a = self.eval(a, scope)?;
                match a.truth() {
                    true => self.eval(b, scope),
                    false => Ok(a),
                }
            }
            Expr::Not(a) => Ok(Value::Bool(!self.eval(a, scope)?.truth())),
            Expr::Compare(first, ops) => {
                let mut left = self.eval(first, scope)?;
                for (op, right) in ops {
                    let right = self.eval(right, scope)?;
                    self.step(1 + operators::effort(&left, &right))?;
                    if !operators::compare(op, &left, &right)? {
                        return Ok(Value::Bool(false));
                    }
                    left = right;
                }
                Ok(Value::Bool(true))
            }
            Expr::Concat(items) => {
                let mut out = Builder::default();
                for item in items {
                    let text = print::text(&self.eval(item, scope)?)?;
                    value::fits(out.len() + text.len())?;
                    out.push_text(&text);
                }
                self.charged(Value::Text(out.done()))
            }
            Expr::Binary(op, a, b) => {
                let a = self.eval(a, scope)?;
                let b = self.eval(b, scope)?;
                let value = operators::binary(op, &a, &b)?;
                self.charged(value)
            }
            Expr::Unary(op, a) => operators::unary(op, &self.eval(a, scope)?),
            Expr::Attribute(a, name) => {
                let object = self.eval(a, scope)?;
                self.attribute(&object, name)
            }
            Expr::Item(a, index) => {
                let object = self.eval(a, scope)?;
                if let Expr::Slice(parts) = &**index {
                    let mut bounds = [const { Value::None }; 3];
                    for (bound, part) in bounds.iter_mut().zip(parts) {
                        if let Some(part) = part {
                            *bound = self.eval(part, scope)?;
                        }
                    }
                    let value = sequences::slice(&object, &bounds)?;
                    return self.charged(value);
                }
                let index = self.eval(index, scope)?;
                self.item(&object, &index)
            }
            Expr::Call(callee, args) => {
                let callee = self.eval(callee, scope)?;
                let call = self.args(args, scope)?;
                self.call(&callee, call)
            }
            Expr::Filter(value, name, args) => {
                let value = match value {
                    Some(value) => self.eval(value, scope)?,
                    None => return fail("a filter without a value"),
                };
                let call = self.args(args, scope)?;
                let value = self.filter(name, value, call)?;
                self.charged(value)
            }
            Expr::Test(value, name, args) => {
                let value = self.eval(value, scope)?;
                let call = self.args(args, scope)?;
                Ok(Value::Bool(self.test(name, &value, call)?))
            }
            Expr::Slice(_) => unsupported("a slice in a tuple of subscripts"),
            Expr::Const(_) | Expr::Name(..) | Expr::Field(..) => fail("no expression"),
        }
    }

    /// `object.name`: the attribute, or else the item.
    pub fn attribute(&mut self, object: &Value, name: &str) -> Result<Value> {
        object.defined()?;
        match self.found(object, name)? {
            Some(value) => Ok(value),
            None => Ok(match sequences::subscript(object, &Value::text(name))? {
                Some(value) => value,
                None => object.lacking(name),
            }),
        }
    }

    /// `object[index]`: the item, or else the attribute.
    pub fn item(&mut self, object: &Value, index: &Value) -> Result<Value> {
        object.defined()?;
        if let Some(value) = sequences::subscript(object, index)? {
            return Ok(value);
        }
        match index.as_text() {
            Some(name) => {
                let value = self.found(object, name.as_str())?;
                Ok(value.unwrap_or_else(|| object.lacking(name.as_str())))
            }
            None => {
                let name = print::repr(index)?;
                Ok(object.lacking(name.as_str()))
            }
        }
    }
}

/// The value that a template spells.
fn spelled(literal: &Literal) -> Value {
    match literal {
        Literal::None => Value::None,
        Literal::Bool(b) => Value::Bool(*b),
        Literal::Int(n) => Value::Int(*n),
        Literal::Float(f) => Value::Float(*f),
        Literal::Text(text) => Value::Text(text.clone()),
    }
}
