//! Sixteen rows at once, as the constraints are evaluated over them. An element of the extension field remembers whether it
//! is one or in the base field: the numerators of nearly all lookups are one, and the values that are looked up are in the
//! base field, so most products of general code are cheap or none.

use std::ops::{Add, AddAssign, Mul, MulAssign, Neg, Sub};

use num_traits::{One, Zero};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use stwo::core::Fraction;
use stwo::prover::backend::simd::m31::PackedBaseField;
use stwo::prover::backend::simd::qm31::PackedSecureField;

/// Base field elements of sixteen rows.
#[derive(Clone, Copy, Debug)]
pub struct Base(pub PackedBaseField);

/// Extension field elements of sixteen rows.
#[derive(Clone, Copy, Debug)]
pub enum Secure {
    /// One, in all rows.
    One,
    /// Elements of the base field.
    Base(PackedBaseField),
    Full(PackedSecureField),
}

/// A fraction of a lookup, in sixteen rows.
pub type SecureFraction = Fraction<Secure, Secure>;

impl Secure {
    /// The elements.
    #[inline(always)]
    pub fn packed(self) -> PackedSecureField {
        match self {
            Self::One => PackedSecureField::one(),
            Self::Base(v) => v.into(),
            Self::Full(v) => v,
        }
    }
}

/// Operations of [`Base`] with itself.
macro_rules! base {
    ($($trait:ident $name:ident $op:tt),*) => {$(
        impl $trait for Base {
            type Output = Self;
            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                Self(self.0 $op other.0)
            }
        }
    )*};
}
base!(Add add +, Sub sub -, Mul mul *);

/// Operations with operands that have to be converted first.
macro_rules! converted {
    ($($left:ident $trait:ident<$right:ident> $name:ident $op:tt $output:ident);* $(;)?) => {$(
        impl $trait<$right> for $left {
            type Output = $output;
            #[inline(always)]
            fn $name(self, other: $right) -> $output {
                $output::from(self) $op $output::from(other)
            }
        }
    )*};
}
converted!(
    Base Mul<BaseField> mul * Base;
    Base Add<SecureField> add + Secure;
    Base Mul<SecureField> mul * Secure;
    Secure Add<BaseField> add + Secure;
    Secure Mul<BaseField> mul * Secure;
    Secure Add<SecureField> add + Secure;
    Secure Sub<SecureField> sub - Secure;
    Secure Mul<SecureField> mul * Secure;
    Secure Add<Base> add + Secure;
    Secure Mul<Base> mul * Secure;
);

impl Neg for Base {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self(-self.0)
    }
}

impl AddAssign for Base {
    #[inline(always)]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl AddAssign<BaseField> for Base {
    #[inline(always)]
    fn add_assign(&mut self, other: BaseField) {
        *self = *self + Self::from(other);
    }
}

impl MulAssign for Base {
    #[inline(always)]
    fn mul_assign(&mut self, other: Self) {
        *self = *self * other;
    }
}

impl Zero for Base {
    #[inline(always)]
    fn zero() -> Self {
        Self(PackedBaseField::zero())
    }
    fn is_zero(&self) -> bool {
        self.0.is_zero()
    }
}

impl One for Base {
    #[inline(always)]
    fn one() -> Self {
        Self(PackedBaseField::one())
    }
}

impl FieldExpOps for Base {
    fn inverse(&self) -> Self {
        Self(self.0.inverse())
    }
}

impl From<BaseField> for Base {
    #[inline(always)]
    fn from(value: BaseField) -> Self {
        Self(PackedBaseField::broadcast(value))
    }
}

impl Add for Secure {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        match (self, other) {
            (Self::Full(a), Self::Full(b)) => Self::Full(a + b),
            (Self::Full(full), Self::Base(base)) | (Self::Base(base), Self::Full(full)) => Self::Full(full + base),
            (Self::Full(full), Self::One) | (Self::One, Self::Full(full)) => Self::Full(full + PackedBaseField::one()),
            (Self::Base(a), Self::Base(b)) => Self::Base(a + b),
            (Self::Base(base), Self::One) | (Self::One, Self::Base(base)) => Self::Base(base + PackedBaseField::one()),
            (Self::One, Self::One) => Self::Base(PackedBaseField::one() + PackedBaseField::one()),
        }
    }
}

impl Sub for Secure {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        match (self, other) {
            (Self::Full(a), Self::Full(b)) => Self::Full(a - b),
            (Self::Full(a), Self::Base(b)) => Self::Full(a - b),
            (a, b) => a + -b,
        }
    }
}

impl Mul for Secure {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        match (self, other) {
            (Self::One, v) | (v, Self::One) => v,
            (Self::Base(a), Self::Base(b)) => Self::Base(a * b),
            (Self::Full(full), Self::Base(base)) | (Self::Base(base), Self::Full(full)) => Self::Full(full * base),
            (Self::Full(a), Self::Full(b)) => Self::Full(a * b),
        }
    }
}

impl Neg for Secure {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        match self {
            Self::One => Self::Base(-PackedBaseField::one()),
            Self::Base(v) => Self::Base(-v),
            Self::Full(v) => Self::Full(-v),
        }
    }
}

impl AddAssign for Secure {
    #[inline(always)]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Zero for Secure {
    #[inline(always)]
    fn zero() -> Self {
        Self::Base(PackedBaseField::zero())
    }
    fn is_zero(&self) -> bool {
        self.packed().is_zero()
    }
}

impl One for Secure {
    #[inline(always)]
    fn one() -> Self {
        Self::One
    }
}

impl From<BaseField> for Secure {
    #[inline(always)]
    fn from(value: BaseField) -> Self {
        Self::Base(PackedBaseField::broadcast(value))
    }
}

impl From<Base> for Secure {
    #[inline(always)]
    fn from(value: Base) -> Self {
        Self::Base(value.0)
    }
}

impl From<SecureField> for Secure {
    #[inline(always)]
    fn from(value: SecureField) -> Self {
        match value == SecureField::one() {
            true => Self::One,
            false => Self::Full(PackedSecureField::broadcast(value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::SplitMix;

    /// Every operation on every kind of operands, against the same on single elements.
    #[test]
    fn kinds_of_elements_do_not_matter() {
        let mut rng = SplitMix(3);
        let mut word = || BaseField::from_u32_unchecked(rng.below(u64::from(stwo::core::fields::m31::P)) as u32);
        for _ in 0..20 {
            let (b, c) = (word(), word());
            let full = SecureField::from_m31(word(), word(), word(), word());
            let kinds = [
                (Secure::one(), SecureField::one()),
                (Secure::zero(), SecureField::zero()),
                (Secure::from(b), SecureField::from(b)),
                (Secure::from(Base::from(c)), SecureField::from(c)),
                (Secure::from(full), full),
                (Secure::from(SecureField::one()), SecureField::one()),
                (Secure::from(-full), -full),
            ];
            let equal = |packed: Secure, single: SecureField| assert_eq!(packed.packed().to_array(), [single; 16]);
            for (x, a) in kinds {
                equal(x, a);
                equal(-x, -a);
                assert_eq!(x.is_zero(), a.is_zero());
                for (y, b) in kinds {
                    equal(x + y, a + b);
                    equal(x - y, a - b);
                    equal(x * y, a * b);
                    let mut sum = x;
                    sum += y;
                    equal(sum, a + b);
                }
                equal(x + b, a + b);
                equal(x * b, a * b);
                equal(x + full, a + full);
                equal(x - full, a - full);
                equal(x * full, a * full);
                equal(x + Base::from(c), a + c);
                equal(x * Base::from(c), a * c);
            }
            let (x, y) = (Base::from(b), Base::from(c));
            for (packed, single) in [(x + y, b + c), (x - y, b - c), (x * y, b * c), (-x, -b), (x * c, b * c)] {
                assert_eq!(packed.0.to_array(), [single; 16]);
            }
            equal(x + full, full + b);
            equal(x * full, full * b);
            let mut sum = x;
            sum += y;
            sum += c;
            sum *= y;
            assert_eq!(sum.0.to_array(), [(b + c + c) * c; 16]);
        }
    }
}
