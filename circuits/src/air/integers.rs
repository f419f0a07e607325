//! Small integers as elements of the field.

use stwo::core::fields::m31::BaseField;

/// A (possibly negative) small integer as a field element.
pub fn base(v: i64) -> BaseField {
    BaseField::from_u32_unchecked(v.rem_euclid(i64::from(stwo::core::fields::m31::P)) as u32)
}
