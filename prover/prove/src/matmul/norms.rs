//! Factors of the products of norms: squares of the stream, and reciprocal roots with what they multiply.

use num_traits::Zero;
use stwo::core::fields::m31::BaseField;
use tessera_circuits::mle::eq_table;
use tessera_circuits::ops::head_norms::NormedHeads;
use tessera_circuits::ops::norms::NormWeights;
use tessera_circuits::ops::norms::ROOT_FACTORS;
use tessera_circuits::ops::{norms, stream};
use tessera_circuits::shape::Part;
use tessera_circuits::shape::Product;

use super::{base_rows, rows, Factors, K};
use crate::device::{DeviceError, Table as Factor};
use crate::field::{pack, words, Factor as Scalar, Packed};

impl Factors<'_> {
    /// The stream in limbs, each entry times its weight among the accumulators, and as it is.
    pub(super) fn square(&self) -> Result<(Factor, Factor), DeviceError> {
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
        let plain = rows(hi.len(), width, |row, out| {
            let values = out.iter_mut().zip(hi[row].iter().zip(lo[row]));
            values.for_each(|(out, (hi, lo))| {
                *out = limb.mul_add(words::load(lo), Packed::from_base(words::load(hi)));
            });
        });
        let weighted = rows(hi.len(), width, |row, out| {
            let Some(state) = states.get(row / tokens.len()) else {
                return;
            };
            let factor = Scalar::new(*state * tokens[row % tokens.len()]);
            let own = &channels[usize::from(self.public.params.is_output(row / tokens.len()))];
            let values = plain[row * width..].iter().zip(own);
            out.iter_mut()
                .zip(values)
                .for_each(|(out, (v, w))| *out = *w * factor * *v);
        });
        Ok((Factor::Packs(weighted), Factor::Packs(plain)))
    }

    /// Of every row of norms reciprocal root, quotient and root, each times its weight among the accumulators, and what they
    /// multiply.
    pub(super) fn roots(&self) -> Result<(Vec<K>, Vec<K>), DeviceError> {
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
    fn root_rows(
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
        let (mut weighted, mut plain) = (vec![K::zero(); size], vec![K::zero(); size]);
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

    /// Queries or keys in limbs, each entry times its weight among the accumulators, and as it is.
    pub(super) fn head_squares(&self, part: Part) -> Result<(Vec<K>, Vec<K>), DeviceError> {
        let (shape, points) = (self.public.shape, self.public.points);
        let own = self.public.normed_heads(part);
        let (rope, limb) = (shape.rope(part), points.limb);
        let weights = self.head_rows(&own);
        let size = 1usize << shape.padded.half;
        let mut plain = vec![K::zero(); 2 << shape.full_axes(part).iter().sum::<u32>()];
        for side in [0, 1] {
            let at = rope.before(side);
            let [hi, lo] = self.wholes(part, [at, at + 1])?;
            let rows = plain.chunks_mut(size).skip(side).step_by(2);
            let values = hi.chunks(size).zip(lo.chunks(size));
            for (to, (hi, lo)) in rows.zip(values) {
                let values = to.iter_mut().zip(hi.iter().zip(lo));
                values.for_each(|(to, (hi, lo))| *to = limb * *lo + *hi);
            }
        }
        let mut weighted = vec![K::zero(); plain.len()];
        let rows = weighted.chunks_mut(2 * size).zip(plain.chunks(2 * size)).enumerate();
        for (row, (to, values)) in rows {
            let Some(weight) = weights(row).map(|weight| own.weights.square * weight) else {
                continue;
            };
            to.iter_mut().zip(values).for_each(|(to, v)| *to = weight * *v);
        }
        Ok((weighted, plain))
    }

    /// Of every head of queries or keys what [`Factors::roots`] has of a state.
    pub(super) fn head_roots(&self, part: Part) -> Result<(Vec<K>, Vec<K>), DeviceError> {
        let shape = self.public.shape;
        let own = self.public.normed_heads(part);
        let rope = shape.rope(part);
        let of = |(side, half): (usize, K)| {
            let at = rope.before(side);
            [(at, half * small(1 << 8)), (at + 1, half)]
        };
        let columns: Vec<_> = own.halves.into_iter().enumerate().flat_map(of).collect();
        let values = self.bound(part, &columns, 3, own.index)?;
        let product = match part {
            Part::Q => Product::QUERY_ROOT,
            _ => Product::KEY_ROOT,
        };
        let size = 1usize << product.variables(shape);
        self.root_rows(own.norms, size, &values, own.weights, self.head_rows(&own))
    }

    /// Weights of the rows (layer, token, head) of real layers and heads; of others there are none.
    fn head_rows(&self, own: &NormedHeads<'_>) -> impl Fn(usize) -> Option<K> {
        let points = self.public.points;
        let layers = points.layer_weights(self.public.shape.config.layers);
        let (tokens, heads, log) = (eq_table(&points.token), own.real(), own.heads_log);
        move |row| {
            let (rest, head) = (row >> log, row & ((1 << log) - 1));
            let weight = *layers.get(rest / tokens.len())? * *heads.get(head)?;
            Some(weight * tokens[rest % tokens.len()])
        }
    }
}

fn small(value: u32) -> K {
    K::from(BaseField::from_u32_unchecked(value))
}
