//! Changes of several places at once, which repair the check that would notice one alone.

use num_traits::{One, Zero};
use stwo::core::fields::qm31::SecureField;
use stwo::core::fields::FieldExpOps;
use stwo::core::poly::line::LinePoly;
use tessera_circuits::chunk::Chunk;
use tessera_circuits::shape::Product;
use tessera_circuits::statement::StatementError;
use tessera_testkit::{place_of, reworked, OfStark};
use tessera_verifier::gkr::{self, GkrError};
use tessera_verifier::opening::parts::{parts_of_mut, ProofParts};
use tessera_verifier::opening::OpeningError;
use tessera_verifier::policy::STARK_LOG_LAST_LAYER;
use tessera_verifier::proof::ChunkProof;
use tessera_verifier::stark::StarkError;
use tessera_verifier::sumcheck::instance_scale;
use tessera_verifier::verify::VerifyError;

use crate::tree::Tree;
use crate::{answer, hidden, honest, with_work, Honest};

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
        instance_scale(shape.product_variables() as usize, own)
    };
    let operands = &mut tampered.chunks[0].matmuls.operands;
    let (embed, other) = (Product::EMBED, Product::FF);
    let place = |product| place_of(&shape, product);
    operands[place(embed)][0] += SecureField::one();
    let gained = scale(embed) * operands[place(embed)][1];
    let per_unit = scale(other) * operands[place(other)][1];
    operands[place(other)][0] -= gained * per_unit.inverse();
    let result = answer(key, &tampered);
    assert!(matches!(result, Err(VerifyError::Embedding)), "{result:?}");
}

/// A sum moved from the lookups to the tables: the total is right. What it would gain: lookups answered by nothing. The
/// sum of a tree is one that its layers are bound to.
#[test]
fn sums_moved_between_lookups_and_tables_are_rejected() {
    let [Honest { key, proof, .. }, _] = honest();
    for delta in [1u32, 2, 3].map(SecureField::from) {
        let mut tampered = proof.clone();
        let chunk = &mut tampered.chunks[0];
        chunk.lookups[0].roots[0][0] += delta;
        chunk.of_stark_mut().claimed_sum -= delta;
        let total = |chunk: &ChunkProof| {
            gkr::sums(&chunk.lookups).into_iter().sum::<SecureField>() + chunk.of_stark().claimed_sum
        };
        assert_eq!(total(&proof.chunks[0]), total(chunk), "the total is right");
        let result = answer(key, &tampered);
        assert!(
            matches!(result, Err(VerifyError::Gkr(GkrError::Layer { .. }))),
            "{result:?}"
        );
    }
}

/// What there is of the weights in an opening in place of what there is of the activations, and the other way round. What it
/// would gain: values of one commitment read as those of the other.
#[test]
fn openings_of_the_other_commitment_are_rejected() {
    let changes: [&dyn Fn(&mut ProofParts); 3] = [
        &|p| p.codes[1] = p.codes[0].clone(),
        &|p| p.codes[0] = p.codes[1].clone(),
        &|p| p.codes.swap(0, 1),
    ];
    for [Honest { key, proof, .. }, _] in [honest(), hidden::honest()] {
        for change in changes {
            let mut tampered = proof.clone();
            change(parts_of_mut(&mut tampered.chunks[0].opening));
            let result = answer(key, &tampered);
            assert!(matches!(result, Err(VerifyError::Opening(_))), "{result:?}");
        }
    }
}

/// The prover names the root of the weights where the root of its hidden activations belongs. It gains activations that no mask hides.
#[test]
fn the_root_of_the_weights_hides_no_activations() {
    let [Honest { key, proof, .. }, _] = hidden::honest();
    let mut tampered = proof.clone();
    tampered.chunks[0].activations = key.weights_root;
    let result = answer(key, &reworked(key, tampered));
    let folds = VerifyError::Opening(OpeningError::FoldClaim);
    assert_eq!(result.expect_err("another root").to_string(), folds.to_string());
}

/// The root of the weights as that of the activations, and roots of the activations in place of those of the tables'
/// multiplicities. What it would gain: what is committed already, or in another role, need not be made.
#[test]
fn roots_of_another_role_are_rejected() {
    let [Honest { key, proof, .. }, _] = honest();
    let roots: [&dyn Fn(&mut ChunkProof); 3] = [
        &|p| p.activations = key.weights_root,
        &|p| p.activations = p.of_stark().stark.commitments[1].0,
        &|p| p.of_stark_mut().stark.0.commitments[1].0 = p.activations,
    ];
    for change in roots {
        let mut tampered = proof.clone();
        change(&mut tampered.chunks[1]);
        let result = answer(key, &reworked(key, tampered));
        assert!(
            matches!(result, Err(VerifyError::Gkr(GkrError::Layer { .. }))),
            "{result:?}"
        );
    }
}

/// Every field of a proof, small or large, taken from another honest proof of the same model and shape.
#[test]
fn fields_of_another_honest_proof_are_rejected() {
    rejects_fields_of_another(honest(), 40);
    rejects_fields_of_another(hidden::honest(), 20);
}

/// At least so many fields differ.
fn rejects_fields_of_another([Honest { key, proof, .. }, other]: &[Honest; 2], least: usize) {
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
        match answer(key, &with_work(key, &name, swapped)) {
            Err(VerifyError::Stark(StarkError::Panicked)) => panic!("{name}: the library panics"),
            Err(_) => {}
            Ok(()) => accepted.push(name),
        }
    }
    assert!(accepted.is_empty(), "{accepted:?}");
    assert!(tried > least, "{tried} fields differ");
}

/// A last FRI layer that is well formed but of another degree. What it would gain: with one of a higher degree,
/// columns of a higher degree than the tables have.
#[test]
fn last_layers_of_another_degree_are_rejected() {
    let [Honest { key, proof, .. }, _] = honest();
    let last: &[SecureField] = &proof.chunks[0].of_stark().stark.fri_proof.last_layer_poly;
    assert_eq!(last.len(), 1 << STARK_LOG_LAST_LAYER);
    for len in [last.len() / 2, last.len() * 2] {
        let mut tampered = proof.clone();
        let mut coefficients = last.to_vec();
        coefficients.resize(len, SecureField::zero());
        tampered.chunks[0].of_stark_mut().stark.0.fri_proof.last_layer_poly = LinePoly::new(coefficients);
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

/// More token rows than the context that the key allows. What it would gain: positions that the model was not made
/// for, and sums of softmax rows beyond their bounds.
#[test]
fn statements_beyond_the_context_are_rejected() {
    for [Honest { key, proof, .. }, _] in [honest(), hidden::honest()] {
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
}
