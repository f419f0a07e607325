//! Factors of the products of attention: scores, weighted values, and reciprocals of softmax.

use num_traits::Zero;
use rayon::prelude::*;
use stwo::core::fields::m31::BaseField;
use tessera_circuits::air::requant;
use tessera_circuits::mle::eq_table;
use tessera_circuits::ops::softmax;
use tessera_circuits::shape::Part;
use tessera_circuits::shape::Product;
use tessera_circuits::wiring::suffix;

use super::{Factors, K, KEYS, QUERIES};
use crate::device::DeviceError;

impl Factors<'_> {
    /// A table over (layer, head, ...) from one over (layer', kv or q head, ...): real layers only, heads
    /// through `map`, every (layer, head) block scaled by `scale`.
    pub(super) fn spread(
        &self,
        table: &[K],
        heads: u32,
        block: usize,
        map: impl Fn(usize) -> usize,
        scale: Option<(&[K], &[K])>,
        power: K,
    ) -> Vec<K> {
        let p = &self.public.shape.padded;
        let mut out = vec![K::zero(); block << (p.layers + p.heads)];
        for l in 0..self.public.shape.config.layers {
            for h in 0..1usize << p.heads {
                let from = &table[((l << heads) | map(h)) * block..][..block];
                let to = &mut out[((l << p.heads) | h) * block..][..block];
                let factor = scale.map_or(power, |(layers, heads)| layers[l] * heads[h] * power);
                to.iter_mut().zip(from).for_each(|(t, v)| *t = *v * factor);
            }
        }
        out
    }

    /// Queries or keys of every block of tokens, each block bound at the coordinates within it: (layer, block, head, half,
    /// index).
    pub(super) fn blocks(
        &self,
        part: Part,
        columns: impl Fn(usize) -> Vec<(usize, K)>,
        point: &[K],
    ) -> Result<Vec<K>, DeviceError> {
        let size = 1usize << self.public.shape.padded.half;
        let within = eq_table(suffix(point, self.public.shape.block()));
        let [first, second] = [0, 1].map(|half| self.bound_with(part, &columns(half), 1, &within));
        let (first, second) = (first?, second?);
        let halves = first.chunks(size).zip(second.chunks(size));
        Ok(halves.flat_map(|(a, b)| [a, b].concat()).collect())
    }

    /// (layer, block, ..) to (layer, head, block, ..), of `heads` heads.
    pub(super) fn turned(&self, table: &[K], heads: usize, size: usize) -> Vec<K> {
        let blocks = 1usize << self.public.shape.blocks();
        let layers = table.chunks(blocks * heads * size);
        let head = |layer, h| (0..blocks).map(move |b| (layer, b * heads + h));
        let places = layers.flat_map(|layer| (0..heads).flat_map(move |h| head(layer, h)));
        let own = |(layer, at): (&[K], usize)| layer[at * size..][..size].to_vec();
        places.flat_map(own).collect()
    }

    pub(super) fn scores(&self) -> Result<(Vec<K>, Vec<K>), DeviceError> {
        let (shape, points) = (self.public.shape, self.public.points);
        let p = &shape.padded;
        let (size, blocks) = (1usize << p.head_dim(), 1usize << shape.blocks());
        let (layers, heads) = (points.layer_weights(shape.config.layers), eq_table(&points.head));
        let felt = |v: u32| K::from(BaseField::from_u32_unchecked(v));
        let of = |part: Part, half: usize| shape.rope(part).after(half);
        let mut queries = self.blocks(Part::Q, |half| vec![(of(Part::Q, half), felt(1))], &points.token)?;
        let limbs = |at: usize| vec![(at, felt(1)), (at + 1, points.limb)];
        let mut keys = self.blocks(Part::K, |half| limbs(of(Part::K, half)), &points.key)?;
        let [query, key] = [&points.token, &points.key].map(|point| eq_table(&point[..shape.blocks() as usize]));
        // Each block with its weight; the keys of a block and of those before it are added up, in encoders those of all.
        let own = (size << p.heads, size << p.kv_heads);
        for (values, w) in queries.chunks_mut(own.0).zip(query.iter().cycle()) {
            values.iter_mut().for_each(|v| *v *= *w);
        }
        for layer in keys.chunks_mut(own.1 * blocks) {
            let mut before = vec![K::zero(); own.1];
            for (values, w) in layer.chunks_mut(own.1).zip(&key) {
                for (v, sum) in values.iter_mut().zip(&mut before) {
                    *sum += *v * *w;
                    *v = *sum;
                }
            }
            if !shape.config.is_causal() {
                // All keys, from every block.
                layer
                    .chunks_mut(own.1)
                    .for_each(|values| values.copy_from_slice(&before));
            }
        }
        let queries = self.turned(&queries, 1 << p.heads, size);
        let keys = self.turned(&keys, 1 << p.kv_heads, size);
        let weight = points.score_weight();
        let kv = |h: usize| shape.config.kv_head(h);
        let block = size * blocks;
        Ok((
            self.spread(&queries, p.heads, block, |h| h, Some((&layers, &heads)), felt(1)),
            self.spread(&keys, p.kv_heads, block, kv, None, weight),
        ))
    }

    /// A column of the scores, times a factor, bound at a point of queries: (layer, head, key); or at one of keys: (layer, head,
    /// query). `axis` is that of what is bound, in its block.
    pub(super) fn pairs(&self, column: (usize, K), axis: usize, point: &[K]) -> Result<Vec<K>, DeviceError> {
        let shape = self.public.shape;
        let (block, tokens) = (1usize << shape.block(), 1usize << shape.token);
        let (blocks, within) = point.split_at(shape.blocks() as usize);
        let blocks = eq_table(blocks);
        // (layer, head, pair, what is left in its block).
        let of_pairs = self.bound(Part::SCORES, &[column], axis, within)?;
        let pairs: Vec<_> = shape.pairs().collect();
        let lines = of_pairs.par_chunks(block << shape.full_axes(Part::SCORES)[2]);
        let line = |line: &[K]| {
            let mut sums = vec![K::zero(); tokens];
            for ((query, key), values) in pairs.iter().zip(line.chunks(block)) {
                let (bound, left) = if axis == QUERIES { (query, key) } else { (key, query) };
                let own = sums[left * block..].iter_mut().zip(values);
                own.for_each(|(sum, v)| *sum += blocks[*bound] * *v);
            }
            sums
        };
        Ok(lines.flat_map_iter(line).collect())
    }

    pub(super) fn values(&self) -> Result<(Vec<K>, Vec<K>), DeviceError> {
        let (shape, points) = (self.public.shape, self.public.points);
        let p = &shape.padded;
        let tokens = 1usize << shape.token;
        let (layers, heads) = (points.layer_weights(shape.config.layers), eq_table(&points.head));
        let one = K::from(BaseField::from_u32_unchecked(1));
        let probabilities = self.pairs((softmax::P, one), QUERIES, &points.token)?;
        let columns = self.limbs(requant::OUT_HI, requant::OUT_LO);
        let values = self.bound(Part::V, &columns, 3, points.out(p.head_dim()))?;
        // (layer, token, kv head) to (layer, kv head, token).
        let kv_heads = 1usize << p.kv_heads;
        let turned: Vec<K> = values
            .chunks(tokens * kv_heads)
            .flat_map(|layer| (0..kv_heads).flat_map(move |g| (0..tokens).map(move |j| layer[j * kv_heads + g])))
            .collect();
        let kv = |h: usize| shape.config.kv_head(h);
        Ok((
            self.spread(&probabilities, p.heads, tokens, |h| h, Some((&layers, &heads)), one),
            self.spread(&turned, p.kv_heads, tokens, kv, None, points.att_weight()),
        ))
    }

    /// Reciprocals of softmax, each times its weight among the accumulators, and what they multiply.
    pub(super) fn reciprocals(&self) -> Result<(Vec<K>, Vec<K>), DeviceError> {
        let (shape, points) = (self.public.shape, self.public.points);
        let (p, tokens) = (&shape.padded, eq_table(&points.token));
        let mut heads = self.public.head_weights();
        heads.resize(1 << p.heads, K::zero());
        let layers = points.layer_weights(shape.config.layers);
        let pair = |hi: usize, lo: usize| {
            let [hi, lo] = self.wholes(Part::SOFTMAX, [hi, lo])?;
            let both = hi.into_iter().zip(lo);
            Ok(both.map(|(hi, lo)| points.limb * lo + hi).collect::<Vec<K>>())
        };
        let reciprocals = pair(softmax::RECIP_HI, softmax::RECIP_LO)?;
        let sums = pair(softmax::SUM_HI, softmax::SUM_LO)?;
        let weight = points.probability_weight();
        let mut factors = self.pairs((softmax::EXP, weight), KEYS, &points.key)?;
        // Real layers only, on an axis that is not stretched.
        let size = 1usize << Product::RECIPROCAL.variables(shape);
        let (mut weighted, real) = (vec![K::zero(); size], shape.config.layers * heads.len() * tokens.len());
        factors.resize(size, K::zero());
        factors[real..].fill(K::zero());
        let weight = points.reciprocal_weight();
        factors[..real]
            .iter_mut()
            .zip(&sums)
            .for_each(|(f, sum)| *f += weight * *sum);
        let rows = weighted[..real]
            .chunks_mut(tokens.len())
            .zip(reciprocals.chunks(tokens.len()));
        for (row, (to, from)) in rows.enumerate() {
            let factor = layers[row / heads.len()] * heads[row % heads.len()];
            let values = to.iter_mut().zip(from).zip(&tokens);
            values.for_each(|((to, v), token)| *to = factor * *token * *v);
        }
        Ok((weighted, factors))
    }
}
