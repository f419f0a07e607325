//! Changes of several places at once, which repair the check that would notice one alone.

use num_traits::One;
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use tessera_circuits::shape::{Part, Shape};
use tessera_circuits::wiring::{product_variables, PRODUCTS};
use tessera_verifier::stark::StarkError;
use tessera_verifier::sumcheck::instance_scale;
use tessera_verifier::verify::VerifyError;

use crate::tree::Tree;
use crate::{answer, honest, Honest};

/// The factors of the products changed so that the matmul sumcheck still ends in them. What it would gain: a
/// free one-hot matrix, that is, other tokens.
#[test]
fn compensated_operands_are_rejected() {
    let [Honest { key, proof, .. }, _] = honest();
    let mut tampered = proof.clone();
    let shape = Shape::new(&key.config, proof.statement.rows());
    let scale = |i: usize| {
        let own = PRODUCTS[i].variables(&shape) as usize;
        instance_scale(product_variables(&shape) as usize, own)
    };
    let operands = &mut tampered.matmuls.operands;
    let embed = PRODUCTS.len() - 3;
    let other = embed - 1;
    operands[embed][0] += SecureField::one();
    let gained = scale(embed) * operands[embed][1];
    let per_unit = scale(other) * operands[other][1];
    operands[other][0] -= gained * per_unit.inverse();
    let result = answer(key, &tampered);
    assert!(matches!(result, Err(VerifyError::Embedding)), "{result:?}");
}

/// A sum moved from one part to another: the total is right. What it would gain: lookups of one part answered
/// by nothing. The transcript absorbs the sums, so the samples are those of another point; that the sum of
/// each part is constrained is for forged proofs to test.
#[test]
fn sums_moved_between_parts_are_rejected() {
    let [Honest { key, proof, .. }, _] = honest();
    let results = [1u32, 2, 3].map(|delta| {
        let mut tampered = proof.clone();
        tampered.claimed_sums[0] += SecureField::from(delta);
        tampered.claimed_sums[1] -= SecureField::from(delta);
        answer(key, &tampered)
    });
    let answers = "answers of a column";
    let carry = |e: &_| matches!(e, Err(VerifyError::Stark(StarkError::Carry(Part::Stream))));
    let redrawn = |e: &_| matches!(e, Err(VerifyError::Stark(StarkError::Length { what, .. })) if *what == answers);
    assert!(results.iter().all(|e| carry(e) || redrawn(e)), "{results:?}");
    assert!(results.iter().any(carry), "{results:?}");
}

/// Every field of a proof, small or large, taken from another honest proof of the same model and shape.
#[test]
fn fields_of_another_honest_proof_are_rejected() {
    let [Honest { key, proof, .. }, other] = honest();
    let other = &other.proof;
    answer(key, other).expect("the other proof verifies");
    let (own, other) = (Tree::new(proof), Tree::new(other));
    let mut accepted = Vec::new();
    let mut tried = 0;
    for name in own.fields() {
        let Some(swapped) = own.with_field_of(&other, &name) else {
            continue;
        };
        tried += 1;
        match answer(key, &swapped) {
            Err(VerifyError::Stark(StarkError::Panicked)) => panic!("{name}: the library panics"),
            Err(_) => {}
            Ok(()) => accepted.push(name),
        }
    }
    assert!(accepted.is_empty(), "{accepted:?}");
    assert!(tried > 40, "{tried} fields differ");
}
