//! Weights of the scores: of pairs of tokens in the committed pairs of blocks (docs/protocol.md, sections 4 and 16.15).

use std::ops::Range;

use super::kinds::Kind;
use crate::band::Band;
use crate::claims::{Tensor, Weight};
use crate::mle::{eq_table, index_eq};
use crate::scalar::Scalar;
use crate::shape::Part;
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
    /// All others. In models that generate tokens they are in the blocks of their queries, and in those where a window begins.
    Masked,
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

    /// The layers of a kind along the first axis of its part, each weighed as `weights` has it.
    pub(in crate::ops) fn layers_of(&self, kind: &Kind, weights: &[K]) -> Weight<K> {
        let own = kind.layers.iter().map(|l| weights.get(*l).copied().unwrap_or_default());
        padded(own.collect(), self.lead(kind.part))
    }

    /// The weights of the layers of a kind along the first axis of a part that has all layers.
    pub(super) fn all_layers_of(&self, kind: &Kind, weights: &[K], part: Part) -> Weight<K> {
        let own = |(l, w): (usize, &K)| if kind.layers.contains(&l) { *w } else { K::zero() };
        padded(weights.iter().enumerate().map(own).collect(), self.lead(part))
    }

    /// For every query, the sum of the weights of the keys that it sees in layers of this kind.
    pub(super) fn seen(&self, kind: &Kind) -> Vec<K> {
        let keys = eq_table(&self.points.key);
        if !self.shape.config.is_causal() {
            return vec![self.shape.end().sum(&self.points.key); keys.len()];
        }
        let mut sum = K::zero();
        let sums: Vec<K> = keys
            .into_iter()
            .map(|key| {
                sum += key;
                sum
            })
            .collect();
        let Some(window) = self.shape.window_of(kind.part) else {
            return sums;
        };
        // Less the keys before the window.
        let before = std::iter::repeat_n(K::zero(), window).chain(sums.iter().copied());
        sums.iter().zip(before).map(|(all, before)| *all - before).collect()
    }

    /// The pairs of blocks of a kind for which `which` holds, weighed as their tokens are.
    fn blocks(&self, kind: &Kind, query: &[K], keys: Keys<K>, which: impl Fn(usize, usize) -> bool) -> Weight<K> {
        let query = self.split(query).0;
        let key = |block: usize| match keys {
            Keys::At(point) => index_eq(block, self.split(point).0),
            Keys::All => K::one(),
        };
        let weight = |(a, b): (usize, usize)| match which(a, b) {
            true => index_eq(a, query) * key(b),
            false => K::default(),
        };
        let axis = self.shape.full_axes(kind.part).get(2).copied();
        padded(kind.pairs.iter().map(weight).collect(), axis.unwrap_or(0))
    }

    /// Returns the weights of the keys within a block.
    fn keys_within(&self, keys: Keys<K>) -> Weight<K> {
        match keys {
            Keys::At(point) => eq(self.split(point).1),
            Keys::All => Weight::Ones(self.shape.block()),
        }
    }

    /// `layers (x) heads (x) eq(query) (x) keys` on all committed scores of a kind.
    pub(in crate::ops) fn score_tensor(
        &self,
        kind: &Kind,
        [layers, heads]: [Weight<K>; 2],
        query: &[K],
        keys: Keys<K>,
    ) -> Tensor<K> {
        let blocks = self.blocks(kind, query, keys, |_, _| true);
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

    /// `layers (x) heads (x) queries (x) keys` on the committed scores of a kind, of the queries of the text, as a sum.
    pub(in crate::ops) fn score_tensors(
        &self,
        kind: &Kind,
        [layers, heads]: [Weight<K>; 2],
        keys: Keys<K>,
    ) -> Vec<Tensor<K>> {
        let tensor = |own: Queries<K>| {
            let blocks = self.blocks(kind, &self.points.token, keys, |query, _| own.blocks.contains(&query));
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
    pub(super) fn masked_tensors(&self, kind: &Kind, front: [Weight<K>; 2], pairs: Pairs) -> Vec<Tensor<K>> {
        let queries = self.queries().into_iter();
        let of = |own| match self.shape.config.is_causal() {
            true => self.causal_tensors(kind, &front, own, pairs),
            false => self.padding_tensors(kind, &front, own, pairs),
        };
        queries.flat_map(of).collect()
    }

    /// Without a causal mask every query sees the keys of the text. The keys behind the text are masked; they lie in its last block.
    fn padding_tensors(
        &self,
        kind: &Kind,
        [layers, heads]: &[Weight<K>; 2],
        own: Queries<K>,
        pairs: Pairs,
    ) -> Vec<Tensor<K>> {
        let within = self.split(&self.points.key).1;
        let last = self.shape.text_blocks() - 1;
        let tensor = |which: &dyn Fn(usize) -> bool, keys: Weight<K>| {
            let which = |query: usize, key: usize| own.blocks.contains(&query) && which(key);
            let blocks = self.blocks(kind, &self.points.token, Keys::At(&self.points.key), which);
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

    /// The open or the masked pairs of tokens of a causal model: of blocks of keys before the query's all pairs are open, but for those in
    /// which a window begins.
    fn causal_tensors(
        &self,
        kind: &Kind,
        [layers, heads]: &[Weight<K>; 2],
        own: Queries<K>,
        pairs: Pairs,
    ) -> Vec<Tensor<K>> {
        let [(_, row), (_, within)] = [&self.points.token, &self.points.key].map(|point| self.split(point));
        let blocks = |which: &dyn Fn(usize) -> bool| {
            let which = |query: usize, key: usize| own.blocks.contains(&query) && which(query - key);
            self.blocks(kind, &self.points.token, Keys::At(&self.points.key), which)
        };
        let end = own.is_last.then(|| self.shape.end());
        let open = |band| Weight::Open(row.to_vec(), within.to_vec(), band, end);
        let front = |last: Vec<Weight<K>>| [vec![layers.clone(), heads.clone()], last].concat();
        let cut = kind.pairs.cut();
        let is_cut = |before: usize| cut.iter().any(|(own, _)| *own == before);
        let parts: Vec<(Weight<K>, Band)> = cut
            .iter()
            .map(|(before, band)| (blocks(&|apart| apart == *before), *band))
            .collect();
        let whole = match (pairs, parts.as_slice()) {
            (Pairs::Open, _) => blocks(&|apart| !is_cut(apart)),
            (Pairs::Masked, [(own, _)]) => own.clone(),
            (Pairs::Masked, _) => blocks(&is_cut),
        };
        let whole = front(vec![whole, own.within.clone(), eq(within)]);
        let parts = parts.into_iter().map(|(own, band)| {
            let own = if pairs == Pairs::Open { own } else { negated(&own) };
            front(vec![own, open(band)])
        });
        std::iter::once(whole).chain(parts).collect()
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
    use crate::model::{odd_config, test_params, Blocks, Mask, ModelConfig, Output, Pooling, Windows};
    use crate::shape::Shape;
    use crate::statement::Statement;
    use crate::statistics::Statistics;
    use crate::wiring::Points;

    /// Every committed pair of a query of the text is open or masked, never both: in encoders by where the text ends, in all other models
    /// by which token is later, and by the window. Texts end in a block and at its end. Queries behind the text say nothing, and blocks
    /// behind it are in no pair. Whatever a query sees is committed.
    #[test]
    fn every_committed_pair_is_open_or_masked() {
        let encoder = Blocks::encoder(Output::Vector(Pooling::Mean));
        for rows in [1, 2, 3, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64] {
            whole(encoder, rows);
        }
        for rows in [1, 3, 16, 17, 40, 64] {
            whole(Blocks::DECODER, rows);
        }
        for keys in (1..=50).chain([63, 64, 100]) {
            let mask = Mask::Windows(Windows::new(keys, [1]));
            let blocks = Blocks {
                mask,
                ..Blocks::DECODER
            };
            for rows in [1, 3, 11, 16, 17, 40, 64] {
                whole(blocks, rows);
            }
        }
    }

    fn whole(blocks: Blocks, rows: usize) {
        let config = ModelConfig {
            context: 128,
            blocks,
            ..odd_config(2)
        };
        let params = test_params(&config);
        let statement = match config.generates() {
            true => Statement {
                prompt: vec![1; rows],
                output: vec![1],
            },
            false => Statement::of_vector(vec![1; rows], &[0; 20]),
        };
        let shape = Shape::of(&config, &Chunk::whole(2), statement.lengths());
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
        let kinds = shape.kinds();
        assert_eq!(kinds.len(), if config.windows().is_some() { 2 } else { 1 });
        let layers: usize = kinds.iter().map(|kind| kind.layers.len()).sum();
        assert_eq!(layers, 2);
        for kind in &kinds {
            of_kind(&public, kind);
        }
    }

    fn of_kind(public: &Public<'_, K>, kind: &Kind) {
        let (shape, points, rows) = (public.shape, public.points, public.shape.rows);
        let (config, layer) = (&shape.config, kind.layers[0]);
        assert_eq!(shape.layer_of(kind.part, 0), Some(layer));
        let table = |pairs: Pairs| {
            let front = [Weight::Ones(0), Weight::Ones(0)];
            let axes = shape.full_axes(kind.part);
            let mut sum = vec![K::zero(); 1 << axes[2..].iter().sum::<u32>()];
            for tensor in public.masked_tensors(kind, front, pairs) {
                add_tensor(&mut sum, &tensor, K::one());
            }
            sum
        };
        let (open, masked) = (table(Pairs::Open), table(Pairs::Masked));
        assert_eq!(kind.pairs.iter().count(), kind.pairs.count());
        assert!(kind.pairs.cut().len() <= 3);
        let own = kind.pairs.iter().enumerate();
        own.for_each(|(number, (a, b))| {
            let first = [a, b].map(|own| own << shape.block());
            assert_eq!(kind.pairs.tokens([number, 0, 0]), Some((first[0], first[1])));
        });
        assert_eq!(kind.pairs.tokens([kind.pairs.count(), 0, 0]), None);
        let (mut seen, mut sums) = (0, public.seen(kind).into_iter());
        for query in 0..1 << shape.token {
            let visible = config.visible(layer, query, rows);
            let (mut sum, of_query) = (K::zero(), sums.next().unwrap_or_default());
            for key in 0..1 << shape.token {
                let is_open = visible.contains(&key);
                let Some(place @ [pair, i, j]) = kind.pairs.place(query, key) else {
                    assert!(!is_open || query.max(key) >= shape.text_rows());
                    continue;
                };
                assert_eq!(kind.pairs.tokens(place), Some((query, key)));
                assert_eq!(
                    shape.is_pair_of_text(kind.part, &[0, 0, pair, i, j]),
                    query.max(key) < rows
                );
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
                let expected = if is_open {
                    sum += index_eq(key, &points.key);
                    [weight, K::zero()]
                } else {
                    [K::zero(), weight]
                };
                assert!(
                    [open[at], masked[at]] == expected,
                    "{rows} rows, {query} looks at {key}, {:?}",
                    config.windows()
                );
            }
            assert!(query >= rows || sum == of_query, "{rows} rows, what {query} sees");
        }
        // Padded pairs have no weight.
        let weights = open.iter().chain(&masked).filter(|weight| !weight.is_zero());
        assert_eq!(weights.count(), seen);
    }
}
