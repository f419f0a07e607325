//! What the kernels compute, one weight at a time.

use stwo::core::fields::qm31::SecureField;

use super::{
    interleaved_lane, pair, Activations, Coefficients, Elements, LimbSums, Lines, Plane, Run, Runs, BLOCK,
    BLOCK_COLUMNS, LINE, P, ROWS, SIMD_LANES, TERMS,
};

pub(super) fn combine(blocks: &[[u8; BLOCK]], coefficients: &[Coefficients], sums: &mut [Elements]) {
    for (blocks, sums) in blocks.chunks(coefficients.len()).zip(sums) {
        combine_tile(blocks, coefficients, sums, false);
    }
}

/// Sets each lane to the sum over its terms in all blocks, or adds to it.
fn combine_tile(blocks: &[[u8; BLOCK]], coefficients: &[Coefficients], sums: &mut Elements, add: bool) {
    for lane in 0..SIMD_LANES {
        let mut exact = [0i64; 4];
        for (block, coefficients) in blocks.iter().zip(coefficients) {
            for (plane, coefficients) in coefficients.iter().enumerate() {
                let terms = block[TERMS * lane..].iter().zip(coefficients.to_le_bytes());
                let sum: i64 = terms.map(|(&w, c)| i64::from(w as i8) * i64::from(c)).sum();
                exact[plane / 4] += sum << (8 * (plane % 4));
            }
        }
        for (c, exact) in exact.into_iter().enumerate() {
            let sum = &mut sums[lane / 16][c][lane % 16];
            let before = if add { i64::from(*sum) } else { 0 };
            *sum = (before + exact).rem_euclid(i64::from(P)) as u32;
        }
    }
}

pub(super) fn combine_columns(
    columns: &Runs,
    coefficients: &[Coefficients],
    sums: &mut [Elements; ROWS],
    add: bool,
    (next, interleaved): (&[&Run], &mut Runs),
) {
    for (blocks, sums) in columns.iter().zip(sums) {
        combine_tile(&blocks[..coefficients.len()], coefficients, sums, add);
    }
    for (column, bytes) in next.iter().enumerate() {
        for (i, row) in interleaved.iter_mut().enumerate() {
            for z in 0..SIMD_LANES {
                let term = TERMS * interleaved_lane(z) + 2 * (column % BLOCK_COLUMNS);
                row[column / BLOCK_COLUMNS][term..][..2].copy_from_slice(&bytes[pair(i, z)..][..2]);
            }
        }
    }
}

pub(super) fn scatter(sums: &[Elements; ROWS], lines: &Lines, add: bool, out: &mut [SecureField]) {
    for (sums, start) in sums.iter().zip(lines.starts) {
        for z in 0..SIMD_LANES {
            let lane = interleaved_lane(z);
            let [a, b, c, d] = sums[lane / 16].map(|coordinate| coordinate[lane % 16]);
            let sum = SecureField::from_u32_unchecked(a, b, c, d);
            let place = &mut out[(start + z / LINE * lines.stride) * LINE + z % LINE];
            *place = if add { *place + sum } else { sum };
        }
    }
}

pub(super) fn multiply(planes: &[&Plane], a: &Activations, first: usize, shift: u32, sums: &mut [LimbSums]) {
    for (b, plane) in planes.iter().enumerate() {
        for (t, sums) in sums.iter_mut().enumerate() {
            let at = (first + b) * a.tokens + t;
            for y in 0..SIMD_LANES {
                let mut dot = [0i32; 2];
                for (x, (&hi, &lo)) in a.hi[at].iter().zip(&a.lo[at]).enumerate() {
                    let w = i32::from(plane[y / TERMS * BLOCK + TERMS * x + y % TERMS] as i8);
                    dot[0] += w * i32::from(hi as i8);
                    dot[1] += w * i32::from(lo);
                }
                for (sums, dot) in sums.iter_mut().zip(dot) {
                    sums[y] = sums[y].wrapping_add(dot.wrapping_shl(shift));
                }
            }
        }
    }
}
