//! Units of the channels of norms' outputs. Where one channel of the stream is massive, it holds nearly all of a normed row: the root
//! mean square of all is 1, and most channels are a hundredth of it. Units that fit the massive one would round the others away. A
//! channel with exponent `j` has units `2^j` times as large, and the weights that read it are `2^j` times as large. Shifts of norms are
//! by channel (docs/protocol.md, section 16.2), so that no proof costs more.

use std::collections::BTreeMap;

use tessera_circuits::model::MatrixId;

use super::calibrate::NormRange;
use super::folded::{squares, Axis, BestBits, Folded, InUnits, Noise, NoiseGains};
use super::limbs::{most_scale, Reader, Squares, BASE};
use super::options::MIN_SHIFT;
use tessera_checkpoint::CheckpointError;

/// By matrix that reads a norm, what exponents of its inputs follow from; none of matrices that need no exponents.
pub(super) type NormReaders = BTreeMap<MatrixId, NormReader>;

/// Bits of the channels without exponent that are tried.
const TRIED: std::ops::RangeInclusive<i32> = 11..=14;
/// Exponents are thought of only where half of the channels have a root mean square below this.
const SMALL: f64 = 0.5;
/// They are worth it only if the noise is at most this part of what it is without.
const WORTH: f64 = 0.9;
/// What feeding errors of rounding back makes the squares of columns larger, at most: it moves weights by more than a unit.
const FED_BACK: f64 = 1.5;
/// Errors of a channel whose mean square is below this part of the mean of all channels are not fed back.
const DAMPING: f64 = 0.01;
/// Room of every channel: another text may make a channel large that was not.
const HEADROOM: f64 = 2.0;

/// A matrix that reads a norm whose channels have exponents.
pub(super) struct NormReader {
    /// By the bits that are tried: fractional bits of the weights by output, and their squares.
    tried: Vec<(Vec<i32>, Vec<f64>)>,
    gains: NoiseGains,
    /// Whether errors of rounding are fed back.
    fed_back: bool,
}

/// What the units of a norm's channels follow from.
#[derive(Clone, Copy)]
pub(super) struct ChannelUnits<'a> {
    pub range: &'a NormRange,
    /// Exponents of the channels of the residual stream; none if all are 0.
    pub stream: &'a [u8],
    /// Room of first rows with any token, which were tried all over the vocabulary.
    pub headroom: f64,
}

impl ChannelUnits<'_> {
    /// Whether exponents are thought of at all: most channels are small.
    pub fn may_differ(&self) -> bool {
        self.range.median().is_some_and(|median| median < SMALL)
    }

    /// Exponents with which the channels have room where those without exponent have `bits` bits. They are so large that the norm has
    /// shifts in one limb: no unit is so much finer than that of the stream.
    fn exponents(&self, bits: i32) -> Vec<u8> {
        let range = self.range;
        // No output of a norm without gain can exceed the root of their number.
        let bound = (range.max.len() as f64).sqrt();
        let finest = most_scale(range.max.len()) - BASE - MIN_SHIFT - bits;
        let exponent = |(c, max): (usize, &f32)| {
            let first = f64::from(range.first.get(c).copied().unwrap_or(0.0));
            let room = (f64::from(*max) * HEADROOM).max(first * self.headroom).min(bound);
            let lack = room / f64::from(i16::MAX) * f64::from(bits).exp2();
            let coarse = self.stream.get(c).copied().map_or(0, i32::from) - finest;
            (lack.max(1.0).log2().ceil() as i32)
                .max(coarse)
                .clamp(0, u8::MAX.into()) as u8
        };
        range.max.iter().enumerate().map(exponent).collect()
    }
}

impl NormReader {
    /// Reads a matrix, whose weights are at most the number given, with errors of rounding fed back or not.
    pub fn new(
        matrix: &Folded<'_>,
        units: ChannelUnits<'_>,
        (max, fed_back): (i32, bool),
    ) -> Result<Self, CheckpointError> {
        let growth = if fed_back { FED_BACK } else { 1.0 };
        let tried = TRIED.map(|bits| InUnits {
            matrix: matrix.clone().in_units(&units.exponents(bits)),
            tally: (BestBits { max }, squares(Axis::Outputs, |_| growth)),
        });
        let mean_squares: Vec<f64> = units.range.mean_squares().collect();
        let noise = Noise {
            mean_squares: &mean_squares,
        };
        let (gains, tried) = matrix.tally((noise, tried.collect::<Vec<_>>()))?;
        Ok(Self { tried, gains, fed_back })
    }

    /// Squared error of the outputs, each relative to its mean square, that rounding of the norm's outputs and of the weights causes, in the
    /// mean over all outputs.
    fn noise(&self, (bits, exponents): (i32, &[u8]), range: &NormRange, weights: impl Iterator<Item = i32>) -> f64 {
        let variance = |bits: i32| f64::from(-2 * bits).exp2() / 12.0;
        let power = |c: usize| f64::from(2 * exponents.get(c).copied().map_or(0, i32::from)).exp2();
        let gains = self.gains.inputs.iter().enumerate();
        let values: f64 = gains.map(|(c, gain)| variance(bits) * power(c) * gain).sum();
        let squares = range.mean_squares().enumerate();
        let squares: Vec<f64> = squares.map(|(c, square)| square / power(c)).collect();
        let (sum, width) = (squares.iter().sum::<f64>(), squares.len() as f64);
        let squares = match self.fed_back {
            // What feedback leaves is the geometric mean of the squares, at best.
            true => {
                let damping = DAMPING * sum / width;
                width * (squares.iter().map(|s| (s + damping).ln()).sum::<f64>() / width).exp()
            }
            false => sum,
        };
        let weights = weights.zip(&self.gains.outputs);
        let weights: f64 = weights.map(|(bits, output)| squares * variance(bits) * output).sum();
        (values + weights) / self.gains.outputs.len().max(1) as f64
    }
}

/// Bits and exponents of a norm.
pub(super) struct Normed {
    /// Fractional bits of the channels without exponent.
    pub bits: i32,
    pub exponents: Vec<u8>,
    /// The matrices that read the norm, and which of the bits that were tried are theirs.
    readers: Vec<(MatrixId, usize)>,
}

impl Normed {
    /// The bits and exponents with the least noise at all readers, if they are worth it: without exponents the norm has `own` bits. `allowed`
    /// says which have shifts.
    pub fn choose(
        (readers, all): (&[Reader<'_>], &NormReaders),
        units: ChannelUnits<'_>,
        own: i32,
        allowed: impl Fn(i32, &[u8]) -> bool,
    ) -> Option<Self> {
        let range = units.range;
        let own_weights: Option<Vec<_>> = readers.iter().map(|r| all.get(&r.id)).collect();
        let weights = own_weights.filter(|own| !own.is_empty())?;
        let flat = readers.iter().zip(&weights);
        let flat: f64 = flat.map(|(r, w)| w.noise((own, &[]), range, r.bits(own))).sum();
        let mut best = (WORTH * flat, None);
        for (i, bits) in TRIED.enumerate() {
            let exponents = units.exponents(bits);
            if !allowed(bits, &exponents) {
                continue;
            }
            let mut noise = 0.0;
            let mut keeps = true;
            for (reader, weights) in readers.iter().zip(&weights) {
                let (own, squares) = &weights.tried[i];
                let reader = Reader {
                    weights: own,
                    squares,
                    ..*reader
                };
                keeps &= reader.allows(bits);
                noise += weights.noise((bits, &exponents), range, reader.bits(bits));
            }
            if keeps && noise < best.0 {
                let readers = readers.iter().map(|r| (r.id, i)).collect();
                best = (
                    noise,
                    Some(Self {
                        bits,
                        exponents,
                        readers,
                    }),
                );
            }
        }
        best.1
    }

    /// Gives the readers the weights that they have with these exponents.
    pub fn apply(&self, all: &mut NormReaders, weights: &mut BTreeMap<MatrixId, Vec<i32>>, squares: &mut Squares) {
        for (id, i) in &self.readers {
            if let Some(mut reader) = all.remove(id) {
                let (own, own_squares) = reader.tried.swap_remove(*i);
                weights.insert(*id, own);
                squares.insert(*id, own_squares);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tessera_circuits::model::MatmulKind;

    const HIDDEN: usize = 64;
    const KEY: MatrixId = MatmulKind::Up.at(0);

    fn units(range: &NormRange) -> ChannelUnits<'_> {
        ChannelUnits {
            range,
            stream: &[],
            headroom: 1.25,
        }
    }

    /// A norm of which channel 5 is nearly all, and a matrix of two outputs that reads it with weights of 0.01, and channel 5 with this one.
    fn norm(weight: f64) -> (NormRange, NormReaders) {
        let by_channel = |massive: f64, others: f64| (0..HIDDEN).map(move |c| if c == 5 { massive } else { others });
        let range = NormRange {
            max: by_channel(7.9, 0.3).map(|max| max as f32).collect(),
            rows: 1,
            squares: by_channel(7.8 * 7.8, 0.05 * 0.05).collect(),
            first: Vec::new(),
        };
        let weights: Vec<f64> = by_channel(weight, 0.01).collect();
        let squares = |exponents: &[u8]| -> f64 {
            let scaled = weights.iter().zip(exponents).map(|(w, j)| w * f64::from(*j).exp2());
            scaled.map(|w| w * w).sum()
        };
        let tried = TRIED.map(|bits| {
            let exponents = units(&range).exponents(bits);
            let scaled = weights.iter().zip(&exponents).map(|(w, j)| w * f64::from(*j).exp2());
            let largest = scaled.fold(0.0, f64::max);
            let fit = (4095.0 / largest).log2().floor() as i32;
            (vec![fit; 2], vec![squares(&exponents); 2])
        });
        let reference: f64 = weights.iter().zip(&range.squares).map(|(w, s)| w * w * s).sum();
        let reader = NormReader {
            tried: tried.collect(),
            gains: NoiseGains {
                inputs: weights.iter().map(|w| 2.0 * w * w / reference).collect(),
                outputs: vec![1.0 / reference; 2],
            },
            fed_back: false,
        };
        (range, NormReaders::from([(KEY, reader)]))
    }

    fn chosen(weight: f64, allowed: impl Fn(i32, &[u8]) -> bool) -> Option<Normed> {
        let (range, all) = norm(weight);
        let (weights, squares) = (vec![18; 2], vec![0.1; 2]);
        let reader = Reader {
            id: KEY,
            hidden: HIDDEN,
            // Weights keep all of their bits with it: no total shift is above 15 up to 13 bits of the norm.
            output: 16,
            exponents: &[],
            weights: &weights,
            squares: &squares,
            biases: &[],
        };
        Normed::choose((&[reader], &all), units(&range), 11, allowed)
    }

    /// Channels have room for twice what was seen, but for no more than a norm can give, and what first rows have.
    #[test]
    fn exponents_make_room() {
        let (mut range, _) = norm(0.01);
        let of = |range: &NormRange, bits| units(range).exponents(bits);
        assert_eq!(of(&range, 11)[5], 0);
        assert_eq!((of(&range, 12)[5], of(&range, 14)[5]), (1, 3));
        assert_eq!(of(&range, 14).iter().filter(|j| **j > 0).count(), 1);
        range.first = vec![0.0; HIDDEN];
        range.first[7] = 4.0;
        assert_eq!((of(&range, 14)[7], of(&range, 14)[8]), (2, 0));
    }

    /// What is coarse in the stream is coarse in the norm's output, too, where that has so many bits that no shift would be left.
    #[test]
    fn exponents_of_the_stream_leave_room_for_shifts() {
        let (range, _) = norm(0.01);
        let mut stream = [0; HIDDEN];
        stream[9] = 5;
        let of = |bits| {
            let units = ChannelUnits {
                stream: &stream,
                ..units(&range)
            };
            units.exponents(bits)[9]
        };
        // The scale is 26 at most, and 9 of it go to the least shift.
        assert_eq!([11, 12, 13, 14].map(of), [0, 0, 1, 2]);
    }

    /// A massive channel that is read with small weights gets units of its own: of the others more bits are left.
    #[test]
    fn a_massive_channel_gets_units_of_its_own() {
        let normed = chosen(0.001, |_, _| true).unwrap();
        assert!(
            normed.bits > 11 && normed.exponents[5] > 0,
            "{} {:?}",
            normed.bits,
            normed.exponents
        );
        let (_, mut all) = norm(0.001);
        let (mut weights, mut squares) = (BTreeMap::new(), Squares::new());
        normed.apply(&mut all, &mut weights, &mut squares);
        assert!(all.is_empty() && weights[&KEY].len() == 2 && squares[&KEY].len() == 2);
        // Only as far as shifts allow.
        assert!(chosen(0.001, |_, _| false).is_none());
        let limited = chosen(0.001, |bits, _| bits <= 12).unwrap();
        assert_eq!((limited.bits, limited.exponents[5]), (12, 1));
    }

    /// A matrix of which nothing is known gets no exponents.
    #[test]
    fn readers_without_weights_get_none() {
        let (range, _) = norm(0.001);
        assert!(Normed::choose((&[], &NormReaders::new()), units(&range), 11, |_, _| true).is_none());
    }
}
