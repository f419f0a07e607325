//! A proof that hides, and its rows in the manifest.

use std::sync::OnceLock;

use stwo::core::fields::m31::P;
use tessera_circuits::chunk::ChunkError;
use tessera_circuits::model::WeightFormat;
use tessera_circuits::statement::{HiddenIds, HiddenPrompt, StatementError};
use tessera_prover::hiding::TapeKey;
use tessera_testkit::{odd_config, random_ids, random_model, TestModel};
use tessera_verifier::codec::CodecError;
use tessera_verifier::labels::TAPE_WORK;
use tessera_verifier::opening::OpeningError;
use tessera_verifier::proof::Proof;
use tessera_verifier::sumcheck::SumcheckError;
use tessera_verifier::verify::VerifyError;

use crate::manifest::{lengths, nonce, of_chunk, row, Row};
use crate::tree::Op;
use crate::Honest;

/// Two proofs of one model that hide activations and all ids but the first one, with room for reveals, and of equal shapes. The model's other proofs
/// have a STARK.
pub fn honest() -> &'static [Honest; 2] {
    static PROOFS: OnceLock<[Honest; 2]> = OnceLock::new();
    PROOFS.get_or_init(|| {
        let ids = HiddenIds {
            prompt: Some(HiddenPrompt { prefix: 1, suffix: 0 }),
            output: true,
        };
        let model = TestModel::new(random_model(odd_config(), WeightFormat::Int8, 7));
        [3, 4].map(|seed| {
            let prompt = random_ids(&model.key.config, 4, seed);
            let hidden = (&TapeKey::of_test(seed as u8), &ids);
            Honest::of(&model.key, model.prove_revealing(hidden, None, &prompt, 3, 2).0)
        })
    })
}

/// All rows of a proof that hides; where two of them match, the first one counts.
pub fn rows(proof: &Proof) -> Vec<Row> {
    type E = VerifyError;
    let mut rows = vec![
        row!(Change "model" => E::OtherModel { .. }),
        // An id that is shown is absorbed first. In the place of one that is hidden there is a number that is no id, or zero: one hidden id less.
        row!(Change "statement.prompt[*]" => E::Opening(OpeningError::FoldClaim) | E::Statement(StatementError::UnknownToken { .. }) | E::Sumcheck(SumcheckError::Rounds { .. })),
        row!(Modulus "statement.prompt[*]" => E::Statement(StatementError::UnknownToken { id: P, .. })),
        row!(Truncate "statement.prompt" => E::Sumcheck(SumcheckError::Rounds { .. })),
        row!(Extend "statement.prompt" => E::Opening(OpeningError::FoldClaim)),
        row!(Empty "statement.prompt" => E::Statement(StatementError::EmptyPrompt)),
        row!(Change "statement.output[*]" => E::Opening(OpeningError::FoldClaim) | E::Statement(StatementError::UnknownToken { .. }) | E::Sumcheck(SumcheckError::Rounds { .. })),
        row!(Modulus "statement.output[*]" => E::Statement(StatementError::UnknownToken { id: P, .. })),
        row!(Truncate "statement.output" => E::Sumcheck(SumcheckError::Rounds { .. })),
        row!(Extend "statement.output" => E::Opening(OpeningError::FoldClaim)),
        row!(Empty "statement.output" => E::Statement(StatementError::EmptyOutput)),
        row!(Change "chunks[0].layers" => E::Chunks(ChunkError::Layers { .. } | ChunkError::Empty { .. })),
        row!(Modulus "chunks[0].layers" => E::Chunks(ChunkError::Layers { .. })),
        row!(Extend "chunks" => E::Chunks(ChunkError::Layers { .. })),
        row!(Empty "chunks" => E::Chunks(ChunkError::Layers { got: 0, .. })),
        // Another tape.
        row!(Change "hidden.reveals" => E::Opening(OpeningError::FoldClaim)),
        row!(Modulus "hidden.reveals" => E::MostReveals { .. }),
        row!(Change "hidden.tape.answers[*]" => E::Opening(OpeningError::FoldClaim)),
        row!(Change "hidden.tape.values" => E::Opening(OpeningError::FoldClaim)),
        row!(Change "hidden.digits.factors[*]" => E::Opening(OpeningError::FoldClaim)),
        row!(Change "hidden.digits.rounds.rounds[*]" => E::Opening(OpeningError::FoldClaim)),
    ];
    for place in [
        "hidden.tape.answers[*]",
        "hidden.tape.values",
        "hidden.digits.factors[*]",
        "hidden.digits.rounds.rounds[*]",
    ] {
        rows.push(row!(Modulus place => E::Malformed(CodecError::NonCanonicalField { value: P })));
    }
    rows.extend(nonce("hidden.tape.work", TAPE_WORK.label, |e| {
        matches!(e, VerifyError::Opening(OpeningError::FoldClaim))
    }));
    for (place, name) in [
        ("tape.answers", "opening: answers"),
        ("digits.factors", "digits"),
        ("digits.rounds.rounds", "sumcheck: digits"),
    ] {
        let number = lengths(&format!("hidden.{place}"), name).into_iter();
        // One factor less than one is none.
        rows.extend(number.filter(|row| name != "digits" || row.op != Op::Truncate));
    }
    rows.extend(of_chunk(&proof.chunks[0]).into_iter().map(|mut row| {
        row.places.0 = format!("chunks[0].{}", row.places.0);
        row.when_hidden()
    }));
    rows
}
