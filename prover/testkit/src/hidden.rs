//! Changes of a proof that hides its activations, one of every kind of message that its prover sends.

use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::statement::HIDDEN;
use tessera_verifier::hiding::HiddenProof;
use tessera_verifier::opening::parts::{parts_of_mut, ProofParts};
use tessera_verifier::proof::{ChunkProof, Proof};

/// A proof with each of some changes, which no verifier may accept if it accepts the proof, which must hide its activations. A change is named by the
/// operation and by the place that is changed.
pub fn hidden_changes(honest: &Proof) -> Vec<(&'static str, Proof)> {
    let changed = |(name, change): Change| {
        let mut other = honest.clone();
        change(&mut other);
        (name, other)
    };
    let digits = honest.hidden.as_ref().is_some_and(|own| !own.digits.factors.is_empty());
    let more: &[Change] = match digits {
        true => &DIGITS,
        false => &NO_DIGITS,
    };
    CHANGES.iter().chain(more).copied().map(changed).collect()
}

/// A name, and what is done to a proof.
type Change = (&'static str, fn(&mut Proof));

const CHANGES: [Change; 20] = [
    ("Change of lookups[0].roots[0], the sum", |proof| {
        chunk(proof).lookups[0].roots[0][0] += one();
    }),
    ("Change of lookups[0].roots[0], the denominator", |proof| {
        chunk(proof).lookups[0].roots[0][1] += one();
    }),
    ("Change of lookups[0].layers[0].children[0]", |proof| {
        chunk(proof).lookups[0].layers[0].children[0][0] += one();
    }),
    ("Change of lookups[0].layers[1].rounds[0]", |proof| {
        chunk(proof).lookups[0].layers[1].rounds[0][0] += one();
    }),
    ("Change of matmuls.claim", |proof| chunk(proof).matmuls.claim += one()),
    ("Change of matmuls.sumcheck.rounds[0]", |proof| {
        chunk(proof).matmuls.sumcheck.rounds[0][0] += one();
    }),
    ("Change of matmuls.operands[0]", |proof| {
        chunk(proof).matmuls.operands[0][0] += one();
    }),
    ("Change of linear.rounds[0]", |proof| {
        chunk(proof).linear.rounds[0][0] += one();
    }),
    ("Change of opening.codes[1].band_rounds[0]", |proof| {
        opening(proof).codes[1].band_rounds[0][0] += one();
    }),
    ("Change of opening.codes[1].band_value", |proof| {
        opening(proof).codes[1].band_value += one();
    }),
    ("Change of opening.cross_values, the first", |proof| {
        opening(proof).cross_values[0] += one();
    }),
    ("Change of opening.cross_values, the last, of the mask", |proof| {
        *opening(proof).cross_values.last_mut().expect("cross values") += one();
    }),
    ("Change of opening.codes[1].rows, a value of the mask", |proof| {
        *opening(proof).codes[1].rows.values.last_mut().expect("rows") += BaseField::from(1);
    }),
    ("Change of hidden.answers[0]", |proof| hidden(proof).answers[0] += one()),
    ("Truncate of hidden.answers", |proof| {
        hidden(proof).answers.pop();
    }),
    ("Extend of hidden.answers", |proof| hidden(proof).answers.push(one())),
    ("Change of hidden.tape_values[0]", |proof| {
        hidden(proof).tape_values[0] += one();
    }),
    ("Change of hidden.tape_values[1]", |proof| {
        hidden(proof).tape_values[1] += one();
    }),
    ("Change of hidden.tape_values[2]", |proof| {
        hidden(proof).tape_values[2] += one();
    }),
    ("Empty of hidden", |proof| proof.hidden = None),
];

/// Changes of a proof that hides no ids of rows.
const NO_DIGITS: [Change; 2] = [
    ("Extend of hidden.digits.factors", |proof| {
        hidden(proof).digits.factors.push([one(); 2]);
    }),
    ("Change of statement.prompt[1], hidden", |proof| {
        proof.statement.prompt[1] = HIDDEN;
    }),
];

/// Changes of a proof that hides ids of the prompt after its first one, and its output.
const DIGITS: [Change; 8] = [
    ("Change of hidden.digits.rounds[0]", |proof| {
        hidden(proof).digits.rounds.rounds[0][0] += one();
    }),
    ("Truncate of hidden.digits.rounds", |proof| {
        hidden(proof).digits.rounds.rounds.pop();
    }),
    ("Change of hidden.digits.factors[0]", |proof| {
        hidden(proof).digits.factors[0][0] += one();
    }),
    ("Truncate of hidden.digits.factors", |proof| {
        hidden(proof).digits.factors.pop();
    }),
    ("Change of statement.prompt[0], the first id hidden", |proof| {
        proof.statement.prompt[0] = HIDDEN;
    }),
    ("Change of statement.prompt[0]", |proof| {
        proof.statement.prompt[0] ^= 1;
    }),
    ("Change of statement.prompt[1], shown", |proof| {
        proof.statement.prompt[1] = 0;
    }),
    ("Change of statement.output, the last id shown", |proof| {
        *proof.statement.output.last_mut().expect("an output") = 0;
    }),
];

fn one() -> SecureField {
    SecureField::from(1)
}

fn chunk(proof: &mut Proof) -> &mut ChunkProof {
    &mut proof.chunks[0]
}

fn opening(proof: &mut Proof) -> &mut ProofParts {
    parts_of_mut(&mut proof.chunks[0].opening)
}

fn hidden(proof: &mut Proof) -> &mut HiddenProof {
    proof.hidden.as_mut().expect("a proof that hides")
}
