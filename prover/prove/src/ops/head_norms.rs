//! Norms of the heads of queries and keys (docs/protocol.md, section 16.11): how their rows are filled, and the factors of squares and
//! roots.

use crate::bind::eq_table;
use num_traits::Zero;
use tessera_circuits::model::MatmulKind;
use tessera_circuits::ops::head_norms::NormedHeads;
use tessera_circuits::ops::norms::bound_limbs;
use tessera_circuits::shape::{Part, Product};
use tessera_circuits::statistics::Clip;
use tessera_model::forward::{self, LayerWitness};

use super::norms::{small, NormRow, FILLER};
use super::operator::Operator;
use crate::column::Column;
use crate::device::DeviceError;
use crate::factors::{entries, Factors, K};
use crate::trace::{build, felt, Source};

/// The prover's side of [`tessera_circuits::ops::head_norms`].
pub(super) const OPERATOR: Operator = Operator {
    fills: &[
        (Part::Q_NORMS, |source, part| source.head_norms(part)),
        (Part::K_NORMS, |source, part| source.head_norms(part)),
    ],
    makes: &[
        (Product::QUERY_SQUARE, |own| own.head_squares(Part::Q).map(entries)),
        (Product::QUERY_ROOT, |own| own.head_roots(Part::Q).map(entries)),
        (Product::KEY_SQUARE, |own| own.head_squares(Part::K).map(entries)),
        (Product::KEY_ROOT, |own| own.head_roots(Part::K).map(entries)),
    ],
};

impl Source<'_> {
    /// The rows of the norms of heads.
    fn head_norms(&self, part: Part) -> (Vec<Column>, Vec<Clip>) {
        let config = &self.shape.config;
        let (kind, heads) = match part {
            Part::Q_NORMS => (MatmulKind::Q, config.heads),
            _ => (MatmulKind::K, config.kv_heads),
        };
        build(self, part, (|[_, i, _]| i, FILLER), |[l, i, h], row| {
            let layer = self.witness.layers.get(l).filter(|_| h < heads);
            let own = layer.zip(self.params.head_norm(kind.at(l))).map(|(layer, norm)| {
                let normed = normed_heads(layer, kind);
                NormRow {
                    sums: normed.sums[i * heads + h],
                    eps: norm.eps,
                    bound: bound_limbs(config.head_dim, norm.scale),
                    root: normed.rsqrt[i * heads + h],
                }
            });
            let columns = own.unwrap_or(NormRow::PADDING).columns();
            row.iter_mut().zip(columns).for_each(|(to, v)| *to = felt(v));
            [0; 6]
        })
    }
}

/// The norms of queries or keys.
pub(super) const fn normed_heads(layer: &LayerWitness, kind: MatmulKind) -> &forward::NormedHeads {
    match kind {
        MatmulKind::Q => &layer.q_norm,
        _ => &layer.k_norm,
    }
}

impl Factors<'_> {
    /// Queries or keys in limbs, each entry times its weight among the accumulators, and as it is.
    fn head_squares(&self, part: Part) -> Result<(Vec<K>, Vec<K>), DeviceError> {
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

    /// The factors of the roots of heads, as [`Factors::roots`] makes them for states.
    fn head_roots(&self, part: Part) -> Result<(Vec<K>, Vec<K>), DeviceError> {
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
