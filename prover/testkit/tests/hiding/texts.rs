//! Proofs that hide ids of the prompt or the output: honest ones are accepted, and no other text can be put in the place of a hidden one.

use stwo::core::fields::m31::BaseField;
use tessera_circuits::model::{LeadingRows, MatrixId, ModelConfig, Pooling, WeightFormat};
use tessera_circuits::ops::ids::{Digits, IS_DIGIT};
use tessera_circuits::ops::logits;
use tessera_circuits::shape::{LeafLimits, Part, Shape};
use tessera_circuits::statement::{Finish, HiddenIds, HiddenPrompt, Statement, StatementError, HIDDEN};
use tessera_prover::column::Column;
use tessera_prover::hiding::{Secrets, TapeKey};
use tessera_prover::{prove_statement, prove_with_secrets, ProofOptions, ProveError};
use tessera_support::progress::Silent;
use tessera_testkit::{
    banded_config, capped_config, encoder_config, odd_config, plain_config, random_model, random_model_with,
    reranker_config, windowed_config, TestModel,
};
use tessera_verifier::opening::OpeningError;
use tessera_verifier::suite::Suite;
use tessera_verifier::verify::{verify_bytes, verify_hidden, VerifyError};

use super::lies::{falsify, lie};
use super::{Scene, HIDING};

/// The prompt but for its first id, from which follows which rows are leading rows.
pub(super) const PROMPT: HiddenIds = HiddenIds {
    prompt: Some(HiddenPrompt { prefix: 1, suffix: 0 }),
    output: false,
};
/// The output.
pub(super) const OUTPUT: HiddenIds = HiddenIds {
    prompt: None,
    output: true,
};
/// Both, but for the first id and the last one of the prompt.
pub(super) const BOTH: HiddenIds = HiddenIds {
    prompt: Some(HiddenPrompt { prefix: 1, suffix: 1 }),
    output: true,
};

/// A change of a trace, part by part.
type Change<'a> = Box<dyn Fn(&Shape, &mut [Vec<Column>]) + 'a>;

impl Scene {
    /// The same scene with ids that are hidden.
    pub(super) fn hiding(mut self, ids: &HiddenIds) -> Self {
        let key = &self.model.key;
        let hidden = self.witness.hiding(ids, &key.config, &key.params.leading);
        self.statement = hidden.expect("a statement that can be hidden");
        self
    }

    /// A proof of a trace that is changed, and what a verifier says to it.
    fn changed(&self, change: &dyn Fn(&Shape, &mut [Vec<Column>])) -> Result<(), VerifyError> {
        self.claimed(|claim| {
            let secrets = Secrets::draw(self.code(), &TapeKey::of_test(9));
            let made = prove_with_secrets(&self.model.prover(), claim, &self.witness, secrets, change);
            let (proof, hidden, _) = made.expect("a proof");
            verify_hidden(claim, LeafLimits::OF_STATEMENTS, &proof, &hidden)
        })
    }

    /// Asserts that the folding, in which all equations are proved, refuses a trace that is changed.
    fn refuses(&self, name: &str, change: &dyn Fn(&Shape, &mut [Vec<Column>])) {
        let verdict = self.changed(change);
        assert!(
            matches!(verdict, Err(VerifyError::Opening(OpeningError::FoldClaim))),
            "{name}: {verdict:?}"
        );
    }
}

pub(super) const fn hiding(hidden_ids: HiddenIds) -> ProofOptions<'static> {
    ProofOptions {
        hide_activations: false,
        hidden_ids,
        ..HIDING
    }
}

/// Every way to hide ids, on decoders of all kinds and keys of both suites; ids that are hidden are in none of the bytes' words of the statement.
#[test]
fn hidden_texts_are_proved() {
    let scenes = [
        Scene::new(Suite::default(), odd_config()),
        Scene::new(Suite::Keccak, odd_config()),
        Scene::of(
            TestModel::new(random_model(plain_config(), WeightFormat::Int8, 7)),
            plain_config(),
        ),
        Scene::new(Suite::default(), capped_config()),
        Scene::new(Suite::default(), windowed_config(3, [0, 2])),
        Scene::new(Suite::default(), banded_config(1)),
    ];
    for scene in &scenes {
        for ids in [PROMPT, OUTPUT, BOTH] {
            let report = scene.prove(hiding(ids));
            let report = report.unwrap_or_else(|error| panic!("{ids:?}, {:?}: {error}", scene.model.key.config));
            let verified = verify_bytes(&scene.model.key, &report.bytes).expect("an honest proof");
            assert!(verified.hides_activations);
            assert_eq!(verified.security_bits, report.security_bits);
            let Statement { prompt, output } = &verified.statement;
            let shown: Vec<u32> = scene.witness.prompt.clone();
            let last = shown.len() - 1;
            let expected = match ids.prompt {
                None => shown,
                Some(HiddenPrompt { suffix, .. }) => (0..=last)
                    .map(|at| {
                        if at == 0 || at + suffix > last {
                            shown[at]
                        } else {
                            HIDDEN
                        }
                    })
                    .collect(),
            };
            assert_eq!(*prompt, expected);
            match ids.output {
                true => assert!(output.iter().all(|id| *id == HIDDEN) && output.len() == scene.witness.output.len()),
                false => assert_eq!(*output, scene.witness.output),
            }
            let finish = verified.statement.finish(&scene.model.key.config);
            assert_eq!(matches!(finish, Finish::Hidden { .. }), ids.output);
        }
    }
}

/// The text of an encoder is hidden, and its vector is shown; the vector cannot be hidden.
#[test]
fn texts_of_encoders_are_hidden() {
    for config in [
        encoder_config(Pooling::Mean),
        encoder_config(Pooling::First),
        reranker_config(None),
    ] {
        let scene = Scene::new(Suite::default(), config);
        let report = scene.prove(hiding(PROMPT)).expect("a proof");
        let verified = verify_bytes(&scene.model.key, &report.bytes).expect("an honest proof");
        assert_eq!(verified.statement.output, scene.witness.output);
        assert!(verified.statement.prompt[1..].iter().all(|id| *id == HIDDEN));
        let error = scene.prove(hiding(OUTPUT)).expect_err("a hidden vector");
        assert!(
            matches!(error, ProveError::Statement(StatementError::HiddenVector)),
            "{error}"
        );
    }
}

/// The column and the row of an entry of a part.
fn find(shape: &Shape, part: Part, column: usize, place: &[usize]) -> (usize, usize) {
    let axes = shape.axes(part);
    let in_lane = |lane: usize| {
        let start = shape.lane_start(part, lane);
        let within = place.iter().enumerate().map(|(axis, at)| {
            let first = start
                .iter()
                .find(|(own, _)| *own == axis)
                .map_or(0, |(_, first)| *first);
            at.checked_sub(first).filter(|at| *at < 1 << axes[axis])
        });
        let within: Vec<usize> = within.collect::<Option<_>>()?;
        let row = within.iter().zip(&axes).fold(0, |row, (at, log)| (row << log) | at);
        Some((lane * shape.lane_columns(part) + column, row))
    };
    (0..shape.lanes(part)).find_map(in_lane).expect("a committed entry")
}

/// The value of an entry.
fn get(shape: &Shape, columns: &[Vec<Column>], part: Part, column: usize, place: &[usize]) -> BaseField {
    let (column, row) = find(shape, part, column, place);
    columns[part.index()][column].cells().get(row)
}

/// Changes an entry.
fn set(
    shape: &Shape,
    columns: &mut [Vec<Column>],
    (part, column): (Part, usize),
    place: &[usize],
    value: impl Into<BaseField>,
) {
    let (column, row) = find(shape, part, column, place);
    let own = &mut columns[part.index()][column];
    let mut cells = own.elements();
    cells[row] = value.into();
    *own = cells.into();
}

/// Whoever changes digits of hidden ids, or which token is chosen, is refused: with the digits of another id, with two values of a digit, with none, with an id
/// beyond the vocabulary, with another chosen token, with two of them or none.
#[test]
fn no_other_text_is_hidden() {
    let scene = Scene::new(Suite::default(), odd_config()).hiding(&HiddenIds { output: true, ..PROMPT });
    scene.changed(&|_, _| ()).expect("an honest proof");
    let (vocab, digits) = (scene.model.key.config.vocab, Digits::of(scene.model.key.config.vocab));
    let (ids, outputs) = (scene.witness.row_ids(), scene.witness.output.clone());
    let write = |row: usize, id: Option<usize>| {
        move |shape: &Shape, columns: &mut [Vec<Column>]| {
            for digit in 0..2 {
                for value in 0..1 << digits.log {
                    let bit = id.is_some_and(|id| digits.bit(id, digit, value));
                    set(
                        shape,
                        columns,
                        (Part::IDS, IS_DIGIT),
                        &[row, digit, value],
                        u32::from(bit),
                    );
                }
            }
        }
    };
    let choose = |output: usize, entry: usize, value: u32| {
        move |shape: &Shape, columns: &mut [Vec<Column>]| {
            let column = logits::chosen(shape.limbs.head);
            set(shape, columns, (Part::LOGITS, column), &[output, entry], value);
        }
    };
    let other = |id: u32| (id as usize + 1) % vocab;
    let changes: Vec<(&str, Change<'_>)> = vec![
        ("another id", Box::new(write(0, Some(other(ids[1]))))),
        (
            "another id of an output token",
            Box::new(write(ids.len() - 2, Some(other(ids[ids.len() - 1])))),
        ),
        ("an id beyond the vocabulary", Box::new(write(1, Some(vocab)))),
        ("no id", Box::new(write(1, None))),
        (
            "two values of a digit",
            Box::new(|shape, columns| {
                let low = other(ids[1]) & ((1 << digits.log) - 1);
                set(shape, columns, (Part::IDS, IS_DIGIT), &[0, 1, low], 1);
            }),
        ),
        ("no chosen token", Box::new(choose(0, outputs[0] as usize, 0))),
        ("two chosen tokens", Box::new(choose(0, other(outputs[0]), 1))),
        (
            "another chosen token",
            Box::new(|shape, columns| {
                choose(0, outputs[0] as usize, 0)(shape, columns);
                choose(0, other(outputs[0]), 1)(shape, columns);
            }),
        ),
        (
            "another last token",
            Box::new(|shape, columns| {
                let last = outputs.len() - 1;
                choose(last, outputs[last] as usize, 0)(shape, columns);
                choose(last, other(outputs[last]), 1)(shape, columns);
            }),
        ),
    ];
    for (name, change) in changes {
        scene.refuses(name, &*change);
    }
}

/// The last token of an output that is hidden is bound by lookups alone. All sums fit what these two provers say, but not the lookups: one chooses a token
/// that has not the largest logit; the other one chooses none, with whole numbers that add up to one and are no bits.
#[test]
fn a_token_without_the_largest_logit_is_not_chosen() {
    let scene = Scene::new(Suite::default(), odd_config()).hiding(&OUTPUT);
    let outputs = &scene.witness.output;
    let (last, id) = (outputs.len() - 1, *outputs.last().expect("a token") as usize);
    assert!(id > 0, "a token before it");
    let (margin, top) = ((Part::LOGITS, logits::MARGIN), (Part::TOPS, logits::TOP));
    let add =
        |shape: &Shape, columns: &mut [Vec<Column>], (part, column): (Part, usize), place: &[usize], by: BaseField| {
            let value = get(shape, columns, part, column, place) + by;
            set(shape, columns, (part, column), place, value);
        };
    let one = BaseField::from(1);
    let smaller = |shape: &Shape, columns: &mut [Vec<Column>]| {
        let chosen = (Part::LOGITS, logits::chosen(shape.limbs.head));
        set(shape, columns, chosen, &[last, id], 0);
        set(shape, columns, chosen, &[last, id - 1], 1);
        // One less is below the token.
        add(shape, columns, margin, &[last, id - 1], one);
    };
    let none = |shape: &Shape, columns: &mut [Vec<Column>]| {
        let chosen = (Part::LOGITS, logits::chosen(shape.limbs.head));
        set(shape, columns, chosen, &[last, id], 0);
        // As if a larger logit were chosen.
        let most = BaseField::from(32_767);
        let raised = most - get(shape, columns, Part::TOPS, logits::TOP, &[last]);
        set(shape, columns, top, &[last], most);
        let vocab = shape.config.vocab;
        for entry in 0..vocab {
            // Nothing is chosen behind any entry so far.
            let below = u32::from(entry < id);
            add(shape, columns, margin, &[last, entry], raised + BaseField::from(below));
        }
        let margins: Vec<u32> = (0..vocab)
            .map(|entry| get(shape, columns, Part::LOGITS, logits::MARGIN, &[last, entry]).0)
            .collect();
        let pair = margins.windows(2).position(|own| own[0] > 32_768 && own[1] <= 32_767);
        let at = pair.expect("a small logit before a large one");
        // 65,535 times these are 32,767 and 32,768 in the field.
        set(shape, columns, chosen, &[last, at], -BaseField::from(32_768));
        set(shape, columns, chosen, &[last, at + 1], BaseField::from(32_769));
        for entry in 0..at {
            add(shape, columns, margin, &[last, entry], -one);
        }
        add(shape, columns, margin, &[last, at], -BaseField::from(32_769));
    };
    scene.changed(&|_, _| ()).expect("an honest proof");
    let changes: [(&str, Change<'_>); 2] = [
        ("a smaller logit", Box::new(smaller)),
        ("numbers that are no bits", Box::new(none)),
    ];
    for (name, change) in changes {
        scene.refuses(name, &*change);
    }
}

/// Ids whose embeddings are zeros: a prover can put digits that say nothing in their place without changing anything else. With the digits of another one of them
/// its proof is true of another prompt, and accepted. All other digits are refused: by the one claim, or by the lookups, that they violate.
#[test]
fn digits_that_are_no_ids_are_refused() {
    let vocab = odd_config().vocab;
    let digits = Digits::of(vocab);
    let [last_high, last_low] = digits.last;
    let low = last_low.min(2);
    // Two that differ in the high digit, two that differ in the low one.
    let zeros = [[1, low], [0, low], [1, low + 1]].map(|[high, low]| (high << digits.log) + low);
    let model = random_model_with(odd_config(), WeightFormat::Int8, 7, |id, weights| {
        if id == MatrixId::EMBED {
            let hidden = weights.len() / vocab;
            for zero in zeros {
                weights[zero * hidden..(zero + 1) * hidden].fill(0);
            }
        }
    });
    let mut scene = Scene::of(TestModel::new(model), odd_config());
    let first = (2 << digits.log) + low + 2;
    let prompt = [first, zeros[0], first + 1, 3].map(|id| id as u32);
    let options = tessera_model::generate::GenerateOptions::exactly(2);
    let statement = tessera_prover::generate_statement(&scene.model.prover(), &prompt, &options, &Silent);
    scene.witness = statement.expect("a text");
    let scene = scene.hiding(&PROMPT);
    let one = BaseField::from(1);
    let write = |high: &[usize], low: &[usize], spare: BaseField| {
        let (high, low) = (high.to_vec(), low.to_vec());
        move |shape: &Shape, columns: &mut [Vec<Column>]| {
            for (digit, own) in [&high, &low].into_iter().enumerate() {
                for value in 0..1 << digits.log {
                    let bit = u32::from(own.contains(&value));
                    set(shape, columns, (Part::IDS, IS_DIGIT), &[0, digit, value], bit);
                }
            }
            let last = (1 << digits.log) - 1;
            set(shape, columns, (Part::IDS, IS_DIGIT), &[0, 0, last], spare);
        }
    };
    let none = BaseField::from(0);
    for (high, low) in [(1, low), (0, low), (1, low + 1)] {
        scene
            .changed(&write(&[high], &[low], one))
            .expect("another prompt of zeros");
    }
    assert!(last_high > 1 && last_low + 1 < 1 << digits.log, "room for both");
    for (name, change) in [
        ("no high digit", write(&[], &[low], one)),
        ("two high digits", write(&[0, 1], &[low], one)),
        ("no low digit", write(&[1], &[], one)),
        ("two low digits", write(&[1], &[low, low + 1], one)),
        (
            "an id beyond the vocabulary",
            write(&[last_high], &[last_low + 1], none),
        ),
        ("the same, and minus a bit", write(&[last_high], &[last_low + 1], -one)),
        ("no bit of the range", write(&[1], &[low], none)),
    ] {
        scene.refuses(name, &change);
    }
}

/// Whoever says another message about the product of digits, under the true pad, is refused.
#[test]
fn messages_about_digits_are_not_free() {
    let scene = Scene::new(Suite::default(), odd_config()).hiding(&PROMPT);
    let tape = scene.code().tape;
    let own = tape.products.last().expect("the digits");
    let [first, second] = own.operands[..] else {
        panic!("two factors");
    };
    // Two rounds before them, the first one with two pads.
    lie(&scene, [first, second, first - 1, first - 4].into_iter());
    falsify(&scene, own.scalars(0).into_iter());
}

/// A prompt begins with the same id twice, and its prover says that the second one is another id: it would be one less than none of its digits.
#[test]
fn the_initial_run_does_not_end_early() {
    let mut model = random_model(odd_config(), WeightFormat::Int8, 7);
    model.params.leading = LeadingRows {
        first: 2,
        run: true,
        token: None,
    };
    let mut scene = Scene::of(TestModel::new(model), odd_config());
    let prompt = [7, 7, 5, 9];
    let options = tessera_model::generate::GenerateOptions::exactly(2);
    let statement = tessera_prover::generate_statement(&scene.model.prover(), &prompt, &options, &Silent);
    scene.witness = statement.expect("a text");
    let error = scene.prove(hiding(PROMPT)).expect_err("a run that is hidden");
    let needed = StatementError::HiddenLeading { needed: Some(2) };
    assert!(
        matches!(&error, ProveError::Statement(own) if *own == needed),
        "{error}"
    );
    scene.statement = scene.witness.clone();
    scene.statement.prompt[1..].fill(HIDDEN);
    for slack in [BaseField::from(0), BaseField::from(1), -BaseField::from(1)] {
        let verdict = scene.changed(&|shape, columns| {
            let end = shape.hidden.rows;
            set(shape, columns, (Part::IDS, IS_DIGIT), &[end, 0, 0], slack);
        });
        assert!(
            matches!(verdict, Err(VerifyError::Opening(OpeningError::FoldClaim))),
            "{slack}: {verdict:?}"
        );
    }
}

/// A hidden prompt cannot be claimed to give another output, nor the same output after other ids that are shown.
#[test]
fn what_is_shown_is_bound_to_what_is_hidden() {
    let scene = Scene::new(Suite::default(), odd_config());
    let proof = scene
        .prove(hiding(HiddenIds {
            prompt: BOTH.prompt,
            output: false,
        }))
        .expect("a proof")
        .proof;
    scene.verdict(&proof).expect("an honest proof");
    let vocab = scene.model.key.config.vocab as u32;
    for change in [
        |statement: &mut Statement, vocab: u32| statement.prompt[0] = (statement.prompt[0] + 1) % vocab,
        |statement: &mut Statement, vocab: u32| {
            *statement.prompt.last_mut().unwrap() = (statement.prompt.last().unwrap() + 1) % vocab
        },
        |statement: &mut Statement, vocab: u32| statement.output[0] = (statement.output[0] + 1) % vocab,
        |statement: &mut Statement, _: u32| *statement.output.last_mut().unwrap() = HIDDEN,
        |statement: &mut Statement, _: u32| statement.prompt[1] = 0,
        |statement: &mut Statement, _: u32| {
            statement.prompt.push(HIDDEN);
            statement.output.pop();
        },
    ] {
        let mut other = proof.clone();
        change(&mut other.statement, vocab);
        scene.verdict(&other).expect_err("another statement");
    }
    // A prover that claims another output of a hidden prompt.
    let mut lying = Scene::new(Suite::default(), odd_config());
    lying.witness.output[2] = (lying.witness.output[2] + 1) % vocab;
    prove_statement(&lying.model.prover(), lying.witness.clone(), hiding(PROMPT), &Silent).expect_err("a false output");
    prove_statement(&lying.model.prover(), lying.witness.clone(), hiding(OUTPUT), &Silent).expect_err("a false output");
}

/// A proof in clear has no hidden ids, and one that hides its activations alone has no product of digits.
#[test]
fn hidden_ids_need_proofs_that_hide() {
    let scene = Scene::new(Suite::default(), odd_config());
    let mut clear = scene.prove(ProofOptions::default()).expect("a proof").proof;
    clear.statement.prompt[1] = HIDDEN;
    let error = scene.verdict(&clear).expect_err("a hidden id in clear");
    assert!(
        matches!(error, VerifyError::Statement(StatementError::Hidden { position: 1 })),
        "{error}"
    );
    let mut shown = scene.prove(HIDING).expect("a proof").proof;
    let proof = scene.prove(hiding(PROMPT)).expect("a proof").proof;
    // A prover is not asked to prove the mark of a hidden id as if it were an id.
    let mut marked = scene.witness.clone();
    marked.prompt[1] = HIDDEN;
    for asked in [ProofOptions::default(), HIDING, hiding(PROMPT)] {
        let error = prove_statement(&scene.model.prover(), marked.clone(), asked, &Silent).expect_err("no id");
        assert!(
            matches!(error, ProveError::Statement(StatementError::Hidden { position: 1 })),
            "{error}"
        );
    }
    shown.hidden.as_mut().unwrap().digits = proof.hidden.clone().unwrap().digits;
    let error = scene.verdict(&shown).expect_err("digits of nothing");
    assert!(matches!(error, VerifyError::Digits { expected: 0, .. }), "{error}");
    for change in [
        |own: &mut tessera_verifier::hiding::DigitsProof| own.factors.clear(),
        |own: &mut tessera_verifier::hiding::DigitsProof| own.factors.push(own.factors[0]),
        |own: &mut tessera_verifier::hiding::DigitsProof| own.rounds.rounds.truncate(1),
    ] {
        let mut other = proof.clone();
        change(&mut other.hidden.as_mut().unwrap().digits);
        scene.verdict(&other).expect_err("other messages");
    }
}

/// Which rows are leading rows must follow from the ids that are shown; the error says how many of the first ones are enough.
#[test]
fn ids_that_decide_the_leading_rows_are_shown() {
    let config = odd_config();
    let statement = Statement {
        prompt: vec![5, 5, 7, 8],
        output: vec![9, 9],
    };
    let hide = |rule: LeadingRows, prefix: usize| {
        let prompt = Some(HiddenPrompt { prefix, suffix: 0 });
        statement.hiding(&HiddenIds { prompt, output: true }, &config, &rule)
    };
    let rule = |first, run, token| LeadingRows { first, run, token };
    for (rule, needed) in [
        (rule(0, false, None), 0),
        (rule(3, false, None), 0),
        (rule(1, true, None), 2),
        (rule(2, true, None), 2),
        (rule(5, true, None), 0),
        (rule(1, false, Some(5)), 1),
        (rule(1, false, Some(6)), 1),
        (rule(1, true, Some(6)), 1),
        (rule(1, true, Some(5)), 2),
    ] {
        for prefix in 0..4 {
            let own = hide(rule, prefix);
            match prefix < needed {
                true => assert_eq!(
                    own,
                    Err(StatementError::HiddenLeading { needed: Some(needed) }),
                    "{rule:?}"
                ),
                false => assert_eq!(
                    own.expect("enough is shown").leading(&rule),
                    statement.leading(&rule),
                    "{rule:?}"
                ),
            }
        }
    }
    let all = statement.hiding(
        &HiddenIds {
            prompt: Some(HiddenPrompt { prefix: 3, suffix: 1 }),
            output: false,
        },
        &config,
        &rule(0, false, None),
    );
    assert_eq!(all, Err(StatementError::NothingHidden { tokens: 4, shown: 4 }));
}

/// Lengths do not say how many ids are hidden beyond what the statement says: a proof of one hidden id, and of a prompt of one id.
#[test]
fn single_ids_are_hidden() {
    let config = ModelConfig { ..odd_config() };
    let scene = Scene::new(Suite::default(), config);
    let one = HiddenIds {
        prompt: Some(HiddenPrompt { prefix: 2, suffix: 1 }),
        output: false,
    };
    let report = scene.prove(hiding(one)).expect("a proof");
    assert_eq!(report.proof.statement.hidden_rows().collect::<Vec<_>>(), [2]);
    verify_bytes(&scene.model.key, &report.bytes).expect("an honest proof");
    let mut shortest = Scene::new(Suite::default(), odd_config());
    let prompt = scene.witness.prompt[..1].to_vec();
    let options = tessera_model::generate::GenerateOptions::exactly(1);
    let statement = tessera_prover::generate_statement(&shortest.model.prover(), &prompt, &options, &Silent);
    shortest.witness = statement.expect("a text");
    let error = shortest
        .prove(hiding(PROMPT))
        .expect_err("a prompt of one id, which is shown");
    assert!(
        matches!(
            error,
            ProveError::Statement(StatementError::NothingHidden { tokens: 1, shown: 1 })
        ),
        "{error}"
    );
    let report = shortest.prove(hiding(OUTPUT)).expect("a proof");
    verify_bytes(&shortest.model.key, &report.bytes).expect("an honest proof");
}
