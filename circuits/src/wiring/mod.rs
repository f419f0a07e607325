//! The list of claims of a proof (docs/protocol.md, sections 7 and 16), written once and walked by both
//! sides. Every accumulator, operand, broadcast, and statistic of [`crate::air`] appears
//! here; what does not appear here or in a lookup is free.

mod accumulators;
mod heads;
mod operands;
mod points;
mod products;
mod scores;
mod terms;
mod trace;

use crate::scalar::{Scalar, Source, Word};
use stwo::core::fields::qm31::SecureField;

use crate::chunk::Ends;
use crate::claims::Weight;
use crate::model::ModelParams;
use crate::rounding::Powers;
use crate::shape::{Part, Shape};
use crate::statement::Statement;
use crate::statistics::Statistics;

use self::terms::{eq, felt, padded};
pub use heads::NormedHeads;
pub use points::{suffix, NormWeights, Points};
pub use products::{product_variables, Operands, Product, PRODUCTS, ROOT_FACTORS, WEIGHTED};

/// Bound of the number of claims of a proof, which does not depend on the model.
pub const MAX_CLAIMS: usize = 64;

/// Everything public that claims depend on.
pub struct Public<'a, K = SecureField> {
    /// The row spaces.
    pub shape: &'a Shape,
    /// The parameters of the chunk alone.
    pub params: &'a ModelParams,
    /// What is proved.
    pub statement: &'a Statement,
    /// What enters and leaves the chunk.
    pub ends: Ends<'a>,
    /// What a proof has in clear: logits and clipped values.
    pub statistics: &'a Statistics,
    /// The random point.
    pub points: &'a Points<K>,
}

impl<K: Scalar> Public<'_, K> {
    fn lead(&self, part: Part) -> u32 {
        self.shape.full_axes(part).first().copied().unwrap_or(0)
    }

    /// The public columns.
    pub fn powers(&self) -> Powers<'_> {
        Powers {
            shape: self.shape,
            params: self.params,
            leading: self.leading(),
        }
    }

    /// Number of leading rows.
    fn leading(&self) -> usize {
        self.statement.leading(&self.params.leading, self.shape.token)
    }

    /// The same as a number of the statement.
    fn leading_rows(&self) -> Word {
        Word::new(self.leading(), Source::Leading)
    }

    fn layers(&self) -> usize {
        self.shape.config.layers
    }

    /// `eq(layer, .)` on the real layers, on the leading axis of `part`.
    fn plain_layers(&self, part: Part) -> Weight<K> {
        padded(self.points.layer_weights(self.layers()), self.lead(part))
    }
}
