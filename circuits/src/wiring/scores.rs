//! Weights of the scores: of pairs of tokens in the committed pairs of blocks (docs/protocol.md, sections 4 and 16.5).

use num_traits::{One, Zero};

use super::terms::{eq, padded, K};
use super::Public;
use crate::claims::{Tensor, Weight};
use crate::mle::{eq_table, index_eq};
use crate::shape::Part;

/// What weighs the keys of a query.
#[derive(Clone, Copy)]
pub(super) enum Keys<'a> {
    /// `eq` of a point.
    At(&'a [K]),
    /// One for each.
    All,
}

/// Which of the pairs of tokens of committed blocks are meant, where not all are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pairs {
    /// Keys that the query may look at.
    Open,
    /// All others. In models that generate tokens they are in the blocks of their queries.
    Masked,
}

impl Public<'_> {
    /// A point of tokens as one of blocks and one within a block.
    pub(super) fn split<'a>(&self, point: &'a [K]) -> (&'a [K], &'a [K]) {
        point.split_at((self.shape.blocks() as usize).min(point.len()))
    }

    /// The pairs of blocks for which `which` holds, weighed as their tokens are.
    fn blocks(&self, query: &[K], keys: Keys, which: impl Fn(usize, usize) -> bool) -> Weight {
        let query = self.split(query).0;
        let key = |block: usize| match keys {
            Keys::At(point) => index_eq(block, self.split(point).0),
            Keys::All => K::one(),
        };
        let weight = |(a, b): (usize, usize)| match which(a, b) {
            true => index_eq(a, query) * key(b),
            false => K::default(),
        };
        let axis = self.shape.full_axes(Part::Scores).get(2).copied();
        padded(self.shape.pairs().map(weight).collect(), axis.unwrap_or(0))
    }

    /// `layers (x) heads (x) eq(query) (x) keys` on the committed scores.
    pub(super) fn score_tensor(&self, [layers, heads]: [Weight; 2], query: &[K], keys: Keys) -> Tensor {
        let within = match keys {
            Keys::At(point) => eq(self.split(point).1),
            Keys::All => Weight::Ones(self.shape.block()),
        };
        let blocks = self.blocks(query, keys, |_, _| true);
        vec![layers, heads, blocks, eq(self.split(query).1), within]
    }

    /// The same on the open or on the masked pairs of tokens, as a sum.
    pub(super) fn masked_tensors(&self, front: [Weight; 2], query: &[K], key: &[K], pairs: Pairs) -> Vec<Tensor> {
        match self.shape.config.is_encoder() {
            true => self.padding_tensors(front, query, key, pairs),
            false => self.causal_tensors(front, query, key, pairs),
        }
    }

    /// In encoders the keys of the text are open, and those of padding rows are masked.
    fn padding_tensors(&self, front: [Weight; 2], query: &[K], key: &[K], pairs: Pairs) -> Vec<Tensor> {
        let [(_, row), (_, within)] = [query, key].map(|point| self.split(point));
        let rows = self.statement.rows();
        // The block in which the text ends, and where.
        let (last, end) = (rows >> self.shape.block(), rows & ((1 << self.shape.block()) - 1));
        let mut keys = eq_table(within);
        for (j, weight) in keys.iter_mut().enumerate() {
            if (j < end) != (pairs == Pairs::Open) {
                *weight = K::zero();
            }
        }
        let whole = move |_: usize, block: usize| match pairs {
            Pairs::Open => block < last,
            Pairs::Masked => block > last,
        };
        let [layers, heads] = front;
        let blocks = |which: &dyn Fn(usize, usize) -> bool| self.blocks(query, Keys::At(key), which);
        vec![
            vec![layers.clone(), heads.clone(), blocks(&whole), eq(row), eq(within)],
            vec![
                layers,
                heads,
                blocks(&|_, block| block == last),
                eq(row),
                Weight::dense(keys),
            ],
        ]
    }

    /// In all other models blocks below that of the query are open as a whole.
    fn causal_tensors(&self, [layers, heads]: [Weight; 2], query: &[K], key: &[K], pairs: Pairs) -> Vec<Tensor> {
        let [(_, row), (_, within)] = [query, key].map(|point| self.split(point));
        let keys = Keys::At(key);
        let own = self.blocks(query, keys, |a, b| a == b);
        let open = Weight::Causal(row.to_vec(), within.to_vec());
        match pairs {
            Pairs::Open => vec![
                vec![
                    layers.clone(),
                    heads.clone(),
                    self.blocks(query, keys, |a, b| b < a),
                    eq(row),
                    eq(within),
                ],
                vec![layers, heads, own, open],
            ],
            Pairs::Masked => vec![
                vec![layers.clone(), heads.clone(), own.clone(), eq(row), eq(within)],
                vec![layers, heads, negated(&own), open],
            ],
        }
    }
}

/// The weights with the other sign.
fn negated(weight: &Weight) -> Weight {
    Weight::dense(weight.table().into_iter().map(|w| -w).collect())
}
