//! Row spaces: which components a proof has, how tall they are and what their row index means
//! (docs/protocol.md, section 4). A pure function of the model and the number of token rows, computed by
//! both sides; no size is ever read from a proof.

use crate::air::logits::Logits;
use crate::air::requant::Requant;
use crate::air::rope::Rope;
use crate::air::scores::Scores;
use crate::air::stream::Stream;
use crate::air::tables::Tables;
use crate::air::{ff::Ff, tables, Air, AnyAir, Lanes, PART_INTERACTION};
use crate::chunk::Chunk;
use crate::model::{log_ceil, LimbSet, Limbs, Matmul, ModelConfig, Padded, MIN_ROWS_LOG};
use crate::statement::Lengths;

/// The components, in commitment order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// (state, token, feature)
    Stream,
    /// (layer, token, head, index in half)
    Q,
    /// (layer, token, key/value head, index in half)
    K,
    /// (layer, token, key/value head, index in head)
    V,
    /// (layer, head, query token, key token)
    Scores,
    /// (layer, token, head, index in head)
    Att,
    /// (layer, token, feature)
    Ff,
    /// (output token, vocabulary entry)
    Logits,
    /// (table row)
    Tables,
}

/// All parts, in commitment order.
pub const PARTS: [Part; 9] = [
    Part::Stream,
    Part::Q,
    Part::K,
    Part::V,
    Part::Scores,
    Part::Att,
    Part::Ff,
    Part::Logits,
    Part::Tables,
];

/// The parts of a chunk without head: [`PARTS`] but for the logits, as a test shows.
const HEADLESS: [Part; 8] = [
    Part::Stream,
    Part::Q,
    Part::K,
    Part::V,
    Part::Scores,
    Part::Att,
    Part::Ff,
    Part::Tables,
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

/// A column costs a proof (and its verification) about as much as this many cells: 2^15 cells take a millisecond of
/// two cores, a column takes 700 bytes.
const COLUMN_COST: u128 = 1 << 15;
/// Columns that only exist once, at the full height: composition and FRI, with their extensions.
const SHARED_COLUMNS: u128 = 48;

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

/// The two axes of a part that may be cut, ascending.
pub type Cuts = [Cut; 2];

/// A part that is not cut.
const WHOLE: Cuts = [Cut {
    axis: 0,
    log_lane: 0,
    lanes: 1,
}; 2];

impl Shape {
    /// Row spaces of a whole model for a statement of these lengths.
    pub fn new(model: &ModelConfig, lengths: impl Into<Lengths>) -> Self {
        Self::of(model, &Chunk::whole(model.layers), lengths)
    }

    /// Row spaces of a chunk of a model for a statement of these lengths: of all heights of the tallest part, the one with
    /// the lowest total cost.
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
            cuts: [WHOLE; PARTS.len()],
        };
        let candidates: Vec<_> = shape
            .parts()
            .iter()
            .map(|part| (part, shape.candidates(*part)))
            .collect();
        let mut best = u128::MAX;
        for height in tables::LOG_ROWS..=MAX_HEIGHT {
            let (mut cost, mut cuts) = (SHARED_COLUMNS << height, [WHOLE; PARTS.len()]);
            for (part, list) in &candidates {
                let (own, candidate) = cheapest(list, height);
                cost = cost.saturating_add(candidate.cost);
                if let Some(cut) = cuts.get_mut(part.index()) {
                    *cut = own;
                }
            }
            if cost < best {
                best = cost;
                shape.cuts = cuts;
            }
        }
        shape
    }

    /// The parts that there are, in commitment order: only the last chunk has logits.
    pub const fn parts(&self) -> &'static [Part] {
        match self.chunk.is_last() {
            true => &PARTS,
            false => &HEADLESS,
        }
    }

    /// The parts that claims are about, in commitment order: all but the tables.
    pub fn claimed(&self) -> impl DoubleEndedIterator<Item = Part> + Clone {
        self.parts().iter().copied().filter(|part| *part != Part::Tables)
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
            *own = cuts(part, *own);
        }
        self
    }

    /// Every way to lay out a part.
    fn candidates(&self, part: Part) -> Vec<(Cuts, Candidate)> {
        let rows: u32 = self.full_axes(part).iter().sum();
        let air = self.lane_air(part, 0);
        let (width, lookups) = (air.columns() as u128, air.lookups().len() as u128);
        let [first, second] = self
            .extents(part)
            .map(|(axis, real)| self.lanes_along(part, axis, real));
        let mut list = Vec::with_capacity(first.len() * second.len());
        for (a, saved) in first {
            for (b, also) in &second {
                let height = rows - saved - also;
                if height < MIN_ROWS_LOG {
                    continue;
                }
                let lanes = (a.lanes * b.lanes) as u128;
                let columns = width * lanes + PART_INTERACTION as u128;
                // A lookup takes about as long as a cell, and no column.
                let cost = columns * ((1u128 << height) + COLUMN_COST) + ((lookups * lanes) << height);
                list.push(([a, *b], Candidate { height, cost }));
            }
        }
        list
    }

    /// Every way to cut one axis, with the log2 by which a lane is shorter.
    fn lanes_along(&self, part: Part, axis: usize, real: usize) -> Vec<(Cut, u32)> {
        let full = self.full_axes(part).get(axis).copied().unwrap_or(0);
        let cut = |log_lane: u32| Cut {
            axis,
            log_lane,
            lanes: real.div_ceil(1 << log_lane).max(1),
        };
        // The tables are preprocessed columns, always whole.
        let lowest = if part == Part::Tables { full } else { 0 };
        (lowest..=full)
            .map(|log_lane| (cut(log_lane), full - log_lane))
            .collect()
    }

    /// The axes along which a part may be cut, ascending, with their real lengths.
    fn extents(&self, part: Part) -> [(usize, usize); 2] {
        let c = &self.config;
        let layers = (0, c.layers);
        match part {
            Part::Stream => [(0, self.states()), (2, c.hidden)],
            Part::Q | Part::Att => [layers, (2, c.heads)],
            Part::K | Part::V => [layers, (2, c.kv_heads)],
            Part::Scores => [layers, (1, c.heads)],
            Part::Ff => [layers, (2, c.ff)],
            Part::Logits => [(0, self.outputs), (1, c.vocab)],
            // There is no second axis.
            Part::Tables => [(0, 1 << tables::LOG_ROWS), (1, 1)],
        }
    }

    /// log2 of the padded number of output tokens.
    pub fn output(&self) -> u32 {
        log_ceil(self.outputs, 0)
    }

    /// Number of residual states.
    pub fn states(&self) -> usize {
        2 * self.config.layers + 1
    }

    /// The layout of a part.
    pub fn cuts(&self, part: Part) -> Cuts {
        self.cuts.get(part.index()).copied().unwrap_or(WHOLE)
    }

    /// Number of lanes of a part; lane `(i, j)` along the first and second cut axis is number `i lanes_2 + j`.
    pub fn lanes(&self, part: Part) -> usize {
        self.cuts(part).iter().map(|cut| cut.lanes).product()
    }

    /// Indices along the cut axes at which a lane starts.
    pub fn lane_start(&self, part: Part, lane: usize) -> [(usize, usize); 2] {
        let [a, b] = self.cuts(part);
        let lanes = b.lanes.max(1);
        [
            (a.axis, (lane / lanes) << a.log_lane),
            (b.axis, (lane % lanes) << b.log_lane),
        ]
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
            Part::Q => lead(p.layers, &[t, p.heads, p.half]),
            Part::K => lead(p.layers, &[t, p.kv_heads, p.half]),
            Part::V => lead(p.layers, &[t, p.kv_heads, p.head_dim()]),
            Part::Scores => lead(p.layers, &[p.heads, t, t]),
            Part::Att => lead(p.layers, &[t, p.heads, p.head_dim()]),
            Part::Ff => lead(p.layers, &[t, p.ff]),
            Part::Logits => lead(self.output(), &[p.vocab]),
            Part::Tables => vec![tables::LOG_ROWS],
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
        let cut = self.cuts(part).into_iter().find(|cut| cut.axis == axis);
        let whole = || self.full_axes(part).get(axis).map_or(1, |log| 1 << log);
        cut.map_or_else(whole, |cut| cut.extent())
    }

    /// log2 of the number of rows of a part.
    pub fn log_rows(&self, part: Part) -> u32 {
        self.axes(part).iter().sum()
    }

    /// The constraints of a part.
    pub fn air(&self, part: Part) -> Lanes {
        Lanes {
            air: self.lane_air(part, self.log_rows(part)),
            lanes: self.lanes(part),
        }
    }

    /// The constraints of one lane.
    fn lane_air(&self, part: Part, log_rows: u32) -> AnyAir {
        match part {
            Part::Stream => AnyAir::Stream(Stream {
                log_rows,
                normed: self.normed(),
            }),
            Part::Q | Part::K => AnyAir::Rope(Rope {
                log_rows,
                ..self.rope(part)
            }),
            Part::V => AnyAir::Requant(Requant {
                log_rows,
                limbs: self.limbs.v,
            }),
            Part::Att => AnyAir::Requant(Requant {
                log_rows,
                limbs: Limbs::Two,
            }),
            Part::Scores => AnyAir::Scores(Scores { log_rows }),
            Part::Ff => AnyAir::Ff(Ff { log_rows, ..self.ff() }),
            Part::Logits => AnyAir::Logits(Logits {
                log_rows,
                limbs: self.limbs.head,
            }),
            Part::Tables => AnyAir::Tables(Tables),
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
        Rope {
            log_rows: 0,
            limbs,
            out,
        }
    }

    /// The columns of the MLP.
    pub const fn ff(&self) -> Ff {
        Ff {
            log_rows: 0,
            gated: self.config.gated,
            gate: self.limbs.gate,
            up: self.limbs.up,
        }
    }

    /// Number of trace columns of one lane of a part.
    pub fn lane_columns(&self, part: Part) -> usize {
        self.lane_air(part, 0).columns()
    }

    /// Number of trace columns of a part.
    pub fn columns(&self, part: Part) -> usize {
        self.air(part).columns()
    }

    /// Number of committed field elements, without the tables: trace and bindings.
    pub fn cells(&self) -> u128 {
        let of = |part: Part| ((self.columns(part) + PART_INTERACTION) as u128) << self.log_rows(part);
        self.claimed().map(of).sum()
    }

    /// Number of lookups of all parts.
    pub fn fractions(&self) -> u128 {
        let of = |part: Part| {
            let per_row = self.lanes(part) * self.lane_air(part, 0).lookups().len();
            (per_row as u128) << self.log_rows(part)
        };
        self.claimed().map(of).sum()
    }

    /// log2 of the rows of the tallest component.
    pub fn max_log_rows(&self) -> u32 {
        self.parts().iter().map(|p| self.log_rows(*p)).max().unwrap_or(0)
    }
}

/// log2 of the greatest height that is tried.
const MAX_HEIGHT: u32 = 30;

/// What a layout costs.
#[derive(Clone, Copy)]
struct Candidate {
    height: u32,
    cost: u128,
}

/// The cheapest layout that is not taller than `height`; the lowest if there is none.
fn cheapest(list: &[(Cuts, Candidate)], height: u32) -> (Cuts, Candidate) {
    let fits = list
        .iter()
        .filter(|(_, c)| c.height <= height)
        .min_by_key(|(_, c)| c.cost);
    let lowest = || list.iter().min_by_key(|(_, c)| (c.height, c.cost));
    let nothing = Candidate { height: 0, cost: 0 };
    fits.or_else(lowest).copied().unwrap_or((WHOLE, nothing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{odd_config, MAX_CONTEXT};

    #[test]
    fn only_the_logits_are_missing_without_a_head() {
        let rest = PARTS.into_iter().filter(|part| *part != Part::Logits);
        assert!(rest.eq(HEADLESS));
    }

    /// Section 4 of the document: trace columns and lookups of a lane, of accumulators in two limbs and in one.
    #[test]
    fn lanes_have_the_columns_of_the_document() {
        let (config, whole) = (odd_config(2), Chunk::whole(2));
        let expected = [
            (
                Limbs::Two,
                [
                    (14, 9),
                    (16, 14),
                    (18, 16),
                    (7, 6),
                    (15, 10),
                    (7, 6),
                    (17, 13),
                    (6, 5),
                    (4, 0),
                ],
            ),
            (
                Limbs::One,
                [
                    (13, 8),
                    (10, 8),
                    (12, 10),
                    (4, 3),
                    (15, 10),
                    (7, 6),
                    (11, 7),
                    (3, 2),
                    (4, 0),
                ],
            ),
        ];
        for (limbs, expected) in expected {
            let shape = Shape::with_limbs(&config, LimbSet::all(limbs), &whole, 4);
            for (part, (columns, lookups)) in PARTS.into_iter().zip(expected) {
                let air = shape.lane_air(part, 10);
                let own = (air.columns(), air.lookups().len(), air.log_rows());
                let log_rows = if part == Part::Tables { tables::LOG_ROWS } else { 10 };
                assert_eq!(own, (columns, lookups, log_rows), "{part:?}, {limbs:?}");
            }
        }
    }

    /// A key may have any architecture, and its sizes are computed before it is refused: on a host of 32 bits, too.
    #[test]
    fn sizes_of_the_largest_architecture_fit_in_32_bits() {
        let config = ModelConfig {
            hidden: 1 << 14,
            layers: 1 << 10,
            heads: 1 << 8,
            kv_heads: 1 << 8,
            head_dim: 128,
            ff: 1 << 16,
            vocab: 1 << 18,
            context: MAX_CONTEXT,
            ..odd_config(1)
        };
        assert_eq!(config.check(), Ok(()));
        assert_eq!(u32::try_from(config.total_tiles()), Ok(1_344_274_432));
        for chunk in Chunk::partition([1, 1023], 1024)
            .into_iter()
            .flatten()
            .chain([Chunk::whole(1024)])
        {
            let shape = Shape::of(&config, &chunk, MAX_CONTEXT);
            // No text of such a model can be proved: the sums that say so are of 128 bits.
            assert!(shape.fractions() > 1 << 31 && shape.cells() > 1 << 36, "{chunk:?}");
            assert!(shape
                .parts()
                .iter()
                .all(|part| u32::try_from(shape.columns(*part)).is_ok()));
        }
    }

    /// The normed state is committed in limbs if one of its matmuls wants them: every matmul can read it then.
    #[test]
    fn the_normed_state_has_the_limbs_of_its_matmuls() {
        let (config, whole) = (odd_config(2), Chunk::whole(2));
        let one = LimbSet::all(Limbs::One);
        let normed = |limbs| Shape::with_limbs(&config, limbs, &whole, 4).normed();
        assert_eq!(normed(one), Limbs::One);
        let changes: [fn(&mut LimbSet); 6] = [
            |set| set.q = Limbs::Two,
            |set| set.k = Limbs::Two,
            |set| set.v = Limbs::Two,
            |set| set.gate = Limbs::Two,
            |set| set.up = Limbs::Two,
            |set| set.head = Limbs::Two,
        ];
        for change in changes {
            let mut set = one;
            change(&mut set);
            assert_eq!(normed(set), Limbs::Two, "{set:?}");
        }
    }
}
