//! Soundness: attempts to have a false statement accepted.

mod cheat;
mod forward;
mod padding;

use tessera_circuits::model::Strategy;
use tessera_circuits::statement::Statement;
use tessera_prover::generate::{generate, GenerateOptions};
use tessera_prover::stark::ProveStarkError;
use tessera_prover::testing::{odd_config, random_ids, random_model, TestModel};
use tessera_verifier::stark::StarkError;
use tessera_verifier::verify::{verify_bytes, VerifyError};

/// The statement of an honest generation with another last token.
fn false_statement(model: &TestModel) -> Statement {
    let prompt = random_ids(&model.key.config, 5, 3);
    let options = GenerateOptions {
        tokens: 4,
        stop_at_eos: false,
    };
    let mut output = generate(&model.quantised, &prompt, &options, |_| ())
        .expect("a generation")
        .ids;
    let last = output.last_mut().expect("an output");
    *last = (*last + 1) % model.key.config.vocab as u32;
    Statement { prompt, output }
}

/// The `eq` column of one part multiplied by a constant, which a homogeneous recurrence would allow. The
/// constant is chosen after the lookup and binding challenges, so that whatever is missing from the lookups or
/// wrong in the evaluations is made up for in the one equation of the claimed sums. What it would gain:
/// everything, any lookup and any claim.
#[test]
fn a_multiple_of_the_eq_column_is_rejected() {
    let model = TestModel::new(random_model(odd_config(), Strategy::W12, 7));
    let statement = false_statement(&model);
    // Since the scale is pinned, no such trace satisfies the constraints.
    let result = cheat::false_output(&model.prover(), &statement, true);
    assert!(matches!(result, Err(ProveStarkError::Constraints(_))), "{result:?}");
}

/// The same without the multiple: the lookups of the arg max do not balance.
#[test]
fn another_last_token_is_rejected() {
    let model = TestModel::new(random_model(odd_config(), Strategy::W12, 7));
    let statement = false_statement(&model);
    let proof = cheat::false_output(&model.prover(), &statement, false).expect("the constraints hold");
    let bytes = proof.to_bytes().expect("a proof");
    let result = verify_bytes(&model.key, &bytes);
    assert!(
        matches!(result, Err(VerifyError::Stark(StarkError::Unbalanced))),
        "{result:?}"
    );
}
