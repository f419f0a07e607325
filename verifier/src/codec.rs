//! Bytes of the files that a verifier reads; the only module that knows the encoding.
//!
//! A file is an 8-byte magic, a 32-bit little-endian version and a payload: bincode with integers of fixed
//! width, little-endian. The encoding is canonical: [`decode`] accepts exactly the bytes that [`encode`]
//! gives for the decoded value, and every field element in them is below the modulus (stwo's own
//! deserialisation takes any 32-bit word).
//!
//! [`decode`] is total on hostile bytes. A sequence is allocated as its entries are read, so memory is a
//! small multiple of the input; a string may reserve what its length claims, up to the limit of the kind.
//! Types to be decoded must not contain sequences of zero-sized values, which take time without input.

mod canonical;
pub(crate) mod sizes;

use std::fmt;

use bincode::config::{Configuration, Fixint, Limit, LittleEndian};
use bincode::enc::write::Writer;
use bincode::error::{DecodeError, EncodeError};
use serde::de::DeserializeOwned;
use serde::Serialize;
use stwo::core::poly::line::LinePoly;
use stwo::core::proof::StarkProof;
use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleHasher;
use thiserror::Error;

pub(crate) use self::canonical::check_canonical_fields;
use self::canonical::Stop;

/// Largest payload of a proof, in bytes.
pub const PROOF_LIMIT: usize = 192 << 20;
/// Largest payload of a model key, in bytes.
pub const KEY_LIMIT: usize = 256 << 20;

const MAGIC_LEN: usize = 8;
const VERSION_LEN: usize = 4;
/// Bytes of a file before its payload.
pub const HEADER_LEN: usize = MAGIC_LEN + VERSION_LEN;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A proof. In front of its own fields the file has, if the kind says so, first the context that it is tied to, then the messages that hide
    /// its activations.
    Proof {
        /// Whether the proof is tied to a context.
        context: bool,
        /// Whether the proof hides its activations.
        hides: bool,
    },
    /// The proof of one chunk, before it is composed.
    Chunk,
    /// A model key.
    Key,
    /// Ids that a proof hides.
    Reveal,
}

impl FileKind {
    /// A proof without a context that hides nothing.
    pub const PROOF: Self = Self::proof(false, false);

    /// The kinds of proofs, by version.
    pub const PROOFS: [Self; 4] = [
        Self::PROOF,
        Self::proof(true, false),
        Self::proof(false, true),
        Self::proof(true, true),
    ];

    /// A kind of proof: whether it has a context, and whether it hides its activations.
    pub const fn proof(context: bool, hides: bool) -> Self {
        Self::Proof { context, hides }
    }

    /// The first bytes of a file of this kind.
    pub const fn magic(self) -> [u8; MAGIC_LEN] {
        match self {
            Self::Proof { .. } => *b"TESSPRF\0",
            Self::Chunk => *b"TESSCHK\0",
            Self::Key => *b"TESSKEY\0",
            Self::Reveal => *b"TESSREV\0",
        }
    }

    /// Version of the format, written after the magic.
    pub const fn version(self) -> u32 {
        match self {
            Self::Proof { context, hides } => match (context, hides) {
                (false, false) => 26,
                (true, false) => 27,
                (false, true) => 32,
                (true, true) => 33,
            },
            Self::Chunk => 18,
            Self::Key => 13,
            Self::Reveal => 1,
        }
    }

    /// The newest version of a file of this sort that is read.
    const fn newest(self) -> u32 {
        match self {
            Self::Proof { .. } => Self::proof(true, true).version(),
            Self::Chunk | Self::Key | Self::Reveal => self.version(),
        }
    }

    /// The versions that are read, for people.
    fn versions(self) -> String {
        match self {
            Self::Proof { .. } => {
                let [plain, in_context, hiding, both] = Self::PROOFS.map(Self::version);
                format!("versions {plain}, {in_context}, {hiding} and {both}")
            }
            Self::Chunk | Self::Key | Self::Reveal => format!("version {}", self.version()),
        }
    }

    /// Whether the bytes say of themselves that they are a file of this kind and version.
    pub fn is_said_by(self, bytes: &[u8]) -> bool {
        let version = self.version().to_le_bytes();
        bytes
            .strip_prefix(&self.magic())
            .is_some_and(|rest| rest.starts_with(&version))
    }

    /// The kind of proof that the bytes say of themselves that they are: one without a context that hides nothing if they say none.
    pub fn of_proof(bytes: &[u8]) -> Self {
        let said = Self::PROOFS.into_iter().find(|kind| kind.is_said_by(bytes));
        said.unwrap_or(Self::PROOF)
    }

    /// Largest payload in bytes.
    pub const fn limit(self) -> usize {
        match self {
            Self::Proof { .. } | Self::Chunk | Self::Reveal => PROOF_LIMIT,
            Self::Key => KEY_LIMIT,
        }
    }
}

/// The way out for somebody who has a file of another version.
const fn advice(got: u32, newest: u32) -> &'static str {
    match got < newest {
        true => {
            "ask for one that is made with this version of Tessera, or read it with the release that docs/compatibility.md names"
        }
        false => "read it with a newer version of Tessera",
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Proof { .. } => "proof",
            Self::Chunk => "chunk proof",
            Self::Key => "model key",
            Self::Reveal => "reveal",
        })
    }
}

/// Bytes that are not a file of the expected kind, or a value that cannot be one.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
// The messages say what each is.
#[allow(missing_docs)]
#[non_exhaustive]
pub enum CodecError {
    #[error("not a {kind} file: it starts with \"{}\"", got.escape_ascii())]
    Magic { kind: FileKind, got: [u8; MAGIC_LEN] },
    #[error("{kind} file of version {got}, but this program reads {}; {}", kind.versions(), advice(*got, kind.newest()))]
    Version { kind: FileKind, got: u32, supported: u32 },
    #[error("{kind} file ends early")]
    Truncated { kind: FileKind },
    #[error("{kind} file has {count} bytes after its end")]
    TrailingBytes { kind: FileKind, count: usize },
    #[error("{kind} payload of {len} bytes, the limit is {limit}")]
    TooLarge { kind: FileKind, len: usize, limit: usize },
    #[error("the file has more than {most} bytes, but no proof of this model does")]
    TooLong { most: usize },
    #[error("{kind} file claims contents beyond the limit of {limit} bytes")]
    ClaimTooLarge { kind: FileKind, limit: usize },
    #[error("field element {value} is not below the modulus 2147483647")]
    NonCanonicalField { value: u32 },
    #[error("{kind} file is not the canonical encoding of its contents")]
    NonCanonicalEncoding { kind: FileKind },
    #[error("STARK proof: last FRI layer of {coefficients} coefficients that does not match its size")]
    LastLayer { coefficients: usize },
    #[error("malformed {kind} file: {reason}")]
    Malformed { kind: FileKind, reason: String },
    #[error("a value cannot be encoded: {reason}")]
    Unencodable { reason: String },
}

impl From<Stop> for CodecError {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Field(value) => Self::NonCanonicalField { value },
            Stop::Custom(reason) => Self::Unencodable { reason },
        }
    }
}

fn config<const LIMIT: usize>() -> Configuration<LittleEndian, Fixint, Limit<LIMIT>> {
    bincode::config::standard()
        .with_fixed_int_encoding()
        .with_limit::<LIMIT>()
}

/// The bytes of a file. Refuses what [`decode`] would refuse: a payload over the limit of its kind, or a
/// field element that is not reduced.
pub fn encode<T: Serialize>(kind: FileKind, value: &T) -> Result<Vec<u8>, CodecError> {
    encode_with_rest(kind, value, &[])
}

/// The bytes of a file that has a value and, behind it, bytes as they stand.
pub(crate) fn encode_with_rest<T: Serialize>(kind: FileKind, value: &T, rest: &[u8]) -> Result<Vec<u8>, CodecError> {
    check_canonical_fields(value)?;
    let mut bytes = Vec::from(kind.magic());
    bytes.extend(kind.version().to_le_bytes());
    let front = encode_part(value)?;
    check_limit(kind, front.len() + rest.len())?;
    bytes.extend(front);
    bytes.extend(rest);
    Ok(bytes)
}

/// The encoding of a part of a file, which has no header: what digests are made of.
pub fn encode_part<T: Serialize>(value: &T) -> Result<Vec<u8>, CodecError> {
    bincode::serde::encode_to_vec(value, config::<KEY_LIMIT>())
        .map_err(|e| CodecError::Unencodable { reason: e.to_string() })
}

/// Reads a file that [`encode`] wrote.
///
/// # Errors
/// One variant of [`CodecError`] per cause; whatever the bytes are, there is no panic.
pub fn decode<T: Serialize + DeserializeOwned>(kind: FileKind, bytes: &[u8]) -> Result<T, CodecError> {
    decode_part(kind, payload(kind, bytes)?)
}

/// Reads a part of a file of this kind, all of the bytes that [`encode_part`] wrote. For example, a key has its recipe as bytes,
/// and whoever shows the recipe reads them with this function.
///
/// # Errors
/// As of [`decode`], and none about a header.
pub fn decode_part<T: Serialize + DeserializeOwned>(kind: FileKind, bytes: &[u8]) -> Result<T, CodecError> {
    let (value, rest) = read(kind, bytes)?;
    match rest.len() {
        0 => check_encoding(kind, value, bytes),
        count => Err(CodecError::TrailingBytes { kind, count }),
    }
}

/// Reads a file that [`encode_with_rest`] wrote: the value, and the bytes behind it.
pub(crate) fn decode_with_rest<T: Serialize + DeserializeOwned>(
    kind: FileKind,
    bytes: &[u8],
) -> Result<(T, &[u8]), CodecError> {
    let payload = payload(kind, bytes)?;
    let (value, rest) = read(kind, payload)?;
    let front = payload.strip_suffix(rest).unwrap_or(payload);
    Ok((check_encoding(kind, value, front)?, rest))
}

/// Checks what decoding a STARK proof does not: every field element is below the modulus and the last FRI
/// layer has the size it states. [`decode`] includes the check of the fields, but does not know where in
/// its value a STARK proof is.
pub fn check_canonical_stark(proof: &StarkProof<Blake2sMerkleHasher>) -> Result<(), CodecError> {
    check_canonical_fields(proof)?;
    let last = &proof.fri_proof.last_layer_poly;
    let coefficients: &[_] = last;
    if !coefficients.len().is_power_of_two() || *last != LinePoly::new(coefficients.to_vec()) {
        return Err(CodecError::LastLayer {
            coefficients: coefficients.len(),
        });
    }
    Ok(())
}

/// Checks the header and returns what follows it, which is not too long.
fn payload(kind: FileKind, bytes: &[u8]) -> Result<&[u8], CodecError> {
    let payload = after_header(kind, bytes)?;
    check_limit(kind, payload.len())?;
    Ok(payload)
}

/// Checks the header and returns what follows it.
pub(crate) fn after_header(kind: FileKind, bytes: &[u8]) -> Result<&[u8], CodecError> {
    let truncated = CodecError::Truncated { kind };
    let (&magic, rest) = bytes
        .split_first_chunk::<MAGIC_LEN>()
        .ok_or_else(|| truncated.clone())?;
    if magic != kind.magic() {
        return Err(CodecError::Magic { kind, got: magic });
    }
    let (&version, payload) = rest.split_first_chunk::<VERSION_LEN>().ok_or(truncated)?;
    let got = u32::from_le_bytes(version);
    if got != kind.version() {
        return Err(CodecError::Version {
            kind,
            got,
            supported: kind.version(),
        });
    }
    Ok(payload)
}

fn check_limit(kind: FileKind, len: usize) -> Result<(), CodecError> {
    let limit = kind.limit();
    if len > limit {
        return Err(CodecError::TooLarge { kind, len, limit });
    }
    Ok(())
}

/// The value that bytes begin with, and the bytes behind it.
pub(crate) fn read<T: DeserializeOwned>(kind: FileKind, bytes: &[u8]) -> Result<(T, &[u8]), CodecError> {
    let read = match kind {
        FileKind::Key => bincode::serde::decode_from_slice(bytes, config::<KEY_LIMIT>()),
        _ => bincode::serde::decode_from_slice(bytes, config::<PROOF_LIMIT>()),
    };
    let (value, length) = read.map_err(|error| decode_error(kind, &error))?;
    Ok((value, bytes.get(length..).unwrap_or_default()))
}

/// The value, if these bytes are its encoding and all its field elements are reduced.
fn check_encoding<T: Serialize>(kind: FileKind, value: T, bytes: &[u8]) -> Result<T, CodecError> {
    let mut same = Compare { expected: bytes };
    bincode::serde::encode_into_writer(&value, &mut same, config::<KEY_LIMIT>())
        .map_err(|_| CodecError::NonCanonicalEncoding { kind })?;
    if !same.expected.is_empty() {
        return Err(CodecError::NonCanonicalEncoding { kind });
    }
    check_canonical_fields(&value)?;
    Ok(value)
}

fn decode_error(kind: FileKind, error: &DecodeError) -> CodecError {
    match error {
        // A length that a host of 32 bits cannot hold: one of 64 bits finds that the file ends before so many entries.
        DecodeError::UnexpectedEnd { .. } | DecodeError::OutsideUsizeRange(_) => CodecError::Truncated { kind },
        DecodeError::LimitExceeded => CodecError::ClaimTooLarge {
            kind,
            limit: kind.limit(),
        },
        DecodeError::OtherString(reason) => CodecError::Malformed {
            kind,
            reason: reason.clone(),
        },
        other => CodecError::Malformed {
            kind,
            reason: other.to_string(),
        },
    }
}

/// A writer that accepts exactly the expected bytes.
struct Compare<'a> {
    expected: &'a [u8],
}

impl Writer for Compare<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.expected = self
            .expected
            .strip_prefix(bytes)
            .ok_or(EncodeError::Other("different bytes"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
