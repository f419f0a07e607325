//! Attacks on clipped values: a proof lists by how much a value exceeds int16, and what is not in the list was not clipped.

use stwo::core::fields::m31::BaseField;
use tessera_circuits::air::{base, requant};
use tessera_circuits::bounds::MAX_ATT_SHIFT;
use tessera_circuits::model::{ChannelShift, MatmulKind, MatrixId, WeightFormat};
use tessera_circuits::ops::{logits, softmax};
use tessera_circuits::rounding::Rounded;
use tessera_circuits::semantics::arg_max;
use tessera_circuits::shape::{Part, Shape};
use tessera_circuits::statistics::{Clip, Statistics, StatisticsError};
use tessera_prover::trace::Columns;
use tessera_prover::{prove_statement, ProveError};
use tessera_support::progress::Silent;
use tessera_testkit::{edit, extreme_model, odd_config};
use tessera_verifier::stark::StarkError;
use tessera_verifier::verify::VerifyError;

use crate::cheat::{Hooks, HONEST};
use crate::semantics::{one_token, one_token_of, QUERY};
use crate::values::{entry, integer, row, score, three_layers, Outputs};
use crate::{assert_claims_violated, assert_rejected, Caught, Scene};

/// A model that saturates nearly everywhere is provable, with all that it clips in the list.
#[test]
fn a_model_that_saturates_is_provable() {
    for format in [WeightFormat::Int8, WeightFormat::Int16] {
        let scene = Scene::of(extreme_model(odd_config(), format, 13));
        let (_, statistics) = scene.trace();
        let clips = |rounded| statistics.clips(rounded).count();
        for rounded in [
            Rounded::STATE,
            Rounded::NORM,
            Rounded::VALUE,
            Rounded::UP,
            Rounded::GATE,
        ] {
            assert!(clips(rounded) > 10, "{rounded:?}: {}", clips(rounded));
        }
        scene.attempt(&HONEST).expect("an honest proof");
    }
}

/// A quiet scene with a clipped value of the last attention output, which reaches nothing: its place in the list and row.
fn clipped(positive: bool) -> (Scene, usize, usize) {
    let scene = Scene::quiet();
    let (columns, statistics) = scene.trace();
    let shape = scene.shape();
    let axes = shape.full_axes(Part::ATT);
    let (index, clip) = statistics
        .clips
        .iter()
        .enumerate()
        .find(|(_, clip)| {
            let own = usize::from(clip.part) == Part::ATT.index() && clip.place(&axes)[0] == 2;
            own && (clip.excess > 0) == positive
        })
        .expect("a clipped value");
    let at = row(&shape, Part::ATT, &clip.place(&axes));
    let values: Vec<BaseField> = columns[Part::ATT.index()].iter().map(|c| c[at]).collect();
    assert_eq!(Outputs.output(&values), clip.value());
    (scene, index, at)
}

/// What comes of another list, under an honest trace.
fn relisted(scene: &Scene, change: &dyn Fn(&mut Vec<Clip>)) -> Result<(), VerifyError> {
    let hooks = Hooks {
        statistics: &|s| change(&mut s.clips),
        ..HONEST
    };
    scene.attempt(&hooks)
}

/// The same with the claims that it breaks.
fn broken(scene: &Scene, names: &'static [&'static str], change: &dyn Fn(&mut Vec<Clip>)) {
    let hooks = Hooks {
        statistics: &|s| change(&mut s.clips),
        ..HONEST
    };
    scene.assert_caught(Caught::Claims(names), &hooks);
}

/// The list is one of entries that the proof has, each once and in order: no second list for a trace, none without limit.
#[test]
fn the_list_is_sorted_unique_and_of_committed_entries() {
    let (scene, index, _) = clipped(true);
    let (_, Statistics { clips, .. }) = scene.trace();
    let misplaced = |result: Result<(), VerifyError>, at: usize| {
        assert_rejected!(result, VerifyError::Statistics(StatisticsError::ClipPlace { index }) if index == at);
    };
    let last = clips.len() - 1;
    misplaced(relisted(&scene, &|list| list.swap(index, index + 1)), index + 1);
    misplaced(relisted(&scene, &|list| list.insert(index, list[index])), index + 1);
    misplaced(
        relisted(&scene, &|list| list.push(Clip { part: 10, ..list[last] })),
        last + 1,
    );
    let other = |tensor| move |list: &mut Vec<Clip>| list[index].tensor = tensor;
    misplaced(relisted(&scene, &other(1)), index);
    // An alias of the entry beyond the part.
    let axes: u32 = scene.shape().full_axes(Part::ATT).iter().sum();
    misplaced(relisted(&scene, &|list| list[index].at |= 1 << axes), index);
    let many = relisted(&scene, &|list| list.resize(Statistics::MAX_CLIPS + 1, list[0]));
    assert_rejected!(
        many,
        VerifyError::Statistics(StatisticsError::TooManyClips { got: 65537, .. })
    );
}

/// Saturation denied: the value modulo 2^16, the value itself as an output, an entry left out of the list.
#[test]
fn saturation_is_not_denied() {
    for positive in [true, false] {
        let (scene, index, at) = clipped(positive);
        broken(&scene, &["accumulators"], &|list| {
            list.remove(index);
        });
        let (_, statistics) = scene.trace();
        let excess = i64::from(statistics.clips[index].excess);
        // The value itself is no int16; another output than the largest has a remainder that is none.
        let modulo = excess - (excess.signum() << 16);
        for (more, by) in [(excess, Caught::Lookup), (modulo, Caught::Lookup)] {
            let columns = |_: &Shape, all: &mut [Columns]| {
                let own = &mut all[Part::ATT.index()];
                let mut values: Vec<BaseField> = own.iter().map(|c| c[at]).collect();
                // The remainder is that of the value, which the output is now said to be.
                let out = Outputs.output(&values);
                Outputs.explain(&mut values, more - excess, 0);
                Outputs.set_output(&mut values, out + more);
                own.iter_mut().zip(values).for_each(|(c, v)| c[at] = v);
            };
            let hooks = Hooks {
                columns: &columns,
                statistics: &|s| {
                    s.clips.remove(index);
                },
                ..HONEST
            };
            scene.assert_caught(by, &hooks);
        }
    }
}

/// Saturation claimed where there is none, up and down. The excess that would explain it has the other sign, and with it the
/// value is clipped to the other end.
#[test]
fn saturation_is_not_claimed_where_there_is_none() {
    let scene = Scene::quiet();
    for end in [i64::from(i16::MAX), i64::from(i16::MIN)] {
        // The remainder makes up for it, and the list has nothing; or a value one beyond the range.
        for beyond in [0, end.signum()] {
            let columns = |shape: &Shape, all: &mut [Columns]| {
                let own = &mut all[Part::ATT.index()];
                let at = Outputs.find(shape, own, |v| Outputs.plain(v));
                let mut values: Vec<BaseField> = own.iter().map(|c| c[at]).collect();
                let out = Outputs.output(&values);
                Outputs.move_output(&mut values, end + beyond - out);
                Outputs.set_output(&mut values, end);
                own.iter_mut().zip(values).for_each(|(c, v)| c[at] = v);
            };
            let hooks = Hooks {
                columns: &columns,
                statistics: &|s| match beyond {
                    0 => (),
                    own => insert(&scene, s, own as i32),
                },
                ..HONEST
            };
            scene.assert_caught(Caught::Lookup, &hooks);
        }
        // The remainder is the true one, the excess makes up for the output: down where it should be up.
        let found = scene.trace().0;
        let at = Outputs.find(&scene.shape(), &found[Part::ATT.index()], |v| Outputs.plain(v));
        let values: Vec<BaseField> = found[Part::ATT.index()].iter().map(|c| c[at]).collect();
        let excess = Outputs.output(&values) - end;
        assert_ne!(excess.signum(), end.signum());
        let columns = |_: &Shape, all: &mut [Columns]| {
            let own = &mut all[Part::ATT.index()];
            (own[requant::OUT_HI][at], own[requant::OUT_LO][at]) = (base(end >> 8), base(end & 0xff));
        };
        let hooks = Hooks {
            columns: &columns,
            statistics: &|s| insert(&scene, s, excess as i32),
            ..HONEST
        };
        scene.assert_caught(Caught::Claim("clipped values"), &hooks);
    }
}

/// Lists the first plain value of the last attention output as one that was clipped.
fn insert(scene: &Scene, statistics: &mut Statistics, excess: i32) {
    let shape = scene.shape();
    let at = Outputs.find(&shape, &scene.trace().0[Part::ATT.index()], |v| Outputs.plain(v));
    list(statistics, Rounded::ATTENTION, entry(&shape, Part::ATT, at), excess);
}

/// Adds an entry in its place.
fn list(statistics: &mut Statistics, rounded: Rounded, at: u64, excess: i32) {
    statistics.clips.push(Clip {
        part: rounded.part.index() as u8,
        tensor: rounded.tensor,
        at,
        excess,
    });
    statistics
        .clips
        .sort_unstable_by_key(|clip| (clip.part, clip.tensor, clip.at));
}

/// An honest value in the list: whatever its excess, the value is then another one or at the other end of the range.
#[test]
fn a_value_that_fits_is_not_in_the_list() {
    let scene = Scene::quiet();
    for excess in [1, -1] {
        let hooks = Hooks {
            statistics: &|s| insert(&scene, s, excess),
            ..HONEST
        };
        scene.assert_caught(Caught::Claims(&["accumulators", "clipped values"]), &hooks);
    }
}

/// The excess is that of the value: not more, not less, not nothing, not of the other sign.
#[test]
fn the_excess_is_that_of_the_value() {
    let (scene, index, _) = clipped(true);
    let (_, Statistics { clips, .. }) = scene.trace();
    let own = clips[index].excess;
    for excess in [own + 1, own - 1, 1 << 19] {
        if excess > 0 {
            broken(&scene, &["accumulators"], &|list| list[index].excess = excess);
        }
    }
    broken(&scene, &["accumulators", "clipped values"], &|list| {
        list[index].excess = -own;
    });
    // The total shift of the quiet model is 9: values are below 2^21.
    let most = (1 << 21) - 1 - i32::from(i16::MAX);
    broken(&scene, &["accumulators"], &|list| list[index].excess = most);
    for excess in [0, most + 1, i32::MAX, i32::MIN] {
        let result = relisted(&scene, &|list| list[index].excess = excess);
        assert_rejected!(result, VerifyError::Statistics(StatisticsError::ClipRange { excess: e, .. }) if e == excess);
    }
}

/// A value that explains the accumulator of another one modulo p: `2^T` times the excess goes around p. It is larger than any
/// accumulator.
#[test]
fn no_excess_wraps_modulo_p() {
    let scene = Outputs.scene_with(|v| Outputs.plain(v) && Outputs.output(v) < 0);
    let found = scene.trace().0;
    let at = Outputs.find(&scene.shape(), &found[Part::ATT.index()], |v| {
        Outputs.plain(v) && Outputs.output(v) < 0
    });
    let values: Vec<BaseField> = found[Part::ATT.index()].iter().map(|c| c[at]).collect();
    let out = Outputs.output(&values);
    // 512 times the value is 512 out + 1 modulo p if the value is out + 2^22.
    let excess = out + (1 << 22) - i64::from(i16::MAX);
    let columns = |_: &Shape, all: &mut [Columns]| {
        let own = &mut all[Part::ATT.index()];
        let mut values: Vec<BaseField> = own.iter().map(|c| c[at]).collect();
        Outputs.set_output(&mut values, i64::from(i16::MAX));
        own.iter_mut().zip(values).for_each(|(c, v)| c[at] = v);
    };
    let hooks = Hooks {
        columns: &columns,
        statistics: &|s| {
            list(
                s,
                Rounded::ATTENTION,
                entry(&scene.shape(), Part::ATT, at),
                excess as i32,
            )
        },
        ..HONEST
    };
    let result = scene.attempt(&hooks);
    assert_rejected!(result, VerifyError::Statistics(StatisticsError::ClipRange { excess: e, .. }) if i64::from(e) == excess);
}

/// A list that is chosen after the challenges: any excess then balances any false claim. The list is absorbed before.
#[test]
fn the_list_is_not_chosen_after_the_challenges() {
    let (scene, index, _) = clipped(true);
    type Change<'a> = &'a dyn Fn(&mut Vec<Clip>);
    let changes: [Change<'_>; 2] = [
        &|list| {
            list.remove(index);
        },
        &|list| list[index].excess += 1,
    ];
    for change in changes {
        let hooks = Hooks {
            shown: &|s| change(&mut s.clips),
            ..HONEST
        };
        assert_rejected!(scene.attempt(&hooks), VerifyError::Gkr(_));
    }
}

/// A logit that is better than the claimed one is listed as clipped to the smallest there is: its excess has the sign of the
/// largest.
#[test]
fn a_better_logit_is_not_clipped_away() {
    let scene = Scene::false_output();
    let (at, claimed) = scene.statement.generated().last().expect("an output");
    let vocab = scene.model.key.config.vocab;
    let logits = &scene.witness.logits[at * vocab..(at + 1) * vocab];
    let top = i64::from(logits[claimed as usize]);
    let better: Vec<usize> = (0..vocab)
        .filter(|id| i64::from(logits[*id]) + i64::from(*id < claimed as usize) > top)
        .collect();
    assert!(better.contains(&arg_max(logits)));
    let place = |shape: &Shape, id: usize| row(shape, Part::LOGITS, &[scene.statement.output.len() - 1, id]);
    let columns = |shape: &Shape, all: &mut [Columns]| {
        for id in &better {
            let margin = top - i64::from(*id < claimed as usize) - i64::from(i16::MIN);
            all[Part::LOGITS.index()][logits::MARGIN][place(shape, *id)] = base(margin);
        }
    };
    let shape = scene.shape();
    let hooks = Hooks {
        columns: &columns,
        statistics: &|s| {
            for id in &better {
                let excess = i32::from(logits[*id]) - i32::from(i16::MIN);
                list(
                    s,
                    Rounded::LOGIT,
                    entry(&shape, Part::LOGITS, place(&shape, *id)),
                    excess,
                );
            }
        },
        ..HONEST
    };
    scene.assert_caught(Caught::Claim("clipped values"), &hooks);
}

/// A row whose logits are all below the smallest int16 is not provable: no output token has that logit, the first one as little as another
/// whose logit is listed as clipped to it.
#[test]
fn a_row_of_the_smallest_logits_is_not_provable() {
    let scene = one_token();
    let (hidden, params) = (scene.model.key.config.hidden, &scene.model.key.params);
    let last = scene.witness.streams.last().expect("a state");
    let row: Vec<i64> = last.y[QUERY * hidden..][..hidden].iter().map(|y| (*y).into()).collect();
    let magnitude: i64 = row.iter().map(|y| y.abs()).sum();
    // All logits become about -40000.
    let shift = 2;
    let weight = (40_000 << (8 + shift)) / magnitude;
    assert!(
        0 < weight && weight <= params.max_weight(MatmulKind::Head).into(),
        "{weight}"
    );
    let mut model = scene.model.quantised.clone();
    edit(&mut model, MatrixId::HEAD, |head| {
        for (i, w) in head.iter_mut().enumerate() {
            *w = -(weight * row[i % hidden].signum()) as i16;
        }
    });
    model.params.head = ChannelShift(vec![shift]);
    let mut scene = one_token_of(model);
    let vocab = scene.model.key.config.vocab;
    let logits = &scene.witness.logits[QUERY * vocab..][..vocab];
    assert!(logits.iter().all(|logit| *logit == i16::MIN));
    assert_eq!(scene.statement.output, [0]);
    let (_, statistics) = scene.trace();
    let listed: Vec<u64> = statistics.clips(Rounded::LOGIT).map(|clip| clip.at).collect();
    assert_eq!(listed, [0], "the others have a margin");
    scene.assert_caught(Caught::Lookup, &HONEST);
    scene.statement.output = vec![7];
    scene.assert_caught(Caught::Lookup, &HONEST);
    scene.statement.output = vec![0];
    let result = prove_statement(&scene.model.prover(), scene.statement, None.into(), &Silent).map(|_| ());
    assert!(
        matches!(result, Err(ProveError::SmallestLogit { output: 0 })),
        "{result:?}"
    );
}

/// A quiet scene that clips values of its last layer, and the place in the list of one of the last token, which its own query alone sees.
/// It is an int16, or it is none. With this shift no attention output is clipped.
fn clipped_value(is_int16: bool) -> (Scene, usize) {
    let found = (7..40).find_map(|seed| {
        let mut model = three_layers(seed);
        model.params.layers[2].attention.v = ChannelShift(vec![1]);
        let scene = Scene::quiet_with(model, MAX_ATT_SHIFT);
        let (shape, last) = (scene.shape(), scene.statement.rows() - 1);
        let axes = shape.full_axes(Part::V);
        let (_, statistics) = scene.trace();
        let own = |clip: &Clip| {
            let place = clip.place(&axes);
            let fits = i16::try_from(clip.value() + i64::from(clip.excess)).is_ok();
            usize::from(clip.part) == Part::V.index() && place[..2] == [2, last] && fits == is_int16
        };
        let index = statistics.clips.iter().position(own)?;
        Some((scene, index))
    });
    found.expect("a clipped value")
}

/// Another value in the place of a clipped one, and the attention outputs that follow from it.
fn set_value(scene: &Scene, clip: &Clip, out: i64, all: &mut [Columns]) {
    let shape = scene.shape();
    let place = clip.place(&shape.full_axes(Part::V));
    let [layer, token, kv_head, x] = [0, 1, 2, 3].map(|axis| place[axis]);
    let cell = &mut all[Part::V.index()][requant::OUT][row(&shape, Part::V, &place)];
    let more = out - integer(*cell);
    *cell = base(out);
    for head in (0..shape.config.heads).filter(|head| shape.config.kv_head(*head) == kv_head) {
        let pair = score(&shape, [layer, head], [token, token]);
        let probability = integer(all[Part::SCORES.index()][softmax::P][pair]);
        let at = row(&shape, Part::ATT, &[layer, token, head, x]);
        let own = &mut all[Part::ATT.index()];
        let mut values: Vec<BaseField> = own.iter().map(|c| c[at]).collect();
        let (pow, rest) = (Outputs.rest().pow(), Outputs.rest().rest());
        let sum = integer(values[rest]) + probability * more;
        let moved = sum.div_euclid(integer(values[pow]));
        values[rest] = base(sum.rem_euclid(integer(values[pow])));
        let before = Outputs.output(&values);
        Outputs.set_output(&mut values, before + moved);
        own.iter_mut().zip(values).for_each(|(c, v)| c[at] = v);
    }
}

/// Values of attention have 15 bits, so that no sum of probabilities times values wraps. One that has 16 is in no table, though no claim
/// denies it and the attention outputs that follow from it.
#[test]
fn a_value_has_no_more_bits_than_its_own() {
    for is_int16 in [true, false] {
        let (scene, index) = clipped_value(is_int16);
        let clip = scene.trace().1.clips[index];
        let columns = |_: &Shape, all: &mut [Columns]| {
            set_value(&scene, &clip, clip.value() + i64::from(clip.excess), all);
        };
        let hooks = Hooks {
            columns: &columns,
            statistics: &|s| {
                s.clips.remove(index);
            },
            broken_claims: &|broken| assert_eq!(broken(), [""; 0]),
            ..HONEST
        };
        assert_rejected!(scene.attempt(&hooks), VerifyError::Stark(StarkError::Lookups));
        scene.assert_caught(Caught::Lookup, &hooks);
    }
}

/// A clipped value of attention is at an end of 15 bits. An end of int16, with all that follows from it, is not what the list says (and is in
/// no table); and an entry that counts from there, with the value at its own end, stands for another sum.
#[test]
fn a_clipped_value_has_the_ends_of_its_bits() {
    let (scene, index) = clipped_value(false);
    let clip = scene.trace().1.clips[index];
    let [least, most] = [i16::MIN, i16::MAX].map(i64::from);
    let end = if clip.excess > 0 { most } else { least };
    let excess = (clip.value() + i64::from(clip.excess) - end) as i32;
    assert_ne!(excess, 0);
    broken(&scene, &["accumulators"], &|list| list[index].excess = excess);
    let columns = |_: &Shape, all: &mut [Columns]| set_value(&scene, &clip, end, all);
    let hooks = Hooks {
        columns: &columns,
        statistics: &|s| s.clips[index].excess = excess,
        broken_claims: &|broken| assert_eq!(broken(), ["clipped values"]),
        ..HONEST
    };
    assert_claims_violated(scene.attempt(&hooks));
}
