//! The claims of a reveal (docs/protocol.md, section 17.7). Each is about one cell of the committed columns, and together they say which ids a proof hides at
//! some positions of the text.

use crate::claims::LinearClaim;
use crate::shape::Shape;
use crate::statement::{Statement, HIDDEN};

/// Positions of ids in a text, prompt first, from 0 on, each with the id that is said to be hidden there.
pub type Revealed<'a> = &'a [(usize, u32)];

/// A position or an id that no reveal can be about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
// The messages say what each is.
#[allow(missing_docs)]
#[non_exhaustive]
pub enum RevealedError {
    #[error("it reveals no id")]
    Nothing,
    #[error("position {position} does not come after the one before it, {before}")]
    Order { position: usize, before: usize },
    #[error("position {position} is behind the text, which has {tokens} tokens")]
    Position { position: usize, tokens: usize },
    #[error("the id at position {position} is not hidden")]
    NotHidden { position: usize },
    #[error("id {id} at position {position} is outside the vocabulary of {vocab}")]
    Vocabulary { id: u32, position: usize, vocab: usize },
}

/// Checks that positions ascend, and that each is one of a hidden id of the statement and has an id of the vocabulary.
pub fn check_revealed(shape: &Shape, statement: &Statement, revealed: Revealed<'_>) -> Result<(), RevealedError> {
    let ids: Vec<u32> = statement.tokens().collect();
    if revealed.is_empty() {
        return Err(RevealedError::Nothing);
    }
    for (&(before, _), &(position, _)) in revealed.iter().zip(revealed.iter().skip(1)) {
        if position <= before {
            return Err(RevealedError::Order { position, before });
        }
    }
    for &(position, id) in revealed {
        let (tokens, vocab) = (ids.len(), shape.config.vocab);
        match ids.get(position) {
            None => return Err(RevealedError::Position { position, tokens }),
            Some(&HIDDEN) => {}
            Some(_) => return Err(RevealedError::NotHidden { position }),
        }
        if id as usize >= vocab {
            return Err(RevealedError::Vocabulary { id, position, vocab });
        }
    }
    Ok(())
}

/// The claims that these ids are hidden at these positions, which must have passed [`check_revealed`]: for a position that has a row both digits of the id,
/// and for the last output token, which has none, the entry of the vocabulary that was chosen.
pub fn reveal_claims(shape: &Shape, statement: &Statement, revealed: Revealed<'_>) -> Vec<LinearClaim> {
    let rows: Vec<usize> = statement.hidden_rows().collect();
    let of_position = |&(position, id): &(usize, u32)| match rows.binary_search(&position) {
        Ok(place) => shape.digit_cells(place, id).to_vec(),
        Err(_) => vec![shape.chosen_cell(shape.outputs.saturating_sub(1), id)],
    };
    let claim = |group| LinearClaim::of("revealed id", vec![group]).of_value(1.into());
    let groups = revealed.iter().flat_map(of_position);
    groups.map(|group| claim(group).in_lanes(shape)).collect()
}
