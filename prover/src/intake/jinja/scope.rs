//! Variables of a template at work: a macro, a recursive loop and the template itself have a scope each, as functions
//! of Python have.

use std::cell::RefCell;
use std::rc::Rc;

use super::value::Value;

/// Variables of a function; those of outer functions are seen as they are now.
#[derive(Debug, Default)]
pub struct Scope {
    vars: RefCell<Vec<(usize, Value)>>,
    parent: Option<Rc<Scope>>,
}

impl Scope {
    pub fn inside(parent: &Rc<Scope>) -> Rc<Self> {
        Rc::new(Self {
            vars: RefCell::default(),
            parent: Some(Rc::clone(parent)),
        })
    }

    /// `None` for what is missing.
    pub fn get(&self, slot: usize) -> Option<Value> {
        let mut scope = self;
        loop {
            if let Some((_, value)) = scope.vars.borrow().iter().find(|(s, _)| *s == slot) {
                return Some(value.clone());
            }
            scope = scope.parent.as_deref()?;
        }
    }

    pub fn set(&self, slot: usize, value: Option<Value>) {
        let mut vars = self.vars.borrow_mut();
        let at = vars.iter().position(|(s, _)| *s == slot);
        let old = match (at, value) {
            (Some(at), Some(value)) => Some(std::mem::replace(&mut vars[at].1, value)),
            (Some(at), None) => Some(vars.swap_remove(at).1),
            (None, Some(value)) => {
                vars.push((slot, value));
                None
            }
            (None, None) => None,
        };
        // Dropping it may end scopes that it holds.
        drop(vars);
        drop(old);
    }

    /// Ends what scopes and macros hold of each other.
    pub fn clear(&self) {
        let vars = std::mem::take(&mut *self.vars.borrow_mut());
        drop(vars);
    }
}
