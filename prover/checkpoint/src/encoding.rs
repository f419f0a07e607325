//! How the values of a tensor are stored.

use std::fmt;

use half::f16;
use safetensors::tensor::Dtype;

use super::blocks::Blocks;

/// The stored type of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    F32,
    F16,
    BF16,
    /// Blocks of integers with scales.
    Blocks(Blocks),
    /// A type that is not read, by its name.
    Other(String),
}

impl From<Dtype> for Encoding {
    fn from(dtype: Dtype) -> Self {
        match dtype {
            Dtype::F32 => Self::F32,
            Dtype::F16 => Self::F16,
            Dtype::BF16 => Self::BF16,
            other => Self::Other(format!("{other:?}")),
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::F32 => f.write_str("F32"),
            Self::F16 => f.write_str("F16"),
            Self::BF16 => f.write_str("BF16"),
            Self::Blocks(blocks) => blocks.fmt(f),
            Self::Other(name) => f.write_str(name),
        }
    }
}

impl Encoding {
    /// Values that are stored together, and the bytes that they take; `None` for types that are not read.
    pub(super) const fn unit(&self) -> Option<(usize, usize)> {
        match self {
            Self::F32 => Some((1, 4)),
            Self::F16 | Self::BF16 => Some((1, 2)),
            Self::Blocks(blocks) => Some((blocks.values(), blocks.bytes())),
            Self::Other(_) => None,
        }
    }

    /// Converts the values from index `first` of a tensor on; `bytes` are all of the tensor.
    ///
    /// # Panics
    /// If there are not so many values, or if the type is not read.
    pub(super) fn read(&self, bytes: &[u8], first: usize, out: &mut [f32]) {
        let plain = |size: usize| &bytes[first * size..][..out.len() * size];
        match self {
            Self::F32 => convert(plain(4).as_chunks().0, out, f32::from_le_bytes),
            Self::F16 => convert(plain(2).as_chunks().0, out, |b| f16::from_le_bytes(b).to_f32()),
            Self::BF16 => convert(plain(2).as_chunks().0, out, |b| {
                f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16)
            }),
            Self::Blocks(blocks) => blocks.read(bytes, first, out),
            Self::Other(name) => unreachable!("tensors of type {name} are not handed out"),
        }
    }
}

fn convert<const N: usize>(bytes: &[[u8; N]], out: &mut [f32], value: impl Fn([u8; N]) -> f32) {
    out.iter_mut().zip(bytes).for_each(|(out, bytes)| *out = value(*bytes));
}
