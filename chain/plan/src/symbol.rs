//! Symbols: what stands for elements of the field while a plan is made. All that is calculated with them is recorded, every
//! expression once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use num_traits::{One, Zero};
use stwo::core::fields::m31::{BaseField, P};
use tessera_circuits::scalar::Source;

/// The number of an expression of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Symbol(pub u32);

/// A number of the statement, less its low bits, and of that the low bits that a mask has, moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// What it is.
    pub source: Source,
    /// How many low bits it loses.
    pub shift: u8,
    /// What is left of the others.
    pub mask: u16,
    /// What is added then.
    pub offset: i32,
}

/// Entries that lie side by side.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Table {
    /// `eq` of a point.
    Eq(Vec<Symbol>),
    /// The sums of the entries before each, with that of all.
    Prefix(Vec<Symbol>),
    /// These.
    List(Vec<Symbol>),
    /// The products of the entries of two tables of one length, which begin before.
    Product(u32, u32),
    /// Rows of powers of two, whose entries are multiplied with those of a table of so many variables. Nothing lies side by side: it is
    /// asked for the sum of the first ones of a row.
    Rows(u32, u8, Vec<u32>),
}

/// A sum of the first entries of a table, at most 256, each times a number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// The table.
    pub table: u32,
    /// The sum of them all, and what most of them are multiplied with, or 0.
    pub total: (Symbol, u32),
    /// What others are multiplied with beside that, and which ones, ascending.
    pub groups: Vec<(u32, Vec<u8>)>,
}

/// The extension of a function at a point: a plan multiplies each value with the entry of `eq` at its place, and adds up. Such an entry is the
/// product of an entry of a first table and one of a second table, because each table has some coordinates of the point. A row has the values that
/// share an entry of the first table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Curve {
    /// The first table.
    pub high: u32,
    /// The sums of the entries before each of the second table.
    pub low: u32,
    /// The first rows; in all others the values are 0.
    pub rows: Vec<CurveRow>,
}

/// A row of a [`Curve`] by the steps from each value to the next one. With the sums `s(y)` of the entries before each, it is
/// `last + slope sum_y s(y) + sum_k 2^k sum_(y in plane k) s(y)`, the highest plane first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CurveRow {
    /// The last value.
    pub last: u32,
    /// The smallest step down.
    pub slope: u32,
    /// The bits by which steps are larger, most significant first. The first place of a plane is the highest bit of its first byte.
    pub planes: Vec<[u8; CURVE / 8]>,
}

/// Values in a row of a [`Curve`].
pub const CURVE: usize = 1 << CURVE_LOG;
/// log2 of them.
pub const CURVE_LOG: usize = 8;
/// The most planes of a row: lanes of a contract hold the sum.
pub const PLANES: usize = 20;

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// A number.
    Constant(u32),
    /// What the program is given.
    Input(u32),
    /// A bit of a number of the statement; such points are looked at only where `eq` is evaluated.
    Bit(Source, u8),
    /// A sum.
    Add(Symbol, Symbol),
    /// A multiple.
    Scale(Symbol, u32),
    /// A product.
    Mul(Symbol, Symbol),
    /// `eq` of two points.
    Eq(Vec<Symbol>, Vec<Symbol>),
    /// An entry of a table.
    Entry(u32, u32),
    /// The entry of a table at a place that the statement says.
    Select(u32, Place),
    /// The sum of the first entries of a table, times numbers.
    Row(Row),
    /// The extension of a function.
    Curve(Curve),
    /// The sum of the first entries of a row: which one, and how many, are high and low bits of a number of the statement.
    Below(u32, Source),
}

/// Everything that was calculated.
#[derive(Default)]
pub struct Record {
    /// Expressions, after those that they are made of.
    pub nodes: Vec<Node>,
    /// Tables of them.
    pub tables: Vec<Table>,
    /// How many layers have such sums as each.
    layers: u64,
    known: HashMap<Node, Symbol>,
    known_tables: HashMap<Table, u32>,
}

impl Record {
    fn push(&mut self, node: Node) -> Symbol {
        let next = Symbol(self.nodes.len() as u32);
        *self.known.entry(node).or_insert_with_key(|node| {
            self.nodes.push(node.clone());
            next
        })
    }

    fn table(&mut self, table: Table) -> u32 {
        let next = self.tables.len() as u32;
        *self.known_tables.entry(table).or_insert_with_key(|table| {
            self.tables.push(table.clone());
            next
        })
    }
}

thread_local! {
    static RECORD: RefCell<Record> = RefCell::default();
}

/// Records an expression.
pub fn push(node: Node) -> Symbol {
    RECORD.with_borrow_mut(|record| record.push(node))
}

/// Records a table.
pub fn push_table(table: Table) -> u32 {
    RECORD.with_borrow_mut(|record| record.table(table))
}

/// How many layers the model has.
pub fn layers() -> u64 {
    RECORD.with_borrow(|record| record.layers)
}

/// What a symbol stands for.
pub fn node(symbol: Symbol) -> Node {
    let node = RECORD.with_borrow(|record| record.nodes.get(symbol.0 as usize).cloned());
    node.unwrap_or(Node::Constant(0))
}

/// The record of what `calculate` does, of a model of so many layers.
pub fn recorded<T>(layers: usize, calculate: impl FnOnce() -> T) -> (T, Record) {
    RECORD.replace(Record {
        layers: layers as u64,
        ..Record::default()
    });
    // So that it is the first one.
    push(Node::Constant(0));
    let result = calculate();
    (result, RECORD.take())
}

pub fn constant(symbol: Symbol) -> Option<u32> {
    match node(symbol) {
        Node::Constant(value) => Some(value),
        _ => None,
    }
}

pub fn times(a: u32, b: u32) -> u32 {
    (u64::from(a) * u64::from(b) % u64::from(P)) as u32
}

impl Symbol {
    /// What the program is given at a place.
    pub fn input(index: usize) -> Self {
        push(Node::Input(index as u32))
    }

    /// A multiple.
    pub fn scale(self, factor: u32) -> Self {
        match (node(self), factor) {
            (Node::Constant(own), _) => push(Node::Constant(times(own, factor))),
            (_, 0) => Self::default(),
            (_, 1) => self,
            (Node::Scale(inner, own), _) => inner.scale(times(own, factor)),
            _ => push(Node::Scale(self, factor)),
        }
    }
}

impl Default for Symbol {
    fn default() -> Self {
        push(Node::Constant(0))
    }
}

impl Zero for Symbol {
    fn zero() -> Self {
        Self::default()
    }

    fn is_zero(&self) -> bool {
        constant(*self) == Some(0)
    }
}

impl One for Symbol {
    fn one() -> Self {
        push(Node::Constant(1))
    }
}

impl From<BaseField> for Symbol {
    fn from(value: BaseField) -> Self {
        push(Node::Constant(value.0))
    }
}

impl Add for Symbol {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        match (constant(self), constant(other)) {
            (Some(0), _) => other,
            (_, Some(0)) => self,
            (Some(a), Some(b)) => push(Node::Constant(((u64::from(a) + u64::from(b)) % u64::from(P)) as u32)),
            _ if self == other => self.scale(2),
            _ => push(Node::Add(self.min(other), self.max(other))),
        }
    }
}

impl Mul for Symbol {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        match (node(self), node(other)) {
            (Node::Constant(a), _) => other.scale(a),
            (_, Node::Constant(b)) => self.scale(b),
            (Node::Scale(inner, own), _) => (inner * other).scale(own),
            (_, Node::Scale(inner, own)) => (self * inner).scale(own),
            _ => push(Node::Mul(self.min(other), self.max(other))),
        }
    }
}

impl Neg for Symbol {
    type Output = Self;
    fn neg(self) -> Self {
        self.scale(P - 1)
    }
}

impl Sub for Symbol {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Add<BaseField> for Symbol {
    type Output = Self;
    fn add(self, other: BaseField) -> Self {
        self + Self::from(other)
    }
}

impl Sub<BaseField> for Symbol {
    type Output = Self;
    fn sub(self, other: BaseField) -> Self {
        self - Self::from(other)
    }
}

impl Mul<BaseField> for Symbol {
    type Output = Self;
    fn mul(self, other: BaseField) -> Self {
        self.scale(other.0)
    }
}

impl AddAssign for Symbol {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Symbol {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl MulAssign for Symbol {
    fn mul_assign(&mut self, other: Self) {
        *self = *self * other;
    }
}

impl Sum for Symbol {
    fn sum<I: Iterator<Item = Self>>(values: I) -> Self {
        values.fold(Self::zero(), |sum, value| sum + value)
    }
}

/// The entry of a table at the place that bits of a number of the statement say.
pub fn select(table: u32, source: Source, [shift, bits]: [u8; 2], offset: i32) -> Symbol {
    let mask = ((1u32 << bits.min(16)) - 1) as u16;
    let place = Place {
        source,
        shift,
        mask,
        offset,
    };
    push(Node::Select(table, place))
}

/// log2 of the length from which on tables of `eq` are made of two.
pub const HALF_LOG: usize = 5;

/// The point of a long table.
pub fn point_of(table: u32) -> Option<Vec<Symbol>> {
    let own = RECORD.with_borrow(|record| record.tables.get(table as usize).cloned());
    match own {
        Some(Table::Eq(point)) if point.len() > HALF_LOG => Some(point),
        _ => None,
    }
}
