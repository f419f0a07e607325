//! Queries and keys: both halves of a head before and after their rotation (docs/protocol.md, sections 16.3 and 16.4). One row per
//! (layer, token, head, index in the half head).

use std::collections::BTreeMap;

use crate::air::gadgets::{int16, Remainder};
use crate::air::lookups::{Linear, Lookup};
use crate::air::{base, Air};
use crate::claims::{Group, LinearClaim, Tensor, Weight};
use crate::mle::eq_table;
use crate::model::{ChannelShift, Limbs, MatmulKind, ModelConfig, Padded};
use crate::rounding::{exponent_column, shift_of_head, Rounded};
use crate::scalar::Scalar;
use crate::semantics::{round_shift, sat16};
use crate::shape::{Along, Entry, Part, Rows, Shift, Shifts};
use crate::sizes::{of_second_axis, Extent, Sizes};
use crate::wiring::{eq, felt, scaled, Claims, Public, Rounding, Sides};

use super::operator::Operator;

/// Fractional bits of the RoPE tables.
pub const ROPE_BITS: u32 = 14;

/// RoPE rotation of a pair (first half, second half).
pub fn rope_pair(a: i16, b: i16, cos: i32, sin: i32) -> (i16, i16) {
    turn_pair(a, b, [(cos, sin); 2])
}

/// RoPE rotation of a pair (first half, second half) with gains: cos and sin of each of both times its gain.
pub fn turn_pair(a: i16, b: i16, turn: Turn) -> (i16, i16) {
    let [first, second] = turned(a, b, turn);
    (
        sat16(round_shift(first, ROPE_BITS)),
        sat16(round_shift(second, ROPE_BITS)),
    )
}

/// A rotated pair before it is rounded.
pub fn turned(a: i16, b: i16, [one, other]: Turn) -> [i64; 2] {
    let (a, b) = (i64::from(a), i64::from(b));
    let wide = |(cos, sin): (i32, i32)| (i64::from(cos), i64::from(sin));
    let ((a_cos, a_sin), (b_cos, b_sin)) = (wide(one), wide(other));
    [a * a_cos - b * b_sin, b * b_cos + a * a_sin]
}

/// cos and sin of position `pos` and pair `x` in a rotation of a model, with 14 fractional bits. Computed with the software
/// `libm`, so that every platform gets the same integers. Pairs without a rotation of this number stay as they are.
pub fn rope_angle(config: &ModelConfig, rotation: usize, pos: usize, x: usize) -> (i32, i32) {
    with_gain(direction(config, rotation, pos, x), 1 << ROPE_BITS)
}

/// cos and sin of position `pos` and pair `x` in a rotation of a model, as numbers.
pub fn direction(config: &ModelConfig, rotation: usize, pos: usize, x: usize) -> (f64, f64) {
    let rotation = config.rotations.get(rotation);
    let angle = pos as f64 * rotation.map_or(0.0, |r| r.frequency(config.head_dim, x));
    (libm::cos(angle), libm::sin(angle))
}

/// Both times a gain, rounded.
fn with_gain((cos, sin): (f64, f64), gain: i32) -> (i32, i32) {
    let gain = f64::from(gain);
    (libm::round(gain * cos) as i32, libm::round(gain * sin) as i32)
}

/// cos and sin with the gain of the first and of the second half's channel.
pub type Turn = [(i32, i32); 2];

/// What rotates pair `x` of heads that have these gains, by channel; channels beyond have the gain `2^14`, which changes nothing.
pub fn turn(direction: (f64, f64), gains: &[i16], x: usize, half: usize) -> Turn {
    [x, half + x].map(|channel| {
        let gain = gains.get(channel).map_or(1 << ROPE_BITS, |gain| i32::from(*gain));
        with_gain(direction, gain)
    })
}

/// Queries or keys as their matmul makes them.
pub struct Projected(pub Part);

/// The rotation of queries or keys, in the same rows.
pub struct Rotated(pub Part);

impl Part {
    /// (layer, token, head, index in half)
    pub const Q: Self = Self::new(2, "Q");
    /// (layer, token, key/value head, index in half)
    pub const K: Self = Self::new(3, "K");
}

impl Rounded {
    /// A half of queries or keys before the rotation.
    pub const fn before(part: Part, half: usize) -> Self {
        Self::of(part, half as u8)
    }

    /// A half of queries or keys after it.
    pub const fn after(part: Part, half: usize) -> Self {
        Self::of(part, 2 + half as u8)
    }

    /// A half of queries or keys after their norm, where heads are normed.
    pub const fn normed(part: Part, half: usize) -> Self {
        Self::of(part, 4 + half as u8)
    }
}

/// What makes queries or keys.
fn kind_of(part: Part) -> MatmulKind {
    match part {
        Part::Q => MatmulKind::Q,
        _ => MatmulKind::K,
    }
}

/// log2 of their padded number of heads.
fn heads_log(padded: &Padded, part: Part) -> u32 {
    match part {
        Part::Q => padded.heads,
        _ => padded.kv_heads,
    }
}

impl Sizes {
    /// The columns of queries or keys: keys enter the scores in limbs, and queries as they are.
    pub fn rope(&self, part: Part) -> Rope {
        let (limbs, out) = match part {
            Part::Q => (self.limbs.q, Limbs::One),
            _ => (self.limbs.k, Limbs::Two),
        };
        let normed = self.config.head_norms;
        Rope { limbs, out, normed }
    }
}

/// Queries or keys: requantised and rotated.
#[derive(Clone, Copy, Debug)]
pub struct Rope {
    /// Of the accumulators.
    pub limbs: Limbs,
    /// How the rotated values enter the scores.
    pub out: Limbs,
    /// Whether the heads are normed: then they are in limbs, and the normed values are what is rotated.
    pub normed: bool,
}

impl Rope {
    /// Columns of a half: the projected value with its remainder, the rotated value, in limbs or not, with its remainder, and
    /// where heads are normed the normed value with its remainder.
    const fn half_columns(&self) -> usize {
        self.normed_columns() + 2 + self.out.columns() + Remainder::columns(self.limbs)
    }

    /// What there is more where heads are normed: a limb, the normed value and its remainder.
    const fn normed_columns(&self) -> usize {
        match self.normed {
            true => 2 + Remainder::columns(Limbs::One),
            false => 0,
        }
    }

    /// How the projected values are committed: in limbs where they are squared.
    pub const fn projected(&self) -> Limbs {
        match self.normed {
            true => Limbs::Two,
            false => Limbs::One,
        }
    }

    /// The projected value of a half, or its high limb before its low one.
    pub const fn before(&self, half: usize) -> usize {
        half * self.half_columns()
    }

    /// What is rotated of a half: its normed value, or the projected one.
    pub const fn source(&self, half: usize) -> usize {
        match self.normed {
            true => self.before(half) + 2,
            false => self.before(half),
        }
    }

    /// Of the normed value of a half, where there is one.
    pub const fn norm(&self, half: usize) -> Remainder {
        Remainder {
            at: self.before(half) + 3,
            limbs: Limbs::One,
            narrow: None,
        }
    }

    /// The remainder of the rotated value of a half, below `2^ROPE_BITS`.
    pub const fn rest(&self, half: usize) -> usize {
        self.before(half) + self.normed_columns() + 1
    }

    /// The rotated value of a half, or its high limb before its low one.
    pub const fn after(&self, half: usize) -> usize {
        self.rest(half) + 1
    }

    /// Of the projected value of a half.
    pub const fn remainder(&self, half: usize) -> Remainder {
        Remainder {
            at: self.after(half) + self.out.columns(),
            limbs: self.limbs,
            narrow: Remainder::NARROW,
        }
    }
}

impl Rope {
    /// All columns of a row.
    pub fn air(&self) -> Air {
        let mut powers: Vec<_> = [0, 1].map(|half| (self.remainder(half).pow(), half as u8)).into();
        if self.normed {
            powers.extend([0, 1].map(|half| (self.norm(half).pow(), 4 + half as u8)));
            powers.sort_unstable();
        }
        let bound = Linear::constant(1 << ROPE_BITS);
        let half = |half: usize| {
            let mut list = vec![int16(self.before(half), self.projected())];
            if self.normed {
                list.push(int16(self.source(half), Limbs::One));
                list.extend(self.norm(half).lookups());
            }
            list.push(Lookup::bits(bound.clone(), Linear::column(self.rest(half))));
            list.push(int16(self.after(half), self.out));
            list.extend(self.remainder(half).lookups());
            list
        };
        Air {
            columns: 2 * self.half_columns(),
            powers,
            lookups: [half(0), half(1)].concat(),
        }
    }
}

/// The shift of an element of a half of projected queries or keys.
fn shift<const KEYS: bool, const HALF: usize>(entry: &Entry<'_>) -> Option<u8> {
    let config = &entry.sizes.config;
    let (kind, heads) = match KEYS {
        false => (MatmulKind::Q, config.heads),
        true => (MatmulKind::K, config.kv_heads),
    };
    shift_of_head(entry, kind, heads, HALF, entry.place[3])
}

/// The shift of the norm of the heads of a layer.
fn norm_shift<const KEYS: bool>(entry: &Entry<'_>) -> Option<u8> {
    let kind = if KEYS { MatmulKind::K } else { MatmulKind::Q };
    entry.params.head_norm(kind.at(entry.place[0])).map(|norm| norm.shift)
}

impl<K: Scalar> Operator<K> for Projected {
    fn parts(&self, sizes: &Sizes) -> Vec<Rows> {
        let (part, p, config) = (self.0, &sizes.padded, &sizes.config);
        let rope = sizes.rope(part);
        let kind = |rounded: Rounded, limbs, along, of| Shifts {
            tensor: rounded.tensor,
            limbs,
            along,
            of,
        };
        let channels = Along::Tokens {
            classes: false,
            channels: true,
        };
        let (heads, of, norm): (_, [Shift; 2], Shift) = match part {
            Part::Q => (
                config.heads,
                [shift::<false, 0>, shift::<false, 1>],
                norm_shift::<false>,
            ),
            _ => (
                config.kv_heads,
                [shift::<true, 0>, shift::<true, 1>],
                norm_shift::<true>,
            ),
        };
        let mut shifts = Vec::new();
        for (half, of) in of.into_iter().enumerate() {
            shifts.push(kind(Rounded::before(part, half), rope.limbs, channels, of));
            // The claim on rotations has it.
            let rotated = |_: &Entry<'_>| Some(ROPE_BITS as u8 - 8);
            shifts.push(kind(Rounded::after(part, half), Limbs::One, Along::First, rotated));
            if rope.normed {
                shifts.push(kind(Rounded::normed(part, half), Limbs::One, Along::First, norm));
            }
        }
        vec![Rows {
            part,
            axes: vec![p.layers, sizes.token, heads_log(p, part), p.half],
            extents: vec![Extent::of(0, config.layers), sizes.tokens(1), Extent::of(2, heads)],
            of_text: of_second_axis,
            air: rope.air(),
            shifts,
        }]
    }

    fn numbers(&self, _: &Sizes) -> Vec<usize> {
        vec![kind_of(self.0) as usize]
    }

    fn rounded(&self, public: &Public<'_, K>, claims: &mut Claims<K>) {
        public.projected_heads(claims, self.0);
    }
}

impl<K: Scalar> Operator<K> for Rotated {
    fn parts(&self, _: &Sizes) -> Vec<Rows> {
        Vec::new()
    }

    /// The claim on a rotation is one of its own.
    fn numbers(&self, _: &Sizes) -> Vec<usize> {
        Vec::new()
    }

    fn rounded(&self, public: &Public<'_, K>, claims: &mut Claims<K>) {
        public.turned_heads(claims, self.0);
    }
}

impl<K: Scalar> Public<'_, K> {
    /// Queries or keys before their rotation.
    fn projected_heads(&self, claims: &mut Claims<K>, part: Part) {
        let (points, p, kind) = (self.points, &self.shape.padded, kind_of(part));
        let rope = self.shape.rope(part);
        let (head, half, index) = self.head_point(heads_log(p, part));
        let halves = [K::one() - half, half];
        let plain = vec![self.plain_layers(part), self.rows(), eq(head), eq(index)];
        for (side, coefficient) in halves.into_iter().enumerate() {
            // The powers of the channels of one half, (head, index).
            let point: Vec<K> = head.iter().chain(&[felt(side as i64)]).chain(index).copied().collect();
            let of_side = |all: &[K]| -> Vec<K> {
                let blocks = all.chunks(1 << p.half).skip(side).step_by(2);
                blocks.flatten().copied().collect()
            };
            let weights = of_side(&eq_table(&point)).into();
            let channels = |shifts: &ChannelShift, factor| {
                let exponents = exponent_column(&self.shape.config, kind, shifts, point.len() as u32);
                let blocks = exponents.chunks(1 << p.half).skip(side).step_by(2);
                scaled(&weights, blocks.flatten().copied().collect(), factor)
            };
            let remainder = rope.remainder(side);
            let [powered, narrow] = self.by_layer(part, kind, remainder, &channels);
            let rounding = Rounding {
                rounded: Rounded::before(part, side),
                out: self.projected(part, side),
                plain: vec![plain.clone()],
                powered,
                narrow,
                factor: coefficient * points.kind_weight(kind),
            };
            self.accumulated(claims, &rounding, remainder);
        }
    }

    /// Queries or keys after their rotation.
    fn turned_heads(&self, claims: &mut Claims<K>, part: Part) {
        let kind = kind_of(part);
        let (head, half, index) = self.head_point(heads_log(&self.shape.padded, part));
        let plain = vec![self.plain_layers(part), self.rows(), eq(head), eq(index)];
        claims
            .own
            .push(self.rotation(part, kind, &plain, [K::one() - half, half]));
        for side in [0, 1] {
            let rounding = Rounding {
                rounded: Rounded::after(part, side),
                out: self.rotated(part, side),
                plain: Vec::new(),
                powered: Vec::new(),
                narrow: Vec::new(),
                factor: K::one(),
            };
            self.clipped(claims, &rounding, |_, clip| clip.value());
        }
    }

    /// The columns of a value that a matmul makes.
    fn projected(&self, part: Part, side: usize) -> Vec<(usize, K)> {
        let rope = self.shape.rope(part);
        let at = rope.before(side);
        match rope.projected() {
            Limbs::One => vec![(at, K::one())],
            Limbs::Two => vec![(at, felt(256)), (at + 1, K::one())],
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

    /// Rotations: `a cos - b sin` and `b cos + a sin` are `2^14 OUT + REM - 2^13`, cos and sin times the gain of what they multiply.
    fn rotation(&self, part: Part, kind: MatmulKind, plain: &[Weight<K>], halves: [K; 2]) -> LinearClaim<K> {
        let (points, rope) = (self.points, self.shape.rope(part));
        let [layers, _, head, index] = plain else {
            return Sides::default().claim("rotations");
        };
        let unit: K = felt(1 << ROPE_BITS);
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
                narrow: Vec::new(),
                factor: K::one(),
            };
            sides.value -= k * unit * self.excesses(&rounding);
        }
        sides.groups.push(Group::new(part, plain.to_vec(), columns));
        // The halves' weights add up to 1.
        sides.value += self.total(part, plain) * base(1 << (ROPE_BITS - 1));
        let mut sources = [Vec::<Tensor<K>>::new(), Vec::new()];
        let weights = halves.map(|half| index.table().into_iter().map(|w| w * half).collect());
        let mut tokens = self.shape.end().cut(eq_table(&points.token));
        tokens.truncate(self.shape.text_rows());
        // Layers share their rotations, however many have gains of their own: each direction is made once.
        let mut known: BTreeMap<usize, Vec<Directions>> = BTreeMap::new();
        for (rotation, gains, layers) in self.rotated_layers(kind, layers) {
            let of_rotation = || (0..tokens.len()).map(|i| self.directions(rotation, i)).collect();
            let directions = known.entry(rotation).or_insert_with(of_rotation);
            let rows = tokens.iter().enumerate().zip(directions);
            for ((i, token), directions) in rows.filter(|((_, token), _)| !token.is_zero()) {
                let rows = Weight::Sparse(self.shape.token, vec![(i, *token)]);
                let turns = turns(directions, gains, &weights);
                for (source, turns) in sources.iter_mut().zip(turns) {
                    source.push(vec![layers.clone(), rows.clone(), head.clone(), Weight::dense(turns)]);
                }
            }
        }
        for (side, tensors) in sources.into_iter().enumerate() {
            let column = vec![(rope.source(side), -K::one())];
            sides.groups.push(Group::new_sum(part, tensors, column));
        }
        sides.claim("rotations")
    }

    /// The rotations, with their gains and the weights of the layers that have each: every layer has its own gains, if any.
    fn rotated_layers(&self, kind: MatmulKind, layers: &Weight<K>) -> Vec<(usize, &[i16], Weight<K>)> {
        let config = &self.shape.config;
        if config.head_norms {
            let of_layer = |l: usize| {
                let gains = self.params.head_norm(kind.at(l)).map_or(&[][..], |norm| &norm.gains);
                let own = Weight::Sparse(layers.log_len(), vec![(l, layers.at(l))]);
                (config.rotation(l), gains, own)
            };
            return (0..config.layers).map(of_layer).collect();
        }
        if config.rotation_of.is_empty() {
            return vec![(0, &[], layers.clone())];
        }
        let of = |l: usize| if l < config.layers { config.rotation(l) } else { 0 };
        let weights = layers.table();
        let mut all = Vec::new();
        for rotation in 0..config.rotations.len() {
            let own = weights.iter().enumerate();
            let own: Vec<K> = own
                .map(|(l, w)| if of(l) == rotation { *w } else { K::zero() })
                .collect();
            if (0..config.layers).any(|l| of(l) == rotation) {
                all.push((rotation, &[][..], Weight::dense(own)));
            }
        }
        all
    }

    /// The directions of all pairs of a head at a token.
    fn directions(&self, rotation: usize, token: usize) -> Directions {
        let config = &self.shape.config;
        (0..config.head_dim / 2)
            .map(|x| direction(config, rotation, token, x))
            .collect()
    }
}

/// cos and sin of every pair of a head, as numbers.
type Directions = Vec<(f64, f64)>;

/// What weighs the pairs of a row in each half before their rotation: those of the output, turned back. `weights` are those of the
/// pairs in both halves of the output.
fn turns<K: Scalar>(directions: &[(f64, f64)], gains: &[i16], [first, second]: &[Vec<K>; 2]) -> [Vec<K>; 2] {
    let mut turns = [vec![K::zero(); first.len()], vec![K::zero(); first.len()]];
    let half = directions.len();
    for (x, ((first, second), direction)) in first.iter().zip(second).zip(directions).enumerate() {
        let pair = turn(*direction, gains, x, half);
        let [(a_cos, a_sin), (b_cos, b_sin)] = pair.map(|(cos, sin)| (base(cos.into()), base(sin.into())));
        let own = [*first * a_cos + *second * a_sin, *second * b_cos - *first * b_sin];
        for (turned, v) in turns.iter_mut().zip(own) {
            if let Some(entry) = turned.get_mut(x) {
                *entry = v;
            }
        }
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{odd_config, Rotation};

    /// A pair of frequency 0 is not rotated, whatever it is and wherever it stands.
    #[test]
    fn pairs_without_a_frequency_stay_as_they_are() {
        let config = ModelConfig {
            rotations: vec![Rotation::Base(1e4), Rotation::Frequencies(vec![0.25, 0.0, 0.0])],
            rotation_of: vec![0, 1],
            ..odd_config(2)
        };
        for pos in [0, 1, 7, 8191] {
            let (cos, sin) = rope_angle(&config, 1, pos, 2);
            assert_eq!((cos, sin), (1 << ROPE_BITS, 0));
            for (a, b) in [(i16::MIN, i16::MAX), (-1, 1), (0, 12_345)] {
                assert_eq!(rope_pair(a, b, cos, sin), (a, b));
            }
            let own = libm::round(16_384.0 * libm::cos(pos as f64 / 4.0)) as i32;
            assert_eq!(rope_angle(&config, 1, pos, 0).0, own);
        }
        assert_ne!(rope_angle(&config, 0, 8191, 2), rope_angle(&config, 1, 8191, 2));
    }
}
