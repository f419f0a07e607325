//! The bits of norms' outputs, as if no channel had an exponent, and the exponents of MLP products, which follow from them.

use tessera_circuits::model::MatmulKind;

use super::limits::fit;
use super::{Exponents, Given, Units, WeightScales};
use crate::calibrate::NormRange;
use crate::products::DownWeights;

/// Outputs of norms have at most this many: with the smallest shift, the reciprocal square root of a row whose root mean square
/// is one unit is then `2^22`, a quarter of its bound.
const MAX_NORM_BITS: i32 = 13;

impl<'a> Units<'a> {
    /// The bits with which the outputs of all norms fit.
    pub(crate) fn new(given: &'a Given<'a>, weights: WeightScales) -> Self {
        let (config, ranges, headroom) = (given.config, given.ranges, given.options.headroom);
        // No output of a norm without gain can exceed sqrt(hidden).
        let bound = (config.hidden as f64).sqrt();
        let after = |range: &NormRange| fit((f64::from(range.largest()) * headroom).min(bound)).min(MAX_NORM_BITS);
        // Outputs that are normed are states, too.
        let output = config.norms_outputs().then(|| fit(bound).min(MAX_NORM_BITS));
        let layers = ranges.layers.iter().flat_map(|r| {
            let own = [Some(after(&r.norm_attn)), output, Some(after(&r.norm_mlp)), output];
            own.into_iter().flatten()
        });
        Self {
            given,
            weights,
            norms: layers.chain([after(&ranges.norm_final)]).collect(),
        }
    }

    /// Gives the channels of the stream these exponents, and chooses those of the products. With them the weights that read
    /// products get other bits.
    pub(crate) fn with_exponents(mut self, stream: Vec<u8>, down: &[Option<DownWeights>]) -> Exponents<'a> {
        let mut products = vec![Vec::new(); self.given.config.layers];
        for (l, (down, product)) in down.iter().zip(&mut products).enumerate() {
            let Some(down) = down else { continue };
            *product = self.product_exponents(l, down);
            if !product.is_empty() {
                self.weights
                    .bits
                    .insert(MatmulKind::Down.at(l), down.weight_bits(product));
            }
        }
        Exponents {
            given: self.given,
            weights: self.weights,
            norms: self.norms,
            stream,
            products,
        }
    }

    /// The exponents of the product of a layer; none if all are 0.
    fn product_exponents(&self, layer: usize, down: &DownWeights) -> Vec<u8> {
        let config = self.given.config;
        let norm = self.norms[config.mlp_state(layer)];
        let (up, silu) = (&self.weights.bits[&MatmulKind::Up.at(layer)], self.given.silu());
        let room = |exponents| self.given.room(layer, (norm, up), silu, exponents);
        down.exponents(&room(false), &room(true))
    }
}
