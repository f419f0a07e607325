//! Batched product sumcheck of degree 2 (docs/protocol.md, section 6), the twin of the prover's
//! `sumcheck`: the same loop, reading what the other writes.
//!
//! Instance `f` has `k_f` variables and pairs `(A, B)` of tables; its value is
//! `sum_z sum_pairs A(z) B(z)`. The batch claims the sum of all values. With `n` the largest `k_f`, a
//! smaller instance is embedded as `2^-(n - k_f) sum_pairs A(suffix) B(suffix)` over its last `k_f`
//! variables, so that it keeps its value and is bound at the last `k_f` challenges.
//!
//! **What the caller still owes:** [`verify`] rejects nothing but a wrong number of rounds. The batch claim
//! holds only if the returned [`SumcheckClaim`] is discharged, that is, if its value equals
//! `sum_f instance_scale(n, k_f) sum_pairs A~(rho_f) B~(rho_f)` with `rho_f` the last `k_f` coordinates of
//! its point ([`SumcheckClaim::instance_point`]) and evaluations that are themselves proved.

use serde::{Deserialize, Serialize};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use thiserror::Error;

use crate::transcript::Transcript;

/// `2^-1` in the base field.
const HALF: BaseField = BaseField::from_u32_unchecked(1 << 30);

/// Messages of the prover: `[s(0), s(2)]` of every round polynomial `s`; `s(1)` is implied by the claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SumcheckProof {
    /// Values at 0 and 2 of every round's polynomial.
    pub rounds: Vec<[SecureField; 2]>,
}

/// What remains to be shown after the last round: the batch polynomial has `value` at `point`.
#[must_use = "a sumcheck proves nothing until its final claim is discharged"]
#[derive(Debug, PartialEq, Eq)]
pub struct SumcheckClaim {
    /// The challenges, first variable first (MSB-first).
    pub point: Vec<SecureField>,
    /// What the claim comes down to at the point.
    pub value: SecureField,
}

impl SumcheckClaim {
    /// The point at which an instance of `instance_variables` variables is bound: the last coordinates.
    /// `None` when there are fewer.
    pub fn instance_point(&self, instance_variables: usize) -> Option<&[SecureField]> {
        let skip = self.point.len().checked_sub(instance_variables)?;
        self.point.get(skip..)
    }
}

/// A sumcheck that does not fit its statement.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
// The messages say what each is.
#[allow(missing_docs)]
#[non_exhaustive]
pub enum SumcheckError {
    /// The number of round messages is not the number of variables.
    #[error("sumcheck {label}: {got} rounds, expected {expected}")]
    Rounds { label: String, got: usize, expected: usize },
}

/// Absorbs what a sumcheck claims. Both sides call it first.
pub fn open_batch(label: &str, claim: SecureField, variables: usize, transcript: &mut Transcript) {
    let variables = variables as u64;
    transcript.words(label, &[variables as u32, (variables >> 32) as u32]);
    transcript.message(label, &[claim]);
}

/// Absorbs a round message and draws the challenge of its variable. Both sides call it once per round.
pub fn round_challenge(label: &str, message: [SecureField; 2], transcript: &mut Transcript) -> SecureField {
    transcript.message(label, &message);
    transcript.challenge(label)
}

/// `s(r)` of the polynomial of degree 2 with `s(0)`, `s(2)` as given and `s(0) + s(1) = claim`.
pub fn round_value(claim: SecureField, [s0, s2]: [SecureField; 2], r: SecureField) -> SecureField {
    let s1 = claim - s0;
    let slope = s1 - s0;
    let second = (s2 - s1 - slope) * HALF;
    s0 + r * (slope + (r - BaseField::from_u32_unchecked(1)) * second)
}

/// `2^-(variables - instance_variables)`: what the embedding multiplies an instance with.
pub fn instance_scale(variables: usize, instance_variables: usize) -> SecureField {
    instance_factor(variables, instance_variables).into()
}

/// The same as a number.
pub fn instance_factor(variables: usize, instance_variables: usize) -> BaseField {
    // 2 has order 31 modulo 2^31 - 1.
    let exponent = (instance_variables % 31 + 31 - variables % 31) % 31;
    BaseField::from_u32_unchecked(1 << exponent)
}

/// Verifies a batch over `variables` variables whose values add up to `claim`; the returned claim must be
/// discharged by the caller (see the module documentation).
pub fn verify(
    label: &str,
    claim: SecureField,
    variables: usize,
    proof: &SumcheckProof,
    transcript: &mut Transcript,
) -> Result<SumcheckClaim, SumcheckError> {
    if proof.rounds.len() != variables {
        return Err(SumcheckError::Rounds {
            label: label.to_owned(),
            got: proof.rounds.len(),
            expected: variables,
        });
    }
    open_batch(label, claim, variables, transcript);
    let mut value = claim;
    let mut point = Vec::with_capacity(variables);
    for &message in &proof.rounds {
        let r = round_challenge(label, message, transcript);
        value = round_value(value, message, r);
        point.push(r);
    }
    Ok(SumcheckClaim { point, value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_traits::One;
    use proptest::prelude::*;
    use stwo::core::fields::m31::P;

    fn secure() -> impl Strategy<Value = SecureField> {
        [0..P, 0..P, 0..P, 0..P].prop_map(|[a, b, c, d]| SecureField::from_u32_unchecked(a, b, c, d))
    }

    proptest! {
        #[test]
        fn round_value_interpolates([c0, c1, c2, r] in [secure(), secure(), secure(), secure()]) {
            let s = |x: SecureField| c0 + x * (c1 + x * c2);
            let [zero, one, two] = [0u32, 1, 2].map(SecureField::from);
            let claim = s(zero) + s(one);
            prop_assert_eq!(round_value(claim, [s(zero), s(two)], r), s(r));
        }

        #[test]
        fn scale_is_the_inverse_power_of_two(n in 0usize..200, k in 0usize..200) {
            let (large, small) = (n.max(k), n.min(k));
            let power = (small..large).fold(SecureField::one(), |acc, _| acc + acc);
            prop_assert_eq!(instance_scale(large, small) * power, SecureField::one());
        }
    }

    #[test]
    fn the_number_of_rounds_is_checked() {
        for got in [0, 1, 3] {
            let proof = SumcheckProof {
                rounds: vec![[SecureField::one(); 2]; got],
            };
            let result = verify("batch", SecureField::one(), 2, &proof, &mut Transcript::new("test"));
            let expected = SumcheckError::Rounds {
                label: "batch".to_owned(),
                got,
                expected: 2,
            };
            assert_eq!(result, Err(expected));
        }
    }

    #[test]
    fn no_variables_leave_the_claim() {
        let proof = SumcheckProof { rounds: vec![] };
        let claim = SecureField::from(7u32);
        let result = verify("batch", claim, 0, &proof, &mut Transcript::new("test"));
        assert_eq!(result.as_ref().map(|c| c.value), Ok(claim));
        let claim = result.unwrap();
        assert_eq!(claim.instance_point(0), Some(&[][..]));
        assert_eq!(claim.instance_point(1), None);
    }
}
