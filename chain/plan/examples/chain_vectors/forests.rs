//! Groups of several trees of lookups. Small models have one tree, so these are made up: whatever is said in the rounds of a layer, the
//! children of its first tree are chosen so that the layer holds.

use stwo::core::fields::FieldExpOps;
use tessera_circuits::trees::groups;
use tessera_verifier::gkr::{between, weights, GroupProof, LayerProof};
use tessera_verifier::labels::{LOOKUP_CHILDREN, LOOKUP_LAYER, LOOKUP_ROUND, LOOKUP_SUM};
use tessera_verifier::suite::Suite;
use tessera_verifier::transcript::Transcript;

use super::{lookups, Random, K};

/// Trees of several depths in one group, a tree that leaves before one behind it, and more trees than a group has.
pub fn forests(random: &mut Random) {
    let many = [3; 14];
    for logs in [&[4, 4, 3][..], &[2, 5, 1, 5], &many] {
        let start = Transcript::of(Suite::Keccak, "forests");
        let mut t = start.clone();
        let own = groups(logs).into_iter().map(|own| group(&logs[own], &mut t, random));
        let proofs: Vec<GroupProof> = own.collect();
        lookups(&format!("trees of {logs:?} layers"), logs, &proofs, &start, random);
    }
}

/// Numerator, and `eta` times the denominator, of the sum of both children.
fn sum_of_children([n0, d0, n1, d1]: [K; 4], eta: K) -> K {
    n0 * d1 + n1 * d0 + eta * d0 * d1
}

/// Adds up values, each with the weight of its tree.
fn weighed(eta: K, values: impl Iterator<Item = K>) -> K {
    let terms = weights(eta).zip(values).map(|(weight, value)| weight * value);
    terms.fold(K::default(), |sum, term| sum + term)
}

/// A group of trees of `2^log` leaves each.
fn group(logs: &[u32], t: &mut Transcript, random: &mut Random) -> GroupProof {
    let roots: Vec<[K; 2]> = logs.iter().map(|_| [random.element(), random.element()]).collect();
    t.send(LOOKUP_SUM, &roots[..]);
    let mut claims: Vec<[K; 2]> = roots
        .iter()
        .map(|[sum, denominator]| [*sum * *denominator, *denominator])
        .collect();
    let (mut layers, mut point) = (Vec::new(), Vec::<K>::new());
    for layer in 0..logs.iter().max().copied().unwrap_or(0) {
        let eta = t.challenge(LOOKUP_LAYER);
        let active: Vec<usize> = (0..logs.len()).filter(|own| logs[*own] > layer).collect();
        let mut claim = weighed(eta, active.iter().map(|own| claims[*own][0] + eta * claims[*own][1]));
        let (mut rounds, mut next) = (Vec::new(), Vec::new());
        for r in &point {
            let [first, leading] = [random.element(), random.element()];
            let c = LOOKUP_ROUND.send(&[first, leading], t);
            claim = first + c * ((claim - first) * r.inverse() - leading + c * leading);
            rounds.push([first, leading]);
            next.push(c);
        }
        let mut children: Vec<[K; 4]> = active.iter().map(|_| [0; 4].map(|_| random.element())).collect();
        // Of the first tree n0 d1 + d0 (n1 + eta d1) is what the others leave.
        children[0][1] = K::default();
        let others = weighed(eta, children.iter().map(|own| sum_of_children(*own, eta)));
        let [_, _, n1, d1] = children[0];
        children[0][1] = (claim - others) * (n1 + eta * d1).inverse();
        let zeta = LOOKUP_CHILDREN.send(&children[..], t);
        for (own, children) in active.iter().zip(&children) {
            claims[*own] = between(*children, zeta);
        }
        next.insert(0, zeta);
        layers.push(LayerProof { rounds, children });
        point = next;
    }
    GroupProof { roots, layers }
}
