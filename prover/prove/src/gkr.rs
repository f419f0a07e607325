//! Sums of lookups by GKR (docs/protocol.md, section 8.5), the twin of the verifier's `gkr`: the same loop, writing what the
//! other reads.

use num_traits::Zero;
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use tessera_circuits::air::Relations;
use tessera_circuits::trees::{LeafClaim, LookupTree};
use tessera_verifier::gkr::{between, LayerProof, TreeProof};
use tessera_verifier::labels::{LOOKUP_CHILDREN, LOOKUP_LAYER, LOOKUP_ROUND, LOOKUP_SUM};
use tessera_verifier::transcript::Transcript;
use thiserror::Error;

use crate::device::{Columns, DeviceError, Layers};

type K = SecureField;

/// Proved trees.
#[derive(Clone, Debug)]
pub struct Proved {
    pub proofs: Vec<TreeProof>,
    /// What is left to show of the leaves of each.
    pub claims: Vec<LeafClaim>,
}

/// Why the sums of lookups could not be proved.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LookupError {
    /// A challenge hit 0 or 1 (probability below 2^-110).
    #[error("a challenge is degenerate; try again with another statement")]
    DegeneratePoint,
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Proves the sums of all trees of lookups in these columns. Fails where a challenge is zero, for which the verifier has no use.
pub fn prove(
    trees: &[LookupTree],
    columns: &dyn Columns,
    relations: &Relations,
    transcript: &mut Transcript,
) -> Result<Proved, LookupError> {
    let mut layers = columns.layers(trees, relations)?;
    let (mut proofs, mut claims) = (Vec::new(), Vec::new());
    for (number, tree) in trees.iter().enumerate() {
        let root = sum_of_root(layers.root(number)?);
        let (proof, claim) = prove_tree(root, tree.log_leaves(), &mut *layers, transcript)?;
        proofs.push(proof);
        claims.push(claim);
    }
    Ok(Proved { proofs, claims })
}

/// The sum and the denominator of a root. A denominator of zero, which has no inverse, is one that the verifier refuses.
fn sum_of_root([numerator, denominator]: [K; 2]) -> [K; 2] {
    match denominator.is_zero() {
        true => [numerator, denominator],
        false => [numerator * denominator.inverse(), denominator],
    }
}

/// Proves the sum of the leaves of the tree that was built.
fn prove_tree(
    root: [K; 2],
    log_leaves: u32,
    layers: &mut dyn Layers,
    transcript: &mut Transcript,
) -> Result<(TreeProof, LeafClaim), LookupError> {
    transcript.send(LOOKUP_SUM, &root);
    let (mut proved, mut point, mut value) = (Vec::new(), Vec::new(), [K::zero(); 2]);
    for _ in 0..log_leaves {
        let lambda = transcript.challenge(LOOKUP_LAYER);
        if lambda.is_zero() {
            return Err(LookupError::DegeneratePoint);
        }
        let (layer, challenges) = prove_layer(&point, lambda, layers, transcript)?;
        let t = LOOKUP_CHILDREN.send(&layer.children, transcript);
        value = between(layer.children, t);
        point = [vec![t], challenges].concat();
        proved.push(layer);
    }
    let [numerator, denominator] = value;
    let proof = TreeProof { root, layers: proved };
    let claim = LeafClaim {
        point,
        numerator,
        denominator,
    };
    Ok((proof, claim))
}

/// Proves the step from the layer of the node at `point` to the one below it. Also returns the challenges.
fn prove_layer(
    point: &[K],
    lambda: K,
    layers: &mut dyn Layers,
    transcript: &mut Transcript,
) -> Result<(LayerProof, Vec<K>), LookupError> {
    let mut layer = layers.layer(point, lambda)?;
    let mut message = layer.message()?;
    let (mut rounds, mut challenges) = (Vec::with_capacity(point.len()), Vec::with_capacity(point.len()));
    for _ in point {
        let c = LOOKUP_ROUND.send(&message, transcript);
        rounds.push(message);
        challenges.push(c);
        message = layer.bind(c)?;
    }
    let mut children = [K::zero(); 4];
    children.copy_from_slice(&layer.finish()?);
    Ok((LayerProof { rounds, children }, challenges))
}

#[cfg(test)]
mod tests;
