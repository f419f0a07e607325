//! Sizes and digests of files, in pieces, so that many lanes and threads take part and a model of many gigabytes is
//! checked as fast as it is read: the digest of a file is Blake2s-256 of the digests of its pieces of [`PIECE`] bytes (the last
//! one may be shorter), one after the other; that of a piece is Blake2s-256 of a zero byte and the piece.

use std::simd::{u32x16, ToBytes};

use blake2::{Blake2s256, Digest as _};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use tessera_verifier::suite::Digest;

use crate::hashes::blake2s::Hashes;
use crate::hashes::{self, Domain, LaneHash, SIMD_LANES};

/// Bytes of a piece.
pub const PIECE: usize = 1 << 16;
/// Bytes of the pieces that are hashed together.
const GROUP: usize = SIMD_LANES * PIECE;
/// Bytes of a piece that are hashed at a time.
const BLOCK: usize = 4 * hashes::BLOCK;

/// Size and digest of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDigest {
    pub bytes: u64,
    /// Hexadecimal.
    pub digest: String,
}

impl FileDigest {
    /// Of a file with these contents.
    pub fn of(bytes: &[u8]) -> Self {
        let mut digest = Digester::default();
        digest.update(bytes);
        digest.finish()
    }
}

/// Makes the digest of a file as it is read or written.
#[derive(Default)]
pub struct Digester {
    bytes: u64,
    /// What does not fill a group yet.
    rest: Vec<u8>,
    pieces: Blake2s256,
}

impl Digester {
    /// The next bytes of the file.
    pub fn update(&mut self, mut bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if !self.rest.is_empty() {
            let (first, others) = bytes.split_at(bytes.len().min(GROUP - self.rest.len()));
            self.rest.extend_from_slice(first);
            bytes = others;
            if self.rest.len() < GROUP {
                return;
            }
            hash_pieces(&self.rest, &mut self.pieces);
            self.rest.clear();
        }
        let (groups, rest) = bytes.split_at(bytes.len() / GROUP * GROUP);
        hash_pieces(groups, &mut self.pieces);
        self.rest.extend_from_slice(rest);
    }

    /// The digest of the file.
    pub fn finish(mut self) -> FileDigest {
        hash_pieces(&self.rest, &mut self.pieces);
        FileDigest {
            bytes: self.bytes,
            digest: hex::encode(self.pieces.finalize()),
        }
    }
}

/// Adds the digests of the pieces of some bytes.
fn hash_pieces(bytes: &[u8], to: &mut Blake2s256) {
    let (groups, rest) = bytes.as_chunks::<GROUP>();
    let digests: Vec<[Digest; SIMD_LANES]> = groups.par_iter().map(group).collect();
    digests.as_flattened().iter().for_each(|digest| to.update(digest));
    for piece in rest.chunks(PIECE) {
        to.update(
            Blake2s256::new_with_prefix([Domain::Leaf as u8])
                .chain_update(piece)
                .finalize(),
        );
    }
}

/// The digests of the pieces of a group.
fn group(bytes: &[u8; GROUP]) -> [Digest; SIMD_LANES] {
    let pieces = bytes.as_chunks::<PIECE>().0;
    let mut hashes = Hashes::new(Domain::Leaf);
    for block in 0..PIECE / BLOCK {
        let row = |lane: usize| {
            let bytes: [u8; BLOCK] = std::array::from_fn(|i| pieces[lane][block * BLOCK + i]);
            u32x16::from_le_bytes(bytes.into())
        };
        hashes.absorb(
            (block * hashes::BLOCK) as u64,
            &hashes::transpose(std::array::from_fn(row)),
        );
    }
    hashes.finish((PIECE / BLOCK * hashes::BLOCK) as u64, &[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use tessera_support::random::SplitMix;

    #[test]
    fn files_are_hashed_piece_by_piece_however_they_are_read() {
        let mut rng = SplitMix(5);
        for len in [0, 1, PIECE, PIECE + 1, GROUP, GROUP + 7, 2 * GROUP + 3 * PIECE + 100] {
            let bytes: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
            let mut pieces = Blake2s256::new();
            for piece in bytes.chunks(PIECE) {
                let mut hash = Blake2s256::new();
                hash.update([0]);
                hash.update(piece);
                pieces.update(hash.finalize());
            }
            let expected = FileDigest {
                bytes: len as u64,
                digest: hex::encode(pieces.finalize()),
            };
            assert_eq!(FileDigest::of(&bytes), expected);
            let (mut digest, mut rest) = (Digester::default(), &bytes[..]);
            while !rest.is_empty() {
                let (next, others) = rest.split_at(rng.below(1 + rest.len() as u64) as usize);
                digest.update(next);
                rest = others;
            }
            assert_eq!(digest.finish(), expected, "{len} bytes in parts");
        }
    }
}
