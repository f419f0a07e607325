//! What queries add up to (docs/protocol.md, section 16.5). The norms of columns bound every query, and that bounds scores: heads may
//! be longer than the range of an entry alone would let them be.

use super::limbs::normed_bound;
use crate::model::{MatmulKind, ModelConfig, ModelParams};
use crate::semantics::norm_bound;

/// Largest absolute value of an entry of a query: its range.
const MOST: u128 = 1 << 15;
/// What rounding adds to a pair: that of cos and sin at most 3, that of the two results 1, that of the root 1.
const ROUNDING: u128 = 5;

/// What a rounding by the total shift `total` cannot exceed in absolute value where its accumulator cannot exceed `bound`.
pub const fn rounded_bound(bound: u128, total: u32) -> u128 {
    let half = 1u128 << total.saturating_sub(1);
    let most = bound.saturating_add(half) >> total;
    if most < MOST {
        most
    } else {
        MOST
    }
}

/// What the absolute values of a head add up to at most after its rotation, where its entries cannot exceed these before.
pub fn rotated_sum(head: &[u128]) -> u64 {
    let (front, back) = head.split_at(head.len() / 2);
    let pairs = front.iter().zip(back).map(|(one, other)| {
        let root = (2 * (one * one + other * other)).isqrt();
        (root + ROUNDING).min(2 * MOST)
    });
    pairs.sum::<u128>() as u64
}

/// What the absolute values of a rotated query of a layer add up to at most, in the head where that is most. Lists must have the
/// lengths that they should, and shifts be in range.
pub(super) fn query_sum(params: &ModelParams, config: &ModelConfig, layer: usize) -> u64 {
    if let Some(norm) = params.head_norm(MatmulKind::Q.at(layer)) {
        // The squares of a head times its reciprocal root add up to the bound of its norm, and no gain is above 1.
        let bound = norm_bound(config.head_dim, norm.scale).isqrt();
        return rotated_sum(&vec![rounded_bound(bound, u32::from(norm.shift) + 8); config.head_dim]);
    }
    let (Some(at), Some(norms)) = (params.layers.get(layer), params.norms(MatmulKind::Q.at(layer))) else {
        return rotated_sum(&vec![MOST; config.head_dim]);
    };
    let bound = normed_bound(config.hidden, params.normed_bits(&at.attention.norm), norms.square);
    let biases = params.bias(MatmulKind::Q.at(layer));
    let of = |channel: usize| {
        let bias = biases.get(channel).map_or(0, |b| b.unsigned_abs());
        rounded_bound(bound + u128::from(bias), u32::from(at.attention.q.at(channel)) + 8)
    };
    // Heads whose channels are all alike are alike.
    let alike = at.attention.q.0.len() == 1 && biases.is_empty();
    let heads = (0..if alike { 1 } else { config.heads }).map(|head| {
        let first = head * config.head_dim;
        let channels: Vec<u128> = (first..first + config.head_dim).map(of).collect();
        rotated_sum(&channels)
    });
    heads.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{odd_config, Rotation};
    use crate::semantics::{rope_angle, rope_pair};

    /// Whatever the angle, a pair at the corners of its bounds stays within the bound of its sum; some come near it.
    #[test]
    fn rotated_pairs_add_up_to_no_more_than_their_bound() {
        let config = crate::model::ModelConfig {
            rotations: vec![Rotation::Frequencies(vec![0.0137, 0.0, 0.0])],
            ..odd_config(1)
        };
        for (one, other) in [
            (32767, 32767),
            (16384, 16384),
            (9000, 21),
            (1, 0),
            (0, 0),
            (300, 12_345),
        ] {
            let bound = u128::from(rotated_sum(&[one as u128, other as u128]));
            let mut most = 0;
            for (cos, sin) in (0..600).map(|i| rope_angle(&config, 0, i, 0)) {
                for (a, b) in [
                    (one, other),
                    (-one, other),
                    (one, -other),
                    (-one, -other),
                    (one / 2, other),
                ] {
                    let (x, y) = rope_pair(a, b, cos, sin);
                    most = most.max(u128::from(x.unsigned_abs()) + u128::from(y.unsigned_abs()));
                }
            }
            assert!(most <= bound, "{one} and {other} become {most}, beyond {bound}");
            assert!(
                most + most / 1000 + ROUNDING >= bound,
                "{one} and {other}: {bound} is far from {most}"
            );
        }
    }

    #[test]
    fn a_rounding_is_no_larger_than_its_accumulator_says() {
        for (bound, total) in [
            (0, 9),
            (255, 9),
            (256, 9),
            (767, 9),
            (768, 9),
            (1 << 22, 9),
            (1 << 24, 10),
        ] {
            let most = rounded_bound(bound, total);
            let round = |value: i64| (value + (1 << (total - 1))) >> total;
            let [up, down] = [round(bound as i64), round(-(bound as i64))];
            assert_eq!(most, u128::from(up.max(-down).unsigned_abs()), "{bound} by {total}");
        }
        assert_eq!(rounded_bound(u128::MAX, 9), MOST);
        assert_eq!(rounded_bound(MOST << 9, 9), MOST);
    }
}
