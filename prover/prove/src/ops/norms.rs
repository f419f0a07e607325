//! Norms of the residual stream (docs/protocol.md, section 16.2): how their rows are filled, and the factors of squares, roots and of
//! what reads a normed state.

use crate::bind::eq_table;
use num_traits::Zero;
use stwo::core::fields::m31::BaseField;
use tessera_circuits::model::Limbs;
use tessera_circuits::ops::norms::{
    bound_limbs, epsilon, NormWeights, CARRIES, CARRY, CARRY_BITS, COLUMNS, CROSS_HI, CROSS_LO, GAP, HIGH_LO, LEFT,
    LIMBS, LIMB_BITS, QUOTIENT, REST, ROOM_HI, ROOT, ROOT_CARRIES, ROOT_FACTORS, SUM, SUM_BITS,
};
use tessera_circuits::ops::{norms, stream};
use tessera_circuits::shape::{Part, Product};
use tessera_circuits::statement::{class_of, norm_of};
use tessera_circuits::statistics::Clip;

use super::operator::Operator;
use crate::column::Column;
use crate::device::DeviceError;
use crate::device::Table as Factor;
use crate::factors::{base_rows, entries, text_rows, Factors, K};
use crate::field::Factor as Scalar;
use crate::field::{pack, words, zeros, Packed, SIMD_LANES};
use crate::trace::{build, felt, Source};

/// The prover's side of [`tessera_circuits::ops::norms`].
pub(super) const OPERATOR: Operator = Operator {
    fills: &[(Part::NORMS, |source, _| source.norms())],
    makes: &[
        (Product::NORM, |own| own.normed(Product::NORM, Limbs::One)),
        (Product::NORM_LIMBS, |own| own.normed(Product::NORM_LIMBS, Limbs::Two)),
        (Product::SQUARE, |own| own.square()),
        (Product::ROOT, |own| own.roots().map(entries)),
    ],
};

/// What the rows of norms behind the text hold beside zeros: a sum of squares that divides nothing.
pub(super) const FILLER: &[(usize, u32)] = &[(SUM, 1)];

/// What a row of norms is made of.
#[derive(Clone, Copy, Debug)]
pub struct NormRow {
    /// Sums of `hi^2`, `hi lo` and `lo^2`.
    pub sums: [i64; 3],
    pub eps: u64,
    /// The limbs of what is divided by the sum of squares.
    pub bound: [i64; LIMBS + 1],
    pub root: u32,
}

impl NormRow {
    /// A row that says nothing, and is in the tables as any other.
    pub(super) const PADDING: Self = Self {
        sums: [0; 3],
        eps: 1,
        bound: [0; LIMBS + 1],
        root: 0,
    };

    /// All columns. Of a root that is not that of the sum, they are those of no division, and in range.
    pub fn columns(&self) -> [i64; COLUMNS] {
        let mut row = [0; COLUMNS];
        let radix = 1i64 << LIMB_BITS;
        let write = |row: &mut [i64], at: usize, count: usize, value: i64| {
            for k in 0..count {
                row[at + k] = (value >> (LIMB_BITS as usize * k)) % radix;
            }
        };
        let [high, cross, low] = self.sums;
        let [eps_hi, eps_lo] = epsilon(self.eps);
        let half = 2 * LIMB_BITS;
        row[CROSS_HI] = cross >> SUM_BITS[0];
        row[CROSS_LO] = cross & ((1 << SUM_BITS[0]) - 1);
        row[HIGH_LO] = high & 0xff;
        let below = low + (row[CROSS_LO] << 9) + (row[HIGH_LO] << 16) + eps_lo;
        row[CARRY] = below >> half;
        let above = (high >> 8) + row[CARRY] + row[CROSS_HI] + eps_hi;
        let sum = (above << half) + (below & ((1 << half) - 1));
        write(&mut row, SUM, LIMBS, sum);

        let digits = self.bound.iter().rev();
        let bound = digits.fold(0i128, |value, limb| (value << LIMB_BITS) + i128::from(*limb));
        let quotient = (bound / i128::from(sum)) as i64;
        let left = (bound % i128::from(sum)) as i64;
        write(&mut row, QUOTIENT, LIMBS, quotient);
        write(&mut row, LEFT, LIMBS, left);
        let mut carried = 0;
        for k in 0..GAP - CARRIES {
            let product: i64 = (0..=k).map(|i| row[QUOTIENT + i] * row[SUM + k - i]).sum();
            carried = (product + row[LEFT + k] + carried - self.bound[k]) >> LIMB_BITS;
            row[CARRIES + k] = carried;
        }
        write(&mut row, GAP, LIMBS - 1, (sum - 1 - left) >> LIMB_BITS);

        let root = i64::from(self.root);
        let rest = (quotient - root * root).clamp(0, (1 << (half + 1)) - 1);
        write(&mut row, ROOT, 2, root);
        row[REST] = rest % radix;
        row[REST + 1] = rest >> LIMB_BITS;
        let carry = |value: i64, bits: u32| (value >> LIMB_BITS).clamp(0, (1 << bits) - 1);
        let [root_lo, root_hi] = [row[ROOT], row[ROOT + 1]];
        let first = carry(root_lo * root_lo + row[REST] - row[QUOTIENT], CARRY_BITS[1]);
        row[ROOT_CARRIES] = first;
        let second = 2 * root_lo * root_hi + row[REST + 1] + first - row[QUOTIENT + 1];
        row[ROOT_CARRIES + 1] = carry(second, CARRY_BITS[2]);
        row[ROOM_HI] = (2 * root - rest).max(0) >> LIMB_BITS;
        row
    }
}

impl Source<'_> {
    fn norms(&self) -> (Vec<Column>, Vec<Clip>) {
        let hidden = self.shape.config.hidden;
        let leading = self.statement.leading(&self.params.leading);
        build(self, Part::NORMS, (|[_, i]| i, FILLER), |[n, i], row| {
            let of_state = |state: &tessera_model::forward::Stream| {
                let norm = norm_of(self.params, n);
                NormRow {
                    sums: state.sums[i],
                    eps: norm.eps.of(class_of(i, leading)),
                    bound: bound_limbs(hidden, norm.scale),
                    root: state.rsqrt[i],
                }
            };
            let own = self.witness.streams.get(n).map_or(NormRow::PADDING, of_state);
            row.iter_mut().zip(own.columns()).for_each(|(to, v)| *to = felt(v));
            [0; 6]
        })
    }
}

impl Factors<'_> {
    /// Normed states in limbs, and the weights of the matmuls that read them so.
    fn normed(&self, product: Product, limbs: Limbs) -> Result<(Factor, Factor), DeviceError> {
        self.weighted(product, Part::STREAM, &self.public.normed_columns(limbs))
    }

    /// The stream in limbs, each entry times its weight among the accumulators, and as it is.
    fn square(&self) -> Result<(Factor, Factor), DeviceError> {
        let (shape, points) = (self.public.shape, self.public.points);
        let states = points.state_weights(shape.states());
        let states: Vec<K> = states.into_iter().map(|w| points.norms().square * w).collect();
        let tokens = eq_table(&points.token);
        let channels = [false, true].map(|output| {
            let mut channels = self.public.squared_exponents(output);
            channels.resize(1 << shape.padded.hidden, K::zero());
            pack(&channels)
        });
        let (width, limb) = (channels[0].len(), Packed::broadcast(points.limb));
        let [hi, lo] = self.wholes(Part::STREAM, [stream::X_HI, stream::X_LO])?;
        let (hi, lo) = (base_rows(&hi, width), base_rows(&lo, width));
        let value = |(hi, lo): (&[BaseField; SIMD_LANES], &[BaseField; SIMD_LANES])| {
            limb.mul_add(words::load(lo), Packed::from_base(words::load(hi)))
        };
        let (sizes, lead) = (shape.sizes(), shape.lead(Part::STREAM));
        let plain = text_rows(sizes, lead, width, |row, out| {
            let values = out.iter_mut().zip(hi[row].iter().zip(lo[row]));
            values.for_each(|(out, limbs)| *out = value(limbs));
        });
        let weighted = text_rows(sizes, lead, width, |row, out| {
            let Some(state) = states.get(row / tokens.len()) else {
                return;
            };
            let factor = Scalar::new(*state * tokens[row % tokens.len()]);
            let own = &channels[usize::from(self.public.params.is_output(row / tokens.len()))];
            let values = hi[row].iter().zip(lo[row]).zip(own);
            let terms = out.iter_mut().zip(values);
            terms.for_each(|(out, (limbs, w))| *out = *w * factor * value(limbs));
        });
        Ok((weighted, plain))
    }

    /// Of every row of norms reciprocal root, quotient and root, each times its weight among the accumulators, and what they
    /// multiply.
    fn roots(&self) -> Result<(Vec<K>, Vec<K>), DeviceError> {
        let (shape, points) = (self.public.shape, self.public.points);
        let tokens = eq_table(&points.token);
        let states = points.state_weights(shape.states());
        let features = points.out(shape.padded.hidden);
        let [byte, one] = [1 << 8, 1].map(small);
        let values = self.bound(Part::STREAM, &[(stream::X_HI, byte), (stream::X_LO, one)], 2, features)?;
        let weight = |row: usize| states.get(row / tokens.len()).map(|w| *w * tokens[row % tokens.len()]);
        let size = 1usize << Product::ROOT.variables(shape);
        self.root_rows(Part::NORMS, size, &values, points.norms(), weight)
    }

    /// The factors of the rows of norms, where rows without a weight are zero; `values` are what the reciprocal roots multiply.
    pub(super) fn root_rows(
        &self,
        part: Part,
        size: usize,
        values: &[K],
        weights: NormWeights,
        weight: impl Fn(usize) -> Option<K>,
    ) -> Result<(Vec<K>, Vec<K>), DeviceError> {
        let (limb, radix) = (self.public.points.limb, small(1 << norms::LIMB_BITS));
        let columns = (0..norms::COLUMNS).map(|at| self.whole(part, at));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let value = |at: usize, count: usize, x: K, row: usize| {
            let limbs = columns[at..at + count].iter().rev();
            limbs.fold(K::zero(), |sum, column| sum * x + column[row])
        };
        let (mut weighted, mut plain) = (zeros(size), zeros(size));
        let rows = weighted
            .chunks_mut(1 << ROOT_FACTORS)
            .zip(plain.chunks_mut(1 << ROOT_FACTORS));
        for (row, (left, right)) in rows.enumerate() {
            let Some([own, weight]) = weight(row).map(|weight| [weight, values[row]]) else {
                continue;
            };
            let (sum, quotient) = (norms::SUM, norms::QUOTIENT);
            let [by_value, by_limb] = [radix, limb].map(|x| value(norms::ROOT, 2, x, row));
            let factors = [by_value, value(quotient, norms::LIMBS, limb, row), by_limb];
            left.iter_mut().zip(factors).for_each(|(to, v)| *to = own * v);
            let factors = [
                weights.normed * weight,
                weights.quotient * value(sum, norms::LIMBS, limb, row),
                weights.root * by_limb,
            ];
            right.iter_mut().zip(factors).for_each(|(to, v)| *to = v);
        }
        Ok((weighted, plain))
    }
}

pub(super) fn small(value: u32) -> K {
    K::from(BaseField::from_u32_unchecked(value))
}
