//! Products with tiles in AVX2, which has no dot products of bytes: weights are widened to 16 bits once, for all tokens.

use std::arch::x86_64::*;

use super::super::layout::{Paired, PAIRS};
use super::super::{Activations, LimbSums, Plane, BLOCK, PLANE_BLOCKS, SIMD_LANES, TERMS};

/// Outputs of a vector.
const OUTPUTS: usize = 8;
/// Tokens whose sums stay in registers.
const TOKENS: usize = 3;
/// Vectors of outputs for which they do.
const GROUPS: usize = 2;

/// The weights of a tile: of every pair of inputs, and every eight outputs, the two weights of each output side by side.
#[repr(align(64))]
struct Wide([[[i16; 2 * OUTPUTS]; SIMD_LANES / OUTPUTS]; PAIRS]);

/// As [`super::super::multiply`].
#[target_feature(enable = "avx2")]
pub(super) fn multiply(tiles: &[&[Plane]], ahead: usize, a: &Activations, first: usize, sums: &mut [LimbSums]) {
    let mut wide = Wide([[[0; 2 * OUTPUTS]; SIMD_LANES / OUTPUTS]; PAIRS]);
    for (b, tile) in tiles.iter().enumerate() {
        widen(tile, ahead, &mut wide);
        let pairs = &a.pairs[(first + b) * a.tokens..][..a.tokens];
        // Two pairs rather than three tokens and a single one.
        let most = match a.tokens {
            tokens if tokens >= 4 && tokens % TOKENS == 1 => tokens - 4,
            tokens => tokens - tokens % TOKENS,
        };
        let ((most, rest), (pairs, last)) = (sums.split_at_mut(most), pairs.split_at(most));
        let most = most.as_chunks_mut::<TOKENS>().0.iter_mut();
        for (sums, pairs) in most.zip(pairs.as_chunks::<TOKENS>().0) {
            add_products(&wide, pairs, sums);
        }
        let ((two, one), (pairs, last)) = (rest.as_chunks_mut::<2>(), last.as_chunks::<2>());
        for (sums, pairs) in two.iter_mut().zip(pairs) {
            add_products(&wide, pairs, sums);
        }
        if let ([sums], [pairs]) = (one, last) {
            add_products(&wide, std::array::from_ref(pairs), std::array::from_mut(sums));
        }
    }
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
            let at = 2 * group * BLOCK + TERMS * x;
            let [a, b] = words(tile, at, order);
            let [c, d] = words(tile, at + BLOCK, order);
            for plane in tile {
                // Hints may have any address.
                let next = plane.as_ptr().wrapping_add(at + ahead);
                _mm_prefetch::<_MM_HINT_T0>(next.cast());
                _mm_prefetch::<_MM_HINT_T0>(next.wrapping_add(BLOCK).cast());
            }
            let pair = x / 2;
            store(_mm256_permute2x128_si256::<0x20>(a, c), &mut wide.0[pair][group]);
            store(_mm256_permute2x128_si256::<0x20>(b, d), &mut wide.0[pair + 1][group]);
            store(_mm256_permute2x128_si256::<0x31>(a, c), &mut wide.0[pair + 2][group]);
            store(_mm256_permute2x128_si256::<0x31>(b, d), &mut wide.0[pair + 3][group]);
        }
    }
}

/// Eight inputs of the four outputs of a block, from byte `at` on, as words: pairs of inputs 0 and 2 first, then 1 and 3.
#[target_feature(enable = "avx2")]
#[inline]
fn words(tile: &[Plane], at: usize, order: __m256i) -> [__m256i; 2] {
    let low = load(&tile[0], at);
    // What a signed low byte takes from the high one.
    let sign = _mm256_cmpgt_epi8(_mm256_setzero_si256(), low);
    let high = match tile.get(1) {
        Some(plane) => _mm256_add_epi8(load(plane, at), sign),
        None => sign,
    };
    [
        _mm256_shuffle_epi8(_mm256_unpacklo_epi8(low, high), order),
        _mm256_shuffle_epi8(_mm256_unpackhi_epi8(low, high), order),
    ]
}

/// Adds the products of a tile and some tokens. Sums wrap; those of two products do not.
#[target_feature(enable = "avx2")]
fn add_products<const T: usize>(wide: &Wide, pairs: &[Paired; T], sums: &mut [LimbSums; T]) {
    for group in (0..SIMD_LANES / OUTPUTS).step_by(GROUPS) {
        let mut acc = [[[_mm256_setzero_si256(); GROUPS]; 2]; T];
        for (p, weights) in wide.0.iter().enumerate() {
            let weights = [load_words(&weights[group]), load_words(&weights[group + 1])];
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
#[inline]
fn load(plane: &Plane, at: usize) -> __m256i {
    let bytes: &[u8; 32] = plane[at..].first_chunk().expect("a vector of the plane");
    // SAFETY: the bytes are those of a vector.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
#[inline]
fn load_words(words: &[i16; 16]) -> __m256i {
    // SAFETY: the words are those of a vector.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
#[inline]
fn store(v: __m256i, words: &mut [i16; 16]) {
    // SAFETY: the words are those of a vector.
    unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), v) }
}

#[target_feature(enable = "avx2")]
#[inline]
fn add_to(sums: &mut [i32; OUTPUTS], v: __m256i) {
    // SAFETY: the sums are those of a vector.
    unsafe {
        let at = sums.as_mut_ptr().cast();
        _mm256_storeu_si256(at, _mm256_add_epi32(_mm256_loadu_si256(at), v));
    }
}
