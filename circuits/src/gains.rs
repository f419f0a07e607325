//! What a state of an encoder is made of beside a matmul: the normed state before, each channel times its gain, less the mean of
//! all channels (docs/protocol.md, section 16.10). Gains are public integers of the key.

use crate::bounds::normed_bound;
use crate::model::{ModelParams, NormParams};
use crate::semantics::mean_gain;

/// The gains of a state, and what every channel has in the mean, in limbs: `256 high + low`, the low one with a sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gains {
    /// Of every channel, the factor of its own normed value.
    pub own: Vec<[i32; 2]>,
    /// Of every channel, what is subtracted from all channels for each unit of its normed value.
    pub mean: Vec<[i32; 2]>,
}

/// Halves of 8 bits, of which the low one is in `-128..128`.
const fn signed_limbs(v: i32) -> [i32; 2] {
    let high = (v as i64 + 128) >> 8;
    [high as i32, (v as i64 - (high << 8)) as i32]
}

impl Gains {
    /// Those with which a state is added to the one after it; `None` if states are added as they are.
    pub fn of(params: &ModelParams, state: usize) -> Option<Self> {
        let gains = params.gain(state);
        let mean = |g: &i32| signed_limbs(mean_gain(*g, gains.len()));
        (!gains.is_empty()).then(|| Self {
            own: gains.iter().copied().map(signed_limbs).collect(),
            mean: gains.iter().map(mean).collect(),
        })
    }

    /// What a normed row adds to the limbs of the accumulators of its channels, before their factors `2^skip`.
    pub fn residual<'a>(&'a self, y: &'a [i16]) -> impl Iterator<Item = [i64; 2]> + 'a {
        let times = |[high, low]: [i32; 2], y: i16| [high, low].map(|g| i64::from(g) * i64::from(y));
        let sum = |[a, b]: [i64; 2], [c, d]: [i64; 2]| [a + c, b + d];
        let terms = self.mean.iter().zip(y).map(|(g, y)| times(*g, *y));
        let [high, low] = terms.fold([0; 2], sum);
        let own = self.own.iter().zip(y).map(move |(g, y)| times(*g, *y));
        own.map(move |[a, b]| [a - high, b - low])
    }

    /// Bounds of the limbs of [`Gains::residual`], channel by channel, where `norm` is that of the state.
    pub fn bounds<'a>(&'a self, norm: &NormParams) -> impl Iterator<Item = [u128; 2]> + 'a {
        let bits = i32::from(norm.scale) - i32::from(norm.shift) - 8;
        let sums = [0, 1].map(|limb| {
            let squares = self.mean.iter().map(|g| i64::from(g[limb]).pow(2).unsigned_abs());
            normed_bound(self.mean.len(), bits, squares.sum())
        });
        let own = |g: i32| u128::from(g.unsigned_abs()) << 15;
        let both = move |[high, low]: &[i32; 2]| [own(*high) + sums[0], own(*low) + sums[1]];
        self.own.iter().map(both)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{odd_config, test_params, Blocks, ByClass, ModelConfig, Pooling};

    fn gains(values: &[i32]) -> Gains {
        let config = ModelConfig {
            blocks: Blocks::Encoder(Pooling::Mean),
            ..odd_config(1)
        };
        let mut params = test_params(&config);
        params.biases = vec![Vec::new(); 8];
        params.biases.push(values.to_vec());
        Gains::of(&params, 0).expect("there are gains")
    }

    /// By hand: the gains 512 and -256 have the means 256 and -128, and 3 has 1.5, which is rounded up.
    #[test]
    fn a_residual_is_what_the_document_says() {
        let own = gains(&[512, -256]);
        assert_eq!(own.mean, [[1, 0], [0, -128]]);
        let whole = |y: &[i16]| -> Vec<i64> { own.residual(y).map(|[high, low]| 256 * high + low).collect() };
        assert_eq!(whole(&[10, 100]), [5120 - 2560 + 12800, -25600 - 2560 + 12800]);
        assert_eq!(gains(&[3, 3]).mean, [[0, 2]; 2]);
        assert_eq!(gains(&[-3, -3]).mean, [[0, -1]; 2]);
        assert_eq!(gains(&[i32::MAX, i32::MIN]).own, [[1 << 23, -1], [-(1 << 23), 0]]);
    }

    /// No row whose root mean square is that of a norm exceeds the bounds, and one that is aimed at them comes close.
    #[test]
    fn bounds_hold_and_are_close() {
        let norm = NormParams {
            scale: 26,
            eps: ByClass::both(1),
            shift: 7,
        };
        // 2^11 in the root mean square.
        let own = gains(&[(1 << 16) - 1; 20]);
        let row = [1i16 << 11; 20];
        let bounds: Vec<_> = own.bounds(&norm).collect();
        let mean = own.mean.iter().map(|g| g.map(i64::from));
        let [high, low] = mean.fold([0; 2], |[a, b], [c, d]| [a + (c << 11), b + (d << 11)]);
        for ([h, l], residual) in bounds.iter().zip(own.residual(&row)) {
            assert!(residual[0].unsigned_abs() as u128 <= *h && residual[1].unsigned_abs() as u128 <= *l);
            let sums = [h - (256 << 15), l - (1 << 15)];
            assert!(sums[0] * 10 < high.unsigned_abs() as u128 * 11);
            assert!(sums[1] * 10 < low.unsigned_abs() as u128 * 11);
        }
    }
}
