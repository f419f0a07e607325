//! A quantised model on disk.
//!
//! | file | content |
//! |---|---|
//! | `model.json` | format version, config, integer parameters, sizes and digests of the other files |
//! | `weights.bin` | weight tiles in the order of `ModelConfig::matmuls` |
//! | `tables.bin` | RoPE, exp and SiLU tables, for implementations without this project's arithmetic |
//! | `tokenizer.json`, `tokenizer_config.json` | those of the checkpoint, with its chat template |
//!
//! A tile is 64 x 64 weights, from input channels `x` to output channels `y` of the padded layout; `tiles`
//! has its bytes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use tessera_circuits::model::{ColumnNorms, MatmulKind, ModelConfig, ModelError, ModelParams, WeightFormat, TILE};
use tessera_circuits::semantics::{cap_table, exp_table, mlp_table, rope_angle};
use thiserror::Error;

use crate::passes::cut;
use crate::tiles::{all_within, tile_bytes, unpack_tile, TILE_WEIGHTS};
use crate::weights::{channels, ModelNorms, PackedWeights};
use crate::QuantisedModel;
use tessera_kernels::digest::{Digester, FileDigest};
use tessera_support::files::{self, FileError};

/// Names of the files.
pub const MODEL_FILE: &str = "model.json";
pub const WEIGHTS_FILE: &str = "weights.bin";
pub const TABLES_FILE: &str = "tables.bin";
/// The model key in a model directory.
pub const KEY_FILE: &str = "model.key";
/// The Merkle tree of the weights in a model directory.
pub const TREE_FILE: &str = "tree.bin";
/// The codeword of the weights in a model directory; where it is missing, it is made again for every proof.
pub const CODEWORD_FILE: &str = "codeword.bin";
/// The tokenizer of the checkpoint and its settings, which a model directory keeps as they are.
pub const TOKENIZER_FILES: [&str; 2] = ["tokenizer.json", "tokenizer_config.json"];
/// All files that a model directory may have.
pub const FILES: [&str; 8] = [
    MODEL_FILE,
    WEIGHTS_FILE,
    TABLES_FILE,
    KEY_FILE,
    TREE_FILE,
    CODEWORD_FILE,
    TOKENIZER_FILES[0],
    TOKENIZER_FILES[1],
];

/// Format of the directory.
pub const FORMAT: &str = "tessera-model";
/// Version of the format.
pub const VERSION: u32 = 16;
/// Tiles that are read and checked together.
const CHECKED_TILES: usize = 4096;

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
    #[error("{}: tile {tile} has the weight {weight}, but its matrix has weights up to {most}", path.display())]
    Weight {
        path: PathBuf,
        tile: usize,
        weight: i16,
        most: i32,
    },
    #[error("{}: tile {tile} has a weight in its padding", path.display())]
    Padding { path: PathBuf, tile: usize },
    #[error(
        "{}: the columns of {matrix} have norms l1 {} and square {}, but {MODEL_FILE} says {} and {}",
        path.display(), got.l1, got.square, said.l1, said.square
    )]
    Norms {
        path: PathBuf,
        matrix: String,
        got: ColumnNorms,
        said: ColumnNorms,
    },
}

/// Errors unless the digest of the file at `path` is the expected one.
fn compare(got: FileDigest, path: &Path, expected: &FileDigest) -> Result<(), ModelDirError> {
    let path = path.to_path_buf();
    if got.bytes != expected.bytes {
        return Err(ModelDirError::Length {
            path,
            got: got.bytes,
            expected: expected.bytes,
        });
    }
    if got.digest != expected.digest {
        return Err(ModelDirError::Digest {
            path,
            got: got.digest,
            expected: expected.digest.clone(),
        });
    }
    Ok(())
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

    /// Checks sizes and digests of all listed files but the weights.
    fn check_small_files(&self, dir: &Path) -> Result<(), ModelDirError> {
        for (name, digest) in self.files.iter().filter(|(name, _)| *name != WEIGHTS_FILE) {
            if Path::new(name).file_name() != Some(name.as_ref()) {
                let problem = format!("{name:?} is not the name of a file in the same directory");
                return Err(ModelDirError::Description {
                    path: dir.join(MODEL_FILE),
                    problem,
                });
            }
            let path = dir.join(name);
            compare(FileDigest::of(files::map(&path)?.bytes()), &path, digest)?;
        }
        Ok(())
    }
}

/// Writes a model into an existing directory, with the tokenizer files that go with it.
pub fn write_model(
    dir: &Path,
    model: &QuantisedModel,
    tokenizer: [Option<&[u8]>; 2],
) -> Result<Description, ModelDirError> {
    let weights = model.weights.all();
    files::write(&dir.join(WEIGHTS_FILE), weights)?;
    write_description(dir, &model.config, &model.params, FileDigest::of(weights), tokenizer)
}

/// Writes everything that describes the weights in a directory: the tables, the [`TOKENIZER_FILES`] of the checkpoint where it has
/// them, and `model.json`.
pub fn write_description(
    dir: &Path,
    config: &ModelConfig,
    params: &ModelParams,
    weights: FileDigest,
    tokenizer: [Option<&[u8]>; 2],
) -> Result<Description, ModelDirError> {
    let mut digests = BTreeMap::from([(WEIGHTS_FILE.to_string(), weights)]);
    let tables = tables(config, params);
    let small = [
        (TABLES_FILE, Some(tables.as_slice())),
        (TOKENIZER_FILES[0], tokenizer[0]),
        (TOKENIZER_FILES[1], tokenizer[1]),
    ];
    for (name, bytes) in small {
        let Some(bytes) = bytes else { continue };
        files::write(&dir.join(name), bytes)?;
        digests.insert(name.to_string(), FileDigest::of(bytes));
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

/// Opens a model: checks every file against its digest, and that weights and padding are those of the format.
/// The weights are read once, in blocks, and then mapped.
pub fn load_model(dir: &Path) -> Result<QuantisedModel, ModelDirError> {
    let description = Description::read(dir)?;
    description.check_small_files(dir)?;
    let path = dir.join(WEIGHTS_FILE);
    let Description {
        config, params, files, ..
    } = description;
    let weights = open_weights(&path, &config, params.format)?;
    let norms = check_weights(&path, &config, &params, &files[WEIGHTS_FILE])?;
    check_norms(&path, &config, &params, &norms)?;
    Ok(QuantisedModel::new(config, params, weights))
}

/// Maps a weights file; errors unless it has exactly the tiles of the config.
pub fn open_weights(path: &Path, config: &ModelConfig, format: WeightFormat) -> Result<PackedWeights, ModelDirError> {
    let map = files::map(path)?;
    let expected = (config.total_tiles() * tile_bytes(format)) as u64;
    let got = map.bytes().len() as u64;
    match got == expected {
        true => Ok(PackedWeights::mapped(format, map)),
        false => Err(ModelDirError::Length {
            path: path.to_path_buf(),
            got,
            expected,
        }),
    }
}

/// Errors unless the norms of the columns are those of the parameters: a proof relies on them.
fn check_norms(
    path: &Path,
    config: &ModelConfig,
    params: &ModelParams,
    norms: &[ColumnNorms],
) -> Result<(), ModelDirError> {
    // Also of those that the model has not, whose norms are 0.
    let mut compared = config.listed_matrices().zip(norms).zip(&params.columns);
    match compared.find(|((_, got), said)| got != said) {
        None => Ok(()),
        Some(((id, got), said)) => Err(ModelDirError::Norms {
            path: path.to_path_buf(),
            matrix: match id.kind() {
                MatmulKind::Head => "the head".to_owned(),
                kind => format!("matrix {kind:?} of layer {}", id.layer()),
            },
            got: *got,
            said: *said,
        }),
    }
}

/// Reads a weights file and compares its digest; every weight must have the bits of its matrix, and padding must be zero. Returns
/// the norms of its columns. No more than a block of it is kept in memory.
pub fn check_weights(
    path: &Path,
    config: &ModelConfig,
    params: &ModelParams,
    digest: &FileDigest,
) -> Result<Vec<ColumnNorms>, ModelDirError> {
    let format = params.format;
    let (size, mut got) = (tile_bytes(format), Digester::default());
    let file = files::map(path)?;
    let mut wrong = Ok(());
    let mut norms = ModelNorms::new(config, format);
    let mut end = 0;
    for m in config.matmuls() {
        let (inputs, outputs) = channels(config, &m);
        let most = params.max_weight(m.id.kind());
        for tiles in cut(m.tiles(), CHECKED_TILES) {
            let start = end;
            end += tiles.len() * size;
            let Some(block) = file.bytes().get(start..end) else {
                return Err(ModelDirError::Length {
                    path: path.to_path_buf(),
                    got: file.bytes().len() as u64,
                    expected: digest.bytes,
                });
            };
            file.populate(start..end);
            got.update(block);
            norms.add(block);
            let checked = block.par_chunks_exact(size).enumerate().try_for_each(|(i, bytes)| {
                let (b, c) = ((tiles.start + i) / m.out_blocks, (tiles.start + i) % m.out_blocks);
                let real = (&inputs[b * TILE..][..TILE], &outputs[c * TILE..][..TILE]);
                check_tile(format, most, bytes, real)
                    .map_err(|problem| problem.at(path, m.first_tile + tiles.start + i))
            });
            wrong = wrong.and(checked);
            file.release(start..end);
        }
    }
    got.update(&file.bytes()[end..]);
    compare(got.finish(), path, digest)?;
    wrong.map(|()| norms.finish())
}

/// The lookup tables: cos and sin (i16, `[rotation][context][head_dim / 2]` each), exp (65536 u16), SiLU (65536 i16), capped
/// scores (65536 i16) where there are any, all little-endian.
pub fn tables(config: &ModelConfig, params: &ModelParams) -> Vec<u8> {
    let pairs = || (0..config.context).flat_map(|pos| (0..config.head_dim / 2).map(move |x| (pos, x)));
    let of = |rotation| pairs().map(move |(pos, x)| rope_angle(config, rotation, pos, x));
    let angles: Vec<(i32, i32)> = (0..config.rotations.len()).flat_map(of).collect();
    let mut words: Vec<u16> = angles.iter().map(|(cos, _)| *cos as u16).collect();
    words.extend(angles.iter().map(|(_, sin)| *sin as u16));
    words.extend(exp_table(params.score_bits).into_iter().map(|v| v as u16));
    words.extend(mlp_table(params).into_iter().map(|v| v as u16));
    let capped = config.blocks.score_cap.map(|cap| cap_table(cap, params.score_bits));
    words.extend(capped.into_iter().flatten().map(|v| v as u16));
    words.into_iter().flat_map(u16::to_le_bytes).collect()
}

/// What is wrong with a tile.
enum TileProblem {
    Weight { weight: i16, most: i32 },
    Padding,
}

impl TileProblem {
    fn at(self, path: &Path, tile: usize) -> ModelDirError {
        let path = path.to_path_buf();
        match self {
            Self::Weight { weight, most } => ModelDirError::Weight {
                path,
                tile,
                weight,
                most,
            },
            Self::Padding => ModelDirError::Padding { path, tile },
        }
    }
}

/// Checks the weights of a tile, given the largest one and its real input and output channels.
fn check_tile(
    format: WeightFormat,
    most: i32,
    bytes: &[u8],
    (inputs, outputs): (&[Option<usize>], &[Option<usize>]),
) -> Result<(), TileProblem> {
    let real = inputs.iter().chain(outputs).all(Option::is_some);
    if real && all_within(format, most, bytes) {
        return Ok(());
    }
    let mut tile = [0; TILE_WEIGHTS];
    unpack_tile(format, bytes, &mut tile);
    for (x, row) in inputs.iter().zip(tile.as_chunks::<TILE>().0) {
        for (y, &weight) in outputs.iter().zip(row) {
            if (x.is_none() || y.is_none()) && weight != 0 {
                return Err(TileProblem::Padding);
            }
            if i32::from(weight).abs() > most {
                return Err(TileProblem::Weight { weight, most });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::sample::random_model;
    use crate::tiles::{position, TileSource};
    use tessera_samples::{fixture_size_config, odd_config};

    fn written(format: WeightFormat) -> (tempfile::TempDir, QuantisedModel) {
        let dir = tempfile::tempdir().unwrap();
        let model = random_model(odd_config(), format, 7);
        write_model(dir.path(), &model, [Some(b"{}"), Some(b"[1]")]).unwrap();
        (dir, model)
    }

    #[test]
    fn models_round_trip() {
        for format in [WeightFormat::Int8, WeightFormat::Int16] {
            let (dir, model) = written(format);
            assert_eq!(load_model(dir.path()).unwrap(), model);
        }
        let dir = tempfile::tempdir().unwrap();
        let model = random_model(fixture_size_config(), WeightFormat::Int16, 8);
        write_model(dir.path(), &model, [Some(b"{}"), Some(b"[1]")]).unwrap();
        assert_eq!(load_model(dir.path()).unwrap(), model);
    }

    #[test]
    fn tiles_are_in_the_padded_layout() {
        let (dir, model) = written(WeightFormat::Int16);
        let file = open_weights(&dir.path().join(WEIGHTS_FILE), &model.config, WeightFormat::Int16).unwrap();
        assert_eq!(file.tiles(), model.config.total_tiles());
        let mut tile = [0; TILE_WEIGHTS];
        for m in model.config.matmuls() {
            for (x, y) in [(0, 0), (m.in_dim - 1, m.out_dim - 1), (m.in_dim / 2, 1)] {
                let (px, py) = (
                    model.config.pad_in(m.id.kind(), x),
                    model.config.pad_out(m.id.kind(), y),
                );
                file.tile(m.first_tile + px / TILE * m.out_blocks + py / TILE, &mut tile);
                assert_eq!(tile[px % TILE * TILE + py % TILE], model.weight(m.id, x, y));
            }
        }
    }

    #[test]
    fn corruption_names_the_file() {
        for name in [WEIGHTS_FILE, TABLES_FILE, TOKENIZER_FILES[0], TOKENIZER_FILES[1]] {
            let (dir, _) = written(WeightFormat::Int8);
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
        let (dir, _) = written(WeightFormat::Int8);
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

    /// Norms that are too small by one would make a bound that does not hold; those that are too large are no less wrong.
    #[test]
    fn norms_of_other_weights_are_refused() {
        let (dir, model) = written(WeightFormat::Int8);
        let q = model.params.columns[0];
        for (l1, square) in [(q.l1 - 1, q.square), (q.l1, q.square - 1), (q.l1, q.square + 1)] {
            describe(dir.path(), |j| {
                j["params"]["columns"][0]["l1"] = l1.into();
                j["params"]["columns"][0]["square"] = square.into();
            });
            let error = load_model(dir.path()).unwrap_err();
            let said = ColumnNorms { l1, square };
            assert!(
                matches!(&error, ModelDirError::Norms { matrix, got, said: s, .. }
                    if matrix == "matrix Q of layer 0" && *got == q && *s == said),
                "{error}"
            );
        }
    }

    #[test]
    fn weights_outside_the_format_are_refused() {
        let (dir, model) = written(WeightFormat::Int8);
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
            open_weights(&path, &model.config, WeightFormat::Int16),
            Err(ModelDirError::Length { got, .. }) if got == bytes.len() as u64
        ));
    }
}
