//! The claims on accumulators (docs/protocol.md, sections 5, 6 and 8.1): what was rounded follows from what it was rounded to.

use num_traits::{One, Zero};

use super::{eq, felt, padded, pow_column, shift_of, suffix, update_of, Public, Update, K, PADDED_EXPONENT};
use crate::air::gadgets::Remainder;
use crate::air::{base, ff, logits, requant, scores, stream};
use crate::claims::{Group, LinearClaim, Tensor, Weight};
use crate::mle::{eq_table, less_than_eval};
use crate::model::{Limbs, MatmulKind, RowClass};
use crate::semantics::{rope_angle, ROPE_BITS};
use crate::shape::Part;
use crate::statement::{norm_of, Clip, Rounded};

/// Values of a part that were rounded, and what weighs them in a claim.
struct Rounding {
    rounded: Rounded,
    /// The output, as a sum of columns.
    out: Vec<(usize, K)>,
    plain: Vec<Tensor>,
    /// `plain` times `2^s` of the entry.
    powered: Vec<Tensor>,
    /// Of the columns of the output and the remainder.
    factor: K,
}

/// The sides of a claim: groups that add up to a value.
#[derive(Default)]
struct Sides {
    groups: Vec<Group>,
    value: K,
}

impl Sides {
    fn claim(self, name: &'static str) -> LinearClaim {
        let Self { groups, value } = self;
        LinearClaim { name, groups, value }
    }
}

/// All claims on roundings, as they are made.
struct Claims {
    /// Accumulators of matmuls and products.
    accumulators: Sides,
    /// Those of their own: norms, rotations, probabilities.
    own: Vec<LinearClaim>,
    /// Public columns.
    powers: Vec<LinearClaim>,
    clipped: Sides,
    /// Weight of the next clipped value.
    power: K,
}

impl Public<'_> {
    /// Coordinates of the output point along (head, half, index) for `heads_log` heads.
    pub(super) fn head_point(&self, heads_log: u32) -> (&[K], K, &[K]) {
        let half = self.shape.padded.half as usize;
        let point = self.points.out(heads_log + 1 + self.shape.padded.half);
        let (heads, rest) = point.split_at((heads_log as usize).min(point.len()));
        let index = suffix(rest, half as u32);
        (heads, rest.first().copied().unwrap_or_default(), index)
    }

    /// Sum of the weights of a tensor over the committed entries of a part.
    fn total(&self, part: Part, tensor: &[Weight]) -> K {
        let axes = self.shape.full_axes(part);
        let factors = tensor.iter().enumerate().map(|(axis, weight)| {
            let own = axes.get(axis).copied().unwrap_or(0);
            let extent = self.shape.extent(part, axis) << (weight.log_len() - own.min(weight.log_len()));
            match weight {
                Weight::Eq(point) => less_than_eval(extent, point),
                Weight::Dense(values) => values.iter().take(extent).fold(K::zero(), |sum, v| sum + *v),
                Weight::Ones(_) => felt(extent as i64),
                Weight::Sparse(_, entries) => {
                    let within = entries.iter().filter(|(i, _)| *i < extent);
                    within.fold(K::zero(), |sum, (_, v)| sum + *v)
                }
            }
        });
        factors.fold(K::one(), |product, v| product * v)
    }

    fn totals(&self, part: Part, tensors: &[Tensor]) -> K {
        let totals = tensors.iter().map(|tensor| self.total(part, tensor));
        totals.fold(K::zero(), |sum, v| sum + v)
    }

    /// Adds what the rounded values are by section 8.1: in one limb `2^(8 + s) OUT + REM - 2^(7 + s)`; in two, the high limb is
    /// `2^s OUT + DELTA`, the low one `REM - 2^(7 + s) - 256 DELTA`.
    fn add(&self, to: &mut Sides, rounding: &Rounding, remainder: Remainder) {
        let (part, factor) = (rounding.rounded.part, rounding.factor);
        let powers = self.totals(part, &rounding.powered);
        let (scale, low, columns) = match remainder.limbs {
            Limbs::One => (base(256), factor, vec![(remainder.rest(), factor)]),
            Limbs::Two => {
                let limb = self.points.limb * factor;
                let delta = factor - limb * base(256);
                to.value += delta * base(Remainder::OFFSET) * self.totals(part, &rounding.plain);
                let columns = vec![
                    (remainder.r_hi(), limb * base(256)),
                    (remainder.r_lo(), limb),
                    (remainder.d_hi(), delta * base(128)),
                    (remainder.d_lo(), delta),
                ];
                (base(1), limb, columns)
            }
        };
        to.value += low * base(128) * powers;
        let out = rounding.out.iter().map(|(c, k)| (*c, *k * factor * scale)).collect();
        to.groups.push(Group::new_sum(part, rounding.powered.clone(), out));
        to.groups.push(Group::new_sum(part, rounding.plain.clone(), columns));
        to.value -= factor * scale * self.excesses(rounding);
    }

    /// The public column of a remainder, where its entries have a weight.
    fn powers(&self, rounding: &Rounding, remainder: Remainder) -> LinearClaim {
        let scale = match remainder.limbs {
            Limbs::One => base(256),
            Limbs::Two => base(1),
        };
        let part = rounding.rounded.part;
        let columns = vec![(remainder.pow(), K::one())];
        LinearClaim {
            name: "powers of shifts",
            groups: vec![Group::new_sum(part, rounding.plain.clone(), columns)],
            value: self.totals(part, &rounding.powered) * scale,
        }
    }

    fn clips(&self, rounded: Rounded) -> impl Iterator<Item = &Clip> {
        self.statistics.clips(rounded)
    }

    /// Weighted sum of what the values exceed their outputs by.
    fn excesses(&self, rounding: &Rounding) -> K {
        let axes = self.shape.full_axes(rounding.rounded.part);
        let clips: Vec<_> = self
            .clips(rounding.rounded)
            .map(|clip| (clip.place(&axes), clip))
            .collect();
        let mut sum = K::zero();
        // The list ascends: of a long sum, the tensors of a layer or state are found once for all its entries.
        for same in clips.chunk_by(|(a, _), (b, _)| a.first() == b.first()) {
            let first = same.first().and_then(|(place, _)| place.first()).copied().unwrap_or(0);
            let reaches = |tensor: &&Tensor| tensor.first().is_some_and(|w| !w.at(first).is_zero());
            let tensors: Vec<&Tensor> = rounding.powered.iter().filter(reaches).collect();
            for (place, clip) in same {
                let weights = tensors.iter().map(|tensor| at(tensor, &axes, place));
                sum += weights.fold(K::zero(), |sum, w| sum + w) * base(i64::from(clip.excess));
            }
        }
        sum
    }

    /// A clipped value is the largest or smallest one there is; `value` is what the columns must add up to.
    fn clipped(&self, claims: &mut Claims, rounding: &Rounding, value: impl Fn(&[usize], &Clip) -> i64) {
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
    fn accumulated(&self, claims: &mut Claims, rounding: &Rounding, remainder: Remainder) {
        self.add(&mut claims.accumulators, rounding, remainder);
        claims.powers.push(self.powers(rounding, remainder));
        self.clipped(claims, rounding, |_, clip| clip.value());
    }

    /// `first` on the layers, for the values of each layer along the axes after the tokens.
    fn by_layer(&self, part: Part, values: &dyn Fn(usize) -> Vec<K>) -> Vec<Tensor> {
        let layers = self.points.layer_weights(self.layers());
        let tensor = |(l, weight): (usize, &K)| {
            let layer = Weight::Sparse(self.lead(part), vec![(l, *weight)]);
            vec![layer, eq(&self.points.token), Weight::Dense(values(l))]
        };
        layers.iter().enumerate().map(tensor).collect()
    }

    /// `eq(point, .)` times `2^s` of the channels of a matmul, in the padded layout of `point`.
    fn channel_powers(&self, kind: MatmulKind, layer: usize, point: &[K]) -> Vec<K> {
        let weights = eq_table(point);
        let Some(shift) = shift_of(self.params, kind, layer) else {
            return weights;
        };
        let powers = pow_column(&self.shape.config, kind, shift, point.len() as u32);
        weights
            .into_iter()
            .zip(powers)
            .map(|(w, p)| w * base(i64::from(p)))
            .collect()
    }

    /// Sections 5, 6 and 8.1: all accumulators at the random point, batched; the value is the claim of the product sumcheck.
    /// Beside it the claims on other roundings, on their public columns and on clipped values.
    pub(super) fn accumulators(&self, product: K) -> Vec<LinearClaim> {
        let mut claims = Claims {
            accumulators: Sides {
                groups: Vec::new(),
                value: product,
            },
            own: Vec::new(),
            powers: Vec::new(),
            clipped: Sides::default(),
            power: K::one(),
        };
        self.updates(&mut claims);
        self.norms(&mut claims);
        for (part, kind) in [(Part::Q, MatmulKind::Q), (Part::K, MatmulKind::K)] {
            self.heads(&mut claims, part, kind);
        }
        self.values(&mut claims);
        self.scores(&mut claims);
        self.attention(&mut claims);
        self.mlp(&mut claims);
        if self.shape.chunk.is_last() {
            self.logits(&mut claims);
        }
        let Claims {
            accumulators,
            own,
            powers,
            clipped,
            ..
        } = claims;
        let first = std::iter::once(accumulators.claim("accumulators"));
        let last = std::iter::once(clipped.claim("clipped values"));
        first.chain(own).chain(powers).chain(last).collect()
    }

    /// What updates the residual stream: embedding, O and Down, with the state before.
    fn updates(&self, claims: &mut Claims) {
        let (points, part) = (self.points, Part::Stream);
        let at = points.out(self.shape.padded.hidden);
        let weight = |n: usize| {
            let (kind, layer) = update_of(n);
            points.matmul_weight(kind, layer)
        };
        let state = |n: usize, weight: K| Weight::Sparse(self.lead(part), vec![(n, weight)]);
        let (mut plain, mut powered, mut residual) = (Vec::new(), Vec::new(), Vec::new());
        let all: Vec<K> = (0..self.shape.states()).map(weight).collect();
        plain.push(vec![padded(all, self.lead(part)), eq(&points.token), eq(at)]);
        for n in 0..self.shape.states() {
            for (class, rows) in self.classes() {
                let Some(update) = Update::of(self.params, n, class) else {
                    continue;
                };
                let powers = |pick: fn([u8; 2]) -> u8| {
                    let exponent = |c: usize| u32::from(pick(update.exponents(c)));
                    Weight::Dense(self.feature_powers(at, &exponent))
                };
                let [divisor, factor] = [powers(|[divisor, _]| divisor), powers(|[_, factor]| factor)];
                powered.push(vec![state(n, weight(n)), rows.clone(), divisor]);
                match n.checked_sub(1) {
                    Some(before) => residual.push(vec![state(before, -weight(n)), rows, factor]),
                    // What enters the chunk, if something does, is multiplied by 2^1 in all rows and channels.
                    None if class == RowClass::Body => {
                        claims.accumulators.value += weight(0) * felt(2) * self.boundary_eval(self.ends.input);
                    }
                    None => {}
                }
            }
        }
        let out = vec![(stream::X_HI, felt(256)), (stream::X_LO, K::one())];
        claims
            .accumulators
            .groups
            .push(Group::new_sum(part, residual, out.clone()));
        let rounding = Rounding {
            rounded: Rounded::STATE,
            out,
            plain,
            powered,
            factor: K::one(),
        };
        self.accumulated(claims, &rounding, stream::UPDATE);
    }

    /// Weights of the token rows of each class.
    fn classes(&self) -> Vec<(RowClass, Weight)> {
        let (log, leading) = (self.shape.token, self.leading());
        let rows = eq_table(&self.points.token);
        let of = |range: std::ops::Range<usize>| {
            let own = range.filter_map(|i| Some((i, *rows.get(i)?)));
            Weight::Sparse(log, own.collect())
        };
        let classes = [
            (RowClass::Lead, of(0..leading)),
            (RowClass::Body, of(leading..1 << log)),
        ];
        classes.to_vec()
    }

    /// `eq(point, .)` times a power of two of every feature: that of its channel, and that of [`PADDED_EXPONENT`] for padding.
    fn feature_powers(&self, at: &[K], exponent: &dyn Fn(usize) -> u32) -> Vec<K> {
        let hidden = self.shape.config.hidden;
        let power = |c: usize| match c < hidden {
            true => exponent(c),
            false => PADDED_EXPONENT.into(),
        };
        let features = eq_table(at).into_iter().enumerate();
        features.map(|(c, w)| w * base(1 << power(c).min(30))).collect()
    }

    /// The normed states: values times the reciprocal square root of their row.
    fn norms(&self, claims: &mut Claims) {
        let (points, part) = (self.points, Part::Stream);
        let at = points.out(self.shape.padded.hidden);
        let tokens = eq_table(&points.token);
        let states = points.state_weights(self.shape.states());
        let rsqrts = self.statistics.rsqrts(&self.shape.config, self.params, self.leading());
        let rows = |n: usize| rsqrts.get(n * tokens.len()..).unwrap_or_default();
        let (mut powered, mut products) = (Vec::new(), Vec::new());
        for (n, weight) in states.iter().enumerate() {
            let state = Weight::Sparse(self.lead(part), vec![(n, *weight)]);
            let shift = u32::from(norm_of(self.params, n).shift);
            let exponent = |c: usize| shift.saturating_sub(self.params.exponent(c).into());
            let features = self.feature_powers(at, &exponent);
            powered.push(vec![state.clone(), eq(&points.token), Weight::Dense(features)]);
            let scaled = tokens.iter().zip(rows(n)).map(|(t, r)| *t * base(i64::from(*r)));
            products.push(vec![state, padded(scaled.collect(), self.shape.token), eq(at)]);
        }
        let out = match self.shape.normed() {
            Limbs::One => vec![(stream::Y, K::one())],
            Limbs::Two => vec![(stream::Y, felt(256)), (stream::Y + 1, K::one())],
        };
        let rounding = Rounding {
            rounded: Rounded::NORM,
            out,
            plain: vec![vec![padded(states, self.lead(part)), eq(&points.token), eq(at)]],
            powered,
            factor: K::one(),
        };
        let x = vec![(stream::X_HI, -felt(256)), (stream::X_LO, -K::one())];
        let mut sides = Sides {
            groups: vec![Group::new_sum(part, products, x)],
            value: K::zero(),
        };
        self.add(&mut sides, &rounding, stream::NORM);
        claims.own.push(sides.claim("norms"));
        claims.powers.push(self.powers(&rounding, stream::NORM));
        self.clipped(claims, &rounding, |_, clip| clip.value());
    }

    /// Queries or keys before and after their rotation.
    fn heads(&self, claims: &mut Claims, part: Part, kind: MatmulKind) {
        let (points, p) = (self.points, &self.shape.padded);
        let rope = self.shape.rope(part);
        let heads_log = match kind {
            MatmulKind::Q => p.heads,
            _ => p.kv_heads,
        };
        let (head, half, index) = self.head_point(heads_log);
        let halves = [K::one() - half, half];
        let plain = vec![self.plain_layers(part), eq(&points.token), eq(head), eq(index)];
        for (side, coefficient) in halves.into_iter().enumerate() {
            // The powers of the channels of one half, (head, index).
            let channels = |l: usize| {
                let point: Vec<K> = head.iter().chain(&[felt(side as i64)]).chain(index).copied().collect();
                let all = self.channel_powers(kind, l, &point);
                let blocks = all.chunks(1 << p.half).skip(side).step_by(2);
                blocks.flatten().copied().collect()
            };
            let rounding = Rounding {
                rounded: Rounded::before(part, side),
                out: vec![(rope.before(side), K::one())],
                plain: vec![plain.clone()],
                powered: self.by_layer(part, &channels),
                factor: coefficient * points.kind_weight(kind),
            };
            self.accumulated(claims, &rounding, rope.remainder(side));
        }
        claims.own.push(self.rotation(part, &plain, halves));
        for side in [0, 1] {
            let rounding = Rounding {
                rounded: Rounded::after(part, side),
                out: self.rotated(part, side),
                plain: Vec::new(),
                powered: Vec::new(),
                factor: K::one(),
            };
            self.clipped(claims, &rounding, |_, clip| clip.value());
        }
    }

    /// The columns of a rotated value.
    fn rotated(&self, part: Part, side: usize) -> Vec<(usize, K)> {
        let rope = self.shape.rope(part);
        let at = rope.after(side);
        match rope.out {
            Limbs::One => vec![(at, K::one())],
            Limbs::Two => vec![(at, felt(256)), (at + 1, K::one())],
        }
    }

    /// Rotations: `a cos - b sin` and `b cos + a sin` are `2^14 OUT + REM - 2^13`.
    fn rotation(&self, part: Part, plain: &[Weight], halves: [K; 2]) -> LinearClaim {
        let (points, rope) = (self.points, self.shape.rope(part));
        let [layers, _, head, index] = plain else {
            return Sides::default().claim("rotations");
        };
        let unit = felt(1 << ROPE_BITS);
        let mut sides = Sides::default();
        let mut columns = Vec::new();
        for (side, k) in halves.into_iter().enumerate() {
            columns.extend(self.rotated(part, side).into_iter().map(|(c, own)| (c, own * k * unit)));
            columns.push((rope.rest(side), k));
            let rounding = Rounding {
                rounded: Rounded::after(part, side),
                out: Vec::new(),
                plain: Vec::new(),
                powered: vec![plain.to_vec()],
                factor: K::one(),
            };
            sides.value -= k * unit * self.excesses(&rounding);
        }
        sides.groups.push(Group::new(part, plain.to_vec(), columns));
        // The halves' weights add up to 1.
        sides.value += felt(1 << (ROPE_BITS - 1)) * self.total(part, plain);
        let weights = index.table();
        let half_dim = self.shape.config.head_dim / 2;
        let [first, second] = halves;
        let mut sources: [Vec<Tensor>; 2] = [Vec::new(), Vec::new()];
        for (i, token) in eq_table(&points.token).into_iter().enumerate() {
            let mut rows = [vec![K::zero(); weights.len()], vec![K::zero(); weights.len()]];
            for (x, w) in weights.iter().enumerate().take(half_dim) {
                let (cos, sin) = rope_angle(&self.shape.config, i, x);
                let (cos, sin) = (base(cos.into()), base(sin.into()));
                let own = [first * cos + second * sin, second * cos - first * sin];
                for (row, v) in rows.iter_mut().zip(own) {
                    if let Some(entry) = row.get_mut(x) {
                        *entry = *w * v;
                    }
                }
            }
            for (source, row) in sources.iter_mut().zip(rows) {
                let rows = Weight::Sparse(self.shape.token, vec![(i, token)]);
                source.push(vec![layers.clone(), rows, head.clone(), Weight::Dense(row)]);
            }
        }
        for (side, tensors) in sources.into_iter().enumerate() {
            let column = vec![(rope.before(side), -K::one())];
            sides.groups.push(Group::new_sum(part, tensors, column));
        }
        sides.claim("rotations")
    }

    fn values(&self, claims: &mut Claims) {
        let (points, p, part) = (self.points, &self.shape.padded, Part::V);
        let (head, ..) = self.head_point(p.kv_heads);
        let plain = vec![
            self.plain_layers(part),
            eq(&points.token),
            eq(head),
            eq(points.out(p.head_dim())),
        ];
        let channels = |l: usize| self.channel_powers(MatmulKind::V, l, points.out(p.kv()));
        let rounding = Rounding {
            rounded: Rounded::VALUE,
            out: vec![(requant::OUT_HI, felt(256)), (requant::OUT_LO, K::one())],
            plain: vec![plain],
            powered: self.by_layer(part, &channels),
            factor: points.kind_weight(MatmulKind::V),
        };
        self.accumulated(claims, &rounding, requant::remainder(self.shape.limbs.v));
    }

    /// `eq(layer, .)` times `2^s` of every layer.
    fn layer_powers(&self, part: Part, shift: impl Fn(usize) -> u8) -> Weight {
        let layers = self.points.layer_weights(self.layers()).into_iter().enumerate();
        padded(layers.map(|(l, w)| w * base(1 << shift(l))).collect(), self.lead(part))
    }

    fn attention(&self, claims: &mut Claims) {
        let (points, p, part) = (self.points, &self.shape.padded, Part::Att);
        let rest = [eq(&points.token), eq(&points.head), eq(points.out(p.head_dim()))];
        let with = |layers: Weight| vec![std::iter::once(layers).chain(rest.clone()).collect::<Tensor>()];
        let rounding = Rounding {
            rounded: Rounded::ATTENTION,
            out: vec![(requant::OUT_HI, felt(256)), (requant::OUT_LO, K::one())],
            plain: with(self.plain_layers(part)),
            powered: with(self.layer_powers(part, |l| self.params.layers.get(l).map_or(1, |p| p.att))),
            factor: points.att_weight(),
        };
        self.accumulated(claims, &rounding, requant::remainder(Limbs::Two));
    }

    pub(super) fn score_weights(&self, key: Weight) -> Tensor {
        self.score_tensor(self.plain_layers(Part::Scores), key)
    }

    fn score_tensor(&self, layers: Weight, key: Weight) -> Tensor {
        vec![layers, eq(&self.points.head), eq(&self.points.token), key]
    }

    fn scores(&self, claims: &mut Claims) {
        let (points, part) = (self.points, Part::Scores);
        let key = || eq(&points.key);
        let powers = self.layer_powers(part, |l| self.params.layers.get(l).map_or(1, |p| p.score));
        let rounding = Rounding {
            rounded: Rounded::SCORE,
            out: vec![(scores::S, K::one())],
            plain: vec![self.score_weights(key())],
            powered: vec![self.score_tensor(powers, key())],
            factor: points.score_weight(),
        };
        self.accumulated(claims, &rounding, scores::SCORE);
        claims.own.push(self.probabilities());
    }

    /// Probabilities: the limbs of `E R` are `2^13 P + DELTA` and `REM - 2^20 - 256 DELTA`.
    fn probabilities(&self) -> LinearClaim {
        let (points, part, limb) = (self.points, Part::Scores, self.points.limb);
        let p = &self.shape.padded;
        let plain = self.score_weights(eq(&points.key));
        let delta = K::one() - limb * base(256);
        let columns = vec![
            (scores::P, felt(1 << 13)),
            (scores::P_HI, limb * base(256)),
            (scores::P_LO, limb),
            (scores::P_DELTA, delta),
        ];
        let total = self.total(part, &plain);
        let value = (delta * base(scores::P_OFFSET) + limb * felt(1 << 20)) * total;
        // The reciprocals of the rows of real heads; those of padded ones are 0.
        let reciprocals = self.statistics.reciprocals();
        let (heads, tokens) = (eq_table(&points.head), eq_table(&points.token));
        let config = &self.shape.config;
        let block = (config.heads * tokens.len()).max(1);
        let layers = points.layer_weights(self.layers());
        let tensors = layers.iter().zip(reciprocals.chunks(block)).enumerate();
        let tensors = tensors.map(|(l, (weight, rows))| {
            let rows = rows.chunks(tokens.len().max(1)).zip(&heads);
            let values = rows.flat_map(|(row, h)| {
                let limbs = |r: u32| felt(i64::from(r >> 8)) + limb * base(i64::from(r & 0xff));
                row.iter().zip(&tokens).map(move |(r, t)| *h * *t * limbs(*r))
            });
            vec![
                Weight::Sparse(self.lead(part), vec![(l, *weight)]),
                padded(values.collect(), p.heads + self.shape.token),
                eq(&points.key),
            ]
        });
        let groups = vec![
            Group::new(part, plain, columns),
            Group::new_sum(part, tensors.collect(), vec![(scores::EXP, -K::one())]),
        ];
        let name = "probabilities of scores";
        LinearClaim { name, groups, value }
    }

    fn mlp(&self, claims: &mut Claims) {
        let (points, part) = (self.points, Part::Ff);
        let at = points.out(self.shape.padded.ff);
        let air = self.shape.ff();
        let plain = vec![self.plain_layers(part), eq(&points.token), eq(at)];
        let matmuls = [
            (Rounded::GATE, MatmulKind::Gate, ff::GATE, air.gate_remainder()),
            (Rounded::UP, MatmulKind::Up, ff::UP, air.up_remainder()),
        ];
        for (rounded, kind, column, remainder) in matmuls {
            let channels = |l: usize| self.channel_powers(kind, l, at);
            let rounding = Rounding {
                rounded,
                out: vec![(column, K::one())],
                plain: vec![plain.clone()],
                powered: self.by_layer(part, &channels),
                factor: points.kind_weight(kind),
            };
            self.accumulated(claims, &rounding, remainder);
        }
        let powered = self.classes().into_iter().map(|(class, rows)| {
            let powers = self.layer_powers(part, |l| self.params.layers.get(l).map_or(1, |p| p.act.of(class)));
            vec![powers, rows, eq(at)]
        });
        let rounding = Rounding {
            rounded: Rounded::PRODUCT,
            out: vec![(ff::H_HI, felt(256)), (ff::H_LO, K::one())],
            plain: vec![plain],
            powered: powered.collect(),
            factor: points.act_weight(),
        };
        self.accumulated(claims, &rounding, ff::PRODUCT);
    }

    /// The logits of the generated positions, which are those of the output tokens less the margins, and that the margins of
    /// the output tokens are 0.
    fn logits(&self, claims: &mut Claims) {
        let (points, config, part) = (self.points, &self.shape.config, Part::Logits);
        let log = self.shape.padded.vocab;
        let outputs: Vec<K> = eq_table(&points.output).into_iter().take(self.shape.outputs).collect();
        let real = |mut values: Vec<K>| {
            values.truncate(config.vocab);
            values
        };
        let plain = real(eq_table(points.out(log)));
        let powered = real(self.channel_powers(MatmulKind::Head, 0, points.out(log)));
        let total = |values: &[K]| values.iter().fold(K::zero(), |sum, v| sum + *v);
        let tensor = |rest: Vec<K>| vec![vec![padded(outputs.clone(), self.shape.output()), padded(rest, log)]];
        // A logit is TOP less one below the output token, less the margin.
        let (mut fixed, all) = (K::zero(), total(&powered));
        let generated = self.statement.generated().zip(&self.statistics.tops).zip(&outputs);
        for (((_, id), top), weight) in generated {
            let below = total(powered.get(..id as usize).unwrap_or_default());
            fixed += *weight * (all * base(i64::from(*top)) - below);
        }
        let remainder = logits::remainder(self.shape.limbs.head);
        let factor = points.kind_weight(MatmulKind::Head);
        let rounding = Rounding {
            rounded: Rounded::LOGIT,
            out: vec![(logits::MARGIN, -K::one())],
            plain: tensor(plain),
            powered: tensor(powered),
            factor,
        };
        let scale = match remainder.limbs {
            Limbs::One => base(256),
            Limbs::Two => base(1),
        };
        claims.accumulators.value -= factor * scale * fixed;
        self.add(&mut claims.accumulators, &rounding, remainder);
        claims.powers.push(self.powers(&rounding, remainder));
        self.clipped(claims, &rounding, |place, clip| {
            clip.value() - self.logit_without_margin(place)
        });

        let entry = |(o, ((_, id), weight)): (usize, ((usize, u32), &K))| {
            vec![
                Weight::Sparse(self.shape.output(), vec![(o, *weight)]),
                Weight::Sparse(log, vec![(id as usize, K::one())]),
            ]
        };
        let chosen = self.statement.generated().zip(&outputs).enumerate().map(entry);
        claims.own.push(LinearClaim {
            name: "chosen logits",
            groups: vec![Group::new_sum(part, chosen.collect(), vec![(logits::MARGIN, K::one())])],
            value: K::zero(),
        });
    }

    /// What the logit of an entry would be if its margin were 0.
    fn logit_without_margin(&self, place: &[usize]) -> i64 {
        let [output, entry] = place else { return 0 };
        let id = self.statement.output.get(*output).copied().unwrap_or_default() as usize;
        let top = self.statistics.tops.get(*output).copied().unwrap_or_default();
        i64::from(top) - i64::from(*entry < id)
    }
}

/// Weight of one entry of a part, of these indices along its axes. Most tensors of a sum weigh one layer or state: what is zero
/// along an axis is not looked at along the others.
fn at(tensor: &[Weight], axes: &[u32], place: &[usize]) -> K {
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
