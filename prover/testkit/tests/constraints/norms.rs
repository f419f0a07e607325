//! The rows of norms: what they say is what integers say, for the largest and smallest sums and roots that a key allows.

use tessera_circuits::air::base;
use tessera_circuits::air::tables::LookupTables;
use tessera_circuits::bounds::{epsilons, MAX_SQUARES};
use tessera_circuits::model::{ByClass, ChannelShift, NormParams, RowClass, WeightFormat};
use tessera_circuits::ops::norms::{self, bound_limbs, COLUMNS, LIMBS, QUOTIENT, ROOT, SUM};
use tessera_circuits::semantics::{norm_bound, norm_rsqrt};
use tessera_prover::check::{check_row, Missing};
use tessera_prover::ops::NormRow;
use tessera_prover::trace::Columns;
use tessera_testkit::{random_model, SplitMix};

use crate::setup::three_layers;

/// Rows of a norm: hidden size, scale, sums of products of limbs, and epsilon.
struct Case {
    hidden: usize,
    scale: u8,
    sums: [i64; 3],
    eps: u64,
}

/// Sums that no row exceeds, and ones around every limb; the least and the largest epsilon; scales up to the largest.
fn cases() -> Vec<Case> {
    let most = MAX_SQUARES as i64;
    let extreme = [
        [0; 3],
        [0, 0, 1],
        [most << 14, 0, 0],
        [most << 14, -(most << 14), most << 14],
        [most << 14, -(most << 7) * 255, most * 255 * 255],
        [most * 127 * 127, most * 127 * 255, most * 255 * 255],
        [1, -1, 1],
        [1 << 8, -(1 << 15), 1 << 24],
        [(1 << 8) - 1, (1 << 15) - 1, (1 << 24) - 1],
    ];
    let mut rng = SplitMix(3);
    let random: Vec<[i64; 3]> = (0..200)
        .map(|_| {
            // Of rows of real limbs, so that the sum is one of squares.
            let width = 1 + rng.below(16_384) as i64;
            let (hi, lo) = (rng.below(257) as i64 - 128, rng.below(256) as i64);
            [width * hi * hi, width * hi * lo, width * lo * lo]
        })
        .collect();
    let shapes = [(1, 0), (1, 29), (2, 10), (20, 26), (64, 26), (576, 24), (16_384, 22)];
    let mut list = Vec::new();
    for sums in extreme.into_iter().chain(random) {
        for (hidden, scale) in shapes {
            let range = epsilons(hidden, scale);
            for eps in [*range.start(), range.start() + (1 << 24), *range.end()] {
                let whole = (sums[0] << 16) + (sums[1] << 9) + sums[2];
                if whole >= 0 {
                    list.push(Case {
                        hidden,
                        scale,
                        sums,
                        eps,
                    });
                }
            }
        }
    }
    list
}

fn value(limbs: &[i64]) -> i128 {
    limbs.iter().rev().fold(0, |sum, limb| (sum << 12) + i128::from(*limb))
}

fn missing(row: &[i64; COLUMNS], tables: &LookupTables) -> Missing {
    let columns: Columns = row.iter().map(|v| vec![base(*v)]).collect();
    check_row(&norms::columns(), &columns, tables, 0)
}

/// Of every sum and epsilon that a key allows, a row is in the tables, and its limbs are those of sum, quotient and root.
#[test]
fn the_largest_and_smallest_rows_are_provable() {
    let tables = LookupTables::new(
        &random_model(three_layers(), WeightFormat::Int16, 3).params,
        &three_layers(),
    );
    let mut largest = [0; 3];
    for Case {
        hidden,
        scale,
        sums,
        eps,
    } in cases()
    {
        let params = NormParams {
            scale,
            eps: ByClass::both(eps),
            shift: ChannelShift::one(1),
        };
        let root = norm_rsqrt(sums, hidden, &params, RowClass::Body);
        let bound = bound_limbs(hidden, scale);
        assert_eq!(value(&bound), norm_bound(hidden, scale) as i128);
        let row = NormRow { sums, eps, bound, root }.columns();
        assert_eq!(
            missing(&row, &tables),
            Missing::new(),
            "{hidden} {scale} {sums:?} {eps}"
        );
        let sum = (i128::from(sums[0]) << 16) + (i128::from(sums[1]) << 9) + i128::from(sums[2]) + i128::from(eps);
        assert_eq!(value(&row[SUM..][..LIMBS]), sum);
        assert_eq!(
            value(&row[QUOTIENT..][..LIMBS]),
            norm_bound(hidden, scale) as i128 / sum
        );
        assert_eq!(value(&row[ROOT..][..2]), i128::from(root));
        let found = [sum, value(&row[QUOTIENT..][..LIMBS]), i128::from(root)];
        largest
            .iter_mut()
            .zip(found)
            .for_each(|(most, own)| *most = own.max(*most));
    }
    // The ranges are used to within a bit.
    assert!(
        largest[0] > 1 << 44 && largest[1] > 1 << 47 && largest[2] > 1 << 23,
        "{largest:?}"
    );
}

/// One column more or less in each, and the row is in no table, or it is another sum, quotient or root; a column that no claim
/// reads has one value.
#[test]
fn columns_without_a_claim_have_one_value() {
    use tessera_circuits::ops::norms::{GAP, ROOM_HI};
    let tables = LookupTables::new(
        &random_model(three_layers(), WeightFormat::Int16, 3).params,
        &three_layers(),
    );
    assert_eq!(norms::columns().columns, COLUMNS);
    for Case {
        hidden,
        scale,
        sums,
        eps,
    } in cases().into_iter().step_by(7)
    {
        let params = NormParams {
            scale,
            eps: ByClass::both(eps),
            shift: ChannelShift::one(1),
        };
        let root = norm_rsqrt(sums, hidden, &params, RowClass::Body);
        let bound = bound_limbs(hidden, scale);
        let row = NormRow { sums, eps, bound, root }.columns();
        for column in (GAP..ROOT).chain([ROOM_HI]) {
            for by in [-4096, -1, 1, 4096] {
                let mut other = row;
                other[column] += by;
                assert_ne!(missing(&other, &tables), Missing::new(), "column {column}, {by}");
            }
        }
    }
}
