//! The prover (docs/protocol.md): the same phases, in the same order, as the verifier's `verify.rs`.

pub mod bind;
pub mod claims;
pub mod gkr;
pub mod matmul;
pub mod opening;
pub mod stark;
pub mod sumcheck;

use std::time::Instant;

use tessera_circuits::chunk::{Boundary, Chunk, Ends};
use tessera_circuits::claims::batch;
use tessera_circuits::model::ModelConfig;
use tessera_circuits::statement::{Statement, StatementError};
use tessera_circuits::statistics::{Clip, StatisticsError};
use tessera_circuits::trees::lookup_trees;
use tessera_circuits::wiring::{Points, Public};
use tessera_verifier::codec::CodecError;
use tessera_verifier::key::{ModelId, ModelKey};
use tessera_verifier::ledger::security_bits;
use tessera_verifier::opening::OpeningClaim;
use tessera_verifier::policy::{opening_policy, TracePolicy, MIN_BITS};
use tessera_verifier::proof::{ChunkProof, Proof};
use tessera_verifier::stark::draw_relations;
use tessera_verifier::verify::{
    absorb_statistics, open_transcript, verify_chunk, weight_families, ChunkStatement, VerifyError,
};
use thiserror::Error;

use self::opening::{Codeword, OpeningProverError};
use self::stark::trace::{statistics, Columns, Source};
use self::stark::{twiddles, ProveStarkError, Trace};
use crate::model::passes::Traffic;
use crate::model::QuantisedModel;
use crate::run::forward::{ForwardError, ForwardState, Input, Saturations, Witness};
use crate::run::generate::{generate, GenerateError, GenerateOptions};
use crate::support::progress::Progress;

/// A model as the prover needs it.
#[derive(Clone, Copy)]
pub struct ProverModel<'a> {
    pub key: &'a ModelKey,
    pub id: ModelId,
    pub quantised: &'a QuantisedModel,
    pub codeword: &'a Codeword,
    /// Whether the coefficients of the trace are kept: faster, for more memory.
    pub keep_coefficients: bool,
}

/// A finished proof and how it was made.
#[derive(Clone, Debug)]
pub struct ProveReport {
    pub proof: Proof,
    pub bytes: Vec<u8>,
    /// Seconds of each phase, in order.
    pub phases: Vec<(String, f64)>,
    /// What phases read of the weights.
    pub weights: Vec<(String, Traffic)>,
    /// Saturated values by tensor, over all rows.
    pub saturated: Saturations,
    /// Bits of the soundness ledger.
    pub security_bits: f64,
}

/// Why no proof was made.
#[derive(Debug, Error)]
pub enum ProveError {
    #[error(transparent)]
    Statement(#[from] StatementError),
    /// More values are clipped than a proof may list: of inner chunks, and of padding rows, too.
    #[error("{0}; the model is far from its calibration text on this prompt")]
    Clipped(#[from] StatisticsError),
    #[error(transparent)]
    Generate(#[from] GenerateError),
    #[error(transparent)]
    Forward(#[from] ForwardError),
    #[error(transparent)]
    Opening(#[from] OpeningProverError),
    #[error(transparent)]
    Stark(#[from] ProveStarkError),
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error("internal error: the proof does not verify: {0}")]
    Check(#[source] VerifyError),
    #[error(
        "a statement of {rows} token rows has {:.1} bits of security at most, below the minimum of {min:.0}",
        (got * 10.0).floor() / 10.0
    )]
    Security { rows: usize, got: f64, min: f64 },
}

/// Measures phases and tells the progress display.
struct Phases<'a> {
    progress: &'a dyn Progress,
    list: Vec<(String, f64)>,
    weights: Vec<(String, Traffic)>,
}

/// Adds to the entry of `name`, which is made if there is none.
fn add<T: std::ops::AddAssign>(list: &mut Vec<(String, T)>, name: &str, value: T) {
    match list.iter_mut().find(|(known, _)| known == name) {
        Some((_, sum)) => *sum += value,
        None => list.push((name.to_owned(), value)),
    }
}

impl<'a> Phases<'a> {
    fn new(progress: &'a dyn Progress) -> Self {
        Self {
            progress,
            list: Vec::new(),
            weights: Vec::new(),
        }
    }

    fn run<T>(&mut self, name: &str, work: impl FnOnce() -> T) -> T {
        self.progress.phase(name, None);
        let start = Instant::now();
        let result = work();
        add(&mut self.list, name, start.elapsed().as_secs_f64());
        result
    }

    /// Notes what a phase read of the weights.
    fn read(&mut self, name: &str, traffic: Traffic) {
        add(&mut self.weights, name, traffic);
    }
}

/// Continues `prompt` as the options say, and proves in one piece that the model does.
pub fn prove(
    model: &ProverModel<'_>,
    prompt: &[u32],
    options: &GenerateOptions,
    progress: &dyn Progress,
) -> Result<ProveReport, ProveError> {
    let mut phases = Phases::new(progress);
    let statement = phases.generate(model, prompt, options)?;
    phases.whole(model, statement)
}

/// Proves in one piece a statement whose output the model is known to generate.
pub fn prove_statement(
    model: &ProverModel<'_>,
    statement: Statement,
    progress: &dyn Progress,
) -> Result<ProveReport, ProveError> {
    Phases::new(progress).whole(model, statement)
}

/// The statement of how the model continues `prompt`.
pub fn generate_statement(
    model: &ProverModel<'_>,
    prompt: &[u32],
    options: &GenerateOptions,
    progress: &dyn Progress,
) -> Result<Statement, ProveError> {
    Phases::new(progress).generate(model, prompt, options)
}

/// The residual stream between any two neighbouring chunks.
pub fn boundaries(
    model: &ProverModel<'_>,
    statement: &Statement,
    chunks: &[Chunk],
    progress: &dyn Progress,
) -> Result<Vec<Boundary>, ProveError> {
    progress.phase("activations", Some(chunks.len() as u64));
    let token_log = ModelConfig::token_log(statement.rows());
    let ids = statement.row_ids(token_log);
    let leading = statement.leading(&model.key.params.leading, token_log);
    let mut boundaries: Vec<Boundary> = Vec::new();
    for chunk in chunks.iter().filter(|chunk| !chunk.is_last()) {
        let entering = |boundary| Input::Stream(boundary, leading);
        let input = boundaries.last().map_or(Input::Tokens(&ids), entering);
        let run = ForwardState::run_chunk(model.quantised, chunk, input, statement.lengths(), None)?;
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
    ends: Ends<'_>,
    progress: &dyn Progress,
) -> Result<ProvedChunk, ProveError> {
    let mut phases = Phases::new(progress);
    let (proof, saturated) = phases.chunk(model, statement, chunk, ends)?;
    progress.done();
    Ok(ProvedChunk {
        proof,
        phases: phases.list,
        saturated,
    })
}

impl Phases<'_> {
    fn generate(
        &mut self,
        model: &ProverModel<'_>,
        prompt: &[u32],
        options: &GenerateOptions,
    ) -> Result<Statement, ProveError> {
        let generation = self.run("generate", || generate(model.quantised, prompt, options, |_| ()))?;
        self.read("generate", generation.traffic);
        Ok(Statement {
            prompt: prompt.to_vec(),
            output: generation.ids,
        })
    }

    /// Proves a statement in one piece.
    fn whole(mut self, model: &ProverModel<'_>, statement: Statement) -> Result<ProveReport, ProveError> {
        let chunk = Chunk::whole(model.key.config.layers);
        let security_bits = check_security(model.key, &[chunk], &statement)?;
        let (chunk, saturated) = self.chunk(model, &statement, &chunk, Ends::default())?;
        let proof = Proof {
            model: model.id,
            statement,
            boundaries: Vec::new(),
            chunks: vec![chunk],
        };
        let bytes = proof.to_bytes()?;
        self.progress.done();
        Ok(ProveReport {
            proof,
            bytes,
            phases: self.list,
            weights: self.weights,
            saturated,
            security_bits,
        })
    }

    /// Proves a chunk and checks the proof. Also returns the saturated values.
    fn chunk(
        &mut self,
        model: &ProverModel<'_>,
        statement: &Statement,
        chunk: &Chunk,
        ends: Ends<'_>,
    ) -> Result<(ChunkProof, Saturations), ProveError> {
        let claim = ChunkStatement {
            key: model.key,
            model: &model.id,
            statement,
            chunk,
            ends,
        };
        let proved = self.unchecked(model, &claim)?;
        self.run("check", || verify_chunk(&claim, &proved.0))
            .map_err(ProveError::Check)?;
        Ok(proved)
    }

    fn unchecked(
        &mut self,
        model: &ProverModel<'_>,
        claim: &ChunkStatement<'_>,
    ) -> Result<(ChunkProof, Saturations), ProveError> {
        let ChunkStatement {
            key,
            statement,
            chunk,
            ends,
            ..
        } = *claim;
        let shape = key.shape(chunk, statement.lengths());
        let params = chunk.params(&key.params);
        let mut witness = Witness::default();
        let run = self.run("forward pass", || {
            let ids = statement.row_ids(shape.token);
            let leading = statement.leading(&key.params.leading, shape.token);
            let entering = |boundary| Input::Stream(boundary, leading);
            let input = ends.input.map_or(Input::Tokens(&ids), entering);
            ForwardState::run_chunk(model.quantised, chunk, input, statement.lengths(), Some(&mut witness))
        })?;
        self.read("forward pass", run.traffic);

        let mut statistics = statistics(&shape, statement, &witness);

        // Commitments before any challenge.
        let (columns, clips): (Vec<Columns>, Vec<Vec<Clip>>) = self.run("trace", || {
            let source = Source {
                shape: &shape,
                params: &params,
                statement,
                input: ends.input,
                witness: &witness,
                statistics: &statistics,
            };
            shape.parts().iter().map(|p| source.columns(*p)).unzip()
        });
        statistics.clips = clips.concat();
        statistics.check(&shape, &params, statement)?;
        drop(witness);
        let policy = TracePolicy::of(&shape);
        let mut transcript = open_transcript(claim.model, &key.weights, policy, statement, chunk, &ends);
        let twiddles = twiddles(&shape);
        let trace = self.run("commit trace", || {
            let keep = model.keep_coefficients;
            Trace::commit(&shape, &params, columns, keep, &twiddles, &mut transcript)
        });
        absorb_statistics(&statistics, &mut transcript);

        // Lookups.
        let relations = draw_relations(&mut transcript);
        let trees = lookup_trees(&shape);
        let lookups = self.run("lookups", || {
            gkr::prove(&trees, &trace.columns, &relations, &mut transcript)
        })?;

        // Matmuls.
        let points = Points::new(&shape, transcript.challenges("points", Points::count(&shape)));
        let public = Public {
            shape: &shape,
            params: &params,
            statement,
            ends,
            statistics: &statistics,
            points: &points,
        };
        let weights = &model.quantised.weights;
        let opened = key.opened(chunk);
        let matmuls = self.run("matmuls", || {
            matmul::prove(&public, &trace.columns, weights, &opened, &mut transcript)
        });
        self.read("matmuls", matmuls.traffic);
        let families = weight_families(&mut transcript);

        // Linear claims.
        let (batch, linear, evaluations) = self.run("claims", || {
            let mut claims = public.trace_claims(matmuls.proof.claim);
            claims.extend(public.operand_claims(&matmuls.point, &matmuls.proof.operands));
            for (tree, leaf) in trees.iter().zip(&lookups.claims) {
                claims.extend(tree.claims(&shape, &relations, leaf).into_iter().flatten());
            }
            let batch = batch(claims, transcript.challenge("claims"));
            let (linear, evaluations) = claims::prove(&batch, &shape, &trace.columns, &mut transcript);
            (batch, linear, evaluations)
        });

        // Weights.
        let (opening, traffic) = self.run("open weights", || {
            let gamma = public.band_coefficients(&matmuls.point, &families, opened.bands(), opened.log_band);
            let opening = OpeningClaim {
                columns: opened,
                gamma: &gamma,
                local_point: &public.local_point(&matmuls.point, opened.log_band),
                value: opening::value(&gamma, &matmuls.band_values),
            };
            opening::open(
                weights,
                model.codeword,
                &opening_policy(key.weights.log_blowup),
                &opening,
                &matmuls.band_values,
                matmuls.memory,
                &mut transcript,
            )
        })?;
        self.read("open weights", traffic);

        // Aggregator.
        let (claimed_sums, stark) = self.run("stark", || {
            trace.prove(&relations, &batch, &linear.point, &mut transcript)
        })?;
        let proof = ChunkProof {
            layers: chunk.layers().len() as u32,
            statistics,
            lookups: lookups.proofs,
            matmuls: matmuls.proof,
            linear: linear.proof,
            evaluations,
            opening,
            claimed_sums,
            stark,
        };
        Ok((proof, run.saturated))
    }
}
