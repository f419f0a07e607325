//! The polynomials that the verifier evaluates itself, against the columns interpolated by the prover's library.

use num_traits::{One, Zero};
use stwo::core::channel::Blake2sChannel;
use stwo::core::circle::CirclePoint;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::poly::circle::CanonicCoset;
use stwo::core::utils::{bit_reverse_index, coset_index_to_circle_domain_index};
use stwo::prover::backend::CpuBackend;
use stwo::prover::poly::circle::CircleEvaluation;
use stwo::prover::poly::BitReversedOrder;
use tessera_circuits::eq_kernel::{carries, eval_carry, eval_last, first};
use tessera_circuits::mle::eq_table;
use tessera_verifier::transcript::Transcript;

/// The column in row order, interpolated and evaluated.
fn interpolated(column: &[SecureField], at: CirclePoint<SecureField>) -> SecureField {
    let log_size = column.len().trailing_zeros();
    let coordinates = [0, 1, 2, 3].map(|i| {
        let mut values = vec![BaseField::zero(); column.len()];
        for (z, v) in column.iter().enumerate() {
            let position = bit_reverse_index(coset_index_to_circle_domain_index(z, log_size), log_size);
            values[position] = v.to_m31_array()[i];
        }
        let domain = CanonicCoset::new(log_size).circle_domain();
        let evaluation = CircleEvaluation::<CpuBackend, BaseField, BitReversedOrder>::new(domain, values);
        evaluation.interpolate().eval_at_point(at)
    });
    SecureField::from_partial_evals(coordinates)
}

fn carry_column(list: &[SecureField]) -> Vec<SecureField> {
    let of = |z: usize| list.get(z.trailing_ones() as usize).copied().unwrap_or_default();
    (0..1usize << list.len()).map(of).collect()
}

#[test]
fn public_polynomials_are_the_interpolated_columns() {
    let mut channel = Blake2sChannel::default();
    let mut transcript = Transcript::new("eq kernel");
    for log_size in 2..=11usize {
        let point = transcript.challenges("point", log_size);
        let list = carries(&point).expect("no coordinate is 0 or 1");
        let column = carry_column(&list);
        let mut last = vec![SecureField::zero(); column.len()];
        last[column.len() - 1] = SecureField::one();
        for _ in 0..3 {
            let at = CirclePoint::get_random_point(&mut channel);
            assert_eq!(
                eval_carry(&list, at),
                Some(interpolated(&column, at)),
                "log size {log_size}"
            );
            assert_eq!(
                eval_last(log_size as u32, at),
                Some(interpolated(&last, at)),
                "log size {log_size}"
            );
        }
    }
}

/// `eq(z + 1) = eq(z) carry(z) + eq(0) last(z)`, cyclically.
#[test]
fn the_recurrence_has_the_eq_table_as_its_solution() {
    let mut transcript = Transcript::new("eq kernel");
    for log_size in 1..=9 {
        let point = transcript.challenges("point", log_size);
        let eq = eq_table(&point);
        let carry = carry_column(&carries(&point).expect("no coordinate is 0 or 1"));
        assert_eq!(first(&point), eq[0]);
        for z in 0..eq.len() {
            let last = if z + 1 == eq.len() {
                first(&point)
            } else {
                SecureField::zero()
            };
            assert_eq!(eq[(z + 1) % eq.len()], eq[z] * carry[z] + last);
        }
    }
}

#[test]
fn degenerate_points_have_no_carries() {
    let mut point = Transcript::new("eq kernel").challenges("point", 5);
    assert!(carries(&point).is_some());
    for value in [SecureField::zero(), SecureField::one()] {
        for at in 0..point.len() {
            let old = std::mem::replace(&mut point[at], value);
            assert_eq!(carries(&point), None);
            point[at] = old;
        }
    }
}
