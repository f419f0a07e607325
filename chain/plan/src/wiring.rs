//! What the wiring does with symbols: sums and tables are recognised, so that a program has few instructions for them.

use num_traits::{One, Zero};
use stwo::core::fields::m31::BaseField;
use tessera_circuits::scalar::{Corner, Scalar, Source, Word};

use crate::rows::{curve, factored, sum_below};
use crate::symbol::{node, point_of, push, push_table, select, times, Node, Symbol, Table, HALF_LOG};

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
    const SYMBOLIC: bool = true;

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

    fn function(point: &[Self], values: &[BaseField]) -> Self {
        let own: Vec<u32> = values.iter().map(|value| value.0).collect();
        curve(point, &own)
            .unwrap_or_else(|| Self::combine(&Self::eq_table(point), |i| values.get(i).copied().unwrap_or_default()))
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

    fn sum_between(list: &[Self], start: usize, most: usize, word: Word) -> Self {
        if most <= start {
            return Self::zero();
        }
        if let Some(list) = list.get(..most).filter(|_| start == 0) {
            return select(push_table(Table::Prefix(list.to_vec())), word.source, [0, 16], 0);
        }
        // By the number: as often nothing as it is not beyond the start, then sums, and all.
        let mut sums = vec![Self::zero(); start + 1];
        for entry in list.iter().take(most - start) {
            let before = sums.last().copied().unwrap_or_default();
            sums.push(before + *entry);
        }
        sums.resize(most + 1, sums.last().copied().unwrap_or_default());
        select(push_table(Table::List(sums)), word.source, [0, 16], 0)
    }

    fn sum_to(table: &[Self], word: Word) -> Self {
        let bits = table.len().checked_ilog2().unwrap_or(0) as u8;
        select(push_table(Table::Prefix(table.to_vec())), word.source, [0, bits], 1)
    }

    fn part_to(table: &[Self], word: Word) -> Vec<Self> {
        // The step from 0 to 1 is at the last place: an entry is added to the number from its end.
        let last = table.len().saturating_sub(1);
        let steps = (0..2 * last + 1).map(|i| push(Node::Constant(u32::from(i >= last))));
        let steps = push_table(Table::List(steps.collect()));
        let bits = table.len().checked_ilog2().unwrap_or(0) as u8;
        let entry = |(i, value): (usize, &Self)| *value * select(steps, word.source, [0, bits], (last - i) as i32);
        table.iter().enumerate().map(entry).collect()
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
}
