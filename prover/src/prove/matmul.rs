//! All matmuls of a forward pass as one batched product sumcheck (docs/protocol.md, sections 5 and 6): the
//! [`PrecomputedMatmuls`] that are injected into the aggregator, which never sees a weight.

use std::ops::{AddAssign, Range};

use num_traits::Zero;
use rayon::prelude::*;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::prover::backend::simd::m31::{PackedBaseField, N_LANES};
use stwo::prover::backend::simd::qm31::PackedSecureField;
use tessera_circuits::air::{ff, norms, requant, scores, softmax, stream};
use tessera_circuits::mle::eq_table;
use tessera_circuits::model::{Limbs, TILE, TILE_LOG};
use tessera_circuits::shape::Part;
use tessera_circuits::wiring::{product_variables, suffix, Operands, Product, Public, PRODUCTS, ROOT_FACTORS};
use tessera_verifier::opening::OpenedColumns;
use tessera_verifier::proof::MatmulProof;
use tessera_verifier::transcript::Transcript;

use crate::model::passes::{cut, window_tiles, Traffic, WeightPass, Window};
use crate::model::tiles::{planes_of, tile_bytes, TileRange, TileSource};
use crate::prove::bind::bind_middle;
use crate::prove::sumcheck::{self, pack, Instance, Table as Factor};
use crate::prove::trace::Columns;
use crate::run::kernels::{coefficients, combine, Coefficients, Elements, Isa};
use crate::support::pages::Table;

type K = SecureField;

/// The matmuls, proved: what the aggregator is given instead of the weights.
pub struct PrecomputedMatmuls {
    pub proof: MatmulProof,
    /// End point of the sumcheck.
    pub point: Vec<K>,
    /// `B~(local point)` of every opened band, for the opening.
    pub band_values: Vec<K>,
    /// Memory that is free for other tables now.
    pub memory: Table<Elements>,
    /// What the pass over the weights read.
    pub traffic: Traffic,
}

/// Axes of the scores: queries and keys in their blocks.
const QUERIES: usize = 3;
const KEYS: usize = 4;

/// Bands that a thread takes at a time.
const TASK_BANDS: usize = 64;

/// Proves all matmuls of a chunk, whose tiles are among those of `opened`. `columns` are the trace columns by part.
pub fn prove(
    public: &Public<'_>,
    columns: &[Columns],
    tiles: &dyn TileSource,
    opened: &OpenedColumns,
    transcript: &mut Transcript,
) -> PrecomputedMatmuls {
    let witness = Factors {
        public,
        columns,
        opened,
    };
    let tiles = TileRange::new(tiles, opened.tiles());
    let point = suffix(&public.points.out, opened.log_band + TILE_LOG);
    let (tables, traffic) = bind_bands(&tiles, point, size_of::<K>() << (opened.params.log_message - 1));
    let instances: Vec<Instance<Factor>> = PRODUCTS
        .iter()
        .map(|&product| {
            let entries = |(a, b): (Vec<K>, Vec<K>)| (a.into(), b.into());
            let pair = match product {
                _ if !product.exists(public.shape) => entries((vec![K::zero()], vec![K::zero()])),
                Product::Norm | Product::NormLimbs | Product::Att | Product::Ff => {
                    entries(witness.weighted(product, &tables))
                }
                Product::Embed => entries((witness.one_hot(), witness.weights(product, &tables))),
                Product::Head => entries(witness.head(&tables)),
                Product::Act => witness.act(),
                Product::Square => witness.square(),
                Product::Score => entries(witness.scores()),
                Product::Value => entries(witness.values()),
                Product::Reciprocal => entries(witness.reciprocals()),
                Product::Root => entries(witness.roots()),
            };
            Instance {
                pairs: vec![pair],
                variables: product.variables(public.shape) as usize,
            }
        })
        .collect();
    let claim = instances.iter().flat_map(|i| &i.pairs).map(|(a, b)| a.inner(b)).sum();
    debug_assert_eq!(
        instances.iter().map(|i| i.variables).max(),
        Some(product_variables(public.shape) as usize)
    );
    let proved = sumcheck::prove("matmuls", claim, instances, transcript);
    let mut operands: Operands = [[K::zero(); 2]; PRODUCTS.len()];
    for (operand, finals) in operands.iter_mut().zip(&proved.finals) {
        let (a, b) = finals[0];
        *operand = [a, b];
    }
    tessera_verifier::verify::absorb_operands(&operands, transcript);
    let band_values = band_values(&tables, suffix(&proved.point, TILE_LOG));
    let proof = MatmulProof {
        claim,
        sumcheck: proved.proof,
        operands,
    };
    PrecomputedMatmuls {
        proof,
        point: proved.point,
        band_values,
        memory: tables,
        traffic,
    }
}

/// First pass over the weights: `t_B(x) = sum_(d, y) B(d, x, y) eq(point, (d, y))` for every band, `x` the lane and `d` the
/// tile in the band. A point of six coordinates has bands of one tile, and every coordinate more doubles them. The table
/// has memory for `room` bytes, if these are more.
///
/// # Panics
/// If the last band is not full.
pub fn bind_bands(source: &dyn TileSource, point: &[K], room: usize) -> (Table<Elements>, Traffic) {
    let (isa, format) = (Isa::best(), source.format());
    let eq = eq_table(point);
    let of_tiles = eq.as_chunks::<TILE>().0;
    let terms: Vec<_> = of_tiles.iter().flat_map(|eq| planes_of(format, eq)).collect();
    let terms: Vec<Coefficients> = terms.as_chunks().0.iter().map(coefficients).collect();
    let band = of_tiles.len();
    let (size, number) = (band * tile_bytes(format), source.tiles() / band);
    assert_eq!(source.tiles(), number * band, "tiles of whole bands");
    let parts = cut(number, window_tiles(source) / band);
    let tiles = |bands: &Range<usize>| bands.start * band..bands.end * band;
    let windows: Vec<Window> = parts.clone().map(|bands| vec![tiles(&bands)]).collect();
    let mut out = Table::with_room(number, room);
    let ((), traffic) = WeightPass::run(source, &windows, |pass| {
        for bands in parts {
            let (bytes, sums) = (source.bytes(tiles(&bands)), &mut out[bands]);
            pass.next(|| {
                let bands = bytes.par_chunks(TASK_BANDS * size).zip(sums.par_chunks_mut(TASK_BANDS));
                bands.for_each(|(bands, sums)| combine(isa, bands.as_chunks().0, &terms, sums));
            });
        }
    });
    (out, traffic)
}

/// `B~(d, point, y)` of every band, from its sums of [`bind_bands`] at `(d, y)`.
pub fn band_values(tables: &[Elements], point: &[K]) -> Vec<K> {
    let inner = eq_table(point);
    let inner = inner.as_chunks::<N_LANES>().0;
    let inner: Vec<PackedSecureField> = inner.iter().map(|e| PackedSecureField::from_array(*e)).collect();
    let value = |band: &Elements| {
        let groups = band.iter().zip(&inner).map(|(group, inner)| packed(group) * *inner);
        groups.fold(PackedSecureField::zero(), |sum, v| sum + v).pointwise_sum()
    };
    tables.par_iter().map(value).collect()
}

/// Value of a lane.
pub fn lane(elements: &Elements, lane: usize) -> K {
    let group = &elements[lane / 16];
    K::from_m31_array(std::array::from_fn(|c| {
        BaseField::from_u32_unchecked(group[c][lane % 16])
    }))
}

/// Sixteen lanes as the field arithmetic takes them.
fn packed(group: &[[u32; 16]; 4]) -> PackedSecureField {
    PackedSecureField::from_packed_m31s(
        group.map(|lanes| PackedBaseField::from_array(lanes.map(BaseField::from_u32_unchecked))),
    )
}

/// Adds the rows of a lane, which begins at `start`, to where they are along the full axes of its part.
fn place_rows<T: Copy + AddAssign>(lane: &[T], start: &[(usize, usize)], [axes, full]: [&[u32]; 2], to: &mut [T]) {
    let last = axes.last().map_or(0, |log| 1usize << log);
    for (row, values) in lane.chunks(last).enumerate() {
        let (mut rest, mut at, mut stride) = (row * last, 0, 1);
        for axis in (0..axes.len()).rev() {
            let offset = start.iter().find(|(cut, _)| *cut == axis);
            at += ((rest & ((1 << axes[axis]) - 1)) + offset.map_or(0, |(_, first)| *first)) * stride;
            rest >>= axes[axis];
            stride <<= full[axis];
        }
        to[at..].iter_mut().zip(values).for_each(|(to, v)| *to += *v);
    }
}

/// A table in rows of so many packs.
fn base_rows(table: &[BaseField], width: usize) -> Vec<&[[BaseField; N_LANES]]> {
    table.as_chunks::<N_LANES>().0.chunks(width).collect()
}

/// A table of rows of `width` packs; a row that is not filled is zero.
fn rows(count: usize, width: usize, fill: impl Fn(usize, &mut [PackedSecureField]) + Sync) -> Vec<PackedSecureField> {
    let mut table = vec![PackedSecureField::zero(); count * width];
    let rows = table.par_chunks_mut(width).enumerate();
    rows.for_each(|(row, out)| fill(row, out));
    table
}

/// The factor tables of the products.
struct Factors<'a> {
    public: &'a Public<'a>,
    columns: &'a [Columns],
    /// The columns whose bands are bound.
    opened: &'a OpenedColumns,
}

impl Factors<'_> {
    /// `sum of factor * column` of `part`, bound at `point` along axis `outer`: a table over the other axes, zero
    /// beyond the committed lanes.
    fn bound(&self, part: Part, columns: &[(usize, K)], outer: usize, point: &[K]) -> Vec<K> {
        self.bound_with(part, columns, outer, &eq_table(point))
    }

    /// The same with other weights than those of a point. Weights that are fewer than a lane has entries along the axis are those
    /// of every block of as many entries: what is left of the axis is the block. If they are more, the axis is cut, and each lane
    /// has its own.
    fn bound_with(&self, part: Part, columns: &[(usize, K)], outer: usize, weights: &[K]) -> Vec<K> {
        let shape = self.public.shape;
        let (mut axes, mut full, width) = (shape.axes(part), shape.full_axes(part), shape.lane_columns(part));
        let (own, blocks) = (1usize << axes[outer], axes[outer].saturating_sub(weights.len().ilog2()));
        for axes in [&mut axes, &mut full] {
            axes[outer] = blocks;
        }
        let lead: u32 = axes[..=outer].iter().sum();
        let rest: u32 = axes[outer + 1..].iter().sum();
        let mut sum = vec![K::zero(); 1 << full.iter().sum::<u32>()];
        for lane in 0..shape.lanes(part) {
            let mut bound = vec![K::zero(); 1 << (lead + rest)];
            let mut start = shape.lane_start(part, lane);
            let mut weights = weights;
            if weights.len() > own {
                let along = start.iter().find(|(axis, _)| *axis == outer);
                weights = &weights[along.map_or(0, |(_, first)| *first)..][..own];
                start.retain(|(axis, _)| *axis != outer);
            }
            for (column, factor) in columns {
                let scaled: Vec<K> = weights.iter().map(|w| *w * *factor).collect();
                let column = &self.columns[part.index()][lane * width + column];
                let values = bind_middle(column, 1 << lead, &scaled, 1 << rest);
                bound.iter_mut().zip(values).for_each(|(b, v)| *b += v);
            }
            place_rows(&bound, &start, [&axes, &full], &mut sum);
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
    fn weighted(&self, product: Product, tables: &[Elements]) -> (Vec<K>, Vec<K>) {
        let (part, columns) = match product {
            Product::Norm => (Part::Stream, self.public.normed_columns(Limbs::One)),
            Product::NormLimbs => (Part::Stream, self.public.normed_columns(Limbs::Two)),
            Product::Att => (Part::Att, self.limbs(requant::OUT_HI, requant::OUT_LO).to_vec()),
            _ => {
                let [high, low] = self.public.shape.ff().product();
                (Part::Ff, self.limbs(high, low).to_vec())
            }
        };
        let operand = self.bound(part, &columns, 1, &self.public.points.token);
        (operand, self.weights(product, tables))
    }

    /// `V(lead, x) = sum over the product's matmuls of weight * sum_out W(x, out) eq(out point, out)`.
    fn weights(&self, product: Product, tables: &[Elements]) -> Vec<K> {
        let (log_band, first) = (self.opened.log_band, self.opened.bands().start);
        let mut out = vec![K::zero(); 1 << product.variables(self.public.shape)];
        for m in self.public.shape.matmuls() {
            let (own, lead) = Product::of(m.kind, m.layer, self.public.shape);
            if own != product {
                continue;
            }
            let point = self.public.points.out(m.out_log);
            let blocks = eq_table(&point[..point.len() - (log_band + TILE_LOG) as usize]);
            let weight = self.public.points.matmul_weight(m.kind, m.layer);
            let start = lead << m.in_log;
            let row_bands = m.out_blocks >> log_band;
            let factors = blocks.iter().take(row_bands);
            let factors: Vec<_> = factors.map(|e| PackedSecureField::broadcast(weight * *e)).collect();
            let rows = tables[(m.first_tile >> log_band) - first..][..m.in_blocks * row_bands].par_chunks(row_bands);
            let targets = out[start..][..m.in_blocks * TILE].par_chunks_mut(TILE);
            targets.zip(rows).for_each(|(target, row)| {
                let mut sums = [PackedSecureField::zero(); TILE / N_LANES];
                for (band, factor) in row.iter().zip(&factors) {
                    for (sum, group) in sums.iter_mut().zip(band) {
                        *sum += packed(group) * *factor;
                    }
                }
                let sums = sums.iter().flat_map(|sum| sum.to_array());
                target.iter_mut().zip(sums).for_each(|(t, v)| *t += v);
            });
        }
        out
    }

    /// The last normed state of the generated positions, and the head; zero in chunks without head.
    fn head(&self, tables: &[Elements]) -> (Vec<K>, Vec<K>) {
        let shape = self.public.shape;
        let weights = self.weights(Product::Head, tables);
        let rows = self.public.generated_rows();
        let columns = self.public.normed_columns(shape.limbs.head);
        let states = self.bound_with(Part::Stream, &columns, 1, &rows);
        (
            states[(shape.states() - 1) * weights.len()..][..weights.len()].to_vec(),
            weights,
        )
    }

    /// A column of a part along its whole axes, zero beyond the committed lanes.
    fn whole(&self, part: Part, column: usize) -> Vec<BaseField> {
        let shape = self.public.shape;
        let (axes, full, width) = (shape.axes(part), shape.full_axes(part), shape.lane_columns(part));
        let mut out = vec![BaseField::zero(); 1 << full.iter().sum::<u32>()];
        for lane in 0..shape.lanes(part) {
            let column = &self.columns[part.index()][lane * width + column];
            place_rows(column, &shape.lane_start(part, lane), [&axes, &full], &mut out);
        }
        out
    }

    /// SiLU of the gates, each times its weight among the accumulators, and up projections.
    fn act(&self) -> (Factor, Factor) {
        let (shape, points) = (self.public.shape, self.public.points);
        let layers = points.layer_weights(shape.config.layers);
        let layers: Vec<K> = layers.into_iter().map(|w| points.act_weight() * w).collect();
        let (tokens, features) = (eq_table(&points.token), pack(&eq_table(points.out(shape.padded.ff))));
        let [silu, up] = [ff::SILU, ff::UP].map(|column| self.whole(Part::Ff, column));
        let (silu, up) = (base_rows(&silu, features.len()), base_rows(&up, features.len()));
        let gates = rows(silu.len(), features.len(), |row, out| {
            let Some(layer) = layers.get(row / tokens.len()) else {
                return;
            };
            let factor = PackedSecureField::broadcast(*layer * tokens[row % tokens.len()]);
            let values = silu[row].iter().zip(&features);
            let terms = out.iter_mut().zip(values);
            terms.for_each(|(out, (v, w))| *out = factor * *w * PackedBaseField::from_array(*v));
        });
        let ups = rows(up.len(), features.len(), |row, out| {
            let values = out.iter_mut().zip(up[row]);
            values.for_each(|(out, v)| *out = PackedBaseField::from_array(*v).into());
        });
        (Factor::Packs(gates), Factor::Packs(ups))
    }

    /// The stream in limbs, each entry times its weight among the accumulators, and as it is.
    fn square(&self) -> (Factor, Factor) {
        let (shape, points) = (self.public.shape, self.public.points);
        let states = points.state_weights(shape.states());
        let states: Vec<K> = states.into_iter().map(|w| points.square_weight() * w).collect();
        let tokens = eq_table(&points.token);
        let mut channels = self.public.squared_exponents();
        channels.resize(1 << shape.padded.hidden, K::zero());
        let (channels, limb) = (pack(&channels), PackedSecureField::broadcast(points.limb));
        let [hi, lo] = [stream::X_HI, stream::X_LO].map(|column| self.whole(Part::Stream, column));
        let (hi, lo) = (base_rows(&hi, channels.len()), base_rows(&lo, channels.len()));
        let plain = rows(hi.len(), channels.len(), |row, out| {
            let values = out.iter_mut().zip(hi[row].iter().zip(lo[row]));
            values.for_each(|(out, (hi, lo))| {
                *out = limb * PackedBaseField::from_array(*lo) + PackedBaseField::from_array(*hi);
            });
        });
        let weighted = rows(hi.len(), channels.len(), |row, out| {
            let Some(state) = states.get(row / tokens.len()) else {
                return;
            };
            let factor = PackedSecureField::broadcast(*state * tokens[row % tokens.len()]);
            let values = plain[row * channels.len()..].iter().zip(&channels);
            out.iter_mut()
                .zip(values)
                .for_each(|(out, (v, w))| *out = factor * *w * *v);
        });
        (Factor::Packs(weighted), Factor::Packs(plain))
    }

    /// The one-hot matrix of the row tokens and their positions, bound at the token point.
    fn one_hot(&self) -> Vec<K> {
        let shape = self.public.shape;
        let mut out = vec![K::zero(); 1 << Product::Embed.variables(shape)];
        let scale = BaseField::from_u32_unchecked(1 << self.public.params.embed_exponent);
        let tokens = eq_table(&self.public.points.token);
        let ids = self.public.statement.row_ids(shape.token);
        for (i, (weight, id)) in tokens.into_iter().zip(ids).enumerate() {
            out[id as usize] += weight * scale;
            if let Some(row) = shape.config.position_row(i) {
                out[row] += weight * scale;
            }
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

    /// Queries or keys of every block of tokens, each block bound at the coordinates within it: (layer, block, head, half,
    /// index).
    fn blocks(&self, part: Part, columns: impl Fn(usize) -> Vec<(usize, K)>, point: &[K]) -> Vec<K> {
        let size = 1usize << self.public.shape.padded.half;
        let within = eq_table(suffix(point, self.public.shape.block()));
        let [first, second] = [0, 1].map(|half| self.bound_with(part, &columns(half), 1, &within));
        let halves = first.chunks(size).zip(second.chunks(size));
        halves.flat_map(|(a, b)| [a, b].concat()).collect()
    }

    /// (layer, block, ..) to (layer, head, block, ..), of `heads` heads.
    fn turned(&self, table: &[K], heads: usize, size: usize) -> Vec<K> {
        let blocks = 1usize << self.public.shape.blocks();
        let layers = table.chunks(blocks * heads * size);
        let head = |layer, h| (0..blocks).map(move |b| (layer, b * heads + h));
        let places = layers.flat_map(|layer| (0..heads).flat_map(move |h| head(layer, h)));
        let own = |(layer, at): (&[K], usize)| layer[at * size..][..size].to_vec();
        places.flat_map(own).collect()
    }

    fn scores(&self) -> (Vec<K>, Vec<K>) {
        let (shape, points) = (self.public.shape, self.public.points);
        let p = &shape.padded;
        let (size, blocks) = (1usize << p.head_dim(), 1usize << shape.blocks());
        let (layers, heads) = (points.layer_weights(shape.config.layers), eq_table(&points.head));
        let felt = |v: u32| K::from(BaseField::from_u32_unchecked(v));
        let of = |part: Part, half: usize| shape.rope(part).after(half);
        let mut queries = self.blocks(Part::Q, |half| vec![(of(Part::Q, half), felt(1))], &points.token);
        let limbs = |at: usize| vec![(at, felt(1)), (at + 1, points.limb)];
        let mut keys = self.blocks(Part::K, |half| limbs(of(Part::K, half)), &points.key);
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
            if shape.config.is_encoder() {
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
        (
            self.spread(&queries, p.heads, block, |h| h, Some((&layers, &heads)), felt(1)),
            self.spread(&keys, p.kv_heads, block, kv, None, weight),
        )
    }

    /// A column of the scores, times a factor, bound at a point of queries: (layer, head, key); or at one of keys: (layer, head,
    /// query). `axis` is that of what is bound, in its block.
    fn pairs(&self, column: (usize, K), axis: usize, point: &[K]) -> Vec<K> {
        let shape = self.public.shape;
        let (block, tokens) = (1usize << shape.block(), 1usize << shape.token);
        let (blocks, within) = point.split_at(shape.blocks() as usize);
        let blocks = eq_table(blocks);
        // (layer, head, pair, what is left in its block).
        let of_pairs = self.bound(Part::Scores, &[column], axis, within);
        let pairs: Vec<_> = shape.pairs().collect();
        let lines = of_pairs.par_chunks(block << shape.full_axes(Part::Scores)[2]);
        let line = |line: &[K]| {
            let mut sums = vec![K::zero(); tokens];
            for ((query, key), values) in pairs.iter().zip(line.chunks(block)) {
                let (bound, left) = if axis == QUERIES { (query, key) } else { (key, query) };
                let own = sums[left * block..].iter_mut().zip(values);
                own.for_each(|(sum, v)| *sum += blocks[*bound] * *v);
            }
            sums
        };
        lines.flat_map_iter(line).collect()
    }

    fn values(&self) -> (Vec<K>, Vec<K>) {
        let (shape, points) = (self.public.shape, self.public.points);
        let p = &shape.padded;
        let tokens = 1usize << shape.token;
        let (layers, heads) = (points.layer_weights(shape.config.layers), eq_table(&points.head));
        let one = K::from(BaseField::from_u32_unchecked(1));
        let probabilities = self.pairs((scores::P, one), QUERIES, &points.token);
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

    /// Reciprocals of softmax, each times its weight among the accumulators, and what they multiply.
    fn reciprocals(&self) -> (Vec<K>, Vec<K>) {
        let (shape, points) = (self.public.shape, self.public.points);
        let (p, tokens) = (&shape.padded, eq_table(&points.token));
        let mut heads = self.public.head_weights();
        heads.resize(1 << p.heads, K::zero());
        let layers = points.layer_weights(shape.config.layers);
        let pair = |hi: usize, lo: usize| {
            let [hi, lo] = [hi, lo].map(|column| self.whole(Part::Softmax, column));
            let both = hi.into_iter().zip(lo);
            both.map(|(hi, lo)| points.limb * lo + hi).collect::<Vec<K>>()
        };
        let reciprocals = pair(softmax::RECIP_HI, softmax::RECIP_LO);
        let sums = pair(softmax::SUM_HI, softmax::SUM_LO);
        let weight = points.probability_weight();
        let mut factors = self.pairs((scores::EXP, weight), KEYS, &points.key);
        // Real layers only, on an axis that is not stretched.
        let size = 1usize << Product::Reciprocal.variables(shape);
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
        (weighted, factors)
    }

    /// Of every row of norms reciprocal root, quotient and root, each times its weight among the accumulators, and what they
    /// multiply.
    fn roots(&self) -> (Vec<K>, Vec<K>) {
        let (shape, points) = (self.public.shape, self.public.points);
        let (tokens, limb) = (eq_table(&points.token), points.limb);
        let states = points.state_weights(shape.states());
        let radix = K::from(BaseField::from_u32_unchecked(1 << norms::LIMB_BITS));
        let columns: Vec<_> = (0..norms::COLUMNS).map(|at| self.whole(Part::Norms, at)).collect();
        let value = |at: usize, count: usize, x: K, row: usize| {
            let limbs = columns[at..at + count].iter().rev();
            limbs.fold(K::zero(), |sum, column| sum * x + column[row])
        };
        let byte = K::from(BaseField::from_u32_unchecked(1 << 8));
        let one = K::from(BaseField::from_u32_unchecked(1));
        let features = points.out(shape.padded.hidden);
        let values = self.bound(Part::Stream, &[(stream::X_HI, byte), (stream::X_LO, one)], 2, features);
        let size = 1usize << Product::Root.variables(shape);
        let (mut weighted, mut plain) = (vec![K::zero(); size], vec![K::zero(); size]);
        let rows = weighted
            .chunks_mut(1 << ROOT_FACTORS)
            .zip(plain.chunks_mut(1 << ROOT_FACTORS));
        for (row, (left, right)) in rows.enumerate().take(states.len() * tokens.len()) {
            let weight = states[row / tokens.len()] * tokens[row % tokens.len()];
            let (sum, quotient) = (norms::SUM, norms::QUOTIENT);
            let [by_value, by_limb] = [radix, limb].map(|x| value(norms::ROOT, 2, x, row));
            let factors = [by_value, value(quotient, norms::LIMBS, limb, row), by_limb];
            left.iter_mut().zip(factors).for_each(|(to, v)| *to = weight * v);
            let factors = [
                points.norm_weight() * values[row],
                points.quotient_weight() * value(sum, norms::LIMBS, limb, row),
                points.root_weight() * by_limb,
            ];
            right.iter_mut().zip(factors).for_each(|(to, v)| *to = v);
        }
        (weighted, plain)
    }
}
