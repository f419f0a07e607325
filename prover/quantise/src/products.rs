//! Exponents of the channels of the MLP's product. In many layers one or two channels hold values ten or a hundred times as
//! large as all others, and units that fit those would round the others away. A channel with exponent `k` has units `2^k` times
//! as large, in the output of Up and in the product; the weights of Down that read it are `2^k` times as large. Shifts of Up are
//! by channel and Down's weights are what set-up makes them, so that no parameter says it and no proof costs more.

use tessera_circuits::bounds::{MAX_ACT_SHIFT, MAX_EXPONENT};

use super::calibrate::ProductRange;
use super::folded::{Largest, Maxima, Noise, NoiseGains, Tally};
use super::limbs::BASE;
use super::options::MIN_SHIFT;
use super::rounding::fit;

/// The most channels with an exponent in a layer.
const MOST: usize = 8;
/// Exponents are worth it only if the noise is at most this part of what it is without.
const WORTH: f64 = 0.75;
/// How many times the units of all other channels may be halved.
const STEPS: i32 = MAX_EXPONENT as i32;

/// What was seen of the product of a layer, as far as exponents follow from it.
pub(super) struct Products {
    /// Channels that may get an exponent: those that hold the largest values.
    candidates: Vec<usize>,
    /// Mean squares of the channels of the product.
    squares: Vec<f64>,
    /// Mean squares of the factors of Up's output.
    silu: Vec<f64>,
}

/// What the exponents of a layer's product follow from beside the room that there is.
pub(super) struct DownWeights {
    products: Products,
    /// Largest absolute weights of Down's outputs: of each candidate, and of all other channels together.
    largest: Largest,
    gains: NoiseGains,
    /// The largest integer that a weight may be.
    max_weight: i32,
}

/// The most fractional bits of every channel, and those of the SiLU of gates.
pub(super) struct Room {
    /// The most bits with which Up's output fits and its shift is large enough.
    pub up: Vec<i32>,
    /// The most bits with which the product fits in the body.
    pub body: Vec<i32>,
    /// The most bits with which it fits in leading rows.
    pub lead: Vec<i32>,
    pub silu: i32,
    /// Whether leading rows are those of one token, which was seen: units may be finer there than in the body.
    pub seen: bool,
}

impl Room {
    /// The most bits of each, of all channels without exponent.
    fn of_all(&self, exponents: &[u8]) -> [i32; 3] {
        [&self.up, &self.body, &self.lead].map(|most| {
            let channels = most.iter().enumerate();
            let bits = channels.map(|(c, bits)| bits + exponents.get(c).copied().map_or(0, i32::from));
            bits.min().unwrap_or(0)
        })
    }

    /// Bits of Up's output, and of the product in the body and in leading rows: as many as there is room for, and as the shifts
    /// between them allow.
    pub fn bits(&self, exponents: &[u8]) -> [i32; 3] {
        let [up, body, lead] = self.of_all(exponents);
        let most = i32::from(MAX_ACT_SHIFT);
        let body = body.min(self.silu + up - BASE - MIN_SHIFT).min(lead + most - MIN_SHIFT);
        let lead = match self.seen {
            true => lead.min(self.silu + up - BASE - MIN_SHIFT).min(body + most - MIN_SHIFT),
            // Leading rows that were not seen are no smaller than others.
            false => lead.min(body),
        };
        [up.min(lead.min(body) + BASE + most - self.silu), body, lead]
    }
}

impl Products {
    /// What was seen of a product; `None` if there was no row of the body.
    pub fn new(range: &ProductRange) -> Option<Self> {
        if range.rows == 0 || range.squares.len() != range.silu_squares.len() {
            return None;
        }
        let mean = |sums: &[f64]| sums.iter().map(|s| s / range.rows as f64).collect();
        // Of first rows it is not known yet of which class they are.
        let mut lead = range.max.lead.clone();
        lead.resize(lead.len().max(range.others.len()), 0.0);
        lead.iter_mut().zip(&range.others).for_each(|(m, v)| *m = m.max(*v));
        let mut candidates: Vec<usize> = [&range.up, &range.max.body, &lead]
            .into_iter()
            .flat_map(|max| largest(max))
            .collect();
        candidates.sort_unstable();
        candidates.dedup();
        Some(Self {
            candidates,
            squares: mean(&range.squares),
            silu: mean(&range.silu_squares),
        })
    }

    /// What exponents follow from in the weights of Down.
    pub fn tally(&self) -> impl Tally<Total = (Largest, NoiseGains)> + '_ {
        let noise = Noise {
            mean_squares: &self.squares,
        };
        (
            Maxima {
                inputs: &self.candidates,
            },
            noise,
        )
    }
}

impl DownWeights {
    /// Down's weights as they were tallied, with integers up to `max_weight`.
    pub fn new(products: Products, (largest, gains): (Largest, NoiseGains), max_weight: i32) -> Self {
        Self {
            products,
            largest,
            gains,
            max_weight,
        }
    }

    /// Fractional bits of the weights by output, with these exponents.
    pub fn weight_bits(&self, exponents: &[u8]) -> Vec<i32> {
        let mut largest = self.largest.others.clone();
        for (c, own) in self.products.candidates.iter().zip(&self.largest.own) {
            let unit = f32::from(exponents.get(*c).copied().unwrap_or(0)).exp2();
            largest.iter_mut().zip(own).for_each(|(l, w)| *l = l.max(w * unit));
        }
        largest.into_iter().map(|l| fit(l, self.max_weight)).collect()
    }

    /// Squared error of Down's outputs, each relative to its mean square, that rounding of the weights, of Up's outputs and of
    /// products causes.
    fn noise(&self, exponents: &[u8], room: &Room) -> f64 {
        let variance = |bits: i32| f64::from(-2 * bits).exp2() / 12.0;
        let power = |c: usize| 2 * exponents.get(c).copied().map_or(0, i32::from);
        let [up, body, _] = room.bits(exponents);
        let squares = self.products.squares.iter().enumerate();
        let squares: f64 = squares.map(|(c, s)| s * f64::from(-power(c)).exp2()).sum();
        let weights = self.weight_bits(exponents).into_iter().zip(&self.gains.outputs);
        let weights: f64 = weights.map(|(bits, output)| squares * variance(bits) * output).sum();
        let channels = self.gains.inputs.iter().zip(&self.products.silu).enumerate();
        let values = channels
            .map(|(c, (gain, silu))| (variance(body) + variance(up) * silu) * f64::from(power(c)).exp2() * gain);
        weights + values.sum::<f64>()
    }

    /// The exponents with the least noise, none if they are not worth it: those that the others need to have units `2^i`, `2^j`
    /// and `2^k` times as small in Up's output and in the product of both classes, for all small `i`, `j` and `k`. Without
    /// exponents there is the room of `plain`.
    pub fn exponents(&self, plain: &Room, room: &Room) -> Vec<u8> {
        let channels = self.gains.inputs.len();
        let least = room.of_all(&[]);
        let exponents = |steps: [i32; 3]| -> Option<Vec<u8>> {
            let wanted: [i32; 3] = std::array::from_fn(|i| least[i] + steps[i]);
            let needed = |c: usize| {
                let lack = [room.up[c], room.body[c], room.lead[c]];
                let lack = wanted.iter().zip(lack).map(|(wanted, most)| wanted - most);
                lack.fold(0, i32::max)
            };
            let exponents: Vec<i32> = (0..channels).map(needed).collect();
            let used = exponents.iter().enumerate().filter(|(_, k)| **k > 0);
            let allowed = |(c, k): (usize, &i32)| *k <= MAX_EXPONENT.into() && self.products.candidates.contains(&c);
            let possible = used.clone().count() <= MOST && used.clone().all(allowed);
            possible.then(|| exponents.into_iter().map(|k| k as u8).collect())
        };
        let mut best = (WORTH * self.noise(&[], plain), Vec::new());
        for i in 0..=STEPS {
            for j in 0..=STEPS {
                for k in 0..=STEPS {
                    let Some(exponents) = exponents([i, j, k]) else { break };
                    let noise = self.noise(&exponents, room);
                    if noise < best.0 {
                        best = (noise, exponents);
                    }
                }
            }
        }
        best.1
    }
}

/// The channels of the largest values.
fn largest(max: &[f32]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..max.len()).collect();
    order.sort_by(|a, b| max[*b].total_cmp(&max[*a]).then(a.cmp(b)));
    order.truncate(MOST);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNELS: usize = 12;

    /// A layer of one output that reads all channels alike, with a product `2^large` times as large in one channel, whose weight
    /// is as many times as small.
    fn layer(channel: usize, large: i32) -> (DownWeights, Room) {
        let by_channel = |plain: f64, other: f64| -> Vec<f64> {
            let value = |c: usize| if c == channel { other } else { plain };
            (0..CHANNELS).map(value).collect()
        };
        let factor = f64::from(large).exp2();
        let products = Products {
            candidates: vec![channel],
            squares: by_channel(0.1, 0.1 * factor.powi(2)),
            silu: vec![0.01; CHANNELS],
        };
        let largest = Largest {
            own: vec![vec![1.0 / factor as f32]],
            others: vec![1.0],
        };
        let gains = NoiseGains {
            inputs: by_channel(1.0, 1.0 / factor.powi(2)),
            outputs: vec![1.0],
        };
        let down = DownWeights::new(products, (largest, gains), 2047);
        let mut most = vec![12; CHANNELS];
        most[channel] -= large;
        let room = Room {
            up: most.clone(),
            body: most.clone(),
            lead: most,
            silu: 12,
            seen: false,
        };
        (down, room)
    }

    #[test]
    fn a_large_channel_that_is_read_with_small_weights_gets_an_exponent() {
        for large in [2, 4, 6] {
            let (down, room) = layer(5, large);
            let exponents = down.exponents(&room, &room);
            assert_eq!((exponents.len(), i32::from(exponents[5])), (CHANNELS, large));
            assert_eq!(exponents.iter().filter(|k| **k > 0).count(), 1);
            assert_eq!(room.bits(&exponents), [12, 12, 12]);
            assert_eq!(room.bits(&[])[1], 12 - large);
            // Down's weights lose nothing: the large one is as large as the others.
            assert_eq!(down.weight_bits(&exponents), down.weight_bits(&[]));
        }
    }

    #[test]
    fn channels_that_are_alike_get_none_and_weights_are_not_given_up_for_them() {
        let (down, room) = layer(5, 0);
        assert!(down.exponents(&room, &room).is_empty());
        // A large channel whose weight is as large as all others: an exponent would cost every weight as many bits.
        let (mut down, room) = layer(5, 6);
        down.largest.own = vec![vec![1.0]];
        let exponents = down.exponents(&room, &room);
        assert!(exponents.get(5).is_none_or(|k| *k < 6), "{exponents:?}");
        // What exponents ask of the room may cost more than they give.
        let (down, room) = layer(5, 1);
        let less = |most: &[i32]| most.iter().map(|bits| bits - 1).collect();
        let narrow = Room {
            up: less(&room.up),
            body: less(&room.body),
            lead: less(&room.lead),
            silu: 11,
            seen: false,
        };
        assert!(down.exponents(&room, &narrow).is_empty());
    }

    /// The shifts of the product, `silu + up - 8 - bits`, are 1 to 6 in both classes.
    #[test]
    fn bits_of_products_leave_their_shifts_in_range() {
        let rooms = [
            (8, 9, 2, 8),
            (12, 12, 12, 9),
            (12, 3, 3, 16),
            (7, 11, 1, 9),
            (11, 11, 6, 9),
            (11, 6, 11, 9),
            (11, 2, 24, 9),
        ];
        for (i, (up, body, lead, silu)) in [rooms, rooms].concat().into_iter().enumerate() {
            let seen = i < rooms.len();
            let room = Room {
                up: vec![up],
                body: vec![body],
                lead: vec![lead],
                silu,
                seen,
            };
            let bits = room.bits(&[]);
            let shifts = [bits[1], bits[2]].map(|product| silu + bits[0] - BASE - product);
            assert!(
                shifts.iter().all(|s| (MIN_SHIFT..=MAX_ACT_SHIFT.into()).contains(s)),
                "{bits:?} {shifts:?}"
            );
            assert!(bits[0] <= up && bits[1] <= body && bits[2] <= lead);
            assert!(seen || bits[2] <= bits[1]);
        }
    }
}
