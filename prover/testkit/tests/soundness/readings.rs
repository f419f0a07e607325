//! One answer: a residue modulo `p` is read in one way, whatever norms a key claims and whatever weights it commits to.

use num_traits::One;
use stwo::core::fields::m31::BaseField;
use tessera_circuits::air::base;
use tessera_circuits::model::{
    ChannelShift, ColumnNorms, LimbSet, Limbs, MatrixId, ModelConfig, WeightBits, WeightFormat,
};
use tessera_circuits::ops::logits::{self, MARGIN};
use tessera_circuits::rounding::Rounded;
use tessera_circuits::shape::{Part, Shape};
use tessera_prover::trace::Columns;
use tessera_testkit::{edit, odd_config, random_model};
use tessera_verifier::verify::VerifyError;

use crate::cheat::{Hooks, HONEST};
use crate::semantics::{one_token_of, QUERY};
use crate::values::row;
use crate::Scene;

/// The token whose logit is large, and the best one of the others.
const LARGE: usize = 17;
const SECOND: usize = 40;

/// A model whose head is said to have smaller columns than it has. For the attacked row, the logit of one token is as near to
/// `wanted 2^T` as whole weights make it, and the others are below zero. Its total shift is `T = 8 + shift`.
fn with_false_norms(wanted: i64, shift: u8) -> (Scene, i64) {
    let config = ModelConfig {
        layers: 1,
        ..odd_config()
    };
    let mut model = random_model(config, WeightFormat::Int16, 7);
    model.params.biases.clear();
    model.params.weight_bits = WeightBits::all(14);
    // Outputs of the last norm use all of their 16 bits.
    model.params.norm_final.shift = ChannelShift::one(4);
    model.params.head = ChannelShift::one(shift);
    let scene = one_token_of(model.clone());
    let hidden = scene.model.key.config.hidden;
    let last = scene.witness.streams.last().expect("a state");
    let y: Vec<i64> = last.y[QUERY * hidden..][..hidden]
        .iter()
        .map(|y| i64::from(*y))
        .collect();
    let magnitude: i64 = y.iter().map(|y| y.abs()).sum();
    let total = u32::from(shift) + 8;
    // All weights are as large as the wanted logit needs.
    let weight = (wanted << total) / magnitude;
    assert!(weight <= 8191, "{weight}");
    edit(&mut model, MatrixId::HEAD, |head| {
        let outputs = head.len() / hidden;
        for (out, column) in head.chunks_exact_mut(hidden).enumerate() {
            let factor = match out {
                LARGE => weight,
                SECOND => -1 - (1000 << total) / magnitude,
                _ => -1 - ((1100 + (out % 7) as i64) << total) / magnitude,
            };
            assert!(outputs > SECOND);
            for (w, y) in column.iter_mut().zip(&y) {
                *w = (factor * y.signum()) as i16;
            }
        }
    });
    *model.params.columns.last_mut().expect("norms of the head") = ColumnNorms {
        l1: 10_000,
        square: 10_000_000,
    };
    let scene = one_token_of(model);
    let acc: i64 = y.iter().map(|y| y.abs() * weight).sum();
    (scene, acc)
}

/// Tries to prove another token, for which the large logit is taken to be lower by a multiple of `p`.
fn second_answer(other: &Scene, acc: i64, limbs: LimbSet, total: u32) -> Result<(), VerifyError> {
    let value = (acc + (1 << (total - 1))) >> total;
    // 2^31 is 1 modulo p.
    let below = value - (1 << (31 - total));
    let columns = |shape: &Shape, all: &mut [Columns]| {
        let own = &mut all[Part::LOGITS.index()];
        let at = row(shape, Part::LOGITS, &[0, LARGE]);
        let top = i64::from(other.witness.logits[QUERY * shape.config.vocab + SECOND]);
        let margin = top - i64::from(LARGE < SECOND) - below;
        assert!((0..1 << 16).contains(&margin), "{margin}");
        own[MARGIN][at] = base(margin);
        if shape.limbs.head == Limbs::One {
            let rest = &mut own[logits::remainder(Limbs::One).rest()][at];
            *rest += BaseField::one();
            assert!(rest.0 < 1 << total);
        }
    };
    let hooks = Hooks {
        columns: &columns,
        limbs: Some(limbs),
        statistics: &|s| {
            let part = Part::LOGITS.index();
            s.clips
                .retain(|clip| usize::from(clip.part) != part || clip.at as usize % 512 != LARGE);
        },
        ..HONEST
    };
    other.attempt(&hooks)
}

/// The head's total shift is 14, and it claims norms that would let it be in one limb: one residue is 65,277 or -65,795 times
/// `2^14`. The first reading wins, as one that is listed as clipped; the second one loses, as a margin.
#[test]
fn false_norms_of_the_head_do_not_make_a_second_answer() {
    let (mut scene, acc) = with_false_norms(65_270, 6);
    let value = (acc + (1 << 13)) >> 14;
    assert!((65_100..65_536).contains(&value), "{value}");
    assert_eq!(scene.statement.output, [LARGE as u32]);
    assert_eq!(scene.trace().1.clips(Rounded::LOGIT).count(), 1);
    scene.attempt(&HONEST).expect("what the weights make of it");
    let own = scene.shape().limbs;
    scene.statement.output = vec![SECOND as u32];
    for limbs in [
        own,
        LimbSet {
            head: Limbs::One,
            ..own
        },
    ] {
        let result = second_answer(&scene, acc, limbs, 14);
        assert!(result.is_err(), "a second answer is accepted");
    }
}
