//! Attacks through what belongs to nothing: padded layers and heads, rows behind the text.

use tessera_circuits::air::{base, requant};
use tessera_circuits::chunk::BoundaryError;
use tessera_circuits::model::{ModelConfig, Pooling, WeightFormat};
use tessera_circuits::ops::softmax;
use tessera_circuits::semantics::{arg_max, exp_table, probability, reciprocal};
use tessera_circuits::shape::{Part, Shape};
use tessera_circuits::statement::Statement;
use tessera_circuits::statistics::{Clip, StatisticsError};
use tessera_model::forward::{ForwardState, Witness};
use tessera_model::QuantisedModel;
use tessera_prover::trace::Columns;
use tessera_testkit::{clear, encoder_config, odd_config, random_ids, random_model, reranker_config, TestModel};
use tessera_verifier::verify::VerifyError;

use crate::cheat::{Hooks, HONEST};
use crate::forward::{forward, Deviation, Honest, Softmax};
use crate::values::cell;
use crate::{assert_rejected, Caught, Scene};

/// In one layer every row attends only to the key with the smallest score, as if that score were the maximum.
struct SmallestScore {
    layer: usize,
}

impl Deviation for SmallestScore {
    fn softmax(&self, row: &mut Softmax) {
        if row.layer != self.layer {
            return;
        }
        row.max = *row.scores[..=row.query].iter().min().expect("a key");
        row.arg = row.scores.iter().position(|s| *s == row.max).expect("a minimum");
        for (e, s) in row.exp.iter_mut().zip(&row.scores[..=row.query]) {
            *e = u32::from(*s == row.max) << 15;
        }
        row.sum = row.exp.iter().sum();
        row.recip = reciprocal(row.sum);
    }
}

#[test]
fn the_plain_forward_pass_is_the_real_one() {
    let quantised = random_model(odd_config(), WeightFormat::Int8, 7);
    let ids = random_ids(&quantised.config, 6, 3);
    let mut witness = Witness::default();
    ForwardState::new(&quantised)
        .run(&ids, Some(&mut witness))
        .expect("a forward pass");
    assert_eq!(forward(&quantised, &ids, &Honest), witness);
}

/// A negative difference is in no table, and no row takes its lookup back: every row looks up once, padded ones included.
/// What it would gain: any attention pattern.
#[test]
fn padded_layers_add_nothing_to_the_exponentials() {
    let config = ModelConfig {
        layers: 3,
        ..odd_config()
    };
    let attacked = 2;
    let mut statement = Statement {
        prompt: random_ids(&config, 5, 3),
        output: vec![0],
    };
    let ids = statement.row_ids();
    let at = (statement.rows() - 1) * config.vocab;
    let best = |witness: &Witness| arg_max(&witness.logits[at..at + config.vocab]);
    // A model whose output the attack changes.
    let mut attempts = (10..40).map(|seed| {
        let model = random_model(config.clone(), WeightFormat::Int16, seed);
        let witness = forward(&model, &ids, &SmallestScore { layer: attacked });
        let truth = best(&forward(&model, &ids, &Honest));
        (model, best(&witness), truth, witness)
    });
    let found = attempts.find(|(_, told, truth, _)| told != truth);
    let (model, told, _, witness) = found.expect("an attack that changes something");
    let model = TestModel::new(model);
    statement.output = vec![told as u32];
    let scene = Scene::whole(model, statement, witness);
    scene.assert_caught(Caught::Lookup, &HONEST);

    // The padded layer has the same difference with the opposite sign, and the tables pay for what is between them.
    let alter = |shape: &Shape, columns: &mut [Columns]| {
        let own = &mut columns[Part::SCORES.index()];
        let layer = 1usize << shape.axes(Part::SCORES)[1..].iter().sum::<u32>();
        for row in attacked * layer..(attacked + 1) * layer {
            let d = own[softmax::D][row];
            if d.0 > 1 << 16 {
                own[softmax::D][row + layer] = -d;
                own[softmax::EXP][row + layer] = -own[softmax::EXP][row];
                own[softmax::ZERO][row + layer] = base(0);
            }
        }
    };
    scene.assert_caught(
        Caught::Lookup,
        &Hooks {
            columns: &alter,
            ..HONEST
        },
    );
}

/// The maximum of a head that the model does not have, and how often it is attained, are read by nothing: the others are as
/// they were.
#[test]
fn padded_heads_have_no_softmax() {
    let scene = Scene::honest();
    let alter = |shape: &Shape, columns: &mut [Columns]| {
        let tokens = 1usize << shape.token;
        let line = ((1 << shape.axes(Part::SOFTMAX)[1]) - 1) * tokens;
        assert!(line >= shape.config.heads * tokens, "a padded head of the first layer");
        let own = &mut columns[Part::SOFTMAX.index()];
        (own[softmax::MAX][line], own[softmax::TIES][line]) = (base(-77), base(9));
    };
    let hooks = Hooks {
        columns: &alter,
        ..HONEST
    };
    scene.attempt(&hooks).expect("a true statement, as no claim reads it");
    // A real head that is said to be one that the model does not have.
    let real = |shape: &Shape, columns: &mut [Columns]| {
        let tokens = 1usize << shape.token;
        let own = &mut columns[Part::SOFTMAX.index()];
        own[softmax::MAX][(shape.config.heads - 1) * tokens] += base(1);
    };
    let hooks = Hooks {
        columns: &real,
        ..HONEST
    };
    scene.assert_caught(Caught::Claim("differences"), &hooks);
}

/// Rows of a text that ends in a block.
const ROWS: usize = 19;

/// A scene of a text of [`ROWS`] rows and one generated token, which is what the forward pass with a deviation says.
fn of_text(model: QuantisedModel, deviation: &dyn Deviation) -> Scene {
    let prompt = random_ids(&model.config, ROWS, 3);
    let witness = forward(&model, &prompt, deviation);
    let logits = &witness.logits[(ROWS - 1) * model.config.vocab..];
    let output = vec![arg_max(logits) as u32];
    Scene::whole(TestModel::new(model), Statement { prompt, output }, witness)
}

/// A scene of a text of [`ROWS`] tokens and its vector, and what the same model makes of the text with a token more.
fn of_vector(model: QuantisedModel) -> (Scene, Scene) {
    let scene = |model: &QuantisedModel, ids: &[u32]| {
        let mut witness = Witness::default();
        let run = ForwardState::new(model).run(ids, Some(&mut witness));
        run.expect("a forward pass");
        let hidden = model.config.hidden;
        let y = &witness.streams.last().expect("a state").y;
        let rows = model.config.pooled_rows(ROWS);
        let sum = |c: usize| (0..rows).map(|i| i32::from(y[i * hidden + c])).sum();
        let vector: Vec<i32> = (0..hidden).map(sum).collect();
        let statement = Statement::of_vector(ids.to_vec(), &vector);
        Scene::whole(TestModel::new(model.clone()), statement, witness)
    };
    let ids = random_ids(&model.config, ROWS + 1, 3);
    [&ids[..ROWS], &ids].map(|ids| scene(&model, ids)).into()
}

/// Takes rows of the trace of a longer text whose row spaces are the same: those of a part, query and key for which `which` holds. In all
/// parts but the scores a row has no key.
fn take(shape: &Shape, all: &mut [Columns], longer: &Scene, which: impl Fn(Part, usize, usize) -> bool) {
    assert_eq!(shape.text_rows(), longer.shape().text_rows());
    let (other, _) = longer.trace();
    for part in shape.parts().iter().copied() {
        let (axes, width) = (shape.axes(part), shape.lane_columns(part));
        for lane in 0..shape.lanes(part) {
            let start = shape.lane_start(part, lane);
            for row in 0..1usize << shape.log_rows(part) {
                let (mut rest, mut place) = (row, vec![0; axes.len()]);
                for (axis, log) in axes.iter().enumerate().rev() {
                    let first = start
                        .iter()
                        .find(|(own, _)| *own == axis)
                        .map_or(0, |(_, first)| *first);
                    place[axis] = first + (rest & ((1 << log) - 1));
                    rest >>= log;
                }
                let tokens = match part {
                    Part::SCORES => shape.pairs(None).tokens([place[2], place[3], place[4]]),
                    Part::SOFTMAX => Some((place[2], 0)),
                    // Of output tokens, not of rows.
                    Part::LOGITS | Part::TOPS => None,
                    _ => Some((place[1], 0)),
                };
                if tokens.is_some_and(|(query, key)| which(part, query, key)) {
                    for column in lane * width..(lane + 1) * width {
                        all[part.index()][column][row] = other[part.index()][column][row];
                    }
                }
            }
        }
    }
}

/// Every query sees a key behind the text beside the keys that it may see, as a key whose score is this much below the maximum.
struct Ghost {
    below: u32,
}

impl Ghost {
    fn exponential(&self, model: &QuantisedModel) -> u32 {
        exp_table(model.params.score_bits)[self.below as usize]
    }

    /// Puts the key into the rows of the scores and of softmax.
    fn show(&self, model: &QuantisedModel, shape: &Shape, all: &mut [Columns], recips: &[&[u32]]) {
        let exp = self.exponential(model);
        for (layer, recips) in recips.iter().enumerate() {
            for (line, recip) in recips.iter().enumerate() {
                let (head, query) = (line / ROWS, line % ROWS);
                let Some([pair, i, j]) = shape.pairs(None).place(query, ROWS) else {
                    continue;
                };
                let mut write = |part: Part, at: &[usize], column, value: i64| {
                    let [column, row] = cell(shape, part, at, column);
                    all[part.index()][column][row] = base(value);
                };
                let p = i64::from(probability(exp, *recip));
                let share = i64::from(exp) * i64::from(*recip);
                let rest = share + (1 << 20) - (p << 21);
                let high = i64::from(exp) * i64::from(recip >> softmax::LIMB_BITS);
                for (column, value) in [
                    (softmax::D, self.below.into()),
                    (softmax::EXP, exp.into()),
                    (softmax::ZERO, i64::from(self.below == 0)),
                    (softmax::P, p),
                    (softmax::P_HI, rest >> 8),
                    (softmax::P_LO, rest & 0xff),
                    (softmax::P_DELTA, high - (p << 8) + softmax::P_OFFSET),
                ] {
                    write(Part::SCORES, &[layer, head, pair, i, j], column, value);
                }
                if self.below == 0 {
                    let [column, row] = cell(shape, Part::SOFTMAX, &[layer, head, query], softmax::TIES);
                    all[Part::SOFTMAX.index()][column][row] += base(1);
                }
            }
        }
    }
}

/// Where the key is: in the block of the queries from [`ROWS`]' block on. Of others it is in no pair.
impl Deviation for (Ghost, u32) {
    fn softmax(&self, row: &mut Softmax) {
        if row.query >= ROWS & !15 {
            row.sum += self.1;
            row.recip = reciprocal(row.sum);
        }
    }
}

/// A key behind the text that attains the maximum, or is one of the sum, in a model that generates tokens; what attention would gain is any
/// sum. In encoders and rerankers every query meets such keys.
#[test]
fn padding_keys_do_not_change_what_is_proved() {
    for below in [0, 300] {
        let model = random_model(odd_config(), WeightFormat::Int16, 7);
        let ghost = Ghost { below };
        let exp = ghost.exponential(&model);
        assert!(exp > 0, "a key that counts");
        let scene = of_text(model.clone(), &(Ghost { below }, exp));
        assert_ne!(scene.witness, forward(&model, &scene.statement.prompt, &Honest));
        let recips: Vec<&[u32]> = scene.witness.layers.iter().map(|l| l.recip.as_slice()).collect();
        let columns = |shape: &Shape, all: &mut [Columns]| ghost.show(&model, shape, all, &recips);
        let hooks = Hooks {
            columns: &columns,
            ..HONEST
        };
        scene.assert_caught(Caught::Claim("masked pairs"), &hooks);
    }
    let encoder = random_model(encoder_config(Pooling::Mean), WeightFormat::Int16, 7);
    let reranker = random_model(reranker_config(None), WeightFormat::Int16, 7);
    for model in [encoder, reranker] {
        let (mut scene, longer) = of_vector(model);
        let columns = |shape: &Shape, all: &mut [Columns]| {
            // What is owned by rows of the text, and keys and values behind it.
            let keys = |part| [Part::K, Part::V].contains(&part);
            take(shape, all, &longer, |part, query, _| query < ROWS || keys(part));
        };
        let hooks = Hooks {
            columns: &columns,
            ..HONEST
        };
        let vector = longer.statement.vector().expect("a vector");
        assert_ne!(scene.statement.vector(), Some(vector.clone()));
        scene.statement = Statement::of_vector(scene.statement.prompt, &vector);
        scene.assert_caught(Caught::Claim("masked pairs"), &hooks);
    }
}

/// The probability of a key behind the text, of which no exponential says anything, with values of the key.
#[test]
fn padding_keys_have_no_probability() {
    let scene = of_text(random_model(odd_config(), WeightFormat::Int16, 7), &Honest);
    assert!(scene.attempt(&HONEST).is_ok());
    let [alone, with_values] = [false, true].map(|values| {
        move |shape: &Shape, all: &mut [Columns]| {
            let [pair, i, j] = shape.pairs(None).place(ROWS - 1, ROWS).expect("a pair");
            let [column, row] = cell(shape, Part::SCORES, &[0, 0, pair, i, j], softmax::P);
            all[Part::SCORES.index()][column][row] = base(9);
            if values {
                let [column, row] = cell(shape, Part::V, &[0, ROWS, 0, 0], requant::OUT);
                all[Part::V.index()][column][row] = base(7);
            }
        }
    });
    for columns in [&alone as &dyn Fn(&Shape, &mut [Columns]), &with_values] {
        let hooks = Hooks { columns, ..HONEST };
        scene.assert_caught(Caught::Claim("accumulators"), &hooks);
    }
}

/// The rows of keys and values behind the text are those of a token, and so are the scores of real queries: nothing reads them, so the
/// statement is what it was.
#[test]
fn padding_rows_say_nothing() {
    let model = random_model(odd_config(), WeightFormat::Int16, 7);
    let scene = of_text(model.clone(), &Honest);
    let ids = [scene.statement.prompt.as_slice(), &[5, 9]].concat();
    let statement = Statement {
        prompt: ids.clone(),
        output: vec![1],
    };
    let longer = Scene::whole(TestModel::new(model.clone()), statement, forward(&model, &ids, &Honest));
    let columns = |shape: &Shape, all: &mut [Columns]| {
        let before = all.to_vec();
        take(shape, all, &longer, |part, query, key| match part {
            Part::SCORES => query < ROWS && key >= ROWS,
            _ => [Part::K, Part::V].contains(&part) && query >= ROWS,
        });
        for part in [Part::K, Part::V, Part::SCORES] {
            assert_ne!(all[part.index()], before[part.index()], "{part:?}");
        }
    };
    let hooks = Hooks {
        columns: &columns,
        ..HONEST
    };
    scene.attempt(&hooks).expect("a true statement");
}

/// Entries of the list of clipped values in every part that has them, in the first row behind the text, and in pairs of a query of the text and a key behind
/// it, of a query behind it, and of blocks that are no pair.
#[test]
fn clips_of_padding_rows_are_refused() {
    let scene = of_text(random_model(odd_config(), WeightFormat::Int16, 7), &Honest);
    let (shape, proof) = (scene.shape(), scene.forge(&HONEST));
    let (model, key) = (&scene.model.quantised, &scene.model.key);
    let refused = |part: Part, place: &[usize], excess: i32| {
        let axes = shape.full_axes(part);
        let at = axes.iter().zip(place).fold(0, |at, (log, i)| (at << log) | *i as u64);
        let clips = (0..6).filter(|tensor| shape.shifts(part, *tensor).is_some());
        for tensor in clips {
            let mut proof = proof.clone();
            let part = part.index() as u8;
            proof.chunks[0].statistics.clips = vec![Clip {
                part,
                tensor,
                at,
                excess,
            }];
            let verdict = tessera_verifier::verify::verify(key, &proof).map(|_| ());
            assert_rejected!(
                verdict,
                VerifyError::Statistics(StatisticsError::ClipPlace { index: 0 })
            );
        }
    };
    assert!(model.config.is_causal() && shape.text_rows() > ROWS);
    for excess in [1, -1] {
        for part in [Part::STREAM, Part::Q, Part::K, Part::V, Part::ATT, Part::FF] {
            assert!(shape.extent(part, 1) > ROWS);
            refused(part, &[0, ROWS, 0, 0][..shape.full_axes(part).len()], excess);
        }
        for (query, key) in [(ROWS - 1, ROWS), (ROWS, ROWS - 1), (ROWS, ROWS)] {
            let [pair, i, j] = shape.pairs(None).place(query, key).expect("a committed pair");
            refused(Part::SCORES, &[0, 0, pair, i, j], excess);
        }
        let pairs = shape.pairs(None).count();
        refused(Part::SCORES, &[0, 0, pairs, 0, 0], excess);
    }
}

/// A model with biases is proved whatever part of its last block the text fills, so the constants of claims are those of as many rows. A
/// row behind the text may say that a maximum is attained as often as it likes: no constant counts it.
#[test]
fn constants_count_real_rows_alone() {
    let model = random_model(odd_config(), WeightFormat::Int16, 7);
    assert!(model.params.biases.iter().flatten().any(|bias| *bias != 0));
    let test = TestModel::new(model.clone());
    for rows in [1, 3, 5, 15, 17, 24] {
        let proof = test.prove_chunks(&random_ids(&model.config, rows, 4), 1, &[model.config.layers]);
        tessera_verifier::verify::verify(&test.key, &proof).expect("an honest proof");
    }
    let scene = of_text(model, &Honest);
    let more = |query: usize| {
        move |shape: &Shape, all: &mut [Columns]| {
            let [column, row] = cell(shape, Part::SOFTMAX, &[0, 0, query], softmax::TIES);
            all[Part::SOFTMAX.index()][column][row] += base(9);
        }
    };
    let [behind, last] = [ROWS, ROWS - 1].map(more);
    let hooks = Hooks {
        columns: &behind,
        ..HONEST
    };
    scene.attempt(&hooks).expect("a true statement");
    let hooks = Hooks {
        columns: &last,
        ..HONEST
    };
    scene.assert_caught(Caught::Claim("a maximum is attained"), &hooks);
}

/// A boundary has a row for each row of the text: not one less, none of the last block's others, and no power of two of them.
#[test]
fn boundaries_have_real_rows_alone() {
    let config = ModelConfig {
        layers: 2,
        ..odd_config()
    };
    let model = TestModel::new(random_model(config, WeightFormat::Int16, 7));
    let hidden = model.key.config.hidden;
    let honest = model.prove_chunks(&random_ids(&model.key.config, ROWS, 4), 1, &[1, 1]);
    tessera_verifier::verify::verify(&model.key, &honest).expect("an honest proof");
    assert_eq!(clear(&mut honest.boundaries[0].clone()).len(), ROWS * hidden);
    for rows in [ROWS - 1, ROWS + 1, 32] {
        let mut proof = honest.clone();
        clear(&mut proof.boundaries[0]).resize(rows * hidden, 0);
        let verdict = tessera_verifier::verify::verify(&model.key, &proof).map(|_| ());
        assert_rejected!(
            verdict,
            VerifyError::Boundaries(BoundaryError::Length { got, .. }) if got == rows * hidden
        );
    }
}
