//! Sixteen elements of the extension field, with sums of products that are reduced once. A coordinate of a product is a sum of
//! four products of words, which fits 64 bits; what is left of it after one folding is summed on.

use std::ops::{Add, AddAssign, Mul, Sub};
use std::simd::cmp::SimdOrd;
use std::simd::{u32x16, u64x8, ToBytes};

use num_traits::Zero;
use rayon::prelude::*;
use stwo::core::fields::m31::{BaseField, P};
use stwo::core::fields::qm31::SecureField;

/// Elements of a vector.
pub const SIMD_LANES: usize = 16;
/// log2 of [`SIMD_LANES`].
pub const LOG_LANES: u32 = 4;

const ORDER: u32x16 = u32x16::splat(P);
const LOW: u64x8 = u64x8::splat(0xffff_ffff);
const MASK: u64x8 = u64x8::splat(P as u64);

/// Sixteen elements of the base field, below its order.
pub type Words = u32x16;

#[inline(always)]
fn add(a: Words, b: Words) -> Words {
    let sum = a + b;
    sum.simd_min(sum - ORDER)
}

#[inline(always)]
fn sub(a: Words, b: Words) -> Words {
    let difference = a - b;
    difference.simd_min(difference + ORDER)
}

/// The words of even lanes, each in 64 bits.
#[inline(always)]
pub fn even(a: Words) -> u64x8 {
    u64x8::from_ne_bytes(a.to_ne_bytes()) & LOW
}

/// The words of odd lanes, each in 64 bits.
#[inline(always)]
pub fn odd(a: Words) -> u64x8 {
    u64x8::from_ne_bytes(a.to_ne_bytes()) >> u64x8::splat(32)
}

/// Congruent, and below `2^34`.
#[inline(always)]
pub fn fold(v: u64x8) -> u64x8 {
    (v & MASK) + (v >> u64x8::splat(31))
}

/// Words from even and odd lanes that are below `2^61`.
#[inline(always)]
fn join([even, odd]: [u64x8; 2]) -> Words {
    let both = fold(even) | (fold(odd) << u64x8::splat(32));
    let words = u32x16::from_ne_bytes(both.to_ne_bytes());
    words.simd_min(words - ORDER)
}

/// Coordinates of products, in even or odd lanes.
type Wide = [u64x8; 4];

/// `(a + b i + (c + d i) u)(e + f i + (g + h i) u)`, where `u^2 = 2 + i`; `minus` has `-b` and `-d`, `twisted` has `2 g - h`
/// and `2 h + g`.
#[inline(always)]
fn coordinates([a, b, c, d]: Wide, minus: [u64x8; 2], [e, f, g, h]: Wide, twisted: [u64x8; 2]) -> Wide {
    let ([nb, nd], [p, q]) = (minus, twisted);
    [
        a * e + nb * f + c * p + nd * q,
        a * f + b * e + c * q + d * p,
        a * g + nb * h + c * e + nd * f,
        a * h + b * g + c * f + d * e,
    ]
}

/// Sixteen elements of the extension field: four coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed([Words; 4]);

impl Packed {
    pub const ZERO: Self = Self([Words::splat(0); 4]);

    /// From the words of each coordinate, below the order.
    #[inline(always)]
    pub fn from_words(coordinates: [Words; 4]) -> Self {
        Self(coordinates)
    }

    /// Elements of the base field.
    #[inline(always)]
    pub fn from_base(words: Words) -> Self {
        let zero = Words::splat(0);
        Self([words, zero, zero, zero])
    }

    pub fn broadcast(v: SecureField) -> Self {
        Self(v.to_m31_array().map(|c| Words::splat(c.0)))
    }

    #[inline(always)]
    pub fn from_array(values: &[SecureField; SIMD_LANES]) -> Self {
        // Elements one after the other, as they are in memory: a copy that the compiler leaves out.
        let elements = values.map(|v| v.to_m31_array().map(|c| c.0));
        let words = elements.as_flattened();
        let quarter = |i: usize| Words::from_slice(&words[SIMD_LANES * i..]);
        let ((e0, o0), (e1, o1)) = (quarter(0).deinterleave(quarter(1)), quarter(2).deinterleave(quarter(3)));
        let ((a, c), (b, d)) = (e0.deinterleave(e1), o0.deinterleave(o1));
        Self([a, b, c, d])
    }

    #[inline(always)]
    pub fn to_array(self) -> [SecureField; SIMD_LANES] {
        let [a, b, c, d] = self.0;
        let ((e0, e1), (o0, o1)) = (a.interleave(c), b.interleave(d));
        let ((w0, w1), (w2, w3)) = (e0.interleave(o0), e1.interleave(o1));
        let words = [w0, w1, w2, w3].map(|words| words.to_array());
        let (elements, _) = words.as_flattened().as_chunks::<4>();
        std::array::from_fn(|lane| SecureField::from_m31_array(elements[lane].map(BaseField::from_u32_unchecked)))
    }

    /// Zeros, in memory that is entered where it is first written.
    pub fn zeros(len: usize) -> Box<[Self]> {
        // SAFETY: an element is sixteen words of four coordinates, which may be zero.
        unsafe { Box::new_zeroed_slice(len).assume_init() }
    }

    /// The sum of the elements.
    pub fn total(self) -> SecureField {
        self.to_array().into_iter().sum()
    }

    /// Coordinates of the products, not reduced, in even and odd lanes.
    #[inline(always)]
    fn products(&self, other: &Self) -> [Wide; 2] {
        let ([_, b, _, d], [_, _, g, h]) = (self.0, other.0);
        let minus = [ORDER - b, ORDER - d];
        let twisted = [sub(add(g, g), h), add(add(h, h), g)];
        [
            coordinates(self.0.map(even), minus.map(even), other.0.map(even), twisted.map(even)),
            coordinates(self.0.map(odd), minus.map(odd), other.0.map(odd), twisted.map(odd)),
        ]
    }

    /// `a b + c d`, reduced once.
    #[inline(always)]
    pub fn dot([a, c]: [Self; 2], [b, d]: [Self; 2]) -> Self {
        let ([e, o], [f, p]) = (a.products(&b), c.products(&d));
        Self(std::array::from_fn(|i| {
            join([fold(e[i]) + fold(f[i]), fold(o[i]) + fold(p[i])])
        }))
    }

    /// Times elements of the base field, plus another element.
    #[inline(always)]
    pub fn mul_add(self, words: Words, plus: Self) -> Self {
        let (e, o) = (even(words), odd(words));
        Self(std::array::from_fn(|i| {
            let product = [
                e * even(self.0[i]) + even(plus.0[i]),
                o * odd(self.0[i]) + odd(plus.0[i]),
            ];
            join(product.map(fold))
        }))
    }

    /// As [`Self::mul_add`], times words below `2^30`, whose products are reduced at once.
    #[inline(always)]
    pub fn mul_add_short(self, words: Words, plus: Self) -> Self {
        let (e, o) = (even(words), odd(words));
        Self(std::array::from_fn(|i| {
            join([
                e * even(self.0[i]) + even(plus.0[i]),
                o * odd(self.0[i]) + odd(plus.0[i]),
            ])
        }))
    }

    /// Plus elements of the base field.
    #[inline(always)]
    pub fn add_words(self, words: Words) -> Self {
        let [a, b, c, d] = self.0;
        Self([add(a, words), b, c, d])
    }
}

impl From<SecureField> for Packed {
    fn from(v: SecureField) -> Self {
        Self::broadcast(v)
    }
}

impl Zero for Packed {
    #[inline(always)]
    fn zero() -> Self {
        Self::ZERO
    }

    fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }
}

impl Add for Packed {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| add(self.0[i], other.0[i])))
    }
}

impl AddAssign for Packed {
    #[inline(always)]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Packed {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| sub(self.0[i], other.0[i])))
    }
}

impl Mul for Packed {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        let [e, o] = self.products(&other);
        Self(std::array::from_fn(|i| join([fold(e[i]), fold(o[i])])))
    }
}

/// One element, as a factor of many vectors. It is kept as words: where the compiler cannot see that the upper halves of lanes are zero, it
/// multiplies all of their 64 bits, which takes some processors three times as long.
#[derive(Clone, Copy)]
pub struct Factor {
    coordinates: [Words; 4],
    twisted: [Words; 2],
}

impl Factor {
    pub fn new(v: SecureField) -> Self {
        let Packed(coordinates) = Packed::broadcast(v);
        let [_, _, g, h] = coordinates;
        Self {
            coordinates,
            twisted: [sub(add(g, g), h), add(add(h, h), g)],
        }
    }
}

impl Mul<Factor> for Packed {
    type Output = Self;
    #[inline(always)]
    fn mul(self, factor: Factor) -> Self {
        let [_, b, _, d] = self.0;
        let minus = [ORDER - b, ORDER - d];
        // All lanes of a factor are the same.
        let (other, twisted) = (factor.coordinates.map(even), factor.twisted.map(even));
        let e = coordinates(self.0.map(even), minus.map(even), other, twisted);
        let o = coordinates(self.0.map(odd), minus.map(odd), other, twisted);
        Self(std::array::from_fn(|i| join([fold(e[i]), fold(o[i])])))
    }
}

/// A sum of up to `2^29` products.
#[derive(Clone, Copy)]
pub struct Sum([Wide; 2]);

impl Sum {
    pub const ZERO: Self = Self([[u64x8::splat(0); 4]; 2]);

    /// Adds a product.
    #[inline(always)]
    pub fn add(&mut self, a: Packed, b: Packed) {
        for (own, products) in self.0.iter_mut().zip(a.products(&b)) {
            for (own, product) in own.iter_mut().zip(products) {
                *own += fold(product);
            }
        }
    }

    /// The sums of the sixteen lanes.
    pub fn packed(self) -> Packed {
        let [e, o] = self.0;
        Packed(std::array::from_fn(|i| join([fold(e[i]), fold(o[i])])))
    }
}

/// A table of zeros, in memory that is entered where it is first written.
pub fn zeros(len: usize) -> Vec<SecureField> {
    // SAFETY: an element is four words, which may be zero.
    unsafe { Box::<[SecureField]>::new_zeroed_slice(len).assume_init() }.into_vec()
}

/// The same of elements of the base field.
pub fn base_zeros(len: usize) -> Vec<BaseField> {
    // SAFETY: an element is a word, which may be zero.
    unsafe { Box::<[BaseField]>::new_zeroed_slice(len).assume_init() }.into_vec()
}

/// Vectors that a thread packs at least.
const GRAIN: usize = 1 << 9;

/// Entries in packs, as many as fill them.
pub fn pack(values: &[SecureField]) -> Vec<Packed> {
    let (chunks, _) = values.as_chunks::<SIMD_LANES>();
    chunks.par_iter().with_min_len(GRAIN).map(Packed::from_array).collect()
}

/// The entries of packs, one by one.
pub fn unpack(values: &[Packed]) -> Vec<SecureField> {
    values.iter().flat_map(|pack| pack.to_array()).collect()
}

/// Linear combinations of elements of the base field: `a + f b` and the like.
pub mod words {
    use super::{add, even, fold, join, odd, sub, BaseField, Words};

    /// A word in all lanes.
    pub fn splat(v: BaseField) -> Words {
        Words::splat(v.0)
    }

    /// Sixteen values of a column.
    #[inline(always)]
    pub fn load(column: &[BaseField; super::SIMD_LANES]) -> Words {
        Words::from_array(column.map(|v| v.0))
    }

    #[inline(always)]
    pub fn plus(a: Words, b: Words) -> Words {
        add(a, b)
    }

    #[inline(always)]
    pub fn minus(a: Words, b: Words) -> Words {
        sub(a, b)
    }

    #[inline(always)]
    pub fn times(a: Words, b: Words) -> Words {
        join([even(a) * even(b), odd(a) * odd(b)].map(fold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tessera_support::random::SplitMix;

    /// Elements with coordinates at both ends of the field and between.
    fn elements(rng: &mut SplitMix) -> [SecureField; SIMD_LANES] {
        let mut word = || {
            let v = match rng.below(4) {
                0 => 0,
                1 => u64::from(P) - 1,
                2 => u64::from(P) - 2,
                _ => rng.below(u64::from(P)),
            };
            BaseField::from_u32_unchecked(v as u32)
        };
        std::array::from_fn(|_| SecureField::from_m31_array(std::array::from_fn(|_| word())))
    }

    #[test]
    fn vectors_compute_as_their_elements_do() {
        let mut rng = SplitMix(5);
        for _ in 0..200 {
            let [a, b, c, d] = std::array::from_fn(|_| elements(&mut rng));
            let [x, y, v, w] = [a, b, c, d].map(|e| Packed::from_array(&e));
            let base = a.map(|e| e.to_m31_array()[2]);
            let words = words::load(&base);
            for i in 0..SIMD_LANES {
                assert_eq!((x + y).to_array()[i], a[i] + b[i]);
                assert_eq!((x - y).to_array()[i], a[i] - b[i]);
                assert_eq!((x * y).to_array()[i], a[i] * b[i]);
                assert_eq!((x * Factor::new(b[0])).to_array()[i], a[i] * b[0]);
                assert_eq!(Packed::dot([x, v], [y, w]).to_array()[i], a[i] * b[i] + c[i] * d[i]);
                assert_eq!(x.mul_add(words, y).to_array()[i], a[i] * base[i] + b[i]);
                assert_eq!(x.add_words(words).to_array()[i], a[i] + base[i]);
                // The largest of these words, too.
                let short = Words::splat((1 << 30) - 1).simd_min(words);
                let factor = BaseField::from_u32_unchecked(short[i]);
                assert_eq!(x.mul_add_short(short, y).to_array()[i], a[i] * factor + b[i]);
            }
            assert_eq!(x.total(), a.into_iter().sum());
            assert_eq!(Packed::broadcast(a[3]).to_array(), [a[3]; SIMD_LANES]);
        }
    }

    #[test]
    fn sums_of_the_largest_products_do_not_overflow() {
        let largest = SecureField::from_m31_array([BaseField::from_u32_unchecked(P - 1); 4]);
        let (packed, mut sum, mut expected) = (Packed::broadcast(largest), Sum::ZERO, SecureField::zero());
        for _ in 0..100_000 {
            sum.add(packed, packed);
            expected += largest * largest;
        }
        assert_eq!(sum.packed().to_array(), [expected; SIMD_LANES]);
    }

    #[test]
    fn words_compute_as_their_elements_do() {
        let mut rng = SplitMix(6);
        for _ in 0..100 {
            let [a, b] = [0, 1].map(|_| elements(&mut rng).map(|e| e.to_m31_array()[0]));
            let (x, y) = (words::load(&a), words::load(&b));
            for i in 0..SIMD_LANES {
                assert_eq!(words::plus(x, y)[i], (a[i] + b[i]).0);
                assert_eq!(words::minus(x, y)[i], (a[i] - b[i]).0);
                assert_eq!(words::times(x, y)[i], (a[i] * b[i]).0);
            }
        }
    }
}
