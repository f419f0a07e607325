//! The tensors of a checkpoint: one or many memory-mapped safetensors files.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use half::f16;
use safetensors::tensor::{Dtype, SafeTensors, TensorInfo};
use serde::Deserialize;

use super::{mistaken, CheckpointError};
use crate::files::{self, Mapped};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// One file and where its tensor data start.
#[derive(Debug)]
struct Shard {
    path: PathBuf,
    map: Mapped,
    data: usize,
}

/// Where a tensor is.
#[derive(Debug)]
struct Entry {
    shard: usize,
    info: TensorInfo,
}

/// All tensors of a checkpoint by the name they have in its files.
#[derive(Debug)]
pub(super) struct Storage {
    shards: Vec<Shard>,
    entries: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Storage {
    /// Opens `model.safetensors`, or all files of `model.safetensors.index.json`.
    pub(super) fn open(dir: &Path) -> Result<Self, CheckpointError> {
        let mut storage = Self {
            shards: Vec::new(),
            entries: BTreeMap::new(),
        };
        let index_path = dir.join(INDEX);
        if dir.join(SINGLE).exists() || !index_path.exists() {
            if !dir.join(SINGLE).exists() {
                mistaken::pytorch(dir)?;
            }
            storage.add(dir.join(SINGLE))?;
            return Ok(storage);
        }
        let format = |problem: String| CheckpointError::Format {
            path: index_path.clone(),
            problem,
        };
        let index: Index = serde_json::from_slice(&files::read(&index_path)?).map_err(|e| format(e.to_string()))?;
        let mut names: Vec<&String> = index.weight_map.values().collect();
        names.sort();
        names.dedup();
        for name in names {
            if Path::new(name).file_name() != Some(name.as_ref()) {
                return Err(format(format!(
                    "{name:?} is not the name of a file in the same directory"
                )));
            }
            storage.add(dir.join(name))?;
        }
        match index
            .weight_map
            .iter()
            .find(|(tensor, _)| !storage.entries.contains_key(*tensor))
        {
            Some((tensor, file)) => Err(format(format!("tensor {tensor} is not in {file}"))),
            None => Ok(storage),
        }
    }

    fn add(&mut self, path: PathBuf) -> Result<(), CheckpointError> {
        let map = files::map(&path)?;
        let format = |problem: String| CheckpointError::Format {
            path: path.clone(),
            problem,
        };
        if let Some(problem) = mistaken::pointer(map.bytes()) {
            return Err(format(problem));
        }
        let (header, metadata) = SafeTensors::read_metadata(map.bytes()).map_err(|e| format(e.to_string()))?;
        for (name, info) in metadata.tensors() {
            let entry = Entry {
                shard: self.shards.len(),
                info: info.clone(),
            };
            if self.entries.insert(name.clone(), entry).is_some() {
                return Err(format(format!("tensor {name} is also in another file")));
            }
        }
        // The length of the header precedes it in 8 bytes.
        self.shards.push(Shard {
            path,
            map,
            data: 8 + header,
        });
        Ok(())
    }

    /// Names, types and shapes, in the order of the names.
    pub(super) fn tensors(&self) -> impl Iterator<Item = (&str, &TensorInfo)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), &entry.info))
    }

    /// The type and shape of a tensor.
    pub(super) fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.entries.get(name).map(|e| &e.info)
    }

    /// Whether values of this type can be read.
    pub(super) fn readable(dtype: Dtype) -> bool {
        matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16)
    }

    /// A tensor, by the name it has in the files. Errors if it is missing or of another type than F32, F16 or BF16.
    pub(super) fn tensor(&self, name: &str) -> Result<Tensor<'_>, CheckpointError> {
        let missing = || CheckpointError::Missing {
            tensor: name.to_string(),
        };
        let entry = self.entries.get(name).ok_or_else(missing)?;
        let shard = self.shards.get(entry.shard).ok_or_else(missing)?;
        let dtype = entry.info.dtype;
        if !Self::readable(dtype) {
            let (tensor, dtype) = (name.to_string(), format!("{dtype:?}"));
            return Err(CheckpointError::Dtype { tensor, dtype });
        }
        let (start, end) = entry.info.data_offsets;
        let range = shard.data + start..shard.data + end;
        if shard.map.bytes().get(range.clone()).is_none() {
            return Err(CheckpointError::Format {
                path: shard.path.clone(),
                problem: format!("the data of {name} lie beyond the end"),
            });
        }
        Ok(Tensor {
            name: name.to_string(),
            map: &shard.map,
            range,
            dtype,
            shape: &entry.info.shape,
        })
    }

    /// Paths of the files and what precedes the tensors in each: their names, types, shapes and places.
    pub(super) fn files(&self) -> impl Iterator<Item = (&Path, &[u8])> {
        let shards = self.shards.iter();
        shards.map(|shard| (shard.path.as_path(), &shard.map.bytes()[..shard.data]))
    }
}

/// A tensor of a memory-mapped file. Values are converted where they are read.
#[derive(Clone, Debug)]
pub struct Tensor<'a> {
    name: String,
    map: &'a Mapped,
    range: Range<usize>,
    dtype: Dtype,
    shape: &'a [usize],
}

impl Tensor<'_> {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Length of a row: the last dimension.
    pub fn width(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    fn bytes_per_value(&self) -> usize {
        match self.dtype {
            Dtype::F32 => 4,
            _ => 2,
        }
    }

    /// Reads the values from index `first` on, row-major. Errors name a value that is not finite.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn read(&self, first: usize, out: &mut [f32]) -> Result<(), CheckpointError> {
        let size = self.bytes_per_value();
        let bytes = &self.map.bytes()[self.range.clone()][first * size..][..out.len() * size];
        match self.dtype {
            Dtype::F32 => convert(bytes.as_chunks().0, out, f32::from_le_bytes),
            Dtype::F16 => convert(bytes.as_chunks().0, out, |b| f16::from_le_bytes(b).to_f32()),
            _ => convert(bytes.as_chunks().0, out, |b| {
                f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16)
            }),
        }
        // All exponent bits are set in what is not finite.
        let finite = |v: &f32| v.to_bits() << 1 < 0xff << 24;
        if out.iter().fold(true, |all, v| all & finite(v)) {
            return Ok(());
        }
        let at = out.iter().position(|v| !v.is_finite()).unwrap_or_default();
        Err(CheckpointError::NotFinite {
            tensor: self.name.clone(),
            index: first + at,
            value: out[at],
        })
    }

    /// All values.
    pub fn values(&self) -> Result<Vec<f32>, CheckpointError> {
        let mut values = vec![0.0; self.len()];
        self.read(0, &mut values)?;
        Ok(values)
    }

    /// Lets the system take back the memory of the tensor.
    pub fn release(&self) {
        self.map.release(self.range.clone());
    }
}

fn convert<const N: usize>(bytes: &[[u8; N]], out: &mut [f32], value: impl Fn([u8; N]) -> f32) {
    out.iter_mut().zip(bytes).for_each(|(out, bytes)| *out = value(*bytes));
}
