//! The sumcheck of a layer: `sum_x eq(r, x) g(x)`, `g` of degree 2 in a few tables, with `eq` taken out of every round. Binding the
//! variable of one round and summing the message of the next is one pass.

use std::array::from_fn;

use rayon::prelude::*;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::mle::{eq_table, fold_msb_in_place};
use tessera_verifier::labels::LOOKUP_ROUND;
use tessera_verifier::transcript::Transcript;

use super::field::{Factor, Packed, Sum, LOG_LANES, SIMD_LANES};

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
}

/// `n0 d1 + d0 m1`, of tables `n0, d0, n1, d1`, where `m1 = n1 + lambda d1`: a sum of fractions, combined.
#[derive(Clone, Copy)]
pub struct Fractions {
    lambda: Factor,
}

impl Fractions {
    pub fn new(lambda: K) -> Self {
        Self {
            lambda: Factor::new(lambda),
        }
    }
}

impl Form<4> for Fractions {
    #[inline(always)]
    fn begin(self, [n0, d0, n1, d1]: [Packed; 4]) -> [Packed; 4] {
        [n0, d0, n1 + d1 * self.lambda, d1]
    }
    #[inline(always)]
    fn packed(self, [n0, d0, m1, d1]: [Packed; 4]) -> Packed {
        Packed::dot([n0, d0], [d1, m1])
    }
    fn single(self, [n0, d0, m1, d1]: [K; 4]) -> K {
        n0 * d1 + d0 * m1
    }
}

/// `a b`.
#[derive(Clone, Copy)]
pub struct Product;

impl Form<2> for Product {
    #[inline(always)]
    fn packed(self, [a, b]: [Packed; 2]) -> Packed {
        a * b
    }
    fn single(self, [a, b]: [K; 2]) -> K {
        a * b
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

    /// `[q(0), leading coefficient]` from what `sum` adds up of each block: number of its first vector, weights of its vectors.
    pub fn message(&self, sum: impl Fn(usize, &[Packed]) -> [Sum; 2] + Sync) -> [K; 2] {
        let width = self.within.len();
        let blocks = self.blocks.par_iter().enumerate();
        let own = blocks.map(|(at, factor)| {
            let factor = Packed::broadcast(*factor);
            sum(at * width, &self.within).map(|sum| sum.packed() * factor)
        });
        let zero = || [Packed::ZERO; 2];
        own.reduce(zero, |[a, b], [c, d]| [a + c, b + d]).map(Packed::total)
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

/// The messages of a sumcheck, and its challenges.
pub type Said = (Vec<[K; 2]>, Vec<K>);

/// The sumcheck of one layer: `sum_x eq(point, x) g(x)`, with what was said so far.
pub struct Sumcheck<'a> {
    point: &'a [K],
    challenges: Vec<K>,
    rounds: Vec<[K; 2]>,
}

impl<'a> Sumcheck<'a> {
    pub fn new(point: &'a [K]) -> Self {
        Self {
            point,
            challenges: Vec::with_capacity(point.len()),
            rounds: Vec::with_capacity(point.len()),
        }
    }

    /// The coordinates behind the next variable.
    fn rest(&self) -> &'a [K] {
        &self.point[self.challenges.len() + 1..]
    }

    /// Sends the message of the next variable; returns its challenge.
    pub fn exchange(&mut self, message: [K; 2], transcript: &mut Transcript) -> K {
        let c = LOOKUP_ROUND.send(&message, transcript);
        self.rounds.push(message);
        self.challenges.push(c);
        c
    }

    /// The variables that are left, over tables of elements. A message is what `send` makes of it. Returns the values of the
    /// tables at the end.
    pub fn single<const T: usize>(
        &mut self,
        form: impl Form<T>,
        mut tables: [Vec<K>; T],
        send: impl Fn([K; 2]) -> [K; 2],
        transcript: &mut Transcript,
    ) -> [K; T] {
        while self.challenges.len() < self.point.len() {
            let message = single_message(form, &tables, self.rest());
            let c = self.exchange(send(message), transcript);
            tables.iter_mut().for_each(|table| fold_msb_in_place(table, c));
        }
        tables.map(|table| table[0])
    }

    /// As [`Self::single`], over tables of vectors, which are overwritten.
    pub fn packed<const T: usize>(
        &mut self,
        form: impl Form<T>,
        mut tables: [&mut [Packed]; T],
        send: impl Fn([K; 2]) -> [K; 2],
        transcript: &mut Transcript,
    ) -> [K; T] {
        let mut values = form.begin(tables.each_ref().map(|table| table[0]));
        if tables[0].len() > 1 {
            let mut message = first_message(form, &tables, self.rest());
            let c = self.exchange(send(message), transcript);
            message = bind::<T, true>(form, &mut tables, self.rest(), c);
            while tables[0].len() > 1 {
                let c = self.exchange(send(message), transcript);
                message = bind::<T, false>(form, &mut tables, self.rest(), c);
            }
            values = tables.map(|table| table[0]);
        }
        let left = self.point.len() - self.challenges.len();
        let single = values.map(|v| v.to_array()[..1 << left].to_vec());
        self.single(form, single, send, transcript)
    }

    /// Messages and challenges.
    pub fn finish(self) -> Said {
        (self.rounds, self.challenges)
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
        let blocks = Quarters::blocks(tables.each_mut().map(|table| &mut **table), eq.within.len());
        let own = blocks.into_par_iter().zip(&eq.blocks).map(|(block, factor)| {
            let factor = Packed::broadcast(*factor);
            block
                .bind::<FIRST>(form, &eq.within, c)
                .map(|sum| sum.packed() * factor)
        });
        let zero = || [Packed::ZERO; 2];
        own.reduce(zero, |[a, b], [c, d]| [a + c, b + d]).map(Packed::total)
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
