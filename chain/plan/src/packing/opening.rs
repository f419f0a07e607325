//! The opening as contracts need it: they are sent its proof message by message, and a program has the weights of bands at
//! the points where its band sumchecks end.

use stwo::core::fields::qm31::SecureField;
use tessera_verifier::labels::{BAND_ROUND, EVALUATION};
use tessera_verifier::opening::parts::{absorb_claims, parts_of, OpeningPolicy, FIBRE, FOLD_LOG};
use tessera_verifier::opening::{Claim, OpeningProof};
use tessera_verifier::transcript::Transcript;

use super::bytes::{again, Bytes, Part};

/// The most bytes of rows of a stage: others fit beside it.
const ROWS: usize = 48_000;
/// Folds of an oracle.
const FOLDS: usize = FOLD_LOG as usize;

/// Where the band sumchecks of an opening end: of the weights, then of the activations. `transcript` is the transcript before the
/// opening's first message. For tests: contracts find these points as they verify.
pub fn band_ends(claims: &[Claim<'_>; 2], proof: &OpeningProof, transcript: &mut Transcript) -> [Vec<SecureField>; 2] {
    let [weights, _] = claims;
    let policy = OpeningPolicy::at_rate(weights.commitment.params.log_blowup);
    absorb_claims(transcript, &policy, claims.iter());
    let mut ends: [Vec<SecureField>; 2] = Default::default();
    for (own, end) in parts_of(proof).codes.iter().zip(&mut ends) {
        let rounds = own.band_rounds.iter();
        end.extend(rounds.map(|round| BAND_ROUND.send(round, transcript)));
        transcript.send(EVALUATION, &own.band_value);
    }
    ends
}

/// The proof as contracts are sent it. `columns` are the numbers of columns of both commitments.
pub fn opening(proof: &OpeningProof, columns: [usize; 2]) -> Part {
    let own = parts_of(proof);
    let mut bytes = Bytes::default();
    for code in &own.codes {
        bytes.elements(code.band_rounds.as_flattened());
        bytes.elements(&[code.band_value]);
    }
    bytes.elements(&own.cross_values);
    for (i, round) in own.fold_rounds.iter().enumerate() {
        // The root of an oracle comes before its folds.
        if i % FOLDS == 0 {
            bytes.0.extend(own.roots.get(i / FOLDS).into_iter().flatten());
        }
        bytes.elements(round);
    }
    bytes.elements(&own.final_message);
    bytes.0.extend(own.nonce.to_be_bytes());
    // Rows, as many as a stage takes, then the path of all.
    let mut stages = Vec::new();
    for (code, columns) in own.codes.iter().zip(columns) {
        let row = (columns * FIBRE).max(1);
        for rows in code.rows.values.chunks(row * (ROWS / 4 / row).max(1)) {
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
