//! Answers of a model, and proofs of them.

use std::path::Path;
use std::time::Instant;

use tessera_circuits::statement::{Lengths, Statement};
use tessera_model::forward::{ForwardState, Saturations};
use tessera_model::generate::{generate, token_rows, Generation};
use tessera_model::QuantisedModel;
use tessera_plan::Plan as ChainPlan;
use tessera_prover::{prove_for, prove_statement, ProveReport, ProverModel};
use tessera_support::files;
use tessera_support::progress::Progress;
use tessera_text::chat::Date;
use tessera_verdict::prompt::{check_encoder, check_reranker, Prompt, PromptError, PromptIds};
use tessera_verdict::vector::Vector;

use crate::expected::{Difference, Followed, Unfollowed};
use crate::lengths::fewest_chunks;
use crate::plan::{Budget, Plan, Task};
use crate::request::{lengths, Options, ProofRequest};
use crate::work::{drive, Driver, Request, WorkDir, WorkError};
use crate::{Error, Model};

/// The phase that compares the model with an expected answer.
pub(crate) const COMPARE: &str = "compare answer";

/// A generated text.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The prompt's ids, and notes about them.
    pub prompt: PromptIds,
    /// The generated ids, times and saturated values.
    pub generation: Generation,
    /// The text that the generated ids add to the prompt; `None` if the model has no tokenizer.
    pub text: Option<String>,
}

/// The vector that an encoder makes of a text.
#[derive(Clone, Debug)]
pub struct Embedding {
    /// The text's ids, and notes about them.
    pub prompt: PromptIds,
    /// The vector: the integers that a proof is about, and the numbers that they stand for. A reranker's scores are in it, too.
    pub vector: Vector,
    /// Saturated values by tensor.
    pub saturated: Saturations,
}

/// A proof, and how it was made.
#[derive(Clone, Debug)]
pub struct Proof {
    /// The prompt's ids, and notes about them.
    pub prompt: PromptIds,
    /// The text that the proved ids add to the prompt; `None` if the model has no tokenizer, or made a vector.
    pub text: Option<String>,
    /// The position from which on the ids are others than those of the expected text's encoding; `None` if there is none.
    pub other_from: Option<usize>,
    /// Phases with their times, passes over the weights, and bits of security.
    pub report: ProveReport,
}

impl Proof {
    /// The bytes of the proof, as verifiers take them.
    pub fn bytes(&self) -> &[u8] {
        &self.report.bytes
    }

    /// The statement that the proof is of: prompt and output.
    pub const fn statement(&self) -> &Statement {
        &self.report.proof.statement
    }

    /// Writes the proof to a file, which has its name once it is complete.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        Ok(files::write(path.as_ref(), self.bytes())?)
    }
}

impl Model {
    /// Continues a prompt greedily: each token is the one with the largest logit.
    ///
    /// # Errors
    /// If the prompt cannot be used with the model, or if there is too little memory or context for it.
    pub fn generate(
        &self,
        prompt: impl Into<Prompt>,
        options: &Options,
        progress: &dyn Progress,
    ) -> Result<Answer, Error> {
        let prompt = self.ids(&prompt.into())?;
        let Lengths { rows, .. } = lengths(&self.key, prompt.ids.len(), Some(options.generate.tokens))?;
        let logits = false;
        let (model, _) = self.planned(Task::Generate { rows, logits }, options.memory)?;
        progress.phase("generate", Some(options.generate.tokens as u64));
        let generation = generate(&model, &prompt.ids, &options.generate, |_| progress.advance(1))?;
        progress.done();
        Ok(Answer {
            text: self.text(&prompt.ids, &generation.ids)?,
            prompt,
            generation,
        })
    }

    /// Generates an answer to a prompt, or makes the vector of a text, and proves that the model does.
    ///
    /// # Errors
    /// As [`Model::generate`], if the model gives another answer than the expected one ([`Error::Differs`]), and if no proof of this
    /// length is secure enough: then [`Model::prepare`] proves in chunks.
    pub fn prove(&self, prompt: impl Into<Prompt>, options: &Options, progress: &dyn Progress) -> Result<Proof, Error> {
        let request = ProofRequest::new(&self.key, self.tokenizer.as_ref(), &prompt.into(), options)?;
        self.prove_within(&request, options.memory, progress)
    }

    /// Proves a request within a budget of memory, as [`Model::prove`].
    pub(crate) fn prove_within(
        &self,
        request: &ProofRequest,
        memory: Option<Budget>,
        progress: &dyn Progress,
    ) -> Result<Proof, Error> {
        request.check_whole(&self.key)?;
        let (quantised, _) = self.planned(request.task(&self.key), memory)?;
        self.prove_with(&quantised, request, progress)
    }

    /// Proves a request with the weights as the model was opened with them ([`Model::with_choices`]).
    ///
    /// # Errors
    /// As [`Model::prove`].
    pub fn prove_request(&self, request: &ProofRequest, progress: &dyn Progress) -> Result<Proof, Error> {
        request.check_whole(&self.key)?;
        self.prove_with(&self.quantised, request, progress)
    }

    fn prove_with(
        &self,
        quantised: &QuantisedModel,
        request: &ProofRequest,
        progress: &dyn Progress,
    ) -> Result<Proof, Error> {
        let prover = ProverModel {
            quantised,
            ..self.prover()
        };
        // Contracts are asked once more when the length of the answer is known, as a shorter one may have a plan.
        let has_plan = |statement: &Statement| {
            let plan = ChainPlan::new(&self.key, statement.rows(), statement.output.len());
            plan.map(|_| ()).map_err(|error| error.to_string())
        };
        if request.for_chain {
            ChainPlan::check_key(&self.key)?;
        }
        let asked = request.asked(request.for_chain.then_some(&has_plan));
        let clock = Instant::now();
        let (report, other_from) = match self.compared(quantised, request, progress)? {
            Some(followed) => {
                let compared = clock.elapsed().as_secs_f64();
                let statement = request.statement(followed.output);
                let mut report = prove_statement(&prover, statement, asked, progress)?;
                report.phases.insert(0, (COMPARE.to_owned(), compared));
                (report, followed.other_from)
            }
            None => {
                let (prompt, options) = (&request.prompt.ids, &request.generate);
                let report = prove_for(&prover, prompt, options, asked, progress)?;
                (report, None)
            }
        };
        progress.done();
        let prompt = request.prompt.clone();
        let text = match self.key.config.generates() {
            true => self.text(&prompt.ids, &report.statement.output)?,
            false => None,
        };
        Ok(Proof {
            prompt,
            text,
            other_from,
            report,
        })
    }

    /// The answer of a request that expects one, if the model gives it; `None` if the request expects none.
    ///
    /// # Errors
    /// [`Error::Differs`] if the model gives another answer.
    pub fn expected_output(&self, request: &ProofRequest, progress: &dyn Progress) -> Result<Option<Followed>, Error> {
        self.compared(&self.quantised, request, progress)
    }

    fn compared(
        &self,
        quantised: &QuantisedModel,
        request: &ProofRequest,
        progress: &dyn Progress,
    ) -> Result<Option<Followed>, Error> {
        let Some(sought) = &request.sought else {
            return Ok(None);
        };
        progress.phase(COMPARE, Some(sought.tokens() as u64));
        let followed = sought.follow(quantised, &request.prompt.ids, self.tokenizer.as_ref(), progress);
        let followed = followed.map_err(|error| match error {
            // Logits are activations: a request to hide them shows none if it is refused.
            Unfollowed::Differs(difference) if request.hide_activations => Unfollowed::Differs(Box::new(Difference {
                margin_nats: None,
                ..*difference
            })),
            other => other,
        })?;
        request.check_output(&followed.output)?;
        Ok(Some(followed))
    }

    /// Begins a proof in chunks of layers in a work directory, or goes on with the same proof if it is begun there. Each chunk fits
    /// the memory budget, so a model is proved in as few chunks as memory and security allow.
    ///
    /// The job keeps every finished chunk: after an interruption, open it with [`WorkDir::open`] or prepare the same proof again. The
    /// [`Driver`] keeps other processes away from the job as long as it lives.
    ///
    /// # Errors
    /// As [`Model::prove`], if the work directory has a job for another proof, and if the options ask for what a proof in chunks has
    /// not: hidden activations, or contracts that verify it.
    ///
    /// ```no_run
    /// # use tessera::{Error, Model, Options, Silent};
    /// # fn main() -> Result<(), Error> {
    /// let model = Model::open("model")?;
    /// let (_driver, job) = model.prepare("work", "Once upon a time", &Options::at_most(64), "long.proof", &Silent)?;
    /// for chunk in job.open_chunks() {
    ///     job.prove_chunk(&model, chunk, &Silent)?;
    /// }
    /// let (proof, verified) = job.compose(&model)?;
    /// # let _ = (proof, verified);
    /// # Ok(())
    /// # }
    /// ```
    pub fn prepare(
        &self,
        dir: impl AsRef<Path>,
        prompt: impl Into<Prompt>,
        options: &Options,
        out: impl AsRef<Path>,
        progress: &dyn Progress,
    ) -> Result<(Driver, WorkDir), Error> {
        if options.hides() {
            let asked = "hide no activations";
            return Err(WorkError::OnePiece { asked }.into());
        }
        if options.for_chain {
            let asked = "are verified by no contract";
            return Err(WorkError::OnePiece { asked }.into());
        }
        let request = ProofRequest::new(&self.key, self.tokenizer.as_ref(), &prompt.into(), options)?;
        let lengths = request.lengths;
        let allowance = self.allowance(options.memory);
        let fewest = fewest_chunks(&self.key, lengths).unwrap_or(1);
        let divided = self.subject().divide(lengths, fewest, allowance.budget);
        let (layers, _) = divided.map_err(|e| allowance.refusal(e))?;
        let driver = drive(dir.as_ref())?;
        let output = self.expected_output(&request, progress)?.map(|own| own.output);
        let request = Request {
            prompt: &request.prompt.ids,
            options: request.options_for(output.as_deref()),
            context: options.context,
            layers,
            out: out.as_ref(),
        };
        let job = WorkDir::create(dir.as_ref(), &driver, self, &request, progress)?;
        Ok((driver, job))
    }

    /// Makes the vector of a text.
    ///
    /// # Errors
    /// If the model is no encoder, or the text cannot be used with it.
    pub fn embed(&self, text: impl Into<Prompt>, progress: &dyn Progress) -> Result<Embedding, Error> {
        check_encoder(&self.key)?;
        self.vector("embed", &text.into(), progress)
    }

    /// Scores how well a document answers a query.
    ///
    /// # Errors
    /// If the model is no reranker, or the texts cannot be used with it.
    pub fn rank(&self, query: &str, document: &str, progress: &dyn Progress) -> Result<Embedding, Error> {
        check_reranker(&self.key)?;
        let (query, document) = (query.to_owned(), document.to_owned());
        self.vector("rank", &Prompt::Pair { query, document }, progress)
    }

    fn vector(&self, phase: &str, prompt: &Prompt, progress: &dyn Progress) -> Result<Embedding, Error> {
        let prompt = self.ids(prompt)?;
        let rows = token_rows(prompt.ids.len(), 1, self.key.config.context)?;
        let logits = false;
        let (model, _) = self.planned(Task::Generate { rows, logits }, None)?;
        progress.phase(phase, None);
        let mut state = ForwardState::new(&model);
        let vector = state.vector(&prompt.ids)?;
        let saturated = state.saturated();
        let statement = Statement::of_vector(prompt.ids.clone(), &vector);
        statement.check(&self.key.config)?;
        progress.done();
        let vector = Vector::of(&statement, &self.key).ok_or(PromptError::NoEncoder)?;
        Ok(Embedding {
            prompt,
            vector,
            saturated,
        })
    }

    /// The ids that the model gets for a prompt; a chat without a date takes place now.
    ///
    /// # Errors
    /// If the prompt cannot be used with the model ([`Prompt::ids`]).
    pub fn ids(&self, prompt: &Prompt) -> Result<PromptIds, Error> {
        let prompt = prompt.clone().dated(Date::now());
        Ok(prompt.ids(&self.key, self.tokenizer.as_ref())?)
    }

    /// The text that generated ids add to a prompt; `None` if the model has no tokenizer.
    fn text(&self, prompt: &[u32], output: &[u32]) -> Result<Option<String>, Error> {
        let texts = self.tokenizer.as_ref().map(|t| t.texts(prompt, output)).transpose()?;
        Ok(texts.map(|texts| texts.output.text))
    }

    /// The weights as a task within a budget uses them, and its plan.
    fn planned(&self, task: Task, memory: Option<Budget>) -> Result<(QuantisedModel, Plan), Error> {
        let allowance = self.allowance(memory);
        let plan = self
            .subject()
            .plan(task, allowance.budget)
            .map_err(|e| allowance.refusal(e))?;
        let mut quantised = self.quantised.clone();
        quantised.weights = quantised.weights.with_residency(plan.choices.residency);
        Ok((quantised, plan))
    }
}
