//! Claims on several messages become claims on one sum of them. Shorter messages are lifted.

use rayon::prelude::*;
use stwo::core::fields::qm31::SecureField;
use tessera_verifier::opening::parts::cross;

use super::fold::evaluate;
use tessera_kernels::table::Table;

/// Elements that a thread adds at a time.
const TASK: usize = 1 << 13;

/// The values of every message at the points of all others, in the order of [`cross`]: there are no more points than messages, and masks have none. A
/// message does not depend on the coordinates behind its own variables.
pub(super) fn cross_values(messages: &[Table<SecureField>], points: &[Vec<SecureField>]) -> Vec<SecureField> {
    let at = |(point, column): (usize, usize)| {
        let (point, message): (&[SecureField], &[SecureField]) = (&points[point], &messages[column]);
        evaluate(message, &point[..message.len().ilog2() as usize])
    };
    cross(points.len(), messages.len() - points.len()).map(at).collect()
}

/// The sum of all messages times these scales, in the memory of the longest one. The first scale is one.
pub(super) fn add_lifted(mut messages: Vec<Table<SecureField>>, scales: &[SecureField]) -> Table<SecureField> {
    let lengths = || messages.iter().map(|message| message.len());
    let longest = lengths().max().and_then(|most| lengths().position(|len| len == most));
    let longest = longest.expect("a message");
    let mut sum = std::mem::take(&mut messages[longest]);
    if longest > 0 {
        sum.par_iter_mut()
            .with_min_len(TASK)
            .for_each(|value| *value *= scales[longest]);
    }
    for (i, (message, scale)) in messages.iter().zip(scales).enumerate() {
        if i == longest {
            continue;
        }
        // Every value is added to as many neighbours.
        let width = sum.len() / message.len();
        let own = sum.par_chunks_exact_mut(width).zip(message.par_iter());
        own.with_min_len(TASK.div_ceil(width)).for_each(|(values, more)| {
            let more = if i == 0 { *more } else { *scale * *more };
            values.iter_mut().for_each(|value| *value += more);
        });
    }
    sum
}

#[cfg(test)]
mod tests {
    use num_traits::One;
    use tessera_circuits::mle::eval_padded;

    use super::*;

    fn table(len: u32, first: u32) -> Table<SecureField> {
        let values: Vec<_> = (0..len).map(|i| SecureField::from(first + i)).collect();
        Table::from(&values[..])
    }

    /// Every value of a shorter message is added to as many neighbours of the longest one as that is longer.
    #[test]
    fn shorter_messages_are_added_to_neighbours() {
        let iota = SecureField::from_u32_unchecked(5, 6, 7, 8);
        let scales = [SecureField::one(), iota, iota * iota];
        for lengths in [
            &[8][..],
            &[8, 8],
            &[8, 2],
            &[2, 8],
            &[1 << 15, 1 << 13],
            &[1, 4],
            &[4, 1, 2],
            &[2, 16, 16],
        ] {
            let messages = lengths.iter().zip(1..).map(|(len, i)| table(*len, 100 * i)).collect();
            let sum = add_lifted(messages, &scales);
            let long = *lengths.iter().max().unwrap();
            assert_eq!(sum.len(), long as usize);
            for (i, value) in (0..long).zip(sum.iter()) {
                let shares = lengths.iter().zip(1..).zip(scales);
                let shares =
                    shares.map(|((len, first), scale)| scale * SecureField::from(100 * first + i / (long / len)));
                let expected = shares.reduce(|a, b| a + b).unwrap();
                assert_eq!(*value, expected, "{lengths:?}: value {i}");
            }
        }
    }

    /// By point, then by message; a message at the first coordinates of a longer point.
    #[test]
    fn messages_are_evaluated_at_the_points_of_the_others() {
        let messages = [table(8, 1), table(2, 20), table(4, 40)];
        let points: Vec<Vec<SecureField>> = (1..4)
            .map(|i| {
                (1..4)
                    .map(|k| SecureField::from_u32_unchecked(i, k, i * k, 7))
                    .collect()
            })
            .collect();
        let at = |point: usize, message: usize, variables: usize| {
            eval_padded(&messages[message], &points[point][..variables])
        };
        let expected = [
            at(0, 1, 1),
            at(0, 2, 2),
            at(1, 0, 3),
            at(1, 2, 2),
            at(2, 0, 3),
            at(2, 1, 1),
        ];
        assert_eq!(cross_values(&messages, &points), expected);
        assert!(cross_values(&messages[..1], &points[..1]).is_empty());
    }
}
