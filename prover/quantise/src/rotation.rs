//! Rotation of the residual stream: an orthogonal matrix between what writes to the stream and what reads it. A norm without
//! gain turns with its input, so that the float model stays the same; but a channel that is far larger than all others is
//! spread over all of them, and so are large weights. Units of one size then serve all channels, and 8 bits are worth more.
//!
//! The matrix is that of signs, a Hadamard matrix within blocks of a power of two, and a Hartley matrix (`cos + sin`) across
//! the blocks, if there are several. It depends on nothing but the number of channels.

use rayon::prelude::*;

use tessera_float::{Observer, Site};

/// An orthogonal matrix for vectors of all channels of the stream.
#[derive(Clone, Debug)]
pub(super) struct Rotation {
    /// Sign of every channel, over the square root of a block's size.
    signs: Vec<f32>,
    /// Channels of a block: the largest power of two that divides their number.
    block: usize,
    /// The matrix across blocks, row by row.
    across: Vec<f32>,
}

/// A well mixed number, of which one bit is a sign.
const fn mixed(i: u64) -> u64 {
    let x = i.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Rotation {
    pub fn new(channels: usize) -> Self {
        let block = 1 << channels.trailing_zeros();
        let blocks = channels / block;
        let size = 1.0 / (block as f64).sqrt();
        let sign = |c: usize| if mixed(c as u64) & 1 == 0 { size } else { -size };
        let entry = |i: usize| {
            let turn = (i / blocks * (i % blocks) % blocks) as f64 / blocks as f64;
            let (sin, cos) = (turn * std::f64::consts::TAU).sin_cos();
            ((sin + cos) / (blocks as f64).sqrt()) as f32
        };
        Self {
            signs: (0..channels).map(|c| sign(c) as f32).collect(),
            block,
            across: (0..blocks * blocks).map(entry).collect(),
        }
    }

    /// Turns a vector of all channels.
    pub fn turn(&self, row: &mut [f32]) {
        row.iter_mut().zip(&self.signs).for_each(|(v, s)| *v *= s);
        row.chunks_exact_mut(self.block).for_each(hadamard);
        let blocks = row.len() / self.block;
        if blocks == 1 {
            return;
        }
        let before = row.to_vec();
        for (to, factors) in row.chunks_exact_mut(self.block).zip(self.across.chunks_exact(blocks)) {
            to.fill(0.0);
            for (from, factor) in before.chunks_exact(self.block).zip(factors) {
                to.iter_mut().zip(from).for_each(|(t, f)| *t = f.mul_add(*factor, *t));
            }
        }
    }

    /// Turns rows of all channels.
    pub fn turn_rows(&self, rows: &mut [f32]) {
        rows.par_chunks_exact_mut(self.signs.len())
            .for_each(|row| self.turn(row));
    }
}

/// Sums and differences of a block, whose size is a power of two.
fn hadamard(block: &mut [f32]) {
    let mut half = 1;
    while half < block.len() {
        for pair in block.chunks_exact_mut(2 * half) {
            let (first, second) = pair.split_at_mut(half);
            for (a, b) in first.iter_mut().zip(second) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
}

/// Shows an observer the stream and the outputs of its norms as the rotation turns them; all else as it is.
pub(super) struct Turned<'a, O> {
    pub rotation: Option<&'a Rotation>,
    pub observer: &'a mut O,
}

impl<O: Observer> Observer for Turned<'_, O> {
    fn sequences(&mut self, sequences: std::ops::Range<usize>) {
        self.observer.sequences(sequences);
    }

    fn observe(&mut self, site: Site, values: &[f32]) {
        match (self.rotation, site) {
            (Some(rotation), Site::Residual(_) | Site::NormAttn(_) | Site::NormMlp(_) | Site::NormFinal) => {
                let mut values = values.to_vec();
                rotation.turn_rows(&mut values);
                self.observer.observe(site, &values);
            }
            _ => self.observer.observe(site, values),
        }
    }

    fn wants_scores(&self) -> bool {
        self.observer.wants_scores()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tessera_support::random::SplitMix;

    /// Sizes with and without a power of two, as models have them.
    const SIZES: [usize; 6] = [1, 3, 36, 128, 576, 960];

    /// Lengths and angles stay: that is what norms and matmuls depend on.
    #[test]
    fn a_rotation_keeps_lengths_and_angles() {
        for channels in SIZES {
            let rotation = Rotation::new(channels);
            let mut rng = SplitMix(channels as u64);
            let mut row = || -> Vec<f32> { (0..channels).map(|_| rng.below(2001) as f32 / 1000.0 - 1.0).collect() };
            let (a, b) = (row(), row());
            let turned = [&a, &b].map(|row| {
                let mut row = row.clone();
                rotation.turn(&mut row);
                row
            });
            let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
            let products = |a: &[f32], b: &[f32]| [product(a, a), product(b, b), product(a, b)];
            let (before, after) = (products(&a, &b), products(&turned[0], &turned[1]));
            for (x, y) in before.into_iter().zip(after) {
                assert!(
                    (x - y).abs() < 1e-5 * before[0].max(before[1]),
                    "{channels}: {before:?} {after:?}"
                );
            }
        }
    }

    /// What is in one channel is spread over all: none keeps more than half as much again as its share.
    #[test]
    fn a_massive_channel_is_spread_over_all() {
        for channels in SIZES {
            for massive in [0, channels / 2, channels - 1] {
                let mut row = vec![0.0; channels];
                row[massive] = 1000.0;
                Rotation::new(channels).turn(&mut row);
                let most = row.iter().fold(0.0f32, |m, v| m.max(v.abs()));
                let share = 1000.0 / (channels as f32).sqrt();
                assert!(most < 1.5 * share, "{channels}: {most}, share {share}");
            }
        }
    }
}
