//! Proves that a model generates a text, from a record of its forward pass (docs/protocol.md): the same phases, in the same order, as the
//! verifier's `verifier/src/verify/chunk.rs`. A verifier trusts nothing here, because a wrong prover only makes proofs that verifiers reject.
#![feature(portable_simd)]

pub mod activations;
pub mod bind;
pub mod boundary;
pub mod check;
pub mod claims;
pub mod column;
pub mod device;
pub mod digits;
mod error;
mod factors;
pub mod field;
pub mod gkr;
pub mod grind;
pub mod hiding;
pub mod matmul;
pub mod opening;
pub mod ops;
mod options;
mod report;
mod run;
pub mod scalar;
#[cfg(test)]
mod small;
pub mod speak;
pub mod stark;
mod stopwatch;
pub mod sumcheck;
pub mod tables;
pub mod trace;
mod trees;
pub mod vectors;

use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::Relations;
use tessera_circuits::chunk::{Boundary, Chunk, Ends};
use tessera_circuits::claims::{batch, Heard, LinearClaim};
use tessera_circuits::shape::{LeafLimits, Product, Shape};
use tessera_circuits::statement::Statement;
use tessera_circuits::trees::{lookup_trees, Forest, LookupTree};
use tessera_circuits::wiring::{Points, Public};
use tessera_verifier::context::Context;
use tessera_verifier::hiding::{HiddenCode, HiddenProof};
use tessera_verifier::key::{ModelId, ModelKey};
use tessera_verifier::labels::{ACTIVATIONS, CLAIMS, LOOKUP_WORK, POINTS, POINTS_WORK};
use tessera_verifier::ledger::{hidden_security_bits, security_bits};
use tessera_verifier::message::Unread;
use tessera_verifier::opening::{sum_of_claims, CommitmentParams, OpenedColumns, OpeningError, OpeningProof};
use tessera_verifier::policy::MIN_BITS;
use tessera_verifier::proof::{ChunkProof, Proof, TableProof};
use tessera_verifier::tables::{draw_relations, draw_weight};
use tessera_verifier::verify::{
    absorb_statistics, hear, hidden_code, open_transcript, verify_chunk_with, verify_hidden, weight_families,
    ChunkStatement, VerifyError,
};

pub use self::error::ProveError;
pub use self::options::{Admits, ProofOptions};
pub use self::report::{ProveReport, ProvedChunk};

pub use self::boundary::public_boundary;

use self::activations::{Activations, UnitClaim};
use self::boundary::{Boundaries, BoundaryValues};
use self::column::Column;
use self::device::{Bands, Device, DeviceError};
use self::digits::HiddenDigits;
use self::hiding::{NoRandomness, Secrets, TapeKey, Veiled};
use self::matmul::PrecomputedMatmuls;
use self::opening::{Codeword, Equations, OpeningProverError, ProverClaim, Veil};
use self::run::Run;
use self::speak::Speaker;
use self::stopwatch::Stopwatch;
use self::tables::{add_counts, Tables, Twiddles};
use tessera_model::forward::{ForwardState, Input, Placed, Saturations};
use tessera_model::generate::{generate, generate_recorded, GenerateOptions};
use tessera_model::passes::Traffic;
use tessera_model::QuantisedModel;
use tessera_support::progress::{Progress, Silent};

/// A model as the prover needs it.
#[derive(Clone, Copy)]
pub struct ProverModel<'a> {
    pub key: &'a ModelKey,
    pub id: ModelId,
    pub quantised: &'a QuantisedModel,
    pub codeword: &'a Codeword,
    /// The device that proofs are made on; all devices make the same proofs.
    pub device: &'a dyn Device,
}

impl<'a> ProverModel<'a> {
    /// The model as the forward pass takes it.
    fn placed(&self) -> Placed<'a> {
        Placed {
            model: self.quantised,
            linear: self.device.linear(),
        }
    }
}

/// Continues `prompt` as the options say, or makes a vector of it, and proves in one piece that the model does.
pub fn prove(
    model: &ProverModel<'_>,
    prompt: &[u32],
    options: &GenerateOptions,
    progress: &dyn Progress,
) -> Result<ProveReport, ProveError> {
    prove_for(model, prompt, options, ProofOptions::default(), progress)
}

/// Proves a generation as [`prove`] does, with these options of the proof.
pub fn prove_for(
    model: &ProverModel<'_>,
    prompt: &[u32],
    options: &GenerateOptions,
    asked: ProofOptions<'_>,
    progress: &dyn Progress,
) -> Result<ProveReport, ProveError> {
    let mut watch = Stopwatch::new(progress);
    if !model.key.config.generates() {
        let statement = generated(model, prompt, options, &mut watch)?;
        return whole(model, statement, asked, None, watch);
    }
    let generate = || generate_recorded(model.placed(), prompt, options);
    let (generation, state) = watch.phase("generate", generate)?;
    watch.read("generate", generation.traffic);
    let statement = Statement {
        prompt: prompt.to_vec(),
        output: generation.ids,
    };
    whole(model, statement, asked, Some(state), watch)
}

/// Proves in one piece, with these options, a statement whose output the model is known to generate.
pub fn prove_statement(
    model: &ProverModel<'_>,
    statement: Statement,
    asked: ProofOptions<'_>,
    progress: &dyn Progress,
) -> Result<ProveReport, ProveError> {
    whole(model, statement, asked, None, Stopwatch::new(progress))
}

/// The statement of how the model continues `prompt`, or of the vector that an encoder makes of it.
pub fn generate_statement(
    model: &ProverModel<'_>,
    prompt: &[u32],
    options: &GenerateOptions,
    progress: &dyn Progress,
) -> Result<Statement, ProveError> {
    generated(model, prompt, options, &mut Stopwatch::new(progress))
}

/// The residual stream between any two neighbouring chunks.
pub fn boundaries(
    model: &ProverModel<'_>,
    statement: &Statement,
    chunks: &[Chunk],
    progress: &dyn Progress,
) -> Result<Vec<Boundary>, ProveError> {
    progress.phase("activations", Some(chunks.len() as u64));
    let ids = statement.row_ids();
    let leading = statement.leading(&model.key.params.leading);
    let mut boundaries: Vec<Boundary> = Vec::new();
    for chunk in chunks.iter().filter(|chunk| !chunk.is_last()) {
        let entering = |boundary| Input::Stream(boundary, leading);
        let input = boundaries.last().map_or(Input::Tokens(&ids), entering);
        let run = ForwardState::run_chunk(model.placed(), chunk, input, 0, None)?;
        boundaries.push(run.output);
        progress.advance(1);
    }
    Ok(boundaries)
}

/// Refuses statements that no verifier accepts; returns the bits of security of a proof in these chunks.
pub fn check_security(key: &ModelKey, chunks: &[Chunk], statement: &Statement) -> Result<f64, ProveError> {
    statement.check(&key.config)?;
    enough(statement.rows(), security_bits(key, chunks, statement.lengths()))
}

/// The bits of security of a proof of a statement of so many rows, if they are enough.
const fn enough(rows: usize, got: f64) -> Result<f64, ProveError> {
    match got < MIN_BITS {
        true => Err(ProveError::Security {
            rows,
            got,
            min: MIN_BITS,
        }),
        false => Ok(got),
    }
}

/// Proves one chunk of a statement whose output the model is known to generate; of any other output no proof verifies.
/// The proof is the same whenever and wherever it is made.
pub fn prove_chunk(
    model: &ProverModel<'_>,
    statement: &Statement,
    chunk: &Chunk,
    ends: Ends<&Boundary>,
    context: Option<Context>,
    progress: &dyn Progress,
) -> Result<ProvedChunk, ProveError> {
    Boundaries::with(model.key, statement.rows(), ends, |boundaries, ends| {
        let claim = ChunkStatement {
            key: model.key,
            model: &model.id,
            statement,
            chunk,
            ends,
            context,
        };
        prove_chunk_with(model, &claim, boundaries, LeafLimits::OF_STATEMENTS, progress)
    })
}

/// Proves as [`prove_chunk`] does, under other limits. Tests lower the limits because nobody can prove a statement of `2^30` lookups in a
/// test. No verifier accepts the proof under [`LeafLimits::OF_STATEMENTS`] if the limits cut its trees elsewhere.
#[doc(hidden)]
pub fn prove_chunk_with(
    model: &ProverModel<'_>,
    claim: &ChunkStatement<'_>,
    boundaries: Boundaries<'_>,
    limits: LeafLimits,
    progress: &dyn Progress,
) -> Result<ProvedChunk, ProveError> {
    let mut watch = Stopwatch::new(progress);
    let (proof, _, saturated) = checked(
        model,
        claim,
        boundaries,
        limits,
        (claim.statement, None, false, None),
        &mut watch,
    )?;
    progress.done();
    Ok(ProvedChunk {
        proof,
        phases: watch.phases,
        saturated,
    })
}

/// Proves a chunk with these secrets, which serve for one proof, and does not check it, because they may lie: for tests, which may change columns of
/// the trace, part by part. `witness` has the ids that the claim hides.
#[doc(hidden)]
pub fn prove_with_secrets(
    model: &ProverModel<'_>,
    claim: &ChunkStatement<'_>,
    witness: &Statement,
    secrets: Secrets,
    change: &dyn Fn(&Shape, &mut [Vec<Column>]),
) -> Result<(ChunkProof, HiddenProof), ProveError> {
    let mut watch = Stopwatch::new(&Silent);
    let mut run = Run::of(model.placed(), claim, witness, true, None, None, &mut watch)?;
    change(&run.shape, &mut run.columns);
    let asked = (LeafLimits::OF_STATEMENTS, Some(&secrets));
    let (proof, hidden, _) = unchecked(model, claim, Boundaries::default(), run, asked, &mut watch)?;
    Ok((proof, hidden.unwrap_or_default()))
}

fn generated(
    model: &ProverModel<'_>,
    prompt: &[u32],
    options: &GenerateOptions,
    watch: &mut Stopwatch<'_>,
) -> Result<Statement, ProveError> {
    if !model.key.config.generates() {
        let vector = watch.phase("embed", || ForwardState::new(model.placed()).vector(prompt))?;
        return Ok(Statement::of_vector(prompt.to_vec(), &vector));
    }
    let generation = watch.phase("generate", || generate(model.placed(), prompt, options, |_| ()))?;
    watch.read("generate", generation.traffic);
    Ok(Statement {
        prompt: prompt.to_vec(),
        output: generation.ids,
    })
}

/// Proves a statement in one piece; what was recorded while it was generated is not computed again.
fn whole(
    model: &ProverModel<'_>,
    statement: Statement,
    asked: ProofOptions<'_>,
    recorded: Option<ForwardState<'_>>,
    mut watch: Stopwatch<'_>,
) -> Result<ProveReport, ProveError> {
    let ProofOptions {
        context,
        hide_activations,
        hidden_ids,
        without_clips,
        admits,
    } = asked;
    if let Some(admits) = admits {
        admits(&statement).map_err(ProveError::NotAdmitted)?;
    }
    let (key, witness) = (model.key, statement);
    // No id of the witness may be the mark of a hidden one.
    witness.check(&key.config)?;
    let statement = witness.hiding(&hidden_ids, &key.config, &key.params.leading)?;
    let chunk = Chunk::whole(key.config.layers);
    let claim = ChunkStatement::whole(key, &model.id, &statement, &chunk, context);
    let limits = LeafLimits::OF_STATEMENTS;
    let (security_bits, code) = match hide_activations || !hidden_ids.is_none() {
        false => (check_security(key, &[chunk], &statement)?, None),
        true => {
            let code = hidden_code(&claim, limits).map_err(ProveError::Hiding)?;
            let bits = hidden_security_bits(model.key, statement.lengths());
            let bits = bits.ok_or(ProveError::Hiding(VerifyError::HiddenCode))?;
            (enough(statement.rows(), bits)?, Some(code))
        }
    };
    let draw = |code| Ok::<_, NoRandomness>(Secrets::draw(code, &TapeKey::fresh(&claim, &witness)?));
    let secrets = code.map(draw).transpose()?;
    let asked = (&witness, recorded, without_clips, secrets.as_ref());
    let (chunk, hidden, saturated) = checked(model, &claim, Boundaries::default(), limits, asked, &mut watch)?;
    drop(secrets);
    let proof = Proof {
        model: model.id,
        statement,
        boundaries: Vec::new(),
        chunks: vec![chunk],
        context,
        hidden,
    };
    let bytes = proof.to_bytes()?;
    watch.done();
    Ok(ProveReport {
        statement: witness,
        proof,
        bytes,
        phases: watch.phases,
        weights: watch.weights,
        saturated,
        security_bits,
    })
}

/// The proof of a chunk, what it has for hiding, and the saturated values.
type Made = (ChunkProof, Option<HiddenProof>, Saturations);

/// The statement with all of its ids, what was recorded while it was generated, whether clipped values are refused, and the secrets that hide.
type Asked<'a, 'b> = (&'a Statement, Option<ForwardState<'b>>, bool, Option<&'a Secrets>);

/// Proves a chunk, whose activations secrets hide, and checks the proof.
fn checked(
    model: &ProverModel<'_>,
    claim: &ChunkStatement<'_>,
    boundaries: Boundaries<'_>,
    limits: LeafLimits,
    (witness, recorded, without_clips, secrets): Asked<'_, '_>,
    watch: &mut Stopwatch<'_>,
) -> Result<Made, ProveError> {
    let mut run = Run::of(
        model.placed(),
        claim,
        witness,
        secrets.is_some(),
        boundaries.input,
        recorded,
        watch,
    )?;
    run.shape = run.shape.with_leaf_limits(limits);
    let got = run.statistics.clips.len();
    if got > 0 && secrets.is_some() {
        return Err(ProveError::HiddenClips { got });
    }
    if got > 0 && without_clips {
        return Err(ProveError::Clips { got });
    }
    let (proof, hidden, saturated) = unchecked(model, claim, boundaries, run, (limits, secrets), watch)?;
    let check = || match &hidden {
        Some(hidden) => verify_hidden(claim, limits, &proof, hidden),
        None => verify_chunk_with(claim, limits, &proof),
    };
    watch.phase("check", check).map_err(ProveError::Check)?;
    Ok((proof, hidden, saturated))
}

/// The phases of the protocol.
fn unchecked(
    model: &ProverModel<'_>,
    claim: &ChunkStatement<'_>,
    mut boundaries: Boundaries<'_>,
    run: Run,
    (limits, secrets): (LeafLimits, Option<&Secrets>),
    watch: &mut Stopwatch<'_>,
) -> Result<Made, ProveError> {
    let (key, statement, chunk, shape) = (claim.key, claim.statement, claim.chunk, &run.shape);
    let device = model.device;
    // Commitments before any challenge.
    let code = secrets.map(Secrets::code);
    let params = code.map_or_else(
        || CommitmentParams::of_activations(shape, &key.weights),
        |code| code.params,
    );
    let suite = key.header.hash_suite;
    let mut transcript = open_transcript(claim, &params, code);
    let (relations, trees, forest) = (shape.config.relations(), lookup_trees(shape), Forest::of(shape));
    let hidden_digits = HiddenDigits::of(shape, &run.columns);
    let mut columns = device.columns(run.columns)?;
    let change_counts = secrets.and_then(Secrets::rehearsal).and_then(|own| own.change_counts);
    add_counts(&mut *columns, shape, (&trees, &forest), change_counts, watch)?;
    let columns = &*columns;
    let mut activations = watch.phase("commit activations", || {
        Activations::commit(suite, shape, columns, params, secrets)
    })?;
    transcript.send(ACTIVATIONS, &activations.root());
    absorb_statistics(&run.statistics, &mut transcript);
    let (twiddles, weight) = (Twiddles::new(), draw_weight(&forest, &mut transcript));
    let tables = watch.phase("count lookups", || {
        let (of, lookups) = ((shape, &run.params), (&trees[..], &forest));
        Tables::absorb(of, columns, lookups, weight, &twiddles, &mut transcript)
    })?;

    // Lookups.
    let lookup_work = grind::send(LOOKUP_WORK, &mut transcript);
    let relations = draw_relations(&mut transcript, &relations);
    let mut speaker: Box<dyn Speaker + '_> = match secrets {
        Some(secrets) => Box::new(Veiled::new(transcript, secrets)),
        None => Box::new(transcript),
    };
    let speaker = &mut *speaker;
    let lookups = watch.phase("lookups", || {
        let entries = tables.entries();
        gkr::prove((&trees, entries.as_ref()), columns, &relations, speaker)
    })?;

    // Matmuls.
    let points_work = grind::send(POINTS_WORK, speaker.transcript());
    let points = Points::new(shape, speaker.transcript().challenges(POINTS, Points::count(shape)));
    let public = Public {
        shape,
        params: &run.params,
        statement,
        ends: claim.ends,
        statistics: &run.statistics,
        points: &points,
    };
    let (weights, opened) = (&model.quantised.weights, key.opened(chunk));
    let (said, boundary_values) = boundaries.said(key, &public);
    let (matmuls, bands) = watch.phase("matmuls", || {
        matmul::prove(
            &public,
            device,
            (columns, &hidden_digits),
            weights,
            &opened,
            said,
            speaker,
        )
    })?;
    watch.read("matmuls", matmuls.traffic);
    let digits = digits::prove(&public, device, &hidden_digits, &matmuls.point, speaker)?;
    let families = weight_families(shape, speaker.transcript());

    // Linear claims.
    let (batch, linear) = watch.phase("claims", || {
        let mut claims = linear_claims(&public, &trees, &relations, &lookups, (&matmuls.point, &digits.point));
        let (own, entries) = lookups.claims.split_at(trees.len());
        claims.extend(tables.side(entries.first()));
        let batch = batch(claims, speaker.transcript().challenge(CLAIMS));
        let heard = Heard {
            accumulators: matmuls.claim,
            operands: matmuls.operands.clone(),
            digits: digits.factors,
            denominators: own.iter().map(|leaf| leaf.denominator).collect(),
            counts: entries.first().map(|leaf| leaf.numerator),
            boundaries: said.map_or([None; 2], |said| said.map(Some)),
        };
        // Products and trees are those of the chunk, so none is without a value.
        let value = batch.total(&heard).unwrap_or_default();
        let linear = claims::prove(&batch, value, shape, device, columns, speaker)?;
        Ok::<_, DeviceError>((batch, linear))
    })?;

    let mut proof = ChunkProof {
        layers: chunk.layers().len() as u32,
        statistics: run.statistics.clone(),
        activations: activations.root(),
        lookup_work,
        lookups: lookups.proofs.clone(),
        points_work,
        matmuls: matmuls.proof.clone(),
        linear: linear.proof.clone(),
        linear_work: linear.nonce.unwrap_or_default(),
        // Both follow.
        opening: OpeningProof::default(),
        tables: TableProof::Gkr,
    };

    // Weights and activations.
    let mut equations = |opening: &OpeningProof, said: &HiddenProof| {
        let hidden = secrets.map(Secrets::code).zip(Some(said));
        hidden.map_or_else(
            || Ok(Equations::default()),
            |hidden| heard(claim, limits, &proof, opening, hidden),
        )
    };
    let mut veil = secrets.map(|secrets| Veil {
        secrets,
        equations: &mut equations,
        said: HiddenProof {
            digits: digits.proof,
            ..HiddenProof::default()
        },
    });
    let (opening, traffic) = watch.phase("open", || {
        let units = UnitClaim::of(shape, &batch, &linear.point, &activations)?;
        open(
            model,
            &public,
            opened,
            &families,
            (&matmuls, bands),
            (&units, &mut activations, &boundary_values, &mut boundaries),
            (veil.as_mut(), speaker),
        )
    })?;
    watch.read("open", traffic);
    let hidden = veil.map(|veil| veil.said);
    proof.opening = opening;

    // Aggregator.
    proof.tables = tables.close(&relations, watch, speaker.transcript())?;
    Ok((proof, hidden, run.saturated))
}

/// The equations of a proof that hides activations, as the verifier has them when it has heard everything up to the folding of the opening.
fn heard(
    claim: &ChunkStatement<'_>,
    limits: LeafLimits,
    proof: &ChunkProof,
    opening: &OpeningProof,
    (code, said): (&HiddenCode, &HiddenProof),
) -> Result<Equations, OpeningProverError> {
    let refused = |error| OpeningProverError::Equations(Box::new(error));
    let conversation = hear(claim, limits, proof, code, said).map_err(refused)?;
    let mut listener = conversation.transcript.clone();
    let claims = conversation.claims(claim.key, claim.chunk);
    let value = sum_of_claims(&claims, Unread::of(opening), &mut listener).map_err(|e| refused(e.into()))?;
    listener
        .equations(value)
        .map_err(|e| refused(OpeningError::from(e).into()))
}

/// Everything that is claimed of sums of columns.
fn linear_claims(
    public: &Public<'_>,
    trees: &[LookupTree],
    relations: &Relations,
    lookups: &gkr::Proved,
    (products, hidden_rows): (&[SecureField], &[SecureField]),
) -> Vec<LinearClaim> {
    let mut claims = public.trace_claims();
    claims.extend(public.operand_claims(products));
    claims.extend(public.digit_claims(products, hidden_rows));
    let powers = public.powers();
    for (number, (tree, leaf)) in trees.iter().zip(&lookups.claims).enumerate() {
        claims.extend(tree.claim(&powers, relations, number, leaf));
    }
    claims
}

/// Activations and boundaries, each with what is claimed of them.
type Held<'s, 'a, 'b> = (
    &'s UnitClaim<'s>,
    &'s mut Activations<'a>,
    &'s [BoundaryValues],
    &'s mut Boundaries<'b>,
);

/// Opens the weights that the matmuls have read, in memory that these leave, the activations where the linear claims end, and committed
/// boundaries at the random point.
fn open(
    model: &ProverModel<'_>,
    public: &Public<'_>,
    columns: OpenedColumns,
    families: &[(Product, SecureField)],
    (matmuls, bands): (&PrecomputedMatmuls, Box<dyn Bands + '_>),
    (units, activations, values, boundaries): Held<'_, '_, '_>,
    (veil, speaker): (Option<&mut Veil<'_>>, &mut dyn Speaker),
) -> Result<(OpeningProof, Traffic), OpeningProverError> {
    let log_band = columns.log_band();
    let gamma = public.band_coefficients(&matmuls.point, families, columns.bands(), log_band);
    let point = public.local_point(&matmuls.point, log_band);
    let mut committed = bands.into_committed(&model.quantised.weights, model.codeword)?;
    let weights = ProverClaim::new(&mut *committed, columns, &point, &gamma, &matmuls.band_values);
    let mut claims = vec![weights, units.claim(activations)];
    claims.extend(boundaries.claims(values));
    let proof = opening::open(&mut claims, veil, speaker)?;
    drop(claims);
    Ok((proof, committed.traffic()))
}
