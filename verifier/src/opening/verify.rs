//! Verification of an opening (docs/protocol.md, section 10).

use num_traits::{One, Zero};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;

use super::error::{length, Code, OpeningError, TreeName};
use super::merkle::{hash_base_leaf, hash_secure_leaf, verify_batch, CommittedTree, Digest};
use super::multilinear::{eq_eval, eq_table, evaluate, next_claim, Round};
use super::params::{CommitmentParams, FIBRE, FOLD_LOG};
use super::proof::{Claimed, CodeOpening, OpeningProof, OracleOpening};
use super::{circle, lift};
use crate::policy::OpeningPolicy;
use crate::suite::Suite;
use crate::transcript::Transcript;

/// Absorbs what is opened of a commitment and under which rules; the first step of both sides. Coefficients are not absorbed: they
/// follow from what is absorbed already (docs/security.md, lemma 23).
pub fn absorb_statement(transcript: &mut Transcript, policy: &OpeningPolicy, claimed: &Claimed<'_>) {
    let Claimed {
        commitment,
        root,
        claim,
    } = claimed;
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
    transcript.message("opening point", claim.local_point);
    transcript.message("opening value", &[claim.value]);
}

/// Draws the distinct fibres of the longer code to open, in increasing order.
pub fn draw_leaves(transcript: &mut Transcript, long: &CommitmentParams, policy: &OpeningPolicy) -> Vec<usize> {
    let mut leaves = transcript.positions("opening queries", policy.queries, long.log_leaves());
    leaves.sort_unstable();
    leaves.dedup();
    leaves
}

/// A value that the next oracle must hold at an index.
type Expected = (usize, SecureField);

/// Checks that what is committed to, the weights first, then the activations, satisfies what is claimed of it.
pub fn verify(
    policy: &OpeningPolicy,
    claimed: &[Claimed<'_>; 2],
    proof: &OpeningProof,
    transcript: &mut Transcript,
) -> Result<(), OpeningError> {
    policy.check()?;
    let long = check_codes(claimed)?;
    for (claimed, (_, own)) in claimed.iter().zip(proof.codes()) {
        check_own_shape(claimed, own)?;
    }
    check_shape(&long, proof)?;
    proof.check_canonical()?;

    for claimed in claimed {
        absorb_statement(transcript, policy, claimed);
    }
    let [weights, activations] = claimed;
    let [(code, weights_proof), (other, activations_proof)] = proof.codes();
    let ends = [
        band_sumcheck(code, weights, weights_proof, transcript)?,
        band_sumcheck(other, activations, activations_proof, transcript)?,
    ];
    let point = join_sumcheck(&ends, proof, transcript)?;
    let iota = transcript.challenge("opening sum");
    let folds = fold_sumcheck(&long, &point, iota, proof, transcript)?;

    if !transcript.work("opening work", policy.work_bits, proof.nonce) {
        return Err(OpeningError::Work {
            bits: policy.work_bits,
            nonce: proof.nonce,
        });
    }
    let positions = draw_leaves(transcript, &long, policy);
    let mut expected: Vec<Expected> = positions.into_iter().map(|p| (p, SecureField::zero())).collect();
    let scales = [SecureField::one(), iota];
    for (((claimed, own), end), scale) in claimed.iter().zip(proof.codes()).zip(&ends).zip(scales) {
        add_rows(transcript.suite(), &mut expected, &long, scale, claimed, own, end)?;
    }
    check_oracles(transcript.suite(), &long, &folds, expected, proof)
}

/// Checks that both codes are ones that can be opened together, and returns that of the sum.
fn check_codes([weights, activations]: &[Claimed<'_>; 2]) -> Result<CommitmentParams, OpeningError> {
    for claimed in [weights, activations] {
        claimed.commitment.check()?;
        claimed.claim.columns.check()?;
    }
    let (weights, activations) = (&weights.commitment, &activations.commitment);
    match weights.log_blowup == activations.log_blowup {
        true => Ok(lift::longer(weights, activations)),
        false => Err(OpeningError::Rates {
            weights: weights.log_blowup,
            activations: activations.log_blowup,
        }),
    }
}

/// Checks the lengths of what there is of one commitment.
fn check_own_shape(claimed: &Claimed<'_>, own: &CodeOpening) -> Result<(), OpeningError> {
    let (claim, columns) = (&claimed.claim, &claimed.claim.columns);
    length("gamma", claim.gamma.len(), columns.bands().len())?;
    length("local point", claim.local_point.len(), columns.log_area() as usize)?;
    length("band sumcheck", own.band_rounds.len(), columns.log_bands() as usize)
}

/// Checks every other length that does not depend on the queries.
fn check_shape(long: &CommitmentParams, proof: &OpeningProof) -> Result<(), OpeningError> {
    let (variables, oracles) = (long.log_folded(), long.oracles().count());
    length("join sumcheck", proof.join_rounds.len(), variables as usize)?;
    let folds = variables.saturating_sub(long.log_final());
    length("folding sumcheck", proof.fold_rounds.len(), folds as usize)?;
    length("roots of folded oracles", proof.roots.len(), oracles)?;
    length("final message", proof.final_message.len(), 1 << long.log_final())?;
    length("opened folded oracles", proof.oracles.len(), oracles)
}

/// What the band sumcheck of a commitment ends in: a claim on a combination of its columns, folded once.
struct End {
    /// Weights of all columns of the commitment.
    weights: Vec<SecureField>,
    /// The challenge of the first fold.
    fold: SecureField,
    /// Where the folded combination is evaluated.
    point: Vec<SecureField>,
    /// What it is claimed to be there.
    value: SecureField,
}

/// Steps 1 and 2: from the batch of evaluations of bands to one evaluation. The last coordinate of the local point was drawn
/// after the commitment, and the claim with this variable bound to it is the same claim.
fn band_sumcheck(
    code: Code,
    claimed: &Claimed<'_>,
    own: &CodeOpening,
    transcript: &mut Transcript,
) -> Result<End, OpeningError> {
    let (claim, columns) = (&claimed.claim, &claimed.claim.columns);
    let mut value = claim.value;
    let rho = rounds(
        &mut value,
        &own.band_rounds,
        ["opening band round", "opening band challenge"],
        transcript,
    );
    transcript.message("opening evaluation", &[own.band_value]);
    if evaluate(claim.gamma, &rho) * own.band_value != value {
        return Err(OpeningError::BandClaim { code });
    }
    let (column_point, band_point) = rho
        .split_at_checked(columns.params.log_columns() as usize)
        .unwrap_or((&rho, &[]));
    // The other columns of the commitment have no weight.
    let mut weights = vec![SecureField::zero(); columns.first];
    weights.extend(eq_table(column_point).into_iter().take(columns.params.columns()));
    let (&fold, rest) = claim.local_point.split_last().unwrap_or((&value, &[]));
    Ok(End {
        weights,
        fold,
        point: [band_point, rest].concat(),
        value: own.band_value,
    })
}

/// Absorbs the rounds of a sumcheck under the labels of a round and of its challenge, and replaces the claim by the last one.
/// Returns the challenges.
fn rounds(
    claim: &mut SecureField,
    rounds: &[Round],
    [message, challenge]: [&str; 2],
    transcript: &mut Transcript,
) -> Vec<SecureField> {
    let bind = |round: &Round| {
        transcript.message(message, round);
        let r = transcript.challenge(challenge);
        *claim = next_claim(*claim, *round, r);
        r
    };
    rounds.iter().map(bind).collect()
}

/// Step 3: takes both claims to one point, which it returns.
fn join_sumcheck(
    [weights, activations]: &[End; 2],
    proof: &OpeningProof,
    transcript: &mut Transcript,
) -> Result<Vec<SecureField>, OpeningError> {
    let beta = transcript.challenge("opening join");
    let mut claim = weights.value + beta * activations.value;
    let mut point = rounds(
        &mut claim,
        &proof.join_rounds,
        ["opening join round", "opening join challenge"],
        transcript,
    );
    // The least significant variable was bound first.
    point.reverse();
    let values = [proof.weights.joined_value, proof.activations.joined_value];
    transcript.message("opening joined values", &values);
    let [of_weights, of_activations] =
        lift::extend([&weights.point, &activations.point]).map(|own| eq_eval(own.iter(), point.iter()));
    match of_weights * values[0] + beta * of_activations * values[1] == claim {
        true => Ok(point),
        false => Err(OpeningError::JoinClaim),
    }
}

/// Step 4, interactive part: the sumcheck for `v~(point)` and the commitments to the folded oracles. Returns the folding
/// challenges.
fn fold_sumcheck(
    long: &CommitmentParams,
    point: &[SecureField],
    iota: SecureField,
    proof: &OpeningProof,
    transcript: &mut Transcript,
) -> Result<Vec<SecureField>, OpeningError> {
    let mut claim = proof.weights.joined_value + iota * proof.activations.joined_value;
    let mut challenges = Vec::with_capacity(proof.fold_rounds.len());
    let mut roots = long.oracles().zip(&proof.roots).peekable();
    let mut absorb = |variables: u32, transcript: &mut Transcript| {
        if let Some((_, root)) = roots.next_if(|(oracle, _)| *oracle == variables) {
            transcript.bytes("opening oracle", root);
        }
    };
    absorb(long.log_folded(), transcript);
    for (round, variables) in proof.fold_rounds.iter().zip((0..long.log_folded()).rev()) {
        transcript.message("opening fold round", round);
        let r = transcript.challenge("opening fold challenge");
        claim = next_claim(claim, *round, r);
        challenges.push(r);
        absorb(variables, transcript);
    }
    transcript.message("opening final message", &proof.final_message);

    // The challenges have bound the last coordinates, from the last one on.
    let (rest, _) = point
        .split_at_checked(long.log_final() as usize)
        .unwrap_or((point, &[]));
    let bound = eq_eval(challenges.iter(), point.iter().rev());
    match bound * evaluate(&proof.final_message, rest) == claim {
        true => Ok(challenges),
        false => Err(OpeningError::FoldClaim),
    }
}

/// Step 5: opens the rows of a commitment and adds, `scale` times, the lifted and folded combination of its columns to the
/// values of the virtual first oracle.
fn add_rows(
    suite: Suite,
    expected: &mut [Expected],
    long: &CommitmentParams,
    scale: SecureField,
    claimed: &Claimed<'_>,
    (code, own): (Code, &CodeOpening),
    end: &End,
) -> Result<(), OpeningError> {
    let params = &claimed.commitment;
    let lifted = long.log_message.saturating_sub(params.log_message);
    let mut leaves: Vec<usize> = expected.iter().map(|(position, _)| position >> lifted).collect();
    leaves.dedup();
    let rows = open_rows((suite, code), params, &claimed.root, &leaves, own)?;
    let mut rows = leaves.into_iter().zip(rows).peekable();
    let mut folded = None;
    for (position, sum) in expected {
        while let Some((leaf, values)) = rows.next_if(|(leaf, _)| *leaf <= *position >> lifted) {
            let (a, b) = combine_columns(values, &end.weights);
            let y = circle::circle_fibre(params.log_leaves(), leaf);
            folded = Some(scale * circle::fold_pair(a, b, y, end.fold));
        }
        *sum += folded.unwrap_or_default() * lift::factor(long.log_leaves(), *position, lifted);
    }
    Ok(())
}

/// Checks the opened leaves of a committed tree and returns their values, leaf by leaf.
fn open_rows<'a>(
    (suite, code): (Suite, Code),
    params: &CommitmentParams,
    root: &Digest,
    leaves: &[usize],
    own: &'a CodeOpening,
) -> Result<impl Iterator<Item = &'a [BaseField]>, OpeningError> {
    let tree = TreeName::Committed(code);
    let leaf_len = params.columns() * FIBRE;
    let (got, expected) = (own.rows.values.len(), leaves.len() * leaf_len);
    if got != expected {
        return Err(OpeningError::OpenedValues { tree, got, expected });
    }
    let values = || own.rows.values.chunks_exact(leaf_len);
    let digests = values().map(|leaf| hash_base_leaf(suite, leaf));
    let digests = leaves.iter().copied().zip(digests).collect();
    let committed = CommittedTree {
        name: tree,
        suite,
        root,
        depth: params.log_leaves(),
    };
    verify_batch(&committed, digests, &own.rows.path)?;
    Ok(values())
}

/// The two values of the combination of all columns in a leaf.
fn combine_columns(leaf: &[BaseField], column_weights: &[SecureField]) -> (SecureField, SecureField) {
    let zero = (SecureField::zero(), SecureField::zero());
    leaf.chunks_exact(FIBRE)
        .zip(column_weights)
        .fold(zero, |(a, b), (pair, &weight)| match *pair {
            [p, q] => (a + weight * p, b + weight * q),
            _ => (a, b),
        })
}

/// Step 5: follows every query from the virtual oracle through the folded ones to the final message.
fn check_oracles(
    suite: Suite,
    long: &CommitmentParams,
    challenges: &[SecureField],
    mut expected: Vec<Expected>,
    proof: &OpeningProof,
) -> Result<(), OpeningError> {
    let folds = challenges.chunks_exact(FOLD_LOG as usize);
    for (i, (((variables, challenges), root), opening)) in long
        .oracles()
        .zip(folds)
        .zip(&proof.roots)
        .zip(&proof.oracles)
        .enumerate()
    {
        let log_line = variables + long.log_blowup;
        expected = open_oracle((suite, i), log_line, root, challenges, &expected, opening)?;
    }
    let log_line = long.log_final() + long.log_blowup;
    for (position, value) in expected {
        let x = circle::line_coordinate(log_line, position);
        if circle::evaluate_line(&proof.final_message, x) != Some(value) {
            return Err(OpeningError::FinalMessage { position });
        }
    }
    Ok(())
}

/// Checks the opened leaves of one folded oracle, in which the values `expected` (increasing positions) are not sent, as they
/// follow from the oracle before. Returns the values that the oracle after it must hold.
fn open_oracle(
    (suite, oracle): (Suite, usize),
    log_line: u32,
    root: &Digest,
    challenges: &[SecureField],
    expected: &[Expected],
    opening: &OracleOpening,
) -> Result<Vec<Expected>, OpeningError> {
    let tree = TreeName::Oracle(oracle);
    let mut indices: Vec<usize> = expected.iter().map(|(position, _)| position >> FOLD_LOG).collect();
    indices.dedup();
    let (got, all) = (opening.values.len(), indices.len() << FOLD_LOG);
    let length = OpeningError::OpenedValues {
        tree,
        got,
        expected: all.saturating_sub(expected.len()),
    };
    if got + expected.len() != all {
        return Err(length);
    }
    let (mut known, mut sent) = (expected.iter().peekable(), opening.values.iter());
    let mut value = |position| match known.next_if(|(own, _)| *own == position) {
        Some((_, value)) => Some(*value),
        None => sent.next().copied(),
    };
    let mut leaf = |index: usize| {
        (index << FOLD_LOG..(index + 1) << FOLD_LOG)
            .map_while(&mut value)
            .collect()
    };
    let leaves: Vec<(usize, Vec<SecureField>)> = indices.into_iter().map(|index| (index, leaf(index))).collect();
    let digests = leaves
        .iter()
        .map(|(index, leaf)| (*index, hash_secure_leaf(suite, leaf)))
        .collect();
    let committed = CommittedTree {
        name: tree,
        suite,
        root,
        depth: log_line - FOLD_LOG,
    };
    verify_batch(&committed, digests, &opening.path)?;

    let folded = leaves.into_iter().map(|(index, leaf)| {
        let coordinates = circle::line_fibre(log_line, index, FOLD_LOG);
        Some((index, circle::fold_leaf(&leaf, &coordinates, challenges)?))
    });
    folded.collect::<Option<_>>().ok_or(length)
}
