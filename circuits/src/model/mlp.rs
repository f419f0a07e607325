//! What an MLP does between its matmuls.

use serde::{Deserialize, Serialize};

/// A function of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Activation {
    /// `x / (1 + exp(-x))`.
    Silu,
    /// `x Phi(x)`, `Phi` the distribution function of the normal distribution.
    Gelu,
    /// The approximation of GELU by a hyperbolic tangent.
    GeluTanh,
    /// `max(x, 0)`.
    Relu,
}

impl Activation {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Silu, Self::Gelu, Self::GeluTanh, Self::Relu];

    /// The function, with the software `libm`, so that every platform gets the same values. It is 0 at 0.
    pub fn of(self, x: f64) -> f64 {
        match self {
            Self::Silu => x / (1.0 + libm::exp(-x)),
            Self::Gelu => x * 0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2),
            Self::GeluTanh => {
                let inner = std::f64::consts::FRAC_2_PI.sqrt() * x * (1.0 + 0.044_715 * x * x);
                x * 0.5 * (1.0 + libm::tanh(inner))
            }
            Self::Relu => x.max(0.0),
        }
    }
}
