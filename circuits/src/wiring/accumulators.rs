//! What claims on accumulators are made of (docs/protocol.md, sections 7, 8.1 and 16): what was rounded follows from what it was
//! rounded to.

use std::collections::BTreeMap;

use crate::scalar::Scalar;

use super::{felt, padded, suffix, Public};
use crate::air::base;
use crate::air::gadgets::Remainder;
use crate::band::Band;
use crate::claims::{Factor, Group, Lazy, LinearClaim, Said, Scaled, Tensor, Values, Weight};
use crate::mle::{causal_eval, eq_table, less_than_eval};
use crate::model::{ChannelShift, Limbs, MatmulKind, RowClass};
use crate::rounding::Rounded;
use crate::rounding::{exponent_column, shift_at, shift_of};
use crate::semantics::bias_limbs;
use crate::shape::Part;
use crate::statistics::Clip;

/// Values of a part that were rounded, and what weighs them in a claim.
pub(crate) struct Rounding<K> {
    pub(crate) rounded: Rounded,
    /// The output, as a sum of columns.
    pub(crate) out: Vec<(usize, K)>,
    pub(crate) plain: Vec<Tensor<K>>,
    /// `plain` times `2^s` of the entry.
    pub(crate) powered: Vec<Tensor<K>>,
    /// `plain` of the entries whose shift alone makes their difference narrow.
    pub(crate) narrow: Vec<Tensor<K>>,
    /// Of the columns of the output and the remainder.
    pub(crate) factor: K,
}

/// The sides of a claim: groups that add up to a value.
#[derive(Default)]
pub(crate) struct Sides<K> {
    pub(crate) groups: Vec<Group<K>>,
    pub(crate) value: K,
}

impl<K: Scalar> Sides<K> {
    pub(crate) fn claim(self, name: &'static str) -> LinearClaim<K> {
        let Self { groups, value } = self;
        LinearClaim::of(name, groups).of_value(value)
    }
}

/// All claims on roundings, as they are made.
pub struct Claims<K> {
    /// Accumulators of matmuls and products.
    pub(crate) accumulators: Sides<K>,
    /// Those of their own: rotations, chosen logits.
    pub(crate) own: Vec<LinearClaim<K>>,
    pub(crate) clipped: Sides<K>,
    /// Weight of the next clipped value.
    pub(crate) power: K,
}

impl<K: Scalar> Claims<K> {
    /// None yet; the accumulators add up to a value, and to what the prover says of them.
    pub(crate) fn new(value: K) -> Self {
        Self {
            accumulators: Sides {
                groups: Vec::new(),
                value,
            },
            own: Vec::new(),
            clipped: Sides::default(),
            power: K::one(),
        }
    }

    /// All of them, in order.
    pub(crate) fn all(self) -> Vec<LinearClaim<K>> {
        let first = std::iter::once(self.accumulators.claim("accumulators").and(Said::Accumulators));
        let last = std::iter::once(self.clipped.claim("clipped values"));
        first.chain(self.own).chain(last).collect()
    }
}

impl<K: Scalar> Public<'_, K> {
    /// Coordinates of the output point along (head, half, index) for `heads_log` heads.
    pub(crate) fn head_point(&self, heads_log: u32) -> (&[K], K, &[K]) {
        let half = self.shape.padded.half as usize;
        let point = self.points.out(heads_log + 1 + self.shape.padded.half);
        let (heads, rest) = point.split_at((heads_log as usize).min(point.len()));
        let index = suffix(rest, half as u32);
        (heads, rest.first().copied().unwrap_or_default(), index)
    }

    /// Sum of the weights of a tensor over the committed entries of a part.
    pub(crate) fn total(&self, part: Part, tensor: &[Weight<K>]) -> K {
        let axes = self.shape.full_axes(part);
        let factors = tensor.iter().enumerate().map(|(axis, weight)| {
            let own = axes.get(axis).copied().unwrap_or(0);
            let extent = self.shape.extent(part, axis) << (weight.log_len() - own.min(weight.log_len()));
            match weight {
                Weight::Eq(point) => less_than_eval(extent, point),
                Weight::Text(point, end) => end.sum(point),
                Weight::Dense(values) => K::sum_of(values.get(..extent).unwrap_or(values)),
                Weight::Lazy(lazy) => lazy.sum(extent),
                Weight::Ones(_) => felt(extent as i64),
                // Of pairs of tokens, which are all committed.
                Weight::Open(row, key, Band::CAUSAL, None) => causal_eval(row, key).unwrap_or_default(),
                Weight::Open(row, key, Band::CAUSAL, Some(end)) => end.causal_sum(&eq_table(row), &eq_table(key)),
                Weight::Open(row, key, band, end) => band.sum(&eq_table(row), &eq_table(key), *end),
                Weight::Sparse(_, entries) => {
                    let within = entries.iter().filter(|(i, _)| *i < extent);
                    within.fold(K::zero(), |sum, (_, v)| sum + *v)
                }
            }
        });
        factors.fold(K::one(), |product, v| product * v)
    }

    pub(crate) fn totals(&self, part: Part, tensors: &[Tensor<K>]) -> K {
        let totals = tensors.iter().map(|tensor| self.total(part, tensor));
        totals.fold(K::zero(), |sum, v| sum + v)
    }

    /// Adds what the rounded values are by section 8.1: in one limb `2^(8 + s) OUT + REM - 2^(7 + s)`; in two, the high limb is
    /// `2^s OUT + DELTA`, the low one `REM - 2^(7 + s) - 256 DELTA`.
    pub(crate) fn add(&self, to: &mut Sides<K>, rounding: &Rounding<K>, remainder: Remainder) {
        let (part, factor) = (rounding.rounded.part, rounding.factor);
        let powers = self.totals(part, &rounding.powered);
        let scale = base(remainder.scale());
        let (low, columns) = match remainder.limbs {
            Limbs::One => (factor, vec![(remainder.rest(), factor)]),
            Limbs::Two => {
                let limb = self.points.limb * factor;
                let delta = factor - limb * base(256);
                to.value += delta * base(Remainder::OFFSET) * self.totals(part, &rounding.plain);
                self.narrow(to, rounding, remainder, delta);
                let columns = vec![
                    (remainder.r_hi(), limb * base(256)),
                    (remainder.r_lo(), limb),
                    (remainder.d_hi(), delta * base(128)),
                    (remainder.d_lo(), delta),
                ];
                (limb, columns)
            }
        };
        to.value += low * base(128) * powers;
        let out = rounding.out.iter().map(|(c, k)| (*c, *k * factor * scale)).collect();
        to.groups.push(Group::new_sum(part, rounding.powered.clone(), out));
        to.groups.push(Group::new_sum(part, rounding.plain.clone(), columns));
        to.value -= factor * scale * self.excesses(rounding);
    }

    /// Narrow differences are `127 D_HI + D_LO` less another constant, which takes `D_HI` off, and adds one.
    fn narrow(&self, to: &mut Sides<K>, rounding: &Rounding<K>, remainder: Remainder, delta: K) {
        let part = rounding.rounded.part;
        let axes = self.shape.full_axes(part);
        let mut tensors = rounding.narrow.clone();
        for clip in self.clips(rounding.rounded) {
            let place = clip.place(&axes);
            let bits = shift_at(self.shape, self.params, rounding.rounded, &place, self.leading());
            let listed = Some(clip.value() + i64::from(clip.excess));
            if remainder.is_narrow(bits, None) || !remainder.is_narrow(bits, listed) {
                continue;
            }
            let weights = rounding.plain.iter().map(|tensor| at(tensor, &axes, &place));
            let weight = weights.fold(K::zero(), |sum, w| sum + w);
            let weights = [weight].into_iter().chain(std::iter::repeat(K::one()));
            let factors = axes.iter().zip(&place).zip(weights);
            tensors.push(
                factors
                    .map(|((log, i), w)| Weight::Sparse(*log, vec![(*i, w)]))
                    .collect(),
            );
        }
        if !tensors.is_empty() {
            to.value -= delta * base(Remainder::NARROWING) * self.totals(part, &tensors);
            let columns = vec![(remainder.d_hi(), -delta)];
            to.groups.push(Group::new_sum(part, tensors, columns));
        }
    }

    fn clips(&self, rounded: Rounded) -> impl Iterator<Item = &Clip> {
        self.statistics.clips(rounded)
    }

    /// Weighted sum of what the values exceed their outputs by.
    pub(crate) fn excesses(&self, rounding: &Rounding<K>) -> K {
        let axes = self.shape.full_axes(rounding.rounded.part);
        let clips: Vec<_> = self
            .clips(rounding.rounded)
            .map(|clip| (clip.place(&axes), clip))
            .collect();
        let mut sum = K::zero();
        // The list ascends: of a long sum, the tensors of a layer or state are found once for all its entries.
        for same in clips.chunk_by(|(a, _), (b, _)| a.first() == b.first()) {
            let first = same.first().and_then(|(place, _)| place.first()).copied().unwrap_or(0);
            let reaches = |tensor: &&Tensor<K>| tensor.first().is_some_and(|w| !w.at(first).is_zero());
            let tensors: Vec<&Tensor<K>> = rounding.powered.iter().filter(reaches).collect();
            for (place, clip) in same {
                let weights = tensors.iter().map(|tensor| at(tensor, &axes, place));
                sum += weights.fold(K::zero(), |sum, w| sum + w) * base(i64::from(clip.excess));
            }
        }
        sum
    }

    /// A clipped value is the largest or smallest one there is; `value` is what the columns must add up to.
    pub(crate) fn clipped(
        &self,
        claims: &mut Claims<K>,
        rounding: &Rounding<K>,
        value: impl Fn(&[usize], &Clip) -> i64,
    ) {
        let axes = self.shape.full_axes(rounding.rounded.part);
        let mut entries = Vec::new();
        for clip in self.clips(rounding.rounded) {
            let place = clip.place(&axes);
            let weights = [claims.power].into_iter().chain(std::iter::repeat(K::one()));
            let factors = axes.iter().zip(&place).zip(weights);
            entries.push(
                factors
                    .map(|((log, i), w)| Weight::Sparse(*log, vec![(*i, w)]))
                    .collect(),
            );
            claims.clipped.value += claims.power * base(value(&place, clip));
            claims.power *= self.points.clip;
        }
        if !entries.is_empty() {
            let group = Group::new_sum(rounding.rounded.part, entries, rounding.out.clone());
            claims.clipped.groups.push(group);
        }
    }

    /// All claims on a rounding of accumulators of matmuls or products.
    pub(crate) fn accumulated(&self, claims: &mut Claims<K>, rounding: &Rounding<K>, remainder: Remainder) {
        self.add(&mut claims.accumulators, rounding, remainder);
        self.clipped(claims, rounding, |_, clip| clip.value());
    }

    /// The layers on the first axis, and along the axes after the tokens what `values` makes of the shifts of a matmul: powers, and
    /// where differences are narrow. Layers that have the same shifts share a tensor.
    pub(crate) fn by_layer(
        &self,
        part: Part,
        kind: MatmulKind,
        remainder: Remainder,
        values: &dyn Fn(&ChannelShift, Factor) -> Weight<K>,
    ) -> [Vec<Tensor<K>>; 2] {
        let layers = self.points.layer_weights(self.layers()).into_iter().enumerate();
        let shifts = layers.filter_map(|(l, weight)| Some((shift_of(self.params, kind.at(l))?, (l, weight))));
        let (mut powered, mut narrow) = (Vec::new(), Vec::new());
        for (shifts, layers) in alike(shifts) {
            let layers = Weight::Sparse(self.lead(part), layers);
            let tensor = |factor| vec![layers.clone(), self.rows(), values(shifts, factor)];
            powered.push(tensor(Factor::Power));
            narrow.extend(narrow_from(shifts, remainder).map(tensor));
        }
        [powered, narrow]
    }

    /// Weights of the channels of a matmul, in their padded layout, times the factor of the shift of the channel.
    pub(crate) fn channel_weights(
        &self,
        kind: MatmulKind,
        shift: &ChannelShift,
        weights: &Values<K>,
        factor: Factor,
    ) -> Weight<K> {
        let log = weights.len().checked_ilog2().unwrap_or(0);
        scaled(weights, exponent_column(&self.shape.config, kind, shift, log), factor)
    }

    /// The weights of the channels, each times `2^s`.
    pub(crate) fn channel_powers(&self, kind: MatmulKind, shift: &ChannelShift, weights: &Values<K>) -> Weight<K> {
        self.channel_weights(kind, shift, weights, Factor::Power)
    }

    /// The weights of the channels whose differences are narrow; `None` if there are none.
    pub(crate) fn narrow_channels(
        &self,
        kind: MatmulKind,
        shift: &ChannelShift,
        weights: &Values<K>,
        remainder: Remainder,
    ) -> Option<Weight<K>> {
        narrow_from(shift, remainder).map(|factor| self.channel_weights(kind, shift, weights, factor))
    }

    /// Returns the sum of all biases at the random point. A matmul adds its biases in every row of the text, and Head adds them for every
    /// output token.
    pub(crate) fn biases(&self) -> K {
        let (config, points) = (&self.shape.config, self.points);
        let outputs: K = eq_table(&points.output).into_iter().take(self.shape.outputs).sum();
        let text = self.text();
        let mut sum = K::zero();
        for m in self.shape.matmuls() {
            let bias = self.params.bias(m.id);
            if bias.is_empty() {
                continue;
            }
            let weights = eq_table(points.out(m.out_log));
            let limb = |bias: i32| match self.shape.limbs.of(m.id.kind()) {
                Limbs::One => felt::<K>(bias.into()),
                Limbs::Two => {
                    let (high, low) = bias_limbs(bias);
                    felt::<K>(high.into()) + points.limb * base(low.into())
                }
            };
            let terms = bias.iter().enumerate();
            let own = terms.fold(K::zero(), |sum, (out, b)| {
                let weight = weights.get(config.pad_out(m.id.kind(), out)).copied();
                sum + weight.unwrap_or_default() * limb(*b)
            });
            let rows = if m.id.kind() == MatmulKind::Head { outputs } else { text };
            sum += points.matmul_weight(m.id) * rows * own;
        }
        sum
    }

    /// `eq(layer, .)` times `2^s` of every layer.
    pub(crate) fn layer_powers(&self, part: Part, shift: impl Fn(usize) -> u8) -> Weight<K> {
        let layers = self.points.layer_weights(self.layers()).into_iter().enumerate();
        padded(layers.map(|(l, w)| w * base(1 << shift(l))).collect(), self.lead(part))
    }

    /// Returns the weights of the rows of each class. The weights of one class add up: the body has all rows of the text, and takes the
    /// leading rows off again.
    pub(crate) fn classes(&self) -> Vec<(RowClass, Weight<K>)> {
        let mut rows = eq_table(&self.points.token);
        rows.truncate(self.shape.most_leading(&self.params.leading));
        let lead = K::part_of(&rows, self.leading_rows(), true);
        let mut classes = vec![(RowClass::Body, self.rows())];
        if !lead.is_empty() {
            let less = lead.iter().map(|(row, weight)| (*row, -*weight)).collect();
            classes.push((RowClass::Body, Weight::Sparse(self.shape.token, less)));
            classes.push((RowClass::Lead, Weight::Sparse(self.shape.token, lead)));
        }
        classes
    }
}

/// Weights times the factors of exponents, of which there are as many.
pub(crate) fn scaled<K: Scalar>(weights: &Values<K>, exponents: Vec<u8>, factor: Factor) -> Weight<K> {
    Weight::made(Lazy::Scaled(Scaled {
        weights: weights.clone(),
        exponents: exponents.into(),
        factor,
    }))
}

/// The weights of the channels whose differences are narrow; `None` if there are none.
fn narrow_from(shifts: &ChannelShift, remainder: Remainder) -> Option<Factor> {
    let least = remainder.narrow.filter(|_| remainder.limbs == Limbs::Two)?;
    shifts.0.iter().any(|s| *s >= least).then_some(Factor::From(least))
}

/// The weights of layers or states that are alike, by what they have in common: vectors of weights are as long as rows, so
/// each is made once.
pub(crate) fn alike<T: Ord, K>(entries: impl Iterator<Item = (T, (usize, K))>) -> BTreeMap<T, Vec<(usize, K)>> {
    let mut same: BTreeMap<T, Vec<(usize, K)>> = BTreeMap::new();
    for (common, entry) in entries {
        same.entry(common).or_default().push(entry);
    }
    same
}

/// Weight of one entry of a part, of these indices along its axes. Most tensors of a sum weigh one layer or state: what is zero
/// along an axis is not looked at along the others.
fn at<K: Scalar>(tensor: &[Weight<K>], axes: &[u32], place: &[usize]) -> K {
    let mut rest = axes.iter().zip(place);
    let mut product = K::one();
    for weight in tensor {
        let (mut index, mut log) = (0, 0);
        for (own, i) in rest.by_ref() {
            (index, log) = ((index << own) | i, log + own);
            if log >= weight.log_len() {
                break;
            }
        }
        product *= weight.at(index);
        if product.is_zero() {
            break;
        }
    }
    product
}
