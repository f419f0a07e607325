//! Keys of models that norm what attention and MLP add (docs/protocol.md, section 16.12).

use super::*;
use crate::gains::factor_limbs;
use crate::model::{Blocks, Maker, ScoreCap};

fn config() -> ModelConfig {
    ModelConfig {
        blocks: Blocks {
            norm_outputs: true,
            ..Blocks::DECODER
        },
        ..odd_config(2)
    }
}

/// Parameters with the largest gains.
fn params() -> ModelParams {
    let config = config();
    let mut params = test_params(&config);
    params.biases = vec![Vec::new(); 15];
    let gains = |n: usize| match n % 2 {
        1 => vec![MAX_SUM_GAIN as i32; config.hidden],
        _ => Vec::new(),
    };
    params.biases.extend((0..config.states()).map(gains));
    params
}

fn with(change: &dyn Fn(&mut ModelParams)) -> Result<(), ModelError> {
    let mut own = params();
    change(&mut own);
    own.check(&config())
}

fn post(params: &mut ModelParams) -> &mut PostNorm {
    params.layers[1].mlp.post_norm.as_mut().unwrap()
}

/// Everything at its limit, and a step beyond.
#[test]
fn norms_of_outputs_are_those_of_the_document() {
    let refused = |what, value, min, max| Err(ModelError::OutOfRange { what, value, min, max });
    let length = |what, got, expected| Err(ModelError::Length { what, got, expected });
    assert_eq!(with(&|_| ()), Ok(()));
    let gain = |state: usize, gain: i32| with(&|p| p.biases[15 + state][3] = gain);
    assert_eq!(gain(7, -(MAX_SUM_GAIN as i32)), Ok(()));
    let most = MAX_SUM_GAIN;
    for (state, own) in [
        (1, most as i32 + 1),
        (3, -(most as i32) - 1),
        (5, i32::MIN),
        (7, i32::MAX),
    ] {
        let value = u64::from(own.unsigned_abs());
        assert_eq!(gain(state, own), refused("gain of what is added", value, 0, most));
    }
    // A list for every output, and for nothing else.
    for state in [1, 3, 5, 7] {
        assert_eq!(
            with(&|p| p.biases[15 + state].truncate(19)),
            length("gains of a norm", 19, 20)
        );
    }
    for state in [0, 2, 4, 6, 8] {
        assert_eq!(
            with(&|p| p.biases[15 + state] = vec![1; 20]),
            length("gains of a norm", 20, 0)
        );
    }
    assert!(with(&|p| p.biases.truncate(23)).is_err() && with(&|p| p.biases.clear()).is_err());
    // Norms of outputs have shifts like others.
    let shift = |own: &[u8]| with(&|p| post(p).norm.shift = ChannelShift(own.to_vec()));
    assert_eq!((shift(&[1]), shift(&[7]), shift(&[7; 20])), (Ok(()), Ok(()), Ok(())));
    assert_eq!(shift(&[0]), refused("shift of a norm", 0, 1, 7));
    assert_eq!(
        shift(&[vec![7; 19], vec![8]].concat()),
        refused("shift of a norm", 8, 1, 7)
    );
    assert_eq!(shift(&[7; 19]), length("shifts of a norm", 19, 20));
    assert_eq!(with(&|p| post(p).norm.scale = 49), refused("norm scale", 49, 0, 48));
    assert!(with(&|p| post(p).norm.scale = 28).is_err());
    assert!(with(&|p| post(p).norm.eps.lead = 0).is_err());
    // Shifts of sums, and skips.
    let sum = |shift: u8, lead: i8, skip: i8| {
        with(&|p| {
            post(p).sum.body = ChannelShift(vec![shift]);
            post(p).sum.lead = lead;
            p.layers[1].mlp.skip = ByClass { body: skip, lead: 0 };
        })
    };
    assert_eq!(
        (sum(13, 0, 0), sum(1, 12, 12), sum(5, -4, -5)),
        (Ok(()), Ok(()), Ok(()))
    );
    assert_eq!(sum(14, 0, 0), refused("down", 14, 1, 13));
    assert_eq!(sum(1, 13, 0), refused("down", 14, 1, 13));
    assert_eq!(sum(5, 0, 9), refused("residual skip", 14, 0, 13));
    assert!(sum(5, 0, -6).is_err() && sum(0, 0, 0).is_err());
    assert_eq!(
        with(&|p| post(p).sum.body = ChannelShift(vec![3; 7])),
        length("down", 7, 20)
    );
    assert!(with(&|p| p.layers[0].attention.o = StreamShift::one(14)).is_err());
    // A model has them in every layer, or in none.
    let norms = |got, expected| length("norms of what a layer adds", got, expected);
    assert_eq!(with(&|p| p.layers[1].attention.post_norm = None), norms(0, 1));
    assert_eq!(with(&|p| p.layers[1].mlp.post_norm = None), norms(0, 1));
    assert_eq!(params().check(&odd_config(2)), norms(1, 0));
    assert_eq!(test_params(&odd_config(2)).check(&config()), norms(0, 1));
}

/// A cap is in its range, and beside it nothing is another.
#[test]
fn caps_of_scores_are_in_range() {
    let with = |units| {
        let capped = ModelConfig {
            blocks: Blocks {
                norm_outputs: true,
                score_cap: Some(ScoreCap { units }),
                ..Blocks::DECODER
            },
            ..config()
        };
        params().check(&capped)
    };
    for units in [1, 12_800, 1 << 18] {
        assert_eq!(with(units), Ok(()));
    }
    for units in [0, (1 << 18) + 1, u32::MAX] {
        let refused = ModelError::OutOfRange {
            what: "cap of scores",
            value: units.into(),
            min: 1,
            max: 1 << 18,
        };
        assert_eq!(with(units), Err(refused));
    }
}

/// With the largest gain and state no sum wraps: what lemma 2 needs.
#[test]
fn sums_are_below_the_bounds_of_two_limbs() {
    let most = MAX_SUM_GAIN as i32;
    let high = (1i64 << 13) - 1;
    for gain in (most - 512..=most).flat_map(|gain| [gain, -gain]) {
        let limbs = factor_limbs(gain, 0);
        assert!(limbs[0].abs() <= high && limbs[1].abs() <= 128, "{gain}: {limbs:?}");
    }
    assert_eq!(factor_limbs(most, 0), [high, 0]);
    let (v_hi, v_lo) = ((high + 1) << 15, 128i64 << 15);
    assert!(v_hi <= (1 << 29) && (v_lo as u64) < LOW_LIMIT);
    // Both sides of the first equation, and of the second.
    assert!(v_hi + (1 << 28) + (1 << 30) + Remainder::LARGEST < i64::from(P));
    // A value that is rounded, without its divisor: what is not clipped is below 2^(30 - s).
    assert!(256 * (v_hi + (1 << 28)) + v_lo < 1 << 38);
}

/// What makes every state, in the order of the document.
#[test]
fn makers_of_states() {
    let all: Vec<Maker> = (0..config().states()).map(|n| config().maker(n)).collect();
    let mut expected = vec![Maker::Matmul(MatrixId::EMBED)];
    for l in 0..2 {
        for kind in [MatmulKind::O, MatmulKind::Down] {
            expected.extend([Maker::Matmul(kind.at(l)), Maker::Sum(kind.at(l))]);
        }
    }
    assert_eq!(all, expected);
    assert_eq!((config().attention_state(1), config().mlp_state(1)), (4, 6));
}
