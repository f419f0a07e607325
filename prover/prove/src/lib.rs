//! Proves that a model generates a text, from a record of its forward pass (docs/protocol.md): the phases of `chunk.rs`, in the same order as the
//! verifier's `verifier/src/verify/chunk.rs`. A verifier trusts nothing here, because a wrong prover only makes proofs that verifiers reject.
#![feature(portable_simd)]

pub mod activations;
pub mod bind;
pub mod boundary;
pub mod check;
mod chunk;
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
mod model;
pub mod opening;
pub mod ops;
mod options;
mod report;
pub mod reveal;
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

use tessera_circuits::chunk::{Boundary, Chunk, Ends};
use tessera_circuits::shape::{LeafLimits, Shape};
use tessera_circuits::statement::Statement;
use tessera_model::forward::{ForwardState, Input};
use tessera_model::generate::{generate, generate_recorded, GenerateOptions};
use tessera_support::progress::{Progress, Silent};
use tessera_verifier::context::Context;
use tessera_verifier::hiding::HiddenProof;
use tessera_verifier::key::ModelKey;
use tessera_verifier::ledger::{hidden_security_bits, revealed_security_bits, security_bits};
use tessera_verifier::policy::MIN_BITS;
use tessera_verifier::proof::{ChunkProof, Proof};
use tessera_verifier::reveal::proof_digest;
use tessera_verifier::verify::{hidden_code, ChunkStatement, VerifyError};

pub use self::error::ProveError;
pub use self::model::ProverModel;
pub use self::options::{Admits, ProofOptions};
pub use self::report::{ProveReport, ProvedChunk};

pub use self::boundary::public_boundary;

use self::boundary::Boundaries;
use self::chunk::{checked, unchecked, Made};
use self::column::Column;
use self::hiding::{Kept, KeptOnce, NoRandomness, Secrets, TapeKey};
use self::run::Run;
use self::stopwatch::Stopwatch;

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

/// How many values are clipped on a statement whose output the model is known to generate: a proof that hides anything is refused unless there are none.
pub fn count_clips(model: &ProverModel<'_>, statement: &Statement) -> Result<usize, ProveError> {
    let chunk = Chunk::whole(model.key.config.layers);
    let claim = ChunkStatement::whole(model.key, &model.id, statement, &chunk, None);
    let mut watch = Stopwatch::new(&Silent);
    let run = Run::of(model.placed(), &claim, statement, true, None, None, &mut watch)?;
    Ok(run.statistics.clips.len())
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
    let Made { proof, saturated, .. } = checked(
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
/// the trace, part by part. `witness` has the ids that the claim hides. Returns the secret that reveals need, too, if the proof leaves room for any.
#[doc(hidden)]
pub fn prove_with_secrets(
    model: &ProverModel<'_>,
    claim: &ChunkStatement<'_>,
    witness: &Statement,
    secrets: Secrets,
    change: &dyn Fn(&Shape, &mut [Vec<Column>]),
) -> Result<(ChunkProof, HiddenProof, Option<Kept>), ProveError> {
    let mut watch = Stopwatch::new(&Silent);
    let mut run = Run::of(model.placed(), claim, witness, true, None, None, &mut watch)?;
    change(&run.shape, &mut run.columns);
    let asked = (LeafLimits::OF_STATEMENTS, Some(&secrets));
    let (made, _) = unchecked(model, claim, Boundaries::default(), run, asked, &mut watch)?;
    Ok((made.proof, made.hidden.unwrap_or_default(), made.kept))
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
        reveals,
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
            let code = hidden_code(&claim, limits, reveals).map_err(ProveError::Hiding)?;
            let bits = hidden_security_bits(model.key, statement.lengths(), reveals);
            let bits = bits.ok_or(ProveError::Hiding(VerifyError::HiddenCode))?;
            // With all reveals, because a verifier who is given all of them adds up their errors.
            let least = match reveals {
                0 => Some(bits),
                _ => revealed_security_bits(model.key, statement.lengths(), reveals),
            };
            enough(statement.rows(), least.unwrap_or_default())?;
            (bits, Some(code))
        }
    };
    let draw = |code| {
        let key = TapeKey::fresh(&claim, &witness, &code)?;
        Ok::<_, NoRandomness>(Secrets::draw(code, &key))
    };
    let secrets = code.map(draw).transpose()?;
    let asked = (&witness, recorded, without_clips, secrets.as_ref());
    let made = checked(model, &claim, Boundaries::default(), limits, asked, &mut watch)?;
    drop(secrets);
    let proof = Proof {
        model: model.id,
        statement,
        boundaries: Vec::new(),
        chunks: vec![made.proof],
        context,
        hidden: made.hidden,
    };
    let bytes = proof.to_bytes()?;
    watch.done();
    Ok(ProveReport {
        statement: witness,
        proof,
        digest: proof_digest(key.header.hash_suite, &bytes),
        bytes,
        phases: watch.phases,
        weights: watch.weights,
        kept: made.kept.map(KeptOnce::new),
        saturated: made.saturated,
        security_bits,
    })
}
