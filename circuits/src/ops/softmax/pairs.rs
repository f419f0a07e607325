//! Weights of the scores: of pairs of tokens in the committed pairs of blocks (docs/protocol.md, sections 4 and 16.5).

use crate::claims::{Tensor, Weight};
use crate::mle::{eq_table, index_eq};
use crate::scalar::Scalar;
use crate::shape::Part;
use crate::sizes::Sizes;
use crate::wiring::{eq, padded, Public};

/// What weighs the keys of a query.
#[derive(Clone, Copy)]
pub(in crate::ops) enum Keys<'a, K> {
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

impl Sizes {
    /// The pairs of blocks of tokens whose scores are committed, in order: that of the query, and one up to it, of the key;
    /// without a causal mask any one.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        let (blocks, all) = (1usize << self.blocks(), !self.config.is_causal());
        let keys = move |query: usize| if all { blocks } else { query + 1 };
        (0..blocks).flat_map(move |query| (0..keys(query)).map(move |key| (query, key)))
    }

    /// Indices along the last three axes of [`Part::SCORES`] of a query and a key of a committed pair of blocks.
    pub fn pair_place(&self, query: usize, key: usize) -> Option<[usize; 3]> {
        let within = (1 << self.block()) - 1;
        let blocks = (query >> self.block(), key >> self.block());
        let pair = self.pairs().position(|own| own == blocks)?;
        Some([pair, query & within, key & within])
    }

    /// The query and the key of an entry of [`Part::SCORES`], from its indices along the last three axes. Padded pairs have none.
    pub fn pair_tokens(&self, [pair, query, key]: [usize; 3]) -> Option<(usize, usize)> {
        let (a, b) = self.pairs().nth(pair)?;
        Some(((a << self.block()) | query, (b << self.block()) | key))
    }
}

impl<K: Scalar> Public<'_, K> {
    /// A point of tokens as one of blocks and one within a block.
    fn split<'a>(&self, point: &'a [K]) -> (&'a [K], &'a [K]) {
        point.split_at((self.shape.blocks() as usize).min(point.len()))
    }

    /// The pairs of blocks for which `which` holds, weighed as their tokens are.
    fn blocks(&self, query: &[K], keys: Keys<K>, which: impl Fn(usize, usize) -> bool) -> Weight<K> {
        let query = self.split(query).0;
        let key = |block: usize| match keys {
            Keys::At(point) => index_eq(block, self.split(point).0),
            Keys::All => K::one(),
        };
        let weight = |(a, b): (usize, usize)| match which(a, b) {
            true => index_eq(a, query) * key(b),
            false => K::default(),
        };
        let axis = self.shape.full_axes(Part::SCORES).get(2).copied();
        padded(self.shape.pairs().map(weight).collect(), axis.unwrap_or(0))
    }

    /// `layers (x) heads (x) eq(query) (x) keys` on the committed scores.
    pub(in crate::ops) fn score_tensor(
        &self,
        [layers, heads]: [Weight<K>; 2],
        query: &[K],
        keys: Keys<K>,
    ) -> Tensor<K> {
        let within = match keys {
            Keys::At(point) => eq(self.split(point).1),
            Keys::All => Weight::Ones(self.shape.block()),
        };
        let blocks = self.blocks(query, keys, |_, _| true);
        vec![layers, heads, blocks, eq(self.split(query).1), within]
    }

    /// The same on the open or on the masked pairs of tokens, as a sum.
    pub(super) fn masked_tensors(&self, front: [Weight<K>; 2], query: &[K], key: &[K], pairs: Pairs) -> Vec<Tensor<K>> {
        match self.shape.config.is_causal() {
            true => self.causal_tensors(front, query, key, pairs),
            false => self.padding_tensors(front, query, key, pairs),
        }
    }

    /// Without a causal mask the keys of the text are open, and those of padding rows are masked.
    fn padding_tensors(&self, front: [Weight<K>; 2], query: &[K], key: &[K], pairs: Pairs) -> Vec<Tensor<K>> {
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
    fn causal_tensors(&self, [layers, heads]: [Weight<K>; 2], query: &[K], key: &[K], pairs: Pairs) -> Vec<Tensor<K>> {
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
fn negated<K: Scalar>(weight: &Weight<K>) -> Weight<K> {
    Weight::dense(weight.table().into_iter().map(|w| -w).collect())
}

#[cfg(test)]
mod tests {
    use num_traits::{One, Zero};
    use stwo::core::fields::qm31::SecureField as K;

    use super::*;
    use crate::chunk::{Chunk, Ends};
    use crate::claims::add_tensor;
    use crate::model::{odd_config, test_params, Blocks, ModelConfig, Output, Pooling};
    use crate::shape::Shape;
    use crate::statement::Statement;
    use crate::statistics::Statistics;
    use crate::wiring::Points;

    /// Every pair of tokens that is committed is open or masked, never both: in encoders by where the text ends, in all other models by
    /// which token is later. Texts end in a block, at its end, beyond it, and blocks before the end of the last row.
    #[test]
    fn every_committed_pair_is_open_or_masked() {
        for (blocks, rows) in [
            (
                Blocks::encoder(Output::Vector(Pooling::Mean)),
                vec![1, 2, 3, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64],
            ),
            (Blocks::DECODER, vec![1, 3, 16, 17, 40, 64]),
        ] {
            for rows in rows {
                whole(blocks, rows);
            }
        }
    }

    fn whole(blocks: Blocks, rows: usize) {
        let config = ModelConfig {
            context: 64,
            blocks,
            ..odd_config(1)
        };
        let params = test_params(&config);
        let statement = match config.generates() {
            true => Statement {
                prompt: vec![1; rows],
                output: vec![1],
            },
            false => Statement::of_vector(vec![1; rows], &[0; 20]),
        };
        let shape = Shape::of(&config, &Chunk::whole(1), statement.lengths());
        let challenges = (0..Points::count(&shape) as u32).map(|i| K::from_u32_unchecked(i + 2, 3 * i + 1, 7, i * i));
        let points = Points::new(&shape, challenges.collect());
        let public = Public {
            shape: &shape,
            params: &params,
            statement: &statement,
            ends: Ends::default(),
            statistics: &Statistics { clips: Vec::new() },
            points: &points,
        };
        let table = |pairs: Pairs| {
            let front = [Weight::Ones(0), Weight::Ones(0)];
            let axes = shape.full_axes(Part::SCORES);
            let mut sum = vec![K::zero(); 1 << axes[2..].iter().sum::<u32>()];
            for tensor in public.masked_tensors(front, &points.token, &points.key, pairs) {
                add_tensor(&mut sum, &tensor, K::one());
            }
            sum
        };
        let (open, masked) = (table(Pairs::Open), table(Pairs::Masked));
        let mut seen = 0;
        for query in 0..1 << shape.token {
            for key in 0..1 << shape.token {
                let last = if config.is_causal() { query } else { rows - 1 };
                let Some([pair, i, j]) = shape.pair_place(query, key) else {
                    assert!(config.is_causal() && key > last);
                    continue;
                };
                seen += 1;
                let at = (((pair << shape.block()) | i) << shape.block()) | j;
                let weight = index_eq(query, &points.token) * index_eq(key, &points.key);
                let expected = if key <= last {
                    [weight, K::zero()]
                } else {
                    [K::zero(), weight]
                };
                assert!(
                    [open[at], masked[at]] == expected,
                    "{rows} rows, {query} looks at {key}"
                );
            }
        }
        // Padded pairs have no weight.
        let weights = open.iter().chain(&masked).filter(|weight| !weight.is_zero());
        assert_eq!(weights.count(), seen);
    }
}
