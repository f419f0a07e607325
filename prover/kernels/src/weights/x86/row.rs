//! Products of tiles and a single row of activations in AVX-512: tiles are read once, in the order of the file, and nothing but their
//! bytes takes time.

use std::arch::x86_64::*;

use super::super::{Activations, LimbSums, Plane, BLOCK, PLANE_BLOCKS, SIMD_LANES, TERMS};
use super::vector::{Products, Vector};

/// Vectors of a block.
const VECTORS: usize = BLOCK / __m512i::BYTES;
/// Blocks whose sums are folded together.
const FOLDED: usize = 4;

/// As [`super::super::multiply_row`].
///
/// # Safety
/// The processor must have AVX-512 F and BW with VNNI; there must be as many tiles of `PLANES` planes as sums.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) unsafe fn multiply<const PLANES: usize>(
    tiles: &[[Plane; PLANES]],
    next: &[Plane; PLANES],
    a: &Activations,
    block: usize,
    sums: &mut [LimbSums],
) {
    let spread = |limb: &[u8; SIMD_LANES]| -> [__m512i; VECTORS] {
        std::array::from_fn(|i| unsafe { __m512i::spread(limb.as_ptr().add(SIMD_LANES / VECTORS * i)) })
    };
    let (hi, lo) = (spread(&a.hi[block]), spread(&a.lo[block]));
    // The high limb is the signed factor: weights plus 128 are the unsigned one.
    let bias = (0..PLANES).fold(0i32, |sum, plane| sum.wrapping_add(a.bias[block] << (8 * plane)));
    let (sign, bias) = (__m512i::splat(0x8080_8080), __m512i::splat(bias.cast_unsigned()));
    for (i, (tile, sums)) in tiles.iter().zip(sums).enumerate() {
        let next = tiles.get(i + 1).unwrap_or(next);
        for first in (0..PLANE_BLOCKS).step_by(FOLDED) {
            let (mut high, mut low) = ([_mm512_setzero_si512(); FOLDED], [_mm512_setzero_si512(); FOLDED]);
            for (at, (high, low)) in high.iter_mut().zip(&mut low).enumerate() {
                let mut own = [_mm512_setzero_si512(); 2];
                // The high plane first: its sums are shifted.
                for (plane, next) in tile.iter().zip(next).rev() {
                    own = own.map(|sum| _mm512_slli_epi32::<8>(sum));
                    for x in 0..VECTORS {
                        let place = (first + at) * BLOCK + __m512i::BYTES * x;
                        // Bytes of four inputs of one output side by side.
                        let weights = __m512i::load(plane.as_ptr().add(place)).transpose();
                        _mm_prefetch::<_MM_HINT_T0>(next.as_ptr().add(place).cast());
                        own[0] = own[0].dot(weights.xor(sign), hi[x]);
                        own[1] = own[1].dot(lo[x], weights);
                    }
                }
                (*high, *low) = (own[0], own[1]);
            }
            let dots = [__m512i::fold(high).sub(bias), __m512i::fold(low)];
            for (sums, dot) in sums.iter_mut().zip(dots) {
                let to = sums.as_mut_ptr().add(TERMS * first).cast::<u8>();
                __m512i::load(to).add(dot).store(to);
            }
        }
    }
}
