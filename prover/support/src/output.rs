//! Where a result goes. A regular file is replaced as a whole, through any links to it; anything else, such as a device
//! or a pipe, is written to and stays what it is.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::files::{self, AtomicFile, FileError};

/// The path that means standard output.
pub const STDOUT: &str = "-";
/// Links that are followed before a path is refused; as many as Linux follows.
const MOST_LINKS: usize = 40;

/// Where a result goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Standard output: `-`, or a path of what standard output goes to.
    Stdout,
    /// What is no regular file, or an open file of a process: bytes are appended.
    Stream(PathBuf),
    /// A regular file, which may not exist yet; its name with no link at the end.
    File(PathBuf),
}

fn refused(path: &Path) -> impl FnOnce(io::Error) -> FileError + '_ {
    move |source| FileError::Write {
        path: path.to_path_buf(),
        source,
    }
}

impl Output {
    /// What a path leads to.
    pub fn of(path: &Path) -> Result<Self, FileError> {
        if path == OsStr::new(STDOUT) {
            return Ok(Self::Stdout);
        }
        Self::resolve(path).map_err(refused(path))
    }

    fn resolve(path: &Path) -> io::Result<Self> {
        let regular = match fs::metadata(path) {
            Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(found) if is_stdout(&found) => return Ok(Self::Stdout),
            Ok(found) => found.is_file(),
            Err(e) if e.kind() == io::ErrorKind::NotFound => true,
            Err(e) => return Err(e),
        };
        if !regular {
            return Ok(Self::Stream(path.to_path_buf()));
        }
        let mut target = path.to_path_buf();
        for _ in 0..MOST_LINKS {
            let Ok(next) = fs::read_link(&target) else {
                return Ok(Self::File(target));
            };
            let dir = files::parent(&target).canonicalize()?;
            // The links there are open files, which may have no name any more.
            if dir.starts_with("/proc") {
                return Ok(Self::Stream(path.to_path_buf()));
            }
            target = dir.join(next);
        }
        Err(io::Error::other("too many links"))
    }

    /// Fails early where the result could not be written in the end; nothing is changed.
    pub fn check(&self) -> Result<(), FileError> {
        match self {
            Self::Stdout => Ok(()),
            // Not opened: whoever reads a pipe would see it end.
            Self::Stream(path) => writable(path).map_err(refused(path)),
            Self::File(path) => AtomicFile::create(path).map(drop),
        }
    }

    /// Writes the result.
    pub fn write(&self, bytes: &[u8]) -> Result<(), FileError> {
        match self {
            Self::Stdout => {
                let mut out = io::stdout().lock();
                let written = out.write_all(bytes).and_then(|()| out.flush());
                written.map_err(refused(Path::new("standard output")))
            }
            Self::Stream(path) => append(path, bytes).map_err(refused(path)),
            Self::File(path) => files::write(path, bytes),
        }
    }
}

fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let regular = fs::metadata(path)?.is_file();
    let mut options = OpenOptions::new();
    let mut file: File = options.append(regular).write(!regular).open(path)?;
    file.write_all(bytes)?;
    file.flush()
}

#[cfg(unix)]
fn writable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    if fs::metadata(path)?.file_type().is_socket() {
        return Err(io::Error::other("it is a socket"));
    }
    Ok(rustix::fs::access(path, rustix::fs::Access::WRITE_OK)?)
}

#[cfg(not(unix))]
fn writable(_path: &Path) -> io::Result<()> {
    Ok(())
}

/// Whether standard output goes to this file.
#[cfg(unix)]
fn is_stdout(found: &fs::Metadata) -> bool {
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;
    let stdout = io::stdout().as_fd().try_clone_to_owned().map(File::from);
    let stdout = stdout.and_then(|stdout| stdout.metadata());
    stdout.is_ok_and(|stdout| (found.dev(), found.ino()) == (stdout.dev(), stdout.ino()))
}

#[cfg(not(unix))]
fn is_stdout(_found: &fs::Metadata) -> bool {
    false
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{symlink, FileTypeExt};
    use tessera_samples::names;

    fn write(path: &Path, bytes: &[u8]) {
        let output = Output::of(path).unwrap();
        output.check().unwrap();
        output.write(bytes).unwrap();
    }

    /// The link stays a link, also one to a link, from elsewhere, or to a file that is not there yet.
    #[test]
    fn a_result_goes_where_a_link_leads() {
        let dir = tempfile::tempdir().unwrap();
        let (file, far) = (dir.path().join("file"), dir.path().join("far"));
        let (link, second) = (dir.path().join("link"), far.join("second"));
        fs::create_dir(&far).unwrap();
        symlink("file", &link).unwrap();
        symlink("../link", &second).unwrap();
        for path in [&second, &link, &second] {
            write(path, path.to_str().unwrap().as_bytes());
            assert_eq!(fs::read(&file).unwrap(), path.to_str().unwrap().as_bytes());
            assert!(link.is_symlink() && second.is_symlink() && !file.is_symlink());
        }
        assert_eq!(names(dir.path()), ["far", "file", "link"]);
        let round = dir.path().join("round");
        symlink("round", &round).unwrap();
        let error = Output::of(&round).unwrap_err().to_string();
        assert!(error.contains("round"), "{error}");
    }

    /// A device and a pipe are written to, and are there afterwards.
    #[test]
    // The library makes no pipes on macOS.
    #[cfg(not(target_vendor = "apple"))]
    fn a_result_does_not_replace_a_device_or_a_pipe() {
        let dir = tempfile::tempdir().unwrap();
        let (pipe, null) = (dir.path().join("pipe"), dir.path().join("null"));
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        symlink("/dev/null", &null).unwrap();
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read(pipe).unwrap()
        });
        write(&pipe, b"through the pipe");
        assert_eq!(reader.join().unwrap(), b"through the pipe");
        assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
        write(&null, b"lost");
        assert!(null.is_symlink() && fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        assert_eq!(names(dir.path()), ["null", "pipe"]);
    }

    /// What `/dev/stderr` and `/dev/fd/3` are when a shell sends them to a file: one that others write to as well.
    #[test]
    #[cfg(target_os = "linux")]
    fn an_open_file_is_appended_to() {
        use std::os::fd::AsRawFd;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"before ").unwrap();
        write(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())), b"after");
        assert_eq!(fs::read(&path).unwrap(), b"before after");
        assert_eq!(names(dir.path()), ["log"]);
    }

    #[test]
    fn what_cannot_be_written_is_refused_before_any_work() {
        let dir = tempfile::Builder::new().prefix("folder").tempdir().unwrap();
        let socket = dir.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let missing = dir.path().join("missing/file");
        for path in [dir.path(), &socket, &missing] {
            let error = Output::of(path)
                .and_then(|output| output.check())
                .unwrap_err()
                .to_string();
            assert!(error.contains(path.to_str().unwrap()), "{error}");
            assert_eq!(error.contains("there is no folder"), path == missing, "{error}");
            assert!(!error.contains(".tmp"), "{error}");
        }
    }
}
