//! Sums of lookups by GKR (docs/protocol.md, section 8.5), the twin of the verifier's `gkr`: the same loop, writing what the
//! other reads.

use num_traits::Zero;
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use tessera_circuits::air::Relations;
use tessera_circuits::trees::{groups, LeafClaim, LookupTree};
use tessera_verifier::gkr::{between, GroupProof, LayerProof};
use tessera_verifier::labels::{LOOKUP_CHILDREN, LOOKUP_LAYER, LOOKUP_ROUND, LOOKUP_SUM};
use tessera_verifier::sumcheck::Round;
use thiserror::Error;

use crate::device::{Columns, DeviceError, Entries, Layers};
use crate::speak::Speaker;

type K = SecureField;

/// Proved trees, group by group.
#[derive(Clone, Debug)]
pub struct Proved {
    pub proofs: Vec<GroupProof>,
    /// What is left to show of the leaves of each tree.
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

/// Proves the sums of all trees of lookups in these columns, and of the tree of the tables behind them, if there is one. Fails where a challenge is zero, for which the verifier has no use.
pub fn prove(
    (trees, entries): (&[LookupTree], Option<&Entries<'_>>),
    columns: &dyn Columns,
    relations: &Relations,
    speaker: &mut dyn Speaker,
) -> Result<Proved, LookupError> {
    let mut layers = columns.layers(trees, entries, relations)?;
    let own = trees.iter().map(LookupTree::log_leaves);
    let logs: Vec<u32> = own.chain(entries.map(|own| own.tree.log_leaves())).collect();
    let (mut proofs, mut claims) = (Vec::new(), Vec::new());
    for group in groups(&logs) {
        let roots = layers.roots(group.clone())?;
        let (proof, own) = prove_group(roots, group.start, &logs[group], &mut *layers, speaker)?;
        proofs.push(proof);
        claims.extend(own);
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

/// Proves the sums of the leaves of the trees that were built, `first` and those behind it.
fn prove_group(
    roots: Vec<[K; 2]>,
    first: usize,
    logs: &[u32],
    layers: &mut dyn Layers,
    speaker: &mut dyn Speaker,
) -> Result<(GroupProof, Vec<LeafClaim>), LookupError> {
    let roots: Vec<[K; 2]> = roots.into_iter().map(sum_of_root).collect();
    let roots = speaker.say(LOOKUP_SUM, &roots[..]);
    let (mut proved, mut point) = (Vec::new(), Vec::new());
    let mut claims: Vec<Option<LeafClaim>> = vec![None; logs.len()];
    for k in 0..logs.iter().max().map_or(0, |log| *log as usize) {
        let lambda = speaker.transcript().challenge(LOOKUP_LAYER);
        if lambda.is_zero() {
            return Err(LookupError::DegeneratePoint);
        }
        let active: Vec<usize> = (0..logs.len()).filter(|own| logs[*own] as usize > k).collect();
        let trees: Vec<usize> = active.iter().map(|own| first + own).collect();
        let (rounds, children, challenges) = prove_layer(&trees, &point, lambda, layers, speaker)?;
        let (said, t) = speaker.exchange(LOOKUP_CHILDREN, &children[..]);
        point = [vec![t], challenges].concat();
        for (own, children) in active.into_iter().zip(&children) {
            let [numerator, denominator] = between(*children, t);
            claims[own] = Some(LeafClaim {
                point: point.clone(),
                numerator,
                denominator,
            });
        }
        let children = said;
        proved.push(LayerProof { rounds, children });
    }
    let claims = claims.into_iter().flatten().collect();
    Ok((GroupProof { roots, layers: proved }, claims))
}

/// A proved step: the rounds as they were said, the children, and the challenges.
type Step = (Vec<Round>, Vec<[K; 4]>, Vec<K>);

/// Proves the step from the layer of the node at `point` of some trees to the one below it.
fn prove_layer(
    trees: &[usize],
    point: &[K],
    lambda: K,
    layers: &mut dyn Layers,
    speaker: &mut dyn Speaker,
) -> Result<Step, LookupError> {
    let mut layer = layers.layer(trees, point, lambda)?;
    let mut message = layer.message()?;
    let (mut rounds, mut challenges) = (Vec::with_capacity(point.len()), Vec::with_capacity(point.len()));
    for _ in point {
        let (said, c) = speaker.exchange(LOOKUP_ROUND, &message);
        rounds.push(said);
        challenges.push(c);
        message = layer.bind(c)?;
    }
    let children = layer.finish()?.as_chunks().0.to_vec();
    Ok((rounds, children, challenges))
}

#[cfg(test)]
mod tests;
