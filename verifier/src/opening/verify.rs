//! Verification of an opening (docs/protocol.md, section 10).

use std::iter::successors;

use num_traits::{One, Zero};
use stwo::core::fields::qm31::SecureField;

use tessera_circuits::mle::{eq_table, eval_padded};
use tessera_circuits::scalar::Scalar as _;

use super::claim::{Claim, Commitment};
use super::error::{length, CommitmentName, OpeningError, TreeName};
use super::merkle::{hash_secure_leaf, verify_batch, CommittedTree};
use super::params::{CommitmentParams, Layout, FOLD_LOG};
use super::policy::OpeningPolicy;
use super::proof::{unread, CodeOpening, OpeningProof, OracleOpening, ProofParts};
use super::rows::Rows;
use super::{circle, lift};
use crate::labels::{
    BAND_ROUND, COLUMN_WORK, CROSS_VALUES, EVALUATION, FINAL_MESSAGE, FOLD_ROUND, FOLD_WORK, ORACLE, SUM, SUM_WORK,
};
use crate::listen::{FoldedClaim, Listener, TapeClaim};
use crate::message::Unread;
use crate::policy::WORKED_FOLDS;
use crate::suite::{Digest, Suite};
use crate::sumcheck::SumcheckClaim;
use crate::transcript::Transcript;

/// Absorbs what is claimed of the commitments and under which rules, each claim with its value as far as it is absorbed
/// ([`Listener::known`]); the first step of both sides. Coefficients are not absorbed: they follow from what is absorbed already
/// (docs/security.md, lemma 23).
pub fn absorb_claims<'a, V: 'a>(
    transcript: &mut Transcript,
    policy: &OpeningPolicy,
    claims: impl ExactSizeIterator<Item = (&'a Claim<'a, V>, SecureField)>,
) {
    transcript.words("opening claims", &[claims.len() as u32]);
    for (claim, value) in claims {
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
        transcript.message("opening value", &[value]);
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
/// claim is about more than what was committed to before its point was drawn: that is the caller's part. If the listener has a mask, it is
/// committed to behind the columns of the activations, or of a reveal's own commitment.
pub fn verify<L: Listener>(
    claims: &[Claim<'_, L::Value>],
    proof: Unread<'_, OpeningProof>,
    listener: &mut L,
) -> Result<(), OpeningError> {
    let rate = claims.first().map_or(0, |claim| claim.commitment.params.log_blowup);
    verify_under(&OpeningPolicy::at_rate(rate), claims, proof, listener)
}

/// As [`verify`], under another policy than the one of the rate.
pub fn verify_under<L: Listener>(
    policy: &OpeningPolicy,
    claims: &[Claim<'_, L::Value>],
    proof: Unread<'_, OpeningProof>,
    listener: &mut L,
) -> Result<(), OpeningError> {
    let Summed {
        long,
        ends,
        combined,
        value,
    } = begin(policy, claims, proof, listener)?;
    let proof = unread(proof);
    let FoldedClaim { value, tape } = listener.fold(value)?;
    let lifted = masked(claims, listener).map(|claim| {
        let own = claim.commitment.params.log_message;
        long.log_message.saturating_sub(own)
    });
    let tape = tape.zip(lifted);
    let sum = Sum { combined, value, tape };
    let transcript = listener.transcript();
    let folds = fold_sumcheck(policy, &long, &sum, proof, transcript)?;

    transcript.receive_work(policy.before_queries(), proof.part(|p| &p.nonce))?;
    let positions = draw_leaves(transcript, &long, policy);
    let suite = transcript.suite();
    let mut expected: Vec<Expected> = positions.into_iter().map(|p| (p, SecureField::zero())).collect();
    let mask = sum.combined.scales.get(claims.len());
    let said = exactly("openings of claims", proof.part(|p| &p.codes), claims.len())?;
    for (((claim, own), end), scale) in claims.iter().zip(said.each()).zip(&ends).zip(&sum.combined.scales) {
        let tape = sum.tape.as_ref().filter(|_| is_masked(claim));
        let rows = Rows {
            commitment: &claim.commitment,
            scale: *scale,
            weights: &end.weights,
            fold: end.fold,
            mask: mask.copied().zip(tape.map(|(tape, _)| tape.scale)),
        };
        rows.add(suite, &mut expected, &long, own)?;
    }
    check_oracles(suite, &long, &folds, expected, proof)
}

/// The value of the claim on the sum of all columns, to which an opening comes before the folding. A prover that hides activations asks for it, because
/// only the verifier has it under pads.
pub fn sum_of_claims<L: Listener>(
    claims: &[Claim<'_, L::Value>],
    proof: Unread<'_, OpeningProof>,
    listener: &mut L,
) -> Result<L::Value, OpeningError> {
    let rate = claims.first().map_or(0, |claim| claim.commitment.params.log_blowup);
    Ok(begin(&OpeningPolicy::at_rate(rate), claims, proof, listener)?.value)
}

/// The claims of an opening as one claim on the sum of all columns.
struct Summed<V> {
    /// The code of the sum.
    long: CommitmentParams,
    ends: Vec<End<V>>,
    /// What the columns and the claims on their sum are added with.
    combined: Combined,
    /// The value of the claim.
    value: V,
}

/// Steps 1 to 3: everything before the folding.
fn begin<L: Listener>(
    policy: &OpeningPolicy,
    claims: &[Claim<'_, L::Value>],
    proof: Unread<'_, OpeningProof>,
    listener: &mut L,
) -> Result<Summed<L::Value>, OpeningError> {
    policy.check()?;
    let long = check_codes(claims)?;
    for claim in claims {
        check_claim(claim)?;
    }
    check_mask(claims, listener)?;
    let known: Vec<SecureField> = claims.iter().map(|claim| listener.known(&claim.value)).collect();
    absorb_claims(listener.transcript(), policy, claims.iter().zip(known));
    let proof = unread(proof);
    let said = exactly("openings of claims", proof.part(|p| &p.codes), claims.len())?;
    let ends = claims
        .iter()
        .zip(said.each())
        .map(|(claim, own)| band_sumcheck(policy, claim, own, listener));
    let ends = ends.collect::<Result<Vec<End<L::Value>>, OpeningError>>()?;
    listener.before_cross_values()?;
    let (combined, value) = add_claims(policy, &long, &ends, proof, listener)?;
    Ok(Summed {
        long,
        ends,
        combined,
        value,
    })
}

/// Whether mask and tape, if the listener has them, are committed to behind the columns of this claim.
fn is_masked<V>(claim: &Claim<'_, V>) -> bool {
    matches!(
        claim.commitment.name,
        CommitmentName::Activations | CommitmentName::Mask
    )
}

/// The claim whose commitment has the mask, if the listener has one.
fn masked<'c, 'a, L: Listener>(claims: &'c [Claim<'a, L::Value>], listener: &L) -> Option<&'c Claim<'a, L::Value>> {
    claims.iter().find(|claim| listener.masks() > 0 && is_masked(claim))
}

/// Checks that there is one commitment that a mask can be in: with none, the tape would be in no row; with two, it would be in both.
fn check_mask<L: Listener>(claims: &[Claim<'_, L::Value>], listener: &L) -> Result<(), OpeningError> {
    match claims.iter().filter(|claim| is_masked(claim)).count() {
        claims if listener.masks() > 0 && claims != 1 => Err(OpeningError::Mask { claims }),
        _ => Ok(()),
    }
}

/// Checks that all codes are ones that can be opened together, and returns that of the sum.
fn check_codes<V>(claims: &[Claim<'_, V>]) -> Result<CommitmentParams, OpeningError> {
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
fn check_claim<V>(claim: &Claim<'_, V>) -> Result<(), OpeningError> {
    let columns = &claim.columns;
    length("gamma", claim.gamma.len(), columns.bands().len())?;
    length("local point", claim.point.len(), columns.log_area() as usize)
}

/// What the band sumcheck of a commitment ends in: a claim on a combination of its columns, folded once.
struct End<V> {
    /// Weights of all columns of the commitment.
    weights: Vec<SecureField>,
    /// The challenge of the first fold.
    fold: SecureField,
    /// Where the folded combination is evaluated.
    point: Vec<SecureField>,
    /// What it is claimed to be there.
    value: V,
}

/// Steps 1 and 2: from the batch of evaluations of bands to one evaluation. The last coordinate of the local point was drawn
/// after the commitment, and the claim with this variable bound to it is the same claim.
fn band_sumcheck<L: Listener>(
    policy: &OpeningPolicy,
    claim: &Claim<'_, L::Value>,
    own: Unread<'_, CodeOpening>,
    listener: &mut L,
) -> Result<End<L::Value>, OpeningError> {
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
    let mut end = SumcheckClaim::new(claim.value.clone());
    for said in rounds.each() {
        let work = nonces.next().map(|nonce| (policy.before_challenge(COLUMN_WORK), nonce));
        end.worked_round::<L, OpeningError>(BAND_ROUND, said, work, listener)?;
    }
    let SumcheckClaim { point: rho, value } = end;
    let evaluation = listener.receive(EVALUATION, own.part(|p| &p.band_value))?;
    let commitment = claim.commitment.name;
    listener.zero(
        evaluation.clone() * eval_padded(claim.gamma, &rho) - value,
        OpeningError::BandClaim { commitment },
    )?;
    let (column_point, band_point) = rho.split_at_checked(log_columns).unwrap_or((&rho, &[]));
    // The other columns of the commitment have no weight.
    let mut weights = vec![SecureField::zero(); columns.first];
    weights.extend(eq_table(column_point).into_iter().take(columns.params.columns()));
    let (fold, rest) = claim
        .point
        .split_last()
        .map_or((SecureField::zero(), &[][..]), |(fold, rest)| (*fold, rest));
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

/// The pairs that have a cross value, in order: the claim whose point it is, and the column that is evaluated there, of another claim or, behind
/// those of all claims, a mask.
pub fn cross(claims: usize, masks: usize) -> impl Iterator<Item = (usize, usize)> {
    let pairs = (0..claims).flat_map(move |point| (0..claims + masks).map(move |column| (point, column)));
    pairs.filter(|(point, column)| point != column)
}

impl Combined {
    /// Draws what the columns and then the claims on their sum are added with; there are as many columns more than points as there are masks. All
    /// values of columns at points are absorbed.
    pub fn draw(points: Vec<Vec<SecureField>>, masks: usize, transcript: &mut Transcript) -> Self {
        let [iota, theta] = SUM.map(|label| transcript.challenge(label));
        let powers = |x: SecureField| successors(Some(SecureField::one()), move |power| Some(*power * x));
        let scales = powers(iota).take(points.len() + masks).collect();
        let points = powers(theta).zip(points).collect();
        Self { scales, points }
    }
}

/// The claim on the sum of all columns.
struct Sum {
    combined: Combined,
    value: SecureField,
    /// The part of the tape, and how many variables fewer it has than the sum.
    tape: Option<(TapeClaim, u32)>,
}

/// Step 3: with the values of every column at the points of the other claims, all claims become claims on the sum of the columns.
/// The points are extended to the variables of the longest column.
fn add_claims<L: Listener>(
    policy: &OpeningPolicy,
    long: &CommitmentParams,
    ends: &[End<L::Value>],
    proof: Unread<'_, ProofParts>,
    listener: &mut L,
) -> Result<(Combined, L::Value), OpeningError> {
    let masks = listener.masks();
    let pairs = cross(ends.len(), masks);
    let said = exactly("cross values", proof.part(|p| &p.cross_values), pairs.count())?;
    let mut said = listener.receive(CROSS_VALUES, said)?.into_iter();
    let transcript = listener.transcript();
    transcript.receive_work(policy.before_challenge(SUM_WORK), proof.part(|p| &p.sum_work))?;
    let points = ends
        .iter()
        .map(|end| lift::extend(end.point.clone(), long.log_folded()));
    let combined = Combined::draw(points.collect(), masks, transcript);
    let mut value = L::Value::from(SecureField::zero());
    for (point, ((weight, _), end)) in combined.points.iter().zip(ends).enumerate() {
        for (column, scale) in combined.scales.iter().enumerate() {
            let own = match point == column {
                true => Some(end.value.clone()),
                false => said.next(),
            };
            // As many are said as there are pairs.
            if let Some(own) = own {
                value = value + own * (*weight * *scale);
            }
        }
    }
    Ok((combined, value))
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
            end.worked_round::<Transcript, OpeningError>(FOLD_ROUND, said, work, transcript)?;
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
    let tape = sum.tape.iter();
    let tape = tape.map(|(tape, lifted)| tape_share(&tape.weights, *lifted, &challenges, final_message));
    match left.chain(tape).fold(SecureField::zero(), |a, b| a + b) == value {
        true => Ok(Folds {
            challenges,
            roots,
            final_message,
        }),
        false => Err(OpeningError::FoldClaim),
    }
}

/// What is left of the claim with the weights of the tape when variables are bound, from the least significant one on. A weight is of the
/// entry of the sum whose last `lifted` coordinates are zeros.
fn tape_share(
    weights: &[SecureField],
    lifted: u32,
    challenges: &[SecureField],
    message: &[SecureField],
) -> SecureField {
    let (lifts, folds) = challenges
        .split_at_checked(lifted as usize)
        .unwrap_or((challenges, &[]));
    let scale = lifts
        .iter()
        .fold(SecureField::one(), |scale, r| scale * (SecureField::one() - *r));
    let mut weights = weights.to_vec();
    for r in folds {
        let pair = |pair: &[SecureField]| match *pair {
            [a, b] => a + *r * (b - a),
            [a] => a - *r * a,
            _ => SecureField::zero(),
        };
        weights = weights.chunks(2).map(pair).collect();
    }
    // Zeros that were not bound choose every so many entries; no message is that short.
    let step = 1usize << lifted.saturating_sub(challenges.len() as u32).min(31);
    let left = weights.iter().zip(message.iter().step_by(step));
    scale * left.map(|(weight, value)| *weight * *value).sum::<SecureField>()
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
