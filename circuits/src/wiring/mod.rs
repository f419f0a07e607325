//! The list of claims of a proof (docs/protocol.md, sections 5 to 8), written once and walked by both
//! sides. Every accumulator, operand, broadcast, statistic and public column of [`crate::air`] appears
//! here; what does not appear here or in a row-local constraint is free.

mod accumulators;
mod operands;
mod parameters;
mod points;
mod products;
mod trace;

use num_traits::{One, Zero};
use stwo::core::fields::qm31::SecureField;

use crate::air::base;
use crate::chunk::Ends;
use crate::claims::Weight;
use crate::mle::less_than_eval;
use crate::model::ModelParams;
use crate::shape::{Part, Shape};
use crate::statement::{Statement, Statistics};

pub use parameters::{pow_column, shift_at, shift_of, update_of, Update, PADDED_EXPONENT};
pub use points::{suffix, Points};
pub use products::{product_variables, Operands, Product, PRODUCTS, WEIGHTED};

type K = SecureField;

/// Bound of the number of claims of a proof, which does not depend on the model.
pub const MAX_CLAIMS: usize = 64;

fn power(x: K, n: usize) -> K {
    (0..n).fold(K::one(), |acc, _| acc * x)
}

fn felt(v: i64) -> K {
    base(v).into()
}

/// A vector along an axis of `2^log` entries, zero beyond `values`.
fn padded(mut values: Vec<K>, log: u32) -> Weight {
    values.resize(1 << log, K::zero());
    Weight::Dense(values)
}

fn eq(point: &[K]) -> Weight {
    Weight::Eq(point.to_vec())
}

/// Everything public that claims depend on.
pub struct Public<'a> {
    /// The row spaces.
    pub shape: &'a Shape,
    /// The parameters of the chunk alone.
    pub params: &'a ModelParams,
    /// What is proved.
    pub statement: &'a Statement,
    /// What enters and leaves the chunk.
    pub ends: Ends<'a>,
    /// The row statistics in clear.
    pub statistics: &'a Statistics,
    /// The random point.
    pub points: &'a Points,
}

impl Public<'_> {
    fn lead(&self, part: Part) -> u32 {
        self.shape.full_axes(part).first().copied().unwrap_or(0)
    }

    /// Sum of `eq(point, .)` over the committed entries of an axis: what a column that is 1 along the axis
    /// evaluates to.
    fn cover(&self, part: Part, axis: usize, point: &[K]) -> K {
        less_than_eval(self.shape.extent(part, axis), point)
    }

    /// Number of leading rows.
    fn leading(&self) -> usize {
        self.statement.leading(&self.params.leading, self.shape.token)
    }

    fn layers(&self) -> usize {
        self.shape.config.layers
    }

    /// `eq(layer, .)` on the real layers, on the leading axis of `part`.
    fn plain_layers(&self, part: Part) -> Weight {
        padded(self.points.layer_weights(self.layers()), self.lead(part))
    }
}
