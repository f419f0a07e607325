use super::*;
use crate::model::{odd_config, test_params, Blocks, ModelConfig};

fn statement(prompt: usize, output: usize, id: u32) -> Statement {
    Statement {
        prompt: vec![id; prompt],
        output: vec![id; output],
    }
}

/// Not what a proof says of itself, but what its ids are under the end tokens of the model.
#[test]
fn an_output_that_is_cut_or_goes_on_past_its_end_is_told_from_a_complete_one() {
    let mut config = odd_config(2);
    config.eos = vec![7, 9];
    let of = |output: &[u32]| {
        let statement = Statement {
            prompt: vec![7],
            output: output.to_vec(),
        };
        (statement.finish(&config), statement.ends_inside(&config))
    };
    assert_eq!(of(&[1, 2, 9]), (Finish::Stop { id: 9 }, vec![]));
    assert_eq!(of(&[1, 2]), (Finish::Length { tokens: 2 }, vec![]));
    assert_eq!(of(&[7, 2, 9, 3]), (Finish::Length { tokens: 4 }, vec![0, 2]));
    assert_eq!(of(&[9, 9]), (Finish::Stop { id: 9 }, vec![0]));
    assert_eq!(
        (of(&[9]).0.reason(), of(&[1]).0.reason()),
        (Some("stop"), Some("length"))
    );
    // A hidden token may end the text, whatever the last one is.
    for output in [[9, HIDDEN], [HIDDEN, 9], [HIDDEN, HIDDEN]] {
        let (finish, inside) = of(&output);
        assert_eq!(finish, Finish::Hidden { tokens: 2 });
        assert_eq!(finish.reason(), None);
        assert_eq!(inside, if output[0] == 9 { vec![0] } else { vec![] });
    }
    config.eos.clear();
    let statement = statement(1, 2, 9);
    assert_eq!(statement.finish(&config), Finish::Length { tokens: 2 });
}

/// All rows of the context and the last id of the vocabulary, and nothing beyond.
#[test]
fn statements_reach_as_far_as_the_model() {
    let check = |s: Statement| s.check(&odd_config(2));
    assert_eq!(check(statement(1, 1, 0)), Ok(()));
    assert_eq!(check(statement(5, 21, 299)), Ok(()));
    let (rows, context) = (26, 25);
    assert_eq!(
        check(statement(5, 22, 299)),
        Err(StatementError::TooLong { rows, context })
    );
    assert_eq!(check(statement(0, 3, 1)), Err(StatementError::EmptyPrompt));
    assert_eq!(check(statement(3, 0, 1)), Err(StatementError::EmptyOutput));
    let mut unknown = statement(5, 5, 299);
    unknown.output[4] = 300;
    let (id, position, vocab) = (300, 9, 300);
    assert_eq!(
        check(unknown),
        Err(StatementError::UnknownToken { id, position, vocab })
    );
}

/// The rows run over prompt and output but the last; the first generated token is that of the last row of the prompt.
#[test]
fn rows_are_those_of_the_generation() {
    let own = Statement {
        prompt: vec![7, 8, 9],
        output: vec![10, 11],
    };
    assert_eq!(own.rows(), 4);
    assert_eq!(own.row_ids(), [7, 8, 9, 10]);
    assert!(own.generated().eq([(2, 10), (3, 11)]));
}

/// Leading rows follow from the ids: the first ones, and those that repeat the first; there are no more than rows.
#[test]
fn leading_rows_follow_from_the_ids() {
    let after = |token, prompt: &[u32], first, run| {
        let (prompt, output) = (prompt.to_vec(), vec![9]);
        Statement { prompt, output }.leading(&LeadingRows { first, run, token })
    };
    let of = |prompt: &[u32], first, run| after(None, prompt, first, run);
    assert_eq!(of(&[7, 8, 9], 1, true), 1);
    assert_eq!(of(&[7, 7, 9], 1, true), 2);
    assert_eq!(of(&[7, 7, 9], 1, false), 1);
    assert_eq!(of(&[7, 7, 9], 0, false), 0);
    assert_eq!(of(&[7, 8, 7], 0, true), 1);
    assert_eq!(of(&[7, 7, 7], 2, true), 3);
    assert_eq!(of(&[0, 0, 0], 1, true), 3);
    assert_eq!(of(&[7], 9, false), 1);
    // Only where a text begins with a token, if the rule names one.
    assert_eq!(after(Some(7), &[7, 7, 9], 1, true), 2);
    assert_eq!(after(Some(9), &[7, 7, 9], 1, true), 0);
    assert_eq!(after(Some(9), &[7, 9, 9], 2, false), 0);
    assert_eq!(after(Some(0), &[0, 0, 0], 1, true), 3);
}

/// Every state is normed by a norm of its own, in the order of docs/protocol.md, section 16.12, or in section 16.2's without norms of
/// outputs.
#[test]
fn every_state_has_its_own_norm() {
    for norm_outputs in [true, false] {
        let config = ModelConfig {
            blocks: Blocks {
                norm_outputs,
                ..Blocks::DECODER
            },
            ..odd_config(2)
        };
        let mut params = test_params(&config);
        let mut scale = 0;
        let mut own = |norm: &mut NormParams| {
            norm.scale = scale;
            scale += 1;
        };
        for layer in &mut params.layers {
            own(&mut layer.attention.norm);
            layer
                .attention
                .post_norm
                .iter_mut()
                .for_each(|post| own(&mut post.norm));
            own(&mut layer.mlp.norm);
            layer.mlp.post_norm.iter_mut().for_each(|post| own(&mut post.norm));
        }
        own(&mut params.norm_final);
        let scales = (0..config.states()).map(|state| usize::from(norm_of(&params, state).scale));
        assert!(scales.eq(0..config.states()), "{norm_outputs}");
    }
}
