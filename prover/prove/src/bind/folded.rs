//! Sums of products in 64 bits, which are folded before they overflow.

use stwo::core::fields::m31::{BaseField, P};
use stwo::core::fields::qm31::{SecureField, SECURE_EXTENSION_DEGREE};

/// Entries of a row that are summed together when rows are long.
pub(super) const BLOCK: usize = 64;
/// Products that fit 64 bits: `4 (2^31 - 1)^2 < 2^64`.
pub(super) const GROUP: usize = 4;
/// Products with words of sixteen bits that fit half of 64 bits.
pub(super) const SHORT_PRODUCTS: usize = 1 << 16;

/// Coordinates of a secure field element.
pub(super) type Coordinates = [u32; SECURE_EXTENSION_DEGREE];

/// Folds the high bits of a sum: congruent modulo `P`, below `2^34`.
const fn fold(v: u64) -> u64 {
    (v & P as u64) + (v >> 31)
}

/// A secure field element from sums of at most `2^28` folded values per coordinate.
pub(super) fn reduce(sums: [u64; SECURE_EXTENSION_DEGREE]) -> SecureField {
    SecureField::from_m31_array(sums.map(|v| BaseField::reduce(fold(v))))
}
