//! Decides which worker proves which chunk: the longest first, on any free worker that has the memory for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::error::WorkError;
use super::job::WorkDir;
use super::record::ChunkRecord;
use super::worker::Worker;
use crate::model::Model;
use crate::plan::{Subject, Task};
use tessera_support::progress::Progress;

/// Watches [`run`] prove the chunks of a job.
pub trait Observer: Sync {
    /// Called when a worker begins with a chunk, counted from 0; returns the display of its progress.
    fn begin<'a>(&'a self, chunk: usize, worker: &str) -> Box<dyn Progress + 'a>;
    /// Called when a chunk is proved and its record is written.
    fn end(&self, chunk: usize, record: &ChunkRecord);
}

/// A chunk that is to be proved, and the bytes of memory that it takes.
struct Pending {
    chunk: usize,
    memory: u64,
}

/// Proves all chunks that are not proved yet, one at a time on each worker. After a failure it begins no more chunks,
/// finishes the ones under way, and returns the first error.
pub fn run(work: &WorkDir, model: &Model, workers: &[&dyn Worker], observer: &dyn Observer) -> Result<(), WorkError> {
    let queue = Mutex::new(pending(work, model));
    let most = workers.iter().map(|d| d.memory()).max().unwrap_or(0);
    if let Some(p) = lock(&queue).iter().find(|p| p.memory > most) {
        return Err(WorkError::NoWorker {
            chunk: p.chunk,
            needed: p.memory,
        });
    }
    let failed = AtomicBool::new(false);
    let first = Mutex::new(None);
    std::thread::scope(|scope| {
        for worker in workers {
            let (queue, failed, first) = (&queue, &failed, &first);
            scope.spawn(move || {
                while !failed.load(Ordering::Relaxed) {
                    let next = take(&mut lock(queue), worker.memory());
                    let Some(chunk) = next else { return };
                    if let Err(error) = prove(work, model, chunk, *worker, observer) {
                        failed.store(true, Ordering::Relaxed);
                        lock(first).get_or_insert(error);
                    }
                }
            });
        }
    });
    match first.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn prove(
    work: &WorkDir,
    model: &Model,
    chunk: usize,
    worker: &dyn Worker,
    observer: &dyn Observer,
) -> Result<(), WorkError> {
    let mut guard = worker.acquire()?;
    let progress = observer.begin(chunk, worker.name());
    let record = work.prove_chunk_with(model, chunk, worker.name(), |task| guard.prove(task, progress.as_ref()))?;
    observer.end(chunk, &record);
    Ok(())
}

/// Takes the first chunk that fits into `memory` bytes out of the queue.
fn take(queue: &mut Vec<Pending>, memory: u64) -> Option<usize> {
    let at = queue.iter().position(|p| p.memory <= memory)?;
    Some(queue.remove(at).chunk)
}

/// Open chunks, the ones with most work first.
fn pending(work: &WorkDir, model: &Model) -> Vec<Pending> {
    let lengths = work.job.statement().lengths();
    let subject = Subject::of_dir(&model.key, &model.dir);
    let mut list: Vec<(u128, Pending)> = work
        .open_chunks()
        .into_iter()
        .map(|chunk| {
            let range = work.chunks[chunk];
            let cells = model.key.shape(&range, lengths).cells();
            let plan = subject.with_choices(Task::prove(lengths, range), model.choices());
            let memory = plan.predicted_bytes();
            (cells, Pending { chunk, memory })
        })
        .collect();
    list.sort_by_key(|(cells, p)| (std::cmp::Reverse(*cells), p.chunk));
    list.into_iter().map(|(_, p)| p).collect()
}
