mod weights;

use std::path::Path;

use tempfile::TempDir;
use tessera_circuits::model::{
    ChannelShift, LeadingRows, Limbs, MatmulKind, ModelParams, RowClass, StreamShift, WeightFormat,
};

use super::*;
use crate::folded::{Axis, Folded};
use crate::in_memory as quantised;
use crate::rotation::Rotation;
use crate::source::read_state;
use tessera_checkpoint::matmul_tensor;
use tessera_model::forward::{ForwardState, Saturations};
use tessera_model::QuantisedModel;
use tessera_samples::{golden, odd_config, ragged_config, random_ids, SplitMix, FIXTURE};
use tessera_support::progress::Silent;
use tessera_synthetic::{write_synthetic, Dtype};

const STRATEGIES: [Strategy; 3] = [Strategy::Auto, Strategy::W12, Strategy::W8];

fn synthetic(config: &ModelConfig) -> (TempDir, Checkpoint) {
    let dir = tempfile::tempdir().unwrap();
    write_synthetic(dir.path(), config, 11, Dtype::BF16).unwrap();
    let checkpoint = Checkpoint::open(dir.path()).unwrap();
    (dir, checkpoint)
}

fn fixture() -> Checkpoint {
    Checkpoint::open(Path::new(FIXTURE)).unwrap()
}

/// Shifts in range, as the constraints need them, one per output channel.
fn assert_in_range(config: &ModelConfig, params: &ModelParams) {
    params.check(config).unwrap();
    let lengths = |s: &ChannelShift, out: usize| {
        assert!(s.0.iter().all(|s| (1..=13).contains(s)));
        assert_eq!(s.0.len(), out);
    };
    let stream = |s: &StreamShift| {
        assert_eq!(s.body.0.len(), config.hidden);
        let mut all = (0..config.hidden).flat_map(|c| [s.at(c, RowClass::Body), s.at(c, RowClass::Lead)]);
        assert!(all.all(|s| (1..=13).contains(&s)));
    };
    stream(&params.embed);
    lengths(&params.head, config.vocab);
    for layer in &params.layers {
        lengths(&layer.attention.q, config.heads * config.head_dim);
        lengths(&layer.attention.k, config.kv_heads * config.head_dim);
        lengths(&layer.attention.v, config.kv_heads * config.head_dim);
        lengths(&layer.mlp.gate, config.ff);
        lengths(&layer.mlp.up, config.ff);
        stream(&layer.attention.o);
        stream(&layer.mlp.down);
    }
}

/// Norms and what reads them are in one limb, as proofs want it.
fn assert_one_limb(config: &ModelConfig, params: &ModelParams) {
    use MatmulKind::{Embed, Gate, Head, Up, K, Q, V};
    let limbs = [Embed, Q, K, V, Gate, Up, Head].map(|kind| (kind, params.limbs(config, kind)));
    assert_eq!(limbs.into_iter().find(|(_, limbs)| *limbs != Limbs::One), None);
    assert_eq!(params.norm_limbs(config), Limbs::One);
}

/// Fidelity on the sequences, and the saturated values.
fn fidelity(checkpoint: &Checkpoint, model: &QuantisedModel, sequences: &[Vec<u32>]) -> (Fidelity, Saturations) {
    let float = FloatModel::new(checkpoint);
    let (mut total, mut saturated) = (Fidelity::default(), Saturations::new());
    for ids in sequences {
        let mut state = ForwardState::new(model);
        let int = state.run(ids, None).unwrap();
        for (tensor, count) in state.saturated() {
            *saturated.entry(tensor).or_default() += count;
        }
        let bits = model.params.logit_bits;
        total += compare_logits(&float.forward(ids).unwrap(), &int, bits, model.config.vocab, ids);
    }
    (total, saturated)
}

/// Mean divergence on the golden texts.
fn golden_kl(checkpoint: &Checkpoint, options: QuantiseOptions) -> f64 {
    let ids: Vec<Vec<u32>> = golden().into_iter().map(|s| s.ids).collect();
    let (model, _) = quantised(checkpoint, options, &ids[..2]).unwrap();
    fidelity(checkpoint, &model, &ids).0.kl()
}

#[test]
fn the_fixture_keeps_its_quality() {
    let checkpoint = fixture();
    let ids: Vec<Vec<u32>> = golden().into_iter().map(|s| s.ids).collect();
    for (strategy, kl, top1, perplexity) in [
        (Strategy::Auto, 2.8e-5, 0.995, 0.001),
        (Strategy::W12, 4e-5, 0.99, 0.002),
        (Strategy::W8, 2e-3, 0.95, 0.03),
    ] {
        let (model, report) = quantised(&checkpoint, strategy, &ids[..2]).unwrap();
        assert_in_range(checkpoint.config(), &model.params);
        assert_one_limb(checkpoint.config(), &model.params);
        assert_eq!(report.tokens, ids[0].len() + ids[1].len());
        let (f, saturated) = fidelity(&checkpoint, &model, &ids);
        let change = f.perplexity_integer() / f.perplexity_float() - 1.0;
        println!(
            "{strategy:?}: kl {:.3e} top1 {:.4} perplexity {change:+.5} saturated {saturated:?}",
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

/// Rounding to the nearest loses a quarter more.
#[test]
fn eight_bits_are_worth_their_error_feedback() {
    let checkpoint = fixture();
    let with = |feedback_bits| QuantiseOptions {
        feedback_bits,
        ..Strategy::W8.into()
    };
    let (fed_back, nearest) = (golden_kl(&checkpoint, with(11)), golden_kl(&checkpoint, with(0)));
    println!("fed back {fed_back:.3e}, to the nearest {nearest:.3e}");
    assert!(fed_back < 0.9 * nearest, "{fed_back} {nearest}");
}

/// All entries of a matrix, `[in][out]`, read in two pieces of its rows.
fn entries(folded: &Folded<'_>, (inputs, outputs): (usize, usize)) -> Vec<f32> {
    let (width, mut entries) = (folded.width(), vec![0.0; inputs * outputs]);
    for row in 0..inputs * outputs / width {
        let mut values = vec![0.0; width];
        let (first, second) = values.split_at_mut(width / 3);
        folded.read(row, 0..width / 3, first).unwrap();
        folded.read(row, width / 3..width, second).unwrap();
        for (column, value) in values.into_iter().enumerate() {
            let at = match folded.rows {
                Axis::Inputs => row * outputs + column,
                Axis::Outputs => column * outputs + row,
            };
            entries[at] = value;
        }
    }
    entries
}

/// In float a rotation of the stream changes nothing: what reads it gives the same outputs, and what writes to it writes
/// the same values, turned.
#[test]
fn matrices_turn_with_the_stream() {
    let config = odd_config();
    let (_dir, checkpoint) = synthetic(&config);
    let rotation = Rotation::new(config.hidden);
    let mut rng = SplitMix(3);
    for m in config.matmuls() {
        let dims = config.dims(m.id.kind());
        let matrix = |rotation| entries(&Folded::new(&checkpoint, m.id, rotation).unwrap(), dims);
        let product = |x: &[f32], entries: &[f32]| -> Vec<f32> {
            let output = |out: usize| {
                x.iter()
                    .enumerate()
                    .map(|(i, x)| x * entries[i * dims.1 + out])
                    .sum::<f32>()
            };
            (0..dims.1).map(output).collect()
        };
        let (plain, turned) = (matrix(None), matrix(Some(&rotation)));
        let mut input: Vec<f32> = (0..dims.0).map(|_| rng.below(2001) as f32 / 1000.0 - 1.0).collect();
        let mut expected = product(&input, &plain);
        match read_state(&config, m.id) {
            Some(_) => rotation.turn(&mut input),
            None => rotation.turn(&mut expected),
        }
        let got = product(&input, &turned);
        let largest = expected.iter().fold(0.0f32, |l, v| l.max(v.abs()));
        assert!(largest > 0.0 && plain != turned, "{:?}", m.id.kind());
        for (got, expected) in got.iter().zip(&expected) {
            assert!(
                (got - expected).abs() < 1e-4 * largest,
                "{:?}: {got} {expected}",
                m.id.kind()
            );
        }
    }
}

/// The integer model of a rotated stream says what the float model says, which is not rotated.
#[test]
fn a_rotated_model_is_the_same_model() {
    let rotated = QuantiseOptions {
        rotation: Some(true),
        ..QuantiseOptions::default()
    };
    let kl = golden_kl(&fixture(), rotated);
    println!("rotated: {kl:.3e}");
    assert!(kl < 5e-5, "{kl}");
}

/// Where no weight stands out, 8 bits are worth more.
#[test]
fn eight_bits_are_worth_more_in_a_rotated_stream() {
    let checkpoint = fixture();
    let with = |rotation| QuantiseOptions {
        rotation,
        ..Strategy::W8.into()
    };
    let (rotated, plain) = (
        golden_kl(&checkpoint, with(None)),
        golden_kl(&checkpoint, with(Some(false))),
    );
    println!("rotated {rotated:.3e}, as it is {plain:.3e}");
    assert!(rotated < 0.9 * plain, "{rotated} {plain}");
}

/// Sums of floats are made in the same order by any number of threads: the model id depends on every bit.
#[test]
fn weights_do_not_depend_on_the_number_of_threads() {
    let checkpoint = fixture();
    let ids = [golden()[0].ids[..100].to_vec()];
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| quantised(&checkpoint, Strategy::W8, &ids).unwrap().0)
    };
    assert!(with(1) == with(3));
}

/// The token that comes first in the texts of the massive model, and in none of the golden texts.
const FIRST: u32 = 1999;

/// The fixture with what many real models have: a channel of the stream that is 40 times as large as others in all rows,
/// and massive values that the first token causes in its row. Channel 5 marks the token, one neuron of the first layer's MLP
/// sees the mark, and writes to channel 9; channel 70 is large everywhere, and nothing reads it.
fn massive() -> (TempDir, Checkpoint) {
    let [mark, massive, large, neuron] = [5, 9, 70, 7];
    let dir = tempfile::tempdir().unwrap();
    for name in ["config.json", "model.safetensors"] {
        std::fs::copy(Path::new(FIXTURE).join(name), dir.path().join(name)).unwrap();
    }
    let (hidden, ff) = (128, 384);
    let row = |values: &mut [f32], at: usize, width: usize, value: f32| values[at * width..][..width].fill(value);
    // The tied embedding is stored under the name of the head.
    edit(dir.path(), "lm_head.weight", |e| {
        let rms = (e.iter().map(|v| v * v).sum::<f32>() / e.len() as f32).sqrt();
        for token in e.chunks_exact_mut(hidden) {
            (token[mark], token[large]) = (0.0, 40.0 * rms);
        }
        e[FIRST as usize * hidden + mark] = 40.0 * rms;
    });
    for norm in [
        "model.layers.0.input_layernorm.weight",
        "model.layers.0.post_attention_layernorm.weight",
        "model.layers.1.input_layernorm.weight",
        "model.layers.1.post_attention_layernorm.weight",
        "model.norm.weight",
    ] {
        // The large channel takes most of the norm.
        edit(dir.path(), norm, |gain| {
            gain.iter_mut().for_each(|g| *g *= 3.5);
            (gain[large], gain[massive]) = (0.0, 0.0);
            gain[mark] = if norm.contains("0.post") { 1.0 } else { 0.0 };
        });
    }
    edit(dir.path(), &matmul_tensor(MatmulKind::O.at(0)), |o| {
        row(o, mark, 128, 0.0)
    });
    for kind in [MatmulKind::Gate, MatmulKind::Up] {
        edit(dir.path(), &matmul_tensor(kind.at(0)), |w| {
            w.chunks_exact_mut(hidden).for_each(|row| row[mark] = 0.0);
            row(w, neuron, hidden, 0.0);
            w[neuron * hidden + mark] = 5.0;
        });
    }
    edit(dir.path(), &matmul_tensor(MatmulKind::Down.at(0)), |down| {
        down.chunks_exact_mut(ff).for_each(|row| row[neuron] = 0.0);
        down[massive * ff + neuron] = 8.0;
    });
    let checkpoint = Checkpoint::open(dir.path()).unwrap();
    (dir, checkpoint)
}

/// Massive values need units of their own in the first row, and a channel that is always large an exponent: without
/// either, what is left of the other values is a few units.
#[test]
fn massive_rows_need_units_of_their_own_and_large_channels_get_exponents() {
    let (_dir, checkpoint) = massive();
    let texts = golden().into_iter().take(4).map(|s| [&[FIRST], &s.ids[..100]].concat());
    let texts: Vec<Vec<u32>> = texts.collect();
    let measure = |leading, exponents| {
        let options = QuantiseOptions {
            leading,
            exponents,
            ..QuantiseOptions::default()
        };
        let (model, report) = quantised(&checkpoint, options, &texts[..2]).unwrap();
        assert_in_range(checkpoint.config(), &model.params);
        let (f, saturated) = fidelity(&checkpoint, &model, &texts[2..]);
        println!(
            "{leading:?} {exponents:?}: kl {:.3e} {:?} {saturated:?}",
            f.kl(),
            report.exponents
        );
        (f.kl(), report)
    };
    let leading = |first, run| LeadingRows {
        first,
        run,
        token: None,
    };
    let classes = leading(1, true);
    let one_class = leading(0, false);
    let (both, report) = measure(classes, None);
    assert!(report.exponents.iter().any(|e| e.channel == 70 && e.exponent >= 3));
    // Leading rows have coarser units: what is massive in the body is so in one channel, which has an exponent.
    let bits = |name: &str| report.activations.iter().find(|t| t.name == name).unwrap().bits;
    let (lead, body) = (bits("residual 2, leading rows"), bits("residual 2"));
    assert!(body > lead, "{body} {lead}");
    let (neither, _) = measure(one_class, Some(0));
    assert!(both < 2e-4 && neither > 2.0 * both, "{neither} {both}");
}

/// A channel of an MLP's product may be as large as it likes, if Down's weights make up for it: it has an exponent, and the
/// units of all others stay as small as they were.
#[test]
fn a_large_channel_of_the_product_costs_the_others_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["config.json", "model.safetensors"] {
        std::fs::copy(Path::new(FIXTURE).join(name), dir.path().join(name)).unwrap();
    }
    let (hidden, ff, neuron, layer) = (128, 384, 7, 1);
    // In float nothing changes.
    edit(dir.path(), &matmul_tensor(MatmulKind::Up.at(layer)), |up| {
        up[neuron * hidden..][..hidden].iter_mut().for_each(|w| *w *= 64.0);
    });
    edit(dir.path(), &matmul_tensor(MatmulKind::Down.at(layer)), |down| {
        down.iter_mut().skip(neuron).step_by(ff).for_each(|w| *w /= 64.0);
    });
    let checkpoint = Checkpoint::open(dir.path()).unwrap();
    let ids: Vec<Vec<u32>> = golden().into_iter().map(|s| s.ids).collect();
    let (model, report) = quantised(&checkpoint, Strategy::Auto, &ids[..2]).unwrap();
    assert_in_range(checkpoint.config(), &model.params);
    let exponents = |l: usize| report.products[l].iter().map(|e| (e.channel, e.exponent));
    assert!(exponents(layer).any(|(c, k)| c == neuron && k >= 4), "{report:?}");
    let (large, plain) = (
        fidelity(&checkpoint, &model, &ids).0.kl(),
        golden_kl(&fixture(), QuantiseOptions::default()),
    );
    println!("with a large channel {large:.3e}, without {plain:.3e}");
    assert!(large < 1.2 * plain, "{large} {plain}");
}

/// Leading rows' gates have units with all others; they get less room, so that these keep a bit.
#[test]
fn gates_of_leading_rows_have_less_room() {
    let bits = |body, lead| scales::gate_bits(calibrate::Classes { body, lead }, 1.25);
    assert_eq!([bits(18.0, 55.0), bits(55.0, 18.0), bits(18.0, 60.0)], [9, 8, 8]);
    assert_eq!(scales::gate_bits(calibrate::Classes { body: 1.0, lead: 31.0 }, 1.0), 10);
}

/// A second token like the first one gets massive values, too; calibration tells how often, and two leading rows hold them.
#[test]
fn heads_that_spill_over_are_reported() {
    let report = |saturated| CalibrationReport {
        tokens: 1,
        exponents: Vec::new(),
        products: Vec::new(),
        heads: FirstTokens { tried: 64, saturated },
        activations: Vec::new(),
        weights: Vec::new(),
    };
    assert_eq!(report(0).notes(), Vec::<String>::new());
    let note = report(2).notes().concat();
    assert!(note.starts_with("2 of 64 random first tokens") && note.contains("--leading 2"));
    let (_dir, checkpoint) = massive();
    // Some heads have the marked token in the second row, which no text has there.
    let texts = [vec![FIRST; 8], golden()[0].ids.clone()];
    let with = |first| {
        let options = QuantiseOptions {
            leading: LeadingRows {
                first,
                run: true,
                token: None,
            },
            ..QuantiseOptions::default()
        };
        quantised(&checkpoint, options, &texts).unwrap().1.heads
    };
    let heads = with(1);
    assert!(heads.tried == 64 && heads.saturated > 0, "{heads:?}");
    // With two leading rows no head has a second row of the body.
    assert_eq!(with(2), FirstTokens::default());
}

/// Rows of lone first tokens are leading ones; second rows of heads are of no class.
#[test]
fn first_tokens_are_spread_over_the_vocabulary() {
    let config = odd_config();
    let options = QuantiseOptions {
        first_tokens: 100,
        heads: 10,
        ..QuantiseOptions::default()
    };
    let text: Vec<u32> = (0..20).collect();
    let heads = first_tokens(&config, &options, &[&text]);
    assert_eq!(heads.len(), 100);
    assert!(heads.iter().enumerate().all(|(i, ids)| ids[0] as usize == 3 * i));
    assert_eq!(heads.iter().filter(|ids| ids.len() == 2).count(), 10);
    let all = QuantiseOptions {
        first_tokens: 1000,
        ..options
    };
    assert_eq!(first_tokens(&config, &all, &[&text]).len(), 300);
    let none = QuantiseOptions {
        first_tokens: 0,
        ..options
    };
    assert!(first_tokens(&config, &none, &[&text]).is_empty());
}

#[test]
fn odd_dimensions_are_in_range() {
    for config in [ragged_config(), odd_config()] {
        let (_dir, checkpoint) = synthetic(&config);
        let ids: Vec<Vec<u32>> = (0..4).map(|seed| random_ids(&config, config.context, seed)).collect();
        // Random models have outliers in every tensor and nearly flat logits: their bounds are wide.
        for (strategy, kl) in STRATEGIES.into_iter().zip([2e-3, 2e-3, 5e-2]) {
            let (model, _) = quantised(&checkpoint, strategy, &ids[..2]).unwrap();
            assert_in_range(&config, &model.params);
            assert_one_limb(&config, &model.params);
            let (f, saturated) = fidelity(&checkpoint, &model, &ids[2..]);
            println!(
                "{strategy:?}: kl {:.3e} top1 {:.4} saturated {saturated:?}",
                f.kl(),
                f.top1()
            );
            assert!(f.kl() < kl, "{strategy:?}: {f:?}");
        }
    }
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
    edit(dir, name, |values| values.iter_mut().for_each(|v| *v *= factor));
}

/// Changes a tensor of a one-file F32 checkpoint.
fn edit(dir: &Path, name: &str, change: impl FnOnce(&mut [f32])) {
    let path = dir.join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let (header, metadata) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    let (start, end) = metadata.info(name).unwrap().data_offsets;
    let stored = bytes[8 + header + start..8 + header + end].as_chunks_mut::<4>().0;
    let mut values: Vec<f32> = stored.iter().map(|v| f32::from_le_bytes(*v)).collect();
    change(&mut values);
    stored.iter_mut().zip(values).for_each(|(to, v)| *to = v.to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
}

/// As many bits as `255 in (2^(bits - 1) - 1) < 2^30` allows, and no more than the strategy has.
#[test]
fn wide_matmuls_get_fewer_bits() {
    let bits = |hidden: usize, ff: usize, strategy: Strategy| {
        let config = ModelConfig {
            hidden,
            ff,
            ..odd_config()
        };
        let bits = strategy.weight_bits(&config);
        [MatmulKind::Embed, MatmulKind::Q, MatmulKind::Down, MatmulKind::Head].map(|kind| bits.of(kind))
    };
    assert_eq!(bits(512, 1026, Strategy::Auto), [14, 13, 13, 14]);
    assert_eq!(bits(576, 1536, Strategy::Auto), [14, 13, 12, 13]);
    assert_eq!(bits(2052, 4108, Strategy::Auto), [14, 12, 11, 12]);
    assert_eq!(bits(2054, 4109, Strategy::Auto), [14, 11, 10, 11]);
    assert_eq!(bits(2054, 8225, Strategy::W12), [12, 11, 9, 11]);
    assert_eq!(bits(4096, 33091, Strategy::W8), [8, 8, 7, 8]);
    assert_eq!(Strategy::Auto.format(), WeightFormat::Int16);
    let config = ModelConfig {
        ff: 2100,
        layers: 1,
        ..odd_config()
    };
    let (_dir, checkpoint) = synthetic(&config);
    let ids = [random_ids(&config, 8, 1)];
    let (model, _) = quantised(&checkpoint, Strategy::Auto, &ids).unwrap();
    assert_in_range(&config, &model.params);
    let largest = model.matrix(MatmulKind::Down.at(0)).iter().map(|w| w.abs()).max();
    assert!((512..=1023).contains(&largest.unwrap()));
}

#[test]
fn unusable_calibration_is_named() {
    let checkpoint = fixture();
    let run = |ids: &[Vec<u32>], headroom| {
        let options = QuantiseOptions {
            headroom,
            ..Strategy::W8.into()
        };
        quantise(&checkpoint, &options, ids, &Silent).unwrap_err()
    };
    assert!(matches!(run(&[], 1.5), QuantiseError::NoCalibration));
    assert!(matches!(run(&[vec![]], 1.5), QuantiseError::NoCalibration));
    assert!(matches!(
        run(&[vec![2048]], 1.5),
        QuantiseError::Float(FloatError::Token { id: 2048, .. })
    ));
    assert!(matches!(run(&[vec![1]], 0.5), QuantiseError::Headroom(_)));
    assert!(matches!(run(&[vec![1]], f64::NAN), QuantiseError::Headroom(_)));
}
