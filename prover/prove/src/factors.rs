//! The factor tables of the products: what the operators ([`crate::ops`]) make them from, of the columns of a trace and of the bands of
//! the weights.

use std::ops::AddAssign;

use crate::bind::eq_table;
use rayon::prelude::*;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::model::TILE_LOG;
use tessera_circuits::shape::{Part, Product};
use tessera_circuits::sizes::Sizes;
use tessera_circuits::wiring::Public;
use tessera_verifier::opening::OpenedColumns;

use crate::device::{Bands, ColumnId, Columns, DeviceError, Table as Factor, Weights};
use crate::digits::HiddenDigits;
use crate::field::{base_zeros, zeros, Packed, SIMD_LANES};

pub(crate) type K = SecureField;

/// Factors as tables of elements.
pub(crate) fn entries((a, b): (Vec<K>, Vec<K>)) -> (Factor, Factor) {
    (a.into(), b.into())
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
pub(crate) fn base_rows(table: &[BaseField], width: usize) -> Vec<&[[BaseField; SIMD_LANES]]> {
    table.as_chunks::<SIMD_LANES>().0.chunks(width).collect()
}

/// A table of rows of `width` packs; a row that is not filled is zero.
pub(crate) fn rows(count: usize, width: usize, fill: impl Fn(usize, &mut [Packed]) + Sync) -> Vec<Packed> {
    let mut table = Packed::zeros(count * width).into_vec();
    let rows = table.par_chunks_mut(width).enumerate();
    rows.for_each(|(row, out)| fill(row, out));
    table
}

/// Makes a table of (lead, token, ..) whose rows have `width` packs. `fill` fills the rows of the blocks of the text, as for [`rows`]; the
/// others are zero.
pub(crate) fn text_rows(sizes: &Sizes, lead: u32, width: usize, fill: impl Fn(usize, &mut [Packed]) + Sync) -> Factor {
    let (text, token) = (sizes.text_rows(), sizes.token);
    let place = |row: usize| ((row / text) << token) | (row % text);
    Factor::Beginnings {
        packs: rows(text << lead, width, |row, out| fill(place(row), out)),
        lead,
        slice: width << token,
    }
}

/// The factor tables of the products.
pub(crate) struct Factors<'a> {
    pub public: &'a Public<'a>,
    pub columns: &'a dyn Columns,
    /// The digits of hidden ids.
    pub digits: &'a HiddenDigits,
    /// The columns whose bands are bound.
    pub opened: &'a OpenedColumns,
    /// Their sums.
    pub bands: &'a dyn Bands,
}

impl Factors<'_> {
    /// `sum of factor * column` of `part`, bound at `point` along axis `outer`: a table over the other axes, zero
    /// beyond the committed lanes.
    pub(crate) fn bound(
        &self,
        part: Part,
        columns: &[(usize, K)],
        outer: usize,
        point: &[K],
    ) -> Result<Vec<K>, DeviceError> {
        self.bound_with(part, columns, outer, &eq_table(point))
    }

    /// As [`Self::bound`], with any weights. If there are at most as many weights as a lane has entries along the axis, every block of as
    /// many entries is bound with them, and the axis that is left counts the blocks. If there are more, the axis is cut, and each lane takes
    /// its own weights.
    pub(crate) fn bound_with(
        &self,
        part: Part,
        columns: &[(usize, K)],
        outer: usize,
        weights: &[K],
    ) -> Result<Vec<K>, DeviceError> {
        let shape = self.public.shape;
        let (mut axes, mut full, width) = (shape.axes(part), shape.full_axes(part), shape.lane_columns(part));
        let (own, block) = (1usize << axes[outer], weights.len().ilog2());
        for axes in [&mut axes, &mut full] {
            axes[outer] = axes[outer].saturating_sub(block);
        }
        let lead: u32 = axes[..=outer].iter().sum();
        let rest: u32 = axes[outer + 1..].iter().sum();
        let mut sum = zeros(1 << full.iter().sum::<u32>());
        for lane in 0..shape.lanes(part) {
            let mut start = shape.lane_start(part, lane);
            let mut weights = weights;
            if weights.len() > own {
                let along = start.iter().find(|(axis, _)| *axis == outer);
                weights = &weights[along.map_or(0, |(_, first)| *first)..][..own];
            }
            // Along the axis a lane begins with a block.
            start
                .iter_mut()
                .filter(|(axis, _)| *axis == outer)
                .for_each(|(_, first)| *first >>= block);
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

    pub(crate) fn limbs(&self, hi: usize, lo: usize) -> [(usize, K); 2] {
        [
            (hi, K::from(BaseField::from_u32_unchecked(1))),
            (lo, self.public.points.limb),
        ]
    }

    /// Columns of a part bound at the token point, and the weights that they are multiplied with.
    pub(crate) fn weighted(
        &self,
        product: Product,
        part: Part,
        columns: &[(usize, K)],
    ) -> Result<(Factor, Factor), DeviceError> {
        let operand = self.bound(part, columns, 1, &self.public.points.token)?;
        Ok(entries((operand, self.weights(product)?)))
    }

    /// `V(lead, x) = sum over the product's matmuls of weight * sum_out W(x, out) eq(out point, out)`.
    pub(crate) fn weights(&self, product: Product) -> Result<Vec<K>, DeviceError> {
        let (log_band, first) = (self.opened.log_band(), self.opened.bands().start);
        let mut out = zeros(1 << product.variables(self.public.shape));
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

    /// A column of a part along its whole axes, zero beyond the committed lanes.
    pub(crate) fn whole(&self, part: Part, column: usize) -> Result<Vec<BaseField>, DeviceError> {
        let shape = self.public.shape;
        let (axes, full, width) = (shape.axes(part), shape.full_axes(part), shape.lane_columns(part));
        let mut out = base_zeros(1 << full.iter().sum::<u32>());
        for lane in 0..shape.lanes(part) {
            let index = lane * width + column;
            let cells = self.columns.read(ColumnId { part, index })?;
            place_rows(&cells, &shape.lane_start(part, lane), [&axes, &full], &mut out);
        }
        Ok(out)
    }

    /// Some columns of a part, each along its whole axes.
    pub(crate) fn wholes<const N: usize>(
        &self,
        part: Part,
        columns: [usize; N],
    ) -> Result<[Vec<BaseField>; N], DeviceError> {
        let mut out = [const { Vec::new() }; N];
        for (out, column) in out.iter_mut().zip(columns) {
            *out = self.whole(part, column)?;
        }
        Ok(out)
    }

    /// A table over (layer, head, ...) from one over (layer', kv or q head, ...): real layers only, heads
    /// through `map`, every (layer, head) block scaled by `scale`.
    pub(crate) fn spread(
        &self,
        table: &[K],
        heads: u32,
        block: usize,
        map: impl Fn(usize) -> usize,
        scale: Option<(&[K], &[K])>,
        power: K,
    ) -> Vec<K> {
        let p = &self.public.shape.padded;
        let mut out = zeros(block << (p.layers + p.heads));
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
}
