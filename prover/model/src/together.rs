//! Greedy generation of several texts at a time, which begin and end when they like (continuous batching).
//!
//! A step is one pass over the weights. It takes the next row of every text that generates, and rows of prompts as far as there is room
//! for them, so that a long prompt does not hold up the others. The ids of a text are those that [`generate`](crate::generate::generate)
//! gives it alone: a row sees nothing of other texts, and all arithmetic is exact.
//!
//! A text that begins like one that is there already, for example with the same system message, takes its first rows from that one: rows
//! depend on nothing but the ids up to them.

use tessera_circuits::semantics::arg_max;

use crate::forward::{Block, ForwardError, Placed, TextId, Texts};
use crate::generate::{check, GenerateError, GenerateOptions};
use crate::passes::Traffic;
use crate::QuantisedModel;

/// A token that a step has generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// The text.
    pub text: TextId,
    /// The token.
    pub id: u32,
    /// Whether the text ends with it. Then the text is removed already.
    pub last: bool,
}

/// A text that is being generated.
struct Running {
    text: TextId,
    options: GenerateOptions,
    /// The prompt, and generated ids.
    ids: Vec<u32>,
    /// How many of them have passed through the model.
    passed: usize,
    /// Generated ids.
    tokens: usize,
    /// A text that begins in the same way, and with how many ids: they are taken from it once they have passed.
    same: Option<(TextId, usize)>,
}

/// Ids in which two texts must begin alike, so that copying is worth waiting for.
const ALIKE: usize = 8;

/// Texts that are generated together.
pub struct Together<'m> {
    model: &'m QuantisedModel,
    texts: Texts<'m>,
    running: Vec<Running>,
}

impl<'m> Together<'m> {
    /// No texts, of a model as for [`generate`](crate::generate::generate).
    pub fn new(model: impl Into<Placed<'m>>) -> Self {
        let model = model.into();
        Self {
            model: model.model,
            texts: Texts::new(model),
            running: Vec::new(),
        }
    }

    /// Adds a text, which goes on after `prompt`. It takes part in the steps from now on.
    ///
    /// # Errors
    /// If nothing can be generated after the prompt.
    pub fn add(&mut self, prompt: &[u32], options: GenerateOptions) -> Result<TextId, GenerateError> {
        check(self.model, prompt, &options)?;
        let vocab = self.model.config.vocab;
        if let Some(position) = prompt.iter().position(|id| *id as usize >= vocab) {
            let id = prompt[position];
            return Err(ForwardError::UnknownToken { id, position, vocab }.into());
        }
        // The last row of a prompt passes itself, because its logits are wanted.
        let before_last = &prompt[..prompt.len() - 1];
        let alike = |own: &Running| own.ids.iter().zip(before_last).take_while(|(a, b)| a == b).count();
        let same = self.running.iter().map(|own| (own.text, alike(own)));
        let same = same.max_by_key(|(_, ids)| *ids).filter(|(_, ids)| *ids >= ALIKE);
        let text = self.texts.add();
        self.running.push(Running {
            text,
            options,
            ids: prompt.to_vec(),
            passed: 0,
            tokens: 0,
            same,
        });
        Ok(text)
    }

    /// Ends a text before its end, if it has none yet.
    pub fn remove(&mut self, text: TextId) {
        if let Some(at) = self.running.iter().position(|own| own.text == text) {
            self.running.remove(at);
            self.texts.remove(text);
            // Whoever waited for its rows has to pass all of them, as the number may soon be that of another text.
            for own in self
                .running
                .iter_mut()
                .filter(|own| own.same.is_some_and(|(of, _)| of == text))
            {
                own.same = None;
            }
        }
    }

    /// Number of texts that have not ended.
    pub fn len(&self) -> usize {
        self.running.len()
    }

    /// Whether all texts have ended.
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// What all steps so far have read of the weights.
    pub fn traffic(&self) -> Traffic {
        self.texts.traffic()
    }

    /// Makes one pass over the weights, and returns a token of every text whose prompt has passed. Rows of prompts fill the pass up to
    /// `rows` rows; the first text in the order of [`Together::add`] has at least one.
    ///
    /// # Errors
    /// If the device has failed: then no text can go on.
    pub fn step(&mut self, rows: usize) -> Result<Vec<Token>, ForwardError> {
        self.copy_rows();
        let decoding = self.running.iter().filter(|own| own.tokens > 0).count();
        let mut room = rows.saturating_sub(decoding).max(usize::from(decoding == 0));
        let mut blocks = Vec::with_capacity(self.running.len());
        for own in &self.running {
            let waiting = &own.ids[own.passed..];
            let taken = match (own.tokens, own.same) {
                (0, Some(_)) => 0,
                (0, None) => waiting.len().min(room),
                _ => waiting.len(),
            };
            if own.tokens == 0 {
                room -= taken;
            }
            if taken > 0 {
                blocks.push(Block {
                    text: own.text,
                    ids: &waiting[..taken],
                    logits: taken == waiting.len(),
                });
            }
        }
        let logits = self.texts.step(&blocks)?;
        let passed: Vec<(TextId, usize)> = blocks.iter().map(|block| (block.text, block.ids.len())).collect();
        let (mut logits, mut passed) = (logits.into_iter(), passed.into_iter().peekable());
        let (eos, mut tokens) = (&self.model.config.eos, Vec::new());
        for own in &mut self.running {
            let Some((_, rows)) = passed.next_if(|(text, _)| *text == own.text) else {
                continue;
            };
            own.passed += rows;
            if own.passed < own.ids.len() {
                continue;
            }
            let Some(logits) = logits.next() else { continue };
            let id = arg_max(&logits) as u32;
            own.tokens += 1;
            own.ids.push(id);
            tokens.push(Token {
                text: own.text,
                id,
                last: own.options.ends(eos, own.tokens, id),
            });
        }
        for token in tokens.iter().filter(|token| token.last) {
            self.remove(token.text);
        }
        Ok(tokens)
    }

    /// Gives texts the rows that they have in common with another one, where that one has them by now.
    fn copy_rows(&mut self) {
        for at in 0..self.running.len() {
            let Some((from, rows)) = self.running[at].same else {
                continue;
            };
            let other = self.running.iter().find(|own| own.text == from);
            if other.is_some_and(|other| other.passed >= rows) {
                let own = &mut self.running[at];
                self.texts.begin_as(own.text, from, &own.ids[..rows]);
                (own.passed, own.same) = (rows, None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::generate::generate;
    use crate::sample::random_model;
    use proptest::prelude::*;
    use tessera_circuits::model::WeightFormat;
    use tessera_samples::{odd_config, random_ids, windowed_config};
    use tessera_support::random::SplitMix;

    /// Runs requests that arrive at steps of their own; returns the ids of each.
    fn together(model: &QuantisedModel, requests: &[(usize, Vec<u32>, GenerateOptions)], rows: usize) -> Vec<Vec<u32>> {
        let mut all = Together::new(model);
        let (mut own, mut outputs) = (BTreeMap::new(), vec![Vec::new(); requests.len()]);
        let mut step = 0;
        while step == 0 || !all.is_empty() || requests.iter().any(|(at, ..)| *at >= step) {
            for (i, (_, prompt, options)) in requests.iter().enumerate().filter(|(_, (at, ..))| *at == step) {
                own.insert(all.add(prompt, *options).unwrap(), i);
            }
            for token in all.step(rows).unwrap() {
                outputs[own[&token.text]].push(token.id);
                if token.last {
                    own.remove(&token.text);
                }
            }
            step += 1;
        }
        outputs
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn a_text_has_the_ids_that_it_has_alone(
            seed in 0u64..1 << 32, rows in 1usize..24, format in 0usize..2, windowed in any::<bool>(),
        ) {
            let mut random = SplitMix(seed);
            let format = [WeightFormat::Int8, WeightFormat::Int16][format];
            let config = if windowed { windowed_config(7, [0, 2]) } else { odd_config() };
            let mut model = random_model(config, format, seed);
            let mut requests = Vec::new();
            for i in 0..1 + random.below(6) {
                let length = 1 + random.below(7) as usize;
                let mut prompt = random_ids(&model.config, length, seed ^ i);
                if random.below(2) == 0 {
                    // Texts that begin alike share rows.
                    prompt = [random_ids(&model.config, 8 + random.below(3) as usize, seed), prompt].concat();
                }
                if random.below(3) == 0 {
                    // Rows that repeat the first token have units of their own.
                    prompt = vec![prompt[0]; (prompt.len() + 6).min(18)];
                }
                let options = GenerateOptions {
                    tokens: 1 + random.below(8) as usize,
                    ignore_eos: random.below(2) == 0,
                };
                requests.push((random.below(6) as usize, prompt, options));
            }
            // A token that some of them generate ends a text.
            let first = generate(&model, &requests[0].1, &GenerateOptions::exactly(4), |_| ()).unwrap();
            model.config.eos = vec![first.ids[3]];
            let alone: Vec<Vec<u32>> = requests
                .iter()
                .map(|(_, prompt, options)| generate(&model, prompt, options, |_| ()).unwrap().ids)
                .collect();
            prop_assert_eq!(together(&model, &requests, rows), alone);
        }
    }

    #[test]
    fn a_text_that_is_removed_leaves_the_others_alone() {
        let model = random_model(odd_config(), WeightFormat::Int8, 3);
        let prompts = [5, 6].map(|seed| random_ids(&model.config, 4, seed));
        let mut all = Together::new(&model);
        let options = GenerateOptions::exactly(6);
        let [first, second] = prompts.each_ref().map(|prompt| all.add(prompt, options).unwrap());
        let mut ids = Vec::new();
        for step in 0..6 {
            if step == 2 {
                all.remove(first);
                // Another text takes the number that is free now.
                all.add(&prompts[0], options).unwrap();
            }
            let tokens = all.step(64).unwrap();
            ids.extend(tokens.iter().filter(|token| token.text == second).map(|token| token.id));
        }
        assert_eq!(ids, generate(&model, &prompts[1], &options, |_| ()).unwrap().ids);
        assert_eq!(all.len(), 1);
    }

    #[test]
    fn bad_requests_are_refused_as_alone() {
        let model = random_model(odd_config(), WeightFormat::Int8, 4);
        let mut all = Together::new(&model);
        for prompt in [
            vec![],
            vec![1, model.config.vocab as u32],
            vec![0; model.config.context + 1],
        ] {
            let options = GenerateOptions::exactly(1);
            assert_eq!(
                all.add(&prompt, options).unwrap_err(),
                generate(&model, &prompt, &options, |_| ()).unwrap_err()
            );
        }
        assert!(all.is_empty() && all.step(8).unwrap().is_empty());
    }
}
