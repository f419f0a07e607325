//! Workers, which make the proofs of the queue one after the other.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuilder};
use serde_json::json;
use tessera::circuits::statement::Statement;
use tessera::prompt::PromptIds;
use tessera::prover::{prove_statement, ProverModel};
use tessera::quantised::generate::{generate, GenerateOptions};
use tessera::support::files;
use tessera::verifier::context::Context;
use tessera::work::{self, WorkDir, WorkError};
use tessera::{Error, Model, Options, Outcome, Progress, ProofRequest, Timetable};

use super::queue::{Queue, Task};
use super::record::{Accepted, Record, State};
use super::retention::Retention;
use super::store::{Store, StoreError};
use crate::log::{now, Log};
use crate::metrics::Metrics;
use crate::served::{Division, Served};

/// After a failure that may pass, such as a full disk, a worker waits so long.
const AGAIN: Duration = Duration::from_secs(10);
/// How much nicer than answers proofs are to other threads.
const NICE: i32 = 10;

/// What workers share.
pub struct Workshop {
    /// The model.
    pub served: Arc<Served>,
    /// Where requests and proofs are.
    pub store: Arc<Store>,
    /// The order of the proofs.
    pub queue: Arc<Queue>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// The log.
    pub log: Log,
    /// How long proofs are kept.
    pub retention: Retention,
}

/// Why a proof is not there.
enum Unproved {
    /// It was cancelled: the server stops, or the client has deleted it.
    Cancelled,
    /// Something that may pass: it is tried again.
    Later(String),
    /// There will be no such proof.
    Failed(String),
}

impl From<Error> for Unproved {
    fn from(error: Error) -> Self {
        match error {
            Error::Cancelled => Self::Cancelled,
            Error::File(_) | Error::Memory(_) | Error::Work(WorkError::File(_)) => Self::Later(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

impl From<StoreError> for Unproved {
    fn from(error: StoreError) -> Self {
        Self::Later(error.to_string())
    }
}

/// A proof that was made, verified and written.
struct Made {
    verdict: Accepted,
    bytes: u64,
}

/// The threads of a worker. They give way to those that make answers.
///
/// # Errors
/// If the threads cannot be started.
pub fn threads(count: usize) -> Result<ThreadPool, String> {
    let builder = ThreadPoolBuilder::new().num_threads(count).start_handler(|_| {
        // Linux sets the priority of the calling thread alone. A thread that keeps its priority proves as well, so an error does not matter.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::setpriority_process(None, NICE);
    });
    builder.build().map_err(|e| e.to_string())
}

impl Workshop {
    /// Makes proofs until the queue is stopped.
    pub fn work(&self, threads: &ThreadPool) {
        while let Some(task) = self.queue.next() {
            self.attend_to(&task, threads);
        }
    }

    fn attend_to(&self, task: &Task, threads: &ThreadPool) {
        let (id, clock) = (task.id, Instant::now());
        let ended = self.attempt(task, threads, clock);
        let error_of = |error| json!({"id": id.to_string(), "error": error});
        let mut measured = None;
        match ended {
            Ok(Some(seconds)) => {
                self.metrics.proofs_done.add(1);
                self.metrics.proof_millis.add((seconds * 1e3) as u64);
                self.log
                    .event("proof", json!({"id": id.to_string(), "seconds": seconds}));
                measured = Some(seconds);
            }
            Ok(None) | Err(Unproved::Cancelled) => {}
            Err(Unproved::Failed(error)) => {
                self.metrics.proofs_failed.add(1);
                self.log.event("proof failed", error_of(error));
            }
            Err(Unproved::Later(error)) => {
                self.log.event("proof delayed", error_of(error));
                self.queue.put_off(id);
                return self.queue.pause(AGAIN);
            }
        }
        self.queue.end(id, measured);
        // Its client may have deleted the proof while it was written.
        let is_gone = self
            .store
            .get(id)
            .map(|record| record.is_none_or(|own| own.state == State::Gone));
        let removed = is_gone.and_then(|gone| if gone { self.store.remove_files(id) } else { Ok(()) });
        if let Err(error) = removed {
            self.log.event("store", error_of(error.to_string()));
        }
        if measured.is_some() {
            self.sweep();
        }
    }

    /// Makes and records the proof of a task, and returns the seconds that it took; nothing if it is not wanted any more.
    fn attempt(&self, task: &Task, threads: &ThreadPool, clock: Instant) -> Result<Option<f64>, Unproved> {
        let Some(record) = self.store.get(task.id)?.filter(|record| record.state == State::Queued) else {
            return Ok(None);
        };
        let made = catch_unwind(AssertUnwindSafe(|| threads.install(|| self.make(task, &record))));
        let made = made.unwrap_or_else(|_| Err(Unproved::Failed("internal error, please report it".to_owned())));
        let seconds = clock.elapsed().as_secs_f64();
        match made {
            Ok(made) => Ok(self.finish(task, made, seconds)?.then_some(seconds)),
            Err(Unproved::Failed(error)) => {
                self.fail(task, error.clone())?;
                Err(Unproved::Failed(error))
            }
            Err(other) => Err(other),
        }
    }

    /// Deletes proofs that are too old, or too many.
    pub fn sweep(&self) {
        match self.retention.sweep(&self.store, now()) {
            Ok(gone) if gone.is_empty() => {}
            Ok(gone) => self.log.event("proofs gone", json!({"number": gone.len()})),
            Err(error) => self.log.event("store", json!({"error": error.to_string()})),
        }
    }

    /// Records a finished proof; false if its request was deleted meanwhile.
    fn finish(&self, task: &Task, made: Made, seconds: f64) -> Result<bool, StoreError> {
        let record = self.store.change(task.id, |record| {
            if record.state != State::Queued {
                return false;
            }
            (record.state, record.ended) = (State::Done, Some(now()));
            (record.verdict, record.bytes, record.seconds) = (Some(made.verdict), made.bytes, seconds);
            true
        })?;
        let is_done = record.is_some_and(|record| record.state == State::Done);
        if is_done {
            self.store.remove_work(task.id)?;
        }
        Ok(is_done)
    }

    fn fail(&self, task: &Task, error: String) -> Result<(), StoreError> {
        self.store.change(task.id, |record| {
            let is_open = record.state == State::Queued;
            if is_open {
                (record.state, record.ended, record.error) = (State::Failed, Some(now()), Some(error));
            }
            is_open
        })?;
        self.store.remove_files(task.id)
    }

    /// Makes a proof, unless it is there already: a crash may have come before it was recorded.
    fn make(&self, task: &Task, record: &Record) -> Result<Made, Unproved> {
        let path = self.store.proof_path(task.id);
        if files::is_there(&path) {
            let bytes = files::read(&path).map_err(Error::from)?;
            match self.verdict(&bytes, record) {
                Ok(verdict) => return Ok(made(verdict, &bytes)),
                Err(error) => self
                    .log
                    .event("proof damaged", json!({"id": task.id.to_string(), "error": error})),
            }
        }
        let watch = &*task.watch;
        let bytes = task.cancel.run(watch, |progress| self.prove(task, record, progress))?;
        let verdict = self.verdict(&bytes, record).map_err(Unproved::Failed)?;
        files::write(&path, &bytes).map_err(Error::from)?;
        Ok(made(verdict, &bytes))
    }

    /// The bytes of the proof of a request.
    fn prove(&self, task: &Task, record: &Record, progress: &dyn Progress) -> Result<Vec<u8>, Error> {
        let model = &self.served.model;
        let context: Option<Context> = record.context.as_deref().and_then(|text| text.parse().ok());
        let mut options = Options::at_most(record.tokens);
        options.context = context;
        if let (Some(output), true) = (&record.output, self.served.generates()) {
            options = options.expecting(output.clone());
        }
        let (key, tokenizer) = (&model.key, model.tokenizer.as_ref());
        let request = ProofRequest::of_ids(key, tokenizer, PromptIds::from(record.prompt.clone()), &options)?;
        task.watch.expect(Timetable::new(model, &request));
        let division = self.served.divide(request.lengths).map_err(tessera::OutOfBudget::new)?;
        if division.layers.len() > 1 {
            let prove = || self.prove_in_chunks(task, record, context, &division, progress);
            return match prove() {
                Err(Error::Work(error)) if is_unusable(&error) => {
                    let error = error.to_string();
                    self.log
                        .event("chunks damaged", json!({"id": task.id.to_string(), "error": error}));
                    files::remove_dir(&self.store.work_dir(task.id))?;
                    prove()
                }
                proved => proved,
            };
        }
        let quantised = self.served.quantised(&division.plan);
        let output = match &record.output {
            Some(output) => output.clone(),
            None => {
                progress.phase("generate", Some(record.tokens as u64));
                let options = GenerateOptions::at_most(record.tokens);
                generate(&quantised, &record.prompt, &options, |_| progress.advance(1))?.ids
            }
        };
        let prover = ProverModel {
            quantised: &quantised,
            ..model.prover()
        };
        let statement = Statement {
            prompt: record.prompt.clone(),
            output,
        };
        Ok(prove_statement(&prover, statement, context.into(), progress)?.bytes)
    }

    /// Makes a proof in chunks, which survive a crash.
    fn prove_in_chunks(
        &self,
        task: &Task,
        record: &Record,
        context: Option<Context>,
        division: &Division,
        progress: &dyn Progress,
    ) -> Result<Vec<u8>, Error> {
        let dir = self.store.work_dir(task.id);
        let model = Model::open(&self.served.model.dir)?.with_choices(division.plan.choices);
        let driver = work::drive(&dir)?;
        let path = self.store.proof_path(task.id);
        let generated = self.served.generates();
        let options = GenerateOptions {
            tokens: record
                .output
                .as_ref()
                .filter(|_| generated)
                .map_or(record.tokens, Vec::len),
            ignore_eos: false,
        };
        let job = match WorkDir::open(&dir) {
            // The work goes on as it was divided, although there may be more memory now.
            Ok(job) => job,
            Err(WorkError::NoJob { .. }) => {
                let request = work::Request {
                    prompt: &record.prompt,
                    options,
                    context,
                    layers: division.layers.clone(),
                    out: &path,
                };
                WorkDir::create(&dir, &driver, &model, &request, progress)?
            }
            Err(error) => return Err(error.into()),
        };
        for chunk in job.open_chunks() {
            job.prove_chunk(&model, chunk, progress)?;
        }
        Ok(job.compose(&model)?.0.to_bytes()?)
    }

    /// Verifies a proof as whoever gets it does, and checks that it is about the request.
    fn verdict(&self, bytes: &[u8], record: &Record) -> Result<Accepted, String> {
        let verdict = self.served.verifier.verify(bytes);
        let Outcome::Accepted(proved) = &verdict.outcome else {
            let reason = verdict.reason("the proof", "the key").unwrap_or_default();
            return Err(format!("the proof does not verify: {reason}"));
        };
        let statement = proved.statement();
        let context = proved.context().map(|context| context.to_string());
        let same = record.output.as_ref().is_none_or(|output| *output == statement.output);
        match same && statement.prompt == record.prompt && context == record.context {
            true => Ok(Accepted {
                security_bits: proved.security_bits(),
                chunks: proved.chunks(),
            }),
            false => Err("the proof is about another answer than the one that was given".to_owned()),
        }
    }
}

/// Whether chunks of an earlier start are not as they were, or are of another version of this program: they are made again.
const fn is_unusable(error: &WorkError) -> bool {
    use WorkError::{Activation, Job, OtherJob, Record, Sealed, Started, Version};
    matches!(
        error,
        Activation { .. }
            | Job { .. }
            | OtherJob { .. }
            | Record { .. }
            | Sealed { .. }
            | Started { .. }
            | Version { .. }
    )
}

fn made(verdict: Accepted, bytes: &[u8]) -> Made {
    let bytes = bytes.len() as u64;
    Made { verdict, bytes }
}
