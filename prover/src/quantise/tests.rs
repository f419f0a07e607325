use std::path::Path;

use tempfile::TempDir;
use tessera_circuits::model::{ChannelShift, ModelParams};

use std::simd::f32x16;

use super::folded::{abs_max, best_bits, errors, rounded, MAX_WEIGHT_BITS};
use super::*;
use crate::checkpoint::{attn_norm_tensor, matmul_tensor};
use crate::forward::ForwardState;
use crate::model::QuantisedModel;
use crate::progress::Silent;
use crate::synth::{write_synthetic, Dtype};
use crate::testing::{golden, odd_config, quantised, ragged_config, random_ids, TestRng, FIXTURE};

const STRATEGIES: [Strategy; 2] = [Strategy::W12, Strategy::W8];

fn synthetic(config: &ModelConfig) -> (TempDir, Checkpoint) {
    let dir = tempfile::tempdir().unwrap();
    write_synthetic(dir.path(), config, 11, Dtype::BF16).unwrap();
    let checkpoint = Checkpoint::open(dir.path()).unwrap();
    (dir, checkpoint)
}

fn fixture() -> Checkpoint {
    Checkpoint::open(Path::new(FIXTURE)).unwrap()
}

/// Shifts in range, as the constraints need them, and one per channel where the strategy has them.
fn assert_in_range(config: &ModelConfig, params: &ModelParams) {
    params.check(config).unwrap();
    let lengths = |s: &ChannelShift, out: usize, channels: bool| {
        assert!(s.0.iter().all(|s| (1..=13).contains(s)));
        assert_eq!(
            s.0.len(),
            if channels && params.format == WeightFormat::Int8 {
                out
            } else {
                1
            }
        );
    };
    lengths(&params.embed.body, config.hidden, true);
    lengths(&params.head, config.vocab, true);
    for layer in &params.layers {
        lengths(&layer.q, config.heads * config.head_dim, true);
        lengths(&layer.k, config.kv_heads * config.head_dim, true);
        lengths(&layer.v, config.kv_heads * config.head_dim, true);
        lengths(&layer.gate, config.ff, true);
        lengths(&layer.up, config.ff, true);
        lengths(&layer.o.body, config.hidden, false);
        lengths(&layer.down.body, config.hidden, false);
        assert!(layer.skip_attn.body <= 0 && layer.skip_mlp.body <= 0);
    }
}

/// Fidelity on the sequences, and the number of saturated values.
fn fidelity(checkpoint: &Checkpoint, model: &QuantisedModel, sequences: &[Vec<u32>]) -> (Fidelity, u64) {
    let float = FloatModel::new(checkpoint);
    let (mut total, mut saturated) = (Fidelity::default(), 0);
    for ids in sequences {
        let mut state = ForwardState::new(model);
        let int = state.run(ids, None).unwrap();
        saturated += state.saturated().values().map(|s| s.total()).sum::<u64>();
        let bits = model.params.logit_bits;
        total += compare_logits(&float.forward(ids).unwrap(), &int, bits, model.config.vocab, ids);
    }
    (total, saturated)
}

#[test]
fn the_fixture_keeps_its_quality() {
    let checkpoint = fixture();
    let ids: Vec<Vec<u32>> = golden().into_iter().map(|s| s.ids).collect();
    for (strategy, kl, top1, perplexity) in [(Strategy::W12, 1e-4, 0.99, 0.001), (Strategy::W8, 4e-3, 0.95, 0.01)] {
        let (model, report) = quantised(&checkpoint, strategy, &ids[..2]).unwrap();
        assert_in_range(checkpoint.config(), &model.params);
        assert_eq!(report.tokens, ids[0].len() + ids[1].len());
        let (f, saturated) = fidelity(&checkpoint, &model, &ids);
        let change = f.perplexity_integer() / f.perplexity_float() - 1.0;
        println!(
            "{strategy:?}: kl {:.3e} top1 {:.4} perplexity {change:+.5} saturated {saturated}",
            f.kl(),
            f.top1()
        );
        assert!(
            f.kl() < kl && f.top1() > top1 && change.abs() < perplexity,
            "{strategy:?}: {f:?}"
        );
        assert_eq!((f.rows, f.predictions), (1515, 1505));
    }
}

#[test]
fn odd_dimensions_are_in_range() {
    for config in [ragged_config(), odd_config()] {
        let (_dir, checkpoint) = synthetic(&config);
        let ids: Vec<Vec<u32>> = (0..4).map(|seed| random_ids(&config, config.context, seed)).collect();
        // Random models have outliers in every tensor and nearly flat logits: their bounds are wide.
        for (strategy, kl) in STRATEGIES.into_iter().zip([2e-3, 5e-2]) {
            let (model, _) = quantised(&checkpoint, strategy, &ids[..2]).unwrap();
            assert_in_range(&config, &model.params);
            let (f, saturated) = fidelity(&checkpoint, &model, &ids[2..]);
            println!(
                "{strategy:?}: kl {:.3e} top1 {:.4} saturated {saturated}",
                f.kl(),
                f.top1()
            );
            assert!(f.kl() < kl, "{strategy:?}: {f:?}");
        }
    }
}

#[test]
fn weights_are_folded_and_rounded_to_the_reported_scale() {
    let checkpoint = fixture();
    let ids = [golden()[0].ids.clone()];
    let (model, report) = quantised(&checkpoint, Strategy::W12, &ids).unwrap();
    let name = matmul_tensor(MatmulKind::Q, 1);
    let scale = report.weights.iter().find(|w| w.tensor == name).unwrap();
    assert_eq!(scale.min_bits, scale.max_bits);
    let (weights, gain) = (
        checkpoint.values(&name).unwrap(),
        checkpoint.values(&attn_norm_tensor(1)).unwrap(),
    );
    // head_dim is 16, so q is divided by 4.
    let unit = f64::from(scale.min_bits).exp2() / 4.0;
    for (x, out) in [(0, 0), (5, 17), (127, 127)] {
        let exact = f64::from(weights[out * 128 + x]) * f64::from(gain[x]) * unit;
        let stored = f64::from(model.weight(MatmulKind::Q, 1, x, out));
        assert!((stored - exact).abs() < 0.501, "{stored} for {exact}");
    }
    let largest = model.matrix(MatmulKind::Q, 1).iter().map(|w| w.abs()).max().unwrap();
    assert!((1024..=2047).contains(&largest), "{largest}");
}

#[test]
fn ranges_of_any_size_have_scales() {
    // Gains of 2^-20 to 2^20 in a norm and a projection move all the following ranges.
    for exponent in [-20, -8, 8, 20] {
        let dir = tempfile::tempdir().unwrap();
        write_synthetic(dir.path(), &odd_config(), 5, Dtype::F32).unwrap();
        for name in [
            "model.layers.0.self_attn.v_proj.weight",
            "model.layers.1.mlp.up_proj.weight",
            "lm_head.weight",
        ] {
            multiply(dir.path(), name, f64::from(exponent).exp2() as f32);
        }
        let checkpoint = Checkpoint::open(dir.path()).unwrap();
        let ids = [random_ids(checkpoint.config(), 20, 1)];
        for strategy in STRATEGIES {
            let (model, _) = quantised(&checkpoint, strategy, &ids).unwrap();
            assert_in_range(checkpoint.config(), &model.params);
        }
    }
}

/// Multiplies a tensor of a one-file F32 checkpoint.
fn multiply(dir: &Path, name: &str, factor: f32) {
    let path = dir.join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let (header, metadata) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    let (start, end) = metadata.info(name).unwrap().data_offsets;
    for value in bytes[8 + header + start..8 + header + end].as_chunks_mut::<4>().0 {
        *value = (f32::from_le_bytes(*value) * factor).to_le_bytes();
    }
    std::fs::write(&path, bytes).unwrap();
}

#[test]
fn wide_matmuls_are_refused_by_name() {
    let config = ModelConfig {
        ff: 2100,
        layers: 1,
        ..odd_config()
    };
    let (_dir, checkpoint) = synthetic(&config);
    let ids = [random_ids(&config, 8, 1)];
    let error = quantised(&checkpoint, Strategy::W12, &ids).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tensor model.layers.0.mlp.down_proj.weight: 2100 input channels are too many for strategy W12; strategy W8 \
         supports it"
    );
    quantised(&checkpoint, Strategy::W8, &ids).unwrap();
}

#[test]
fn unusable_calibration_is_named() {
    let checkpoint = fixture();
    let run = |ids: &[Vec<u32>], headroom| quantise(&checkpoint, Strategy::W8, ids, headroom, &Silent).unwrap_err();
    assert!(matches!(run(&[], 1.5), QuantiseError::NoCalibration));
    assert!(matches!(run(&[vec![]], 1.5), QuantiseError::NoCalibration));
    assert!(matches!(
        run(&[vec![2048]], 1.5),
        QuantiseError::Float(FloatError::Token { id: 2048, .. })
    ));
    assert!(matches!(run(&[vec![1]], 0.5), QuantiseError::Headroom(_)));
    assert!(matches!(run(&[vec![1]], f64::NAN), QuantiseError::Headroom(_)));
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
    let mut rng = TestRng(3);
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
            let got = rounded(f32x16::from_array(all) * folded::unit(bits), 127).to_array();
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

#[test]
fn the_default_strategy_fits_the_widest_matrix() {
    assert_eq!(default_strategy(&odd_config()), Strategy::W12);
    let wide = ModelConfig {
        ff: 2100,
        ..odd_config()
    };
    assert_eq!(default_strategy(&wide), Strategy::W8);
}
