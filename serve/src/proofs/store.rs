//! The store: requests and finished proofs on disk.
//!
//! Records are in redb, which commits each change whole and synced, or not at all. A proof is a file, which has its name once it is
//! complete and synced. A proof is written before its record says `done`, so that after a crash there is either a record of an open
//! request, whose proof may be there already and is taken as it is, or a record of a finished proof.
//!
//! | name | holds |
//! |---|---|
//! | `requests.redb` | the records |
//! | `proofs/ID.proof` | a finished proof |
//! | `work/ID` | the chunks of a proof that is made in chunks |
//! | `lock` | held by the server that uses the store |

use std::fs::OpenOptions;
use std::num::ParseIntError;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use redb::backends::FileBackend;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};
use tessera::support::files::{self, FileError, Lock};
use thiserror::Error;

use super::record::{Record, State};
use crate::id::Id;
use crate::log::now;

/// Records as JSON, by id.
const RECORDS: TableDefinition<'_, u128, &[u8]> = TableDefinition::new("records");
/// Ids of open requests, by number.
const OPEN: TableDefinition<'_, u64, u128> = TableDefinition::new("open");
/// Bytes of finished proofs, by the second of their end and id.
const DONE: TableDefinition<'_, (u64, u128), u64> = TableDefinition::new("done");
/// Requests that have no proof any more, or never had one, by the same.
const ENDED: TableDefinition<'_, (u64, u128), ()> = TableDefinition::new("ended");
/// The model, and the next number.
const FACTS: TableDefinition<'_, &str, &str> = TableDefinition::new("facts");
const MODEL: &str = "model";
const NUMBER: &str = "number";

/// Bytes that the store keeps in memory.
const CACHE: usize = 16 << 20;

/// A store that cannot be used.
#[derive(Debug, Error)]
pub enum StoreError {
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Another server uses the store.
    #[error("{}: another server uses this store", .0.display())]
    Locked(PathBuf),
    /// The records cannot be read or written.
    #[error("{}: {reason}", path.display())]
    Records {
        /// The file of the records.
        path: PathBuf,
        /// What the store says.
        reason: String,
    },
    /// The store has proofs of another model.
    #[error("{} has proofs of the model {found}, and this is the model {model}: give this one a store of its own with --store DIR", dir.display())]
    OtherModel {
        /// The store.
        dir: PathBuf,
        /// The model of the proofs that the store has.
        found: String,
        /// The model that is served.
        model: String,
    },
}

/// The store of a server.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    /// Nothing after an error of the disk, until they are opened again.
    records: RwLock<Option<Database>>,
    _lock: Lock,
}

/// What the store says, before the file is named.
type Said<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

impl Store {
    /// Opens the store of a model, and creates it if there is none. Removes what a crash has left unfinished.
    ///
    /// # Errors
    /// If the store cannot be used, another server uses it, or it has proofs of another model.
    pub fn open(dir: &Path, model: &str) -> Result<Self, StoreError> {
        for own in [dir.to_owned(), dir.join("proofs"), dir.join("work")] {
            private_dir(&own)?;
        }
        let lock = match Lock::take(&dir.join("lock")) {
            Err(FileError::Locked { .. }) => return Err(StoreError::Locked(dir.to_owned())),
            other => other?,
        };
        let store = Self {
            dir: dir.to_owned(),
            records: RwLock::default(),
            _lock: lock,
        };
        let found = store.with(|records| model_of(records, model))?;
        if found != model {
            return Err(StoreError::OtherModel {
                dir: dir.to_owned(),
                found,
                model: model.to_owned(),
            });
        }
        files::remove_unfinished(&dir.join("proofs"))?;
        store.remove_orphans()?;
        Ok(store)
    }

    /// Does something with the records. After an error of the disk, for example because it is full, redb refuses everything until its file
    /// is opened again; whoever asks next opens it.
    fn with<T>(&self, work: impl FnOnce(&Database) -> Said<T>) -> Result<T, StoreError> {
        let done = self.try_with(work);
        if let Err(error) = &done {
            let is_content = error.is::<serde_json::Error>() || error.is::<ParseIntError>();
            if !is_content {
                *self.records.write().unwrap_or_else(PoisonError::into_inner) = None;
            }
        }
        done.map_err(|e| StoreError::Records {
            path: self.records_path(),
            reason: e.to_string(),
        })
    }

    fn try_with<T>(&self, work: impl FnOnce(&Database) -> Said<T>) -> Said<T> {
        if let Some(records) = &*self.records.read().unwrap_or_else(PoisonError::into_inner) {
            return work(records);
        }
        let mut closed = self.records.write().unwrap_or_else(PoisonError::into_inner);
        let records = match closed.take() {
            // Somebody else has opened them meanwhile.
            Some(records) => records,
            None => open_records(&self.records_path())?,
        };
        work(closed.insert(records))
    }

    fn records_path(&self) -> PathBuf {
        self.dir.join("requests.redb")
    }

    /// The file of a proof.
    pub fn proof_path(&self, id: Id) -> PathBuf {
        self.dir.join("proofs").join(format!("{id}.proof"))
    }

    /// The directory of a proof that is made in chunks.
    pub fn work_dir(&self, id: Id) -> PathBuf {
        self.dir.join("work").join(id.to_string())
    }

    /// Stores a new request, and gives it its number. When this returns, a crash does not lose it.
    ///
    /// # Errors
    /// If it cannot be stored.
    pub fn insert(&self, id: Id, record: &mut Record) -> Result<(), StoreError> {
        let insert = |records: &Database| -> Said<u64> {
            let write = records.begin_write()?;
            let number = {
                let mut facts = write.open_table(FACTS)?;
                let last: u64 = match facts.get(NUMBER)? {
                    Some(last) => last.value().parse()?,
                    None => 0,
                };
                facts.insert(NUMBER, (last + 1).to_string().as_str())?;
                last + 1
            };
            put(
                &write,
                id,
                &Record {
                    number,
                    ..record.clone()
                },
            )?;
            write.commit()?;
            Ok(number)
        };
        record.number = self.with(insert)?;
        Ok(())
    }

    /// The record of a request; `None` if there is none.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn get(&self, id: Id) -> Result<Option<Record>, StoreError> {
        let get = |records: &Database| -> Said<Option<Record>> {
            let table = records.begin_read()?.open_table(RECORDS)?;
            let found = table.get(id.0)?;
            Ok(found.map(|bytes| serde_json::from_slice(bytes.value())).transpose()?)
        };
        self.with(get)
    }

    /// Changes the record of a request. `change` gets the record as it is stored, and says with `false` that nothing is to change; all
    /// of this is one step for everybody else. Returns the record that is stored then; `None` if there is none.
    ///
    /// # Errors
    /// If the store cannot be read or written.
    pub fn change(&self, id: Id, change: impl FnOnce(&mut Record) -> bool) -> Result<Option<Record>, StoreError> {
        let run = |records: &Database| -> Said<Option<Record>> {
            let write = records.begin_write()?;
            let before: Option<Record> = {
                let table = write.open_table(RECORDS)?;
                let found = table.get(id.0)?;
                found.map(|bytes| serde_json::from_slice(bytes.value())).transpose()?
            };
            let Some(before) = before else { return Ok(None) };
            let mut after = before.clone();
            if !change(&mut after) {
                return Ok(Some(before));
            }
            take(&write, id, &before)?;
            put(&write, id, &after)?;
            write.commit()?;
            Ok(Some(after))
        };
        self.with(run)
    }

    /// The open requests in the order of their arrival.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn open_requests(&self) -> Result<Vec<(Id, Record)>, StoreError> {
        let all = |records: &Database| -> Said<Vec<(Id, Record)>> {
            let read = records.begin_read()?;
            let (open, all) = (read.open_table(OPEN)?, read.open_table(RECORDS)?);
            let mut list = Vec::new();
            for entry in open.iter()? {
                let id = entry?.1.value();
                if let Some(bytes) = all.get(id)? {
                    list.push((Id(id), serde_json::from_slice(bytes.value())?));
                }
            }
            Ok(list)
        };
        self.with(all)
    }

    /// Finished proofs, the oldest first: when they were finished, and their bytes.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn finished(&self) -> Result<Vec<(u64, Id, u64)>, StoreError> {
        let all = |records: &Database| -> Said<Vec<(u64, Id, u64)>> {
            let table = records.begin_read()?.open_table(DONE)?;
            let mut list = Vec::new();
            for entry in table.iter()? {
                let (key, bytes) = entry?;
                let (ended, id) = key.value();
                list.push((ended, Id(id), bytes.value()));
            }
            Ok(list)
        };
        self.with(all)
    }

    /// Forgets a request and its proof, whose files are to be removed then. The record stays, without texts.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn forget(&self, id: Id) -> Result<Option<Record>, StoreError> {
        self.change(id, |record| {
            let is_there = record.state != State::Gone;
            record.forget(now());
            is_there
        })
    }

    /// Removes the records of requests that ended before a second and have no proof.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn purge(&self, before: u64) -> Result<usize, StoreError> {
        let run = |records: &Database| -> Said<usize> {
            let write = records.begin_write()?;
            let mut old = Vec::new();
            {
                let mut ended = write.open_table(ENDED)?;
                let mut records = write.open_table(RECORDS)?;
                for entry in ended.range(..(before, 0))? {
                    old.push(entry?.0.value());
                }
                for key in &old {
                    ended.remove(key)?;
                    records.remove(key.1)?;
                }
            }
            write.commit()?;
            Ok(old.len())
        };
        self.with(run)
    }

    /// Removes the files of a request that needs none any more.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn remove_files(&self, id: Id) -> Result<(), StoreError> {
        files::remove(&self.proof_path(id))?;
        self.remove_work(id)
    }

    /// Removes the chunks of a proof.
    ///
    /// # Errors
    /// If they cannot be removed.
    pub fn remove_work(&self, id: Id) -> Result<(), StoreError> {
        let work = self.work_dir(id);
        if !files::is_there(&work) {
            return Ok(());
        }
        match files::remove_dir(&work) {
            // Somebody else was faster.
            Err(_) if !files::is_there(&work) => Ok(()),
            removed => Ok(removed?),
        }
    }

    /// Removes the files of requests that need none: a crash came between a record and its files.
    fn remove_orphans(&self) -> Result<(), StoreError> {
        for (folder, of_open) in [("proofs", false), ("work", true)] {
            let entries = std::fs::read_dir(self.dir.join(folder)).into_iter().flatten().flatten();
            for entry in entries {
                let name = entry.file_name().into_string().unwrap_or_default();
                let Ok(id) = name.trim_end_matches(".proof").parse::<Id>() else {
                    continue;
                };
                let state = self.get(id)?.map(|record| record.state);
                match state {
                    Some(state) if state.is_open() || state == State::Done && !of_open => {}
                    Some(State::Done) => self.remove_work(id)?,
                    _ => self.remove_files(id)?,
                }
            }
        }
        Ok(())
    }
}

/// Opens the records, or creates them. They have texts of clients, so only their owner may read them, whatever directory they are in.
fn open_records(path: &Path) -> Said<Database> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = FileBackend::new(options.open(path)?)?;
    Ok(Database::builder().set_cache_size(CACHE).create_with_backend(file)?)
}

/// The model of the records; new ones become those of `model`.
fn model_of(records: &Database, model: &str) -> Said<String> {
    let write = records.begin_write()?;
    let found = {
        write.open_table(RECORDS)?;
        write.open_table(OPEN)?;
        write.open_table(DONE)?;
        write.open_table(ENDED)?;
        let mut facts = write.open_table(FACTS)?;
        let found = facts.get(MODEL)?.map(|found| found.value().to_owned());
        if found.is_none() {
            facts.insert(MODEL, model)?;
        }
        found
    };
    write.commit()?;
    Ok(found.unwrap_or_else(|| model.to_owned()))
}

/// Creates a directory that only its owner may read: the store has texts of clients.
fn private_dir(path: &Path) -> Result<(), FileError> {
    let made = !files::is_there(path);
    files::create_dir(path)?;
    #[cfg(unix)]
    if made {
        use std::os::unix::fs::PermissionsExt;
        let private = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(path, private).map_err(|source| FileError::Write {
            path: path.to_owned(),
            source,
        })?;
    }
    #[cfg(not(unix))]
    let _ = made;
    Ok(())
}

/// When a request that is not open has ended.
fn ended(record: &Record) -> u64 {
    record.ended.unwrap_or(record.created)
}

/// Writes a record, and where it is found.
fn put(write: &WriteTransaction, id: Id, record: &Record) -> Said<()> {
    let bytes = serde_json::to_vec(record)?;
    write.open_table(RECORDS)?.insert(id.0, bytes.as_slice())?;
    match record.state {
        State::Answering | State::Queued => drop(write.open_table(OPEN)?.insert(record.number, id.0)?),
        State::Done => drop(write.open_table(DONE)?.insert((ended(record), id.0), record.bytes)?),
        State::Failed | State::Gone => drop(write.open_table(ENDED)?.insert((ended(record), id.0), ())?),
    }
    Ok(())
}

/// Removes where a record is found.
fn take(write: &WriteTransaction, id: Id, record: &Record) -> Said<()> {
    match record.state {
        State::Answering | State::Queued => drop(write.open_table(OPEN)?.remove(record.number)?),
        State::Done => drop(write.open_table(DONE)?.remove((ended(record), id.0))?),
        State::Failed | State::Gone => drop(write.open_table(ENDED)?.remove((ended(record), id.0))?),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proofs::record::Kind;

    fn record() -> Record {
        Record::new(Kind::Chat, vec![1, 2], 3, State::Queued)
    }

    #[test]
    fn requests_are_there_after_another_start_in_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let ids = [Id(7), Id(3), Id(9)];
        {
            let store = Store::open(dir.path(), "a").unwrap();
            for id in ids {
                store.insert(id, &mut record()).unwrap();
            }
            assert!(matches!(Store::open(dir.path(), "a"), Err(StoreError::Locked(_))));
            let done = store.change(ids[1], |record| {
                (record.state, record.ended, record.bytes) = (State::Done, Some(5), 11);
                true
            });
            assert_eq!(done.unwrap().unwrap().number, 2);
        }
        let store = Store::open(dir.path(), "a").unwrap();
        let open: Vec<Id> = store.open_requests().unwrap().into_iter().map(|(id, _)| id).collect();
        assert_eq!(open, [ids[0], ids[2]]);
        assert_eq!(store.finished().unwrap(), [(5, ids[1], 11)]);
        assert_eq!(store.change(Id(1), |_| true).unwrap(), None);
        drop(store);
        assert!(matches!(
            Store::open(dir.path(), "b"),
            Err(StoreError::OtherModel { .. })
        ));
    }

    #[test]
    fn files_that_no_record_needs_are_removed_at_the_start() {
        let dir = tempfile::tempdir().unwrap();
        let (open, gone, stranger) = (Id(1), Id(2), Id(3));
        {
            let store = Store::open(dir.path(), "a").unwrap();
            for id in [open, gone] {
                store.insert(id, &mut record()).unwrap();
            }
            store.forget(gone).unwrap();
            store.remove_files(gone).unwrap();
            for id in [open, gone, stranger] {
                std::fs::write(store.proof_path(id), b"proof").unwrap();
                std::fs::create_dir(store.work_dir(id)).unwrap();
            }
        }
        let store = Store::open(dir.path(), "a").unwrap();
        for (id, is_there) in [(open, true), (gone, false), (stranger, false)] {
            assert_eq!(store.proof_path(id).exists(), is_there, "{id}");
            assert_eq!(store.work_dir(id).exists(), is_there, "{id}");
        }
        let record = store.get(gone).unwrap().unwrap();
        assert!(record.prompt.is_empty() && record.state == State::Gone);
        assert_eq!(store.purge(u64::MAX).unwrap(), 1);
        assert_eq!(store.get(gone).unwrap(), None);
    }
}
