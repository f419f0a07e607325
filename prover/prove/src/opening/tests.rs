//! Tests of commitment and opening: shared cases.

mod attacks;
mod cache;
mod claims;
mod code;
mod hostile;

use std::ops::{Deref, DerefMut, Range};

use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::mle::eval_padded;
use tessera_verifier::labels::{COLUMN_WORK, FOLD_WORK, SUM_WORK};
use tessera_verifier::message::Unread;
use tessera_verifier::opening::parts::{
    absorb_claims, draw_leaves, longest, parts_of, proof_of, verify_under, Layout, OpeningPolicy, ProofParts,
};
use tessera_verifier::opening::{Claim, Commitment, CommitmentName, CommitmentParams, OpenedColumns, OpeningError};
use tessera_verifier::suite::Suite;
use tessera_verifier::transcript::Transcript;

use super::prove::{open_under, value};
use super::{commit, Codeword, CommittedWeights, OpeningProverError, ProverClaim, Split, TileSource, TILE_AREA};
use tessera_circuits::model::WeightFormat;
use tessera_kernels::table::Table;
use tessera_model::tiles::{pack_tile, tile_bytes};
use tessera_model::weights::PackedWeights;
use tessera_support::progress::Silent;

/// Where the hash makes no difference.
const SUITE: Suite = Suite::Blake2s;

const POLICY: OpeningPolicy = OpeningPolicy {
    queries: 30,
    grind_bits: 4,
    challenge_bits: 0,
};

/// xorshift64*, so that every failure can be repeated.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    fn base(&mut self) -> BaseField {
        BaseField::reduce(self.next() >> 3)
    }
    fn secure(&mut self) -> SecureField {
        SecureField::from_m31_array(std::array::from_fn(|_| self.base()))
    }
    fn secures(&mut self, n: usize) -> Vec<SecureField> {
        (0..n).map(|_| self.secure()).collect()
    }
}

#[derive(Clone)]
struct Weights(PackedWeights);

impl Weights {
    /// Packs weights `[tile][x][y]`.
    fn new(weights: &[i16]) -> Self {
        let mut bytes = vec![0; 2 * weights.len()];
        let tiles = weights
            .as_chunks()
            .0
            .iter()
            .zip(bytes.chunks_mut(tile_bytes(WeightFormat::Int16)));
        tiles.for_each(|(weights, tile)| pack_tile(WeightFormat::Int16, weights, tile));
        Self(PackedWeights::in_memory(WeightFormat::Int16, bytes))
    }
    fn random(tiles: usize, seed: u64) -> Self {
        let mut random = Random(seed);
        let weights = (0..tiles * TILE_AREA).map(|_| (random.next() >> 40) as i16 % 2048);
        Self::new(&weights.collect::<Vec<_>>())
    }
    /// The weights as field elements, `[tile][x][y]`.
    fn field(&self) -> Vec<SecureField> {
        let mut tile = [0; TILE_AREA];
        (0..self.0.tiles())
            .flat_map(|t| {
                self.0.tile(t, &mut tile);
                tile.map(|w| SecureField::from(BaseField::from(i32::from(w))))
            })
            .collect()
    }
    /// Values at a point of a band.
    fn band_values(&self, point: &[SecureField]) -> Vec<SecureField> {
        self.field()
            .chunks(1 << point.len())
            .map(|band| eval_padded(band, point))
            .collect()
    }
}

/// Binds the least significant variable of a table to `r`.
pub(super) fn bind_least_significant(table: &mut Vec<SecureField>, r: SecureField) {
    let pairs = table.as_chunks::<2>().0;
    *table = pairs.iter().map(|[a, b]| *a + r * (*b - *a)).collect();
}

/// A committed set of weights with a claim about some of its columns.
struct Half {
    name: CommitmentName,
    weights: Weights,
    params: CommitmentParams,
    codeword: Codeword,
    columns: OpenedColumns,
    gamma: Vec<SecureField>,
    point: Vec<SecureField>,
    band_values: Vec<SecureField>,
    value: SecureField,
}

impl Half {
    fn claim(&self) -> Claim<'_> {
        Claim {
            commitment: Commitment {
                name: self.name,
                params: self.params,
                root: *self.codeword.root(),
            },
            columns: self.columns,
            gamma: &self.gamma,
            point: &self.point,
            value: self.value,
        }
    }
}

/// Two commitments that are opened together. Tests are about one of them, most often that of the weights.
struct Case {
    own: Half,
    other: Half,
}

impl Deref for Case {
    type Target = Half;
    fn deref(&self) -> &Half {
        &self.own
    }
}

impl DerefMut for Case {
    fn deref_mut(&mut self) -> &mut Half {
        &mut self.own
    }
}

/// Commits, and opens the codeword from a file.
fn committed(source: &dyn TileSource, params: &CommitmentParams) -> Codeword {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let tree = commit(SUITE, source, params, Split::default(), Some(&mut file), &Silent).unwrap();
    Codeword::with_file(*params, tree, file.path()).unwrap()
}

/// Verifies a proof that is made of these parts.
fn verify_parts(
    policy: &OpeningPolicy,
    claims: &[Claim<'_>],
    proof: &ProofParts,
    transcript: &mut Transcript,
) -> Result<(), OpeningError> {
    verify_under(policy, claims, Unread::of(&proof_of(proof.clone())), transcript)
}

fn transcript() -> Transcript {
    Transcript::new("opening test")
}

impl Half {
    /// A claim about the columns that hold some of the tiles, in bands of `2^log_band`.
    fn new(params: CommitmentParams, tiles: Range<usize>, log_band: u32, seed: u64) -> Self {
        let columns = params.columns_of(&tiles, log_band);
        let weights = Weights::random(params.tiles, 7 + seed);
        let codeword = committed(&weights.0, &params);
        let mut random = Random(11 + seed);
        let gamma = random.secures(columns.bands().len());
        let point = random.secures(columns.log_area() as usize);
        let band_values = weights.band_values(&point)[columns.bands()].to_vec();
        Self {
            name: CommitmentName::Weights,
            value: value(&gamma, &band_values),
            weights,
            params,
            codeword,
            columns,
            gamma,
            point,
            band_values,
        }
    }
}

impl Half {
    /// A claim about all of the other commitment.
    fn activations(params: CommitmentParams) -> Self {
        Self {
            name: CommitmentName::Activations,
            ..Self::new(params, 0..params.tiles, 0, 100)
        }
    }
}

impl Case {
    /// A claim about all weights.
    fn new(params: CommitmentParams) -> Self {
        Self::of_tiles(params, 0..params.tiles, 0)
    }

    /// A claim about the columns that hold some of the tiles, in bands of `2^log_band`, next to short activations.
    fn of_tiles(params: CommitmentParams, tiles: Range<usize>, log_band: u32) -> Self {
        let other = CommitmentParams {
            tiles: 3,
            log_message: 12,
            ..params
        };
        Self {
            own: Half::new(params, tiles, log_band, 0),
            other: Half::activations(other),
        }
    }

    /// The same with other activations.
    fn beside(mut self, tiles: usize, log_message: u32) -> Self {
        let params = CommitmentParams {
            tiles,
            log_message,
            ..self.params
        };
        self.other = Half::activations(params);
        self
    }

    /// The same with what was that of the weights as that of the activations.
    fn of_activations(mut self) -> Self {
        self.own.name = CommitmentName::Activations;
        self.other.name = CommitmentName::Weights;
        self
    }

    fn small() -> Self {
        Self::new(CommitmentParams {
            tiles: 5,
            log_message: 13,
            log_blowup: 2,
        })
    }

    /// Two columns of two bands of four tiles, the last one half full.
    fn banded() -> Self {
        let params = CommitmentParams {
            tiles: 12,
            log_message: 15,
            log_blowup: 2,
        };
        Self::of_tiles(params, 0..12, 2)
    }

    /// Both, and the small one as activations that are longer, as long and shorter than the weights.
    fn all() -> Vec<Self> {
        let beside = |log_message| Self::small().beside(2, log_message).of_activations();
        let mut all = vec![Self::small(), Self::banded()];
        all.extend([12, 13, 15].map(beside));
        all
    }

    /// What belongs to the weights, then what belongs to the activations.
    fn in_order<T>(&self, own: T, other: T) -> [T; 2] {
        match self.name {
            CommitmentName::Weights => [own, other],
            _ => [other, own],
        }
    }

    /// Both with their claims.
    fn both<'a>(&'a self, claim: &Claim<'a>) -> [Claim<'a>; 2] {
        self.in_order(*claim, self.other.claim())
    }

    /// Opens a claim with the weights of `source`, whose bands are said to have these values. The other commitment is opened
    /// honestly, but for its claim and the values of its bands.
    fn open(
        &self,
        source: &Weights,
        [claim, other_claim]: [&Claim<'_>; 2],
        [values, other_values]: [&[SecureField]; 2],
        policy: &OpeningPolicy,
        transcript: &mut Transcript,
    ) -> Result<ProofParts, OpeningProverError> {
        let mut own = CommittedWeights::new(&source.0, &self.codeword, Table::default())?;
        let mut other = CommittedWeights::new(&self.other.weights.0, &self.other.codeword, Table::default())?;
        let own = ProverClaim {
            committed: &mut own,
            claim: *claim,
            values,
        };
        let other = ProverClaim {
            committed: &mut other,
            claim: *other_claim,
            values: other_values,
        };
        let proof = open_under(policy, &mut self.in_order(own, other), None, transcript)?;
        Ok(parts_of(&proof).clone())
    }

    /// The same with the other claim true.
    fn open_beside(
        &self,
        source: &Weights,
        claim: &Claim<'_>,
        values: &[SecureField],
        policy: &OpeningPolicy,
    ) -> Result<ProofParts, OpeningProverError> {
        let other = &self.other;
        let claims = [claim, &other.claim()];
        self.open(source, claims, [values, &other.band_values], policy, &mut transcript())
    }

    /// Opens the commitment with the weights of `source`.
    fn prove(&self, source: &Weights, policy: &OpeningPolicy) -> ProofParts {
        let values = &source.band_values(&self.point)[self.columns.bands()];
        let claim = Claim {
            value: value(&self.gamma, values),
            ..self.claim()
        };
        self.open_beside(source, &claim, values, policy).unwrap()
    }

    fn verify_with(
        &self,
        policy: &OpeningPolicy,
        own: Claim<'_>,
        proof: &ProofParts,
        transcript: &mut Transcript,
    ) -> Result<(), OpeningError> {
        verify_parts(policy, &self.in_order(own, self.other.claim()), proof, transcript)
    }

    fn verify_claim(&self, claim: &Claim<'_>, proof: &ProofParts) -> Result<(), OpeningError> {
        self.verify_with(&POLICY, *claim, proof, &mut transcript())
    }

    fn verify(&self, proof: &ProofParts) -> Result<(), OpeningError> {
        self.verify_claim(&self.claim(), proof)
    }

    /// The code of the sum.
    fn long(&self) -> CommitmentParams {
        longest([&self.own.params, &self.other.params]).expect("two codes")
    }
}

/// What the verifier draws on its way through a proof.
struct Drawn {
    /// What the columns are added with, and what the claims on their sum.
    sum: [SecureField; 2],
    /// Fibres of the longer code.
    positions: Vec<usize>,
}

impl Drawn {
    fn of(case: &Case, claims: &[Claim<'_>; 2], proof: &ProofParts) -> Self {
        let mut t = transcript();
        absorb_claims(&mut t, &POLICY, claims.iter().map(|own| (own, own.value)));
        for own in &proof.codes {
            let mut nonces = own.column_work.iter();
            for round in &own.band_rounds {
                t.message("opening band round", round);
                nonces
                    .next()
                    .into_iter()
                    .for_each(|nonce| assert!(t.work(POLICY.before_challenge(COLUMN_WORK), *nonce)));
                t.challenge("opening band challenge");
            }
            t.message("opening evaluation", &[own.band_value]);
        }
        t.message("opening cross values", &proof.cross_values);
        assert!(t.work(POLICY.before_challenge(SUM_WORK), proof.sum_work));
        let sum = ["opening sum", "opening points"].map(|label| t.challenge(label));
        let long = case.long();
        let mut roots = long.oracles().zip(&proof.roots).peekable();
        let (mut rounds, mut nonces) = (proof.fold_rounds.iter(), proof.fold_work.iter());
        for variables in (long.log_final()..long.log_message).rev() {
            if variables < long.log_folded() {
                t.message("opening fold round", rounds.next().expect("a round"));
                nonces
                    .next()
                    .into_iter()
                    .for_each(|nonce| assert!(t.work(POLICY.before_challenge(FOLD_WORK), *nonce)));
                t.challenge("opening fold challenge");
            }
            if let Some((_, root)) = roots.next_if(|(due, _)| *due == variables) {
                t.bytes("opening oracle", root);
            }
        }
        t.message("opening final message", &proof.final_message);
        let _ = t.work(POLICY.before_queries(), proof.nonce);
        let positions = draw_leaves(&mut t, &long, &POLICY);
        Self { sum, positions }
    }
}

fn proof_bytes(proof: &ProofParts) -> usize {
    let oracles: usize = proof
        .oracles
        .iter()
        .map(|o| o.values.len() * 16 + o.path.len() * 32)
        .sum();
    let own = proof.codes.iter().map(|own| {
        let rows = own.rows.values.len() * 4 + own.rows.path.len() * 32;
        16 * (2 * own.band_rounds.len() + 1) + rows
    });
    let elements = proof.cross_values.len() + 2 * proof.fold_rounds.len() + proof.final_message.len();
    16 * elements + 32 * proof.roots.len() + 8 + own.sum::<usize>() + oracles
}
