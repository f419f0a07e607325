//! A chunk (docs/protocol.md): everything that is said of it, then its opening, in the same phases and order as in the prover's `prove/src/chunk.rs`.

use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::Relations;
use tessera_circuits::chunk::{BoundaryError, Chunk, Ends, PublicBoundary};
use tessera_circuits::claims::{batch, Heard, LinearClaim};
use tessera_circuits::model::{LeadingRows, MIN_ROWS_LOG};
use tessera_circuits::rounding::Powers;
use tessera_circuits::shape::{LeafLimits, Product};
use tessera_circuits::statement::Statement;
use tessera_circuits::statistics::Statistics;
use tessera_circuits::trees::{lookup_trees, Forest, LeafClaim, LookupTree};
use tessera_circuits::wiring::{suffix, Points, Public};

use crate::context::Context;
use crate::gkr;
use crate::hiding::{HiddenCode, HiddenProof};
use crate::key::{ModelId, ModelKey};
use crate::labels::{ACTIVATIONS, CLAIMS, CLAIMS_WORK, CLIPPED_VALUES, FAMILIES, LOOKUP_WORK, POINTS, POINTS_WORK};
use crate::listen::Listener;
use crate::message::Unread;
use crate::opening::{self, Claim, Commitment, CommitmentName, CommitmentParams, OpenedColumns};
use crate::policy::parameter_words;
use crate::proof::ChunkProof;
use crate::public::{families_of, linear_variables, unit_coefficients, Inputs, Outputs};
use crate::suite::Digest;
use crate::sumcheck;
use crate::tables::{draw_relations, draw_weight, Balance, Tables};
use crate::transcript::Transcript;

use super::boundaries::{boundary_words, BoundaryClaim};
use super::digits::verify_digits;
use super::error::VerifyError;
use super::matmuls::{verify_matmuls, weight_claim};

/// Protocol name and version, the first thing a transcript absorbs, with the suffix of the suite.
pub const PROTOCOL: &str = "tessera/12";

/// The first of the words of `hiding`: activations are hidden, and ids of the prompt, and ids of the output.
const FLAGS: [u32; 3] = [1, 2, 4];

/// The words of `hiding`: flags, the number of values of a blind unit, the number of slots of the activations, the numbers of unused and of all entries of
/// the tape, the number of reveals, and two reserved words. All are zero if a proof hides nothing.
fn hiding_words(code: Option<&HiddenCode>, statement: &Statement) -> [u32; 8] {
    let Some(code) = code else { return [0; 8] };
    let [blind, slots, unused, entries, reveals] = code.words();
    let hidden = [true, statement.hides_prompt(), statement.hides_output()];
    let flags = FLAGS.into_iter().zip(hidden);
    let flags = flags.map(|(flag, hidden)| if hidden { flag } else { 0 }).sum();
    [flags, blind, slots, unused, entries, reveals, 0, 0]
}

/// Absorbs what every proof has before the first message: parameters, with those of the activations, model, lengths, what is
/// hidden, statement, and which part of it the chunk is, context: zeros, which are no context, if there is none. The suite and the
/// rule of leading rows are those of the key. The statement must have passed its check; an id that is hidden is absorbed as
/// [`tessera_circuits::statement::HIDDEN`].
pub fn open_transcript(
    claim: &ChunkStatement<'_>,
    activations: &CommitmentParams,
    hidden: Option<&HiddenCode>,
) -> Transcript {
    let ChunkStatement {
        key, statement, chunk, ..
    } = *claim;
    let mut transcript = Transcript::of(key.header.hash_suite, PROTOCOL);
    transcript.words(
        "parameters",
        &parameter_words(key.tables_of_proof(hidden.is_some()), activations.words()),
    );
    transcript.bytes("model", &claim.model.0);
    transcript.words("lengths", &lengths(&key.params.leading, statement));
    transcript.words("hiding", &hiding_words(hidden, statement));
    transcript.words("prompt", &statement.prompt);
    transcript.words("output", &statement.output);
    let layers = [chunk.start, chunk.end, chunk.of];
    transcript.words("chunk", &layers.map(|n| n as u32));
    for (label, end) in ["chunk input", "chunk output"].into_iter().zip(claim.ends.both()) {
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
    let bytes: &[u8; Context::BYTES] = claim.context.as_ref().map_or(&none, Context::bytes);
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
    /// As [`tessera_circuits::chunk::ends`] gives them.
    pub ends: Ends<&'a PublicBoundary>,
    /// The context of the proof.
    pub context: Option<Context>,
}

impl<'a> ChunkStatement<'a> {
    /// The statement of a proof in one piece: its chunk is the whole model, so nothing enters or leaves it but prompt and output.
    pub fn whole(
        key: &'a ModelKey,
        model: &'a ModelId,
        statement: &'a Statement,
        chunk: &'a Chunk,
        context: Option<Context>,
    ) -> Self {
        Self {
            key,
            model,
            statement,
            chunk,
            ends: Ends::default(),
            context,
        }
    }

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
pub struct Conversation<L: Listener = Transcript> {
    /// The transcript after it.
    pub transcript: L,
    /// Challenges, and what sumchecks end in.
    pub inputs: Inputs<SecureField, L::Value>,
    /// What follows from them and the statement.
    pub outputs: Outputs<SecureField, L::Value>,
    /// The commitment to the activations.
    pub activations: CommitmentParams,
    /// The columns of it that hold activations.
    pub columns: OpenedColumns,
    /// Its root.
    pub root: Digest,
    /// What the sums of lookups come to.
    pub balance: Balance<L::Value>,
    /// The weighted products, each with its weight in the claim on the weights.
    pub families: Vec<(Product, SecureField)>,
    /// The value of the claim on the activations.
    pub end: L::Value,
    /// The claims on the committed boundaries that the chunk has.
    pub boundaries: Vec<BoundaryClaim<L::Value>>,
}

impl<L: Listener> Conversation<L> {
    /// The claims that the opening of a chunk proves: on the weights, on the activations, then on boundaries.
    pub fn claims(&self, key: &ModelKey, chunk: &Chunk) -> Vec<Claim<'_, L::Value>> {
        let weights = Claim {
            commitment: key.commitment(),
            columns: key.opened(chunk),
            point: &self.outputs.band_point,
            gamma: &self.outputs.bands,
            value: weight_claim(&self.inputs.heard.operands, &self.families),
        };
        let activations = Claim {
            commitment: Commitment {
                name: CommitmentName::Activations,
                params: self.activations,
                root: self.root,
            },
            columns: self.columns,
            point: &self.outputs.unit_point,
            gamma: &self.outputs.units,
            value: self.end.clone(),
        };
        let boundaries = self.boundaries.iter().map(BoundaryClaim::claim);
        [weights, activations].into_iter().chain(boundaries).collect()
    }
}

/// Verifies what is said of a chunk before its opening. Total on hostile proofs.
pub fn verify_conversation(claim: &ChunkStatement<'_>, proof: &ChunkProof) -> Result<Conversation, VerifyError> {
    conversation(claim, LeafLimits::OF_STATEMENTS, proof, None, |transcript| transcript)
}

/// What is said of a chunk before its opening; `listen` makes whoever hears it of a transcript that has absorbed what is public. If activations
/// are hidden, `hidden` is their code, with the messages that only such proofs have.
pub(super) fn conversation<L: Listener>(
    claim: &ChunkStatement<'_>,
    limits: LeafLimits,
    proof: &ChunkProof,
    hidden: Option<(&HiddenCode, Unread<'_, HiddenProof>)>,
    listen: impl FnOnce(Transcript) -> L,
) -> Result<Conversation<L>, VerifyError> {
    let ChunkStatement { key, statement, .. } = *claim;
    let (hidden, hiding) = hidden.unzip();
    match hidden {
        None => statement.check(&key.config)?,
        Some(_) => statement.check_hiding(&key.config, &key.params.leading)?,
    }
    claim.check_ends()?;
    let way = key.tables_of_proof(hidden.is_some());
    let shape = key.shape(claim.chunk, statement.lengths());
    let shape = shape.with_tables(way).with_leaf_limits(limits);
    let params = claim.chunk.params(&key.params);
    let proof = Unread::of(proof);

    // Commitments and what is in clear before any challenge, counts before those of the lookups.
    let activations = hidden.map_or_else(
        || CommitmentParams::of_activations(&shape, &key.weights),
        |own| own.params,
    );
    let columns = hidden.map_or_else(|| activations.all(), |own| own.columns);
    let mut transcript = open_transcript(claim, &activations, hidden);
    let tables = Tables::of(key, way, proof.part(|p| &p.tables))?;
    let root = *transcript.receive(ACTIVATIONS, proof.part(|p| &p.activations))?;
    let statistics = receive_statistics(proof.part(|p| &p.statistics), &mut transcript)?;
    statistics.check(&shape, &params, statement)?;
    let got = statistics.clips.len();
    if hidden.is_some() && got > 0 {
        return Err(VerifyError::HiddenClips { got });
    }
    let forest = Forest::of(&shape);
    let weight = draw_weight(&forest, &mut transcript);
    tables.absorb(&mut transcript)?;

    // Lookups.
    transcript.receive_work(LOOKUP_WORK, proof.part(|p| &p.lookup_work))?;
    let relations = draw_relations(&mut transcript, &shape.config.relations());
    let mut listener = listen(transcript);
    let table_tree = shape.table_tree();
    let logs = forest.logs_with(table_tree.as_ref());
    let (leaves, sums) = gkr::verify(&logs, proof.part(|p| &p.lookups), &mut listener)?;
    // No earlier: only a proof of all trees is worth a list of their lookups.
    let trees = lookup_trees(&shape);
    let (own, entries) = leaves.split_at(trees.len().min(leaves.len()));
    let powers = Powers {
        shape: &shape,
        params: &params,
        leading: statement.leading(&params.leading),
    };
    let mut lookup_claims = lookup_claims(&powers, &trees, &relations, own, &mut listener)?;
    let entries = entries.first();
    lookup_claims.extend(tables.side(table_tree.as_ref(), &relations, weight, entries, &mut listener)?);

    // Matmuls.
    let transcript = listener.transcript();
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
    let matmuls = verify_matmuls(&public, proof.part(|p| &p.matmuls), &mut listener)?;
    let products = matmuls.point;
    let digits = hiding.map(|said| said.part(|p| &p.digits));
    let digits = verify_digits(&shape, matmuls.hidden, digits, &mut listener)?;
    let (digits, hidden_rows) = digits.map_or_else(|| (None, Vec::new()), |own| (Some(own.factors), own.point));
    let family = listener.transcript().challenge(FAMILIES);

    // Linear claims.
    let mut claims = public.trace_claims();
    claims.extend(public.operand_claims(&products));
    claims.extend(public.digit_claims(&products, &hidden_rows));
    claims.extend(lookup_claims);
    let chi = listener.transcript().challenge(CLAIMS);
    let batch = batch(claims, chi);
    let heard = Heard {
        accumulators: matmuls.claim,
        operands: matmuls.operands,
        digits,
        denominators: own.iter().map(|leaf| leaf.denominator.clone()).collect(),
        counts: entries.map(|leaf| leaf.numerator.clone()),
        boundaries: matmuls.boundaries,
    };
    let value = batch.total(&heard).ok_or(VerifyError::Products {
        got: heard.operands.values().len(),
        expected: shape.existing().count(),
    })?;
    let variables = linear_variables(&shape);
    let (linear, nonce) = (proof.part(|p| &p.linear), proof.part(|p| &p.linear_work));
    let last = Some((CLAIMS_WORK, nonce));
    let end = sumcheck::verify(CLAIMS, value.clone(), variables, linear, last, &mut listener)?;

    let opened = key.opened(claim.chunk);
    let families = families_of(&shape, family);
    let boundaries = BoundaryClaim::of(key, &public, &heard.boundaries);
    let units = unit_coefficients(&shape, &batch, &end.point);
    let zero = SecureField::default();
    Ok(Conversation {
        outputs: Outputs {
            entries: entries.map(|leaf| leaf.denominator.clone()),
            embedding: matmuls.embedding,
            value,
            bands: public.band_coefficients(&products, &families, opened.bands(), opened.log_band()),
            units: match hidden {
                Some(code) => code.place(units, zero, |_| zero),
                None => units,
            },
            band_point: public.local_point(&products, opened.log_band()),
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
        transcript: listener,
        activations,
        columns,
        root,
        balance: Balance {
            relations,
            weighted: forest.is_weighted(),
            lookups: forest.balance(&sums, weight),
            entries: sums.get(trees.len()).cloned(),
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
    let said = conversation(claim, limits, proof, None, |transcript| transcript)?;
    let mut transcript = said.transcript.clone();
    let proof = Unread::of(proof);

    // Weights and activations.
    let claims = said.claims(key, claim.chunk);
    opening::verify(&claims, proof.part(|p| &p.opening), &mut transcript)?;

    // Aggregator.
    let tables = Tables::of(key, key.tables_of_proof(false), proof.part(|p| &p.tables))?;
    Ok(tables.close(&said.balance, &mut transcript)?)
}

/// Section 8.5: the claims on the columns that the proofs of the sums of lookups end in.
fn lookup_claims<L: Listener>(
    powers: &Powers<'_>,
    trees: &[LookupTree],
    relations: &Relations,
    leaves: &[LeafClaim<SecureField, L::Value>],
    listener: &mut L,
) -> Result<Vec<LinearClaim>, VerifyError> {
    // Both numbers follow from the shape. Leaves without a tree would be claimed of nothing.
    if trees.len() != leaves.len() {
        let tree = trees.len().min(leaves.len());
        return Err(VerifyError::Numerators { tree });
    }
    let mut claims = Vec::with_capacity(trees.len());
    for (tree, (own, leaf)) in trees.iter().zip(leaves).enumerate() {
        let one = SecureField::from(1);
        listener.zero(leaf.numerator.clone() - one.into(), VerifyError::Numerators { tree })?;
        let challenges = |relation| relations.challenges(relation);
        claims.push(own.columns_claim(powers, challenges, tree, &leaf.point));
    }
    Ok(claims)
}
