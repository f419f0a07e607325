//! Queries, keys and values, and the rotation of the first two.

use std::collections::BTreeMap;

use crate::scalar::Scalar;

use super::{Claims, Rounding, Sides};
use crate::air::{base, requant};
use crate::claims::{Group, LinearClaim, Tensor, Weight};
use crate::mle::eq_table;
use crate::model::{ChannelShift, Limbs, MatmulKind};
use crate::rounding::Rounded;
use crate::semantics::{direction, turn, ROPE_BITS};
use crate::shape::Part;
use crate::wiring::{eq, felt, Public};

impl<K: Scalar> Public<'_, K> {
    /// Queries or keys before and after their rotation.
    pub(super) fn heads(&self, claims: &mut Claims<K>, part: Part, kind: MatmulKind) {
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
            let point: Vec<K> = head.iter().chain(&[felt(side as i64)]).chain(index).copied().collect();
            let weights = eq_table(&point);
            let channels = |shifts: &ChannelShift| {
                let all = self.channel_powers(kind, shifts, &weights);
                let blocks = all.chunks(1 << p.half).skip(side).step_by(2);
                blocks.flatten().copied().collect()
            };
            let rounding = Rounding {
                rounded: Rounded::before(part, side),
                out: self.projected(part, side),
                plain: vec![plain.clone()],
                powered: self.by_layer(part, kind, &channels),
                factor: coefficient * points.kind_weight(kind),
            };
            self.accumulated(claims, &rounding, rope.remainder(side));
        }
        if self.shape.config.head_norms {
            self.head_norms(claims, part);
        }
        claims.own.push(self.rotation(part, kind, &plain, halves));
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
                factor: K::one(),
            };
            sides.value -= k * unit * self.excesses(&rounding);
        }
        sides.groups.push(Group::new(part, plain.to_vec(), columns));
        // The halves' weights add up to 1.
        sides.value += self.total(part, plain) * base(1 << (ROPE_BITS - 1));
        let mut sources = [Vec::<Tensor<K>>::new(), Vec::new()];
        let weights = halves.map(|half| index.table().into_iter().map(|w| w * half).collect());
        let tokens = eq_table(&points.token);
        // Layers share their rotations, however many have gains of their own: each direction is made once.
        let mut known: BTreeMap<usize, Vec<Directions>> = BTreeMap::new();
        for (rotation, gains, layers) in self.rotated_layers(kind, layers) {
            let of_rotation = || (0..tokens.len()).map(|i| self.directions(rotation, i)).collect();
            let directions = known.entry(rotation).or_insert_with(of_rotation);
            for ((i, token), directions) in tokens.iter().enumerate().zip(directions) {
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
                let gains = self.params.head_norm(kind, l).map_or(&[][..], |norm| &norm.gains);
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

    pub(super) fn values(&self, claims: &mut Claims<K>) {
        let (points, p, part) = (self.points, &self.shape.padded, Part::V);
        let (head, ..) = self.head_point(p.kv_heads);
        let plain = vec![
            self.plain_layers(part),
            eq(&points.token),
            eq(head),
            eq(points.out(p.head_dim())),
        ];
        let weights = eq_table(points.out(p.kv()));
        let channels = |shifts: &ChannelShift| self.channel_powers(MatmulKind::V, shifts, &weights);
        let rounding = Rounding {
            rounded: Rounded::VALUE,
            out: vec![(requant::OUT_HI, felt(256)), (requant::OUT_LO, K::one())],
            plain: vec![plain],
            powered: self.by_layer(part, MatmulKind::V, &channels),
            factor: points.kind_weight(MatmulKind::V),
        };
        self.accumulated(claims, &rounding, requant::remainder(self.shape.limbs.v));
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
