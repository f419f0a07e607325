//! The verifier (docs/protocol.md): the same phases, in the same order, as the prover's `prove/mod.rs`.

use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::lookups::Relation;
use tessera_circuits::air::Relations;
use tessera_circuits::chunk::{ends, BoundaryError, Chunk, ChunkError, Ends};
use tessera_circuits::claims::{batch, LinearClaim};
use tessera_circuits::model::{ModelConfig, MIN_ROWS_LOG};
use tessera_circuits::rounding::Powers;
use tessera_circuits::statement::{Statement, StatementError};
use tessera_circuits::statistics::{Clip, StatisticsError};
use tessera_circuits::trees::{lookup_trees, padding, LeafClaim, LookupTree};
use tessera_circuits::wiring::{product_variables, suffix, Operands, Points, Product, Public, PRODUCTS, WEIGHTED};
use thiserror::Error;

use crate::codec::CodecError;
use crate::gkr::{self, GkrError};
use crate::key::{KeyError, ModelId, ModelKey};
use crate::ledger::security_bits;
use crate::opening::{self, Claimed, CommitmentParams, OpeningClaim, OpeningError};
use crate::policy::{opening_policy, parameter_words, LOOKUP_WORK_BITS, MIN_BITS};
use crate::proof::{ChunkProof, MatmulProof, Proof};
use crate::public::{families_of, Inputs, Outputs};
pub use crate::public::{linear_variables, unit_coefficients};
use crate::stark::{self, StarkClaim, StarkError};
use crate::suite::Suite;
use crate::sumcheck::{self, instance_scale, SumcheckError};
use crate::transcript::Transcript;

/// Protocol name and version, the first thing a transcript absorbs, with the suffix of the suite.
pub const PROTOCOL: &str = "tessera/11";

/// Why a proof is rejected.
#[derive(Debug, Error)]
// The messages say what each is.
#[allow(missing_docs)]
#[non_exhaustive]
pub enum VerifyError {
    #[error("malformed proof: {0}")]
    Malformed(#[from] CodecError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("the proof is about model {got}, the key is of model {expected}")]
    OtherModel { got: ModelId, expected: ModelId },
    #[error("impossible statement: {0}")]
    Statement(#[from] StatementError),
    #[error("{0}")]
    Chunks(#[from] ChunkError),
    #[error("{0}")]
    Boundaries(#[from] BoundaryError),
    #[error("statistics: {0}")]
    Statistics(#[from] StatisticsError),
    #[error("{0}")]
    Sumcheck(#[from] SumcheckError),
    #[error("the matmul sumcheck does not end in its operands")]
    Matmuls,
    #[error("the embedding's operand is not the one-hot matrix of the prompt and output")]
    Embedding,
    #[error("lookups: proof of work {nonce} does not have {bits} bits")]
    Work { bits: u32, nonce: u64 },
    #[error(transparent)]
    Gkr(#[from] GkrError),
    #[error("lookups: numerators of tree {tree} are not one")]
    Numerators { tree: usize },
    #[error("opening: {0}")]
    Opening(#[from] OpeningError),
    #[error("{0}")]
    Stark(#[from] StarkError),
    #[error("this statement's ledger gives at most {:.1} bits, below the minimum of {min:.0}", (got * 10.0).floor() / 10.0)]
    Security { got: f64, min: f64 },
}

/// What an accepted proof proves.
#[derive(Clone, Debug, PartialEq)]
pub struct Verified {
    /// The model that it is about.
    pub model: ModelId,
    /// What is proved.
    pub statement: Statement,
    /// Number of chunks that the model was proved in.
    pub chunks: usize,
    /// Bits of the soundness ledger that were enforced.
    pub security_bits: f64,
}

/// Absorbs everything that is public before the first message: parameters, with those of the activations, model, statement, and
/// which part of it the chunk is.
pub fn open_transcript(
    suite: Suite,
    model: &ModelId,
    activations: &CommitmentParams,
    statement: &Statement,
    chunk: &Chunk,
    ends: &Ends<'_>,
) -> Transcript {
    let mut transcript = Transcript::of(suite, PROTOCOL);
    transcript.words("parameters", &parameter_words(activations.words()));
    transcript.bytes("model", &model.0);
    transcript.words("prompt", &statement.prompt);
    transcript.words("output", &statement.output);
    let layers = [chunk.start, chunk.end, chunk.of];
    transcript.words("chunk", &layers.map(|n| n as u32));
    for (label, end) in [("chunk input", ends.input), ("chunk output", ends.output)] {
        let values = end.map_or([].as_slice(), |boundary| &boundary.0);
        transcript.words(label, &values.iter().map(|v| i32::from(*v) as u32).collect::<Vec<_>>());
    }
    transcript
}

/// Absorbs logits of output tokens and clipped values.
pub fn absorb_statistics(proof: &tessera_circuits::statistics::Statistics, transcript: &mut Transcript) {
    let tops: Vec<u32> = proof.tops.iter().map(|top| i32::from(*top) as u32).collect();
    transcript.words("output logits", &tops);
    let clip = |c: &Clip| {
        [
            c.part.into(),
            c.tensor.into(),
            c.at as u32,
            (c.at >> 32) as u32,
            c.excess as u32,
        ]
    };
    let clips: Vec<u32> = proof.clips.iter().flat_map(clip).collect();
    transcript.words("clipped values", &clips);
}

/// Verifies an encoded proof against a key.
pub fn verify_bytes(key: &ModelKey, bytes: &[u8]) -> Result<Verified, VerifyError> {
    verify(key, &Proof::from_bytes(bytes)?)
}

/// Verifies a proof against a key. Total on hostile proofs: no panic, bounded work.
pub fn verify(key: &ModelKey, proof: &Proof) -> Result<Verified, VerifyError> {
    key.check()?;
    let model = key.id()?;
    if proof.model != model {
        return Err(VerifyError::OtherModel {
            got: proof.model,
            expected: model,
        });
    }
    let (config, statement) = (&key.config, &proof.statement);
    statement.check(config)?;
    let chunks = Chunk::partition(proof.chunks.iter().map(|c| c.layers as usize), config.layers)?;
    let tokens = 1 << ModelConfig::token_log(statement.rows());
    let ends = ends(&proof.boundaries, chunks.len(), tokens, config.hidden)?;
    let security_bits = security_bits(key, &chunks, statement.lengths());
    if security_bits < MIN_BITS {
        return Err(VerifyError::Security {
            got: security_bits,
            min: MIN_BITS,
        });
    }
    for ((chunk, ends), proof) in chunks.iter().zip(ends).zip(&proof.chunks) {
        let part = ChunkStatement {
            key,
            model: &model,
            statement,
            chunk,
            ends,
        };
        verify_chunk(&part, proof)?;
    }
    Ok(Verified {
        model,
        statement: statement.clone(),
        chunks: chunks.len(),
        security_bits,
    })
}

/// What is proved of a chunk: on the tokens of the statement, it takes what enters it to what leaves it, and, if it is
/// the last one, to the output.
#[derive(Clone, Copy, Debug)]
pub struct ChunkStatement<'a> {
    /// Must have passed its check.
    pub key: &'a ModelKey,
    /// The key's id.
    pub model: &'a ModelId,
    /// Must have passed its check.
    pub statement: &'a Statement,
    /// The chunk.
    pub chunk: &'a Chunk,
    /// As [`ends`] gives them.
    pub ends: Ends<'a>,
}

impl ChunkStatement<'_> {
    /// A boundary wherever the chunk does not begin or end the model, of the right length.
    fn check_ends(&self) -> Result<(), BoundaryError> {
        let tokens = 1 << ModelConfig::token_log(self.statement.rows());
        let ends = [
            (self.ends.input, self.chunk.is_first()),
            (self.ends.output, self.chunk.is_last()),
        ];
        for (index, (boundary, none)) in ends.into_iter().enumerate() {
            if boundary.is_none() != none {
                let got = ends.iter().filter(|(boundary, _)| boundary.is_some()).count();
                return Err(BoundaryError::Ends { got });
            }
            let (got, expected) = (boundary.map(|b| b.0.len()), tokens * self.key.config.hidden);
            if let Some(got) = got.filter(|got| *got != expected) {
                return Err(BoundaryError::Length { index, got, expected });
            }
        }
        Ok(())
    }
}

/// What is said of a chunk before its opening, verified, and what it leaves to be opened.
#[derive(Debug)]
pub struct Conversation {
    /// The transcript after it.
    pub transcript: Transcript,
    /// Challenges, and what sumchecks end in.
    pub inputs: Inputs,
    /// What follows from them and the statement.
    pub outputs: Outputs,
    /// The commitment to the activations.
    pub activations: CommitmentParams,
    /// The challenges of the lookups.
    pub relations: Relations,
    /// The sum of all lookups.
    pub lookups: SecureField,
    /// The value of the claim on the activations.
    pub end: SecureField,
}

impl Conversation {
    /// What the opening of a chunk is about: the weights, then the activations.
    pub fn claimed(&self, key: &ModelKey, chunk: &Chunk, proof: &ChunkProof) -> [Claimed<'_>; 2] {
        let weights = OpeningClaim {
            columns: key.opened(chunk),
            gamma: &self.outputs.bands,
            local_point: &self.outputs.band_point,
            value: weight_claim(&proof.matmuls.operands, &families_of(self.inputs.family)),
        };
        let activations = OpeningClaim {
            columns: self.activations.columns_of(&(0..self.activations.tiles), 0),
            gamma: &self.outputs.units,
            local_point: &self.outputs.unit_point,
            value: self.end,
        };
        [
            Claimed {
                commitment: key.weights,
                root: key.weights_root,
                claim: weights,
            },
            Claimed {
                commitment: self.activations,
                root: proof.activations,
                claim: activations,
            },
        ]
    }
}

/// Verifies what is said of a chunk before its opening. Total on hostile proofs.
pub fn verify_conversation(claim: &ChunkStatement<'_>, proof: &ChunkProof) -> Result<Conversation, VerifyError> {
    let ChunkStatement { key, statement, .. } = *claim;
    claim.check_ends()?;
    let shape = key.shape(claim.chunk, statement.lengths());
    let params = claim.chunk.params(&key.params);
    proof.statistics.check(&shape, &params, statement)?;

    // Commitments before any challenge.
    let activations = CommitmentParams::of_activations(&shape, &key.weights);
    let (suite, model) = (key.header.hash_suite, claim.model);
    let mut transcript = open_transcript(suite, model, &activations, statement, claim.chunk, &claim.ends);
    transcript.bytes("activations", &proof.activations);
    stark::absorb_counts(&key.tables_root, &proof.stark, &mut transcript)?;
    absorb_statistics(&proof.statistics, &mut transcript);

    // Lookups.
    let nonce = proof.lookup_work;
    if !transcript.work("lookup work", LOOKUP_WORK_BITS, nonce) {
        let bits = LOOKUP_WORK_BITS;
        return Err(VerifyError::Work { bits, nonce });
    }
    let relations = stark::draw_relations(&mut transcript, shape.config.score_cap().is_some());
    let trees = lookup_trees(&shape);
    let powers = Powers {
        shape: &shape,
        params: &params,
        leading: statement.leading(&params.leading, shape.token),
    };
    let logs: Vec<u32> = trees.iter().map(LookupTree::log_leaves).collect();
    let leaves = gkr::verify(&logs, &proof.lookups, &mut transcript)?;
    let lookup_claims = lookup_claims(&powers, &trees, &relations, &leaves)?;

    // Matmuls.
    let coordinates = transcript.challenges("points", Points::count(&shape));
    let points = Points::new(&shape, coordinates.clone());
    let public = Public {
        shape: &shape,
        params: &params,
        statement,
        ends: claim.ends,
        statistics: &proof.statistics,
        points: &points,
    };
    let (products, embedding) = verify_matmuls(&public, &proof.matmuls, &mut transcript)?;
    let family = transcript.challenge("weight families");

    // Linear claims.
    let mut claims = public.trace_claims(proof.matmuls.claim);
    claims.extend(public.operand_claims(&products, &proof.matmuls.operands));
    claims.extend(lookup_claims);
    let chi = transcript.challenge("claims");
    let batch = batch(claims, chi);
    let variables = linear_variables(&shape);
    let end = sumcheck::verify("claims", batch.value, variables, &proof.linear, &mut transcript)?;

    let columns = key.opened(claim.chunk);
    let families = families_of(family);
    Ok(Conversation {
        outputs: Outputs {
            embedding,
            value: batch.value,
            bands: public.band_coefficients(&products, &families, columns.bands(), columns.log_band),
            units: unit_coefficients(&shape, &batch, &end.point),
            band_point: public.local_point(&products, columns.log_band),
            unit_point: suffix(&end.point, MIN_ROWS_LOG).to_vec(),
        },
        inputs: Inputs {
            relations: Relation::ALL.map(|relation| relations.drawn(relation)),
            leaves: leaves.into_iter().map(|leaf| (leaf.point, leaf.denominator)).collect(),
            points: coordinates,
            accumulators: proof.matmuls.claim,
            products,
            operands: proof.matmuls.operands,
            family,
            chi,
            linear: end.point,
        },
        transcript,
        activations,
        relations,
        lookups: gkr::sum(&proof.lookups) - padding(&trees),
        end: end.value,
    })
}

/// Verifies the proof of one chunk. Total on hostile proofs; the ledger of the statement must have been checked.
pub fn verify_chunk(claim: &ChunkStatement<'_>, proof: &ChunkProof) -> Result<(), VerifyError> {
    let key = claim.key;
    let said = verify_conversation(claim, proof)?;
    let mut transcript = said.transcript.clone();

    // Weights and activations.
    let claimed = said.claimed(key, claim.chunk, proof);
    let policy = opening_policy(key.weights.log_blowup);
    opening::verify(&policy, &claimed, &proof.opening, &mut transcript)?;

    // Aggregator.
    let claim = StarkClaim {
        relations: &said.relations,
        lookups: said.lookups,
        claimed_sum: proof.claimed_sum,
    };
    stark::verify(&claim, &proof.stark, &mut transcript)?;
    Ok(())
}

/// Section 8.5: the claims on the columns that the proofs of the sums of lookups end in.
fn lookup_claims(
    powers: &Powers<'_>,
    trees: &[LookupTree],
    relations: &Relations,
    leaves: &[LeafClaim],
) -> Result<Vec<LinearClaim>, VerifyError> {
    let mut claims = Vec::with_capacity(trees.len());
    for (tree, (own, leaf)) in trees.iter().zip(leaves).enumerate() {
        let own = own.claim(powers, relations, leaf);
        claims.push(own.ok_or(VerifyError::Numerators { tree })?);
    }
    Ok(claims)
}

/// Section 5 and 6: all matmuls; returns the end point of their sumcheck, and the operand of the embedding.
fn verify_matmuls(
    public: &Public<'_>,
    matmuls: &MatmulProof,
    transcript: &mut Transcript,
) -> Result<(Vec<SecureField>, SecureField), VerifyError> {
    let variables = product_variables(public.shape) as usize;
    let end = sumcheck::verify("matmuls", matmuls.claim, variables, &matmuls.sumcheck, transcript)?;
    let mut value = SecureField::default();
    for (product, [a, b]) in PRODUCTS.into_iter().zip(matmuls.operands) {
        value += instance_scale(variables, product.variables(public.shape) as usize) * a * b;
    }
    if value != end.value {
        return Err(VerifyError::Matmuls);
    }
    let [_, _, _, embed, ..] = matmuls.operands;
    let embedding = public.embed_operand(&end.point);
    if embed[0] != embedding {
        return Err(VerifyError::Embedding);
    }
    let absent = |product: Product| product != Product::Embed && !product.exists(public.shape);
    let nothing = [SecureField::default(); 2];
    if PRODUCTS
        .iter()
        .zip(&matmuls.operands)
        .any(|(p, own)| absent(*p) && *own != nothing)
    {
        return Err(VerifyError::Matmuls);
    }
    absorb_operands(&matmuls.operands, transcript);
    Ok((end.point, embedding))
}

/// Absorbs the final evaluations of the matmul sumcheck.
pub fn absorb_operands(operands: &Operands, transcript: &mut Transcript) {
    transcript.message("operands", operands.as_flattened());
}

/// Random weights of the weighted products in the claim on the weights.
pub fn weight_families(transcript: &mut Transcript) -> [SecureField; WEIGHTED.len()] {
    families_of(transcript.challenge("weight families"))
}

/// Value of the claim on the weights.
pub fn weight_claim(operands: &Operands, families: &[SecureField; WEIGHTED.len()]) -> SecureField {
    let values = PRODUCTS
        .iter()
        .zip(operands)
        .filter(|(p, _)| WEIGHTED.contains(p))
        .map(|(_, [_, v])| *v);
    values
        .zip(families)
        .fold(SecureField::default(), |sum, (v, f)| sum + v * *f)
}
