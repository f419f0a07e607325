//! Row spaces: which components a proof has, how tall they are and what their row index means
//! (docs/protocol.md, section 4). A pure function of the model and the number of token rows, computed by
//! both sides; no size is ever read from a proof.

use crate::air::ff::Ff;
use crate::air::logits::Logits;
use crate::air::lookups::Lookup;
use crate::air::norms::Norms;
use crate::air::requant::Requant;
use crate::air::rope::Rope;
use crate::air::scores::Scores;
use crate::air::softmax::Softmax;
use crate::air::stream::Stream;
use crate::air::{Air, AnyAir, Lanes};
use crate::chunk::Chunk;
use crate::model::{log_ceil, LimbSet, Limbs, Matmul, ModelConfig, Padded, MIN_ROWS_LOG};
use crate::statement::Lengths;

/// The kinds of rows, in commitment order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// (state, token, feature)
    Stream,
    /// (state, token)
    Norms,
    /// (layer, token, head, index in half)
    Q,
    /// (layer, token, key/value head, index in half)
    K,
    /// (layer, token, key/value head, index in head)
    V,
    /// (layer, head, pair of blocks of tokens, query in its block, key in its block)
    Scores,
    /// (layer, head, query token)
    Softmax,
    /// (layer, token, head, index in head)
    Att,
    /// (layer, token, feature)
    Ff,
    /// (output token, vocabulary entry)
    Logits,
    /// (layer, token, head), where heads are normed
    QNorms,
    /// (layer, token, key/value head), where heads are normed
    KNorms,
}

/// All parts, in commitment order.
pub const PARTS: [Part; 12] = [
    Part::Stream,
    Part::Norms,
    Part::Q,
    Part::K,
    Part::V,
    Part::Scores,
    Part::Softmax,
    Part::Att,
    Part::Ff,
    Part::Logits,
    Part::QNorms,
    Part::KNorms,
];

/// The parts where heads are not normed: [`PARTS`] but for the norms of heads, as a test shows.
const PLAIN: [Part; 10] = [
    Part::Stream,
    Part::Norms,
    Part::Q,
    Part::K,
    Part::V,
    Part::Scores,
    Part::Softmax,
    Part::Att,
    Part::Ff,
    Part::Logits,
];

/// The parts of a chunk without head where heads are normed: [`PARTS`] but for the logits.
const HEADLESS: [Part; 11] = [
    Part::Stream,
    Part::Norms,
    Part::Q,
    Part::K,
    Part::V,
    Part::Scores,
    Part::Softmax,
    Part::Att,
    Part::Ff,
    Part::QNorms,
    Part::KNorms,
];

/// The parts of a chunk without head where they are not: [`PLAIN`] but for the logits.
const PLAIN_HEADLESS: [Part; 9] = [
    Part::Stream,
    Part::Norms,
    Part::Q,
    Part::K,
    Part::V,
    Part::Scores,
    Part::Softmax,
    Part::Att,
    Part::Ff,
];

impl Part {
    /// Position in [`PARTS`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// An axis of a part, cut into lanes of equal length that lie side by side as columns. Only as many lanes are committed
/// as the model's real dimension needs, so that an axis need not be padded to a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The axis that is cut.
    pub axis: usize,
    /// log2 of the entries of a lane along the axis.
    pub log_lane: u32,
    /// Number of lanes.
    pub lanes: usize,
}

impl Cut {
    /// Number of committed entries along the axis.
    pub const fn extent(&self) -> usize {
        self.lanes << self.log_lane
    }
}

/// log2 of the tokens of a block: scores are committed for the blocks of keys up to that of the query.
const BLOCK_LOG: u32 = 4;

/// A column costs a proof as much as this many cells, by what is claimed of it and looked up in it.
const COLUMN_COST: u128 = 1 << 12;

/// Row spaces of a chunk.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The architecture of the chunk alone: its layers, not the model's.
    pub config: ModelConfig,
    /// The layers that are proved.
    pub chunk: Chunk,
    /// Padded dimensions of the chunk.
    pub padded: Padded,
    /// log2 of the number of token rows.
    pub token: u32,
    /// Number of output tokens.
    pub outputs: usize,
    /// How accumulators are claimed.
    pub limbs: LimbSet,
    cuts: [Cuts; PARTS.len()],
}

/// The axes of a part that may be cut, ascending.
pub type Cuts = Vec<Cut>;

impl Shape {
    /// Row spaces of a whole model for a statement of these lengths.
    pub fn new(model: &ModelConfig, lengths: impl Into<Lengths>) -> Self {
        Self::of(model, &Chunk::whole(model.layers), lengths)
    }

    /// Row spaces of a chunk of a model for a statement of these lengths: of all ways to cut a part, the cheapest.
    pub fn of(model: &ModelConfig, chunk: &Chunk, lengths: impl Into<Lengths>) -> Self {
        Self::with_limbs(model, LimbSet::all(Limbs::Two), chunk, lengths)
    }

    /// The same with other limbs of accumulators than two of all.
    pub fn with_limbs(model: &ModelConfig, limbs: LimbSet, chunk: &Chunk, lengths: impl Into<Lengths>) -> Self {
        let Lengths { rows, outputs } = lengths.into();
        let config = chunk.config(model);
        let mut shape = Self {
            padded: config.padded(),
            config,
            chunk: *chunk,
            token: ModelConfig::token_log(rows),
            outputs,
            limbs,
            cuts: [const { Vec::new() }; PARTS.len()],
        };
        for part in shape.parts() {
            let cuts = shape.cheapest(*part);
            if let Some(own) = shape.cuts.get_mut(part.index()) {
                *own = cuts;
            }
        }
        shape
    }

    /// The parts that there are, in commitment order: not all have logits.
    pub const fn parts(&self) -> &'static [Part] {
        match (self.has_logits(), self.config.head_norms) {
            (true, true) => &PARTS,
            (true, false) => &PLAIN,
            (false, true) => &HEADLESS,
            (false, false) => &PLAIN_HEADLESS,
        }
    }

    /// What every part has, by [`Part::index`]: the default where there is no such part.
    pub fn by_part<T: Default>(&self, mut of: impl FnMut(Part) -> T) -> Vec<T> {
        let all = PARTS.into_iter();
        all.map(|part| match self.parts().contains(&part) {
            true => of(part),
            false => T::default(),
        })
        .collect()
    }

    /// Whether there are logits: of models that generate tokens, in the last chunk.
    pub const fn has_logits(&self) -> bool {
        self.chunk.is_last() && !self.config.is_encoder()
    }

    /// The architecture of the whole model.
    pub fn model(&self) -> ModelConfig {
        ModelConfig {
            layers: self.chunk.of,
            ..self.config.clone()
        }
    }

    /// The weight matrices of the chunk ([`Chunk::matmuls`]).
    pub fn matmuls(&self) -> Vec<Matmul> {
        self.chunk.matmuls(&self.model())
    }

    /// The same row spaces with other cuts, for tests of layouts that only large statements have.
    pub fn with_cuts(mut self, cuts: impl Fn(Part, Cuts) -> Cuts) -> Self {
        for (part, own) in PARTS.into_iter().zip(&mut self.cuts) {
            *own = cuts(part, std::mem::take(own));
        }
        self
    }

    /// The way to cut a part that costs least; the first of equal ones.
    fn cheapest(&self, part: Part) -> Cuts {
        let rows: u32 = self.full_axes(part).iter().sum();
        let air = self.lane_air(part);
        let (width, lookups) = (committed(&air) as u128, air.lookups().len() as u128);
        // Every way to cut all axes, the first axis changing last, with the log2 by which a lane is shorter.
        let ways = self
            .extents(part)
            .into_iter()
            .fold(vec![(Cuts::new(), 0)], |ways, (axis, real)| {
                let along = self.lanes_along(part, axis, real);
                let with = |(cuts, saved): &(Cuts, u32), (cut, also): &(Cut, u32)| {
                    (cuts.iter().copied().chain([*cut]).collect(), saved + also)
                };
                let longer = ways.iter().flat_map(|way| along.iter().map(move |own| with(way, own)));
                longer.collect()
            });
        let cost = |(cuts, saved): (Cuts, u32)| {
            let height = rows.checked_sub(saved).filter(|height| *height >= MIN_ROWS_LOG)?;
            let lanes: u128 = cuts.iter().map(|cut| cut.lanes as u128).product();
            Some((lanes * (((width + lookups) << height) + width * COLUMN_COST), cuts))
        };
        let cheapest = ways.into_iter().filter_map(cost).min_by_key(|(cost, _)| *cost);
        cheapest.map_or_else(Cuts::new, |(_, cuts)| cuts)
    }

    /// Every way to cut one axis, with the log2 by which a lane is shorter.
    fn lanes_along(&self, part: Part, axis: usize, real: usize) -> Vec<(Cut, u32)> {
        let full = self.full_axes(part).get(axis).copied().unwrap_or(0);
        let cut = |log_lane: u32| Cut {
            axis,
            log_lane,
            lanes: real.div_ceil(1 << log_lane).max(1),
        };
        (0..=full).map(|log_lane| (cut(log_lane), full - log_lane)).collect()
    }

    /// The axes along which a part may be cut, ascending, with their real lengths.
    fn extents(&self, part: Part) -> Vec<(usize, usize)> {
        let c = &self.config;
        let layers = (0, c.layers);
        match part {
            Part::Stream => vec![(0, self.states()), (2, c.hidden)],
            Part::Norms => vec![(0, self.states())],
            Part::Q | Part::Att | Part::QNorms => vec![layers, (2, c.heads)],
            Part::K | Part::V | Part::KNorms => vec![layers, (2, c.kv_heads)],
            Part::Scores => vec![layers, (1, c.heads), (2, self.pairs().count())],
            Part::Softmax => vec![layers, (1, c.heads)],
            Part::Ff => vec![layers, (2, c.ff)],
            Part::Logits => vec![(0, self.outputs), (1, c.vocab)],
        }
    }

    /// log2 of the tokens of a block.
    pub const fn block(&self) -> u32 {
        if self.token < BLOCK_LOG {
            self.token
        } else {
            BLOCK_LOG
        }
    }

    /// log2 of the number of blocks of tokens.
    pub const fn blocks(&self) -> u32 {
        self.token - self.block()
    }

    /// The pairs of blocks of tokens whose scores are committed, in order: that of the query, and one up to it, of the key; in
    /// encoders any one.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        let (blocks, all) = (1usize << self.blocks(), self.config.is_encoder());
        let keys = move |query: usize| if all { blocks } else { query + 1 };
        (0..blocks).flat_map(move |query| (0..keys(query)).map(move |key| (query, key)))
    }

    /// Indices along the last three axes of [`Part::Scores`] of a query and a key of a committed pair of blocks.
    pub fn pair_place(&self, query: usize, key: usize) -> Option<[usize; 3]> {
        let within = (1 << self.block()) - 1;
        let blocks = (query >> self.block(), key >> self.block());
        let pair = self.pairs().position(|own| own == blocks)?;
        Some([pair, query & within, key & within])
    }

    /// The query and the key of an entry of [`Part::Scores`], from its indices along the last three axes. Padded pairs have none.
    pub fn pair_tokens(&self, [pair, query, key]: [usize; 3]) -> Option<(usize, usize)> {
        let (a, b) = self.pairs().nth(pair)?;
        Some(((a << self.block()) | query, (b << self.block()) | key))
    }

    /// log2 of the padded number of output tokens.
    pub fn output(&self) -> u32 {
        log_ceil(self.outputs, 0)
    }

    /// Number of residual states.
    pub fn states(&self) -> usize {
        self.config.states()
    }

    /// The layout of a part.
    pub fn cuts(&self, part: Part) -> &[Cut] {
        self.cuts.get(part.index()).map_or(&[], Vec::as_slice)
    }

    /// Number of lanes of a part. The lane of each cut axis is a digit of a lane's number, the first axis most significant.
    pub fn lanes(&self, part: Part) -> usize {
        self.cuts(part).iter().map(|cut| cut.lanes).product()
    }

    /// Indices along the cut axes at which a lane starts.
    pub fn lane_start(&self, part: Part, lane: usize) -> Vec<(usize, usize)> {
        let mut rest = lane;
        let cuts = self.cuts(part).iter().rev();
        let start = cuts.map(|cut| {
            let own = rest % cut.lanes.max(1);
            rest /= cut.lanes.max(1);
            (cut.axis, own << cut.log_lane)
        });
        let mut start: Vec<_> = start.collect();
        start.reverse();
        start
    }

    /// log2 of the axis lengths of a part's tensors, most significant first, as claims index them. The leading axis
    /// is stretched where a part would be shorter than [`MIN_ROWS_LOG`].
    pub fn full_axes(&self, part: Part) -> Vec<u32> {
        let (p, t) = (&self.padded, self.token);
        let lead = |len: u32, rest: &[u32]| {
            let sum: u32 = rest.iter().sum();
            let mut axes = vec![len.max(MIN_ROWS_LOG.saturating_sub(sum))];
            axes.extend_from_slice(rest);
            axes
        };
        match part {
            Part::Stream => lead(log_ceil(self.states(), 0), &[t, p.hidden]),
            Part::Norms => lead(log_ceil(self.states(), 0), &[t]),
            Part::Q => lead(p.layers, &[t, p.heads, p.half]),
            Part::K => lead(p.layers, &[t, p.kv_heads, p.half]),
            Part::V => lead(p.layers, &[t, p.kv_heads, p.head_dim()]),
            Part::Scores => {
                let pairs = log_ceil(self.pairs().count(), 0);
                lead(p.layers, &[p.heads, pairs, self.block(), self.block()])
            }
            Part::Softmax => lead(p.layers, &[p.heads, t]),
            Part::Att => lead(p.layers, &[t, p.heads, p.head_dim()]),
            Part::Ff => lead(p.layers, &[t, p.ff]),
            Part::Logits => lead(self.output(), &[p.vocab]),
            Part::QNorms => lead(p.layers, &[t, p.heads]),
            Part::KNorms => lead(p.layers, &[t, p.kv_heads]),
        }
    }

    /// log2 of the axis lengths of a part's row index, most significant first: one lane.
    pub fn axes(&self, part: Part) -> Vec<u32> {
        let mut axes = self.full_axes(part);
        for cut in self.cuts(part) {
            if let Some(axis) = axes.get_mut(cut.axis) {
                *axis = cut.log_lane;
            }
        }
        axes
    }

    /// Number of committed entries along an axis; tensors are zero beyond.
    pub fn extent(&self, part: Part, axis: usize) -> usize {
        let cut = self.cuts(part).iter().find(|cut| cut.axis == axis);
        let whole = || self.full_axes(part).get(axis).map_or(1, |log| 1 << log);
        cut.map_or_else(whole, Cut::extent)
    }

    /// log2 of the number of rows of a part.
    pub fn log_rows(&self, part: Part) -> u32 {
        self.axes(part).iter().sum()
    }

    /// The columns of a part.
    pub fn air(&self, part: Part) -> Lanes {
        Lanes {
            air: self.lane_air(part),
            lanes: self.lanes(part),
        }
    }

    /// The columns of one lane.
    fn lane_air(&self, part: Part) -> AnyAir {
        match part {
            Part::Stream => AnyAir::Stream(Stream { normed: self.normed() }),
            Part::Norms | Part::QNorms | Part::KNorms => AnyAir::Norms(Norms),
            Part::Q | Part::K => AnyAir::Rope(self.rope(part)),
            Part::V => AnyAir::Requant(Requant { limbs: self.limbs.v }),
            Part::Att => AnyAir::Requant(Requant { limbs: Limbs::Two }),
            Part::Scores => AnyAir::Scores(self.scores()),
            Part::Softmax => AnyAir::Softmax(Softmax),
            Part::Ff => AnyAir::Ff(self.ff()),
            Part::Logits => AnyAir::Logits(Logits { limbs: self.limbs.head }),
        }
    }

    /// How the normed state enters its matmuls: in limbs if one of them wants them.
    pub fn normed(&self) -> Limbs {
        let LimbSet {
            q,
            k,
            v,
            gate,
            up,
            head,
        } = self.limbs;
        [q, k, v, gate, up, head].into_iter().max().unwrap_or(Limbs::Two)
    }

    /// The columns of queries or keys: keys enter the scores in limbs, and queries as they are.
    pub const fn rope(&self, part: Part) -> Rope {
        let (limbs, out) = match part {
            Part::Q => (self.limbs.q, Limbs::One),
            _ => (self.limbs.k, Limbs::Two),
        };
        let normed = self.config.head_norms;
        Rope { limbs, out, normed }
    }

    /// The columns of the scores.
    pub const fn scores(&self) -> Scores {
        Scores {
            capped: self.config.score_cap().is_some(),
        }
    }

    /// The columns of the MLP.
    pub const fn ff(&self) -> Ff {
        Ff {
            gated: self.config.gated,
            gate: self.limbs.gate,
            up: self.limbs.up,
        }
    }

    /// Number of columns of one lane of a part, public ones included.
    pub fn lane_columns(&self, part: Part) -> usize {
        self.lane_air(part).columns()
    }

    /// Number of columns of a part, public ones included.
    pub fn columns(&self, part: Part) -> usize {
        self.air(part).columns()
    }

    /// The columns of a part that are committed to, ascending: all but the public ones.
    pub fn committed(&self, part: Part) -> Vec<usize> {
        let air = self.air(part);
        let powers = air.powers();
        let public = |column: &usize| powers.iter().any(|(public, _)| public == column);
        (0..air.columns()).filter(|column| !public(column)).collect()
    }

    /// Number of committed cells.
    pub fn cells(&self) -> u128 {
        let of = |part: &Part| {
            let width = self.lanes(*part) * committed(&self.lane_air(*part));
            (width as u128) << self.log_rows(*part)
        };
        self.parts().iter().map(of).sum()
    }

    /// Number of units, `2^MIN_ROWS_LOG` cells of a column each, that are committed to: parts in order, columns ascending.
    pub fn units(&self) -> u128 {
        self.cells() >> MIN_ROWS_LOG
    }

    /// Number of lookups of all parts.
    pub fn fractions(&self) -> u128 {
        self.lookups_of(|_| 1)
    }

    /// The sum of a number of every lookup, over all rows of all parts.
    pub fn lookups_of(&self, number: impl Fn(&Lookup) -> u128) -> u128 {
        let of = |part: &Part| {
            let per_row: u128 = self.lane_air(*part).lookups().iter().map(&number).sum();
            (self.lanes(*part) as u128 * per_row) << self.log_rows(*part)
        };
        self.parts().iter().map(of).sum()
    }

    /// log2 of the rows of the tallest part.
    pub fn max_log_rows(&self) -> u32 {
        self.parts().iter().map(|p| self.log_rows(*p)).max().unwrap_or(0)
    }
}

/// Number of columns of a lane that are committed to.
fn committed(air: &AnyAir) -> usize {
    air.columns() - air.powers().len()
}

#[cfg(test)]
mod tests;
