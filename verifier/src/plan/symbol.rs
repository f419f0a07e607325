//! Symbols: what stands for elements of the field while a plan is made. All that is calculated with them is recorded, every
//! expression once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use num_traits::{One, Zero};
use stwo::core::fields::m31::{BaseField, P};
use tessera_circuits::scalar::{Corner, Scalar, Source, Word};

use super::rows::{factored, sum_below};

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

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// A number.
    Constant(u32),
    /// What the program is given.
    Input(u32),
    /// A number of the statement, as an element.
    Word(Source),
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
fn node(symbol: Symbol) -> Node {
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

fn constant(symbol: Symbol) -> Option<u32> {
    match node(symbol) {
        Node::Constant(value) => Some(value),
        _ => None,
    }
}

fn times(a: u32, b: u32) -> u32 {
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

/// The number whose bits a point has, the most significant one first.
fn word_of(point: &[Symbol]) -> Option<(Source, u8)> {
    let bits: Vec<(Source, u8)> = point
        .iter()
        .map(|symbol| match node(*symbol) {
            Node::Bit(source, bit) => Some((source, bit)),
            _ => None,
        })
        .collect::<Option<_>>()?;
    let (source, low) = *bits.last()?;
    let same = bits.iter().rev().zip(low..).all(|(own, bit)| *own == (source, bit));
    same.then_some((source, low))
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

/// `eq(word >> shift, point)`: the product of entries of two tables, each of half of the coordinates.
fn selected_eq(source: Source, shift: u8, point: &[Symbol]) -> Symbol {
    if point.is_empty() {
        return Symbol::one();
    }
    let (high, low) = point.split_at(point.len() / 2);
    let [high_bits, low_bits] = [high, low].map(|own| own.len() as u8);
    let low = push_table(Table::Eq(low.to_vec()));
    let low = select(low, source, [shift, low_bits], 0);
    if high.is_empty() {
        return low;
    }
    let high = push_table(Table::Eq(high.to_vec()));
    select(high, source, [shift + low_bits, high_bits], 0) * low
}

/// log2 of the length from which on tables of `eq` are made of two.
const HALF_LOG: usize = 5;

/// The point of a long table.
fn point_of(table: u32) -> Option<Vec<Symbol>> {
    let own = RECORD.with_borrow(|record| record.tables.get(table as usize).cloned());
    match own {
        Some(Table::Eq(point)) if point.len() > HALF_LOG => Some(point),
        _ => None,
    }
}

/// The table and index of an entry, or of what an expression is a multiple of.
fn entry_of(own: Symbol) -> Option<(u32, usize)> {
    match node(own) {
        Node::Entry(table, index) => Some((table, index as usize)),
        Node::Scale(inner, _) => match node(inner) {
            Node::Entry(table, index) => Some((table, index as usize)),
            _ => None,
        },
        _ => None,
    }
}

/// The numbers of which a list is the multiples of a table, from one of its entries on; it may be shorter.
fn factors_of(list: &[Symbol], table: u32, start: usize) -> Option<Vec<u32>> {
    let factor = |(i, own): (usize, &Symbol)| {
        let entry = Node::Entry(table, (start + i) as u32);
        match node(*own) {
            Node::Constant(0) => Some(0),
            Node::Scale(inner, factor) => (node(inner) == entry).then_some(factor),
            own => (own == entry).then_some(1),
        }
    };
    list.iter().enumerate().map(factor).collect()
}

/// A point in two.
trait Split: Sized {
    /// All coordinates but the last ones, and these.
    fn split_last_of(self, count: usize) -> Option<(Self, Self)>;
}

impl Split for Vec<Symbol> {
    fn split_last_of(mut self, count: usize) -> Option<(Self, Self)> {
        let rest = self.split_off(self.len().checked_sub(count)?);
        Some((self, rest))
    }
}

/// `a b`, where `a` is a sum of two multiples: such products are used again.
fn distributed(a: Symbol, b: Symbol) -> Symbol {
    let scaled = |own: Symbol| matches!(node(own), Node::Scale(..));
    match node(a) {
        Node::Add(first, second) if scaled(first) && scaled(second) => first * b + second * b,
        _ => a * b,
    }
}

impl Scalar for Symbol {
    fn words(self) -> [u32; 4] {
        [self.0, 0, 0, 0]
    }

    fn eq_table(point: &[Self]) -> Vec<Self> {
        if point.is_empty() {
            return vec![Self::one()];
        }
        let table = push_table(Table::Eq(point.to_vec()));
        (0..1 << point.len()).map(|i| push(Node::Entry(table, i))).collect()
    }

    fn dot(a: &[Self], b: &[Self]) -> Self {
        let other = b.first().and_then(|own| match node(*own) {
            Node::Entry(table, 0) => point_of(table),
            _ => None,
        });
        let lane = other.and_then(|other| {
            let (table, start) = entry_of(*a.first()?)?;
            let (high, own) = point_of(table)?.split_last_of(other.len())?;
            let factors = factors_of(a, table, start).filter(|_| start & ((1 << own.len()) - 1) == 0)?;
            let others = factors_of(b, push_table(Table::Eq(other.clone())), 0)?;
            let both: Vec<u32> = factors.iter().zip(&others).map(|(a, b)| times(*a, *b)).collect();
            Some(Self::index_eq(start >> own.len(), &high) * factored(&[own, other], &both))
        });
        if let Some(sum) = lane {
            return sum;
        }
        a.iter().zip(b).map(|(a, b)| distributed(*a, *b)).sum()
    }

    fn index_eq(index: usize, point: &[Self]) -> Self {
        let (high, low) = point.split_at(if point.len() > HALF_LOG { point.len() / 2 } else { 0 });
        let entry = |index: usize, own: &[Self]| match own {
            [] => Self::one(),
            own => push(Node::Entry(push_table(Table::Eq(own.to_vec())), index as u32)),
        };
        entry(index >> low.len(), high) * entry(index & ((1 << low.len()) - 1), low)
    }

    fn combine(table: &[Self], factor: impl Fn(usize) -> BaseField) -> Self {
        let own = table.first().and_then(|own| match node(*own) {
            Node::Entry(number, 0) => point_of(number),
            _ => None,
        });
        let factors: Vec<u32> = (0..table.len()).map(|i| factor(i).0).collect();
        // The entries themselves, not multiples of them.
        let whole = |own: &[u32]| own.iter().all(|factor| *factor == 1);
        match own {
            Some(point)
                if factors_of(table, push_table(Table::Eq(point.clone())), 0).is_some_and(|own| whole(&own)) =>
            {
                factored(&[point], &factors)
            }
            _ => table.iter().zip(factors).map(|(own, factor)| own.scale(factor)).sum(),
        }
    }

    fn sum_of(list: &[Self]) -> Self {
        let whole = list.first().and_then(|own| {
            let (table, start) = entry_of(*own)?;
            let factors = factors_of(list, table, start).filter(|_| start == 0)?;
            Some(factored(&[point_of(table)?], &factors))
        });
        whole.unwrap_or_else(|| list.iter().copied().sum())
    }

    fn product(factors: &[Self]) -> Self {
        let mut sorted = factors.to_vec();
        sorted.sort_unstable();
        sorted.into_iter().fold(Self::one(), |product, factor| product * factor)
    }

    fn eq_eval(a: &[Self], b: &[Self]) -> Self {
        match (word_of(a), word_of(b)) {
            _ if a.is_empty() => Self::one(),
            (Some((source, shift)), _) => selected_eq(source, shift, b),
            (_, Some((source, shift))) => selected_eq(source, shift, a),
            _ => push(Node::Eq(a.to_vec(), b.to_vec())),
        }
    }

    fn corner(log: u32, word: Word) -> Corner<Self> {
        let bits = (0..log as u8).rev();
        Corner::Point(bits.map(|bit| push(Node::Bit(word.source, bit))).collect())
    }

    fn word_eq(word: Word, point: &[Self]) -> Self {
        selected_eq(word.source, 0, point)
    }

    fn sum_below(table: &[Self], word: Word) -> Self {
        // Ids are below the length of the table; other numbers may be its length.
        let id = matches!(word.source, Source::OutputId(_) | Source::RowId(_));
        let first = table.first().and_then(|own| entry_of(*own));
        if let Some((number, 0)) = first.filter(|_| id) {
            let factors = || factors_of(table, number, 0);
            let sum = point_of(number).and_then(|point| Some(sum_below(&factors()?, &point, word.source)));
            if let Some(sum) = sum {
                return sum;
            }
        }
        let table = push_table(Table::Prefix(table.to_vec()));
        select(table, word.source, [0, 16], 0)
    }

    fn part_of(table: &[Self], word: Word, before: bool) -> Vec<(usize, Self)> {
        // The step from 0 to 1 is at the length of the table.
        let length = table.len();
        let steps = (0..2 * length + 1).map(|i| push(Node::Constant(u32::from((i >= length) == before))));
        let steps = push_table(Table::List(steps.collect()));
        let entry = |(i, value): (usize, &Self)| {
            let offset = length as i32 - 1 - i as i32;
            (i, *value * select(steps, word.source, [0, 16], offset))
        };
        table.iter().enumerate().map(entry).collect()
    }

    fn placed(values: &[Self], first: Word, len: usize) -> Vec<Self> {
        let zeros = || std::iter::repeat_n(Self::zero(), len);
        let table: Vec<Self> = zeros().chain(values.iter().copied()).chain(zeros()).collect();
        // Entry i is the one that is i less the first place further than the zeros: tables are read from their end, as numbers of the
        // statement are only added.
        let last = table.len() as i32 - 1;
        let table = push_table(Table::List(table.into_iter().rev().collect()));
        let entry = |i: usize| select(table, first.source, [0, 16], last - (len + i) as i32);
        (0..len).map(entry).collect()
    }

    fn top(_: i16, index: usize) -> Self {
        push(Node::Word(Source::Top(index)))
    }
}
