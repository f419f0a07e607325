//! What calls take, without a chain. `cli/drivers/submit.mjs` asks one, and knows better.

use super::calls::{Packed, Part};

/// Gas of a transaction before anything, and of a byte of its calldata; at least so much in all.
const TRANSACTION: u64 = 21_000;
const BYTE: u64 = 16;
const ZERO: u64 = 4;
const FLOOR: u64 = 40;
const FLOOR_ZERO: u64 = 10;
/// Gas of the contracts, as docs/chain.md has it measured, by what it grows with.
mod gas {
    /// A byte of what is said before the opening: mostly sumchecks.
    pub const SAID: u64 = 140;
    /// A byte of the conversation of the opening, and a coefficient there.
    pub const OPENING: u64 = 45;
    pub const COEFFICIENT: u64 = 900;
    /// A byte of the conversation of the STARK.
    pub const STARK: u64 = 150;
    /// A byte of rows of trees, and of elements that are folded.
    pub const ROWS: u64 = 17;
    pub const ELEMENTS: u64 = 46;
    /// A call of another contract with a state, its digests and slots.
    pub const CALL: u64 = 60_000;
}
/// Bytes of states that stages take: positions, weights and challenges.
const STATE: usize = 14_000;

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

/// Bytes as calldata has them: elements and their digests have few zeros, words of states are half zeros.
fn call(name: impl Into<String>, sent: usize, state: usize, work: u64) -> Call {
    let price = |own: u64, zero: u64| own * (sent + state / 2) as u64 + zero * (state / 2) as u64;
    let spent = TRANSACTION + gas::CALL + work + price(BYTE, ZERO);
    Call {
        name: name.into(),
        bytes: sent + state,
        gas: spent.max(TRANSACTION + price(FLOOR, FLOOR_ZERO)),
    }
}

impl Packed {
    /// All calls, one after the other.
    pub fn calls(&self) -> Vec<Call> {
        let words = 4 * (2usize << self.plan.shape.token) + self.plan.shape.outputs * 2;
        let said = 32 * (60 + words / 4);
        let length = |part: &Part| part.conversation.len();
        let mut calls = vec![call(
            "what is said before the opening",
            self.said.len() + self.header.len(),
            0,
            gas::SAID * self.said.len() as u64,
        )];
        for (i, own) in self.plan.program.iter().enumerate() {
            let given = 16 * own.given;
            // Its estimate has its calldata.
            let work = own.gas.saturating_sub((BYTE + 2) * (own.code.len() + given) as u64);
            let name = format!("program of the plan, segment {} of {}", i + 1, self.plan.program.len());
            calls.push(call(name, own.code.len() + given, said, work));
        }
        let coefficients = self.plan.outputs as u64;
        calls.push(call(
            "conversations of opening and STARK",
            length(&self.opening) + length(&self.stark) + 16 * self.plan.outputs,
            16 * self.plan.outputs + 32 * 60,
            gas::COEFFICIENT * coefficients
                + gas::OPENING * length(&self.opening) as u64
                + gas::STARK * length(&self.stark) as u64,
        ));
        let parts = [("opening", &self.opening, 2), ("STARK", &self.stark, 4)];
        for (name, part, rows) in parts {
            let stages = part.stages.iter().enumerate().map(|(i, own)| {
                let work = if i < rows { gas::ROWS } else { gas::ELEMENTS };
                call(format!("{name}, stage {i}"), own.len(), STATE, work * own.len() as u64)
            });
            calls.extend(stages);
        }
        calls
    }
}
