//! Lifting a message to more variables: it does not depend on those that are added, which are the least significant ones.
//! Its multilinear extension then has the value of the original at the first coordinates of a point, whatever the others are,
//! and folding takes the lifted codeword back to the original one, whatever the challenges are.

use num_traits::One;
use stwo::core::circle::CirclePoint;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;

use super::circle::line_coordinate;
use super::params::CommitmentParams;

/// The code of the sum of two messages: the code of the longer message.
pub const fn longer(a: &CommitmentParams, b: &CommitmentParams) -> CommitmentParams {
    match a.log_message < b.log_message {
        true => *b,
        false => *a,
    }
}

/// Two points of two messages as points of the longer one: the shorter gets the last coordinates of the other. A point of a
/// lifted message may have any.
pub fn extend([a, b]: [&[SecureField]; 2]) -> [Vec<SecureField>; 2] {
    let extended = |own: &[SecureField], other: &[SecureField]| {
        let more = other.get(own.len()..).unwrap_or_default();
        [own, more].concat()
    };
    [extended(a, b), extended(b, a)]
}

/// What the value of a codeword at index `index >> variables` of its line domain is multiplied with at index `index` of the
/// line domain of log size `log_line` of the message lifted by so many variables: where both halves of a message are `g`, its
/// value at `x` is `g + x g`. Never zero.
pub fn factor(log_line: u32, index: usize, variables: u32) -> BaseField {
    let mut x = line_coordinate(log_line, index);
    (0..variables).fold(BaseField::one(), |product, _| {
        let own = product * (BaseField::one() + x);
        x = CirclePoint::double_x(x);
        own
    })
}
