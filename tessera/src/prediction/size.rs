//! How long a proof will be. The fields are those of docs/format.md, section 3; only the opened leaves are not known before, and
//! are counted as they are on average.

use tessera_circuits::air::tables::LOG_ROWS;
use tessera_circuits::chunk::Chunk;
use tessera_circuits::shape::Shape;
use tessera_circuits::trees::{depths, Forest};
use tessera_plan::average;
use tessera_verifier::codec::HEADER_LEN;
use tessera_verifier::key::ModelKey;
use tessera_verifier::opening::CommitmentParams;
use tessera_verifier::policy::{queries, STARK_LOG_BLOWUP};

/// Bytes of the length of a list, of a field element, of an element of the extension, and of a digest.
const LIST: f64 = 8.0;
const BASE: f64 = 4.0;
const SECURE: f64 = 16.0;
const DIGEST: f64 = 32.0;
/// log2 of the weights of a tile.
const TILE_LOG: u32 = 12;
/// Folds between two oracles, and the variables of the last message.
const FOLD_LOG: u32 = 3;
const FINAL_LOG: u32 = 8;
/// Bytes that say how the tables are proved.
const KIND: f64 = 4.0;
/// Bytes of the STARK of the tables, whose size no statement changes, for four relations; and of each further one.
const STARK: f64 = 241_000.0;
const RELATION: f64 = 3_000.0;

/// Bytes of a proof of a statement of so many tokens in these chunks.
pub(super) fn proof(key: &ModelKey, chunks: &[Chunk], shapes: &[Shape], tokens: usize) -> u64 {
    let config = &key.config;
    let output = if config.generates() { 0 } else { 1 + config.hidden };
    let statement = HEADER_LEN as f64 + DIGEST + 4.0 * LIST + BASE * (tokens + output) as f64;
    let boundary = |shape: &Shape| match key.boundary(shape.rows) {
        Some(_) => LIST + DIGEST,
        None => LIST + 2.0 * (config.hidden * shape.rows) as f64,
    };
    let boundaries: f64 = shapes.iter().skip(1).map(boundary).sum();
    let own = chunks.iter().zip(shapes).map(|(chunk, shape)| piece(key, chunk, shape));
    (statement + boundaries + own.sum::<f64>()).round() as u64
}

/// The proof of a chunk.
fn piece(key: &ModelKey, chunk: &Chunk, shape: &Shape) -> f64 {
    // Few values are clipped.
    let said = BASE + LIST + DIGEST + 8.0;
    let forest = Forest::of(shape);
    let tree = shape.table_tree();
    let logs = forest.logs_with(tree.as_ref());
    let groups = depths(&logs).into_iter().map(|depth| {
        let layers = (0..depth).map(|layer| rounds(layer) + LIST);
        2.0 * LIST + layers.sum::<f64>()
    });
    let trees = logs.iter().map(|log| (2.0 + 4.0 * f64::from(*log)) * SECURE);
    let sumchecks = SECURE + rounds(shape.product_variables()) + rounds(shape.max_log_rows());
    let boundary = key.boundary(shape.rows).map(|(_, params)| params);
    let ends = usize::from(!chunk.is_first()) + usize::from(!chunk.is_last());
    let boundaries: Vec<CommitmentParams> = boundary.into_iter().cycle().take(ends).collect();
    let said = said + if boundaries.is_empty() { 0.0 } else { 2.0 * SECURE };
    let operands = LIST + 2.0 * SECURE * shape.existing().count() as f64;
    let weights = CommitmentParams {
        tiles: key.opened(chunk).tiles().len(),
        ..key.weights
    };
    let activations = CommitmentParams::of_activations(shape, &key.weights);
    let relations = shape.config.relations().len() as f64;
    said + LIST
        + groups.sum::<f64>()
        + trees.sum::<f64>()
        + sumchecks
        + operands
        + opening(&weights, &activations, &boundaries)
        + KIND
        + match tree {
            None => stark(relations, forest.is_weighted()),
            Some(_) => 0.0,
        }
}

/// The STARK of the tables of so many relations.
fn stark(relations: f64, weighted: bool) -> f64 {
    let further = if weighted { relations * coordinates() } else { 0.0 };
    STARK + RELATION * (relations - 4.0) + further
}

/// The three columns that the multiplicities of a relation have more where balance groups are weighed: a sample, and what is opened.
fn coordinates() -> f64 {
    let opened = average::leaves(queries(STARK_LOG_BLOWUP), LOG_ROWS + STARK_LOG_BLOWUP);
    3.0 * (2.0 * LIST + SECURE + BASE * opened)
}

/// A sumcheck.
fn rounds(number: u32) -> f64 {
    LIST + 2.0 * SECURE * f64::from(number)
}

/// The opening of weights, activations and boundaries.
fn opening(weights: &CommitmentParams, activations: &CommitmentParams, boundaries: &[CommitmentParams]) -> f64 {
    let count = queries(weights.log_blowup);
    let code = |params: &CommitmentParams| {
        let depth = params.log_message + params.log_blowup - 1;
        let tiles = params.columns().next_power_of_two().trailing_zeros() + params.log_message - TILE_LOG;
        rounds(tiles)
            + SECURE
            + LIST
            + 2.0 * BASE * params.columns() as f64 * average::leaves(count, depth)
            + path(count, depth)
    };
    let codes = || [weights, activations].into_iter().chain(boundaries);
    let longest = codes().map(|own| own.log_message).max();
    let (variables, claims) = (longest.unwrap_or(0), codes().count() as f64);
    let cross_values = LIST + claims * (claims - 1.0) * SECURE;
    let mut folds = LIST + cross_values + rounds(variables) + 3.0 * LIST + SECURE * f64::from(FINAL_LOG).exp2() + 8.0;
    let mut left = variables - 1;
    while left > FINAL_LOG {
        let depth = left + weights.log_blowup - FOLD_LOG;
        let values = (f64::from(FOLD_LOG).exp2() - 1.0) * SECURE * average::leaves(count, depth);
        folds += DIGEST + LIST + values + path(count, depth);
        left = left.saturating_sub(FOLD_LOG);
    }
    codes().map(code).sum::<f64>() + folds
}

/// The authentication path of random leaves.
fn path(queries: usize, depth: u32) -> f64 {
    LIST + DIGEST * average::path(queries, depth)
}
