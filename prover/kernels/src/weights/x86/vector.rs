//! Vectors of AVX2 and AVX-512, with what the kernels need of them.

use std::arch::x86_64::*;

/// A vector of bytes or 32-bit lanes. Callers of the methods must make sure that the processor has the
/// instructions, and that pointers are valid for [`Vector::BYTES`] bytes (of any alignment).
pub(super) trait Vector: Copy {
    const BYTES: usize;
    unsafe fn load(from: *const u8) -> Self;
    unsafe fn store(self, to: *mut u8);
    /// As [`Vector::store`], past the caches; the pointer must be aligned. Before other threads read, there must be a fence.
    unsafe fn stream(self, to: *mut u8);
    /// The same 32 bits in every lane.
    unsafe fn splat(v: u32) -> Self;
    /// `self` plus, per 32-bit lane, four products of unsigned and signed bytes.
    unsafe fn dot(self, unsigned: Self, signed: Self) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    unsafe fn and(self, other: Self) -> Self;
    unsafe fn or(self, other: Self) -> Self;
    unsafe fn shl<const N: u32>(self) -> Self;
    unsafe fn shr<const N: u32>(self) -> Self;
    unsafe fn shl_by(self, n: u32) -> Self;
    /// Unsigned minimum of 32-bit lanes.
    unsafe fn min(self, other: Self) -> Self;
    unsafe fn unpack_words(self, other: Self) -> [Self; 2];
    unsafe fn unpack_quads(self, other: Self) -> [Self; 2];
}

/// What products with tiles need beside. AVX2 has products of its own ([`super::wide`]). Callers must make sure of the same as those of
/// [`Vector`].
pub(super) trait Products: Vector {
    /// 32-bit lane `4 i + j` is dword `i` of the bytes at `from`, which has as many dwords as the vector has
    /// 128-bit lanes.
    unsafe fn spread(from: *const u8) -> Self;
    unsafe fn xor(self, other: Self) -> Self;
    /// Transposes the 4 x 4 bytes of every 128-bit lane.
    unsafe fn transpose(self) -> Self;
    /// 128-bit lane `i` is the sum of the 128-bit lanes of vector `i`, one vector for each lane.
    unsafe fn fold<const N: usize>(vectors: [Self; N]) -> Self;
}

/// Control of the byte shuffle that transposes 4 x 4 bytes.
const TRANSPOSE: [u8; 16] = [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15];
/// Control that repeats dword `i` in 128-bit lane `i`.
const SPREAD: [u8; 64] = {
    let mut control = [0; 64];
    let mut i = 0;
    while i < 64 {
        control[i] = (4 * (i / 16) + i % 4) as u8;
        i += 1;
    }
    control
};

impl Vector for __m512i {
    const BYTES: usize = 64;
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        _mm512_loadu_si512(from.cast())
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        _mm512_storeu_si512(to.cast(), self);
    }
    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        _mm512_stream_si512(to.cast(), self);
    }
    #[inline(always)]
    unsafe fn splat(v: u32) -> Self {
        _mm512_set1_epi32(v as i32)
    }
    #[inline(always)]
    unsafe fn dot(self, unsigned: Self, signed: Self) -> Self {
        _mm512_dpbusd_epi32(self, unsigned, signed)
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        _mm512_add_epi32(self, other)
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        _mm512_sub_epi32(self, other)
    }
    #[inline(always)]
    unsafe fn and(self, other: Self) -> Self {
        _mm512_and_si512(self, other)
    }
    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        _mm512_or_si512(self, other)
    }
    #[inline(always)]
    unsafe fn shl<const N: u32>(self) -> Self {
        _mm512_slli_epi32::<N>(self)
    }
    #[inline(always)]
    unsafe fn shr<const N: u32>(self) -> Self {
        _mm512_srli_epi32::<N>(self)
    }
    #[inline(always)]
    unsafe fn shl_by(self, n: u32) -> Self {
        _mm512_sll_epi32(self, _mm_cvtsi32_si128(n as i32))
    }
    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        _mm512_min_epu32(self, other)
    }
    #[inline(always)]
    unsafe fn unpack_words(self, other: Self) -> [Self; 2] {
        [_mm512_unpacklo_epi16(self, other), _mm512_unpackhi_epi16(self, other)]
    }
    #[inline(always)]
    unsafe fn unpack_quads(self, other: Self) -> [Self; 2] {
        [_mm512_unpacklo_epi64(self, other), _mm512_unpackhi_epi64(self, other)]
    }
}

impl Products for __m512i {
    #[inline(always)]
    unsafe fn spread(from: *const u8) -> Self {
        let four = _mm512_broadcast_i32x4(_mm_loadu_si128(from.cast()));
        _mm512_shuffle_epi8(four, Self::load(SPREAD.as_ptr()))
    }
    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        _mm512_xor_si512(self, other)
    }
    #[inline(always)]
    unsafe fn transpose(self) -> Self {
        let control = _mm512_broadcast_i32x4(_mm_loadu_si128(TRANSPOSE.as_ptr().cast()));
        _mm512_shuffle_epi8(self, control)
    }
    #[inline(always)]
    unsafe fn fold<const N: usize>(v: [Self; N]) -> Self {
        // Even lanes plus odd lanes, first those of two vectors, then of two such sums.
        let pairs = |a, b| {
            _mm512_add_epi32(
                _mm512_shuffle_i32x4::<0b10_00_10_00>(a, b),
                _mm512_shuffle_i32x4::<0b11_01_11_01>(a, b),
            )
        };
        pairs(pairs(v[0], v[1]), pairs(v[2], v[3]))
    }
}

impl Vector for __m256i {
    const BYTES: usize = 32;
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        _mm256_loadu_si256(from.cast())
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        _mm256_storeu_si256(to.cast(), self);
    }
    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        _mm256_stream_si256(to.cast(), self);
    }
    #[inline(always)]
    unsafe fn splat(v: u32) -> Self {
        _mm256_set1_epi32(v as i32)
    }
    /// There is no such instruction that does not saturate: even and odd bytes are widened.
    #[inline(always)]
    unsafe fn dot(self, unsigned: Self, signed: Self) -> Self {
        let even = _mm256_madd_epi16(
            _mm256_and_si256(unsigned, _mm256_set1_epi16(0xff)),
            _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(signed)),
        );
        let odd = _mm256_madd_epi16(_mm256_srli_epi16::<8>(unsigned), _mm256_srai_epi16::<8>(signed));
        self.add(even).add(odd)
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        _mm256_add_epi32(self, other)
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        _mm256_sub_epi32(self, other)
    }
    #[inline(always)]
    unsafe fn and(self, other: Self) -> Self {
        _mm256_and_si256(self, other)
    }
    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        _mm256_or_si256(self, other)
    }
    #[inline(always)]
    unsafe fn shl<const N: u32>(self) -> Self {
        self.shl_by(N)
    }
    #[inline(always)]
    unsafe fn shr<const N: u32>(self) -> Self {
        _mm256_srl_epi32(self, _mm_cvtsi32_si128(N as i32))
    }
    #[inline(always)]
    unsafe fn shl_by(self, n: u32) -> Self {
        _mm256_sll_epi32(self, _mm_cvtsi32_si128(n as i32))
    }
    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        _mm256_min_epu32(self, other)
    }
    #[inline(always)]
    unsafe fn unpack_words(self, other: Self) -> [Self; 2] {
        [_mm256_unpacklo_epi16(self, other), _mm256_unpackhi_epi16(self, other)]
    }
    #[inline(always)]
    unsafe fn unpack_quads(self, other: Self) -> [Self; 2] {
        [_mm256_unpacklo_epi64(self, other), _mm256_unpackhi_epi64(self, other)]
    }
}
