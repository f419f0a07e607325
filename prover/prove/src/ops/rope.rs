//! Queries and keys: projected, normed where heads are, and rotated (docs/protocol.md, sections 16.3, 16.4 and 16.11).

use rayon::prelude::*;
use tessera_circuits::model::MatmulKind;
use tessera_circuits::rounding::PADDED_EXPONENT;
use tessera_circuits::semantics::{direction, round_shift, turn, turned, ROPE_BITS};
use tessera_circuits::shape::Part;
use tessera_circuits::statistics::Clip;

use super::head_norms::normed_heads;
use super::operator::Operator;
use crate::column::Column;
use crate::trace::{build, felt, get, write, Accumulator, Clipped, Source};

/// The prover's side of [`tessera_circuits::ops::rope`].
pub(super) const OPERATOR: Operator = Operator {
    fills: &[
        (Part::Q, |source, part| source.rope(part)),
        (Part::K, |source, part| source.rope(part)),
    ],
    makes: &[],
};

impl Source<'_> {
    fn rope(&self, part: Part) -> (Vec<Column>, Vec<Clip>) {
        let (shape, config) = (self.shape, &self.shape.config);
        let half_dim = config.head_dim / 2;
        let air = shape.rope(part);
        let (kind, heads, width) = match part {
            Part::Q => (MatmulKind::Q, config.heads, shape.padded.q()),
            _ => (MatmulKind::K, config.kv_heads, shape.padded.kv()),
        };
        let pows = self.pows(kind, width);
        let directions = |rotation| -> Vec<(f64, f64)> {
            let all = (0..shape.rows * half_dim).into_par_iter();
            all.map(|i| direction(config, rotation, i / half_dim, i % half_dim))
                .collect()
        };
        let directions: Vec<_> = (0..config.rotations.len()).map(directions).collect();
        build(self, part, (|[_, i, _, _]| i, &[]), |[l, i, h, x], row| {
            let layer = self.witness.layers.get(l);
            let real = layer.is_some() && h < heads && x < half_dim;
            let (mut pair, mut excesses) = ([0; 2], [0; 6]);
            let norm = self.params.head_norm(kind.at(l));
            for (half, value) in pair.iter_mut().enumerate() {
                let at = real.then(|| (i * heads + h) * config.head_dim + half * half_dim + x);
                let acc = Accumulator::of(layer.map_or([0, 0], |w| match part {
                    Part::Q => [get(&w.q_acc_hi, at), get(&w.q_acc_lo, at)],
                    _ => [get(&w.k_acc_hi, at), get(&w.k_acc_lo, at)],
                }));
                let pow = pows
                    .get(l)
                    .map_or(2, |p| p[(((h << 1) | half) << shape.padded.half) | x]);
                let shift = pow.trailing_zeros();
                let rounded = acc.rounded(shift);
                acc.write(row, air.remainder(half), shift, rounded);
                write(row, air.before(half), air.projected(), rounded.out);
                (*value, excesses[half]) = (rounded.out, rounded.excess);
                if air.normed {
                    let root = layer
                        .filter(|_| real)
                        .map_or(0, |w| normed_heads(w, kind).rsqrt[i * heads + h]);
                    let acc = Accumulator::product(rounded.out * i64::from(root));
                    let shift = norm.map_or(PADDED_EXPONENT, |norm| norm.shift).into();
                    let normed = acc.rounded(shift);
                    acc.write(row, air.norm(half), shift, normed);
                    row[air.source(half)] = felt(normed.out);
                    (*value, excesses[4 + half]) = (normed.out, normed.excess);
                }
            }
            let gains = norm.map_or(&[][..], |norm| &norm.gains);
            let [a, b] = pair.map(|v| v as i16);
            let rotated = match x < half_dim {
                true => {
                    let direction = directions[config.rotation(l)][i * half_dim + x];
                    turned(a, b, turn(direction, gains, x, half_dim))
                }
                false => [0; 2],
            };
            for (half, t) in rotated.into_iter().enumerate() {
                let value = round_shift(t, ROPE_BITS);
                let rotated = Clipped::of(value);
                row[air.rest(half)] = (t + (1 << (ROPE_BITS - 1)) - (value << ROPE_BITS)) as u32;
                write(row, air.after(half), air.out, rotated.out);
                excesses[2 + half] = rotated.excess;
            }
            excesses
        })
    }
}
