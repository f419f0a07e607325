//! Sixteen elements of M31 in a vector, with what encoding needs. As stwo's `PackedM31`, whose product is not inlined
//! into other crates: here the twiddle of a product is one element.

use std::ops::{Add, Mul, Sub};
use std::simd::cmp::SimdOrd;
use std::simd::num::SimdInt;
use std::simd::{i16x16, simd_swizzle, u32x16, u64x8, ToBytes};

use stwo::core::fields::m31::{BaseField, P};

use tessera_kernels::hashes;

const MODULUS: u32x16 = u32x16::splat(P);

/// Sixteen elements, each in `0..=P`.
#[derive(Clone, Copy, Debug)]
pub struct Packed(u32x16);

impl Packed {
    pub fn from_array(values: [BaseField; 16]) -> Self {
        Self(u32x16::from_array(values.map(|v| v.0)))
    }

    /// Zeros, in memory that is entered where it is first written.
    pub fn zeros(len: usize) -> Vec<Self> {
        // SAFETY: an element is sixteen words, which may be zero.
        let zeros = unsafe { Box::<[Self]>::new_zeroed_slice(len).assume_init() };
        zeros.into_vec()
    }

    /// Words of elements.
    pub const fn from_words(words: u32x16) -> Self {
        Self(words)
    }

    /// Sixteen vectors of which the first has the first elements of all rows, and so on.
    #[inline(always)]
    pub fn transposed(rows: [u32x16; 16]) -> [Self; 16] {
        hashes::transpose(rows).map(Self)
    }

    /// Small integers.
    #[inline(always)]
    pub fn from_weights(weights: i16x16) -> Self {
        let words: u32x16 = weights.cast::<i32>().cast();
        // A negative weight is a large word, and adding P wraps it back.
        Self(words.simd_min(words + MODULUS))
    }

    /// The words of the elements, reduced.
    #[inline(always)]
    pub fn words(self) -> u32x16 {
        self.0.simd_min(self.0 - MODULUS)
    }

    pub fn to_array(self) -> [BaseField; 16] {
        self.words().to_array().map(BaseField::from_u32_unchecked)
    }
}

impl Add for Packed {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        let sum = self.0 + other.0;
        Self(sum.simd_min(sum - MODULUS))
    }
}

impl Sub for Packed {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        let difference = self.0 - other.0;
        Self(difference.simd_min(difference + MODULUS))
    }
}

impl Mul<BaseField> for Packed {
    type Output = Self;
    #[inline(always)]
    fn mul(self, factor: BaseField) -> Self {
        // Twice the product has its bits from 31 on in the upper word and those below, doubled, in the lower.
        let double = u64x8::splat(u64::from(factor.0 << 1));
        let pairs = u64x8::from_ne_bytes(self.0.to_ne_bytes());
        let words = |products: u64x8| u32x16::from_ne_bytes(products.to_ne_bytes());
        let even = words((pairs & u64x8::splat(u64::from(u32::MAX))) * double);
        let odd = words((pairs >> 32) * double);
        let low = simd_swizzle!(even, odd, [0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30]);
        let high = simd_swizzle!(even, odd, [1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31]);
        Self(low >> 1) + Self(high)
    }
}
