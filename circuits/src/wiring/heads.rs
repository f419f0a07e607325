//! Weights of layers and heads.

use super::{padded, Public};
use crate::claims::Weight;
use crate::mle::eq_table;
use crate::scalar::Scalar;
use crate::shape::Part;

impl<K: Scalar> Public<'_, K> {
    /// `eq(layer, .)` on the real layers of an axis of `part`.
    pub(crate) fn real_layers(&self, part: Part, layer: &[K]) -> Weight<K> {
        padded(layer.iter().copied().take(self.layers()).collect(), self.lead(part))
    }

    /// `eq(head, .)` on the real heads. Rows of padded ones say nothing.
    pub fn head_weights(&self) -> Vec<K> {
        let mut table = eq_table(&self.points.head);
        table.truncate(self.shape.config.heads);
        table
    }

    /// Weights of the (padded) query heads summed over the query heads of each key/value head.
    pub(crate) fn grouped(&self, heads: &[K]) -> Vec<K> {
        let mut sums = vec![K::zero(); 1 << self.shape.padded.kv_heads];
        for (h, w) in heads.iter().enumerate() {
            if let Some(sum) = sums.get_mut(self.shape.config.kv_head(h)) {
                *sum += *w;
            }
        }
        sums
    }
}
