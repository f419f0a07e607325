//! Keccak-256 of sixteen leaves or nodes at a time: words are big-endian, and two of them are one lane of the state.

use std::simd::num::SimdUint;
use std::simd::{simd_swizzle, u32x16, u64x8};

use rayon::prelude::*;
use tessera_verifier::suite::Digest;

use super::lanes::{Domain, LaneHash, SIMD_LANES};

/// Messages in a vector of the state; two vectors take part in every step.
const LANES: usize = 8;
/// Lanes of the state that a block of a message is added to.
const RATE: usize = 17;
/// Nonces that a thread tries at a time.
const NONCES: u64 = 1 << 12;
/// Threads' shares of nonces after which all wait for each other.
const SHARES: u64 = 64;

type State = [u64x8; 25];

const ROUND_CONSTANTS: [u64; 24] = [
    0x0000_0000_0000_0001,
    0x0000_0000_0000_8082,
    0x8000_0000_0000_808a,
    0x8000_0000_8000_8000,
    0x0000_0000_0000_808b,
    0x0000_0000_8000_0001,
    0x8000_0000_8000_8081,
    0x8000_0000_0000_8009,
    0x0000_0000_0000_008a,
    0x0000_0000_0000_0088,
    0x0000_0000_8000_8009,
    0x0000_0000_8000_000a,
    0x0000_0000_8000_808b,
    0x8000_0000_0000_008b,
    0x8000_0000_0000_8089,
    0x8000_0000_0000_8003,
    0x8000_0000_0000_8002,
    0x8000_0000_0000_0080,
    0x0000_0000_0000_800a,
    0x8000_0000_8000_000a,
    0x8000_0000_8000_8081,
    0x8000_0000_0000_8080,
    0x0000_0000_8000_0001,
    0x8000_0000_8000_8008,
];

/// Where the lanes go in a round, one after the other from lane 1, and by how much they are rotated.
const MOVES: [(usize, u64); 24] = [
    (10, 1),
    (7, 3),
    (11, 6),
    (17, 10),
    (18, 15),
    (3, 21),
    (5, 28),
    (16, 36),
    (8, 45),
    (21, 55),
    (24, 2),
    (4, 14),
    (15, 27),
    (23, 41),
    (19, 56),
    (13, 8),
    (12, 25),
    (2, 43),
    (20, 62),
    (14, 18),
    (22, 39),
    (9, 61),
    (6, 20),
    (1, 44),
];

#[inline(always)]
fn rotate(v: u64x8, bits: u64) -> u64x8 {
    (v << u64x8::splat(bits)) | (v >> u64x8::splat(64 - bits))
}

/// The permutation.
fn permute(a: &mut State) {
    for constant in ROUND_CONSTANTS {
        let c: [u64x8; 5] = std::array::from_fn(|x| a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20]);
        let d: [u64x8; 5] = std::array::from_fn(|x| c[(x + 4) % 5] ^ rotate(c[(x + 1) % 5], 1));
        for (i, lane) in a.iter_mut().enumerate() {
            *lane ^= d[i % 5];
        }
        let mut moved = a[1];
        for (to, bits) in MOVES {
            (a[to], moved) = (rotate(moved, bits), a[to]);
        }
        for row in a.as_chunks_mut::<5>().0 {
            let old = *row;
            for (x, lane) in row.iter_mut().enumerate() {
                *lane = old[x] ^ (!old[(x + 1) % 5] & old[(x + 2) % 5]);
            }
        }
        a[0] ^= u64x8::splat(constant);
    }
}

/// Sixteen hashes in progress.
#[derive(Clone)]
pub struct Hashes([State; 2]);

impl Hashes {
    /// Adds two words to lane `lane` of a message.
    #[inline(always)]
    fn add(&mut self, lane: u64, first: u32x16, second: u32x16) {
        let at = (lane % RATE as u64) as usize;
        let wide = |v: u32x16| -> [u64x8; 2] {
            [
                simd_swizzle!(v, [0, 1, 2, 3, 4, 5, 6, 7]).cast(),
                simd_swizzle!(v, [8, 9, 10, 11, 12, 13, 14, 15]).cast(),
            ]
        };
        let (low, high) = (wide(first.swap_bytes()), wide(second.swap_bytes()));
        for (state, (low, high)) in self.0.iter_mut().zip(low.iter().zip(&high)) {
            state[at] ^= *low | (*high << u64x8::splat(32));
        }
        if at == RATE - 1 {
            self.0.iter_mut().for_each(permute);
        }
    }
}

impl LaneHash for Hashes {
    fn new(_: Domain) -> Self {
        Self([[u64x8::splat(0); 25]; 2])
    }

    #[inline(always)]
    fn absorb(&mut self, at: u64, words: &[u32x16]) {
        for (i, [first, second]) in words.as_chunks::<2>().0.iter().enumerate() {
            self.add(at / 2 + i as u64, *first, *second);
        }
    }

    #[inline(always)]
    fn finish(mut self, at: u64, words: &[u32x16]) -> [Digest; SIMD_LANES] {
        self.absorb(at, words);
        let lane = (at + words.len() as u64) / 2;
        // The padding begins with a byte 1, in the same lane as an odd word.
        let padding = u32x16::splat(1 << 24);
        match words.as_chunks::<2>().1 {
            [word] => self.pad(lane, *word, padding),
            _ => self.pad(lane, padding, u32x16::splat(0)),
        }
        digests(&self.0)
    }
}

impl Hashes {
    /// The last lane and the end of the block, in which it may be the last one, too.
    #[inline(always)]
    fn pad(&mut self, lane: u64, first: u32x16, second: u32x16) {
        for state in &mut self.0 {
            state[RATE - 1] ^= u64x8::splat(1 << 63);
        }
        self.add(lane, first, second);
        if lane % RATE as u64 != RATE as u64 - 1 {
            self.0.iter_mut().for_each(permute);
        }
    }
}

fn digests(states: &[State; 2]) -> [Digest; SIMD_LANES] {
    let lanes = states.map(|state| state.map(u64x8::to_array));
    std::array::from_fn(|message| {
        let mut digest = [0; 32];
        for (bytes, lane) in digest.as_chunks_mut::<8>().0.iter_mut().zip(&lanes[message / LANES]) {
            *bytes = lane[message % LANES].to_le_bytes();
        }
        digest
    })
}

/// The smallest nonce with so many bits of work over `digest`, which is that of the channel and the bits.
pub fn grind(digest: &Digest, bits: u32) -> u64 {
    let share = |first: u64| move |share: u64| search(digest, bits, first + share * NONCES);
    let group = |group: u64| {
        let shares = (0..SHARES).into_par_iter();
        shares.find_map_first(share(group * SHARES * NONCES))
    };
    (0..).find_map(group).expect("one of 2^64 nonces")
}

/// The smallest such nonce among [`NONCES`] of them.
fn search(digest: &Digest, bits: u32, first: u64) -> Option<u64> {
    let mut start = [u64x8::splat(0); 25];
    for (lane, bytes) in start.iter_mut().zip(digest.as_chunks().0) {
        *lane = u64x8::splat(u64::from_le_bytes(*bytes));
    }
    start[5] = u64x8::splat(1);
    start[RATE - 1] = u64x8::splat(1 << 63);
    (first..first + NONCES).step_by(LANES).find_map(|first| {
        let nonces: [u64; LANES] = std::array::from_fn(|i| first + i as u64);
        let mut state = start;
        state[4] = u64x8::from_array(nonces.map(u64::to_be));
        permute(&mut state);
        let [high, low] = [state[0], state[1]].map(u64x8::to_array);
        nonces.into_iter().enumerate().find_map(|(i, nonce)| {
            let first = u128::from(high[i].swap_bytes()) << 64 | u128::from(low[i].swap_bytes());
            (first.trailing_zeros() >= bits).then_some(nonce)
        })
    })
}

#[cfg(test)]
mod tests {
    use stwo::core::channel::Channel;
    use tessera_verifier::suite::{Suite, SuiteChannel};

    use super::*;

    /// What the verifier accepts, and no smaller nonce.
    #[test]
    fn the_smallest_nonce_is_found() {
        let mut channel = SuiteChannel::new(Suite::Keccak);
        for bits in [0, 1, 5, 11] {
            channel.mix_u32s(&[bits]);
            let nonce = grind(&channel.work_digest(bits), bits);
            let first = (0..).find(|nonce| channel.verify_pow_nonce(bits, *nonce));
            assert_eq!(Some(nonce), first, "{bits} bits");
        }
    }
}
