//! The prover (docs/protocol.md): the same phases, in the same order, as the verifier's `verify.rs`.

use std::collections::BTreeMap;
use std::time::Instant;

use rayon::prelude::*;
use tessera_circuits::claims::{batch, Batch};
use tessera_circuits::mle::eq_table;
use tessera_circuits::shape::{Part, Shape, PARTS};
use tessera_circuits::statement::{Statement, StatementError};
use tessera_circuits::wiring::{suffix, Points, Public};
use tessera_verifier::codec::CodecError;
use tessera_verifier::key::{ModelId, ModelKey};
use tessera_verifier::proof::Proof;
use tessera_verifier::security::{ledger, opening_policy, TracePolicy, MIN_BITS};
use tessera_verifier::stark::StarkError;
use tessera_verifier::transcript::Transcript;
use tessera_verifier::verify::{absorb_statistics, open_transcript, verify, weight_families, VerifyError};
use thiserror::Error;

use crate::bind::eval_base;
use crate::forward::{ForwardError, ForwardState, Witness};
use crate::generate::{generate, GenerateError, GenerateOptions};
use crate::matmul;
use crate::model::QuantisedModel;
use crate::opening::{self, Codeword, OpeningProverError};
use crate::progress::Progress;
use crate::stark::trace::{statistics, Columns, Source};
use crate::stark::{twiddles, ProveStarkError, Trace};
use crate::stream::Traffic;
use crate::sumcheck::{self, Instance};
use stwo::core::fields::qm31::SecureField;

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
    pub saturated: BTreeMap<String, u64>,
    /// Bits of the soundness ledger.
    pub security_bits: f64,
}

/// Why no proof was made.
#[derive(Debug, Error)]
pub enum ProveError {
    #[error(transparent)]
    Statement(#[from] StatementError),
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
    #[error("a statement of {rows} token rows has {got:.1} bits of security, below the minimum of {min:.0}")]
    Security { rows: usize, got: f64, min: f64 },
}

/// Proofs of one statement that are tried when queries meet in the wrong order, which happens to one in a hundred.
const ATTEMPTS: u32 = 8;

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

impl Phases<'_> {
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

/// Generates `tokens` tokens from `prompt` and proves that the model generates them.
pub fn prove(
    model: &ProverModel<'_>,
    prompt: &[u32],
    tokens: usize,
    progress: &dyn Progress,
) -> Result<ProveReport, ProveError> {
    let mut phases = Phases {
        progress,
        list: Vec::new(),
        weights: Vec::new(),
    };
    let options = GenerateOptions {
        tokens,
        stop_at_eos: false,
    };
    let generation = phases.run("generate", || generate(model.quantised, prompt, &options, |_| ()))?;
    phases.read("generate", generation.traffic);
    let statement = Statement {
        prompt: prompt.to_vec(),
        output: generation.ids,
    };
    let mut attempt = 0;
    let (proof, saturated, security_bits) = loop {
        let (proof, saturated, security_bits) = prove_statement(model, statement.clone(), attempt, &mut phases)?;
        match phases.run("check", || verify(model.key, &proof)) {
            Ok(_) => break (proof, saturated, security_bits),
            Err(VerifyError::Stark(StarkError::QueryOrder)) if attempt + 1 < ATTEMPTS => attempt += 1,
            Err(error) => return Err(ProveError::Check(error)),
        }
    };
    let bytes = proof.to_bytes()?;
    progress.done();
    Ok(ProveReport {
        proof,
        bytes,
        phases: phases.list,
        weights: phases.weights,
        saturated,
        security_bits,
    })
}

/// Proves a statement whose output the model is known to generate; of any other output no proof verifies.
/// Returns the proof, the saturated values and the bits of security.
fn prove_statement(
    model: &ProverModel<'_>,
    statement: Statement,
    attempt: u32,
    phases: &mut Phases<'_>,
) -> Result<(Proof, BTreeMap<String, u64>, f64), ProveError> {
    let key = model.key;
    statement.check(&key.config)?;
    let rows = statement.rows();
    let security_bits = ledger(key, rows).bits();
    if security_bits < MIN_BITS {
        return Err(ProveError::Security {
            rows,
            got: security_bits,
            min: MIN_BITS,
        });
    }
    let shape = Shape::new(&key.config, rows);
    let mut witness = Witness::default();
    let (saturated, traffic) = phases.run("forward pass", || {
        let mut state = ForwardState::new(model.quantised);
        state.run(&statement.row_ids(shape.token), Some(&mut witness))?;
        Ok::<_, ForwardError>((state.saturated().clone(), state.traffic()))
    })?;
    phases.read("forward pass", traffic);

    // Commitments before any challenge.
    let columns: Vec<Columns> = phases.run("trace", || {
        let source = Source {
            shape: &shape,
            params: &key.params,
            statement: &statement,
            witness: &witness,
        };
        PARTS.iter().map(|p| source.columns(*p)).collect()
    });
    let statistics = statistics(&witness);
    drop(witness);
    let policy = TracePolicy::of(&shape);
    let mut transcript = open_transcript(&model.id, &key.weights, policy, &statement);
    let twiddles = twiddles(&shape);
    let trace = phases.run("commit trace", || {
        let keep = model.keep_coefficients;
        Trace::commit(&shape, &key.params, columns, keep, &twiddles, &mut transcript)
    });
    absorb_statistics(&statistics, &mut transcript);

    // Matmuls.
    let points = Points::new(&shape, transcript.challenges("points", Points::count(&shape)));
    let public = Public {
        shape: &shape,
        params: &key.params,
        statement: &statement,
        statistics: &statistics,
        points: &points,
    };
    let matmuls = phases.run("matmuls", || {
        matmul::prove(&public, &trace.columns, &model.quantised.weights, &mut transcript)
    });
    phases.read("matmuls", matmuls.traffic);
    let families = weight_families(&mut transcript);

    // Linear claims.
    let (batch, linear, evaluations) = phases.run("claims", || {
        let mut claims = public.trace_claims(matmuls.proof.claim);
        claims.extend(public.operand_claims(&matmuls.point, &matmuls.proof.operands));
        let batch = batch(claims, transcript.challenge("claims"));
        let (linear, evaluations) = prove_linear(&batch, &trace, &mut transcript);
        (batch, linear, evaluations)
    });

    // Weights.
    let (opening, traffic) = phases.run("open weights", || {
        let gamma = public.tile_coefficients(&matmuls.point, &families);
        let local = public.local_point(&matmuls.point);
        opening::open_again(
            &model.quantised.weights,
            model.codeword,
            &key.weights,
            &opening_policy(&key.weights),
            &gamma,
            &matmuls.tile_values,
            &local,
            attempt,
            &mut transcript,
        )
    })?;
    phases.read("open weights", traffic);

    // Aggregator.
    let (claimed_sums, stark) = phases.run("stark", || trace.prove(&batch, &linear.point, &mut transcript))?;
    let proof = Proof {
        model: model.id,
        statement: statement.clone(),
        statistics: statistics.clone(),
        matmuls: matmuls.proof,
        linear: linear.proof,
        evaluations,
        opening,
        claimed_sums,
        stark,
    };
    Ok((proof, saturated, security_bits))
}

/// The batch of linear claims; also returns the evaluations of the claimed columns at its end point.
pub fn prove_linear(
    batch: &Batch,
    trace: &Trace<'_>,
    transcript: &mut Transcript,
) -> (sumcheck::Proved, Vec<Vec<SecureField>>) {
    let claimed: Vec<Part> = PARTS.into_iter().filter(|p| *p != Part::Tables).collect();
    let instances = claimed
        .iter()
        .map(|part| {
            let columns = &trace.columns[part.index()];
            let pairs = batch.of(*part).map(|group| {
                let tables: Vec<Vec<SecureField>> = group.weights.iter().map(|w| w.table()).collect();
                (outer_product(&tables), combine(columns, &group.columns))
            });
            Instance {
                pairs: pairs.collect(),
                variables: trace.shape.log_rows(*part) as usize,
            }
        })
        .collect();
    let proved = sumcheck::prove("claims", batch.value, instances, transcript);
    let evaluations: Vec<Vec<SecureField>> = claimed
        .iter()
        .map(|part| {
            let point = suffix(&proved.point, trace.shape.log_rows(*part));
            let columns = &trace.columns[part.index()];
            batch
                .columns(*part)
                .into_iter()
                .map(|c| eval_base(&columns[c], point))
                .collect()
        })
        .collect();
    transcript.message("evaluations", &evaluations.concat());
    (proved, evaluations)
}

/// The tensor product of the weights along each axis.
fn outer_product(axes: &[Vec<SecureField>]) -> Vec<SecureField> {
    let one = eq_table(&[]);
    axes.iter().fold(one, |left, right| {
        left.par_iter()
            .flat_map_iter(|l| right.iter().map(move |r| *l * *r))
            .collect()
    })
}

/// `sum of coefficient * column`, row by row.
fn combine(columns: &Columns, terms: &[(usize, SecureField)]) -> Vec<SecureField> {
    let rows = columns.first().map_or(0, Vec::len);
    (0..rows)
        .into_par_iter()
        .with_min_len(1024)
        .map(|row| {
            terms
                .iter()
                .fold(SecureField::default(), |sum, (c, k)| sum + *k * columns[*c][row])
        })
        .collect()
}
