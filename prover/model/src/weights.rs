//! The weights of a model, packed in tiles as in `weights.bin`: a mapped file, or bytes in memory.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use tessera_circuits::model::{ColumnNorms, Matmul, MatmulKind, ModelConfig, WeightFormat, TILE};

use crate::tiles::{add_norms, pack_tile, tile_bytes, TileSource};
use tessera_support::files::Mapped;

/// How much of a mapped file stays in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residency {
    /// As much as the system likes: for weights that fit.
    Keep,
    /// At most this many bytes at a time (but never less than 1 MiB): every pass reads the file again.
    Window { bytes: usize },
}

#[derive(Clone, Debug)]
enum Storage {
    File(Arc<Mapped>),
    Memory(Arc<Vec<u8>>),
}

/// Packed weights. Clones share the bytes.
#[derive(Clone, Debug)]
pub struct PackedWeights {
    storage: Storage,
    format: WeightFormat,
    residency: Residency,
}

impl PackedWeights {
    fn new(format: WeightFormat, storage: Storage) -> Self {
        let weights = Self {
            storage,
            format,
            residency: Residency::Keep,
        };
        assert_eq!(weights.all().len() % tile_bytes(format), 0, "bytes of whole tiles");
        weights
    }

    /// Weights in memory.
    ///
    /// # Panics
    /// If the bytes are not those of whole tiles.
    pub fn in_memory(format: WeightFormat, bytes: Vec<u8>) -> Self {
        Self::new(format, Storage::Memory(Arc::new(bytes)))
    }

    /// Weights in a file.
    ///
    /// # Panics
    /// If the bytes are not those of whole tiles.
    pub fn mapped(format: WeightFormat, file: Mapped) -> Self {
        Self::new(format, Storage::File(Arc::new(file)))
    }

    /// The same weights with another residency; it has no effect on weights in memory.
    #[must_use]
    pub fn with_residency(self, residency: Residency) -> Self {
        Self { residency, ..self }
    }

    /// The norms of the columns of a model's weights, as its key has them.
    ///
    /// # Panics
    /// If the weights are not those of a model of these dimensions.
    pub fn norms(&self, config: &ModelConfig) -> Vec<ColumnNorms> {
        let mut norms = ModelNorms::new(config, self.format);
        norms.add(self.all());
        norms.finish()
    }

    /// All bytes.
    pub fn all(&self) -> &[u8] {
        match &self.storage {
            Storage::File(map) => map.bytes(),
            Storage::Memory(bytes) => bytes,
        }
    }
}

/// Equal weights, wherever they are.
impl PartialEq for PackedWeights {
    fn eq(&self, other: &Self) -> bool {
        self.format == other.format && self.all() == other.all()
    }
}

impl TileSource for PackedWeights {
    fn format(&self) -> WeightFormat {
        self.format
    }

    fn tiles(&self) -> usize {
        self.all().len() / tile_bytes(self.format)
    }

    fn bytes(&self, tiles: Range<usize>) -> &[u8] {
        let size = tile_bytes(self.format);
        &self.all()[tiles.start * size..tiles.end * size]
    }

    fn streamed(&self) -> Option<(&Mapped, usize)> {
        match (&self.storage, self.residency) {
            (Storage::File(map), Residency::Window { bytes }) => Some((map, bytes)),
            _ => None,
        }
    }

    fn release(&self, tiles: Range<usize>) {
        if let Some((map, _)) = self.streamed() {
            let size = tile_bytes(self.format);
            map.release(tiles.start * size..tiles.end * size);
        }
    }
}

/// The real channels of a matrix by their padded positions, in whole blocks of 64.
fn padded_channels(blocks: usize, dim: usize, position: impl Fn(usize) -> usize) -> Vec<Option<usize>> {
    let mut channels = vec![None; blocks * TILE];
    (0..dim).for_each(|real| channels[position(real)] = Some(real));
    channels
}

/// Real input and output channels by padded position.
pub fn channels(config: &ModelConfig, m: &Matmul) -> (Vec<Option<usize>>, Vec<Option<usize>>) {
    let inputs = padded_channels(m.in_blocks, m.in_dim, |x| config.pad_in(m.id.kind(), x));
    let outputs = padded_channels(m.out_blocks, m.out_dim, |y| config.pad_out(m.id.kind(), y));
    (inputs, outputs)
}

/// Place of a weight in a matrix in natural order: `[vocab][hidden]` for the embedding, else `[out][in]`.
pub const fn natural_index(m: &Matmul, x: usize, y: usize) -> usize {
    match m.id.kind() {
        MatmulKind::Embed => x * m.out_dim + y,
        _ => y * m.in_dim + x,
    }
}

/// Packs a matrix in natural order ([`natural_index`]); `out` are the bytes of its tiles.
///
/// # Panics
/// If matrix or bytes do not have the size that follows from `m`.
pub fn pack_matrix(config: &ModelConfig, format: WeightFormat, m: &Matmul, matrix: &[i16], out: &mut [u8]) {
    assert_eq!(matrix.len(), m.in_dim * m.out_dim, "weights of a matrix");
    assert_eq!(out.len(), m.tiles() * tile_bytes(format), "bytes of a matrix");
    let (inputs, outputs) = channels(config, m);
    out.par_chunks_exact_mut(tile_bytes(format))
        .enumerate()
        .for_each(|(t, tile)| {
            let rows = &inputs[t / m.out_blocks * TILE..][..TILE];
            let columns = &outputs[t % m.out_blocks * TILE..][..TILE];
            let weights = std::array::from_fn(|i| match (rows[i / TILE], columns[i % TILE]) {
                (Some(x), Some(y)) => matrix[natural_index(m, x, y)],
                _ => 0,
            });
            pack_tile(format, &weights, tile);
        });
}

/// The norms of the columns of a model's weights ([`ModelParams::columns`]), of tiles that come in file order: no matrix is kept.
///
/// [`ModelParams::columns`]: tessera_circuits::model::ModelParams::columns
pub struct ModelNorms {
    format: WeightFormat,
    /// Matrices that are not finished, the last one first.
    matmuls: Vec<Matmul>,
    /// Tiles of the first of them that came already.
    tiles: usize,
    /// Its columns, by output block.
    columns: Vec<[ColumnNorms; TILE]>,
    norms: Vec<ColumnNorms>,
    /// Whether there are gates, and a head; where there are none, their norms are 0.
    gated: bool,
    headed: bool,
}

impl ModelNorms {
    /// Before the first tile.
    pub fn new(config: &ModelConfig, format: WeightFormat) -> Self {
        let mut matmuls = config.matmuls();
        matmuls.reverse();
        Self {
            format,
            matmuls,
            tiles: 0,
            columns: Vec::new(),
            norms: Vec::new(),
            gated: config.gated,
            headed: config.generates(),
        }
    }

    /// Takes the next tiles, as they are stored.
    ///
    /// # Panics
    /// If these are not whole tiles, or more than the model has.
    pub fn add(&mut self, mut bytes: &[u8]) {
        let (format, size) = (self.format, tile_bytes(self.format));
        assert_eq!(bytes.len() % size, 0, "bytes of whole tiles");
        while !bytes.is_empty() {
            let m = *self.matmuls.last().expect("no more tiles than the model has");
            let own = (m.tiles() - self.tiles).min(bytes.len() / size);
            let (tiles, rest) = bytes.split_at(own * size);
            if m.id.kind() != MatmulKind::Embed {
                self.columns.resize(m.out_blocks, [ColumnNorms::default(); TILE]);
                let start = self.tiles;
                self.columns.par_iter_mut().enumerate().for_each(|(block, columns)| {
                    let first = (block + m.out_blocks - start % m.out_blocks) % m.out_blocks;
                    let tiles = tiles.chunks_exact(size).skip(first).step_by(m.out_blocks);
                    tiles.for_each(|tile| add_norms(format, tile, columns));
                });
            }
            self.tiles += own;
            bytes = rest;
            if self.tiles == m.tiles() {
                self.end(m.id.kind());
            }
        }
    }

    fn end(&mut self, kind: MatmulKind) {
        let columns = self.columns.drain(..);
        let largest = columns.flatten().fold(ColumnNorms::default(), ColumnNorms::max);
        if kind != MatmulKind::Embed {
            self.norms.push(largest);
        }
        if kind == MatmulKind::O && !self.gated {
            self.norms.push(ColumnNorms::default());
        }
        self.matmuls.pop();
        if self.matmuls.is_empty() && !self.headed {
            self.norms.push(ColumnNorms::default());
        }
        self.tiles = 0;
    }

    /// The norms.
    ///
    /// # Panics
    /// If tiles are missing.
    pub fn finish(self) -> Vec<ColumnNorms> {
        assert!(self.matmuls.is_empty(), "all tiles of the model");
        self.norms
    }
}

/// Packs a model matrix by matrix.
pub struct WeightsBuilder<'a> {
    config: &'a ModelConfig,
    format: WeightFormat,
    matmuls: std::vec::IntoIter<Matmul>,
    bytes: Vec<u8>,
}

impl<'a> WeightsBuilder<'a> {
    /// Starts with the first matrix of [`ModelConfig::matmuls`].
    pub fn new(config: &'a ModelConfig, format: WeightFormat) -> Self {
        Self {
            config,
            format,
            matmuls: config.matmuls().into_iter(),
            bytes: Vec::with_capacity(config.total_tiles() * tile_bytes(format)),
        }
    }

    /// Appends the next matrix, in natural order ([`natural_index`]).
    ///
    /// # Panics
    /// If there is no next matrix, or it has another size.
    pub fn push(&mut self, matrix: &[i16]) {
        let m = self.matmuls.next().expect("no more matrices than the model has");
        let start = self.bytes.len();
        self.bytes.resize(start + m.tiles() * tile_bytes(self.format), 0);
        pack_matrix(self.config, self.format, &m, matrix, &mut self.bytes[start..]);
    }

    /// The weights.
    ///
    /// # Panics
    /// If a matrix is missing.
    pub fn finish(mut self) -> PackedWeights {
        assert!(self.matmuls.next().is_none(), "all matrices of the model");
        PackedWeights::in_memory(self.format, self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{edit, extreme_model, random_model};
    use crate::QuantisedModel;
    use tessera_samples::{odd_config, ragged_config};

    /// The definition: sums over the inputs of every real output.
    fn by_definition(model: &QuantisedModel) -> Vec<ColumnNorms> {
        let matmuls = model.config.matmuls().into_iter().skip(1);
        let of = |m: Matmul| {
            let matrix = model.matrix(m.id);
            let columns = matrix.chunks_exact(m.in_dim).map(|column| ColumnNorms {
                l1: column.iter().map(|w| u64::from(w.unsigned_abs())).sum(),
                square: column.iter().map(|w| u64::from(w.unsigned_abs()).pow(2)).sum(),
            });
            columns.fold(ColumnNorms::default(), ColumnNorms::max)
        };
        matmuls.map(of).collect()
    }

    #[test]
    fn norms_are_those_of_the_columns_however_the_tiles_come() {
        for format in [WeightFormat::Int8, WeightFormat::Int16] {
            for config in [odd_config(), ragged_config()] {
                let model = random_model(config, format, 3);
                let expected = by_definition(&model);
                assert_eq!(model.params.columns, expected);
                assert!(expected.iter().any(|n| *n != expected[0]));
                for tiles in [1, 2, 3, 7, 1000] {
                    let mut norms = ModelNorms::new(&model.config, format);
                    let pieces = model.weights.all().chunks(tiles * tile_bytes(format));
                    pieces.for_each(|piece| norms.add(piece));
                    assert_eq!(norms.finish(), expected, "{tiles}");
                }
            }
        }
    }

    /// The largest weights in all places, and one column that is larger than all others in one norm only.
    #[test]
    fn norms_of_the_largest_weights_and_of_different_columns() {
        for format in [WeightFormat::Int8, WeightFormat::Int16] {
            let mut model = extreme_model(odd_config(), format, 3);
            let params = &model.params;
            assert_eq!(params.columns, params.clone().with_largest_norms(&model.config).columns);
            let inputs = model.config.hidden;
            edit(&mut model, MatmulKind::Up.at(1), |matrix| {
                matrix.fill(0);
                matrix[..inputs].fill(-2);
                matrix[3 * inputs] = 30;
            });
            let (l1, square) = (2 * inputs as u64, 900);
            assert_eq!(
                model.params.norms(MatmulKind::Up.at(1)),
                Some(ColumnNorms { l1, square })
            );
            assert_eq!(model.params.columns, by_definition(&model));
        }
    }
}
