//! What the claims of all operators are made of (docs/protocol.md, sections 5 to 8): the random point, the products, roundings and
//! weights. The claims themselves stand with the operators, in [`crate::ops`].

mod accumulators;
mod heads;
mod points;
mod terms;

use crate::scalar::{Scalar, Source, Word};
use stwo::core::fields::qm31::SecureField;

use crate::chunk::{Ends, PublicBoundary};
use crate::claims::Weight;
use crate::mle::eq_table;
use crate::model::ModelParams;
use crate::rounding::Powers;
use crate::shape::{Part, Shape};
use crate::statement::Statement;
use crate::statistics::Statistics;

pub use accumulators::Claims;
pub(crate) use accumulators::{alike, scaled, Rounding, Sides};
pub use points::{suffix, Points};

pub(crate) use terms::{claim, eq, felt, padded, power, times};

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
    pub ends: Ends<&'a PublicBoundary>,
    /// The values that the prover clipped, which a proof lists in clear.
    pub statistics: &'a Statistics,
    /// The random point.
    pub points: &'a Points<K>,
}

impl<K: Scalar> Public<'_, K> {
    pub(crate) fn lead(&self, part: Part) -> u32 {
        self.shape.lead(part)
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
        self.statement.leading(&self.params.leading)
    }

    /// The same as a number of the statement.
    pub(crate) fn leading_rows(&self) -> Word {
        Word::new(self.leading(), Source::Leading)
    }

    /// `eq(token, .)` on the rows of the text: they own what is claimed of token rows, and rows behind the text own nothing.
    pub(crate) fn rows(&self) -> Weight<K> {
        Weight::text(&self.points.token, self.shape.end())
    }

    /// The sum of the weights of the rows of the text.
    pub(crate) fn text(&self) -> K {
        self.shape.end().sum(&self.points.token)
    }

    /// Weights of the rows of the text, times what `factors` has for each.
    pub(crate) fn rows_times(&self, factors: &[K]) -> Weight<K> {
        Weight::dense(self.shape.end().cut(times(&eq_table(&self.points.token), factors)))
    }

    pub(crate) fn layers(&self) -> usize {
        self.shape.config.layers
    }

    /// `eq(layer, .)` on the real layers, on the leading axis of `part`.
    pub(crate) fn plain_layers(&self, part: Part) -> Weight<K> {
        padded(self.points.layer_weights(self.layers()), self.lead(part))
    }
}
