//! The tensors of a checkpoint: one or many memory-mapped safetensors files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use safetensors::tensor::{Dtype, SafeTensors, TensorInfo};
use serde::Deserialize;

use super::CheckpointError;
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

    /// The values of a tensor, row-major. Errors if it is missing, of another type than F32, F16 or BF16,
    /// or contains a value that is not finite.
    pub(super) fn values(&self, name: &str) -> Result<Vec<f32>, CheckpointError> {
        let missing = || CheckpointError::Missing {
            tensor: name.to_string(),
        };
        let entry = self.entries.get(name).ok_or_else(missing)?;
        let shard = self.shards.get(entry.shard).ok_or_else(missing)?;
        let (start, end) = entry.info.data_offsets;
        let bytes = shard
            .map
            .bytes()
            .get(shard.data + start..shard.data + end)
            .ok_or_else(|| {
                let problem = format!("the data of {name} lie beyond the end");
                CheckpointError::Format {
                    path: shard.path.clone(),
                    problem,
                }
            })?;
        let values: Vec<f32> = match entry.info.dtype {
            Dtype::F32 => bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
            Dtype::F16 => bytes
                .as_chunks()
                .0
                .iter()
                .map(|b| f16::from_le_bytes(*b).to_f32())
                .collect(),
            Dtype::BF16 => bytes
                .as_chunks()
                .0
                .iter()
                .map(|b| bf16::from_le_bytes(*b).to_f32())
                .collect(),
            dtype => {
                let (tensor, dtype) = (name.to_string(), format!("{dtype:?}"));
                return Err(CheckpointError::Dtype { tensor, dtype });
            }
        };
        match values.iter().position(|v| !v.is_finite()) {
            Some(index) => Err(CheckpointError::NotFinite {
                tensor: name.to_string(),
                index,
                value: values[index],
            }),
            None => Ok(values),
        }
    }
}
