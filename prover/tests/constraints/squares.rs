//! The sums of squares of a row are in clear: the product of the stream with itself holds them.

use std::collections::BTreeSet;

use tessera_circuits::statistics::Statistics;
use tessera_prover::prove::check::claim_holds;

use crate::setup::{cases, Case};

/// The claims that do not hold of the trace with other statistics.
fn broken(case: &Case, change: impl Fn(&mut Statistics)) -> BTreeSet<&'static str> {
    let mut statistics = case.statistics.clone();
    change(&mut statistics);
    let claims = case.claims_with(&statistics).into_iter();
    let broken = claims.filter(|claim| !claim_holds(claim, &case.columns));
    broken.map(|claim| claim.name).collect()
}

/// Each sum changed by one in each direction, of the first and the last state and of padded tokens; moved between tokens, states
/// and limbs. The roots that follow may be others, too.
#[test]
fn every_sum_of_squares_is_that_of_the_row() {
    for case in [&cases()[0], &cases()[1], &cases()[8]] {
        let tokens = 1usize << case.shape.token;
        let rows = case.statistics.norms.len();
        assert_eq!(rows, tokens * case.shape.states());
        assert!(broken(case, |_| ()).is_empty());
        for row in [0, tokens - 1, tokens + 2, rows - 1] {
            let caught = |change: &dyn Fn(&mut [[i32; 3]])| {
                let names = broken(case, |s| change(&mut s.norms));
                assert!(names.contains("accumulators"), "row {row}: {names:?}");
                assert!(
                    names.is_subset(&["accumulators", "norms"].into()),
                    "row {row}: {names:?}"
                );
            };
            for limbs in 0..3 {
                for by in [1, -1] {
                    caught(&|norms| norms[row][limbs] += by);
                    // For another row.
                    caught(&|norms| {
                        norms[row][limbs] += by;
                        norms[(row + 1) % rows][limbs] -= by;
                    });
                    caught(&|norms| {
                        norms[row][limbs] += by;
                        norms[(row + tokens) % rows][limbs] -= by;
                    });
                }
                // For another pair of limbs: lambda is neither one nor 256.
                caught(&|norms| {
                    norms[row][limbs] += 2;
                    norms[row][(limbs + 1) % 3] -= 1;
                });
            }
            caught(&|norms| {
                norms[row][0] += 1;
                norms[row][1] -= 256;
                norms[row][2] += 1 << 16;
            });
            caught(&|norms| norms.swap(row, (row + 1) % rows));
        }
    }
}
