//! Single cells: whatever is written over a cell of an honest trace violates a lookup or a claim.

use std::collections::BTreeSet;

use num_traits::{One, Zero};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::lookups::Relation;
use tessera_circuits::air::{requant, tables, Relations};
use tessera_circuits::model::WeightFormat;
use tessera_circuits::ops::{ff, norms, softmax, stream};
use tessera_circuits::shape::Part;
use tessera_circuits::trees::{lookup_trees, Forest};
use tessera_prover::check::{check, check_row, claim_holds, Missing};
use tessera_prover::column::of_elements;
use tessera_prover::device::{self, Device};
use tessera_prover::gkr::prove;
use tessera_prover::stark::entry_sums;
use tessera_prover::trace::Columns;
use tessera_prover::vectors::Vectors;
use tessera_testkit::{column_of, plain_config, random_model, SplitMix};
use tessera_verifier::transcript::Transcript;

use crate::setup::{cases, random, Case};

/// Rows tried for every column.
const ROWS: usize = 300;

/// Columns as a device has them.
fn held(columns: &[Columns]) -> Box<dyn device::Columns> {
    Vectors.columns(of_elements(columns)).expect("columns")
}

/// Why a cell of an honest trace may be overwritten, if it may: no lookup of the row is against it, and nothing reads the cell. The tests demand that exactly these cells are free: no others, and each of these really.
fn free(case: &Case, part: Part, column: usize, row: usize, found: &Missing) -> Option<&'static str> {
    let (lane, column) = case.lane(part, column);
    let at = case.unpack(part, lane, row);
    let padded = !case.in_model(part, lane, row);
    let padded_head = case.padded_head(part, &at);
    let rope = case.shape.rope(part);
    // The second factors of squares are those of all layers and heads.
    let limbs = |column: usize| {
        rope.normed
            && [0, 1]
                .iter()
                .any(|half| (rope.before(*half)..rope.source(*half)).contains(&column))
    };
    let in_tables = found.is_empty();
    if case.is_behind(part, &at) {
        let reason = "row behind the text, of which no second factor reads the cell";
        return Some(reason).filter(|_| in_tables && !is_read_behind(case, part, column, &at, padded));
    }
    match (part, column) {
        (Part::SCORES | Part::WINDOWED, softmax::D)
            if !padded && !padded_head && in_tables && !case.is_open(part, &at) =>
        {
            Some("difference of a masked key, whose exponential is zero")
        }
        (Part::SCORES | Part::WINDOWED, softmax::D) if !padded && padded_head && in_tables => {
            Some("difference in a head that the model does not have")
        }
        // The product that they are factors of has a weight of zero there.
        (Part::SOFTMAX, softmax::SUM_HI | softmax::SUM_LO) if !padded => None,
        (Part::SOFTMAX, _) if (padded || padded_head) && in_tables => {
            Some("maximum or reciprocal of a head or layer that the model does not have")
        }
        // The product that they are factors of has a weight of zero there.
        (Part::NORMS, _) if padded && in_tables => Some("sum or root of a state that the model does not have"),
        (Part::Q_NORMS | Part::K_NORMS, _) if (padded || padded_head) && in_tables => {
            Some("sum or root of a head or layer that the model does not have")
        }
        (Part::Q | Part::K, column) if limbs(column) => None,
        (Part::TOPS, _) if padded && in_tables => Some("logit of an output token that there is not"),
        (Part::LOGITS, _) if padded && in_tables => {
            Some("logit of a token that is not claimed or an entry that the vocabulary does not have")
        }
        (Part::STREAM, column) if padded && in_tables && (stream::UPDATE.at..stream::Y).contains(&column) => {
            Some("remainder of a state that the model does not have")
        }
        (Part::Q | Part::K | Part::V, _) if padded && in_tables => {
            Some("query, key or value of a layer that the model does not have")
        }
        (Part::ATT, column) if padded && in_tables && column > requant::OUT_LO => {
            Some("remainder of an attention output of a layer that the model does not have")
        }
        (Part::SCORES | Part::WINDOWED, softmax::S | softmax::D) if padded && in_tables => {
            Some("score of a layer or pair of blocks that there is not")
        }
        (Part::SCORES | Part::WINDOWED, column) if padded && in_tables && column >= softmax::P => {
            Some("probability of a layer or pair of blocks that there is not")
        }
        (Part::FF, column) if case.shape.ff().product().contains(&column) => None,
        (Part::FF, ff::UP) if case.shape.config.gated => None,
        (Part::FF, _) if padded && in_tables => Some("gate or remainder of a layer that the model does not have"),
        _ => None,
    }
}

/// Whether a second factor reads a cell of a row behind the text: those go over all committed rows, and some of them over layers that the
/// model does not have.
fn is_read_behind(case: &Case, part: Part, column: usize, at: &[usize], padded: bool) -> bool {
    let (config, rope) = (&case.shape.config, case.shape.rope(part));
    let squared = |half: usize| rope.normed && (rope.before(half)..rope.source(half)).contains(&column);
    let rotated = |half: usize| (rope.after(half)..rope.after(half) + rope.out.columns()).contains(&column);
    let key = !padded && at.get(2).is_some_and(|head| *head < config.kv_heads);
    let sum = (norms::SUM..norms::SUM + norms::LIMBS).contains(&column);
    let of_norms = !padded && (sum || (norms::ROOT..norms::ROOT + 2).contains(&column));
    match part {
        Part::STREAM => [stream::X_HI, stream::X_LO].contains(&column),
        Part::NORMS => of_norms,
        Part::Q_NORMS | Part::K_NORMS => of_norms && !case.padded_head(part, at),
        Part::Q => (0..2).any(squared),
        // In no pair of blocks are keys behind the last block of the text.
        Part::K => (0..2).any(|half| squared(half) || rotated(half) && key && at[1] < case.shape.text_rows()),
        Part::V => key && column == requant::OUT,
        Part::SCORES | Part::WINDOWED => !padded && column == softmax::EXP,
        Part::SOFTMAX => !padded && [softmax::SUM_HI, softmax::SUM_LO].contains(&column),
        Part::FF => config.gated && column == ff::UP,
        _ => false,
    }
}

/// Overwrites cells of every committed column of a part and hands what comes of each to `judge`: column, row, new value,
/// lookups without an entry.
fn corrupt(case: &Case, part: Part, mut judge: impl FnMut(usize, usize, BaseField, &Missing)) {
    let mut rng = SplitMix(17 + part.index() as u64);
    let air = case.shape.air(part);
    let mut own: Columns = case.columns[part.index()].clone();
    let rows = 1u64 << case.shape.log_rows(part);
    let one = BaseField::one();
    for column in case.shape.committed(part) {
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
        for &part in case.shape.parts() {
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
        for &part in case.shape.parts() {
            let coverage = case.coverage(part);
            corrupt(case, part, |column, row, new, found| {
                let caught = !found.is_empty() || coverage.covers(column, row);
                let reason = free(case, part, column, row, found);
                assert_eq!(
                    !caught,
                    reason.is_some(),
                    "case {i}, {part:?}, column {column}, row {row}, new value {new}: {reason:?}, {found:?}"
                );
                reasons.extend(reason);
            });
        }
    }
    assert_eq!(reasons.len(), 14, "{reasons:?}");
}

/// A model with learned positions, without gates, and with attention and MLP in parallel.
#[test]
fn without_gates_all_cells_are_read_too() {
    let case = Case::new(random_model(plain_config(), WeightFormat::Int16, 13), 6, 5);
    for &part in case.shape.parts() {
        let found = check(&case.shape.air(part), &case.columns[part.index()], &case.tables);
        assert_eq!(found, None, "{part:?}");
        let coverage = case.coverage(part);
        corrupt(&case, part, |column, row, _, found| {
            let caught = !found.is_empty() || coverage.covers(column, row);
            let reason = free(&case, part, column, row, found);
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
fn no_lookup_is_dead() {
    let cases = cases();
    let normed = cases.iter().find(|case| case.shape.config.head_norms);
    for first in [&cases[0], normed.expect("a case of normed heads")] {
        // Those of other limbs have other numbers, and so have those of normed heads.
        let alike = |case: &&Case| {
            case.shape.limbs == first.shape.limbs && case.shape.config.head_norms == first.shape.config.head_norms
        };
        for &part in first.shape.parts() {
            let air = first.shape.lane_air(part);
            let (mut seen, number) = (BTreeSet::<usize>::new(), air.lookups.len());
            for case in cases.iter().filter(alike) {
                corrupt(case, part, |_, _, _, found| {
                    seen.extend(found.iter().map(|(i, ..)| i % number))
                });
            }
            assert!(seen.iter().copied().eq(0..number), "{part:?}: {seen:?}");
        }
    }
}

/// The sum of all lookups of a case.
fn looked_up(case: &Case) -> SecureField {
    let mut transcript = Transcript::new("test");
    let trees = lookup_trees(&case.shape);
    let proved = prove(
        (&trees, None),
        &*held(&case.columns),
        &Relations::dummy(&case.shape.config.relations()),
        &mut transcript,
    )
    .expect("no degenerate challenge");
    Forest::of(&case.shape).balance(&tessera_verifier::gkr::sums(&proved.proofs), None)
}

/// The sum of the entries of the tables.
fn entries(case: &Case, counts: &Columns) -> SecureField {
    entry_sums(&Relations::dummy(&case.shape.config.relations()), counts, &case.tables).1
}

#[test]
fn no_multiplicity_is_free() {
    let [case, ..] = cases();
    let others = looked_up(&case);
    let mut own = held(&case.columns)
        .count(&case.shape.config.relations(), &lookup_trees(&case.shape))
        .expect("counts");
    assert!((others + entries(&case, &own)).is_zero());
    let mut rng = SplitMix(23);
    for column in 0..case.shape.config.relations().len() {
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
    let mut own = held(&case.columns)
        .count(&case.shape.config.relations(), &lookup_trees(&case.shape))
        .expect("counts");
    let honest = entries(&case, &own);
    for column in 0..case.shape.config.relations().len() {
        for (from, to) in [(0, 1), (1, 2), (300, 40_000)] {
            own[column][from] -= BaseField::one();
            own[column][to] += BaseField::one();
            let same = entries(&case, &own) == honest;
            assert_eq!(
                same,
                column == column_of(Relation::Bits) && (from, to) == (0, 1),
                "column {column}, {from} to {to}"
            );
            own[column][from] += BaseField::one();
            own[column][to] -= BaseField::one();
        }
    }
}
