//! How many bytes contracts are sent: of a proof, and of one that nobody has made yet.

use tessera_circuits::shape::Shape;
use tessera_circuits::trees::{depths, Forest};
use tessera_verifier::public::linear_variables;

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

/// Bytes of an oracle with `2^fold` values in each leaf: the values that do not follow from the oracle before
/// it, and the path. `known` and `depth` are the depths of the trees that hold the positions before it and its own leaves.
pub fn oracle(queries: usize, [known, depth]: [u32; 2], fold: u32) -> usize {
    let [known, own] = [known, depth].map(|depth| average::leaves(queries, depth));
    let values = f64::from(fold).exp2() * own - known;
    2 * NUMBER + ELEMENT * values.round() as usize + path(queries, depth)
}

/// Bytes that a sender of a statement of so many token rows sends before the opening.
pub fn said(shape: &Shape, rows: usize) -> usize {
    // Two lengths and a zero, the context, prompt and output; the root of the activations and three proofs of work.
    let statement = 3 * NUMBER + DIGEST + NUMBER * (rows + 1);
    let roots = DIGEST + 3 * NONCE;
    let tables = shape.table_tree();
    let logs = Forest::of(shape).logs_with(tables.as_ref());
    let layers = depths(&logs)
        .into_iter()
        .map(|depth| (0..depth).map(rounds).sum::<usize>());
    // The root of every tree, and its children in each layer.
    let trees = logs.iter().map(|log| (2 + 4 * *log as usize) * ELEMENT);
    // The claim and the operands of the matrix products, the value of the linear claims.
    let sumchecks = rounds(shape.product_variables()) + rounds(linear_variables(shape) as u32);
    statement + roots + layers.chain(trees).sum::<usize>() + sumchecks + ELEMENT * (2 + 2 * shape.existing().count())
}
