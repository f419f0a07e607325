//! The public columns: what the verifier evaluates is the multilinear extension of the bounds that the trace is made with.

use num_traits::Zero;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::lookups::Relation;
use tessera_circuits::mle::eq_table;
use tessera_circuits::shape::{Part, Shape};
use tessera_testkit::SplitMix;

use crate::setup::{cases, Case};

fn element(rng: &mut SplitMix) -> SecureField {
    let mut word = || rng.below((1 << 31) - 1) as u32;
    SecureField::from_u32_unchecked(word(), word(), word(), word())
}

/// The public columns of a part, of all lanes.
fn powers(shape: &Shape, part: Part) -> Vec<usize> {
    let powers = shape.air(part).powers.into_iter();
    powers.map(|(column, _)| column).collect()
}

fn eval(column: &[BaseField], point: &[SecureField]) -> SecureField {
    let terms = eq_table(point).into_iter().zip(column);
    terms.fold(SecureField::zero(), |sum, (w, v)| sum + w * *v)
}

/// Of whole parts, of parts in lanes and of chunks; at random points, and at two rows.
#[test]
fn public_columns_are_what_the_verifier_evaluates() {
    let (mut rng, mut columns, mut lanes) = (SplitMix(53), 0, 0);
    for (i, case) in cases().iter().enumerate() {
        let public = case.public(&case.statistics);
        let own = public.powers();
        for &part in case.shape.parts() {
            let log_rows = case.shape.log_rows(part) as usize;
            for column in powers(&case.shape, part) {
                let committed = &case.columns[part.index()][column];
                let mut points: Vec<Vec<SecureField>> = Vec::new();
                points.extend((0..2).map(|_| (0..log_rows).map(|_| element(&mut rng)).collect()));
                for _ in 0..2 {
                    let row = rng.below(1 << log_rows) as usize;
                    let bit = |b: usize| SecureField::from((row >> (log_rows - 1 - b) & 1) as u32);
                    points.push((0..log_rows).map(bit).collect());
                }
                for point in points {
                    assert_eq!(
                        own.eval(part, column, &point),
                        eval(committed, &point),
                        "case {i}, {part:?}, column {column} at {point:?}"
                    );
                }
                columns += 1;
                lanes = lanes.max(column / case.shape.lane_columns(part));
            }
        }
    }
    assert!(columns > 150 && lanes > 6, "{columns} columns, {lanes} lanes");
}

/// Columns are public or committed, and never both; those that are public bound a remainder.
#[test]
fn every_column_is_public_or_committed() {
    for case in &cases() {
        let public = case.public(&case.statistics);
        let own = public.powers();
        for &part in case.shape.parts() {
            let bounds: Vec<usize> = case
                .shape
                .air(part)
                .lookups
                .iter()
                .filter(|lookup| lookup.tuple.len() == 2 && lookup.relation != Relation::Bytes)
                .flat_map(|lookup| lookup.tuple[0].terms.iter().map(|(column, _)| *column))
                .collect();
            let committed = case.shape.committed(part);
            for column in 0..case.shape.columns(part) {
                let power = own.is_power(part, column);
                assert_eq!(power, !committed.contains(&column), "{part:?}, column {column}");
                assert_eq!(power, powers(&case.shape, part).contains(&column));
                // What a table has a function of is no bound.
                let looked_up =
                    part == Part::FF || [Part::SCORES, Part::WINDOWED].contains(&part) && case.shape.scores().capped;
                let argument = looked_up && column % case.shape.lane_columns(part) == 0;
                assert!(
                    argument || power == bounds.contains(&column),
                    "{part:?}, column {column}"
                );
            }
        }
    }
}

/// Leading rows have bounds of their own, in the residual stream and in the products of the MLP, and only there.
#[test]
fn leading_rows_have_their_own_bounds() {
    let differs = |case: &Case, part: Part| {
        let public = case.public(&case.statistics);
        let mut own = public.powers();
        let point: Vec<SecureField> = (0..case.shape.log_rows(part))
            .map(|i| SecureField::from(i + 3))
            .collect();
        let columns = powers(&case.shape, part).into_iter();
        let [zero, all] = [0, own.leading].map(|leading| {
            own.leading = leading;
            columns.clone().map(|c| own.eval(part, c, &point)).collect::<Vec<_>>()
        });
        assert!(own.leading > 0);
        zero.iter().zip(&all).map(|(a, b)| a != b).collect::<Vec<_>>()
    };
    let mut seen = [false; 2];
    for case in &cases() {
        for &part in case.shape.parts() {
            let own = differs(case, part);
            let lane = case.shape.lane_air(part).powers.len();
            for (i, differs) in own.into_iter().enumerate() {
                match (part, i % lane.max(1)) {
                    (Part::STREAM, 0) => seen[0] |= differs,
                    (Part::FF, 0) => seen[1] |= differs,
                    _ => assert!(!differs, "{part:?}, {i}"),
                }
            }
        }
    }
    assert_eq!(seen, [true; 2]);
}
