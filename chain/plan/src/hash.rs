//! The hash that contracts calculate.

use tessera_verifier::suite::{Digest, Suite};

/// Keccak-256 of some bytes.
pub fn keccak(bytes: &[u8]) -> Digest {
    let mut hasher = Suite::Keccak.hasher();
    hasher.update(bytes);
    hasher.finalize()
}
