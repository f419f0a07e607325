//! All matmuls of a forward pass as one batched product sumcheck (docs/protocol.md, sections 5 and 6): the
//! [`PrecomputedMatmuls`] that are injected into the aggregator, which never sees a weight.

mod attention;
mod norms;

use std::ops::{AddAssign, Range};

use num_traits::Zero;
use rayon::prelude::*;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::requant;
use tessera_circuits::mle::eq_table;
use tessera_circuits::model::{Limbs, TILE, TILE_LOG};
use tessera_circuits::ops::ff;
use tessera_circuits::ops::{Operands, PLACES};
use tessera_circuits::shape::Part;
use tessera_circuits::shape::Product;
use tessera_circuits::wiring::{suffix, Public};
use tessera_verifier::labels::{MATMULS, OPERANDS};
use tessera_verifier::opening::OpenedColumns;
use tessera_verifier::proof::MatmulProof;
use tessera_verifier::transcript::Transcript;

use crate::bind::bind_middle;
use crate::column::Column;
use crate::gkr::field::{words, Factor as Scalar, Packed, Words, SIMD_LANES};
use crate::opening::memory::message_bytes;
use crate::sumcheck::{self, pack, Instance, Table as Factor};
use tessera_kernels::table::Table;
use tessera_kernels::weights::{coefficients, combine, Coefficients, Elements, Isa};
use tessera_model::passes::{cut, window_tiles, Traffic, WeightPass, Window};
use tessera_model::tiles::{planes_of, tile_bytes, TileRange, TileSource};

type K = SecureField;

/// The matmuls, proved: what the aggregator is given instead of the weights.
pub struct PrecomputedMatmuls {
    pub proof: MatmulProof,
    /// The last evaluations of the factors of the products that the chunk has.
    pub operands: Operands,
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

/// What makes the factor tables of a product, of the columns and of the bound bands.
type Make = fn(&Factors<'_>, &[Elements]) -> (Factor, Factor);

/// By product.
const MAKERS: [(Product, Make); PLACES] = [
    (Product::NORM, |own, tables| own.weighted(Product::NORM, tables)),
    (Product::ATT, |own, tables| own.weighted(Product::ATT, tables)),
    (Product::FF, |own, tables| own.weighted(Product::FF, tables)),
    (Product::EMBED, |own, tables| {
        entries((own.one_hot(), own.weights(Product::EMBED, tables)))
    }),
    (Product::SCORE, |own, _| entries(own.scores())),
    (Product::VALUE, |own, _| entries(own.values())),
    (Product::HEAD, |own, tables| entries(own.head(tables))),
    (Product::NORM_LIMBS, |own, tables| {
        own.weighted(Product::NORM_LIMBS, tables)
    }),
    (Product::ACT, |own, _| own.act()),
    (Product::SQUARE, |own, _| own.square()),
    (Product::RECIPROCAL, |own, _| entries(own.reciprocals())),
    (Product::ROOT, |own, _| entries(own.roots())),
    (Product::QUERY_SQUARE, |own, _| entries(own.head_squares(Part::Q))),
    (Product::QUERY_ROOT, |own, _| entries(own.head_roots(Part::Q))),
    (Product::KEY_SQUARE, |own, _| entries(own.head_squares(Part::K))),
    (Product::KEY_ROOT, |own, _| entries(own.head_roots(Part::K))),
];

/// Factors as tables of elements.
fn entries((a, b): (Vec<K>, Vec<K>)) -> (Factor, Factor) {
    (a.into(), b.into())
}

/// Proves all matmuls of a chunk, whose tiles are among those of `opened`. `columns` are the trace columns by part.
pub fn prove(
    public: &Public<'_>,
    columns: &[Vec<Column>],
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
    let point = suffix(&public.points.out, opened.log_band() + TILE_LOG);
    let (tables, traffic) = bind_bands(&tiles, point, message_bytes(opened));
    let own = MAKERS.iter().filter(|(product, _)| product.exists(public.shape));
    let instances = own.clone().map(|(product, make)| Instance {
        pairs: vec![make(&witness, &tables)],
        variables: product.variables(public.shape) as usize,
    });
    let instances: Vec<Instance<Factor>> = instances.collect();
    let claim = instances.iter().flat_map(|i| &i.pairs).map(|(a, b)| a.inner(b)).sum();
    debug_assert_eq!(
        instances.iter().map(|i| i.variables).max(),
        Some(public.shape.product_variables() as usize)
    );
    let proved = sumcheck::prove(MATMULS, claim, instances, transcript);
    let finals = proved.finals.iter().map(|finals| finals[0]);
    let operands = own.zip(finals).map(|((product, _), (a, b))| (*product, [a, b]));
    let operands = Operands::new(operands.collect());
    let placed = operands.placed();
    transcript.send(OPERANDS, &placed);
    let band_values = band_values(&tables, suffix(&proved.point, TILE_LOG));
    let proof = MatmulProof {
        claim,
        sumcheck: proved.proof,
        operands: placed,
    };
    PrecomputedMatmuls {
        proof,
        operands,
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
    let inner = inner.as_chunks::<SIMD_LANES>().0;
    let inner: Vec<Packed> = inner.iter().map(Packed::from_array).collect();
    let value = |band: &Elements| {
        let groups = band.iter().zip(&inner).map(|(group, inner)| packed(group) * *inner);
        groups.fold(Packed::zero(), |sum, v| sum + v).total()
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
fn packed(group: &[[u32; 16]; 4]) -> Packed {
    Packed::from_words(group.map(Words::from_array))
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
fn base_rows(table: &[BaseField], width: usize) -> Vec<&[[BaseField; SIMD_LANES]]> {
    table.as_chunks::<SIMD_LANES>().0.chunks(width).collect()
}

/// A table of rows of `width` packs; a row that is not filled is zero.
fn rows(count: usize, width: usize, fill: impl Fn(usize, &mut [Packed]) + Sync) -> Vec<Packed> {
    let mut table = Packed::zeros(count * width).into_vec();
    let rows = table.par_chunks_mut(width).enumerate();
    rows.for_each(|(row, out)| fill(row, out));
    table
}

/// The factor tables of the products.
struct Factors<'a> {
    public: &'a Public<'a>,
    columns: &'a [Vec<Column>],
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
                let values = bind_middle(column.cells(), 1 << lead, &scaled, 1 << rest);
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
    fn weighted(&self, product: Product, tables: &[Elements]) -> (Factor, Factor) {
        let (part, columns) = match product {
            Product::NORM => (Part::STREAM, self.public.normed_columns(Limbs::One)),
            Product::NORM_LIMBS => (Part::STREAM, self.public.normed_columns(Limbs::Two)),
            Product::ATT => (Part::ATT, self.limbs(requant::OUT_HI, requant::OUT_LO).to_vec()),
            _ => {
                let [high, low] = self.public.shape.ff().product();
                (Part::FF, self.limbs(high, low).to_vec())
            }
        };
        let operand = self.bound(part, &columns, 1, &self.public.points.token);
        entries((operand, self.weights(product, tables)))
    }

    /// `V(lead, x) = sum over the product's matmuls of weight * sum_out W(x, out) eq(out point, out)`.
    fn weights(&self, product: Product, tables: &[Elements]) -> Vec<K> {
        let (log_band, first) = (self.opened.log_band(), self.opened.bands().start);
        let mut out = vec![K::zero(); 1 << product.variables(self.public.shape)];
        for m in self.public.shape.matmuls() {
            let Some((_, lead)) = self
                .public
                .shape
                .product_of(m.kind, m.layer)
                .filter(|own| own.0 == product)
            else {
                continue;
            };
            let point = self.public.points.out(m.out_log);
            let blocks = eq_table(&point[..point.len() - (log_band + TILE_LOG) as usize]);
            let weight = self.public.points.matmul_weight(m.kind, m.layer);
            let start = lead << m.in_log;
            let row_bands = m.out_blocks >> log_band;
            let factors = blocks.iter().take(row_bands);
            let factors: Vec<_> = factors.map(|e| Scalar::new(weight * *e)).collect();
            let rows = tables[(m.first_tile >> log_band) - first..][..m.in_blocks * row_bands].par_chunks(row_bands);
            let targets = out[start..][..m.in_blocks * TILE].par_chunks_mut(TILE);
            targets.zip(rows).for_each(|(target, row)| {
                let mut sums = [Packed::zero(); TILE / SIMD_LANES];
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
        let weights = self.weights(Product::HEAD, tables);
        let rows = self.public.generated_rows();
        let columns = self.public.normed_columns(shape.limbs.head);
        let states = self.bound_with(Part::STREAM, &columns, 1, &rows);
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
            place_rows(
                &column.elements(),
                &shape.lane_start(part, lane),
                [&axes, &full],
                &mut out,
            );
        }
        out
    }

    /// SiLU of the gates, each times its weight among the accumulators, and up projections.
    fn act(&self) -> (Factor, Factor) {
        let (shape, points) = (self.public.shape, self.public.points);
        let layers = points.layer_weights(shape.config.layers);
        let layers: Vec<K> = layers.into_iter().map(|w| points.act_weight() * w).collect();
        let (tokens, features) = (eq_table(&points.token), pack(&eq_table(points.out(shape.padded.ff))));
        let [silu, up] = [ff::SILU, ff::UP].map(|column| self.whole(Part::FF, column));
        let (silu, up) = (base_rows(&silu, features.len()), base_rows(&up, features.len()));
        let gates = rows(silu.len(), features.len(), |row, out| {
            let Some(layer) = layers.get(row / tokens.len()) else {
                return;
            };
            let factor = Scalar::new(*layer * tokens[row % tokens.len()]);
            let values = silu[row].iter().zip(&features);
            let terms = out.iter_mut().zip(values);
            terms.for_each(|(out, (v, w))| *out = (*w * factor).mul_add(words::load(v), Packed::ZERO));
        });
        let ups = rows(up.len(), features.len(), |row, out| {
            let values = out.iter_mut().zip(up[row]);
            values.for_each(|(out, v)| *out = Packed::from_base(words::load(v)));
        });
        (Factor::Packs(gates), Factor::Packs(ups))
    }

    /// The one-hot matrix of the row tokens and their positions, bound at the token point.
    fn one_hot(&self) -> Vec<K> {
        let shape = self.public.shape;
        let mut out = vec![K::zero(); 1 << Product::EMBED.variables(shape)];
        let scale = BaseField::from_u32_unchecked(1 << self.public.params.embed_exponent);
        let tokens = eq_table(&self.public.points.token);
        let ids = self.public.statement.row_ids(shape.token);
        let types = shape.config.types_of(&ids);
        for (i, (weight, (id, token_type))) in tokens.into_iter().zip(ids.into_iter().zip(types)).enumerate() {
            out[id as usize] += weight * scale;
            if let Some(row) = shape.config.position_row(i, token_type) {
                out[row] += weight * scale;
            }
        }
        out
    }
}
