//! Bounds on the length of the proof of an opening.

use super::lift;
use super::params::{CommitmentParams, Layout, FIBRE, FINAL_LOG, FOLD_LOG, MASK_COLUMNS, TILE_AREA_LOG};
use crate::codec::sizes::{log_ceil, path, rounds, BASE, DIGEST, LIST, NONCE, SECURE};
use crate::policy::{ACTIVATION_COLUMNS, WORKED_FOLDS};

/// The most bytes of an opening of all or some of a model's weights, of at most so many cells of activations, and of two boundaries of at
/// most so many units each, if boundaries are committed to.
pub fn most_bytes(weights: &CommitmentParams, cells: u128, boundary: Option<usize>) -> u128 {
    let tiles = usize::try_from(cells >> TILE_AREA_LOG).unwrap_or(usize::MAX);
    let others = [Some(tiles), boundary, boundary];
    let others = others.into_iter().flatten();
    let others: Vec<CommitmentParams> = others.map(|tiles| CommitmentParams::of_tiles(tiles, weights)).collect();
    most_bytes_of(weights, &others, 0)
}

/// The most bytes of an opening of a model's weights and of hidden activations, given the parameters of the activations' commitment for the
/// longest statement.
pub fn most_hidden_bytes(weights: &CommitmentParams, activations: &CommitmentParams) -> u128 {
    most_bytes_of(weights, &[*activations], 1)
}

/// The most bytes of the opening of a reveal, given the parameters of the activations' commitment for the longest statement and those of the commitment of the
/// reveal, whose messages are as long.
pub fn most_reveal_bytes(activations: &CommitmentParams, own: &CommitmentParams) -> u128 {
    let queries = activations.queries();
    let codes = [
        activations_code(activations, 1),
        code(queries, own, own.columns().saturating_sub(MASK_COLUMNS), MASK_COLUMNS),
    ];
    most_bytes_of_codes(&codes, activations, 1)
}

/// The most bytes of an opening of weights and of other commitments, with a mask or without one.
fn most_bytes_of(weights: &CommitmentParams, others: &[CommitmentParams], masks: usize) -> u128 {
    let queries = weights.queries();
    let own = others.iter().map(|most| activations_code(most, masks));
    let codes: Vec<u128> = own.chain([code(queries, weights, weights.columns(), 0)]).collect();
    let long = lift::longest(others.iter().chain([weights])).unwrap_or(*weights);
    most_bytes_of_codes(&codes, &long, masks)
}

/// The most bytes that an opening has of the activations of a statement, given the parameters for the longest one, with columns of a mask or without them.
fn activations_code(most: &CommitmentParams, masks: usize) -> u128 {
    // The longest message of fewer tiles is no longer; it has more columns only if the longest code is too short for them.
    let mask = masks * MASK_COLUMNS;
    let columns = most.columns().saturating_sub(mask).max(ACTIVATION_COLUMNS);
    code(most.queries(), most, columns, mask)
}

/// The most bytes of an opening of commitments that have so many bytes of their own, of which the longest code is `long`.
fn most_bytes_of_codes(codes: &[u128], long: &CommitmentParams, masks: usize) -> u128 {
    let queries = long.queries();
    // One value of a leaf is known at least.
    let sent = LIST + SECURE * (queries as u128) * ((1 << FOLD_LOG) - 1);
    let oracles = long.oracles().map(|variables| {
        let depth = variables + long.log_blowup - FOLD_LOG;
        DIGEST + sent + path(queries, depth)
    });
    let folds = rounds(long.log_folded().into()) + 2 * LIST + oracles.sum::<u128>();
    let cross_values = LIST + SECURE * super::verify::cross(codes.len(), masks).count() as u128;
    // Before the columns are added, before the first folds, and before the queries.
    let nonces = NONCE + LIST + NONCE * WORKED_FOLDS as u128 + NONCE;
    LIST + codes.iter().sum::<u128>() + cross_values + folds + LIST + (SECURE << FINAL_LOG) + nonces
}

/// The most bytes that an opening has of one commitment alone: of so many columns that the claim is about, in bands of one tile, and of so many
/// columns of mask and tape behind them.
fn code(queries: usize, params: &CommitmentParams, columns: usize, mask: usize) -> u128 {
    let values = BASE * (queries * (columns + mask) * FIBRE) as u128;
    let rows = LIST + values + path(queries, params.log_leaves());
    let log_columns = log_ceil(columns as u128);
    let nonces = LIST + NONCE * u128::from(log_columns);
    rounds((log_columns + params.log_column_tiles()).into()) + nonces + SECURE + rows
}
