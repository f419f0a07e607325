//! Exponents of the channels of the residual stream: a few channels hold values hundreds of times as large as all others,
//! and units that fit those would round the others away.

use tessera_circuits::bounds::{MAX_EXPONENT, MAX_SQUARES};

/// Channels that may get an exponent: those that stand out most.
const CANDIDATES: usize = 64;
/// The most channels with an exponent where nobody chooses.
const MOST: usize = 8;
/// There are exponents only if [`MOST`] of them lower the noise so many times: that of half a unit everywhere is four times
/// as small.
const NEEDED: f64 = 4.0;
/// Fewer channels are preferred if the noise is at most so many times that of [`MOST`].
const WORTH: f64 = 2.0;
/// As [`WORTH`], where one channel is nearly all of most rows: what all others hold is a small part of what noise is relative to.
const WORTH_OF_MASSIVE: f64 = 1.1;
/// Rounds of improvement, each over all states and channels.
const ROUNDS: usize = 6;

/// What the choice follows from, by state of the residual stream.
pub(super) struct Stream {
    /// log2 of the unit that each channel needs for its largest value.
    pub needs: Vec<Vec<f64>>,
    /// What noise of variance 1 in a channel does to all later matmuls, relative to their inputs: the sum over this state
    /// and all later ones of the squares of the weights that read the channel.
    pub sensitivity: Vec<Vec<f64>>,
    /// Whether one channel is nearly all of most rows.
    pub massive: bool,
}

/// A choice for the candidates, and the noise that comes with it.
#[derive(Clone)]
struct Choice {
    noise: f64,
    exponents: Vec<i32>,
    units: Vec<i32>,
}

#[derive(Clone)]
struct Search {
    /// By state, of the candidates.
    needs: Vec<Vec<f64>>,
    sensitivity: Vec<Vec<f64>>,
    /// By state, the unit that all other channels need, and the sum of their sensitivities.
    others: Vec<(f64, f64)>,
    other_channels: usize,
    most: usize,
}

impl Stream {
    /// Exponents of all channels, or none at all; `most` is the largest number of channels that have one.
    pub fn exponents(&self, most: Option<usize>) -> Vec<u8> {
        let (candidates, search) = self.search();
        let best = |most: usize| Search { most, ..search.clone() }.best();
        let chosen = match most {
            Some(most) => best(most),
            None => {
                let (none, full) = (best(0), best(MOST));
                if none.noise <= NEEDED * full.noise {
                    none
                } else {
                    let fewer = [1, 2, 4].into_iter().map(best);
                    let worth = if self.massive { WORTH_OF_MASSIVE } else { WORTH };
                    let mut enough = fewer.filter(|choice| choice.noise <= worth * full.noise);
                    enough.next().unwrap_or(full)
                }
            }
        };
        let mut exponents = vec![0; self.needs.first().map_or(0, Vec::len)];
        for (c, k) in candidates.into_iter().zip(&chosen.exponents) {
            exponents[c] = u8::try_from(*k).unwrap_or(0);
        }
        match exponents.iter().all(|k| *k == 0) {
            true => Vec::new(),
            false => exponents,
        }
    }

    /// The candidates, and the search among them.
    fn search(&self) -> (Vec<usize>, Search) {
        let channels = self.needs.first().map_or(0, Vec::len);
        let mut excess = vec![f64::NEG_INFINITY; channels];
        for needs in &self.needs {
            let mean = needs.iter().sum::<f64>() / channels as f64;
            for (excess, need) in excess.iter_mut().zip(needs) {
                *excess = excess.max(need - mean);
            }
        }
        let mut order: Vec<usize> = (0..channels).collect();
        order.sort_by(|a, b| excess[*b].total_cmp(&excess[*a]).then(a.cmp(b)));
        let others = order.split_off(channels.min(CANDIDATES));
        let pick = |rows: &[Vec<f64>]| -> Vec<Vec<f64>> {
            let row = |row: &Vec<f64>| order.iter().map(|c| row[*c]).collect();
            rows.iter().map(row).collect()
        };
        let rest = |(needs, sensitivity): (&Vec<f64>, &Vec<f64>)| {
            let need = others.iter().map(|c| needs[*c]).fold(f64::NEG_INFINITY, f64::max);
            (need, others.iter().map(|c| sensitivity[*c]).sum())
        };
        let search = Search {
            needs: pick(&self.needs),
            sensitivity: pick(&self.sensitivity),
            others: self.needs.iter().zip(&self.sensitivity).map(rest).collect(),
            other_channels: others.len(),
            most: 0,
        };
        (order, search)
    }
}

impl Search {
    fn states(&self) -> usize {
        self.needs.len()
    }

    /// The unit of a state if candidates have these exponents.
    fn unit(&self, s: usize, exponents: &[i32]) -> i32 {
        let needs = self.needs[s].iter().zip(exponents).map(|(n, k)| n - f64::from(*k));
        needs.fold(self.others[s].0, f64::max).ceil() as i32
    }

    /// The choice of these exponents; `None` if they are not allowed.
    fn with(&self, exponents: Vec<i32>) -> Option<Choice> {
        let used = exponents.iter().filter(|k| **k > 0).count();
        let allowed = |k: &i32| (0..=i32::from(MAX_EXPONENT)).contains(k);
        if used > self.most || !exponents.iter().all(allowed) {
            return None;
        }
        let squares: u64 = exponents.iter().map(|k| 1u64 << (2 * k)).sum();
        if squares + self.other_channels as u64 > MAX_SQUARES {
            return None;
        }
        let units: Vec<i32> = (0..self.states()).map(|s| self.unit(s, &exponents)).collect();
        let noise = (0..self.states()).map(|s| {
            let own = self.sensitivity[s].iter().zip(&exponents);
            let own: f64 = own.map(|(a, k)| a * f64::from(2 * k).exp2()).sum();
            (own + self.others[s].1) * f64::from(2 * units[s]).exp2()
        });
        Some(Choice {
            noise: noise.sum(),
            units,
            exponents,
        })
    }

    /// The choice of the least exponents that these units need.
    fn of_units(&self, units: &[i32]) -> Option<Choice> {
        let channels = self.needs.first().map_or(0, Vec::len);
        let exponent = |c: usize| {
            let needs = self.needs.iter().zip(units);
            needs
                .map(|(n, u)| (n[c] - f64::from(*u)).ceil() as i32)
                .fold(0, i32::max)
        };
        self.with((0..channels).map(exponent).collect())
    }

    /// Starts from units in proportion to what each state tolerates, and improves one unit or exponent at a time.
    fn best(&self) -> Choice {
        let channels = self.needs.first().map_or(0, Vec::len);
        let Some(mut best) = self.with(vec![0; channels]) else {
            // More channels than squares are allowed: no exponents can be had, whatever they are.
            let units = (0..self.states()).map(|s| self.unit(s, &vec![0; channels]));
            return Choice {
                noise: f64::INFINITY,
                units: units.collect(),
                exponents: vec![0; channels],
            };
        };
        let top = best.units.clone();
        let better = |best: &mut Choice, new: Option<Choice>| match new {
            Some(new) if new.noise < best.noise => *best = new,
            _ => {}
        };
        let tolerance: Vec<f64> = (0..self.states())
            .map(|s| -(self.sensitivity[s].iter().sum::<f64>() + self.others[s].1).log2() / 2.0)
            .collect();
        for quarter in -80..80 {
            let offset = f64::from(quarter) / 4.0;
            let units = tolerance.iter().zip(&top);
            let units: Vec<i32> = units.map(|(t, top)| ((t + offset).round() as i32).min(*top)).collect();
            better(&mut best, self.of_units(&units));
        }
        for _ in 0..ROUNDS {
            let before = best.noise;
            for s in 0..self.states() {
                for step in [-1, 1] {
                    let mut units = best.units.clone();
                    units[s] = (units[s] + step).min(top[s]);
                    better(&mut best, self.of_units(&units));
                }
            }
            for c in 0..channels {
                for step in [-1, 1] {
                    let mut exponents = best.exponents.clone();
                    if exponents[c] > 0 {
                        exponents[c] += step;
                        better(&mut best, self.with(exponents));
                    }
                }
            }
            if best.noise == before {
                break;
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three states of eight channels that need about the same unit.
    fn flat() -> Stream {
        let needs = |s: usize| (0..8).map(|c| -8.0 + 0.1 * ((c * 5 + s * 3) % 8) as f64).collect();
        Stream {
            needs: (0..3).map(needs).collect(),
            sensitivity: vec![vec![1.0; 8]; 3],
            massive: false,
        }
    }

    #[test]
    fn a_stream_without_outliers_gets_no_exponents() {
        assert!(flat().exponents(None).is_empty());
    }

    /// A channel 2^5 times as large as all others gets the exponent that makes up for it, and no other channel one.
    #[test]
    fn one_massive_channel_gets_its_exponent() {
        let mut stream = flat();
        stream.needs.iter_mut().for_each(|needs| needs[3] = -2.5);
        let exponents = stream.exponents(None);
        assert_eq!(exponents, [0, 0, 0, 5, 0, 0, 0, 0]);
        assert!(stream.exponents(Some(0)).is_empty());
    }

    /// Where one channel is nearly all of most rows, more channels get exponents, and never with more noise.
    #[test]
    fn massive_rows_are_worth_more_exponents() {
        let mut stream = flat();
        // Channel 3 is what matters most, and two others make units half as fine as they might be.
        stream.needs.iter_mut().for_each(|needs| {
            needs.fill(-8.0);
            (needs[3], needs[4], needs[5], needs[6]) = (-2.5, -7.5, -7.5, -6.5);
        });
        let count = |massive: bool| {
            let exponents = Stream {
                needs: stream.needs.clone(),
                sensitivity: stream
                    .sensitivity
                    .iter()
                    .map(|s| {
                        s.iter()
                            .enumerate()
                            .map(|(c, a)| if c == 3 { 1e-4 } else { *a })
                            .collect()
                    })
                    .collect(),
                massive,
            };
            exponents.exponents(None).iter().filter(|k| **k > 0).count()
        };
        assert!(count(true) > count(false), "{} {}", count(true), count(false));
    }

    /// Noise that nobody reads may be as large as it likes: exponents follow what readers see.
    #[test]
    fn channels_that_all_read_keep_their_precision() {
        let mut stream = flat();
        stream.needs.iter_mut().for_each(|needs| needs[3] = -6.0);
        // Everything is read from the massive channel, so that coarser units for it alone would gain nothing.
        for sensitivity in &mut stream.sensitivity {
            *sensitivity = vec![1e-9; 8];
            sensitivity[3] = 1.0;
        }
        assert!(stream.exponents(None).is_empty());
    }

    /// An exponent of 7 costs 4^7 squares, all that there are.
    #[test]
    fn exponents_stay_within_the_squares() {
        let mut stream = flat();
        stream.needs.iter_mut().for_each(|needs| needs[..4].fill(4.0));
        let exponents = stream.exponents(Some(8));
        let squares: u64 = exponents.iter().map(|k| 1u64 << (2 * k)).sum();
        assert!(
            squares <= MAX_SQUARES && exponents[..4].iter().all(|k| *k >= 5),
            "{exponents:?}"
        );
    }
}
