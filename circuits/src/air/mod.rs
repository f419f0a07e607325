//! The columns of each kind of row and what is looked up in them (docs/protocol.md, sections 8 and 16). Nothing else is said of a row
//! alone: all roundings, sums, broadcasts and products are claims on multilinear extensions, see [`crate::wiring`].

pub mod ff;
pub mod gadgets;
mod integers;
pub mod logits;
pub mod lookups;
pub mod norms;
pub mod softmax;
// stwo's macro documents nothing of what it makes.
#[allow(missing_docs)]
mod relations;
pub mod requant;
pub mod rope;
mod row;
pub mod scores;
pub mod stream;
pub mod tables;

pub use self::integers::base;
use self::lookups::Lookup;
pub use self::relations::{Bits, Cap, Exp, Range16, Relations, Silu};
pub use self::row::Air;

/// The kinds of rows.
#[derive(Clone, Debug)]
pub enum AnyAir {
    /// Residual states and their norms.
    Stream(stream::Stream),
    /// Sums of squares and reciprocal roots of the states' rows.
    Norms(norms::Norms),
    /// Queries or keys, rotated.
    Rope(rope::Rope),
    /// Values, or attention outputs.
    Requant(requant::Requant),
    /// Attention scores, and probabilities.
    Scores(scores::Scores),
    /// Maxima of the scores of every query, sums of exponentials and their reciprocals.
    Softmax(softmax::Softmax),
    /// The MLP.
    Ff(ff::Ff),
    /// Logits of the output tokens.
    Logits(logits::Logits),
}

macro_rules! each {
    ($self:expr, $air:ident => $body:expr) => {
        match $self {
            AnyAir::Stream($air) => $body,
            AnyAir::Norms($air) => $body,
            AnyAir::Rope($air) => $body,
            AnyAir::Requant($air) => $body,
            AnyAir::Scores($air) => $body,
            AnyAir::Softmax($air) => $body,
            AnyAir::Ff($air) => $body,
            AnyAir::Logits($air) => $body,
        }
    };
}

impl Air for AnyAir {
    fn columns(&self) -> usize {
        each!(self, air => air.columns())
    }
    fn powers(&self) -> Vec<(usize, u8)> {
        each!(self, air => air.powers())
    }
    fn lookups(&self) -> Vec<Lookup> {
        each!(self, air => air.lookups())
    }
}

/// The columns of a part: those of one kind of row, for every lane. Columns are lane by lane.
#[derive(Clone, Debug)]
pub struct Lanes {
    /// The columns of a lane.
    pub air: AnyAir,
    /// How many there are.
    pub lanes: usize,
}

impl Lanes {
    /// Lane by lane.
    fn each<T>(&self, own: Vec<T>, shifted: impl Fn(&T, usize) -> T) -> Vec<T> {
        let width = self.air.columns();
        let lanes = (0..self.lanes).flat_map(|lane| own.iter().map(|v| shifted(v, lane * width)).collect::<Vec<_>>());
        lanes.collect()
    }
}

impl Air for Lanes {
    fn columns(&self) -> usize {
        self.lanes * self.air.columns()
    }
    fn powers(&self) -> Vec<(usize, u8)> {
        self.each(self.air.powers(), |(column, tensor), by| (column + by, *tensor))
    }
    fn lookups(&self) -> Vec<Lookup> {
        self.each(self.air.lookups(), Lookup::shifted)
    }
}
