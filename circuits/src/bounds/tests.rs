mod encoders;
mod post_norms;

use super::*;
use crate::air::gadgets::Remainder;
use crate::model::{
    odd_config, test_params, Activation, AttentionParams, ColumnNorms, HeadNorm, LayerParams, MlpParams, MAX_HEAD_DIM,
    MAX_VOCAB,
};

#[test]
fn low_accumulators_stay_below_the_range_of_the_join() {
    let most = (LOW_LIMIT - 1) / 255;
    let bound = AccumulatorBound::matmul(most as usize, 1);
    assert_eq!(bound, Some(AccumulatorBound(128 * most + LOW)));
    assert_eq!(AccumulatorBound::matmul(most as usize + 1, 1), None);
    assert_eq!(AccumulatorBound::matmul(most as usize + 1, -1), None);
    assert_eq!(AccumulatorBound::matmul(usize::MAX, 2), None);
    // An honest difference of a limb has 23 bits, with the half and the remainder of the largest shift; a larger one wraps nothing, either.
    let difference = (255 * most + (1 << 20)).div_ceil(1 << 8);
    let largest = Remainder::LARGEST.unsigned_abs();
    assert!(difference < 1 << 22 && (largest << 8) + 255 * most + (1 << 20) < u64::from(P));
}

/// `fits` is the inequality that makes a rounding unique: the largest remainder, minus the smallest value it
/// must equal, is below p.
#[test]
fn whatever_fits_cannot_wrap() {
    let p = i128::from(P);
    let (mut fitting, mut others) = (0, 0);
    for t in [0, 1 << 20, 1 << 29, (1 << 30) - (1 << 28), 1 << 30, 3 << 29] {
        for shift in 1..=13u8 {
            for skip in std::iter::once(None).chain((0..=13).map(Some)) {
                let previous = skip.map_or(0, |s| 1i128 << (15 + s));
                let pow = 1i128 << shift;
                let base = i128::from(t) + previous + pow / 2;
                let (smallest, largest) = (-base - pow * (1 << 15), (1 << 30) + (1 << 15));
                if AccumulatorBound(t).fits(shift, skip) {
                    assert!(largest - smallest < p && base + pow * (1 << 15) < p);
                    fitting += 1;
                } else {
                    // The slack is small: whatever is refused is within 2^18 of wrapping.
                    assert!(largest - smallest + (1 << 18) >= p);
                    others += 1;
                }
            }
        }
    }
    assert!(fitting > 0 && others > 0);
}

#[test]
fn shifts_are_those_that_have_a_remainder() {
    for shift in 1..=13 {
        assert!(shift_in_range("shift", shift).is_ok());
    }
    for shift in [0, 14, 255] {
        let expected = ModelError::OutOfRange {
            what: "shift",
            value: shift.into(),
            min: 1,
            max: 13,
        };
        assert_eq!(shift_in_range("shift", shift), Err(expected));
    }
}

/// The numbers of the document: `2^(15 + b) + 2^23` for a product with a limbed operand, `128 in w + 2^23` for a matmul.
#[test]
fn bounds_are_those_of_the_document() {
    let down = AccumulatorBound::matmul(384, 2047).map(AccumulatorBound::get);
    assert_eq!(down, Some(128 * 384 * 2047 + (1 << 23)));
    // The largest bound that fits, and the smallest that does not, with and without a residual.
    for (shift, skip) in [(1, None), (13, None), (1, Some(0)), (13, Some(13))] {
        let residual = skip.map_or(0, |skip: u8| 1u64 << (15 + skip));
        let rest = (1u64 << (15 + shift)) + residual + (1 << 30) + (1 << 17);
        let most = u64::from(P) - 1 - rest;
        assert!(AccumulatorBound(most).fits(shift, skip));
        assert!(!AccumulatorBound(most + 1).fits(shift, skip));
    }
}

/// Parameters that are all at the same end of their ranges; the exponent of the residual's factor is `residual`.
fn params(shift: u8, residual: u8, scale: u8, eps: u64, bits: i32) -> ModelParams {
    let one = || ChannelShift(vec![shift]);
    let norm = NormParams {
        scale,
        eps: ByClass::both(eps),
        shift: ChannelShift::one(shift.min(7)),
    };
    let skip = ByClass::both(residual as i8 - shift as i8);
    let base = test_params(&odd_config(1));
    ModelParams {
        embed_exponent: residual,
        embed: StreamShift::one(shift),
        layers: vec![LayerParams {
            attention: AttentionParams {
                norm: norm.clone(),
                q: one(),
                k: one(),
                v: one(),
                head_norms: None,
                score: shift,
                att: shift.min(MAX_ATT_SHIFT),
                o: StreamShift::one(shift),
                skip,
                post_norm: None,
            },
            mlp: MlpParams {
                norm: norm.clone(),
                gate: ChannelShift(vec![shift; 44]),
                up: one(),
                act: ByClass::both(shift.min(MAX_ACT_SHIFT)),
                down: StreamShift::one(shift),
                skip,
                post_norm: None,
            },
        }],
        norm_final: norm,
        head: one(),
        score_bits: bits,
        gate_bits: bits,
        silu_bits: bits.min(MAX_SILU_BITS.into()),
        logit_bits: bits,
        ..base
    }
}

/// Heads of 128 need no bound but the range of queries, and heads of 130 do.
#[test]
fn the_range_of_queries_is_enough_for_heads_of_128() {
    let most = 1 << 15;
    assert!(rotated_sum(&[most; 128]) <= MAX_QUERY_SUM);
    assert!(rotated_sum(&[most; 130]) > MAX_QUERY_SUM);
    // Of half the range there may be twice as many.
    assert!(rotated_sum(&[most / 2; MAX_HEAD_DIM]) <= MAX_QUERY_SUM);
    const { assert!(255 * MAX_QUERY_SUM < LOW_LIMIT && 128 * MAX_QUERY_SUM <= (1 << 29) + (1 << 23)) };
}

/// Heads longer than 128 are those of keys whose norms of columns bound the queries: as far as they may be, and no further.
#[test]
fn long_heads_need_bounds_of_their_queries() {
    let config = |head_dim| ModelConfig {
        head_dim,
        ..odd_config(1)
    };
    let with = |head_dim, change: &dyn Fn(&mut ModelParams)| {
        let mut own = params(1, 0, 26, 1 << 10, 10).with_largest_norms(&config(head_dim));
        change(&mut own);
        own.check(&config(head_dim))
    };
    let refused = |sum: u64| {
        Err(ModelError::Accumulator {
            what: "scores",
            layer: 0,
            bound: 255 * sum,
            shift: 0,
        })
    };
    let wide = MAX_HEAD_DIM;
    assert_eq!(with(128, &|_| ()), Ok(()));
    assert_eq!(with(130, &|_| ()), refused(65 << 16));
    // The norm has 15 bits: a query is at most the root of 20 (2^16 + 1)^2 square / 4, times 2^-9. With this square that is
    // 16412, and pairs are 32830; with one more, it is 16415, and pairs are 32835.
    let square = |own: &mut ModelParams, square: u64| {
        own.columns[0] = ColumnNorms {
            l1: square.div_ceil(127),
            square,
        };
    };
    assert_eq!(with(wide, &|p| square(p, 3288)), Ok(()));
    assert_eq!(with(wide, &|p| square(p, 3289)), refused(128 * 32_835));
    // Twice the square, and half the unit: that is what a shift does, if every head has it.
    let shifted = |own: &mut ModelParams, one: u8| {
        square(own, 6560);
        own.layers[0].attention.q = ChannelShift(vec![2; 3 * wide]);
        own.layers[0].attention.q.0[wide..2 * wide].fill(one);
    };
    assert_eq!(with(wide, &|p| shifted(p, 2)), Ok(()));
    assert_eq!(with(wide, &|p| shifted(p, 1)), refused(5_935_232));
    // A bias counts, in the channel that has it.
    let biased = |own: &mut ModelParams, bias| {
        square(own, 3288);
        own.biases = vec![Vec::new(); own.columns.len()];
        own.biases[0] = vec![0; 3 * wide];
        own.biases[0][3 * wide - 1] = bias;
    };
    assert_eq!(with(wide, &|p| biased(p, -1)), Ok(()));
    assert!(matches!(
        with(wide, &|p| biased(p, -(1 << 21))),
        Err(ModelError::Accumulator { what: "scores", .. })
    ));
    let (what, value, min, max) = ("head_dim", 258, 2, 256);
    assert_eq!(
        with(258, &|_| ()),
        Err(ModelError::OutOfRange { what, value, min, max })
    );
}

/// What is refused beyond the limits is refused there only: `tamper::keys` has the values next to these.
#[test]
fn the_smallest_and_the_largest_parameters_are_accepted() {
    assert_eq!(params(1, 0, 0, 1, -64).check(&odd_config(1)), Ok(()));
    assert_eq!(params(13, 13, 26, MAX_EPSILON, 64).check(&odd_config(1)), Ok(()));
}

/// Attention outputs are in one limb, so a key whose shift is above 7 is refused, whatever its other shifts are. One total shift more would
/// give the largest sum, which section 16.6 names, two roundings.
#[test]
fn attention_outputs_fit_one_limb() {
    let with = |att| {
        let mut own = params(13, 13, 26, 1 << 10, 10);
        own.layers[0].attention.att = att;
        own.check(&odd_config(1))
    };
    let (what, min, max) = ("attention output", 1, 7);
    let refused = |value| Err(ModelError::OutOfRange { what, value, min, max });
    assert_eq!([1, 7].map(with), [Ok(()), Ok(())]);
    assert_eq!([0, 8, 13, 255].map(|att| with(att as u8)), [0, 8, 13, 255].map(refused));
    assert_eq!(MAX_OUTPUT, (1 << 29) + (1 << 26));
    let fits = |total| has_one_rounding(MAX_OUTPUT.into(), 1 << 15, total);
    assert!((9..=15).all(fits) && !fits(16));
}

/// The two classes of rows are checked each for itself, whatever their offsets.
#[test]
fn leading_rows_have_the_limits_of_all_rows() {
    let with = |change: fn(&mut ModelParams)| {
        let mut own = params(6, 6, 26, 1 << 10, 10);
        change(&mut own);
        own.check(&odd_config(1))
    };
    let refused = |what, value, min, max| Err(ModelError::OutOfRange { what, value, min, max });
    assert_eq!(with(|p| p.layers[0].attention.o.lead = 7), Ok(()));
    assert_eq!(with(|p| p.layers[0].attention.o.lead = -5), Ok(()));
    assert_eq!(with(|p| p.layers[0].attention.o.lead = 8), refused("o", 14, 1, 13));
    assert_eq!(with(|p| p.layers[0].attention.o.lead = -6), refused("o", 0, 1, 13));
    assert_eq!(
        with(|p| p.layers[0].mlp.down.lead = i8::MIN),
        refused("down", 122, 1, 13)
    );
    assert_eq!(with(|p| p.layers[0].mlp.skip.lead = 7), Ok(()));
    assert_eq!(
        with(|p| p.layers[0].mlp.skip.lead = 8),
        refused("residual skip", 14, 0, 13)
    );
    assert_eq!(
        with(|p| p.layers[0].mlp.skip.body = -7),
        refused("residual skip", 1, 0, 13)
    );
    assert_eq!(with(|p| p.embed.lead = 7), Ok(()));
    assert_eq!(with(|p| p.embed.lead = 8), refused("embedding", 14, 1, 13));
    assert_eq!(
        with(|p| p.layers[0].mlp.act.lead = 14),
        refused("mlp product", 14, 1, 6)
    );
    assert_eq!(
        with(|p| p.norm_final.eps.lead = 0),
        refused("norm eps", 0, 321, MAX_EPSILON)
    );
    // The token that texts with leading rows begin with is one of the vocabulary.
    let vocab = odd_config(1).vocab as u64;
    let token = |id: u64| {
        let mut own = params(6, 6, 26, 1 << 10, 10);
        own.leading.token = Some(id as u32);
        own.check(&odd_config(1))
    };
    assert_eq!(token(vocab - 1), Ok(()));
    assert_eq!(token(vocab), refused("token of leading rows", vocab, 0, vocab - 1));
}

/// The shifts of a matrix.
type Shifts = fn(&mut ModelParams) -> &mut ChannelShift;

/// Of every matrix, into the stream or not.
#[test]
fn shifts_are_one_for_all_channels_or_one_for_each() {
    let config = odd_config(1);
    let lists: [(&str, MatmulKind, Shifts); 8] = [
        ("q", MatmulKind::Q, |p| &mut p.layers[0].attention.q),
        ("k", MatmulKind::K, |p| &mut p.layers[0].attention.k),
        ("v", MatmulKind::V, |p| &mut p.layers[0].attention.v),
        ("o", MatmulKind::O, |p| &mut p.layers[0].attention.o.body),
        ("gate", MatmulKind::Gate, |p| &mut p.layers[0].mlp.gate),
        ("up", MatmulKind::Up, |p| &mut p.layers[0].mlp.up),
        ("down", MatmulKind::Down, |p| &mut p.layers[0].mlp.down.body),
        ("embedding", MatmulKind::Embed, |p| &mut p.embed.body),
    ];
    for (what, kind, list) in lists {
        let (_, expected) = config.dims(kind);
        for got in [1, expected, 0, 2, expected - 1, expected + 1] {
            let mut own = params(6, 6, 26, 1 << 10, 10);
            let list = list(&mut own);
            *list = ChannelShift(vec![list.at(0); got]);
            let verdict = match got == 1 || got == expected {
                true => Ok(()),
                false => Err(ModelError::Length { what, got, expected }),
            };
            assert_eq!(own.check(&config), verdict, "{got} shifts of {what}");
        }
    }
}

/// The product of SiLU and up projection is claimed in one limb: with the largest table of SiLU and the largest shift, both
/// sides of the claim still differ by less than p, clipped or not.
#[test]
fn products_of_the_mlp_fit_one_limb() {
    let with = |act, bits| {
        let mut own = params(6, 6, 26, 1 << 10, 10);
        (own.layers[0].mlp.act.body, own.silu_bits) = (act, bits);
        own.check(&odd_config(1))
    };
    let refused = |what, value, min, max| Err(ModelError::OutOfRange { what, value, min, max });
    assert_eq!(with(MAX_ACT_SHIFT, MAX_SILU_BITS.into()), Ok(()));
    assert_eq!(with(7, 10), refused("mlp product", 7, 1, 6));
    assert_eq!(with(0, 10), refused("mlp product", 0, 1, 6));
    assert_eq!(with(3, 17), refused("silu bits", 17, 0, 16));
    let silu = crate::semantics::activation_table(Activation::Silu, 0, MAX_SILU_BITS.into());
    let largest = silu.iter().map(|v| i64::from(*v).abs()).max().expect("a table");
    assert_eq!(largest, i64::from(i16::MAX));
    let total = 8 + u32::from(MAX_ACT_SHIFT);
    let bound = (largest << 15) + (1 << (total - 1));
    // Clipped values are below 2^30 in these units (`Statistics::check`); the remainder comes on top.
    assert!(bound + (1 << 30) + (1 << total) < i64::from(P));
    // One shift more would wrap.
    assert!((largest << 15) + (1 << total) + (1 << 30) + (1 << (total + 1)) >= i64::from(P));
}

/// Statistics of norms sum `4^k` times products of limbs: as many channels as fit, and one exponent more is refused.
#[test]
fn exponents_leave_the_statistics_in_range() {
    let config = odd_config(1);
    let with = |exponents: &[u8]| {
        let mut own = params(9, 9, 26, 1 << 10, 10);
        own.exponents = exponents.to_vec();
        own.exponents.resize(config.hidden, 0);
        own.check(&config)
    };
    let squares = "sum of 4^k over the channel exponents k";
    assert_eq!(with(&[]), Ok(()));
    // Three channels of 4^6, three of 4^5, and so on: 16383 with the fourteen others.
    assert_eq!(with(&[6, 6, 6, 5, 5, 5, 4, 3, 3]), Ok(()));
    let (min, max) = (0, MAX_SQUARES);
    let (what, value) = (squares, 16400);
    assert_eq!(
        with(&[6, 6, 6, 6]),
        Err(ModelError::OutOfRange { what, value, min, max })
    );
    let (what, value, min, max) = ("channel exponent", 7, 0, 6);
    assert_eq!(with(&[7]), Err(ModelError::OutOfRange { what, value, min, max }));
    let mut own = params(5, 5, 26, 1 << 10, 10);
    own.exponents = vec![0; 19];
    let (what, got, expected) = ("channel exponents", 19, 20);
    assert_eq!(own.check(&config), Err(ModelError::Length { what, got, expected }));
}

/// A norm has one shift, or one for every channel, each of which leaves a remainder of 15 bits at most.
#[test]
fn shifts_of_norms_are_those_of_one_limb() {
    let config = odd_config(1);
    let with = |norm: fn(&mut ModelParams) -> &mut crate::model::NormParams, shifts: &[u8]| {
        let mut own = params(5, 5, 26, 1 << 10, 10);
        norm(&mut own).shift = ChannelShift(shifts.to_vec());
        own.check(&config)
    };
    let norms: [fn(&mut ModelParams) -> &mut crate::model::NormParams; 3] = [
        |p| &mut p.layers[0].attention.norm,
        |p| &mut p.layers[0].mlp.norm,
        |p| &mut p.norm_final,
    ];
    for norm in norms {
        for most in [1, 7] {
            assert_eq!(with(norm, &[most]), Ok(()));
            assert_eq!(with(norm, &[vec![4; 19], vec![most]].concat()), Ok(()));
        }
        for value in [0, 8, 255] {
            let refused = Err(ModelError::OutOfRange {
                what: "shift of a norm",
                value,
                min: 1,
                max: 7,
            });
            assert_eq!(with(norm, &[value as u8]), refused);
            assert_eq!(with(norm, &[vec![4; 19], vec![value as u8]].concat()), refused);
        }
        for got in [0, 2, 19, 21] {
            let (what, expected) = ("shifts of a norm", 20);
            let refused = Err(ModelError::Length { what, got, expected });
            assert_eq!(with(norm, &vec![4; got]), refused);
        }
    }
}

/// A weight has at least two bits, and no more than its format holds.
#[test]
fn weight_bits_are_those_of_the_format() {
    use crate::model::WeightFormat;
    for (format, most) in [(WeightFormat::Int8, 8), (WeightFormat::Int16, 14)] {
        let with = |bits| {
            let mut own = params(6, 6, 26, 1 << 10, 10);
            own.format = format;
            own.weight_bits.set(MatmulKind::Down, bits);
            own = own.with_largest_norms(&odd_config(1));
            (own.check(&odd_config(1)), own.max_weight(MatmulKind::Down))
        };
        assert_eq!(with(most), (Ok(()), (1 << (most - 1)) - 1));
        assert_eq!(with(2), (Ok(()), 1));
        for bits in [0, 1, most + 1, 255] {
            let (what, value, min, max) = ("weight bits", u64::from(bits), 2, u64::from(most));
            assert_eq!(with(bits).0, Err(ModelError::OutOfRange { what, value, min, max }));
        }
    }
}

/// The embedding has one product per output: its vocabulary may be as large as any.
#[test]
fn embeddings_of_any_vocabulary_are_accepted() {
    let mut own = params(1, 13, 26, 1 << 10, 10);
    own.format = crate::model::WeightFormat::Int16;
    own.weight_bits.set(MatmulKind::Embed, 14);
    let large = ModelConfig {
        vocab: MAX_VOCAB,
        ..odd_config(1)
    };
    assert_eq!(own.check(&large), Ok(()));
}

/// The value next to the limit is refused, with the limits.
#[test]
fn limits_are_named() {
    for eps in [0, MAX_EPSILON + 1] {
        let expected = ModelError::OutOfRange {
            what: "norm eps",
            value: eps,
            min: 1,
            max: MAX_EPSILON,
        };
        assert_eq!(params(1, 0, 0, eps, 0).check(&odd_config(1)), Err(expected));
    }
    let expected = ModelError::OutOfRange {
        what: "norm scale",
        value: 49,
        min: 0,
        max: 48,
    };
    assert_eq!(params(1, 0, 49, 1, 0).check(&odd_config(1)), Err(expected));
}

/// A limb accumulator that can reach [`LOW_LIMIT`] is refused with what it can reach.
#[test]
fn accumulators_that_are_too_large_are_named() {
    let wide = ModelConfig {
        ff: 1 << 16,
        ..odd_config(1)
    };
    let mut own = params(5, 0, 26, 1 << 10, 10);
    own.layers[0].mlp.gate = ChannelShift(vec![5]);
    let refused = |what, bound, shift| {
        Err(ModelError::Accumulator {
            what,
            layer: 0,
            bound,
            shift,
        })
    };
    assert_eq!(own.check(&wide), refused("down", (255 * 127) << 16, 0));
    // The limbs fit, but not together with the residual and the rounding.
    let most = ModelConfig {
        ff: 33090,
        ..odd_config(1)
    };
    assert_eq!(own.check(&most), Ok(()));
    own.layers[0].mlp.skip = ByClass::both(0);
    own.layers[0].mlp.down = StreamShift::one(13);
    let bound = 128 * 33090 * 127 + (1 << 23);
    assert_eq!(own.check(&most), refused("down", bound, 13));
}

/// Norms of heads are there if the config says so, with a gain for every channel, and all in range.
#[test]
fn norms_of_heads_are_those_of_the_document() {
    let normed = ModelConfig {
        head_norms: true,
        ..odd_config(1)
    };
    let with = |config: &ModelConfig, change: &dyn Fn(&mut HeadNorm)| {
        let mut own = test_params(config);
        let norms = own.layers[0].attention.head_norms.as_mut().unwrap();
        change(&mut norms.q);
        change(&mut norms.k);
        own.check(config)
    };
    let refused = |what, value, min, max| Err(ModelError::OutOfRange { what, value, min, max });
    let length = |what, got, expected| Err(ModelError::Length { what, got, expected });
    assert_eq!(with(&normed, &|_| ()), Ok(()));
    assert_eq!(with(&normed, &|norm| norm.gains.fill(-(1 << 14))), Ok(()));
    assert_eq!(
        with(&normed, &|norm| norm.gains[5] = -(1 << 14) - 1),
        refused("gain of a norm of heads", (1 << 14) + 1, 0, 1 << 14)
    );
    assert_eq!(
        with(&normed, &|norm| norm.gains.truncate(5)),
        length("gains of a norm of heads", 5, 6)
    );
    for shift in [0, 8, 255] {
        assert_eq!(
            with(&normed, &|norm| norm.shift = shift),
            refused("shift of a norm of heads", shift.into(), 1, 7)
        );
    }
    // 6 2^54 is below 2^58, and its 2^-48 are 384.
    assert_eq!(with(&normed, &|norm| (norm.scale, norm.eps) = (27, 385)), Ok(()));
    assert_eq!(
        with(&normed, &|norm| (norm.scale, norm.eps) = (27, 384)),
        refused("norm eps", 384, 385, MAX_EPSILON)
    );
    assert_eq!(
        with(&normed, &|norm| norm.scale = 28),
        refused("log2 of head_dim 2^(2 scale) of a norm of heads", 59, 0, 58)
    );
    // A model has them in every layer, or in none.
    let mut without = test_params(&normed);
    without.layers[0].attention.head_norms = None;
    assert_eq!(without.check(&normed), length("norms of heads of a layer", 0, 1));
    assert_eq!(
        test_params(&normed).check(&odd_config(1)),
        length("norms of heads of a layer", 1, 0)
    );
    // Heads of 256: the norm bounds their queries, as long as its outputs have few bits.
    let long = ModelConfig {
        head_dim: MAX_HEAD_DIM,
        ..normed
    };
    assert_eq!(with(&long, &|norm| (norm.scale, norm.shift) = (25, 7)), Ok(()));
    assert_eq!(
        with(&long, &|norm| (norm.scale, norm.shift) = (25, 6)),
        Err(ModelError::Accumulator {
            what: "scores",
            layer: 0,
            bound: 255 * rotated_sum(&[1 << 15; MAX_HEAD_DIM]),
            shift: 0,
        })
    );
}
