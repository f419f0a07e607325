//! Hidden ids in the embedding (docs/protocol.md, section 17.6).

use stwo::core::fields::qm31::SecureField;
use tessera_circuits::shape::Shape;

use super::error::VerifyError;
use crate::hiding::DigitsProof;
use crate::labels::{DIGITS, DIGIT_FACTORS};
use crate::listen::{Listener, Products};
use crate::message::Unread;
use crate::public::digits_form;
use crate::sumcheck;

/// The part of the embedding's operand that hidden ids make, reduced to their digits at a point.
pub(super) struct Digits<V> {
    /// The evaluations of both factors.
    pub factors: [V; 2],
    /// End point of the sumcheck.
    pub point: Vec<SecureField>,
}

/// Verifies that hidden ids add up to `claim` in the operand of the embedding. `None` if no ids of rows are hidden.
pub(super) fn verify_digits<L: Listener>(
    shape: &Shape,
    claim: L::Value,
    proof: Option<Unread<'_, DigitsProof>>,
    listener: &mut L,
) -> Result<Option<Digits<L::Value>>, VerifyError> {
    let Some(variables) = shape.digit_variables() else {
        listener.zero(claim, VerifyError::Embedding)?;
        let factors = proof.map(|proof| (proof.part(|p| &p.rounds.rounds), proof.part(|p| &p.factors)));
        if let Some((rounds, factors)) = factors {
            rounds.exactly(0, |got| VerifyError::Digits { got, expected: 0 })?;
            factors.exactly(0, |got| VerifyError::Digits { got, expected: 0 })?;
        }
        return Ok(None);
    };
    let missing = || VerifyError::Digits { got: 0, expected: 1 };
    let proof = proof.ok_or_else(missing)?;
    let end = sumcheck::verify(DIGITS, claim, variables, proof.part(|p| &p.rounds), None, listener)?;
    let factors = proof.part(|p| &p.factors);
    let factors = factors.exactly(1, |got| VerifyError::Digits { got, expected: 1 })?;
    let factors = listener.receive(DIGIT_FACTORS, factors)?;
    let factors = factors.into_iter().next().ok_or_else(missing)?;
    let equation = Products {
        operands: factors.to_vec(),
        forms: vec![(SecureField::from(1), digits_form())],
        sum: end.value,
    };
    listener.product(equation, VerifyError::Embedding)?;
    Ok(Some(Digits {
        factors,
        point: end.point,
    }))
}
