//! What a state of an encoder is made of beside a matmul: the normed state before, each channel times its gain, less the mean of
//! all channels (docs/protocol.md, section 16.10). Outputs that are normed before they are added have gains, too, and no mean (section
//! 16.12). Gains are public integers of the key.

use crate::model::ModelParams;
use crate::semantics::mean_gain;

/// Largest exponent of the factors of a residual, and how many there are.
const SKIPS: usize = 14;

/// The gains of a state, and what a unit of every channel has in the mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gains {
    /// Of every channel, the factor of its own normed value.
    pub own: Vec<i32>,
    /// Of every channel, what is subtracted from all channels for each unit of its normed value.
    pub mean: Vec<i32>,
}

/// A factor times `2^skip`, in limbs: `256 high + low`, the low one in `-128..128`.
pub const fn factor_limbs(factor: i32, skip: u8) -> [i64; 2] {
    let all = (factor as i64) << skip;
    let high = (all + 128) >> 8;
    [high, all - (high << 8)]
}

impl Gains {
    /// Those with which a state is added to the one after it; `None` if states are added as they are. A mean is
    /// taken off only where sums are normed.
    pub fn of(params: &ModelParams, state: usize) -> Option<Self> {
        let own = params.gain(state);
        (!own.is_empty()).then(|| Self {
            own: own.to_vec(),
            mean: match params.norms_outputs() {
                true => vec![0; own.len()],
                false => own.iter().map(|g| mean_gain(*g, own.len())).collect(),
            },
        })
    }

    /// What a normed row adds to the limbs of the accumulators of its channels; `skips` are the exponents of their factors.
    pub fn residual(&self, y: &[i16], skips: impl IntoIterator<Item = u8>) -> Vec<[i64; 2]> {
        let mut means = [None; SKIPS];
        let mut mean = |skip: u8| {
            let sum = || {
                let terms = self.mean.iter().zip(y);
                terms.fold([0; 2], |[high, low], (g, y)| {
                    let [a, b] = factor_limbs(*g, skip).map(|limb| limb * i64::from(*y));
                    [high + a, low + b]
                })
            };
            match means.get_mut(usize::from(skip)) {
                Some(known) => *known.get_or_insert_with(sum),
                None => sum(),
            }
        };
        let channels = self.own.iter().zip(y).zip(skips);
        let residual = channels.map(|((g, y), skip)| {
            let ([high, low], [a, b]) = (factor_limbs(*g, skip), mean(skip));
            [high * i64::from(*y) - a, low * i64::from(*y) - b]
        });
        residual.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{odd_config, test_params, Blocks, ModelConfig, Output, Pooling};

    fn gains(values: &[i32]) -> Gains {
        let config = ModelConfig {
            blocks: Blocks::encoder(Output::Vector(Pooling::Mean)),
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
        assert_eq!(own.mean, [256, -128]);
        let whole = |y: &[i16], skip: u8| -> Vec<i64> {
            let limbs = own.residual(y, [skip, skip]);
            limbs.into_iter().map(|[high, low]| 256 * high + low).collect()
        };
        let expected = [5120 - 2560 + 12800, -25600 - 2560 + 12800];
        assert_eq!(whole(&[10, 100], 0), expected);
        assert_eq!(whole(&[10, 100], 5), expected.map(|v| 32 * v));
        assert_eq!(gains(&[3, 3]).mean, [2, 2]);
        assert_eq!(gains(&[-3, -3]).mean, [-1, -1]);
        assert_eq!(factor_limbs(i32::MAX, 0), [1 << 23, -1]);
        assert_eq!(factor_limbs(384, 0), [2, -128]);
        assert_eq!(factor_limbs(-3, 7), [-1, -128]);
    }
}
