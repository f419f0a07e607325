//! What can go wrong in an opening, for the ledger.

use super::error::CommitmentName;
use super::lift;
use super::params::{Layout, OpenedColumns};
use super::policy::OpeningPolicy;
use crate::policy::{CHALLENGE_GRIND_BITS, WORKED_FOLDS};
use crate::term::Term;

/// Bits of security of every source of error of an opening of these columns, in the unique-decoding regime (proximity parameter
/// `(1 - rho) / 2`, `rho = 2^-log_blowup`). The longest of the codes has messages of `2^mu` values and the length
/// `n = 2^(mu + log_blowup)`:
/// - queries: each misses a far word with probability at most `(1 + rho) / 2`, after `grind_bits` bits of
///   work: `queries log2(2 / (1 + rho)) + grind_bits`;
/// - first folds: each `1 / |K|` times the length of the word that it leaves: half the length of every code, less than `n / 2` for the
///   first [`WORKED_FOLDS`] folds of the sum together, and for the sum itself, a curve of degree `claims - 1` of words of length
///   `n / 2`, so much each (docs/security.md, lemma 28); after [`CHALLENGE_GRIND_BITS`] bits of work each (lemma 20);
/// - other folds: less than half of what the last of these leaves;
/// - sumchecks: degree 2, so `2 / |K|` per round, and `(claims - 1) / |K|` each for the sum of the columns and of the claims on it;
/// - column batch of every commitment: combining `G'` columns with an eq tensor, `log2(G')` times half the length of its own code, because every
///   column is folded once before; after as much work for each coordinate.
///
/// A list without claims has no proof, and so no security.
///
/// A mask (`masks` is 1, or 0 if there is none) is a further column of the sum, and the tape is added to the sum on a line, whose challenges come after
/// as much work.
pub fn terms(opened: &[(CommitmentName, OpenedColumns)], masks: usize) -> Vec<Term> {
    let Some(long) = lift::longest(opened.iter().map(|(_, columns)| &columns.params)) else {
        return vec![Term::certain("opening: claims", "no claim is opened".to_owned())];
    };
    let more = (opened.len() + masks) as u32 - 1;
    let policy = OpeningPolicy::at_rate(long.log_blowup);
    let rate = (-f64::from(long.log_blowup)).exp2();
    let queries = Term {
        name: "opening: queries".to_owned(),
        formula: format!(
            "((1 + 2^-{}) / 2)^{} x 2^-{}",
            long.log_blowup, policy.queries, policy.grind_bits
        ),
        bits: policy.queries as f64 * (2.0 / (1.0 + rate)).log2() + f64::from(policy.grind_bits),
    };
    let n = |log_codeword: u32| f64::from(log_codeword).exp2();
    let log_n = long.log_codeword();
    let first: Vec<u32> = opened.iter().map(|(_, columns)| columns.log_codeword() - 1).collect();
    // The first folds of the sum, the curve, and the line.
    let sum = vec![log_n - 1; opened.len() + 2 * masks];
    let lengths = [sum, first].concat();
    let others = log_n - 1 - WORKED_FOLDS as u32;
    let bands = opened.iter().map(|(_, columns)| columns.log_bands()).sum::<u32>();
    let rounds = bands + long.log_folded() - long.log_final().min(long.log_folded());
    let sums = 2 * more;
    let mut terms = vec![
        queries,
        Term::worked(
            "opening: first folds",
            format!("({}) / |K|", powers(&lengths)),
            lengths.iter().map(|log| n(*log)).sum(),
            CHALLENGE_GRIND_BITS,
        ),
        Term::algebraic("opening: other folds", format!("2^{others} / |K|"), n(others)),
        Term::algebraic(
            "opening: sumchecks",
            format!("(2 x {rounds} rounds + {sums}) / |K|"),
            2.0 * f64::from(rounds) + f64::from(sums),
        ),
    ];
    for (name, columns) in opened {
        let (log_columns, log_n) = (columns.log_columns(), columns.log_codeword() - 1);
        if log_columns > 0 {
            terms.push(Term::worked(
                format!("opening: column batch of the {name}"),
                format!("{log_columns} x 2^{log_n} / |K|"),
                f64::from(log_columns) * n(log_n),
                CHALLENGE_GRIND_BITS,
            ));
        }
    }
    terms
}

/// A sum of powers of two, for people.
fn powers(logs: &[u32]) -> String {
    let powers: Vec<String> = logs.iter().map(|log| format!("2^{log}")).collect();
    powers.join(" + ")
}
