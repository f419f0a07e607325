//! What proves chunks. A device is taken for one chunk at a time and is free again when its guard is dropped, however
//! the chunk ended; the scheduler knows nothing else of it.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use rayon::{ThreadPool, ThreadPoolBuilder};
use thiserror::Error;

use super::ChunkTask;
use crate::prove::{ProveError, ProvedChunk};
use crate::support::progress::Progress;

/// A device that cannot be had.
#[derive(Debug, Error)]
pub enum DeviceError {
    #[error("{devices} devices on {cores} cores: a device needs a core of its own")]
    TooFewCores { devices: usize, cores: usize },
    #[error("device {name} is taken")]
    Taken { name: String },
    #[error("device {name}: {reason}")]
    Threads { name: String, reason: String },
}

/// Something that proves chunks, one at a time.
pub trait Device: Sync {
    /// As reports call it.
    fn name(&self) -> &str;
    /// Bytes of memory that a chunk may take on it.
    fn memory(&self) -> u64;
    /// Takes the device; it is free again when the guard is dropped.
    fn acquire(&self) -> Result<Box<dyn DeviceGuard + '_>, DeviceError>;
}

/// A device that is taken.
pub trait DeviceGuard {
    /// Proves a chunk.
    fn prove(&mut self, task: &ChunkTask<'_>, progress: &dyn Progress) -> Result<ProvedChunk, ProveError>;
}

/// Some cores of the processor, with threads of their own.
#[derive(Debug)]
pub struct CpuDevice {
    name: String,
    memory: u64,
    pool: ThreadPool,
    taken: Mutex<()>,
}

/// The cores that this process may use, divided among `devices`; as equal as can be, each at least one.
pub fn core_sets(devices: usize) -> Result<Vec<Vec<usize>>, DeviceError> {
    let cores = cores();
    if devices == 0 || devices > cores.len() {
        return Err(DeviceError::TooFewCores {
            devices,
            cores: cores.len(),
        });
    }
    let bound = |i: usize| i * cores.len() / devices;
    Ok((0..devices).map(|i| cores[bound(i)..bound(i + 1)].to_vec()).collect())
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

impl CpuDevice {
    /// A device of these cores, on each of which it has a thread.
    pub fn new(index: usize, cores: Vec<usize>, memory: u64) -> Result<Self, DeviceError> {
        let name = format!(
            "cpu {index} (cores {})",
            cores.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")
        );
        let pool = ThreadPoolBuilder::new()
            .num_threads(cores.len())
            .start_handler(move |_| pin(&cores))
            .build()
            .map_err(|e| DeviceError::Threads {
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
    device: &'a CpuDevice,
    _taken: MutexGuard<'a, ()>,
}

impl Device for CpuDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn memory(&self) -> u64 {
        self.memory
    }

    fn acquire(&self) -> Result<Box<dyn DeviceGuard + '_>, DeviceError> {
        let taken = match self.taken.try_lock() {
            Ok(taken) => taken,
            // A chunk that panicked has left nothing behind.
            Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
            Err(TryLockError::WouldBlock) => {
                return Err(DeviceError::Taken {
                    name: self.name.clone(),
                })
            }
        };
        Ok(Box::new(CpuGuard {
            device: self,
            _taken: taken,
        }))
    }
}

impl DeviceGuard for CpuGuard<'_> {
    fn prove(&mut self, task: &ChunkTask<'_>, progress: &dyn Progress) -> Result<ProvedChunk, ProveError> {
        self.device.pool.install(|| task.prove(progress))
    }
}
