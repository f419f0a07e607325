//! Values of a template: Python's, as far as a sandbox shows them.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use super::ast;
use super::error::{fail, unsupported, Error, Result};
use super::text::Text;

/// Lists in lists, and the like.
const DEPTH: usize = 120;
/// The most items of a list that an operation makes.
pub const ITEMS: usize = 1 << 20;
/// The most bytes of a text that an operation makes.
pub const TEXT_BYTES: usize = 1 << 23;

#[derive(Clone, Debug)]
pub enum Value {
    Undefined(Rc<Undefined>),
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Text),
    /// A text that `safe` or `escape` made (Python's `Markup`): its operations escape.
    Markup(Text),
    List(Rc<Seq>),
    Tuple(Rc<Seq>),
    Dict(Rc<Dict>),
    Range(Range),
    /// A generator or iterator: it gives its items once.
    Iter(Rc<RefCell<VecDeque<Value>>>, &'static str),
    View(View, Rc<Dict>),
    Namespace(Rc<Namespace>),
    Macro(Rc<Macro>),
    Loop(Rc<Loop>),
    Cycler(Rc<Cycler>),
    Joiner(Rc<Joiner>),
    /// A method of a value.
    Method(Rc<(Value, String)>),
    Function(&'static str),
}

/// Items of a list or tuple, which no template can change.
#[derive(Debug)]
pub struct Seq {
    pub items: Vec<Value>,
    depth: usize,
    /// A tuple of `groupby`, whose items are also called `grouper` and `list`.
    pub group: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub start: i128,
    pub stop: i128,
    pub step: i128,
}

impl Range {
    pub fn len(&self) -> usize {
        let span = match self.step > 0 {
            true => self.stop.saturating_sub(self.start),
            false => self.start.saturating_sub(self.stop),
        };
        let step = self.step.abs().max(1);
        usize::try_from(span.max(0).saturating_add(step - 1) / step).unwrap_or(usize::MAX)
    }

    pub fn at(&self, index: usize) -> i128 {
        self.at_place(index as i128)
    }

    /// The number at a place, which may lie outside.
    pub fn at_place(&self, place: i128) -> i128 {
        self.start.saturating_add(self.step.saturating_mul(place))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    Keys,
    Values,
    Items,
}

#[derive(Debug, Default)]
pub struct Undefined {
    pub hint: Option<String>,
    /// The type of the value that lacks it.
    pub object: Option<String>,
    pub name: String,
}

impl Undefined {
    pub fn message(&self) -> String {
        match (&self.hint, &self.object) {
            (Some(hint), _) => hint.clone(),
            (None, Some(object)) => format!("'{object} object' has no attribute '{}'", self.name),
            (None, None) => format!("'{}' is undefined", self.name),
        }
    }
}

#[derive(Debug)]
pub struct Namespace {
    pub fields: RefCell<Dict>,
    depth: Cell<usize>,
}

#[derive(Debug)]
pub struct Macro {
    pub code: Rc<ast::Macro>,
    pub scope: Rc<Scope>,
}

/// State of a `for`.
#[derive(Debug)]
pub struct Loop {
    pub feed: RefCell<Feed>,
    /// Minus one before the first item.
    pub index0: Cell<i128>,
    pub length: Cell<Option<usize>>,
    pub after: RefCell<Option<Value>>,
    pub current: RefCell<Option<Value>>,
    pub before: RefCell<Option<Value>>,
    pub changed: RefCell<Option<Value>>,
    pub depth0: i128,
    /// A recursive loop, and where it stands.
    pub recurse: Option<(Rc<ast::For>, Rc<Scope>)>,
    pub depth: usize,
}

/// Where the items of a `for` come from.
#[derive(Debug)]
pub struct Feed {
    pub source: Source,
    /// The condition of the `for` and its own variables.
    pub test: Option<(Rc<ast::For>, Rc<Scope>)>,
}

#[derive(Clone, Debug)]
pub enum Source {
    Items(Rc<Seq>, usize),
    Once(Rc<RefCell<VecDeque<Value>>>),
}

#[derive(Debug)]
pub struct Cycler {
    pub items: Rc<Seq>,
    pub at: Cell<usize>,
}

#[derive(Debug)]
pub struct Joiner {
    pub separator: Value,
    pub used: Cell<bool>,
}

/// A key of a dict: values that are equal in Python are equal here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    None,
    Undefined,
    Int(i128),
    Float(u64),
    Text(Rc<str>),
    Tuple(Vec<Key>),
    Range(i128, i128, i128),
}

impl Key {
    pub fn of(value: &Value) -> Result<Self> {
        Ok(match value {
            Value::None => Self::None,
            Value::Undefined(_) => Self::Undefined,
            Value::Bool(b) => Self::Int(i128::from(*b)),
            Value::Int(n) => Self::Int(*n),
            Value::Float(f) if f.fract() == 0.0 && f.abs() < 1e30 => Self::Int(*f as i128),
            Value::Float(f) if f.is_nan() => return unsupported("nan as a key"),
            Value::Float(f) => Self::Float(f.to_bits()),
            Value::Text(t) | Value::Markup(t) => Self::Text(t.rc()),
            Value::Tuple(seq) => Self::Tuple(seq.items.iter().map(Self::of).collect::<Result<_>>()?),
            Value::Range(r) => Self::Range(r.start, r.stop, r.step),
            Value::List(_) | Value::Dict(_) | Value::View(View::Keys | View::Items, _) => {
                return fail(format!("unhashable type: '{}'", value.type_name()));
            }
            other => return unsupported(format!("{} as a key", other.type_name())),
        })
    }
}

/// A map in the order of its keys' first appearance.
#[derive(Clone, Debug, Default)]
pub struct Dict {
    entries: Vec<(Value, Value)>,
    index: HashMap<Key, usize>,
    depth: usize,
}

impl Dict {
    pub fn insert(&mut self, key: Value, value: Value) -> Result<()> {
        let depth = deeper(value.depth().max(key.depth()))?;
        self.depth = self.depth.max(depth);
        match self.index.entry(Key::of(&key)?) {
            std::collections::hash_map::Entry::Occupied(at) => self.entries[*at.get()].1 = value,
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(self.entries.len());
                self.entries.push((key, value));
            }
        }
        Ok(())
    }

    pub fn get(&self, key: &Value) -> Result<Option<&Value>> {
        Ok(self.index.get(&Key::of(key)?).map(|at| &self.entries[*at].1))
    }

    pub fn named(&self, name: &str) -> Option<&Value> {
        self.index.get(&Key::Text(name.into())).map(|at| &self.entries[*at].1)
    }

    pub fn entries(&self) -> &[(Value, Value)] {
        &self.entries
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }
}

fn deeper(depth: usize) -> Result<usize> {
    match depth >= DEPTH {
        true => Err(Error::Limit(format!("values are nested more than {DEPTH} deep"))),
        false => Ok(depth + 1),
    }
}

impl Namespace {
    pub fn new(fields: Dict) -> Self {
        Self {
            depth: Cell::new(fields.depth),
            fields: RefCell::new(fields),
        }
    }

    pub fn set(&self, name: &str, value: Value) -> Result<()> {
        if name.starts_with('_') {
            return fail(format!(
                "chat templates cannot store underscore-prefixed attributes on a namespace: {name:?}"
            ));
        }
        self.depth.set(self.depth.get().max(deeper(value.depth())?));
        self.fields.borrow_mut().insert(Value::text(name), value)
    }
}

impl Value {
    pub fn text(text: &str) -> Self {
        Self::Text(Text::of(text))
    }

    pub fn list(items: Vec<Value>) -> Result<Self> {
        Ok(Self::List(seq(items)?))
    }

    pub fn tuple(items: Vec<Value>) -> Result<Self> {
        Ok(Self::Tuple(seq(items)?))
    }

    /// A generator of a filter.
    pub fn generator(items: Vec<Value>) -> Self {
        Self::Iter(Rc::new(RefCell::new(items.into())), "generator")
    }

    pub fn undefined(name: &str) -> Self {
        Self::Undefined(Rc::new(Undefined {
            name: name.to_owned(),
            ..Undefined::default()
        }))
    }

    pub fn hinted(hint: impl Into<String>) -> Self {
        Self::Undefined(Rc::new(Undefined {
            hint: Some(hint.into()),
            ..Undefined::default()
        }))
    }

    /// The undefined value of an attribute or item that this value lacks.
    pub fn lacking(&self, name: &str) -> Self {
        Self::Undefined(Rc::new(Undefined {
            hint: None,
            object: Some(self.type_name().to_owned()),
            name: name.to_owned(),
        }))
    }

    pub fn is_undefined(&self) -> bool {
        matches!(self, Self::Undefined(_))
    }

    /// An error unless the value is defined.
    pub fn defined(&self) -> Result<&Self> {
        match self {
            Self::Undefined(undefined) => fail(undefined.message()),
            defined => Ok(defined),
        }
    }

    /// The text of a string, safe or not.
    pub fn as_text(&self) -> Option<&Text> {
        match self {
            Self::Text(text) | Self::Markup(text) => Some(text),
            _ => None,
        }
    }

    /// Integers, which truth values are, too.
    pub fn as_int(&self) -> Option<i128> {
        match self {
            Self::Int(n) => Some(*n),
            Self::Bool(b) => Some(i128::from(*b)),
            _ => None,
        }
    }

    pub fn as_float(&self) -> Option<f64> {
        match self {
            Self::Float(f) => Some(*f),
            other => other.as_int().map(|n| n as f64),
        }
    }

    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Undefined(_) => "Undefined",
            Self::None => "NoneType",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) => "float",
            Self::Text(_) => "str",
            Self::Markup(_) => "Markup",
            Self::List(_) => "list",
            Self::Tuple(_) => "tuple",
            Self::Dict(_) => "dict",
            Self::Range(_) => "range",
            Self::Iter(_, name) => name,
            Self::View(View::Keys, _) => "dict_keys",
            Self::View(View::Values, _) => "dict_values",
            Self::View(View::Items, _) => "dict_items",
            Self::Namespace(_) => "Namespace",
            Self::Macro(_) => "Macro",
            Self::Loop(_) => "LoopContext",
            Self::Cycler(_) => "Cycler",
            Self::Joiner(_) => "Joiner",
            Self::Method(_) => "builtin_function_or_method",
            Self::Function(_) => "function",
        }
    }

    pub fn depth(&self) -> usize {
        match self {
            Self::List(seq) | Self::Tuple(seq) => seq.depth,
            Self::Dict(dict) | Self::View(_, dict) => dict.depth,
            Self::Namespace(namespace) => namespace.depth.get(),
            Self::Loop(state) => state.depth,
            Self::Cycler(cycler) => cycler.items.depth,
            Self::Joiner(joiner) => joiner.separator.depth(),
            Self::Method(method) => 1 + method.0.depth(),
            Self::Iter(items, _) => 1 + items.borrow().iter().map(Self::depth).max().unwrap_or(0),
            _ => 0,
        }
    }

    /// Python's `bool`.
    pub fn truth(&self) -> bool {
        match self {
            Self::Undefined(_) | Self::None => false,
            Self::Bool(b) => *b,
            Self::Int(n) => *n != 0,
            Self::Float(f) => *f != 0.0,
            Self::Text(t) | Self::Markup(t) => !t.is_empty(),
            Self::List(seq) | Self::Tuple(seq) => !seq.items.is_empty(),
            Self::Dict(dict) | Self::View(_, dict) => dict.len() > 0,
            Self::Range(range) => range.len() > 0,
            _ => true,
        }
    }

    /// Python's `len`, `None` where there is none.
    pub fn length(&self) -> Option<usize> {
        match self {
            Self::Undefined(_) => Some(0),
            Self::Text(t) | Self::Markup(t) => Some(t.chars()),
            Self::List(seq) | Self::Tuple(seq) => Some(seq.items.len()),
            Self::Dict(dict) | Self::View(_, dict) => Some(dict.len()),
            Self::Range(range) => Some(range.len()),
            _ => None,
        }
    }

    /// Where a `for` takes the items from.
    pub fn source(&self) -> Result<Source> {
        let items = match self {
            Self::Undefined(_) => Vec::new(),
            Self::Text(text) => text_items(text),
            Self::Markup(_) => return unsupported("a loop over the characters of what is safe"),
            Self::List(seq) | Self::Tuple(seq) => return Ok(Source::Items(Rc::clone(seq), 0)),
            Self::Dict(dict) | Self::View(View::Keys, dict) => dict.entries().iter().map(|(k, _)| k.clone()).collect(),
            Self::View(View::Values, dict) => dict.entries().iter().map(|(_, v)| v.clone()).collect(),
            Self::View(View::Items, dict) => {
                let pairs = dict
                    .entries()
                    .iter()
                    .map(|(k, v)| Self::tuple(vec![k.clone(), v.clone()]));
                pairs.collect::<Result<_>>()?
            }
            Self::Range(range) => (0..range.len()).map(|i| Self::Int(range.at(i))).collect(),
            Self::Iter(items, _) => return Ok(Source::Once(Rc::clone(items))),
            Self::Loop(_) => return unsupported("a loop over the variable loop"),
            other => return fail(format!("'{}' object is not iterable", other.type_name())),
        };
        Ok(Source::Items(seq(items)?, 0))
    }

    /// All items; a generator is used up.
    pub fn items(&self) -> Result<Vec<Value>> {
        Ok(match self.source()? {
            Source::Items(seq, _) => seq.items.clone(),
            Source::Once(items) => items.borrow_mut().drain(..).collect(),
        })
    }

    pub fn is_iterable(&self) -> bool {
        !matches!(
            self,
            Self::None
                | Self::Bool(_)
                | Self::Int(_)
                | Self::Float(_)
                | Self::Namespace(_)
                | Self::Macro(_)
                | Self::Cycler(_)
                | Self::Joiner(_)
                | Self::Method(_)
                | Self::Function(_)
        )
    }

    pub fn is_callable(&self) -> bool {
        matches!(
            self,
            Self::Undefined(_) | Self::Macro(_) | Self::Loop(_) | Self::Joiner(_) | Self::Method(_) | Self::Function(_)
        )
    }
}

/// The characters of a text as texts.
pub fn text_items(text: &Text) -> Vec<Value> {
    let one = |(i, c, _): (usize, char, bool)| Value::Text(text.slice(i, i + c.len_utf8()));
    text.marked().map(one).collect()
}

pub fn seq(items: Vec<Value>) -> Result<Rc<Seq>> {
    grouped(items, false)
}

pub fn grouped(items: Vec<Value>, group: bool) -> Result<Rc<Seq>> {
    let depth = deeper(items.iter().map(Value::depth).max().unwrap_or(0))?;
    Ok(Rc::new(Seq { items, depth, group }))
}

/// An error if a text of so many bytes is too long.
pub fn fits(bytes: usize) -> Result<()> {
    match bytes > TEXT_BYTES {
        true => Err(Error::Limit(format!("a text has more than {TEXT_BYTES} bytes"))),
        false => Ok(()),
    }
}

/// An error if a list of so many items is too long.
pub fn items_fit(items: usize) -> Result<()> {
    match items > ITEMS {
        true => Err(Error::Limit(format!("a list has more than {ITEMS} items"))),
        false => Ok(()),
    }
}

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
