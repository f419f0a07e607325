use super::*;
use crate::model::{odd_config, test_params, Blocks, Output, Reranker};

const ONE: i32 = 1 << HEAD_BITS;

fn reranker(sigmoid: bool, separator: Option<u32>) -> ModelConfig {
    ModelConfig {
        hidden: 2,
        positions: true,
        gated: false,
        blocks: Blocks::encoder(Output::Scores(Reranker { separator, sigmoid })),
        ..odd_config(1)
    }
}

/// Gains of 1/2 and 1 in units of `2^-3`, biases of 0 and 1/4; the head has two scores.
fn params(config: &ModelConfig) -> ModelParams {
    let mut params = test_params(config);
    params.logit_bits = 3;
    params.biases = vec![Vec::new(); config.layers * 7];
    params.biases.push(vec![0, 2]);
    params.biases.extend(vec![vec![1, 1]; config.states() - 1]);
    params.biases.push(vec![4, 8]);
    let head = [
        vec![ONE, 0, ONE / 2, -ONE],
        vec![0, ONE / 8],
        vec![ONE, 0, 2 * ONE, -4 * ONE],
        vec![0, ONE],
    ];
    params.biases.extend(head);
    params
}

/// By hand: of the vector (3, 1) the mean is taken off, so it is (1, -1), and the state (1/2, -3/4).
#[test]
fn scores_are_what_the_document_says() {
    let config = reranker(false, None);
    let own = params(&config).pair_scores(&config, &[3, 1]).expect("scores");
    let pooled = [0.5f64.tanh(), (0.25f64 + 0.75 + 0.125).tanh()];
    let expected = [pooled[0], 2.0 * pooled[0] - 4.0 * pooled[1] + 1.0];
    for (own, expected) in own.logits.iter().zip(expected) {
        assert!((own - expected).abs() < 1e-14, "{own} {expected}");
    }
    assert_eq!(own.logits, own.scores);
    let config = reranker(true, None);
    let own = params(&config).pair_scores(&config, &[3, 1]).expect("scores");
    for (own, expected) in own.scores.iter().zip(expected) {
        assert!((own - 1.0 / (1.0 + (-expected).exp())).abs() < 1e-14, "{own}");
    }
}

#[test]
fn other_models_have_no_scores() {
    let config = reranker(false, None);
    let other = ModelConfig {
        blocks: Blocks::encoder(Output::Vector(crate::model::Pooling::First)),
        ..config.clone()
    };
    assert_eq!(params(&config).pair_scores(&other, &[3, 1]), None);
    let mut without = params(&config);
    without.biases.truncate(without.biases.len() - HEAD_LISTS);
    assert_eq!(
        (without.reranker_head(), without.pair_scores(&config, &[3, 1])),
        (None, None)
    );
}

#[test]
fn a_head_has_the_lengths_of_its_model() {
    let config = reranker(false, None);
    let first = config.layers * 7 + 1 + config.states();
    let refused = |edit: &dyn Fn(&mut Vec<Vec<i32>>)| {
        let mut own = params(&config);
        edit(&mut own.biases);
        check(&own, &config)
    };
    assert_eq!(refused(&|_| ()), Ok(()));
    for list in first..first + HEAD_LISTS {
        assert!(refused(&|lists| lists[list].push(0)).is_err(), "{list}");
    }
    let none = refused(&|lists| lists[first + 2..].iter_mut().for_each(Vec::clear));
    assert!(
        matches!(none, Err(ModelError::OutOfRange { what: "scores", .. })),
        "{none:?}"
    );
}

/// The first separator is of the first type, as in the templates of tokenizers; padding is what follows.
#[test]
fn types_follow_from_the_first_separator() {
    let config = reranker(false, Some(9));
    assert_eq!(config.types_of(&[5, 9, 6, 9, 0, 0]), [0, 0, 1, 1, 1, 1]);
    assert_eq!(config.types_of(&[9, 9]), [0, 1]);
    assert_eq!(config.types_of(&[5, 6]), [0, 0]);
    assert_eq!(config.types_of(&[]), Vec::<usize>::new());
    let (vocab, context) = (config.vocab, config.context);
    assert_eq!(config.position_row(1, 1), Some(vocab + context + 1));
    assert_eq!(config.dims(crate::model::MatmulKind::Embed).0, vocab + 2 * context);
    let one = reranker(false, None);
    assert_eq!(one.types_of(&[5, 9, 6]), [0; 3]);
    assert_eq!(one.dims(crate::model::MatmulKind::Embed).0, vocab + context);
    for id in [vocab as u32, u32::MAX] {
        let outside = reranker(false, Some(id)).check();
        assert!(
            matches!(outside, Err(ModelError::OutOfRange { what: "separator", .. })),
            "{outside:?}"
        );
    }
}
