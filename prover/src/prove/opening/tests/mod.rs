//! Tests of commitment and opening: shared cases.

mod attacks;
mod cache;
mod claims;
mod code;
mod hostile;

use std::ops::Range;

use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use tessera_verifier::opening::multilinear::evaluate;
use tessera_verifier::opening::{verify, CommitmentParams, OpenedColumns, OpeningClaim, OpeningError, OpeningProof};
use tessera_verifier::policy::OpeningPolicy;
use tessera_verifier::transcript::Transcript;

use super::{commit, open, value, Codeword, Split, TileSource, TILE_AREA};
use crate::model::tiles::{pack_tile, tile_bytes};
use crate::model::weights::PackedWeights;
use crate::support::pages::Table;
use crate::support::progress::Silent;
use tessera_circuits::model::WeightFormat;

const POLICY: OpeningPolicy = OpeningPolicy {
    queries: 30,
    work_bits: 4,
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
            .map(|band| evaluate(band, point))
            .collect()
    }
}

/// Binds the least significant variable of a table to `r`.
pub(super) fn bind_least_significant(table: &mut Vec<SecureField>, r: SecureField) {
    let pairs = table.as_chunks::<2>().0;
    *table = pairs.iter().map(|[a, b]| *a + r * (*b - *a)).collect();
}

/// A committed set of weights with a claim about some of its columns.
struct Case {
    weights: Weights,
    params: CommitmentParams,
    codeword: Codeword,
    columns: OpenedColumns,
    gamma: Vec<SecureField>,
    point: Vec<SecureField>,
    band_values: Vec<SecureField>,
    value: SecureField,
}

/// Commits, and opens the codeword from a file.
fn committed(source: &dyn TileSource, params: &CommitmentParams) -> Codeword {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let tree = commit(source, params, Split::default(), Some(&mut file), &Silent).unwrap();
    Codeword::with_file(*params, tree, file.path()).unwrap()
}

fn transcript() -> Transcript {
    Transcript::new("opening test")
}

impl Case {
    /// A claim about all weights.
    fn new(params: CommitmentParams) -> Self {
        Self::of_tiles(params, 0..params.tiles, 0)
    }

    /// A claim about the columns that hold some of the tiles, in bands of `2^log_band`.
    fn of_tiles(params: CommitmentParams, tiles: Range<usize>, log_band: u32) -> Self {
        let columns = params.columns_of(&tiles, log_band);
        let weights = Weights::random(params.tiles, 7);
        let codeword = committed(&weights.0, &params);
        let mut random = Random(11);
        let gamma = random.secures(columns.bands().len());
        let point = random.secures(columns.log_area() as usize);
        let band_values = weights.band_values(&point)[columns.bands()].to_vec();
        Self {
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

    fn claim(&self) -> OpeningClaim<'_> {
        OpeningClaim {
            columns: self.columns,
            gamma: &self.gamma,
            local_point: &self.point,
            value: self.value,
        }
    }

    /// Opens the commitment with the weights of `source`.
    fn prove(&self, source: &Weights, policy: &OpeningPolicy) -> OpeningProof {
        let values = &source.band_values(&self.point)[self.columns.bands()];
        let claim = OpeningClaim {
            value: value(&self.gamma, values),
            ..self.claim()
        };
        let opened = open(
            &source.0,
            &self.codeword,
            policy,
            &claim,
            values,
            Table::default(),
            &mut transcript(),
        );
        opened.unwrap().0
    }

    fn verify_claim(&self, claim: &OpeningClaim<'_>, proof: &OpeningProof) -> Result<(), OpeningError> {
        verify(
            &self.params,
            &POLICY,
            self.codeword.root(),
            claim,
            proof,
            &mut transcript(),
        )
    }

    fn verify(&self, proof: &OpeningProof) -> Result<(), OpeningError> {
        self.verify_claim(&self.claim(), proof)
    }
}

fn proof_bytes(proof: &OpeningProof) -> usize {
    let oracles: usize = proof
        .oracles
        .iter()
        .map(|o| o.values.len() * 16 + o.path.len() * 32)
        .sum();
    let rounds = proof.band_rounds.len() + proof.fold_rounds.len();
    let clear = 16 * (2 * rounds + 1 + proof.final_message.len()) + 32 * proof.roots.len() + 8;
    clear + proof.rows.values.len() * 4 + proof.rows.path.len() * 32 + oracles
}
