//! Row spaces: which components a proof has, how tall they are and what their row index means
//! (docs/protocol.md, section 4). A pure function of the model and the number of token rows, computed by
//! both sides; no size is ever read from a proof.

use crate::air::logits::Logits;
use crate::air::requant::Requant;
use crate::air::rope::Rope;
use crate::air::scores::Scores;
use crate::air::stream::Stream;
use crate::air::tables::Tables;
use crate::air::{ff::Ff, tables, Air, AnyAir, Lanes, BINDING_COLUMNS};
use crate::model::{log_ceil, ModelConfig, Padded, MIN_ROWS_LOG};

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
    /// (token, vocabulary entry)
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

impl Part {
    /// Position in [`PARTS`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// How a part is laid out: cut along one axis into lanes of equal length that lie side by side as columns. Only as
/// many lanes are committed as the model's real dimension needs, so that an axis need not be padded to a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The axis that is cut.
    pub axis: usize,
    /// log2 of the entries of a lane along the axis.
    pub log_lane: u32,
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

/// Row spaces of one proof.
#[derive(Clone, Debug)]
pub struct Shape {
    pub config: ModelConfig,
    pub padded: Padded,
    /// log2 of the number of token rows.
    pub token: u32,
    cuts: [Cut; PARTS.len()],
}

impl Shape {
    /// Row spaces for `rows` token rows: of all heights of the tallest part, the one with the lowest total cost.
    pub fn new(config: &ModelConfig, rows: usize) -> Self {
        let mut shape = Self {
            config: config.clone(),
            padded: config.padded(),
            token: ModelConfig::token_log(rows),
            cuts: [Cut {
                axis: 0,
                log_lane: 0,
                lanes: 1,
            }; PARTS.len()],
        };
        let candidates = PARTS.map(|part| shape.candidates(part));
        let mut best = u128::MAX;
        for height in tables::LOG_ROWS..=MAX_HEIGHT {
            let choice = candidates.each_ref().map(|list| cheapest(list, height));
            let sum = |cost: u128, (_, c): &(Cut, Candidate)| cost.saturating_add(c.cost);
            let cost = choice.iter().fold(SHARED_COLUMNS << height, sum);
            if cost < best {
                best = cost;
                shape.cuts = choice.map(|(cut, _)| cut);
            }
        }
        shape
    }

    /// The same row spaces with other cuts, for tests of layouts that only large statements have.
    pub fn with_cuts(mut self, cut: impl Fn(Part, Cut) -> Cut) -> Self {
        for (part, own) in PARTS.into_iter().zip(&mut self.cuts) {
            *own = cut(part, *own);
        }
        self
    }

    /// Every way to lay out a part.
    fn candidates(&self, part: Part) -> Vec<(Cut, Candidate)> {
        let axes = self.full_axes(part);
        let rows: u32 = axes.iter().sum();
        let width = self.lane_air(part, 0).width() as u128;
        let mut list = Vec::new();
        for (axis, real) in self.extents(part) {
            let full = axes.get(axis).copied().unwrap_or(0);
            for log_lane in 0..=full {
                let height = rows - full + log_lane;
                let lanes = real.div_ceil(1 << log_lane).max(1);
                if height < MIN_ROWS_LOG && log_lane < full {
                    continue;
                }
                let column = (1u128 << height) + COLUMN_COST;
                let cost = (width * lanes as u128 + BINDING_COLUMNS as u128) * column;
                let cut = Cut { axis, log_lane, lanes };
                list.push((cut, Candidate { height, cost }));
            }
        }
        list
    }

    /// The axes along which a part may be cut, with their real lengths.
    fn extents(&self, part: Part) -> Vec<(usize, usize)> {
        let c = &self.config;
        let layers = (0, c.layers);
        match part {
            Part::Stream => vec![(0, self.states()), (2, c.hidden)],
            Part::Q | Part::Att => vec![layers, (2, c.heads)],
            Part::K | Part::V => vec![layers, (2, c.kv_heads)],
            Part::Scores => vec![layers, (1, c.heads)],
            Part::Ff => vec![layers, (2, c.ff)],
            Part::Logits => vec![(1, c.vocab)],
            Part::Tables => vec![(0, 1 << tables::LOG_ROWS)],
        }
    }

    /// Number of residual states.
    pub fn states(&self) -> usize {
        2 * self.config.layers + 1
    }

    /// The layout of a part.
    pub fn cut(&self, part: Part) -> Cut {
        let [stream, q, k, v, scores, att, ff, logits, tables] = self.cuts;
        match part {
            Part::Stream => stream,
            Part::Q => q,
            Part::K => k,
            Part::V => v,
            Part::Scores => scores,
            Part::Att => att,
            Part::Ff => ff,
            Part::Logits => logits,
            Part::Tables => tables,
        }
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
            Part::Logits => vec![t, p.vocab],
            Part::Tables => vec![tables::LOG_ROWS],
        }
    }

    /// log2 of the axis lengths of a part's row index, most significant first: one lane.
    pub fn axes(&self, part: Part) -> Vec<u32> {
        let cut = self.cut(part);
        let mut axes = self.full_axes(part);
        if let Some(axis) = axes.get_mut(cut.axis) {
            *axis = cut.log_lane;
        }
        axes
    }

    /// Number of committed entries along an axis; tensors are zero beyond.
    pub fn extent(&self, part: Part, axis: usize) -> usize {
        let cut = self.cut(part);
        if cut.axis == axis {
            return cut.extent();
        }
        self.full_axes(part).get(axis).map_or(1, |log| 1 << log)
    }

    /// log2 of the number of rows of a part.
    pub fn log_rows(&self, part: Part) -> u32 {
        self.axes(part).iter().sum()
    }

    /// The constraints of a part.
    pub fn air(&self, part: Part) -> Lanes {
        Lanes {
            air: self.lane_air(part, self.log_rows(part)),
            lanes: self.cut(part).lanes,
        }
    }

    /// The constraints of one lane.
    fn lane_air(&self, part: Part, log_rows: u32) -> AnyAir {
        match part {
            Part::Stream => AnyAir::Stream(Stream { log_rows }),
            Part::Q => AnyAir::Rope(Rope {
                name: "queries",
                log_rows,
            }),
            Part::K => AnyAir::Rope(Rope { name: "keys", log_rows }),
            Part::V => AnyAir::Requant(Requant {
                name: "values",
                log_rows,
            }),
            Part::Scores => AnyAir::Scores(Scores { log_rows }),
            Part::Att => AnyAir::Requant(Requant {
                name: "attention output",
                log_rows,
            }),
            Part::Ff => AnyAir::Ff(Ff { log_rows }),
            Part::Logits => AnyAir::Logits(Logits { log_rows }),
            Part::Tables => AnyAir::Tables(Tables),
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

    /// Number of committed field elements, without the tables: trace, lookups and bindings.
    pub fn cells(&self) -> u128 {
        let of = |part: &Part| {
            let columns = self.cut(*part).lanes * self.lane_air(*part, 0).width() + BINDING_COLUMNS;
            (columns as u128) << self.log_rows(*part)
        };
        PARTS.iter().filter(|p| **p != Part::Tables).map(of).sum()
    }

    /// log2 of the rows of the tallest component.
    pub fn max_log_rows(&self) -> u32 {
        PARTS.iter().map(|p| self.log_rows(*p)).max().unwrap_or(0)
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
fn cheapest(list: &[(Cut, Candidate)], height: u32) -> (Cut, Candidate) {
    let fits = list
        .iter()
        .filter(|(_, c)| c.height <= height)
        .min_by_key(|(_, c)| c.cost);
    let lowest = || list.iter().min_by_key(|(_, c)| (c.height, c.cost));
    let none = Cut {
        axis: 0,
        log_lane: 0,
        lanes: 1,
    };
    let nothing = Candidate { height: 0, cost: 0 };
    fits.or_else(lowest).copied().unwrap_or((none, nothing))
}
