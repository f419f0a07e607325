//! What makes the columns of a part periodic that is shorter than the tallest (docs/protocol.md, section 9): stwo takes a third
//! sample, a period away, of columns with two samples and of no others. Without the two samples of its last LogUp column,
//! nothing would say that the rows of a part are the same in every period, and fractions of one period could be missing in
//! another.

use super::*;
use std::collections::BTreeSet;
use stwo::core::pcs::quotients::{build_samples_with_randomness_and_periodicity, PointSample};
use stwo::core::poly::circle::CanonicCoset;
use stwo_constraint_framework::{EvalAtRow, FrameworkEval, RelationEntry};
use tessera_circuits::chunk::Chunk;
use tessera_circuits::model::{ModelConfig, Rotation};
use tessera_circuits::shape::PARTS;

/// Coordinates of a column in the extension.
const COORDINATES: usize = 4;

/// Errors unless the last interaction columns of a component are sampled one row before the out-of-domain point and there,
/// stwo samples them a period away, too, and all others but those of `eq` have a single sample.
fn check_periodic<E: FrameworkEval>(
    component: &FrameworkComponent<E>,
    with_eq: bool,
    height: u32,
) -> Result<(), String> {
    let oods = CirclePoint::<SecureField>::get_random_point(&mut Blake2sChannel::default());
    let step: CirclePoint<SecureField> = CanonicCoset::new(height).step().into_ef();
    let masks = component.mask_points(oods, height);
    let columns = masks.get(INTERACTION_TRACE_IDX).map_or(&[][..], |c| c.as_slice());
    let Some(before) = columns.len().checked_sub(COORDINATES) else {
        return Err(format!("{} interaction columns", columns.len()));
    };
    let log_rows = FrameworkEval::log_size(&**component);
    let samples: Vec<Vec<PointSample>> = columns.iter().map(|points| sampled(points)).collect();
    let sizes = vec![std::iter::repeat_n(log_rows, columns.len())];
    let challenge = SecureField::from_u32_unchecked(1, 2, 3, 4);
    let all = build_samples_with_randomness_and_periodicity(&TreeVec(vec![samples]), sizes, height, challenge);
    for (i, (points, samples)) in columns.iter().zip(&all[0]).enumerate() {
        let expected = match i {
            i if i >= before => vec![oods - step, oods],
            i if with_eq && i < COORDINATES => vec![oods, oods + step],
            _ => vec![oods],
        };
        if *points != expected {
            return Err(format!("column {i} of {} is sampled elsewhere", columns.len()));
        }
        let [(far, _), .., (last, _)] = samples.as_slice() else {
            continue;
        };
        // What a lifted column repeats after: a point of as many doublings as its length has.
        let period = (far.point - last.point).repeated_double(height - log_rows);
        if samples.len() != 3 || far.value != last.value || period != CirclePoint::zero() {
            return Err(format!("column {i} of {} has no sample a period away", columns.len()));
        }
    }
    Ok(())
}

/// Samples at these points with values of their own.
fn sampled(points: &[CirclePoint<SecureField>]) -> Vec<PointSample> {
    let value = |i: usize| SecureField::from(BaseField::from(i as u32));
    let sample = |(i, point): (usize, &CirclePoint<SecureField>)| PointSample {
        point: *point,
        value: value(i),
    };
    points.iter().enumerate().map(sample).collect()
}

fn config(hidden: usize, heads: usize, head_dim: usize, vocab: usize) -> ModelConfig {
    ModelConfig {
        hidden,
        layers: 5,
        heads,
        kv_heads: 1,
        head_dim,
        ff: 3 * hidden,
        vocab,
        context: 512,
        rms_eps: 1e-5,
        rotations: vec![Rotation::Base(1e4)],
        rotation_of: Vec::new(),
        positions: false,
        gated: true,
        parallel: false,
        bos: None,
        eos: Vec::new(),
    }
}

/// Every part of every kind of chunk, low and tall, in one lane and in many.
#[test]
fn every_part_is_periodic_by_its_last_logup_column() {
    let mut seen = BTreeSet::new();
    for config in [
        config(20, 3, 6, 300),
        config(128, 8, 16, 2048),
        config(576, 9, 64, 50_257),
    ] {
        assert_eq!(config.check(), Ok(()));
        let chunks = Chunk::partition([1, 3, 1], 5).unwrap();
        for chunk in chunks.iter().chain([&Chunk::whole(5)]) {
            for rows in [1, 2, 25, 256, 512] {
                let shape = Shape::of(&config, chunk, rows);
                let bindings = shape.parts().iter().map(|p| dummy_binding(&shape, *p)).collect();
                let sums = vec![SecureField::zero(); shape.parts().len()];
                let components = components(&shape, &Relations::dummy(), bindings, &sums);
                assert_eq!(components.len(), shape.parts().len());
                for (part, component) in shape.parts().iter().zip(&components) {
                    let height = shape.max_log_rows();
                    let periodic = check_periodic(component, *part != Part::Tables, height);
                    assert_eq!(periodic, Ok(()), "{part:?} of {shape:?}");
                    let (low, lanes) = (shape.log_rows(*part) < height, shape.lanes(*part) > 1);
                    seen.insert((part.index(), low, lanes));
                }
            }
        }
    }
    for part in PARTS {
        let low = seen.iter().any(|(index, low, _)| *index == part.index() && *low);
        assert!(low, "no low {part:?}");
    }
    assert!(
        seen.iter().any(|(_, low, lanes)| *low && *lanes),
        "no low part in lanes"
    );
}

/// A part as it must not be: `fractions` of them, and a column of its own in the interaction tree.
struct Other {
    fractions: usize,
    column: bool,
}

impl FrameworkEval for Other {
    fn log_size(&self) -> u32 {
        6
    }

    fn max_constraint_log_degree_bound(&self) -> u32 {
        7
    }

    fn evaluate<E: EvalAtRow>(&self, mut e: E) -> E {
        let column = e.next_trace_mask();
        e.add_constraint(column.clone() * (column.clone() - E::F::one()));
        if self.column {
            for _ in 0..COORDINATES {
                let [value] = e.next_interaction_mask(INTERACTION_TRACE_IDX, [0]);
                e.add_constraint(value);
            }
        }
        let Relations { range16, .. } = Relations::dummy();
        for _ in 0..self.fractions {
            e.add_to_relation(RelationEntry::new(
                &range16,
                E::EF::one(),
                std::slice::from_ref(&column),
            ));
        }
        if self.fractions > 0 {
            e.finalize_logup_in_pairs();
        }
        e
    }
}

#[test]
fn a_part_without_the_samples_would_be_noticed() {
    let check = |fractions: usize, column: bool| {
        let mut allocator = TraceLocationAllocator::default();
        let part = Other { fractions, column };
        let component = FrameworkComponent::new(&mut allocator, part, SecureField::zero());
        check_periodic(&component, false, 9)
    };
    assert_eq!(check(1, false), Ok(()));
    assert_eq!(check(3, false), Ok(()));
    assert_eq!(check(0, false), Err("0 interaction columns".to_owned()));
    assert_eq!(check(0, true), Err("column 0 of 4 is sampled elsewhere".to_owned()));
}
