//! What the float model stores: float32, or bfloat16 as most programs run such models.

use std::simd::num::SimdFloat;
use std::simd::{f32x16, u32x16, Select};

use std::simd::cmp::SimdPartialEq;

use rayon::prelude::*;

/// How weights and activations of the float model are stored. Sums are in float32 (those of norms and softmax in
/// float64) in either case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Nothing is rounded further.
    #[default]
    Float32,
    /// Rounded to bfloat16, to the nearest and on a tie to the even one, is what `transformers` stores when it runs a
    /// model in that type (with its plain attention): all weights, norm gains and embeddings; the output of every
    /// matrix product, logits included; a norm before and after its gain; cos and sin, both products of a rotation and
    /// their sum; scores before and after their division by `sqrt(head_dim)`; probabilities; the output of attention;
    /// SiLU and its product with the other branch; the residual stream.
    Bfloat16,
}

/// Values that are worth a thread.
const SMALL: usize = 1 << 16;

impl Precision {
    /// A value as it is stored.
    pub fn round(self, value: f32) -> f32 {
        match self {
            Self::Float32 => value,
            Self::Bfloat16 => half::bf16::from_f32(value).to_f32(),
        }
    }

    /// Rounds values to what is stored of them.
    pub fn store(self, values: &mut [f32]) {
        if self == Self::Bfloat16 {
            values.par_chunks_mut(SMALL).for_each(|values| self.store_here(values));
        }
    }

    /// As [`Self::store`], on this thread.
    pub fn store_here(self, values: &mut [f32]) {
        if self == Self::Float32 {
            return;
        }
        let (vectors, rest) = values.as_chunks_mut::<16>();
        for vector in vectors {
            round_vector(f32x16::from_array(*vector)).copy_to_slice(vector);
        }
        rest.iter_mut().for_each(|v| *v = self.round(*v));
    }
}

/// To nearest even: half a unit of the last place that stays is added, less the bit that a tie needs to stay even.
fn round_vector(values: f32x16) -> f32x16 {
    let bits = values.to_bits();
    let one = u32x16::splat(1);
    let half = u32x16::splat(0x7fff) + ((bits >> u32x16::splat(16)) & one);
    let rounded = f32x16::from_bits((bits + half) & u32x16::splat(0xffff_0000));
    // What is not a number must not be carried into one.
    values.simd_eq(values).select(rounded, f32x16::splat(f32::NAN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tessera_support::random::SplitMix;

    /// Ties go to even, carries reach the exponent, and vectors round as single values do.
    #[test]
    fn bfloat16_rounds_to_nearest_even() {
        let p = Precision::Bfloat16;
        let at = |bits: u32| p.round(f32::from_bits(bits)).to_bits();
        assert_eq!(at(0x3f80_8000), 0x3f80_0000);
        assert_eq!(at(0x3f81_8000), 0x3f82_0000);
        assert_eq!(at(0x3f80_8001), 0x3f81_0000);
        assert_eq!(at(0x3fff_ffff), 0x4000_0000);
        let mut rng = SplitMix(1);
        let mut values: Vec<f32> = (0..1003)
            .map(|_| f32::from_bits(rng.next_u64() as u32))
            .filter(|v| !v.is_nan())
            .collect();
        values.extend([
            0.0,
            -0.0,
            f32::INFINITY,
            f32::MAX,
            f32::MIN_POSITIVE / 4.0,
            1.0 + f32::EPSILON,
        ]);
        let expected: Vec<u32> = values.iter().map(|v| p.round(*v).to_bits()).collect();
        let kept = values.clone();
        Precision::Float32.store(&mut values);
        assert_eq!(values, kept);
        p.store(&mut values);
        assert_eq!(values.iter().map(|v| v.to_bits()).collect::<Vec<_>>(), expected);
        let mut none = [f32::NAN; 16];
        p.store(&mut none);
        assert!(none.iter().all(|v| v.is_nan()));
    }
}
