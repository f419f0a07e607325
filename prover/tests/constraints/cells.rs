//! Single cells: whatever is written over a cell of an honest trace violates a constraint, a lookup or a claim.

use std::collections::BTreeSet;

use num_traits::{One, Zero};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::{ff, requant, scores, stream, tables, AnyAir, Relations};
use tessera_circuits::model::WeightFormat;
use tessera_circuits::shape::Part;
use tessera_circuits::trees::{lookup_trees, padding};
use tessera_prover::prove::gkr::prove;
use tessera_prover::prove::stark::check::{check, check_row, claim_holds, counts, Violations};
use tessera_prover::prove::stark::lookups::entry_sums;
use tessera_prover::prove::stark::trace::Columns;
use tessera_prover::testing::{plain_config, random_model, SplitMix};
use tessera_verifier::transcript::Transcript;

use crate::setup::{cases, random, Case};

/// Rows tried for every column.
const ROWS: usize = 300;

/// Why a cell of an honest trace may be overwritten with `new`, if it may: no constraint and no lookup of the row is against
/// it, and nothing reads the cell. The tests demand that exactly these cells are free: no others, and each of these really.
fn free(
    case: &Case,
    part: Part,
    column: usize,
    row: usize,
    new: BaseField,
    found: &Violations,
) -> Option<&'static str> {
    let (lane, column) = case.lane(part, column);
    let own = &case.columns[part.index()][lane * case.shape.lane_columns(part)..];
    let is_zero = |column: usize| own[column][row].is_zero();
    let padded = !case.in_model(part, lane, row);
    let padded_head = part == Part::Scores && case.unpack(part, lane, row)[1] >= case.shape.config.heads;
    let in_tables = found.is_empty();
    match (part, column) {
        // Whatever it is.
        (Part::Scores, scores::D) if is_zero(scores::MASK) => Some("difference of a masked key, which nothing reads"),
        (Part::Scores, scores::SELECT)
            if padded_head && !is_zero(scores::MASK) && is_zero(scores::D) && (new.is_zero() || new.is_one()) =>
        {
            Some("choice among the maxima of a head that the model does not have")
        }
        (Part::Logits, _) if padded && in_tables => {
            Some("logit of a token that is not claimed or an entry that the vocabulary does not have")
        }
        (Part::Stream, column) if padded && in_tables && (stream::UPDATE.at..stream::Y).contains(&column) => {
            Some("remainder of a state that the model does not have")
        }
        (Part::Q | Part::K | Part::V, _) if padded && in_tables => {
            Some("query, key or value of a layer that the model does not have")
        }
        (Part::Att, column) if padded && in_tables && column > requant::OUT_LO => {
            Some("remainder of an attention output of a layer that the model does not have")
        }
        (Part::Scores, scores::S | scores::MAX) if padded && in_tables => {
            Some("score of a layer that the model does not have")
        }
        (Part::Scores, column) if padded && in_tables && column >= scores::P => {
            Some("probability of a layer that the model does not have")
        }
        (Part::Ff, column) if case.shape.ff().product().contains(&column) => None,
        (Part::Ff, ff::UP) if case.shape.config.gated => None,
        (Part::Ff, _) if padded && in_tables => Some("gate or remainder of a layer that the model does not have"),
        _ => None,
    }
}

/// Overwrites cells of every column of a part and hands what comes of each to `judge`: column, row, new value,
/// violated constraints and lookups.
fn corrupt(case: &Case, part: Part, mut judge: impl FnMut(usize, usize, BaseField, &Violations)) {
    let mut rng = SplitMix(17 + part.index() as u64);
    let air = case.shape.air(part);
    let mut own: Columns = case.columns[part.index()].clone();
    let rows = 1u64 << case.shape.log_rows(part);
    let one = BaseField::one();
    for column in 0..own.len() {
        for _ in 0..ROWS {
            let row = rng.below(rows) as usize;
            let old = own[column][row];
            for new in [
                old + random(&mut rng),
                old + one,
                old - one,
                one - old,
                BaseField::zero(),
            ] {
                if new == old {
                    continue;
                }
                own[column][row] = new;
                judge(column, row, new, &check_row(&air, &own, &case.tables, row));
            }
            own[column][row] = old;
        }
    }
}

#[test]
fn honest_traces_satisfy_everything() {
    for (i, case) in cases().iter().enumerate() {
        for part in case.shape.claimed() {
            let found = check(&case.shape.air(part), &case.columns[part.index()], &case.tables);
            assert_eq!(found, None, "case {i}, {part:?}");
        }
        for claim in &case.claims {
            assert!(claim_holds(claim, &case.columns), "case {i}: {}", claim.name);
        }
    }
}

#[test]
fn exactly_the_cells_that_nothing_reads_are_free() {
    let mut reasons = BTreeSet::new();
    for (i, case) in cases().iter().enumerate() {
        for part in case.shape.claimed() {
            let coverage = case.coverage(part);
            corrupt(case, part, |column, row, new, found| {
                let caught = !found.is_empty() || coverage.covers(column, row);
                let reason = free(case, part, column, row, new, found);
                assert_eq!(
                    !caught,
                    reason.is_some(),
                    "case {i}, {part:?}, column {column}, row {row}, new value {new}: {reason:?}, {found:?}"
                );
                reasons.extend(reason);
            });
        }
    }
    assert_eq!(reasons.len(), 9, "{reasons:?}");
}

/// A model with learned positions, without gates, and with attention and MLP in parallel.
#[test]
fn without_gates_all_cells_are_read_too() {
    let case = Case::new(random_model(plain_config(), WeightFormat::Int16, 13), 6, 5);
    for part in case.shape.claimed() {
        let found = check(&case.shape.air(part), &case.columns[part.index()], &case.tables);
        assert_eq!(found, None, "{part:?}");
        let coverage = case.coverage(part);
        corrupt(&case, part, |column, row, new, found| {
            let caught = !found.is_empty() || coverage.covers(column, row);
            let reason = free(&case, part, column, row, new, found);
            assert_eq!(
                !caught,
                reason.is_some(),
                "{part:?}, column {column}, row {row}: {found:?}"
            );
        });
    }
    for claim in &case.claims {
        assert!(claim_holds(claim, &case.columns), "{}", claim.name);
    }
}

#[test]
fn no_constraint_and_no_lookup_is_dead() {
    let cases = cases();
    for part in cases[0].shape.claimed() {
        let air = cases[0].shape.air(part).air;
        let all = counts(&air);
        let (mut constraints, mut lookups) = (BTreeSet::<usize>::new(), BTreeSet::<usize>::new());
        for case in cases.iter().filter(|case| case.shape.parts().contains(&part)) {
            corrupt(case, part, |_, _, _, found| {
                constraints.extend(found.constraints.iter().map(|c| c % all.constraints));
                lookups.extend(found.lookup_numbers.iter().map(|l| l % all.lookups));
            });
        }
        assert!(
            constraints.iter().copied().eq(0..all.constraints),
            "{part:?}: {constraints:?}"
        );
        assert!(lookups.iter().copied().eq(0..all.lookups), "{part:?}: {lookups:?}");
    }
}

/// A lookup that is used a number of times other than 0 or 1 could give a pair to its table. Its multiplicity must
/// be bound on every row, padded ones included, by something other than lookups.
#[test]
fn no_row_uses_a_lookup_in_part() {
    let conditional = |part| match part {
        Part::Scores => vec![scores::MASK],
        _ => vec![],
    };
    let mut rng = SplitMix(19);
    for case in &cases() {
        for part in case.shape.claimed() {
            let air = case.shape.air(part);
            assert_eq!(
                counts(&air).conditional,
                conditional(part).len() * case.shape.lanes(part)
            );
            let coverage = case.coverage(part);
            let mut own = case.columns[part.index()].clone();
            let width = case.shape.lane_columns(part);
            let lanes = 0..case.shape.lanes(part);
            for column in lanes.flat_map(|lane| conditional(part).into_iter().map(move |c| lane * width + c)) {
                for row in 0..own[column].len() {
                    let old = own[column][row];
                    for new in [
                        -BaseField::one(),
                        old + old + BaseField::one() + BaseField::one(),
                        random(&mut rng),
                    ] {
                        own[column][row] = new;
                        let bound = !check_row(&air, &own, &case.tables, row).constraints.is_empty();
                        assert!(
                            bound || coverage.covers(column, row),
                            "{part:?}, row {row}, new value {new}"
                        );
                    }
                    own[column][row] = old;
                }
            }
        }
    }
}

/// The sum of all lookups of a case.
fn looked_up(case: &Case) -> SecureField {
    let mut transcript = Transcript::new("test");
    let trees = lookup_trees(&case.shape);
    let proved = prove(&trees, &case.columns, &Relations::dummy(), &mut transcript).expect("no degenerate challenge");
    tessera_verifier::gkr::sum(&proved.proofs) - padding(&trees)
}

/// The sum of the entries of the tables.
fn entries(case: &Case, counts: &Columns) -> SecureField {
    entry_sums(&Relations::dummy(), counts, &case.tables).1
}

#[test]
fn no_multiplicity_is_free() {
    let [case, ..] = cases();
    assert!(matches!(case.shape.air(Part::Tables).air, AnyAir::Tables(_)));
    let others = looked_up(&case);
    let mut own = case.columns[Part::Tables.index()].clone();
    assert!((others + entries(&case, &own)).is_zero());
    let mut rng = SplitMix(23);
    for column in 0..tables::COLUMNS {
        for _ in 0..8 {
            let row = rng.below(1 << tables::LOG_ROWS) as usize;
            let old = own[column][row];
            for new in [old + BaseField::one(), old + random(&mut rng)] {
                own[column][row] = new;
                let total = others + entries(&case, &own);
                assert_eq!(total.is_zero(), new == old, "column {column}, row {row}");
            }
            own[column][row] = old;
        }
    }
}

/// One use moved from a row to another: only between the two rows of the same pair, `(1, 0)` of the bits.
#[test]
fn multiplicities_cannot_be_exchanged() {
    let [case, ..] = cases();
    let mut own = case.columns[Part::Tables.index()].clone();
    let honest = entries(&case, &own);
    let last = (1 << tables::LOG_ROWS) - 1;
    for column in 0..tables::COLUMNS {
        for (from, to) in [(0, last), (1, 2), (300, 40_000)] {
            own[column][from] -= BaseField::one();
            own[column][to] += BaseField::one();
            let same = entries(&case, &own) == honest;
            assert_eq!(
                same,
                column == tables::BITS && (from, to) == (0, last),
                "column {column}, {from} to {to}"
            );
            own[column][from] += BaseField::one();
            own[column][to] -= BaseField::one();
        }
    }
}
