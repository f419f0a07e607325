//! Whoever lies under a pad is refused: by the folding, in which all equations are proved.

use std::sync::Arc;

use num_traits::Zero;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use tessera_prover::column::Column;
use tessera_prover::hiding::{Record, Rehearsal, Secrets};
use tessera_verifier::hiding::{HiddenProof, Tape};
use tessera_verifier::opening::OpeningError;
use tessera_verifier::verify::VerifyError;

use super::{Scene, HIDING};

type K = SecureField;

/// Asserts that a proof with these secrets is refused by the folding, in which all equations are proved.
fn assert_refused(scene: &Scene, secrets: Secrets, what: &str) {
    let (.., verdict) = scene.attempt(scene.model.device, secrets);
    let folded = matches!(verdict, Err(VerifyError::Opening(OpeningError::FoldClaim)));
    assert!(folded, "{what}: {verdict:?}");
}

/// A prover that says another message than the true one, under the true pad of one of these entries, is refused: each message is bound by an equation.
pub(super) fn lie(scene: &Scene, entries: impl Iterator<Item = usize>) {
    for entry in entries {
        let lies = Rehearsal {
            lies: vec![(entry, K::from(1))],
            ..Rehearsal::default()
        };
        assert_refused(
            scene,
            scene.secrets(2).rehearsing(lies),
            &format!("a lie under pad {entry}"),
        );
    }
}

/// Scalars of products that do not fit pads and masks are refused.
pub(super) fn falsify(scene: &Scene, scalars: impl Iterator<Item = usize>) {
    for entry in scalars {
        let secrets = scene.secrets(3);
        let value = secrets.tape()[entry] + K::from(1);
        assert_refused(scene, secrets.with_entry(entry, value), &format!("scalar {entry}"));
    }
}

/// The entries with pads of messages, and those with scalars.
fn entries(tape: &Tape) -> [Vec<usize>; 2] {
    let messages = (tape.unused..tape.messages).chain(tape.cross..tape.entries);
    let scalars = tape.products.iter().flat_map(|own| {
        let forms = 0..own.forms.len();
        forms.flat_map(|form| own.scalars(form))
    });
    [messages.collect(), scalars.collect()]
}

/// An entry of every kind: sum and denominator of a root, a child, a round of lookups, claim, round and operands of the matmuls, a round of the linear
/// claims, round and evaluation of both commitments, all cross values; and the scalars of a layer and of the matmuls.
fn kinds(scene: &Scene) -> [Vec<usize>; 2] {
    let (tape, columns) = (scene.code().tape, scene.code().columns);
    let (first, matmuls) = (&tape.products[0], tape.products.last().expect("the matmuls"));
    let [child, .., sum, denominator] = first.operands[..] else {
        panic!("operands of a first layer");
    };
    let operands = matmuls.operands[0];
    let claims = matmuls.operands.last().expect("operands") + 1;
    let evaluation = tape.messages - 1;
    let weights = evaluation - 2 * columns.log_bands() as usize - 1;
    let mut messages = vec![sum, denominator, child];
    // The rounds of the second layer come after the children of the first one.
    messages.push(child + 4);
    // Before the operands of the matmuls their last round, and so many rounds before it the claim.
    let shape = scene.model.key.hidden_shape(scene.statement.lengths());
    messages.extend([operands - 1, operands - 1 - 2 * shape.product_variables() as usize]);
    messages.extend([
        operands,
        operands + 1,
        claims,
        weights - 1,
        weights,
        evaluation - 1,
        evaluation,
    ]);
    messages.extend(tape.cross..tape.entries);
    let scalars = [first, matmuls].map(|own| own.scalars(0));
    [messages, scalars.concat()]
}

#[test]
fn messages_and_scalars_are_not_free() {
    for scene in [Scene::small(), Scene::lifted()] {
        for seed in [2, 3] {
            let (.., verdict) = scene.attempt(scene.model.device, scene.secrets(seed));
            verdict.expect("an honest proof");
        }
        let [messages, scalars] = kinds(scene);
        let all = entries(&scene.code().tape);
        assert!(messages.iter().all(|own| all[0].contains(own)));
        assert!(scalars.iter().all(|own| all[1].contains(own)));
        lie(scene, messages.into_iter());
        falsify(scene, scalars.into_iter());
    }
}

/// Answers are bound to masks and pads, not by their products alone: of two factors one is doubled and the other one halved.
#[test]
fn answers_with_the_same_products_are_refused() {
    fn change(answers: &mut [K]) {
        let [.., a, b] = answers else {
            panic!("answers about the last matmul");
        };
        let two = K::from(2);
        assert!(!a.is_zero() && !b.is_zero());
        *a *= two;
        *b *= two.inverse();
    }
    let scene = Scene::small();
    let changed = Rehearsal {
        change_answers: Some(change),
        ..Rehearsal::default()
    };
    assert_refused(
        scene,
        scene.secrets(5).rehearsing(changed),
        "answers with the same products",
    );
}

/// A prover that says an entry of the tables is used once more than it is: lookups that do not balance the tables are refused under pads, too.
#[test]
fn lookups_that_do_not_balance_are_refused() {
    fn change(counts: &mut [Column]) {
        match &mut counts[0] {
            Column::Small { cells, .. } => cells[0] += 1,
            Column::Elements(cells) => cells[0] += BaseField::from(1),
        }
    }
    let scene = Scene::small();
    let changed = Rehearsal {
        change_counts: Some(change),
        ..Rehearsal::default()
    };
    assert_refused(
        scene,
        scene.secrets(7).rehearsing(changed),
        "a count that is one too large",
    );
}

/// Two equations are violated by as much, one by more and one by less: each has a weight of its own, so the violations do not cancel.
#[test]
fn violations_of_two_equations_do_not_cancel() {
    let scene = Scene::small();
    let tape = scene.code().tape;
    // The scalar of the masks is in one equation only.
    let [[.., a], [.., b]] = [0, 1].map(|form| tape.products[0].scalars(form));
    let secrets = scene.secrets(6);
    let [more, less] = [secrets.tape()[a] + K::from(1), secrets.tape()[b] - K::from(1)];
    let secrets = secrets.with_entry(a, more).with_entry(b, less);
    assert_refused(scene, secrets, "two scalars");
}

/// Makes a proof with the same secrets every time, in which these lies are told: the prover's record, what is said under no pad, and the verdict.
fn rehearsed(scene: &Scene, lies: Rehearsal) -> (Record, HiddenProof, Result<(), VerifyError>) {
    let record = Arc::clone(&lies.record);
    let secrets = scene.secrets(8).rehearsing(lies);
    let (_, hidden, verdict) = scene.attempt(scene.model.device, secrets);
    let record = record.lock().expect("a record").clone();
    (record, hidden, verdict)
}

/// Numerators of two leaves whose lies cancel in the equation of the last layer. Only the equation that they are one is violated.
#[test]
fn numerators_are_one() {
    let scene = Scene::small();
    let honest = scene.prove(HIDING).expect("a proof").proof;
    let layers = honest.chunks[0].lookups[0].layers.len();
    let [n0, d0, n1, d1, ..] = scene.code().tape.products[layers - 1].operands[..] else {
        panic!("operands of a last layer");
    };
    let (known, _, verdict) = rehearsed(scene, Rehearsal::default());
    verdict.expect("an honest proof");
    assert_eq!([n0, n1].map(|entry| known.messages[entry]), [K::from(1); 2]);
    let lies = Rehearsal {
        lies: vec![
            (n0, K::from(1)),
            (n1, -known.messages[d1] * known.messages[d0].inverse()),
        ],
        ..Rehearsal::default()
    };
    let (.., verdict) = rehearsed(scene, lies);
    let folded = matches!(verdict, Err(VerifyError::Opening(OpeningError::FoldClaim)));
    assert!(folded, "{verdict:?}");
}

/// A prover that knew the weights of points and columns could say false values of columns, because the lies cancel in the claim on the sum of all columns. The
/// verifier draws the weights after it has heard all values, so they do not cancel.
#[test]
fn cross_values_are_not_chosen_after_their_challenges() {
    let scene = Scene::small();
    let (known, _, verdict) = rehearsed(scene, Rehearsal::default());
    verdict.expect("an honest proof");
    let weight = |point: usize, column: usize| known.points[point].0 * known.scales[column];
    // The first one is of column 1 at the point of claim 0, the last one of the mask at the point of claim 1.
    let cross = scene.code().tape.cross;
    let lie = -weight(0, 1) * weight(1, 2).inverse();
    let lies = Rehearsal {
        lies: vec![(cross, K::from(1)), (cross + 3, lie)],
        ..Rehearsal::default()
    };
    let (drawn, _, verdict) = rehearsed(scene, lies);
    let folded = matches!(verdict, Err(VerifyError::Opening(OpeningError::FoldClaim)));
    assert!(folded, "{verdict:?}");
    assert_ne!(drawn.scales, known.scales);
}

/// A prover that knew the factor of the tape could say false values of columns and tape, because the lies cancel in the claim on the folded word,
/// `sum + scale tape + weight (equations + scale (constant - sum))`. The verifier draws the factor after it has heard the values, so they do not cancel.
#[test]
fn values_of_the_tape_are_not_chosen_after_their_challenge() {
    let scene = Scene::small();
    let (known, said, verdict) = rehearsed(scene, Rehearsal::default());
    verdict.expect("an honest proof");
    let (lie, scale) = (K::from(1), known.tape_scale);
    let lies = Rehearsal {
        tape_lies: [lie, -lie * scale.inverse(), lie * scale],
        ..Rehearsal::default()
    };
    let (drawn, false_values, verdict) = rehearsed(scene, lies);
    let folded = matches!(verdict, Err(VerifyError::Opening(OpeningError::FoldClaim)));
    assert!(folded, "{verdict:?}");
    // Up to the values of the tape both provers say the same.
    assert_eq!((&drawn.messages, &drawn.scales), (&known.messages, &known.scales));
    assert_ne!(false_values.tape.values, said.tape.values);
    assert_ne!(drawn.tape_scale, scale);
}

#[test]
#[ignore = "takes some minutes: all entries, of which the test above takes one of every kind; run by .ci/nightly"]
fn no_message_and_no_scalar_is_free() {
    for scene in [Scene::small(), Scene::lifted()] {
        let [messages, scalars] = entries(&scene.code().tape);
        lie(scene, messages.into_iter());
        falsify(scene, scalars.into_iter());
    }
}
