//! Proves that a model generates a text, from a record of its forward pass (docs/protocol.md): the same phases, in the same order, as the
//! verifier's `verify.rs`. A verifier trusts nothing here, because a wrong prover only makes proofs that verifiers reject.
#![feature(portable_simd)]

pub mod activations;
pub mod bind;
pub mod boundary;
pub mod check;
pub mod claims;
pub mod column;
pub mod device;
mod error;
mod factors;
pub mod field;
pub mod gkr;
pub mod grind;
pub mod matmul;
pub mod opening;
pub mod ops;
pub mod scalar;
#[cfg(test)]
mod small;
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
use tessera_circuits::claims::{batch, Batch, Heard, LinearClaim};
use tessera_circuits::model::{ModelParams, MIN_ROWS_LOG};
use tessera_circuits::shape::{LeafLimits, Product, Shape};
use tessera_circuits::statement::Statement;
use tessera_circuits::statistics::{Clip, Statistics};
use tessera_circuits::trees::{lookup_trees, Forest, LookupTree};
use tessera_circuits::wiring::{suffix, Points, Public};
use tessera_verifier::context::Context;
use tessera_verifier::key::{ModelId, ModelKey};
use tessera_verifier::labels::{ACTIVATIONS, CLAIMS, LOOKUP_WORK, POINTS, POINTS_WORK};
use tessera_verifier::ledger::security_bits;
use tessera_verifier::opening::{CommitmentParams, OpenedColumns, OpeningProof};
use tessera_verifier::policy::MIN_BITS;
use tessera_verifier::proof::{ChunkProof, Proof};
use tessera_verifier::tables::{draw_relations, draw_weight};
use tessera_verifier::transcript::Transcript;
use tessera_verifier::verify::{
    absorb_statistics, open_transcript, unit_coefficients, verify_chunk_with, weight_families, ChunkStatement,
};

pub use self::error::ProveError;

pub use self::boundary::public_boundary;

use self::activations::Activations;
use self::boundary::{Boundaries, BoundaryValues};
use self::column::Column;
use self::device::{Bands, Device, DeviceError};
use self::matmul::PrecomputedMatmuls;
use self::opening::{Codeword, OpeningProverError, ProverClaim};
use self::stopwatch::Stopwatch;
use self::tables::{add_counts, Tables, Twiddles};
use self::trace::{tops, Source};
use tessera_model::forward::{ForwardState, Input, Placed, Saturations, Witness};
use tessera_model::generate::{generate, generate_recorded, GenerateOptions};
use tessera_model::passes::Traffic;
use tessera_model::QuantisedModel;
use tessera_support::progress::Progress;

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

/// A finished proof and how it was made.
#[derive(Clone, Debug)]
pub struct ProveReport {
    pub proof: Proof,
    pub bytes: Vec<u8>,
    /// Seconds of each phase, in order.
    pub phases: Vec<(String, f64)>,
    /// Bytes of the weights that the phases have read.
    pub weights: Vec<(String, Traffic)>,
    /// Saturated values by tensor, over all rows.
    pub saturated: Saturations,
    /// Bits of the soundness ledger.
    pub security_bits: f64,
}

/// Continues `prompt` as the options say, or makes a vector of it, and proves in one piece that the model does.
pub fn prove(
    model: &ProverModel<'_>,
    prompt: &[u32],
    options: &GenerateOptions,
    progress: &dyn Progress,
) -> Result<ProveReport, ProveError> {
    prove_in_context(model, prompt, options, None, progress)
}

/// Proves a generation as [`prove`] does. If a context is given, the proof holds in that context only.
pub fn prove_in_context(
    model: &ProverModel<'_>,
    prompt: &[u32],
    options: &GenerateOptions,
    context: Option<Context>,
    progress: &dyn Progress,
) -> Result<ProveReport, ProveError> {
    let mut watch = Stopwatch::new(progress);
    if !model.key.config.generates() {
        let statement = generated(model, prompt, options, &mut watch)?;
        return whole(model, statement, context, None, watch);
    }
    let generate = || generate_recorded(model.placed(), prompt, options);
    let (generation, state) = watch.phase("generate", generate)?;
    watch.read("generate", generation.traffic);
    let statement = Statement {
        prompt: prompt.to_vec(),
        output: generation.ids,
    };
    whole(model, statement, context, Some(state), watch)
}

/// Proves in one piece, and in a context if one is given, a statement whose output the model is known to generate.
pub fn prove_statement(
    model: &ProverModel<'_>,
    statement: Statement,
    context: Option<Context>,
    progress: &dyn Progress,
) -> Result<ProveReport, ProveError> {
    whole(model, statement, context, None, Stopwatch::new(progress))
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
    let rows = statement.rows();
    let got = security_bits(key, chunks, statement.lengths());
    match got < MIN_BITS {
        true => Err(ProveError::Security {
            rows,
            got,
            min: MIN_BITS,
        }),
        false => Ok(got),
    }
}

/// A chunk, proved.
#[derive(Clone, Debug)]
pub struct ProvedChunk {
    pub proof: ChunkProof,
    /// Seconds of each phase, in order.
    pub phases: Vec<(String, f64)>,
    /// Saturated values by tensor, over all rows.
    pub saturated: Saturations,
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
    let (proof, saturated) = checked(model, claim, boundaries, limits, None, &mut watch)?;
    progress.done();
    Ok(ProvedChunk {
        proof,
        phases: watch.phases,
        saturated,
    })
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
    context: Option<Context>,
    recorded: Option<ForwardState<'_>>,
    mut watch: Stopwatch<'_>,
) -> Result<ProveReport, ProveError> {
    let chunk = Chunk::whole(model.key.config.layers);
    let security_bits = check_security(model.key, &[chunk], &statement)?;
    let claim = ChunkStatement {
        key: model.key,
        model: &model.id,
        statement: &statement,
        chunk: &chunk,
        ends: Ends::default(),
        context,
    };
    let (chunk, saturated) = checked(
        model,
        &claim,
        Boundaries::default(),
        LeafLimits::OF_STATEMENTS,
        recorded,
        &mut watch,
    )?;
    let proof = Proof {
        model: model.id,
        statement,
        boundaries: Vec::new(),
        chunks: vec![chunk],
        context,
    };
    let bytes = proof.to_bytes()?;
    watch.done();
    Ok(ProveReport {
        proof,
        bytes,
        phases: watch.phases,
        weights: watch.weights,
        saturated,
        security_bits,
    })
}

/// Proves a chunk and checks the proof. Also returns the saturated values.
fn checked(
    model: &ProverModel<'_>,
    claim: &ChunkStatement<'_>,
    boundaries: Boundaries<'_>,
    limits: LeafLimits,
    recorded: Option<ForwardState<'_>>,
    watch: &mut Stopwatch<'_>,
) -> Result<(ChunkProof, Saturations), ProveError> {
    let mut run = Run::of(model, claim, boundaries.input, recorded, watch)?;
    run.shape = run.shape.with_leaf_limits(limits);
    let (proof, saturated) = unchecked(model, claim, boundaries, run, watch)?;
    watch
        .phase("check", || verify_chunk_with(claim, limits, &proof))
        .map_err(ProveError::Check)?;
    Ok((proof, saturated))
}

/// A chunk's computation, laid out as a trace.
struct Run {
    shape: Shape,
    params: ModelParams,
    statistics: Statistics,
    columns: Vec<Vec<Column>>,
    saturated: Saturations,
}

impl Run {
    /// Runs the chunk of a statement, or what was not run of it while it was recorded.
    fn of(
        model: &ProverModel<'_>,
        claim: &ChunkStatement<'_>,
        input: Option<&Boundary>,
        recorded: Option<ForwardState<'_>>,
        watch: &mut Stopwatch<'_>,
    ) -> Result<Self, ProveError> {
        let (key, statement, chunk) = (claim.key, claim.statement, claim.chunk);
        let shape = key.shape(chunk, statement.lengths());
        let params = chunk.params(&key.params);
        let mut witness = Witness::default();
        let run = watch.phase("forward pass", || {
            if let Some(state) = recorded {
                return Ok(state.finish(&mut witness));
            }
            let (ids, leading) = (statement.row_ids(), statement.leading(&key.params.leading));
            let entering = |boundary| Input::Stream(boundary, leading);
            let input = input.map_or(Input::Tokens(&ids), entering);
            ForwardState::run_chunk(model.placed(), chunk, input, shape.outputs, Some(&mut witness))
        })?;
        if run.traffic.bytes > 0 {
            watch.read("forward pass", run.traffic);
        }

        let tops = tops(&shape, statement, &witness);
        if let Some(output) = tops.iter().position(|top| *top == i64::from(i16::MIN)) {
            return Err(ProveError::SmallestLogit { output });
        }
        let (columns, clips): (Vec<Vec<Column>>, Vec<Vec<Clip>>) = watch.phase("trace", || {
            let of_part = |part| {
                let source = Source {
                    shape: &shape,
                    params: &params,
                    statement,
                    input,
                    witness: &witness,
                    tops: &tops,
                };
                let made = source.columns(part);
                // The columns of the next part take the place of what was recorded for this one.
                witness.forget(part, &shape);
                made
            };
            shape.by_part(of_part).into_iter().unzip()
        });
        let statistics = Statistics { clips: clips.concat() };
        statistics.check(&shape, &params, statement)?;
        Ok(Self {
            shape,
            params,
            statistics,
            columns,
            saturated: run.saturated,
        })
    }
}

/// The phases of the protocol. Also returns the saturated values.
fn unchecked(
    model: &ProverModel<'_>,
    claim: &ChunkStatement<'_>,
    mut boundaries: Boundaries<'_>,
    run: Run,
    watch: &mut Stopwatch<'_>,
) -> Result<(ChunkProof, Saturations), ProveError> {
    let (key, statement, chunk, shape) = (claim.key, claim.statement, claim.chunk, &run.shape);
    let device = model.device;
    // Commitments before any challenge.
    let params = CommitmentParams::of_activations(shape, &key.weights);
    let suite = key.header.hash_suite;
    let mut transcript = open_transcript(
        key,
        claim.model,
        &params,
        statement,
        chunk,
        &claim.ends,
        claim.context.as_ref(),
    );
    let (relations, trees, forest) = (shape.config.relations(), lookup_trees(shape), Forest::of(shape));
    let mut columns = device.columns(run.columns)?;
    add_counts(&mut *columns, shape, (&trees, &forest), watch)?;
    let columns = &*columns;
    let mut activations = watch.phase("commit activations", || {
        Activations::commit(suite, shape, columns, params)
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
    let lookups = watch.phase("lookups", || {
        let entries = tables.entries();
        gkr::prove((&trees, entries.as_ref()), columns, &relations, &mut transcript)
    })?;

    // Matmuls.
    let points_work = grind::send(POINTS_WORK, &mut transcript);
    let points = Points::new(shape, transcript.challenges(POINTS, Points::count(shape)));
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
        matmul::prove(&public, device, columns, weights, &opened, said, &mut transcript)
    })?;
    watch.read("matmuls", matmuls.traffic);
    let families = weight_families(shape, &mut transcript);

    // Linear claims.
    let (batch, linear) = watch.phase("claims", || {
        let mut claims = linear_claims(&public, &trees, &relations, &lookups, &matmuls.point);
        let (own, entries) = lookups.claims.split_at(trees.len());
        claims.extend(tables.side(entries.first()));
        let batch = batch(claims, transcript.challenge(CLAIMS));
        let heard = Heard {
            accumulators: matmuls.proof.claim,
            operands: matmuls.operands.clone(),
            denominators: own.iter().map(|leaf| leaf.denominator).collect(),
            counts: entries.first().map(|leaf| leaf.numerator),
            boundaries: said.map_or([None; 2], |said| said.map(Some)),
        };
        // Products and trees are those of the chunk, so none is without a value.
        let value = batch.total(&heard).unwrap_or_default();
        let linear = claims::prove(&batch, value, shape, device, columns, &mut transcript)?;
        Ok::<_, DeviceError>((batch, linear))
    })?;

    // Weights and activations.
    let (opening, traffic) = watch.phase("open", || {
        let units = UnitClaim::of(shape, &batch, &linear.point, &activations)?;
        open(
            model,
            &public,
            opened,
            &families,
            (&matmuls, bands),
            (&units, &mut activations, &boundary_values, &mut boundaries),
            &mut transcript,
        )
    })?;
    watch.read("open", traffic);

    // Aggregator.
    let tables = tables.close(&relations, watch, &mut transcript)?;
    let proof = ChunkProof {
        layers: chunk.layers().len() as u32,
        statistics: run.statistics,
        activations: activations.root(),
        lookup_work,
        lookups: lookups.proofs,
        points_work,
        matmuls: matmuls.proof,
        linear: linear.proof,
        linear_work: linear.nonce.unwrap_or_default(),
        opening,
        tables,
    };
    Ok((proof, run.saturated))
}

/// Everything that is claimed of sums of columns.
fn linear_claims(
    public: &Public<'_>,
    trees: &[LookupTree],
    relations: &Relations,
    lookups: &gkr::Proved,
    products: &[SecureField],
) -> Vec<LinearClaim> {
    let mut claims = public.trace_claims();
    claims.extend(public.operand_claims(products));
    let powers = public.powers();
    for (number, (tree, leaf)) in trees.iter().zip(&lookups.claims).enumerate() {
        claims.extend(tree.claim(&powers, relations, number, leaf));
    }
    claims
}

/// Where the linear claims end: the units of the activations at a point, each with a factor.
struct UnitClaim<'a> {
    gamma: Vec<SecureField>,
    local_point: &'a [SecureField],
    values: Vec<SecureField>,
}

impl<'a> UnitClaim<'a> {
    fn of(
        shape: &Shape,
        batch: &Batch,
        point: &'a [SecureField],
        activations: &Activations<'_>,
    ) -> Result<Self, DeviceError> {
        let local_point = suffix(point, MIN_ROWS_LOG);
        Ok(Self {
            gamma: unit_coefficients(shape, batch, point),
            local_point,
            values: activations.unit_values(local_point)?,
        })
    }

    /// The claim with the activations that it is about, as they are opened.
    fn claim<'s>(&'s self, activations: &'s mut Activations<'_>) -> ProverClaim<'s> {
        let all = activations.units.commitment().params.all();
        ProverClaim::new(
            &mut *activations.units,
            all,
            self.local_point,
            &self.gamma,
            &self.values,
        )
    }
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
    transcript: &mut Transcript,
) -> Result<(OpeningProof, Traffic), OpeningProverError> {
    let log_band = columns.log_band();
    let gamma = public.band_coefficients(&matmuls.point, families, columns.bands(), log_band);
    let point = public.local_point(&matmuls.point, log_band);
    let mut committed = bands.into_committed(&model.quantised.weights, model.codeword)?;
    let weights = ProverClaim::new(&mut *committed, columns, &point, &gamma, &matmuls.band_values);
    let mut claims = vec![weights, units.claim(activations)];
    claims.extend(boundaries.claims(values));
    let proof = opening::open(&mut claims, transcript)?;
    drop(claims);
    Ok((proof, committed.traffic()))
}
