//! Workers, which prove chunks. A worker is taken for one chunk at a time and is free again when its guard is dropped,
//! however the chunk ended; the scheduler knows nothing else about it.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use rayon::{ThreadPool, ThreadPoolBuilder};
use thiserror::Error;

use super::task::ChunkTask;
use tessera_prover::{ProveError, ProvedChunk};
use tessera_support::progress::Progress;

/// A worker that cannot be had.
#[derive(Debug, Error)]
pub enum WorkerError {
    /// There are more workers than cores, or no workers at all.
    #[error("{workers} devices on {cores} cores: a device needs a core of its own")]
    TooFewCores {
        /// Number of workers that were asked for.
        workers: usize,
        /// Number of cores that this process may use.
        cores: usize,
    },
    /// The worker is proving another chunk.
    #[error("device {name} is taken")]
    Taken {
        /// Name of the worker.
        name: String,
    },
    /// The threads of a worker cannot be started.
    #[error("device {name}: {reason}")]
    Threads {
        /// Name of the worker.
        name: String,
        /// The system's reason.
        reason: String,
    },
}

/// Something that proves chunks, one at a time.
pub trait Worker: Sync {
    /// Name of the worker in reports and records.
    fn name(&self) -> &str;
    /// Bytes of memory that a chunk may take on this worker.
    fn memory(&self) -> u64;
    /// Takes the worker; it is free again when the guard is dropped.
    fn acquire(&self) -> Result<Box<dyn WorkerGuard + '_>, WorkerError>;
}

/// A worker that is taken, until this is dropped.
pub trait WorkerGuard {
    /// Proves a chunk on the worker.
    fn prove(&mut self, task: &ChunkTask<'_>, progress: &dyn Progress) -> Result<ProvedChunk, ProveError>;
}

/// A worker on some cores of the processor, with threads of its own.
#[derive(Debug)]
pub struct CpuWorker {
    name: String,
    memory: u64,
    pool: ThreadPool,
    taken: Mutex<()>,
}

/// Divides the cores that this process may use among `workers` as equally as can be; each gets one at least.
pub fn core_sets(workers: usize) -> Result<Vec<Vec<usize>>, WorkerError> {
    let cores = cores();
    if workers == 0 || workers > cores.len() {
        return Err(WorkerError::TooFewCores {
            workers,
            cores: cores.len(),
        });
    }
    let bound = |i: usize| i * cores.len() / workers;
    Ok((0..workers).map(|i| cores[bound(i)..bound(i + 1)].to_vec()).collect())
}

#[cfg(target_os = "linux")]
fn cores() -> Vec<usize> {
    use rustix::thread::{sched_getaffinity, CpuSet};
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect(),
        Err(_) => (0..rayon::current_num_threads()).collect(),
    }
}

#[cfg(not(target_os = "linux"))]
fn cores() -> Vec<usize> {
    (0..rayon::current_num_threads()).collect()
}

/// Keeps the calling thread on these cores. Best effort: the result does not depend on where threads run.
#[cfg(target_os = "linux")]
fn pin(cores: &[usize]) {
    use rustix::thread::{sched_setaffinity, CpuSet};
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    let _ = sched_setaffinity(None, &set);
}

#[cfg(not(target_os = "linux"))]
fn pin(_cores: &[usize]) {}

impl CpuWorker {
    /// Makes the worker with number `index`, with a thread on each of `cores` and `memory` bytes for a chunk.
    pub fn new(index: usize, cores: Vec<usize>, memory: u64) -> Result<Self, WorkerError> {
        let name = format!(
            "cpu {index} (cores {})",
            cores.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")
        );
        let pool = ThreadPoolBuilder::new()
            .num_threads(cores.len())
            .start_handler(move |_| pin(&cores))
            .build()
            .map_err(|e| WorkerError::Threads {
                name: name.clone(),
                reason: e.to_string(),
            })?;
        Ok(Self {
            name,
            memory,
            pool,
            taken: Mutex::new(()),
        })
    }
}

struct CpuGuard<'a> {
    worker: &'a CpuWorker,
    _taken: MutexGuard<'a, ()>,
}

impl Worker for CpuWorker {
    fn name(&self) -> &str {
        &self.name
    }

    fn memory(&self) -> u64 {
        self.memory
    }

    fn acquire(&self) -> Result<Box<dyn WorkerGuard + '_>, WorkerError> {
        let taken = match self.taken.try_lock() {
            Ok(taken) => taken,
            // A chunk that panicked has left nothing behind.
            Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
            Err(TryLockError::WouldBlock) => {
                return Err(WorkerError::Taken {
                    name: self.name.clone(),
                })
            }
        };
        Ok(Box::new(CpuGuard {
            worker: self,
            _taken: taken,
        }))
    }
}

impl WorkerGuard for CpuGuard<'_> {
    fn prove(&mut self, task: &ChunkTask<'_>, progress: &dyn Progress) -> Result<ProvedChunk, ProveError> {
        self.worker.pool.install(|| task.prove(progress))
    }
}
