//! Answers: one thread runs the model, for all requests that are there at the time.

use std::collections::{HashMap, VecDeque};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use std::time::Instant;

use rayon::ThreadPool;
use tessera::circuits::statement::Statement;
use tessera::quantised::forward::{ForwardState, TextId};
use tessera::quantised::generate::GenerateOptions;
use tessera::quantised::together::Together;
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;

use crate::metrics::Metrics;
use crate::served::Served;

/// Rows of a pass. A prompt longer than this takes several passes, so that it does not hold up the others.
const ROWS: usize = 128;

/// What happens to a text that is being generated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A token.
    Token {
        /// The id of the token.
        id: u32,
        /// Whether the answer ends with it.
        last: bool,
    },
    /// There is no answer.
    Failed(String),
}

/// A text that is to be generated.
struct Job {
    prompt: Vec<u32>,
    tokens: usize,
    events: UnboundedSender<Event>,
}

/// A vector that is to be made.
struct VectorJob {
    prompt: Vec<u32>,
    reply: oneshot::Sender<Result<Statement, String>>,
}

enum Wanted {
    Text(Job),
    Vector(VectorJob),
}

/// Asks the thread that runs the model.
pub struct Answers {
    jobs: Sender<Wanted>,
    /// Requests that wait for an answer or get one.
    requests: Arc<AtomicUsize>,
    most: usize,
}

/// The right to ask for an answer, until this is dropped.
pub struct Turn {
    requests: Arc<AtomicUsize>,
    jobs: Sender<Wanted>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What the thread of the model works with.
struct Desk {
    served: Arc<Served>,
    metrics: Arc<Metrics>,
    jobs: Receiver<Wanted>,
    /// The most texts at the same time.
    together: usize,
}

impl Answers {
    /// Starts the thread that runs the model, with these threads.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(
        served: Arc<Served>,
        metrics: Arc<Metrics>,
        threads: ThreadPool,
        together: usize,
        most: usize,
    ) -> std::io::Result<Self> {
        let (sender, jobs) = channel();
        let desk = Desk {
            served,
            metrics,
            jobs,
            together,
        };
        let run = move || threads.install(move || desk.run());
        std::thread::Builder::new().name("answers".to_owned()).spawn(run)?;
        Ok(Self {
            jobs: sender,
            requests: Arc::default(),
            most,
        })
    }

    /// Takes a turn; `None` if too many requests have one.
    pub fn turn(&self) -> Option<Turn> {
        let less = |n: usize| (n < self.most).then_some(n + 1);
        let taken = self.requests.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        taken.ok().map(|_| Turn {
            requests: Arc::clone(&self.requests),
            jobs: self.jobs.clone(),
        })
    }

    /// Number of requests that have a turn.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

impl Turn {
    /// Generates an answer of at most so many tokens. The model goes on as long as somebody listens.
    pub fn text(&self, prompt: Vec<u32>, tokens: usize) -> UnboundedReceiver<Event> {
        let (events, receiver) = unbounded_channel();
        // If the thread has ended, the receiver has no events, and says so.
        let _ = self.jobs.send(Wanted::Text(Job { prompt, tokens, events }));
        receiver
    }

    /// Makes the vector of a text, as the statement that is proved of it.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn vector(&self, prompt: Vec<u32>) -> Result<Statement, String> {
        let (reply, receiver) = oneshot::channel();
        let _ = self.jobs.send(Wanted::Vector(VectorJob { prompt, reply }));
        receiver.await.unwrap_or_else(|_| Err(ENDED.to_owned()))
    }
}

/// What is said if the thread of the model has ended, which is a defect.
pub const ENDED: &str = "the model does not answer any more";

/// What is said if the model panics.
const DEFECT: &str = "internal error, please report it";

impl Desk {
    fn run(&self) {
        match self.served.generates() {
            true => self.texts(),
            false => self.vectors(),
        }
    }

    fn vectors(&self) {
        let model = &self.served.model.quantised;
        let mut state = ForwardState::new(model);
        for wanted in &self.jobs {
            let Wanted::Vector(job) = wanted else { continue };
            if job.reply.is_closed() {
                continue;
            }
            let clock = Instant::now();
            let vector = catch_unwind(AssertUnwindSafe(|| {
                state.vector(&job.prompt).map_err(|e| e.to_string())
            }));
            let vector = vector.unwrap_or_else(|_| {
                state = ForwardState::new(model);
                Err(DEFECT.to_owned())
            });
            state.restart();
            self.count(clock, 0);
            let statement = vector.and_then(|vector| {
                let statement = Statement::of_vector(job.prompt, &vector);
                let checked = statement.check(&self.served.model.key.config);
                checked.map(|()| statement).map_err(|e| e.to_string())
            });
            let _ = job.reply.send(statement);
        }
    }

    fn count(&self, clock: Instant, tokens: usize) {
        self.metrics.passes.add(1);
        self.metrics.pass_micros.add(clock.elapsed().as_micros() as u64);
        self.metrics.tokens.add(tokens as u64);
    }

    /// Generates texts, all of them in each pass over the weights. A text begins when there is room for it, in the order of arrival.
    fn texts(&self) {
        let mut all = Together::new(&self.served.model.quantised);
        let mut waiting: VecDeque<Job> = VecDeque::new();
        let mut running: HashMap<TextId, (UnboundedSender<Event>, usize)> = HashMap::new();
        loop {
            if !self.receive(&mut waiting, running.is_empty()) {
                return;
            }
            // Whoever has gone needs no answer.
            waiting.retain(|job| !job.events.is_closed());
            running.retain(|text, (events, _)| {
                let listens = !events.is_closed();
                if !listens {
                    all.remove(*text);
                }
                listens
            });
            let mut rows: usize = running.values().map(|(_, rows)| rows).sum();
            while let Some(job) = waiting.front() {
                let own = job.prompt.len() + job.tokens;
                let fits = running.is_empty() || rows + own <= self.served.rows;
                if running.len() >= self.together || !fits {
                    break;
                }
                let Some(job) = waiting.pop_front() else { break };
                match all.add(&job.prompt, GenerateOptions::at_most(job.tokens)) {
                    Ok(text) => {
                        rows += own;
                        running.insert(text, (job.events, own));
                    }
                    Err(error) => drop(job.events.send(Event::Failed(error.to_string()))),
                }
            }
            self.metrics.generating.set(running.len() as u64);
            if running.is_empty() {
                continue;
            }
            let clock = Instant::now();
            // A defect that one text meets must not end the answers to all others.
            let step = catch_unwind(AssertUnwindSafe(|| all.step(ROWS).map_err(|e| e.to_string())));
            match step.unwrap_or_else(|_| Err(DEFECT.to_owned())) {
                Ok(tokens) => {
                    self.count(clock, tokens.len());
                    for token in tokens {
                        if let Some((events, _)) = running.get(&token.text) {
                            let (id, last) = (token.id, token.last);
                            let _ = events.send(Event::Token { id, last });
                        }
                        if token.last {
                            running.remove(&token.text);
                        }
                    }
                }
                Err(error) => {
                    let failed = Event::Failed(error);
                    running
                        .drain()
                        .for_each(|(_, (events, _))| drop(events.send(failed.clone())));
                    all = Together::new(&self.served.model.quantised);
                }
            }
            self.metrics.generating.set(running.len() as u64);
        }
    }

    /// Takes what has arrived, and waits for something if there is nothing to do. False once nobody can ask any more.
    fn receive(&self, waiting: &mut VecDeque<Job>, idle: bool) -> bool {
        let first = match idle && waiting.is_empty() {
            true => match self.jobs.recv() {
                Ok(wanted) => Some(wanted),
                Err(_) => return false,
            },
            false => None,
        };
        let texts = first.into_iter().chain(self.jobs.try_iter());
        waiting.extend(texts.filter_map(|wanted| match wanted {
            Wanted::Text(job) => Some(job),
            Wanted::Vector(_) => None,
        }));
        true
    }
}
