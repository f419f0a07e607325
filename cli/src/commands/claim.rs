//! What a statement says, with texts by the tokenizer of the prover.

use tessera::circuits::statement::Statement;
use tessera::text::tokenizer::Tokenizer;
use tessera::verifier::key::ModelKey;
use tessera_verdict::claim::Claim;

/// A statement about a model with this tokenizer, or with none for a reason.
pub fn claim_of(statement: &Statement, key: &ModelKey, tokenizer: Result<Option<&Tokenizer>, String>) -> Claim {
    let texts = match &tokenizer {
        Ok(Some(tokenizer)) => {
            let texts = tokenizer.texts(&statement.prompt, statement.generated_ids());
            texts.map_err(|e| e.to_string())
        }
        Ok(None) => Err("the model has no tokenizer".to_owned()),
        Err(reason) => Err(reason.clone()),
    };
    let tokenizer = tokenizer.ok().flatten();
    Claim::new(statement, key, texts, |id| tokenizer?.token(id))
}
