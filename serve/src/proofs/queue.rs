//! The order in which proofs are made, and how long each has to wait. What is here follows from the store, which outlives a crash.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tessera::Cancel;

use super::record::Record;
use super::watch::Watch;
use crate::id::Id;

/// The queue of proofs.
pub struct Queue {
    inner: Mutex<Inner>,
    changed: Condvar,
    /// The most proofs that wait.
    most: usize,
    devices: usize,
}

#[derive(Default)]
struct Inner {
    waiting: BTreeMap<Order, f64>,
    running: HashMap<Id, Running>,
    /// Places that requests have whose answers are being made.
    reserved: usize,
    stopping: bool,
    /// Measured and predicted seconds of the proofs so far, where older ones count less.
    measured: f64,
    predicted: f64,
}

/// Where a proof stands: by priority, and then by the number of its request, or of the one that it was put off behind.
type Order = (i32, u64, Id);

struct Running {
    task: Task,
    since: Instant,
    predicted: f64,
    /// Where it stood.
    order: Order,
}

/// A proof that a worker makes.
#[derive(Clone)]
pub struct Task {
    /// The request.
    pub id: Id,
    /// Ends the proof.
    pub cancel: Cancel,
    /// How far it is.
    pub watch: Arc<Watch>,
}

/// Where a proof is in the queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    /// It waits; 1 is the next one.
    Waiting {
        /// The place in the order.
        position: usize,
        /// Seconds until it is finished.
        seconds_left: f64,
    },
    /// It is being made.
    Running {
        /// Seconds until it is finished.
        seconds_left: f64,
    },
}

/// The queue is full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Full {
    /// Seconds after which there is probably a place.
    pub retry_after: u64,
}

/// Places in the queue for proofs of an answer that is being made; free again when this is dropped.
pub struct Reserved {
    queue: Arc<Queue>,
    places: usize,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.queue.lock().reserved -= self.places;
    }
}

/// How much older proofs count beside the next one.
const FADE: f64 = 0.8;

impl Inner {
    /// Seconds that a predicted second takes here.
    fn scale(&self) -> f64 {
        match self.predicted > 0.0 {
            true => self.measured / self.predicted,
            false => 1.0,
        }
    }

    /// Seconds that the running proofs take from now on.
    fn running_left(&self) -> f64 {
        self.running.values().map(|own| own.left(self.scale())).sum()
    }
}

impl Running {
    fn left(&self, scale: f64) -> f64 {
        let predicted = (self.predicted * scale - self.since.elapsed().as_secs_f64()).max(0.0);
        self.task.watch.seconds_left().unwrap_or(predicted)
    }
}

impl Queue {
    /// An empty queue for so many proofs that wait and so many workers.
    pub fn new(most: usize, devices: usize) -> Self {
        Self {
            inner: Mutex::default(),
            changed: Condvar::new(),
            most,
            devices,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps places for the proofs of an answer.
    ///
    /// # Errors
    /// If there are not so many.
    pub fn reserve(self: &Arc<Self>, places: usize) -> Result<Reserved, Full> {
        let mut inner = self.lock();
        if inner.waiting.len() + inner.reserved + places > self.most {
            // The next place is free when a running proof is finished.
            let next = inner.running.values().map(|own| own.left(inner.scale()));
            let seconds = next.fold(f64::INFINITY, f64::min);
            let retry_after = if seconds.is_finite() { seconds.ceil() as u64 } else { 1 };
            return Err(Full {
                retry_after: retry_after.clamp(1, 3600),
            });
        }
        inner.reserved += places;
        Ok(Reserved {
            queue: Arc::clone(self),
            places,
        })
    }

    /// Adds a request that is stored.
    pub fn push(&self, id: Id, record: &Record) {
        let order = (record.priority, record.number, id);
        self.lock().waiting.insert(order, record.predicted);
        self.changed.notify_one();
    }

    /// Waits for the next proof to make; `None` once the queue is stopped.
    pub fn next(&self) -> Option<Task> {
        let mut inner = self.lock();
        loop {
            if inner.stopping {
                return None;
            }
            if let Some((order, predicted)) = inner.waiting.pop_first() {
                let id = order.2;
                let task = Task {
                    id,
                    cancel: Cancel::default(),
                    watch: Arc::default(),
                };
                let running = Running {
                    task: task.clone(),
                    since: Instant::now(),
                    predicted,
                    order,
                };
                inner.running.insert(id, running);
                return Some(task);
            }
            inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends a task. `seconds` are what a finished proof took.
    pub fn end(&self, id: Id, seconds: Option<f64>) {
        let mut inner = self.lock();
        if let (Some(own), Some(seconds)) = (inner.running.remove(&id), seconds) {
            inner.measured = inner.measured * FADE + seconds;
            inner.predicted = inner.predicted * FADE + own.predicted;
        }
    }

    /// Puts a task off behind all that wait now and have its priority, so that it holds up none of them.
    pub fn put_off(&self, id: Id) {
        let mut inner = self.lock();
        let Some(Running { order, predicted, .. }) = inner.running.remove(&id) else {
            return;
        };
        let (priority, number, _) = order;
        let last = inner
            .waiting
            .keys()
            .rfind(|own| own.0 == priority)
            .map_or(0, |own| own.1);
        inner.waiting.insert((priority, number.max(last + 1), id), predicted);
        self.changed.notify_one();
    }

    /// Waits for so long, or until the queue is stopped.
    pub fn pause(&self, time: Duration) {
        let (inner, until) = (self.lock(), Instant::now() + time);
        let left = |inner: &mut Inner| !inner.stopping && Instant::now() < until;
        drop(self.changed.wait_timeout_while(inner, time, left));
    }

    /// Takes a proof out of the queue, or ends it if it is being made. Returns whether it is, so that its worker still writes.
    pub fn remove(&self, id: Id) -> bool {
        let mut inner = self.lock();
        inner.waiting.retain(|own, _| own.2 != id);
        let running = inner.running.get(&id);
        running.inspect(|own| own.task.cancel.cancel()).is_some()
    }

    /// Where a proof is; `None` if it is not in the queue.
    pub fn place(&self, id: Id) -> Option<Place> {
        let inner = self.lock();
        let scale = inner.scale();
        if let Some(own) = inner.running.get(&id) {
            let seconds_left = own.left(scale);
            return Some(Place::Running { seconds_left });
        }
        let mut before = inner.running_left();
        for (at, ((.., own), predicted)) in inner.waiting.iter().enumerate() {
            if *own == id {
                return Some(Place::Waiting {
                    position: at + 1,
                    seconds_left: before / self.devices.max(1) as f64 + predicted * scale,
                });
            }
            before += predicted * scale;
        }
        None
    }

    /// Number of proofs that wait, and of those that are being made.
    pub fn len(&self) -> (usize, usize) {
        let inner = self.lock();
        (inner.waiting.len(), inner.running.len())
    }

    /// Ends all running proofs, which stay open in the store, and begins no more.
    pub fn stop(&self) {
        let mut inner = self.lock();
        inner.stopping = true;
        inner.running.values().for_each(|own| own.task.cancel.cancel());
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proofs::record::{Kind, State};

    fn record(number: u64, priority: i32) -> Record {
        Record {
            number,
            priority,
            predicted: 10.0,
            ..Record::new(Kind::Chat, vec![1], 1, State::Queued)
        }
    }

    #[test]
    fn proofs_are_made_by_priority_and_then_in_order() {
        let queue = Arc::new(Queue::new(4, 1));
        for (number, priority) in [(1, 0), (2, 0), (3, -1)] {
            queue.push(Id(number.into()), &record(number, priority));
        }
        assert_eq!(
            queue.place(Id(3)),
            Some(Place::Waiting {
                position: 1,
                seconds_left: 10.0
            })
        );
        assert_eq!(
            queue.place(Id(2)),
            Some(Place::Waiting {
                position: 3,
                seconds_left: 30.0
            })
        );
        let order: Vec<u128> = (0..3).map(|_| queue.next().unwrap().id.0).collect();
        assert_eq!(order, [3, 1, 2]);
        assert!(matches!(queue.place(Id(1)), Some(Place::Running { seconds_left }) if seconds_left > 9.0));
        // Proofs take twice as long as predicted.
        queue.end(Id(3), Some(20.0));
        queue.push(Id(4), &record(4, 0));
        let Some(Place::Waiting { seconds_left, .. }) = queue.place(Id(4)) else {
            panic!()
        };
        assert!((59.0..=60.0).contains(&seconds_left), "{seconds_left}");
        assert_eq!(queue.place(Id(3)), None);
    }

    #[test]
    fn a_full_queue_says_when_to_come_back() {
        let queue = Arc::new(Queue::new(2, 1));
        let place = queue.reserve(1).unwrap();
        queue.push(Id(1), &record(1, 0));
        assert_eq!(queue.reserve(1).err(), Some(Full { retry_after: 1 }));
        drop(place);
        let place = queue.reserve(1).unwrap();
        let task = queue.next().unwrap();
        queue.push(Id(2), &record(2, 0));
        assert_eq!(queue.reserve(1).err(), Some(Full { retry_after: 10 }));
        drop(place);
        assert!(!queue.remove(Id(2)) && queue.remove(Id(1)));
        assert!(task.cancel.is_cancelled() && queue.len() == (0, 1));
        // What is put off holds up nothing that waits, whatever comes later.
        queue.push(Id(2), &record(2, 0));
        queue.push(Id(9), &record(9, 1));
        queue.put_off(Id(1));
        queue.put_off(Id(1));
        queue.push(Id(4), &record(4, 0));
        let order: Vec<u128> = (0..4).map(|_| queue.next().unwrap().id.0).collect();
        assert_eq!(order, [2, 1, 4, 9]);
        assert_eq!(queue.len(), (0, 4));
        queue.stop();
        assert!(queue.next().is_none());
    }
}
