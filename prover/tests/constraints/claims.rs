//! The list of claims: every column that a row's constraints do not determine is under a claim.

use std::collections::BTreeSet;

use num_traits::{One, Zero};
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::{ff, logits, requant, rope, scores, stream};
use tessera_circuits::claims::{batch, Batch, Tensor};
use tessera_circuits::model::WeightFormat;
use tessera_circuits::shape::{Part, Shape, PARTS};
use tessera_circuits::wiring::MAX_CLAIMS;
use tessera_prover::stark::check::{check_row, claim_holds};
use tessera_prover::testing::{fixture_size_config, odd_config, ragged_config, random_model, TestRng};

use crate::setup::{cases, random, three_layers, Case};

/// The columns under a claim: accumulators, operands of matmuls, sums, broadcasts and public columns. The others
/// follow from these within a row.
fn claimed(part: Part, shape: &Shape) -> Vec<usize> {
    let (lanes, width) = (shape.lanes(part), shape.lane_columns(part));
    (0..lanes)
        .flat_map(|lane| claimed_in_lane(part).into_iter().map(move |c| lane * width + c))
        .collect()
}

fn claimed_in_lane(part: Part) -> Vec<usize> {
    match part {
        Part::Stream => {
            use stream::*;
            vec![
                ACC_HI, ACC_LO, PREV, X_HI, X_LO, POW1, SKIP, HH, HL, LL, R_HI, R_LO, Y_HI, Y_LO, POW2,
            ]
        }
        Part::Q | Part::K => {
            let halves = [0, 1].map(|half| {
                let before = [rope::ACC_HI, rope::ACC_LO, rope::POW].map(|c| rope::before(half, c));
                let after = [rope::OUT_HI, rope::OUT_LO].map(|c| rope::after(half, c));
                [before.as_slice(), &after].concat()
            });
            [halves.concat(), vec![rope::COS, rope::SIN]].concat()
        }
        Part::V | Part::Att => {
            use requant::*;
            vec![ACC_HI, ACC_LO, OUT_HI, OUT_LO, POW]
        }
        Part::Scores => {
            use scores::*;
            vec![ACC_HI, ACC_LO, POW, MAX, MASK, EXP, SELECT, R_HI, R_LO, P]
        }
        Part::Ff => {
            use ff::*;
            vec![GATE_HI, GATE_LO, GATE_POW, UP_HI, UP_LO, UP_POW, H_HI, H_LO, POW]
        }
        Part::Logits => {
            use logits::*;
            vec![ACC_HI, ACC_LO, POW, TOP, BELOW, CHOSEN, ACTIVE]
        }
        Part::Tables => Vec::new(),
    }
}

/// Whether a claim reaches this cell of a claimed column, on a row of the model.
fn is_reached(case: &Case, part: Part, column: usize, row: usize) -> bool {
    let (lane, column) = case.lane(part, column);
    let at = case.unpack(part, lane, row);
    let config = &case.shape.config;
    let key_out = [0, 1].map(|half| [rope::OUT_HI, rope::OUT_LO].map(|c| rope::after(half, c)));
    match (part, column) {
        // Of the last state only the norm is read, unless it leaves the chunk.
        (Part::Stream, stream::X_HI | stream::X_LO) => at[0] + 1 < case.shape.states() || !case.shape.chunk.is_last(),
        // Padded heads have no softmax.
        (Part::Scores, scores::EXP | scores::SELECT | scores::R_HI | scores::R_LO) => at[1] < config.heads,
        // No query reads a padded key/value head.
        (Part::K, out) if key_out.concat().contains(&out) => at[2] < config.kv_heads,
        (Part::V, requant::OUT_HI | requant::OUT_LO) => at[2] < config.kv_heads,
        _ => true,
    }
}

#[test]
fn claims_reach_every_cell_that_is_read() {
    for case in &cases() {
        for &part in case.shape.parts() {
            let coverage = case.coverage(part);
            let columns: BTreeSet<usize> = coverage.claims.iter().flat_map(|c| c.keys().copied()).collect();
            let expected: BTreeSet<usize> = claimed(part, &case.shape).into_iter().collect();
            assert_eq!(columns, expected, "{part:?}");
            for row in 0..1usize << case.shape.log_rows(part) {
                for &column in columns
                    .iter()
                    .filter(|c| case.in_model(part, case.lane(part, **c).0, row))
                {
                    assert_eq!(
                        coverage.covers(column, row),
                        is_reached(case, part, column, row),
                        "{part:?}, column {column}, row {row}"
                    );
                }
            }
        }
    }
}

/// A whole row copied over another one satisfies every constraint and lookup, so only claims can tell.
#[test]
fn rows_cannot_be_exchanged() {
    let mut rng = TestRng(29);
    for case in &cases() {
        for part in case.shape.claimed() {
            let coverage = case.coverage(part);
            let mut own = case.columns[part.index()].clone();
            let air = case.shape.air(part);
            let rows = 1u64 << case.shape.log_rows(part);
            let mut tried = 0;
            let width = case.shape.lane_columns(part);
            while tried < 400 {
                let [from, to] = [rng.below(rows) as usize, rng.below(rows) as usize];
                let lane = rng.below(case.shape.lanes(part) as u64) as usize;
                let head = part == Part::Scores && case.unpack(part, lane, to)[1] >= case.shape.config.heads;
                if head || !case.in_model(part, lane, to) {
                    continue;
                }
                tried += 1;
                let columns = lane * width..(lane + 1) * width;
                let old: Vec<_> = own[columns.clone()].iter().map(|c| c[to]).collect();
                let changes: Vec<_> = columns.clone().map(|c| (c, own[c][from] - own[c][to])).collect();
                own[columns.clone()].iter_mut().for_each(|c| c[to] = c[from]);
                assert!(check_row(&air, &own, &case.tables, to).is_empty());
                own[columns].iter_mut().zip(&old).for_each(|(c, v)| c[to] = *v);
                let same = changes.iter().all(|(_, by)| by.is_zero());
                assert_eq!(
                    !coverage.breaks(to, &changes),
                    same,
                    "{part:?}, row {from} over row {to}"
                );
            }
        }
    }
}

/// The shortcut of the other tests, a claim broken by its weight, against the claims themselves.
#[test]
fn coverage_is_what_the_claims_say() {
    let [whole, .., middle, _] = cases();
    let mut rng = TestRng(31);
    for mut case in [whole, middle] {
        for part in case.shape.clone().claimed() {
            let coverage = case.coverage(part);
            let rows = 1u64 << case.shape.log_rows(part);
            for column in claimed(part, &case.shape) {
                let row = rng.below(rows) as usize;
                let old = case.columns[part.index()][column][row];
                case.columns[part.index()][column][row] += random(&mut rng);
                let broken = case.claims.iter().any(|c| {
                    let touched = c.groups.iter().any(|g| g.part == part);
                    touched && !claim_holds(c, &case.columns)
                });
                assert_eq!(
                    broken,
                    coverage.covers(column, row),
                    "{part:?}, column {column}, row {row}"
                );
                case.columns[part.index()][column][row] = old;
            }
        }
    }
}

#[test]
fn claims_hold_and_are_few_in_every_shape() {
    let shapes = [
        (three_layers(), 6, 5),
        // One token row.
        (odd_config(), 1, 1),
        (ragged_config(), 9, 4),
        (fixture_size_config(), 30, 4),
    ];
    let whole =
        shapes.map(|(config, prompt, tokens)| Case::new(random_model(config, WeightFormat::Int16, 37), prompt, tokens));
    let [.., first, middle, last] = cases();
    for case in whole.into_iter().chain([first, middle, last]) {
        assert!(case.claims.len() <= MAX_CLAIMS, "{} claims", case.claims.len());
        for claim in &case.claims {
            assert!(claim_holds(claim, &case.columns), "{}", claim.name);
        }
        let count = case.claims.len();
        let (shape, columns) = (case.shape, case.columns);
        let mut batched = batch(case.claims, SecureField::from_u32_unchecked(3, 1, 4, 1));
        assert!(well_formed(&batched, &shape));
        assert!(batched.groups.len() <= 2 * count);
        for (&part, columns) in shape.parts().iter().zip(columns) {
            let mut expected = claimed(part, &shape);
            expected.sort_unstable();
            assert_eq!(batched.columns(part), expected, "{part:?}");
            assert_eq!(columns.len(), shape.columns(part));
            assert!(columns.iter().all(|c| c.len() == 1 << shape.log_rows(part)));
            assert_eq!(part.index(), PARTS.iter().position(|p| *p == part).expect("a part"));
        }
        // And it can tell: a column or an axis that the part does not have.
        let group = &mut batched.groups[0];
        group.columns.push((shape.columns(group.part), SecureField::one()));
        assert!(!well_formed(&batched, &shape));
        batched.groups[0].columns.pop();
        batched.groups[0].weights[0].pop();
        assert!(!well_formed(&batched, &shape));
    }
}

/// Whether every group fits its part: one weight vector per axis, of the length of the axis. It holds by
/// construction.
fn well_formed(batch: &Batch, shape: &Shape) -> bool {
    batch.groups.iter().all(|g| {
        let axes = shape.axes(g.part);
        let fits =
            |tensor: &Tensor| axes.len() == tensor.len() && axes.iter().zip(tensor).all(|(log, w)| *log == w.log_len());
        g.weights.iter().all(fits) && g.columns.iter().all(|(c, _)| *c < shape.columns(g.part))
    })
}
