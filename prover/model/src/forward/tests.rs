use std::time::Instant;

use tessera_circuits::model::{ByClass, ModelConfig, NormParams, StreamShift, WeightFormat};
use tessera_circuits::semantics::{
    exp_table, probability, reciprocal, requantise, requantise_residual, requantise_value, rope_angle, rope_pair,
    round_shift, sat16, INT15, INT16, RECIPROCAL,
};

use super::*;
use crate::sample::{extreme_model, random_model};
use tessera_circuits::model::MatrixId;
use tessera_samples::{
    capped_config, fixture_size_config, normed_config, odd_config, plain_config, post_normed_config, random_ids,
    rotations_config, windowed_config,
};

fn witness_of(model: &QuantisedModel, ids: &[u32]) -> Witness {
    let mut witness = Witness::default();
    let logits = ForwardState::new(model).run(ids, Some(&mut witness)).unwrap();
    assert_eq!(logits, witness.logits);
    witness
}

/// A limb accumulator tensor `[rows][outputs]`.
type Limbed<'a> = (&'a [i32], &'a [i32]);

fn sum(acc: Limbed, at: usize) -> i64 {
    256 * i64::from(acc.0[at]) + i64::from(acc.1[at])
}

/// Recomputes limb accumulators weight by weight.
fn check_matmul(model: &QuantisedModel, id: MatrixId, a: &[i16], acc: Limbed) {
    let (inputs, outputs) = model.config.dims(id.kind());
    let (rows, bias) = (a.len() / inputs, model.params.bias(id));
    assert_eq!((acc.0.len(), acc.1.len()), (rows * outputs, rows * outputs), "{id:?}");
    for i in 0..rows {
        for o in 0..outputs {
            let dot = |limb: fn(i64) -> i64| -> i64 {
                (0..inputs)
                    .map(|x| limb(a[i * inputs + x].into()) * i64::from(model.weight(id, x, o)))
                    .sum::<i64>()
                    + limb(bias.get(o).map_or(0, |b| i64::from(*b)))
            };
            let at = i * outputs + o;
            assert_eq!(i64::from(acc.0[at]), dot(|a| a.div_euclid(256)), "{id:?} high {i} {o}");
            assert_eq!(i64::from(acc.1[at]), dot(|a| a.rem_euclid(256)), "{id:?} low {i} {o}");
        }
    }
}

fn check_requantised(acc: Limbed, out: &[i16], outputs: usize, shift: &ChannelShift) {
    check_rounded(requantise, acc, out, outputs, shift);
}

fn check_rounded(round: fn(i64, u8) -> i16, acc: Limbed, out: &[i16], outputs: usize, shift: &ChannelShift) {
    assert_eq!(acc.0.len(), out.len());
    for (at, &v) in out.iter().enumerate() {
        assert_eq!(v, round(sum(acc, at), shift.at(at % outputs)));
    }
}

/// Leading rows of random ids: the first one, as they do not repeat it.
fn class(row: usize) -> RowClass {
    class_of(row, 1)
}

fn check_norm(model: &QuantisedModel, stream: &Stream, norm: &NormParams) {
    let (hidden, exponent) = (model.config.hidden, |c| u32::from(model.params.exponent(c)));
    for (i, row) in stream.x.chunks_exact(hidden).enumerate() {
        let [hh, hl, ll] = stream.sums[i];
        let squares = row.iter().enumerate();
        let squares: i64 = squares.map(|(c, &v)| (i64::from(v) << exponent(c)).pow(2)).sum();
        assert_eq!((hh << 16) + (hl << 9) + ll, squares);
        let (total, r) = (
            (squares as u128 + u128::from(norm.eps.of(class(i)))),
            u128::from(stream.rsqrt[i]),
        );
        let bound = (hidden as u128) << (2 * norm.scale);
        assert!(r * r * total <= bound);
        assert!(r == (1 << 22) - 1 || (r + 1).pow(2) * total > bound);
        for (x, &v) in row.iter().enumerate() {
            assert_eq!(
                stream.y[i * hidden + x],
                norm_element(v, stream.rsqrt[i], norm.shift.at(x))
            );
        }
    }
}

fn check_rotation(config: &ModelConfig, l: usize, from: &[i16], to: &[i16], heads: usize) {
    let (n, half) = (config.head_dim, config.head_dim / 2);
    for (at, (from, to)) in from.chunks_exact(n).zip(to.chunks_exact(n)).enumerate() {
        for x in 0..half {
            let (cos, sin) = rope_angle(config, config.rotation(l), at / heads, x);
            assert_eq!((to[x], to[x + half]), rope_pair(from[x], from[x + half], cos, sin));
        }
    }
}

/// Norms of heads, and their rotation with gains, in sums of numbers that are as wide as they may be.
fn check_heads(model: &QuantisedModel, kind: MatmulKind, l: usize, w: &LayerWitness) {
    let (config, norm) = (&model.config, model.params.head_norm(kind.at(l)).unwrap());
    let (n, half) = (config.head_dim, config.head_dim / 2);
    let (from, normed, to) = match kind {
        MatmulKind::Q => (&w.q, &w.q_norm, &w.q_rot),
        _ => (&w.k, &w.k_norm, &w.k_rot),
    };
    let heads = config.dims(kind).1 / n;
    assert_eq!((normed.rsqrt.len(), normed.y.len()), (from.len() / n, from.len()));
    for (at, head) in from.chunks_exact(n).enumerate() {
        let squares: i128 = head.iter().map(|v| i128::from(*v).pow(2)).sum();
        let (total, r) = (squares + i128::from(norm.eps), i128::from(normed.rsqrt[at]));
        let bound = (n as i128) << (2 * norm.scale);
        assert!(r * r * total <= bound && (r + 1).pow(2) * total > bound);
        let y = &normed.y[at * n..][..n];
        for (x, v) in head.iter().enumerate() {
            assert_eq!(y[x], requantise(i64::from(*v) * r as i64, norm.shift));
        }
        for x in 0..half {
            let angle = config.rotations[config.rotation(l)].frequency(n, x) * (at / heads) as f64;
            let times = |x: usize, f: fn(f64) -> f64| libm::round(f64::from(norm.gains[x]) * f(angle)) as i64;
            let [cos, sin, cos2, sin2] = [
                (x, libm::cos as fn(f64) -> f64),
                (x, libm::sin),
                (x + half, libm::cos),
                (x + half, libm::sin),
            ]
            .map(|(x, f)| times(x, f));
            let (a, b) = (i64::from(y[x]), i64::from(y[x + half]));
            let rounded = |v: i64| sat16((v + (1 << 13)) >> 14);
            assert_eq!(to[at * n + x], rounded(a * cos - b * sin2));
            assert_eq!(to[at * n + x + half], rounded(b * cos2 + a * sin));
        }
    }
}

/// Softmax attention of one head and query row.
fn check_attention_row(model: &QuantisedModel, l: usize, w: &LayerWitness, exp_table: &[u32], h: usize, i: usize) {
    let (config, params) = (&model.config, &model.params.layers[l]);
    let (n, width, kv_width) = (
        config.head_dim,
        config.heads * config.head_dim,
        config.kv_heads * config.head_dim,
    );
    let rows = w.q.len() / width;
    let g = h / (config.heads / config.kv_heads);
    let row = h * rows + i;
    let dot = |j: usize, limb: fn(i64) -> i64| -> i64 {
        let q = &w.q_rot[i * width + h * n..][..n];
        let k = &w.k_rot[j * kv_width + g * n..][..n];
        q.iter().zip(k).map(|(&q, &k)| i64::from(q) * limb(k.into())).sum()
    };
    for j in 0..rows {
        let at = row * rows + j;
        assert_eq!(i64::from(w.score_acc_hi[at]), dot(j, |k| k.div_euclid(256)));
        assert_eq!(i64::from(w.score_acc_lo[at]), dot(j, |k| k.rem_euclid(256)));
        assert_eq!(
            w.score[at],
            requantise(sum((&w.score_acc_hi, &w.score_acc_lo), at), params.attention.score)
        );
        let exp = if j <= i {
            exp_table[(i32::from(w.max[row]) - i32::from(w.score[at])) as usize]
        } else {
            0
        };
        assert_eq!(w.exp[at], exp);
        assert_eq!(w.prob[at], if j <= i { probability(exp, w.recip[row]) } else { 0 });
    }
    let scores = &w.score[row * rows..][..=i];
    assert_eq!(Some(&w.max[row]), scores.iter().max());
    assert_eq!(Some(w.arg[row] as usize), scores.iter().position(|&s| s == w.max[row]));
    assert_eq!(w.sum[row], w.exp[row * rows..][..rows].iter().sum::<u32>());
    assert_eq!(w.recip[row], (RECIPROCAL / u64::from(w.sum[row])) as u32);
    assert_eq!(w.recip[row], reciprocal(w.sum[row]));
    for x in 0..n {
        let v = |j: usize| i64::from(w.v[j * kv_width + g * n + x]);
        let weighted: i64 = (0..rows).map(|j| i64::from(w.prob[row * rows + j]) * v(j)).sum();
        let at = i * width + h * n + x;
        assert_eq!(i64::from(w.att_acc[at]), weighted);
        assert_eq!(w.att[at], requantise(weighted, params.attention.att));
    }
}

fn check_residual(stream: &Stream, previous: &Stream, skip: ByClass<i8>, shift: &StreamShift, hidden: usize) {
    for (at, &x) in stream.x.iter().enumerate() {
        let acc = sum((&stream.acc_hi, &stream.acc_lo), at);
        let shift = shift.at(at % hidden, class(at / hidden));
        let skip = shift + i32::from(skip.of(class(at / hidden)));
        assert_eq!(x, requantise_residual(acc, previous.x[at], skip as u8, shift as u8));
    }
}

fn check_layer(model: &QuantisedModel, l: usize, w: &LayerWitness, streams: &[Stream]) {
    let (config, params) = (&model.config, &model.params.layers[l]);
    let (start, middle, end) = (&streams[2 * l], &streams[2 * l + 1], &streams[2 * l + 2]);
    for (kind, acc, out, shift) in [
        (MatmulKind::Q, (&w.q_acc_hi, &w.q_acc_lo), &w.q, &params.attention.q),
        (MatmulKind::K, (&w.k_acc_hi, &w.k_acc_lo), &w.k, &params.attention.k),
        (MatmulKind::V, (&w.v_acc_hi, &w.v_acc_lo), &w.v, &params.attention.v),
    ] {
        check_matmul(model, kind.at(l), &start.y, (acc.0, acc.1));
        let round = if kind == MatmulKind::V {
            requantise_value
        } else {
            requantise
        };
        check_rounded(round, (acc.0, acc.1), out, config.dims(kind).1, shift);
    }
    if config.head_norms {
        check_heads(model, MatmulKind::Q, l, w);
        check_heads(model, MatmulKind::K, l, w);
    } else {
        check_rotation(config, l, &w.q, &w.q_rot, config.heads);
        check_rotation(config, l, &w.k, &w.k_rot, config.kv_heads);
    }
    let exp_table = exp_table(model.params.score_bits);
    for h in 0..config.heads {
        for i in 0..start.sums.len() {
            check_attention_row(model, l, w, &exp_table, h, i);
        }
    }
    check_matmul(model, MatmulKind::O.at(l), &w.att, (&middle.acc_hi, &middle.acc_lo));
    check_residual(middle, start, params.attention.skip, &params.attention.o, config.hidden);

    for (kind, acc, out, shift) in [
        (
            MatmulKind::Gate,
            (&w.gate_acc_hi, &w.gate_acc_lo),
            &w.gate,
            &params.mlp.gate,
        ),
        (MatmulKind::Up, (&w.up_acc_hi, &w.up_acc_lo), &w.up, &params.mlp.up),
    ] {
        check_matmul(model, kind.at(l), &middle.y, (acc.0, acc.1));
        check_requantised((acc.0, acc.1), out, config.ff, shift);
    }
    let silu_table = mlp_table(&model.params);
    for (at, &h) in w.h.iter().enumerate() {
        assert_eq!(w.silu[at], silu_table[(i32::from(w.gate[at]) + 32768) as usize]);
        assert_eq!(
            h,
            requantise(
                i64::from(w.silu[at]) * i64::from(w.up[at]),
                params.mlp.act.of(class(at / config.ff))
            )
        );
    }
    check_matmul(model, MatmulKind::Down.at(l), &w.h, (&end.acc_hi, &end.acc_lo));
    check_residual(end, middle, params.mlp.skip, &params.mlp.down, config.hidden);
    check_norm(model, start, &params.attention.norm);
    check_norm(model, middle, &params.mlp.norm);
}

/// Recomputes a whole witness, one value at a time.
fn check_witness(model: &QuantisedModel, w: &Witness) {
    let (config, params) = (&model.config, &model.params);
    let hidden = config.hidden;
    let stages = 2 * config.layers + 1;
    assert_eq!((w.streams.len(), w.layers.len()), (stages, config.layers));
    let embedded = &w.streams[0];
    for (at, &x) in embedded.x.iter().enumerate() {
        let weight = model.weight(MatrixId::EMBED, w.ids[at / hidden] as usize, at % hidden);
        assert_eq!(
            i64::from(embedded.acc_hi[at]),
            i64::from(weight) << params.embed_exponent
        );
        assert_eq!(embedded.acc_lo[at], 0);
        assert_eq!(
            x,
            requantise(
                i64::from(weight) << (8 + params.embed_exponent),
                params.embed.at(at % hidden, class(at / hidden)) as u8
            )
        );
    }
    assert_eq!(embedded.x.len(), w.ids.len() * hidden);
    for (l, layer) in w.layers.iter().enumerate() {
        check_layer(model, l, layer, &w.streams);
    }
    let last = &w.streams[stages - 1];
    check_norm(model, last, &params.norm_final);
    check_matmul(model, MatrixId::HEAD, &last.y, (&w.logits_acc_hi, &w.logits_acc_lo));
    check_requantised(
        (&w.logits_acc_hi, &w.logits_acc_lo),
        &w.logits,
        config.vocab,
        &params.head,
    );
}

fn spread(values: &[i16]) -> f64 {
    (values.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
}

#[test]
fn witness_values_follow_from_each_other() {
    for (format, seed) in [(WeightFormat::Int8, 1), (WeightFormat::Int16, 2)] {
        let model = random_model(normed_config(), format, seed);
        check_witness(&model, &witness_of(&model, &random_ids(&model.config, 19, seed)));
        let model = random_model(odd_config(), format, seed);
        let witness = witness_of(&model, &random_ids(&model.config, 19, seed));
        check_witness(&model, &witness);
        // The random model exercises the semantics away from zero and saturation.
        for values in [
            &witness.logits,
            &witness.layers[1].score,
            &witness.layers[1].h,
            &witness.layers[1].att,
        ] {
            assert!((64.0..16384.0).contains(&spread(values)), "{}", spread(values));
        }
    }
}

#[test]
fn any_split_in_blocks_gives_the_same_logits() {
    for (format, seed) in [(WeightFormat::Int8, 3), (WeightFormat::Int16, 4)] {
        for model in [
            random_model(odd_config(), format, seed),
            random_model(normed_config(), format, seed),
            random_model(windowed_config(6, [0, 2]), format, seed),
            extreme_model(odd_config(), format, seed),
        ] {
            let ids = random_ids(&model.config, 23, seed);
            let mut whole = ForwardState::new(&model);
            let mut witness = Witness::default();
            let logits = whole.run(&ids, Some(&mut witness)).unwrap();
            for size in [1, 4, 9, 23] {
                let mut state = ForwardState::new(&model);
                let split: Vec<i16> = ids
                    .chunks(size)
                    .flat_map(|block| state.run(block, None).unwrap())
                    .collect();
                assert_eq!(split, logits, "blocks of {size}");
                assert_eq!(state.saturated(), whole.saturated(), "blocks of {size}");
                assert_eq!(state.rows(), ids.len());
            }
            let last = ForwardState::new(&model).run_last(&ids).unwrap();
            assert_eq!(last, logits[logits.len() - model.config.vocab..]);
        }
    }
}

/// What a generation records, with the padding behind it, is what one pass over all rows records.
#[test]
fn a_text_that_is_recorded_in_blocks_leaves_the_witness_of_one_block() {
    let configs = [
        odd_config(),
        normed_config(),
        post_normed_config(),
        capped_config(),
        plain_config(),
        rotations_config(),
        windowed_config(5, [1]),
    ];
    let mut models: Vec<_> = configs
        .map(|config| random_model(config, WeightFormat::Int16, 21))
        .into_iter()
        .collect();
    models.push(extreme_model(odd_config(), WeightFormat::Int8, 22));
    for (i, model) in models.iter_mut().enumerate() {
        model.params.leading.first = 3;
        let random = random_ids(&model.config, 16, 23);
        for (ids, room) in [
            (&random[..13], 13),
            (&random[..], 16),
            (&[0; 11][..], 64),
            (&random[..11], 0),
        ] {
            let (mut expected, whole) = (Witness::default(), Chunk::whole(model.config.layers));
            let run = ForwardState::run_chunk(&*model, &whole, Input::Tokens(ids), 5, Some(&mut expected)).unwrap();

            let (rows, mut state) = (ids.len(), ForwardState::recording(&*model, room));
            let mut witness = Witness::default();
            state.run_last(&ids[..rows - 4]).unwrap();
            ids[rows - 4..]
                .iter()
                .for_each(|id| drop(state.run_last(&[*id]).unwrap()));
            let finished = state.finish(&mut witness);
            assert!(witness == expected, "model {i}, {rows} rows");
            assert_eq!(finished.saturated, run.saturated, "model {i}, {rows} rows");
            assert_eq!(finished.output, run.output);
            assert_eq!(finished.traffic.bytes, 0);
        }
    }
}

#[test]
fn extreme_weights_saturate_and_are_counted() {
    for (format, seed) in [(WeightFormat::Int8, 5), (WeightFormat::Int16, 6)] {
        let model = extreme_model(odd_config(), format, seed);
        let ids = random_ids(&model.config, 16, seed);
        let mut state = ForwardState::new(&model);
        let mut witness = Witness::default();
        state.run(&ids, Some(&mut witness)).unwrap();
        check_witness(&model, &witness);

        let clamped = |acc: &[i32], lo: &[i32], [least, most]: [i64; 2]| {
            let totals = acc.iter().zip(lo).map(|(&hi, &lo)| 256 * i64::from(hi) + i64::from(lo));
            let values = totals.map(|total| round_shift(total, 9));
            values.filter(|v| !(least..=most).contains(v)).count() as u64
        };
        let layer = &witness.layers[0];
        let counts = state.saturated();
        let zeros = vec![0; layer.att_acc.len()];
        for (tensor, hi, lo, ends) in [
            ("layers.0.q", &layer.q_acc_hi, &layer.q_acc_lo, INT16),
            ("layers.0.v", &layer.v_acc_hi, &layer.v_acc_lo, INT15),
            ("layers.0.att", &zeros, &layer.att_acc, INT16),
            ("layers.0.up", &layer.up_acc_hi, &layer.up_acc_lo, INT16),
            ("logits", &witness.logits_acc_hi, &witness.logits_acc_lo, INT16),
        ] {
            assert!(counts[tensor].low > 0 && counts[tensor].high > 0, "{tensor}");
            assert_eq!(counts[tensor].of, hi.len() as u64, "{tensor}");
            assert_eq!(counts[tensor].total(), clamped(hi, lo, ends), "{tensor}");
        }
        assert!(layer.v.iter().all(|v| (INT15[0]..=INT15[1]).contains(&i64::from(*v))));
        assert!(
            counts["layers.0.score"].total() > 0 && counts["layers.1.residual_mlp"].total() > 0,
            "{counts:?}"
        );
    }
}

#[test]
fn saturated_silu_outputs_are_counted() {
    let mut model = random_model(odd_config(), WeightFormat::Int8, 7);
    let ids = random_ids(&model.config, 16, 7);
    let count = |model: &QuantisedModel| {
        let mut state = ForwardState::new(model);
        let mut witness = Witness::default();
        state.run(&ids, Some(&mut witness)).unwrap();
        let extremes = witness.layers[0].silu.iter().filter(|&&s| s == i16::MAX).count() as u64;
        let counted = state.saturated().get("layers.0.silu").copied().unwrap_or_default();
        assert_eq!(counted.low, 0);
        (counted.high, extremes)
    };
    assert_eq!(count(&model).0, 0);
    model.params.silu_bits = 15;
    let (counted, extremes) = count(&model);
    assert!(counted > 0);
    assert_eq!(counted, extremes);
}

/// Which rows are leading follows from the ids alone, in whatever blocks they come.
#[test]
fn leading_rows_are_those_of_the_ids() {
    let model = random_model(odd_config(), WeightFormat::Int8, 12);
    let mut other = model.clone();
    other.params.leading.first = 3;
    // Of one token only.
    let [mut seven, mut nine] = [other.clone(), other.clone()];
    seven.params.leading.token = Some(7);
    nine.params.leading.token = Some(9);
    for (ids, leading) in [
        (&[7, 8, 9, 7][..], [1, 3, 3, 0]),
        (&[7, 7, 9, 7], [2, 3, 3, 0]),
        (&[7, 7, 7, 7], [4, 4, 4, 0]),
        (&[9, 9, 7, 7], [2, 3, 0, 3]),
        (&[7], [1, 1, 1, 0]),
    ] {
        for (model, leading) in [&model, &other, &seven, &nine].into_iter().zip(leading) {
            let whole = ForwardState::new(model).run(ids, None).unwrap();
            for size in 1..=ids.len() {
                let mut state = ForwardState::new(model);
                let blocks: Vec<i16> = ids.chunks(size).flat_map(|b| state.run(b, None).unwrap()).collect();
                assert_eq!(state.beginning.leading, leading, "{ids:?} in blocks of {size}");
                assert!(blocks == whole, "{ids:?} in blocks of {size}");
            }
        }
    }
    let ids = [7, 8, 9, 7];
    let logits = |model| ForwardState::new(model).run(&ids, None).unwrap();
    assert_ne!(logits(&model), logits(&other));
}

/// Logits are counted where they are computed: of all rows, or of the last row alone.
#[test]
fn logits_that_are_computed_are_counted() {
    let model = extreme_model(odd_config(), WeightFormat::Int8, 5);
    let ids = random_ids(&model.config, 5, 5);
    let mut state = ForwardState::new(&model);
    let logits = state.run(&ids, None).unwrap();
    let whole = Chunk::whole(model.config.layers);
    let run = |outputs| ForwardState::run_chunk(&model, &whole, Input::Tokens(&ids), outputs, None).unwrap();
    assert_eq!(run(5).saturated, state.saturated());
    assert!(run(5).saturated["logits"].total() > run(1).saturated["logits"].total());
    assert_eq!(run(5).saturated["logits"].of, logits.len() as u64);
    let mut last = ForwardState::new(&model);
    last.run_last(&ids).unwrap();
    assert_eq!(last.saturated()["logits"].of, model.config.vocab as u64);
}

#[test]
fn rejected_blocks_leave_the_state_unchanged() {
    let model = random_model(odd_config(), WeightFormat::Int8, 9);
    let ids = random_ids(&model.config, 6, 9);
    let mut state = ForwardState::new(&model);
    assert_eq!(state.run(&[], None), Err(ForwardError::Empty));
    assert_eq!(
        state.run(&[3, 300], None),
        Err(ForwardError::UnknownToken {
            id: 300,
            position: 1,
            vocab: 300
        })
    );
    assert_eq!(
        state.run(&[0; 33], None),
        Err(ForwardError::TooManyRows { rows: 33, context: 25 })
    );
    let logits = state.run(&ids, None).unwrap();
    assert_eq!(logits, ForwardState::new(&model).run(&ids, None).unwrap());
    assert_eq!(
        state.run(&ids, Some(&mut Witness::default())),
        Err(ForwardError::NotFirst { cached: 6 })
    );
    assert_eq!(
        state.run(&[300], None),
        Err(ForwardError::UnknownToken {
            id: 300,
            position: 6,
            vocab: 300
        })
    );
    assert_eq!(state.rows(), 6);
}

#[test]
fn fixture_size_witness_is_consistent() {
    let model = random_model(fixture_size_config(), WeightFormat::Int8, 10);
    let ids = random_ids(&model.config, 64, 10);
    check_witness(&model, &witness_of(&model, &ids[..9]));

    let mut state = ForwardState::new(&model);
    let clock = Instant::now();
    let mut witness = Witness::default();
    state.run(&ids, Some(&mut witness)).unwrap();
    println!("64 rows with witness: {:?}", clock.elapsed());
    assert_eq!(witness.logits.len(), 64 * model.config.vocab);
}

/// Threads share the tiles of a matrix for a single row, in parts that begin anywhere in a row of tiles.
#[test]
fn rows_alone_have_the_logits_of_rows_together() {
    let config = ModelConfig {
        hidden: 320,
        ff: 1088,
        layers: 1,
        ..fixture_size_config()
    };
    for format in [WeightFormat::Int8, WeightFormat::Int16] {
        let model = random_model(config.clone(), format, 4);
        let ids = random_ids(&model.config, 3, 4);
        let together = ForwardState::new(&model).run(&ids, None).expect("a text");
        for threads in [1, 3, 4] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let alone = pool.expect("a pool").install(|| {
                let mut state = ForwardState::new(&model);
                ids.iter()
                    .flat_map(|id| state.run(&[*id], None).expect("a row"))
                    .collect::<Vec<_>>()
            });
            assert!(alone == together, "{format:?}, {threads} threads");
        }
    }
}
