//! A plan and the verifier it was made of, at random points.

use stwo::core::fields::m31::P;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::chunk::Chunk;
use tessera_circuits::statement::Statement;
use tessera_verifier::key::ModelKey;
use thiserror::Error;

use crate::calculate::{calculate, in_order, inputs, opened};
use crate::hash::keccak;
use crate::plan::Plan;

/// The program of a plan leaves something else than the verifier calculates.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "the plan does not calculate what the verifier does: do not use it, and report this as a defect of this program"
)]
pub struct Differs;

/// Numbers that follow from a seed.
struct Random {
    seed: [u64; 4],
    drawn: u64,
}

impl Random {
    fn next(&mut self) -> u64 {
        self.drawn += 1;
        let words = self.seed.into_iter().chain([self.drawn]);
        let digest = keccak(&words.flat_map(u64::to_be_bytes).collect::<Vec<u8>>());
        digest.first_chunk().map_or(0, |word| u64::from_be_bytes(*word))
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn element(&mut self) -> SecureField {
        let [a, b, c, d] = std::array::from_fn(|_| (self.next() % u64::from(P)) as u32);
        SecureField::from_u32_unchecked(a, b, c, d)
    }
}

impl Plan {
    /// Evaluates the program, and what a verifier calculates without one, with random challenges, messages and ids, for prompts of four
    /// lengths: the shortest, the longest and two random ones, of which one has equal ids. `key` is the valid one that the plan was made
    /// of. Where they are different functions of the challenges, they differ at a random point but for a chance of less than 2^-90.
    ///
    /// # Errors
    /// If they differ.
    pub fn check(&self, key: &ModelKey, seed: [u64; 4]) -> Result<(), Differs> {
        let mut random = Random { seed, drawn: 0 };
        let lengths = self.prompt_tokens(key);
        let mut between = || lengths.start() + random.below(lengths.end() - lengths.start() + 1);
        let prompts = [*lengths.start(), *lengths.end(), between(), between()];
        for (i, prompt) in prompts.into_iter().enumerate() {
            let mut ids: Vec<u32> = (0..prompt + self.shape.outputs)
                .map(|_| random.below(key.config.vocab) as u32)
                .collect();
            if i + 1 == prompts.len() {
                // As many leading rows as there can be.
                ids.fill(0);
            }
            let output = ids.split_off(prompt);
            self.check_of(key, &Statement { prompt: ids, output }, &mut random)?;
        }
        Ok(())
    }

    fn check_of(&self, key: &ModelKey, statement: &Statement, random: &mut Random) -> Result<(), Differs> {
        let inputs = inputs(&self.shape, || random.element());
        let ends = opened(key, &self.shape).map(|columns| (0..columns.log_bands()).map(|_| random.element()).collect());
        // The plan has the same row spaces, but its text fills the last block, and this one may end before.
        let shape = key.shape(&Chunk::whole(key.config.layers), statement.lengths());
        let expected = calculate(key, &shape, statement, &inputs, &ends);
        let given = [in_order(&inputs), ends.concat()].concat();
        let got = self.run(&given, &self.words(key, statement));
        match got == Some(expected.in_order()) {
            true => Ok(()),
            false => Err(Differs),
        }
    }
}
