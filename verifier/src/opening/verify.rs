//! Verification of an opening (docs/protocol.md, section 10).

use std::iter::successors;

use num_traits::{One, Zero};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;

use tessera_circuits::mle::{eq_table, eval_padded};
use tessera_circuits::scalar::Scalar as _;

use super::claim::{Claim, Commitment};
use super::error::{length, OpeningError, TreeName};
use super::merkle::{hash_base_leaf, hash_secure_leaf, verify_batch, CommittedTree};
use super::params::{CommitmentParams, Layout, FIBRE, FOLD_LOG};
use super::policy::OpeningPolicy;
use super::proof::{unread, CodeOpening, LeafOpening, OpeningProof, OracleOpening, ProofParts};
use super::{circle, lift};
use crate::labels::{
    BAND_ROUND, COLUMN_WORK, CROSS_VALUES, EVALUATION, FINAL_MESSAGE, FOLD_ROUND, FOLD_WORK, ORACLE, SUM, SUM_WORK,
};
use crate::message::Unread;
use crate::policy::WORKED_FOLDS;
use crate::suite::{Digest, Suite};
use crate::sumcheck::SumcheckClaim;
use crate::transcript::Transcript;

/// Absorbs what is claimed of the commitments and under which rules; the first step of both sides. Coefficients are not absorbed:
/// they follow from what is absorbed already (docs/security.md, lemma 23).
pub fn absorb_claims<'a>(
    transcript: &mut Transcript,
    policy: &OpeningPolicy,
    claims: impl ExactSizeIterator<Item = &'a Claim<'a>>,
) {
    transcript.words("opening claims", &[claims.len() as u32]);
    for claim in claims {
        let Commitment { params, root, .. } = &claim.commitment;
        let [first, tiles, log_band] = claim.columns.words();
        transcript.words(
            "opening parameters",
            &[
                params.tiles as u32,
                params.log_message,
                params.log_blowup,
                policy.queries as u32,
                policy.grind_bits,
                first,
                tiles,
                log_band,
            ],
        );
        transcript.bytes("opening root", root);
        transcript.message("opening point", claim.point);
        transcript.message("opening value", &[claim.value]);
    }
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

/// Checks that a proof opens a list of claims. Every claim has a share in the conversation of its own and rows of its own, and no
/// claim is about more than what was committed to before its point was drawn: that is the caller's part.
pub fn verify(
    claims: &[Claim<'_>],
    proof: Unread<'_, OpeningProof>,
    transcript: &mut Transcript,
) -> Result<(), OpeningError> {
    let rate = claims.first().map_or(0, |claim| claim.commitment.params.log_blowup);
    verify_under(&OpeningPolicy::at_rate(rate), claims, proof, transcript)
}

/// As [`verify`], under another policy than the one of the rate.
pub fn verify_under(
    policy: &OpeningPolicy,
    claims: &[Claim<'_>],
    proof: Unread<'_, OpeningProof>,
    transcript: &mut Transcript,
) -> Result<(), OpeningError> {
    policy.check()?;
    let long = check_codes(claims)?;
    for claim in claims {
        check_claim(claim)?;
    }
    absorb_claims(transcript, policy, claims.iter());
    let proof = unread(proof);
    let said = exactly("openings of claims", proof.part(|p| &p.codes), claims.len())?;
    let codes = || claims.iter().zip(said.each());
    let ends = codes().map(|(claim, own)| band_sumcheck(policy, claim, own, transcript));
    let ends = ends.collect::<Result<Vec<End>, OpeningError>>()?;
    let sum = add_claims(policy, &long, &ends, proof, transcript)?;
    let folds = fold_sumcheck(policy, &long, &sum, proof, transcript)?;

    transcript.receive_work(policy.before_queries(), proof.part(|p| &p.nonce))?;
    let positions = draw_leaves(transcript, &long, policy);
    let mut expected: Vec<Expected> = positions.into_iter().map(|p| (p, SecureField::zero())).collect();
    for (((claim, own), end), scale) in codes().zip(&ends).zip(&sum.combined.scales) {
        add_rows(transcript.suite(), &mut expected, &long, *scale, claim, own, end)?;
    }
    check_oracles(transcript.suite(), &long, &folds, expected, proof)
}

/// Checks that all codes are ones that can be opened together, and returns that of the sum.
fn check_codes(claims: &[Claim<'_>]) -> Result<CommitmentParams, OpeningError> {
    let codes = || claims.iter().map(|claim| &claim.commitment.params);
    let long = lift::longest(codes()).ok_or(OpeningError::NoClaims)?;
    for claim in claims {
        claim.commitment.params.check()?;
        claim.columns.check()?;
    }
    let rates = || codes().map(|params| params.log_blowup);
    match rates().zip(rates().skip(1)).find(|(first, other)| first != other) {
        Some((first, other)) => Err(OpeningError::Rates { first, other }),
        None => Ok(long),
    }
}

/// A list of so many entries, or an error that names it.
fn exactly<'a, T>(
    what: &'static str,
    said: Unread<'a, Vec<T>>,
    expected: usize,
) -> Result<Unread<'a, [T]>, OpeningError> {
    said.exactly(expected, |got| OpeningError::Length { what, got, expected })
}

/// Checks the lengths of what is claimed of one commitment.
fn check_claim(claim: &Claim<'_>) -> Result<(), OpeningError> {
    let columns = &claim.columns;
    length("gamma", claim.gamma.len(), columns.bands().len())?;
    length("local point", claim.point.len(), columns.log_area() as usize)
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
    policy: &OpeningPolicy,
    claim: &Claim<'_>,
    own: Unread<'_, CodeOpening>,
    transcript: &mut Transcript,
) -> Result<End, OpeningError> {
    let columns = &claim.columns;
    let rounds = exactly(
        "band sumcheck",
        own.part(|p| &p.band_rounds),
        columns.log_bands() as usize,
    )?;
    let log_columns = columns.log_columns() as usize;
    let mut nonces = exactly(
        "work before weights of columns",
        own.part(|p| &p.column_work),
        log_columns,
    )?
    .each();
    let mut end = SumcheckClaim::new(claim.value);
    for said in rounds.each() {
        let work = nonces.next().map(|nonce| (policy.before_challenge(COLUMN_WORK), nonce));
        end.worked_round::<OpeningError>(BAND_ROUND, said, work, transcript)?;
    }
    let SumcheckClaim { point: rho, value } = end;
    let evaluation = *transcript.receive(EVALUATION, own.part(|p| &p.band_value))?;
    if evaluation * eval_padded(claim.gamma, &rho) != value {
        let commitment = claim.commitment.name;
        return Err(OpeningError::BandClaim { commitment });
    }
    let (column_point, band_point) = rho.split_at_checked(log_columns).unwrap_or((&rho, &[]));
    // The other columns of the commitment have no weight.
    let mut weights = vec![SecureField::zero(); columns.first];
    weights.extend(eq_table(column_point).into_iter().take(columns.params.columns()));
    let (&fold, rest) = claim.point.split_last().unwrap_or((&value, &[]));
    Ok(End {
        weights,
        fold,
        point: [band_point, rest].concat(),
        value: evaluation,
    })
}

/// The claims as claims on one column, the sum of all combined columns.
pub struct Combined {
    /// What every column is multiplied with in the sum: powers of a challenge.
    pub scales: Vec<SecureField>,
    /// Where the sum is claimed, and the weight of each place: powers of another challenge.
    pub points: Vec<(SecureField, Vec<SecureField>)>,
}

/// The pairs of a list of `claims` claims that have a cross value, in order: the claim whose point it is, and the claim whose column
/// is evaluated there.
pub fn cross(claims: usize) -> impl Iterator<Item = (usize, usize)> {
    let pairs = (0..claims).flat_map(move |point| (0..claims).map(move |column| (point, column)));
    pairs.filter(|(point, column)| point != column)
}

impl Combined {
    /// Draws what the columns and then the claims on their sum are added with. All values of columns at points are absorbed.
    pub fn draw(points: Vec<Vec<SecureField>>, transcript: &mut Transcript) -> Self {
        let [iota, theta] = SUM.map(|label| transcript.challenge(label));
        let powers = |x: SecureField| successors(Some(SecureField::one()), move |power| Some(*power * x));
        let scales = powers(iota).take(points.len()).collect();
        let points = powers(theta).zip(points).collect();
        Self { scales, points }
    }
}

/// The claim on the sum of all columns.
struct Sum {
    combined: Combined,
    value: SecureField,
}

/// Step 3: with the values of every column at the points of the other claims, all claims become claims on the sum of the columns.
/// The points are extended to the variables of the longest column.
fn add_claims(
    policy: &OpeningPolicy,
    long: &CommitmentParams,
    ends: &[End],
    proof: Unread<'_, ProofParts>,
    transcript: &mut Transcript,
) -> Result<Sum, OpeningError> {
    let pairs = cross(ends.len());
    let said = exactly("cross values", proof.part(|p| &p.cross_values), pairs.count())?;
    let mut said = transcript.receive(CROSS_VALUES, said)?.iter();
    transcript.receive_work(policy.before_challenge(SUM_WORK), proof.part(|p| &p.sum_work))?;
    let points = ends
        .iter()
        .map(|end| lift::extend(end.point.clone(), long.log_folded()));
    let combined = Combined::draw(points.collect(), transcript);
    let mut value = SecureField::zero();
    for (point, (weight, _)) in combined.points.iter().enumerate() {
        for (column, (scale, end)) in combined.scales.iter().zip(ends).enumerate() {
            let own = match point == column {
                true => Some(&end.value),
                false => said.next(),
            };
            value += *weight * *scale * own.copied().unwrap_or_default();
        }
    }
    Ok(Sum { combined, value })
}

/// What is known of the folded oracles before they are opened.
struct Folds<'a> {
    /// The folding challenges.
    challenges: Vec<SecureField>,
    roots: Vec<&'a Digest>,
    final_message: &'a [SecureField],
}

/// Step 4, interactive part: the sumcheck for the sum of the columns and the commitments to the folded oracles.
fn fold_sumcheck<'a>(
    policy: &OpeningPolicy,
    long: &CommitmentParams,
    sum: &Sum,
    proof: Unread<'a, ProofParts>,
    transcript: &mut Transcript,
) -> Result<Folds<'a>, OpeningError> {
    let (variables, last) = (long.log_folded(), long.log_final());
    let folds = variables.saturating_sub(last) as usize;
    let mut rounds = exactly("folding sumcheck", proof.part(|p| &p.fold_rounds), folds)?.each();
    let worked = folds.min(WORKED_FOLDS);
    let mut nonces = exactly("work before folds", proof.part(|p| &p.fold_work), worked)?.each();
    let oracles = long.oracles().count();
    let mut said = exactly("roots of folded oracles", proof.part(|p| &p.roots), oracles)?.each();

    let mut end = SumcheckClaim::new(sum.value);
    let mut due = long.oracles().peekable();
    let mut roots = Vec::with_capacity(oracles);
    for left in (last..=variables).rev() {
        if left < variables {
            let Some(said) = rounds.next() else { break };
            let work = nonces.next().map(|nonce| (policy.before_challenge(FOLD_WORK), nonce));
            end.worked_round::<OpeningError>(FOLD_ROUND, said, work, transcript)?;
        }
        if due.next_if_eq(&left).is_some() {
            let root = said.next().map(|root| transcript.receive(ORACLE, root));
            roots.extend(root.transpose()?);
        }
    }
    let said = exactly("final message", proof.part(|p| &p.final_message), 1 << last)?;
    let final_message = transcript.receive(FINAL_MESSAGE, said)?;

    // The challenges have bound the last coordinates, from the last one on.
    let SumcheckClaim {
        point: challenges,
        value,
    } = end;
    let folded: Vec<SecureField> = challenges.iter().rev().copied().collect();
    let left = sum.combined.points.iter().map(|(weight, point)| {
        let (rest, bound) = point.split_at_checked(last as usize).unwrap_or((point, &[]));
        *weight * SecureField::eq_eval(&folded, bound) * eval_padded(final_message, rest)
    });
    match left.fold(SecureField::zero(), |a, b| a + b) == value {
        true => Ok(Folds {
            challenges,
            roots,
            final_message,
        }),
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
    claim: &Claim<'_>,
    own: Unread<'_, CodeOpening>,
    end: &End,
) -> Result<(), OpeningError> {
    let params = &claim.commitment.params;
    let lifted = long.log_message.saturating_sub(params.log_message);
    let mut leaves: Vec<usize> = expected.iter().map(|(position, _)| position >> lifted).collect();
    leaves.dedup();
    let rows = own.part(|p| &p.rows).bound("leaves of a committed tree")?;
    let rows = open_rows(suite, &claim.commitment, &leaves, rows)?;
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
    suite: Suite,
    Commitment { name, params, root }: &Commitment,
    leaves: &[usize],
    rows: &'a LeafOpening,
) -> Result<impl Iterator<Item = &'a [BaseField]>, OpeningError> {
    let tree = TreeName::Committed(*name);
    let leaf_len = params.columns() * FIBRE;
    let (got, expected) = (rows.values.len(), leaves.len() * leaf_len);
    if got != expected {
        return Err(OpeningError::OpenedValues { tree, got, expected });
    }
    let values = || rows.values.chunks_exact(leaf_len);
    let digests = values().map(|leaf| hash_base_leaf(suite, leaf));
    let digests = leaves.iter().copied().zip(digests).collect();
    let committed = CommittedTree {
        name: tree,
        suite,
        root,
        depth: params.log_leaves(),
    };
    verify_batch(&committed, digests, &rows.path)?;
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
    folds: &Folds<'_>,
    mut expected: Vec<Expected>,
    proof: Unread<'_, ProofParts>,
) -> Result<(), OpeningError> {
    let opened = exactly(
        "opened folded oracles",
        proof.part(|p| &p.oracles),
        long.oracles().count(),
    )?;
    let challenges = folds.challenges.chunks_exact(FOLD_LOG as usize);
    let oracles = long.oracles().zip(challenges).zip(&folds.roots).zip(opened.each());
    for (i, (((variables, challenges), root), opening)) in oracles.enumerate() {
        let log_line = variables + long.log_blowup;
        expected = open_oracle(
            (suite, i),
            log_line,
            root,
            challenges,
            &expected,
            opening.bound("leaves of a folded oracle")?,
        )?;
    }
    let log_line = long.log_final() + long.log_blowup;
    for (position, value) in expected {
        let x = circle::line_coordinate(log_line, position);
        if circle::evaluate_line(folds.final_message, x) != Some(value) {
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
