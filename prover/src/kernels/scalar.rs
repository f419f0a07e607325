//! What the kernels compute, one weight at a time.

use super::{interleaved_lane, Activations, Coefficients, Elements, LimbSums, Plane, BLOCK, LANES, P, TERMS};

pub(super) fn combine(blocks: &[[u8; BLOCK]], coefficients: &[Coefficients], sums: &mut Elements) {
    for lane in 0..LANES {
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
            *sum = (i64::from(*sum) + exact).rem_euclid(i64::from(P)) as u32;
        }
    }
}

pub(super) fn combine_columns(columns: &[&Plane], coefficients: &[Coefficients], sums: &mut [Elements; LANES]) {
    let mut blocks = vec![[0; BLOCK]; coefficients.len()];
    for (i, sums) in sums.iter_mut().enumerate() {
        for (columns, block) in columns.as_chunks::<TERMS>().0.iter().zip(&mut blocks) {
            for (j, column) in columns.iter().enumerate() {
                for z in 0..LANES {
                    block[TERMS * interleaved_lane(z) + j] = column[LANES * i + z];
                }
            }
        }
        combine(&blocks, coefficients, sums);
    }
}

pub(super) fn multiply(planes: &[&Plane], a: &Activations, first: usize, shift: u32, sums: &mut [LimbSums]) {
    for (b, plane) in planes.iter().enumerate() {
        for (t, sums) in sums.iter_mut().enumerate() {
            let at = (first + b) * a.tokens + t;
            for y in 0..LANES {
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
