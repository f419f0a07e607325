use super::super::{LOW_LIMIT, MAX_BIAS};
use super::*;
use crate::air::gadgets::Remainder;
use crate::model::{odd_config, test_params, ChannelShift, ColumnNorms, WeightBits, WeightFormat};
use crate::semantics::{norm_element, norm_rsqrt, norm_sums};

const MODULUS: u128 = P as u128;

/// The largest bound that fits one limb with this shift, if any does.
fn largest(kind: MatmulKind, total: i32) -> Option<u128> {
    fits_one_limb(kind, 0, total).then(|| {
        let (mut fits, mut not) = (0, MODULUS);
        while not - fits > 1 {
            let middle = (fits + not) / 2;
            match fits_one_limb(kind, middle, total) {
                true => fits = middle,
                false => not = middle,
            }
        }
        fits
    })
}

/// At the bound no wrong output solves the equation modulo p, and with some more of it one does: lemma and saturation are what
/// separates the two.
#[test]
fn a_rounding_in_one_limb_has_one_solution_up_to_the_bound() {
    for total in 1..ONE_LIMB_SHIFT {
        let bound = largest(MatmulKind::Up, total).unwrap();
        let (pow, half) = (1u128 << total, 1u128 << (total - 1));
        let sum = bound + half;
        // The two sides of an equation with outputs of 16 bits; and with an output that stands for a clipped one.
        assert!(sum + (pow << 15) + pow < MODULUS);
        assert!(2 * sum + 2 * pow < MODULUS);
        let one_more = sum + 1;
        let wraps = one_more + (pow << 15) + pow >= MODULUS || 2 * one_more + 2 * pow >= MODULUS;
        assert!(wraps, "{total}");
        assert!(!fits_one_limb(MatmulKind::Up, bound + 1, total));
    }
    for total in [i32::MIN, -1, 0, ONE_LIMB_SHIFT, 263, i32::MAX] {
        assert_eq!(largest(MatmulKind::Up, total), None);
    }
    // As the design has it: with the largest shift the bound is that of saturation.
    assert_eq!(largest(MatmulKind::Up, 14), Some((1 << 30) - (1 << 14) - (1 << 13) - 1));
}

/// A logit is as far below the largest one as sixteen bits reach, so a maximum has three times the range.
#[test]
fn logits_have_one_limb_up_to_a_shift_of_thirteen() {
    for total in 1..=13 {
        let (bound, pow) = (largest(MatmulKind::Head, total).unwrap(), 1u128 << total);
        let sum = bound + pow / 2;
        assert!(sum + 98304 * pow + pow < MODULUS && 2 * (sum + pow) < MODULUS);
        assert!(sum + 1 + 98304 * pow + pow >= MODULUS || 2 * (sum + 1 + pow) >= MODULUS);
    }
    assert!(largest(MatmulKind::Head, 13).unwrap() > (1 << 30) - (1 << 14));
    assert_eq!(largest(MatmulKind::Head, 14), None);
}

/// The smallest bound of the inequality: one less does not satisfy it, for scales above and below the shift.
#[test]
fn normed_bounds_are_the_smallest() {
    let mut seen = 0;
    for hidden in [2usize, 20, 576, 1 << 14] {
        for bits in -12..=15 {
            for square in [0, 1, 7, 12_345_678, 1 << 40] {
                let bound = normed_bound(hidden, bits, square);
                // hidden (2^(bits + 1) + 1)^2 square <= 4 B^2, times 2^26 where 2^(bits + 1) is no integer.
                let twice = (1u128 << (bits + 1 + 13)) + (1 << 13);
                let left = hidden as u128 * twice * twice * u128::from(square);
                let right = |b: u128| (4 * b * b) << 26;
                assert!(left <= right(bound), "{hidden} {bits} {square}");
                assert!(bound == 0 || left > right(bound - 1), "{hidden} {bits} {square}");
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 4 * 28 * 5);
    // Outputs are clipped, so that no scale makes them larger; and the smallest of scales leaves the half of rounding.
    assert_eq!(normed_bound(4, 40, 9), normed_bound(4, 15, 9));
    assert_eq!(normed_bound(4, -60, 9), 4);
}

/// Numbers without pattern.
fn random(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Columns that point where the norm's output does are what the bound is made for: they come close to it, never beyond, whatever
/// rows, scales, epsilons and exponents are.
#[test]
fn no_row_makes_an_accumulator_larger_than_its_bound() {
    let mut state = 5;
    let mut closest = 0.0f64;
    for case in 0..3000 {
        let hidden = 2 + (random(&mut state) % 40) as usize;
        let top = random(&mut state) % 15;
        let x: Vec<i16> = (0..hidden)
            .map(|_| (random(&mut state) % (2 << top)) as i16 - (1 << top) as i16)
            .collect();
        let exponents: Vec<u8> = match case % 3 {
            0 => Vec::new(),
            _ => (0..hidden).map(|_| (random(&mut state) % 4) as u8).collect(),
        };
        let norm = NormParams {
            scale: (random(&mut state) % 33) as u8,
            eps: ByClass::both(1 + random(&mut state) % 100),
            // One shift, or one for each channel.
            shift: ChannelShift(match case % 2 {
                0 => vec![4 + (random(&mut state) % 9) as u8],
                _ => (0..hidden).map(|_| 1 + (random(&mut state) % 12) as u8).collect(),
            }),
        };
        let r = norm_rsqrt(norm_sums(&x, &exponents), hidden, &norm, RowClass::Body);
        let channels = x.iter().enumerate();
        let y: Vec<i16> = channels.map(|(c, x)| norm_element(*x, r, norm.shift.at(c))).collect();
        let largest = y.iter().map(|y| y.unsigned_abs()).max().unwrap_or(0).max(1);
        // Weights of ten bits in proportion to the outputs.
        let column: Vec<i64> = y.iter().map(|y| i64::from(*y) * 511 / i64::from(largest)).collect();
        let acc: i64 = y.iter().zip(&column).map(|(y, w)| i64::from(*y) * w).sum();
        let square = column.iter().map(|w| (w * w) as u64).sum();
        let of_case = ModelParams {
            exponents: exponents.clone(),
            ..test_params(&odd_config(1))
        };
        let bound = normed_bound(hidden, of_case.normed_bits(&norm), square);
        assert!(
            u128::from(acc.unsigned_abs()) <= bound,
            "case {case}: {acc} above {bound}"
        );
        closest = closest.max(acc as f64 / (bound as f64).max(1.0));
    }
    assert!(closest > 0.98, "{closest}");
}

/// Norms and shifts of a model of the odd dimensions with 20 channels, 18 inputs of O and 44 of Down, all in one limb.
fn params() -> ModelParams {
    let mut params = test_params(&odd_config(2));
    for layer in &mut params.layers {
        (layer.attention.norm.scale, layer.mlp.norm.scale) = (26, 26);
        (layer.attention.norm.shift, layer.mlp.norm.shift) = (ChannelShift::one(7), ChannelShift::one(7));
    }
    (params.norm_final.scale, params.norm_final.shift) = (26, ChannelShift::one(7));
    params
}

/// Kinds in two limbs.
fn two(params: &ModelParams) -> Vec<MatmulKind> {
    let config = odd_config(2);
    assert_eq!(params.check(&config), Ok(()));
    MatmulKind::ALL
        .into_iter()
        .filter(|kind| params.limbs(&config, *kind) == Limbs::Two)
        .collect()
}

/// One channel of one layer beyond what fits is enough: a kind has the limbs of its worst channel.
#[test]
fn one_channel_puts_its_kind_into_two_limbs() {
    let with = |change: fn(&mut ModelParams)| {
        let mut own = params();
        change(&mut own);
        two(&own)
    };
    assert_eq!(two(&params()), []);
    assert_eq!(
        with(|p| p.layers[1].mlp.gate = ChannelShift([vec![3; 43], vec![6]].concat())),
        []
    );
    assert_eq!(
        with(|p| p.layers[1].mlp.gate = ChannelShift([vec![3; 43], vec![7]].concat())),
        [MatmulKind::Gate]
    );
    assert_eq!(
        with(|p| p.layers[1].attention.q = ChannelShift(vec![7])),
        [MatmulKind::Q]
    );
    assert_eq!(
        with(|p| p.layers[0].attention.k = ChannelShift(vec![7])),
        [MatmulKind::K]
    );
    assert_eq!(
        with(|p| p.layers[0].attention.v = ChannelShift(vec![7])),
        [MatmulKind::V]
    );
    assert_eq!(with(|p| p.layers[0].mlp.up = ChannelShift(vec![7])), [MatmulKind::Up]);
    assert_eq!(with(|p| p.head = ChannelShift(vec![5])), []);
    assert_eq!(with(|p| p.head = ChannelShift(vec![6])), [MatmulKind::Head]);
    // The norm of its own input decides: with 12 bits and an output of norms up to 2^15, Q of that layer does not fit any more.
    let mut own = params();
    own.format = WeightFormat::Int16;
    own.weight_bits = WeightBits::all(12);
    own = own.with_largest_norms(&odd_config(2));
    assert_eq!(two(&own), [MatmulKind::O, MatmulKind::Down]);
    own.layers[0].attention.norm.shift = ChannelShift::one(3);
    assert_eq!(
        two(&own),
        [
            MatmulKind::Q,
            MatmulKind::K,
            MatmulKind::V,
            MatmulKind::O,
            MatmulKind::Down
        ]
    );
    (own.layers[0].attention.norm.shift, own.norm_final.shift) = (ChannelShift::one(7), ChannelShift::one(3));
    assert_eq!(two(&own), [MatmulKind::O, MatmulKind::Down, MatmulKind::Head]);
    // One channel in such units is enough, but for one whose state is in units as much coarser.
    own.norm_final.shift = ChannelShift([vec![7; 19], vec![3]].concat());
    assert_eq!(two(&own), [MatmulKind::O, MatmulKind::Down, MatmulKind::Head]);
    own.exponents = [vec![0; 19], vec![4]].concat();
    assert_eq!(two(&own), [MatmulKind::O, MatmulKind::Down]);
    own.exponents = [vec![4], vec![0; 19]].concat();
    assert_eq!(two(&own), [MatmulKind::O, MatmulKind::Down, MatmulKind::Head]);
}

/// The accumulator of an update of the stream shares its limb with the residual, in either class of rows (Down, l1 of 2^15 l1).
#[test]
fn the_residual_counts_in_both_classes_of_rows() {
    let with = |change: &dyn Fn(&mut ModelParams)| {
        let mut own = params();
        change(&mut own);
        two(&own)
    };
    for lead in [false, true] {
        let set = |by: &mut ByClass<i8>, value| *(if lead { &mut by.lead } else { &mut by.body }) = value;
        // With a shift of 5 and a skip of 6 the residual is up to 2^29, with 7 up to 2^30.
        assert_eq!(with(&|p| set(&mut p.layers[1].attention.skip, 1)), []);
        assert_eq!(with(&|p| set(&mut p.layers[1].attention.skip, 2)), [MatmulKind::O]);
        assert_eq!(with(&|p| set(&mut p.layers[0].mlp.skip, 2)), [MatmulKind::Down]);
    }
    // Shifts of leading rows are their own.
    assert_eq!(
        with(&|p| (p.layers[0].attention.o.lead, p.layers[0].attention.skip.lead) = (2, -2)),
        []
    );
    assert_eq!(
        with(&|p| (p.layers[0].attention.o.lead, p.layers[0].attention.skip.lead) = (3, -3)),
        [MatmulKind::O]
    );
    // At the largest l1 that leaves room for the residual of 2^28 and the half, and one beyond.
    let most = (largest(MatmulKind::O, 13).unwrap() - (1 << 28)) >> 15;
    let set = |l1: u64| {
        let mut own = params();
        own.format = WeightFormat::Int16;
        own.weight_bits = WeightBits::all(13);
        own = own.with_largest_norms(&odd_config(2));
        let square = l1.pow(2).div_ceil(18);
        for at in [3, 10] {
            own.columns[at] = ColumnNorms { l1, square };
        }
        for at in [6, 13] {
            own.columns[at] = ColumnNorms::default();
        }
        own.limbs(&odd_config(2), MatmulKind::O)
    };
    let most = u64::try_from(most).unwrap();
    assert_eq!([set(most), set(most + 1)], [Limbs::One, Limbs::Two]);
}

/// A norm is in one limb up to `hidden 4^scale = 2^58` and a shift of 15, each norm and channel of it; its claim has no other, so
/// a key with more is refused.
#[test]
fn norms_are_bounded_by_scale_and_shift() {
    let config = ModelConfig {
        hidden: 64,
        ..odd_config(2)
    };
    let with = |change: fn(&mut ModelParams)| {
        let mut own = params().with_largest_norms(&config);
        change(&mut own);
        let checked = own.check(&config);
        let what = "log2 of hidden 2^(2 scale) of a norm";
        let refused = matches!(checked, Err(ModelError::OutOfRange { what: w, value: 59, max: 58, .. }) if w == what);
        assert!(refused || checked == Ok(()), "{checked:?}");
        assert_eq!(own.norm_limbs(&config) == Limbs::Two, refused);
        refused
    };
    assert!(!with(|_| ()));
    assert!(with(|p| p.norm_final.scale = 27));
    assert!(with(|p| p.layers[1].attention.norm.scale = 48));
    // So is the shift of a channel.
    let mut own = params().with_largest_norms(&config);
    for (last, limbs) in [(7, Limbs::One), (8, Limbs::Two)] {
        own.layers[1].mlp.norm.shift = ChannelShift([vec![7; 63], vec![last]].concat());
        assert_eq!(own.norm_limbs(&config), limbs);
    }
}

/// Norms that no integers have: a key with them is refused, whatever they would allow.
#[test]
fn impossible_norms_are_refused() {
    let config = odd_config(2);
    let with = |l1, square| {
        let mut own = test_params(&config);
        own.columns[3] = ColumnNorms { l1, square };
        own.check(&config)
    };
    let refused = |l1, square| {
        Err(ModelError::Norms {
            what: "o",
            layer: 0,
            l1,
            square,
            inputs: 18,
            most: 127,
        })
    };
    let largest = ColumnNorms::largest(18, 127);
    assert_eq!((largest.l1, largest.square), (18 * 127, 18 * 127 * 127));
    for (l1, square) in [
        (0, 0),
        (largest.l1, largest.square),
        (1, 1),
        (18, 18),
        (5, 5 * 127),
        (10, 10),
    ] {
        assert_eq!(with(l1, square), Ok(()), "{l1} {square}");
    }
    for (l1, square) in [
        (largest.l1 + 1, largest.square),
        (largest.l1, largest.square + 1),
        (largest.l1, largest.square - 1),
        (0, 1),
        (1, 0),
        (19, 18),
        (5, 5 * 127 + 1),
        (36, 71),
        (u64::MAX, u64::MAX),
        (1, u64::MAX),
    ] {
        assert_eq!(with(l1, square), refused(l1, square), "{l1} {square}");
    }
    // Norms of every matrix, and of nothing else.
    for got in [0, 14, 16] {
        let mut own = test_params(&config);
        own.columns.resize(got, ColumnNorms::default());
        let (what, expected) = ("norms of columns", 15);
        assert_eq!(own.check(&config), Err(ModelError::Length { what, got, expected }));
    }
}

/// What a matrix has is where it is looked for.
#[test]
fn every_matrix_has_its_own_norms() {
    let config = odd_config(2);
    let mut own = test_params(&config);
    let named = own.columns.iter_mut().enumerate();
    named.for_each(|(i, norms)| norms.l1 = i as u64);
    let matmuls = config.matmuls().into_iter().skip(1);
    let found: Vec<_> = matmuls.map(|m| own.norms(m.id).map(|n| n.l1)).collect();
    assert_eq!(found, (0..15).map(Some).collect::<Vec<_>>());
    for id in [MatrixId::EMBED, MatmulKind::Q.at(2), MatmulKind::Down.at(usize::MAX)] {
        assert_eq!(own.norms(id), None);
    }
}

/// A bias that is too large for one limb puts its kind into two, whichever channel has it; and it counts at its own shift.
#[test]
fn a_bias_counts_among_what_an_accumulator_can_reach() {
    let config = odd_config(2);
    let mut params = test_params(&config);
    params
        .columns
        .iter_mut()
        .for_each(|own| *own = ColumnNorms { l1: 1, square: 1 });
    params.biases = vec![Vec::new(); params.columns.len()];
    // Layer 1 of Up, of which seven matrices a layer are before.
    let place = LAYER_KINDS.len() + 5;
    params.biases[place] = vec![0; config.ff];
    let limbs = |params: &ModelParams| {
        params.check(&config).unwrap();
        params.limbs(&config, MatmulKind::Up)
    };
    assert_eq!(limbs(&params), Limbs::One);
    let norm = &params.layers[1].mlp.norm;
    let own = normed_bound(config.hidden, params.normed_bits(norm), 1);
    let total = i32::from(params.layers[1].mlp.up.at(0)) + BASE;
    let most = (largest(MatmulKind::Up, total).unwrap() - own) as i32;
    for (bias, expected) in [(most, Limbs::One), (most + 1, Limbs::Two), (-most - 1, Limbs::Two)] {
        params.biases[place][config.ff - 1] = bias;
        assert_eq!(limbs(&params), expected, "{bias}");
        assert_eq!(params.limbs(&config, MatmulKind::Gate), Limbs::One);
    }
    // A channel with a larger shift has less room.
    params.layers[1].mlp.up = ChannelShift((0..config.ff).map(|c| if c == 3 { 6 } else { 3 }).collect());
    params.biases[place] = vec![0; config.ff];
    params.biases[place][3] = most;
    assert_eq!(limbs(&params), Limbs::Two);
}

/// The lemma on two limbs holds with the largest bias: neither equation has sides that differ by p or more.
#[test]
fn a_rounding_in_two_limbs_has_one_solution_with_the_largest_bias() {
    let (high, low) = crate::semantics::bias_limbs(MAX_BIAS as i32);
    let (high, low) = (u128::from(high.unsigned_abs()), u128::from(low.unsigned_abs()).max(255));
    let (accumulator, residual, output) = ((1 << 29) + (1 << 22), 1 << 28, 1 << 30);
    let difference = u128::from(Remainder::LARGEST.unsigned_abs());
    assert!(accumulator + high + residual + output + difference < MODULUS);
    let remainder_and_half = 1 << 20;
    let low_accumulator = u128::from(LOW_LIMIT) + low;
    assert!(low_accumulator + (difference << 8) + remainder_and_half < MODULUS);
    // The difference that an honest prover needs is there.
    assert!(low_accumulator + remainder_and_half < u128::from(Remainder::OFFSET.unsigned_abs()) << 8);
    assert_eq!(crate::semantics::bias_limbs(-(MAX_BIAS as i32)), (-(1 << 22), 0));
    assert_eq!(crate::semantics::bias_limbs(-1), (-1, 255));
}
