//! What can go wrong in an opening, for the ledger.

use super::error::CommitmentName;
use super::lift;
use super::params::{Layout, OpenedColumns};
use super::policy::OpeningPolicy;
use crate::term::Term;

/// Bits of security of every source of error of an opening of these columns, in the unique-decoding regime (proximity parameter
/// `(1 - rho) / 2`, `rho = 2^-log_blowup`). The longer of the two codes has messages of `2^mu` values and the length
/// `n = 2^(mu + log_blowup)`:
/// - queries: each misses a far word with probability at most `(1 + rho) / 2`, after `grind_bits` bits of
///   work: `queries log2(2 / (1 + rho)) + grind_bits`;
/// - folds: `mu` folds of codes of length at most `n`, the first fold of the shorter code, and the sum of both: `n / |K|` each;
/// - sumchecks: degree 2, so `2 / |K|` per round, and `1 / |K|` each for the claims that are joined and the values that are
///   added;
/// - column batch of either commitment: combining `G'` columns with an eq tensor, `log2(G')` times the length of its own code.
///
/// A list that no proof opens has no security.
pub fn terms(opened: &[(CommitmentName, OpenedColumns)]) -> Vec<Term> {
    let [(CommitmentName::Weights, weights), (CommitmentName::Activations, activations)] = opened else {
        let names: Vec<_> = opened.iter().map(|(name, _)| name).collect();
        return vec![Term::certain("opening: claims", format!("no proof opens {names:?}"))];
    };
    let long = lift::longer(&weights.params, &activations.params);
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
    let (folds, log_n) = (long.log_message + 2, long.log_codeword());
    let bands = weights.log_bands() + activations.log_bands();
    let rounds = bands + 2 * long.log_folded() - long.log_final().min(long.log_folded());
    let mut terms = vec![
        queries,
        Term::algebraic(
            "opening: folds",
            format!("{folds} x 2^{log_n} / |K|"),
            f64::from(folds) * n(log_n),
        ),
        Term::algebraic(
            "opening: sumchecks",
            format!("(2 x {rounds} rounds + 2) / |K|"),
            2.0 * f64::from(rounds) + 2.0,
        ),
    ];
    for (name, columns) in opened {
        let (log_columns, log_n) = (columns.log_columns(), columns.log_codeword());
        if log_columns > 0 {
            terms.push(Term::algebraic(
                format!("opening: column batch of the {name}"),
                format!("{log_columns} x 2^{log_n} / |K|"),
                f64::from(log_columns) * n(log_n),
            ));
        }
    }
    terms
}
