//! Encoding in the circle code: evaluation of circle FFT coefficients on the canonic circle domain, or on
//! the line domain after the first fold, in bit-reversed order.

use std::ops::{Add, Mul, Sub};

use rayon::prelude::*;
use stwo::core::circle::{CirclePoint, Coset};
use stwo::core::fields::m31::BaseField;
use stwo::core::utils::bit_reverse;

/// Values are transformed on one thread below this length.
const SEQUENTIAL: usize = 1 << 11;

/// What the transform works on: a field element or a vector of them.
pub trait Value: Copy + Send + Sync + Add<Output = Self> + Sub<Output = Self> + Mul<BaseField, Output = Self> {}
impl<T> Value for T where T: Copy + Send + Sync + Add<Output = T> + Sub<Output = T> + Mul<BaseField, Output = T> {}

/// Twiddle factors of a circle code.
pub struct Twiddles {
    log_blowup: u32,
    /// Entry 0 has the `y` of the fibres of the circle domain, entry `i` the `x` of the first points of
    /// the pairs of the line domain after `i` folds.
    layers: Vec<Vec<BaseField>>,
}

impl Twiddles {
    /// Twiddles for messages of `2^log_message` values, evaluated on `2^(log_message + log_blowup)` points.
    pub fn new(log_message: u32, log_blowup: u32) -> Self {
        let mut points: Vec<_> = Coset::half_odds(log_message + log_blowup - 1).iter().collect();
        bit_reverse(&mut points);
        let mut layers = vec![points.iter().map(|p| p.y).collect()];
        let mut line: Vec<_> = points.into_iter().map(|p| p.x).collect();
        for _ in 1..log_message {
            let layer: Vec<_> = line.into_iter().step_by(2).collect();
            line = layer.iter().copied().map(CirclePoint::double_x).collect();
            layers.push(layer);
        }
        Self { log_blowup, layers }
    }

    /// Codeword of a message after `folds` folds (`2^(log_message - folds)` coefficients).
    pub fn encode<T: Value>(&self, message: &[T], folds: u32) -> Vec<T> {
        let layers = &self.layers[folds as usize..];
        assert_eq!(message.len(), 1 << layers.len(), "message length");
        let mut codeword = Vec::with_capacity(message.len() << self.log_blowup);
        for _ in 0..1 << self.log_blowup {
            codeword.extend_from_slice(message);
        }
        let blocks = codeword.par_chunks_mut(message.len()).enumerate();
        blocks.for_each(|(block, values)| transform(values, block, layers));
        codeword
    }
}

/// Transforms block `block` of `2^layers.len()` values, most significant coefficient bit first.
fn transform<T: Value>(values: &mut [T], block: usize, layers: &[Vec<BaseField>]) {
    let Some((layer, rest)) = layers.split_last() else {
        return;
    };
    butterflies(values, layer[block]);
    if values.len() > SEQUENTIAL {
        let (low, high) = values.split_at_mut(values.len() / 2);
        rayon::join(
            || transform(low, 2 * block, rest),
            || transform(high, 2 * block + 1, rest),
        );
        return;
    }
    for (i, layer) in rest.iter().enumerate().rev() {
        let first = block << (rest.len() - i);
        for (values, &twiddle) in values.chunks_exact_mut(2 << i).zip(&layer[first..]) {
            butterflies(values, twiddle);
        }
    }
}

fn butterflies<T: Value>(values: &mut [T], twiddle: BaseField) {
    let (low, high) = values.split_at_mut(values.len() / 2);
    for (a, b) in low.iter_mut().zip(high) {
        let product = *b * twiddle;
        (*a, *b) = (*a + product, *a - product);
    }
}
