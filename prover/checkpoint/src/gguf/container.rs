//! The container: header, metadata, and the table of tensors with their places. Nothing in it is believed: every count,
//! length and place is compared with the length of the file before it is used.

use std::collections::BTreeMap;
use std::ops::Range;

use super::value::{Cursor, Metadata, Problem};
use crate::blocks::Blocks;
use crate::encoding::Encoding;
use crate::storage::Info;

/// The first bytes of a file.
pub const MAGIC: [u8; 4] = *b"GGUF";
/// Versions with 64-bit counts.
const VERSIONS: [u32; 2] = [2, 3];
const MAX_VALUES: usize = 1 << 16;
const MAX_TENSORS: usize = 1 << 16;
const MAX_DIMENSIONS: u32 = 4;
const MAX_NAME: usize = 255;
const DEFAULT_ALIGNMENT: u64 = 32;
const ALIGNMENT_KEY: &str = "general.alignment";

/// What precedes the data of the tensors.
#[derive(Debug)]
pub(super) struct Container<'a> {
    pub(super) metadata: Metadata<'a>,
    /// Tensors by their names; data of the types that are read lie in the file and apart from each other.
    pub(super) tensors: BTreeMap<String, Info>,
    /// Where the header ends.
    pub(super) end: usize,
}

impl<'a> Container<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, Problem> {
        let mut cursor = Cursor::new(bytes);
        if cursor.take().ok() != Some(MAGIC) {
            return Err(
                "this is not a GGUF file, and a checkpoint of another kind is a directory with config.json".to_string(),
            );
        }
        let version = cursor.word()?;
        if !VERSIONS.contains(&version) {
            let swapped = version.swap_bytes();
            return Err(match VERSIONS.contains(&swapped) {
                true => format!("GGUF version {swapped} is big-endian, only little-endian files are read"),
                false => format!("GGUF version {version} is not supported, only 2 and 3 are"),
            });
        }
        // A name of one byte, no dimension, type and place.
        let tensors = cursor.count("tensors", 25, MAX_TENSORS)?;
        // A key of one byte, a type and a value of one byte.
        let values = cursor.count("metadata values", 14, MAX_VALUES)?;
        let metadata = Metadata::read(bytes, &mut cursor, values)?;
        let alignment = metadata.unsigned(ALIGNMENT_KEY)?.unwrap_or(DEFAULT_ALIGNMENT);
        if !alignment.is_power_of_two() || alignment > 1 << 20 {
            return Err(format!("{ALIGNMENT_KEY}: {alignment} is not a power of two up to 2^20"));
        }
        let mut stored = BTreeMap::new();
        for _ in 0..tensors {
            let name = cursor.name(MAX_NAME)?;
            let tensor = Stored::read(&mut cursor).map_err(|problem| format!("tensor {name}: {problem}"))?;
            if stored.insert(name.to_string(), tensor).is_some() {
                return Err(format!("tensor {name} is there twice"));
            }
        }
        let header = cursor.at;
        let start = header.next_multiple_of(alignment as usize);
        let mut found = BTreeMap::new();
        for (name, tensor) in stored {
            let info = tensor.placed(start, alignment, bytes.len());
            found.insert(
                name.clone(),
                info.map_err(|problem| format!("tensor {name}: {problem}"))?,
            );
        }
        apart(&found)?;
        Ok(Self {
            metadata,
            tensors: found,
            end: header,
        })
    }
}

/// Errors if two tensors share bytes: their sizes would say nothing about that of the file.
fn apart(tensors: &BTreeMap<String, Info>) -> Result<(), Problem> {
    let mut places: Vec<(&Range<usize>, &str)> = tensors.iter().map(|(name, t)| (&t.range, name.as_str())).collect();
    places.retain(|(range, _)| !range.is_empty());
    places.sort_by_key(|(range, _)| range.start);
    match places.windows(2).find(|pair| pair[1].0.start < pair[0].0.end) {
        Some(pair) => Err(format!("the data of tensors {} and {} overlap", pair[0].1, pair[1].1)),
        None => Ok(()),
    }
}

/// An entry of the table of tensors.
#[derive(Debug)]
struct Stored {
    /// The one that runs fastest first.
    dimensions: Vec<usize>,
    kind: u32,
    /// From the start of the data.
    offset: u64,
}

impl Stored {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, Problem> {
        let rank = cursor.word()?;
        if rank > MAX_DIMENSIONS {
            return Err(format!("it has {rank} dimensions, more than {MAX_DIMENSIONS}"));
        }
        let dimension = |n: u64| usize::try_from(n).map_err(|_| format!("a dimension is {n}"));
        let dimensions = (0..rank)
            .map(|_| cursor.long().and_then(dimension))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            dimensions,
            kind: cursor.word()?,
            offset: cursor.long()?,
        })
    }

    /// Checks size and place, with the data of all tensors from byte `start` on of a file of `len` bytes.
    fn placed(self, start: usize, alignment: u64, len: usize) -> Result<Info, Problem> {
        let encoding = encoding(self.kind);
        let product = self.dimensions.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        let values = product.ok_or_else(|| format!("its dimensions {:?} are too large", self.dimensions))?;
        if !self.offset.is_multiple_of(alignment) {
            return Err(format!("its place {} is not a multiple of {alignment}", self.offset));
        }
        let bytes = match encoding.unit() {
            // Of a type that is not read the size is not known.
            None => 0,
            Some((block, bytes)) => {
                let row = self.dimensions.first().copied().unwrap_or(1);
                if !row.is_multiple_of(block) {
                    return Err(format!(
                        "its rows of {row} values are not whole blocks of {encoding}, of {block}"
                    ));
                }
                let bytes = (values / block).checked_mul(bytes);
                bytes.ok_or_else(|| format!("its dimensions {:?} are too large", self.dimensions))?
            }
        };
        let begin = usize::try_from(self.offset).ok().and_then(|o| o.checked_add(start));
        let end = begin
            .and_then(|b| b.checked_add(bytes))
            .filter(|end| *end <= len || bytes == 0);
        let (Some(begin), Some(end)) = (begin, end) else {
            return Err(format!(
                "its data lie beyond the end of the file, which has {len} bytes"
            ));
        };
        Ok(Info {
            encoding,
            shape: self.dimensions.into_iter().rev().collect(),
            range: if bytes == 0 { 0..0 } else { begin..end },
            paired: None,
        })
    }
}

/// The types by their numbers.
fn encoding(kind: u32) -> Encoding {
    Encoding::Blocks(match kind {
        0 => return Encoding::F32,
        1 => return Encoding::F16,
        30 => return Encoding::BF16,
        2 => Blocks::Q4_0,
        3 => Blocks::Q4_1,
        6 => Blocks::Q5_0,
        7 => Blocks::Q5_1,
        8 => Blocks::Q8_0,
        12 => Blocks::Q4K,
        13 => Blocks::Q5K,
        14 => Blocks::Q6K,
        other => return Encoding::Other(other_name(other)),
    })
}

/// Names of the types that are not read.
fn other_name(kind: u32) -> String {
    let known = match kind {
        9 => "Q8_1",
        10 => "Q2_K",
        11 => "Q3_K",
        15 => "Q8_K",
        16 => "IQ2_XXS",
        17 => "IQ2_XS",
        18 => "IQ3_XXS",
        19 => "IQ1_S",
        20 => "IQ4_NL",
        21 => "IQ3_S",
        22 => "IQ2_S",
        23 => "IQ4_XS",
        24 => "I8",
        25 => "I16",
        26 => "I32",
        27 => "I64",
        28 => "F64",
        29 => "IQ1_M",
        34 => "TQ1_0",
        35 => "TQ2_0",
        39 => "MXFP4",
        _ => return format!("GGML type {kind}"),
    };
    known.to_string()
}
