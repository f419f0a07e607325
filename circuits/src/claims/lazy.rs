//! Weights along the channels of a layer or state that a short list of the key makes of weights that many layers share. A key has
//! thousands of such lists, each as long as a row. So a claim keeps the list, and makes the weights where it needs them.

use std::collections::BTreeMap;

use super::values::Values;
use crate::air::base;
use crate::gains::factor_limbs;
use crate::scalar::Scalar;
use crate::semantics::mean_gain;

/// The factor of a weight, by the exponent of its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    /// `2^exponent`.
    Power,
    /// 1 where the exponent is at least this one, 0 elsewhere.
    From(u8),
}

impl Factor {
    /// The factor of an exponent.
    pub const fn of(self, exponent: u8) -> u32 {
        match self {
            Self::Power => 1 << if exponent < 30 { exponent } else { 30 },
            Self::From(least) => (exponent >= least) as u32,
        }
    }
}

/// Weights, each times the factor of its exponent.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaled<K> {
    /// The weights that several lists share.
    pub weights: Values<K>,
    /// An exponent for each weight.
    pub exponents: Values<u8>,
    /// The factor that an exponent stands for.
    pub factor: Factor,
}

/// The weights of a normed state among the accumulators of the next one: each channel counts the limbs of its gain, `high + limb low`, less
/// its share in the mean of all channels (docs/protocol.md, section 16.10).
#[derive(Clone, Debug, PartialEq)]
pub struct Residual<K> {
    /// The weights of the accumulators, one for each channel.
    pub weights: Values<K>,
    /// A gain for each channel; 0 for padding.
    pub gains: Values<i32>,
    /// The exponents of their factors.
    pub skips: Values<u8>,
    /// Where a mean is taken off, the sum of the weights of the channels of every exponent.
    pub sums: Vec<(u8, K)>,
    /// Number of channels of which the mean is taken.
    pub channels: usize,
    /// The weight of the low limb.
    pub limb: K,
}

/// Weights that are made where they are needed.
#[derive(Clone, Debug, PartialEq)]
pub enum Lazy<K> {
    /// Times a power of two.
    Scaled(Scaled<K>),
    /// Times gains.
    Residual(Residual<K>),
}

/// Products of shared weights and a table, entry by entry: many lists have the same. They are found by where the weights are, which are
/// kept, so that nothing else comes to be there.
pub(super) type Products<K> = BTreeMap<(usize, usize, usize), (Values<K>, Vec<K>)>;

impl<K: Scalar> Lazy<K> {
    pub(super) fn weights(&self) -> &Values<K> {
        match self {
            Self::Scaled(own) => &own.weights,
            Self::Residual(own) => &own.weights,
        }
    }

    /// All weights.
    pub(super) fn table(&self) -> Vec<K> {
        match self {
            Self::Scaled(own) => {
                let entries = own.weights.iter().zip(own.exponents.iter());
                entries
                    .map(|(weight, exponent)| *weight * base(own.factor.of(*exponent).into()))
                    .collect()
            }
            Self::Residual(own) => (0..own.weights.len()).map(|channel| own.at(channel)).collect(),
        }
    }

    /// One weight.
    pub(super) fn at(&self, index: usize) -> K {
        match self {
            Self::Scaled(own) => match (own.weights.get(index), own.exponents.get(index)) {
                (Some(weight), Some(exponent)) => *weight * base(own.factor.of(*exponent).into()),
                _ => K::zero(),
            },
            Self::Residual(own) => own.at(index),
        }
    }

    /// The parts of so many entries, in order.
    pub(super) fn chunks_of(&self, len: usize) -> Vec<Self> {
        match self {
            Self::Scaled(own) => {
                let parts = own.weights.chunks_of(len).zip(own.exponents.chunks_of(len));
                let part = |(weights, exponents)| {
                    Self::Scaled(Scaled {
                        weights,
                        exponents,
                        factor: own.factor,
                    })
                };
                parts.map(part).collect()
            }
            Self::Residual(own) => {
                let lists = own.gains.chunks_of(len).zip(own.skips.chunks_of(len));
                let part = |(weights, (gains, skips))| {
                    Self::Residual(Residual {
                        weights,
                        gains,
                        skips,
                        ..own.clone()
                    })
                };
                own.weights.chunks_of(len).zip(lists).map(part).collect()
            }
        }
    }

    /// The sum of the first weights.
    pub(crate) fn sum(&self, count: usize) -> K {
        match self {
            Self::Scaled(own) => own.dot(own.weights.get(..count).unwrap_or(&own.weights)),
            Self::Residual(own) => (0..count).map(|channel| own.at(channel)).sum(),
        }
    }

    /// The sum of all weights, each times its entry of `table`: `eq` at the coordinates of the point from `start` on.
    pub(super) fn dot(&self, table: &[K], start: usize, known: &mut Products<K>) -> K {
        let weights = self.weights();
        let products = || weights.iter().zip(table).map(|(w, t)| *w * *t).collect();
        let (_, products) = known
            .entry((weights.place(), weights.len(), start))
            .or_insert_with(|| (weights.clone(), products()));
        match self {
            Self::Scaled(own) => own.dot(products),
            Self::Residual(own) => own.dot(products, table),
        }
    }
}

/// Exponents of shifts and skips are below it.
const EXPONENTS: usize = 32;

impl<K: Scalar> Scaled<K> {
    /// Products of one exponent are added up before they are multiplied.
    fn dot(&self, products: &[K]) -> K {
        let mut sums = [K::zero(); EXPONENTS];
        for (product, exponent) in products.iter().zip(self.exponents.iter()) {
            if let Some(sum) = sums.get_mut(usize::from(*exponent)) {
                *sum += *product;
            }
        }
        let sums = (0u8..).zip(sums);
        sums.fold(K::zero(), |all, (exponent, sum)| {
            all + sum * base(self.factor.of(exponent).into())
        })
    }
}

impl<K: Scalar> Residual<K> {
    fn limbs(&self, factor: i32, skip: u8) -> K {
        let [high, low] = factor_limbs(factor, skip);
        K::from(base(high)) + self.limb * base(low)
    }

    /// One weight.
    fn at(&self, channel: usize) -> K {
        let (Some(weight), Some(gain), Some(skip)) = (
            self.weights.get(channel),
            self.gains.get(channel),
            self.skips.get(channel),
        ) else {
            return K::zero();
        };
        let mean = mean_gain(*gain, self.channels);
        let means = self.sums.iter().map(|(skip, sum)| *sum * self.limbs(mean, *skip));
        means.fold(*weight * self.limbs(*gain, *skip), |own, mean| own - mean)
    }

    /// `256 high + low` is the factor times a power of two, so that the low limbs say all of the high ones; and the low limb of a mean
    /// depends on its low byte alone.
    fn dot(&self, products: &[K], table: &[K]) -> K {
        let mut own = [K::zero(); 2];
        let lists = self.gains.iter().zip(self.skips.iter());
        for (product, (gain, skip)) in products.iter().zip(lists) {
            let limbs = factor_limbs(*gain, *skip);
            for (sum, limb) in own.iter_mut().zip(limbs) {
                *sum += *product * base(limb);
            }
        }
        let [high, low] = own;
        let all = high + self.limb * low;
        if self.sums.is_empty() {
            return all;
        }
        let (mut mean, mut bytes) = (K::zero(), vec![K::zero(); 256]);
        for (entry, gain) in table.iter().zip(self.gains.iter()) {
            let own = mean_gain(*gain, self.channels);
            mean += *entry * base(own.into());
            if let Some(sum) = bytes.get_mut((own & 0xff) as usize) {
                *sum += *entry;
            }
        }
        // 2^-8 is 2^23 modulo p.
        let inverse = base(1 << 23);
        self.sums.iter().fold(all, |all, (skip, weight)| {
            let lows = bytes.iter().zip(0i32..).map(|(sum, byte)| {
                let [_, low] = factor_limbs(byte, *skip);
                *sum * base(low)
            });
            let low = lows.fold(K::zero(), |sum, low| sum + low);
            let high = (mean * base(1 << (*skip).min(30)) - low) * inverse;
            all - *weight * (high + self.limb * low)
        })
    }
}

#[cfg(test)]
mod tests {
    use stwo::core::fields::qm31::SecureField;

    use super::*;

    fn elements(count: usize, seed: u32) -> Vec<SecureField> {
        let element = |i: u32| SecureField::from_u32_unchecked(i * 77_777 + seed, i + 5, 3 * i * seed, 1_000_003 * i);
        (0..count as u32).map(element).collect()
    }

    /// A list evaluates to the same number as the weights that it makes, in whole and in parts.
    #[test]
    fn lists_are_evaluated_as_the_weights_that_they_make() {
        let (weights, table, channels) = (elements(64, 3), elements(64, 11), 60);
        let list = |most: u8| -> Vec<u8> { (0..64u8).map(|c| (c % 9 * 7) % most).collect() };
        let gains: Vec<i32> = (0..64i32)
            .map(|c| if c < 60 { (c - 30) * 71_234_567 } else { 0 })
            .collect();
        let scaled = |factor| {
            Lazy::Scaled(Scaled {
                weights: weights.clone().into(),
                exponents: list(14).into(),
                factor,
            })
        };
        let residual = |sums| {
            Lazy::Residual(Residual {
                weights: weights.clone().into(),
                gains: gains.clone().into(),
                skips: list(14).into(),
                sums,
                channels,
                limb: elements(2, 9)[1],
            })
        };
        let sums = (0u8..14).zip(elements(14, 21)).collect();
        for lazy in [
            scaled(Factor::Power),
            scaled(Factor::From(7)),
            residual(sums),
            residual(Vec::new()),
        ] {
            let all = lazy.table();
            assert!((0..64).all(|i| lazy.at(i) == all[i]));
            let mut known = Products::new();
            assert_eq!(lazy.dot(&table, 0, &mut known), SecureField::dot(&all, &table));
            let parts = lazy.chunks_of(16);
            let joined: Vec<SecureField> = parts.iter().flat_map(Lazy::table).collect();
            assert_eq!(joined, all);
            for (part, own) in parts.iter().zip(all.chunks(16)) {
                assert_eq!(
                    part.dot(&table[..16], 2, &mut known),
                    SecureField::dot(own, &table[..16])
                );
            }
            assert_eq!(lazy.at(64), SecureField::default());
        }
    }

    /// Many vectors lie next to each other in memory, and each is cut into lanes. No lane gets the products of another one.
    #[test]
    fn products_of_one_vector_are_not_those_of_another() {
        let table = elements(16, 11);
        let all: Vec<Vec<SecureField>> = (0..300).map(|seed| elements(1024, seed)).collect();
        let exponents: Values<u8> = vec![2; 1024].into();
        // What owns the vectors is made at once, so that it is side by side.
        let all: Vec<Values<SecureField>> = all.into_iter().map(Into::into).collect();
        let list = |weights| {
            Lazy::Scaled(Scaled {
                weights,
                exponents: exponents.clone(),
                factor: Factor::Power,
            })
        };
        let lists: Vec<Lazy<SecureField>> = all.into_iter().map(list).collect();
        let mut known = Products::new();
        for lane in lists.iter().flat_map(|list| list.chunks_of(16)) {
            assert_eq!(lane.dot(&table, 3, &mut known), SecureField::dot(&lane.table(), &table));
        }
        assert_eq!(known.len(), 300 * 64);
    }
}
