//! Attacks on the norms of what attention and MLP add: roots and sums that are not theirs, gains of others, states that are not
//! the sum of the two before.

use stwo::core::fields::m31::P;
use tessera_circuits::air::base;
use tessera_circuits::model::{ChannelShift, ModelConfig, PostNorm, WeightFormat, LAYER_KINDS};
use tessera_circuits::ops::norms::{
    COLUMNS, GAP, LEFT, LIMBS, LIMB_BITS, QUOTIENT, REST, ROOM_HI, ROOT, ROOT_CARRIES, SUM,
};
use tessera_circuits::ops::stream;
use tessera_circuits::shape::{Part, Shape};
use tessera_model::QuantisedModel;
use tessera_prover::ops::NormRow;
use tessera_prover::trace::Columns;
use tessera_testkit::{post_normed_config, random_model};

use crate::cells::Cells;
use crate::cheat::{Hooks, HONEST};
use crate::forward::Deviation;
use crate::semantics::{caught_impostor_of, deviating, one_token_of, LAYER, QUERY};
use crate::values::row;
use crate::{assert_claims_violated, Caught, Scene};

/// The attacked outputs, of attention and of the MLP, and the sums that follow them.
const OUTPUTS: [usize; 2] = [4 * LAYER + 1, 4 * LAYER + 3];

fn scene() -> Scene {
    one_token_of(random_model(post_normed_config(), WeightFormat::Int16, 7))
}

/// Other cells in the row of the attacked token of a state.
fn changed(state: usize, change: impl Fn(&mut Cells<'_>)) -> impl Fn(&Shape, &mut [Columns]) {
    move |shape, columns| {
        let row = row(shape, Part::NORMS, &[state, QUERY]);
        change(&mut Cells {
            columns: &mut columns[Part::NORMS.index()],
            row,
        });
    }
}

fn caught(scene: &Scene, by: Caught, state: usize, change: impl Fn(&mut Cells<'_>)) {
    let columns = changed(state, change);
    let hooks = Hooks {
        columns: &columns,
        ..HONEST
    };
    scene.assert_caught(by, &hooks);
}

/// An output is scaled by another root, with everything downstream.
struct OtherRoot(usize, i32);

impl Deviation for OtherRoot {
    fn output_root(&self, state: usize, token: usize, rsqrt: &mut u32) {
        if (state, token) == (self.0, QUERY) {
            *rsqrt = rsqrt.wrapping_add_signed(self.1);
        }
    }
}

#[test]
fn honest_sums_are_proved() {
    scene().attempt(&HONEST).expect("a true statement");
    // Without norms of heads, without gates, with one shift for all channels.
    let plain = ModelConfig {
        head_norms: false,
        gated: false,
        ..post_normed_config()
    };
    for (config, format) in [(plain, WeightFormat::Int8), (post_normed_config(), WeightFormat::Int8)] {
        let scene = one_token_of(random_model(config, format, 9));
        scene.attempt(&HONEST).expect("a true statement");
    }
}

/// The honest columns beside a root that is not theirs: the product says which root the outputs were multiplied with.
#[test]
fn the_root_of_an_output_is_the_one_that_scales() {
    for state in OUTPUTS {
        for by in [-1, 1, 1000] {
            let scene = deviating(scene(), &OtherRoot(state, by));
            caught(&scene, Caught::Claim("accumulators"), state, |cells| {
                let root = cells.value(QUOTIENT, LIMBS).unsigned_abs().isqrt() as i128;
                cells.extract(root);
            });
        }
    }
}

/// One more, or one less, with the columns of that root: the rest is negative, or more than twice the root.
#[test]
fn a_root_of_an_output_that_is_one_off() {
    for state in OUTPUTS {
        for by in [-1, 1] {
            let scene = deviating(scene(), &OtherRoot(state, by));
            caught(&scene, Caught::Lookup, state, |cells| {
                let root = cells.value(ROOT, 2);
                cells.extract(root);
            });
        }
        let scene = deviating(scene(), &OtherRoot(state, -1));
        for room in [0, 1, (1 << 13) - 1] {
            caught(&scene, Caught::Lookup, state, |cells| {
                let root = cells.value(ROOT, 2);
                cells.extract(root);
                *cells.at(ROOM_HI) = base(room);
            });
        }
    }
}

/// A quotient that is less leaves the sum or more, however the gap is said to be; one that is more leaves less than nothing.
#[test]
fn a_quotient_of_an_output_that_is_not_one() {
    for state in OUTPUTS {
        for by in [-1i128, 1, -3] {
            caught(&scene(), Caught::Lookup, state, |cells| {
                let (bound, quotient) = (cells.bound(), cells.value(QUOTIENT, LIMBS) + by);
                cells.divide(bound, quotient);
            });
        }
        for gap in [0i128, 1, 1 << 24, (1 << 36) - 1] {
            caught(&scene(), Caught::Lookup, state, |cells| {
                let (bound, quotient) = (cells.bound(), cells.value(QUOTIENT, LIMBS) - 1);
                cells.divide(bound, quotient);
                cells.set(GAP, LIMBS - 1, gap);
            });
        }
    }
}

/// The quotient of the bound less p: limbs are compared with those of the bound itself.
#[test]
fn a_division_of_an_output_modulo_p() {
    for state in OUTPUTS {
        caught(&scene(), Caught::Claim("accumulators"), state, |cells| {
            let bound = cells.bound() - i128::from(P);
            let quotient = bound / cells.value(SUM, LIMBS);
            cells.divide(bound, quotient);
        });
    }
}

/// Another sum of squares, with quotient and root of it: the limbs of the squares are those of the output, without exponents.
#[test]
fn a_sum_of_an_output_that_is_chosen() {
    for state in OUTPUTS {
        for by in [1i128, -1, 1 << 12, 1 << 24] {
            caught(&scene(), Caught::Claim("accumulators"), state, |cells| {
                let (bound, sum) = (cells.bound(), cells.value(SUM, LIMBS) + by);
                cells.set(SUM, LIMBS, sum);
                cells.divide(bound, bound / sum);
                cells.extract((bound / sum).unsigned_abs().isqrt() as i128);
            });
        }
    }
}

/// The sum of squares that an output would have with the exponents of the stream.
#[test]
fn an_output_has_no_exponents() {
    struct Weighted<'a>(usize, &'a Scene);
    impl Deviation for Weighted<'_> {
        fn output_norm(&self, state: usize, token: usize, sums: &mut [i64; 3]) {
            if state == self.0 {
                let (model, hidden) = (&self.1.model.quantised, self.1.model.key.config.hidden);
                let x = &self.1.witness.streams[state].x[token * hidden..][..hidden];
                *sums = tessera_circuits::semantics::norm_sums(x, &model.params.exponents);
            }
        }
    }
    for state in OUTPUTS {
        let honest = scene();
        assert!(honest.model.key.params.exponents.iter().any(|k| *k > 0));
        deviating(scene(), &Weighted(state, &honest)).assert_caught(Caught::Claim("accumulators"), &HONEST);
    }
}

/// A sum of which one part is another one by p, and everything downstream of it.
#[test]
fn a_sum_of_an_output_with_an_alias() {
    struct Alias(usize, usize, i64);
    impl Deviation for Alias {
        fn output_norm(&self, state: usize, token: usize, sums: &mut [i64; 3]) {
            if (state, token) == (self.0, QUERY) {
                sums[self.1] += self.2 * i64::from(P);
            }
        }
    }
    for state in OUTPUTS {
        for (part, by) in [(0, 1), (1, 1), (2, 1), (1, 2)] {
            deviating(scene(), &Alias(state, part, by)).assert_caught(Caught::Lookup, &HONEST);
        }
    }
}

/// Each cell of a row of norms alone: by what it is a limb of, whether or not its lookup holds, or by a lookup alone.
#[test]
fn every_cell_of_a_norm_of_an_output_is_held() {
    let scene = scene();
    for state in OUTPUTS {
        for column in 0..COLUMNS {
            if matches!(column, GAP..ROOT | ROOM_HI) {
                caught(&scene, Caught::Lookup, state, |cells| *cells.at(column) += base(1));
                continue;
            }
            let columns = changed(state, |cells| *cells.at(column) += base(1));
            let hooks = Hooks {
                columns: &columns,
                broken_claims: &|broken| assert_eq!(broken(), ["accumulators"], "column {column}"),
                ..HONEST
            };
            assert_claims_violated(scene.attempt(&hooks));
        }
    }
    // Carries that are one more are taken back by the limb above.
    let radix = base(1 << LIMB_BITS);
    caught(&scene, Caught::Lookup, OUTPUTS[0], |cells| {
        *cells.at(ROOT_CARRIES) += base(1);
        *cells.at(REST) += radix;
        *cells.at(REST + 1) -= base(1);
    });
    caught(&scene, Caught::Lookup, OUTPUTS[1], |cells| {
        *cells.at(LEFT) += radix;
        *cells.at(LEFT + 1) -= base(1);
        *cells.at(tessera_circuits::ops::norms::CARRIES) += base(1);
    });
}

/// Each committed cell of an output, of its normed value, and of the sum after it.
#[test]
fn every_cell_of_outputs_and_sums_is_held() {
    let scene = scene();
    let width = scene.shape().lane_columns(Part::STREAM);
    let public = [stream::UPDATE.pow(), stream::NORM.pow()];
    for state in [OUTPUTS[0], OUTPUTS[0] + 1, OUTPUTS[1], OUTPUTS[1] + 1] {
        for column in (0..width).filter(|column| !public.contains(column)) {
            let columns = |shape: &Shape, all: &mut [Columns]| {
                let at = row(shape, Part::STREAM, &[state, QUERY, 4]);
                all[Part::STREAM.index()][column][at] += base(1);
            };
            let hooks = Hooks {
                columns: &columns,
                ..HONEST
            };
            assert_claims_violated(scene.attempt(&hooks));
        }
    }
}

/// The rows of two outputs of a token, or of an output and a sum, exchanged with all of their columns.
#[test]
fn rows_of_outputs_cannot_be_exchanged() {
    let scene = scene();
    for (one, other) in [
        ([OUTPUTS[0], QUERY], [OUTPUTS[1], QUERY]),
        ([OUTPUTS[0], QUERY], [OUTPUTS[0], QUERY - 1]),
        ([OUTPUTS[1], QUERY], [OUTPUTS[1] + 1, QUERY]),
        ([OUTPUTS[1], QUERY], [1, QUERY]),
    ] {
        let columns = |shape: &Shape, all: &mut [Columns]| {
            let [one, other] = [one, other].map(|at| row(shape, Part::NORMS, &at));
            all[Part::NORMS.index()]
                .iter_mut()
                .for_each(|column| column.swap(one, other));
        };
        let hooks = Hooks {
            columns: &columns,
            ..HONEST
        };
        scene.assert_caught(Caught::Claim("accumulators"), &hooks);
    }
}

/// A sum without its normed output, without the state before, with either twice, with a unit more of either, or with both exchanged;
/// everything follows.
#[test]
fn a_state_is_the_sum_of_the_two_before() {
    struct Other(usize, fn(&mut [i64; 2]));
    impl Deviation for Other {
        fn sum(&self, state: usize, token: usize, added: &mut [i64; 2]) {
            if (state, token) == (self.0, QUERY) {
                (self.1)(added);
            }
        }
    }
    let changes: [fn(&mut [i64; 2]); 5] = [
        |added| added[0] = 0,
        |added| added[1] = 0,
        |added| added[0] *= 2,
        |added| added[1] *= 2,
        |added| added[0] = -added[0],
    ];
    for state in OUTPUTS {
        for change in changes {
            deviating(scene(), &Other(state + 1, change)).assert_caught(Caught::Claim("accumulators"), &HONEST);
        }
    }
}

/// Gains of another channel or of another output, none, or another sign.
#[test]
fn outputs_are_added_with_the_gains_of_the_key() {
    let at = |m: &QuantisedModel, state: usize| m.config.layers * LAYER_KINDS.len() + 1 + state;
    let caught = |change: &dyn Fn(&mut QuantisedModel)| {
        caught_impostor_of(scene(), Caught::Claim("accumulators"), change);
    };
    for state in OUTPUTS {
        caught(&|m| {
            let at = at(m, state);
            m.params.biases[at][7] += 3000;
        });
        caught(&|m| {
            let at = at(m, state);
            m.params.biases[at].iter_mut().for_each(|gain| *gain = -*gain);
        });
        caught(&|m| {
            let at = at(m, state);
            m.params.biases[at].fill(0);
        });
    }
    caught(&|m| {
        let (one, other) = (at(m, OUTPUTS[0]), at(m, OUTPUTS[1]));
        m.params.biases.swap(one, other);
    });
}

/// Another epsilon, scale or shift of a norm, and other shifts of output and sum than the key's.
#[test]
fn norms_and_sums_are_those_of_the_key() {
    let caught = |by: Caught, change: &dyn Fn([&mut PostNorm; 2])| {
        caught_impostor_of(scene(), by, |m| {
            let norms: Vec<_> = m.params.layers[LAYER].post_norms_mut().collect();
            change(norms.try_into().expect("attention and MLP"));
        });
    };
    let of_products = || Caught::Claim("accumulators");
    caught(of_products(), &|[attention, _]| attention.norm.eps.body += 1 << 24);
    caught(of_products(), &|[_, mlp]| mlp.norm.eps.body += 1 << 24);
    caught(of_products(), &|[_, mlp]| mlp.norm.scale -= 1);
    // The remainder's range follows from the shift, too.
    let of_shifts = || Caught::Claims(&["accumulators", "lookups"]);
    caught(of_shifts(), &|[attention, _]| attention.norm.shift.0[0] -= 1);
    // In one channel alone.
    let hidden = post_normed_config().hidden;
    caught(of_shifts(), &|[_, mlp]| {
        let shift = &mut mlp.norm.shift;
        *shift = ChannelShift((0..hidden).map(|c| shift.at(c) - u8::from(c == 5)).collect());
    });
    caught(of_shifts(), &|[_, mlp]| mlp.sum.body.0[3] -= 1);
}

/// A state that the model does not have may have any root: its products have no weight.
#[test]
fn padded_states_after_outputs_have_no_root() {
    let scene = scene();
    let columns = |shape: &Shape, all: &mut [Columns]| {
        let at = row(shape, Part::NORMS, &[shape.states(), 0]);
        let other = NormRow {
            sums: [0, 0, 8],
            eps: 1,
            bound: [3 * 9 * 9 * 9, 0, 0, 0, 0],
            root: 15,
        };
        for (column, value) in all[Part::NORMS.index()].iter_mut().zip(other.columns()) {
            column[at] = base(value);
        }
    };
    let hooks = Hooks {
        columns: &columns,
        ..HONEST
    };
    scene.attempt(&hooks).expect("a true statement, as no product has it");
}
