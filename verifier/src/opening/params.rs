//! The shape of a commitment, and of what is opened of it.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use tessera_circuits::boundary::BoundaryUnits;
use tessera_circuits::shape::Shape;

use super::error::{range, OpeningError};
use super::policy::OpeningPolicy;
use crate::policy::{ACTIVATION_COLUMNS, FEW_COLUMNS, MAX_CODE_LOG, SHORT_MESSAGE_LOG};

/// log2 of the number of weights of a tile.
pub const TILE_AREA_LOG: u32 = 12;
/// Number of folds between two committed oracles: log2 of the number of values in a leaf of an oracle.
pub const FOLD_LOG: u32 = 3;
/// An oracle is committed while the message has more than this many variables. Up to here the message itself has fewer bytes
/// than the leaves and paths of an oracle.
pub const FINAL_LOG: u32 = 8;
/// Points of one leaf of a committed tree: a fibre of the first fold.
pub const FIBRE: usize = 2;

/// Columns of mask and tape in a commitment to hidden activations: the coordinates of a message over the extension field.
pub const MASK_COLUMNS: usize = 4;

const MAX_TILES: usize = 1 << 24;
/// log2 of the most weights that a column can have.
pub const MAX_MESSAGE_LOG: u32 = 24;
const MAX_BLOWUP_LOG: u32 = 4;

/// Shape of a commitment, as the key has the shape of the weights. Every method assumes that [`Self::check`] passed. [`Layout`]
/// says what follows for columns, codes, trees and oracles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitmentParams {
    /// Number of 64 x 64 tiles.
    pub tiles: usize,
    /// `mu`: log2 of the number of weights in a column.
    pub log_message: u32,
    /// log2 of the inverse rate of the code.
    pub log_blowup: u32,
}

impl CommitmentParams {
    /// Points of a codeword in one leaf of a tree.
    pub const LEAF_POINTS: u32 = FIBRE as u32;

    /// The code of a statement's activations, by their number and the code of the weights: the rate is that of the weights, so
    /// that both are opened together. Oracles are those of the longer code, so up to the length of the weights' messages a
    /// longer message has only smaller rows.
    pub fn of_activations(shape: &Shape, weights: &Self) -> Self {
        // What does not fit has no security, which is said elsewhere.
        Self::of_tiles(usize::try_from(shape.units()).unwrap_or(usize::MAX), weights)
    }

    /// The code of a boundary between chunks, by the rule of activations.
    pub fn of_boundary(units: &BoundaryUnits, weights: &Self) -> Self {
        Self::of_tiles(units.count(), weights)
    }

    /// The parameters for activations of so many tiles. More tiles never make the message shorter.
    pub(super) fn of_tiles(tiles: usize, weights: &Self) -> Self {
        let tiles = tiles.max(1);
        let least = |columns| TILE_AREA_LOG + tiles.div_ceil(columns).next_power_of_two().trailing_zeros();
        let short = least(FEW_COLUMNS).min(weights.log_message).min(SHORT_MESSAGE_LOG);
        Self {
            tiles,
            log_message: least(ACTIVATION_COLUMNS)
                .max(short)
                .min(MAX_CODE_LOG.saturating_sub(weights.log_blowup).max(weights.log_message)),
            log_blowup: weights.log_blowup,
        }
    }

    /// The opening's parameters, as a transcript absorbs them before anything else: queries, bits of work, rate, length of messages
    /// and number of tiles.
    pub const fn words(&self) -> [u32; 5] {
        let policy = OpeningPolicy::at_rate(self.log_blowup);
        [
            policy.queries as u32,
            policy.grind_bits,
            self.log_blowup,
            self.log_message,
            self.tiles as u32,
        ]
    }

    /// Number of positions of an opening under the policy of the rate.
    pub const fn queries(&self) -> usize {
        OpeningPolicy::at_rate(self.log_blowup).queries
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

    /// All columns, in bands of one tile.
    pub fn all(&self) -> OpenedColumns {
        self.columns_of(&(0..self.tiles), 0)
    }

    /// Number of columns; the last one is zero-padded.
    pub fn columns(&self) -> usize {
        self.tiles.div_ceil(1 << self.log_column_tiles())
    }
}

/// Columns for hidden activations, with messages of some length: the last unit of each is blind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// A column.
    column: CommitmentParams,
    /// Whether messages may be no longer.
    longest: bool,
}

impl Slots {
    /// Columns of `2^log_message` values for activations that in clear have the code `clear`. `None` if activations have no code that long.
    pub fn new(clear: &CommitmentParams, weights: &CommitmentParams, log_message: u32) -> Option<Self> {
        let most = MAX_CODE_LOG.saturating_sub(weights.log_blowup).max(weights.log_message);
        let column = CommitmentParams {
            tiles: 1 << log_message.saturating_sub(TILE_AREA_LOG),
            log_message,
            ..*clear
        };
        let longest = log_message == most;
        (log_message <= most).then_some(Self { column, longest })
    }

    /// The columns of which these are some. They are taken for ones whose messages may be longer.
    pub fn of(columns: &OpenedColumns) -> Self {
        let column = CommitmentParams {
            tiles: columns.column_tiles(),
            ..columns.params
        };
        Self { column, longest: false }
    }

    /// Units of a column beside the blind one.
    pub const fn units(&self) -> usize {
        self.column.tiles.saturating_sub(1)
    }

    /// Number of columns at most.
    pub const fn most_columns(&self) -> usize {
        match (self.units(), self.longest) {
            // There is room for nothing but blind units.
            (0, _) => 0,
            (_, false) => ACTIVATION_COLUMNS,
            (_, true) => MAX_TILES,
        }
    }

    /// Entries of the tape at most: every second coefficient of a message.
    pub const fn tape(&self) -> usize {
        1 << self.column.log_message.saturating_sub(1)
    }

    /// The commitment of so many columns with the columns of mask and tape behind them, and the columns without these.
    pub fn commitment(&self, columns: usize) -> (CommitmentParams, OpenedColumns) {
        let of = |columns: usize| CommitmentParams {
            tiles: columns.saturating_mul(self.column.tiles),
            ..self.column
        };
        let own = of(columns).all();
        (of(columns.saturating_add(MASK_COLUMNS)), own)
    }
}

/// The layout of a commitment in columns, codes, trees and oracles. Both openings calculate with it, and nobody else does. It is a
/// trait so that a caller has to import it, which `fixtures/check_imports.py` sees.
pub trait Layout {
    /// The commitment, or the opened columns as a commitment of their own.
    fn params(&self) -> &CommitmentParams;

    /// Tiles per column, log2.
    fn log_column_tiles(&self) -> u32 {
        self.params().log_message.saturating_sub(TILE_AREA_LOG)
    }

    /// log2 of the number of columns of the multilinear extension (zero columns included).
    fn log_columns(&self) -> u32 {
        self.params().columns().next_power_of_two().trailing_zeros()
    }

    /// log2 of the number of tiles of the multilinear extension.
    fn log_tiles(&self) -> u32 {
        self.log_columns() + self.log_column_tiles()
    }

    /// log2 of the length of a codeword.
    fn log_codeword(&self) -> u32 {
        self.params().log_message + self.params().log_blowup
    }

    /// log2 of the number of leaves of the tree, one per fibre of the first fold.
    fn log_leaves(&self) -> u32 {
        self.log_codeword() - 1
    }

    /// Number of variables of a message after its first fold.
    fn log_folded(&self) -> u32 {
        self.params().log_message.saturating_sub(1)
    }

    /// Number of variables of the message of every committed oracle, in order.
    fn oracles(&self) -> impl Iterator<Item = u32> {
        let first = self.log_folded();
        (0..)
            .map_while(move |i| first.checked_sub(i * FOLD_LOG))
            .take_while(|&variables| variables > FINAL_LOG)
    }

    /// Number of variables of the final message.
    fn log_final(&self) -> u32 {
        self.oracles()
            .last()
            .unwrap_or(FINAL_LOG + FOLD_LOG)
            .saturating_sub(FOLD_LOG)
    }
}

impl Layout for CommitmentParams {
    fn params(&self) -> &CommitmentParams {
        self
    }
}

impl Layout for OpenedColumns {
    fn params(&self) -> &CommitmentParams {
        &self.params
    }
}

/// The columns of a commitment that hold the tiles of a chunk: what an opening is about. Its tiles are numbered from the
/// first tile of the first of these columns on. Methods assume what [`OpenedColumns::check`] checks, which the columns of
/// [`CommitmentParams::columns_of`] satisfy where the tiles are whole bands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenedColumns {
    /// The first of the columns.
    pub(super) first: usize,
    /// The columns as a commitment of their own.
    pub(super) params: CommitmentParams,
    /// log2 of the number of tiles of a band, at most that of a column.
    pub(super) log_band: u32,
}

/// Builds opened columns from unchecked parts: the first column, all of them as a commitment of their own, and log2 of the tiles of
/// a band.
pub const fn said_columns(first: usize, params: CommitmentParams, log_band: u32) -> OpenedColumns {
    OpenedColumns {
        first,
        params,
        log_band,
    }
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

    /// The first column, the number of tiles and log2 of the tiles of a band, as a transcript absorbs them.
    pub const fn words(&self) -> [u32; 3] {
        [self.first as u32, self.params.tiles as u32, self.log_band]
    }

    /// log2 of the number of tiles of a band, at most that of a column.
    pub const fn log_band(&self) -> u32 {
        self.log_band
    }

    /// The bands of the tiles in the columns, as the whole commitment numbers them.
    pub fn bands(&self) -> Range<usize> {
        let tiles = self.tiles();
        tiles.start >> self.log_band..tiles.end >> self.log_band
    }

    /// Tiles of a column.
    pub fn column_tiles(&self) -> usize {
        1 << self.params.log_column_tiles()
    }

    /// log2 of the number of bands of the multilinear extension: rounds of the band sumcheck.
    pub fn log_bands(&self) -> u32 {
        self.params.log_tiles() - self.log_band
    }

    /// log2 of the number of weights of a band: coordinates of the local point.
    pub const fn log_area(&self) -> u32 {
        self.log_band + TILE_AREA_LOG
    }

    /// The tiles in the columns, as the whole commitment numbers them.
    pub fn tiles(&self) -> Range<usize> {
        let start = self.first << self.params.log_column_tiles();
        start..start + self.params.tiles
    }
}
