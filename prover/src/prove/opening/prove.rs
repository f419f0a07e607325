//! Opening a commitment: band sumcheck, combined column, and the sumcheck that folds it (BaseFold).

use std::sync::Arc;

use num_traits::Zero;
use rayon::prelude::*;
use stwo::core::fields::qm31::SecureField;
use stwo::core::proof_of_work::GrindOps;
use stwo::prover::backend::simd::SimdBackend;
use tessera_verifier::opening::merkle::Digest;
use tessera_verifier::opening::multilinear::{bind_most_significant, eq_table, Round};
use tessera_verifier::opening::{
    absorb_statement, draw_leaves, CommitmentParams, LeafOpening, OpenedColumns, OpeningClaim, OpeningProof,
    OracleOpening, FOLD_LOG,
};
use tessera_verifier::policy::OpeningPolicy;
use tessera_verifier::transcript::Transcript;

use super::combine::combine_columns;
use super::fft::Twiddles;
use super::fold::Message;
use super::{length, merkle, Codeword, OpeningProverError};
use crate::model::passes::Traffic;
use crate::model::tiles::{TileRange, TileSource};
use crate::run::kernels::Elements;
use crate::support::pages::Table;

/// Tables shorter than this are summed on one thread.
const SEQUENTIAL: usize = 1 << 11;

/// What was committed to, as an opening needs it.
pub trait Committed {
    /// The parameters of the commitment.
    fn params(&self) -> &CommitmentParams;

    /// The root of its tree.
    fn root(&self) -> &Digest;

    /// The twiddles of its code.
    fn twiddles(&self) -> Arc<Twiddles>;

    /// Some columns combined to one message with a weight each, whose least significant variable is bound to `fold`.
    fn combine(&mut self, columns: &OpenedColumns, weights: &[SecureField], fold: SecureField) -> Table<SecureField>;

    /// Opens leaves, increasing.
    fn open(&mut self, twiddles: &Twiddles, leaves: &[usize]) -> Result<LeafOpening, OpeningProverError>;
}

/// Weights with their commitment.
pub(super) struct CommittedWeights<'a> {
    source: &'a dyn TileSource,
    codeword: &'a Codeword,
    memory: Table<Elements>,
    traffic: Traffic,
}

impl<'a> CommittedWeights<'a> {
    pub(super) fn new(source: &'a dyn TileSource, codeword: &'a Codeword, memory: Table<Elements>) -> Self {
        Self {
            source,
            codeword,
            memory,
            traffic: Traffic::default(),
        }
    }
}

impl Committed for CommittedWeights<'_> {
    fn params(&self) -> &CommitmentParams {
        self.codeword.params()
    }

    fn root(&self) -> &Digest {
        self.codeword.root()
    }

    fn twiddles(&self) -> Arc<Twiddles> {
        let params = self.codeword.params();
        Arc::new(Twiddles::new(params.log_message, params.log_blowup))
    }

    fn combine(&mut self, columns: &OpenedColumns, weights: &[SecureField], fold: SecureField) -> Table<SecureField> {
        let tiles = TileRange::new(self.source, columns.tiles());
        let memory = std::mem::take(&mut self.memory);
        let (message, traffic) = combine_columns(&tiles, &columns.params, weights, fold, memory);
        self.traffic += traffic;
        message
    }

    fn open(&mut self, twiddles: &Twiddles, leaves: &[usize]) -> Result<LeafOpening, OpeningProverError> {
        let (opening, traffic) = self.codeword.open_with(self.source, twiddles, leaves)?;
        self.traffic += traffic;
        Ok(opening)
    }
}

/// Proves `claim` for the weights of `source`, all of them, whose commitment is `codeword`. `band_values[B]` is
/// `B~(claim.local_point)` for every band of the claim's columns. Also returns what was read of the weights: once for the
/// combined column, and once for the opened rows if there is no file of the codeword.
pub fn open(
    source: &dyn TileSource,
    codeword: &Codeword,
    policy: &OpeningPolicy,
    claim: &OpeningClaim<'_>,
    band_values: &[SecureField],
    memory: Table<Elements>,
    transcript: &mut Transcript,
) -> Result<(OpeningProof, Traffic), OpeningProverError> {
    length("tiles of the source", source.tiles(), codeword.params().tiles)?;
    let mut weights = CommittedWeights::new(source, codeword, memory);
    let proof = open_committed(&mut weights, policy, claim, band_values, transcript)?;
    Ok((proof, weights.traffic))
}

/// As [`open`], of anything that was committed to.
pub fn open_committed(
    committed: &mut dyn Committed,
    policy: &OpeningPolicy,
    claim: &OpeningClaim<'_>,
    band_values: &[SecureField],
    transcript: &mut Transcript,
) -> Result<OpeningProof, OpeningProverError> {
    let (commitment, params) = (*committed.params(), &claim.columns.params);
    claim.columns.check()?;
    policy.check()?;
    if commitment.columns_of(&claim.columns.tiles(), claim.columns.log_band) != claim.columns {
        return Err(OpeningProverError::CodewordParams {
            got: commitment,
            expected: *params,
        });
    }
    let bands = claim.columns.bands().len();
    length("gamma", claim.gamma.len(), bands)?;
    length("values of bands", band_values.len(), bands)?;
    length(
        "local point",
        claim.local_point.len(),
        claim.columns.log_area() as usize,
    )?;

    absorb_statement(transcript, &commitment, policy, committed.root(), claim);
    let (band_rounds, rho, band_value) = band_sumcheck(&claim.columns, claim.gamma, band_values, transcript);
    let (column_point, band_point) = rho.split_at(params.log_columns() as usize);
    // The last coordinate of the point is the first folding challenge: what it binds needs no round.
    let (&fold, rest) = claim.local_point.split_last().expect("at least twelve coordinates");
    let message = committed.combine(&claim.columns, &eq_table(column_point), fold);
    let message = Message::new(message, [band_point, rest].concat());
    let mut folding = Folding::new(params, message, committed.twiddles());
    folding.run(transcript);
    let proof = OpeningProof {
        band_rounds,
        band_value,
        ..Default::default()
    };
    folding.finish(committed, policy, transcript, proof)
}

/// The value of a claim: the sum of `gamma[B] band_values[B]`.
pub fn value(gamma: &[SecureField], band_values: &[SecureField]) -> SecureField {
    let terms = gamma.iter().zip(band_values);
    terms.fold(SecureField::zero(), |sum, (&g, &w)| sum + g * w)
}

/// Sumcheck of `sum_B gamma[B] w[B]`. Returns the rounds, the point and the final value of `w`.
fn band_sumcheck(
    columns: &OpenedColumns,
    gamma: &[SecureField],
    band_values: &[SecureField],
    transcript: &mut Transcript,
) -> (Vec<Round>, Vec<SecureField>, SecureField) {
    let padded = |values: &[SecureField]| {
        let mut table = values.to_vec();
        table.resize(1 << columns.log_bands(), SecureField::zero());
        table
    };
    let (mut gamma, mut values) = (padded(gamma), padded(band_values));
    let (mut rounds, mut rho) = (Vec::new(), Vec::new());
    while values.len() > 1 {
        let half = values.len() / 2;
        let round = sum_products(half, |i| ((gamma[i], gamma[half + i]), (values[i], values[half + i])));
        transcript.message("opening band round", &round);
        let r = transcript.challenge("opening band challenge");
        bind_most_significant(&mut gamma, r);
        bind_most_significant(&mut values, r);
        rounds.push(round);
        rho.push(r);
    }
    transcript.message("opening evaluation", &values[..1]);
    (rounds, rho, values[0])
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

    fn open(&self, leaves: &[usize]) -> OracleOpening {
        let leaf = |&leaf: &usize| self.values[leaf << FOLD_LOG..][..1 << FOLD_LOG].to_vec();
        let depth = self.levels.len() as u32 - 1;
        OracleOpening {
            values: leaves.iter().flat_map(leaf).collect(),
            path: merkle::path(leaves, depth, |level, index| self.levels[level][index]),
        }
    }
}

/// State of the folding sumcheck and of the commitments between its rounds.
pub(super) struct Folding {
    params: CommitmentParams,
    twiddles: Arc<Twiddles>,
    pub(super) message: Message,
    rounds: Vec<Round>,
    oracles: Vec<Oracle>,
}

impl Folding {
    pub(super) fn new(params: &CommitmentParams, message: Message, twiddles: Arc<Twiddles>) -> Self {
        Self {
            params: *params,
            twiddles,
            message,
            rounds: Vec::new(),
            oracles: Vec::new(),
        }
    }

    /// Number of variables left.
    pub(super) fn variables(&self) -> u32 {
        self.message.values().len().ilog2()
    }

    /// All rounds, with the commitments before and between them.
    fn run(&mut self, transcript: &mut Transcript) {
        self.commit(transcript);
        while self.variables() > self.params.log_final() {
            self.round(transcript);
            self.commit(transcript);
        }
    }

    /// One round of the sumcheck, which is one fold.
    pub(super) fn round(&mut self, transcript: &mut Transcript) {
        let round = self.message.round();
        transcript.message("opening fold round", &round);
        let r = transcript.challenge("opening fold challenge");
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
        let leaves = merkle::secure_leaves(&values, 1 << FOLD_LOG);
        let oracle = Oracle {
            values,
            levels: merkle::levels(leaves),
        };
        transcript.bytes("opening oracle", &oracle.root());
        self.oracles.push(oracle);
    }

    /// Sends the final message, draws the queries and opens them; completes `proof`.
    pub(super) fn finish(
        self,
        committed: &mut dyn Committed,
        policy: &OpeningPolicy,
        transcript: &mut Transcript,
        proof: OpeningProof,
    ) -> Result<OpeningProof, OpeningProverError> {
        transcript.message("opening final message", self.message.values());
        let nonce = SimdBackend::grind(transcript.channel(), policy.work_bits);
        transcript.nonce("opening work", nonce);
        let mut leaves = draw_leaves(transcript, &self.params, policy);

        let rows = committed.open(&self.twiddles, &leaves)?;
        let roots = self.oracles.iter().map(Oracle::root).collect();
        let mut oracles = Vec::with_capacity(self.oracles.len());
        for oracle in &self.oracles {
            leaves.iter_mut().for_each(|leaf| *leaf >>= FOLD_LOG);
            leaves.dedup();
            oracles.push(oracle.open(&leaves));
        }
        Ok(OpeningProof {
            fold_rounds: self.rounds,
            roots,
            final_message: self.message.into_values(),
            nonce,
            rows,
            oracles,
            ..proof
        })
    }
}
