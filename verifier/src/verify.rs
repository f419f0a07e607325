//! The verifier (docs/protocol.md): the same phases, in the same order, as the prover's `prove.rs`.

use stwo::core::fields::qm31::SecureField;
use tessera_circuits::claims::{batch, Batch};
use tessera_circuits::shape::{Part, Shape, PARTS};
use tessera_circuits::statement::{Statement, StatementError, StatisticsError};
use tessera_circuits::wiring::{product_variables, suffix, Points, Public, PRODUCTS, WEIGHTED};
use thiserror::Error;

use crate::codec::CodecError;
use crate::key::{KeyError, ModelId, ModelKey};
use crate::opening::{self, CommitmentParams, OpeningError};
use crate::proof::Proof;
use crate::security::{ledger, opening_policy, parameter_words, TracePolicy, MIN_BITS};
use crate::stark::{self, StarkClaim, StarkError};
use crate::sumcheck::{self, instance_scale, SumcheckError};
use crate::transcript::Transcript;

/// Protocol name and version, the first thing a transcript absorbs.
pub const PROTOCOL: &str = "tessera/1";

/// Why a proof is rejected.
#[derive(Debug, Error)]
pub enum VerifyError {
    #[error("malformed proof: {0}")]
    Malformed(#[from] CodecError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("the proof is about model {got}, the key is of model {expected}")]
    OtherModel { got: ModelId, expected: ModelId },
    #[error("impossible statement: {0}")]
    Statement(#[from] StatementError),
    #[error("statistics: {0}")]
    Statistics(#[from] StatisticsError),
    #[error("{what}: {got} evaluations, expected {expected}")]
    Evaluations {
        what: &'static str,
        got: usize,
        expected: usize,
    },
    #[error("{0}")]
    Sumcheck(#[from] SumcheckError),
    #[error("the matmul sumcheck does not end in its operands")]
    Matmuls,
    #[error("the embedding's operand is not the one-hot matrix of the prompt and output")]
    Embedding,
    #[error("the linear sumcheck does not end in the claimed evaluations")]
    Linear,
    #[error("weights: {0}")]
    Weights(#[from] OpeningError),
    #[error("{0}")]
    Stark(#[from] StarkError),
    #[error("this statement's ledger gives {got:.1} bits, below the minimum of {min:.0}")]
    Security { got: f64, min: f64 },
}

/// What an accepted proof proves.
#[derive(Clone, Debug, PartialEq)]
pub struct Verified {
    pub model: ModelId,
    pub statement: Statement,
    /// Bits of the soundness ledger that were enforced.
    pub security_bits: f64,
}

/// Absorbs everything that is public before the first message: parameters (of weights and trace), model, statement.
pub fn open_transcript(
    model: &ModelId,
    weights: &CommitmentParams,
    trace: TracePolicy,
    statement: &Statement,
) -> Transcript {
    let mut transcript = Transcript::new(PROTOCOL);
    transcript.words("parameters", &parameter_words(weights, trace));
    transcript.bytes("model", &model.0);
    transcript.words("prompt", &statement.prompt);
    transcript.words("output", &statement.output);
    transcript
}

/// Absorbs the row statistics.
pub fn absorb_statistics(proof: &tessera_circuits::statement::Statistics, transcript: &mut Transcript) {
    let norms: Vec<u32> = proof.norms.iter().flatten().map(|v| *v as u32).collect();
    transcript.words("norm statistics", &norms);
    transcript.words("softmax sums", &proof.sums);
}

/// Verifies an encoded proof against a key.
pub fn verify_bytes(key: &ModelKey, bytes: &[u8]) -> Result<Verified, VerifyError> {
    verify(key, &Proof::from_bytes(bytes)?)
}

/// Verifies a proof against a key. Total on hostile proofs: no panic, bounded work.
pub fn verify(key: &ModelKey, proof: &Proof) -> Result<Verified, VerifyError> {
    // Statement and shape.
    key.check()?;
    let model = key.id()?;
    if proof.model != model {
        return Err(VerifyError::OtherModel {
            got: proof.model,
            expected: model,
        });
    }
    proof.statement.check(&key.config)?;
    let shape = Shape::new(&key.config, proof.statement.rows());
    let security_bits = ledger(key, proof.statement.rows()).bits();
    if security_bits < MIN_BITS {
        return Err(VerifyError::Security {
            got: security_bits,
            min: MIN_BITS,
        });
    }
    proof.statistics.check(&key.config, 1 << shape.token)?;

    // Commitments before any challenge.
    let policy = TracePolicy::of(&shape);
    let mut transcript = open_transcript(&model, &key.weights, policy, &proof.statement);
    let sizes = stark::column_sizes(&shape);
    let scheme = stark::open_scheme(policy, key.tables_root(policy), &sizes, &proof.stark, &mut transcript)?;
    absorb_statistics(&proof.statistics, &mut transcript);

    // Matmuls.
    let points = Points::new(&shape, transcript.challenges("points", Points::count(&shape)));
    let public = Public {
        shape: &shape,
        params: &key.params,
        statement: &proof.statement,
        statistics: &proof.statistics,
        points: &points,
    };
    let product_point = verify_matmuls(&public, proof, &mut transcript)?;
    let families = weight_families(&mut transcript);

    // Linear claims.
    let mut claims = public.trace_claims(proof.matmuls.claim);
    claims.extend(public.operand_claims(&product_point, &proof.matmuls.operands));
    let batch = batch(claims, transcript.challenge("claims"));
    let point = verify_linear(&shape, &batch, proof, &mut transcript)?;

    // Weights.
    let gamma = public.tile_coefficients(&product_point, &families);
    let value = weight_claim(&proof.matmuls.operands, &families);
    let local = public.local_point(&product_point);
    let policy = opening_policy(&key.weights);
    opening::verify(
        &key.weights,
        &policy,
        &key.weights_root,
        &gamma,
        &local,
        value,
        &proof.opening,
        &mut transcript,
    )?;

    // Aggregator.
    let claim = StarkClaim {
        shape: &shape,
        batch: &batch,
        point: &point,
        evaluations: &proof.evaluations,
        claimed_sums: &proof.claimed_sums,
    };
    stark::verify(&claim, scheme, &sizes, &proof.stark, &mut transcript)?;
    Ok(Verified {
        model,
        statement: proof.statement.clone(),
        security_bits,
    })
}

/// Section 5 and 6: all matmuls; returns the end point of their sumcheck.
fn verify_matmuls(
    public: &Public<'_>,
    proof: &Proof,
    transcript: &mut Transcript,
) -> Result<Vec<SecureField>, VerifyError> {
    let matmuls = &proof.matmuls;
    let variables = product_variables(public.shape) as usize;
    let end = sumcheck::verify("matmuls", matmuls.claim, variables, &matmuls.sumcheck, transcript)?;
    let mut value = SecureField::default();
    for (product, [a, b]) in PRODUCTS.into_iter().zip(matmuls.operands) {
        value += instance_scale(variables, product.variables(public.shape) as usize) * a * b;
    }
    if value != end.value {
        return Err(VerifyError::Matmuls);
    }
    let [.., embed, _, _] = matmuls.operands;
    if embed[0] != public.embed_operand(&end.point) {
        return Err(VerifyError::Embedding);
    }
    absorb_operands(&matmuls.operands, transcript);
    Ok(end.point)
}

/// Absorbs the final evaluations of the matmul sumcheck.
pub fn absorb_operands(operands: &[[SecureField; 2]; 6], transcript: &mut Transcript) {
    transcript.message("operands", operands.as_flattened());
}

/// Random weights of the four weighted products in the claim on the weights.
pub fn weight_families(transcript: &mut Transcript) -> [SecureField; 4] {
    let challenge = transcript.challenge("weight families");
    let mut power = challenge;
    std::array::from_fn(|_| {
        let own = power;
        power *= challenge;
        own
    })
}

/// Value of the claim on the weights.
pub fn weight_claim(operands: &[[SecureField; 2]; 6], families: &[SecureField; 4]) -> SecureField {
    let values = PRODUCTS
        .iter()
        .zip(operands)
        .filter(|(p, _)| WEIGHTED.contains(p))
        .map(|(_, [_, v])| *v);
    values
        .zip(families)
        .fold(SecureField::default(), |sum, (v, f)| sum + v * *f)
}

/// Section 7: the batch of linear claims; returns the end point of its sumcheck.
fn verify_linear(
    shape: &Shape,
    batch: &Batch,
    proof: &Proof,
    transcript: &mut Transcript,
) -> Result<Vec<SecureField>, VerifyError> {
    let claimed: Vec<Part> = PARTS.into_iter().filter(|p| *p != Part::Tables).collect();
    if proof.evaluations.len() != claimed.len() {
        let (got, expected) = (proof.evaluations.len(), claimed.len());
        return Err(VerifyError::Evaluations {
            what: "parts",
            got,
            expected,
        });
    }
    for (part, values) in claimed.iter().zip(&proof.evaluations) {
        let expected = batch.columns(*part).len();
        if values.len() != expected {
            return Err(VerifyError::Evaluations {
                what: "columns of a part",
                got: values.len(),
                expected,
            });
        }
    }
    let variables = linear_variables(shape);
    let end = sumcheck::verify("claims", batch.value, variables, &proof.linear, transcript)?;
    let mut value = SecureField::default();
    for (part, values) in claimed.iter().zip(&proof.evaluations) {
        let log_rows = shape.log_rows(*part);
        let own = suffix(&end.point, log_rows);
        value += instance_scale(variables, log_rows as usize) * batch.eval(*part, own, values);
    }
    if value != end.value {
        return Err(VerifyError::Linear);
    }
    transcript.message("evaluations", &proof.evaluations.concat());
    Ok(end.point)
}

/// Number of variables of the linear sumcheck: the tallest part with claims.
pub fn linear_variables(shape: &Shape) -> usize {
    PARTS
        .iter()
        .filter(|p| **p != Part::Tables)
        .map(|p| shape.log_rows(*p))
        .max()
        .unwrap_or(0) as usize
}
