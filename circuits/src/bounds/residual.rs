//! What the normed states of an encoder add to accumulators (docs/protocol.md, section 16.10).

use super::normed_bound;
use crate::gains::{factor_limbs, Gains};
use crate::model::NormParams;

/// Bounds of the limbs of [`Gains::residual`] of a channel, where `norm` is that of the state.
pub(super) fn residual_bound(gains: &Gains, norm: &NormParams, channel: usize, skip: u8) -> [u128; 2] {
    let bits = i32::from(norm.scale) - i32::from(norm.shift) - 8;
    let own = gains.own.get(channel).copied().unwrap_or_default();
    let own = factor_limbs(own, skip);
    let mean = gains.mean.iter().map(|g| factor_limbs(*g, skip));
    let squares = mean.fold([0u64; 2], |[a, b], [high, low]| {
        [(a, high), (b, low)].map(|(sum, limb)| sum.saturating_add(limb.saturating_mul(limb).unsigned_abs()))
    });
    let bound = |own: i64, square| {
        let sum = normed_bound(gains.mean.len(), bits, square);
        (u128::from(own.unsigned_abs()) << 15).saturating_add(sum)
    };
    let ([high, low], [highs, lows]) = (own, squares);
    [bound(high, highs), bound(low, lows)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ByClass;

    /// No row whose root mean square is that of a norm exceeds the bounds, and one that is aimed at them comes close.
    #[test]
    fn bounds_hold_and_are_close() {
        let norm = NormParams {
            scale: 26,
            eps: ByClass::both(1),
            shift: 7,
        };
        // 2^11 in the root mean square.
        let own = Gains {
            own: vec![(1 << 16) - 1; 20],
            mean: vec![3277; 20],
        };
        let row = [1i16 << 11; 20];
        for skip in [0, 3, 13] {
            let factors = own.mean.iter().map(|g| factor_limbs(*g, skip));
            let sums = factors.fold([0; 2], |[a, b], [c, d]| [a + (c << 11), b + (d << 11)]);
            for (channel, residual) in own.residual(&row, [skip; 20]).into_iter().enumerate() {
                let bound = residual_bound(&own, &norm, channel, skip);
                let direct = factor_limbs(own.own[channel], skip).map(|limb| u128::from(limb.unsigned_abs()) << 15);
                for limb in 0..2 {
                    assert!(u128::from(residual[limb].unsigned_abs()) <= bound[limb]);
                    assert!((bound[limb] - direct[limb]) * 10 <= u128::from(sums[limb].unsigned_abs()) * 11);
                }
            }
        }
    }
}
