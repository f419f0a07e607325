//! Requests for proofs, with everything that is known of them before the model runs.

use tessera_circuits::chunk::Chunk;
use tessera_circuits::sizes::Sizes;
use tessera_circuits::statement::{HiddenIds, Lengths, Statement};
use tessera_model::generate::{token_rows, GenerateError, GenerateOptions};
use tessera_prover::{Admits, ProofOptions, ProveError};
use tessera_text::chat::Date;
use tessera_text::tokenizer::Tokenizer;
use tessera_verifier::context::Context;
use tessera_verifier::hiding::most_reveals;
use tessera_verifier::key::ModelKey;
use tessera_verifier::ledger::{revealed_security_bits, security_bits};
use tessera_verifier::policy::MIN_BITS;

use crate::expected::{AnswerError, ExpectedAnswer, Sought};
use crate::plan::{Budget, Task};
use crate::prompt::{Prompt, PromptIds};
use crate::Error;

/// How much to generate, and within which limits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// How much to generate; encoders ignore it, because they make one vector of a text.
    pub generate: GenerateOptions,
    /// The context that a proof is tied to, for example a sender and a nonce; `None` for a proof that anybody can present.
    pub context: Option<Context>,
    /// The most memory to use; `None` for four fifths of the memory that is available.
    pub memory: Option<Budget>,
    /// The answer that a proof has to be about; `None` if it may be about any. If the model gives another one, nothing is proved
    /// ([`Error::Differs`]).
    pub answer: Option<ExpectedAnswer>,
    /// Whether proofs are for contracts: nothing is proved that contracts do not verify. It takes a model of `setup --hash keccak`.
    pub for_chain: bool,
    /// Whether proofs hide activations, so that nobody learns more of them than the statement says.
    pub hide_activations: bool,
    /// Which ids of prompt and answer proofs hide; if any, they hide activations, too.
    pub hidden_ids: HiddenIds,
    /// For how many reveals of hidden ids proofs leave room. The secret that they need is written by [`crate::Proof::write_secret`].
    pub reveals: usize,
}

impl Options {
    /// Generates until the text ends, and at most this many tokens.
    pub const fn at_most(tokens: usize) -> Self {
        Self::of(GenerateOptions::at_most(tokens))
    }

    /// Generates exactly this many tokens, also after the text has ended.
    pub const fn exactly(tokens: usize) -> Self {
        Self::of(GenerateOptions::exactly(tokens))
    }

    /// Proves exactly this answer, as long as it is.
    pub fn giving(answer: impl Into<ExpectedAnswer>) -> Self {
        Self::at_most(usize::MAX).expecting(answer)
    }

    const fn of(generate: GenerateOptions) -> Self {
        let (context, memory, answer) = (None, None, None);
        Self {
            generate,
            context,
            memory,
            answer,
            hide_activations: false,
            hidden_ids: HiddenIds {
                prompt: None,
                output: false,
            },
            reveals: 0,
            for_chain: false,
        }
    }

    /// Proves nothing but this answer. It may be cut after as many tokens as these options allow, and is complete if it has fewer.
    #[must_use]
    pub fn expecting(mut self, answer: impl Into<ExpectedAnswer>) -> Self {
        self.answer = Some(answer.into());
        self
    }

    /// Ties proofs to a context, in which alone they hold.
    #[must_use]
    pub const fn in_context(mut self, context: Context) -> Self {
        self.context = Some(context);
        self
    }

    /// Proves nothing that contracts do not verify.
    #[must_use]
    pub const fn for_chain(mut self) -> Self {
        self.for_chain = true;
        self
    }

    /// Hides activations in proofs.
    #[must_use]
    pub const fn hiding_activations(mut self) -> Self {
        self.hide_activations = true;
        self
    }

    /// Hides these ids in proofs, and activations.
    #[must_use]
    pub const fn hiding(mut self, ids: HiddenIds) -> Self {
        self.hidden_ids = ids;
        self.hide_activations = true;
        self
    }

    /// Leaves room for so many reveals of ids that proofs hide.
    #[must_use]
    pub const fn revealing(mut self, reveals: usize) -> Self {
        self.reveals = reveals;
        self
    }

    /// Whether proofs hide anything.
    pub const fn hides(&self) -> bool {
        self.hide_activations || !self.hidden_ids.is_none()
    }

    /// Uses at most this much memory.
    #[must_use]
    pub const fn within(mut self, memory: Budget) -> Self {
        self.memory = Some(memory);
        self
    }
}

/// Lengths of a statement about a prompt of so many ids: `tokens` are generated after it, or none if it is the text of an
/// encoder.
///
/// # Errors
/// If the context has no room for them, or if an encoder is to generate tokens.
pub fn lengths(key: &ModelKey, prompt: usize, tokens: Option<usize>) -> Result<Lengths, GenerateError> {
    match (key.config.generates(), tokens) {
        (false, Some(_)) => Err(GenerateError::Encoder),
        (_, tokens) => Ok(Lengths::new(
            token_rows(prompt, tokens.unwrap_or(1), key.config.context)?,
            tokens.unwrap_or(0),
        )),
    }
}

/// A request for a proof, read with a key: its ids, and how long the statement gets at most.
#[derive(Clone, Debug)]
pub struct ProofRequest {
    /// The prompt's ids, and notes about them.
    pub prompt: PromptIds,
    /// How much to generate.
    pub generate: GenerateOptions,
    /// The context that the proof is tied to.
    pub context: Option<Context>,
    /// Whether the proof hides activations.
    pub hide_activations: bool,
    /// Which ids the proof hides.
    pub hidden_ids: HiddenIds,
    /// For how many reveals of them the proof leaves room.
    pub reveals: usize,
    /// Whether the proof is for contracts.
    pub for_chain: bool,
    /// The most token rows and output tokens.
    pub lengths: Lengths,
    pub(crate) sought: Option<Sought>,
}

impl ProofRequest {
    /// Reads a request for the model of a key, with the tokenizer of that key. A chat without a date takes place now.
    ///
    /// # Errors
    /// If the prompt or the expected answer cannot be used with the model, if its context has no room for them, or if the options exclude each other.
    pub fn new(
        key: &ModelKey,
        tokenizer: Option<&Tokenizer>,
        prompt: &Prompt,
        options: &Options,
    ) -> Result<Self, Error> {
        let prompt = prompt.clone().dated(Date::now()).ids(key, tokenizer)?;
        Self::of_ids(key, tokenizer, prompt, options)
    }

    /// Reads a request about a prompt whose ids are known.
    ///
    /// # Errors
    /// As [`ProofRequest::new`].
    pub fn of_ids(
        key: &ModelKey,
        tokenizer: Option<&Tokenizer>,
        prompt: PromptIds,
        options: &Options,
    ) -> Result<Self, Error> {
        if options.hides() && options.for_chain {
            return Err(Error::HiddenForChain);
        }
        let (reveals, most) = (options.reveals, most_reveals(&key.weights));
        if reveals > 0 && options.hidden_ids.is_none() {
            return Err(Error::NothingToReveal);
        }
        if reveals > most {
            return Err(Error::Reveals { got: reveals, most });
        }
        let (config, generate) = (&key.config, options.generate);
        let sought = match &options.answer {
            Some(_) if !config.generates() => return Err(GenerateError::Encoder.into()),
            Some(answer) => Some(Sought::new(answer, &prompt.ids, &generate, config, tokenizer)?),
            None => None,
        };
        let tokens = sought.as_ref().map_or(generate.tokens, Sought::tokens);
        let hidden_ids = options.hidden_ids;
        hidden_ids
            .check(&prompt.ids, config, &key.params.leading)
            .map_err(ProveError::from)?;
        let lengths = lengths(key, prompt.ids.len(), config.generates().then_some(tokens))?;
        Ok(Self {
            lengths: lengths.hiding(prompt.ids.len(), &hidden_ids),
            context: options.context,
            hide_activations: options.hides(),
            hidden_ids,
            reveals,
            for_chain: options.for_chain,
            prompt,
            generate,
            sought,
        })
    }

    /// The options of the proof that its statement does not say.
    pub const fn asked<'a>(&self, admits: Option<Admits<'a>>) -> ProofOptions<'a> {
        ProofOptions {
            context: self.context,
            hide_activations: self.hide_activations,
            hidden_ids: self.hidden_ids,
            reveals: self.reveals,
            without_clips: self.for_chain,
            admits,
        }
    }

    /// Refuses a request whose proof in one piece no verifier accepts.
    ///
    /// # Errors
    /// If it has too few bits of security.
    pub fn check_whole(&self, key: &ModelKey) -> Result<(), ProveError> {
        let got = match self.hide_activations {
            false => security_bits(key, &[Chunk::whole(key.config.layers)], self.lengths),
            // The prover says why there may be no such proof at all.
            true => match revealed_security_bits(key, self.lengths, self.reveals) {
                Some(bits) => bits,
                None => return Ok(()),
            },
        };
        let (rows, min) = (self.lengths.rows, MIN_BITS);
        match got < min {
            true => Err(ProveError::Security { rows, got, min }),
            false => Ok(()),
        }
    }

    /// The task of a proof in one piece.
    pub fn task(&self, key: &ModelKey) -> Task {
        Task::Prove {
            lengths: self.lengths,
            chunk: Chunk::whole(key.config.layers),
            hides: self.hide_activations,
        }
    }

    /// Whether the proof has to be about a given answer.
    pub const fn expects_answer(&self) -> bool {
        self.sought.is_some()
    }

    /// How to generate an output that was compared with the expected answer; without one, what the request says.
    pub fn options_for(&self, output: Option<&[u32]>) -> GenerateOptions {
        GenerateOptions {
            tokens: output.map_or(self.generate.tokens, <[u32]>::len),
            ..self.generate
        }
    }

    /// Whether a statement that is proved is what the request asks for. Decoding is greedy, so there is one output of a length.
    pub(crate) fn is_answered_by(&self, statement: &Statement, key: &ModelKey, tokenizer: Option<&Tokenizer>) -> bool {
        let (config, output) = (&key.config, &statement.output);
        if statement.prompt != self.prompt.ids || !config.generates() {
            return statement.prompt == self.prompt.ids;
        }
        if let Some(sought) = &self.sought {
            return sought.is(output, &statement.prompt, config, tokenizer);
        }
        let tokens = self.generate.tokens;
        let ends = |id: &u32| !self.generate.ignore_eos && config.eos.contains(id);
        match output.split_last() {
            Some((last, before)) if !before.iter().any(ends) => {
                output.len() == tokens || output.len() < tokens && ends(last)
            }
            _ => false,
        }
    }

    pub(crate) fn statement(&self, output: Vec<u32>) -> Statement {
        Statement {
            prompt: self.prompt.ids.clone(),
            output,
        }
    }

    /// Refuses an output that needs a larger proof than was planned.
    pub(crate) fn check_output(&self, output: &[u32]) -> Result<(), AnswerError> {
        let rows = (self.prompt.ids.len() + output.len()).saturating_sub(1);
        let planned = Sizes::text_rows_of(self.lengths.rows);
        match Sizes::text_rows_of(rows) > planned {
            true => Err(AnswerError::OtherTokens {
                planned: self.lengths.outputs,
                got: output.len(),
            }),
            false => Ok(()),
        }
    }
}
