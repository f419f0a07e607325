//! Greedy generation with the integer model.

use std::time::Instant;

use tessera_circuits::semantics::arg_max;
use tessera_circuits::wording::count;
use thiserror::Error;

use crate::forward::{ForwardError, ForwardState, Placed, Saturations};
use crate::passes::Traffic;
use crate::QuantisedModel;

/// How much to generate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenerateOptions {
    /// The most tokens.
    pub tokens: usize,
    /// Go on past the tokens of the config that end a text; otherwise the first one is the last token.
    pub ignore_eos: bool,
}

impl GenerateOptions {
    /// Ends with the text, after this many tokens at the latest.
    pub const fn at_most(tokens: usize) -> Self {
        Self {
            tokens,
            ignore_eos: false,
        }
    }

    /// This many tokens, whatever they are.
    pub const fn exactly(tokens: usize) -> Self {
        Self {
            tokens,
            ignore_eos: true,
        }
    }
}

impl GenerateOptions {
    /// Whether a text ends with the last of so many generated tokens.
    pub fn ends(&self, eos: &[u32], tokens: usize, last: u32) -> bool {
        tokens >= self.tokens || !self.ignore_eos && eos.contains(&last)
    }
}

/// A generated continuation.
#[derive(Clone, Debug, PartialEq)]
pub struct Generation {
    /// Generated token ids, without the prompt.
    pub ids: Vec<u32>,
    /// Time for the prompt, up to its first generated token.
    pub prefill_seconds: f64,
    /// Time for the other generated tokens.
    pub decode_seconds: f64,
    /// Saturated values by tensor (see `ForwardState::saturated`).
    pub saturated: Saturations,
    /// What was read of the weights.
    pub traffic: Traffic,
}

impl Generation {
    /// Generated tokens per second after the first one; 0 if there is only one.
    pub fn tokens_per_second(&self) -> f64 {
        if self.decode_seconds > 0.0 {
            self.ids.len().saturating_sub(1) as f64 / self.decode_seconds
        } else {
            0.0
        }
    }
}

/// Why nothing can be generated.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum GenerateError {
    #[error("the prompt is empty")]
    EmptyPrompt,
    #[error("no tokens to generate were asked for")]
    NoTokens,
    #[error("the prompt has {prompt} tokens, more than the context of {context}")]
    PromptTooLong { prompt: usize, context: usize },
    #[error(
        "a prompt of {} and {} to generate exceed the context of {context}: ask for at most {}",
        count(prompt, "token"),
        count(tokens, "token"),
        context + 1 - prompt
    )]
    TooManyTokens {
        prompt: usize,
        tokens: usize,
        context: usize,
    },
    #[error("the model is an encoder: it makes a vector of a text and generates no tokens (embed, or prove --embed)")]
    Encoder,
    #[error(transparent)]
    Forward(#[from] ForwardError),
}

/// Token rows of a text of this many tokens: prompt and output, but the last token, which is not run. Errors where there is
/// no such text in a context of so many.
pub fn token_rows(prompt: usize, tokens: usize, context: usize) -> Result<usize, GenerateError> {
    if prompt == 0 {
        return Err(GenerateError::EmptyPrompt);
    }
    if tokens == 0 {
        return Err(GenerateError::NoTokens);
    }
    if prompt > context {
        return Err(GenerateError::PromptTooLong { prompt, context });
    }
    if tokens - 1 > context - prompt {
        return Err(GenerateError::TooManyTokens {
            prompt,
            tokens,
            context,
        });
    }
    Ok(prompt + tokens - 1)
}

/// Continues `prompt` greedily: each token is the arg max of the logits, the lowest id on a tie.
/// `on_token` gets every generated token as soon as it is known. The last generated token is not run, so
/// prompt and tokens may exceed the context by one.
pub fn generate<'m>(
    model: impl Into<Placed<'m>>,
    prompt: &[u32],
    options: &GenerateOptions,
    on_token: impl FnMut(u32),
) -> Result<Generation, GenerateError> {
    let model = model.into();
    check(model.model, prompt, options)?;
    generate_in(&mut ForwardState::new(model), prompt, options, on_token)
}

/// Generates as [`generate`], and keeps what is computed: the state is ready for [`ForwardState::finish`].
pub fn generate_recorded<'m>(
    model: impl Into<Placed<'m>>,
    prompt: &[u32],
    options: &GenerateOptions,
) -> Result<(Generation, ForwardState<'m>), GenerateError> {
    let model = model.into();
    let rows = check(model.model, prompt, options)?;
    let mut state = ForwardState::recording(model, rows);
    let generation = generate_in(&mut state, prompt, options, |_| ())?;
    Ok((generation, state))
}

/// Token rows of what is asked for, at most.
pub(crate) fn check(model: &QuantisedModel, prompt: &[u32], options: &GenerateOptions) -> Result<usize, GenerateError> {
    if !model.config.generates() {
        return Err(GenerateError::Encoder);
    }
    token_rows(prompt.len(), options.tokens, model.config.context)
}

fn generate_in(
    state: &mut ForwardState<'_>,
    prompt: &[u32],
    options: &GenerateOptions,
    mut on_token: impl FnMut(u32),
) -> Result<Generation, GenerateError> {
    let eos = &state.model().config.eos;
    let mut clock = Instant::now();
    let mut next = arg_max(&state.run_last(prompt)?) as u32;
    let prefill_seconds = clock.elapsed().as_secs_f64();
    clock = Instant::now();
    let mut ids = vec![next];
    on_token(next);
    while !options.ends(eos, ids.len(), next) {
        next = arg_max(&state.run_last(&[next])?) as u32;
        ids.push(next);
        on_token(next);
    }
    let decode_seconds = clock.elapsed().as_secs_f64();
    Ok(Generation {
        ids,
        prefill_seconds,
        decode_seconds,
        saturated: state.saturated(),
        traffic: state.traffic(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::random_model;
    use tessera_circuits::model::WeightFormat;
    use tessera_samples::{fixture_size_config, odd_config, random_ids};

    fn options(tokens: usize) -> GenerateOptions {
        GenerateOptions::exactly(tokens)
    }

    #[test]
    fn generated_tokens_are_the_arg_maxes_of_one_forward_pass() {
        let model = random_model(odd_config(), WeightFormat::Int16, 5);
        let prompt = random_ids(&model.config, 7, 5);
        let mut streamed = Vec::new();
        let generation = generate(&model, &prompt, &options(12), |id| streamed.push(id)).unwrap();
        assert_eq!(generation.ids.len(), 12);
        assert_eq!(generation.ids, streamed);

        let all: Vec<u32> = prompt.iter().chain(&generation.ids).copied().collect();
        let logits = ForwardState::new(&model).run(&all[..all.len() - 1], None).unwrap();
        for (row, &id) in logits
            .chunks_exact(model.config.vocab)
            .skip(prompt.len() - 1)
            .zip(&generation.ids)
        {
            let best = row.iter().copied().max().unwrap();
            assert_eq!(row.iter().position(|&v| v == best), Some(id as usize));
        }
    }

    #[test]
    fn a_text_ends_with_any_of_the_end_tokens_unless_they_are_ignored() {
        let mut model = random_model(odd_config(), WeightFormat::Int8, 6);
        let prompt = random_ids(&model.config, 5, 6);
        let free = generate(&model, &prompt, &options(8), |_| ()).unwrap().ids;
        model.config.eos = vec![model.config.vocab as u32, free[3]];
        assert_eq!(generate(&model, &prompt, &options(8), |_| ()).unwrap().ids, free);
        let stopped = generate(&model, &prompt, &GenerateOptions::at_most(8), |_| ()).unwrap();
        let end = free.iter().position(|&id| id == free[3]).unwrap();
        assert_eq!(stopped.ids, free[..=end]);
    }

    #[test]
    fn the_whole_context_can_be_used_and_no_more() {
        let model = random_model(odd_config(), WeightFormat::Int8, 7);
        let context = model.config.context;
        let prompt = random_ids(&model.config, context - 2, 7);
        assert_eq!(generate(&model, &prompt, &options(3), |_| ()).unwrap().ids.len(), 3);
        assert_eq!(
            generate(&model, &prompt, &options(4), |_| ()),
            Err(GenerateError::TooManyTokens {
                prompt: context - 2,
                tokens: 4,
                context
            })
        );
        assert_eq!(
            generate(&model, &vec![0; context + 1], &options(1), |_| ()),
            Err(GenerateError::PromptTooLong {
                prompt: context + 1,
                context
            })
        );
    }

    #[test]
    fn bad_requests_are_named() {
        let model = random_model(fixture_size_config(), WeightFormat::Int8, 8);
        assert_eq!(
            generate(&model, &[], &options(1), |_| ()),
            Err(GenerateError::EmptyPrompt)
        );
        assert_eq!(
            generate(&model, &[1], &options(0), |_| ()),
            Err(GenerateError::NoTokens)
        );
        let unknown = generate(&model, &[1, 2048], &options(1), |_| ()).unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "token id 2048 at position 1 is not below the vocabulary size 2048"
        );
    }
}
