//! The head of a reranker in the integers of its key (docs/protocol.md, section 16.14).

use tessera_circuits::reranker::HEAD_BITS;

use super::QuantiseError;
use tessera_checkpoint::families::HeadPart;
use tessera_checkpoint::Checkpoint;

/// The lists that follow the gains; none of models that are no rerankers.
pub(super) fn head(checkpoint: &Checkpoint) -> Result<Vec<Vec<i32>>, QuantiseError> {
    let unit = f64::from(HEAD_BITS).exp2();
    let integer = |value: &f32| {
        let scaled = (f64::from(*value) * unit).round();
        match scaled.abs() <= f64::from(i32::MAX) {
            true => Ok(scaled as i32),
            false => Err(QuantiseError::Head(*value)),
        }
    };
    let lists = HeadPart::ALL
        .into_iter()
        .filter_map(|part| checkpoint.head_part(part).transpose());
    lists.map(|list| list?.iter().map(integer).collect()).collect()
}
