//! Sums of fractions by GKR (docs/protocol.md, section 8.5), the twin of the prover's `gkr`.
//!
//! A tree of `n` layers has `2^n` fractions as leaves; a node is the sum of its children, node `x` of a layer of `2^k` that of
//! nodes `x` and `x + 2^k` of the next. Trees are proved in groups from their roots: claims on numerators and denominators of a layer
//! of every tree, as multilinear polynomials at one point, become by one sumcheck claims on the next layer. A tree leaves at its own
//! depth.
//!
//! **What the caller still owes:** the roots are right only if the claim on the leaves of every tree is discharged, and what they
//! sum up to ([`sums`]) is not compared with anything here.

use std::iter::successors;
use std::ops::Range;

use num_traits::{One, Zero};
use serde::{Deserialize, Serialize};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use tessera_circuits::trees::{groups, LeafClaim};
use thiserror::Error;

use crate::labels::{LOOKUP_CHILDREN, LOOKUP_LAYER, LOOKUP_ROUND, LOOKUP_SUM};
use crate::listen::{Form, Listener, Products, Received};
use crate::message::{NotCanonical, Unread};
use crate::sumcheck::{Round, SumcheckClaim};

type K = SecureField;

/// The step from a layer to the next one, of all trees of a group that have a next one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerProof {
    /// For every variable the polynomial `q` of degree 2 that is left of a round when `eq` is taken out: `q(0)` and its leading
    /// coefficient.
    pub rounds: Vec<Round>,
    /// Of every tree both children at the end point: numerator and denominator of the first, then of the second.
    pub children: Vec<[K; 4]>,
}

/// A group of trees from their roots to their leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupProof {
    /// Of every tree the sum of the fractions of all leaves, and the product of their denominators.
    pub roots: Vec<[K; 2]>,
    /// From the roots on.
    pub layers: Vec<LayerProof>,
}

/// Trees that do not fit, or are not sums.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
// The messages say what each is.
#[allow(missing_docs)]
#[non_exhaustive]
pub enum GkrError {
    #[error("lookups: {got} groups of trees, expected {expected}")]
    Groups { got: usize, expected: usize },
    #[error("lookups: group {group} has {got} trees, expected {expected}")]
    Trees { group: usize, got: usize, expected: usize },
    #[error("lookups: group {group} has {got} layers, expected {expected}")]
    Layers { group: usize, got: usize, expected: usize },
    #[error("lookups: layer {layer} of group {group} has {got} rounds")]
    Rounds { group: usize, layer: usize, got: usize },
    #[error("lookups: layer {layer} of group {group} has children of {got} trees, expected {expected}")]
    Children {
        group: usize,
        layer: usize,
        got: usize,
        expected: usize,
    },
    #[error("lookups: the sum of tree {tree} has the denominator zero")]
    ZeroDenominator { tree: usize },
    #[error("lookups: a point of group {group} has a coordinate 0")]
    DegeneratePoint { group: usize },
    #[error("lookups: layer {layer} of group {group} is not the sum of the next")]
    Layer { group: usize, layer: usize },
    #[error(transparent)]
    NotCanonical(#[from] NotCanonical),
}

/// Numerator and denominator of a layer at `t` between both children.
pub fn between<V: Received>([n0, d0, n1, d1]: [V; 4], t: K) -> [V; 2] {
    let at = |a: V, b: V| a.clone() + (b - a) * t;
    [at(n0, n1), at(d0, d1)]
}

/// The places of a tree in the equations of a layer: its two children, numerator and denominator of each, and behind them, in the first layer, the
/// sum and the denominator of its root.
const CHILDREN: usize = 4;

/// The quadratic forms in the equation of a layer: for each tree the numerator of the sum of its children, then the denominator. The equation weighs them with
/// powers of the challenge `lambda` of the layer. In the first layer the numerator of the root, which is a product, too, is subtracted.
pub fn forms(trees: usize, first: bool) -> Vec<Form> {
    let one = BaseField::from_u32_unchecked(1);
    let width = if first { CHILDREN + 2 } else { CHILDREN };
    let of_tree = |tree: usize| {
        let [n0, d0, n1, d1, sum, denominator] = std::array::from_fn(|own| tree * width + own);
        let mut numerator = vec![(n0, d1, one), (n1, d0, one)];
        if first {
            numerator.push((sum, denominator, -one));
        }
        [numerator, vec![(d0, d1, one)]]
    };
    (0..trees).flat_map(of_tree).collect()
}

/// What `(1 - x) q(0) + x q(1) = claim` leaves of a round at its challenge `c`: `q(c)`, of a message of `q(0)` and the leading
/// coefficient. `inverse` is that of `x`, the coordinate of the round in the point of its layer.
fn round_value<V: Received>(claim: V, [q0, leading]: Round<V>, inverse: K, c: K) -> V {
    let slope = (claim - q0.clone()) * inverse - leading.clone();
    q0 + (slope + leading * c) * c
}

/// What the trees of a group that have a layer are weighed with in its claim: powers of `lambda` squared, because each has a claim on
/// its numerators and `lambda` times one on its denominators.
pub fn weights(lambda: K) -> impl Iterator<Item = K> {
    successors(Some(K::one()), move |weight| Some(*weight * lambda * lambda))
}

/// Where trees end: the claims on their leaves, and the sums of their fractions.
type Ends<V> = (Vec<LeafClaim<K, V>>, Vec<V>);

/// Verifies trees of `2^log` leaves each, in groups that follow from these numbers; the returned claims on the leaves, in the order of
/// the trees, must be discharged. Also returns the sum of the fractions of every tree. None of the denominators is zero where that can be seen.
pub fn verify<L: Listener>(
    logs: &[u32],
    proofs: Unread<'_, Vec<GroupProof>>,
    listener: &mut L,
) -> Result<Ends<L::Value>, GkrError> {
    let groups = groups(logs);
    let expected = groups.len();
    let proofs = proofs.exactly(expected, |got| GkrError::Groups { got, expected })?;
    let (mut leaves, mut sums) = (Vec::with_capacity(logs.len()), Vec::with_capacity(logs.len()));
    for (group, (trees, proof)) in groups.into_iter().zip(proofs.each()).enumerate() {
        let (own, roots) = verify_group(group, trees, logs, proof, listener)?;
        leaves.extend(own);
        sums.extend(roots);
    }
    Ok((leaves, sums))
}

/// Verifies a group of trees. Also returns what their roots are said to add up to.
fn verify_group<L: Listener>(
    group: usize,
    trees: Range<usize>,
    logs: &[u32],
    proof: Unread<'_, GroupProof>,
    listener: &mut L,
) -> Result<Ends<L::Value>, GkrError> {
    let (first, logs) = (trees.start, logs.get(trees).unwrap_or_default());
    let expected = logs.len();
    let roots = proof.part(|p| &p.roots);
    let roots = roots.exactly(expected, |got| GkrError::Trees { group, got, expected })?;
    let expected = logs.iter().max().map_or(0, |log| *log as usize);
    let layers = proof.part(|p| &p.layers);
    let layers = layers.exactly(expected, |got| GkrError::Layers { group, got, expected })?;

    let roots = listener.receive(LOOKUP_SUM, roots)?;
    for (own, [_, denominator]) in roots.iter().enumerate() {
        listener.not_zero(denominator, GkrError::ZeroDenominator { tree: first + own })?;
    }
    // The claims on the layer where the group is; that of a tree stays as it is when it has reached its leaves. The numerator of a root is a product,
    // which the equation of the first layer has. A tree of one leaf, which no shape has, keeps the numerator zero, which no lookup has.
    let zero = L::Value::from(K::zero());
    let claims = roots
        .iter()
        .map(|[_, denominator]| at(Vec::new(), [zero.clone(), denominator.clone()]));
    let mut claims: Vec<LeafClaim<K, L::Value>> = claims.collect();
    let mut point = Vec::<K>::new();
    for (layer, step) in layers.each().enumerate() {
        let rounds = step.part(|p| &p.rounds);
        let rounds = rounds.exactly(layer, |got| GkrError::Rounds { group, layer, got })?;
        let all = claims.iter_mut().zip(&roots).zip(logs);
        let mut active: Vec<_> = all
            .filter_map(|(own, log)| (*log as usize > layer).then_some(own))
            .collect();
        let expected = active.len();
        let children = step.part(|p| &p.children);
        let children = children.exactly(expected, |got| GkrError::Children {
            group,
            layer,
            got,
            expected,
        })?;
        let lambda = listener.transcript().challenge(LOOKUP_LAYER);
        let weighed = weights(lambda)
            .zip(&active)
            .map(|(weight, (own, _))| (own.numerator.clone() + own.denominator.clone() * lambda) * weight);
        let mut end = SumcheckClaim::new(weighed.fold(zero.clone(), |sum, own| sum + own));
        if point.iter().any(K::is_zero) {
            return Err(GkrError::DegeneratePoint { group });
        }
        for (said, inverse) in rounds.each().zip(K::batch_inverse(&point)) {
            let value = |claim, message, c| round_value(claim, message, inverse, c);
            end.round(LOOKUP_ROUND, said, value, listener)?;
        }
        let (children, t) = listener.exchange(LOOKUP_CHILDREN, children)?;
        let operands = children.iter().zip(&active).flat_map(|(own, (_, root))| {
            let root = if layer == 0 { &root[..] } else { &[] };
            own.iter().chain(root).cloned()
        });
        let each = weights(lambda).flat_map(|weight| [weight, weight * lambda]);
        let equation = Products {
            operands: operands.collect(),
            forms: each.zip(forms(expected, layer == 0)).collect(),
            sum: end.value,
        };
        listener.product(equation, GkrError::Layer { group, layer })?;
        point = [vec![t], end.point].concat();
        for ((claim, _), children) in active.iter_mut().zip(children) {
            **claim = at(point.clone(), between(children, t));
        }
    }
    let sums = roots.into_iter().map(|[sum, _]| sum);
    Ok((claims, sums.collect()))
}

/// A claim on numerators and denominators at a point.
fn at<V>(point: Vec<K>, [numerator, denominator]: [V; 2]) -> LeafClaim<K, V> {
    LeafClaim {
        point,
        numerator,
        denominator,
    }
}

/// What every tree says that its fractions add up to.
pub fn sums(proofs: &[GroupProof]) -> Vec<K> {
    let roots = proofs.iter().flat_map(|proof| &proof.roots);
    roots.map(|[sum, _]| *sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sumcheck::tests::{secure, Masked};
    use crate::transcript::Transcript;
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
            let end = round_value(a.clone(), [b.clone(), c.clone()], inverse, r);
            prop_assert_eq!(end.value(), round_value(v, [w, x], inverse, r));
            prop_assert_eq!(between([a, b, c, d], r).map(|own| own.value()), between([v, w, x, y], r));
        }
    }

    /// A tree of four leaves, its first layer summed as it should be: 1 and 1 over 1, together 2 over 1.
    fn tree(rounds: Vec<Round>) -> Vec<GroupProof> {
        let one = K::one();
        let layer = |rounds| LayerProof {
            rounds,
            children: vec![[one; 4]],
        };
        vec![GroupProof {
            roots: vec![[one + one, one]],
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
        assert_eq!(answer([zero; 2]), GkrError::Layer { group: 0, layer: 1 });
        for round in [[wrong, zero], [zero, wrong]] {
            assert!(matches!(answer(round), GkrError::NotCanonical(_)));
        }
    }
}
