//! The tensors of a checkpoint, in memory-mapped files: one or many safetensors files, or a GGUF file.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use safetensors::tensor::SafeTensors;
use serde::Deserialize;

use super::encoding::Encoding;
use super::error::CheckpointError;
use super::{damaged, mistaken};
use tessera_support::files::{self, Mapped};
use tessera_text::json;

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// One file and where its tensor data start.
#[derive(Debug)]
struct Shard {
    path: PathBuf,
    map: Mapped,
    data: usize,
}

/// What a file says of a tensor.
#[derive(Debug)]
pub(super) struct Info {
    pub(super) encoding: Encoding,
    /// Dimensions, the one that runs fastest last.
    pub(super) shape: Vec<usize>,
    /// Bytes of the file.
    pub(super) range: Range<usize>,
    /// The length of a head, if the rows of every head are stored in rotary pairs: what the hub layout has in rows `i` and
    /// `i + head / 2` is in rows `2 i` and `2 i + 1`.
    pub(super) paired: Option<usize>,
}

/// Where a tensor is.
#[derive(Debug)]
struct Entry {
    shard: usize,
    info: Info,
}

/// All tensors of a checkpoint by the name they have in its files.
#[derive(Debug)]
pub(super) struct Storage {
    shards: Vec<Shard>,
    entries: BTreeMap<String, Entry>,
    canonical: fn(&str) -> String,
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// The name that a tensor of a safetensors file has in the hub layout: some checkpoints leave out the prefix `model.`, or
/// have the name of their family in its place.
fn with_prefix(stored: &str) -> String {
    if stored.starts_with("model.") || stored.starts_with("lm_head.") {
        return stored.to_string();
    }
    // The name of a family comes before that of what it wraps.
    let prefixes = ["bert.", "distilbert.", "gpt_neox.", "roberta.", "transformer."];
    let own = prefixes
        .iter()
        .fold(stored, |name, prefix| name.strip_prefix(prefix).unwrap_or(name));
    format!("model.{own}")
}

impl Storage {
    /// Opens `model.safetensors`, or all files of `model.safetensors.index.json`.
    pub(super) fn open(dir: &Path) -> Result<Self, CheckpointError> {
        let mut storage = Self::empty();
        let index_path = dir.join(INDEX);
        // A link to nowhere is there: the error says so.
        if files::is_there(&dir.join(SINGLE)) {
            storage.add(dir.join(SINGLE))?;
            return Ok(storage);
        }
        if !files::is_there(&index_path) {
            return match mistaken::weights(dir) {
                Some((path, problem)) => Err(CheckpointError::Format { path, problem }),
                None => Err(CheckpointError::NoWeights { dir: dir.to_path_buf() }),
            };
        }
        let format = |problem: String| CheckpointError::Format {
            path: index_path.clone(),
            problem,
        };
        let bytes = files::read(&index_path)?;
        let index = json::parse(&bytes).map_err(format)?;
        let index = Index::deserialize(index)
            .map_err(|e| format(format!("weight_map has to name the file of every tensor: {e}")))?;
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

    /// No tensors.
    pub(super) fn empty() -> Self {
        Self {
            shards: Vec::new(),
            entries: BTreeMap::new(),
            canonical: with_prefix,
        }
    }

    /// One file whose tensors are known, with the function that gives a stored name its name in the hub layout. The data
    /// of the tensors start at byte `data`.
    pub(super) fn of_file(
        path: PathBuf,
        map: Mapped,
        data: usize,
        tensors: BTreeMap<String, Info>,
        canonical: fn(&str) -> String,
    ) -> Self {
        let entries = tensors
            .into_iter()
            .map(|(name, info)| (name, Entry { shard: 0, info }))
            .collect();
        Self {
            shards: vec![Shard { path, map, data }],
            entries,
            canonical,
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
        let (header, metadata) =
            SafeTensors::read_metadata(map.bytes()).map_err(|e| format(damaged::problem(map.bytes(), &e)))?;
        // The length of the header precedes it in 8 bytes.
        let data = 8 + header;
        for (name, info) in metadata.tensors() {
            let (start, end) = info.data_offsets;
            let info = Info {
                encoding: info.dtype.into(),
                shape: info.shape.clone(),
                range: data + start..data + end,
                paired: None,
            };
            let entry = Entry {
                shard: self.shards.len(),
                info,
            };
            if let Some(other) = self.entries.insert(name.clone(), entry) {
                let other = self
                    .shards
                    .get(other.shard)
                    .map(|shard| shard.path.display().to_string());
                let other = other.unwrap_or_default();
                return Err(format(format!("tensor {name} is also in {other}")));
            }
        }
        self.shards.push(Shard { path, map, data });
        Ok(())
    }

    /// Names, types and shapes, in the order of the names.
    pub(super) fn tensors(&self) -> impl Iterator<Item = (&str, &Info)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), &entry.info))
    }

    /// The name of a tensor in the hub layout.
    pub(super) fn canonical(&self, stored: &str) -> String {
        (self.canonical)(stored)
    }

    /// The type and shape of a tensor.
    pub(super) fn info(&self, name: &str) -> Option<&Info> {
        self.entries.get(name).map(|e| &e.info)
    }

    /// A tensor, by the name it has in the files. Errors if it is missing or of a type that is not read.
    pub(super) fn tensor(&self, name: &str) -> Result<Tensor<'_>, CheckpointError> {
        let missing = || CheckpointError::Missing {
            tensor: name.to_string(),
        };
        let entry = self.entries.get(name).ok_or_else(missing)?;
        let shard = self.shards.get(entry.shard).ok_or_else(missing)?;
        let info = &entry.info;
        if info.encoding.unit().is_none() {
            let (tensor, dtype) = (name.to_string(), info.encoding.to_string());
            return Err(CheckpointError::Dtype { tensor, dtype });
        }
        if shard.map.bytes().get(info.range.clone()).is_none() {
            return Err(CheckpointError::Format {
                path: shard.path.clone(),
                problem: format!("the data of {name} lie beyond the end"),
            });
        }
        Ok(Tensor {
            name: name.to_string(),
            map: &shard.map,
            info,
            rows: None,
            columns: None,
            each: None,
            next: None,
        })
    }

    /// Whether two stored tensors have the same shape and the same values. Those of types that are not read have none.
    pub(super) fn same(&self, one: &str, other: &str) -> bool {
        let (Ok(one), Ok(other)) = (self.tensor(one), self.tensor(other)) else {
            return false;
        };
        one.info.shape == other.info.shape && one.has_values_of(&other)
    }

    /// Paths of the files and what precedes the tensors in each: their names, types, shapes and places.
    pub(super) fn files(&self) -> impl Iterator<Item = (&Path, &[u8])> {
        let shards = self.shards.iter();
        shards.map(|shard| (shard.path.as_path(), &shard.map.bytes()[..shard.data]))
    }
}

/// A tensor of a memory-mapped file, or rows of it. Values are converted where they are read.
#[derive(Clone, Debug)]
pub struct Tensor<'a> {
    name: String,
    map: &'a Mapped,
    info: &'a Info,
    /// The rows that are meant, in their order, if not all as they are stored.
    rows: Option<Vec<usize>>,
    /// The columns that are meant, if not all.
    columns: Option<Range<usize>>,
    /// What is added to each row, if something is.
    each: Option<Vec<f32>>,
    /// Another tensor, whose rows follow.
    next: Option<Box<Tensor<'a>>>,
}

impl<'a> Tensor<'a> {
    /// These columns of the tensor.
    pub(super) fn with_columns(self, columns: Range<usize>) -> Self {
        Self {
            columns: Some(columns),
            ..self
        }
    }

    /// With a row added to each row.
    pub(super) fn with_each(self, row: Vec<f32>) -> Self {
        Self {
            each: Some(row),
            ..self
        }
    }

    /// The rows of this tensor, and after them those of another.
    pub(super) fn followed_by(self, next: Tensor<'a>) -> Self {
        Self {
            next: Some(Box::new(next)),
            ..self
        }
    }

    /// These rows of the tensor.
    pub(super) fn with_rows(self, rows: Vec<usize>) -> Self {
        Self {
            rows: Some(rows),
            ..self
        }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.own_len() + self.next.as_ref().map_or(0, |next| next.len())
    }

    /// Without those of the tensor that follows.
    fn own_len(&self) -> usize {
        let all: usize = self.info.shape.iter().product();
        match &self.rows {
            Some(rows) => rows.len() * self.width(),
            None => all / self.stored_width().max(1) * self.width(),
        }
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Length of a row: the last dimension.
    pub fn width(&self) -> usize {
        self.columns.as_ref().map_or(self.stored_width(), Range::len)
    }

    fn stored_width(&self) -> usize {
        self.info.shape.last().copied().unwrap_or(1)
    }

    /// Where a row is stored.
    fn stored_row(&self, row: usize) -> usize {
        let row = self.rows.as_ref().map_or(row, |rows| rows[row]);
        self.info.paired.map_or(row, |head| stored_row(row, head))
    }

    /// Reads the values from index `first` on, row-major and in the order of the hub layout. Errors name a value that is
    /// not finite.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn read(&self, first: usize, out: &mut [f32]) -> Result<(), CheckpointError> {
        let own = self.own_len();
        if let Some(next) = self.next.as_ref().filter(|_| first + out.len() > own) {
            let (mine, after) = out.split_at_mut(own.saturating_sub(first));
            if !mine.is_empty() {
                self.read(first, mine)?;
            }
            return next.read(first.max(own) - own, after);
        }
        let bytes = &self.map.bytes()[self.info.range.clone()];
        if self.rows.is_none() && self.columns.is_none() && self.info.paired.is_none() {
            self.info.encoding.read(bytes, first, out);
        } else {
            let (width, mut at, mut rest) = (self.width(), first, &mut *out);
            while !rest.is_empty() {
                let (row, column) = (at / width, at % width);
                let (piece, after) = rest.split_at_mut(rest.len().min(width - column));
                let stored = self.stored_row(row) * self.stored_width() + column;
                let stored = stored + self.columns.as_ref().map_or(0, |columns| columns.start);
                self.info.encoding.read(bytes, stored, piece);
                at += piece.len();
                rest = after;
            }
        }
        // All exponent bits are set in what is not finite.
        let finite = |v: &f32| v.to_bits() << 1 < 0xff << 24;
        if out.iter().fold(true, |all, v| all & finite(v)) {
            if let Some(row) = &self.each {
                let added = row.iter().cycle().skip(first % row.len().max(1));
                out.iter_mut().zip(added).for_each(|(v, add)| *v += add);
            }
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

    /// Whether another tensor of the same shape has the same values, read in pieces. Values that are not finite are those of none.
    fn has_values_of(&self, other: &Tensor<'_>) -> bool {
        const PIECE: usize = 1 << 16;
        let len = self.len();
        let (mut mine, mut theirs) = (vec![0.0; PIECE.min(len)], vec![0.0; PIECE.min(len)]);
        let same = (0..len).step_by(PIECE).all(|first| {
            let (mine, theirs) = (
                &mut mine[..PIECE.min(len - first)],
                &mut theirs[..PIECE.min(len - first)],
            );
            self.read(first, mine).and(other.read(first, theirs)).is_ok() && mine == theirs
        });
        self.release();
        other.release();
        same
    }

    /// Lets the system take back the memory of the tensor.
    pub fn release(&self) {
        self.map.release(self.info.range.clone());
        if let Some(next) = &self.next {
            next.release();
        }
    }
}

/// Where a row of the hub layout is, if the rows of heads of `head` rows are stored in rotary pairs.
const fn stored_row(row: usize, head: usize) -> usize {
    let (first, x) = (row - row % head, row % head);
    first + 2 * (x % (head / 2)) + x / (head / 2)
}
