//! The sumcheck of a layer: `sum_x eq(r, x) g(x)`, `g` of degree 2 in a few tables, with `eq` taken out of every round. Binding the
//! variable of one round and summing the message of the next is one pass.

use std::array::from_fn;

use num_traits::One;
use rayon::prelude::*;
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use tessera_circuits::mle::{eq_table, fold_msb_in_place};

use crate::field::{Factor, Packed, Sum, LOG_LANES, SIMD_LANES};

type K = SecureField;

/// log2 of the entries that a thread takes at a time.
pub const LOG_BLOCK: usize = 10;
/// Vectors of a block.
pub const BLOCK: usize = 1 << (LOG_BLOCK - LOG_LANES as usize);

/// What is summed: a form of degree 2 without other terms, so that of differences it is the leading coefficient of a round.
pub trait Form<const T: usize>: Copy + Send + Sync {
    /// What the form is of, from the values of the tables as they are at first: linear, so that it can wait for the first
    /// binding. A pass over the tables for it alone would wait for memory.
    #[inline(always)]
    fn begin(self, values: [Packed; T]) -> [Packed; T] {
        values
    }
    fn packed(self, values: [Packed; T]) -> Packed;
    fn single(self, values: [K; T]) -> K;
    /// The message of the layer, from that of the form.
    fn message(self, message: [K; 2]) -> [K; 2] {
        message
    }
    /// The children `n0, d0, n1, d1` of the layer's node, from the values of the tables.
    fn children(self, values: [K; T]) -> [K; 4];
}

/// `n0 d1 + d0 m1`, of tables `n0, d0, n1, d1`, where `m1 = n1 + lambda d1`: a sum of fractions, combined.
#[derive(Clone, Copy)]
pub struct Fractions {
    lambda: K,
    factor: Factor,
}

impl Fractions {
    pub fn new(lambda: K) -> Self {
        Self {
            lambda,
            factor: Factor::new(lambda),
        }
    }
}

impl Form<4> for Fractions {
    #[inline(always)]
    fn begin(self, [n0, d0, n1, d1]: [Packed; 4]) -> [Packed; 4] {
        [n0, d0, n1 + d1 * self.factor, d1]
    }
    #[inline(always)]
    fn packed(self, [n0, d0, m1, d1]: [Packed; 4]) -> Packed {
        Packed::dot([n0, d0], [d1, m1])
    }
    fn single(self, [n0, d0, m1, d1]: [K; 4]) -> K {
        n0 * d1 + d0 * m1
    }
    fn children(self, [n0, d0, m1, d1]: [K; 4]) -> [K; 4] {
        [n0, d0, m1 - self.lambda * d1, d1]
    }
}

/// `a b`, of tables of leaves with the numerator one that are shifted by `1 / lambda`:
/// `d0 + d1 + lambda d0 d1 = lambda (d0 + 1 / lambda) (d1 + 1 / lambda) - 1 / lambda`.
#[derive(Clone, Copy)]
pub struct Shifted {
    lambda: K,
    inverse: K,
}

impl Shifted {
    /// # Panics
    /// If `lambda` is zero.
    pub fn new(lambda: K) -> Self {
        Self {
            lambda,
            inverse: lambda.inverse(),
        }
    }

    /// The shift of the leaves.
    pub fn shift(self) -> Packed {
        Packed::broadcast(self.inverse)
    }
}

impl Form<2> for Shifted {
    #[inline(always)]
    fn packed(self, [a, b]: [Packed; 2]) -> Packed {
        a * b
    }
    fn single(self, [a, b]: [K; 2]) -> K {
        a * b
    }
    fn message(self, [first, leading]: [K; 2]) -> [K; 2] {
        [self.lambda * first - self.inverse, self.lambda * leading]
    }
    fn children(self, [a, b]: [K; 2]) -> [K; 4] {
        [K::one(), a - self.inverse, K::one(), b - self.inverse]
    }
}

/// `eq(point, .)`: the table over the last variables, up to a block of them, and one factor for each block.
pub struct Eq {
    blocks: Vec<K>,
    within: Vec<Packed>,
}

impl Eq {
    /// Of a point of at least [`LOG_LANES`] coordinates.
    pub fn new(point: &[K]) -> Self {
        let (leading, trailing) = point.split_at(point.len().saturating_sub(LOG_BLOCK));
        Self {
            blocks: eq_table(leading),
            within: pack(&eq_table(trailing)),
        }
    }

    /// Vectors of a block.
    pub fn width(&self) -> usize {
        self.within.len()
    }

    /// `[q(0), leading coefficient]` from what `sum` adds up of each block: number of its first vector, weights of its vectors.
    pub fn message(&self, sum: impl Fn(usize, &[Packed]) -> [Sum; 2] + Sync) -> [K; 2] {
        self.message_of(vec![(); self.blocks.len()], |first, (), weights| sum(first, weights))
    }

    /// The same, where each block has something of its own.
    pub fn message_of<B: Send>(&self, own: Vec<B>, sum: impl Fn(usize, B, &[Packed]) -> [Sum; 2] + Sync) -> [K; 2] {
        let blocks = own.into_par_iter().zip(&self.blocks).enumerate();
        let messages = blocks.map(|(at, (own, factor))| {
            let factor = Packed::broadcast(*factor);
            sum(at * self.width(), own, &self.within).map(|sum| sum.packed() * factor)
        });
        let zero = || [Packed::ZERO; 2];
        messages
            .reduce(zero, |[a, b], [c, d]| [a + c, b + d])
            .map(Packed::total)
    }
}

/// Sixteen elements each.
pub fn pack(values: &[K]) -> Vec<Packed> {
    values
        .as_chunks::<SIMD_LANES>()
        .0
        .iter()
        .map(Packed::from_array)
        .collect()
}

/// Adds what a variable at 0 and at 1 contributes to a message.
#[inline(always)]
pub fn add_terms<const T: usize>(
    sums: &mut [Sum; 2],
    form: impl Form<T>,
    weight: Packed,
    first: [Packed; T],
    mut second: [Packed; T],
) {
    for t in 0..T {
        second[t] = second[t] - first[t];
    }
    sums[0].add(weight, form.packed(first));
    sums[1].add(weight, form.packed(second));
}

/// A quarter of some tables, by their first two variables; binding the first one writes to the low half.
struct Quarters<'a, const T: usize> {
    low: [[&'a mut [Packed]; 2]; T],
    high: [[&'a [Packed]; 2]; T],
}

impl<'a, const T: usize> Quarters<'a, T> {
    /// Blocks of the quarters.
    fn blocks(tables: [&'a mut [Packed]; T], width: usize) -> Vec<Self> {
        let quarter = tables[0].len() / 4;
        let mut low: [Vec<[&'a mut [Packed]; 2]>; T] = from_fn(|_| Vec::new());
        let mut high: [Vec<[&'a [Packed]; 2]>; T] = from_fn(|_| Vec::new());
        for (table, (low, high)) in tables.into_iter().zip(low.iter_mut().zip(&mut high)) {
            let (l, h) = table.split_at_mut(2 * quarter);
            let ((l0, l1), (h0, h1)) = (l.split_at_mut(quarter), h.split_at(quarter));
            low.extend(l0.chunks_mut(width).zip(l1.chunks_mut(width)).map(|(a, b)| [a, b]));
            high.extend(h0.chunks(width).zip(h1.chunks(width)).map(|(a, b)| [a, b]));
        }
        let (mut low, mut high) = (low.map(Vec::into_iter), high.map(Vec::into_iter));
        (0..quarter.div_ceil(width))
            .map(|_| Self {
                low: from_fn(|t| low[t].next().expect("a block of every table")),
                high: from_fn(|t| high[t].next().expect("a block of every table")),
            })
            .collect()
    }

    /// Binds the first variable, and sums the message of the second; `FIRST` if the tables are as they are at first.
    fn bind<const FIRST: bool>(self, form: impl Form<T>, weights: &[Packed], c: Factor) -> [Sum; 2] {
        let mut sums = [Sum::ZERO; 2];
        for (i, weight) in weights.iter().enumerate() {
            // Loops, as closures here are not inlined.
            let (mut first, mut second) = ([Packed::ZERO; T], [Packed::ZERO; T]);
            for t in 0..T {
                let ([low0, low1], [high0, high1]) = (&self.low[t], &self.high[t]);
                first[t] = low0[i] + (high0[i] - low0[i]) * c;
                second[t] = low1[i] + (high1[i] - low1[i]) * c;
            }
            if FIRST {
                (first, second) = (form.begin(first), form.begin(second));
            }
            for t in 0..T {
                (self.low[t][0][i], self.low[t][1][i]) = (first[t], second[t]);
            }
            add_terms(&mut sums, form, *weight, first, second);
        }
        sums
    }
}

/// The rounds of a layer over some tables, which are vectors as long as one of them is filled.
pub struct Tables<'a, F, const T: usize> {
    form: F,
    point: &'a [K],
    /// Number of variables that are bound.
    bound: usize,
    lanes: Lanes<'a, T>,
}

/// The tables of the rounds.
enum Lanes<'a, const T: usize> {
    /// Tables of more than one vector, which are overwritten.
    Packed(Stage, [&'a mut [Packed]; T]),
    /// Tables of as many elements as a vector has, or fewer.
    Single([Vec<K>; T]),
}

/// How far tables of vectors have come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// They are as they were made, so the form has yet to [begin](Form::begin).
    Made,
    /// The form has begun, when the first variable was bound.
    Begun,
}

impl<'a, F: Form<T>, const T: usize> Tables<'a, F, T> {
    /// Begins rounds over tables of elements, whose variables are those behind the first `bound` ones of `point`. The form has begun.
    pub fn single(form: F, point: &'a [K], bound: usize, tables: [Vec<K>; T]) -> Self {
        Self {
            form,
            point,
            bound,
            lanes: Lanes::Single(tables),
        }
    }

    /// Begins rounds over tables of vectors as they were made, whose variables are those behind the first `bound` ones of `point`.
    pub fn packed(form: F, point: &'a [K], bound: usize, tables: [&'a mut [Packed]; T]) -> Self {
        let mut own = Self {
            form,
            point,
            bound,
            lanes: Lanes::Packed(Stage::Made, tables),
        };
        own.unpack();
        own
    }

    /// Begins rounds over tables of more than one vector, for which the form has begun.
    pub fn begun(form: F, point: &'a [K], bound: usize, tables: [&'a mut [Packed]; T]) -> Self {
        Self {
            form,
            point,
            bound,
            lanes: Lanes::Packed(Stage::Begun, tables),
        }
    }

    /// Takes the elements out of tables of a single vector.
    fn unpack(&mut self) {
        let Lanes::Packed(stage, tables) = &self.lanes else {
            return;
        };
        if tables[0].len() > 1 {
            return;
        }
        let values = tables.each_ref().map(|table| table[0]);
        let values = match stage {
            Stage::Made => self.form.begin(values),
            Stage::Begun => values,
        };
        let left = self.point.len() - self.bound;
        self.lanes = Lanes::Single(values.map(|v| v.to_array()[..1 << left].to_vec()));
    }

    /// The message of the next variable; zero if there is none.
    pub fn message(&self) -> [K; 2] {
        let Some((_, rest)) = self.point[self.bound..].split_first() else {
            return [K::default(); 2];
        };
        self.form.message(match &self.lanes {
            Lanes::Packed(_, tables) => first_message(self.form, tables, rest),
            Lanes::Single(tables) => single_message(self.form, tables, rest),
        })
    }

    /// Binds the next variable; returns the message of the one behind it, zero if there is none.
    pub fn bind(&mut self, c: K) -> [K; 2] {
        self.bound += 1;
        let rest = self.point.get(self.bound + 1..).unwrap_or_default();
        match &mut self.lanes {
            Lanes::Single(tables) => tables.iter_mut().for_each(|table| fold_msb_in_place(table, c)),
            Lanes::Packed(stage, tables) => {
                let message = match std::mem::replace(stage, Stage::Begun) {
                    Stage::Made => bind::<T, true>(self.form, tables, rest, c),
                    Stage::Begun => bind::<T, false>(self.form, tables, rest, c),
                };
                if tables[0].len() > 1 {
                    return self.form.message(message);
                }
                self.unpack();
            }
        }
        self.message()
    }

    /// The two children of the layer's node, from what is left of the tables.
    pub fn children(&self) -> [K; 4] {
        match &self.lanes {
            Lanes::Single(tables) => self.form.children(tables.each_ref().map(|table| table[0])),
            Lanes::Packed(..) => unreachable!("variables that are not bound"),
        }
    }
}

/// The message of the first variable; `rest` are the coordinates of the others.
fn first_message<const T: usize>(form: impl Form<T>, tables: &[&mut [Packed]; T], rest: &[K]) -> [K; 2] {
    let half = tables[0].len() / 2;
    Eq::new(rest).message(|first, weights| {
        let mut sums = [Sum::ZERO; 2];
        for (i, weight) in weights.iter().enumerate() {
            let at = first + i;
            let (mut first, mut second) = ([Packed::ZERO; T], [Packed::ZERO; T]);
            for t in 0..T {
                (first[t], second[t]) = (tables[t][at], tables[t][at + half]);
            }
            add_terms(&mut sums, form, *weight, form.begin(first), form.begin(second));
        }
        sums
    })
}

/// Binds the first variable of tables, whose low halves are what is left; `FIRST` if the tables are as they are at first.
/// Returns the message of the second one, if a vector of it is left; `rest` are the coordinates of those behind it.
fn bind<const T: usize, const FIRST: bool>(
    form: impl Form<T>,
    tables: &mut [&mut [Packed]; T],
    rest: &[K],
    c: K,
) -> [K; 2] {
    let c = Factor::new(c);
    let half = tables[0].len() / 2;
    let message = if half == 1 {
        let bound = tables.each_ref().map(|table| table[0] + (table[1] - table[0]) * c);
        let values = if FIRST { form.begin(bound) } else { bound };
        tables.iter_mut().zip(values).for_each(|(table, v)| table[0] = v);
        [K::default(); 2]
    } else {
        let eq = Eq::new(rest);
        let blocks = Quarters::blocks(tables.each_mut().map(|table| &mut **table), eq.width());
        eq.message_of(blocks, |_, block, weights| block.bind::<FIRST>(form, weights, c))
    };
    for table in tables {
        *table = &mut std::mem::take(table)[..half];
    }
    message
}

/// The message of the first variable of tables of elements.
fn single_message<const T: usize>(form: impl Form<T>, tables: &[Vec<K>; T], rest: &[K]) -> [K; 2] {
    let half = tables[0].len() / 2;
    let mut message = [K::default(); 2];
    for (x, weight) in eq_table(rest).into_iter().enumerate() {
        let both: [[K; 2]; T] = from_fn(|t| [tables[t][x], tables[t][x + half]]);
        message[0] += weight * form.single(both.map(|[first, _]| first));
        message[1] += weight * form.single(both.map(|[first, second]| second - first));
    }
    message
}
