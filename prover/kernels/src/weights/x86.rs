//! The kernels in AVX2 and AVX-512 VNNI, written once over the vectors of either.

mod row;
mod vector;
mod wide;

use std::arch::x86_64::*;

use stwo::core::fields::qm31::SecureField;

use super::{
    pair, Activations, Coefficients, Elements, Isa, LimbSums, Lines, Plane, Run, Runs, BLOCK, BLOCK_COLUMNS, LINE, P,
    PLANE_BLOCKS, ROWS, SIMD_LANES, TERMS,
};
use vector::{Products, Vector};

fn check(isa: Isa) {
    assert!(isa.available(), "{isa:?} is not available on this processor");
}

/// Bytes that are fetched at a time; a block has one for every coordinate.
const CACHE_LINE: usize = 64;
const _: () = assert!(4 * CACHE_LINE == BLOCK);

/// Terms with which `b + 256 b'` of two sums stays in `-P..P`.
const FEW_TERMS: usize = P as usize / (257 * 255 * 128);

pub(super) fn combine(
    isa: Isa,
    blocks: &[[u8; BLOCK]],
    coefficients: &[Coefficients],
    sums: &mut [Elements],
    stream: bool,
) {
    check(isa);
    let stream = stream && on_a_line(sums.as_ptr());
    // SAFETY: the processor has the instructions, as was just checked.
    unsafe {
        match isa {
            Isa::Avx512 => combine_avx512(blocks, coefficients, sums, stream),
            _ => combine_avx2(blocks, coefficients, sums, stream),
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn combine_avx512(blocks: &[[u8; BLOCK]], coefficients: &[Coefficients], sums: &mut [Elements], stream: bool) {
    // SAFETY: the instructions are those of this function.
    unsafe { combine_with::<__m512i, 4>(blocks, coefficients, sums, stream) }
}

#[target_feature(enable = "avx2")]
fn combine_avx2(blocks: &[[u8; BLOCK]], coefficients: &[Coefficients], sums: &mut [Elements], stream: bool) {
    // SAFETY: the instructions are those of this function.
    unsafe { combine_with::<__m256i, 2>(blocks, coefficients, sums, stream) }
}

/// Whether all lines from a pointer on can be written past the caches.
fn on_a_line<T>(pointer: *const T) -> bool {
    pointer.addr().is_multiple_of(CACHE_LINE)
}

/// Blocks that are combined with all coordinates before the next ones: few enough to stay in the first level of the cache, with
/// those that are fetched meanwhile.
const STRIP: usize = 32;

/// `N` vectors of lanes at a time, a strip of blocks after the other; the sums of four planes stay in registers. What follows a
/// strip in memory is likely to be next: it is fetched meanwhile, a quarter for every coordinate, and what follows that is
/// asked for at the second level, which can wait for more lines at a time. Sums that are streamed must be aligned to a line.
///
/// # Safety
/// The processor must have the instructions of `V`.
#[inline(always)]
unsafe fn combine_with<V: Vector, const N: usize>(
    blocks: &[[u8; BLOCK]],
    coefficients: &[Coefficients],
    sums: &mut [Elements],
    stream: bool,
) {
    for (blocks, sums) in blocks.chunks_exact(coefficients.len()).zip(sums) {
        for first in (0..BLOCK).step_by(N * V::BYTES) {
            let mut acc = [[[V::splat(0); N]; 4]; 4];
            for (blocks, coefficients) in blocks.chunks(STRIP).zip(coefficients.chunks(STRIP)) {
                for (coordinate, acc) in acc.iter_mut().enumerate() {
                    let (next, size) = (coordinate * CACHE_LINE, size_of_val(blocks));
                    let fetch = |_, block: &[u8; BLOCK]| {
                        // Hints may have any address.
                        let at = block.as_ptr().wrapping_add(size + next);
                        _mm_prefetch::<_MM_HINT_T0>(at.cast());
                        _mm_prefetch::<_MM_HINT_T1>(at.wrapping_add(size).cast());
                    };
                    *acc = sum_products(*acc, blocks, coefficients, first, coordinate, fetch);
                }
            }
            for (coordinate, acc) in acc.into_iter().enumerate() {
                let put = |sum: V, to: *mut u8| match stream {
                    true => sum.stream(to),
                    false => sum.store(to),
                };
                match TERMS * blocks.len() <= FEW_TERMS {
                    true => reduce_to::<V, N, true>(acc, first, coordinate, sums, put),
                    false => reduce_to::<V, N, false>(acc, first, coordinate, sums, put),
                }
            }
        }
    }
    if stream {
        _mm_sfence();
    }
}

/// Adds to `acc` the products of the blocks and the planes of a coordinate, from byte `first` of the blocks on; calls
/// `meanwhile` with every block and its number.
///
/// # Safety
/// The processor must have the instructions of `V`, and the `N` vectors must be within a block.
#[inline(always)]
unsafe fn sum_products<V: Vector, const N: usize>(
    mut acc: [[V; N]; 4],
    blocks: &[[u8; BLOCK]],
    coefficients: &[Coefficients],
    first: usize,
    coordinate: usize,
    mut meanwhile: impl FnMut(usize, &[u8; BLOCK]),
) -> [[V; N]; 4] {
    for (i, (block, coefficients)) in blocks.iter().zip(coefficients).enumerate() {
        meanwhile(i, block);
        let mut terms = [V::splat(0); N];
        for (i, terms) in terms.iter_mut().enumerate() {
            *terms = V::load(block.as_ptr().add(first + i * V::BYTES));
        }
        for (byte, acc) in acc.iter_mut().enumerate() {
            let c = V::splat(coefficients[4 * coordinate + byte]);
            for (acc, terms) in acc.iter_mut().zip(terms) {
                *acc = acc.dot(c, terms);
            }
        }
    }
    acc
}

/// Sums of reduced elements, reduced.
///
/// # Safety
/// The processor must have the instructions of `V`.
#[inline(always)]
unsafe fn add_mod_p<V: Vector>(a: V, b: V) -> V {
    let sum = a.add(b);
    sum.min(sum.sub(V::splat(P)))
}

/// Reduces the sums of the four planes of a coordinate modulo P and gives them to `put`, with their places among the
/// elements. They must be those of at most [`MAX_TERMS`](super::MAX_TERMS) terms, or of [`FEW_TERMS`] if they are `FEW`.
///
/// # Safety
/// The processor must have the instructions of `V`, and the `N` vectors must be within a block.
#[inline(always)]
unsafe fn reduce_to<V: Vector, const N: usize, const FEW: bool>(
    [b0, b1, b2, b3]: [[V; N]; 4],
    first: usize,
    coordinate: usize,
    sums: &mut Elements,
    put: impl Fn(V, *mut u8),
) {
    let (p, sums) = (V::splat(P), sums.as_mut_ptr().cast::<u8>());
    for i in 0..N {
        let (low, high) = match FEW {
            // Both stay in -P..P.
            true => (b0[i].add(b1[i].shl::<8>()), b2[i].add(b3[i].shl::<8>())),
            false => {
                let [b1, b3] = [b1[i], b3[i]].map(|v| {
                    let v = v.min(v.add(p));
                    v.shl::<8>().and(p).or(v.shr::<23>())
                });
                let [b0, b2] = [b0[i], b2[i]].map(|v| v.min(v.add(p)));
                let (low, high) = (b0.add(b1), b2.add(b3));
                (low.min(low.sub(p)), high.min(high.sub(p)))
            }
        };
        // Adding P wraps unless the value is negative.
        let (low, high) = (low.min(low.add(p)), high.min(high.add(p)));
        // 2^16 times the high part: a rotation of 31 bits.
        let high = high.shl::<16>().and(p).or(high.shr::<15>());
        let sum = add_mod_p(low, high);
        // Lane `l` of the block is in group `l / 16`, whose coordinates have 64 bytes each.
        let lane = (first + i * V::BYTES) / TERMS;
        let at = sums.add(lane / 16 * 256 + coordinate * 64 + lane % 16 * 4);
        put(sum, at);
    }
}

pub(super) fn combine_columns(
    isa: Isa,
    columns: &Runs,
    coefficients: &[Coefficients],
    sums: &mut [Elements; ROWS],
    add: bool,
    next: (&[&Run], &mut Runs),
) {
    check(isa);
    // SAFETY: the processor has the instructions, as was just checked.
    unsafe {
        match isa {
            Isa::Avx512 => combine_columns_avx512(columns, coefficients, sums, add, next),
            _ => combine_columns_avx2(columns, coefficients, sums, add, next),
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn combine_columns_avx512(
    columns: &Runs,
    coefficients: &[Coefficients],
    sums: &mut [Elements; ROWS],
    add: bool,
    next: (&[&Run], &mut Runs),
) {
    // SAFETY: the instructions are those of this function.
    unsafe { combine_columns_with::<__m512i, 4>(columns, coefficients, sums, add, next) }
}

#[target_feature(enable = "avx2")]
fn combine_columns_avx2(
    columns: &Runs,
    coefficients: &[Coefficients],
    sums: &mut [Elements; ROWS],
    add: bool,
    next: (&[&Run], &mut Runs),
) {
    // SAFETY: the instructions are those of this function.
    unsafe { combine_columns_with::<__m256i, 2>(columns, coefficients, sums, add, next) }
}

/// Blocks between two lines that are interleaved.
const SPACE: usize = 4;

/// Runs that are interleaved row by row, two columns at a time.
struct Interleaving<'a> {
    runs: &'a [[&'a Run; BLOCK_COLUMNS]],
    to: &'a mut Runs,
    /// The next row: its columns, and its place in their runs.
    k: usize,
    row: usize,
}

impl Interleaving<'_> {
    /// Interleaves the next row, if there is one, and asks for the lines of columns further on: those that are next for the
    /// first level of the cache, and others for the second, which can wait for more lines at a time.
    ///
    /// # Safety
    /// The processor must have the instructions of `V`.
    #[inline(always)]
    unsafe fn step<V: Vector>(&mut self) {
        let Some(columns) = self.runs.get(self.k) else { return };
        self.fetch::<_MM_HINT_T0>(self.k + 2);
        self.fetch::<_MM_HINT_T1>(self.k + 6);
        interleave::<V>(columns, pair(self.row, 0), &mut self.to[self.row][self.k]);
        self.row += 1;
        if self.row == ROWS {
            (self.k, self.row) = (self.k + 1, 0);
        }
    }

    /// # Safety
    /// The processor must have the instructions.
    #[inline(always)]
    unsafe fn fetch<const HINT: i32>(&self, k: usize) {
        // After the last columns, the runs that follow those of the first ones are likely to be next.
        let (columns, run) = match self.runs.get(k) {
            Some(columns) => (columns, 0),
            None => (
                &self.runs[(k - self.runs.len()).min(self.runs.len() - 1)],
                size_of::<Run>(),
            ),
        };
        for column in columns {
            for piece in [0, BLOCK] {
                // A hint may have any address.
                let at = column.as_ptr().wrapping_add(run + pair(self.row, 0) + piece);
                _mm_prefetch::<HINT>(at.cast());
            }
        }
    }
}

/// The sums of four planes stay in registers for all columns. The next columns are interleaved a few lines in
/// every step, so that loads and unpacking overlap with products.
///
/// # Safety
/// The processor must have the instructions of `V`.
#[inline(always)]
unsafe fn combine_columns_with<V: Vector, const N: usize>(
    columns: &Runs,
    coefficients: &[Coefficients],
    sums: &mut [Elements; ROWS],
    add: bool,
    (next, interleaved): (&[&Run], &mut Runs),
) {
    let mut next = Interleaving {
        runs: next.as_chunks::<BLOCK_COLUMNS>().0,
        to: interleaved,
        k: 0,
        row: 0,
    };
    // Steps for every coordinate of every row, so that all rows get their turn.
    let share = (next.runs.len() * N * V::BYTES).div_ceil(4 * BLOCK);
    for (blocks, sums) in columns.iter().zip(sums) {
        let blocks = &blocks[..coefficients.len()];
        for first in (0..BLOCK).step_by(N * V::BYTES) {
            for coordinate in 0..4 {
                // Not unrolled, so that no register is wanted for two blocks at a time.
                let step = |i: usize, _: &[u8; BLOCK]| {
                    if i.is_multiple_of(SPACE) {
                        next.step::<V>();
                    }
                };
                let zeros = [[V::splat(0); N]; 4];
                let acc = sum_products(zeros, blocks, coefficients, first, coordinate, step);
                let put = |sum: V, to: *mut u8| match add {
                    true => add_mod_p(sum, V::load(to)).store(to),
                    false => sum.store(to),
                };
                match TERMS * blocks.len() <= FEW_TERMS {
                    true => reduce_to::<V, N, true>(acc, first, coordinate, sums, put),
                    false => reduce_to::<V, N, false>(acc, first, coordinate, sums, put),
                }
                for _ in blocks.len().div_ceil(SPACE)..share {
                    next.step::<V>();
                }
            }
        }
    }
}

pub(super) fn scatter(isa: Isa, sums: &[Elements; ROWS], lines: &Lines, add: bool, out: &mut [SecureField]) {
    check(isa);
    // SAFETY: the processor has the instructions, as was just checked.
    unsafe { scatter_avx512(sums, lines, add, out) }
}

/// An element in memory is its four coordinates, in order.
const _: () = {
    // SAFETY: an element has the size of the words and is made of integers, so that it has no other bytes.
    let words: [u32; 4] = unsafe { std::mem::transmute(SecureField::from_u32_unchecked(1, 2, 3, 4)) };
    assert!(words[0] == 1 && words[1] == 2 && words[2] == 3 && words[3] == 4);
};

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn scatter_avx512(sums: &[Elements; ROWS], lines: &Lines, add: bool, out: &mut [SecureField]) {
    let stream = on_a_line(out.as_ptr());
    for (sums, start) in sums.iter().zip(lines.starts) {
        for (column, group) in sums.iter().enumerate() {
            // SAFETY: the vectors are those of the group.
            let v = group
                .each_ref()
                .map(|c| unsafe { _mm512_loadu_si512(c.as_ptr().cast()) });
            // 128-bit lane `row` of `v` has four places of a coordinate; of `w[rest]`, four coordinates of a place.
            let ab = [_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1])];
            let cd = [_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3])];
            let w = [
                _mm512_unpacklo_epi64(ab[0], cd[0]),
                _mm512_unpackhi_epi64(ab[0], cd[0]),
                _mm512_unpacklo_epi64(ab[1], cd[1]),
                _mm512_unpackhi_epi64(ab[1], cd[1]),
            ];
            // Even and odd rows of two places, then single rows of four.
            let even = [0, 2].map(|i| _mm512_shuffle_i32x4::<0b10_00_10_00>(w[i], w[i + 1]));
            let odd = [0, 2].map(|i| _mm512_shuffle_i32x4::<0b11_01_11_01>(w[i], w[i + 1]));
            let rows = [
                _mm512_shuffle_i32x4::<0b10_00_10_00>(even[0], even[1]),
                _mm512_shuffle_i32x4::<0b10_00_10_00>(odd[0], odd[1]),
                _mm512_shuffle_i32x4::<0b11_01_11_01>(even[0], even[1]),
                _mm512_shuffle_i32x4::<0b11_01_11_01>(odd[0], odd[1]),
            ];
            for (row, places) in rows.into_iter().enumerate() {
                let line = start + (4 * row + column) * lines.stride;
                let to = out[line * LINE..][..LINE].as_mut_ptr().cast();
                // SAFETY: the bytes are those of four elements of the table, and aligned if they are streamed.
                unsafe {
                    match (add, stream) {
                        (true, _) => add_mod_p(places, __m512i::load(to)).store(to),
                        (false, true) => places.stream(to),
                        (false, false) => places.store(to),
                    }
                }
            }
        }
    }
    _mm_sfence();
}

/// The row whose first pair is at `at`. Unpacking works within 128-bit lanes: vector `i` gets pairs `4 i..4 i + 4` of every 16.
///
/// # Safety
/// The processor must have the instructions of `V`.
#[inline(always)]
unsafe fn interleave<V: Vector>(columns: &[&Run; BLOCK_COLUMNS], at: usize, block: &mut [u8; BLOCK]) {
    let [a, b] = columns.map(|column| column.as_ptr().add(at));
    for at in (0..SIMD_LANES).step_by(V::BYTES) {
        // A piece and the next one.
        let [one, two] = [at, at + BLOCK].map(|at| V::load(a.add(at)).unpack_words(V::load(b.add(at))));
        for (half, (one, two)) in one.into_iter().zip(two).enumerate() {
            for (i, lanes) in one.unpack_quads(two).into_iter().enumerate() {
                lanes.store(block.as_mut_ptr().add((2 * half + i) * SIMD_LANES + at));
            }
        }
    }
}

pub(super) fn multiply_wide(tiles: &[&[Plane]], ahead: usize, a: &Activations, first: usize, sums: &mut [LimbSums]) {
    check(Isa::Avx2);
    // SAFETY: the processor has the instructions, as was just checked.
    unsafe { wide::multiply(tiles, ahead, a, first, sums) }
}

pub(super) fn multiply_row<const PLANES: usize>(
    tiles: &[[Plane; PLANES]],
    next: &[Plane; PLANES],
    a: &Activations,
    block: usize,
    sums: &mut [LimbSums],
) {
    check(Isa::Avx512);
    assert_eq!(tiles.len(), sums.len(), "sums of every tile");
    // SAFETY: the processor has the instructions, and there are as many tiles as sums, as was just checked.
    unsafe { row::multiply(tiles, next, a, block, sums) }
}

/// Planes, and how many bytes behind each of them the next one is likely to be.
type Planes<'a> = (&'a [&'a Plane], usize);

pub(super) fn multiply(planes: Planes<'_>, a: &Activations, first: usize, shift: u32, sums: &mut [LimbSums]) {
    check(Isa::Avx512);
    // SAFETY: the processor has the instructions, as was just checked.
    unsafe { multiply_avx512(planes, a, first, shift, sums) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn multiply_avx512(planes: Planes<'_>, a: &Activations, first: usize, shift: u32, sums: &mut [LimbSums]) {
    // SAFETY: the instructions are those of this function.
    unsafe { multiply_with::<__m512i, 4>(planes, a, first, shift, sums) }
}

/// # Safety
/// The processor must have the instructions of `V`.
#[inline(always)]
unsafe fn multiply_with<V: Products, const N: usize>(
    planes: Planes<'_>,
    a: &Activations,
    first: usize,
    shift: u32,
    sums: &mut [LimbSums],
) {
    let (pairs, single) = sums.as_chunks_mut::<2>();
    for (i, pair) in pairs.iter_mut().enumerate() {
        multiply_tokens::<V, N, 2>(planes, a, first, 2 * i, shift, pair);
    }
    if let [sums] = single {
        multiply_tokens::<V, N, 1>(planes, a, first, a.tokens - 1, shift, std::array::from_mut(sums));
    }
}

/// Tokens `token..token + T`. `N` blocks at a time, each of four outputs; a vector of sums has one lane for
/// each output and each quarter (or half) of the inputs of a vector of weights.
///
/// # Safety
/// The processor must have the instructions of `V`.
#[inline(always)]
unsafe fn multiply_tokens<V: Products, const N: usize, const T: usize>(
    (planes, ahead): Planes<'_>,
    a: &Activations,
    first: usize,
    token: usize,
    shift: u32,
    sums: &mut [LimbSums; T],
) {
    let sign = V::splat(0x8080_8080);
    let inputs = V::BYTES / TERMS;
    let mut bias = [0i32; T];
    for b in first..first + planes.len() {
        for (t, bias) in bias.iter_mut().enumerate() {
            *bias = bias.wrapping_add(a.bias[b * a.tokens + token + t]);
        }
    }
    for block in (0..PLANE_BLOCKS).step_by(N) {
        let mut acc = [[[V::splat(0); N]; 2]; T];
        for (b, plane) in planes.iter().enumerate() {
            let row = (first + b) * a.tokens + token;
            for x in (0..SIMD_LANES).step_by(inputs) {
                let (mut weights, mut shifted) = ([sign; N], [sign; N]);
                for i in 0..N {
                    // Bytes of four inputs of one output side by side.
                    weights[i] = V::load(plane.as_ptr().add((block + i) * BLOCK + TERMS * x)).transpose();
                    // The high limb is the signed factor: weights plus 128 are the unsigned one.
                    shifted[i] = weights[i].xor(sign);
                }
                if token == 0 {
                    for i in 0..N {
                        // Hints may have any address.
                        let at = plane.as_ptr().wrapping_add((block + i) * BLOCK + TERMS * x + ahead);
                        _mm_prefetch::<_MM_HINT_T0>(at.cast());
                        _mm_prefetch::<_MM_HINT_T1>(at.wrapping_add(ahead).cast());
                    }
                }
                for (t, acc) in acc.iter_mut().enumerate() {
                    let hi = V::spread(a.hi[row + t].as_ptr().add(x));
                    let lo = V::spread(a.lo[row + t].as_ptr().add(x));
                    for i in 0..N {
                        acc[0][i] = acc[0][i].dot(shifted[i], hi);
                        acc[1][i] = acc[1][i].dot(lo, weights[i]);
                    }
                }
            }
        }
        for ((sums, acc), bias) in sums.iter_mut().zip(acc).zip(bias) {
            for ((sums, acc), bias) in sums.iter_mut().zip(acc).zip([bias, 0]) {
                let at = sums.as_mut_ptr().add(TERMS * block).cast::<u8>();
                let dot = V::fold(acc).sub(V::splat(bias as u32)).shl_by(shift);
                V::load(at).add(dot).store(at);
            }
        }
    }
}
