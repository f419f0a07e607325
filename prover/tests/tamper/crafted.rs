//! Changes of several places at once, which repair the check that would notice one alone.

use num_traits::{One, Zero};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use stwo::core::poly::line::LinePoly;
use tessera_circuits::air::tables;
use tessera_circuits::chunk::Chunk;
use tessera_circuits::model::{ModelConfig, WeightFormat};
use tessera_circuits::shape::Part;
use tessera_circuits::statement::StatementError;
use tessera_circuits::wiring::{product_variables, Product};
use tessera_prover::prove::prove;
use tessera_prover::run::generate::GenerateOptions;
use tessera_prover::support::progress::Silent;
use tessera_prover::testing::{odd_config, random_ids, random_model, TestModel};
use tessera_verifier::policy::TRACE_LOG_LAST_LAYER;
use tessera_verifier::stark::StarkError;
use tessera_verifier::sumcheck::instance_scale;
use tessera_verifier::verify::VerifyError;

use crate::tree::Tree;
use crate::{answer, honest, Honest};

/// The factors of the products changed so that the matmul sumcheck still ends in them. What it would gain: a
/// free one-hot matrix, that is, other tokens.
#[test]
fn compensated_operands_are_rejected() {
    let [Honest { key, proof, .. }, _] = honest();
    let mut tampered = proof.clone();
    let first = Chunk {
        end: 1,
        ..Chunk::whole(key.config.layers)
    };
    let shape = key.shape(&first, proof.statement.lengths());
    let scale = |product: Product| {
        let own = product.variables(&shape) as usize;
        instance_scale(product_variables(&shape) as usize, own)
    };
    let operands = &mut tampered.chunks[0].matmuls.operands;
    let (embed, other) = (Product::Embed, Product::Ff);
    operands[embed as usize][0] += SecureField::one();
    let gained = scale(embed) * operands[embed as usize][1];
    let per_unit = scale(other) * operands[other as usize][1];
    operands[other as usize][0] -= gained * per_unit.inverse();
    let result = answer(key, &tampered);
    assert!(matches!(result, Err(VerifyError::Embedding)), "{result:?}");
}

/// A sum moved from one part to another: the total is right. What it would gain: lookups of one part answered
/// by nothing. The transcript absorbs the sums, so the samples are those of another point; that the sum of
/// each part is constrained is for forged proofs to test.
#[test]
fn sums_moved_between_parts_are_rejected() {
    let [Honest { key, proof, .. }, _] = honest();
    let results = [1u32, 2, 3].map(|delta| {
        let mut tampered = proof.clone();
        tampered.chunks[0].claimed_sums[0] += SecureField::from(delta);
        tampered.chunks[0].claimed_sums[1] -= SecureField::from(delta);
        answer(key, &tampered)
    });
    let answers = "answers of a column";
    let carry = |e: &_| matches!(e, Err(VerifyError::Stark(StarkError::Carry(Part::Stream))));
    let redrawn = |e: &_| matches!(e, Err(VerifyError::Stark(StarkError::Length { what, .. })) if *what == answers);
    assert!(results.iter().all(|e| carry(e) || redrawn(e)), "{results:?}");
    assert!(results.iter().any(carry), "{results:?}");
}

/// Every field of a proof, small or large, taken from another honest proof of the same model and shape.
#[test]
fn fields_of_another_honest_proof_are_rejected() {
    let [Honest { key, proof, .. }, other] = honest();
    let other = &other.proof;
    answer(key, other).expect("the other proof verifies");
    let (own, other) = (Tree::new(proof), Tree::new(other));
    let mut accepted = Vec::new();
    let mut tried = 0;
    for name in own.fields() {
        let Some(swapped) = own.with_field_of(&other, &name) else {
            continue;
        };
        tried += 1;
        match answer(key, &swapped) {
            Err(VerifyError::Stark(StarkError::Panicked)) => panic!("{name}: the library panics"),
            Err(_) => {}
            Ok(()) => accepted.push(name),
        }
    }
    assert!(accepted.is_empty(), "{accepted:?}");
    assert!(tried > 40, "{tried} fields differ");
}

/// A last FRI layer that is well formed but of another degree. What it would gain: with one of a higher degree,
/// a trace of a higher degree than the constraints allow.
#[test]
fn last_layers_of_another_degree_are_rejected() {
    let [Honest { key, proof, .. }, _] = honest();
    let last: &[SecureField] = &proof.chunks[0].stark.fri_proof.last_layer_poly;
    assert_eq!(last.len(), 1 << TRACE_LOG_LAST_LAYER);
    for len in [last.len() / 2, last.len() * 2] {
        let mut tampered = proof.clone();
        let mut coefficients = last.to_vec();
        coefficients.resize(len, SecureField::zero());
        tampered.chunks[0].stark.0.fri_proof.last_layer_poly = LinePoly::new(coefficients);
        let result = answer(key, &tampered);
        let expected = StarkError::Length {
            what: "last FRI layer",
            got: len,
            expected: last.len(),
        };
        assert!(
            matches!(&result, Err(VerifyError::Stark(e)) if *e == expected),
            "{result:?}"
        );
    }
}

/// Under a trace that is taller than the tables, two queries can meet in the tables: with two answers, or in an
/// order in which the library leaves answers unchecked. What it would gain: table values of the prover's choice.
#[test]
fn queries_that_meet_in_the_tables_are_checked() {
    let config = ModelConfig {
        layers: 1,
        heads: 32,
        head_dim: 2,
        context: 256,
        ..odd_config()
    };
    let model = TestModel::new(random_model(config.clone(), WeightFormat::Int16, 7));
    let report = prove(
        &model.prover(),
        &random_ids(&config, 254, 5),
        &GenerateOptions::exactly(3),
        &Silent,
    )
    .expect("an honest proof");
    let shape = model
        .key
        .shape(&Chunk::whole(config.layers), report.proof.statement.lengths());
    assert!(shape.max_log_rows() > tables::LOG_ROWS, "{shape:?}");
    let [mut order, mut conflict] = [false; 2];
    // Every nonce draws other queries; that it shows no work is checked after them.
    for nonce in 0..4000 {
        let mut tampered = report.proof.clone();
        tampered.chunks[0].stark.0.proof_of_work = nonce;
        for (i, value) in tampered.chunks[0].stark.0.queried_values[0][0].iter_mut().enumerate() {
            *value = BaseField::from(i);
        }
        match answer(&model.key, &tampered) {
            Err(VerifyError::Stark(StarkError::QueryOrder)) => order = true,
            Err(VerifyError::Stark(StarkError::QueryConflict)) => {
                conflict = true;
                // Answers of the tables that agree are no conflict, whatever is read next to them.
                for column in &mut tampered.chunks[0].stark.0.queried_values[0] {
                    column.fill(BaseField::zero());
                }
                let result = answer(&model.key, &tampered);
                let conflict = matches!(result, Err(VerifyError::Stark(StarkError::QueryConflict)));
                assert!(result.is_err() && !conflict, "{result:?}");
            }
            Err(_) => {}
            Ok(()) => panic!("accepted"),
        }
        if order && conflict {
            return;
        }
    }
    panic!("no nonce tells: order {order}, conflict {conflict}");
}

/// More token rows than the context that the key allows. What it would gain: positions that the model was not made
/// for, and sums of softmax rows beyond their bounds.
#[test]
fn statements_beyond_the_context_are_rejected() {
    let [Honest { key, proof, .. }, _] = honest();
    let context = key.config.context;
    let mut tampered = proof.clone();
    tampered.statement.prompt = vec![1; context + 2 - proof.statement.output.len()];
    let expected = StatementError::TooLong {
        rows: context + 1,
        context,
    };
    let result = answer(key, &tampered);
    assert!(
        matches!(&result, Err(VerifyError::Statement(error)) if *error == expected),
        "{result:?}"
    );
}
