//! Attacks on the norms of heads: roots of another sum, of another head or of none, gains of others.

use stwo::core::fields::m31::P;
use tessera_circuits::air::base;
use tessera_circuits::model::{HeadNorms, MatmulKind, ModelConfig, WeightFormat};
use tessera_circuits::ops::norms::{
    COLUMNS, GAP, LEFT, LIMBS, LIMB_BITS, QUOTIENT, REST, ROOM_HI, ROOT, ROOT_CARRIES, SUM,
};
use tessera_circuits::shape::{Part, Shape};
use tessera_prover::ops::NormRow;
use tessera_prover::trace::Columns;
use tessera_testkit::{normed_config, random_model};

use crate::cells::Cells;
use crate::cheat::{Hooks, HONEST};
use crate::forward::{Deviation, HeadAt};
use crate::semantics::{caught_impostor_of, deviating, one_token_of, LAYER, QUERY};
use crate::values::row;
use crate::{assert_claims_violated, Caught, Scene};

const RADIX: i64 = 1 << LIMB_BITS;
/// The attacked head, of queries and of keys.
const HEAD: usize = 2;
const KINDS: [(MatmulKind, Part); 2] = [(MatmulKind::Q, Part::Q_NORMS), (MatmulKind::K, Part::K_NORMS)];

fn scene() -> Scene {
    one_token_of(random_model(normed_config(), WeightFormat::Int16, 7))
}

const fn attacked(kind: MatmulKind) -> HeadAt {
    HeadAt {
        layer: LAYER,
        kind,
        token: QUERY,
        head: HEAD,
    }
}

/// The attacked head is scaled by another root, with everything downstream.
struct OtherRoot(MatmulKind, i32);

impl Deviation for OtherRoot {
    fn head_root(&self, at: HeadAt, rsqrt: &mut u32) {
        if at == attacked(self.0) {
            *rsqrt = rsqrt.wrapping_add_signed(self.1);
        }
    }
}

/// Other cells in the row of the attacked head.
fn changed(part: Part, change: impl Fn(&mut Cells<'_>)) -> impl Fn(&Shape, &mut [Columns]) {
    move |shape, columns| {
        let row = row(shape, part, &[LAYER, QUERY, HEAD]);
        change(&mut Cells {
            columns: &mut columns[part.index()],
            row,
        });
    }
}

fn caught(scene: &Scene, by: Caught, part: Part, change: impl Fn(&mut Cells<'_>)) {
    let columns = changed(part, change);
    let hooks = Hooks {
        columns: &columns,
        ..HONEST
    };
    scene.assert_caught(by, &hooks);
}

#[test]
fn honest_heads_are_proved() {
    scene().attempt(&HONEST).expect("a true statement");
    // As many heads as keys, and heads of one pair.
    for (heads, kv_heads, head_dim) in [(3, 3, 4), (2, 1, 2), (5, 1, 10)] {
        let config = ModelConfig {
            heads,
            kv_heads,
            head_dim,
            ..normed_config()
        };
        let scene = one_token_of(random_model(config, WeightFormat::Int8, 9));
        scene.attempt(&HONEST).expect("a true statement");
    }
}

/// The honest columns beside a root that is not theirs: the product says which root the heads were multiplied with.
#[test]
fn the_root_of_a_head_is_the_one_that_scales() {
    for (kind, part) in KINDS {
        for by in [-1, 1, 1000] {
            let scene = deviating(scene(), &OtherRoot(kind, by));
            caught(&scene, Caught::Claim("accumulators"), part, |cells| {
                let root = cells.value(QUOTIENT, LIMBS).unsigned_abs().isqrt() as i128;
                cells.extract(root);
            });
        }
    }
}

/// One more, or one less, with the columns of that root: the rest is negative, or more than twice the root.
#[test]
fn a_root_of_a_head_that_is_one_off() {
    for (kind, part) in KINDS {
        for by in [-1, 1] {
            let scene = deviating(scene(), &OtherRoot(kind, by));
            caught(&scene, Caught::Lookup, part, |cells| {
                let root = cells.value(ROOT, 2);
                cells.extract(root);
            });
        }
        let scene = deviating(scene(), &OtherRoot(kind, -1));
        for room in [0, 1, (1 << 13) - 1] {
            caught(&scene, Caught::Lookup, part, |cells| {
                let root = cells.value(ROOT, 2);
                cells.extract(root);
                *cells.at(ROOM_HI) = base(room);
            });
        }
    }
}

/// A quotient that is less leaves the sum or more, however the gap is said to be; one that is more leaves less than nothing.
#[test]
fn a_quotient_of_a_head_that_is_not_one() {
    for (_, part) in KINDS {
        for by in [-1i128, 1, -3] {
            caught(&scene(), Caught::Lookup, part, |cells| {
                let (bound, quotient) = (cells.bound(), cells.value(QUOTIENT, LIMBS) + by);
                cells.divide(bound, quotient);
            });
        }
        for gap in [0i128, 1, 1 << 24, (1 << 36) - 1] {
            caught(&scene(), Caught::Lookup, part, |cells| {
                let (bound, quotient) = (cells.bound(), cells.value(QUOTIENT, LIMBS) - 1);
                cells.divide(bound, quotient);
                cells.set(GAP, LIMBS - 1, gap);
            });
        }
    }
}

/// The quotient of the bound less p: limbs are compared with those of the bound itself.
#[test]
fn a_division_of_a_head_modulo_p() {
    for (_, part) in KINDS {
        caught(&scene(), Caught::Claim("accumulators"), part, |cells| {
            let bound = cells.bound() - i128::from(P);
            let quotient = bound / cells.value(SUM, LIMBS);
            cells.divide(bound, quotient);
        });
    }
}

/// Another sum of squares, with quotient and root of it: the limbs of the squares are those of the head.
#[test]
fn a_sum_of_a_head_that_is_chosen() {
    for (_, part) in KINDS {
        for by in [1i128, -1, 1 << 12, 1 << 24] {
            caught(&scene(), Caught::Claim("accumulators"), part, |cells| {
                let (bound, sum) = (cells.bound(), cells.value(SUM, LIMBS) + by);
                cells.set(SUM, LIMBS, sum);
                cells.divide(bound, bound / sum);
                cells.extract((bound / sum).unsigned_abs().isqrt() as i128);
            });
        }
    }
}

/// A sum of which one part is another one by p, and everything downstream of it: the claims hold, and the column that would hold
/// it is out of its range.
#[test]
fn a_sum_of_a_head_with_an_alias() {
    struct Alias(MatmulKind, usize, i64);
    impl Deviation for Alias {
        fn head_norm(&self, at: HeadAt, sums: &mut [i64; 3]) {
            if at == attacked(self.0) {
                sums[self.1] += self.2 * i64::from(P);
            }
        }
    }
    for (kind, _) in KINDS {
        for (part, by) in [(0, 1), (1, 1), (2, 1), (1, 2)] {
            deviating(scene(), &Alias(kind, part, by)).assert_caught(Caught::Lookup, &HONEST);
        }
    }
}

/// Each cell alone: by what it is a limb of, whether or not its lookup holds, or by a lookup alone.
#[test]
fn every_cell_of_a_norm_of_a_head_is_held() {
    let scene = scene();
    for (_, part) in KINDS {
        for column in 0..COLUMNS {
            let names: &[&str] = match column {
                GAP..ROOT | ROOM_HI => &[],
                _ => &["accumulators"],
            };
            let columns = changed(part, |cells| *cells.at(column) += base(1));
            if names.is_empty() {
                caught(&scene, Caught::Lookup, part, |cells| *cells.at(column) += base(1));
                continue;
            }
            let hooks = Hooks {
                columns: &columns,
                broken_claims: &|broken| assert_eq!(broken(), names, "column {column}"),
                ..HONEST
            };
            assert_claims_violated(scene.attempt(&hooks));
        }
    }
    // Carries that are one more are taken back by the limb above.
    caught(&scene, Caught::Lookup, Part::Q_NORMS, |cells| {
        *cells.at(ROOT_CARRIES) += base(1);
        *cells.at(REST) += base(RADIX);
        *cells.at(REST + 1) -= base(1);
    });
    caught(&scene, Caught::Lookup, Part::K_NORMS, |cells| {
        *cells.at(LEFT) += base(RADIX);
        *cells.at(LEFT + 1) -= base(1);
        *cells.at(tessera_circuits::ops::norms::CARRIES) += base(1);
    });
}

/// The rows of two heads of a token, of two tokens, or of two layers, exchanged with all of their columns.
#[test]
fn rows_of_heads_cannot_be_exchanged() {
    let scene = scene();
    for (_, part) in KINDS {
        for other in [
            [LAYER, QUERY, HEAD - 1],
            [LAYER, QUERY - 1, HEAD],
            [LAYER - 1, QUERY, HEAD],
        ] {
            let columns = |shape: &Shape, all: &mut [Columns]| {
                let [one, other] = [[LAYER, QUERY, HEAD], other].map(|at| row(shape, part, &at));
                all[part.index()].iter_mut().for_each(|column| column.swap(one, other));
            };
            let hooks = Hooks {
                columns: &columns,
                ..HONEST
            };
            scene.assert_caught(Caught::Claim("accumulators"), &hooks);
        }
    }
}

/// The root of another head, of another token, or of the keys, with everything downstream of it.
#[test]
fn a_head_is_scaled_by_its_own_root() {
    struct Other(MatmulKind, u32);
    impl Deviation for Other {
        fn head_root(&self, at: HeadAt, rsqrt: &mut u32) {
            if at == attacked(self.0) {
                *rsqrt = self.1;
            }
        }
    }
    let honest = scene();
    let layer = &honest.witness.layers[LAYER];
    let config = &honest.model.key.config;
    let others = [
        (MatmulKind::Q, layer.q_norm.rsqrt[QUERY * config.heads + HEAD + 1]),
        (MatmulKind::Q, layer.q_norm.rsqrt[(QUERY - 1) * config.heads + HEAD]),
        (MatmulKind::Q, layer.k_norm.rsqrt[QUERY * config.kv_heads + HEAD]),
        (MatmulKind::K, layer.k_norm.rsqrt[QUERY * config.kv_heads + HEAD - 1]),
        (MatmulKind::K, layer.q_norm.rsqrt[QUERY * config.heads + HEAD]),
    ];
    for (kind, root) in others {
        let part = if kind == MatmulKind::Q {
            Part::Q_NORMS
        } else {
            Part::K_NORMS
        };
        let scene = deviating(scene(), &Other(kind, root));
        caught(&scene, Caught::Claim("accumulators"), part, |cells| {
            let root = cells.value(QUOTIENT, LIMBS).unsigned_abs().isqrt() as i128;
            cells.extract(root);
        });
    }
}

/// The gains of another layer, those of keys for queries, those of other channels, with another sign, or none.
#[test]
fn gains_are_those_of_the_layer() {
    let caught = |change: &dyn Fn(&mut [HeadNorms])| {
        caught_impostor_of(scene(), Caught::Claim("rotations"), |m| {
            let layers = m.params.layers.iter_mut();
            let mut norms: Vec<HeadNorms> = layers.filter_map(|layer| layer.attention.head_norms.take()).collect();
            change(&mut norms);
            let layers = m.params.layers.iter_mut().zip(norms);
            layers.for_each(|(layer, norms)| layer.attention.head_norms = Some(norms));
        });
    };
    caught(&|norms| norms[LAYER].q.gains = norms[LAYER - 1].q.gains.clone());
    caught(&|norms| norms[LAYER].k.gains = norms[LAYER - 1].k.gains.clone());
    caught(&|norms| norms[LAYER].q.gains = norms[LAYER].k.gains.clone());
    caught(&|norms| norms[LAYER].k.gains.rotate_left(1));
    caught(&|norms| norms[LAYER].q.gains[0] *= -1);
    caught(&|norms| norms[LAYER].q.gains.fill(1 << 14));
}

/// Another epsilon, scale or shift of a norm of heads than the key's.
#[test]
fn norms_of_heads_are_those_of_the_key() {
    let caught = |by: Caught, change: &dyn Fn(&mut HeadNorms)| {
        caught_impostor_of(scene(), by, |m| {
            m.params.layers[LAYER].attention.head_norms.iter_mut().for_each(change);
        });
    };
    let of_products = || Caught::Claim("accumulators");
    caught(of_products(), &|norms| norms.q.eps += 1 << 22);
    caught(of_products(), &|norms| norms.k.eps += 1 << 22);
    caught(of_products(), &|norms| norms.q.scale -= 1);
    // The remainder's range follows from the shift, too.
    caught(Caught::Claims(&["accumulators", "lookups"]), &|norms| {
        norms.k.shift -= 1
    });
}

/// A query looks at the normed keys of its own group.
#[test]
fn a_query_looks_at_its_own_normed_keys() {
    struct Group;
    impl Deviation for Group {
        fn key_head(&self, head: usize, honest: usize) -> usize {
            match head {
                HEAD => honest + 1,
                _ => honest,
            }
        }
    }
    deviating(scene(), &Group).assert_caught(Caught::Claim("accumulators"), &HONEST);
}

/// A layer or a head that the model does not have may have any root: its products have no weight.
#[test]
fn padded_heads_have_no_root() {
    let scene = scene();
    let config = &scene.model.key.config;
    for (part, heads) in [(Part::Q_NORMS, config.heads), (Part::K_NORMS, config.kv_heads)] {
        for at in [[config.layers, 0, 0], [LAYER, 1, heads]] {
            let columns = |shape: &Shape, all: &mut [Columns]| {
                let at = row(shape, part, &at);
                let other = NormRow {
                    sums: [0, 0, 8],
                    eps: 1,
                    bound: [3 * 9 * 9 * 9, 0, 0, 0, 0],
                    root: 15,
                };
                for (column, value) in all[part.index()].iter_mut().zip(other.columns()) {
                    column[at] = base(value);
                }
            };
            let hooks = Hooks {
                columns: &columns,
                ..HONEST
            };
            scene.attempt(&hooks).expect("a true statement, as no product has it");
        }
    }
}
