//! How long a proof can be that a key accepts, so that nobody has to read more of a file (docs/format.md, section 3).
//!
//! Every list of a proof has a length that the verifier knows, and here is the largest that each of them can have: over all
//! statements that fit the context, and all ways to cut the model in chunks. Nothing is added to be on the safe side. Three
//! things carry the bound:
//!
//! - Parts are cut in the way that costs least, lanes that nobody proves aside, and longer axes allow no cheaper one ([`Shape::cost`]). So the cost of the whole
//!   model at its full context is at least that of any chunk of any statement, and cells and lookups are at most the cost.
//! - Trees of lookups, but for the last one, are full. So there are at most as many as the lookups fill, and one more.
//! - `q` leaves of a binary tree leave open at most `q` nodes of a level, and at most half of them.

use tessera_circuits::air::lookups::Relation;
use tessera_circuits::air::tables::LOG_ROWS;
use tessera_circuits::boundary::{BoundaryUnits, COMMITTED_VALUES};
use tessera_circuits::chunk::Chunk;
use tessera_circuits::claims::PLACES;
use tessera_circuits::shape::{LeafLimits, Shape};
use tessera_circuits::statement::Lengths;
use tessera_circuits::statistics::Statistics;
use tessera_circuits::table_tree::TableArgument;

use crate::codec::sizes::{log_ceil, path, rounds, BASE, DIGEST, LIST, NONCE, SECURE};
use crate::codec::{HEADER_LEN, PROOF_LIMIT};
use crate::context::Context;
use crate::hiding::{most_reveals, HiddenCode};
use crate::key::ModelKey;
use crate::opening::{self, CommitmentParams};
use crate::policy::{stark_config, STARK_FOLD_STEP, STARK_LOG_LAST_LAYER};
use crate::stark;

/// Bytes of a clipped value.
const CLIP: u128 = 14;
/// Bytes of a number of reveals.
const WORD: u128 = 4;
/// Bytes that say how the tables are proved.
const KIND: u128 = 4;
/// Operands of the products in the tree of the tables, which has at most eight planes.
const TABLE_OPERANDS: u128 = 4 * (LOG_ROWS as u128 + 3) + 2;

/// The most bytes of a proof that a key accepts. The key must have passed its check.
pub fn most_bytes(key: &ModelKey) -> usize {
    let config = &key.config;
    let shape = longest(key);
    let (layers, tokens) = (config.layers as u128, config.context as u128);
    // In clear a boundary has fewer values than a committed one; a root is shorter.
    let most_values = (tokens * config.hidden as u128).min(COMMITTED_VALUES as u128 - 1);
    let boundary = LIST + (2 * most_values).max(DIGEST);
    let chunks = layers.saturating_sub(1) * boundary + layers * chunk(key, &shape);
    file(key, chunks).max(most_hidden_bytes(key))
}

/// The most bytes of a proof that hides its activations and that a key accepts. The key must have passed its check.
pub fn most_hidden_bytes(key: &ModelKey) -> usize {
    let all = Lengths::from(key.config.context).all_hidden();
    file(key, hidden(key, &shape_of(key, all)))
}

/// The most bytes of a reveal of ids that a proof of the key's model hides. The key must have passed its check.
pub fn most_reveal_bytes(key: &ModelKey) -> usize {
    let lengths = Lengths::from(key.config.context).all_hidden();
    let shape = shape_of(key, lengths).with_tables(key.tables_of_proof(true));
    let activations = longest_code(key, &shape);
    let own = HiddenCode::longest_of_reveal(&activations);
    let ids = LIST + 8 * (key.config.context as u128 + 1);
    // Of no statement is a column longer than all cells of the longest one.
    let (cells, _) = tables(key, key.tables_of_proof(true), shape.cost());
    let tape = LIST + 3 * SECURE + NONCE;
    let said = DIGEST + ids + DIGEST + rounds(log_ceil(cells).into()) + NONCE + tape;
    let payload = said.saturating_add(opening::most_reveal_bytes(&activations, &own));
    HEADER_LEN + payload.min(PROOF_LIMIT as u128) as usize
}

/// The longest code of activations that a proof hides, given the shape of the longest statement: that of the most reveals, because more of them make no code
/// shorter, and codes that are shorter have no more columns than a bound assumes of all.
fn longest_code(key: &ModelKey, shape: &Shape) -> CommitmentParams {
    let chunk = Chunk::whole(key.config.layers);
    let code = HiddenCode::of(key, &chunk, shape, most_reveals(&key.weights));
    code.map_or_else(|| HiddenCode::longest(key, shape), |code| code.params)
}

/// The whole model at its full context, without the counts of a tree of tables, which no cost has: how many there are depends on how lookups
/// lie ([`tables`]).
fn longest(key: &ModelKey) -> Shape {
    shape_of(key, Lengths::from(key.config.context))
}

/// The whole model on a statement of these lengths, without counts.
fn shape_of(key: &ModelKey, lengths: Lengths) -> Shape {
    let chunk = Chunk::whole(key.config.layers);
    key.shape(&chunk, lengths).with_tables(TableArgument::Stark)
}

/// The most bytes of a file with chunks, and with all else beside its statement, of so many bytes.
fn file(key: &ModelKey, chunks: u128) -> usize {
    let config = &key.config;
    // A prompt and an output that fill the context and one token more; or a prompt, and the vector of an encoder.
    let ids = match config.generates() {
        true => config.context + 1,
        false => config.context + config.hidden + 1,
    } as u128;
    let statement = DIGEST + 2 * LIST + 4 * ids;
    let payload = (Context::BYTES as u128 + statement + 2 * LIST).saturating_add(chunks);
    let payload = payload.min(PROOF_LIMIT as u128);
    HEADER_LEN + payload as usize
}

/// The most bytes of the proof of a chunk.
fn chunk(key: &ModelKey, whole: &Shape) -> u128 {
    let way = key.tables_of_proof(false);
    let (cost, (cells, _)) = (whole.cost(), tables(key, way, whole.cost()));
    let clips = CLIP * cost.min(Statistics::MAX_CLIPS as u128);
    let boundary = BoundaryUnits::of(key.config.context, key.config.hidden).map(|units| units.count());
    clips + before_opening(key, way, whole) + opening::most_bytes(&key.weights, cells, boundary)
}

/// The most bytes of the proof of a chunk without its opening and clipped values.
fn before_opening(key: &ModelKey, way: TableArgument, whole: &Shape) -> u128 {
    let cost = whole.cost();
    let (cells, tables) = tables(key, way, cost);
    // With the work before the lookups, before the random point and in the linear claims.
    let said = 4 + LIST + DIGEST + 3 * NONCE + LIST + trees(cost);
    let matmuls = SECURE + rounds(whole.product_variables().into()) + LIST + 2 * SECURE * PLACES as u128;
    let linear = rounds(log_ceil(cells).into());
    said + matmuls + linear + KIND + tables
}

/// The most bytes of the one chunk of a proof that hides activations, with the messages that hide them. A longer statement has no shorter code.
fn hidden(key: &ModelKey, whole: &Shape) -> u128 {
    let cost = whole.cost();
    let way = key.tables_of_proof(true);
    let shape = whole.clone().with_tables(way);
    let code = longest_code(key, &shape);
    let log = u128::from(log_ceil(cost));
    // A mask for each operand: of each tree four in each layer and two in the first one.
    let operands = number_of_trees(cost) * (4 * log + 2) + TABLE_OPERANDS + 2 * PLACES as u128 + 2;
    let answers = WORD + LIST + SECURE * operands + 3 * SECURE + NONCE;
    let variables = whole.digit_variables().unwrap_or(0) as u128;
    let digits = rounds(variables) + LIST + 2 * SECURE;
    answers + digits + before_opening(key, way, whole) + opening::most_hidden_bytes(&key.weights, &code)
}

/// The most cells of a chunk, counts of the tables included, and the most bytes that the tables have in its proof.
fn tables(key: &ModelKey, way: TableArgument, cost: u128) -> (u128, u128) {
    let relations = key.config.relations();
    // Two neighbouring balance groups have as many lookups as one may not have.
    let balances = 2 * (cost / u128::from(LeafLimits::OF_STATEMENTS.balance)) + 1;
    match way {
        TableArgument::Stark => (cost, SECURE + aggregator(&relations, balances > 1)),
        TableArgument::Gkr => {
            let planes = (relations.len() as u128) << LOG_ROWS;
            // The tree may be a group of its own.
            (cost + balances * planes, tree(log_ceil(planes).into()))
        }
    }
}

/// A tree that is a group.
fn tree(log: u128) -> u128 {
    let layers = (0..log).map(|layer| rounds(layer) + LIST);
    2 * SECURE + log * 4 * SECURE + 2 * LIST + layers.sum::<u128>()
}

/// The number of trees of so many lookups at most: all but the last are full.
fn number_of_trees(lookups: u128) -> u128 {
    (lookups >> LeafLimits::OF_STATEMENTS.log_tree) + 1
}

/// The trees of so many lookups. All but the last are full, and so are groups but the last, of twelve trees or of more than half as many
/// leaves as they may have.
fn trees(lookups: u128) -> u128 {
    let log = u128::from(log_ceil(lookups));
    let full = LeafLimits::OF_STATEMENTS.log_tree;
    let (number, groups) = (number_of_trees(lookups), (lookups >> (full + 3)) + 1);
    let layers = (0..log).map(|layer| rounds(layer) + LIST);
    number * (2 * SECURE + log * 4 * SECURE) + groups * (2 * LIST + layers.sum::<u128>())
}

/// The proof of the aggregator: each of its lists has the length that is checked, or that stwo asks for.
fn aggregator(relations: &[Relation], weighted: bool) -> u128 {
    let fri = stark_config().fri_config;
    let queries = fri.n_queries as u128;
    let path = |log_degree: u32| path(fri.n_queries, log_degree + fri.log_blowup_factor);
    let tree = |columns: &Vec<usize>| {
        let column = |samples: &usize| LIST + SECURE * *samples as u128 + LIST + BASE * queries;
        DIGEST + path(LOG_ROWS) + 2 * LIST + columns.iter().map(column).sum::<u128>()
    };
    let trees = 4 * LIST + stark::samples(relations, weighted).iter().map(tree).sum::<u128>();
    // One value of a leaf is known at least.
    let witness = LIST + SECURE * queries * ((1 << STARK_FOLD_STEP) - 1);
    let folded = (0..LOG_ROWS - STARK_LOG_LAST_LAYER).step_by(STARK_FOLD_STEP as usize);
    let layers = folded.map(|folds| witness + path(LOG_ROWS - folds) + DIGEST);
    let last = LIST + (SECURE << STARK_LOG_LAST_LAYER) + 4;
    // The configuration, which has all of its options, and the nonce.
    let config = 4 + 4 + 4 + 8 + 4 + 1 + 4 + 8;
    config + trees + layers.sum::<u128>() + LIST + last
}
