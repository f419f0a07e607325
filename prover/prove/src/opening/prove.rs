//! Opening commitments: a band sumcheck and a combined column for every claim, and the sumcheck that folds their sum (BaseFold).

use std::sync::Arc;

use num_traits::{One, Zero};
use rayon::prelude::*;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::mle::fold_msb_in_place;
use tessera_verifier::hiding::TapeProof;
use tessera_verifier::labels::{
    ANSWERS, BAND_ROUND, COLUMN_WORK, CROSS_VALUES, EQUATIONS, EVALUATION, FINAL_MESSAGE, FOLD_ROUND, FOLD_WORK,
    ORACLE, SUM_WORK, TAPE, TAPE_VALUES, TAPE_WORK,
};
use tessera_verifier::message::Exchange;
use tessera_verifier::opening::parts::{
    absorb_claims, draw_leaves, extend, longest, proof_of, CodeOpening, Combined, Layout, LeafOpening, OpeningPolicy,
    OracleOpening, ProofParts, FOLD_LOG,
};
use tessera_verifier::opening::{Claim, CommitmentParams, OpenedColumns, OpeningError, OpeningProof};
use tessera_verifier::policy::WORKED_FOLDS;
use tessera_verifier::suite::Digest;
use tessera_verifier::sumcheck::Round;
use tessera_verifier::transcript::{Transcript, Work};

use super::committed::Committed;
use super::fft::Twiddles;
use super::fold::{evaluate, Message};
use super::sum::{add_lifted, cross_values};
use super::{length, merkle, OpeningProverError};
use crate::bind::eq_table;
use crate::grind;
use crate::hiding::Secrets;
use crate::speak::Speaker;
use crate::trees;
use tessera_kernels::device::DeviceError;
use tessera_kernels::table::Table;

/// Tables shorter than this are summed on one thread.
const SEQUENTIAL: usize = 1 << 11;

/// A claim as its prover has it: with what was committed to, and the values that the claim is about.
pub struct ProverClaim<'a> {
    pub committed: &'a mut dyn Committed,
    pub claim: Claim<'a>,
    /// `B~(claim.point)` for every band of the claim's columns.
    pub values: &'a [SecureField],
}

impl<'a> ProverClaim<'a> {
    /// The claim that is true if the bands of some columns have these values at a point.
    pub fn new(
        committed: &'a mut dyn Committed,
        columns: OpenedColumns,
        point: &'a [SecureField],
        gamma: &'a [SecureField],
        values: &'a [SecureField],
    ) -> Self {
        let claim = Claim {
            commitment: committed.commitment(),
            columns,
            point,
            gamma,
            value: value(gamma, values),
        };
        Self {
            committed,
            claim,
            values,
        }
    }

    /// Checks that the claim is one about the commitment.
    fn check(&self) -> Result<(), OpeningProverError> {
        let (commitment, columns) = (self.committed.commitment().params, &self.claim.columns);
        columns.check()?;
        if commitment.columns_of(&columns.tiles(), columns.log_band()) != *columns {
            return Err(OpeningProverError::CodewordParams {
                got: commitment,
                expected: *columns.params(),
            });
        }
        let bands = columns.bands().len();
        length("gamma", self.claim.gamma.len(), bands)?;
        length("values of bands", self.values.len(), bands)?;
        length("local point", self.claim.point.len(), columns.log_area() as usize)
    }

    /// The band sumcheck. Returns what there is of it in the proof, the weights of the columns, and the point.
    fn reduce(
        &self,
        policy: &OpeningPolicy,
        speaker: &mut dyn Speaker,
    ) -> (CodeOpening, Vec<SecureField>, Vec<SecureField>) {
        let columns = &self.claim.columns;
        let (code, rho) = band_sumcheck(policy, columns, self.claim.gamma, self.values, speaker);
        let (column_point, band_point) = rho.split_at(columns.log_columns() as usize);
        let (_, rest) = self.local();
        (code, eq_table(column_point), [band_point, rest].concat())
    }

    /// The combination of the columns, folded once.
    fn combine(&mut self, weights: &[SecureField]) -> Result<Table<SecureField>, DeviceError> {
        let (fold, _) = self.local();
        self.committed.combine(&self.claim.columns, weights, fold)
    }

    /// The last coordinate of the local point, which is the first folding challenge, as what it binds needs no round; and the
    /// others.
    fn local(&self) -> (SecureField, &[SecureField]) {
        let (fold, rest) = self.claim.point.split_last().expect("at least twelve coordinates");
        (*fold, rest)
    }
}

/// Weights of the entries of a tape, and the constant that they come to: what the verifier has when it has heard everything up to the folding.
pub type Equations = (Vec<SecureField>, SecureField);

/// The secrets of a proof that hides activations, and the messages that its opening adds.
pub struct Veil<'a> {
    pub secrets: &'a Secrets,
    /// Asks the verifier for the equations, given the opening so far and the messages in [`Self::said`].
    pub equations: &'a mut dyn FnMut(&OpeningProof, &TapeProof) -> Result<Equations, OpeningProverError>,
    /// The messages beside the opening, as far as they are sent.
    pub said: TapeProof,
}

/// Proves a list of claims.
pub fn open(
    claims: &mut [ProverClaim<'_>],
    veil: Option<&mut Veil<'_>>,
    speaker: &mut dyn Speaker,
) -> Result<OpeningProof, OpeningProverError> {
    let rate = claims.first().map_or(0, |own| own.claim.commitment.params.log_blowup);
    open_under(&OpeningPolicy::at_rate(rate), claims, veil, speaker)
}

/// As [`open`], under another policy than the one of the rate.
pub fn open_under(
    policy: &OpeningPolicy,
    claims: &mut [ProverClaim<'_>],
    veil: Option<&mut Veil<'_>>,
    speaker: &mut dyn Speaker,
) -> Result<OpeningProof, OpeningProverError> {
    let (mut folding, proof) = begin(policy, claims, veil, speaker)?;
    let transcript = speaker.transcript();
    folding.run(transcript);
    Ok(proof_of(folding.finish(claims, transcript, proof)?))
}

/// Everything up to the sum of all combined columns, which is still to be folded.
pub(super) fn begin(
    policy: &OpeningPolicy,
    claims: &mut [ProverClaim<'_>],
    mut veil: Option<&mut Veil<'_>>,
    speaker: &mut dyn Speaker,
) -> Result<(Folding, ProofParts), OpeningProverError> {
    policy.check()?;
    let codes: Vec<CommitmentParams> = claims.iter().map(|own| own.committed.commitment().params).collect();
    let long = longest(&codes).ok_or(OpeningError::NoClaims)?;
    for own in &*claims {
        own.check()?;
    }
    let known: Vec<SecureField> = claims.iter().map(|own| speaker.known(own.claim.value)).collect();
    let said = claims.iter().map(|own| &own.claim).zip(known);
    absorb_claims(speaker.transcript(), policy, said);
    let (mut codes, mut columns, mut points) = (Vec::new(), Vec::new(), Vec::new());
    for own in &*claims {
        let (code, weights, point) = own.reduce(policy, speaker);
        codes.push(code);
        columns.push(weights);
        points.push(extend(point, long.log_folded()));
    }
    if let Some(veil) = &mut veil {
        let transcript = speaker.transcript();
        veil.said.answers = veil.secrets.answers(transcript.challenge(ANSWERS));
        transcript.send(ANSWERS, &veil.said.answers[..]);
    }
    let messages = claims
        .iter_mut()
        .zip(&columns)
        .map(|(own, weights)| own.combine(weights));
    let mut messages = messages.collect::<Result<Vec<_>, DeviceError>>()?;
    messages.extend(veil.as_ref().map(|veil| Table::from(veil.secrets.mask())));
    let masks = messages.len() - points.len();
    let cross_values = cross_values(&messages, &points);
    let cross_values = speaker.say(CROSS_VALUES, &cross_values[..]);
    let transcript = speaker.transcript();
    let sum_work = grind::send(policy.before_challenge(SUM_WORK), transcript);
    let Combined { scales, points } = Combined::draw(points, masks, transcript);

    let longest = claims.iter().find(|own| own.committed.commitment().params == long);
    let twiddles = longest.ok_or(OpeningError::NoClaims)?.committed.twiddles();
    let sum = add_lifted(messages, &scales);
    let proof = ProofParts {
        codes,
        cross_values,
        sum_work,
        ..Default::default()
    };
    let message = match veil {
        None => Message::new(sum, points),
        Some(veil) => add_tape(sum, (points, &scales), veil, &proof, transcript)?,
    };
    Ok((Folding::new(policy, &long, message, twiddles), proof))
}

/// Adds the tape to the sum of all columns, and the weights of the equations to the weights of the sum.
fn add_tape(
    sum: Table<SecureField>,
    (points, scales): (Vec<(SecureField, Vec<SecureField>)>, &[SecureField]),
    veil: &mut Veil<'_>,
    proof: &ProofParts,
    transcript: &mut Transcript,
) -> Result<Message, OpeningProverError> {
    let tape = veil.secrets.tape();
    // The verifier draws it, too, on its own transcript.
    transcript.challenge(EQUATIONS);
    let (weights, _) = (veil.equations)(&proof_of(proof.clone()), &veil.said)?;
    let variables = |table: &[SecureField]| table.len().ilog2() as usize;
    let lifted = variables(&sum) - variables(tape);
    let at_points = |table: &[SecureField]| {
        let own = points
            .iter()
            .map(|(weight, point)| *weight * evaluate(table, &point[..variables(table)]));
        own.sum::<SecureField>()
    };
    let under_equations = weights.iter().zip(sum.iter().step_by(1 << lifted));
    let tape_values = [
        at_points(&sum),
        at_points(tape),
        under_equations.map(|(weight, value)| *weight * *value).sum(),
    ];
    let rehearsal = veil.secrets.rehearsal();
    veil.said.values = rehearsal.map_or(tape_values, |own| own.tape_values(tape_values));
    transcript.send(TAPE_VALUES, &veil.said.values);
    veil.said.work = grind::send(TAPE_WORK, transcript);
    let [scale, weight] = TAPE.map(|label| transcript.challenge(label));
    let mut sum = add_lifted(vec![sum, Table::from(tape)], &[SecureField::one(), scale]);
    if let Some(word) = rehearsal.and_then(|own| own.word(&sum, &points, scales, scale)) {
        sum = Table::from(word);
    }
    let weights = weights.into_iter().map(|own| weight * own).collect();
    Ok(Message::new(sum, points).with_weights(weights, lifted as u32))
}

/// The value of a claim: the sum of `gamma[B] band_values[B]`.
pub fn value(gamma: &[SecureField], band_values: &[SecureField]) -> SecureField {
    let terms = gamma.iter().zip(band_values);
    terms.fold(SecureField::zero(), |sum, (&g, &w)| sum + g * w)
}

/// Sumcheck of `sum_B gamma[B] w[B]`. Returns what there is of it in the proof, and the point.
fn band_sumcheck(
    policy: &OpeningPolicy,
    columns: &OpenedColumns,
    gamma: &[SecureField],
    band_values: &[SecureField],
    speaker: &mut dyn Speaker,
) -> (CodeOpening, Vec<SecureField>) {
    let padded = |values: &[SecureField]| {
        let mut table = values.to_vec();
        table.resize(1 << columns.log_bands(), SecureField::zero());
        table
    };
    let (mut gamma, mut values) = (padded(gamma), padded(band_values));
    let (mut own, mut rho) = (CodeOpening::default(), Vec::new());
    while values.len() > 1 {
        let half = values.len() / 2;
        let round = sum_products(half, |i| ((gamma[i], gamma[half + i]), (values[i], values[half + i])));
        let worked = rho.len() < columns.log_columns() as usize;
        let (round, r) = say_round(
            BAND_ROUND,
            &round,
            worked.then_some((policy.before_challenge(COLUMN_WORK), &mut own.column_work)),
            speaker,
        );
        fold_msb_in_place(&mut gamma, r);
        fold_msb_in_place(&mut values, r);
        own.band_rounds.push(round);
        rho.push(r);
    }
    own.band_value = speaker.say(EVALUATION, &values[0]);
    (own, rho)
}

/// Says a round, and sends the proof of work if one is due, whose nonce is kept; returns the round as it was said, and the challenge.
fn say_round(
    Exchange(said, answer): Exchange,
    round: &Round,
    due: Option<(Work, &mut Vec<u64>)>,
    speaker: &mut dyn Speaker,
) -> (Round, SecureField) {
    let round = speaker.say(said, round);
    if let Some((work, nonces)) = due {
        nonces.push(grind::send(work, speaker.transcript()));
    }
    (round, speaker.transcript().challenge(answer))
}

/// Values of a variable at 0 and 1.
type Pair = (SecureField, SecureField);

/// `[s(0), s(2)]` of the sum of the products of two tables with `len` pairs each.
fn sum_products(len: usize, pairs: impl Fn(usize) -> (Pair, Pair) + Sync) -> Round {
    let add = |[a, b]: Round, [c, d]: Round| [a + c, b + d];
    let zero = [SecureField::zero(); 2];
    (0..len)
        .into_par_iter()
        .with_min_len(SEQUENTIAL)
        .fold(
            || zero,
            |sum, i| {
                let ((a0, a1), (b0, b1)) = pairs(i);
                add(sum, [a0 * b0, (a1 + a1 - a0) * (b1 + b1 - b0)])
            },
        )
        .reduce(|| zero, add)
}

/// A committed oracle: its codeword and the levels of its Merkle tree.
struct Oracle {
    values: Vec<SecureField>,
    levels: Vec<Vec<Digest>>,
}

impl Oracle {
    fn root(&self) -> Digest {
        self.levels.last().map_or([0; 32], |top| top[0])
    }

    /// Opens the leaves that hold some positions (increasing), whose own values the verifier knows.
    fn open(&self, positions: &[usize]) -> OracleOpening {
        let mut leaves: Vec<usize> = positions.iter().map(|position| position >> FOLD_LOG).collect();
        leaves.dedup();
        let neighbours = leaves.iter().flat_map(|leaf| leaf << FOLD_LOG..(leaf + 1) << FOLD_LOG);
        let sent = neighbours.filter(|position| positions.binary_search(position).is_err());
        let depth = self.levels.len() as u32 - 1;
        OracleOpening {
            values: sent.map(|position| self.values[position]).collect(),
            path: merkle::path(&leaves, depth, |level, index| self.levels[level][index]),
        }
    }
}

/// State of the folding sumcheck and of the commitments between its rounds.
pub(super) struct Folding {
    policy: OpeningPolicy,
    params: CommitmentParams,
    twiddles: Arc<Twiddles>,
    pub(super) message: Message,
    rounds: Vec<Round>,
    /// Nonces of the first of them.
    work: Vec<u64>,
    oracles: Vec<Oracle>,
}

impl Folding {
    pub(super) fn new(
        policy: &OpeningPolicy,
        params: &CommitmentParams,
        message: Message,
        twiddles: Arc<Twiddles>,
    ) -> Self {
        Self {
            policy: *policy,
            params: *params,
            twiddles,
            message,
            rounds: Vec::new(),
            work: Vec::new(),
            oracles: Vec::new(),
        }
    }

    /// Number of variables left.
    pub(super) fn variables(&self) -> u32 {
        self.message.values().len().ilog2()
    }

    /// All rounds, with the commitments before and between them.
    pub(super) fn run(&mut self, transcript: &mut Transcript) {
        self.commit(transcript);
        while self.variables() > self.params.log_final() {
            self.round(transcript);
            self.commit(transcript);
        }
    }

    /// One round of the sumcheck, which is one fold.
    pub(super) fn round(&mut self, transcript: &mut Transcript) {
        let round = self.message.round();
        let worked = self.rounds.len() < WORKED_FOLDS;
        let (round, r) = say_round(
            FOLD_ROUND,
            &round,
            worked.then_some((self.policy.before_challenge(FOLD_WORK), &mut self.work)),
            transcript,
        );
        self.message.bind(r);
        self.rounds.push(round);
    }

    /// Commits to the codeword of the message, if an oracle is due.
    pub(super) fn commit(&mut self, transcript: &mut Transcript) {
        let variables = self.variables();
        if !self.params.oracles().any(|due| due == variables) {
            return;
        }
        let values = self
            .twiddles
            .encode_secure(self.message.values(), self.params.log_message - variables);
        let suite = transcript.suite();
        let leaves = merkle::secure_leaves(suite, &values, 1 << FOLD_LOG);
        let oracle = Oracle {
            values,
            levels: trees::levels(suite, leaves),
        };
        transcript.send(ORACLE, &oracle.root());
        self.oracles.push(oracle);
    }

    /// Sends the final message, draws the queries and opens them; completes `proof`.
    pub(super) fn finish(
        self,
        claims: &mut [ProverClaim<'_>],
        transcript: &mut Transcript,
        mut proof: ProofParts,
    ) -> Result<ProofParts, OpeningProverError> {
        transcript.send(FINAL_MESSAGE, self.message.values());
        let nonce = grind::send(self.policy.before_queries(), transcript);
        let mut positions = draw_leaves(transcript, &self.params, &self.policy);

        for (code, own) in proof.codes.iter_mut().zip(claims) {
            code.rows = self.open_rows(own.committed, &positions)?;
        }
        let roots = self.oracles.iter().map(Oracle::root).collect();
        let mut oracles = Vec::with_capacity(self.oracles.len());
        for oracle in &self.oracles {
            oracles.push(oracle.open(&positions));
            positions.iter_mut().for_each(|position| *position >>= FOLD_LOG);
            positions.dedup();
        }
        Ok(ProofParts {
            fold_rounds: self.rounds,
            fold_work: self.work,
            roots,
            final_message: self.message.into_values(),
            nonce,
            oracles,
            ..proof
        })
    }

    /// Opens a commitment where the positions in the longer code lie in its own.
    fn open_rows(&self, committed: &mut dyn Committed, positions: &[usize]) -> Result<LeafOpening, OpeningProverError> {
        let lifted = self.params.log_message - committed.commitment().params.log_message;
        let mut leaves: Vec<usize> = positions.iter().map(|position| position >> lifted).collect();
        leaves.dedup();
        let twiddles = match lifted {
            0 => Arc::clone(&self.twiddles),
            _ => committed.twiddles(),
        };
        committed.open(&twiddles, &leaves)
    }
}
