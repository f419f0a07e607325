//! Serves a model over HTTP, in OpenAI's interface, and proves its answers in the background.
//!
//! A text is answered at once; the proof of it is made later, from a queue on disk that survives a crash. Texts that are generated at the
//! same time share each pass over the weights. `docs/serving.md` says how to run it.
//!
//! | module | its task |
//! |---|---|
//! | `openai` | what requests may say, and what answers look like |
//! | `answers` | one thread runs the model, for all requests of the moment |
//! | `proofs` | the store, the queue, and the workers that make proofs |
//! | `http` | connections and routes |
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod answers;
mod error;
mod http;
mod id;
mod keys;
mod log;
mod metrics;
mod openai;
mod proofs;
mod served;
mod settings;

pub use error::ServeError;
pub use keys::KeysError;
pub use proofs::store::StoreError;
pub use served::OpenError;
pub use settings::{Limits, Proofs, Settings};

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::json;
use tessera::work::core_sets;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::Semaphore;

use answers::Answers;
use http::app::App;
use keys::Keys;
use log::Log;
use metrics::Metrics;
use proofs::queue::Queue;
use proofs::record::State;
use proofs::retention::Retention;
use proofs::store::Store;
use proofs::worker::{threads, Workshop};
use served::Served;

/// Old proofs are looked for so often.
const SWEEP: Duration = Duration::from_secs(60);

/// What a server has left when it stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Proofs that are to be made when it starts again.
    pub open: usize,
}

/// Serves a model until the process gets SIGINT or SIGTERM.
///
/// # Errors
/// If the settings, the model or the store cannot be used.
pub fn serve(settings: Settings) -> Result<Left, ServeError> {
    let keys = match &settings.keys {
        Some(path) => Keys::read(path)?,
        None if settings.listen.ip().is_loopback() || settings.without_keys => Keys::default(),
        None => return Err(ServeError::Open(settings.listen)),
    };
    let log = Log::new(settings.log_texts);
    let sets = core_sets(settings.devices)?;
    let served = Arc::new(Served::open(&settings)?);
    let store = Arc::new(Store::open(&settings.store, &served.id)?);
    let metrics = Arc::new(Metrics::default());
    let queue = Arc::new(Queue::new(settings.limits.queue, settings.devices));
    take_up(&store, &queue, log)?;
    let failed = |e: std::io::Error| ServeError::Threads(e.to_string());
    let cores: usize = sets.iter().map(Vec::len).sum();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(cores).build();
    let answers = Answers::start(
        Arc::clone(&served),
        Arc::clone(&metrics),
        pool.map_err(|e| ServeError::Threads(e.to_string()))?,
        settings.limits.together,
        settings.limits.requests,
    );
    let app = Arc::new(App {
        answers: answers.map_err(failed)?,
        served: Arc::clone(&served),
        keys,
        queue: Arc::clone(&queue),
        store: Arc::clone(&store),
        metrics: Arc::clone(&metrics),
        log,
        cores: Semaphore::new(cores),
        planning: Semaphore::new(1),
        started: log::now(),
        stopping: AtomicBool::new(false),
        settings,
    });
    let retention = Retention {
        retain: app.settings.retain,
        quota: app.settings.quota,
    };
    let workshop = Arc::new(Workshop {
        served,
        store: Arc::clone(&store),
        queue: Arc::clone(&queue),
        metrics,
        log,
        retention,
    });
    let runtime = Builder::new_multi_thread().enable_all().build().map_err(failed)?;
    let listener = runtime.block_on(bind(&app))?;
    let workers = start(&workshop, &sets)?;
    runtime.block_on(run(&app, &workshop, listener));
    finish(&queue, &workers, app.settings.limits.stop);
    runtime.shutdown_timeout(Duration::from_secs(1));
    let open = store.open_requests()?.len();
    log.event("stopped", json!({"open_proofs": open}));
    Ok(Left { open })
}

/// Takes up the requests whose proofs are not made yet.
fn take_up(store: &Store, queue: &Queue, log: Log) -> Result<(), StoreError> {
    let open = store.open_requests()?;
    for (id, record) in &open {
        // The server ended before the answer did.
        let record = match record.state {
            State::Answering => store.change(*id, |record| {
                record.state = State::Queued;
                true
            })?,
            _ => Some(record.clone()),
        };
        if let Some(record) = record {
            queue.push(*id, &record);
        }
    }
    log.event("queue", json!({"open_proofs": open.len()}));
    Ok(())
}

async fn bind(app: &App) -> Result<TcpListener, ServeError> {
    let address = app.settings.listen;
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|source| ServeError::Listen { address, source })?;
    let own = listener.local_addr().unwrap_or(address);
    app.log.event(
        "listening",
        json!({
            "address": own.to_string(),
            "model": app.served.name,
            "model_id": app.served.id,
            "store": app.settings.store.display().to_string(),
        }),
    );
    Ok(listener)
}

/// Starts a worker for each set of cores.
fn start(workshop: &Arc<Workshop>, sets: &[Vec<usize>]) -> Result<Vec<JoinHandle<()>>, ServeError> {
    let mut workers = Vec::new();
    for (at, cores) in sets.iter().enumerate() {
        let (own, pool) = (Arc::clone(workshop), threads(cores.len()).map_err(ServeError::Threads)?);
        let worker = std::thread::Builder::new().name(format!("worker {at}"));
        let worker = worker.spawn(move || own.work(&pool));
        workers.push(worker.map_err(|e| ServeError::Threads(e.to_string()))?);
    }
    Ok(workers)
}

async fn run(app: &Arc<App>, workshop: &Arc<Workshop>, listener: TcpListener) {
    let own = Arc::clone(workshop);
    let sweeping = tokio::spawn(async move {
        loop {
            let workshop = Arc::clone(&own);
            let _ = tokio::task::spawn_blocking(move || workshop.sweep()).await;
            tokio::time::sleep(SWEEP).await;
        }
    });
    let stop = async {
        stopped().await;
        app.stopping.store(true, Ordering::Relaxed);
        // The cores are for the answers that are being made.
        app.queue.stop();
        app.log.event("stopping", json!({"answers": app.answers.requests()}));
    };
    http::listen::listen(app, listener, stop, stopped()).await;
    sweeping.abort();
}

/// Waits for a signal to stop.
async fn stopped() {
    let interrupted = async {
        // Where no signal can be waited for, the server runs until it is killed.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    {
        use tokio::signal::unix::{signal, SignalKind};
        if let Ok(mut terminated) = signal(SignalKind::terminate()) {
            tokio::select! {
                () = interrupted => {}
                _ = terminated.recv() => {}
            }
            return;
        }
    }
    interrupted.await;
}

/// Waits for the workers, but not for ever: a proof that does not end is made again at the next start.
fn finish(queue: &Queue, workers: &[JoinHandle<()>], time: Duration) {
    queue.stop();
    let until = Instant::now() + time;
    while workers.iter().any(|worker| !worker.is_finished()) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
}
