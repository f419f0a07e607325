//! Norms of heads: their scales, and their gains as integers (docs/protocol.md, section 16.11).

use tessera_circuits::bounds::{epsilons, rotated_sum, rounded_bound, MAX_QUERY_SUM, ONE_LIMB_SHIFT};
use tessera_circuits::model::{HeadNorm, HeadNorms};
use tessera_circuits::semantics::{norm_bound, ROPE_BITS};

use super::bits::LayerBits;
use super::limits::small;
use super::Given;
use crate::limbs::{most_scale, BASE};
use crate::QuantiseError;

/// Fractional bits that integer gains may have: those of a gain of zeros have the most.
const GAIN_BITS: std::ops::RangeInclusive<i32> = -24..=24;

impl Given<'_> {
    /// log2 of the scale of the norms of heads: the largest one that one limb allows.
    fn head_scale(&self) -> i32 {
        most_scale(self.config.head_dim).min(self.normed_bits() + ONE_LIMB_SHIFT)
    }

    /// Fractional bits of normed heads without gains: no channel exceeds the root of their number, and scores keep their bound.
    fn normed_bits(&self) -> i32 {
        let head_dim = self.config.head_dim;
        let largest = (f64::from(i16::MAX) / (head_dim as f64).sqrt()).log2().floor() as i32;
        let kept = |bits: &i32| {
            let total = ONE_LIMB_SHIFT.min(most_scale(head_dim) - bits);
            let bound = norm_bound(head_dim, (bits + total) as u8).isqrt();
            let most = rounded_bound(bound, total.unsigned_abs());
            rotated_sum(&vec![most; head_dim]) <= MAX_QUERY_SUM
        };
        (1..=largest).rev().find(kept).unwrap_or(1)
    }

    /// Most fractional bits of integer gains.
    fn most_gain_bits(gains: &[f64]) -> i32 {
        let largest = gains.iter().fold(0.0, |most: f64, gain| most.max(gain.abs()));
        let bits = (f64::from(1 << ROPE_BITS) / largest.max(f64::MIN_POSITIVE))
            .log2()
            .floor() as i32;
        bits.clamp(*GAIN_BITS.start(), *GAIN_BITS.end())
    }

    /// Fractional bits of rotated queries and keys of a layer whose heads are normed.
    pub(super) fn turned_bits(&self, layer: usize) -> Option<(i32, i32)> {
        let [q, k] = self.gains.heads.get(layer)?;
        let of = |gains: &[f64]| self.normed_bits() + Self::most_gain_bits(gains) - ROPE_BITS as i32;
        Some((of(q), of(k)))
    }

    /// The norms of the heads of a layer, if they are normed.
    pub(super) fn head_norms(&self, layer: usize, bits: &LayerBits) -> Result<Option<HeadNorms>, QuantiseError> {
        let Some([q, k]) = self.gains.heads.get(layer) else {
            return Ok(None);
        };
        let (scale, normed, width) = (self.head_scale(), self.normed_bits(), self.config.head_dim);
        let norm = |gains: &[f64], projected: i32, turned: i32| {
            let name = || format!("norms of heads of layer {layer}");
            let least = *epsilons(width, small(scale, name)?).start();
            let eps = self.config.rms_eps * width as f64 * f64::from(2 * projected).exp2();
            let unit = f64::from(turned - normed + ROPE_BITS as i32).exp2();
            let most = f64::from(1 << ROPE_BITS);
            let integer = |gain: &f64| (gain * unit).round().clamp(-most, most) as i16;
            Ok::<_, QuantiseError>(HeadNorm {
                scale: small(scale, name)?,
                eps: (eps.round() as u64).max(least),
                shift: small(scale - normed - BASE, name)?,
                gains: gains.iter().map(integer).collect(),
            })
        };
        Ok(Some(HeadNorms {
            q: norm(q, bits.q, bits.turned_q)?,
            k: norm(k, bits.k, bits.turned_k)?,
        }))
    }
}
