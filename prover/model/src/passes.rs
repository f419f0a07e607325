//! Passes over the weights: window by window in the order of the file, the next window read while one is
//! computed with.

use std::ops::Range;
use std::sync::mpsc::{sync_channel, Receiver};
use std::time::Instant;

use crate::awake::Awake;
use crate::tiles::{tile_bytes, TileSource};
use tessera_support::files::Mapped;

/// Ranges of tiles that are in memory together.
pub type Window = Vec<Range<usize>>;

/// What a pass read, and how long it took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Bytes of weights.
    pub bytes: u64,
    /// Seconds of computing with them, stalls included.
    pub seconds: f64,
    /// Seconds of waiting for a window to be read; not known, and 0, where weights are kept in memory.
    pub stall_seconds: f64,
}

impl std::ops::AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.seconds += other.seconds;
        self.stall_seconds += other.stall_seconds;
    }
}

/// The most tiles that a window of `source` should have.
pub fn window_tiles(source: &dyn TileSource) -> usize {
    let size = tile_bytes(source.format());
    // Two windows are in memory at a time.
    source
        .streamed()
        .map_or(usize::MAX, |(_, bytes)| (bytes / 2 / size).max(LEAST_TILES))
}

/// Cuts `0..n` in ranges of `size`, the last one shorter.
pub fn cut(n: usize, size: usize) -> impl Iterator<Item = Range<usize>> + Clone {
    (0..n)
        .step_by(size)
        .map(move |first| first..first.saturating_add(size).min(n))
}

/// Tiles of the smallest window.
const LEAST_TILES: usize = 64;

/// A pass over the weights, inside [`WeightPass::run`].
pub struct WeightPass<'a> {
    source: &'a dyn TileSource,
    windows: std::slice::Iter<'a, Window>,
    /// Reports every window that is in memory; `None` if weights are kept there.
    reader: Option<(&'a Mapped, Receiver<()>)>,
    traffic: Traffic,
}

impl<'a> WeightPass<'a> {
    /// Runs a pass over `windows`. If weights are streamed, a thread reads the next window meanwhile, and every
    /// window is let go of after its use: at most two are in memory. Otherwise there is no thread.
    pub fn run<T>(
        source: &'a dyn TileSource,
        windows: &'a [Window],
        work: impl FnOnce(&mut Self) -> T,
    ) -> (T, Traffic) {
        let mut pass = Self {
            source,
            windows: windows.iter(),
            reader: None,
            traffic: Traffic::default(),
        };
        let Some((map, _)) = source.streamed() else {
            let _awake = Awake::new();
            let result = work(&mut pass);
            return (result, pass.traffic);
        };
        map.in_small_pages();
        let bytes_of = |tiles: &Range<usize>| bytes_of(source, tiles);
        std::thread::scope(|scope| {
            // A window is handed over when it is asked for: the thread is one window ahead, not more.
            let (ready, asked) = sync_channel(0);
            scope.spawn(move || {
                for window in windows {
                    window.iter().for_each(|tiles| map.populate(bytes_of(tiles)));
                    if ready.send(()).is_err() {
                        window.iter().for_each(|tiles| map.release(bytes_of(tiles)));
                        return;
                    }
                }
            });
            pass.reader = Some((map, asked));
            let result = work(&mut pass);
            pass.reader = None;
            (result, pass.traffic)
        })
    }

    /// Computes with the next window.
    ///
    /// # Panics
    /// If there is none.
    pub fn next<T>(&mut self, compute: impl FnOnce() -> T) -> T {
        let window = self.windows.next().expect("a window for every step of the pass");
        let size = tile_bytes(self.source.format());
        let start = Instant::now();
        if let Some((_, asked)) = &self.reader {
            asked.recv().expect("the reader runs as long as there are windows");
            self.traffic.stall_seconds += start.elapsed().as_secs_f64();
        }
        let result = compute();
        for tiles in window {
            self.traffic.bytes += (tiles.len() * size) as u64;
            if let Some((map, _)) = &self.reader {
                map.release(bytes_of(self.source, tiles));
            }
        }
        self.traffic.seconds += start.elapsed().as_secs_f64();
        result
    }
}

/// Where tiles are in the file.
fn bytes_of(source: &dyn TileSource, tiles: &Range<usize>) -> Range<usize> {
    let (size, offset) = (tile_bytes(source.format()), source.offset());
    (offset + tiles.start) * size..(offset + tiles.end) * size
}
