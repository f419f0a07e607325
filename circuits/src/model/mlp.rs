//! Functions of one number, which an MLP has between its matmuls. One more is an entry here: its place in a key, its value, and what
//! configs call it. The table, its lookups, bounds and claims are the same for all.

use serde::{Deserialize, Serialize};

/// A function of one number, 0 at 0.
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
    /// The approximation of GELU by a logistic function.
    QuickGelu,
}

impl Activation {
    /// All of them, and what configs call them.
    pub const ALL: [(Self, &[&str]); 5] = [
        (Self::Silu, &["silu", "swish"]),
        (Self::Gelu, &["gelu"]),
        (Self::GeluTanh, &["gelu_new", "gelu_pytorch_tanh"]),
        (Self::Relu, &["relu"]),
        (Self::QuickGelu, &["quick_gelu"]),
    ];

    /// The function that configs call so.
    pub fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, names)| names.contains(&name));
        found.map(|(activation, _)| *activation)
    }

    /// The function, with the software `libm`, so that every platform gets the same values.
    pub fn of(self, x: f64) -> f64 {
        match self {
            Self::Silu => x / (1.0 + libm::exp(-x)),
            Self::Gelu => x * 0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2),
            Self::GeluTanh => {
                let inner = std::f64::consts::FRAC_2_PI.sqrt() * x * (1.0 + 0.044_715 * x * x);
                x * 0.5 * (1.0 + libm::tanh(inner))
            }
            Self::Relu => x.max(0.0),
            Self::QuickGelu => x / (1.0 + libm::exp(-1.702 * x)),
        }
    }
}
