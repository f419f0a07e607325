//! What the kernels compute, one weight at a time.

use super::{
    interleaved_lane, Activations, Coefficients, Columns, Elements, LimbSums, Plane, PlaneSums, BLOCK, LANES, P, TERMS,
};

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

pub(super) fn combine_columns(
    columns: &Columns,
    coefficients: &[Coefficients],
    sums: &mut [PlaneSums; LANES],
    (next, interleaved): (&[&Plane], &mut Columns),
) {
    for (blocks, sums) in columns.iter().zip(sums) {
        for (block, coefficients) in blocks.iter().zip(coefficients) {
            for (sums, coefficients) in sums.iter_mut().zip(coefficients) {
                for (sum, terms) in sums.iter_mut().zip(block.as_chunks::<TERMS>().0) {
                    let products = terms.iter().zip(coefficients.to_le_bytes());
                    let dot: i32 = products.map(|(&w, c)| i32::from(w as i8) * i32::from(c)).sum();
                    *sum = sum.wrapping_add(dot);
                }
            }
        }
    }
    for (column, bytes) in next.iter().enumerate() {
        for (at, byte) in bytes.iter().enumerate() {
            let term = TERMS * interleaved_lane(at % LANES) + column % TERMS;
            interleaved[at / LANES][column / TERMS][term] = *byte;
        }
    }
}

pub(super) fn reduce(from: &PlaneSums, sums: &mut Elements) {
    for (plane, from) in from.iter().enumerate() {
        for (lane, &from) in from.iter().enumerate() {
            let sum = &mut sums[lane / 16][plane / 4][lane % 16];
            let total = i64::from(*sum) + (i64::from(from) << (8 * (plane % 4)));
            *sum = total.rem_euclid(i64::from(P)) as u32;
        }
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
