//! A commitment to what is in memory, whose codeword is made again where it is opened, a batch of columns at a time.

use std::simd::u32x16;

use rayon::prelude::*;
use tessera_verifier::opening::{CommitmentParams, LeafOpening, FIBRE};
use tessera_verifier::suite::Suite;

use super::codeword::{open_leaves, Subtree};
use super::commit::{encode, Leaves, Split, SIMD_LANES};
use super::fft::{Twiddles, Wanted};
use super::packed::Packed;
use super::tree::{Tree, SUBTREE};
use super::TILE_AREA;
use crate::prove::column::Cells;

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

/// Encodes all columns; see [`encode`].
fn each_block(
    units: &[Cells<'_>],
    params: &CommitmentParams,
    twiddles: &Twiddles,
    wanted: Wanted<'_>,
    mut each: impl FnMut(usize, usize, usize, &[Packed]),
) {
    let length = 1usize << params.log_column_tiles();
    let load = |first: usize, message: &mut [Packed]| {
        let slots = message.par_chunks_mut(TILE_AREA).enumerate();
        slots.for_each(|(slot, message)| {
            let unit = |lane: usize| units.get((first + lane) * length + slot);
            // The last columns may lack units.
            let lanes: [Option<&Cells<'_>>; SIMD_LANES] = std::array::from_fn(unit);
            for (i, packed) in message.as_chunks_mut::<SIMD_LANES>().0.iter_mut().enumerate() {
                let mut rows = [u32x16::splat(0); SIMD_LANES];
                for (row, unit) in rows.iter_mut().zip(&lanes) {
                    if let Some(unit) = unit {
                        *row = unit.vector(i);
                    }
                }
                *packed = Packed::transposed(rows);
            }
        });
    };
    let mut message = vec![Packed::from_words(u32x16::splat(0)); 1 << params.log_message];
    let encoded = encode(
        params,
        twiddles,
        Split::default(),
        wanted,
        &mut message,
        load,
        |batch, width, block, values| {
            each(batch, width, block, values);
            Ok(())
        },
    );
    encoded.expect("nothing can fail");
}
