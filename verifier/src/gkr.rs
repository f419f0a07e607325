//! Sums of fractions by GKR (docs/protocol.md, section 8.5), the twin of the prover's `gkr`.
//!
//! A tree of `n` layers has `2^n` fractions as leaves; a node is the sum of its children, node `x` of a layer of `2^k` that of
//! nodes `x` and `x + 2^k` of the next. Every tree is proved from its root: a claim on numerators and denominators of a layer,
//! as multilinear polynomials at a point, becomes by a sumcheck one on the next layer.
//!
//! **What the caller still owes:** the roots are right only if the claim on the leaves of every tree is discharged, and what they
//! sum up to ([`sum`]) is not compared with anything here.

use num_traits::Zero;
use serde::{Deserialize, Serialize};
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use tessera_circuits::trees::LeafClaim;
use thiserror::Error;

use crate::labels::{LOOKUP_CHILDREN, LOOKUP_LAYER, LOOKUP_ROUND, LOOKUP_SUM};
use crate::message::{NotCanonical, Unread};
use crate::sumcheck::{Received, Round, SumcheckClaim};
use crate::transcript::Transcript;

type K = SecureField;

/// The step from a layer to the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerProof {
    /// For every variable the polynomial `q` of degree 2 that is left of a round when `eq` is taken out: `q(0)` and its leading
    /// coefficient.
    pub rounds: Vec<Round>,
    /// Of both children at the end point: numerator and denominator of the first, then of the second.
    pub children: [K; 4],
}

/// A tree from its root to its leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeProof {
    /// The sum of the fractions of all leaves, and the product of their denominators.
    pub root: [K; 2],
    /// From the root on.
    pub layers: Vec<LayerProof>,
}

/// Trees that do not fit, or are not sums.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
// The messages say what each is.
#[allow(missing_docs)]
#[non_exhaustive]
pub enum GkrError {
    #[error("lookups: {got} trees, expected {expected}")]
    Trees { got: usize, expected: usize },
    #[error("lookups: tree {tree} has {got} layers, expected {expected}")]
    Layers { tree: usize, got: usize, expected: usize },
    #[error("lookups: layer {layer} of tree {tree} has {got} rounds")]
    Rounds { tree: usize, layer: usize, got: usize },
    #[error("lookups: the sum of tree {tree} has the denominator zero")]
    ZeroDenominator { tree: usize },
    #[error("lookups: a point of tree {tree} has a coordinate 0")]
    DegeneratePoint { tree: usize },
    #[error("lookups: layer {layer} of tree {tree} is not the sum of the next")]
    Layer { tree: usize, layer: usize },
    #[error(transparent)]
    NotCanonical(#[from] NotCanonical),
}

/// Numerator and denominator of a layer at `t` between both children.
pub fn between<V: Received>([n0, d0, n1, d1]: [V; 4], t: K) -> [V; 2] {
    [n0 + (n1 - n0) * t, d0 + (d1 - d0) * t]
}

/// Numerator, and `lambda` times the denominator, of the sum of both children: products of what is received.
pub fn sum_of_children([n0, d0, n1, d1]: [K; 4], lambda: K) -> K {
    n0 * d1 + n1 * d0 + lambda * d0 * d1
}

/// Numerator and denominator of the root, from the sum and the denominator: a product of what is received.
pub fn root_fraction([sum, denominator]: [K; 2]) -> [K; 2] {
    [sum * denominator, denominator]
}

/// What `(1 - x) q(0) + x q(1) = claim` leaves of a round at its challenge `c`: `q(c)`, of a message of `q(0)` and the leading
/// coefficient. `inverse` is that of `x`, the coordinate of the round in the point of its layer.
fn round_value<V: Received>(claim: V, [q0, leading]: Round<V>, inverse: K, c: K) -> V {
    let slope = (claim - q0) * inverse - leading;
    q0 + (slope + leading * c) * c
}

/// Verifies trees of `2^log` leaves each; the returned claims on the leaves must be discharged. Also returns the sum of the roots,
/// none of which has the denominator zero.
pub fn verify(
    logs: &[u32],
    proofs: Unread<'_, Vec<TreeProof>>,
    transcript: &mut Transcript,
) -> Result<(Vec<LeafClaim>, K), GkrError> {
    let expected = logs.len();
    let proofs = proofs.exactly(expected, |got| GkrError::Trees { got, expected })?;
    let (mut leaves, mut sum) = (Vec::with_capacity(expected), K::zero());
    for (tree, (log, proof)) in logs.iter().zip(proofs.each()).enumerate() {
        let (root, leaf) = verify_tree(tree, *log as usize, proof, transcript)?;
        leaves.push(leaf);
        sum += root[0];
    }
    Ok((leaves, sum))
}

/// Verifies a tree of so many layers. Also returns its root.
fn verify_tree(
    tree: usize,
    expected: usize,
    proof: Unread<'_, TreeProof>,
    transcript: &mut Transcript,
) -> Result<([K; 2], LeafClaim), GkrError> {
    let layers = proof.part(|p| &p.layers);
    let layers = layers.exactly(expected, |got| GkrError::Layers { tree, got, expected })?;
    let root = *transcript.receive(LOOKUP_SUM, proof.part(|p| &p.root))?;
    if root[1].is_zero() {
        return Err(GkrError::ZeroDenominator { tree });
    }
    let ([mut numerator, mut denominator], mut point) = (root_fraction(root), Vec::<K>::new());
    for (layer, step) in layers.each().enumerate() {
        let rounds = step.part(|p| &p.rounds);
        let rounds = rounds.exactly(layer, |got| GkrError::Rounds { tree, layer, got })?;
        let lambda = transcript.challenge(LOOKUP_LAYER);
        let mut end = SumcheckClaim::new(numerator + denominator * lambda);
        if point.iter().any(K::is_zero) {
            return Err(GkrError::DegeneratePoint { tree });
        }
        for (said, inverse) in rounds.each().zip(K::batch_inverse(&point)) {
            let value = |claim, message, c| round_value(claim, message, inverse, c);
            end.round(LOOKUP_ROUND, said, value, transcript)?;
        }
        let (children, t) = LOOKUP_CHILDREN.receive(step.part(|p| &p.children), transcript)?;
        if end.value != sum_of_children(children, lambda) {
            return Err(GkrError::Layer { tree, layer });
        }
        [numerator, denominator] = between(children, t);
        point = [vec![t], end.point].concat();
    }
    let leaf = LeafClaim {
        point,
        numerator,
        denominator,
    };
    Ok((root, leaf))
}

/// What the trees say that all their fractions add up to.
pub fn sum(proofs: &[TreeProof]) -> K {
    proofs.iter().fold(K::zero(), |sum, proof| sum + proof.root[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sumcheck::tests::{secure, Masked};
    use num_traits::One;
    use proptest::prelude::*;
    use stwo::core::fields::m31::{BaseField, P};

    proptest! {
        /// Rounds of a layer, and the step to the next one, are what they are without masks. Only the sum of both children is made of
        /// products.
        #[test]
        fn layers_run_on_masked_values(
            values in [secure(), secure(), secure(), secure()],
            masks in [secure(), secure(), secure(), secure()],
            challenges in [secure(), secure()],
        ) {
            let [a, b, c, d] = [0, 1, 2, 3].map(|i| Masked::new(values[i], masks[i]));
            let [v, w, x, y] = values;
            let [inverse, r] = challenges;
            let end = round_value(a, [b, c], inverse, r);
            prop_assert_eq!(end.value(), round_value(v, [w, x], inverse, r));
            prop_assert_eq!(between([a, b, c, d], r).map(Masked::value), between([v, w, x, y], r));
        }
    }

    /// A tree of four leaves, its first layer summed as it should be: 1 and 1 over 1, together 2 over 1.
    fn tree(rounds: Vec<Round>) -> Vec<TreeProof> {
        let one = K::one();
        let layer = |rounds| LayerProof {
            rounds,
            children: [one; 4],
        };
        vec![TreeProof {
            root: [one + one, one],
            layers: vec![layer(Vec::new()), layer(rounds)],
        }]
    }

    /// A round that is left out because it cannot be read would leave a claim at a point of fewer coordinates.
    #[test]
    fn rounds_that_are_not_canonical_are_refused() {
        let answer = |round| {
            let proofs = tree(vec![round]);
            verify(&[2], Unread::of(&proofs), &mut Transcript::new("test")).expect_err("a forged tree")
        };
        let (zero, wrong) = (K::zero(), K::from(BaseField::from_u32_unchecked(P)));
        assert_eq!(answer([zero; 2]), GkrError::Layer { tree: 0, layer: 1 });
        for round in [[wrong, zero], [zero, wrong]] {
            assert!(matches!(answer(round), GkrError::NotCanonical(_)));
        }
    }
}
