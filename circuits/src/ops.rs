//! The operators of the forward pass, one file each (docs/protocol.md, section 16), and everything that is made by asking all of
//! them: row spaces and claims. What neither a lookup nor a claim of an operator speaks of is free.
//!
//! An operator is added as a file and a line of [`operators`].

pub mod attention;
pub mod ff;
pub mod head_norms;
pub mod ids;
pub mod logits;
pub mod norms;
mod operator;
pub mod rope;
pub mod softmax;
pub mod stream;
pub mod values;
mod weights;

pub use self::operator::{Finals, Operator};

use std::collections::BTreeSet;

use stwo::core::fields::qm31::SecureField;

use crate::air::lookups::Relation;
use crate::chunk::Chunk;
use crate::claims::LinearClaim;
use crate::model::{LimbSet, Limbs, ModelConfig};
use crate::scalar::Scalar;
use crate::shape::{Part, Shape};
use crate::sizes::Sizes;
use crate::statement::Lengths;
use crate::wiring::{Claims, Public};

/// All operators, in the order of their claims.
pub fn operators<'a, K: Scalar + 'a>() -> Vec<&'a dyn Operator<K>> {
    vec![
        &stream::Stream,
        &norms::Norm,
        &rope::Projected(Part::Q),
        &head_norms::HeadNorms(Part::Q),
        &rope::Rotated(Part::Q),
        &rope::Projected(Part::K),
        &head_norms::HeadNorms(Part::K),
        &rope::Rotated(Part::K),
        &values::Values,
        &softmax::Softmax,
        &attention::Attention,
        &ff::Mlp,
        &logits::Choice,
        &ids::Ids,
    ]
}

impl Shape {
    /// Row spaces of a whole model for a statement of these lengths.
    pub fn new(model: &ModelConfig, lengths: impl Into<Lengths>) -> Self {
        Self::of(model, &Chunk::whole(model.layers), lengths)
    }

    /// Row spaces of a chunk of a model for a statement of these lengths.
    pub fn of(model: &ModelConfig, chunk: &Chunk, lengths: impl Into<Lengths>) -> Self {
        Self::with_limbs(model, LimbSet::all(Limbs::Two), chunk, lengths)
    }

    /// The same with other limbs of accumulators than two of all.
    pub fn with_limbs(model: &ModelConfig, limbs: LimbSet, chunk: &Chunk, lengths: impl Into<Lengths>) -> Self {
        Self::of_sizes(Sizes::new(model, limbs, chunk, lengths))
    }

    /// Not generic: every crate that calls it would have all operators once more.
    fn of_sizes(sizes: Sizes) -> Self {
        let operators = operators::<SecureField>();
        let rows = operators.iter().flat_map(|operator| operator.parts(&sizes)).collect();
        let shape = Self::of_rows(sizes, rows);
        let products = operators
            .iter()
            .flat_map(|operator| operator.products(&shape))
            .collect();
        shape.with_products(products)
    }
}

impl ModelConfig {
    /// The relations in which a model has lookups, in the order in which they have multiplicities and challenges. They follow from the
    /// lookups themselves, so that none can be without a challenge. Length and chunk of a statement do not matter, because the tables
    /// are the key's.
    pub fn relations(&self) -> Vec<Relation> {
        let sizes = Sizes::new(self, LimbSet::all(Limbs::Two), &Chunk::whole(self.layers), 1);
        let operators = operators::<SecureField>().into_iter();
        let lookups = operators
            .flat_map(|operator| operator.parts(&sizes))
            .flat_map(|part| part.air.lookups);
        let all: BTreeSet<Relation> = lookups.map(|lookup| lookup.relation).collect();
        all.into_iter().collect()
    }
}

impl Sizes {
    /// The largest number of accumulators ([`Operator::numbers`]).
    pub fn last_number(&self) -> usize {
        let operators = operators::<SecureField>().into_iter();
        let numbers = operators.flat_map(|operator| operator.numbers(self));
        numbers.max().unwrap_or(0)
    }
}

impl<K: Scalar> Public<'_, K> {
    /// All claims that are fixed before the product sumcheck: accumulators at the random point, batched, whose value is the claim
    /// of that sumcheck (sections 5, 7 and 8.1); other roundings and clipped values; and what is claimed across rows.
    pub fn trace_claims(&self) -> Vec<LinearClaim<K>> {
        let mut rounded = Claims::new(self.biases());
        let operators = operators();
        operators
            .iter()
            .for_each(|operator| operator.rounded(self, &mut rounded));
        let across = operators.iter().flat_map(|operator| operator.across(self));
        let claims = rounded.all().into_iter().chain(across);
        claims.map(|claim| claim.in_lanes(self.shape)).collect()
    }

    /// Claims on the trace operands that the product sumcheck ends with, in the order of the products; `point` is where it ends.
    pub fn operand_claims(&self, point: &[K]) -> Vec<LinearClaim<K>> {
        let finals = Finals {
            shape: self.shape,
            point,
        };
        let operators = operators().into_iter();
        let mut claims: Vec<_> = operators
            .flat_map(|operator| operator.operands(self, &finals))
            .collect();
        claims.sort_by_key(|(product, _)| *product);
        claims
            .into_iter()
            .map(|(_, claim)| claim.in_lanes(self.shape))
            .collect()
    }
}

#[cfg(test)]
mod tests;
