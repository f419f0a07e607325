//! How many bytes parts of a proof take, for bounds on its length.

/// Bytes of the length of a sequence.
pub const LIST: u128 = 8;
/// Bytes of an element of M31.
pub const BASE: u128 = 4;
/// Bytes of an element of QM31.
pub const SECURE: u128 = 16;
/// Bytes of the nonce of a proof of work.
pub const NONCE: u128 = 8;
/// Bytes of a digest.
pub const DIGEST: u128 = 32;

/// The bytes of a sumcheck of so many rounds.
pub const fn rounds(number: u128) -> u128 {
    LIST + 2 * SECURE * number
}

/// The most bytes of an authentication path of so many leaves in a tree of `2^depth`: they leave open at most as many nodes of a
/// level as they are, and at most half of them.
pub fn path(leaves: usize, depth: u32) -> u128 {
    let open = |level: u32| (leaves as u128).min(1 << level);
    LIST + DIGEST * (0..depth).map(open).sum::<u128>()
}

/// log2 of the smallest power of two that is not smaller.
pub const fn log_ceil(n: u128) -> u32 {
    n.next_power_of_two().trailing_zeros()
}
