//! Attacks within the proof of one chunk on boundaries that are committed to.

use num_traits::One;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::base;
use tessera_circuits::air::gadgets::Remainder;
use tessera_circuits::boundary::BoundaryUnits;
use tessera_circuits::chunk::{Boundary, Ends, PublicBoundary};
use tessera_circuits::model::WeightFormat;
use tessera_circuits::ops::stream;
use tessera_circuits::rounding::Rounded;
use tessera_circuits::shape::{Part, Shape};
use tessera_circuits::statement::Statement;
use tessera_circuits::statistics::{Clip, Statistics};
use tessera_prover::trace::Columns;
use tessera_testkit::{random_ids, random_model, wide_config, TestModel};
use tessera_verifier::opening::{CommitmentName, OpeningError, TreeName};
use tessera_verifier::verify::{open_transcript, ChunkStatement, VerifyError};

use crate::cheat::{Hooks, HONEST};
use crate::values::cell;
use crate::{assert_claims_violated, assert_rejected, witness_of, Caught, Scene};

type K = SecureField;

/// Rows and features that fill neither blocks nor powers of two.
const ROWS: usize = 132;
const HIDDEN: usize = 1000;

impl Scene {
    /// A chunk of a layer of three, with committed boundaries.
    pub fn wide(layer: usize) -> Self {
        let config = wide_config(HIDDEN, ROWS);
        let model = TestModel::new(random_model(config, WeightFormat::Int8, 7));
        let statement = Statement {
            prompt: random_ids(&model.key.config, ROWS, 3),
            output: vec![0],
        };
        let witness = witness_of(&model.quantised, &statement);
        Self::whole(model, statement, witness).of_layers(layer, layer + 1)
    }
}

/// The place of a value of a row and a feature in the units.
fn place(row: usize, feature: usize) -> usize {
    let in_row = HIDDEN.div_ceil(64);
    let unit = (row / 64) * in_row + feature / 64;
    4096 * unit + 64 * (row % 64) + feature % 64
}

/// A cell of state 0, of a row and a feature.
fn state_0<'a>(
    shape: &Shape,
    all: &'a mut [Columns],
    [token, feature]: [usize; 2],
    column: usize,
) -> &'a mut BaseField {
    let [column, row] = cell(shape, Part::STREAM, &[0, token, feature], column);
    &mut all[Part::STREAM.index()][column][row]
}

/// Without a lie the first chunk and one in the middle are accepted.
#[test]
fn without_a_lie_committed_boundaries_are_accepted() {
    let units = BoundaryUnits::of(ROWS, HIDDEN).expect("many values");
    assert_eq!(units.count(), 3 * 16);
    for layer in 0..2 {
        Scene::wide(layer).attempt(&HONEST).expect("an honest proof");
    }
}

/// A middle chunk, and another state than the one that enters, with all that follows from it.
fn false_input() -> (Scene, Boundary) {
    let mut scene = Scene::wide(1);
    let truth = scene.input.clone().expect("an input");
    let lie = scene.input.as_mut().expect("an input");
    for value in &mut lie.0[..3] {
        *value = value.wrapping_add(500).clamp(-20_000, 20_000);
    }
    scene.run();
    let lie = scene.input.replace(truth).expect("an input");
    (scene, lie)
}

/// The trace starts from another state than the committed one.
#[test]
fn state_0_is_the_committed_one() {
    let (scene, lie) = false_input();
    let hooks = Hooks {
        input: Some(&lie),
        ..HONEST
    };
    scene.assert_caught(Caught::Claim("what enters the chunk"), &hooks);
}

/// The same with a remainder and a difference that explain it, as if state 0 had its share in the sum of all accumulators.
#[test]
fn no_remainder_explains_another_state_0() {
    let (scene, lie) = false_input();
    let truth = scene.input.clone().expect("an input");
    let columns = |shape: &Shape, all: &mut [Columns]| {
        for (at, (told, real)) in lie.0.iter().zip(&truth.0).enumerate().filter(|(_, (t, r))| t != r) {
            let more = i64::from(*told) - i64::from(*real);
            // As far as the tables have it: what enters is doubled, and so is the state.
            let delta = Remainder::OFFSET - 2 * more;
            let mut set = |column, value| *state_0(shape, all, [at / HIDDEN, at % HIDDEN], column) = base(value);
            set(stream::UPDATE.d_hi(), delta >> 7);
            set(stream::UPDATE.d_lo(), delta & 127);
        }
    };
    let hooks = Hooks {
        columns: &columns,
        input: Some(&lie),
        ..HONEST
    };
    scene.assert_caught(Caught::Claim("what enters the chunk"), &hooks);
}

/// The remainder of state 0 is in no claim: whatever the tables have there changes nothing.
#[test]
fn the_remainder_of_state_0_is_free() {
    let columns = |shape: &Shape, all: &mut [Columns]| {
        *state_0(shape, all, [3, 5], stream::UPDATE.d_lo()) = base(77);
        *state_0(shape, all, [3, 5], stream::UPDATE.r_lo()) = base(9);
    };
    let hooks = Hooks {
        columns: &columns,
        ..HONEST
    };
    Scene::wide(1).attempt(&hooks).expect("free cells");
}

/// The same state 0 with a low limb below 0: the sum of both limbs is what is committed to. No lookup has it, and the claims of the norm, which
/// read limbs apart, do not hold either.
#[test]
fn limbs_of_state_0_are_in_range() {
    let columns = |shape: &Shape, all: &mut [Columns]| {
        *state_0(shape, all, [3, 5], stream::X_HI) += base(1);
        *state_0(shape, all, [3, 5], stream::X_LO) -= base(256);
    };
    let hooks = Hooks {
        columns: &columns,
        ..HONEST
    };
    assert_claims_violated(Scene::wide(1).attempt(&hooks));
}

/// A clipped value of state 0, which has no weight among the accumulators: the state would be the largest one there.
#[test]
fn a_clipped_state_0_is_what_is_committed() {
    let scene = Scene::wide(1);
    assert!(scene.input.as_ref().expect("an input").0[7] < i16::MAX);
    let statistics = |statistics: &mut Statistics| {
        let Rounded { part, tensor } = Rounded::STATE;
        let clip = Clip {
            part: part.index() as u8,
            tensor,
            at: 7,
            excess: 1,
        };
        statistics.clips.insert(0, clip);
    };
    let hooks = Hooks {
        statistics: &statistics,
        ..HONEST
    };
    scene.assert_caught(Caught::Claim("clipped values"), &hooks);
}

/// Something else than the last state behind an honest trace: a value more in the first or last row, and rows exchanged.
#[test]
fn the_last_state_is_the_committed_one() {
    let values = ROWS * HIDDEN;
    let row = |at: usize| at * HIDDEN..(at + 1) * HIDDEN;
    let exchanged = |output: &mut Vec<i16>| {
        let first = output[row(5)].to_vec();
        output.copy_within(row(6), 5 * HIDDEN);
        output[row(6)].copy_from_slice(&first);
    };
    for lie in 0..3 {
        let mut scene = Scene::wide(1);
        let output = &mut scene.output.as_mut().expect("an output").0;
        match lie {
            0 => output[0] += 1,
            1 => output[values - 1] += 1,
            _ => exchanged(output),
        }
        scene.assert_caught(Caught::Claim("what leaves the chunk"), &HONEST);
    }
}

/// What is committed to has values in a row behind the text, or in a feature that there is not.
#[test]
fn what_a_boundary_lacks_is_zero() {
    for (token, feature) in [(ROWS, 0), (191, 999), (3, HIDDEN), (131, 1023)] {
        let units = |values: &mut Vec<i16>| values[place(token, feature)] = 1;
        let hooks = Hooks {
            units: &units,
            ..HONEST
        };
        let broken = &["what enters the chunk", "what leaves the chunk"];
        Scene::wide(1).assert_caught(Caught::Claims(broken), &hooks);
    }
}

/// State 0 has a feature that there is not, as what is committed to has it. All other states lack it.
#[test]
fn a_padded_feature_of_state_0_is_that_of_all_states() {
    let units = |values: &mut Vec<i16>| values[place(3, HIDDEN)] = 1;
    let columns = |shape: &Shape, all: &mut [Columns]| {
        *state_0(shape, all, [3, HIDDEN], stream::X_LO) += base(1);
    };
    let hooks = Hooks {
        units: &units,
        columns: &columns,
        ..HONEST
    };
    assert_claims_violated(Scene::wide(1).attempt(&hooks));
}

/// Everything is true of another state, to which the prover has committed, too: the root is that of the true one.
#[test]
fn what_is_opened_is_what_the_root_is_of() {
    let (scene, lie) = false_input();
    let hooks = Hooks {
        input: Some(&lie),
        held: Some(Ends {
            input: Some(&lie),
            output: scene.output.as_ref(),
        }),
        ..HONEST
    };
    let tree = TreeName::Committed(CommitmentName::Input);
    assert_rejected!(scene.attempt(&hooks), VerifyError::Opening(OpeningError::Root { tree: t }) if t == tree);
}

/// The prover says something else of a boundary than it is at the random point, of either side: the claim on the state fails.
#[test]
fn what_is_said_of_a_boundary_is_claimed_of_the_state() {
    for (side, name) in [(0, "what enters the chunk"), (1, "what leaves the chunk")] {
        let hooks = Hooks {
            operands: &|operands| operands.last_mut().expect("a pair")[side] += K::one(),
            ..HONEST
        };
        Scene::wide(1).assert_caught(Caught::Claim(name), &hooks);
    }
}

/// The trace has another state, and the prover says what that is at the random point: the claim on the state holds, and the opening of the
/// boundary fails.
#[test]
fn what_is_said_of_a_boundary_is_opened() {
    let (scene, lie) = false_input();
    let hooks = Hooks {
        input: Some(&lie),
        told: Some(&lie),
        ..HONEST
    };
    let input = CommitmentName::Input;
    assert_rejected!(
        scene.attempt(&hooks),
        VerifyError::Opening(OpeningError::BandClaim { commitment }) if commitment == input
    );
}

/// Nothing enters the first chunk, so nothing is said of it.
#[test]
fn nothing_is_said_of_a_boundary_that_there_is_not() {
    let scene = Scene::wide(0);
    let hooks = Hooks {
        operands: &|operands| operands.last_mut().expect("a pair")[0] = K::one(),
        ..HONEST
    };
    assert_rejected!(scene.attempt(&hooks), VerifyError::NoBoundary);
    for more in [true, false] {
        let hooks = Hooks {
            operands: &|operands| match more {
                true => operands.push([K::one(); 2]),
                false => drop(operands.pop()),
            },
            ..HONEST
        };
        assert_rejected!(scene.attempt(&hooks), VerifyError::Products { .. });
    }
}

/// The prover draws its challenges before it has fixed what enters, or after it has fixed something else.
#[test]
fn roots_are_absorbed_before_all_challenges() {
    let scene = Scene::wide(1);
    let other = PublicBoundary::Committed([7; 32]);
    for input in [None, Some(&other)] {
        let hooks = Hooks {
            transcript: &|claim, activations| {
                let ends = Ends { input, ..claim.ends };
                open_transcript(&ChunkStatement { ends, ..*claim }, activations, None)
            },
            ..HONEST
        };
        assert_rejected!(scene.attempt(&hooks), VerifyError::Gkr(_));
    }
}
