//! Memory for large blocks that stays with the process when a block is freed: a proof fills tables of gigabytes one after
//! the other, and pages that the system has to clear and enter anew for each of them cost as much as filling them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use memmap2::{MmapMut, MmapOptions};

/// Blocks from here on are the arena's; shorter ones are the system allocator's.
const LARGE: usize = 1 << 19;
/// Blocks begin and end at multiples of this.
const GRAIN: usize = 1 << 16;
/// Addresses that are reserved. They cost nothing until they are used.
const ADDRESSES: usize = 1 << 40;
/// Freed memory that is kept in any case, in bytes; beyond it, this part of what is in use.
const KEPT: usize = 4 << 20;
const KEPT_PART: usize = 16;

/// An allocator for a program that proves (`#[global_allocator]`). Until [`Arena::open`] it is the system's.
///
/// Large blocks lie in one range of addresses, each at the lowest place that is free and long enough. Freed memory is used
/// again as it is. When none is long enough and much is free in short pieces, those go back to the system first, so that the
/// process holds little more than what is in use at its peak. Huge pages are not asked for: memory that is used again is
/// entered already, and on virtual machines clearing huge pages took three times as long as clearing small ones.
#[derive(Debug)]
pub struct Arena {
    /// Address of the range; 0 as long as there is none.
    base: AtomicUsize,
    space: Mutex<Option<Space>>,
}

/// The range of addresses; places are offsets from its base.
#[derive(Debug)]
struct Space {
    /// Never unmapped.
    map: ManuallyDrop<MmapMut>,
    /// Free places below `top`, by their begin; no two touch.
    free: BTreeMap<usize, Free>,
    /// Everything from here on was never used.
    top: usize,
    /// Bytes in use.
    used: usize,
    /// Bytes of free places whose memory is kept.
    kept: usize,
}

#[derive(Clone, Copy, Debug)]
struct Free {
    end: usize,
    /// Whether the place may hold memory; if not, it reads as zeros.
    kept: bool,
}

impl Default for Arena {
    fn default() -> Self {
        Self::new()
    }
}

impl Arena {
    /// An arena without memory.
    pub const fn new() -> Self {
        Self {
            base: AtomicUsize::new(0),
            space: Mutex::new(None),
        }
    }

    /// Reserves addresses; large blocks are the arena's from now on. Where there are none, for instance because the system
    /// limits them, all blocks stay the system allocator's.
    pub fn open(&self) {
        let map = MmapOptions::new().len(ADDRESSES).no_reserve_swap().map_anon();
        let Ok(map) = map else { return };
        let mut map = ManuallyDrop::new(map);
        let base = map.as_mut_ptr() as usize;
        let mut space = self.lock();
        if space.is_none() {
            *space = Some(Space {
                map,
                free: BTreeMap::new(),
                top: 0,
                used: 0,
                kept: 0,
            });
            self.base.store(base, Ordering::Release);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Space>> {
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Place of a block of the arena; `None` for a block of the system allocator.
    fn place(&self, block: *mut u8, size: usize) -> Option<Range<usize>> {
        let base = self.base.load(Ordering::Acquire);
        let begin = (block as usize).checked_sub(base).filter(|_| base > 0)?;
        (begin < ADDRESSES).then(|| begin..begin + rounded(size))
    }

    /// A block of the arena and whether it holds zeros; `None` if the block is the system allocator's to give.
    fn take(&self, layout: Layout) -> Option<(*mut u8, bool)> {
        let base = self.base.load(Ordering::Acquire);
        if base == 0 || layout.size() < LARGE || layout.align() > GRAIN {
            return None;
        }
        let (begin, zeros) = self.lock().as_mut()?.take(rounded(layout.size()))?;
        Some(((base + begin) as *mut u8, zeros))
    }
}

/// Most bytes that the process holds of large blocks where `used` bytes are in use at most.
pub const fn held(used: u64) -> u64 {
    used + used / KEPT_PART as u64 + KEPT as u64
}

/// Bytes that a block of `size` takes.
const fn rounded(size: usize) -> usize {
    size.next_multiple_of(GRAIN)
}

impl Space {
    /// The lowest place of `size` bytes and whether it holds zeros.
    fn take(&mut self, size: usize) -> Option<(usize, bool)> {
        let found = self.free.iter().find(|(begin, free)| free.end - **begin >= size);
        if let Some((begin, free)) = found.map(|(b, f)| (*b, *f)) {
            self.remove(begin);
            self.insert(begin + size..free.end, free.kept);
            self.used += size;
            return Some((begin, !free.kept));
        }
        if self.kept > KEPT + self.used / KEPT_PART {
            self.release();
        }
        // A free place below the top may be continued.
        let last = self.free.last_key_value().map(|(begin, free)| (*begin, *free));
        let (begin, kept) = match last {
            Some((begin, free)) if free.end == self.top => (begin, free.kept),
            _ => (self.top, false),
        };
        let end = begin.checked_add(size).filter(|end| *end <= ADDRESSES)?;
        if begin < self.top {
            self.remove(begin);
        }
        self.top = end;
        self.used += size;
        Some((begin, !kept))
    }

    fn give(&mut self, place: Range<usize>) {
        self.used -= place.len();
        let (mut place, mut kept) = (place, true);
        let before = self.free.range(..place.start).next_back().map(|(b, f)| (*b, *f));
        if let Some((begin, free)) = before.filter(|(_, free)| free.end == place.start) {
            kept |= self.remove(begin);
            place.start = begin;
            debug_assert!(free.end > begin);
        }
        if let Some(free) = self.free.get(&place.end).copied() {
            kept |= self.remove(place.end);
            place.end = free.end;
        }
        self.insert(place, kept);
    }

    /// Makes a block longer or shorter where it is.
    fn resize(&mut self, place: &Range<usize>, size: usize) -> bool {
        let end = place.start + size;
        if end < place.end {
            self.give(end..place.end);
            return true;
        }
        let more = end - place.end;
        if place.end == self.top && end <= ADDRESSES {
            self.top = end;
        } else {
            let Some(next) = self.free.get(&place.end).copied() else {
                return more == 0;
            };
            if next.end < end {
                return false;
            }
            self.remove(place.end);
            self.insert(end..next.end, next.kept);
        }
        self.used += more;
        true
    }

    fn insert(&mut self, place: Range<usize>, kept: bool) {
        if !place.is_empty() {
            self.kept += if kept { place.len() } else { 0 };
            self.free.insert(place.start, Free { end: place.end, kept });
        }
    }

    /// Takes a free place out and says whether its memory was kept.
    fn remove(&mut self, begin: usize) -> bool {
        let Some(free) = self.free.remove(&begin) else {
            return false;
        };
        self.kept -= if free.kept { free.end - begin } else { 0 };
        free.kept
    }

    /// Gives the memory of free places back to the system.
    fn release(&mut self) {
        #[cfg(target_os = "linux")]
        for (begin, free) in self.free.iter_mut().filter(|(_, free)| free.kept) {
            let len = free.end - *begin;
            // SAFETY: nothing refers to a free place, and its contents are not read before they are written.
            let given = unsafe {
                self.map
                    .unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, *begin, len)
            };
            if given.is_ok() {
                free.kept = false;
                self.kept -= len;
            }
        }
    }
}

// SAFETY: a block is a place of the mapped range that is not free as long as the block lives, at a multiple of `GRAIN`, or
// a block of the system allocator; the address says which. The lock is not held where this allocator is called again with
// a large block: the tree of free places is of small ones.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match self.take(layout) {
            Some((block, _)) => block,
            // SAFETY: the caller's promises are those of the system allocator.
            None => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match self.take(layout) {
            Some((block, zeros)) => {
                if !zeros {
                    // SAFETY: the block has this size.
                    unsafe { block.write_bytes(0, layout.size()) };
                }
                block
            }
            // SAFETY: as above.
            None => unsafe { System.alloc_zeroed(layout) },
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match self.place(block, layout.size()) {
            Some(place) => {
                if let Some(space) = self.lock().as_mut() {
                    space.give(place);
                }
            }
            // SAFETY: the block is the system allocator's.
            None => unsafe { System.dealloc(block, layout) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let place = self.place(block, layout.size());
        match &place {
            Some(place) => {
                let stays = size >= LARGE && self.lock().as_mut().is_some_and(|s| s.resize(place, rounded(size)));
                if stays {
                    return block;
                }
            }
            None if size < LARGE => {
                // SAFETY: the block is the system allocator's and stays there.
                return unsafe { System.realloc(block, layout, size) };
            }
            None => {}
        }
        // SAFETY: the caller promises a size that is valid with this alignment; both blocks have the bytes that are copied.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                new.copy_from_nonoverlapping(block, layout.size().min(size));
                self.dealloc(block, layout);
            }
            new
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block(arena: &Arena, size: usize) -> (*mut u8, Layout) {
        let layout = Layout::from_size_align(size, 64).unwrap();
        // SAFETY: the size is not zero.
        (unsafe { arena.alloc_zeroed(layout) }, layout)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Blocks are taken, made longer and shorter and freed at random; each holds what was written to it, new ones zeros.
        #[test]
        fn blocks_never_share_memory(steps in proptest::collection::vec((0u8..4, 1usize..40, any::<prop::sample::Index>()), 1..60)) {
            let arena = Arena::new();
            arena.open();
            let mut blocks: Vec<(*mut u8, Layout, u8)> = Vec::new();
            for (number, (action, size, which)) in steps.into_iter().enumerate() {
                // Sizes on both sides of the limit of large blocks.
                let (size, mark) = (size * LARGE / 8 + 13 * size, number as u8 + 1);
                let fill = |b: *mut u8, from: usize, to: usize| unsafe {
                    // SAFETY: the block is at least as long.
                    for at in (from..to).step_by(1021) { b.add(at).write(mark) }
                };
                if action < 2 || blocks.is_empty() {
                    let (new, layout) = block(&arena, size);
                    // SAFETY: as above.
                    let zeros = (0..size).step_by(997).all(|at| unsafe { new.add(at).read() } == 0);
                    prop_assert!(zeros);
                    fill(new, 0, size);
                    blocks.push((new, layout, mark));
                } else {
                    let (old, layout, was) = blocks.swap_remove(which.index(blocks.len()));
                    let held = |b: *mut u8, to: usize| (0..to).step_by(1021).all(|at| unsafe { b.add(at).read() } == was);
                    prop_assert!(held(old, layout.size()));
                    if action == 2 {
                        // SAFETY: the block is this arena's.
                        unsafe { arena.dealloc(old, layout) };
                    } else {
                        // SAFETY: likewise, and the size is not zero.
                        let new = unsafe { arena.realloc(old, layout, size) };
                        prop_assert!(held(new, layout.size().min(size)));
                        fill(new, 0, size);
                        blocks.push((new, Layout::from_size_align(size, 64).unwrap(), mark));
                    }
                }
            }
            for (old, layout, _) in blocks {
                // SAFETY: the block is this arena's.
                unsafe { arena.dealloc(old, layout) };
            }
            let space = arena.lock();
            let space = space.as_ref().unwrap();
            prop_assert_eq!(space.used, 0);
            prop_assert!(space.free.len() <= 1, "free places that touch are one: {:?}", space.free);
        }
    }

    #[test]
    fn freed_memory_is_used_again_and_short_pieces_of_it_are_given_back() {
        let arena = Arena::new();
        arena.open();
        let (first, layout) = block(&arena, 8 * LARGE);
        let (_keeps_the_first_apart, _) = block(&arena, LARGE);
        // SAFETY: the block is this arena's.
        unsafe { arena.dealloc(first, layout) };
        assert_eq!(block(&arena, 8 * LARGE).0, first, "the lowest place");
        // Pieces of which none is long enough.
        let pieces: Vec<_> = (0..4 * KEPT / LARGE).map(|_| block(&arena, LARGE)).collect();
        for (piece, layout) in pieces.iter().step_by(2) {
            // SAFETY: as above.
            unsafe { arena.dealloc(*piece, *layout) };
        }
        let kept = || arena.lock().as_ref().unwrap().kept;
        assert_eq!(kept(), 2 * KEPT);
        block(&arena, 2 * LARGE);
        assert_eq!(kept(), 0);
    }

    #[test]
    fn small_blocks_and_those_before_it_is_open_are_the_systems() {
        let arena = Arena::new();
        let (early, layout) = block(&arena, 2 * LARGE);
        assert_eq!(arena.place(early, layout.size()), None);
        arena.open();
        let (small, small_layout) = block(&arena, LARGE - 1);
        assert_eq!(arena.place(small, small_layout.size()), None);
        // SAFETY: both are this allocator's.
        unsafe {
            arena.dealloc(early, layout);
            arena.dealloc(small, small_layout);
        }
    }
}
