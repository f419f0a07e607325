//! Lifting a message to more variables: it does not depend on those that are added, which are the least significant ones.
//! Its multilinear extension then has the value of the original at the first coordinates of a point, whatever the others are,
//! and folding takes the lifted codeword back to the original one, whatever the challenges are.

use num_traits::{One, Zero};
use stwo::core::circle::CirclePoint;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;

use super::circle::line_coordinate;
use super::params::CommitmentParams;

/// The code of a sum of messages: the code of the longest one, of equally long ones the first. `None` if there are none.
pub fn longest<'a>(codes: impl IntoIterator<Item = &'a CommitmentParams>) -> Option<CommitmentParams> {
    let longer = |a: &'a CommitmentParams, b: &'a CommitmentParams| match a.log_message < b.log_message {
        true => b,
        false => a,
    };
    codes.into_iter().reduce(longer).copied()
}

/// A point of a message as a point of one of so many variables. A point of a lifted message may have any coordinates behind its
/// own; here they are zeros.
pub fn extend(mut point: Vec<SecureField>, variables: u32) -> Vec<SecureField> {
    let variables = variables as usize;
    if point.len() < variables {
        point.resize(variables, SecureField::zero());
    }
    point
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
