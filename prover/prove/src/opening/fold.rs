//! A sumcheck over a combined column: `sum_z message(z) eq(point, z)`, least significant variable first. The table
//! of `eq` is never made: with the variables bound so far it is a factor, in the round's variable a line, and in the others
//! the product of two short tables (Gruen, "Some improvements for the PIOP for ZeroCheck", 2024).

use std::simd::u32x16;

use num_traits::{One, Zero};
use rayon::prelude::*;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::prover::backend::simd::m31::{PackedBaseField, N_LANES};
use stwo::prover::backend::simd::qm31::PackedSecureField;
use tessera_circuits::mle::eq_table;
use tessera_verifier::sumcheck::Round;

use tessera_kernels::table::Table;

/// Most variables of the short table that is summed over first; it fits the first-level cache.
const INNER: usize = 8;
/// Elements that a thread folds at a time.
const TASK: usize = 1 << 13;
/// Elements of a vector of words.
const QUAD: usize = 4;

/// A table of elements, of its own or of somebody else.
enum Values<'a> {
    Lent(&'a [SecureField]),
    Own(Table<SecureField>),
}

/// What is left of a claim `sum_z message(z) eq(point, z)` after some rounds. A message of fewer variables than the point is
/// lifted: it does not depend on the last ones.
pub struct Message<'a> {
    values: Values<'a>,
    /// The coordinates of the variables that are left.
    point: Vec<SecureField>,
    /// `eq` in the variables that are bound.
    factor: SecureField,
}

impl<'a> Message<'a> {
    /// # Panics
    /// If the message has more variables than the point.
    pub fn new(values: Table<SecureField>, point: Vec<SecureField>) -> Self {
        Self::of(Values::Own(values), point)
    }

    /// A message that stays as it is: rounds make tables of their own.
    ///
    /// # Panics
    /// If the message has more variables than the point.
    pub fn lent(values: &'a [SecureField], point: Vec<SecureField>) -> Self {
        Self::of(Values::Lent(values), point)
    }

    fn of(values: Values<'a>, point: Vec<SecureField>) -> Self {
        let message = Self {
            values,
            point,
            factor: SecureField::one(),
        };
        assert!(message.variables() <= message.point.len(), "values of a message");
        message
    }

    /// The message in the variables that are left and that it depends on.
    pub fn values(&self) -> &[SecureField] {
        match &self.values {
            Values::Lent(values) => values,
            Values::Own(values) => values,
        }
    }

    /// Number of variables that are left and that the message depends on.
    fn variables(&self) -> usize {
        self.values().len().ilog2() as usize
    }

    /// `[s(0), s(2)]` of the sum as a polynomial in the least significant variable.
    ///
    /// # Panics
    /// If no variable is left.
    pub fn round(&self) -> Round {
        let (&p, others) = self.point.split_last().expect("a variable");
        let [at_0, at_1] = match self.variables() <= others.len() {
            // The same whatever the variable is.
            true => [evaluate(self.values(), &others[..self.variables()]); 2],
            false => halves(self.values(), others),
        };
        // The line of `eq` at 0 is 1 - p and at 1 it is p.
        let (eq_0, eq_2) = (SecureField::one() - p, p + p + p - SecureField::one());
        [self.factor * eq_0 * at_0, self.factor * eq_2 * (at_1 + at_1 - at_0)]
    }

    /// Binds the least significant variable to `r`.
    ///
    /// # Panics
    /// If no variable is left.
    pub fn bind(&mut self, r: SecureField) {
        let lifted = self.variables() < self.point.len();
        let p = self.point.pop().expect("a variable");
        let both = p * r;
        self.factor *= SecureField::one() - p - r + both + both;
        if !lifted {
            self.values = Values::Own(fold(self.values(), r));
        }
    }

    /// The final message.
    pub fn into_values(self) -> Vec<SecureField> {
        self.values().to_vec()
    }

    /// Changes the message but not the sum.
    #[cfg(test)]
    pub(super) fn cheat(&mut self) {
        let eq = eq_table(&self.point);
        let mut values = Table::from(self.values());
        values[0] += eq[1];
        values[1] -= eq[0];
        self.values = Values::Own(values);
    }
}

/// The multilinear extension of a message at a point.
fn evaluate(message: &[SecureField], point: &[SecureField]) -> SecureField {
    match point.split_last() {
        Some((&p, others)) => {
            let [at_0, at_1] = halves(message, others);
            at_0 + p * (at_1 - at_0)
        }
        None => message[0],
    }
}

/// `sum_z eq(point, z) message(2 z + i)` for `i` = 0 and 1.
fn halves(message: &[SecureField], point: &[SecureField]) -> [SecureField; 2] {
    let (outer, inner) = point.split_at(point.len() - point.len().min(INNER));
    // Every weight for both elements of a pair, so that sixteen elements of the message are a vector as they are.
    let weights: Vec<SecureField> = eq_table(inner).into_iter().flat_map(|e| [e, e]).collect();
    let (vectors, rest) = weights.as_chunks::<N_LANES>();
    let vectors: Vec<PackedSecureField> = vectors.iter().map(|e| PackedSecureField::from_array(*e)).collect();
    let outer = eq_table(outer);
    let sums = message
        .par_chunks_exact(weights.len())
        .zip(&outer)
        .with_min_len(TASK / weights.len())
        .map(|(message, outer)| {
            let (message, last) = message.as_chunks::<N_LANES>();
            let products = message.iter().zip(&vectors).map(|(m, e)| load(m) * *e);
            let mut sums = [SecureField::zero(); 2];
            if !message.is_empty() {
                let lanes = products.fold(PackedSecureField::zero(), |a, b| a + b).to_array();
                lanes.iter().enumerate().for_each(|(i, lane)| sums[i % 2] += *lane);
            }
            last.iter()
                .zip(rest)
                .enumerate()
                .for_each(|(i, (m, e))| sums[i % 2] += *m * *e);
            sums.map(|sum| sum * *outer)
        });
    sums.reduce(|| [SecureField::zero(); 2], |[a, b], [c, d]| [a + c, b + d])
}

/// `message(2 z) + r (message(2 z + 1) - message(2 z))`.
fn fold(message: &[SecureField], r: SecureField) -> Table<SecureField> {
    let mut folded = Table::new(message.len() / 2);
    let broadcast = PackedSecureField::broadcast(r);
    let tasks = folded.par_chunks_mut(TASK / 2).zip(message.par_chunks(TASK));
    tasks.for_each(|(folded, message)| {
        let (vectors, rest) = message.as_chunks::<{ 2 * N_LANES }>();
        let (to, last) = folded.as_chunks_mut::<N_LANES>();
        for (to, from) in to.iter_mut().zip(vectors) {
            let (first, second) = from.split_at(N_LANES);
            let [first, second] =
                [first, second].map(|half| half.first_chunk().map_or(PackedSecureField::zero(), load));
            let (a, b) = first.deinterleave(second);
            store(a + broadcast * (b - a), to);
        }
        for (to, pair) in last.iter_mut().zip(rest.as_chunks::<2>().0) {
            *to = pair[0] + r * (pair[1] - pair[0]);
        }
    });
    folded
}

/// Sixteen elements as a vector for every coordinate.
#[inline(always)]
fn load(elements: &[SecureField; N_LANES]) -> PackedSecureField {
    let words = |quad: usize| {
        let word = |i: usize| elements[QUAD * quad + i / QUAD].to_m31_array()[i % QUAD].0;
        u32x16::from_array(std::array::from_fn(word))
    };
    let (even, odd) = (words(0).deinterleave(words(1)), words(2).deinterleave(words(3)));
    let (c0, c2) = even.0.deinterleave(odd.0);
    let (c1, c3) = even.1.deinterleave(odd.1);
    let coordinate = |words: u32x16| PackedBaseField::from_array(words.to_array().map(BaseField::from_u32_unchecked));
    PackedSecureField::from_packed_m31s([c0, c1, c2, c3].map(coordinate))
}

/// The inverse of [`load`].
#[inline(always)]
fn store(vector: PackedSecureField, elements: &mut [SecureField; N_LANES]) {
    let [c0, c1, c2, c3] = vector.into_packed_m31s().map(|c| c.into_simd());
    let (even, odd) = (c0.interleave(c2), c1.interleave(c3));
    let quads = [even.0.interleave(odd.0), even.1.interleave(odd.1)];
    let quads = quads.into_iter().flat_map(|(a, b)| [a, b]);
    for (to, quad) in elements.as_chunks_mut::<QUAD>().0.iter_mut().zip(quads) {
        for (to, words) in to.iter_mut().zip(quad.to_array().as_chunks::<QUAD>().0) {
            *to = SecureField::from_m31_array(words.map(BaseField::from_u32_unchecked));
        }
    }
}

#[cfg(test)]
mod tests {
    use tessera_verifier::sumcheck::round_value;

    use super::super::tests::bind_least_significant;
    use super::*;
    use tessera_support::random::SplitMix;

    fn elements(n: usize, rng: &mut SplitMix) -> Vec<SecureField> {
        let mut word = || rng.below(u64::from(stwo::core::fields::m31::P)) as u32;
        (0..n)
            .map(|_| SecureField::from_u32_unchecked(word(), word(), word(), word()))
            .collect()
    }

    /// Every round against tables of the message and of `eq`, and the final claim against their product. Also of messages that
    /// are lifted, whose tables repeat every value.
    #[test]
    fn rounds_are_those_of_the_product_with_eq() {
        let mut rng = SplitMix(7);
        for (variables, lifted) in [
            (1, 0),
            (2, 0),
            (3, 0),
            (4, 0),
            (5, 0),
            (8, 0),
            (9, 0),
            (12, 0),
            (14, 0),
            (0, 3),
            (1, 1),
            (5, 4),
            (9, 2),
        ] {
            let (point, message) = (
                elements(variables + lifted, &mut rng),
                elements(1 << variables, &mut rng),
            );
            let repeated = message.iter().flat_map(|value| vec![*value; 1 << lifted]);
            let (mut u, mut eq) = (repeated.collect::<Vec<_>>(), eq_table(&point));
            let product = |u: &[SecureField], eq: &[SecureField]| {
                u.iter().zip(eq).fold(SecureField::zero(), |sum, (a, b)| sum + *a * *b)
            };
            let mut claim = product(&u, &eq);
            let mut folding = Message::new(Table::from(&message[..]), point);
            for r in elements(variables + lifted, &mut rng) {
                let round = folding.round();
                let at_2 = |table: &[SecureField], i: usize| table[2 * i + 1] + table[2 * i + 1] - table[2 * i];
                let expected = (0..u.len() / 2).fold([SecureField::zero(); 2], |[s0, s2], i| {
                    [s0 + u[2 * i] * eq[2 * i], s2 + at_2(&u, i) * at_2(&eq, i)]
                });
                assert_eq!(round, expected);
                claim = round_value(claim, round, r);
                bind_least_significant(&mut u, r);
                bind_least_significant(&mut eq, r);
                folding.bind(r);
                let repeat = u.len() / folding.values().len();
                assert!(u
                    .iter()
                    .enumerate()
                    .all(|(i, value)| folding.values()[i / repeat] == *value));
                assert_eq!(claim, product(&u, &eq));
                assert_eq!(folding.factor * product(&u, &eq_table(&folding.point)), claim);
            }
        }
    }
}
