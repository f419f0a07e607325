//! All matmuls of a forward pass as one batched product sumcheck (docs/protocol.md, sections 5 and 6): the
//! [`PrecomputedMatmuls`] that are injected into the aggregator, which never sees a weight.

mod attention;
mod norms;

use std::ops::AddAssign;

use num_traits::Zero;
use rayon::prelude::*;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::requant;
use tessera_circuits::mle::eq_table;
use tessera_circuits::model::{Limbs, TILE_LOG};
use tessera_circuits::ops::ff;
use tessera_circuits::ops::{Operands, PLACES};
use tessera_circuits::shape::Part;
use tessera_circuits::shape::Product;
use tessera_circuits::wiring::{suffix, Public};
use tessera_verifier::labels::{MATMULS, OPERANDS};
use tessera_verifier::opening::OpenedColumns;
use tessera_verifier::proof::MatmulProof;
use tessera_verifier::transcript::Transcript;

use crate::device::{Bands, ColumnId, Columns, Device, DeviceError, Table as Factor, Weights};
use crate::field::{pack, words, Factor as Scalar, Packed, SIMD_LANES};
use crate::opening::memory::message_bytes;
use crate::sumcheck::{self, Instance};
use tessera_model::passes::Traffic;
use tessera_model::tiles::{TileRange, TileSource};

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
    /// What the pass over the weights read.
    pub traffic: Traffic,
}

/// Axes of the scores: queries and keys in their blocks.
const QUERIES: usize = 3;
const KEYS: usize = 4;

/// What makes the factor tables of a product, of the columns and of the bound bands.
type Make = fn(&Factors<'_>) -> Result<(Factor, Factor), DeviceError>;

/// By product.
const MAKERS: [(Product, Make); PLACES] = [
    (Product::NORM, |own| own.weighted(Product::NORM)),
    (Product::ATT, |own| own.weighted(Product::ATT)),
    (Product::FF, |own| own.weighted(Product::FF)),
    (Product::EMBED, |own| {
        Ok(entries((own.one_hot(), own.weights(Product::EMBED)?)))
    }),
    (Product::SCORE, |own| own.scores().map(entries)),
    (Product::VALUE, |own| own.values().map(entries)),
    (Product::HEAD, |own| own.head().map(entries)),
    (Product::NORM_LIMBS, |own| own.weighted(Product::NORM_LIMBS)),
    (Product::ACT, |own| own.act()),
    (Product::SQUARE, |own| own.square()),
    (Product::RECIPROCAL, |own| own.reciprocals().map(entries)),
    (Product::ROOT, |own| own.roots().map(entries)),
    (Product::QUERY_SQUARE, |own| own.head_squares(Part::Q).map(entries)),
    (Product::QUERY_ROOT, |own| own.head_roots(Part::Q).map(entries)),
    (Product::KEY_SQUARE, |own| own.head_squares(Part::K).map(entries)),
    (Product::KEY_ROOT, |own| own.head_roots(Part::K).map(entries)),
];

/// Factors as tables of elements.
fn entries((a, b): (Vec<K>, Vec<K>)) -> (Factor, Factor) {
    (a.into(), b.into())
}

/// Proves all matmuls of a chunk, whose tiles are among those of `opened`. Also returns the sums of their bands, whose memory the opening
/// can take over.
pub fn prove<'a>(
    public: &Public<'_>,
    device: &'a dyn Device,
    columns: &dyn Columns,
    tiles: &dyn TileSource,
    opened: &OpenedColumns,
    transcript: &mut Transcript,
) -> Result<(PrecomputedMatmuls, Box<dyn Bands + 'a>), DeviceError> {
    let tiles = TileRange::new(tiles, opened.tiles());
    let point = suffix(&public.points.out, opened.log_band() + TILE_LOG);
    let (bands, traffic) = device.bands(&tiles, point, message_bytes(opened))?;
    let witness = Factors {
        public,
        columns,
        opened,
        bands: &*bands,
    };
    let own = MAKERS.iter().filter(|(product, _)| product.exists(public.shape));
    let instances = own.clone().map(|(product, make)| {
        Ok(Instance {
            pairs: vec![make(&witness)?],
            variables: product.variables(public.shape) as usize,
        })
    });
    let instances: Vec<Instance<Factor>> = instances.collect::<Result<_, DeviceError>>()?;
    debug_assert_eq!(
        instances.iter().map(|i| i.variables).max(),
        Some(public.shape.product_variables() as usize)
    );
    let (claim, proved) = sumcheck::prove_sum(device, MATMULS, instances, transcript)?;
    let finals = proved.finals.iter().map(|finals| finals[0]);
    let operands = own.zip(finals).map(|((product, _), (a, b))| (*product, [a, b]));
    let operands = Operands::new(operands.collect());
    let placed = operands.placed();
    transcript.send(OPERANDS, &placed);
    let band_values = bands.values(suffix(&proved.point, TILE_LOG))?;
    let proof = MatmulProof {
        claim,
        sumcheck: proved.proof,
        operands: placed,
    };
    let proved = PrecomputedMatmuls {
        proof,
        operands,
        point: proved.point,
        band_values,
        traffic,
    };
    Ok((proved, bands))
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
    columns: &'a dyn Columns,
    /// The columns whose bands are bound.
    opened: &'a OpenedColumns,
    /// Their sums.
    bands: &'a dyn Bands,
}

impl Factors<'_> {
    /// `sum of factor * column` of `part`, bound at `point` along axis `outer`: a table over the other axes, zero
    /// beyond the committed lanes.
    fn bound(&self, part: Part, columns: &[(usize, K)], outer: usize, point: &[K]) -> Result<Vec<K>, DeviceError> {
        self.bound_with(part, columns, outer, &eq_table(point))
    }

    /// The same with other weights than those of a point. Weights that are fewer than a lane has entries along the axis are those
    /// of every block of as many entries: what is left of the axis is the block. If they are more, the axis is cut, and each lane
    /// has its own.
    fn bound_with(
        &self,
        part: Part,
        columns: &[(usize, K)],
        outer: usize,
        weights: &[K],
    ) -> Result<Vec<K>, DeviceError> {
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
            let mut start = shape.lane_start(part, lane);
            let mut weights = weights;
            if weights.len() > own {
                let along = start.iter().find(|(axis, _)| *axis == outer);
                weights = &weights[along.map_or(0, |(_, first)| *first)..][..own];
                start.retain(|(axis, _)| *axis != outer);
            }
            let term = |(column, factor): &(usize, K)| {
                let index = lane * width + column;
                (ColumnId { part, index }, *factor)
            };
            let terms: Vec<(ColumnId, K)> = columns.iter().map(term).collect();
            let bound = self
                .columns
                .bind(&terms, Weights::All(weights), [1 << lead, 1 << rest])?;
            place_rows(&bound, &start, [&axes, &full], &mut sum);
        }
        Ok(sum)
    }

    fn limbs(&self, hi: usize, lo: usize) -> [(usize, K); 2] {
        [
            (hi, K::from(BaseField::from_u32_unchecked(1))),
            (lo, self.public.points.limb),
        ]
    }

    /// Operands bound at the token point, and the weights of the same product.
    fn weighted(&self, product: Product) -> Result<(Factor, Factor), DeviceError> {
        let (part, columns) = match product {
            Product::NORM => (Part::STREAM, self.public.normed_columns(Limbs::One)),
            Product::NORM_LIMBS => (Part::STREAM, self.public.normed_columns(Limbs::Two)),
            Product::ATT => (Part::ATT, self.limbs(requant::OUT_HI, requant::OUT_LO).to_vec()),
            _ => {
                let [high, low] = self.public.shape.ff().product();
                (Part::FF, self.limbs(high, low).to_vec())
            }
        };
        let operand = self.bound(part, &columns, 1, &self.public.points.token)?;
        Ok(entries((operand, self.weights(product)?)))
    }

    /// `V(lead, x) = sum over the product's matmuls of weight * sum_out W(x, out) eq(out point, out)`.
    fn weights(&self, product: Product) -> Result<Vec<K>, DeviceError> {
        let (log_band, first) = (self.opened.log_band(), self.opened.bands().start);
        let mut out = vec![K::zero(); 1 << product.variables(self.public.shape)];
        for m in self.public.shape.matmuls() {
            let Some((_, lead)) = self.public.shape.product_of(m.id).filter(|own| own.0 == product) else {
                continue;
            };
            let point = self.public.points.out(m.out_log);
            let blocks = eq_table(&point[..point.len() - (log_band + TILE_LOG) as usize]);
            let weight = self.public.points.matmul_weight(m.id);
            let row_bands = m.out_blocks >> log_band;
            let factors: Vec<K> = blocks.iter().take(row_bands).map(|e| weight * *e).collect();
            let own = (m.first_tile >> log_band) - first;
            let rows = self.bands.rows(own..own + m.in_blocks * row_bands, &factors)?;
            let targets = out[lead << m.in_log..].iter_mut();
            targets.zip(rows).for_each(|(target, v)| *target += v);
        }
        Ok(out)
    }

    /// The last normed state of the generated positions, and the head; zero in chunks without head.
    fn head(&self) -> Result<(Vec<K>, Vec<K>), DeviceError> {
        let shape = self.public.shape;
        let weights = self.weights(Product::HEAD)?;
        let rows = self.public.generated_rows();
        let columns = self.public.normed_columns(shape.limbs.head);
        let states = self.bound_with(Part::STREAM, &columns, 1, &rows)?;
        let last = &states[(shape.states() - 1) * weights.len()..][..weights.len()];
        Ok((last.to_vec(), weights))
    }

    /// A column of a part along its whole axes, zero beyond the committed lanes.
    fn whole(&self, part: Part, column: usize) -> Result<Vec<BaseField>, DeviceError> {
        let shape = self.public.shape;
        let (axes, full, width) = (shape.axes(part), shape.full_axes(part), shape.lane_columns(part));
        let mut out = vec![BaseField::zero(); 1 << full.iter().sum::<u32>()];
        for lane in 0..shape.lanes(part) {
            let index = lane * width + column;
            let cells = self.columns.read(ColumnId { part, index })?;
            place_rows(&cells, &shape.lane_start(part, lane), [&axes, &full], &mut out);
        }
        Ok(out)
    }

    /// Some columns of a part, each along its whole axes.
    fn wholes<const N: usize>(&self, part: Part, columns: [usize; N]) -> Result<[Vec<BaseField>; N], DeviceError> {
        let mut out = [const { Vec::new() }; N];
        for (out, column) in out.iter_mut().zip(columns) {
            *out = self.whole(part, column)?;
        }
        Ok(out)
    }

    /// SiLU of the gates, each times its weight among the accumulators, and up projections.
    fn act(&self) -> Result<(Factor, Factor), DeviceError> {
        let (shape, points) = (self.public.shape, self.public.points);
        let layers = points.layer_weights(shape.config.layers);
        let layers: Vec<K> = layers.into_iter().map(|w| points.act_weight() * w).collect();
        let (tokens, features) = (eq_table(&points.token), pack(&eq_table(points.out(shape.padded.ff))));
        let [silu, up] = self.wholes(Part::FF, [ff::SILU, ff::UP])?;
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
        Ok((Factor::Packs(gates), Factor::Packs(ups)))
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
