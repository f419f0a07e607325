//! How long finished proofs are kept, and how much of the disk they take.

use std::time::Duration;

use super::store::{Store, StoreError};
use crate::id::Id;

/// How long the record of a proof that is gone says so, where finished proofs are kept for ever.
const SAID: Duration = Duration::from_secs(30 * 24 * 3600);

/// How long proofs are kept, and how many bytes of them.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// How long a finished proof is kept, and after that the record that it is gone.
    pub retain: Option<Duration>,
    /// The most bytes of finished proofs.
    pub quota: Option<u64>,
}

impl Retention {
    /// Deletes the proofs that are too old, and then the oldest ones until all others fit. Returns their ids.
    ///
    /// # Errors
    /// If the store cannot be read or written.
    pub fn sweep(&self, store: &Store, now: u64) -> Result<Vec<Id>, StoreError> {
        let finished = store.finished()?;
        let oldest = self.retain.map_or(0, |time| now.saturating_sub(time.as_secs()));
        let mut bytes: u64 = finished.iter().map(|(_, _, bytes)| bytes).sum();
        let mut gone = Vec::new();
        for (ended, id, own) in finished {
            if ended >= oldest && self.quota.is_none_or(|quota| bytes <= quota) {
                break;
            }
            store.forget(id)?;
            store.remove_files(id)?;
            bytes -= own;
            gone.push(id);
        }
        let said = self.retain.unwrap_or(SAID).max(Duration::from_secs(3600));
        store.purge(now.saturating_sub(said.as_secs()))?;
        Ok(gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proofs::record::{Kind, Record, State};

    fn store_with(ends: &[(u128, u64, u64)]) -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), "a").unwrap();
        for (id, ended, bytes) in ends {
            let mut record = Record {
                ended: Some(*ended),
                bytes: *bytes,
                ..Record::new(Kind::Chat, vec![1], 1, State::Done)
            };
            store.insert(Id(*id), &mut record).unwrap();
            std::fs::write(store.proof_path(Id(*id)), vec![0; *bytes as usize]).unwrap();
        }
        (dir, store)
    }

    #[test]
    fn old_proofs_go_first_and_then_as_many_as_the_quota_needs() {
        let (_dir, store) = store_with(&[(1, 100, 5), (2, 200, 6), (3, 300, 7)]);
        let keep = Retention {
            retain: None,
            quota: None,
        };
        assert!(keep.sweep(&store, 1000).unwrap().is_empty());
        let old = Retention {
            retain: Some(Duration::from_secs(850)),
            ..keep
        };
        assert_eq!(old.sweep(&store, 1000).unwrap(), [Id(1)]);
        assert!(!store.proof_path(Id(1)).exists() && store.proof_path(Id(2)).exists());
        let small = Retention { quota: Some(7), ..keep };
        assert_eq!(small.sweep(&store, 1000).unwrap(), [Id(2)]);
        assert_eq!(store.get(Id(2)).unwrap().unwrap().state, State::Gone);
        assert!(small.sweep(&store, 1000).unwrap().is_empty());
        assert_eq!(store.get(Id(3)).unwrap().unwrap().state, State::Done);
    }
}
