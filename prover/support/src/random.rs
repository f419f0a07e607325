//! Numbers that look random and are the same everywhere: for made-up models and texts, never for a challenge.

use tessera_circuits::model::ModelConfig;

/// The SplitMix64 generator.
#[derive(Clone, Debug)]
pub struct SplitMix(pub u64);

impl SplitMix {
    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A value in `0..n`, `n > 0`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next_u64() % n
    }
}

/// Random token ids.
pub fn random_ids(config: &ModelConfig, n: usize, seed: u64) -> Vec<u32> {
    let mut rng = SplitMix(seed);
    (0..n).map(|_| rng.below(config.vocab as u64) as u32).collect()
}
