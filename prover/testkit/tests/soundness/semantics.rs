//! Attacks on what the model computes: a trace that follows, from a deviation on, in every value, so that only the
//! check of the deviation itself can catch it.

use num_traits::{One, Zero};
use stwo::core::fields::m31::BaseField;
use tessera_circuits::air::base;
use tessera_circuits::model::{
    Activation, ChannelShift, MatmulKind, MatrixId, ModelConfig, ModelParams, NormParams, Rotation, WeightFormat,
    LAYER_KINDS,
};
use tessera_circuits::ops::softmax;
use tessera_circuits::semantics::{exp_table, reciprocal, MASKED};
use tessera_circuits::shape::{Part, Shape};
use tessera_model::QuantisedModel;
use tessera_prover::column::elements;
use tessera_prover::trace::{Columns, Source};
use tessera_testkit::{edit, odd_config, plain_config, random_model, rotations_config};

use crate::cheat::{Hooks, HONEST};
use crate::forward::{forward, Deviation, Softmax};
use crate::values::{row, score};
use crate::{assert_claims_violated, witness_of, Caught, Scene};

/// A scene whose witness deviates. The last token is not an input, so that the output need not be true for the rows
/// to be consistent; what it is does not matter here.
pub fn deviating(mut scene: Scene, deviation: &dyn Deviation) -> Scene {
    let ids = scene.statement.row_ids();
    let witness = forward(&scene.model.quantised, &ids, deviation);
    assert_ne!(witness, scene.witness, "the deviation changes something");
    scene.witness = witness;
    follow(&mut scene);
    scene
}

/// Makes the output what the witness gives: every generated token is the arg max of its row, as far as the rows go.
fn follow(scene: &mut Scene) {
    let vocab = scene.model.key.config.vocab;
    let rows: Vec<usize> = scene.statement.generated().map(|(row, _)| row).collect();
    let ids = rows
        .iter()
        .map(|row| tessera_circuits::semantics::arg_max(&scene.witness.logits[row * vocab..(row + 1) * vocab]) as u32);
    scene.statement.output = ids.collect();
}

/// The attacked row of softmax: the last row of the prompt, in every head of the last layer.
pub const QUERY: usize = 8;
pub const LAYER: usize = 1;

/// A change of the attacked rows.
struct Attention<F: Fn(&mut Softmax, &[u32])> {
    change: F,
    exps: Vec<u32>,
}

impl<F: Fn(&mut Softmax, &[u32])> Deviation for Attention<F> {
    fn softmax(&self, row: &mut Softmax) {
        if row.layer == LAYER && row.query == QUERY {
            (self.change)(row, &self.exps);
        }
    }
}

/// One output token, so that a deviation in the last row changes no row of the statement.
pub fn one_token() -> Scene {
    one_token_of(random_model(odd_config(), WeightFormat::Int16, 7))
}

/// The same of another model; the output is what it generates.
pub fn one_token_of(model: QuantisedModel) -> Scene {
    one_token_after(model, QUERY + 1)
}

/// As [`one_token_of`], with one more token behind the attacked row, which must not see it.
pub fn one_token_later(model: QuantisedModel) -> Scene {
    one_token_after(model, QUERY + 2)
}

/// The same after a prompt of so many tokens.
fn one_token_after(model: QuantisedModel, prompt: usize) -> Scene {
    let mut scene = Scene::of(model);
    scene.statement.prompt = tessera_testkit::random_ids(&scene.model.key.config, prompt, 3);
    scene.statement.output.truncate(1);
    scene.witness = witness_of(&scene.model.quantised, &scene.statement);
    follow(&mut scene);
    scene
}

pub fn attention(change: impl Fn(&mut Softmax, &[u32])) -> Scene {
    attention_in(one_token(), change)
}

fn attention_in(scene: Scene, change: impl Fn(&mut Softmax, &[u32])) -> Scene {
    let exps = exp_table(scene.model.key.params.score_bits);
    deviating(scene, &Attention { change, exps })
}

fn renormalise(row: &mut Softmax) {
    row.sum = row.exp.iter().sum();
    row.recip = reciprocal(row.sum);
}

/// Exponentials with respect to a maximum.
fn exponentials(row: &mut Softmax, keys: usize, exps: &[u32]) {
    for (e, s) in row.exp.iter_mut().zip(&row.scores[..keys]) {
        *e = exps[(i32::from(row.max) - i32::from(*s)) as usize];
    }
    renormalise(row);
}

/// Alters cells of the attacked row in every head: those of its keys, up to the next one, and its maximum.
pub fn in_every_head(change: impl Fn(&mut [Columns], [usize; QUERY + 2], usize)) -> impl Fn(&Shape, &mut [Columns]) {
    move |shape, all| {
        for head in 0..shape.config.heads {
            let keys = std::array::from_fn(|key| score(shape, [LAYER, head], [QUERY, key]));
            change(all, keys, row(shape, Part::SOFTMAX, &[LAYER, head, QUERY]));
        }
    }
}

/// A change of the rows of a query's scores, and of its maximum.
type Change = dyn Fn(&mut [Columns], [usize; QUERY + 2], usize);

/// A larger maximum than any score, which flattens the rounding and, further up, erases the small exponentials: no
/// key attains it.
#[test]
fn the_maximum_is_attained() {
    let raise = |row: &mut Softmax, exps: &[u32]| {
        // As far as the sum has a reciprocal in the tables.
        let largest = row.max;
        let raised = (1..=700).rev().find(|by| {
            row.max = largest + by;
            exponentials(row, QUERY + 1, exps);
            row.sum >= 1 << 15
        });
        raised.expect("a sum of more than one key");
    };
    // A key less than one attains it.
    attention(raise).assert_caught(Caught::Lookup, &HONEST);
    let scene = attention(raise);
    let with = |by, change: &Change| {
        let columns = in_every_head(|all, keys, line| {
            let ties = &mut all[Part::SOFTMAX.index()][softmax::TIES][line];
            assert_eq!(*ties, base(-1));
            *ties = base(0);
            change(all, keys, line);
        });
        let hooks = Hooks {
            columns: &columns,
            ..HONEST
        };
        scene.assert_caught(by, &hooks);
    };
    let attained = Caught::Claim("a maximum is attained");
    with(attained, &|_, _, _| ());
    // As many as there are rows modulo p.
    with(attained, &|all, _, line| {
        all[Part::SOFTMAX.index()][softmax::TIES][line] = base(0xffff)
    });
    // A key is said to have a difference of zero.
    with(Caught::Lookup, &|all, keys, _| {
        all[Part::SCORES.index()][softmax::ZERO][keys[3]] = BaseField::one();
    });
    // It has one, and with it another exponential; the score is not that of the maximum.
    with(
        Caught::Claims(&["accumulators", "differences", "softmax sums"]),
        &|all, keys, _| open(all, keys[3], 0, 1 << 15),
    );
    // A masked key attains it.
    with(
        Caught::Claims(&["accumulators", "masked pairs", "softmax sums"]),
        &|all, keys, _| open(all, keys[QUERY + 1], 0, 1 << 15),
    );
}

/// Writes difference and exponential of a pair.
fn open(all: &mut [Columns], at: usize, difference: i64, exp: i64) {
    let own = &mut all[Part::SCORES.index()];
    own[softmax::D][at] = base(difference);
    own[softmax::EXP][at] = base(exp);
    own[softmax::ZERO][at] = base(i64::from(difference == 0));
}

/// As many keys attain the maximum as have a difference of zero: not one more and not one less.
#[test]
fn ties_are_counted() {
    let scene = one_token();
    let by = |by: i64| {
        in_every_head(move |all, _, line| {
            let ties = &mut all[Part::SOFTMAX.index()][softmax::TIES][line];
            assert!(ties.0 <= QUERY as u32);
            *ties += base(by);
        })
    };
    let more = Hooks {
        columns: &by(1),
        ..HONEST
    };
    scene.assert_caught(Caught::Claim("a maximum is attained"), &more);
    // Less than none is in no table, either.
    let less = Hooks {
        columns: &by(-1),
        broken_claims: &|broken| assert_eq!(broken(), ["a maximum is attained"]),
        ..HONEST
    };
    assert_claims_violated(scene.attempt(&less));
}

/// A smaller maximum: the largest score is dropped from the softmax.
#[test]
fn the_maximum_is_not_below_a_score() {
    let lower = |row: &mut Softmax, exps: &[u32]| {
        let largest = row.max;
        row.max = *row.scores[..=QUERY]
            .iter()
            .filter(|s| **s < largest)
            .max()
            .expect("two scores");
        row.arg = row.scores.iter().position(|s| *s == row.max).expect("a score");
        for (e, s) in row.exp.iter_mut().zip(&row.scores[..=QUERY]) {
            *e = usize::try_from(i32::from(row.max) - i32::from(*s)).map_or(0, |d| exps[d]);
        }
        renormalise(row);
    };
    attention(lower).assert_caught(Caught::Lookup, &HONEST);
    // With the difference of a masked pair, whose exponential is zero, it is in the tables.
    let masked = in_every_head(|all, keys, _| {
        for at in keys {
            if all[Part::SCORES.index()][softmax::D][at].0 > 0xffff {
                open(all, at, MASKED.into(), 0);
            }
        }
    });
    attention(lower).assert_caught(
        Caught::Claim("differences"),
        &Hooks {
            columns: &masked,
            ..HONEST
        },
    );
}

/// The row attends to a token of a later block, whose scores are not committed: sums and outputs have it, and no cell does.
#[test]
fn keys_of_later_blocks_have_no_place() {
    let scene = one_token_after(random_model(odd_config(), WeightFormat::Int16, 7), 20);
    let shape = scene.shape();
    let later = 1 << shape.block();
    assert!(QUERY < later && shape.blocks() == 1 && shape.pairs(None).place(QUERY, later).is_none());
    let exps = exp_table(scene.model.key.params.score_bits);
    let look = |row: &mut Softmax, exps: &[u32]| {
        let below = i32::from(row.max) - i32::from(row.scores[later]);
        row.exp[later] = exps[usize::try_from(below).unwrap_or(0)];
        renormalise(row);
    };
    let caught = Caught::Claims(&["accumulators", "softmax sums"]);
    deviating(scene, &Attention { change: look, exps }).assert_caught(caught, &HONEST);
}

/// An exponential that is not in the table.
#[test]
fn exponentials_are_those_of_the_table() {
    let raise = |row: &mut Softmax, _: &[u32]| {
        row.exp[0] += 1;
        renormalise(row);
    };
    attention(raise).assert_caught(Caught::Lookup, &HONEST);
}

/// The row attends to the token after it.
#[test]
fn the_future_is_masked() {
    let look = |row: &mut Softmax, exps: &[u32]| {
        row.max = *row.scores[..QUERY + 2].iter().max().expect("a key");
        row.arg = row.scores.iter().position(|s| *s == row.max).expect("a maximum");
        exponentials(row, QUERY + 2, exps);
    };
    let later = one_token_later(random_model(odd_config(), WeightFormat::Int16, 7));
    let scene = attention_in(later, look);
    let caught = |by, change: &dyn Fn(&mut [Columns], usize, usize)| {
        let columns = in_every_head(|all, keys, line| {
            // The maximum may be that of the pair.
            let own = &all[Part::SCORES.index()];
            let zeros = keys.iter().filter(|at| own[softmax::D][**at].is_zero());
            all[Part::SOFTMAX.index()][softmax::TIES][line] = base(zeros.count() as i64 - 1);
            change(all, keys[QUERY + 1], line);
        });
        let hooks = Hooks {
            columns: &columns,
            ..HONEST
        };
        scene.assert_caught(by, &hooks);
    };
    // With the difference of a masked pair the exponential is in no table; with its own it is.
    let masked = Caught::Claim("masked pairs");
    caught(masked, &|all, at, line| {
        let difference = all[Part::SOFTMAX.index()][softmax::MAX][line] - all[Part::SCORES.index()][softmax::S][at];
        let exp = all[Part::SCORES.index()][softmax::EXP][at];
        open(all, at, difference.0.into(), exp.0.into());
        if difference.is_zero() {
            // If no other key attains the maximum.
            let ties = &mut all[Part::SOFTMAX.index()][softmax::TIES][line];
            *ties += BaseField::one();
        }
    });
}

/// Another sum of exponentials, with the reciprocal and the probabilities that follow from it.
#[test]
fn the_sum_of_exponentials_is_that_of_the_row() {
    let alter = |row: &mut Softmax, _: &[u32]| {
        row.sum += 5000;
        row.recip = reciprocal(row.sum);
    };
    attention(alter).assert_caught(Caught::Claim("softmax sums"), &HONEST);
}

/// Other sums of squares, with the reciprocal square root and everything downstream that follow from them.
#[test]
fn sums_of_squares_are_those_of_the_row() {
    struct Norm;
    impl Deviation for Norm {
        fn norm(&self, token: usize, sums: &mut [i64; 3]) {
            if token == QUERY {
                sums[0] += sums[0] / 3 + 1;
            }
        }
    }
    deviating(one_token(), &Norm).assert_caught(Caught::Claim("accumulators"), &HONEST);
}

fn grouped() -> ModelConfig {
    ModelConfig {
        heads: 4,
        kv_heads: 2,
        ..odd_config()
    }
}

/// Queries of the last head are compared with the keys of the first.
#[test]
fn keys_are_those_of_the_head() {
    struct Keys;
    impl Deviation for Keys {
        fn key_head(&self, head: usize, honest: usize) -> usize {
            if head == 3 {
                0
            } else {
                honest
            }
        }
    }
    let mut scene = Scene::of(random_model(grouped(), WeightFormat::Int16, 7));
    scene.statement.output.truncate(1);
    scene.witness = witness_of(&scene.model.quantised, &scene.statement);
    deviating(scene, &Keys).assert_caught(Caught::Claim("accumulators"), &HONEST);
}

/// The last MLP replaces the residual instead of being added to it.
#[test]
fn the_residual_is_kept() {
    struct Dropped;
    impl Deviation for Dropped {
        fn keeps_residual(&self, layer: usize) -> bool {
            layer != 1
        }
    }
    let scene = deviating(one_token(), &Dropped);
    let mut zero = scene.witness.clone();
    zero.streams[3].x.fill(0);
    let columns = |shape: &Shape, all: &mut [Columns]| {
        // The last state's rows from a witness whose state before is zero; everything else stays.
        let source = Source {
            shape,
            params: &scene.model.key.params,
            statement: &scene.statement,
            said: &scene.statement,
            input: None,
            witness: &zero,
            tops: &[],
        };
        let forged = elements(&source.columns(Part::STREAM).0);
        let rows = row(shape, Part::STREAM, &[4, 0, 0])..row(shape, Part::STREAM, &[5, 0, 0]);
        for (own, forged) in all[Part::STREAM.index()].iter_mut().zip(forged) {
            own[rows.clone()].copy_from_slice(&forged[rows.clone()]);
        }
    };
    scene.assert_caught(
        Caught::Claim("accumulators"),
        &Hooks {
            columns: &columns,
            ..HONEST
        },
    );
}

/// A whole proof of another model than the key's: of the model itself everything holds.
pub fn impostor(claim: &'static str, change: impl Fn(&mut QuantisedModel)) {
    caught_impostor(Caught::Claim(claim), change);
}

/// As [`impostor`], caught by whatever must.
fn caught_impostor(by: Caught, change: impl Fn(&mut QuantisedModel)) {
    caught_impostor_of(one_token(), by, change);
}

pub fn caught_impostor_of(mut scene: Scene, by: Caught, change: impl Fn(&mut QuantisedModel)) {
    let mut other = scene.model.quantised.clone();
    change(&mut other);
    let witness = witness_of(&other, &scene.statement);
    assert_ne!(witness, scene.witness, "the change changes something");
    scene.witness = witness;
    follow(&mut scene);
    let hooks = Hooks {
        source: Some(&other),
        ..HONEST
    };
    scene.assert_caught(by, &hooks);
}

#[test]
fn angles_are_those_of_the_position() {
    impostor("rotations", |m| m.config.rotations = vec![Rotation::Base(500.0)]);
}

/// A layer rotates by its own frequencies: neither by those of another layer, nor not at all, nor those pairs that stay.
#[test]
fn every_layer_has_its_own_rotation() {
    let key = || random_model(rotations_config(), WeightFormat::Int16, 7);
    let caught = |change: &dyn Fn(&mut QuantisedModel)| {
        caught_impostor_of(one_token_of(key()), Caught::Claim("rotations"), change);
    };
    // Two layers, swapped; a layer that is not rotated, rotated; all as the first.
    caught(&|m| m.config.rotation_of = vec![1, 0, 2, 0]);
    caught(&|m| m.config.rotation_of = vec![0, 1, 1, 0]);
    caught(&|m| m.config.rotation_of = vec![0; 4]);
    caught(&|m| m.config.rotations[1] = Rotation::Frequencies(vec![0.75, 0.03125, 0.25]));
    // Layers that the key does not tell apart.
    impostor("rotations", |m| {
        m.config.rotations.push(Rotation::Frequencies(vec![0.0; 3]));
        m.config.rotation_of = vec![0, 1];
    });
}

#[test]
fn gate_and_up_are_not_swapped() {
    impostor("accumulators", |m| {
        let (gate, up) = (m.matrix(MatmulKind::Gate.at(1)), m.matrix(MatmulKind::Up.at(1)));
        edit(m, MatmulKind::Gate.at(1), |matrix| *matrix = up);
        edit(m, MatmulKind::Up.at(1), |matrix| *matrix = gate);
    });
}

#[test]
fn layers_are_not_swapped() {
    impostor("accumulators", |m| {
        for kind in LAYER_KINDS {
            let [first, second] = [0, 1].map(|l| m.matrix(kind.at(l)));
            edit(m, kind.at(0), |matrix| *matrix = second);
            edit(m, kind.at(1), |matrix| *matrix = first);
        }
    });
}

#[test]
fn embeddings_are_those_of_the_tokens() {
    impostor("accumulators", |m| {
        let hidden = m.config.hidden;
        edit(m, MatrixId::EMBED, |embed| embed.rotate_left(hidden));
    });
}

/// Caught where the values are that were rounded, and where the shift bounds a remainder.
const SHIFTS: Caught = Caught::Claims(&["accumulators", "lookups"]);

#[test]
fn skips_are_those_of_the_key() {
    impostor("accumulators", |m| m.params.layers[0].mlp.skip.body -= 1);
}

#[test]
fn skips_of_leading_rows_are_those_of_the_key() {
    impostor("accumulators", |m| m.params.layers[0].mlp.skip.lead -= 1);
}

#[test]
fn shifts_into_the_stream_are_those_of_the_key() {
    caught_impostor(SHIFTS, |m| m.params.layers[1].attention.o.body.0[0] += 1);
}

#[test]
fn shifts_of_leading_rows_are_those_of_the_key() {
    caught_impostor(SHIFTS, |m| m.params.layers[1].mlp.down.lead += 1);
}

#[test]
fn shifts_of_mlp_products_are_those_of_the_class_of_the_row() {
    caught_impostor(SHIFTS, |m| m.params.layers[1].mlp.act.lead += 1);
}

/// Rows that are rounded as leading ones, and are none; and the first row, rounded like all others.
#[test]
fn leading_rows_are_those_of_the_statement() {
    // The epsilons of this model are too small to change a root.
    caught_impostor(SHIFTS, |m| m.params.leading.first = 2);
    caught_impostor(SHIFTS, |m| (m.params.leading.first, m.params.leading.run) = (0, false));
    // None are leading, as if the text had to begin with another token.
    caught_impostor(SHIFTS, |m| m.params.leading.token = Some(m.config.vocab as u32 - 1));
}

/// A channel with the statistics of another exponent.
#[test]
fn exponents_are_those_of_the_key() {
    const BY: Caught = Caught::Claim("accumulators");
    let with = |change: fn(&mut [u8])| caught_impostor(BY, |m| change(&mut m.params.exponents));
    with(|k| k[3] += 1);
    with(|k| k[4] = 1);
    with(|k| k[3] = 0);
}

/// A normed state in units that are off by one shift in a single channel: of norms with one shift and of norms with one for each channel.
#[test]
fn norm_shifts_are_those_of_the_key_in_every_channel() {
    let norms: [fn(&mut ModelParams) -> &mut NormParams; 3] = [
        |p| &mut p.layers[1].attention.norm,
        |p| &mut p.layers[0].mlp.norm,
        |p| &mut p.norm_final,
    ];
    for norm in norms {
        for channel in [0, 3] {
            caught_impostor(SHIFTS, |m| {
                let hidden = m.config.hidden;
                let shift = &mut norm(&mut m.params).shift;
                *shift = ChannelShift((0..hidden).map(|c| shift.at(c) - u8::from(c == channel)).collect());
            });
        }
    }
    // A channel of the stream in its own units is none in those of all others, and the other way round.
    caught_impostor(SHIFTS, |m| {
        m.params.layers[1].attention.norm.shift = m.params.norm_final.shift.clone()
    });
    caught_impostor(SHIFTS, |m| {
        m.params.norm_final.shift = m.params.layers[1].attention.norm.shift.clone()
    });
}

#[test]
fn score_shifts_are_those_of_the_key() {
    caught_impostor(SHIFTS, |m| m.params.layers[0].attention.score += 1);
}

/// Another bias of one channel, in one limb and in two; none at all; and those of another layer.
#[test]
fn biases_are_those_of_the_key() {
    let of = |m: &ModelParams, kind: MatmulKind, l: usize| {
        let own = |own: &MatmulKind| *own == kind;
        let place = l * LAYER_KINDS.len() + LAYER_KINDS.iter().position(own).unwrap_or(0);
        assert_eq!(m.biases[place], m.bias(kind.at(l)));
        place
    };
    for kind in LAYER_KINDS {
        impostor("accumulators", |m| {
            let place = of(&m.params, kind, 1);
            m.params.biases[place][3] += 1 << 20;
        });
    }
    impostor("accumulators", |m| m.params.biases[LAYER_KINDS.len() * 2][7] -= 1 << 20);
    impostor("accumulators", |m| m.params.biases.clear());
    impostor("accumulators", |m| m.params.biases.swap(0, LAYER_KINDS.len()));
}

/// The row of another position, or none.
#[test]
fn positions_are_those_of_the_rows() {
    let plain = || one_token_of(random_model(plain_config(), WeightFormat::Int16, 7));
    caught_impostor_of(plain(), Caught::Claim("accumulators"), |m| {
        let first = m.config.vocab * m.config.hidden;
        let hidden = m.config.hidden;
        edit(m, MatrixId::EMBED, |embed| embed[first..].rotate_left(hidden));
    });
    caught_impostor_of(plain(), Caught::Claim("accumulators"), |m| {
        let first = m.config.vocab * m.config.hidden;
        edit(m, MatrixId::EMBED, |embed| embed[first..].fill(0));
    });
}

/// An MLP that reads what attention wrote, where it should read what attention read.
#[test]
fn an_mlp_in_parallel_reads_the_state_before() {
    let plain = || one_token_of(random_model(plain_config(), WeightFormat::Int16, 7));
    caught_impostor_of(plain(), Caught::Claim("accumulators"), |m| {
        m.config.blocks.parallel = false
    });
    impostor("accumulators", |m| m.config.blocks.parallel = true);
}

/// What Down reads is what the table has for the up projection: of another function it is not.
#[test]
fn activations_are_those_of_the_table() {
    let plain = one_token_of(random_model(plain_config(), WeightFormat::Int16, 7));
    caught_impostor_of(plain, Caught::Lookup, |m| m.params.activation = Activation::Relu);
    caught_impostor(Caught::Lookup, |m| m.params.activation = Activation::Gelu);
}

#[test]
fn head_shifts_are_those_of_the_key() {
    caught_impostor(SHIFTS, |m| m.params.head.0[0] += 1);
}
