//! Values that a forward pass saturated.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Values of a tensor that did not fit int16 and were saturated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saturation {
    /// Clamped to the smallest and to the largest value.
    pub low: u64,
    pub high: u64,
    /// All values of the tensor.
    pub of: u64,
}

impl Saturation {
    /// Clamped values.
    pub const fn total(&self) -> u64 {
        self.low + self.high
    }
}

impl AddAssign for Saturation {
    fn add_assign(&mut self, other: Self) {
        self.low += other.low;
        self.high += other.high;
        self.of += other.of;
    }
}

/// Saturation by tensor (`embed`, `layers.0.q`, ...); tensors without any are absent.
pub type Saturations = BTreeMap<String, Saturation>;
