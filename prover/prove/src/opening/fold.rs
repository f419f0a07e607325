//! A sumcheck over a sum of combined columns: `sum_z message(z) sum_i weight_i eq(point_i, z)`, least significant variable first. No
//! table of an `eq` is ever made: with the variables bound so far it is a factor, in the round's variable a line, and in the others
//! the product of two short tables (Gruen, "Some improvements for the PIOP for ZeroCheck", 2024).

use std::simd::u32x16;

use crate::bind::eq_table;
use num_traits::{One, Zero};
use rayon::prelude::*;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::prover::backend::simd::m31::{PackedBaseField, N_LANES};
use stwo::prover::backend::simd::qm31::PackedSecureField;
use tessera_verifier::sumcheck::Round;

use tessera_kernels::table::Table;

/// Most variables of the short table that is summed over first; it fits the first-level cache.
const INNER: usize = 8;
/// Elements that a thread folds at a time.
const TASK: usize = 1 << 13;
/// Elements of a vector of words.
const QUAD: usize = 4;

/// What is left of a claim `sum_z message(z) sum_i weight_i eq(point_i, z)` after some rounds.
pub struct Message {
    values: Table<SecureField>,
    /// The coordinates of the variables that are left, and the weight with `eq` in the variables that are bound.
    points: Vec<(SecureField, Vec<SecureField>)>,
    /// Further weights, of the entries whose last coordinates are zeros, from the first one on; and the number of these coordinates.
    further: (Vec<SecureField>, u32),
}

impl Message {
    /// # Panics
    /// If a point has not as many coordinates as the message has variables.
    pub fn new(values: Table<SecureField>, points: Vec<(SecureField, Vec<SecureField>)>) -> Self {
        let further = (Vec::new(), 0);
        let message = Self {
            values,
            points,
            further,
        };
        let variables = message.variables();
        assert!(
            message.points.iter().all(|(_, point)| point.len() == variables),
            "a point of a message"
        );
        message
    }

    /// Adds further weights, of the entries whose last `lifted` coordinates are zeros.
    #[must_use]
    pub fn with_weights(self, weights: Vec<SecureField>, lifted: u32) -> Self {
        Self {
            further: (weights, lifted),
            ..self
        }
    }

    /// The message in the variables that are left.
    pub fn values(&self) -> &[SecureField] {
        &self.values
    }

    /// Number of variables that are left.
    fn variables(&self) -> usize {
        self.values.len().ilog2() as usize
    }

    /// `[s(0), s(2)]` of the sum as a polynomial in the least significant variable.
    ///
    /// # Panics
    /// If no variable is left.
    pub fn round(&self) -> Round {
        let rounds = self.points.iter().map(|(weight, point)| {
            let (&p, others) = point.split_last().expect("a variable");
            let [at_0, at_1] = halves(&self.values, others);
            // The line of `eq` at 0 is 1 - p and at 1 it is p.
            let (eq_0, eq_2) = (SecureField::one() - p, p + p + p - SecureField::one());
            [*weight * eq_0 * at_0, *weight * eq_2 * (at_1 + at_1 - at_0)]
        });
        let sum = |[a, b]: Round, [c, d]: Round| [a + c, b + d];
        rounds.fold(self.further_round(), sum)
    }

    /// The share of the further weights in a round.
    fn further_round(&self) -> Round {
        let (weights, lifted) = &self.further;
        let zero = SecureField::zero();
        // Between neighbours the weight is a line. If the last coordinate is zero, only the first of them has one.
        let (width, step) = if *lifted > 0 { (1, 1 << lifted) } else { (2, 2) };
        let pairs = weights.chunks(width).enumerate();
        let own = pairs.map(|(i, own)| {
            let (first, second) = (own[0], own.get(1).copied().unwrap_or(zero));
            let [a, b] = [0, 1].map(|next| self.values[i * step + next]);
            [first * a, (second + second - first) * (b + b - a)]
        });
        own.fold([zero; 2], |[a, b], [c, d]| [a + c, b + d])
    }

    /// Binds the least significant variable to `r`.
    ///
    /// # Panics
    /// If no variable is left.
    pub fn bind(&mut self, r: SecureField) {
        for (weight, point) in &mut self.points {
            let p = point.pop().expect("a variable");
            let both = p * r;
            *weight *= SecureField::one() - p - r + both + both;
        }
        let (weights, lifted) = &mut self.further;
        let line = |own: &[SecureField]| own[0] + r * (own.get(1).copied().unwrap_or_default() - own[0]);
        *weights = weights.chunks(if *lifted > 0 { 1 } else { 2 }).map(line).collect();
        *lifted = lifted.saturating_sub(1);
        self.values = fold(&self.values, r);
    }

    /// The final message.
    pub fn into_values(self) -> Vec<SecureField> {
        self.values.to_vec()
    }

    /// Changes the message but not the sum.
    #[cfg(test)]
    pub(super) fn cheat(&mut self) {
        let sum = |i: usize| {
            let shares = self.points.iter().map(|(weight, point)| *weight * eq_table(point)[i]);
            shares.fold(SecureField::zero(), |a, b| a + b)
        };
        let [first, second] = [0, 1].map(sum);
        self.values[0] += second;
        self.values[1] -= first;
    }
}

/// The multilinear extension of a message at a point. Zeros at the end of the point choose values, so that no others are read.
pub fn evaluate(message: &[SecureField], point: &[SecureField]) -> SecureField {
    let zeros = point.iter().rev().take_while(|p| p.is_zero()).count();
    let point = &point[..point.len() - zeros];
    let chosen: Vec<SecureField>;
    let message = match zeros {
        0 => message,
        _ => {
            chosen = message.iter().step_by(1 << zeros).copied().collect();
            &chosen
        }
    };
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

    /// Every round against tables of the message and of the sum of `eq`, and the final claim against their product, with one point and
    /// with several, of which some end in zeros.
    #[test]
    fn rounds_are_those_of_the_product_with_eq() {
        let mut rng = SplitMix(7);
        for (variables, points) in [
            (1, 1),
            (2, 1),
            (3, 1),
            (4, 2),
            (5, 1),
            (8, 2),
            (9, 3),
            (12, 2),
            (14, 1),
            (0, 2),
        ] {
            let message = elements(1 << variables, &mut rng);
            let weights = elements(points, &mut rng);
            let points: Vec<Vec<SecureField>> = (0..points)
                .map(|i| {
                    let mut point = elements(variables, &mut rng);
                    point
                        .iter_mut()
                        .rev()
                        .take(2 * i)
                        .for_each(|p| *p = SecureField::zero());
                    point
                })
                .collect();
            let summed = |points: &[(SecureField, Vec<SecureField>)]| {
                let mut sum = vec![SecureField::zero(); 1 << points[0].1.len()];
                for (weight, point) in points {
                    let eq = eq_table(point);
                    sum.iter_mut().zip(eq).for_each(|(sum, eq)| *sum += *weight * eq);
                }
                sum
            };
            let points: Vec<_> = weights.into_iter().zip(points).collect();
            let (mut u, mut eq) = (message.clone(), summed(&points));
            let product = |u: &[SecureField], eq: &[SecureField]| {
                u.iter().zip(eq).fold(SecureField::zero(), |sum, (a, b)| sum + *a * *b)
            };
            let mut claim = product(&u, &eq);
            let shares = points.iter().map(|(weight, point)| *weight * evaluate(&message, point));
            assert_eq!(shares.fold(SecureField::zero(), |a, b| a + b), claim);
            let mut folding = Message::new(Table::from(&message[..]), points);
            for r in elements(variables, &mut rng) {
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
                assert_eq!(folding.values(), &u[..]);
                assert_eq!(claim, product(&u, &eq));
                assert_eq!(summed(&folding.points), eq);
            }
        }
    }
}
