//! Files on disk: reads whose errors name the path, and writes that are complete or absent.

use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use memmap2::Mmap;
use tempfile::{Builder, NamedTempFile, TempDir};
use thiserror::Error;

use crate::pages;

/// An operation on a path that failed.
#[derive(Debug, Error)]
pub enum FileError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is a link to {}, which is missing: download the file again", path.display(), target.display())]
    Dangling { path: PathBuf, target: PathBuf },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{} exists already: remove it, or choose another name", path.display())]
    Exists { path: PathBuf },
    #[error("another process holds {}", path.display())]
    Locked { path: PathBuf },
}

fn read_error(path: &Path) -> impl FnOnce(io::Error) -> FileError + '_ {
    move |source| match fs::read_link(path) {
        // As a cache of downloads has them.
        Ok(target) if source.kind() == io::ErrorKind::NotFound => FileError::Dangling {
            path: path.to_path_buf(),
            target,
        },
        _ => FileError::Read {
            path: path.to_path_buf(),
            source,
        },
    }
}

/// Whether a folder has an entry of this name, be it a link to nowhere.
pub fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn write_error(path: &Path) -> impl FnOnce(io::Error) -> FileError + '_ {
    move |source| FileError::Write {
        path: path.to_path_buf(),
        source,
    }
}

/// An error of creating an unfinished file or folder beside `path`. Its text has the name of the unfinished one, which is
/// nobody's business: what kind of error it is says enough.
fn create_error(path: &Path) -> impl FnOnce(io::Error) -> FileError + '_ {
    move |source| write_error(path)(source.kind().into())
}

/// Reads a whole file.
pub fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    fs::read(path).map_err(read_error(path))
}

/// Maps a file into memory, read-only. An empty file gives an empty slice.
pub fn map(path: &Path) -> Result<Mapped, FileError> {
    let file = File::open(path).map_err(read_error(path))?;
    let metadata = file.metadata().map_err(read_error(path))?;
    if metadata.is_dir() {
        return Err(read_error(path)(io::ErrorKind::IsADirectory.into()));
    }
    if metadata.len() == 0 {
        return Ok(Mapped(None));
    }
    // SAFETY: the map is private and read-only; as with every mapped file, nobody may truncate the file
    // while it is in use. All of this project's own writes replace files by renaming and never truncate.
    let map = unsafe { Mmap::map(&file) }.map_err(read_error(path))?;
    Ok(Mapped(Some(map)))
}

/// A file mapped into memory.
#[derive(Debug)]
pub struct Mapped(Option<Mmap>);

impl Mapped {
    /// The bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        self.0.as_deref().unwrap_or(&[])
    }

    /// Reads a range of bytes into memory, in advance.
    pub fn populate(&self, bytes: Range<usize>) {
        if let Some(map) = &self.0 {
            pages::populate(map, bytes);
        }
    }

    /// From now on, nothing is entered in the page table beside what is asked for.
    pub fn in_small_pages(&self) {
        if let Some(map) = &self.0 {
            pages::small(map);
        }
    }

    /// Lets go of a range of bytes: of the memory, not the contents.
    pub fn release(&self, bytes: Range<usize>) {
        if let Some(map) = &self.0 {
            pages::release(map, bytes);
        }
    }
}

/// The directory that a path is in.
pub fn parent(path: &Path) -> &Path {
    path.parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Bytes of all files of a directory.
pub fn directory_bytes(dir: &Path) -> Result<u64, FileError> {
    let failed = |source| FileError::Read {
        path: dir.to_owned(),
        source,
    };
    let mut total = 0;
    for entry in fs::read_dir(dir).map_err(failed)? {
        total += entry.and_then(|e| e.metadata()).map_err(failed)?.len();
    }
    Ok(total)
}

/// Permissions of an ordinary new file or directory (tempfile's own are private to the user).
fn public(builder: &mut Builder<'_, '_>, mode: u32) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(mode));
    }
    #[cfg(not(unix))]
    let _ = (builder, mode);
}

/// Makes a rename in `dir` durable; best effort, because not every file system can sync a directory.
fn sync_dir(dir: &Path) {
    if let Ok(dir) = File::open(dir) {
        let _ = dir.sync_all();
    }
}

/// How the names of files and directories begin and end that are being written.
const UNFINISHED: (&str, &str) = (".tessera-", ".tmp");

/// Whether a file or directory of this name is being written, or was when its process was killed.
fn is_unfinished(name: &str) -> bool {
    name.starts_with(UNFINISHED.0) && name.ends_with(UNFINISHED.1)
}

/// Removes what processes that were killed have left unfinished in a directory.
pub fn remove_unfinished(dir: &Path) -> Result<(), FileError> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|name| is_unfinished(name))
        .try_for_each(|name| remove(&dir.join(name)))
}

/// A file that appears under its name only when it is complete: written to a temporary file in the same
/// directory, synced and renamed by [`AtomicFile::commit`], removed if it is dropped before.
#[derive(Debug)]
pub struct AtomicFile {
    path: PathBuf,
    file: NamedTempFile,
    /// Bytes written since the last sync.
    unsynced: usize,
    /// The sync of what was written before.
    syncing: Option<JoinHandle<io::Result<()>>>,
    /// Whether what is on disk stays in memory.
    keep: bool,
    /// Whether a file that has the name already is an error.
    new: bool,
}

/// A file is synced after so many bytes, so that not all of a large one is left to the end.
const SYNC: usize = 128 << 20;

impl AtomicFile {
    /// Starts to write `path`.
    pub fn create(path: &Path) -> Result<Self, FileError> {
        Self::with_mode(path, 0o666)
    }

    /// Starts to write a secret: nobody else than its owner can read the file, and it replaces none.
    pub fn create_private(path: &Path) -> Result<Self, FileError> {
        check_new(path)?;
        let file = Self::with_mode(path, 0o600)?;
        Ok(Self { new: true, ..file })
    }

    fn with_mode(path: &Path, mode: u32) -> Result<Self, FileError> {
        let mut builder = Builder::new();
        builder.prefix(UNFINISHED.0).suffix(UNFINISHED.1);
        public(&mut builder, mode);
        let dir = parent(path);
        let file = builder.tempfile_in(dir).map_err(|source| match dir.is_dir() {
            true => create_error(path)(source),
            // Not the name of the unfinished file.
            false => write_error(path)(io::Error::other(format!("there is no folder {}", dir.display()))),
        })?;
        Ok(Self {
            path: path.to_path_buf(),
            file,
            unsynced: 0,
            syncing: None,
            keep: true,
            new: false,
        })
    }

    /// As [`Self::create`], for a large file that is not read soon: what is on disk leaves memory.
    pub fn create_cold(path: &Path) -> Result<Self, FileError> {
        let file = Self::create(path)?;
        Ok(Self { keep: false, ..file })
    }

    /// Appends bytes.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        let written = self.file.write_all(bytes);
        written
            .and_then(|()| self.sync_after(bytes.len()))
            .map_err(write_error(&self.path))
    }

    /// Begins to sync as soon as there is enough, on a thread of its own, one piece at a time.
    fn sync_after(&mut self, written: usize) -> io::Result<()> {
        self.unsynced += written;
        if self.unsynced >= SYNC {
            self.unsynced = 0;
            self.synced()?;
            let (file, keep) = (self.file.as_file().try_clone()?, self.keep);
            self.syncing = Some(thread::spawn(move || {
                file.sync_data()?;
                if !keep {
                    forget(&file);
                }
                Ok(())
            }));
        }
        Ok(())
    }

    /// Waits for the sync that was begun.
    fn synced(&mut self) -> io::Result<()> {
        let syncing = self.syncing.take().map(JoinHandle::join);
        syncing
            .unwrap_or(Ok(Ok(())))
            .unwrap_or_else(|_| Err(io::Error::other("a sync did not end")))
    }

    /// Syncs the file and gives it its name; a file that had the name is replaced, unless this one is a secret.
    pub fn commit(mut self) -> Result<(), FileError> {
        self.synced().map_err(write_error(&self.path))?;
        let Self {
            path, file, keep, new, ..
        } = self;
        file.as_file().sync_all().map_err(write_error(&path))?;
        if !keep {
            forget(file.as_file());
        }
        let persisted = match new {
            true => file.persist_noclobber(&path),
            false => file.persist(&path),
        };
        persisted.map_err(|e| match e.error.kind() {
            io::ErrorKind::AlreadyExists => FileError::Exists { path: path.clone() },
            _ => write_error(&path)(e.error),
        })?;
        sync_dir(parent(&path));
        Ok(())
    }
}

/// Lets go of the pages of a file that are on disk, where the system can be told.
fn forget(file: &File) {
    #[cfg(target_os = "linux")]
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
    #[cfg(not(target_os = "linux"))]
    let _ = file;
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes);
        let synced = written.and_then(|n| self.sync_after(n).map(|()| n));
        synced.map_err(|e| io::Error::new(e.kind(), format!("cannot write {}: {e}", self.path.display())))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes a whole file atomically.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let mut file = AtomicFile::create(path)?;
    file.append(bytes)?;
    file.commit()
}

/// A directory that appears under its name only when it is complete; removed if it is dropped before
/// [`AtomicDir::commit`].
#[derive(Debug)]
pub struct AtomicDir {
    target: PathBuf,
    dir: TempDir,
}

impl AtomicDir {
    /// Starts to fill `target`, which must not exist or be an empty directory.
    pub fn create(target: &Path) -> Result<Self, FileError> {
        check_free(target)?;
        let parent = parent(target);
        fs::create_dir_all(parent).map_err(write_error(parent))?;
        let mut builder = Builder::new();
        builder.prefix(UNFINISHED.0).suffix(UNFINISHED.1);
        public(&mut builder, 0o777);
        let dir = builder.tempdir_in(parent).map_err(create_error(target))?;
        Ok(Self {
            target: target.to_path_buf(),
            dir,
        })
    }

    /// Where to put the files in the meantime.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Gives the directory its name.
    pub fn commit(self) -> Result<(), FileError> {
        rename_dir(self.dir.path(), &self.target)?;
        // The directory has another name now: there is nothing left to remove.
        let _ = self.dir.keep();
        Ok(())
    }
}

/// Errors if there is anything of this name.
pub fn check_new(path: &Path) -> Result<(), FileError> {
    match is_there(path) {
        true => Err(FileError::Exists {
            path: path.to_path_buf(),
        }),
        false => Ok(()),
    }
}

/// Errors unless `target` does not exist or is an empty directory.
pub fn check_free(target: &Path) -> Result<(), FileError> {
    let free = match fs::read_dir(target) {
        Ok(mut entries) => entries.next().is_none(),
        Err(e) => e.kind() == io::ErrorKind::NotFound,
    };
    match free {
        true => Ok(()),
        false => Err(FileError::Exists {
            path: target.to_path_buf(),
        }),
    }
}

/// Gives a complete directory the name `target`, which must be free ([`check_free`]).
pub fn rename_dir(dir: &Path, target: &Path) -> Result<(), FileError> {
    check_free(target)?;
    sync_dir(dir);
    fs::rename(dir, target).map_err(write_error(target))?;
    sync_dir(parent(target));
    Ok(())
}

/// Creates a directory and those above it.
pub fn create_dir(path: &Path) -> Result<(), FileError> {
    fs::create_dir_all(path).map_err(write_error(path))
}

/// Removes a file, if it is there.
pub fn remove(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(write_error(path)(e)),
        _ => Ok(()),
    }
}

/// Removes a directory with all that is in it.
pub fn remove_dir(path: &Path) -> Result<(), FileError> {
    fs::remove_dir_all(path).map_err(write_error(path))
}

/// Bytes that can still be written to the file system of a directory; `None` where the system does not tell.
pub fn free_space(dir: &Path) -> Option<u64> {
    #[cfg(unix)]
    {
        let stat = rustix::fs::statvfs(dir).ok()?;
        stat.f_bavail.checked_mul(stat.f_frsize)
    }
    #[cfg(not(unix))]
    {
        let _ = dir;
        None
    }
}

/// A file that only one process at a time holds.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Creates the file if there is none, and holds it until it is dropped.
    pub fn take(path: &Path) -> Result<Self, FileError> {
        let file = File::create(path).map_err(write_error(path))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(fs::TryLockError::WouldBlock) => Err(FileError::Locked {
                path: path.to_path_buf(),
            }),
            Err(fs::TryLockError::Error(e)) => Err(write_error(path)(e)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tessera_samples::names;

    /// A secret is its owner's alone, and replaces no file, not even one that comes while it is written.
    #[test]
    fn secrets_are_private_and_new() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let mut file = AtomicFile::create_private(&path).unwrap();
        file.append(b"one").unwrap();
        write(&path, b"two").unwrap();
        assert!(matches!(file.commit(), Err(FileError::Exists { .. })));
        assert_eq!(read(&path).unwrap(), b"two");
        assert!(matches!(
            AtomicFile::create_private(&path),
            Err(FileError::Exists { .. })
        ));
        let path = dir.path().join("b");
        let mut file = AtomicFile::create_private(&path).unwrap();
        file.append(b"one").unwrap();
        file.commit().unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(names(dir.path()), ["a", "b"]);
    }

    #[test]
    fn writes_are_complete_or_absent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let mut file = AtomicFile::create(&path).unwrap();
        file.append(b"one").unwrap();
        drop(file);
        assert!(names(dir.path()).is_empty());
        write(&path, b"two").unwrap();
        write(&path, b"three").unwrap();
        assert_eq!(read(&path).unwrap(), b"three");
        assert_eq!(names(dir.path()), ["a"]);
        assert_eq!(map(&path).unwrap().bytes(), b"three");
    }

    #[test]
    fn directories_are_complete_or_absent() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("deep/model");
        let pending = AtomicDir::create(&target).unwrap();
        write(&pending.path().join("x"), b"x").unwrap();
        drop(pending);
        assert!(names(&dir.path().join("deep")).is_empty());
        let pending = AtomicDir::create(&target).unwrap();
        write(&pending.path().join("x"), b"x").unwrap();
        pending.commit().unwrap();
        assert_eq!(names(&dir.path().join("deep")), ["model"]);
        assert_eq!(names(&target), ["x"]);
        assert!(matches!(AtomicDir::create(&target), Err(FileError::Exists { path }) if path == target));
    }

    #[test]
    fn errors_name_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing/file");
        for text in [
            read(&missing).unwrap_err().to_string(),
            map(&missing).unwrap_err().to_string(),
            write(&missing, b"").unwrap_err().to_string(),
            map(dir.path()).unwrap_err().to_string(),
        ] {
            assert!(text.contains(dir.path().to_str().unwrap()), "{text}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_nowhere_is_said_to_be_one() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("model.safetensors");
        std::os::unix::fs::symlink("../blobs/0123", &link).unwrap();
        assert!(is_there(&link) && !link.exists());
        for text in [
            read(&link).unwrap_err().to_string(),
            map(&link).unwrap_err().to_string(),
        ] {
            assert!(text.contains("is a link to ../blobs/0123, which is missing"), "{text}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_folder_that_cannot_be_written_is_not_told_by_the_name_of_an_unfinished_file() {
        let path = Path::new("/proc/file");
        let text = write(path, b"").unwrap_err().to_string();
        assert!(text.contains("/proc/file") && !text.contains(UNFINISHED.0), "{text}");
    }
}
