//! Weights of the scores: of pairs of tokens in the committed pairs of blocks (docs/protocol.md, sections 4 and 16.5).

use std::ops::Range;

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
    /// without a causal mask any one of the text.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        let (blocks, all) = (self.text_blocks(), !self.config.is_causal());
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

    /// The blocks of a pair by its number among [`Self::pairs`]; `None` behind them.
    fn pair(&self, number: usize) -> Option<(usize, usize)> {
        let blocks = self.text_blocks();
        let (query, key) = match self.config.is_causal() {
            // Before the pairs of a query there are those of all queries before it: `query (query + 1) / 2`.
            true => {
                let query = (number.checked_mul(8)?.checked_add(1)?.isqrt() - 1) / 2;
                (query, number - query * (query + 1) / 2)
            }
            false => (number / blocks, number % blocks),
        };
        (query < blocks).then_some((query, key))
    }

    /// The query and the key of an entry of [`Part::SCORES`], from its indices along the last three axes. Padded pairs have none.
    pub fn pair_tokens(&self, [pair, query, key]: [usize; 3]) -> Option<(usize, usize)> {
        let (a, b) = self.pair(pair)?;
        Some(((a << self.block()) | query, (b << self.block()) | key))
    }

    /// Whether both tokens of an entry of [`Part::SCORES`] are of the text. Padded pairs have none.
    pub(super) fn is_pair_of_text(&self, place: &[usize]) -> bool {
        let tokens = match place {
            [_, _, pair, query, key] => self.pair_tokens([*pair, *query, *key]),
            _ => None,
        };
        tokens.is_some_and(|(query, key)| query < self.rows && key < self.rows)
    }
}

/// Blocks of queries of the text, and what weighs the queries within each.
struct Queries<K> {
    /// Whether it is the block in which the text ends, and the text does not fill it.
    is_last: bool,
    /// Which they are.
    blocks: Range<usize>,
    /// Within each block.
    within: Weight<K>,
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

    /// Returns the weights of the keys within a block.
    fn keys_within(&self, keys: Keys<K>) -> Weight<K> {
        match keys {
            Keys::At(point) => eq(self.split(point).1),
            Keys::All => Weight::Ones(self.shape.block()),
        }
    }

    /// `layers (x) heads (x) eq(query) (x) keys` on all committed scores.
    pub(in crate::ops) fn score_tensor(
        &self,
        [layers, heads]: [Weight<K>; 2],
        query: &[K],
        keys: Keys<K>,
    ) -> Tensor<K> {
        let blocks = self.blocks(query, keys, |_, _| true);
        vec![layers, heads, blocks, eq(self.split(query).1), self.keys_within(keys)]
    }

    /// Splits the queries of the text in two: the text fills the blocks of the first ones, and it ends in the block of the others. If it
    /// fills its last block, too, there are no others.
    fn queries(&self) -> Vec<Queries<K>> {
        let row = self.split(&self.points.token).1;
        let last = Weight::text(row, self.shape.end());
        let count = self.shape.text_blocks();
        let whole = match last {
            Weight::Eq(_) => count,
            _ => count - 1,
        };
        let before = Queries {
            is_last: false,
            blocks: 0..whole,
            within: eq(row),
        };
        let last = Queries {
            is_last: true,
            blocks: whole..count,
            within: last,
        };
        [before, last]
            .into_iter()
            .filter(|own| !own.blocks.is_empty())
            .collect()
    }

    /// `layers (x) heads (x) queries (x) keys` on the committed scores of the queries of the text, as a sum.
    pub(in crate::ops) fn score_tensors(&self, [layers, heads]: [Weight<K>; 2], keys: Keys<K>) -> Vec<Tensor<K>> {
        let tensor = |own: Queries<K>| {
            let blocks = self.blocks(&self.points.token, keys, |query, _| own.blocks.contains(&query));
            vec![
                layers.clone(),
                heads.clone(),
                blocks,
                own.within,
                self.keys_within(keys),
            ]
        };
        self.queries().into_iter().map(tensor).collect()
    }

    /// As [`Self::score_tensors`] at the point of keys, with the open or with the masked pairs of tokens alone.
    pub(super) fn masked_tensors(&self, front: [Weight<K>; 2], pairs: Pairs) -> Vec<Tensor<K>> {
        let queries = self.queries().into_iter();
        let of = |own| match self.shape.config.is_causal() {
            true => self.causal_tensors(&front, own, pairs),
            false => self.padding_tensors(&front, own, pairs),
        };
        queries.flat_map(of).collect()
    }

    /// Without a causal mask every query sees the keys of the text. The keys behind the text are masked; they lie in its last block.
    fn padding_tensors(&self, [layers, heads]: &[Weight<K>; 2], own: Queries<K>, pairs: Pairs) -> Vec<Tensor<K>> {
        let within = self.split(&self.points.key).1;
        let last = self.shape.text_blocks() - 1;
        let tensor = |which: &dyn Fn(usize) -> bool, keys: Weight<K>| {
            let which = |query: usize, key: usize| own.blocks.contains(&query) && which(key);
            let blocks = self.blocks(&self.points.token, Keys::At(&self.points.key), which);
            vec![layers.clone(), heads.clone(), blocks, own.within.clone(), keys]
        };
        let text = Weight::text(within, self.shape.end());
        match pairs {
            Pairs::Open => vec![tensor(&|key| key < last, eq(within)), tensor(&|key| key == last, text)],
            Pairs::Masked => {
                let behind = eq_table(within)
                    .into_iter()
                    .zip(text.table())
                    .map(|(all, own)| all - own);
                vec![tensor(&|key| key == last, Weight::dense(behind.collect()))]
            }
        }
    }

    /// In all other models blocks below that of the query are open as a whole.
    fn causal_tensors(&self, [layers, heads]: &[Weight<K>; 2], own: Queries<K>, pairs: Pairs) -> Vec<Tensor<K>> {
        let [(_, row), (_, within)] = [&self.points.token, &self.points.key].map(|point| self.split(point));
        let blocks = |which: &dyn Fn(usize, usize) -> bool| {
            let which = |query: usize, key: usize| own.blocks.contains(&query) && which(query, key);
            self.blocks(&self.points.token, Keys::At(&self.points.key), which)
        };
        let same = blocks(&|query, key| query == key);
        let end = own.is_last.then(|| self.shape.end());
        let open = Weight::Causal(row.to_vec(), within.to_vec(), end);
        let front = |last: Vec<Weight<K>>| [vec![layers.clone(), heads.clone()], last].concat();
        match pairs {
            Pairs::Open => vec![
                front(vec![blocks(&|query, key| key < query), own.within.clone(), eq(within)]),
                front(vec![same, open]),
            ],
            Pairs::Masked => vec![
                front(vec![same.clone(), own.within.clone(), eq(within)]),
                front(vec![negated(&same), open]),
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

    /// Every committed pair of a query of the text is open or masked, never both: in encoders by where the text ends, in all other models
    /// by which token is later. Texts end in a block and at its end. Queries behind the text say nothing, and blocks behind it are in no
    /// pair.
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
            for tensor in public.masked_tensors(front, pairs) {
                add_tensor(&mut sum, &tensor, K::one());
            }
            sum
        };
        let (open, masked) = (table(Pairs::Open), table(Pairs::Masked));
        let mut seen = 0;
        for query in 0..1 << shape.token {
            for key in 0..1 << shape.token {
                let last = if config.is_causal() { query } else { rows - 1 };
                let Some(place @ [pair, i, j]) = shape.pair_place(query, key) else {
                    assert!(config.is_causal() && key > last || query.max(key) >= shape.text_rows());
                    continue;
                };
                assert_eq!(shape.pair_tokens(place), Some((query, key)));
                assert_eq!(shape.is_pair_of_text(&[0, 0, pair, i, j]), query.max(key) < rows);
                let at = (((pair << shape.block()) | i) << shape.block()) | j;
                if query >= rows {
                    assert_eq!(
                        [open[at], masked[at]],
                        [K::zero(); 2],
                        "{rows} rows, {query} is behind them"
                    );
                    continue;
                }
                seen += 1;
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
