//! Security parameters (docs/security.md, protocol section 14). They are constants of this verifier; none is read from a
//! proof.

use stwo::core::fri::FriConfig;
use stwo::core::pcs::PcsConfig;
use tessera_circuits::table_tree::TableArgument;

/// Verification refuses statements whose ledger falls below this.
pub const MIN_BITS: f64 = 93.5;
/// What every shipped parameter set must reach for the statements it is meant for.
pub const TARGET_BITS: f64 = 97.8;

/// log2 of the inverse rate of the STARK's code.
pub const STARK_LOG_BLOWUP: u32 = 3;
/// Proof of work before the STARK's queries.
pub const STARK_WORK_BITS: u32 = 20;
/// FRI folds per layer.
pub const STARK_FOLD_STEP: u32 = 3;
/// log2 of the degree bound of the last FRI layer: three layers fold the tables to it.
pub const STARK_LOG_LAST_LAYER: u32 = 7;
/// The most columns that a code of activations has, as far as [`MAX_CODE_LOG`] and the length of the weights' code allow.
pub const ACTIVATION_COLUMNS: usize = 64;
/// Activations get messages longer than that needs, down to so many columns, as long as these are no longer than those of the
/// weights and than `2^SHORT_MESSAGE_LOG`: proofs get smaller, and encoding takes little memory still.
pub const FEW_COLUMNS: usize = 16;
/// See [`FEW_COLUMNS`].
pub const SHORT_MESSAGE_LOG: u32 = 18;
/// log2 of the longest code of activations that is longer than the code of the weights.
pub const MAX_CODE_LOG: u32 = 22;
/// Bits of security that the queries, of the STARK and of openings, have without the proof of work before them.
pub const QUERY_BITS: f64 = 80.0;
/// Proof of work before the challenges of the lookups: of all errors that grow with the statement, theirs grows the most.
pub const LOOKUP_GRIND_BITS: u32 = 12;
/// Proof of work before each challenge that has as many bad values as a code has points: first folds, weights of columns, sums of
/// columns, and the first [`WORKED_FOLDS`] folds of the sum.
pub const CHALLENGE_GRIND_BITS: u32 = 8;
/// Folds of the sum with a proof of work. All others together have as many bad values as the last of these.
pub const WORKED_FOLDS: usize = 4;
/// Proof of work before the queries of an opening.
pub const OPENING_GRIND_BITS: u32 = 20;

/// The fewest queries that have [`QUERY_BITS`] in the unique-decoding regime at rate `2^-log_blowup`.
pub const fn queries(log_blowup: u32) -> usize {
    match log_blowup {
        0 | 1 => 193,
        2 => 118,
        3 => 97,
        _ => 88,
    }
}

/// stwo's configuration.
pub fn stark_config() -> PcsConfig {
    let queries = queries(STARK_LOG_BLOWUP);
    PcsConfig {
        pow_bits: STARK_WORK_BITS,
        fri_config: FriConfig::new(STARK_LOG_LAST_LAYER, STARK_LOG_BLOWUP, queries, STARK_FOLD_STEP),
        lifting_log_size: None,
    }
}

/// All parameters as words, absorbed by the transcript first: how the tables are proved, those of the STARK if it proves them, of the opening
/// ([`words`]), of the lookups, of other challenges.
///
/// [`words`]: crate::opening::CommitmentParams::words
pub fn parameter_words(tables: TableArgument, opening: [u32; 5]) -> Vec<u32> {
    let stark = [
        STARK_LOG_BLOWUP,
        queries(STARK_LOG_BLOWUP) as u32,
        STARK_WORK_BITS,
        STARK_FOLD_STEP,
        STARK_LOG_LAST_LAYER,
    ];
    let stark = match tables {
        TableArgument::Stark => &stark[..],
        TableArgument::Gkr => &[],
    };
    let others = [LOOKUP_GRIND_BITS, CHALLENGE_GRIND_BITS, WORKED_FOLDS as u32];
    [&[tables.number()], stark, &opening, &others].concat()
}
