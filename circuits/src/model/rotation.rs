//! The rotations of queries and keys.

use serde::{Deserialize, Serialize};

/// Most rotations of a model.
pub const MAX_ROTATIONS: usize = 8;

/// By which angles the pairs of a head are rotated: pair `x` of position `i` by `i f_x`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Rotation {
    /// `f_x = theta^(-2x / head_dim)`, of this `theta`.
    Base(f64),
    /// `f_x` of every pair; 0 where pairs stay as they are.
    Frequencies(#[serde(with = "exact")] Vec<f64>),
}

impl Rotation {
    /// The frequency of pair `x`. Total: pairs without one have 0.
    pub fn frequency(&self, head_dim: usize, x: usize) -> f64 {
        match self {
            Self::Base(theta) => libm::pow(*theta, -2.0 * x as f64 / head_dim as f64),
            Self::Frequencies(all) => all.get(x).copied().unwrap_or(0.0),
        }
    }
}

/// Readers of JSON may round numbers of 17 digits otherwise than they were written. As texts they stay what they are.
mod exact {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(values: &[f64], to: S) -> Result<S::Ok, S::Error> {
        match to.is_human_readable() {
            true => to.collect_seq(values.iter().map(f64::to_string)),
            false => values.serialize(to),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
        if !from.is_human_readable() {
            return Vec::deserialize(from);
        }
        let texts = Vec::<String>::deserialize(from)?;
        texts
            .iter()
            .map(|text| text.parse().map_err(D::Error::custom))
            .collect()
    }
}
