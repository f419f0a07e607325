use std::path::Path;

use crate::Strategy;

use super::*;
use crate::compare_logits;
use crate::in_memory as quantised;
use tessera_samples::{golden, FIXTURE};
use tessera_support::progress::Silent;

fn texts() -> Vec<Vec<u32>> {
    golden().iter().take(3).map(|s| s.ids.clone()).collect()
}

/// All figures, from the logits of every text at once.
#[test]
fn figures_are_those_of_the_definition_however_texts_are_cut_in_blocks() {
    let checkpoint = Checkpoint::open(Path::new(FIXTURE)).unwrap();
    // Longer than a block.
    let mut texts = texts();
    texts[1] = texts.concat().into_iter().cycle().take(BLOCK + 60).collect();
    let (model, _) = quantised(&checkpoint, Strategy::W8, &texts[..1]).unwrap();
    let report = measure(&model, &checkpoint, &texts, &Silent).unwrap();
    let (float, vocab) = (FloatModel::new(&checkpoint), model.config.vocab);
    let bf16 = FloatModel::with_precision(&checkpoint, Precision::Bfloat16);
    let (mut kl, mut kl_bf16, mut same, mut nll, mut known) = (Vec::new(), 0.0, 0, 0.0, 0);
    for ids in &texts {
        let (f, b) = (float.forward(ids).unwrap(), bf16.forward(ids).unwrap());
        let int = ForwardState::new(&model).run(ids, None).unwrap();
        for (i, f) in f.chunks(vocab).enumerate() {
            let own = &int[i * vocab..][..vocab];
            let one = compare_logits(f, own, model.params.logit_bits, vocab, &ids[i..ids.len().min(i + 2)]);
            kl.push(one.kl_sum);
            same += one.top1_count;
            nll += one.nll_integer;
            known += one.predictions;
            let p = log_softmax(f.iter().map(|l| f64::from(*l)));
            let q = log_softmax(b[i * vocab..][..vocab].iter().map(|l| f64::from(*l)));
            kl_bf16 += p.iter().zip(&q).map(|(p, q)| p.exp() * (p - q)).sum::<f64>();
        }
    }
    let rows = kl.len() as f64;
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
    near(report.integer.kl, kl.iter().sum::<f64>() / rows);
    near(report.bfloat16.kl, kl_bf16 / rows);
    near(report.integer.top1, same as f64 / rows);
    near(report.integer.nll, nll / known as f64);
    let worst = kl.iter().copied().fold(0.0, f64::max);
    near(report.integer.kl_worst, worst);
    let Position { text, position, token } = report.integer.worst;
    let at = texts[..text].iter().map(Vec::len).sum::<usize>() + position;
    near(kl[at], worst);
    assert_eq!(texts[text][position], token);
    // At most one position in a hundred is above, and without it more would be.
    let p99 = report.integer.kl_p99;
    let beyond = |least: f64| kl.iter().filter(|kl| **kl > least).count() * 100;
    assert!(beyond(p99 + 1e-12) <= kl.len() && beyond(p99 - 1e-12) > kl.len());
    assert_eq!((report.windows, report.tokens), (3, kl.len()));
    let class = report.figures("file").class();
    assert_eq!(class.name(), "close", "{report:?}");
}

/// bfloat16 keeps 8 bits of 24: its distance is far above what float sums in another order would give, and far below
/// that of a broken model.
#[test]
fn bfloat16_is_near_the_float_model_but_not_it() {
    let checkpoint = Checkpoint::open(Path::new(FIXTURE)).unwrap();
    let texts = texts();
    let (model, _) = quantised(&checkpoint, Strategy::W12, &texts).unwrap();
    let report = measure(&model, &checkpoint, &texts, &Silent).unwrap();
    let bf16 = &report.bfloat16;
    assert!(bf16.kl > 1e-5 && bf16.kl < 2e-3, "{bf16:?}");
    assert!(
        bf16.top1 > 0.95 && bf16.kl_worst >= bf16.kl_p99 && bf16.kl_p99 > bf16.kl,
        "{bf16:?}"
    );
    assert!((bf16.nll - report.nll_float).abs() < 1e-2, "{report:?}");
}

#[test]
fn no_text_is_no_figure() {
    let checkpoint = Checkpoint::open(Path::new(FIXTURE)).unwrap();
    let (model, _) = quantised(&checkpoint, Strategy::W8, &texts()).unwrap();
    let error = measure(&model, &checkpoint, &[], &Silent).unwrap_err();
    assert!(matches!(error, FidelityError::NoText), "{error}");
}
