//! Changes of a proof that hides its activations, one of every kind of message that its prover sends.

use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::statement::HIDDEN;
use tessera_verifier::hiding::HiddenProof;
use tessera_verifier::opening::parts::{parts_of_mut, ProofParts};
use tessera_verifier::proof::{ChunkProof, Proof};
use tessera_verifier::reveal::Reveal;

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

const CHANGES: [Change; 21] = [
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
    ("Change of hidden.tape.answers[0]", |proof| {
        hidden(proof).tape.answers[0] += one()
    }),
    ("Truncate of hidden.tape.answers", |proof| {
        hidden(proof).tape.answers.pop();
    }),
    ("Extend of hidden.tape.answers", |proof| {
        hidden(proof).tape.answers.push(one())
    }),
    ("Change of hidden.tape.values[0]", |proof| {
        hidden(proof).tape.values[0] += one();
    }),
    ("Change of hidden.tape.values[1]", |proof| {
        hidden(proof).tape.values[1] += one();
    }),
    ("Change of hidden.tape.values[2]", |proof| {
        hidden(proof).tape.values[2] += one();
    }),
    ("Change of hidden.reveals", |proof| hidden(proof).reveals += 1),
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

/// A reveal with each of some changes, which no verifier may accept.
pub fn reveal_changes(honest: &Reveal) -> Vec<(&'static str, Reveal)> {
    let changed = |(name, change): RevealChange| {
        let mut other = honest.clone();
        change(&mut other);
        (name, other)
    };
    REVEALS.iter().copied().map(changed).collect()
}

/// A name, and what is done to a reveal.
type RevealChange = (&'static str, fn(&mut Reveal));

const REVEALS: [RevealChange; 22] = [
    ("proof", |own| own.proof[0] ^= 1),
    ("an id", |own| own.ids[0].1 ^= 1),
    ("a position", |own| {
        own.ids.remove(0);
    }),
    ("mask", |own| own.mask[0] ^= 1),
    ("a round", |own| own.linear.rounds[0][0] += one()),
    ("the last round", |own| {
        own.linear.rounds.last_mut().expect("rounds")[1] += one()
    }),
    ("a round less", |own| {
        own.linear.rounds.pop();
    }),
    ("work of claims", |own| own.linear_work ^= 1 << 40),
    ("answers", |own| own.tape.answers.push(one())),
    ("the first value of the tape", |own| own.tape.values[0] += one()),
    ("the second value of the tape", |own| own.tape.values[1] += one()),
    ("the third value of the tape", |own| own.tape.values[2] += one()),
    ("work of the tape", |own| own.tape.work ^= 1 << 40),
    ("a round of bands", |own| {
        parts_of_mut(&mut own.opening).codes[0].band_rounds[0][0] += one()
    }),
    ("a round of bands of the mask", |own| {
        parts_of_mut(&mut own.opening).codes[1].band_rounds[0][0] += one();
    }),
    ("an evaluation", |own| {
        parts_of_mut(&mut own.opening).codes[0].band_value += one()
    }),
    ("an evaluation of the mask", |own| {
        parts_of_mut(&mut own.opening).codes[1].band_value += one()
    }),
    ("a cross value", |own| {
        parts_of_mut(&mut own.opening).cross_values[0] += one()
    }),
    ("a cross value of the mask", |own| {
        *parts_of_mut(&mut own.opening).cross_values.last_mut().expect("values") += one();
    }),
    ("a row", |own| {
        parts_of_mut(&mut own.opening).codes[0].rows.values[0] += BaseField::from(1)
    }),
    ("a row of the mask", |own| {
        *parts_of_mut(&mut own.opening).codes[1]
            .rows
            .values
            .last_mut()
            .expect("rows") += BaseField::from(1);
    }),
    ("the last message", |own| {
        parts_of_mut(&mut own.opening).final_message[0] += one()
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
