//! Verification of an opening (docs/protocol.md, section 10).

use num_traits::Zero;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;

use super::circle;
use super::error::{length, OpeningError, TreeName};
use super::merkle::{hash_base_leaf, hash_secure_leaf, verify_batch, Digest};
use super::multilinear::{eq_eval, eq_table, evaluate, next_claim};
use super::params::{CommitmentParams, FIBRE, FOLD_LOG};
use super::proof::{OpeningClaim, OpeningProof, OracleOpening};
use crate::policy::OpeningPolicy;
use crate::transcript::Transcript;

/// Absorbs what is opened and under which rules; the first step of both sides.
pub fn absorb_statement(
    transcript: &mut Transcript,
    commitment: &CommitmentParams,
    policy: &OpeningPolicy,
    root: &Digest,
    claim: &OpeningClaim<'_>,
) {
    transcript.words(
        "opening parameters",
        &[
            commitment.tiles as u32,
            commitment.log_message,
            commitment.log_blowup,
            policy.queries as u32,
            policy.work_bits,
            claim.columns.first as u32,
            claim.columns.params.tiles as u32,
            claim.columns.log_band,
        ],
    );
    transcript.bytes("opening root", root);
    transcript.message("opening gamma", claim.gamma);
    transcript.message("opening point", claim.local_point);
    transcript.message("opening value", &[claim.value]);
}

/// Draws the distinct leaves of the weight tree to open, in increasing order.
pub fn draw_leaves(transcript: &mut Transcript, params: &CommitmentParams, policy: &OpeningPolicy) -> Vec<usize> {
    let mut leaves = transcript.positions("opening queries", policy.queries, params.log_leaves());
    leaves.sort_unstable();
    leaves.dedup();
    leaves
}

/// A value that the next oracle must hold at an index.
type Expected = (usize, SecureField);

/// Checks that the weights committed to by `root` satisfy `claim`, whose columns are some of the commitment's
/// ([`CommitmentParams::columns_of`]).
pub fn verify(
    commitment: &CommitmentParams,
    policy: &OpeningPolicy,
    root: &Digest,
    claim: &OpeningClaim<'_>,
    proof: &OpeningProof,
    transcript: &mut Transcript,
) -> Result<(), OpeningError> {
    let params = &claim.columns.params;
    commitment.check()?;
    claim.columns.check()?;
    policy.check()?;
    check_shape(claim, proof)?;
    proof.check_canonical()?;

    absorb_statement(transcript, commitment, policy, root, claim);
    let rho = band_sumcheck(claim, proof, transcript)?;
    let (column_point, band_point) = rho
        .split_at_checked(params.log_columns() as usize)
        .unwrap_or((&rho, &[]));
    let point: Vec<SecureField> = band_point.iter().chain(claim.local_point).copied().collect();
    let challenges = fold_sumcheck(params, &point, proof, transcript)?;

    if !transcript.check_work(policy.work_bits, proof.nonce) {
        return Err(OpeningError::Work {
            bits: policy.work_bits,
            nonce: proof.nonce,
        });
    }
    transcript.nonce("opening work", proof.nonce);
    let leaves = draw_leaves(transcript, params, policy);
    // The other columns of the commitment have no weight.
    let mut weights = vec![SecureField::zero(); claim.columns.first];
    weights.extend(eq_table(column_point).into_iter().take(params.columns()));
    check_queries(commitment, root, &weights, &challenges, &leaves, proof)
}

/// Checks every length that does not depend on the queries.
fn check_shape(claim: &OpeningClaim<'_>, proof: &OpeningProof) -> Result<(), OpeningError> {
    let (columns, params) = (&claim.columns, &claim.columns.params);
    let oracles = params.oracles().count();
    length("gamma", claim.gamma.len(), columns.bands().len())?;
    length("local point", claim.local_point.len(), columns.log_area() as usize)?;
    length("band sumcheck", proof.band_rounds.len(), columns.log_bands() as usize)?;
    length(
        "folding sumcheck",
        proof.fold_rounds.len(),
        (params.log_message - params.log_final()).saturating_sub(1) as usize,
    )?;
    length("roots of folded oracles", proof.roots.len(), oracles)?;
    length("final message", proof.final_message.len(), 1 << params.log_final())?;
    length("opened folded oracles", proof.oracles.len(), oracles)
}

/// Step 1: from the batch of evaluations of bands to one evaluation. Returns the point `rho` of the band index.
fn band_sumcheck(
    claim: &OpeningClaim<'_>,
    proof: &OpeningProof,
    transcript: &mut Transcript,
) -> Result<Vec<SecureField>, OpeningError> {
    let OpeningClaim { gamma, value, .. } = *claim;
    let mut claim = value;
    let mut rho = Vec::with_capacity(proof.band_rounds.len());
    for round in &proof.band_rounds {
        transcript.message("opening band round", round);
        let r = transcript.challenge("opening band challenge");
        claim = next_claim(claim, *round, r);
        rho.push(r);
    }
    transcript.message("opening evaluation", &[proof.band_value]);
    match evaluate(gamma, &rho) * proof.band_value == claim {
        true => Ok(rho),
        false => Err(OpeningError::BandClaim),
    }
}

/// Step 3, interactive part: the sumcheck for `u~(point) = band_value` and the commitments to the folded
/// oracles. Returns the folding challenges, of which the first is the last coordinate of the point: it was drawn after the
/// commitment to the weights, and the claim with this variable bound to it needs no round.
fn fold_sumcheck(
    params: &CommitmentParams,
    point: &[SecureField],
    proof: &OpeningProof,
    transcript: &mut Transcript,
) -> Result<Vec<SecureField>, OpeningError> {
    let mut claim = proof.band_value;
    let (&first, point) = point.split_last().unwrap_or((&claim, &[]));
    let mut challenges = Vec::with_capacity(proof.fold_rounds.len() + 1);
    challenges.push(first);
    let mut roots = params.oracles().zip(&proof.roots).peekable();
    let mut absorb = |variables: u32, transcript: &mut Transcript| {
        if let Some((_, root)) = roots.next_if(|(oracle, _)| *oracle == variables) {
            transcript.bytes("opening oracle", root);
        }
    };
    let bound = params.log_message.saturating_sub(1);
    absorb(bound, transcript);
    for (round, variables) in proof.fold_rounds.iter().zip((0..bound).rev()) {
        transcript.message("opening fold round", round);
        let r = transcript.challenge("opening fold challenge");
        claim = next_claim(claim, *round, r);
        challenges.push(r);
        absorb(variables, transcript);
    }
    transcript.message("opening final message", &proof.final_message);

    // The other challenges have bound the last coordinates that were left, from the last one on.
    let (rest, _) = point
        .split_at_checked(params.log_final() as usize)
        .unwrap_or((point, &[]));
    let bound = eq_eval(challenges.iter().skip(1), point.iter().rev());
    match bound * evaluate(&proof.final_message, rest) == claim {
        true => Ok(challenges),
        false => Err(OpeningError::FoldClaim),
    }
}

/// Step 3, queries: opens the weight rows, forms the virtual oracle, and follows every query through the
/// folded oracles to the final message.
fn check_queries(
    params: &CommitmentParams,
    root: &Digest,
    column_weights: &[SecureField],
    challenges: &[SecureField],
    leaves: &[usize],
    proof: &OpeningProof,
) -> Result<(), OpeningError> {
    let (first, folds) = challenges
        .split_first()
        .map_or((SecureField::zero(), [].as_slice()), |(f, r)| (*f, r));
    let mut expected = open_rows(params, root, column_weights, first, leaves, proof)?;
    let folds = folds.chunks_exact(FOLD_LOG as usize);
    for (i, (((variables, challenges), root), opening)) in params
        .oracles()
        .zip(folds)
        .zip(&proof.roots)
        .zip(&proof.oracles)
        .enumerate()
    {
        let log_line = variables + params.log_blowup;
        expected = open_oracle(i, log_line, root, challenges, &expected, opening)?;
    }
    let log_line = params.log_final() + params.log_blowup;
    for (position, value) in expected {
        let x = circle::line_coordinate(log_line, position);
        if circle::evaluate_line(&proof.final_message, x) != Some(value) {
            return Err(OpeningError::FinalMessage { position });
        }
    }
    Ok(())
}

/// Checks the opened weight rows and returns the values that the first folded oracle must hold.
fn open_rows(
    params: &CommitmentParams,
    root: &Digest,
    column_weights: &[SecureField],
    challenge: SecureField,
    leaves: &[usize],
    proof: &OpeningProof,
) -> Result<Vec<Expected>, OpeningError> {
    let tree = TreeName::Committed;
    let leaf_len = params.columns() * FIBRE;
    let (got, expected) = (proof.rows.values.len(), leaves.len() * leaf_len);
    if got != expected {
        return Err(OpeningError::OpenedValues { tree, got, expected });
    }
    let opened = || leaves.iter().copied().zip(proof.rows.values.chunks_exact(leaf_len));
    let digests = opened().map(|(leaf, values)| (leaf, hash_base_leaf(values))).collect();
    verify_batch(tree, root, params.log_leaves(), digests, &proof.rows.path)?;
    Ok(opened()
        .map(|(leaf, values)| {
            let (a, b) = combine_columns(values, column_weights);
            let y = circle::circle_fibre(params.log_leaves(), leaf);
            (leaf, circle::fold_pair(a, b, y, challenge))
        })
        .collect())
}

/// The two values of the virtual oracle in a leaf of the weight tree.
fn combine_columns(leaf: &[BaseField], column_weights: &[SecureField]) -> (SecureField, SecureField) {
    let zero = (SecureField::zero(), SecureField::zero());
    leaf.chunks_exact(FIBRE)
        .zip(column_weights)
        .fold(zero, |(a, b), (pair, &weight)| match *pair {
            [p, q] => (a + weight * p, b + weight * q),
            _ => (a, b),
        })
}

/// Checks the opened leaves of one folded oracle against the values `expected` in it (increasing
/// positions), and returns the values that the oracle after it must hold.
fn open_oracle(
    oracle: usize,
    log_line: u32,
    root: &Digest,
    challenges: &[SecureField],
    expected: &[Expected],
    opening: &OracleOpening,
) -> Result<Vec<Expected>, OpeningError> {
    let tree = TreeName::Oracle(oracle);
    let mut leaves: Vec<usize> = expected.iter().map(|(position, _)| position >> FOLD_LOG).collect();
    leaves.dedup();
    let (got, wanted) = (opening.values.len(), leaves.len() << FOLD_LOG);
    if got != wanted {
        return Err(OpeningError::OpenedValues {
            tree,
            got,
            expected: wanted,
        });
    }
    let opened = || leaves.iter().copied().zip(opening.values.chunks_exact(1 << FOLD_LOG));
    let digests = opened()
        .map(|(leaf, values)| (leaf, hash_secure_leaf(values)))
        .collect();
    verify_batch(tree, root, log_line - FOLD_LOG, digests, &opening.path)?;

    let mut pending = expected.iter().peekable();
    let mut folded = Vec::with_capacity(leaves.len());
    for (leaf, values) in opened() {
        while let Some(&(position, value)) = pending.next_if(|(position, _)| position >> FOLD_LOG == leaf) {
            if values.get(position % (1 << FOLD_LOG)) != Some(&value) {
                return Err(OpeningError::Fold { oracle, position });
            }
        }
        let coordinates = circle::line_fibre(log_line, leaf, FOLD_LOG);
        let value = circle::fold_leaf(values, &coordinates, challenges).ok_or(OpeningError::OpenedValues {
            tree,
            got,
            expected: wanted,
        })?;
        folded.push((leaf, value));
    }
    match pending.next() {
        None => Ok(folded),
        Some(&(position, _)) => Err(OpeningError::Fold { oracle, position }),
    }
}
