//! What the normed states of an encoder add to accumulators (docs/protocol.md, section 16.10).

use std::collections::BTreeMap;

use super::normed_bound;
use crate::gains::{factor_limbs, Gains};

/// Bounds of the limbs of [`Gains::residual`].
pub(super) struct ResidualBounds<'a> {
    gains: &'a Gains,
    /// Those of the norm of the state, as [`crate::model::ModelParams::normed_bits`].
    bits: i32,
    /// Of the means, by exponent. All channels share them: a key may have as many gains as channels, and each adds to every mean.
    means: BTreeMap<u8, [u128; 2]>,
}

impl<'a> ResidualBounds<'a> {
    pub(super) const fn new(gains: &'a Gains, bits: i32) -> Self {
        Self {
            gains,
            bits,
            means: BTreeMap::new(),
        }
    }

    /// Of a channel whose factors have this exponent.
    pub(super) fn of(&mut self, channel: usize, skip: u8) -> [u128; 2] {
        let own = self.gains.own.get(channel).copied().unwrap_or_default();
        let own = factor_limbs(own, skip);
        let (gains, bits) = (self.gains, self.bits);
        let mean = self.means.entry(skip).or_insert_with(|| mean_bound(gains, bits, skip));
        let bound = |limb: i64, mean: u128| (u128::from(limb.unsigned_abs()) << 15).saturating_add(mean);
        let ([high, low], [highs, lows]) = (own, *mean);
        [bound(high, highs), bound(low, lows)]
    }
}

/// Bounds of the limbs of what is subtracted from all channels of an exponent.
fn mean_bound(gains: &Gains, bits: i32, skip: u8) -> [u128; 2] {
    let limbs = gains.mean.iter().map(|g| factor_limbs(*g, skip));
    let squares = limbs.fold([0u64; 2], |[a, b], [high, low]| {
        [(a, high), (b, low)].map(|(sum, limb)| sum.saturating_add(limb.saturating_mul(limb).unsigned_abs()))
    });
    squares.map(|square| normed_bound(gains.mean.len(), bits, square))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No row whose root mean square is that of a norm exceeds the bounds, and one that is aimed at them comes close.
    #[test]
    fn bounds_hold_and_are_close() {
        let own = Gains {
            own: vec![(1 << 16) - 1; 20],
            mean: vec![3277; 20],
        };
        // 2^11 in the root mean square.
        let row = [1i16 << 11; 20];
        let mut bounds = ResidualBounds::new(&own, 11);
        for skip in [0, 3, 13] {
            let factors = own.mean.iter().map(|g| factor_limbs(*g, skip));
            let sums = factors.fold([0; 2], |[a, b], [c, d]| [a + (c << 11), b + (d << 11)]);
            for (channel, residual) in own.residual(&row, [skip; 20]).into_iter().enumerate() {
                let bound = bounds.of(channel, skip);
                let direct = factor_limbs(own.own[channel], skip).map(|limb| u128::from(limb.unsigned_abs()) << 15);
                for limb in 0..2 {
                    assert!(u128::from(residual[limb].unsigned_abs()) <= bound[limb]);
                    assert!((bound[limb] - direct[limb]) * 10 <= u128::from(sums[limb].unsigned_abs()) * 11);
                }
            }
        }
    }
}
