//! The matmuls of a chunk (docs/protocol.md, sections 5 and 6), and the claim on the weights that follows.

use stwo::core::fields::qm31::SecureField;
use tessera_circuits::chunk::PublicBoundary;
use tessera_circuits::claims::Operands;
use tessera_circuits::shape::{Product, Shape};
use tessera_circuits::wiring::Public;

use super::boundaries::said_of;
use super::error::VerifyError;
use crate::labels::{FAMILIES, MATMULS, OPERANDS};
use crate::listen::{Listener, Products, Received};
use crate::message::Unread;
use crate::proof::MatmulProof;
use crate::public::{families_of, products_form};
use crate::sumcheck;
use crate::transcript::Transcript;

/// All matmuls, reduced to their operands at a point.
pub(super) struct Matmuls<V> {
    /// The batched accumulators at the random point.
    pub claim: V,
    /// End point of the sumcheck.
    pub point: Vec<SecureField>,
    pub operands: Operands<V>,
    /// What committed boundaries are at the random point.
    pub boundaries: [Option<V>; 2],
    /// The public part of the operand of the embedding: all of it if no ids are hidden.
    pub embedding: SecureField,
    /// The rest of it.
    pub hidden: V,
}

/// Section 5 and 6: all matmuls.
pub(super) fn verify_matmuls<L: Listener>(
    public: &Public<'_>,
    proof: Unread<'_, MatmulProof>,
    listener: &mut L,
) -> Result<Matmuls<L::Value>, VerifyError> {
    let variables = public.shape.product_variables() as usize;
    let (claim, rounds) = (proof.part(|p| &p.claim), proof.part(|p| &p.sumcheck));
    let (claim, end) = sumcheck::verify_said(MATMULS, claim, variables, rounds, listener)?;
    let ends = public.ends.both();
    let committed = ends.map(|end| matches!(end, Some(PublicBoundary::Committed(_))));
    let further = usize::from(committed.contains(&true));
    let expected = public.shape.existing().count() + further;
    let said = proof.part(|p| &p.operands);
    let said = said.exactly(expected, |got| VerifyError::Products { got, expected })?;
    let said = listener.receive(OPERANDS, said)?;
    let operands = Operands::of(public.shape, &said);
    let boundaries = said.last().cloned().filter(|_| further > 0);
    let boundaries = said_of(committed, boundaries, || VerifyError::NoBoundary, listener)?;
    let equation = Products {
        operands: operands.values().concat(),
        forms: vec![(SecureField::from(1), products_form(public.shape))],
        sum: end.value,
    };
    listener.product(equation, VerifyError::Matmuls)?;
    let embedding = public.embed_operand(&end.point);
    let zero = || L::Value::from(SecureField::default());
    let [embed, _] = operands.get(Product::EMBED).unwrap_or_else(|| [zero(), zero()]);
    Ok(Matmuls {
        hidden: embed - embedding.into(),
        claim,
        point: end.point,
        operands,
        boundaries,
        embedding,
    })
}

/// Random weights of the weighted products in the claim on the weights.
pub fn weight_families(shape: &Shape, transcript: &mut Transcript) -> Vec<(Product, SecureField)> {
    families_of(shape, transcript.challenge(FAMILIES))
}

/// Value of the claim on the weights.
pub fn weight_claim<V: Received>(operands: &Operands<V>, families: &[(Product, SecureField)]) -> V {
    let value = |(product, family): &(Product, SecureField)| {
        let [_, weights] = operands.get(*product)?;
        Some(weights * *family)
    };
    let zero = V::from(SecureField::default());
    families.iter().filter_map(value).fold(zero, |sum, own| sum + own)
}
