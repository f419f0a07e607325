//! Products with tiles in AVX2, which has no dot products of bytes: weights are widened to 16 bits once, for all tokens.

use std::arch::x86_64::*;

use super::super::{Activations, LimbSums, Plane, BLOCK, PLANE_BLOCKS, SIMD_LANES, TERMS};

/// Outputs of a vector.
const OUTPUTS: usize = 8;
/// Pairs of inputs.
const PAIRS: usize = SIMD_LANES / 2;
/// Vectors of outputs whose sums stay in registers, for two tokens.
const GROUPS: usize = 2;

/// The weights of a tile: of every pair of inputs, and every eight outputs, the two weights of each output side by side.
#[repr(align(64))]
struct Wide([[[i16; 2 * OUTPUTS]; SIMD_LANES / OUTPUTS]; PAIRS]);

/// Activations of a token, `[limb][pair]`: two inputs side by side.
type Pairs = [[i32; PAIRS]; 2];

/// As [`super::super::multiply`].
#[target_feature(enable = "avx2")]
pub(super) fn multiply(tiles: &[&[Plane]], ahead: usize, a: &Activations, first: usize, sums: &mut [LimbSums]) {
    let mut wide = Wide([[[0; 2 * OUTPUTS]; SIMD_LANES / OUTPUTS]; PAIRS]);
    for (b, tile) in tiles.iter().enumerate() {
        widen(tile, ahead, &mut wide);
        let at = (first + b) * a.tokens;
        let (two, one) = sums.as_chunks_mut::<2>();
        for (i, sums) in two.iter_mut().enumerate() {
            let pairs = [at + 2 * i, at + 2 * i + 1].map(|row| pairs(a, row));
            add_products(&wide, &pairs, sums);
        }
        if let [sums] = one {
            let pairs = [pairs(a, at + a.tokens - 1)];
            add_products(&wide, &pairs, std::array::from_mut(sums));
        }
    }
}

fn pairs(a: &Activations, row: usize) -> Pairs {
    let pair = |a: i16, b: i16| i32::from(a) & 0xffff | i32::from(b) << 16;
    let (hi, lo) = (&a.hi[row], &a.lo[row]);
    [
        std::array::from_fn(|p| pair(i16::from(hi[2 * p] as i8), i16::from(hi[2 * p + 1] as i8))),
        std::array::from_fn(|p| pair(i16::from(lo[2 * p]), i16::from(lo[2 * p + 1]))),
    ]
}

/// Widens the weights of a tile of one plane, or of two of which the first has the low bytes. Both are signed.
#[target_feature(enable = "avx2")]
fn widen(tile: &[Plane], ahead: usize, wide: &mut Wide) {
    // The weights of two inputs, each of four outputs, become those of four outputs, each of two inputs.
    let order = _mm256_setr_epi8(
        0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15, 0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15,
    );
    for group in 0..PLANE_BLOCKS / 2 {
        // Eight inputs of four outputs at a time.
        for x in (0..SIMD_LANES).step_by(8) {
            let halves = [2 * group, 2 * group + 1].map(|block| {
                let at = block * BLOCK + TERMS * x;
                let low = load(&tile[0], at);
                // What a signed low byte takes from the high one.
                let sign = _mm256_cmpgt_epi8(_mm256_setzero_si256(), low);
                let high = match tile.get(1) {
                    Some(plane) => _mm256_add_epi8(load(plane, at), sign),
                    None => sign,
                };
                for plane in tile {
                    // Hints may have any address.
                    let next = plane.as_ptr().wrapping_add(at + ahead);
                    _mm_prefetch::<_MM_HINT_T0>(next.cast());
                }
                [_mm256_unpacklo_epi8(low, high), _mm256_unpackhi_epi8(low, high)]
                    .map(|v| _mm256_shuffle_epi8(v, order))
            });
            let pair = x / 2;
            for half in 0..2 {
                let (a, b) = (halves[0][half], halves[1][half]);
                store(_mm256_permute2x128_si256::<0x20>(a, b), &mut wide.0[pair + half][group]);
                store(
                    _mm256_permute2x128_si256::<0x31>(a, b),
                    &mut wide.0[pair + 2 + half][group],
                );
            }
        }
    }
}

/// Adds the products of a tile and some tokens. Sums wrap; those of two products do not.
#[target_feature(enable = "avx2")]
fn add_products<const T: usize>(wide: &Wide, pairs: &[Pairs; T], sums: &mut [LimbSums; T]) {
    for group in (0..SIMD_LANES / OUTPUTS).step_by(GROUPS) {
        let mut acc = [[[_mm256_setzero_si256(); GROUPS]; 2]; T];
        for (p, weights) in wide.0.iter().enumerate() {
            let weights: [__m256i; GROUPS] = std::array::from_fn(|g| load_words(&weights[group + g]));
            for (acc, pairs) in acc.iter_mut().zip(pairs) {
                for (acc, pairs) in acc.iter_mut().zip(pairs) {
                    let two = _mm256_set1_epi32(pairs[p]);
                    for (acc, weights) in acc.iter_mut().zip(weights) {
                        *acc = _mm256_add_epi32(*acc, _mm256_madd_epi16(weights, two));
                    }
                }
            }
        }
        for (sums, acc) in sums.iter_mut().zip(acc) {
            for (sums, acc) in sums.iter_mut().zip(acc) {
                let (own, _) = sums.as_chunks_mut::<OUTPUTS>();
                for (own, acc) in own[group..].iter_mut().zip(acc) {
                    add_to(own, acc);
                }
            }
        }
    }
}

#[target_feature(enable = "avx2")]
fn load(plane: &Plane, at: usize) -> __m256i {
    let bytes: &[u8; 32] = plane[at..].first_chunk().expect("a vector of the plane");
    // SAFETY: the bytes are those of a vector.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
fn load_words(words: &[i16; 16]) -> __m256i {
    // SAFETY: the words are those of a vector.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
fn store(v: __m256i, words: &mut [i16; 16]) {
    // SAFETY: the words are those of a vector.
    unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), v) }
}

#[target_feature(enable = "avx2")]
fn add_to(sums: &mut [i32; OUTPUTS], v: __m256i) {
    // SAFETY: the sums are those of a vector.
    unsafe {
        let at = sums.as_mut_ptr().cast();
        _mm256_storeu_si256(at, _mm256_add_epi32(_mm256_loadu_si256(at), v));
    }
}
