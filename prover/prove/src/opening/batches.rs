//! A commitment to what is in memory, whose codeword is made again where it is opened, a batch of columns at a time.

use std::simd::u32x16;

use rayon::prelude::*;
use tessera_verifier::opening::parts::{Layout, LeafOpening, FIBRE};
use tessera_verifier::opening::CommitmentParams;
use tessera_verifier::suite::Suite;

use super::codeword::{open_leaves, Subtree};
use super::commit::{encode, Leaves, Split, SIMD_LANES};
use super::fft::{Twiddles, Wanted};
use super::packed::Packed;
use super::tree::{Tree, SUBTREE};
use super::TILE_AREA;
use crate::column::Cells;

const ZERO: u32x16 = u32x16::splat(0);

/// Commits to units of [`TILE_AREA`] values. Takes memory for one batch of columns.
pub fn commit(suite: Suite, units: &[Cells<'_>], params: &CommitmentParams, twiddles: &Twiddles) -> Tree {
    let mut leaves = Leaves::new(suite, params);
    each_block(units, params, twiddles, Wanted::All, |batch, width, block, values| {
        leaves.add(batch, width, block, values)
    });
    leaves.tree()
}

/// Opens leaves (increasing) of the tree that was made of `units`.
pub fn open(
    units: &[Cells<'_>],
    params: &CommitmentParams,
    tree: &Tree,
    twiddles: &Twiddles,
    leaves: &[usize],
) -> LeafOpening {
    let row = params.columns() * FIBRE;
    let opened = open_leaves(params, tree, leaves, |indices| {
        let empty = |index: &usize| Subtree {
            index: *index,
            values: vec![0; SUBTREE * row],
        };
        let mut subtrees: Vec<Subtree> = indices.iter().map(empty).collect();
        // Copies what there is of the subtrees in the values of a batch from value `start` on.
        let mut copy = |batch: usize, width: usize, start: usize, values: &[Packed]| {
            subtrees.par_iter_mut().for_each(|subtree| {
                let first = subtree.index * SUBTREE * FIBRE;
                let Some(own) = first
                    .checked_sub(start)
                    .and_then(|at| values.get(at..at + SUBTREE * FIBRE))
                else {
                    return;
                };
                for (leaf, fibre) in subtree.values.chunks_exact_mut(row).zip(own.chunks_exact(FIBRE)) {
                    let [first, second] = [fibre[0].to_array(), fibre[1].to_array()];
                    let own = leaf[batch * SIMD_LANES * FIBRE..].as_chunks_mut::<FIBRE>().0.iter_mut();
                    for (own, (first, second)) in own.zip(first.iter().zip(&second)).take(width) {
                        *own = [first.0, second.0];
                    }
                }
            });
        };
        let wanted = Wanted::Parts(SUBTREE * FIBRE, indices);
        each_block(units, params, twiddles, wanted, |batch, width, block, values| {
            copy(batch, width, block * values.len(), values);
        });
        Ok::<_, std::convert::Infallible>(subtrees)
    });
    match opened {
        Ok(opened) => opened.expect("the values that were committed to"),
        Err(never) => match never {},
    }
}

/// Columns of a last batch that take less time one by one than the sixteen columns of a batch.
const NARROW: usize = 4;

/// Encodes all columns; see [`encode`].
fn each_block(
    units: &[Cells<'_>],
    params: &CommitmentParams,
    twiddles: &Twiddles,
    wanted: Wanted<'_>,
    mut each: impl FnMut(usize, usize, usize, &[Packed]),
) {
    let narrow = Some(params.columns() % SIMD_LANES).filter(|width| (1..=NARROW).contains(width));
    let wide = params.columns() - narrow.unwrap_or(0);
    let length = 1usize << params.log_column_tiles();
    if wide > 0 {
        let load = |first: usize, message: &mut [Packed]| {
            let slots = message.par_chunks_mut(TILE_AREA).enumerate();
            slots.for_each(|(slot, message)| {
                let unit = |lane: usize| units.get((first + lane) * length + slot);
                // The last columns may lack units.
                let lanes: [Option<&Cells<'_>>; SIMD_LANES] = std::array::from_fn(unit);
                for (i, packed) in message.as_chunks_mut::<SIMD_LANES>().0.iter_mut().enumerate() {
                    let mut rows = [ZERO; SIMD_LANES];
                    for (row, unit) in rows.iter_mut().zip(&lanes) {
                        if let Some(unit) = unit {
                            *row = unit.vector(i);
                        }
                    }
                    *packed = Packed::transposed(rows);
                }
            });
        };
        let mut message = Packed::zeros(1 << params.log_message);
        let own = CommitmentParams {
            tiles: params.tiles.min(wide * length),
            ..*params
        };
        let put = |batch: usize, width: usize, block: usize, values: &[Packed]| {
            each(batch, width, block, values);
            Ok(())
        };
        let encoded = encode(&own, twiddles, Split::default(), wanted, &mut message, load, put);
        encoded.expect("nothing can fail");
    }
    if let Some(width) = narrow {
        let columns: Vec<&[Cells<'_>]> = units.chunks(length).skip(wide).collect();
        let put = |block: usize, values: &[Packed]| each(wide / SIMD_LANES, width, block, values);
        each_narrow_block(&columns, params, twiddles, wanted, put);
    }
}

/// Encodes a few columns, each with sixteen neighbours to a vector until these meet; `each` gets the number of the block and its
/// values, one column to a lane, as far as they are wanted.
fn each_narrow_block(
    columns: &[&[Cells<'_>]],
    params: &CommitmentParams,
    twiddles: &Twiddles,
    wanted: Wanted<'_>,
    mut each: impl FnMut(usize, &[Packed]),
) {
    let vectors = 1usize << params.log_message >> SIMD_LANES.ilog2();
    let mut codewords: Vec<Vec<Packed>> = columns.iter().map(|_| Packed::zeros(vectors)).collect();
    let mut values = Packed::zeros(1 << params.log_message);
    for block in 0..1usize << params.log_blowup {
        codewords.par_iter_mut().zip(columns).for_each(|(codeword, units)| {
            let slots = codeword.par_chunks_mut(TILE_AREA / SIMD_LANES).enumerate();
            slots.for_each(|(slot, vectors)| match units.get(slot) {
                Some(unit) => {
                    let own = vectors.iter_mut().enumerate();
                    own.for_each(|(i, vector)| *vector = Packed::from_words(unit.vector(i)));
                }
                // The last column may lack units.
                None => vectors.fill(Packed::from_words(ZERO)),
            });
            twiddles.first_layers(codeword, block, wanted);
        });
        let rows = values.as_chunks_mut::<SIMD_LANES>().0.par_iter_mut().enumerate();
        rows.with_min_len(1 << 10).for_each(|(i, rows)| {
            let at = block * vectors + i;
            if !wanted.is_in(at, SIMD_LANES) {
                return;
            }
            let mut lanes = [ZERO; SIMD_LANES];
            for (lane, codeword) in lanes.iter_mut().zip(&codewords) {
                let mut own = codeword[i].to_array();
                twiddles.last_layers(&mut own, at);
                *lane = u32x16::from_array(own.map(|v| v.0));
            }
            *rows = Packed::transposed(lanes);
        });
        each(block, &values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stwo::core::fields::m31::BaseField;
    use tessera_support::random::SplitMix;
    use tessera_verifier::opening::parts::TILE_AREA_LOG;

    /// Every width of a last batch, and a last column that lacks units.
    #[test]
    fn columns_one_by_one_are_those_of_a_batch() {
        let mut rng = SplitMix(5);
        let mut word = || BaseField::from_u32_unchecked(rng.below((1 << 31) - 1) as u32);
        for (columns, log_blowup) in [(1, 3), (2, 1), (4, 2), (5, 1), (17, 1), (20, 2), (35, 1)] {
            let params = CommitmentParams {
                tiles: 2 * columns - 1,
                log_message: TILE_AREA_LOG + 1,
                log_blowup,
            };
            let tiles: Vec<Vec<BaseField>> = (0..params.tiles)
                .map(|_| (0..TILE_AREA).map(|_| word()).collect())
                .collect();
            let units: Vec<Cells<'_>> = tiles.iter().map(|tile| tile.as_slice().into()).collect();
            let twiddles = Twiddles::new(params.log_message, log_blowup);
            let codewords = tiles.chunks(2).map(|column| {
                let mut message = column.concat();
                message.resize(1 << params.log_message, BaseField::from(0));
                twiddles.encode(&message, 0)
            });
            let codewords: Vec<Vec<BaseField>> = codewords.collect();
            let wanted = [0, 3, (1 << (params.log_message + log_blowup - 7)) - 1];
            for wanted in [Wanted::All, Wanted::Parts(1 << 7, &wanted)] {
                let mut seen = vec![0; columns];
                each_block(&units, &params, &twiddles, wanted, |batch, width, block, values| {
                    for (i, value) in values.iter().enumerate() {
                        let at = block * values.len() + i;
                        if !wanted.is_in(at, 1) {
                            continue;
                        }
                        for (lane, value) in value.to_array().into_iter().take(width).enumerate() {
                            let column = batch * SIMD_LANES + lane;
                            assert_eq!(value, codewords[column][at], "column {column} of {columns}, value {at}");
                            seen[column] += 1;
                        }
                    }
                });
                let expected = match wanted {
                    Wanted::All => codewords[0].len(),
                    Wanted::Parts(size, parts) => size * parts.len(),
                };
                assert_eq!(seen, vec![expected; columns]);
            }
        }
    }
}
