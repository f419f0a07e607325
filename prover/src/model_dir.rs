//! A quantised model on disk.
//!
//! | file | content |
//! |---|---|
//! | `model.json` | format version, config, integer parameters, sizes and digests of the other files |
//! | `weights.bin` | weight tiles in the order of `ModelConfig::matmuls` |
//! | `tables.bin` | RoPE, exp and SiLU tables, for implementations without this project's arithmetic |
//! | `tokenizer.json`, `tokenizer_config.json` | copies from the checkpoint |
//!
//! A tile is 64 x 64 weights, from input channels `x` to output channels `y` of the padded layout; `tiles`
//! has its bytes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use blake2::{Blake2s256, Digest};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use tessera_circuits::model::{Matmul, MatmulKind, ModelConfig, ModelError, ModelParams, Strategy, TILE};
use tessera_circuits::semantics::{exp_table, rope_angle, silu_table};
use thiserror::Error;

use crate::files::{self, AtomicFile, FileError, Mapped};
use crate::model::{LayerWeights, QuantisedModel};
use crate::tiles::{pack_tile, tile_bytes, unpack_tile, TILE_WEIGHTS};

/// Names of the files.
pub const MODEL_FILE: &str = "model.json";
pub const WEIGHTS_FILE: &str = "weights.bin";
pub const TABLES_FILE: &str = "tables.bin";
pub const TOKENIZER_FILE: &str = "tokenizer.json";
pub const TOKENIZER_CONFIG_FILE: &str = "tokenizer_config.json";

/// Format of the directory.
pub const FORMAT: &str = "tessera-model";
/// Version of the format.
pub const VERSION: u32 = 2;

/// Why a model directory cannot be used.
#[derive(Debug, Error)]
pub enum ModelDirError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{}: {problem}", path.display())]
    Description { path: PathBuf, problem: String },
    #[error("{}: format {format:?} version {version}, but this program reads {FORMAT:?} version {VERSION}", path.display())]
    Version {
        path: PathBuf,
        format: String,
        version: u32,
    },
    #[error("{}: {source}", path.display())]
    Model { path: PathBuf, source: ModelError },
    #[error("{} has {got} bytes, expected {expected}", path.display())]
    Length { path: PathBuf, got: u64, expected: u64 },
    #[error("{} is corrupted: its digest is {got}, expected {expected}", path.display())]
    Digest {
        path: PathBuf,
        got: String,
        expected: String,
    },
    #[error("{}: tile {tile} has the weight {weight}, which strategy {strategy:?} does not allow", path.display())]
    Weight {
        path: PathBuf,
        tile: usize,
        weight: i16,
        strategy: Strategy,
    },
    #[error("{}: tile {tile} has a weight in its padding", path.display())]
    Padding { path: PathBuf, tile: usize },
}

/// Size and digest of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDigest {
    pub bytes: u64,
    /// Blake2s-256, hexadecimal.
    pub blake2s256: String,
}

/// Makes the digest of a file as it is written.
#[derive(Default)]
pub(crate) struct Digester {
    bytes: u64,
    hash: Blake2s256,
}

impl Digester {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.hash.update(bytes);
    }

    pub(crate) fn finish(self) -> FileDigest {
        FileDigest {
            bytes: self.bytes,
            blake2s256: hex::encode(self.hash.finalize()),
        }
    }
}

impl FileDigest {
    /// Of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut digest = Digester::default();
        digest.update(bytes);
        digest.finish()
    }

    /// Errors unless these are the bytes of the file.
    pub(crate) fn check(&self, path: &Path, bytes: &[u8]) -> Result<(), ModelDirError> {
        let got = Self::of(bytes);
        let path = path.to_path_buf();
        if got.bytes != self.bytes {
            return Err(ModelDirError::Length {
                path,
                got: got.bytes,
                expected: self.bytes,
            });
        }
        if got.blake2s256 != self.blake2s256 {
            return Err(ModelDirError::Digest {
                path,
                got: got.blake2s256,
                expected: self.blake2s256.clone(),
            });
        }
        Ok(())
    }
}

/// The content of `model.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    pub format: String,
    pub version: u32,
    pub config: ModelConfig,
    pub params: ModelParams,
    /// Files by name.
    pub files: BTreeMap<String, FileDigest>,
}

impl Description {
    /// Reads and checks `model.json` of a directory, not the files it lists.
    pub fn read(dir: &Path) -> Result<Self, ModelDirError> {
        #[derive(Deserialize)]
        struct Header {
            format: String,
            version: u32,
        }
        let path = dir.join(MODEL_FILE);
        let bytes = files::read(&path)?;
        let description = |e: serde_json::Error| ModelDirError::Description {
            path: path.clone(),
            problem: e.to_string(),
        };
        let Header { format, version } = serde_json::from_slice(&bytes).map_err(description)?;
        if format != FORMAT || version != VERSION {
            return Err(ModelDirError::Version { path, format, version });
        }
        let read: Self = serde_json::from_slice(&bytes).map_err(description)?;
        read.params.check(&read.config).map_err(|source| ModelDirError::Model {
            path: path.clone(),
            source,
        })?;
        match [WEIGHTS_FILE, TABLES_FILE]
            .iter()
            .find(|f| !read.files.contains_key(**f))
        {
            Some(file) => Err(ModelDirError::Description {
                path,
                problem: format!("no digest of {file}"),
            }),
            None => Ok(read),
        }
    }

    /// Checks sizes and digests of all listed files.
    pub fn check_files(&self, dir: &Path) -> Result<(), ModelDirError> {
        for (name, digest) in &self.files {
            if Path::new(name).file_name() != Some(name.as_ref()) {
                let problem = format!("{name:?} is not the name of a file in the same directory");
                return Err(ModelDirError::Description {
                    path: dir.join(MODEL_FILE),
                    problem,
                });
            }
            let path = dir.join(name);
            digest.check(&path, files::map(&path)?.bytes())?;
        }
        Ok(())
    }
}

/// Writes a model into an existing directory; the tokenizer files are copied from the checkpoint's.
pub fn write_model(dir: &Path, model: &QuantisedModel, checkpoint: &Path) -> Result<Description, ModelDirError> {
    let weights = dir.join(WEIGHTS_FILE);
    write_weights(model, &weights)?;
    let digest = FileDigest::of(files::map(&weights)?.bytes());
    write_description(dir, &model.config, &model.params, digest, checkpoint)
}

/// Writes everything that describes the weights in a directory: the tables, copies of the checkpoint's tokenizer files
/// where it has them, and `model.json`.
pub fn write_description(
    dir: &Path,
    config: &ModelConfig,
    params: &ModelParams,
    weights: FileDigest,
    checkpoint: &Path,
) -> Result<Description, ModelDirError> {
    let mut digests = BTreeMap::from([(WEIGHTS_FILE.to_string(), weights)]);
    let mut small = vec![(TABLES_FILE, tables(config, params))];
    for name in [TOKENIZER_FILE, TOKENIZER_CONFIG_FILE] {
        let path = checkpoint.join(name);
        if path.exists() {
            small.push((name, files::read(&path)?));
        }
    }
    for (name, bytes) in small {
        files::write(&dir.join(name), &bytes)?;
        digests.insert(name.to_string(), FileDigest::of(&bytes));
    }
    let description = Description {
        format: FORMAT.to_string(),
        version: VERSION,
        config: config.clone(),
        params: params.clone(),
        files: digests,
    };
    let path = dir.join(MODEL_FILE);
    let json = serde_json::to_vec_pretty(&description).map_err(|e| ModelDirError::Description {
        path: path.clone(),
        problem: e.to_string(),
    })?;
    files::write(&path, &json)?;
    Ok(description)
}

/// Loads a model: checks every file against its digest, and that weights and padding are those of the
/// format.
pub fn load_model(dir: &Path) -> Result<QuantisedModel, ModelDirError> {
    let description = Description::read(dir)?;
    description.check_files(dir)?;
    let Description { config, params, .. } = description;
    let file = WeightsFile::open(&dir.join(WEIGHTS_FILE), &config, params.strategy)?;
    load_weights(&file, config, params)
}

/// Loads the matrices of a model from its weights file; checks that weights and padding are those of the format.
pub fn load_weights(
    file: &WeightsFile,
    config: ModelConfig,
    params: ModelParams,
) -> Result<QuantisedModel, ModelDirError> {
    let mut model = QuantisedModel {
        layers: vec![LayerWeights::default(); config.layers],
        embed: Vec::new(),
        head: Vec::new(),
        config,
        params,
    };
    for m in model.config.matmuls() {
        let matrix = file.matrix(&model.config, &m)?;
        let slot = match (m.kind, model.layers.get_mut(m.layer)) {
            (MatmulKind::Embed, _) => &mut model.embed,
            (MatmulKind::Q, Some(layer)) => &mut layer.q,
            (MatmulKind::K, Some(layer)) => &mut layer.k,
            (MatmulKind::V, Some(layer)) => &mut layer.v,
            (MatmulKind::O, Some(layer)) => &mut layer.o,
            (MatmulKind::Gate, Some(layer)) => &mut layer.gate,
            (MatmulKind::Up, Some(layer)) => &mut layer.up,
            (MatmulKind::Down, Some(layer)) => &mut layer.down,
            _ => &mut model.head,
        };
        *slot = matrix;
    }
    Ok(model)
}

/// The lookup tables: cos and sin (i16, `[context][head_dim / 2]` each), exp (65536 u16), SiLU (65536 i16),
/// all little-endian.
pub fn tables(config: &ModelConfig, params: &ModelParams) -> Vec<u8> {
    let pairs = (0..config.context).flat_map(|pos| (0..config.head_dim / 2).map(move |x| (pos, x)));
    let angles: Vec<(i32, i32)> = pairs.map(|(pos, x)| rope_angle(config, pos, x)).collect();
    let mut words: Vec<u16> = angles.iter().map(|(cos, _)| *cos as u16).collect();
    words.extend(angles.iter().map(|(_, sin)| *sin as u16));
    words.extend(exp_table(params.score_bits).into_iter().map(|v| v as u16));
    words.extend(
        silu_table(params.gate_bits, params.silu_bits)
            .into_iter()
            .map(|v| v as u16),
    );
    words.into_iter().flat_map(u16::to_le_bytes).collect()
}

/// The real channels of a matrix by their padded positions, in whole blocks of 64.
fn padded_channels(blocks: usize, dim: usize, position: impl Fn(usize) -> usize) -> Vec<Option<usize>> {
    let mut channels = vec![None; blocks * TILE];
    (0..dim).for_each(|real| channels[position(real)] = Some(real));
    channels
}

/// Real input and output channels by padded position.
pub(crate) fn channels(config: &ModelConfig, m: &Matmul) -> (Vec<Option<usize>>, Vec<Option<usize>>) {
    let inputs = padded_channels(m.in_blocks, m.in_dim, |x| config.pad_in(m.kind, x));
    let outputs = padded_channels(m.out_blocks, m.out_dim, |y| config.pad_out(m.kind, y));
    (inputs, outputs)
}

/// Writes the weights file.
pub fn write_weights(model: &QuantisedModel, path: &Path) -> Result<(), FileError> {
    let mut file = AtomicFile::create(path)?;
    let strategy = model.params.strategy;
    for m in model.config.matmuls() {
        let (inputs, outputs) = channels(&model.config, &m);
        let matrix = model.matrix(m.kind, m.layer);
        let weight = |x: Option<usize>, y: Option<usize>| match (x, y, m.kind) {
            (Some(x), Some(y), MatmulKind::Embed) => matrix[x * m.out_dim + y],
            (Some(x), Some(y), _) => matrix[y * m.in_dim + x],
            _ => 0,
        };
        for rows in inputs.chunks_exact(TILE) {
            let mut row = vec![0; m.out_blocks * tile_bytes(strategy)];
            let tiles = row
                .par_chunks_exact_mut(tile_bytes(strategy))
                .zip(outputs.par_chunks_exact(TILE));
            tiles.for_each(|(tile, columns)| {
                let weights = std::array::from_fn(|i| weight(rows[i / TILE], columns[i % TILE]));
                pack_tile(strategy, &weights, tile);
            });
            file.append(&row)?;
        }
    }
    file.commit()
}

/// A memory-mapped weights file.
#[derive(Debug)]
pub struct WeightsFile {
    path: PathBuf,
    map: Mapped,
    strategy: Strategy,
}

impl WeightsFile {
    /// Maps a weights file; errors unless it has exactly the tiles of the config.
    pub fn open(path: &Path, config: &ModelConfig, strategy: Strategy) -> Result<Self, ModelDirError> {
        let map = files::map(path)?;
        let expected = (config.total_tiles() * tile_bytes(strategy)) as u64;
        let got = map.bytes().len() as u64;
        if got != expected {
            return Err(ModelDirError::Length {
                path: path.to_path_buf(),
                got,
                expected,
            });
        }
        Ok(Self {
            path: path.to_path_buf(),
            map,
            strategy,
        })
    }

    /// Number of tiles.
    pub fn tiles(&self) -> usize {
        self.map.bytes().len() / tile_bytes(self.strategy)
    }

    /// The stored bytes of tile `t`.
    ///
    /// # Panics
    /// If there is no such tile.
    pub fn bytes(&self, t: usize) -> &[u8] {
        let size = tile_bytes(self.strategy);
        &self.map.bytes()[t * size..][..size]
    }

    /// Lets the system take back the memory of these tiles.
    pub fn release(&self, tiles: Range<usize>) {
        let size = tile_bytes(self.strategy);
        self.map.release(tiles.start * size..tiles.end * size);
    }

    /// Decodes tile `t`: `out[64 x + y]` is the weight from local input `x` to local output `y`.
    ///
    /// # Panics
    /// If there is no such tile.
    pub fn tile(&self, t: usize, out: &mut [i16; TILE_WEIGHTS]) {
        unpack_tile(self.strategy, self.bytes(t), out);
    }

    /// A whole matrix in real dimensions: `[vocab][hidden]` for the embedding, else `[out][in]`. Errors if a
    /// weight is too large for the strategy, or padding is not zero.
    fn matrix(&self, config: &ModelConfig, m: &Matmul) -> Result<Vec<i16>, ModelDirError> {
        let (inputs, outputs) = channels(config, m);
        let mut matrix = vec![0; m.in_dim * m.out_dim];
        let mut weights = [0; TILE_WEIGHTS];
        for (b, rows) in inputs.chunks_exact(TILE).enumerate() {
            for (c, columns) in outputs.chunks_exact(TILE).enumerate() {
                let tile = m.first_tile + b * m.out_blocks + c;
                self.tile(tile, &mut weights);
                let mut weights = weights.iter();
                for (x, y) in rows.iter().flat_map(|x| columns.iter().map(move |y| (*x, *y))) {
                    let weight = weights.next().copied().unwrap_or(0);
                    match (x, y) {
                        (Some(x), Some(y)) if m.kind == MatmulKind::Embed => matrix[x * m.out_dim + y] = weight,
                        (Some(x), Some(y)) => matrix[y * m.in_dim + x] = weight,
                        _ if weight != 0 => {
                            return Err(ModelDirError::Padding {
                                path: self.path.clone(),
                                tile,
                            })
                        }
                        _ => {}
                    }
                    if i32::from(weight).abs() > self.strategy.max_weight() {
                        let (path, strategy) = (self.path.clone(), self.strategy);
                        return Err(ModelDirError::Weight {
                            path,
                            tile,
                            weight,
                            strategy,
                        });
                    }
                }
            }
        }
        Ok(matrix)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::testing::{fixture_size_config, odd_config, random_model, FIXTURE};
    use crate::tiles::position;

    fn written(strategy: Strategy) -> (tempfile::TempDir, QuantisedModel) {
        let dir = tempfile::tempdir().unwrap();
        let model = random_model(odd_config(), strategy, 7);
        write_model(dir.path(), &model, Path::new(FIXTURE)).unwrap();
        (dir, model)
    }

    #[test]
    fn models_round_trip() {
        for strategy in [Strategy::W8, Strategy::W12] {
            let (dir, model) = written(strategy);
            assert_eq!(load_model(dir.path()).unwrap(), model);
        }
        let dir = tempfile::tempdir().unwrap();
        let model = random_model(fixture_size_config(), Strategy::W12, 8);
        write_model(dir.path(), &model, Path::new(FIXTURE)).unwrap();
        assert_eq!(load_model(dir.path()).unwrap(), model);
    }

    #[test]
    fn tiles_are_in_the_padded_layout() {
        let (dir, model) = written(Strategy::W12);
        let file = WeightsFile::open(&dir.path().join(WEIGHTS_FILE), &model.config, Strategy::W12).unwrap();
        assert_eq!(file.tiles(), model.config.total_tiles());
        let mut tile = [0; TILE_WEIGHTS];
        for m in model.config.matmuls() {
            for (x, y) in [(0, 0), (m.in_dim - 1, m.out_dim - 1), (m.in_dim / 2, 1)] {
                let (px, py) = (model.config.pad_in(m.kind, x), model.config.pad_out(m.kind, y));
                file.tile(m.first_tile + px / TILE * m.out_blocks + py / TILE, &mut tile);
                assert_eq!(tile[px % TILE * TILE + py % TILE], model.weight(m.kind, m.layer, x, y));
            }
        }
    }

    #[test]
    fn corruption_names_the_file() {
        for name in [WEIGHTS_FILE, TABLES_FILE, TOKENIZER_FILE, TOKENIZER_CONFIG_FILE] {
            let (dir, _) = written(Strategy::W8);
            let file = dir.path().join(name);
            let good = fs::read(&file).unwrap();
            let mut bad = good.clone();
            bad[good.len() / 2] ^= 1;
            fs::write(&file, &bad).unwrap();
            let error = load_model(dir.path()).unwrap_err();
            assert!(
                matches!(&error, ModelDirError::Digest { path, .. } if *path == file),
                "{error}"
            );
            fs::write(&file, &good[1..]).unwrap();
            let error = load_model(dir.path()).unwrap_err();
            assert!(
                matches!(&error, ModelDirError::Length { path, .. } if *path == file),
                "{error}"
            );
            fs::remove_file(&file).unwrap();
            let error = load_model(dir.path()).unwrap_err();
            assert!(
                matches!(&error, ModelDirError::File(FileError::Read { path, .. }) if *path == file),
                "{error}"
            );
        }
    }

    /// Edits `model.json` after `weights.bin` was edited.
    fn describe(dir: &Path, edit: impl FnOnce(&mut serde_json::Value)) {
        let path = dir.join(MODEL_FILE);
        let mut json: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let weights = FileDigest::of(&fs::read(dir.join(WEIGHTS_FILE)).unwrap());
        json["files"][WEIGHTS_FILE] = serde_json::to_value(weights).unwrap();
        edit(&mut json);
        fs::write(&path, json.to_string()).unwrap();
    }

    #[test]
    fn unusable_descriptions_are_refused() {
        let (dir, _) = written(Strategy::W8);
        let load = || load_model(dir.path()).unwrap_err();
        describe(dir.path(), |j| j["version"] = 1.into());
        assert!(matches!(load(), ModelDirError::Version { version: 1, .. }));
        describe(dir.path(), |j| {
            j["version"] = VERSION.into();
            j["config"]["hidden"] = 0.into();
        });
        assert!(matches!(load(), ModelDirError::Model { .. }));
        describe(dir.path(), |j| j["config"] = 0.into());
        assert!(matches!(load(), ModelDirError::Description { .. }));
    }

    #[test]
    fn weights_outside_the_format_are_refused() {
        let (dir, model) = written(Strategy::W8);
        let path = dir.path().join(WEIGHTS_FILE);
        let mut bytes = fs::read(&path).unwrap();
        // hidden is 20: output 63 of the embedding is padding.
        let padding = position(0, 63);
        bytes[padding] = 1;
        fs::write(&path, &bytes).unwrap();
        describe(dir.path(), |_| {});
        assert!(matches!(
            load_model(dir.path()).unwrap_err(),
            ModelDirError::Padding { tile: 0, .. }
        ));
        bytes[padding] = 0;
        bytes[TILE_WEIGHTS] = -128i8 as u8;
        fs::write(&path, &bytes).unwrap();
        describe(dir.path(), |_| {});
        let error = load_model(dir.path()).unwrap_err();
        assert!(
            matches!(
                error,
                ModelDirError::Weight {
                    tile: 1,
                    weight: -128,
                    ..
                }
            ),
            "{error}"
        );
        assert!(matches!(
            WeightsFile::open(&path, &model.config, Strategy::W12),
            Err(ModelDirError::Length { got, .. }) if got == bytes.len() as u64
        ));
    }
}
