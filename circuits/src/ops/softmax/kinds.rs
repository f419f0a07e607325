//! Layers whose queries see the same keys, and the pairs of blocks of tokens whose scores these layers commit (docs/protocol.md, sections 4
//! and 16.15).

use crate::band::Band;
use crate::shape::Part;
use crate::sizes::Sizes;

/// Layers whose queries see the same keys. Their scores are a part of their own, because they have their own pairs of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The part of their scores.
    pub part: Part,
    /// The layers, ascending: the first axis of the part.
    pub layers: Vec<usize>,
    /// The pairs of blocks: the third axis.
    pub pairs: BlockPairs,
}

/// The pairs of blocks of tokens whose scores are committed: those in which a query sees a key. Without a causal mask these are all pairs of
/// blocks of the text; with it, the block of the query and some blocks before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPairs {
    /// Blocks of the text, at least one.
    blocks: usize,
    /// log2 of the tokens of a block.
    block: u32,
    /// How many blocks before its own a query sees keys of; `None` without a causal mask.
    reach: Option<usize>,
    /// The most keys that a query sees, if there is a window.
    window: Option<usize>,
}

impl BlockPairs {
    /// The blocks of keys of a block of queries.
    const fn keys(&self, query: usize) -> std::ops::Range<usize> {
        match self.reach {
            Some(reach) => query.saturating_sub(reach)..query + 1,
            None => 0..self.blocks,
        }
    }

    /// All of them in order: blocks of a query and of a key.
    pub fn iter(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let own = *self;
        (0..own.blocks).flat_map(move |query| own.keys(query).map(move |key| (query, key)))
    }

    /// How many pairs the blocks of queries before this one have.
    const fn before(&self, query: usize) -> usize {
        match self.reach {
            // The first blocks have fewer blocks before them than a query sees.
            Some(reach) if query <= reach => query * (query + 1) / 2,
            Some(reach) => (reach + 1) * (reach + 2) / 2 + (query - reach - 1) * (reach + 1),
            None => query * self.blocks,
        }
    }

    /// How many there are.
    pub const fn count(&self) -> usize {
        self.before(self.blocks)
    }

    /// The blocks of a pair by its number; `None` behind the last one.
    fn pair(&self, number: usize) -> Option<(usize, usize)> {
        if number >= self.count() {
            return None;
        }
        let query = match self.reach {
            Some(reach) if number < self.before(reach + 1) => (number.checked_mul(8)?.checked_add(1)?.isqrt() - 1) / 2,
            Some(reach) => reach + 1 + (number - self.before(reach + 1)) / (reach + 1),
            None => number / self.blocks,
        };
        Some((query, self.keys(query).start + number - self.before(query)))
    }

    /// Indices along the last three axes of the part of a query and a key of a committed pair.
    pub fn place(&self, query: usize, key: usize) -> Option<[usize; 3]> {
        let within = (1 << self.block) - 1;
        let (a, b) = (query >> self.block, key >> self.block);
        let keys = self.keys(a);
        let known = a < self.blocks && keys.contains(&b);
        known.then(|| [self.before(a) + b - keys.start, query & within, key & within])
    }

    /// The query and the key of an entry, from its indices along the last three axes. Padded pairs have none.
    pub fn tokens(&self, [pair, query, key]: [usize; 3]) -> Option<(usize, usize)> {
        let (a, b) = self.pair(pair)?;
        Some(((a << self.block) | query, (b << self.block) | key))
    }

    /// How many blocks before its own a query sees keys of; `None` without a causal mask.
    pub const fn reach(&self) -> Option<usize> {
        self.reach
    }

    /// Which keys the queries see in a pair of blocks whose key block is so many blocks before the query's; `None` if every query sees every
    /// key there.
    pub fn band(&self, blocks_before: usize) -> Option<Band> {
        let tokens = 1i64 << self.block;
        // The query and the key are `apart + i - j` tokens apart, `i` and `j` their places in their blocks.
        let apart = tokens * blocks_before as i64;
        let to = self
            .window
            .map(|window| window as i64 - apart)
            .filter(|to| *to < tokens);
        let to = to.map(|to| to.max(-tokens) as i32);
        match (blocks_before, to) {
            (0, None) => Some(Band::CAUSAL),
            (0, Some(to)) => Some(Band { from: 0, to }),
            (_, to) => to.map(|to| Band {
                from: -tokens as i32,
                to,
            }),
        }
    }

    /// How many blocks before the query's, and the band, of all pairs of blocks in which a query does not see every key: the block of the
    /// query itself, and where a window begins, two further ones at most.
    pub fn cut(&self) -> Vec<(usize, Band)> {
        let far = (0..=self.reach.unwrap_or(0)).rev();
        // Behind the last block that is seen as a whole there are none.
        let tails = far.clone().take_while(|c| *c > 0 && self.band(*c).is_some());
        let mut cut: Vec<usize> = std::iter::once(0).chain(tails).collect();
        cut.sort_unstable();
        cut.into_iter().filter_map(|c| Some((c, self.band(c)?))).collect()
    }
}

impl Sizes {
    /// The pairs of blocks of layers that have a window of so many keys, or none.
    pub fn pairs(&self, window: Option<usize>) -> BlockPairs {
        let (blocks, block) = (self.text_blocks().max(1), self.block());
        let tokens = 1usize << block;
        // A key `c` blocks before the query is at least `c tokens - (tokens - 1)` tokens before it.
        let seen = window.map_or(blocks, |window| (window + tokens - 2) >> block);
        BlockPairs {
            blocks,
            block,
            reach: self.config.is_causal().then(|| seen.min(blocks - 1)),
            window: window.filter(|_| self.config.is_causal()),
        }
    }

    /// The window of the layers of a part of scores.
    pub(super) fn window_of(&self, part: Part) -> Option<usize> {
        let own = self.config.windows().filter(|_| part == Part::WINDOWED);
        own.map(|own| own.keys as usize)
    }

    /// The kinds of layers, by which keys their queries see: those without a window, and those with one.
    pub fn kinds(&self) -> Vec<Kind> {
        let of = |part: Part| {
            let windowed = part == Part::WINDOWED;
            let layers = (0..self.config.layers).filter(|layer| self.config.window(*layer).is_some() == windowed);
            Kind {
                part,
                layers: layers.collect(),
                pairs: self.pairs(self.window_of(part)),
            }
        };
        let kinds = [Part::SCORES, Part::WINDOWED].map(of).into_iter();
        kinds.filter(|kind| !kind.layers.is_empty()).collect()
    }

    /// The kind of a layer.
    pub fn kind_of(&self, layer: usize) -> Option<Kind> {
        self.kinds().into_iter().find(|kind| kind.layers.contains(&layer))
    }

    /// The layer of an index along the first axis of a part of scores.
    pub fn layer_of(&self, part: Part, index: usize) -> Option<usize> {
        let Some(windows) = self.config.windows() else {
            return (part == Part::SCORES && index < self.config.layers).then_some(index);
        };
        let windowed = part == Part::WINDOWED;
        let mut layers = (0..self.config.layers).filter(|layer| windows.has(*layer) == windowed);
        layers.nth(index)
    }

    /// Whether both tokens of an entry of a part of scores are of the text. Padded pairs have none.
    pub(super) fn is_pair_of_text(&self, part: Part, place: &[usize]) -> bool {
        let tokens = match place {
            [_, _, pair, query, key] => self.pairs(self.window_of(part)).tokens([*pair, *query, *key]),
            _ => None,
        };
        tokens.is_some_and(|(query, key)| query < self.rows && key < self.rows)
    }
}
