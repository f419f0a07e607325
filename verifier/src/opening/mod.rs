//! The weight commitment and its opening (docs/protocol.md, sections 3 and 10).
//!
//! Weights are `tiles` tiles of 64 x 64 small integers. `2^s` consecutive tiles are one message of
//! `2^kappa = 2^(s + 12)` coefficients of the circle FFT basis; its codeword is one column. A leaf of the
//! Merkle tree holds the two conjugate points of one fibre across all columns, column by column.
//!
//! A band is `2^g` consecutive tiles. An opening proves `sum_B gamma[B] B~(local point) = value`, over bands:
//! 1. a sumcheck over the band index reduces it to one evaluation of the multilinear extension of the
//!    whole weight array, `W~(rho_G, rho_s, local point)`;
//! 2. the columns are combined with `eq(rho_G, .)` to one message `u` with `u~(rho_s, local point)` claimed;
//! 3. a sumcheck for that claim shares its challenges with a circle FRI (BaseFold): binding the least
//!    significant variable of the message is folding its codeword. The first variable is bound to the
//!    last coordinate of the point, which needs no round. The first oracle is virtual, the
//!    folded ones are committed every [`FOLD_LOG`] folds, the last message is sent in the clear.

pub mod circle;
pub mod merkle;
pub mod multilinear;
#[cfg(test)]
mod tests;
mod verify;

use std::ops::Range;

use serde::{Deserialize, Serialize};
use stwo::core::fields::m31::{BaseField, P};
use stwo::core::fields::qm31::SecureField;
use thiserror::Error;

use self::merkle::Digest;
use self::multilinear::Round;
use crate::security::opening_policy;
use crate::transcript::Transcript;

pub use self::verify::verify;

/// log2 of the number of weights of a tile.
pub const TILE_AREA_LOG: u32 = 12;
/// Number of folds between two committed oracles: log2 of the number of values in a leaf of an oracle.
pub const FOLD_LOG: u32 = 3;
/// An oracle is committed while the message has more than this many variables.
pub const FINAL_LOG: u32 = 5;
/// Points of one leaf of the weight tree: a fibre of the first fold.
pub const FIBRE: usize = 2;

const MAX_TILES: usize = 1 << 24;
const MAX_MESSAGE_LOG: u32 = 24;
/// Messages that are no longer than this are as long as is best for the proof.
const LONG_MESSAGE_LOG: u32 = 20;
const MAX_BLOWUP_LOG: u32 = 4;
/// Up to this many tiles, [`CommitmentParams::for_tiles`] takes rate 1/4, which has the smaller proofs; above, 1/2,
/// which has the smaller codeword.
const SMALL_TILES: usize = 1 << 13;

/// Shape of a weight commitment. Part of the model key. Every method assumes that [`Self::check`] passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitmentParams {
    /// Number of 64 x 64 tiles.
    pub tiles: usize,
    /// `kappa`: log2 of the number of weights in a column.
    pub log_message: u32,
    /// log2 of the inverse rate of the code.
    pub log_blowup: u32,
}

impl CommitmentParams {
    /// The parameters of a model of `tiles` tiles: rate 1/4 for small models and 1/2 for large ones.
    pub fn for_tiles(tiles: usize) -> Self {
        Self::with_blowup(tiles, if tiles <= SMALL_TILES { 2 } else { 1 })
    }

    /// The parameters for `tiles` tiles at rate `2^-log_blowup`: those with the smallest proof under the verifier's policy, or
    /// a shorter message as long as the proof is at most an eighth larger. The prover's time and memory for an opening grow
    /// with the message, which matters beyond `2^20` weights.
    pub fn with_blowup(tiles: usize, log_blowup: u32) -> Self {
        let of = |log_message| Self {
            tiles,
            log_message,
            log_blowup,
        };
        let queries = opening_policy(&of(TILE_AREA_LOG)).queries;
        let bytes = |log_message: u32| of(log_message).estimated_bytes(queries);
        let mut log_message = TILE_AREA_LOG;
        for next in TILE_AREA_LOG + 1..=MAX_MESSAGE_LOG {
            if bytes(next) < bytes(log_message) {
                log_message = next;
            }
        }
        let most = bytes(log_message) / 8 * 9;
        while log_message > LONG_MESSAGE_LOG && bytes(log_message - 1) <= most {
            log_message -= 1;
        }
        of(log_message)
    }

    /// Checks that the commitment is one this code can verify. Total on hostile input.
    pub fn check(&self) -> Result<(), OpeningError> {
        range("number of tiles", self.tiles, 1, MAX_TILES)?;
        range(
            "log2 of the message length",
            self.log_message as usize,
            TILE_AREA_LOG as usize,
            MAX_MESSAGE_LOG as usize,
        )?;
        range(
            "log2 of the blowup",
            self.log_blowup as usize,
            1,
            MAX_BLOWUP_LOG as usize,
        )
    }

    /// The columns that hold `tiles`, at least one, in bands of `2^log_band` tiles or as many as a column has.
    pub fn columns_of(&self, tiles: &Range<usize>, log_band: u32) -> OpenedColumns {
        let log = self.log_column_tiles();
        let first = (tiles.start >> log).min(self.columns().saturating_sub(1));
        let end = (tiles.end.div_ceil(1 << log) << log).min(self.tiles);
        OpenedColumns {
            first,
            params: Self {
                tiles: end.saturating_sub(first << log).max(1),
                ..*self
            },
            log_band: log_band.min(log),
        }
    }

    /// Tiles per column, log2.
    pub const fn log_column_tiles(&self) -> u32 {
        self.log_message.saturating_sub(TILE_AREA_LOG)
    }

    /// Number of columns; the last one is zero-padded.
    pub const fn columns(&self) -> usize {
        self.tiles.div_ceil(1 << self.log_column_tiles())
    }

    /// log2 of the number of columns of the multilinear extension (zero columns included).
    pub const fn log_columns(&self) -> u32 {
        self.columns().next_power_of_two().trailing_zeros()
    }

    /// log2 of the number of tiles of the multilinear extension.
    pub const fn log_tiles(&self) -> u32 {
        self.log_columns() + self.log_column_tiles()
    }

    /// log2 of the length of a codeword.
    pub const fn log_codeword(&self) -> u32 {
        self.log_message + self.log_blowup
    }

    /// log2 of the number of leaves of the weight tree, one per fibre of the first fold.
    pub const fn log_leaves(&self) -> u32 {
        self.log_codeword() - 1
    }

    /// Number of variables of the message of every committed oracle, in order.
    pub fn oracles(&self) -> impl Iterator<Item = u32> {
        let first = self.log_message.saturating_sub(1);
        (0..)
            .map_while(move |i| first.checked_sub(i * FOLD_LOG))
            .take_while(|&variables| variables > FINAL_LOG)
    }

    /// Number of variables of the final message.
    pub fn log_final(&self) -> u32 {
        self.oracles()
            .last()
            .unwrap_or(FINAL_LOG + FOLD_LOG)
            .saturating_sub(FOLD_LOG)
    }

    /// Approximate proof size in bytes.
    pub fn estimated_bytes(&self, queries: usize) -> usize {
        let path = |depth: u32| {
            let opened = queries.min(1 << depth).max(1);
            32 * opened * depth.saturating_sub(opened.ilog2()) as usize
        };
        // More columns than a host of 32 bits can count the bytes of are as good as any.
        let columns = self.columns().saturating_mul(queries * FIBRE * 4);
        let rows = columns.saturating_add(path(self.log_leaves()));
        let folded: usize = self
            .oracles()
            .map(|variables| (queries << FOLD_LOG) * 16 + path(variables + self.log_blowup - FOLD_LOG))
            .sum();
        rows.saturating_add(folded)
    }
}

/// The columns of a commitment that hold the tiles of a chunk: what an opening is about. Its tiles are numbered from the
/// first tile of the first of these columns on. Methods assume what [`OpenedColumns::check`] checks, which the columns of
/// [`CommitmentParams::columns_of`] satisfy where the tiles are whole bands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenedColumns {
    /// The first of the columns.
    pub first: usize,
    /// The columns as a commitment of their own.
    pub params: CommitmentParams,
    /// log2 of the number of tiles of a band, at most that of a column.
    pub log_band: u32,
}

impl OpenedColumns {
    /// Checks that the columns are ones this code can open, and made of whole bands. Total on hostile input.
    pub fn check(&self) -> Result<(), OpeningError> {
        self.params.check()?;
        let max = self.params.log_column_tiles() as usize;
        range("log2 of the tiles of a band", self.log_band as usize, 0, max)?;
        range(
            "number of tiles beyond the last band",
            self.params.tiles % (1 << self.log_band),
            0,
            0,
        )
    }

    /// The bands of the tiles in the columns, as the whole commitment numbers them.
    pub const fn bands(&self) -> Range<usize> {
        let tiles = self.tiles();
        tiles.start >> self.log_band..tiles.end >> self.log_band
    }

    /// log2 of the number of bands of the multilinear extension: rounds of the band sumcheck.
    pub const fn log_bands(&self) -> u32 {
        self.params.log_tiles() - self.log_band
    }

    /// log2 of the number of weights of a band: coordinates of the local point.
    pub const fn log_area(&self) -> u32 {
        self.log_band + TILE_AREA_LOG
    }

    /// The tiles in the columns, as the whole commitment numbers them.
    pub const fn tiles(&self) -> Range<usize> {
        let start = self.first << self.params.log_column_tiles();
        start..start + self.params.tiles
    }
}

/// What is claimed of a commitment: `sum_B gamma[B] B~(local_point) = value`.
#[derive(Clone, Copy, Debug)]
pub struct OpeningClaim<'a> {
    /// The columns that are opened.
    pub columns: OpenedColumns,
    /// One entry for every band of the columns.
    pub gamma: &'a [SecureField],
    /// Coordinates of the index within a band, MSB-first: `log_band` of the tile, six of the input, six of the output.
    pub local_point: &'a [SecureField],
    /// What the sum is.
    pub value: SecureField,
}

/// Query parameters of an opening. Part of the verifier's policy, never of the proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpeningPolicy {
    /// Number of query positions drawn.
    pub queries: usize,
    /// Bits of the proof of work before the queries are drawn, at most 32.
    pub work_bits: u32,
}

impl OpeningPolicy {
    /// Checks that a proof under this policy can exist and means something.
    pub fn check(&self) -> Result<(), OpeningError> {
        if !(1..=1 << 12).contains(&self.queries) || self.work_bits > 32 {
            return Err(OpeningError::Policy {
                queries: self.queries,
                work_bits: self.work_bits,
            });
        }
        Ok(())
    }
}

/// Opened leaves of the weight tree, in increasing order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowOpening {
    /// Per leaf: `columns * 2` values, column by column.
    pub values: Vec<BaseField>,
    /// Merkle nodes, as [`merkle::verify_batch`] reads them.
    pub path: Vec<Digest>,
}

/// Opened leaves of a folded oracle, in increasing order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OracleOpening {
    /// Per leaf: `2^FOLD_LOG` values.
    pub values: Vec<SecureField>,
    /// Merkle nodes, as [`merkle::verify_batch`] reads them.
    pub path: Vec<Digest>,
}

/// Proof of one opening.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpeningProof {
    /// Sumcheck over the band index, most significant bit first.
    pub band_rounds: Vec<Round>,
    /// `W~(rho, local_point)`, the evaluation that the band sumcheck ends at.
    pub band_value: SecureField,
    /// Sumcheck over the index in the column, from its second bit on, least significant bit first, down to the final message.
    pub fold_rounds: Vec<Round>,
    /// Roots of the folded oracles.
    pub roots: Vec<Digest>,
    /// The last folded message, `2^log_final` coefficients.
    pub final_message: Vec<SecureField>,
    /// Nonce of the proof of work.
    pub nonce: u64,
    /// Opened leaves of the weight tree.
    pub rows: RowOpening,
    /// Opened leaves of the folded oracles.
    pub oracles: Vec<OracleOpening>,
}

/// Names one Merkle tree of an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tree {
    /// The committed weights.
    Weights,
    /// A folded oracle, counted from 0.
    Oracle(usize),
}

impl std::fmt::Display for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Weights => write!(f, "weight tree"),
            Self::Oracle(i) => write!(f, "tree of folded oracle {i}"),
        }
    }
}

/// Why an opening is not accepted.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
// The messages say what each is.
#[allow(missing_docs)]
#[non_exhaustive]
pub enum OpeningError {
    #[error("{what} is {value}, but must be in {min}..={max}")]
    OutOfRange {
        what: &'static str,
        value: usize,
        min: usize,
        max: usize,
    },
    #[error("policy with {queries} queries and {work_bits} bits of work: 1 to 4096 queries and at most 32 bits")]
    Policy { queries: usize, work_bits: u32 },
    #[error("{what}: {got} entries, expected {expected}")]
    Length {
        what: &'static str,
        got: usize,
        expected: usize,
    },
    #[error("{tree}: {got} opened values, expected {expected}")]
    OpenedValues { tree: Tree, got: usize, expected: usize },
    #[error("{what}: a field element is not canonical")]
    NotCanonical { what: &'static str },
    #[error("the band sumcheck does not end at the claimed evaluation of the weights")]
    BandClaim,
    #[error("the folding sumcheck does not end at the final message")]
    FoldClaim,
    #[error("the nonce {nonce} is not a proof of {bits} bits of work")]
    Work { bits: u32, nonce: u64 },
    #[error("{tree}: the authentication path is too short")]
    PathTooShort { tree: Tree },
    #[error("{tree}: {unused} nodes of the authentication path are not used")]
    PathTooLong { tree: Tree, unused: usize },
    #[error("{tree}: the opened leaves do not hash to the root")]
    Root { tree: Tree },
    #[error("folded oracle {oracle} at position {position} is not the fold of the oracle before it")]
    Fold { oracle: usize, position: usize },
    #[error("the final message at position {position} is not the fold of the last oracle")]
    FinalMessage { position: usize },
}

fn range(what: &'static str, value: usize, min: usize, max: usize) -> Result<(), OpeningError> {
    match (min..=max).contains(&value) {
        true => Ok(()),
        false => Err(OpeningError::OutOfRange { what, value, min, max }),
    }
}

fn length(what: &'static str, got: usize, expected: usize) -> Result<(), OpeningError> {
    match got == expected {
        true => Ok(()),
        false => Err(OpeningError::Length { what, got, expected }),
    }
}

impl OpeningProof {
    /// Checks that every field element is the canonical representative, in `0..p`.
    fn check_canonical(&self) -> Result<(), OpeningError> {
        let secure =
            |what, values: &[SecureField]| match values.iter().all(|v| v.to_m31_array().iter().all(|c| c.0 < P)) {
                true => Ok(()),
                false => Err(OpeningError::NotCanonical { what }),
            };
        secure("band sumcheck", self.band_rounds.as_flattened())?;
        secure("evaluation of the weights", &[self.band_value])?;
        secure("folding sumcheck", self.fold_rounds.as_flattened())?;
        secure("final message", &self.final_message)?;
        for oracle in &self.oracles {
            secure("leaves of a folded oracle", &oracle.values)?;
        }
        match self.rows.values.iter().all(|v| v.0 < P) {
            true => Ok(()),
            false => Err(OpeningError::NotCanonical {
                what: "leaves of the weight tree",
            }),
        }
    }
}

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

/// Bits of security of every source of error of an opening, in the unique-decoding regime
/// (proximity parameter `(1 - rho) / 2`, `rho = 2^-log_blowup`, code length `n = 2^log_codeword`):
/// - queries: each misses a far word with probability at most `(1 + rho) / 2`, after `work_bits` bits of
///   work: `queries log2(2 / (1 + rho)) + work_bits`;
/// - column batch: combining `G'` columns with an eq tensor, `log2(G') n / |K|`;
/// - folds: `kappa` folds of codes of length at most `n`, `n / |K|` each;
/// - sumchecks: degree 2, so `2 / |K|` per round.
pub fn soundness_terms(columns: &OpenedColumns, policy: &OpeningPolicy) -> Vec<(String, f64)> {
    let params = &columns.params;
    let field_bits = 4.0 * f64::from(P).log2();
    let n = f64::from(params.log_codeword());
    let rate = (-f64::from(params.log_blowup)).exp2();
    let rounds = columns.log_bands() + (params.log_message - params.log_final()).saturating_sub(1);
    let mut terms = vec![
        (
            "opening: queries".to_string(),
            policy.queries as f64 * (2.0 / (1.0 + rate)).log2() + f64::from(policy.work_bits),
        ),
        (
            "opening: folds".to_string(),
            field_bits - n - f64::from(params.log_message).log2(),
        ),
        (
            "opening: sumchecks".to_string(),
            field_bits - 1.0 - f64::from(rounds).log2(),
        ),
    ];
    if params.log_columns() > 0 {
        terms.push((
            "opening: column batch".to_string(),
            field_bits - n - f64::from(params.log_columns()).log2(),
        ));
    }
    terms
}
