//! The opening as contracts need it: they are sent its proof message by message, and a program has the weights of bands at
//! the points where its band sumchecks end.

use stwo::core::fields::qm31::SecureField;
use tessera_verifier::labels::{BAND_ROUND, COLUMN_WORK, EVALUATION};
use tessera_verifier::message::Exchange;
use tessera_verifier::opening::parts::{absorb_claims, longest, parts_of, Layout, OpeningPolicy, FIBRE, FOLD_LOG};
use tessera_verifier::opening::{Claim, CommitmentParams, OpenedColumns, OpeningProof};
use tessera_verifier::policy::WORKED_FOLDS;
use tessera_verifier::transcript::Transcript;

use super::bytes::{again, Bytes, Part};
use super::lengths::{self, PartLengths, DIGEST, ELEMENT, NONCE, NUMBER};
use crate::average;

/// The most bytes of rows of a stage: others fit beside it.
const ROWS: usize = 48_000;
/// Folds of an oracle.
const FOLDS: usize = FOLD_LOG as usize;

/// Where the band sumchecks of an opening end: of the weights, then of the activations. `transcript` is the transcript before the
/// opening's first message. For tests: contracts find these points as they verify.
pub fn band_ends(claims: &[Claim<'_>], proof: &OpeningProof, transcript: &mut Transcript) -> [Vec<SecureField>; 2] {
    let Some(weights) = claims.first() else {
        return Default::default();
    };
    let policy = OpeningPolicy::at_rate(weights.commitment.params.log_blowup);
    absorb_claims(transcript, &policy, claims.iter().map(|own| (own, own.value)));
    let mut ends: [Vec<SecureField>; 2] = Default::default();
    for (own, end) in parts_of(proof).codes.iter().zip(&mut ends) {
        let Exchange(said, answer) = BAND_ROUND;
        let mut nonces = own.column_work.iter();
        for round in &own.band_rounds {
            transcript.send(said, round);
            if let Some(nonce) = nonces.next() {
                let _ = transcript.work(policy.before_challenge(COLUMN_WORK), *nonce);
            }
            end.push(transcript.challenge(answer));
        }
        transcript.send(EVALUATION, &own.band_value);
    }
    ends
}

/// How many rows of so many numbers a stage has, at most.
const fn rows_of_stage(row: usize) -> usize {
    let most = ROWS / 4 / row;
    if most == 0 {
        1
    } else {
        most
    }
}

/// Predicts the bytes that [`opening`] makes of a proof of these columns and commitments. Queries decide how long rows, paths and oracles are,
/// so these lengths are averages.
pub fn expected(columns: &[OpenedColumns; 2], commitments: &[CommitmentParams; 2]) -> PartLengths {
    let [weights, _] = commitments;
    let long = longest(commitments).unwrap_or(*weights);
    let queries = OpeningPolicy::at_rate(long.log_blowup).queries;
    let bands: u32 = columns.iter().map(OpenedColumns::log_bands).sum();
    let folded = long.log_folded();
    // Fold rounds down to the last message; the values of the bands of both, and two cross values.
    let rounds = bands + (folded - long.log_final());
    let oracles: Vec<u32> = long.oracles().collect();
    let last = ELEMENT << long.log_final();
    // Nonces before the weights of columns, the sum, the first folds and the queries.
    let weighed: u32 = columns.iter().map(Layout::log_columns).sum();
    let nonces = weighed as usize + 1 + WORKED_FOLDS + 1;
    let conversation = lengths::rounds(rounds) + 4 * ELEMENT + DIGEST * oracles.len() + last + NONCE * nonces;
    let mut stages = Vec::new();
    for own in commitments {
        let (row, depth) = (own.columns() * FIBRE, own.log_leaves());
        let most = rows_of_stage(row);
        let mut left = average::leaves(queries, depth).round() as usize;
        while left > 0 {
            let now = left.min(most);
            stages.push(NUMBER + NUMBER * row * now);
            left -= now;
        }
        stages.push(NUMBER + lengths::path(queries, depth));
    }
    let trees = stages.len();
    let mut known = long.log_leaves();
    for variables in oracles {
        let depth = variables + long.log_blowup - FOLD_LOG;
        stages.push(lengths::oracle(queries, [known, depth], FOLD_LOG));
        known = depth;
    }
    stages.last_mut().into_iter().for_each(|own| *own += last);
    PartLengths {
        conversation,
        stages,
        trees,
    }
}

/// The proof as contracts are sent it. `columns` are the numbers of columns of both commitments.
pub fn opening(proof: &OpeningProof, columns: [usize; 2]) -> Part {
    let own = parts_of(proof);
    let mut bytes = Bytes::default();
    for code in &own.codes {
        bytes.elements(code.band_rounds.as_flattened());
        bytes.nonces(&code.column_work);
        bytes.elements(&[code.band_value]);
    }
    bytes.elements(&own.cross_values);
    bytes.nonces(&[own.sum_work]);
    for (i, round) in own.fold_rounds.iter().enumerate() {
        // The root of an oracle comes before its folds.
        if i % FOLDS == 0 {
            bytes.0.extend(own.roots.get(i / FOLDS).into_iter().flatten());
        }
        bytes.elements(round);
        bytes.nonces(own.fold_work.get(i..=i).unwrap_or_default());
    }
    bytes.elements(&own.final_message);
    bytes.nonces(&[own.nonce]);
    // Rows, as many as a stage takes, then the path of all.
    let mut stages = Vec::new();
    for (code, columns) in own.codes.iter().zip(columns) {
        let row = (columns * FIBRE).max(1);
        for rows in code.rows.values.chunks(row * rows_of_stage(row)) {
            let mut bytes = Bytes::default();
            bytes.words([(rows.len() / row) as u32]);
            bytes.numbers(rows);
            stages.push(bytes.0);
        }
        let mut bytes = Bytes::default();
        bytes.words([code.rows.path.len() as u32]);
        bytes.0.extend(code.rows.path.as_flattened());
        stages.push(bytes.0);
    }
    let trees = stages.len();
    let oracles = own.oracles.iter().map(|oracle| {
        let mut bytes = Bytes::default();
        bytes.counts(oracle.values.len(), oracle.path.len());
        bytes.elements(&oracle.values);
        bytes.0.extend(oracle.path.as_flattened());
        bytes.0
    });
    stages.extend(oracles);
    again(&mut stages, &own.final_message);
    Part {
        conversation: bytes.0,
        stages,
        trees,
    }
}
