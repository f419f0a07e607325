//! Sums of lookups by GKR (docs/protocol.md, section 8.5), the twin of the verifier's `gkr`: the same loop, writing what the
//! other reads.
//!
//! A tree is built from its leaves to its root, then proved from its root to its leaves, layer by layer in place, in an arena that
//! all trees share. Leaves are made from the columns, and the fractions of two leaves from these; neither are kept.

pub mod field;
pub mod leaves;
mod rounds;

use num_traits::{One, Zero};
use rayon::prelude::*;
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use tessera_circuits::air::Relations;
use tessera_circuits::trees::{LeafClaim, LookupTree};
use tessera_verifier::gkr::{between, LayerProof, TreeProof};
use tessera_verifier::labels::{LOOKUP_CHILDREN, LOOKUP_LAYER, LOOKUP_SUM};
use tessera_verifier::transcript::Transcript;

use self::field::{Factor, Packed, Sum, LOG_LANES};
use self::leaves::{top, Leaves};
use self::rounds::{add_terms, Eq, Form, Fractions, Product, Said, Sumcheck, BLOCK};
use crate::column::Column;
use crate::stark::ProveStarkError;

type K = SecureField;

/// Proved trees.
#[derive(Clone, Debug)]
pub struct Proved {
    pub proofs: Vec<TreeProof>,
    /// What is left to show of the leaves of each.
    pub claims: Vec<LeafClaim>,
}

/// Proves the sums of all trees, of columns by part. Fails where a challenge is zero, for which the verifier has no use.
///
/// # Panics
/// If a plane has less than `2^6` rows.
pub fn prove(
    trees: &[LookupTree],
    columns: &[Vec<Column>],
    relations: &Relations,
    transcript: &mut Transcript,
) -> Result<Proved, ProveStarkError> {
    let leaves: Vec<Leaves<'_>> = trees.iter().map(|tree| Leaves::new(tree, columns, relations)).collect();
    let mut arena = Packed::zeros(leaves.iter().map(|l| arena_size(l.top())).max().unwrap_or(0));
    let (mut proofs, mut claims) = (Vec::new(), Vec::new());
    for leaves in &leaves {
        let (proof, claim) = Tree::build(leaves, &mut arena).prove(transcript)?;
        proofs.push(proof);
        claims.push(claim);
    }
    Ok(Proved { proofs, claims })
}

/// Vectors of all layers that are kept in the arena, where the largest has `2^top` nodes.
fn arena_size(top: u32) -> usize {
    (1 << (top - 2)) - 2
}

/// Bytes that the proof of a tree takes beside the columns.
pub fn arena_bytes(tree: &LookupTree) -> u64 {
    (arena_size(top(tree.log_leaves())) * size_of::<Packed>()) as u64
}

/// Numerators and denominators.
type Layer<T> = [T; 2];

/// The layers of a tree. A layer of `2^k` nodes is in vectors if `k` is at least [`LOG_LANES`].
struct Tree<'a> {
    leaves: &'a Leaves<'a>,
    /// The layers in vectors, the largest first, numerators before denominators.
    arena: &'a mut [Packed],
    /// The layers below one vector, from the root on, and the first one in vectors.
    small: Vec<Layer<Vec<K>>>,
}

/// Splits a layer.
fn halves<T>(table: &mut [T]) -> [&mut [T]; 2] {
    table.split_at_mut(table.len() / 2).into()
}

impl<'a> Tree<'a> {
    fn build(leaves: &'a Leaves<'a>, arena: &'a mut [Packed]) -> Self {
        let top = leaves.top();
        let mut rest = &mut arena[..arena_size(top)];
        let mut below: Option<Layer<&[Packed]>> = None;
        for k in (LOG_LANES..=top).rev() {
            let (own, next) = rest.split_at_mut(1 << (k + 1 - LOG_LANES));
            let [numerators, denominators] = halves(own);
            match below {
                Some(below) => add(below, [&mut *numerators, &mut *denominators]),
                None if k + 1 < leaves.log => add_pairs(leaves, [&mut *numerators, &mut *denominators]),
                None => add_leaves(leaves, [&mut *numerators, &mut *denominators]),
            }
            below = Some([numerators, denominators]);
            rest = next;
        }
        let unpack = |layer: &[Packed]| layer.iter().flat_map(|v| v.to_array()).collect();
        let mut small: Vec<Layer<Vec<K>>> = vec![below.unwrap_or_default().map(unpack)];
        while let Some([n, d]) = small.last().filter(|[n, _]| n.len() > 1) {
            let half = n.len() / 2;
            let numerators = (0..half).map(|x| n[x] * d[x + half] + n[x + half] * d[x]);
            let denominators = (0..half).map(|x| d[x] * d[x + half]);
            let parent = [numerators.collect(), denominators.collect()];
            small.push(parent);
        }
        small.reverse();
        Self { leaves, arena, small }
    }

    /// Proves the sum of the leaves.
    fn prove(self, transcript: &mut Transcript) -> Result<(TreeProof, LeafClaim), ProveStarkError> {
        let Self { leaves, arena, small } = self;
        let root = [small[0][0][0], small[0][1][0]];
        transcript.send(LOOKUP_SUM, &root);
        let mut steps = Steps::default();
        let mut small = small.into_iter().skip(1);
        for k in 0..leaves.log {
            let lambda = transcript.challenge(LOOKUP_LAYER);
            if let Some([n, d]) = small.next() {
                steps.single(n, d, lambda, transcript);
            } else if k < leaves.top() {
                let start = (1 << (leaves.top() - 2)) - (1 << (k - 1));
                steps.layer(&mut arena[start..][..1 << (k + 2 - LOG_LANES)], lambda, transcript);
            } else if k + 1 < leaves.log {
                steps.pairs(leaves, arena, lambda, transcript);
            } else {
                steps.leaves(leaves, arena, lambda, transcript)?;
            }
        }
        let proof = TreeProof {
            root,
            layers: steps.layers,
        };
        let [numerator, denominator] = steps.value;
        let claim = LeafClaim {
            point: steps.point,
            numerator,
            denominator,
        };
        Ok((proof, claim))
    }
}

/// The proof of a tree as far as it is made.
#[derive(Default)]
struct Steps {
    layers: Vec<LayerProof>,
    point: Vec<K>,
    value: [K; 2],
}

impl Steps {
    /// The step to a layer of elements.
    fn single(&mut self, mut n: Vec<K>, mut d: Vec<K>, lambda: K, transcript: &mut Transcript) {
        let half = n.len() / 2;
        let (n1, d1) = (n.split_off(half), d.split_off(half));
        let m1 = n1.iter().zip(&d1).map(|(n, d)| *n + lambda * *d).collect();
        let mut sumcheck = Sumcheck::new(&self.point);
        let form = Fractions::new(lambda);
        let values = sumcheck.single(form, [n, d, m1, d1], |message| message, transcript);
        self.fractions(sumcheck.finish(), values, lambda, transcript);
    }

    /// The step to a layer of vectors, which is overwritten.
    fn layer(&mut self, layer: &mut [Packed], lambda: K, transcript: &mut Transcript) {
        let [n, d] = halves(layer);
        let ([n0, n1], [d0, d1]) = (halves(n), halves(d));
        let mut sumcheck = Sumcheck::new(&self.point);
        let form = Fractions::new(lambda);
        let values = sumcheck.packed(form, [n0, d0, n1, d1], |message| message, transcript);
        self.fractions(sumcheck.finish(), values, lambda, transcript);
    }

    /// The step to the fractions of two leaves, whose tables are made of leaves with the first variable bound.
    fn pairs(&mut self, leaves: &Leaves<'_>, arena: &mut [Packed], lambda: K, transcript: &mut Transcript) {
        let eighth = 1usize << (leaves.log - 3 - LOG_LANES);
        let starts = [0, 1, 2, 3, 4, 5, 6, 7].map(|i| i * eighth);
        let form = Fractions::new(lambda);
        let mut sumcheck = Sumcheck::new(&self.point);
        let message = Eq::new(&self.point[1..]).message(|first, weights| {
            let mut sums = [Sum::ZERO; 2];
            leaves.block(first, starts, weights.len(), |at, leaves| {
                for (i, weight) in weights[at..][..leaves[0].len()].iter().enumerate() {
                    let [first, second] = fractions(leaves, i);
                    add_terms(&mut sums, form, *weight, form.begin(first), form.begin(second));
                }
            });
            sums
        });
        let c = Factor::new(sumcheck.exchange(message, transcript));
        let [n, d] = halves(&mut arena[..4 * eighth]);
        let ([n0, n1], [d0, d1]) = (halves(n), halves(d));
        let mut tables = [n0, d0, n1, d1];
        let [b0, b1, b2, b3] = tables.each_mut().map(|table| table.par_chunks_mut(BLOCK));
        let blocks = (b0, b1, b2, b3).into_par_iter().enumerate();
        blocks.for_each(|(i, (n0, d0, n1, d1))| {
            leaves.block(i * BLOCK, starts, n0.len(), |at, leaves| {
                for j in 0..leaves[0].len() {
                    let [first, second] = fractions(leaves, j);
                    for (t, table) in [&mut *n0, d0, n1, d1].into_iter().enumerate() {
                        table[at + j] = first[t] + (second[t] - first[t]) * c;
                    }
                }
            });
        });
        let values = sumcheck.packed(form, tables, |message| message, transcript);
        self.fractions(sumcheck.finish(), values, lambda, transcript);
    }

    fn fractions(&mut self, said: Said, [n0, d0, m1, d1]: [K; 4], lambda: K, transcript: &mut Transcript) {
        self.end(said, [n0, d0, m1 - lambda * d1, d1], transcript);
    }

    /// The step to leaves with the numerator one: `d0 + d1 + lambda d0 d1 = lambda (d0 + 1/lambda) (d1 + 1/lambda) - 1/lambda`.
    fn leaves(
        &mut self,
        leaves: &Leaves<'_>,
        arena: &mut [Packed],
        lambda: K,
        transcript: &mut Transcript,
    ) -> Result<(), ProveStarkError> {
        if lambda.is_zero() {
            return Err(ProveStarkError::DegeneratePoint);
        }
        let inverse = lambda.inverse();
        let shift = Packed::broadcast(inverse);
        let send = |[first, leading]: [K; 2]| [lambda * first - inverse, lambda * leading];
        let quarter = 1usize << (leaves.log - 2 - LOG_LANES);
        let starts = [0, 1, 2, 3].map(|i| i * quarter);
        let mut sumcheck = Sumcheck::new(&self.point);
        let message = Eq::new(&self.point[1..]).message(|first, weights| {
            let mut sums = [Sum::ZERO; 2];
            leaves.block(first, starts, weights.len(), |at, [a0, a1, b0, b1]| {
                for (i, weight) in weights[at..][..a0.len()].iter().enumerate() {
                    sums[0].add(*weight, (a0[i] + shift) * (b0[i] + shift));
                    sums[1].add(*weight, (a1[i] - a0[i]) * (b1[i] - b0[i]));
                }
            });
            sums
        });
        let c = Factor::new(sumcheck.exchange(send(message), transcript));
        let (a, rest) = arena.split_at_mut(quarter);
        let b = &mut rest[..quarter];
        let blocks = a.par_chunks_mut(BLOCK).zip(b.par_chunks_mut(BLOCK)).enumerate();
        blocks.for_each(|(i, (a, b))| {
            leaves.block(i * BLOCK, starts, a.len(), |at, [a0, a1, b0, b1]| {
                let tables = a[at..][..a0.len()].iter_mut().zip(&mut b[at..]);
                for (j, (a, b)) in tables.enumerate() {
                    *a = a0[j] + (a1[j] - a0[j]) * c + shift;
                    *b = b0[j] + (b1[j] - b0[j]) * c + shift;
                }
            });
        });
        let [a, b] = sumcheck.packed(Product, [a, b], send, transcript);
        let children = [K::one(), a - inverse, K::one(), b - inverse];
        self.end(sumcheck.finish(), children, transcript);
        Ok(())
    }

    fn end(&mut self, (rounds, point): Said, children: [K; 4], transcript: &mut Transcript) {
        let t = LOOKUP_CHILDREN.send(&children, transcript);
        self.value = between(children, t);
        self.point = [vec![t], point].concat();
        self.layers.push(LayerProof { rounds, children });
    }
}

/// The layer above one in vectors.
fn add([n, d]: Layer<&[Packed]>, [numerators, denominators]: Layer<&mut [Packed]>) {
    let half = numerators.len();
    let blocks = numerators.par_chunks_mut(BLOCK).zip(denominators.par_chunks_mut(BLOCK));
    blocks.enumerate().for_each(|(i, (numerators, denominators))| {
        let at = i * BLOCK;
        for (j, (numerator, denominator)) in numerators.iter_mut().zip(denominators).enumerate() {
            let (x, y) = (at + j, at + j + half);
            *numerator = Packed::dot([n[x], n[y]], [d[y], d[x]]);
            *denominator = d[x] * d[y];
        }
    });
}

/// The fraction that two leaves with the numerator one add up to.
#[inline(always)]
fn pair(low: Packed, high: Packed) -> [Packed; 2] {
    [low + high, low * high]
}

/// Numerators and denominators of the low and of the high half of the fractions of two leaves, with the first variable at 0 and
/// at 1; leaves are in eighths.
#[inline(always)]
fn fractions(leaves: [&[Packed]; 8], at: usize) -> [[Packed; 4]; 2] {
    let mut tables = [[Packed::ZERO; 4]; 2];
    for (variable, tables) in tables.iter_mut().enumerate() {
        for half in 0..2 {
            let low = 2 * half + variable;
            let fraction = pair(leaves[low][at], leaves[4 + low][at]);
            (tables[2 * half], tables[2 * half + 1]) = (fraction[0], fraction[1]);
        }
    }
    tables
}

/// The layer above the fractions of two leaves, whose numerators are one.
fn add_pairs(leaves: &Leaves<'_>, [numerators, denominators]: Layer<&mut [Packed]>) {
    let starts = [0, 1, 2, 3].map(|i| i * numerators.len());
    let blocks = numerators.par_chunks_mut(BLOCK).zip(denominators.par_chunks_mut(BLOCK));
    blocks.enumerate().for_each(|(i, (numerators, denominators))| {
        leaves.block(i * BLOCK, starts, numerators.len(), |at, [a, b, c, d]| {
            let nodes = numerators[at..][..a.len()].iter_mut().zip(&mut denominators[at..]);
            for (j, (numerator, denominator)) in nodes.enumerate() {
                let ([n0, d0], [n1, d1]) = (pair(a[j], c[j]), pair(b[j], d[j]));
                *numerator = Packed::dot([n0, n1], [d1, d0]);
                *denominator = d0 * d1;
            }
        });
    });
}

/// The layer above leaves with the numerator one.
fn add_leaves(leaves: &Leaves<'_>, [numerators, denominators]: Layer<&mut [Packed]>) {
    let half = numerators.len();
    let blocks = numerators.par_chunks_mut(BLOCK).zip(denominators.par_chunks_mut(BLOCK));
    blocks.enumerate().for_each(|(i, (numerators, denominators))| {
        leaves.block(i * BLOCK, [0, half], numerators.len(), |at, [low, high]| {
            let nodes = numerators[at..][..low.len()].iter_mut().zip(&mut denominators[at..]);
            for (j, (numerator, denominator)) in nodes.enumerate() {
                *numerator = low[j] + high[j];
                *denominator = low[j] * high[j];
            }
        });
    });
}

#[cfg(test)]
mod tests;
