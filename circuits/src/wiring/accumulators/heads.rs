//! Queries, keys and values, and the rotation of the first two.

use num_traits::{One, Zero};

use super::{Claims, Rounding, Sides};
use crate::air::{base, requant};
use crate::claims::{Group, LinearClaim, Tensor, Weight};
use crate::mle::eq_table;
use crate::model::{Limbs, MatmulKind};
use crate::rounding::Rounded;
use crate::semantics::{rope_angle, ROPE_BITS};
use crate::shape::Part;
use crate::wiring::{eq, felt, Public, K};

impl Public<'_> {
    /// Queries or keys before and after their rotation.
    pub(super) fn heads(&self, claims: &mut Claims, part: Part, kind: MatmulKind) {
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
            let channels = |l: usize| {
                let all = self.channel_powers(kind, l, &weights);
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
        let (weights, mut sources) = (index.table(), [Vec::<Tensor>::new(), Vec::new()]);
        for (rotation, layers) in self.rotated_layers(layers) {
            for (i, token) in eq_table(&points.token).into_iter().enumerate() {
                let rows = Weight::Sparse(self.shape.token, vec![(i, token)]);
                for (source, turns) in sources.iter_mut().zip(self.turns(rotation, i, &weights, halves)) {
                    source.push(vec![layers.clone(), rows.clone(), head.clone(), Weight::dense(turns)]);
                }
            }
        }
        for (side, tensors) in sources.into_iter().enumerate() {
            let column = vec![(rope.before(side), -K::one())];
            sides.groups.push(Group::new_sum(part, tensors, column));
        }
        sides.claim("rotations")
    }

    /// The rotations, with the weights of the layers that have each.
    fn rotated_layers(&self, layers: &Weight) -> Vec<(usize, Weight)> {
        let config = &self.shape.config;
        if config.rotation_of.is_empty() {
            return vec![(0, layers.clone())];
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
                all.push((rotation, Weight::dense(own)));
            }
        }
        all
    }

    /// What weighs the pairs of a row in each half before their rotation: those of the output, turned back.
    fn turns(&self, rotation: usize, row: usize, weights: &[K], [first, second]: [K; 2]) -> [Vec<K>; 2] {
        let mut turns = [vec![K::zero(); weights.len()], vec![K::zero(); weights.len()]];
        for (x, w) in weights.iter().enumerate().take(self.shape.config.head_dim / 2) {
            let (cos, sin) = rope_angle(&self.shape.config, rotation, row, x);
            let (cos, sin) = (base(cos.into()), base(sin.into()));
            let own = [first * cos + second * sin, second * cos - first * sin];
            for (turned, v) in turns.iter_mut().zip(own) {
                if let Some(entry) = turned.get_mut(x) {
                    *entry = *w * v;
                }
            }
        }
        turns
    }

    pub(super) fn values(&self, claims: &mut Claims) {
        let (points, p, part) = (self.points, &self.shape.padded, Part::V);
        let (head, ..) = self.head_point(p.kv_heads);
        let plain = vec![
            self.plain_layers(part),
            eq(&points.token),
            eq(head),
            eq(points.out(p.head_dim())),
        ];
        let weights = eq_table(points.out(p.kv()));
        let channels = |l: usize| self.channel_powers(MatmulKind::V, l, &weights);
        let rounding = Rounding {
            rounded: Rounded::VALUE,
            out: vec![(requant::OUT_HI, felt(256)), (requant::OUT_LO, K::one())],
            plain: vec![plain],
            powered: self.by_layer(part, &channels),
            factor: points.kind_weight(MatmulKind::V),
        };
        self.accumulated(claims, &rounding, requant::remainder(self.shape.limbs.v));
    }
}
