use std::path::Path;

use super::*;
use tessera_quantise::negative_log_likelihood;
use tessera_samples::{golden, FIXTURE};

#[test]
fn fixture_matches_the_golden_reference() {
    let checkpoint = Checkpoint::open(Path::new(FIXTURE)).unwrap();
    let (model, vocab) = (FloatModel::new(&checkpoint), checkpoint.config().vocab);
    let (mut nll, mut predictions) = (0.0, 0);
    for sample in golden() {
        let logits = model.forward(&sample.ids).unwrap();
        for (pos, row) in logits.chunks_exact(vocab).enumerate() {
            let best = (0..vocab)
                .max_by(|a, b| row[*a].total_cmp(&row[*b]).then(b.cmp(a)))
                .unwrap();
            assert_eq!(best as u32, sample.argmax[pos], "position {pos} of {:?}", sample.text);
            if let Some(next) = sample.ids.get(pos + 1) {
                let one = negative_log_likelihood(row, *next as usize);
                assert!((one - sample.nll[pos]).abs() < 1e-3);
                nll += one;
                predictions += 1;
            }
        }
        let last = &logits[logits.len() - vocab..];
        let worst = last
            .iter()
            .zip(&sample.logits_last)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f32::max);
        assert!(worst < 1e-3, "logits are off by {worst}");
    }
    let perplexity = (nll / f64::from(predictions)).exp();
    assert_eq!((predictions, format!("{perplexity:.4}").as_str()), (1505, "12.1996"));
}

#[test]
fn unusable_ids_are_named() {
    let checkpoint = Checkpoint::open(Path::new(FIXTURE)).unwrap();
    let model = FloatModel::new(&checkpoint);
    let error = |ids: &[u32]| model.forward(ids).unwrap_err();
    assert!(matches!(error(&[]), FloatError::Empty));
    assert!(matches!(
        error(&[1, 2048]),
        FloatError::Token {
            id: 2048,
            position: 1,
            vocab: 2048
        }
    ));
    assert!(matches!(
        error(&[1; 513]),
        FloatError::TooLong {
            rows: 513,
            context: 512
        }
    ));
}

/// Sequences that run together do not see each other, whatever they are grouped with.
#[test]
fn sequences_run_alone() {
    let checkpoint = Checkpoint::open(Path::new(FIXTURE)).unwrap();
    let model = FloatModel::new(&checkpoint);
    let samples = golden();
    let ids: Vec<&[u32]> = samples.iter().map(|s| s.ids.as_slice()).collect();
    assert!(ids.iter().map(|i| i.len()).sum::<usize>() > GROUP_ROWS);
    let mut run = model.run(&ids).unwrap();
    (0..checkpoint.config().layers).for_each(|l| run.layer(l, &mut Blind).unwrap());
    let together = run.output(&mut Blind).unwrap();
    let alone: Vec<f32> = ids.iter().flat_map(|ids| model.forward(ids).unwrap()).collect();
    assert!(together == alone);
}
