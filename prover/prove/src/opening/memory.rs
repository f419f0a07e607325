//! The memory that committing and opening need, added up from their tables.

use tessera_verifier::opening::parts::{longest, Layout, OpeningPolicy, FIBRE, FOLD_LOG};
use tessera_verifier::opening::{CommitmentParams, OpenedColumns};
use tessera_verifier::suite::Suite;

use super::commit::{Split, SIMD_LANES, WORD as WORD_BYTES};
use super::tree::Tree;
use tessera_kernels::hashes::leaf_bytes;

/// Bytes of a field element, of an element of its extension, and of a digest.
const WORD: u64 = WORD_BYTES as u64;
const SECURE: u64 = 16;
const DIGEST: u64 = 32;
/// Buffers of a pass over the weights.
const PASS: u64 = 16 << 20;

/// Bytes of the combined column of some columns, folded once: what the pass over the weights before an opening leaves room for.
pub fn message_bytes(columns: &OpenedColumns) -> usize {
    (SECURE as usize) << columns.log_folded()
}

/// Bytes that committing to weights holds.
pub fn commit_bytes(suite: Suite, params: &CommitmentParams, split: Split) -> u64 {
    let (twiddles, making) = code_twiddles(params);
    let length = 1u64 << params.log_message;
    let encoding = 32 * length + ((64 * length) >> split.log());
    leaves(suite, params) + 2 * Tree::file_len(params) + making.max(twiddles + encoding)
}

/// Bytes that committing to units holds beside them and their tree: encoding a batch of columns.
pub fn encoding_bytes(suite: Suite, params: &CommitmentParams) -> u64 {
    let (twiddles, making) = code_twiddles(params);
    let length = 1u64 << params.log_message;
    leaves(suite, params) + making.max(twiddles + 2 * WORD * SIMD_LANES as u64 * length)
}

/// The hashes of all leaves of a tree while their columns are encoded.
fn leaves(suite: Suite, params: &CommitmentParams) -> u64 {
    (leaf_bytes(suite) as u64) << params.log_leaves()
}

/// An opening of weights, activations and boundaries, as far as its memory depends on it.
pub struct Opening<'a> {
    pub suite: Suite,
    pub weights: &'a CommitmentParams,
    pub units: &'a CommitmentParams,
    /// One for each committed boundary.
    pub boundaries: &'a [CommitmentParams],
    /// The opened columns of the weights.
    pub columns: &'a OpenedColumns,
    /// Bytes that the first pass over the weights leaves to the combined column.
    pub sums: u64,
    /// Whether opened rows are read from a file of the codeword.
    pub codeword_file: bool,
    /// Bytes of the weights that are resident while a pass reads them, and while none does.
    pub resident: (u64, u64),
}

impl Opening<'_> {
    /// Bytes that the opening holds: the combined messages, the oracles of their sum, and the opened rows.
    pub fn bytes(&self) -> u64 {
        let (weights, units, (reading, idle)) = (self.weights, self.units, self.resident);
        let long = longest([weights, units].into_iter().chain(self.boundaries)).expect("two codes");
        let queries = OpeningPolicy::at_rate(long.log_blowup).queries as u64;
        let ends = || self.boundaries.iter();
        let tiles = units.tiles + ends().map(|own| own.tiles).sum::<usize>();
        let tables = 3 * SECURE * (self.columns.bands().len() + tiles) as u64;
        // Combined columns are folded once while they are made; the one of the weights takes the place of the sums of bands.
        let [of_weights, of_units] = [weights, units].map(|params| SECURE << params.log_folded());
        let of_weights = of_weights.max(self.sums);
        let of_ends = ends().map(|own| SECURE << own.log_folded()).sum::<u64>();
        let combine = reading + of_weights + PASS;
        // The longer one at the point of the shorter: no more values are chosen than that has.
        let cross = idle + of_weights + of_units + of_ends + of_weights.min(of_units.max(of_ends));
        let fold = idle + of_weights.max(of_units) + folding(&long);
        // Without a file the opened rows are made in a pass over the weights: sums of every column, and values.
        let of_columns = match self.codeword_file {
            true => idle,
            false => reading + 3 * queries * 64 * WORD * weights.columns() as u64 + PASS,
        };
        let twiddles = code_twiddles(&long).0 + code_twiddles(weights).0;
        let held = oracles(&long) + opened_rows(weights) + opened_rows(units) + ends().map(opened_rows).sum::<u64>();
        let encoding = ends().chain([units]).map(|own| encoding_bytes(self.suite, own)).max();
        let rows = held + twiddles + of_columns.max(idle + encoding.unwrap_or(0));
        tables + combine.max(cross).max(fold).max(rows)
    }
}

/// Bytes of the twiddles of a code, and of making them.
fn code_twiddles(params: &CommitmentParams) -> (u64, u64) {
    let points = 1u64 << (params.log_codeword() - 1);
    (2 * WORD * points, 5 * WORD * points)
}

/// The oracles of an opening with their trees.
fn oracles(params: &CommitmentParams) -> u64 {
    params.oracles().map(|variables| oracle(params, variables)).sum()
}

fn oracle(params: &CommitmentParams, variables: u32) -> u64 {
    let values = SECURE << (variables + params.log_blowup);
    values + ((2 * DIGEST) << (variables + params.log_blowup - FOLD_LOG))
}

/// The opened subtrees of an opening.
fn opened_rows(params: &CommitmentParams) -> u64 {
    let queries = OpeningPolicy::at_rate(params.log_blowup).queries as u64;
    queries * (params.columns() * FIBRE) as u64 * 32 * WORD * 2
}

/// Bytes that folding holds in addition to the message: twiddles, messages that are left, and oracles.
fn folding(params: &CommitmentParams) -> u64 {
    let message = SECURE << params.log_folded();
    let (twiddles, making) = code_twiddles(params);
    let first = params.oracles().next().unwrap_or(0);
    // Values of the first oracle are made in a table of their own, while the message is there.
    let encoding = (SECURE << (first + params.log_blowup)) + oracle(params, first);
    making
        .max(twiddles + encoding)
        .max(twiddles + message / 2 + oracles(params))
}
