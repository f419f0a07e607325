//! What calls take, without a chain. `cli/drivers/submit.mjs` asks one, and knows better.

use tessera_verifier::codec::CodecError;
use tessera_verifier::key::ModelKey;
use tessera_verifier::opening::CommitmentParams;

use super::calls::Packed;
use super::lengths::{self, PartLengths};
use super::opening;
use crate::calculate::opened;
use crate::plan::Plan;

/// Gas of a transaction before anything, and of a byte of its calldata; at least so much in all.
const TRANSACTION: u64 = 21_000;
const BYTE: u64 = 16;
const FLOOR: u64 = 40;
/// Gas of the contracts, as docs/chain.md has it measured, by what it grows with.
mod gas {
    /// A byte of what is said before the opening: mostly sumchecks.
    pub const SAID: u64 = 140;
    /// A byte of the conversation of the opening.
    pub const OPENING: u64 = 110;
    /// A byte of rows of trees, and of elements that are folded.
    pub const ROWS: u64 = 17;
    pub const ELEMENTS: u64 = 46;
    /// A call of another contract with a state, its digests and slots.
    pub const CALL: u64 = 60_000;
}
/// Bytes of a state that a stage takes: positions, weights and challenges.
const STATE: usize = 5_000;

/// A call of the contracts, and what it takes about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What it verifies.
    pub name: String,
    /// Of calldata.
    pub bytes: usize,
    /// As a transaction of its own.
    pub gas: u64,
}

/// Few bytes are zeros.
fn call(name: impl Into<String>, bytes: usize, work: u64) -> Call {
    let spent = TRANSACTION + gas::CALL + work + BYTE * bytes as u64;
    Call {
        name: name.into(),
        bytes,
        gas: spent.max(TRANSACTION + FLOOR * bytes as u64),
    }
}

/// How many bytes a proof has in all calls.
struct Lengths {
    header: usize,
    said: usize,
    opening: PartLengths,
}

impl Packed {
    /// All calls, one after the other. Several of them that go into one transaction take less: they share states.
    pub fn calls(&self) -> Vec<Call> {
        let lengths = Lengths {
            header: self.header.len(),
            said: self.said.len(),
            opening: PartLengths::of(&self.opening),
        };
        calls(&self.plan, &lengths)
    }
}

impl Plan {
    /// The calls of a proof that nobody has made yet, of a statement of so many token rows: what [`Packed::calls`] says of it, but
    /// that queries open as many leaves and nodes as on average. `key` is the one that the plan was made of.
    ///
    /// # Errors
    /// If the key cannot be encoded.
    pub fn expected_calls(&self, key: &ModelKey, rows: usize) -> Result<Vec<Call>, CodecError> {
        let activations = CommitmentParams::of_activations(&self.shape, &key.weights);
        let lengths = Lengths {
            header: self.header(key)?.len(),
            said: lengths::said(&self.shape, rows),
            opening: opening::expected(&opened(key, &self.shape), &[key.weights, activations]),
        };
        Ok(calls(self, &lengths))
    }
}

fn calls(plan: &Plan, lengths: &Lengths) -> Vec<Call> {
    let Lengths { header, said, opening } = lengths;
    let mut calls = vec![call(
        "what is said, up to the queries",
        header + said + opening.conversation,
        gas::SAID * *said as u64 + gas::OPENING * opening.conversation as u64,
    )];
    for (i, own) in plan.program.iter().enumerate() {
        let name = format!("program of the plan, segment {} of {}", i + 1, plan.program.len());
        let state = 16 * own.given + 8 * plan.shape.text_rows();
        calls.push(call(name, state + 20 * own.pages.len() + 200, own.gas));
    }
    calls.extend(opening.stages.iter().enumerate().map(|(i, own)| {
        let work = if i < opening.trees { gas::ROWS } else { gas::ELEMENTS };
        call(format!("opening, stage {i}"), own + STATE, work * *own as u64)
    }));
    calls
}
