//! Row spaces: which components a proof has, how tall they are and what their row index means
//! (docs/protocol.md, section 4). A pure function of the model and the number of token rows, computed by
//! both sides; no size is ever read from a proof.

use crate::air::logits::Logits;
use crate::air::requant::Requant;
use crate::air::rope::Rope;
use crate::air::scores::Scores;
use crate::air::stream::Stream;
use crate::air::tables::Tables;
use crate::air::{ff::Ff, tables, Air, AnyAir};
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
    /// (token, vocabulary entry in lane)
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

/// Row spaces of one proof.
#[derive(Clone, Debug)]
pub struct Shape {
    pub config: ModelConfig,
    pub padded: Padded,
    /// log2 of the number of token rows.
    pub token: u32,
    /// log2 of the number of vocabulary lanes.
    pub lanes: u32,
}

impl Shape {
    /// Row spaces for `rows` token rows.
    pub fn new(config: &ModelConfig, rows: usize) -> Self {
        let padded = config.padded();
        let mut shape = Self {
            config: config.clone(),
            padded,
            token: ModelConfig::token_log(rows),
            lanes: 0,
        };
        let others = PARTS
            .iter()
            .filter(|p| **p != Part::Logits)
            .map(|p| shape.log_rows(*p))
            .max()
            .unwrap_or(0);
        let height = shape.token + padded.vocab;
        shape.lanes = height
            .saturating_sub(others)
            .min(height - MIN_ROWS_LOG)
            .min(padded.vocab);
        shape
    }

    /// Number of residual states.
    pub fn states(&self) -> usize {
        2 * self.config.layers + 1
    }

    /// log2 of the axis lengths of a part's row index, most significant first. The leading axis is
    /// stretched where a part would be shorter than [`MIN_ROWS_LOG`].
    pub fn axes(&self, part: Part) -> Vec<u32> {
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
            Part::Logits => vec![t, p.vocab - self.lanes],
            Part::Tables => vec![tables::LOG_ROWS],
        }
    }

    /// log2 of the number of rows of a part.
    pub fn log_rows(&self, part: Part) -> u32 {
        self.axes(part).iter().sum()
    }

    /// The constraints of a part.
    pub fn air(&self, part: Part) -> AnyAir {
        let log_rows = self.log_rows(part);
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
            Part::Logits => AnyAir::Logits(Logits {
                log_rows,
                lanes: 1 << self.lanes,
            }),
            Part::Tables => AnyAir::Tables(Tables),
        }
    }

    /// Number of trace columns of a part.
    pub fn columns(&self, part: Part) -> usize {
        self.air(part).columns()
    }

    /// log2 of the rows of the tallest component.
    pub fn max_log_rows(&self) -> u32 {
        PARTS.iter().map(|p| self.log_rows(*p)).max().unwrap_or(0)
    }
}
