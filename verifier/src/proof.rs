//! The proof format (docs/format.md). Every field but the context is mandatory; sizes follow from key and statement and
//! are checked before anything else looks at them ([`tessera_circuits::shape`]).

use serde::{Deserialize, Serialize};
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::chunk::PublicBoundary;
use tessera_circuits::statement::Statement;
use tessera_circuits::statistics::Statistics;

use crate::codec::{after_header, check_canonical_stark, decode, encode, read, CodecError, FileKind};
use crate::context::Context;
use crate::gkr::GroupProof;
use crate::hiding::HiddenProof;
use crate::key::ModelId;
use crate::opening::OpeningProof;
use crate::stark::Stark;
use crate::sumcheck::SumcheckProof;

/// A proof that a model generates an output from a prompt: a chain of proofs of its chunks. A model that is proved in
/// one piece has one chunk.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Proof {
    /// The model that it is about.
    pub model: ModelId,
    /// What is proved.
    pub statement: Statement,
    /// The residual stream between any two neighbouring chunks, in clear or committed to (section 15).
    pub boundaries: Vec<PublicBoundary>,
    /// From the first layer on.
    pub chunks: Vec<ChunkProof>,
    /// The context that the proof is tied to, if any. A file with a context has another version, and the context comes first in it.
    #[serde(skip)]
    pub context: Option<Context>,
    /// What a proof that hides activations has beside its chunk, which is the whole model. Such a file has another version, and this comes before
    /// the rest.
    #[serde(skip)]
    pub hidden: Option<HiddenProof>,
}

/// A proof that a chunk of a model takes what enters it to what leaves it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChunkProof {
    /// Number of layers.
    pub layers: u32,
    /// Row statistics in clear (protocol section 8.3).
    pub statistics: Statistics,
    /// Root of the committed activations (section 4).
    pub activations: [u8; 32],
    /// The nonce of the proof of work before the challenges of the lookups (section 11).
    pub lookup_work: u64,
    /// The sums of all lookups (section 8.5), group by group.
    pub lookups: Vec<GroupProof>,
    /// The nonce of the proof of work before the random point.
    pub points_work: u64,
    /// The matmuls (sections 5 and 6): injected into the aggregator, never recomputed.
    pub matmuls: MatmulProof,
    /// One batched sumcheck for all linear claims (section 7).
    pub linear: SumcheckProof,
    /// The nonce of the proof of work before its last challenge.
    pub linear_work: u64,
    /// Opening of weights and activations (section 10).
    pub opening: OpeningProof,
    /// The tables (section 9), in the way that the verifier expects.
    pub tables: TableProof,
}

/// The part of a chunk's proof that proves the tables. It is refused if it is of another kind than [`crate::key::ModelKey::tables_of_proof`] says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum TableProof {
    /// A STARK.
    Stark(Box<StarkTables>),
    /// Nothing: the tables are a tree of the sums of lookups, and how often they are used is among the activations.
    Gkr,
}

/// The aggregator, a STARK of the tables.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StarkTables {
    /// What the entries of the tables add up to (section 8.5).
    pub claimed_sum: SecureField,
    /// The aggregator (section 9.1); its commitments are tables, multiplicities, interaction, composition.
    pub stark: Stark,
}

impl TableProof {
    /// The STARK, if it has one.
    pub const fn stark(&self) -> Option<&StarkTables> {
        match self {
            Self::Stark(own) => Some(own),
            Self::Gkr => None,
        }
    }

    /// The STARK and its claimed sum, to be altered.
    pub const fn stark_mut(&mut self) -> Option<&mut StarkTables> {
        match self {
            Self::Stark(own) => Some(own),
            Self::Gkr => None,
        }
    }
}

/// The batched product sumcheck of all matmuls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatmulProof {
    /// The batched accumulators at the random point.
    pub claim: SecureField,
    /// The rounds.
    pub sumcheck: SumcheckProof,
    /// Final evaluations of both factors of every product that the chunk has, in the order of products. If boundaries are committed to, a
    /// further pair says what enters and what leaves the chunk at the random point, zero where nothing does (section 15).
    pub operands: Vec<[SecureField; 2]>,
}

impl ChunkProof {
    fn check_canonical(&self) -> Result<(), CodecError> {
        let own = self.tables.stark();
        own.map_or(Ok(()), |own| check_canonical_stark(&own.stark))
    }

    /// Decodes the proof of a chunk: bounded, canonical, no trailing bytes. Total on hostile bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError> {
        let proof: Self = decode(FileKind::Chunk, bytes)?;
        proof.check_canonical()?;
        Ok(proof)
    }

    /// The canonical encoding.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CodecError> {
        encode(FileKind::Chunk, self)
    }
}

impl Proof {
    /// Decodes a proof: bounded, canonical, no trailing bytes. Total on hostile bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError> {
        let kind = FileKind::of_proof(bytes);
        let proof = match kind {
            FileKind::Proof {
                context: true,
                hides: true,
            } => {
                let (context, hidden, proof): (Context, HiddenProof, Self) = decode(kind, bytes)?;
                proof.with(Some(context), Some(hidden))
            }
            FileKind::Proof { context: true, .. } => {
                let (context, proof): (Context, Self) = decode(kind, bytes)?;
                proof.with(Some(context), None)
            }
            FileKind::Proof { hides: true, .. } => {
                let (hidden, proof): (HiddenProof, Self) = decode(kind, bytes)?;
                proof.with(None, Some(hidden))
            }
            _ => decode(kind, bytes)?,
        };
        proof.check_canonical()?;
        Ok(proof)
    }

    fn with(self, context: Option<Context>, hidden: Option<HiddenProof>) -> Self {
        Self {
            context,
            hidden,
            ..self
        }
    }

    /// The canonical encoding.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CodecError> {
        let kind = self.file_kind();
        match (self.context, &self.hidden) {
            (None, None) => encode(kind, self),
            (Some(context), None) => encode(kind, &(context, self)),
            (None, Some(hidden)) => encode(kind, &(hidden, self)),
            (Some(context), Some(hidden)) => encode(kind, &(context, hidden, self)),
        }
    }

    /// How its file says what it holds.
    pub const fn file_kind(&self) -> FileKind {
        FileKind::proof(self.context.is_some(), self.hidden.is_some())
    }

    /// The model that the bytes of a proof say they are about, and as little else of them as comes before it.
    pub fn model_of(bytes: &[u8]) -> Result<ModelId, CodecError> {
        let kind = FileKind::of_proof(bytes);
        let mut rest = after_header(kind, bytes)?;
        if let FileKind::Proof { context, hides } = kind {
            if context {
                rest = read::<Context>(kind, rest)?.1;
            }
            if hides {
                rest = read::<HiddenProof>(kind, rest)?.1;
            }
        }
        let model = rest.first_chunk().copied();
        model.map(ModelId).ok_or(CodecError::Truncated { kind })
    }

    fn check_canonical(&self) -> Result<(), CodecError> {
        self.chunks.iter().try_for_each(ChunkProof::check_canonical)
    }
}
