//! What the matmul sumcheck ends in: claims on the trace operands, the public one-hot operand, and the claim on
//! the weights.

use std::ops::Range;

use crate::scalar::{Scalar, Source, Word};

use super::scores::Keys;
use super::terms::power;
use super::{eq, felt, padded, suffix, NormWeights, Operands, Product, Public, WEIGHTED};
use crate::air::{ff, norms, requant, scores, softmax, stream};
use crate::claims::{Group, LinearClaim, Tensor, Weight};
use crate::mle::{eq_table, index_eq, Corners};
use crate::model::{Limbs, TILE_LOG};
use crate::shape::Part;

/// A claim on one group of columns.
pub(super) fn claim<K: Scalar>(
    name: &'static str,
    part: Part,
    weights: Vec<Weight<K>>,
    columns: Vec<(usize, K)>,
    value: K,
) -> LinearClaim<K> {
    LinearClaim {
        name,
        groups: vec![Group::new(part, weights, columns)],
        value,
    }
}

/// What rows of norms multiply, as columns.
pub(super) struct RootFactors<K> {
    /// The first factors: reciprocal roots, quotients, roots.
    pub(super) first: Vec<(usize, K)>,
    /// The second ones: sums of squares and roots.
    pub(super) second: Vec<(usize, K)>,
    /// What weighs the values that reciprocal roots are multiplied with.
    pub(super) values: K,
}

impl<K: Scalar> RootFactors<K> {
    /// At a point of the last axis, with these weights of the products.
    pub(super) fn new(factor: &[K], limb: K, weights: NormWeights<K>) -> Self {
        let factors = eq_table(factor);
        let [scaled, quotient, root] = [0, 1, 2].map(|own| factors.get(own).copied().unwrap_or_default());
        let limbs = |at: usize, count: usize, weight: K, radix: K| -> Vec<(usize, K)> {
            (0..count).map(|k| (at + k, weight * power(radix, k))).collect()
        };
        let first = [
            limbs(norms::ROOT, 2, scaled, felt(1 << norms::LIMB_BITS)),
            limbs(norms::QUOTIENT, norms::LIMBS, quotient, limb),
            limbs(norms::ROOT, 2, root, limb),
        ];
        let second = [
            limbs(norms::SUM, norms::LIMBS, quotient * weights.quotient, limb),
            limbs(norms::ROOT, 2, root * weights.root, limb),
        ];
        Self {
            first: first.concat(),
            second: second.concat(),
            values: scaled * weights.normed,
        }
    }
}

/// Coefficients of the bands of a matrix: the first band, what all of them have, and what is that of their rows and of their columns.
struct BandMatrix<K> {
    start: usize,
    factor: K,
    inputs: Vec<K>,
    outputs: Vec<K>,
}

/// The products of entries.
pub(super) fn times<K: Scalar>(a: &[K], b: &[K]) -> Vec<K> {
    a.iter().zip(b).map(|(a, b)| *a * *b).collect()
}

impl<K: Scalar> Public<'_, K> {
    /// Claims on the trace operands that the product sumcheck ends with. `operands` are the claimed final
    /// evaluations (first, second factor) in the order of [`super::PRODUCTS`]; `point` is the sumcheck's.
    pub fn operand_claims(&self, point: &[K], operands: &Operands<K>) -> Vec<LinearClaim<K>> {
        let shape = self.shape;
        let at = |product: Product| suffix(point, product.variables(shape));
        let [norm, att, ff_, _, score, value, head, norm_limbs, act, square, reciprocal, root, ..] = *operands;
        let [.., query_square, query_root, key_square, key_root] = *operands;
        let mut claims = Vec::new();
        for (product, limbs, [operand, _]) in [
            (Product::Norm, Limbs::One, norm),
            (Product::NormLimbs, Limbs::Two, norm_limbs),
        ] {
            if product.exists(shape) {
                claims.push(self.normed_operand(limbs, at(product), operand));
            }
        }
        claims.push(self.attention_operand(at(Product::Att), att[0]));
        claims.push(self.mlp_operand(at(Product::Ff), ff_[0]));
        claims.extend(self.score_operands(at(Product::Score), score));
        claims.extend(self.value_operands(at(Product::Value), value));
        if shape.has_logits() {
            claims.push(self.head_operand(at(Product::Head), head[0]));
        }
        if Product::Act.exists(shape) {
            claims.extend(self.act_operands(at(Product::Act), act));
        }
        claims.extend(self.square_operands(at(Product::Square), square));
        claims.extend(self.reciprocal_operands(at(Product::Reciprocal), reciprocal));
        claims.extend(self.root_operands(at(Product::Root), root));
        if shape.config.head_norms {
            let [q, k] = [self.normed_heads(Part::Q), self.normed_heads(Part::K)];
            claims.extend(self.head_squares(&q, at(Product::QuerySquare), query_square));
            claims.extend(self.head_roots(&q, at(Product::QueryRoot), query_root));
            claims.extend(self.head_squares(&k, at(Product::KeySquare), key_square));
            claims.extend(self.head_roots(&k, at(Product::KeyRoot), key_root));
        }
        claims.into_iter().map(|c| c.in_lanes(shape)).collect()
    }

    /// What the projections read.
    fn normed_operand(&self, limbs: Limbs, at: &[K], operand: K) -> LinearClaim<K> {
        let (lead, rest) = at.split_at(self.lead(Part::Stream) as usize);
        let weights = vec![eq(lead), eq(&self.points.token), eq(rest)];
        claim(
            "normed state",
            Part::Stream,
            weights,
            self.normed_columns(limbs),
            operand,
        )
    }

    fn attention_operand(&self, at: &[K], operand: K) -> LinearClaim<K> {
        let (lead, rest) = at.split_at(self.lead(Part::Att) as usize);
        let (head, index) = rest.split_at(self.shape.padded.heads as usize);
        let columns = vec![(requant::OUT_HI, K::one()), (requant::OUT_LO, self.points.limb)];
        let weights = vec![eq(lead), eq(&self.points.token), eq(head), eq(index)];
        claim("attention output", Part::Att, weights, columns, operand)
    }

    fn mlp_operand(&self, at: &[K], operand: K) -> LinearClaim<K> {
        let (lead, rest) = at.split_at(self.lead(Part::Ff) as usize);
        let [high, low] = self.shape.ff().product();
        let columns = vec![(high, K::one()), (low, self.points.limb)];
        let weights = vec![eq(lead), eq(&self.points.token), eq(rest)];
        claim("mlp product", Part::Ff, weights, columns, operand)
    }

    /// `eq(layer, .)` on the real layers of an axis of `part`.
    pub(super) fn real_layers(&self, part: Part, layer: &[K]) -> Weight<K> {
        padded(layer.iter().copied().take(self.layers()).collect(), self.lead(part))
    }

    /// Queries and keys.
    fn score_operands(&self, at: &[K], [query, key]: [K; 2]) -> [LinearClaim<K>; 2] {
        let (p, points, shape) = (&self.shape.padded, self.points, self.shape);
        let (layer, rest) = at.split_at(p.layers as usize);
        let (head, rest) = rest.split_at(p.heads as usize);
        let (block, rest) = rest.split_at(shape.blocks() as usize);
        let (half, index) = rest.split_at(1);
        let half = half.first().copied().unwrap_or_default();
        let halves = [K::one() - half, half];
        let (layer, head, block) = (eq_table(layer), eq_table(head), eq_table(block));
        // A query is in the block, a key in that block or before it; in encoders in any one.
        let mut from = block.clone();
        for i in (1..from.len()).rev() {
            let after = from.get(i).copied().unwrap_or_default();
            from.get_mut(i - 1).into_iter().for_each(|own| *own += after);
        }
        if shape.config.is_encoder() {
            let all = from.first().copied().unwrap_or_default();
            from.fill(all);
        }
        let in_blocks = |point: &[K], blocks: &[K]| {
            let tokens = eq_table(point);
            let blocks = tokens.chunks(1 << shape.block()).zip(blocks);
            Weight::dense(blocks.flat_map(|(own, w)| own.iter().map(|t| *t * *w)).collect())
        };
        // Queries are one column of each half, keys two.
        let of_halves = |part: Part, coefficients: &[K]| {
            let rope = shape.rope(part);
            let of = |(side, k): (usize, K)| {
                let columns = (rope.after(side)..).zip(coefficients);
                columns.map(move |(c, own)| (c, k * *own)).collect::<Vec<_>>()
            };
            halves.into_iter().enumerate().flat_map(of).collect::<Vec<_>>()
        };
        let queries = vec![
            padded(times(&points.layer_weights(self.layers()), &layer), self.lead(Part::Q)),
            in_blocks(&points.token, &block),
            padded(times(&eq_table(&points.head), &head), p.heads),
            eq(index),
        ];
        let keys = vec![
            self.real_layers(Part::K, &layer),
            in_blocks(&points.key, &from),
            padded(self.grouped(&head), p.kv_heads),
            eq(index),
        ];
        let weight = points.score_weight();
        let limbs = of_halves(Part::K, &[weight, weight * points.limb]);
        [
            claim("queries", Part::Q, queries, of_halves(Part::Q, &[K::one()]), query),
            claim("keys", Part::K, keys, limbs, key),
        ]
    }

    /// Probabilities and values.
    fn value_operands(&self, at: &[K], [probability, value]: [K; 2]) -> [LinearClaim<K>; 2] {
        let (p, points) = (&self.shape.padded, self.points);
        let (layer, rest) = at.split_at(p.layers as usize);
        let (head, key) = rest.split_at(p.heads as usize);
        let (layer, head) = (eq_table(layer), eq_table(head));
        let front = [
            padded(
                times(&points.layer_weights(self.layers()), &layer),
                self.lead(Part::Scores),
            ),
            padded(times(&eq_table(&points.head), &head), p.heads),
        ];
        let probabilities = self.score_tensor(front, &points.token, Keys::At(key));
        let values = vec![
            self.real_layers(Part::V, &layer),
            eq(key),
            padded(self.grouped(&head), p.kv_heads),
            eq(points.out(p.head_dim())),
        ];
        let weight = points.att_weight();
        let limbs = vec![(requant::OUT_HI, weight), (requant::OUT_LO, weight * points.limb)];
        let columns = vec![(scores::P, K::one())];
        [
            claim("probabilities", Part::Scores, probabilities, columns, probability),
            claim("values", Part::V, values, limbs, value),
        ]
    }

    /// The last state at the generated positions.
    fn head_operand(&self, at: &[K], operand: K) -> LinearClaim<K> {
        let shape = self.shape;
        let last = Weight::Sparse(self.lead(Part::Stream), vec![(shape.states() - 1, K::one())]);
        let weights = vec![last, Weight::dense(self.generated_rows()), eq(at)];
        let columns = self.normed_columns(shape.limbs.head);
        claim("generated positions", Part::Stream, weights, columns, operand)
    }

    /// SiLU of the gate times up projection: the first factor is a table of products, entry by entry.
    fn act_operands(&self, at: &[K], [gate, up]: [K; 2]) -> [LinearClaim<K>; 2] {
        let points = self.points;
        let (layer, rest) = at.split_at(self.lead(Part::Ff) as usize);
        let (token, feature) = rest.split_at(self.shape.token as usize);
        let own_layers = times(&points.layer_weights(self.layers()), &eq_table(layer));
        let gates = vec![
            padded(own_layers, self.lead(Part::Ff)),
            Weight::dense(times(&eq_table(&points.token), &eq_table(token))),
            Weight::dense(times(&eq_table(points.out(self.shape.padded.ff)), &eq_table(feature))),
        ];
        let weight = points.act_weight();
        let ups = vec![eq(layer), eq(token), eq(feature)];
        [
            claim("gates", Part::Ff, gates, vec![(ff::SILU, weight)], gate),
            claim("up projections", Part::Ff, ups, vec![(ff::UP, K::one())], up),
        ]
    }

    /// The stream times itself: the first factor is a table of products, entry by entry.
    fn square_operands(&self, at: &[K], [first, second]: [K; 2]) -> [LinearClaim<K>; 2] {
        let (points, part) = (self.points, Part::Stream);
        let (state, rest) = at.split_at(self.lead(part) as usize);
        let (token, feature) = rest.split_at(self.shape.token as usize);
        let own_states = times(&points.state_weights(self.shape.states()), &eq_table(state));
        let (tokens, features) = (times(&eq_table(&points.token), &eq_table(token)), eq_table(feature));
        // Outputs that are normed have no exponents.
        let weighted = [false, true].into_iter().filter_map(|outputs| {
            let own = own_states.iter().enumerate();
            let own = own.map(|(n, w)| {
                if self.params.is_output(n) == outputs {
                    *w
                } else {
                    K::zero()
                }
            });
            let own: Vec<K> = own.collect();
            let tensor = vec![
                padded(own, self.lead(part)),
                Weight::dense(tokens.clone()),
                padded(
                    times(&self.squared_exponents(outputs), &features),
                    self.shape.padded.hidden,
                ),
            ];
            (!outputs || self.params.is_post_normed()).then_some(tensor)
        });
        let weighted: Vec<Tensor<K>> = weighted.collect();
        let columns = |weight: K| vec![(stream::X_HI, weight), (stream::X_LO, weight * points.limb)];
        let plain = vec![eq(state), eq(token), eq(feature)];
        [
            LinearClaim {
                name: "weighted states",
                groups: vec![Group::new_sum(
                    part,
                    weighted,
                    columns(points.norms(Part::Norms).square),
                )],
                value: first,
            },
            claim("states", part, plain, columns(K::one()), second),
        ]
    }

    /// Reciprocals of softmax, and what they multiply: the sums of exponentials, and the exponentials at the key point. The
    /// first factor is a table of products, entry by entry.
    fn reciprocal_operands(&self, at: &[K], [reciprocal, factor]: [K; 2]) -> [LinearClaim<K>; 2] {
        let (p, points, part) = (&self.shape.padded, self.points, Part::Softmax);
        let (layer, rest) = at.split_at(p.layers as usize);
        let (head, token) = rest.split_at(p.heads as usize);
        let layers = eq_table(layer);
        let weighted = vec![
            padded(times(&points.layer_weights(self.layers()), &layers), self.lead(part)),
            padded(times(&self.head_weights(), &eq_table(head)), p.heads),
            Weight::dense(times(&eq_table(&points.token), &eq_table(token))),
        ];
        let limbs = |hi: usize, lo: usize, weight: K| vec![(hi, weight), (lo, weight * points.limb)];
        let sums = vec![self.real_layers(part, &layers), eq(head), eq(token)];
        let front = [self.real_layers(Part::Scores, &layers), eq(head)];
        let exponentials = self.score_tensor(front, token, Keys::At(&points.key));
        let columns = limbs(softmax::RECIP_HI, softmax::RECIP_LO, K::one());
        [
            claim("reciprocals", part, weighted, columns, reciprocal),
            LinearClaim {
                name: "sums and exponentials",
                groups: vec![
                    Group::new(
                        part,
                        sums,
                        limbs(softmax::SUM_HI, softmax::SUM_LO, points.reciprocal_weight()),
                    ),
                    Group::new(
                        Part::Scores,
                        exponentials,
                        vec![(scores::EXP, points.probability_weight())],
                    ),
                ],
                value: factor,
            },
        ]
    }

    /// What the rows of norms multiply: reciprocal roots and states, quotients and sums of squares, roots and roots. The first
    /// factor is a table of products, entry by entry.
    fn root_operands(&self, at: &[K], [first, second]: [K; 2]) -> [LinearClaim<K>; 2] {
        let (points, part) = (self.points, Part::Norms);
        let (state, rest) = at.split_at(self.lead(part) as usize);
        let (token, factor) = rest.split_at(self.shape.token as usize);
        let states = eq_table(state);
        let weighted = vec![
            padded(
                times(&points.state_weights(self.shape.states()), &states),
                self.lead(part),
            ),
            Weight::dense(times(&eq_table(&points.token), &eq_table(token))),
        ];
        let real = |part: Part| {
            padded(
                states.iter().copied().take(self.shape.states()).collect(),
                self.lead(part),
            )
        };
        let features = eq(points.out(self.shape.padded.hidden));
        let factors = RootFactors::new(factor, points.limb, points.norms(part));
        let weight = factors.values;
        let values = vec![(stream::X_HI, weight * felt::<K>(256)), (stream::X_LO, weight)];
        [
            claim("reciprocal roots", part, weighted, factors.first, first),
            LinearClaim {
                name: "states, sums of squares and roots",
                groups: vec![
                    Group::new(part, vec![real(part), eq(token)], factors.second),
                    Group::new(Part::Stream, vec![real(Part::Stream), eq(token), features], values),
                ],
                value: second,
            },
        ]
    }

    /// `4^k` of every real channel, `k` its exponent: that of a state, or that of an output that is normed before it is added, 0.
    pub fn squared_exponents(&self, output: bool) -> Vec<K> {
        let channels = 0..self.shape.config.hidden;
        let exponent = |c| match output {
            true => 0,
            false => 2 * i64::from(self.params.exponent(c)),
        };
        channels.map(|c| felt(1 << exponent(c).min(30))).collect()
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
        let first = self.statement.generated().next().map_or(0, |(row, _)| row);
        let count = self.statement.generated_ids().len();
        let weights: Vec<K> = eq_table(&self.points.output).into_iter().take(count).collect();
        K::placed(&weights, Word::new(first, Source::FirstRow), 1 << self.shape.token)
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

    /// The public operand of the embedding: the one-hot matrix of the row tokens, and of their positions, times
    /// `2^embed_exponent`, at (token point, `point`).
    pub fn embed_operand(&self, point: &[K]) -> K {
        if !self.shape.chunk.is_first() {
            return K::zero();
        }
        let tokens = eq_table(&self.points.token);
        let vocab = suffix(point, Product::Embed.variables(self.shape));
        let ids = self.statement.row_ids(self.shape.token);
        let sum = tokens.iter().zip(ids).enumerate().fold(K::zero(), |sum, (i, (t, id))| {
            let id = Word::new(id as usize, Source::RowId(i));
            let position = self.shape.config.position_row(i);
            let position = position.map_or(K::zero(), |row| index_eq(row, vocab));
            sum + *t * (K::word_eq(id, vocab) + position)
        });
        sum * felt::<K>(1 << self.params.embed_exponent)
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
        for own in self.band_matrices(point, families, bands.start, log_band) {
            for (b, input) in own.inputs.iter().enumerate() {
                let row = own.factor * *input;
                for (c, w) in own.outputs.iter().enumerate() {
                    if let Some(g) = gamma.get_mut(own.start + b * own.outputs.len() + c) {
                        *g = row * *w;
                    }
                }
            }
        }
        gamma
    }

    /// The multilinear extension of [`Self::band_coefficients`] at a point, row by row: no coefficient is calculated. The bands of all
    /// matrices must be among `bands`.
    pub fn band_extension(
        &self,
        point: &[K],
        families: &[K; WEIGHTED.len()],
        (bands, log_band): (Range<usize>, u32),
        at: &[K],
    ) -> K {
        let corners = Corners::new(at);
        let of_matrix = |own: BandMatrix<K>| {
            let rows = own.inputs.iter().enumerate();
            let rows = rows.map(|(b, input)| *input * corners.dot(&own.outputs, own.start + b * own.outputs.len()));
            own.factor * rows.sum::<K>()
        };
        let matrices = self.band_matrices(point, families, bands.start, log_band);
        matrices.into_iter().map(of_matrix).sum()
    }

    /// The coefficients of the bands of every matrix, which are tensors. Bands are numbered from `first` on.
    fn band_matrices(
        &self,
        point: &[K],
        families: &[K; WEIGHTED.len()],
        first_band: usize,
        log_band: u32,
    ) -> Vec<BandMatrix<K>> {
        let mut matrices = Vec::new();
        let tables = WEIGHTED.map(|product| {
            let at = suffix(point, product.variables(self.shape));
            eq_table(at.get(..at.len().saturating_sub(TILE_LOG as usize)).unwrap_or(at))
        });
        for m in self.shape.matmuls() {
            let (product, lead) = Product::of(m.kind, m.layer, self.shape);
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
            let mut outputs = eq_table(out.get(..out.len().saturating_sub(within)).unwrap_or(out));
            outputs.truncate(m.out_blocks >> log_band);
            let first = lead << (m.in_log - TILE_LOG);
            matrices.push(BandMatrix {
                start: (m.first_tile >> log_band).saturating_sub(first_band),
                factor: *family * self.points.matmul_weight(m.kind, m.layer),
                inputs: table.iter().skip(first).take(m.in_blocks).copied().collect(),
                outputs,
            });
        }
        matrices
    }

    /// Local point of the claim on the weights, in the order of the index within a band of `2^log_band` tiles: the tile (out),
    /// 6 in-coordinates, 6 out-coordinates.
    pub fn local_point(&self, point: &[K], log_band: u32) -> Vec<K> {
        let out = suffix(&self.points.out, log_band + TILE_LOG);
        let (tile, y) = out.split_at(out.len().saturating_sub(TILE_LOG as usize));
        [tile, suffix(point, TILE_LOG), y].concat()
    }
}
