//! Writing on a thread of its own, while the next bytes are computed.

use std::io::{self, Write};
use std::sync::mpsc::{channel, sync_channel, Receiver, SyncSender};
use std::thread::{Scope, ScopedJoinHandle};

/// Writes buffers in the order in which they are sent, one behind.
pub(super) struct Behind<'scope> {
    full: SyncSender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
    thread: ScopedJoinHandle<'scope, io::Result<()>>,
}

impl<'scope> Behind<'scope> {
    pub(super) fn new<'env: 'scope>(scope: &'scope Scope<'scope, 'env>, to: &'env mut (dyn Write + Send)) -> Self {
        let (full, sent) = sync_channel::<Vec<u8>>(1);
        let (done, empty) = channel();
        let thread = scope.spawn(move || {
            for bytes in sent {
                to.write_all(&bytes)?;
                // Nobody takes it any more at the end.
                let _ = done.send(bytes);
            }
            Ok(())
        });
        Self { full, empty, thread }
    }

    /// A buffer that was written, or a new one.
    pub(super) fn buffer(&self) -> Vec<u8> {
        self.empty.try_recv().unwrap_or_default()
    }

    /// Writes a buffer; waits as long as the one before it is not begun. An error is that of an earlier buffer, and
    /// [`Behind::finish`] says what it was.
    pub(super) fn write(&self, bytes: Vec<u8>) -> io::Result<()> {
        let ended = |_| io::Error::other("an earlier write failed");
        self.full.send(bytes).map_err(ended)
    }

    /// Waits until everything is written.
    ///
    /// # Panics
    /// If the writer did.
    pub(super) fn finish(self) -> io::Result<()> {
        drop(self.full);
        self.thread.join().expect("the writer does not panic")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_written_in_order_and_used_again() {
        let mut out = Vec::new();
        std::thread::scope(|scope| {
            let behind = Behind::new(scope, &mut out);
            for i in 0..100u8 {
                let mut bytes = behind.buffer();
                bytes.clear();
                bytes.extend([i; 3]);
                behind.write(bytes).unwrap();
            }
            behind.finish().unwrap();
        });
        assert_eq!(out, (0..100u8).flat_map(|i| [i; 3]).collect::<Vec<_>>());
    }

    #[test]
    fn the_first_error_is_reported() {
        struct Full(usize);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 += 1;
                match self.0 {
                    3 => Err(io::Error::from(io::ErrorKind::StorageFull)),
                    _ => Ok(bytes.len()),
                }
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut out = Full(0);
        std::thread::scope(|scope| {
            let behind = Behind::new(scope, &mut out);
            let sent = (0..10).try_for_each(|_| behind.write(vec![1; 8]));
            assert!(sent.is_err());
            assert_eq!(behind.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
        });
    }
}
