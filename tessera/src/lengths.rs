//! Limits on the length of a text that a proof has enough security for, in one piece and in chunks of layers.

use tessera_circuits::chunk::Chunk;
use tessera_circuits::sizes::Sizes;
use tessera_circuits::statement::Lengths;
use tessera_verifier::key::ModelKey;
use tessera_verifier::ledger::security_bits;
use tessera_verifier::policy::MIN_BITS;

use crate::plan::equal_parts;

fn enough(key: &ModelKey, chunks: &[Chunk], lengths: impl Into<Lengths>) -> bool {
    security_bits(key, chunks, lengths) >= MIN_BITS
}

/// The most token rows that one piece can prove, or a block or two fewer; `None` if the model has no such proof. Rows are all tokens of prompt
/// and output but the last one.
pub fn most_rows(key: &ModelKey) -> Option<usize> {
    let whole = [Chunk::whole(key.config.layers)];
    // Texts of as many blocks of rows have one ledger. A longer text costs more, but it may be cut such that it has fewer cells than one a
    // block shorter. So bisection finds a length that can be proved while one a block longer cannot, and not always the longest.
    let context = key.config.context;
    let longer = |rows: &usize| Some(Sizes::text_rows_of(rows + 1));
    let blocks = std::iter::successors(Some(1), longer).take_while(|rows| *rows < context);
    let lengths: Vec<usize> = blocks.chain([context]).collect();
    let proved = lengths.partition_point(|rows| enough(key, &whole, *rows));
    proved.checked_sub(1).map(|last| lengths[last])
}

/// The fewest chunks, as equal as can be, in which a statement of these lengths can be proved; `None` if no number of
/// chunks is enough.
pub fn fewest_chunks(key: &ModelKey, lengths: impl Into<Lengths>) -> Option<usize> {
    let lengths = lengths.into();
    let of = key.config.layers;
    // The longest chunk decides: one number of chunks for each of its lengths.
    let mut counts: Vec<usize> = (1..=of).rev().map(|longest| of.div_ceil(longest)).collect();
    counts.dedup();
    let divided = |count: &usize| Chunk::partition(equal_parts(of, *count), of).is_ok_and(|c| enough(key, &c, lengths));
    counts.into_iter().find(divided)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tessera_circuits::model::{WeightFormat, MAX_CONTEXT};
    use tessera_model::sample::random_model;
    use tessera_samples::odd_config;
    use tessera_testkit::unrooted_key;

    /// The named maximum is enough, and one row more is not; the named number of chunks is the smallest that is enough.
    #[test]
    fn the_limits_are_those_of_the_ledger() {
        let mut key = unrooted_key(&random_model(odd_config(), WeightFormat::Int16, 7));
        assert_eq!(most_rows(&key), Some(key.config.context));
        assert_eq!(fewest_chunks(&key, key.config.context), Some(1));
        key.config.context = MAX_CONTEXT;
        // As long as it has not too many cells.
        (key.config.heads, key.config.kv_heads, key.config.layers) = (256, 256, 32);
        let most = most_rows(&key).unwrap();
        let whole = [Chunk::whole(32)];
        assert!(most < MAX_CONTEXT && enough(&key, &whole, most) && !enough(&key, &whole, most + 1));
        // Whatever is named is enough, and no smaller number is; where none is, no number is enough.
        let divided = |count| Chunk::partition(equal_parts(32, count), 32).unwrap();
        for rows in [most, most + 1, MAX_CONTEXT] {
            let fewest = fewest_chunks(&key, rows);
            let first = (1..=32).find(|count| enough(&key, &divided(*count), rows));
            assert_eq!(fewest, first, "{rows} rows");
        }
        // Errors of so many chunks add up to too much.
        key.config.layers = 1024;
        assert_eq!(fewest_chunks(&key, MAX_CONTEXT), None);
    }
}
