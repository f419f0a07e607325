//! The witness as trace columns (docs/protocol.md, section 4): for every part its columns in row order.
//! Padded features, layers and heads are rows like any other, computed from zero accumulators; token rows behind the text hold a filler.

use std::ops::Range;

use rayon::prelude::*;
use stwo::core::fields::m31::{BaseField, P};
use tessera_circuits::air::gadgets::Remainder;
use tessera_circuits::air::requant;
use tessera_circuits::chunk::Boundary;
use tessera_circuits::model::{ChannelShift, Limbs, MatmulKind, MatrixId, ModelParams};
use tessera_circuits::rounding::{pow_column, shift_at, shift_of, Rounded};
use tessera_circuits::semantics::{round_shift, INT16};
use tessera_circuits::shape::{Part, Shape};
use tessera_circuits::statement::Statement;
use tessera_circuits::statistics::Clip;

use super::column::{Bounds, Column};
use tessera_model::forward::Witness;

/// Columns of elements, each in row order.
pub type Columns = Vec<Vec<BaseField>>;

/// Everything the trace is made from.
pub struct Source<'a> {
    pub shape: &'a Shape,
    /// The parameters of the chunk alone.
    pub params: &'a ModelParams,
    /// With all of its ids.
    pub statement: &'a Statement,
    /// As the proof says it.
    pub said: &'a Statement,
    /// What enters the chunk; `None` in the first one.
    pub input: Option<&'a Boundary>,
    pub witness: &'a Witness,
    /// As [`tops`] gives them.
    pub tops: &'a [i64],
}

/// The logits of the output tokens; none without head.
pub fn tops(shape: &Shape, statement: &Statement, witness: &Witness) -> Vec<i64> {
    let vocab = shape.config.vocab;
    let generated = statement.generated().filter(|_| shape.chunk.is_last());
    let top = |(row, id): (usize, u32)| i64::from(witness.logits[(row - witness.first_logits) * vocab + id as usize]);
    generated.map(top).collect()
}

pub(crate) fn felt(v: i64) -> u32 {
    // Nearly all values are less than the order apart from zero, and a division is slow.
    let order = i64::from(P);
    let v = if v < 0 { v + order } else { v };
    (if (0..order).contains(&v) {
        v
    } else {
        v.rem_euclid(order)
    }) as u32
}

/// A value that was rounded: what it was clipped to, and what it exceeds that by.
#[derive(Clone, Copy)]
pub(crate) struct Clipped {
    pub out: i64,
    pub excess: i64,
}

impl Clipped {
    /// A value of 16 bits.
    pub(crate) fn of(value: i64) -> Self {
        Self::within(INT16, value)
    }

    /// A value that is clipped to these ends.
    pub(crate) fn within([least, most]: [i64; 2], value: i64) -> Self {
        let out = value.clamp(least, most);
        Self {
            out,
            excess: value - out,
        }
    }
}

/// An accumulator in limbs, and the residual that is added to the high one.
#[derive(Clone, Copy, Default)]
pub(crate) struct Accumulator {
    pub hi: i64,
    pub lo: i64,
    pub residual: i64,
}

impl Accumulator {
    pub(crate) fn of([hi, lo]: [i64; 2]) -> Self {
        Self { hi, lo, residual: 0 }
    }

    /// A product that is no sum of limbs.
    pub(crate) fn product(lo: i64) -> Self {
        Self::of([0, lo])
    }

    pub(crate) fn total(&self) -> i64 {
        256 * (self.hi + self.residual) + self.lo
    }

    pub(crate) fn rounded(&self, shift: u32) -> Clipped {
        self.rounded_within(INT16, shift)
    }

    pub(crate) fn rounded_within(&self, ends: [i64; 2], shift: u32) -> Clipped {
        Clipped::within(ends, round_shift(self.total(), 8 + shift))
    }

    /// Writes what the claim on accumulators needs beside the rounded value.
    pub(crate) fn write(&self, row: &mut [u32], at: Remainder, shift: u32, Clipped { out, excess }: Clipped) {
        let value = out + excess;
        let rest = self.total() + (1 << (7 + shift)) - (value << (8 + shift));
        debug_assert!((0..1 << (8 + shift)).contains(&rest), "a remainder");
        match at.limbs {
            Limbs::One => {
                row[at.pow()] = 1 << (8 + shift);
                row[at.rest()] = rest as u32;
            }
            Limbs::Two => {
                let listed = (excess != 0).then_some(value);
                let delta = self.hi + self.residual - (value << shift);
                let [d_hi, d_lo] = Remainder::difference(delta, at.is_narrow(shift, listed));
                row[at.pow()] = 1 << shift;
                row[at.r_hi()] = (rest >> 8) as u32;
                row[at.r_lo()] = (rest & 0xff) as u32;
                row[at.d_hi()] = felt(d_hi);
                row[at.d_lo()] = d_lo as u32;
            }
        }
    }
}

/// Writes a value in one column or in limbs.
pub(crate) fn write(row: &mut [u32], at: usize, limbs_of: Limbs, value: i64) {
    match limbs_of {
        Limbs::One => row[at] = felt(value),
        Limbs::Two => [row[at], row[at + 1]] = limbs(value),
    }
}

pub(crate) fn limbs(out: i64) -> [u32; 2] {
    [felt(out >> 8), (out & 0xff) as u32]
}

/// Rows filled at once.
const BLOCK: usize = 256;

/// What exceeds int16 in a row, by [`Rounded::tensor`].
pub(crate) type Excesses = [i64; 6];
/// What is shown a row: its number, its indices, its cells, and what clipping took off.
type Show<'a, const N: usize> = dyn FnMut(usize, [usize; N], &[u32], Excesses) + 'a;

/// What the entries of rows behind the text hold: zeros, but for these columns and the public ones, which hold what they hold everywhere
/// (docs/protocol.md, section 8.6).
type Filler = &'static [(usize, u32)];

/// The columns of a part, lane by lane, and the values that were clipped, ascending. `row_of` gets the indices of an entry along the
/// part's axes and says which token row owns it; rows behind the text hold the filler. `fill` gets the indices of an entry of the text,
/// writes its columns and says what exceeds int16.
pub(crate) fn build<const N: usize>(
    source: &Source<'_>,
    part: Part,
    (row_of, filler): (impl Fn([usize; N]) -> usize + Sync, Filler),
    fill: impl Fn([usize; N], &mut [u32]) -> Excesses + Sync,
) -> (Vec<Column>, Vec<Clip>) {
    let (shape, text) = (source.shape, source.shape.rows);
    let powers = source.powers(part);
    let fill = |indices: [usize; N], row: &mut [u32]| {
        if row_of(indices) < text {
            return fill(indices, row);
        }
        filler.iter().for_each(|(column, value)| row[*column] = *value);
        powers.iter().for_each(|(column, power)| row[*column] = power(&indices));
        [0; 6]
    };
    let (axes, full) = (shape.axes(part), shape.full_axes(part));
    let (rows, width) = (1usize << shape.log_rows(part), shape.lane_columns(part));
    let (mut columns, mut clips) = (Vec::with_capacity(shape.columns(part)), Vec::new());
    for lane in 0..shape.lanes(part) {
        let mut first = [0; N];
        for (axis, at) in shape.lane_start(part, lane) {
            if let Some(first) = first.get_mut(axis) {
                *first = at;
            }
        }
        // Shows every one of some rows and its indices.
        let each = |own: Range<usize>, show: &mut Show<'_, N>| {
            let (mut row, mut within) = (vec![0; width], unpack::<N>(own.start, &axes));
            for i in 0..own.len() {
                let indices: [usize; N] = std::array::from_fn(|axis| first[axis] + within[axis]);
                advance(&mut within, &axes);
                row.fill(0);
                let excesses = fill(indices, &mut row);
                show(i, indices, &row, excesses);
            }
        };
        let of_block = |(b, mut pieces): (usize, Vec<&mut [u16]>)| {
            let own = b * BLOCK..rows.min((b + 1) * BLOCK);
            let (mut block, mut clips, len) = (vec![0; width * BLOCK], Vec::new(), own.len());
            each(own, &mut |i, indices, row, excesses| {
                let cells = block[i..].iter_mut().step_by(BLOCK);
                cells.zip(row).for_each(|(cell, value)| *cell = *value);
                if excesses != [0; 6] {
                    clips.extend(clipped(part, &full, &indices, excesses));
                }
            });
            let columns = pieces.iter_mut().zip(block.chunks(BLOCK));
            let bounds: Vec<Bounds> = columns.map(|(to, cells)| Bounds::write(&cells[..len], to)).collect();
            (bounds, clips)
        };
        let mut cells: Vec<Vec<u16>> = (0..width).map(|_| vec![0; rows]).collect();
        let made = blocks(&mut cells).into_par_iter().enumerate().map(of_block);
        let made: Vec<(Vec<Bounds>, Vec<Clip>)> = made.collect();
        columns.extend(cells.into_iter().enumerate().map(|(at, cells)| {
            let bounds = made.iter().fold(Bounds::NONE, |all, (own, _)| all.and(own[at]));
            Column::small(cells, bounds).unwrap_or_else(|| {
                let mut elements = Vec::with_capacity(rows);
                let element = |row: &[u32]| BaseField::from_u32_unchecked(row[at]);
                each(0..rows, &mut |_, _, row, _| elements.push(element(row)));
                Column::Elements(elements)
            })
        }));
        clips.extend(made.into_iter().flat_map(|(_, clips)| clips));
    }
    clips.sort_unstable_by_key(|clip| (clip.tensor, clip.at));
    (columns, clips)
}

/// The pieces that all columns of a lane have of every [`BLOCK`] rows.
fn blocks(columns: &mut [Vec<u16>]) -> Vec<Vec<&mut [u16]>> {
    let mut pieces: Vec<_> = columns.iter_mut().map(|column| column.chunks_mut(BLOCK)).collect();
    let count = pieces.first().map_or(0, |own| own.len());
    let block = |_| pieces.iter_mut().filter_map(Iterator::next).collect();
    (0..count).map(block).collect()
}

/// The values that were clipped in a row with these indices along axes of the given log lengths.
fn clipped<'a>(
    part: Part,
    axes: &'a [u32],
    indices: &'a [usize],
    excesses: Excesses,
) -> impl Iterator<Item = Clip> + 'a {
    let at = indices.iter().zip(axes).fold(0, |at, (i, log)| (at << log) | *i as u64);
    let exceeding = excesses.into_iter().enumerate().filter(|(_, excess)| *excess != 0);
    exceeding.map(move |(tensor, excess)| Clip {
        part: part.index() as u8,
        tensor: tensor as u8,
        at,
        excess: excess as i32,
    })
}

/// Splits a row index into the indices along axes of the given log lengths.
fn unpack<const N: usize>(row: usize, axes: &[u32]) -> [usize; N] {
    let mut rest = row;
    let mut out = [0; N];
    for (o, log) in out.iter_mut().zip(axes).rev() {
        *o = rest & ((1 << log) - 1);
        rest >>= log;
    }
    out
}

/// Goes on to the indices of the next row.
fn advance<const N: usize>(indices: &mut [usize; N], axes: &[u32]) {
    for (index, log) in indices.iter_mut().zip(axes).rev() {
        *index += 1;
        if *index >> log == 0 {
            return;
        }
        *index = 0;
    }
}

/// A value of a real-dimension tensor, 0 outside it.
pub(crate) fn get<T: Copy + Into<i64>>(values: &[T], at: Option<usize>) -> i64 {
    at.map_or(0, |i| values[i].into())
}

/// A public column of a part, and the power of two that it has in an entry.
type Power<'a> = (usize, Box<dyn Fn(&[usize]) -> u32 + Sync + 'a>);

impl Source<'_> {
    /// The public columns of a lane of a part.
    fn powers(&self, part: Part) -> Vec<Power<'_>> {
        let leading = self.statement.leading(&self.params.leading);
        let powers = self.shape.lane_air(part).powers.iter();
        let of = |(column, tensor): &(usize, u8)| -> Power<'_> {
            let rounded = Rounded::of(part, *tensor);
            let power = move |place: &[usize]| 1 << shift_at(self.shape, self.params, rounded, place, leading);
            (*column, Box::new(power))
        };
        powers.map(of).collect()
    }

    pub(crate) fn pows(&self, kind: MatmulKind, log: u32) -> Vec<Vec<u32>> {
        (0..self.shape.config.layers)
            .map(|l| pow_column(&self.shape.config, kind, self.shift(kind.at(l)), log))
            .collect()
    }

    pub(crate) fn shift(&self, id: MatrixId) -> &ChannelShift {
        shift_of(self.params, id).expect("the layer exists")
    }

    pub(crate) fn requant(
        &self,
        rounded: Rounded,
        (heads, out, remainder): (usize, Limbs, Remainder),
        source: impl Fn(usize, Option<usize>) -> [i64; 2] + Sync,
        pow: impl Fn(usize, usize, usize) -> u32 + Sync,
    ) -> (Vec<Column>, Vec<Clip>) {
        let (shape, config) = (self.shape, &self.shape.config);
        let (half_dim, half) = (config.head_dim / 2, shape.padded.half);
        build(self, rounded.part, (|[_, i, _, _]| i, &[]), |[l, i, h, x], row| {
            let (side, within) = (x >> half, x & ((1 << half) - 1));
            let real = l < config.layers && h < heads && within < half_dim;
            let at = real.then(|| (i * heads + h) * config.head_dim + side * half_dim + within);
            let acc = Accumulator::of(source(l, at));
            let pow = if l < config.layers { pow(l, h, x) } else { 2 };
            let shift = pow.trailing_zeros();
            let value = acc.rounded_within(rounded.ends(), shift);
            acc.write(row, remainder, shift, value);
            // In both parts the output comes first.
            write(row, requant::OUT, out, value.out);
            [value.excess, 0, 0, 0, 0, 0]
        })
    }
}
