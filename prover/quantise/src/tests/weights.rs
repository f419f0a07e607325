//! Weights: how they are folded, which scale they get, and how they are rounded.

use std::simd::f32x16;

use super::super::folded::{squares, BestBits, InUnits, Maxima, Noise};
use super::super::rounding::{abs_max, best_bits, errors, rounded, MAX_WEIGHT_BITS};
use super::*;
use tessera_checkpoint::attn_norm_tensor;

#[test]
fn weights_are_folded_and_rounded_to_the_reported_scale() {
    let checkpoint = fixture();
    let ids = [golden()[0].ids.clone()];
    let made = quantise(&checkpoint, &Strategy::W12.into(), &ids, &Silent).unwrap();
    let (model, report) = quantised(&checkpoint, Strategy::W12, &ids).unwrap();
    assert_eq!(report, made.report);
    let name = matmul_tensor(MatmulKind::Q.at(1));
    let order = checkpoint.config().matmuls();
    let at = order.iter().position(|m| m.id == MatmulKind::Q.at(1)).unwrap();
    let scale = report.weights.iter().find(|w| w.tensor == name).unwrap();
    let all = &made.bits[at];
    assert_eq!(
        (all.iter().min(), all.iter().max()),
        (Some(&scale.min_bits), Some(&scale.max_bits))
    );
    let (weights, gain) = (
        checkpoint.values(&name).unwrap(),
        checkpoint.values(&attn_norm_tensor(1)).unwrap(),
    );
    // head_dim is 16, so q is divided by 4.
    for (x, out) in [(0, 0), (5, 17), (127, 127)] {
        let unit = f64::from(all[out]).exp2() / 4.0;
        let exact = f64::from(weights[out * 128 + x]) * f64::from(gain[x]) * unit;
        let stored = f64::from(model.weight(MatmulKind::Q.at(1), x, out));
        assert!((stored - exact).abs() < 0.501, "{stored} for {exact}");
    }
    for row in model.matrix(MatmulKind::Q.at(1)).chunks_exact(128) {
        let largest = row.iter().map(|w| w.abs()).max().unwrap();
        assert!((1024..=2047).contains(&largest), "{largest}");
    }
}

/// The scale of one channel.
fn scale(values: &[f32], max: i32) -> i32 {
    best_bits(abs_max(values), max, |bits| errors(values, bits, max))
}

#[test]
fn scales_of_weights_fit_or_clip() {
    assert_eq!(scale(&[1.0, -0.5], 2047), 10);
    assert_eq!(scale(&[2047.4], 2047), 0);
    assert_eq!(scale(&[2048.0], 2047), -1);
    // One value just above the limit against many that gain a bit.
    let values: Vec<f32> = (0..100).map(|i| 0.1 + i as f32 * 0.003).chain([1.5]).collect();
    assert_eq!(scale(&values, 127), 6);
    let values: Vec<f32> = (0..1000).map(|i| (i as f32 * 0.7).sin() * 0.9).chain([0.995]).collect();
    assert_eq!(scale(&values, 127), 7);
    assert_eq!(scale(&[0.0; 4], 127), MAX_WEIGHT_BITS - 1);
}

/// The vectors do what the definition says: ties away from zero, clamped, errors of both candidates.
#[test]
fn rounding_and_errors_are_exact() {
    let mut rng = SplitMix(3);
    let mut random = || (rng.next_u64() as i32 as f32) * 2f32.powi(-24);
    let values: Vec<f32> = (0..1003)
        .map(|_| random())
        .chain([0.5, -0.5, 1.5, -2.5, 0.49999997, 127.5, -0.0])
        .collect();
    for bits in [-1, 0, 1, 3] {
        let unit = f64::from(bits).exp2();
        let exact = |w: f32, unit: f64| (f64::from(w) * unit).round().clamp(-127.0, 127.0);
        for chunk in values.chunks(16) {
            let mut all = [0.0; 16];
            all[..chunk.len()].copy_from_slice(chunk);
            let got = rounded(f32x16::from_array(all) * rounding::unit(bits), 127).to_array();
            assert!(all.iter().zip(got).all(|(w, r)| exact(*w, unit) == f64::from(r)));
        }
        let error = |unit: f64| -> f64 {
            values
                .iter()
                .map(|w| (f64::from(*w) - exact(*w, unit) / unit).powi(2))
                .sum()
        };
        let got = errors(&values, bits, 127);
        for (got, expected) in got.into_iter().zip([error(unit), error(2.0 * unit)]) {
            assert!((got / expected - 1.0).abs() < 1e-12, "{got} {expected}");
        }
    }
}

/// Tallies of one traversal find what each of them finds alone, bit by bit, wherever the outputs are: in rows (all matrices of
/// this config) or in columns (its embedding).
#[test]
fn tallies_of_one_traversal_do_not_disturb_each_other() {
    let config = odd_config();
    let (_dir, checkpoint) = synthetic(&config);
    let rotation = Rotation::new(config.hidden);
    for m in config.matmuls() {
        for rotation in [None, Some(&rotation)] {
            let matrix = Folded::new(&checkpoint, m.id, rotation).unwrap();
            let (inputs, outputs) = config.dims(m.id.kind());
            let exponents: Vec<u8> = (0..inputs).map(|c| (c % 3) as u8).collect();
            let means: Vec<f64> = (0..inputs).map(|c| 1.0 + c as f64).collect();
            let scaled = || matrix.clone().in_units(&exponents);
            let in_units = InUnits {
                matrix: scaled(),
                tally: (BestBits { max: 127 }, squares(Axis::Outputs, |_| 1.5)),
            };
            let noise = Noise { mean_squares: &means };
            let plain = (BestBits { max: 2047 }, squares(Axis::Inputs, |_| 1.0));
            let ((bits, rows), (own, noise)) = matrix.tally((plain, (in_units, noise))).unwrap();
            assert_eq!(bits, matrix.tally(BestBits { max: 2047 }).unwrap());
            assert_eq!(rows, matrix.tally(squares(Axis::Inputs, |_| 1.0)).unwrap());
            assert_eq!(own.0, scaled().tally(BestBits { max: 127 }).unwrap());
            assert_eq!(own.1, scaled().tally(squares(Axis::Outputs, |_| 1.5)).unwrap());
            let reference = matrix.tally(squares(Axis::Outputs, |c| means[c])).unwrap();
            let reference: Vec<f64> = reference.into_iter().map(|s| 1.0 / s).collect();
            assert_eq!(noise.outputs, reference);
            let gains = matrix.tally(squares(Axis::Inputs, |o| reference[o])).unwrap();
            assert_eq!(noise.inputs, gains);
            assert_eq!((bits.len(), rows.len()), (outputs, inputs));
        }
    }
}

/// The largest weights of some inputs, and of all others together, for every output.
#[test]
fn maxima_leave_out_inputs_that_count_on_their_own() {
    let config = odd_config();
    let (_dir, checkpoint) = synthetic(&config);
    for kind in [MatmulKind::Embed, MatmulKind::Down] {
        let matrix = Folded::new(&checkpoint, kind.at(0), None).unwrap();
        let (inputs, outputs) = config.dims(kind);
        let entries = entries(&matrix, (inputs, outputs));
        let largest = matrix.tally(Maxima { inputs: &[1, 4] }).unwrap();
        for out in 0..outputs {
            let weight = |c: usize| entries[c * outputs + out].abs();
            assert_eq!([largest.own[0][out], largest.own[1][out]], [weight(1), weight(4)]);
            let others = (0..inputs).filter(|c| ![1, 4].contains(c)).map(weight);
            assert_eq!(largest.others[out], others.fold(0.0, f32::max));
        }
    }
}
