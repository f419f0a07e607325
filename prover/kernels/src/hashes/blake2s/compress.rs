//! The compression function of Blake2s F of RFC 7693, of sixteen messages at a time.

use std::simd::u32x16;

const IV: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// The order in which a round takes the words of a block.
const SIGMA: [[usize; 16]; 10] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
    [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
    [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
    [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
    [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
    [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
    [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
    [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];

/// The state of a hash of 32 bytes without a key (the parameter block is 0x0101_0020 in its first word).
pub(super) const INITIAL_STATE: [u32x16; 8] = {
    let mut state = [u32x16::splat(0); 8];
    let mut i = 0;
    while i < 8 {
        state[i] = u32x16::splat(if i == 0 { IV[0] ^ 0x0101_0020 } else { IV[i] });
        i += 1;
    }
    state
};

/// The state after a block, by which `bytes` bytes of every message are hashed; the last block of a message is marked.
#[inline(always)]
pub(super) fn compress(state: [u32x16; 8], block: &[u32x16; 16], bytes: u64, is_last: bool) -> [u32x16; 8] {
    let iv = IV.map(u32x16::splat);
    let mut v: [u32x16; 16] = std::array::from_fn(|i| if i < 8 { state[i] } else { iv[i - 8] });
    v[12] ^= u32x16::splat(bytes as u32);
    v[13] ^= u32x16::splat((bytes >> 32) as u32);
    if is_last {
        v[14] = !v[14];
    }
    for order in &SIGMA {
        let words = |pair: usize| std::array::from_fn(|i| block[order[8 * (pair / 2) + 2 * i + pair % 2]]);
        mix(&mut v, 0, words(0), words(1));
        mix(&mut v, 1, words(2), words(3));
    }
    std::array::from_fn(|i| state[i] ^ v[i] ^ v[i + 8])
}

/// Mixes two words into each of the four columns, or (where `turn` is 1) into the four diagonals: the rows of the state are turned by
/// their own numbers first. All four are done step by step, so that they don't wait for one another.
#[inline(always)]
fn mix(v: &mut [u32x16; 16], turn: usize, x: [u32x16; 4], y: [u32x16; 4]) {
    let at = |row: usize, i: usize| 4 * row + (i + row * turn) % 4;
    for (words, [first, second]) in [(x, [16, 12]), (y, [8, 7])] {
        for i in 0..4 {
            v[at(0, i)] += v[at(1, i)] + words[i];
        }
        for i in 0..4 {
            v[at(3, i)] = rotate(v[at(3, i)] ^ v[at(0, i)], first);
        }
        for i in 0..4 {
            v[at(2, i)] += v[at(3, i)];
        }
        for i in 0..4 {
            v[at(1, i)] = rotate(v[at(1, i)] ^ v[at(2, i)], second);
        }
    }
}

/// Every word, rotated to the right.
#[inline(always)]
fn rotate(x: u32x16, by: u32) -> u32x16 {
    (x >> by) | (x << (32 - by))
}
