//! A proof that hides activations fits other activations as well as it fits its own: for a second witness of the statement there are blind units, a tape
//! and a mask with which the real prover says the same, byte for byte, to the same challenges (docs/security.md, lemma 37). Only the root and the
//! paths below it, which are hashes, are others.
//!
//! Challenges are the same because the prover rehearses: it says the root of the first proof. The secrets are calculated in the order in which they depend on each
//! other: blind units from the opened rows, pads and masks of products from messages and answers, then together what is left of the tape, which decides the
//! opened values of the tape, and last the mask from the folded word.

use std::ops::{MulAssign, Sub};
use std::sync::{Arc, Mutex};

use num_traits::{One, Zero};
use stwo::core::circle::CirclePoint;
use stwo::core::fields::m31::{BaseField, P};
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use tessera_circuits::mle::eq_table;
use tessera_circuits::shape::{Part, Shape};
use tessera_circuits::statement::{HiddenIds, HiddenPrompt, Statement};
use tessera_model::generate::GenerateOptions;
use tessera_prover::column::Column;
use tessera_prover::hiding::{Record, Rehearsal, Script, Secrets};
use tessera_prover::{generate_statement, prove_with_secrets};
use tessera_support::progress::Silent;
use tessera_testkit::{odd_config, SplitMix};
use tessera_verifier::hiding::{HiddenCode, HiddenProof, Tape};
use tessera_verifier::opening::parts::{circle_fibre, line_coordinate, parts_of, parts_of_mut, Layout, FIBRE};
use tessera_verifier::proof::ChunkProof;
use tessera_verifier::suite::Suite;

use super::Scene;

type K = SecureField;

/// Values of a unit.
const UNIT: usize = 1 << 12;
/// Columns of mask and tape.
const COORDINATES: usize = 4;

/// The secrets of a proof, before the scalars of products are in their places.
#[derive(Clone)]
struct Drawn {
    blind: Vec<Vec<BaseField>>,
    mask: Vec<K>,
    tape: Vec<K>,
}

impl Drawn {
    fn random(code: &HiddenCode, seed: u64) -> Self {
        let mut random = SplitMix(seed);
        let mut element = || BaseField::from_u32_unchecked(random.below(P.into()) as u32);
        let columns = code.columns.tiles().len() / code.columns.column_tiles();
        let half = code.columns.column_tiles() * UNIT / 2;
        let blind = (0..columns).map(|_| (0..UNIT).map(|_| element()).collect());
        let blind = blind.collect();
        let [mask, tape] = [(); 2].map(|()| {
            let own = (0..half).map(|_| K::from_m31_array(std::array::from_fn(|_| element())));
            own.collect()
        });
        Self { blind, mask, tape }
    }

    fn secrets(&self, code: &HiddenCode) -> Secrets {
        let coordinate = |at: usize| {
            let pairs = self.mask.iter().zip(&self.tape);
            pairs.flat_map(move |(even, odd)| [even.to_m31_array()[at], odd.to_m31_array()[at]])
        };
        let coordinates = std::array::from_fn(|at| coordinate(at).collect());
        Secrets::of(code.clone(), self.blind.clone(), coordinates)
    }
}

/// A proof and what its prover had to say.
struct Rehearsed {
    proof: ChunkProof,
    hidden: HiddenProof,
    record: Record,
}

impl Rehearsed {
    /// The values of a column of the activations in the opened rows.
    fn rows(&self, code: &HiddenCode) -> Vec<Vec<[BaseField; FIBRE]>> {
        let rows = &parts_of(&self.proof.opening).codes[1].rows.values;
        let width = code.params.columns() * FIBRE;
        let column = |at: usize| {
            let own = rows.chunks(width).map(|row| [row[FIBRE * at], row[FIBRE * at + 1]]);
            own.collect()
        };
        (0..code.params.columns()).map(column).collect()
    }
}

/// Another witness of a statement: other ids that are hidden, or a change of the trace.
struct Other<'a> {
    ids: &'a Statement,
    change: &'a dyn Fn(&Shape, &mut [Vec<Column>]),
}

fn rehearse(scene: &Scene, secrets: Secrets, rehearsal: Rehearsal, Other { ids, change }: &Other<'_>) -> Rehearsed {
    let record = Arc::clone(&rehearsal.record);
    let secrets = secrets.rehearsing(rehearsal);
    let (proof, hidden, _) = scene
        .claimed(|claim| prove_with_secrets(&scene.model.prover(), claim, ids, secrets, change))
        .expect("a proof");
    let record = record.lock().expect("a record").clone();
    Rehearsed { proof, hidden, record }
}

/// Makes another witness of the statement: it copies the attention values of a text row into the padding rows, which nothing reads.
fn other_witness(rows: usize) -> impl Fn(&Shape, &mut [Vec<Column>]) {
    move |shape, columns| {
        let axes = shape.axes(Part::V);
        let (tokens, features) = (axes[1], axes[2..].iter().sum::<u32>());
        let mut changed = false;
        for column in &mut columns[Part::V.index()] {
            let Column::Small { cells, .. } = column else {
                panic!("an honest trace");
            };
            for row in 0..cells.len() {
                let token = row >> features & ((1 << tokens) - 1);
                if token >= rows {
                    let from = row - ((token - token % rows) << features);
                    changed |= cells[row] != cells[from];
                    cells[row] = cells[from];
                }
            }
        }
        assert!(changed, "another witness");
    }
}

/// The first values of the basis of a line code at `x`: value `j` is the product of `pi^b(x)` over the bits `b` of `j`.
pub(super) fn basis(x: BaseField, count: usize) -> Vec<BaseField> {
    let (mut all, mut power) = (vec![BaseField::one()], x);
    while all.len() < count {
        all.extend(all.clone().into_iter().map(|own| own * power));
        power = CirclePoint::double_x(power);
    }
    all.truncate(count);
    all
}

/// A solution of linear equations, each its coefficients and their sum, with zeros where any value will do; `None` if there is none.
pub(super) fn solve<F>(mut equations: Vec<(Vec<F>, F)>, unknowns: usize) -> Option<Vec<F>>
where
    F: Copy + Zero + FieldExpOps + MulAssign + Sub<Output = F>,
{
    let mut pivots = Vec::new();
    for column in 0..unknowns {
        let row = pivots.len();
        let Some(found) = (row..equations.len()).find(|at| !equations[*at].0[column].is_zero()) else {
            continue;
        };
        equations.swap(row, found);
        let inverse = equations[row].0[column].inverse();
        let own = &mut equations[row];
        own.0.iter_mut().for_each(|value| *value *= inverse);
        own.1 *= inverse;
        let (coefficients, sum) = equations[row].clone();
        for (at, other) in equations.iter_mut().enumerate() {
            let factor = other.0[column];
            if at == row || factor.is_zero() {
                continue;
            }
            for (value, own) in other.0.iter_mut().zip(&coefficients) {
                *value = *value - factor * *own;
            }
            other.1 = other.1 - factor * sum;
        }
        pivots.push(column);
    }
    if equations[pivots.len()..].iter().any(|(_, sum)| !sum.is_zero()) {
        return None;
    }
    let mut solution = vec![F::zero(); unknowns];
    for (column, (_, sum)) in pivots.into_iter().zip(equations) {
        solution[column] = sum;
    }
    Some(solution)
}

fn inner(a: &[K], b: &[K]) -> K {
    a.iter().zip(b).map(|(a, b)| *a * *b).sum()
}

/// Changes the first coefficients of blind units, so that the opened rows of a proof become the rows of another one.
fn solve_blind(drawn: &mut Drawn, code: &HiddenCode, leaves: &[usize], own: &Rehearsed, wanted: &Rehearsed) {
    let log_leaves = code.params.log_leaves();
    let slots = code.columns.column_tiles();
    let points: Vec<[BaseField; 2]> = leaves
        .iter()
        .map(|leaf| [line_coordinate(log_leaves, *leaf), circle_fibre(log_leaves, *leaf)])
        .collect();
    // The blind unit is the last of a column: all bits of its number are set.
    let factor = |x: BaseField| basis(x, slots * UNIT / 2)[(slots - 1) * UNIT / 2];
    let half = BaseField::from_u32_unchecked(1 << 30);
    let (before, after) = (own.rows(code), wanted.rows(code));
    for ((blind, before), after) in drawn.blind.iter_mut().zip(&before).zip(&after) {
        for odd in [false, true] {
            let equations = points
                .iter()
                .zip(before.iter().zip(after))
                .map(|([x, y], (before, after))| {
                    let [a, b] = [0, 1].map(|at| after[at] - before[at]);
                    let value = if odd {
                        (a - b) * half * y.inverse()
                    } else {
                        (a + b) * half
                    };
                    (basis(*x, points.len()), value * factor(*x).inverse())
                });
            let solution = solve(equations.collect(), points.len()).expect("as many coefficients as points");
            for (at, value) in solution.into_iter().enumerate() {
                blind[2 * at + usize::from(odd)] += value;
            }
        }
    }
}

/// Puts the pads and masks on the tape with which a prover of other messages says the messages of a proof. What is left are entries that follow together: the
/// unused ones, and the pads of the mask's cross values.
fn pads(code: &HiddenCode, script: &Script, own: &Record, challenge: K, tape: &mut [K]) {
    let layout = &code.tape;
    for entry in (layout.unused..layout.messages).chain(layout.cross..layout.entries) {
        tape[entry] = script.messages[entry] - own.messages[entry];
    }
    let operands = layout.products.iter().flat_map(|own| own.masks().zip(&own.operands));
    for ((mask, pad), answer) in operands.zip(&script.answers) {
        tape[mask] = *answer - challenge * tape[*pad];
    }
}

/// Calculates the rest of the tape, and the mask, given what the second prover would say and what the first one said.
fn solve_tape(
    code: &HiddenCode,
    leaves: &[usize],
    (first, first_tape): (&Rehearsed, &[K]),
    own: &Rehearsed,
    drawn: &mut Drawn,
    own_tape: &[K],
    script: &Script,
) -> Option<()> {
    let layout = &code.tape;
    let record = &own.record;
    // The cross values with the mask are the last of each point.
    let claims = record.points.len();
    let crossed: Vec<usize> = (0..claims)
        .map(|point| layout.cross + (point + 1) * claims - 1)
        .collect();
    let unknown: Vec<usize> = (0..layout.unused).chain(crossed.iter().copied()).collect();
    let known = {
        let mut known = drawn.secrets(code).tape().to_vec();
        unknown.iter().for_each(|entry| known[*entry] = K::zero());
        known
    };
    let length = known.len();
    let variables = length.ilog2() as usize;
    let weights: Vec<(K, Vec<K>)> = record
        .points
        .iter()
        .map(|(weight, point)| (*weight, eq_table(&point[..variables])))
        .collect();
    let (scale, mask_scale) = (record.tape_scale, record.scales[claims]);

    let mut equations = Vec::new();
    // The tape is the same at the opened positions, and so is its weighted sum.
    for leaf in leaves {
        let x = line_coordinate(code.params.log_leaves(), *leaf);
        let all: Vec<K> = basis(x, length).into_iter().map(K::from).collect();
        let sum = inner(&all, first_tape) - inner(&all, &known);
        equations.push((unknown.iter().map(|entry| all[*entry]).collect(), sum));
    }
    let mut all = vec![K::zero(); length];
    for (weight, table) in &weights {
        all.iter_mut().zip(table).for_each(|(sum, own)| *sum += *weight * *own);
    }
    let sum = first.hidden.tape.values[1] - inner(&all, &known);
    equations.push((unknown.iter().map(|entry| all[*entry]).collect(), sum));
    // The mask times its factor is what is left of the first word. At each point it is what was said less its pad.
    let width = record.word.len() / length;
    let difference: Vec<K> = first
        .record
        .word
        .iter()
        .zip(&record.word)
        .map(|(first, own)| *first - *own)
        .collect();
    let lifted = difference
        .chunks(width)
        .all(|own| own.iter().all(|value| *value == own[0]));
    assert!(lifted, "only what is lifted with the activations differs");
    let left: Vec<K> = (0..length)
        .map(|at| difference[at * width] + mask_scale * drawn.mask[at] + scale * (own_tape[at] - known[at]))
        .collect();
    for ((_, table), entry) in weights.iter().zip(&crossed) {
        let coefficient = |at: &usize| {
            let own = scale * table[*at];
            if at == entry {
                own - mask_scale
            } else {
                own
            }
        };
        let sum = inner(table, &left) - mask_scale * script.messages[*entry];
        equations.push((unknown.iter().map(coefficient).collect(), sum));
    }
    let solution = solve(equations, unknown.len())?;
    drawn.tape.clone_from(&known);
    for (entry, value) in unknown.iter().zip(solution) {
        drawn.tape[*entry] = value;
    }
    let inverse = mask_scale.inverse();
    let tapes = drawn.tape.iter().zip(&known);
    let mask = left.iter().zip(tapes);
    drawn.mask = mask
        .map(|(left, (tape, known))| (*left - scale * (*tape - *known)) * inverse)
        .collect();
    Some(())
}

/// Positions of the longer code that a proof opens, as leaves of the activations' tree: they follow from the transcript, and the prover finds them again
/// when it says the same. Of a proof they are found by its rows of the tape, whose values at all leaves are known.
fn opened(code: &HiddenCode, proof: &Rehearsed, tape: &[K]) -> Vec<usize> {
    let rows = proof.rows(code);
    let first = &rows[code.params.columns() - COORDINATES];
    let half = BaseField::from_u32_unchecked(1 << 30);
    let log_leaves = code.params.log_leaves();
    // The first coordinate tells leaves apart.
    let tape: Vec<BaseField> = tape.iter().map(|value| value.to_m31_array()[0]).collect();
    let of_leaf = |leaf: usize| {
        let all = basis(line_coordinate(log_leaves, leaf), tape.len());
        let terms = all.iter().zip(&tape).map(|(own, value)| *own * *value);
        terms.fold(BaseField::zero(), |sum, own| sum + own)
    };
    let mut leaves = Vec::new();
    let mut candidates = 0..1usize << log_leaves;
    for [a, b] in first {
        let found = candidates.find(|leaf| of_leaf(*leaf) * circle_fibre(log_leaves, *leaf) == (*a - *b) * half);
        leaves.push(found.expect("leaves in increasing order"));
    }
    leaves
}

/// Whether a proof with this code fits other activations.
fn equivocates(scene: &Scene, code: &HiddenCode, other: &Other<'_>) -> bool {
    let drawn = Drawn::random(code, 11);
    let secrets = drawn.secrets(code);
    let first_tape = secrets.tape().to_vec();
    let own = Other {
        ids: &scene.witness,
        change: &|_, _| (),
    };
    let first = rehearse(scene, secrets, Rehearsal::default(), &own);
    let layout = &code.tape;
    let leaves = opened(code, &first, &first_tape);

    let messages = first.record.messages.iter().zip(&first_tape);
    let script = Script {
        messages: messages.map(|(message, pad)| *message + *pad).collect(),
        answers: first.hidden.tape.answers.clone(),
        tape_values: first.hidden.tape.values,
        word: first.record.word.clone(),
    };
    let product = &layout.products[0];
    let (mask, pad) = (product.first, product.operands[0]);
    let challenge = (script.answers[0] - first_tape[mask]) * first_tape[pad].inverse();

    let mut second = Drawn::random(code, 12);
    let scripted = |drawn: &Drawn| {
        let secrets = drawn.secrets(code);
        let tape = secrets.tape().to_vec();
        let rehearsal = Rehearsal {
            root: Some(first.proof.activations),
            script: Some(script.clone()),
            ..Rehearsal::default()
        };
        (rehearse(scene, secrets, rehearsal, other), tape)
    };
    let (own, _) = scripted(&second);
    let unlike = own.record.messages.iter().zip(&first.record.messages);
    let unlike = unlike.filter(|(a, b)| a != b).count();
    let said = layout.messages - layout.unused;
    assert!(5 * unlike > 4 * said, "{unlike} of {said} messages differ");
    solve_blind(&mut second, code, &leaves, &own, &first);
    let (own, own_tape) = scripted(&second);
    let columns = code.params.columns() - COORDINATES;
    assert_eq!(own.rows(code)[..columns], first.rows(code)[..columns]);
    pads(code, &script, &own.record, challenge, &mut second.tape);
    let firsts = (&first, &first_tape[..]);
    if solve_tape(code, &leaves, firsts, &own, &mut second, &own_tape, &script).is_none() {
        return false;
    }

    // Nothing but the root is told to the prover any more.
    let rehearsal = Rehearsal {
        root: Some(first.proof.activations),
        record: Arc::new(Mutex::new(Record::default())),
        ..Rehearsal::default()
    };
    let mut made = rehearse(scene, second.secrets(code), rehearsal, other);
    assert_ne!(made.record.messages, first.record.messages);
    let paths = [&first, &made].map(|own| parts_of(&own.proof.opening).codes[1].rows.path.clone());
    assert_ne!(paths[0], paths[1]);
    parts_of_mut(&mut made.proof.opening).codes[1]
        .rows
        .path
        .clone_from(&paths[0]);
    assert_eq!(made.hidden, first.hidden);
    let bytes = [&first, &made].map(|own| own.proof.to_bytes().expect("it encodes"));
    assert!(bytes[0] == bytes[1], "the proofs differ beyond root and paths");
    true
}

#[test]
fn a_proof_fits_other_activations() {
    for scene in [Scene::small(), Scene::lifted()] {
        let other = Other {
            ids: &scene.witness,
            change: &other_witness(scene.statement.rows()),
        };
        assert!(equivocates(scene, &scene.code(), &other));
    }
}

/// A proof that hides prompt and output fits every other prompt of as many ids with the output that the model gives to it.
#[test]
fn a_proof_fits_other_texts() {
    let ids = HiddenIds {
        prompt: Some(HiddenPrompt { prefix: 1, suffix: 0 }),
        output: true,
    };
    let scene = Scene::new(Suite::default(), odd_config()).hiding(&ids);
    let mut prompt = scene.witness.prompt.clone();
    let vocab = scene.model.key.config.vocab as u32;
    prompt.iter_mut().skip(1).for_each(|id| *id = (*id + 3) % vocab);
    let options = GenerateOptions::exactly(scene.witness.output.len());
    let other = generate_statement(&scene.model.prover(), &prompt, &options, &Silent).expect("a text");
    assert_ne!(other.output, scene.witness.output);
    let other = Other {
        ids: &other,
        change: &|_, _| (),
    };
    assert!(equivocates(&scene, &scene.code(), &other));
}

/// A proof that shows the output fits another prompt that has the same output.
#[test]
fn a_proof_fits_other_prompts_with_the_same_output() {
    let ids = HiddenIds {
        prompt: Some(HiddenPrompt { prefix: 1, suffix: 0 }),
        output: false,
    };
    let mut scene = Scene::new(Suite::default(), odd_config());
    let vocab = scene.model.key.config.vocab as u32;
    // The last token alone, of which there are few.
    let of = |second: u32| {
        let prompt = [scene.witness.prompt[0], second, scene.witness.prompt[2]];
        let options = GenerateOptions::exactly(1);
        generate_statement(&scene.model.prover(), &prompt, &options, &Silent).expect("a text")
    };
    let others = (0..vocab).filter(|id| *id != scene.witness.prompt[0]).map(of);
    let others: Vec<Statement> = others.collect();
    let pairs = others.iter().enumerate().flat_map(|(at, own)| {
        let rest = others[at + 1..].iter();
        rest.map(move |other| (own, other))
    });
    let (own, other) = pairs
        .into_iter()
        .find(|(own, other)| own.output == other.output)
        .expect("two prompts");
    scene.witness = own.clone();
    let scene = scene.hiding(&ids);
    assert_eq!(scene.statement.output, other.output);
    let other = Other {
        ids: other,
        change: &|_, _| (),
    };
    assert!(equivocates(&scene, &scene.code(), &other));
}

/// The opened values of a tape with two unused entries fewer would tell witnesses apart.
#[test]
fn a_tape_with_fewer_unused_entries_fits_no_other_activations() {
    let scene = Scene::small();
    let code = scene.code();
    let fewer = code.tape.unused - 2;
    let (key, statement) = (&scene.model.key, &scene.statement);
    let opened = [key.opened(&scene.chunk), code.columns];
    let tape = Tape::of(&key.hidden_shape(statement.lengths()), fewer, &opened);
    let other = Other {
        ids: &scene.witness,
        change: &other_witness(statement.rows()),
    };
    assert!(!equivocates(scene, &HiddenCode { tape, ..code }, &other));
}
