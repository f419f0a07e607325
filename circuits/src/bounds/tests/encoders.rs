//! Keys of encoders: what normed states add to accumulators has to fit the field (docs/protocol.md, section 16.10).

use std::time::{Duration, Instant};

use super::*;
use crate::model::{Blocks, Output, Pooling, LAYER_KINDS};

fn config(layers: usize) -> ModelConfig {
    ModelConfig {
        blocks: Blocks::encoder(Output::Vector(Pooling::Mean)),
        ..odd_config(layers)
    }
}

/// Where the lists of the gains begin.
fn first(config: &ModelConfig) -> usize {
    config.layers * LAYER_KINDS.len() + 1
}

/// A valid key: gains of 256, biases of the last norm alone.
fn params(config: &ModelConfig) -> ModelParams {
    let mut params = test_params(config);
    params.head = ChannelShift(Vec::new());
    params.biases = vec![Vec::new(); first(config) - 1];
    params.biases.push(vec![0; config.hidden]);
    params
        .biases
        .extend(vec![vec![256; config.hidden]; 2 * config.layers + 1]);
    params
}

fn checked(change: impl FnOnce(&mut ModelParams)) -> Result<(), ModelError> {
    let config = config(2);
    let mut params = params(&config);
    change(&mut params);
    params.check(&config)
}

/// A shift for all channels or one for each, a bias for each or none, in what is added to a normed state, too.
#[test]
fn updates_have_shifts_and_biases_for_every_channel() {
    let expected = config(2).hidden;
    let length = |what, got| Err(ModelError::Length { what, got, expected });
    for got in [2, expected - 1, expected + 1] {
        let with = |change: fn(&mut ModelParams) -> &mut ChannelShift| {
            checked(|params| {
                let list = change(params);
                *list = ChannelShift(vec![list.at(0); got]);
            })
        };
        assert_eq!(with(|params| &mut params.layers[1].attention.o.body), length("o", got));
        assert_eq!(with(|params| &mut params.layers[0].mlp.down.body), length("down", got));
        for kind in [MatmulKind::O, MatmulKind::Down] {
            let at = LAYER_KINDS.iter().position(|k| *k == kind).expect("a matrix of layers");
            let verdict = checked(|params| params.biases[at] = vec![0; got]);
            assert_eq!(verdict, length("biases of a matrix", got));
        }
    }
}

/// The last norm has no matrix, and its biases the range of all.
#[test]
fn biases_of_the_last_norm_are_bounded() {
    let with = |bias: i32| checked(|params| params.biases[first(&config(2)) - 1][3] = bias);
    let most = MAX_BIAS as i32;
    assert_eq!([with(most), with(-most)], [Ok(()), Ok(())]);
    for bias in [most + 1, -most - 1] {
        let (what, layer) = ("last norm", 0);
        assert_eq!(with(bias), Err(ModelError::Bias { what, layer, bias }));
    }
}

/// By hand: 5 is the shift of every update. A gain of `2^13` less 1 times `2^8` has the high limb `2^13 - 1`, and its mean over 20
/// channels is 410 with a high limb of 410. A norm of scale 26 and total shift 15 has outputs of `2^11` in the mean and 1/2 of rounding:
/// `sqrt(20 * 20 * 410^2) 2048.5 = 8200 * 2048.5`.
#[test]
fn gains_fit_as_long_as_the_document_says() {
    let refused = |gain: i32| {
        checked(|params| {
            params.biases[first(&config(2))].fill(gain);
            params.layers[0].attention.skip = ByClass::both(3);
        })
    };
    let error = |high, low| {
        Err(ModelError::Residual {
            what: "o",
            layer: 0,
            high,
            low,
        })
    };
    let matmul = 255 * 18 * 127;
    let mean = 8200 * 2048 + 4100;
    assert_eq!(refused((1 << 13) - 1), error((((1 << 13) - 1) << 15) + mean, matmul));
    // With means of 385 and 386: 7690 2^15 + 7700 2048.5 is below 2^28, and 7720 2^15 + 7720 2048.5 above.
    assert_eq!(refused(7690), Ok(()));
    assert!(refused(7720).is_err());
    assert!(refused(-7720).is_err());
}

/// One channel, one class of rows and one state are enough; so are the extremes of what a key can hold.
#[test]
fn every_gain_of_every_state_is_bounded() {
    let first = first(&config(2));
    let residual = |result: Result<(), ModelError>| match result {
        Err(ModelError::Residual { what, layer, .. }) => Some((what, layer)),
        _ => None,
    };
    assert_eq!(checked(|_| ()), Ok(()));
    for (state, named) in [("o", 0), ("down", 0), ("o", 1), ("down", 1)].into_iter().enumerate() {
        for gain in [1 << 21, -(1 << 21), i32::MAX, i32::MIN] {
            let one = |params: &mut ModelParams| params.biases[first + state][19] = gain;
            assert_eq!(residual(checked(one)), Some(named), "{gain}");
            let all = |params: &mut ModelParams| params.biases[first + state].fill(gain);
            assert_eq!(residual(checked(all)), Some(named), "{gain}");
        }
        // As many channels as there are, of gains that would fit one by one: their mean does not.
        let rows_of_a_class = |lead: i8, body: i8| {
            checked(|params| {
                params.biases[first + state].fill(1 << 13);
                let layer = &mut params.layers[state / 2];
                let skip = ByClass { body, lead };
                *(if state % 2 == 0 {
                    &mut layer.attention.skip
                } else {
                    &mut layer.mlp.skip
                }) = skip;
            })
        };
        assert_eq!(rows_of_a_class(-5, -5), Ok(()));
        assert_eq!(residual(rows_of_a_class(8, -5)), Some(named));
        assert_eq!(residual(rows_of_a_class(-5, 8)), Some(named));
    }
    // The last gains are in no accumulator.
    for gain in [i32::MAX, i32::MIN] {
        assert_eq!(checked(|params| params.biases[first + 4].fill(gain)), Ok(()));
    }
}

/// The low limbs of what is added share the room that the matmul leaves: a gain of 100, and its mean of 5 over 20 channels, take
/// `100 2^15 + 100 2048.5` of it.
#[test]
fn low_limbs_of_gains_share_the_room_of_the_matmul() {
    let of = |ff: usize, gain: i32| {
        let wide = ModelConfig { ff, ..config(1) };
        let mut params = params(&wide);
        params.biases[first(&wide) + 1].fill(gain);
        params.layers[0].mlp.skip = ByClass::both(-5);
        params.check(&wide)
    };
    let (fits, full, added) = (32_980, 32_990, (100 << 15) + 204_850);
    assert!(255 * 127 * fits + added < LOW_LIMIT && LOW_LIMIT <= 255 * 127 * full + added);
    assert_eq!(of(fits as usize, 100), Ok(()));
    assert_eq!(of(full as usize, 0), Ok(()));
    let refused = ModelError::Residual {
        what: "down",
        layer: 0,
        high: 0,
        low: 255 * 127 * full + added,
    };
    assert_eq!(of(full as usize, 100), Err(refused));
}

/// A list too few or too many, one that is too short or too long, and what only models that generate tokens have.
#[test]
fn an_encoder_has_the_lists_of_an_encoder() {
    let first = first(&config(2));
    let length = |change: &dyn Fn(&mut ModelParams)| match checked(change) {
        Err(ModelError::Length { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(length(&|p| p.biases.clear()), "gains of a norm");
    assert_eq!(length(&|p| p.biases.truncate(first)), "gains of a norm");
    assert_eq!(length(&|p| p.biases[first + 1].truncate(19)), "gains of a norm");
    assert_eq!(length(&|p| p.biases[first + 1].push(0)), "gains of a norm");
    assert_eq!(length(&|p| p.biases[first + 4].push(0)), "gains of the last norm");
    assert_eq!(length(&|p| p.biases[first + 4].clear()), "gains of the last norm");
    assert_eq!(length(&|p| p.biases[first - 1].clear()), "biases of the last norm");
    assert_eq!(length(&|p| p.biases.push(vec![1; 20])), "biases, gains and head");
    assert_eq!(length(&|p| p.head = ChannelShift(vec![4])), "logits of an encoder");
    let head = checked(|p| *p.columns.last_mut().unwrap() = ColumnNorms { l1: 1, square: 1 });
    assert!(matches!(head, Err(ModelError::Norms { what: "head", .. })), "{head:?}");
    // And no other model has them.
    let other = odd_config(2);
    let refused = ModelParams {
        head: ChannelShift(vec![4]),
        ..params(&config(2))
    }
    .with_largest_norms(&other)
    .check(&other);
    assert!(matches!(refused, Err(ModelError::Length { .. })), "{refused:?}");
}

/// As many channels as a key may have, all with gains of their own: checking it takes time in proportion to its length.
#[test]
fn many_different_gains_are_checked_in_no_time() {
    let wide = ModelConfig {
        hidden: 1 << 14,
        ..config(16)
    };
    let mut params = params(&wide);
    let norm = NormParams {
        scale: 22,
        eps: ByClass::both(1 << 11),
        shift: ChannelShift::one(7),
    };
    params.norm_final = norm.clone();
    for layer in &mut params.layers {
        (layer.attention.norm, layer.mlp.norm) = (norm.clone(), norm.clone());
        (layer.attention.skip, layer.mlp.skip) = (ByClass::both(-5), ByClass { body: -5, lead: -4 });
    }
    let gains = first(&wide);
    for gains in &mut params.biases[gains..] {
        gains.iter_mut().zip(-(1 << 13)..).for_each(|(gain, own)| *gain = own);
    }
    let clock = Instant::now();
    assert_eq!(params.check(&wide), Ok(()));
    // It was minutes when every channel added up all others.
    let time = clock.elapsed();
    assert!(time < Duration::from_secs(10), "{time:?}");
}
