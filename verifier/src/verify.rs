//! The verifier (docs/protocol.md): the same phases, in the same order, as the prover's `prove/src/lib.rs`.

mod boundaries;

use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::Relations;
use tessera_circuits::chunk::{ends, BoundaryError, Chunk, ChunkError, Ends, PublicBoundary};
use tessera_circuits::claims::{batch, Heard, LinearClaim, Operands};
use tessera_circuits::model::{LeadingRows, MIN_ROWS_LOG};
use tessera_circuits::rounding::Powers;
use tessera_circuits::shape::{LeafLimits, Product, Shape};
use tessera_circuits::statement::{Statement, StatementError};
use tessera_circuits::statistics::{Statistics, StatisticsError};
use tessera_circuits::trees::{lookup_trees, Forest, LeafClaim, LookupTree};
use tessera_circuits::wiring::{suffix, Points, Public};
use thiserror::Error;

use crate::codec::CodecError;
use crate::context::Context;
use crate::gkr::{self, GkrError};
use crate::key::{KeyError, ModelId, ModelKey};
use crate::labels::{
    ACTIVATIONS, CLAIMS, CLAIMS_WORK, CLIPPED_VALUES, FAMILIES, LOOKUP_WORK, MATMULS, OPERANDS, POINTS, POINTS_WORK,
};
use crate::ledger::security_bits;
use crate::length::most_bytes;
use crate::message::{NoWork, NotCanonical, Unread};
use crate::opening::{self, Claim, Commitment, CommitmentParams, OpeningError};
use crate::policy::{parameter_words, MIN_BITS};
use crate::proof::{ChunkProof, MatmulProof, Proof};
use crate::public::{families_of, Inputs, Outputs};
pub use crate::public::{linear_variables, unit_coefficients};
use crate::stark::StarkError;
use crate::suite::Digest;
use crate::sumcheck::{self, instance_scale, SumcheckError};
use crate::tables::{draw_relations, draw_weight, Balance, Tables, TablesError};
use crate::transcript::Transcript;

pub use self::boundaries::BoundaryClaim;
use self::boundaries::{boundary_words, said_of};

/// Protocol name and version, the first thing a transcript absorbs, with the suffix of the suite.
pub const PROTOCOL: &str = "tessera/12";

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
    #[error(transparent)]
    NotCanonical(#[from] NotCanonical),
    #[error("{0}")]
    Sumcheck(#[from] SumcheckError),
    #[error("operands of {got} products, expected {expected}")]
    Products { got: usize, expected: usize },
    #[error("a value of a boundary is said that the chunk does not have")]
    NoBoundary,
    #[error("the matmul sumcheck does not end in its operands")]
    Matmuls,
    #[error("the embedding's operand is not the one-hot matrix of the prompt and output")]
    Embedding,
    #[error(transparent)]
    Work(#[from] NoWork),
    #[error(transparent)]
    Gkr(#[from] GkrError),
    #[error("lookups: numerators of tree {tree} are not one")]
    Numerators { tree: usize },
    #[error("opening: {0}")]
    Opening(#[from] OpeningError),
    #[error("{0}")]
    Tables(TablesError),
    #[error("{0}")]
    Stark(#[from] StarkError),
    #[error("this statement's ledger gives at most {:.1} bits, below the minimum of {min:.1}", (got * 10.0).floor() / 10.0)]
    Security { got: f64, min: f64 },
}

impl From<TablesError> for VerifyError {
    fn from(error: TablesError) -> Self {
        match error {
            TablesError::Stark(error) => Self::Stark(error),
            other => Self::Tables(other),
        }
    }
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
    /// The context that the proof is tied to, if any.
    pub context: Option<Context>,
}

/// What a proof hides: flags, bits of privacy, how its tables are proved if not as the key says, number of revealed positions, and four reserved words. This
/// version hides nothing, so no proof has such fields, and both sides absorb zeros.
const HIDING: [u32; 8] = [0; 8];

/// Absorbs what every proof has before the first message: parameters, with those of the activations, model, lengths, what is
/// hidden, statement, and which part of it the chunk is, context: zeros, which are no context, if there is none. The suite and the
/// rule of leading rows are those of the key. The statement must have passed its check.
pub fn open_transcript(
    key: &ModelKey,
    model: &ModelId,
    activations: &CommitmentParams,
    statement: &Statement,
    chunk: &Chunk,
    ends: &Ends<&PublicBoundary>,
    context: Option<&Context>,
) -> Transcript {
    let mut transcript = Transcript::of(key.header.hash_suite, PROTOCOL);
    transcript.words(
        "parameters",
        &parameter_words(key.table_argument(), activations.words()),
    );
    transcript.bytes("model", &model.0);
    transcript.words("lengths", &lengths(&key.params.leading, statement));
    transcript.words("hiding", &HIDING);
    transcript.words("prompt", &statement.prompt);
    transcript.words("output", &statement.output);
    let layers = [chunk.start, chunk.end, chunk.of];
    transcript.words("chunk", &layers.map(|n| n as u32));
    for (label, end) in ["chunk input", "chunk output"].into_iter().zip(ends.both()) {
        let values = match end {
            Some(PublicBoundary::Committed(root)) => {
                transcript.words("boundary", &boundary_words(key, statement));
                transcript.bytes(label, root);
                continue;
            }
            Some(PublicBoundary::Clear(boundary)) => boundary.0.as_slice(),
            None => &[],
        };
        transcript.words(label, &values.iter().map(|v| i32::from(*v) as u32).collect::<Vec<_>>());
    }
    let none = [0; Context::BYTES];
    let bytes: &[u8; Context::BYTES] = context.map_or(&none, Context::bytes);
    transcript.bytes("context", bytes);
    transcript
}

/// Numbers of words of prompt and output, and of leading rows.
fn lengths(rule: &LeadingRows, statement: &Statement) -> [u32; 3] {
    let leading = statement.leading(rule);
    [statement.prompt.len(), statement.output.len(), leading].map(|n| n as u32)
}

/// Sends clipped values.
pub fn absorb_statistics(statistics: &Statistics, transcript: &mut Transcript) {
    transcript.send(CLIPPED_VALUES, statistics.clips.as_slice());
}

/// Receives them. They are to be checked.
fn receive_statistics(said: Unread<'_, Statistics>, transcript: &mut Transcript) -> Result<Statistics, VerifyError> {
    Ok(Statistics {
        clips: transcript
            .receive(CLIPPED_VALUES, said.part(|s| &s.clips).of_any_length())?
            .to_vec(),
    })
}

/// Verifies an encoded proof against a key. One that is longer than any proof of the key can be is not decoded: whoever reads a
/// file may stop a byte after [`most_bytes`].
pub fn verify_bytes(key: &ModelKey, bytes: &[u8]) -> Result<Verified, VerifyError> {
    key.check()?;
    let most = most_bytes(key);
    if bytes.len() <= most {
        return verify_with_checked(key, &Proof::from_bytes(bytes)?);
    }
    let (got, expected) = (Proof::model_of(bytes)?, key.id()?);
    match got == expected {
        true => Err(CodecError::TooLong { most }.into()),
        false => Err(VerifyError::OtherModel { got, expected }),
    }
}

/// Verifies a proof against a key. Total on hostile proofs: no panic, bounded work.
pub fn verify(key: &ModelKey, proof: &Proof) -> Result<Verified, VerifyError> {
    key.check()?;
    verify_with_checked(key, proof)
}

/// The key has passed its check.
fn verify_with_checked(key: &ModelKey, proof: &Proof) -> Result<Verified, VerifyError> {
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
    let ends = ends(&proof.boundaries, chunks.len())?;
    for (index, boundary) in proof.boundaries.iter().enumerate() {
        boundary.check(index, statement.rows(), config.hidden)?;
    }
    let security_bits = security_bits(key, &chunks, statement.lengths());
    if security_bits < MIN_BITS {
        return Err(VerifyError::Security {
            got: security_bits,
            min: MIN_BITS,
        });
    }
    let context = proof.context;
    for ((chunk, ends), proof) in chunks.iter().zip(ends).zip(&proof.chunks) {
        let part = ChunkStatement {
            key,
            model: &model,
            statement,
            chunk,
            ends,
            context,
        };
        verify_chunk(&part, proof)?;
    }
    Ok(Verified {
        model,
        statement: statement.clone(),
        chunks: chunks.len(),
        security_bits,
        context,
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
    /// The statement.
    pub statement: &'a Statement,
    /// The chunk.
    pub chunk: &'a Chunk,
    /// As [`ends`] gives them.
    pub ends: Ends<&'a PublicBoundary>,
    /// The context of the proof.
    pub context: Option<Context>,
}

impl ChunkStatement<'_> {
    /// A boundary wherever the chunk does not begin or end the model, of the right kind and length.
    fn check_ends(&self) -> Result<(), BoundaryError> {
        let rows = self.statement.rows();
        let ends = [
            (self.ends.input, self.chunk.is_first()),
            (self.ends.output, self.chunk.is_last()),
        ];
        for (index, (boundary, none)) in ends.into_iter().enumerate() {
            if boundary.is_none() != none {
                let got = ends.iter().filter(|(boundary, _)| boundary.is_some()).count();
                return Err(BoundaryError::Ends { got });
            }
            if let Some(boundary) = boundary {
                boundary.check(index, rows, self.key.config.hidden)?;
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
    /// Its root.
    pub root: Digest,
    /// What the sums of lookups come to.
    pub balance: Balance,
    /// The weighted products, each with its weight in the claim on the weights.
    pub families: Vec<(Product, SecureField)>,
    /// The value of the claim on the activations.
    pub end: SecureField,
    /// The claims on the committed boundaries that the chunk has.
    pub boundaries: Vec<BoundaryClaim>,
}

impl Conversation {
    /// The claims that the opening of a chunk proves: on the weights, on the activations, then on boundaries.
    pub fn claims(&self, key: &ModelKey, chunk: &Chunk) -> Vec<Claim<'_>> {
        let [(_, columns), (name, units)] = key.opened_all(chunk, &self.activations);
        let weights = Claim {
            commitment: key.commitment(),
            columns,
            point: &self.outputs.band_point,
            gamma: &self.outputs.bands,
            value: weight_claim(&self.inputs.heard.operands, &self.families),
        };
        let activations = Claim {
            commitment: Commitment {
                name,
                params: self.activations,
                root: self.root,
            },
            columns: units,
            point: &self.outputs.unit_point,
            gamma: &self.outputs.units,
            value: self.end,
        };
        let boundaries = self.boundaries.iter().map(BoundaryClaim::claim);
        [weights, activations].into_iter().chain(boundaries).collect()
    }
}

/// Verifies what is said of a chunk before its opening. Total on hostile proofs.
pub fn verify_conversation(claim: &ChunkStatement<'_>, proof: &ChunkProof) -> Result<Conversation, VerifyError> {
    conversation(claim, LeafLimits::OF_STATEMENTS, proof)
}

fn conversation(
    claim: &ChunkStatement<'_>,
    limits: LeafLimits,
    proof: &ChunkProof,
) -> Result<Conversation, VerifyError> {
    let ChunkStatement { key, statement, .. } = *claim;
    statement.check(&key.config)?;
    claim.check_ends()?;
    let shape = key.shape(claim.chunk, statement.lengths()).with_leaf_limits(limits);
    let params = claim.chunk.params(&key.params);
    let proof = Unread::of(proof);

    // Commitments and what is in clear before any challenge, counts before those of the lookups.
    let activations = CommitmentParams::of_activations(&shape, &key.weights);
    let mut transcript = open_transcript(
        key,
        claim.model,
        &activations,
        statement,
        claim.chunk,
        &claim.ends,
        claim.context.as_ref(),
    );
    let tables = Tables::of(key, proof.part(|p| &p.tables))?;
    let root = *transcript.receive(ACTIVATIONS, proof.part(|p| &p.activations))?;
    let statistics = receive_statistics(proof.part(|p| &p.statistics), &mut transcript)?;
    statistics.check(&shape, &params, statement)?;
    let forest = Forest::of(&shape);
    let weight = draw_weight(&forest, &mut transcript);
    tables.absorb(&mut transcript)?;

    // Lookups.
    transcript.receive_work(LOOKUP_WORK, proof.part(|p| &p.lookup_work))?;
    let relations = draw_relations(&mut transcript, &shape.config.relations());
    let table_tree = shape.table_tree();
    let logs = forest.logs_with(table_tree.as_ref());
    let (leaves, sums) = gkr::verify(&logs, proof.part(|p| &p.lookups), &mut transcript)?;
    // No earlier: only a proof of all trees is worth a list of their lookups.
    let trees = lookup_trees(&shape);
    let (own, entries) = leaves.split_at(trees.len().min(leaves.len()));
    let powers = Powers {
        shape: &shape,
        params: &params,
        leading: statement.leading(&params.leading),
    };
    let mut lookup_claims = lookup_claims(&powers, &trees, &relations, own)?;
    let entries = entries.first();
    lookup_claims.extend(tables.side(table_tree.as_ref(), &relations, weight, entries)?);

    // Matmuls.
    transcript.receive_work(POINTS_WORK, proof.part(|p| &p.points_work))?;
    let coordinates = transcript.challenges(POINTS, Points::count(&shape));
    let points = Points::new(&shape, coordinates.clone());
    let public = Public {
        shape: &shape,
        params: &params,
        statement,
        ends: claim.ends,
        statistics: &statistics,
        points: &points,
    };
    let matmuls = verify_matmuls(&public, proof.part(|p| &p.matmuls), &mut transcript)?;
    let (products, family) = (matmuls.point, transcript.challenge(FAMILIES));

    // Linear claims.
    let mut claims = public.trace_claims();
    claims.extend(public.operand_claims(&products));
    claims.extend(lookup_claims);
    let chi = transcript.challenge(CLAIMS);
    let batch = batch(claims, chi);
    let heard = Heard {
        accumulators: matmuls.claim,
        operands: matmuls.operands,
        denominators: own.iter().map(|leaf| leaf.denominator).collect(),
        counts: entries.map(|leaf| leaf.numerator),
        boundaries: matmuls.boundaries,
    };
    let value = batch.total(&heard).ok_or(VerifyError::Products {
        got: heard.operands.values().len(),
        expected: shape.existing().count(),
    })?;
    let variables = linear_variables(&shape);
    let (linear, nonce) = (proof.part(|p| &p.linear), proof.part(|p| &p.linear_work));
    let last = Some((CLAIMS_WORK, nonce));
    let end = sumcheck::verify(CLAIMS, value, variables, linear, last, &mut transcript)?;

    let columns = key.opened(claim.chunk);
    let families = families_of(&shape, family);
    let boundaries = BoundaryClaim::of(key, &public, &heard.boundaries);
    Ok(Conversation {
        outputs: Outputs {
            entries: entries.map(|leaf| leaf.denominator),
            embedding: matmuls.embedding,
            value,
            bands: public.band_coefficients(&products, &families, columns.bands(), columns.log_band()),
            units: unit_coefficients(&shape, &batch, &end.point),
            band_point: public.local_point(&products, columns.log_band()),
            unit_point: suffix(&end.point, MIN_ROWS_LOG).to_vec(),
        },
        inputs: Inputs {
            relations: relations.drawn.iter().map(|own| own.elements()).collect(),
            leaves: leaves.into_iter().map(|leaf| leaf.point).collect(),
            points: coordinates,
            products,
            heard,
            family,
            chi,
            linear: end.point,
        },
        transcript,
        activations,
        root,
        balance: Balance {
            relations,
            weighted: forest.is_weighted(),
            lookups: forest.balance(&sums, weight),
            entries: sums.get(trees.len()).copied(),
        },
        boundaries,
        families,
        end: end.value,
    })
}

/// Verifies the proof of one chunk. Total on hostile proofs; the ledger of the statement must have been checked.
pub fn verify_chunk(claim: &ChunkStatement<'_>, proof: &ChunkProof) -> Result<(), VerifyError> {
    verify_chunk_with(claim, LeafLimits::OF_STATEMENTS, proof)
}

/// Verifies as [`verify_chunk`] does, under other limits. Tests lower the limits because nobody can prove a statement of `2^30` lookups in
/// a test. A proof that this accepts under higher limits than [`LeafLimits::OF_STATEMENTS`] proves less.
#[doc(hidden)]
pub fn verify_chunk_with(
    claim: &ChunkStatement<'_>,
    limits: LeafLimits,
    proof: &ChunkProof,
) -> Result<(), VerifyError> {
    let key = claim.key;
    let said = conversation(claim, limits, proof)?;
    let mut transcript = said.transcript.clone();
    let proof = Unread::of(proof);

    // Weights and activations.
    let claims = said.claims(key, claim.chunk);
    opening::verify(&claims, proof.part(|p| &p.opening), &mut transcript)?;

    // Aggregator.
    let tables = Tables::of(key, proof.part(|p| &p.tables))?;
    Ok(tables.close(&said.balance, &mut transcript)?)
}

/// Section 8.5: the claims on the columns that the proofs of the sums of lookups end in.
fn lookup_claims(
    powers: &Powers<'_>,
    trees: &[LookupTree],
    relations: &Relations,
    leaves: &[LeafClaim],
) -> Result<Vec<LinearClaim>, VerifyError> {
    // Both numbers follow from the shape. Leaves without a tree would be claimed of nothing.
    if trees.len() != leaves.len() {
        let tree = trees.len().min(leaves.len());
        return Err(VerifyError::Numerators { tree });
    }
    let mut claims = Vec::with_capacity(trees.len());
    for (tree, (own, leaf)) in trees.iter().zip(leaves).enumerate() {
        let own = own.claim(powers, relations, tree, leaf);
        claims.push(own.ok_or(VerifyError::Numerators { tree })?);
    }
    Ok(claims)
}

/// All matmuls, reduced to their operands at a point.
struct Matmuls {
    /// The batched accumulators at the random point.
    claim: SecureField,
    /// End point of the sumcheck.
    point: Vec<SecureField>,
    operands: Operands,
    /// What committed boundaries are at the random point.
    boundaries: [Option<SecureField>; 2],
    /// The operand of the embedding, which is public.
    embedding: SecureField,
}

/// Section 5 and 6: all matmuls.
fn verify_matmuls(
    public: &Public<'_>,
    proof: Unread<'_, MatmulProof>,
    transcript: &mut Transcript,
) -> Result<Matmuls, VerifyError> {
    let variables = public.shape.product_variables() as usize;
    let (claim, rounds) = (proof.part(|p| &p.claim), proof.part(|p| &p.sumcheck));
    let (claim, end) = sumcheck::verify_said(MATMULS, claim, variables, rounds, transcript)?;
    let ends = public.ends.both();
    let committed = ends.map(|end| matches!(end, Some(PublicBoundary::Committed(_))));
    let further = usize::from(committed.contains(&true));
    let expected = public.shape.existing().count() + further;
    let said = proof.part(|p| &p.operands);
    let said = said.exactly(expected, |got| VerifyError::Products { got, expected })?;
    let said = transcript.receive(OPERANDS, said)?;
    let operands = Operands::of(public.shape, said);
    let boundaries = said_of(committed, said.last().copied().filter(|_| further > 0));
    let boundaries = boundaries.ok_or(VerifyError::NoBoundary)?;
    if sum_of_products(public.shape, &operands) != end.value {
        return Err(VerifyError::Matmuls);
    }
    let embedding = public.embed_operand(&end.point);
    let [embed, _] = operands.get(Product::EMBED).unwrap_or_default();
    if embed != embedding {
        return Err(VerifyError::Embedding);
    }
    Ok(Matmuls {
        claim,
        point: end.point,
        operands,
        boundaries,
        embedding,
    })
}

/// What the batch of the matmuls is at its end: products of what is received.
pub fn sum_of_products(shape: &Shape, operands: &Operands) -> SecureField {
    let variables = shape.product_variables() as usize;
    let value = |product: Product, [a, b]: [SecureField; 2]| {
        instance_scale(variables, product.variables(shape) as usize) * a * b
    };
    operands.iter().map(|(product, own)| value(*product, *own)).sum()
}

/// Random weights of the weighted products in the claim on the weights.
pub fn weight_families(shape: &Shape, transcript: &mut Transcript) -> Vec<(Product, SecureField)> {
    families_of(shape, transcript.challenge(FAMILIES))
}

/// Value of the claim on the weights.
pub fn weight_claim(operands: &Operands, families: &[(Product, SecureField)]) -> SecureField {
    let value = |(product, family): &(Product, SecureField)| {
        let [_, weights] = operands.get(*product).unwrap_or_default();
        weights * *family
    };
    families.iter().map(value).sum()
}
