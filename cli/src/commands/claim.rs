//! What a statement says, with texts by the tokenizer of the prover.

pub use tessera::model::claim_of;
