//! Hash suites (docs/protocol.md, section 11): the hash of transcripts, trees and ids, and the order of bytes in what it
//! hashes. The suite belongs to the key and is in the model id, so nobody chooses it for a proof.

mod channel;
mod stwo_trees;

use blake2::{Blake2s256, Digest as _};
use serde::{Deserialize, Serialize};
use sha3::Keccak256;
use stwo::core::fields::m31::BaseField;
use tessera_circuits::table_tree::TableArgument;
use thiserror::Error;

pub use self::channel::SuiteChannel;
pub use self::stwo_trees::Trees;

/// A digest of either suite.
pub type Digest = [u8; 32];

/// The hash of a key and of everything that is proved under it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub enum Suite {
    /// Blake2s-256, numbers little-endian.
    #[default]
    Blake2s,
    /// Keccak-256 with the padding that came before SHA-3, numbers big-endian.
    Keccak,
}

/// A number that is no suite.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the hash suite is {0}, but this program knows only 0 (Blake2s-256) and 1 (Keccak-256)")]
pub struct UnknownSuite(u32);

impl TryFrom<u32> for Suite {
    type Error = UnknownSuite;

    fn try_from(number: u32) -> Result<Self, UnknownSuite> {
        let found = Self::ALL.into_iter().find(|suite| u32::from(*suite) == number);
        found.ok_or(UnknownSuite(number))
    }
}

impl From<Suite> for u32 {
    fn from(suite: Suite) -> Self {
        match suite {
            Suite::Blake2s => 0,
            Suite::Keccak => 1,
        }
    }
}

impl Suite {
    /// All suites, by their numbers.
    pub const ALL: [Self; 2] = [Self::Blake2s, Self::Keccak];

    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blake2s => "Blake2s-256",
            Self::Keccak => "Keccak-256",
        }
    }

    /// What programs call it.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Blake2s => "blake2s",
            Self::Keccak => "keccak",
        }
    }

    /// How set-up has the lookup tables of a model proved unless it is asked for another way.
    pub const fn default_tables(self) -> TableArgument {
        match self {
            Self::Blake2s => TableArgument::Stark,
            Self::Keccak => TableArgument::Gkr,
        }
    }

    /// Whether keys of the suite may have their lookup tables proved in this way. Contracts verify no STARK, so keys of Keccak-256 ask for none.
    pub const fn allows(self, tables: TableArgument) -> bool {
        matches!((self, tables), (Self::Blake2s, _) | (_, TableArgument::Gkr))
    }

    /// What follows the protocol's name at the start of a transcript.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Blake2s => "",
            Self::Keccak => "/keccak",
        }
    }

    /// The bytes of a word that is hashed.
    pub const fn word_bytes(self, word: u32) -> [u8; 4] {
        match self {
            Self::Blake2s => word.to_le_bytes(),
            Self::Keccak => word.to_be_bytes(),
        }
    }

    /// The word that is hashed as these bytes.
    pub const fn word(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Blake2s => u32::from_le_bytes(bytes),
            Self::Keccak => u32::from_be_bytes(bytes),
        }
    }

    /// What hashes bytes in pieces.
    pub fn hasher(self) -> Hasher {
        match self {
            Self::Blake2s => Hasher::Blake2s(Blake2s256::new()),
            Self::Keccak => Hasher::Keccak(Keccak256::new()),
        }
    }

    /// What hashes a leaf of a tree of an opening in pieces (section 3). Depth and length of leaves are the verifier's, so that
    /// leaves and nodes cannot be exchanged; Blake2s tells them apart by a byte all the same.
    pub fn leaf_hasher(self) -> Hasher {
        let mut hasher = self.hasher();
        if self == Self::Blake2s {
            hasher.update(&[0]);
        }
        hasher
    }

    /// Digest of an inner node of a tree of an opening.
    pub fn node(self, left: &Digest, right: &Digest) -> Digest {
        let mut hasher = self.hasher();
        if self == Self::Blake2s {
            hasher.update(&[1]);
        }
        hasher.update(left);
        hasher.update(right);
        hasher.finalize()
    }
}

/// A hash in progress, which lives as long as a message.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)]
pub enum Hasher {
    /// Of the suite Blake2s.
    Blake2s(Blake2s256),
    /// Of the suite Keccak.
    Keccak(Keccak256),
}

impl Hasher {
    /// Appends bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Blake2s(hash) => hash.update(bytes),
            Self::Keccak(hash) => hash.update(bytes),
        }
    }

    /// Appends words in the order of bytes of the suite.
    pub fn words(&mut self, words: impl IntoIterator<Item = u32>) {
        let words = words.into_iter();
        match self {
            Self::Blake2s(hash) => words.for_each(|word| hash.update(word.to_le_bytes())),
            Self::Keccak(hash) => words.for_each(|word| hash.update(word.to_be_bytes())),
        }
    }

    /// Appends field elements.
    pub fn fields<'a>(&mut self, values: impl IntoIterator<Item = &'a BaseField>) {
        self.words(values.into_iter().map(|value| value.0));
    }

    /// The digest.
    pub fn finalize(self) -> Digest {
        match self {
            Self::Blake2s(hash) => hash.finalize().into(),
            Self::Keccak(hash) => hash.finalize().into(),
        }
    }
}

#[cfg(test)]
mod tests;
