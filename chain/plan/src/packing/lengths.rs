//! How many bytes contracts are sent: of a proof, and of one that nobody has made yet.

use tessera_circuits::air::lookups::Relation;
use tessera_circuits::air::tables::LOG_ROWS;
use tessera_circuits::shape::Shape;
use tessera_circuits::trees::{depths, Forest};
use tessera_verifier::policy::{queries, STARK_FOLD_STEP, STARK_LOG_BLOWUP, STARK_LOG_LAST_LAYER};
use tessera_verifier::public::linear_variables;
use tessera_verifier::stark::samples;

use super::bytes::Part;
use crate::average;

/// Bytes of a number, of a nonce, of an element and of a digest.
pub const NUMBER: usize = 4;
pub const NONCE: usize = 8;
pub const ELEMENT: usize = 16;
pub const DIGEST: usize = 32;

/// The bytes of a [`Part`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartLengths {
    /// Bytes of the conversation.
    pub conversation: usize,
    /// Bytes of each stage.
    pub stages: Vec<usize>,
    /// How many of them, the first ones, are of trees.
    pub trees: usize,
}

impl PartLengths {
    /// Counts the bytes of a part.
    pub fn of(part: &Part) -> Self {
        Self {
            conversation: part.conversation.len(),
            stages: part.stages.iter().map(Vec::len).collect(),
            trees: part.trees,
        }
    }
}

/// Rounds of sumchecks.
pub const fn rounds(number: u32) -> usize {
    2 * ELEMENT * number as usize
}

/// The path of random leaves of a tree of `2^depth`, on average.
pub fn path(queries: usize, depth: u32) -> usize {
    DIGEST * average::path(queries, depth).round() as usize
}

/// Bytes of an oracle, or of a layer of the STARK, with `2^fold` values in each leaf: the values that do not follow from the oracle before
/// it, and the path. `known` and `depth` are the depths of the trees that hold the positions before it and its own leaves.
pub fn oracle(queries: usize, [known, depth]: [u32; 2], fold: u32) -> usize {
    let [known, own] = [known, depth].map(|depth| average::leaves(queries, depth));
    let values = f64::from(fold).exp2() * own - known;
    2 * NUMBER + ELEMENT * values.round() as usize + path(queries, depth)
}

/// Bytes that a sender of a statement of so many token rows sends before the opening.
pub fn said(shape: &Shape, rows: usize) -> usize {
    // Two lengths and a zero, the context, prompt and output; both roots and three proofs of work.
    let statement = 3 * NUMBER + DIGEST + NUMBER * (rows + 1);
    let roots = 2 * DIGEST + 3 * NONCE;
    let logs = Forest::of(shape).logs();
    let layers = depths(&logs)
        .into_iter()
        .map(|depth| (0..depth).map(rounds).sum::<usize>());
    // The root of every tree, and its children in each layer.
    let trees = logs.iter().map(|log| (2 + 4 * *log as usize) * ELEMENT);
    // The claim and the operands of the matrix products, the value of the linear claims.
    let sumchecks = rounds(shape.product_variables()) + rounds(linear_variables(shape) as u32);
    statement + roots + layers.chain(trees).sum::<usize>() + sumchecks + ELEMENT * (2 + 2 * shape.existing().count())
}

/// The STARK of a model with these relations, with one balance group, as all statements that have plans.
pub fn stark(relations: &[Relation]) -> PartLengths {
    let (trees, queries) = (samples(relations, false), queries(STARK_LOG_BLOWUP));
    let sampled: usize = trees.iter().flatten().sum();
    let layers = (LOG_ROWS - STARK_LOG_LAST_LAYER) / STARK_FOLD_STEP;
    let last = ELEMENT << STARK_LOG_LAST_LAYER;
    let depth = LOG_ROWS + STARK_LOG_BLOWUP;
    let rows = average::leaves(queries, depth).round() as usize;
    let rows = trees
        .iter()
        .map(|columns| 2 * NUMBER + NUMBER * columns.len() * rows + path(queries, depth));
    let layer = |i: u32| {
        let known = depth - i * STARK_FOLD_STEP;
        oracle(queries, [known, known - STARK_FOLD_STEP], STARK_FOLD_STEP)
    };
    let mut stages: Vec<usize> = rows.chain((0..layers).map(layer)).collect();
    stages.last_mut().into_iter().for_each(|own| *own += last);
    PartLengths {
        conversation: ELEMENT + 2 * DIGEST + ELEMENT * sampled + DIGEST * layers as usize + last + NONCE,
        stages,
        trees: trees.len(),
    }
}
