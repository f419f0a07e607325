//! Two claims on two messages at two points become one on their sum, at one point. The shorter message is lifted.

use rayon::prelude::*;
use stwo::core::fields::qm31::SecureField;
use tessera_verifier::labels::{JOIN, JOINED_VALUES, JOIN_ROUND};
use tessera_verifier::sumcheck::Round;
use tessera_verifier::transcript::Transcript;

use super::fold::Message;
use tessera_kernels::table::Table;

/// Elements that a thread adds at a time.
const TASK: usize = 1 << 13;

/// Where both claims are taken to.
pub(super) struct Joined {
    pub rounds: Vec<Round>,
    pub point: Vec<SecureField>,
    /// Values of both messages there.
    pub values: [SecureField; 2],
    /// The challenge that adds them.
    pub iota: SecureField,
}

/// Sumcheck for the sum of both claims, the second one with a challenge, least significant variable first.
pub(super) fn join(
    messages: [&[SecureField]; 2],
    points: [Vec<SecureField>; 2],
    transcript: &mut Transcript,
) -> Joined {
    let beta = transcript.challenge(JOIN);
    let variables = points[0].len();
    let [own, other] = points;
    let [mut own, mut other] = [Message::lent(messages[0], own), Message::lent(messages[1], other)];
    let (mut rounds, mut point) = (Vec::with_capacity(variables), Vec::with_capacity(variables));
    for _ in 0..variables {
        let ([a0, a2], [b0, b2]) = (own.round(), other.round());
        let round = [a0 + beta * b0, a2 + beta * b2];
        let r = JOIN_ROUND.send(&round, transcript);
        own.bind(r);
        other.bind(r);
        rounds.push(round);
        point.push(r);
    }
    point.reverse();
    let values = [own.values()[0], other.values()[0]];
    let iota = JOINED_VALUES.send(&values, transcript);
    Joined {
        rounds,
        point,
        values,
        iota,
    }
}

/// The first message and `iota` times the second one, in the memory of the longer one.
pub(super) fn add_lifted([own, other]: [Table<SecureField>; 2], iota: SecureField) -> Table<SecureField> {
    let add = |mut long: Table<SecureField>, short: &[SecureField], scales: [Option<SecureField>; 2]| {
        let lifted = (long.len() / short.len()).ilog2();
        long.par_chunks_mut(TASK).enumerate().for_each(|(task, values)| {
            for (i, value) in values.iter_mut().enumerate() {
                let more = short[(task * TASK + i) >> lifted];
                let scaled = |value, scale: Option<SecureField>| scale.map_or(value, |scale| scale * value);
                *value = scaled(*value, scales[0]) + scaled(more, scales[1]);
            }
        });
        long
    };
    match own.len() < other.len() {
        true => add(other, &own, [Some(iota), None]),
        false => add(own, &other, [None, Some(iota)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every value of the shorter message is added to as many neighbours of the longer one as that is longer.
    #[test]
    fn the_shorter_message_is_added_to_neighbours() {
        let iota = SecureField::from_u32_unchecked(5, 6, 7, 8);
        let table = |len: u32, first: u32| {
            let values: Vec<_> = (0..len).map(|i| SecureField::from(first + i)).collect();
            Table::from(&values[..])
        };
        for (own, other) in [(8, 8), (8, 2), (2, 8), (1 << 15, 1 << 13), (1, 4)] {
            let sum = add_lifted([table(own, 1), table(other, 100)], iota);
            let long = own.max(other);
            assert_eq!(sum.len(), long as usize);
            for (i, value) in (0..long).zip(sum.iter()) {
                let [a, b] = [1 + i / (long / own), 100 + i / (long / other)].map(SecureField::from);
                assert_eq!(*value, a + iota * b, "{own} and {other}: value {i}");
            }
        }
    }
}
