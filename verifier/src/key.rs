//! The model key: all that a verifier needs to know of a model (docs/format.md). It comes from someone the
//! verifier trusts, or from the verifier's own `setup`; it holds no weights.
//!
//! A key has three groups of fields: what defines the computation and the commitment, the tokenizer's files, and the
//! recipe that says how the model was made. The model id is a digest of the first two groups ([`ModelKey::id`]).
//!
//! No verifier relies on a recipe, so here it is bytes. [`ModelKey::from_bytes`] checks nothing of them but that the whole file is within the limit
//! of a key. Whoever shows a recipe or follows it reads it with the crate `tessera-recipe`, which refuses bytes that are no recipe.

use serde::{Deserialize, Serialize};
use tessera_circuits::boundary::BoundaryUnits;
use tessera_circuits::chunk::Chunk;
use tessera_circuits::model::{ModelConfig, ModelError, ModelParams};
use tessera_circuits::shape::Shape;
use tessera_circuits::statement::Lengths;
use tessera_circuits::table_tree::TableArgument;
use thiserror::Error;

use crate::codec::{decode_with_rest, encode_part, encode_with_rest, CodecError, FileKind};
use crate::opening::{Commitment, CommitmentName, CommitmentParams, OpenedColumns, OpeningError};
use crate::suite::{Digest, Suite};

/// How the trees of a key are made, and the way in which its model is proved. Later versions may know more values; this one knows
/// those of [`KeyHeader::CURRENT`] under every suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyHeader {
    /// Hash of trees, transcript and id.
    pub hash_suite: Suite,
    /// Points of a codeword in one leaf of the weight tree.
    pub leaf_points: u32,
    /// Random coefficients that each committed column has beside its weights.
    pub random_coefficients: u32,
    /// Columns of public tables beside the lookup tables.
    pub table_columns: u32,
    /// How the lookup tables are proved: a number of [`TableArgument`].
    pub tables: u32,
    /// Whether the weights are hidden from whoever has proofs; 0: they are public.
    pub private_weights: u32,
    /// The kind of attention; 0: one softmax over all open pairs.
    pub attention: u32,
    /// Number of kinds of layers with a window of their own: 1 where the architecture has windows, else 0.
    pub windows: u32,
    /// Number of committed tables of rotations.
    pub rotation_tables: u32,
    /// Units of committed boundaries between chunks, if a key ever fixes their number: today it follows from model and statement.
    pub boundary_units: u32,
}

impl KeyHeader {
    /// Blake2s, two points per leaf, and nothing of all else.
    pub const CURRENT: Self = Self {
        hash_suite: Suite::Blake2s,
        leaf_points: CommitmentParams::LEAF_POINTS,
        random_coefficients: 0,
        table_columns: 0,
        tables: 0,
        private_weights: 0,
        attention: 0,
        windows: 0,
        rotation_tables: 0,
        boundary_units: 0,
    };

    /// The header of the keys of an architecture under a suite, with the tables proved as set-up has it.
    pub const fn of(hash_suite: Suite, config: &ModelConfig) -> Self {
        Self {
            hash_suite,
            windows: config.windows().is_some() as u32,
            tables: hash_suite.default_tables().number(),
            ..Self::CURRENT
        }
    }

    /// Sets how the lookup tables are proved.
    #[must_use]
    pub const fn with_tables(self, tables: TableArgument) -> Self {
        Self {
            tables: tables.number(),
            ..self
        }
    }

    /// Every field beside the suite and the way of the tables, with its name in messages.
    const fn numbers(&self) -> [(&'static str, u32); 8] {
        [
            ("number of points per leaf", self.leaf_points),
            ("number of random coefficients per column", self.random_coefficients),
            ("number of public table columns", self.table_columns),
            ("privacy of the weights", self.private_weights),
            ("kind of attention", self.attention),
            ("number of kinds of layers with windows", self.windows),
            ("number of committed rotation tables", self.rotation_tables),
            ("number of units of committed boundaries", self.boundary_units),
        ]
    }

    /// How the lookup tables are proved; `None` of a number that this verifier does not know under the suite.
    fn table_argument(&self) -> Option<TableArgument> {
        let own = TableArgument::of_number(self.tables);
        own.filter(|own| self.hash_suite.allows(*own))
    }

    /// Errors unless every field beside the suite has a value that this verifier is written for, for models of this architecture.
    fn check(&self, config: &ModelConfig) -> Result<(), KeyError> {
        if self.table_argument().is_none() {
            return Err(KeyError::Tables { got: self.tables });
        }
        let mut fields = self
            .numbers()
            .into_iter()
            .zip(Self::of(self.hash_suite, config).numbers());
        match fields.find(|((_, got), (_, supported))| got != supported) {
            Some(((what, got), (_, supported))) => Err(KeyError::Header { what, got, supported }),
            None => Ok(()),
        }
    }
}

/// Commitment to the weights and to the lookup tables. `Serialize` and `Deserialize` leave out the recipe, which stands behind the other
/// fields in a file: only [`ModelKey::to_bytes`] and [`ModelKey::from_bytes`] write and read it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelKey {
    /// The architecture.
    pub config: ModelConfig,
    /// The quantisation.
    pub params: ModelParams,
    /// Layout and rate of the weight commitment.
    pub weights: CommitmentParams,
    /// Hash and layout of the trees.
    pub header: KeyHeader,
    /// Merkle root of the weight codewords.
    pub weights_root: [u8; 32],
    /// Merkle root of the preprocessed columns of the STARK (the lookup tables); zeros where no STARK proves them.
    pub tables_root: [u8; 32],
    /// `tokenizer.json`, empty if the model has none. Only used to show text; ids are what is proved.
    pub tokenizer: Vec<u8>,
    /// `tokenizer_config.json`, empty if the model has none.
    pub tokenizer_config: Vec<u8>,
    /// How the model was made and how close it is to its checkpoint: the last bytes of the file, whatever they are. Not a part of the id.
    #[serde(skip)]
    pub recipe: Vec<u8>,
}

/// The fields that define the computation and the commitment, encoded as in the key.
#[derive(Serialize)]
struct Computation<'a> {
    config: &'a ModelConfig,
    params: &'a ModelParams,
    weights: &'a CommitmentParams,
    header: &'a KeyHeader,
    weights_root: &'a [u8; 32],
    tables_root: &'a [u8; 32],
}

/// The tokenizer's files, encoded as in the key.
#[derive(Serialize)]
struct TokenizerFiles<'a> {
    tokenizer: &'a [u8],
    tokenizer_config: &'a [u8],
}

/// What each digest is of; a zero byte ends it.
const ID_TAG: &[u8] = b"tessera/model id\0";
const COMPUTATION_TAG: &[u8] = b"tessera/model computation\0";
const TOKENIZER_TAG: &[u8] = b"tessera/model tokenizer\0";
const RECIPE_TAG: &[u8] = b"tessera/model recipe\0";

/// Digest of what defines a model: computation, commitment and tokenizer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModelId(pub [u8; 32]);

impl std::fmt::Display for ModelId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl std::fmt::Debug for ModelId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

/// A file that is no usable model key.
#[derive(Debug, Error)]
// The messages say what each is.
#[allow(missing_docs)]
#[non_exhaustive]
pub enum KeyError {
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error("model key: {0}")]
    Model(#[from] ModelError),
    #[error("model key: {0}")]
    Commitment(OpeningError),
    #[error("model key: the {what} is {got}, but this program knows only {supported} for such a model")]
    Header {
        what: &'static str,
        got: u32,
        supported: u32,
    },
    #[error("model key: the way of proving lookup tables is {got}, but this program knows only 1 (GKR) and, under Blake2s, 0 (a STARK)")]
    Tables { got: u32 },
    #[error("model key: it has a root of lookup tables, which a key whose tables are proved by GKR does not have")]
    TablesRoot,
    #[error("model key: {got} tiles committed, the architecture has {expected}")]
    Tiles { got: usize, expected: usize },
}

/// Advice about a key that this program can read, but must not use: somebody changed it on its way.
pub const DAMAGED: &str = "; the file is damaged, or no program of this name made it: get it again";

impl KeyError {
    /// Advice that follows the message.
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::Codec(CodecError::Magic { .. } | CodecError::Version { .. })
            | Self::Header { .. }
            | Self::Tables { .. } => "",
            _ => DAMAGED,
        }
    }
}

impl ModelKey {
    /// Reads a key and checks all of it but the recipe. Total on hostile bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyError> {
        let (mut key, recipe): (Self, _) = decode_with_rest(FileKind::Key, bytes)?;
        key.check()?;
        key.recipe = recipe.to_vec();
        Ok(key)
    }

    /// The canonical encoding.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CodecError> {
        encode_with_rest(FileKind::Key, self, &self.recipe)
    }

    /// Checks that every dimension and parameter is one that the constraints were written for.
    pub fn check(&self) -> Result<(), KeyError> {
        self.params.check(&self.config)?;
        self.header.check(&self.config)?;
        if self.table_argument() == TableArgument::Gkr && self.tables_root != [0; 32] {
            return Err(KeyError::TablesRoot);
        }
        self.weights.check().map_err(KeyError::Commitment)?;
        let expected = self.config.total_tiles();
        if self.weights.tiles != expected {
            return Err(KeyError::Tiles {
                got: self.weights.tiles,
                expected,
            });
        }
        Ok(())
    }

    /// How the lookup tables are proved. The key must have passed its check.
    pub fn table_argument(&self) -> TableArgument {
        self.header.table_argument().unwrap_or_default()
    }

    /// How a proof under this key proves the lookup tables. A STARK shows how often each entry is used, so a proof that hides its activations has
    /// a tree of the tables whatever the key says: the verifier evaluates the tables itself (docs/protocol.md, section 17).
    pub fn tables_of_proof(&self, hides: bool) -> TableArgument {
        match hides {
            true => TableArgument::Gkr,
            false => self.table_argument(),
        }
    }

    /// The commitment to the weights.
    pub const fn commitment(&self) -> Commitment {
        Commitment {
            name: CommitmentName::Weights,
            params: self.weights,
            root: self.weights_root,
        }
    }

    /// The columns of the commitment that hold the weights of a chunk, in the bands of the architecture.
    pub fn opened(&self, chunk: &Chunk) -> OpenedColumns {
        let (tiles, log_band) = (chunk.tiles(&self.config), self.config.band_log());
        self.weights.columns_of(&tiles, log_band)
    }

    /// What the opening of every chunk is about, in its order: the columns that hold its weights, and all columns of its activations.
    /// Committed boundaries follow ([`Self::opened_boundaries`]).
    pub fn opened_all(&self, chunk: &Chunk, activations: &CommitmentParams) -> [(CommitmentName, OpenedColumns); 2] {
        [
            (CommitmentName::Weights, self.opened(chunk)),
            (CommitmentName::Activations, activations.all()),
        ]
    }

    /// How boundaries of so many token rows are committed to; `None` if they are in clear.
    pub fn boundary(&self, rows: usize) -> Option<(BoundaryUnits, CommitmentParams)> {
        let units = BoundaryUnits::of(rows, self.config.hidden)?;
        Some((units, CommitmentParams::of_boundary(&units, &self.weights)))
    }

    /// What the opening of a chunk of so many token rows is about after that: all columns of the committed boundaries that it has.
    pub fn opened_boundaries(&self, chunk: &Chunk, rows: usize) -> Vec<(CommitmentName, OpenedColumns)> {
        let Some((_, params)) = self.boundary(rows) else {
            return Vec::new();
        };
        let ends = [
            (CommitmentName::Input, chunk.is_first()),
            (CommitmentName::Output, chunk.is_last()),
        ];
        let ends = ends.into_iter().filter(|(_, none)| !none);
        ends.map(|(name, _)| (name, params.all())).collect()
    }

    /// The row spaces of a chunk of a statement of these lengths, in a proof that hides nothing.
    pub fn shape(&self, chunk: &Chunk, lengths: impl Into<Lengths>) -> Shape {
        let limbs = self.params.limb_set(&self.config);
        Shape::with_limbs(&self.config, limbs, chunk, lengths).with_tables(self.table_argument())
    }

    /// The row spaces of the whole model on a statement of these lengths, in a proof that hides its activations.
    pub fn hidden_shape(&self, lengths: impl Into<Lengths>) -> Shape {
        let shape = self.shape(&Chunk::whole(self.config.layers), lengths);
        shape.with_tables(self.tables_of_proof(true))
    }

    /// Digest of a tag and data, by the hash of the suite.
    fn tagged(&self, tag: &[u8], data: &[u8]) -> Digest {
        let mut hasher = self.header.hash_suite.hasher();
        hasher.update(tag);
        hasher.update(data);
        hasher.finalize()
    }

    /// Digest of the digests of computation and tokenizer. The recipe is not in it: who measured a model, and on which
    /// machine, makes no other model of it.
    pub fn id(&self) -> Result<ModelId, CodecError> {
        let digests = [self.computation_digest()?, self.tokenizer_digest()?];
        Ok(ModelId(self.tagged(ID_TAG, digests.as_flattened())))
    }

    /// Digest of everything that defines the computation and the commitment: the version of the format first, as it says what
    /// the fields mean.
    pub fn computation_digest(&self) -> Result<[u8; 32], CodecError> {
        let fields = Computation {
            config: &self.config,
            params: &self.params,
            weights: &self.weights,
            header: &self.header,
            weights_root: &self.weights_root,
            tables_root: &self.tables_root,
        };
        let version = FileKind::Key.version().to_le_bytes().to_vec();
        Ok(self.tagged(COMPUTATION_TAG, &[version, encode_part(&fields)?].concat()))
    }

    /// Digest of the tokenizer's files.
    pub fn tokenizer_digest(&self) -> Result<[u8; 32], CodecError> {
        let fields = TokenizerFiles {
            tokenizer: &self.tokenizer,
            tokenizer_config: &self.tokenizer_config,
        };
        Ok(self.tagged(TOKENIZER_TAG, &encode_part(&fields)?))
    }

    /// Digest of the recipe.
    pub fn recipe_digest(&self) -> [u8; 32] {
        self.tagged(RECIPE_TAG, &self.recipe)
    }
}

#[cfg(test)]
mod tests;
