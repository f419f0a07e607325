//! All matmuls of a forward pass as one batched product sumcheck (docs/protocol.md, sections 5 and 6): the
//! [`PrecomputedMatmuls`] that are injected into the aggregator, which never sees a weight.

use num_traits::Zero;
use rayon::prelude::*;
use stwo::core::fields::m31::{BaseField, P};
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::{ff, requant, rope, scores, stream};
use tessera_circuits::mle::eq_table;
use tessera_circuits::model::{TILE, TILE_LOG};
use tessera_circuits::shape::Part;
use tessera_circuits::wiring::{product_variables, suffix, Product, Public, PRODUCTS};
use tessera_verifier::proof::MatmulProof;
use tessera_verifier::transcript::Transcript;

use crate::bind::bind_middle;
use crate::opening::TileSource;
use crate::stark::trace::Columns;
use crate::sumcheck::{self, Instance};

type K = SecureField;

/// The matmuls, proved: what the aggregator is given instead of the weights.
pub struct PrecomputedMatmuls {
    pub proof: MatmulProof,
    /// End point of the sumcheck.
    pub point: Vec<K>,
    /// `T~(local point)` of every tile, for the opening.
    pub tile_values: Vec<K>,
}

/// Proves all matmuls. `columns` are the trace columns by part.
pub fn prove(
    public: &Public<'_>,
    columns: &[Columns],
    tiles: &dyn TileSource,
    transcript: &mut Transcript,
) -> PrecomputedMatmuls {
    let tables = bind_tiles(tiles, suffix(&public.points.out, TILE_LOG));
    let witness = Operands { public, columns };
    let instances: Vec<Instance> = PRODUCTS
        .iter()
        .map(|&product| {
            let pair = match product {
                Product::Norm | Product::Att | Product::Ff => witness.weighted(product, &tables),
                Product::Embed => (witness.one_hot(), witness.weights(product, &tables)),
                Product::Score => witness.scores(),
                Product::Value => witness.values(),
            };
            Instance {
                pairs: vec![pair],
                variables: product.variables(public.shape) as usize,
            }
        })
        .collect();
    let claim = instances
        .par_iter()
        .flat_map(|i| &i.pairs)
        .map(|(a, b)| a.iter().zip(b).fold(K::zero(), |sum, (a, b)| sum + *a * *b))
        .reduce(K::zero, |a, b| a + b);
    debug_assert_eq!(
        instances.iter().map(|i| i.variables).max(),
        Some(product_variables(public.shape) as usize)
    );
    let proved = sumcheck::prove("matmuls", claim, instances, transcript);
    let mut operands = [[K::zero(); 2]; 6];
    for (operand, finals) in operands.iter_mut().zip(&proved.finals) {
        let (a, b) = finals[0];
        *operand = [a, b];
    }
    tessera_verifier::verify::absorb_operands(&operands, transcript);
    let inner = eq_table(suffix(&proved.point, TILE_LOG));
    let tile_values = tables
        .par_chunks(TILE)
        .map(|t| t.iter().zip(&inner).fold(K::zero(), |sum, (v, e)| sum + *v * *e))
        .collect();
    let proof = MatmulProof {
        claim,
        sumcheck: proved.proof,
        operands,
    };
    PrecomputedMatmuls {
        proof,
        point: proved.point,
        tile_values,
    }
}

/// First pass over the weights: `t_T(x) = sum_y T(x, y) eq(point, y)` for every tile, 64 values each. The
/// sums are integer dot products per coordinate: `|T| < 2^11`, `eq < 2^31`, 64 terms, below 2^48.
pub fn bind_tiles(tiles: &dyn TileSource, point: &[K]) -> Vec<K> {
    let eq = eq_table(point);
    let coordinates: [[i64; TILE]; 4] =
        std::array::from_fn(|c| std::array::from_fn(|y| i64::from(eq[y].to_m31_array()[c].0)));
    let mut out = vec![K::zero(); tiles.tiles() * TILE];
    out.par_chunks_mut(TILE).enumerate().for_each(|(t, out)| {
        let mut tile = [0i16; TILE * TILE];
        tiles.tile(t, &mut tile);
        for (value, row) in out.iter_mut().zip(tile.as_chunks::<TILE>().0) {
            let sums = coordinates.each_ref().map(|e| {
                let sum: i64 = row.iter().zip(e).map(|(w, e)| i64::from(*w) * e).sum();
                BaseField::from_u32_unchecked(sum.rem_euclid(i64::from(P)) as u32)
            });
            *value = K::from_m31_array(sums);
        }
    });
    out
}

/// The factor tables of the products.
struct Operands<'a> {
    public: &'a Public<'a>,
    columns: &'a [Columns],
}

impl Operands<'_> {
    /// `sum of factor * column` of `part`, bound at `point` along axis `outer`: a table over the other axes, zero
    /// beyond the committed lanes.
    fn bound(&self, part: Part, columns: &[(usize, K)], outer: usize, point: &[K]) -> Vec<K> {
        let (shape, weights) = (self.public.shape, eq_table(point));
        let (axes, cut, width) = (shape.axes(part), shape.cut(part), shape.lane_columns(part));
        let lead: u32 = axes[..outer].iter().sum();
        let rest: u32 = axes[outer + 1..].iter().sum();
        // The table of a lane as (before the cut, own entries), and where it goes.
        let of = |range: &[u32]| 1usize << range.iter().sum::<u32>();
        let mut others = axes.clone();
        others.remove(outer);
        let at = cut.axis - usize::from(cut.axis > outer);
        let own = of(&others[at..]);
        let stride = of(&others[at + 1..]) << shape.full_axes(part)[cut.axis];
        let mut sum = vec![K::zero(); of(&others[..at]) * stride];
        for lane in 0..cut.lanes {
            for (column, factor) in columns {
                let scaled: Vec<K> = weights.iter().map(|w| *w * *factor).collect();
                let column = &self.columns[part.index()][lane * width + column];
                let bound = bind_middle(column, 1 << lead, &scaled, 1 << rest);
                for (sum, bound) in sum.chunks_mut(stride).zip(bound.chunks(own)) {
                    let sum = &mut sum[lane * own..][..own];
                    sum.iter_mut().zip(bound).for_each(|(s, v)| *s += *v);
                }
            }
        }
        sum
    }

    fn limbs(&self, hi: usize, lo: usize) -> [(usize, K); 2] {
        [
            (hi, K::from(BaseField::from_u32_unchecked(1))),
            (lo, self.public.points.limb),
        ]
    }

    /// Operands bound at the token point, and the weights of the same product.
    fn weighted(&self, product: Product, tables: &[K]) -> (Vec<K>, Vec<K>) {
        let (part, hi, lo) = match product {
            Product::Norm => (Part::Stream, stream::Y_HI, stream::Y_LO),
            Product::Att => (Part::Att, requant::OUT_HI, requant::OUT_LO),
            _ => (Part::Ff, ff::H_HI, ff::H_LO),
        };
        let operand = self.bound(part, &self.limbs(hi, lo), 1, &self.public.points.token);
        (operand, self.weights(product, tables))
    }

    /// `V(lead, x) = sum over the product's matmuls of weight * sum_out W(x, out) eq(out point, out)`.
    fn weights(&self, product: Product, tables: &[K]) -> Vec<K> {
        let config = &self.public.shape.config;
        let mut out = vec![K::zero(); 1 << product.variables(self.public.shape)];
        for m in config.matmuls() {
            let (own, lead) = Product::of(m.kind, m.layer, config.layers);
            if own != product {
                continue;
            }
            let point = self.public.points.out(m.out_log);
            let blocks = eq_table(&point[..point.len() - TILE_LOG as usize]);
            let weight = self.public.points.matmul_weight(m.kind, m.layer);
            let start = lead << m.in_log;
            for b in 0..m.in_blocks {
                let target = &mut out[start + b * TILE..start + (b + 1) * TILE];
                for (c, e) in blocks.iter().take(m.out_blocks).enumerate() {
                    let factor = weight * *e;
                    let tile = &tables[(m.first_tile + b * m.out_blocks + c) * TILE..][..TILE];
                    target.iter_mut().zip(tile).for_each(|(t, v)| *t += factor * *v);
                }
            }
        }
        out
    }

    /// The one-hot matrix of the row tokens, bound at the token point.
    fn one_hot(&self) -> Vec<K> {
        let shape = self.public.shape;
        let mut out = vec![K::zero(); 1 << Product::Embed.variables(shape)];
        let scale = BaseField::from_u32_unchecked(1 << self.public.params.embed_exponent);
        let tokens = eq_table(&self.public.points.token);
        for (weight, id) in tokens.into_iter().zip(self.public.statement.row_ids(shape.token)) {
            out[id as usize] += weight * scale;
        }
        out
    }

    /// A table over (layer, head, ...) from one over (layer', kv or q head, ...): real layers only, heads
    /// through `map`, every (layer, head) block scaled by `scale`.
    fn spread(
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

    /// Interleaves the tables of the two halves: (layer, head, half, index).
    fn halves(&self, part: Part, columns: impl Fn(usize) -> Vec<(usize, K)>, point: &[K]) -> Vec<K> {
        let block = 1usize << self.public.shape.padded.half;
        let [first, second] = [0, 1].map(|half| self.bound(part, &columns(half), 1, point));
        first
            .chunks(block)
            .zip(second.chunks(block))
            .flat_map(|(a, b)| [a, b].concat())
            .collect()
    }

    fn scores(&self) -> (Vec<K>, Vec<K>) {
        let (shape, points) = (self.public.shape, self.public.points);
        let p = &shape.padded;
        let block = 1usize << p.head_dim();
        let (layers, heads) = (points.layer_weights(shape.config.layers), eq_table(&points.head));
        let felt = |v: u32| K::from(BaseField::from_u32_unchecked(v));
        let of = |half: usize, hi: K, lo: K| {
            vec![
                (rope::after(half, rope::OUT_HI), hi),
                (rope::after(half, rope::OUT_LO), lo),
            ]
        };
        let queries = self.halves(Part::Q, |half| of(half, felt(256), felt(1)), &points.token);
        let keys = self.halves(Part::K, |half| of(half, felt(1), points.limb), &points.key);
        let weight = points.score_weight();
        let kv = |h: usize| shape.config.kv_head(h);
        (
            self.spread(&queries, p.heads, block, |h| h, Some((&layers, &heads)), felt(1)),
            self.spread(&keys, p.kv_heads, block, kv, None, weight),
        )
    }

    fn values(&self) -> (Vec<K>, Vec<K>) {
        let (shape, points) = (self.public.shape, self.public.points);
        let p = &shape.padded;
        let tokens = 1usize << shape.token;
        let (layers, heads) = (points.layer_weights(shape.config.layers), eq_table(&points.head));
        let one = K::from(BaseField::from_u32_unchecked(1));
        let probabilities = self.bound(Part::Scores, &[(scores::P, one)], 2, &points.token);
        let columns = self.limbs(requant::OUT_HI, requant::OUT_LO);
        let values = self.bound(Part::V, &columns, 3, points.out(p.head_dim()));
        // (layer, token, kv head) to (layer, kv head, token).
        let kv_heads = 1usize << p.kv_heads;
        let turned: Vec<K> = values
            .chunks(tokens * kv_heads)
            .flat_map(|layer| (0..kv_heads).flat_map(move |g| (0..tokens).map(move |j| layer[j * kv_heads + g])))
            .collect();
        let kv = |h: usize| shape.config.kv_head(h);
        (
            self.spread(&probabilities, p.heads, tokens, |h| h, Some((&layers, &heads)), one),
            self.spread(&turned, p.kv_heads, tokens, kv, None, points.att_weight()),
        )
    }
}
