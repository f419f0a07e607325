//! Sums of fractions by GKR (docs/protocol.md, section 8.5), the twin of the prover's `gkr`.
//!
//! A tree of `n` layers has `2^n` fractions as leaves; a node is the sum of its children, node `x` of a layer of `2^k` that of
//! nodes `x` and `x + 2^k` of the next. Every tree is proved from its root: a claim on numerators and denominators of a layer,
//! as multilinear polynomials at a point, becomes by a sumcheck one on the next layer.
//!
//! **What the caller still owes:** the roots are right only if the claim on the leaves of every tree is discharged, and what they
//! sum up to ([`sum`]) is not compared with anything here.

use num_traits::{One, Zero};
use serde::{Deserialize, Serialize};
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use tessera_circuits::trees::LeafClaim;
use thiserror::Error;

use crate::transcript::Transcript;

type K = SecureField;

/// The step from a layer to the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerProof {
    /// For every variable the polynomial `q` of degree 2 that is left of a round when `eq` is taken out: `q(0)` and its leading
    /// coefficient.
    pub rounds: Vec<[K; 2]>,
    /// Of both children at the end point: numerator and denominator of the first, then of the second.
    pub children: [K; 4],
}

/// A tree from its root to its leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeProof {
    /// Numerator and denominator of the sum of all leaves.
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
}

/// Absorbs the root of a tree. Both sides call it first.
pub fn absorb_root(root: [K; 2], transcript: &mut Transcript) {
    transcript.message("lookup sum", &root);
}

/// Draws what combines numerators and denominators of a layer.
pub fn layer_challenge(transcript: &mut Transcript) -> K {
    transcript.challenge("lookup layer")
}

/// Absorbs a round and draws the challenge of its variable.
pub fn round_challenge(message: [K; 2], transcript: &mut Transcript) -> K {
    transcript.message("lookup round", &message);
    transcript.challenge("lookup round")
}

/// Absorbs the values of both children and draws the coordinate that chooses between them.
pub fn child_challenge(children: &[K; 4], transcript: &mut Transcript) -> K {
    transcript.message("lookup children", children);
    transcript.challenge("lookup children")
}

/// Numerator and denominator of a layer at `t` between both children.
pub fn between([n0, d0, n1, d1]: [K; 4], t: K) -> [K; 2] {
    [n0 + t * (n1 - n0), d0 + t * (d1 - d0)]
}

/// Verifies trees of `2^log` leaves each; the returned claims on the leaves must be discharged.
pub fn verify(logs: &[u32], proofs: &[TreeProof], transcript: &mut Transcript) -> Result<Vec<LeafClaim>, GkrError> {
    if proofs.len() != logs.len() {
        return Err(GkrError::Trees {
            got: proofs.len(),
            expected: logs.len(),
        });
    }
    for (tree, (log, proof)) in logs.iter().zip(proofs).enumerate() {
        let (got, expected) = (proof.layers.len(), *log as usize);
        if got != expected {
            return Err(GkrError::Layers { tree, got, expected });
        }
        if let Some(layer) = (0..got).find(|k| proof.layers.get(*k).is_none_or(|layer| layer.rounds.len() != *k)) {
            let got = proof.layers.get(layer).map_or(0, |layer| layer.rounds.len());
            return Err(GkrError::Rounds { tree, layer, got });
        }
        if proof.root[1].is_zero() {
            return Err(GkrError::ZeroDenominator { tree });
        }
    }
    let trees = proofs.iter().enumerate();
    trees
        .map(|(tree, proof)| verify_tree(tree, proof, transcript))
        .collect()
}

/// Verifies a tree whose layers have the right lengths.
fn verify_tree(tree: usize, proof: &TreeProof, transcript: &mut Transcript) -> Result<LeafClaim, GkrError> {
    absorb_root(proof.root, transcript);
    let [mut numerator, mut denominator] = proof.root;
    let mut point: Vec<K> = Vec::new();
    for (layer, step) in proof.layers.iter().enumerate() {
        let lambda = layer_challenge(transcript);
        let mut claim = numerator + lambda * denominator;
        if point.iter().any(K::is_zero) {
            return Err(GkrError::DegeneratePoint { tree });
        }
        let inverses = K::batch_inverse(&point);
        let mut next = Vec::with_capacity(point.len() + 1);
        for (message, inverse) in step.rounds.iter().zip(inverses) {
            let [q0, leading] = *message;
            // claim = (1 - r) q(0) + r q(1)
            let q1 = q0 + (claim - q0) * inverse;
            let c = round_challenge(*message, transcript);
            claim = q0 + c * (q1 - q0 - leading + c * leading);
            next.push(c);
        }
        let [n0, d0, n1, d1] = step.children;
        if claim != n0 * d1 + n1 * d0 + lambda * d0 * d1 {
            return Err(GkrError::Layer { tree, layer });
        }
        let t = child_challenge(&step.children, transcript);
        [numerator, denominator] = between(step.children, t);
        next.insert(0, t);
        point = next;
    }
    Ok(LeafClaim {
        point,
        numerator,
        denominator,
    })
}

/// The sum of the roots, none of which has the denominator zero, as [`verify`] has checked.
pub fn sum(proofs: &[TreeProof]) -> K {
    proofs.iter().fold(K::zero(), |sum, proof| {
        let [numerator, denominator] = proof.root;
        let inverse = if denominator.is_zero() {
            K::one()
        } else {
            denominator.inverse()
        };
        sum + numerator * inverse
    })
}
