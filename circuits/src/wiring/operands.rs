//! What the matmul sumcheck ends in: claims on the trace operands, the public one-hot operand, and the claim on
//! the weights.

use std::ops::Range;

use num_traits::{One, Zero};

use super::{eq, felt, padded, suffix, Operands, Product, Public, K, WEIGHTED};
use crate::air::{ff, requant, scores, stream};
use crate::claims::{Group, LinearClaim, Weight};
use crate::mle::{eq_table, index_eq};
use crate::model::{Limbs, TILE_LOG};
use crate::shape::Part;

impl Public<'_> {
    /// Claims on the trace operands that the product sumcheck ends with. `operands` are the claimed final
    /// evaluations (first, second factor) in the order of [`super::PRODUCTS`]; `point` is the sumcheck's.
    pub fn operand_claims(&self, point: &[K], operands: &Operands) -> Vec<LinearClaim> {
        let (p, points, shape) = (&self.shape.padded, self.points, self.shape);
        let limb = points.limb;
        let at = |product: Product| suffix(point, product.variables(shape));
        let [norm, att, ff_, _, score, value, head_, norm_limbs, act] = *operands;
        let mut claims = Vec::new();
        let mut push = |name, groups, value| claims.push(LinearClaim { name, groups, value });

        for (product, limbs, operand) in [
            (Product::Norm, Limbs::One, norm),
            (Product::NormLimbs, Limbs::Two, norm_limbs),
        ] {
            if product.exists(shape) {
                let (lead, rest) = at(product).split_at(self.lead(Part::Stream) as usize);
                let weights = vec![eq(lead), eq(&points.token), eq(rest)];
                let groups = vec![Group::new(Part::Stream, weights, self.normed_columns(limbs))];
                push("normed state", groups, operand[0]);
            }
        }

        let (lead, rest) = at(Product::Att).split_at(self.lead(Part::Att) as usize);
        let (head, index) = rest.split_at(p.heads as usize);
        let columns = vec![(requant::OUT_HI, K::one()), (requant::OUT_LO, limb)];
        let weights = vec![eq(lead), eq(&points.token), eq(head), eq(index)];
        push(
            "attention output",
            vec![Group::new(Part::Att, weights, columns)],
            att[0],
        );

        let (lead, rest) = at(Product::Ff).split_at(self.lead(Part::Ff) as usize);
        let columns = vec![(ff::H_HI, K::one()), (ff::H_LO, limb)];
        let weights = vec![eq(lead), eq(&points.token), eq(rest)];
        push("mlp product", vec![Group::new(Part::Ff, weights, columns)], ff_[0]);

        let own_layers = points.layer_weights(self.layers());
        let own_heads = eq_table(&points.head);
        let times = |a: &[K], b: &[K]| a.iter().zip(b).map(|(a, b)| *a * *b).collect::<Vec<_>>();

        // Queries and keys.
        let (layer, rest) = at(Product::Score).split_at(p.layers as usize);
        let (head, rest) = rest.split_at(p.heads as usize);
        let (half, index) = rest.split_at(1);
        let half = half.first().copied().unwrap_or_default();
        let halves = [K::one() - half, half];
        let (layer, head) = (eq_table(layer), eq_table(head));
        // Queries are one column of each half, keys two.
        let of_halves = |part: Part, coefficients: &[K]| {
            let rope = shape.rope(part);
            let of = |(side, k): (usize, K)| {
                let columns = (rope.after(side)..).zip(coefficients);
                columns.map(move |(c, own)| (c, k * *own)).collect::<Vec<_>>()
            };
            halves.into_iter().enumerate().flat_map(of).collect::<Vec<_>>()
        };
        let weights = vec![
            padded(times(&own_layers, &layer), self.lead(Part::Q)),
            eq(&points.token),
            padded(times(&own_heads, &head), p.heads),
            eq(index),
        ];
        let columns = of_halves(Part::Q, &[K::one()]);
        push("queries", vec![Group::new(Part::Q, weights, columns)], score[0]);
        let real_layers: Vec<K> = layer.iter().copied().take(self.layers()).collect();
        let weights = vec![
            padded(real_layers, self.lead(Part::K)),
            eq(&points.key),
            padded(self.grouped(&head), p.kv_heads),
            eq(index),
        ];
        let weight = points.score_weight();
        push(
            "keys",
            vec![Group::new(
                Part::K,
                weights,
                of_halves(Part::K, &[weight, weight * limb]),
            )],
            score[1],
        );

        // Probabilities and values.
        let (layer, rest) = at(Product::Value).split_at(p.layers as usize);
        let (head, key) = rest.split_at(p.heads as usize);
        let (layer, head) = (eq_table(layer), eq_table(head));
        let weights = vec![
            padded(times(&own_layers, &layer), self.lead(Part::Scores)),
            padded(times(&own_heads, &head), p.heads),
            eq(&points.token),
            eq(key),
        ];
        let columns = vec![(scores::P, K::one())];
        push(
            "probabilities",
            vec![Group::new(Part::Scores, weights, columns)],
            value[0],
        );
        let real_layers: Vec<K> = layer.iter().copied().take(self.layers()).collect();
        let weights = vec![
            padded(real_layers, self.lead(Part::V)),
            eq(key),
            padded(self.grouped(&head), p.kv_heads),
            eq(points.out(p.head_dim())),
        ];
        let weight = points.att_weight();
        let columns = vec![(requant::OUT_HI, weight), (requant::OUT_LO, weight * limb)];
        push("values", vec![Group::new(Part::V, weights, columns)], value[1]);
        if shape.chunk.is_last() {
            let last = Weight::Sparse(self.lead(Part::Stream), vec![(shape.states() - 1, K::one())]);
            let weights = vec![last, Weight::dense(self.generated_rows()), eq(at(Product::Head))];
            let groups = vec![Group::new(Part::Stream, weights, self.normed_columns(shape.limbs.head))];
            push("generated positions", groups, head_[0]);
        }

        // SiLU of the gate times up projection: the first factor is a table of products, entry by entry.
        let axes = [self.lead(Part::Ff) as usize, shape.token as usize];
        let (layer, rest) = at(Product::Act).split_at(axes[0]);
        let (token, feature) = rest.split_at(axes[1]);
        let weights = vec![
            padded(times(&own_layers, &eq_table(layer)), self.lead(Part::Ff)),
            Weight::dense(times(&eq_table(&points.token), &eq_table(token))),
            Weight::dense(times(&eq_table(points.out(p.ff)), &eq_table(feature))),
        ];
        let columns = vec![(ff::SILU, points.act_weight())];
        push("gates", vec![Group::new(Part::Ff, weights, columns)], act[0]);
        let weights = vec![eq(layer), eq(token), eq(feature)];
        let columns = vec![(ff::UP, K::one())];
        push("up projections", vec![Group::new(Part::Ff, weights, columns)], act[1]);
        claims.into_iter().map(|c| c.in_lanes(shape)).collect()
    }

    /// The normed state as an operand: as it is, or its limbs apart.
    pub fn normed_columns(&self, limbs: Limbs) -> Vec<(usize, K)> {
        let (high, low) = match limbs {
            Limbs::One => (felt(256), K::one()),
            Limbs::Two => (K::one(), self.points.limb),
        };
        match self.shape.normed() {
            Limbs::One => vec![(stream::Y, K::one())],
            Limbs::Two => vec![(stream::Y, high), (stream::Y + 1, low)],
        }
    }

    /// Weights of the token rows of the last state in the product of the head: of the generated positions.
    pub fn generated_rows(&self) -> Vec<K> {
        let mut rows = vec![K::zero(); 1 << self.shape.token];
        for ((row, _), weight) in self.statement.generated().zip(eq_table(&self.points.output)) {
            if let Some(own) = rows.get_mut(row) {
                *own = weight;
            }
        }
        rows
    }

    /// Weights of the (padded) query heads summed over the query heads of each key/value head.
    fn grouped(&self, heads: &[K]) -> Vec<K> {
        let mut sums = vec![K::zero(); 1 << self.shape.padded.kv_heads];
        for (h, w) in heads.iter().enumerate() {
            if let Some(sum) = sums.get_mut(self.shape.config.kv_head(h)) {
                *sum += *w;
            }
        }
        sums
    }

    /// The public operand of the embedding: the one-hot matrix of the row tokens, times
    /// `2^embed_exponent`, at (token point, `point`).
    pub fn embed_operand(&self, point: &[K]) -> K {
        if !self.shape.chunk.is_first() {
            return K::zero();
        }
        let tokens = eq_table(&self.points.token);
        let vocab = suffix(point, Product::Embed.variables(self.shape));
        let ids = self.statement.row_ids(self.shape.token);
        let sum = tokens
            .iter()
            .zip(ids)
            .fold(K::zero(), |sum, (t, id)| sum + *t * index_eq(id as usize, vocab));
        sum * felt(1 << self.params.embed_exponent)
    }

    /// Coefficients of `bands` of `2^log_band` tiles, among which are those of the chunk, in the claim on the weights,
    /// `sum_B gamma_B B~(local point) = sum_f families[f] V_f` where `V_f` is the second final evaluation of weighted product
    /// `f`. Rows of tiles must be made of such bands.
    pub fn band_coefficients(
        &self,
        point: &[K],
        families: &[K; WEIGHTED.len()],
        bands: Range<usize>,
        log_band: u32,
    ) -> Vec<K> {
        let mut gamma = vec![K::zero(); bands.len()];
        let tables = WEIGHTED.map(|product| {
            let at = suffix(point, product.variables(self.shape));
            eq_table(at.get(..at.len().saturating_sub(TILE_LOG as usize)).unwrap_or(at))
        });
        for m in self.shape.matmuls() {
            let (product, lead) = Product::of(m.kind, m.layer, self.shape.limbs);
            let own = WEIGHTED
                .iter()
                .zip(families)
                .zip(&tables)
                .find(|((w, _), _)| **w == product);
            let Some(((_, family), table)) = own else {
                continue;
            };
            let out = self.points.out(m.out_log);
            let within = (TILE_LOG + log_band) as usize;
            let out = eq_table(out.get(..out.len().saturating_sub(within)).unwrap_or(out));
            let row_bands = m.out_blocks >> log_band;
            let blocks_log = m.in_log - TILE_LOG;
            let first = lead << blocks_log;
            let start = (m.first_tile >> log_band).saturating_sub(bands.start);
            let factor = *family * self.points.matmul_weight(m.kind, m.layer);
            for b in 0..m.in_blocks {
                let row = factor * table.get(first + b).copied().unwrap_or_default();
                for (c, w) in out.iter().take(row_bands).enumerate() {
                    if let Some(g) = gamma.get_mut(start + b * row_bands + c) {
                        *g = row * *w;
                    }
                }
            }
        }
        gamma
    }

    /// Local point of the claim on the weights, in the order of the index within a band of `2^log_band` tiles: the tile (out),
    /// 6 in-coordinates, 6 out-coordinates.
    pub fn local_point(&self, point: &[K], log_band: u32) -> Vec<K> {
        let out = suffix(&self.points.out, log_band + TILE_LOG);
        let (tile, y) = out.split_at(out.len().saturating_sub(TILE_LOG as usize));
        [tile, suffix(point, TILE_LOG), y].concat()
    }
}
