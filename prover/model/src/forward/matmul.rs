//! Weight matmuls of the forward pass.

use std::iter;
use std::ops::Range;

use rayon::prelude::*;
use tessera_circuits::chunk::Chunk;
use tessera_circuits::model::{Matmul, MatrixId};
use tessera_circuits::semantics::bias_limbs;

use super::kernels::{least, split, Acc, PIECE};
use crate::awake::{each, each_of_many};
use crate::passes::{cut, window_tiles, WeightPass, Window};
use crate::tiles::{planes, tile_bytes, TileSource};
use crate::QuantisedModel;
use tessera_kernels::weights::{multiply, multiply_row, Activations, Isa, LimbSums, Plane, SIMD_LANES, STRIP};

/// Tiles that are not worth sharing between threads.
const MIN_TILES: usize = 16;
/// Out-blocks for every thread from which on a matrix is wide: shares differ by one of them.
const WIDE: usize = 8;
/// Out-blocks of the sums of all threads from which on a matrix is wide, too, because adding the sums up would take longer.
const MANY: usize = 1 << 10;
/// Pieces of a row begin with a block.
const _: () = assert!(PIECE.is_multiple_of(SIMD_LANES));

/// Blocks of a matrix that are in memory together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    inputs: Range<usize>,
    outputs: Range<usize>,
}

/// The pieces of a matrix, in the order of the file.
pub(super) fn pieces(model: &QuantisedModel, m: &Matmul) -> Vec<Piece> {
    let window = window_tiles(&model.weights);
    let rows = (window / m.out_blocks).clamp(1, m.in_blocks);
    cut(m.in_blocks, rows)
        .flat_map(|inputs| {
            cut(m.out_blocks, window.min(m.out_blocks)).map(move |outputs| Piece {
                inputs: inputs.clone(),
                outputs,
            })
        })
        .collect()
}

/// The windows of a forward pass of a chunk: every matrix but the embedding, of which a pass reads few rows.
pub(super) fn windows(model: &QuantisedModel, chunk: &Chunk) -> Vec<Window> {
    let layers = chunk
        .layers()
        .flat_map(|l| model.config.layer_kinds().map(move |kind| kind.at(l)));
    layers
        .chain((chunk.is_last() && model.config.generates()).then_some(MatrixId::HEAD))
        .flat_map(|id| {
            let m = model.matmul(id);
            pieces(model, m).into_iter().map(move |piece| {
                let row = |b: usize| m.first_tile + b * m.out_blocks;
                match piece.outputs.len() == m.out_blocks {
                    true => iter::once(row(piece.inputs.start)..row(piece.inputs.end)).collect(),
                    false => piece
                        .inputs
                        .map(|b| row(b) + piece.outputs.start..row(b) + piece.outputs.end)
                        .collect(),
                }
            })
        })
        .collect()
}

/// Activations `[rows][in]` times a matrix, and its biases; the matrix's windows are the next ones of the pass. The bounds that are
/// checked when a model key is made keep the accumulators inside i32.
pub(super) fn matmul(model: &QuantisedModel, id: MatrixId, a: &[i16], pass: &mut WeightPass<'_>) -> Acc {
    let kind = id.kind();
    let (m, config, isa) = (model.matmul(id), &model.config, Isa::best());
    let position = |x| config.pad_in(kind, x);
    let position = (!config.keeps_inputs(kind)).then_some(position);
    let a = Activations::new(isa, a, m.in_dim, m.in_blocks, position);
    let rows = a.tokens();
    // [out-block][row]
    let mut sums: Vec<LimbSums> = vec![[[0; SIMD_LANES]; 2]; m.out_blocks * rows];
    let pieces = pieces(model, m);
    if let ([_], 1) = (&pieces[..], rows) {
        pass.next(|| match planes(model.params.format) {
            1 => multiply_in_order::<1>(model, m, &a, &mut sums),
            _ => multiply_in_order::<2>(model, m, &a, &mut sums),
        });
    } else {
        for piece in pieces {
            let sums = &mut sums[piece.outputs.start * rows..piece.outputs.end * rows];
            pass.next(|| multiply_piece(model, m, &piece, &a, sums));
        }
    }
    in_place(model, id, &sums, rows)
}

/// Adds the products of a piece of a matrix and activations to the sums of its outputs, `[out-block][row]`.
fn multiply_piece(model: &QuantisedModel, m: &Matmul, piece: &Piece, a: &Activations, sums: &mut [LimbSums]) {
    let (isa, rows, size) = (Isa::best(), a.tokens(), tile_bytes(model.params.format));
    let even = piece.outputs.len().div_ceil(8 * rayon::current_num_threads());
    let share = even.max(MIN_TILES.div_ceil(piece.inputs.len()));
    sums.par_chunks_mut(share * rows).enumerate().for_each(|(i, sums)| {
        let first = piece.outputs.start + i * share;
        for strip in piece.inputs.clone().step_by(STRIP) {
            let strip = strip..piece.inputs.end.min(strip + STRIP);
            for (c, sums) in (first..).zip(sums.chunks_exact_mut(rows)) {
                let tile = |b: usize| {
                    let t = m.first_tile + b * m.out_blocks + c;
                    model.weights.bytes(t..t + 1).as_chunks().0
                };
                let tiles: [&[Plane]; STRIP] = std::array::from_fn(|i| tile(strip.end.min(strip.start + i + 1) - 1));
                multiply(isa, &tiles[..strip.len()], size, a, strip.start, sums);
            }
        }
    });
}

/// Adds the products of a matrix and a single row to its sums, by out-block. Every thread reads tiles in the order of the file. In a wide
/// matrix, threads share the outputs. In any other they share the tiles equally, and each thread adds up sums that are added at the end.
fn multiply_in_order<const PLANES: usize>(model: &QuantisedModel, m: &Matmul, a: &Activations, sums: &mut [LimbSums]) {
    let (isa, threads) = (Isa::best(), rayon::current_num_threads());
    let all: &[[Plane; PLANES]] = model.weights.all().as_chunks().0.as_chunks().0;
    let tiles = &all[m.first_tile..][..m.tiles()];
    // Adds a run of tiles of one in-block; what is behind the run of the next in-block is as likely to be next.
    let add = |run: Range<usize>, next: usize, sums: &mut [LimbSums]| {
        let next = all.get(m.first_tile + next).unwrap_or(&tiles[0]);
        multiply_row(isa, &tiles[run.clone()], next, a, run.start / m.out_blocks, sums);
    };
    let wide = m.out_blocks >= WIDE * threads || m.out_blocks * threads >= MANY;
    let share = |of: usize| of.div_ceil(threads.min((m.tiles() / MIN_TILES).max(1)));
    if wide {
        let share = share(m.out_blocks);
        let parts = sums.chunks_mut(share).enumerate();
        each(parts, |(i, sums)| {
            for block in 0..m.in_blocks {
                let first = block * m.out_blocks + i * share;
                add(first..first + sums.len(), first + m.out_blocks, sums);
            }
        });
        return;
    }
    let ranges: Vec<Range<usize>> = cut(m.tiles(), share(m.tiles())).collect();
    let mut own: Vec<Vec<LimbSums>> = vec![vec![[[0; SIMD_LANES]; 2]; m.out_blocks]; ranges.len()];
    each(ranges.into_iter().zip(&mut own), |(range, sums)| {
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min((at / m.out_blocks + 1) * m.out_blocks);
            let first = at % m.out_blocks;
            add(at..end, end, &mut sums[first..first + end - at]);
            at = end;
        }
    });
    for own in own {
        let limbs = sums.as_flattened_mut().as_flattened_mut().iter_mut();
        let own = own.as_flattened().as_flattened();
        limbs.zip(own).for_each(|(sum, own)| *sum = sum.wrapping_add(*own));
    }
}

/// Sums `[out-block][row]` of a matrix as accumulators `[row][output]`, with its biases.
fn in_place(model: &QuantisedModel, id: MatrixId, sums: &[LimbSums], rows: usize) -> Acc {
    let (m, kind, config) = (model.matmul(id), id.kind(), &model.config);
    let bias: Vec<(i32, i32)> = model.params.bias(id).iter().copied().map(bias_limbs).collect();
    let (mut hi, mut lo) = (vec![0; rows * m.out_dim], vec![0; rows * m.out_dim]);
    let by_row = hi.chunks_exact_mut(m.out_dim).zip(lo.chunks_exact_mut(m.out_dim));
    let of_row = |(row, (hi, lo))| split(hi, PIECE).zip(split(lo, PIECE)).map(move |limbs| (row, limbs));
    let pieces: Vec<_> = by_row.enumerate().flat_map(of_row).collect();
    each_of_many(pieces, least(m.out_dim.min(PIECE)), |(row, ((start, hi), (_, lo)))| {
        if config.keeps_outputs(kind) {
            // Nothing stands between the outputs: whole blocks are copied.
            let blocks = hi.chunks_mut(SIMD_LANES).zip(lo.chunks_mut(SIMD_LANES));
            for (block, (hi, lo)) in (start / SIMD_LANES..).zip(blocks) {
                let [high, low] = &sums[block * rows + row];
                hi.copy_from_slice(&high[..hi.len()]);
                lo.copy_from_slice(&low[..lo.len()]);
            }
        } else {
            for (output, (hi, lo)) in (start..).zip(hi.iter_mut().zip(&mut *lo)) {
                let place = config.pad_out(kind, output);
                let [high, low] = &sums[place / SIMD_LANES * rows + row];
                *hi = high[place % SIMD_LANES];
                *lo = low[place % SIMD_LANES];
            }
        }
        for ((hi, lo), bias) in hi.iter_mut().zip(lo).zip(bias.iter().skip(start)) {
            *hi += bias.0;
            *lo += bias.1;
        }
    });
    Acc { hi, lo }
}

/// The rows of the embedding of some tokens, and of their positions, `[ids][hidden]`. Where there are types of tokens, the first position
/// is 0: an encoder takes a text at once.
pub(super) fn embedding(model: &QuantisedModel, ids: &[u32], position: impl Fn(usize) -> usize + Sync) -> Vec<i32> {
    let hidden = model.config.hidden;
    let weight = |row: usize, y: usize| i32::from(model.weight(MatrixId::EMBED, row, y));
    let types = model.config.types_of(ids);
    let rows = ids
        .par_iter()
        .zip(&types)
        .enumerate()
        .flat_map_iter(|(i, (id, token_type))| {
            let position = model.config.position_row(position(i), *token_type);
            let of = move |y: usize| weight(*id as usize, y) + position.map_or(0, |row| weight(row, y));
            (0..hidden).map(of)
        });
    let rows = rows.collect();
    if let Some((file, _)) = model.weights.streamed() {
        // Pages around those that were read may have become resident, too.
        file.release(0..model.matmul(MatrixId::EMBED).tiles() * tile_bytes(model.params.format));
    }
    rows
}
