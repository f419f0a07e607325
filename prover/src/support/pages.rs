//! Pages of memory: which pages of a mapped file are in memory (advice, contents never change), and large tables
//! in large pages.

use std::alloc::{handle_alloc_error, Layout};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};

use memmap2::{Mmap, MmapMut};
use stwo::core::fields::qm31::SecureField;

/// Items of a [`Table`].
///
/// # Safety
/// Any bytes must be an item, and items must need no more than the alignment of a page.
pub unsafe trait Item: Copy + Send + Sync {}

// SAFETY: an element is four integers.
unsafe impl Item for SecureField {}

/// A table in huge pages where the system has them: the pages of a table that is as long as there are weights take longer to
/// enter than to fill. It begins on a page, so that its items can be written past the caches.
#[derive(Debug)]
pub struct Table<T> {
    /// `None` if the table has no memory.
    map: Option<MmapMut>,
    len: usize,
    items: PhantomData<T>,
}

impl<T: Item> Table<T> {
    /// Zeros.
    pub fn new(len: usize) -> Self {
        Self::with_room(len, 0)
    }

    /// Zeros, in memory that has room for `bytes` bytes if these are more: a table of that size can take it over. The system
    /// enters only what is used. Where there is no memory, the program ends as where any other allocation fails.
    pub fn with_room(len: usize, bytes: usize) -> Self {
        let bytes = bytes.max(len * size_of::<T>());
        let map = (bytes > 0).then(|| {
            let layout = Layout::from_size_align(bytes, align_of::<T>()).unwrap_or(Layout::new::<T>());
            let map = MmapMut::map_anon(bytes).unwrap_or_else(|_| handle_alloc_error(layout));
            #[cfg(target_os = "linux")]
            let _ = map.advise(memmap2::Advice::HugePage);
            map
        });
        Self {
            map,
            len,
            items: PhantomData,
        }
    }

    /// A table of any contents, in the memory of a table that is not needed any more if it is enough.
    ///
    /// # Panics
    /// If there is no memory.
    pub fn reuse<U>(memory: Table<U>, len: usize) -> Self {
        match memory.map {
            Some(map) if map.len() >= len * size_of::<T>() => Self {
                map: Some(map),
                len,
                items: PhantomData,
            },
            // What is too small is let go of before.
            map => {
                drop(map);
                Self::new(len)
            }
        }
    }
}

impl<T> Default for Table<T> {
    /// No items.
    fn default() -> Self {
        Self {
            map: None,
            len: 0,
            items: PhantomData,
        }
    }
}

impl<T: Item> Deref for Table<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the map has the bytes of at least `len` items and the alignment of a page, and any bytes are items.
        let slice = |map: &'_ MmapMut| unsafe { std::slice::from_raw_parts(map.as_ptr().cast(), self.len) };
        self.map.as_ref().map_or(&[], slice)
    }
}

impl<T: Item> DerefMut for Table<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.map {
            // SAFETY: as above; the map is borrowed as long as the slice.
            Some(map) => unsafe { std::slice::from_raw_parts_mut(map.as_mut_ptr().cast(), self.len) },
            None => &mut [],
        }
    }
}

impl<T: Item> From<&[T]> for Table<T> {
    fn from(items: &[T]) -> Self {
        let mut table = Self::new(items.len());
        table.copy_from_slice(items);
        table
    }
}

/// Lets blocks of half a megabyte and more have pages of their own, which go back to the system when a block is freed. The
/// C library of GNU systems otherwise gives up this limit as soon as one is freed, and columns of a trace leave holes between
/// their codewords, which are longer and do not fit them.
///
/// Of shorter blocks each heap keeps 16 MiB when they are freed. Otherwise pages of a table that every token needs for a moment
/// go back to the system and are entered again with every token.
pub fn keep_blocks_apart() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: parameters of the allocator, which may be set at any time.
    let _ = unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 19);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 16 << 20)
    };
}

/// Lets all threads share one heap: where address space is limited, as each of their own would reserve 64 MiB of it. Blocks of
/// [`keep_blocks_apart`] are in no heap.
pub fn share_heaps() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: a parameter of the allocator, which may be set at any time.
    let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}

/// Gives what the heaps have freed back to the system: after something large and short-lived was made of small blocks.
pub fn trim_heaps() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: the call may be made at any time.
    let _ = unsafe { libc::malloc_trim(0) };
}

/// Reads the pages of a range of bytes into memory and enters them in the page table.
pub fn populate(map: &Mmap, bytes: Range<usize>) {
    #[cfg(unix)]
    let _ = map.advise_range(memmap2::Advice::WillNeed, bytes.start, bytes.len());
    #[cfg(target_os = "linux")]
    if map
        .advise_range(memmap2::Advice::PopulateRead, bytes.start, bytes.len())
        .is_ok()
    {
        return;
    }
    // Kernels before Linux 5.14 and other systems: touch every page.
    for at in bytes.step_by(4096) {
        std::hint::black_box(map[at]);
    }
}

/// Enters a mapped file in small pages: where the system has huge ones, those of a short range are several times the range.
pub fn small(map: &Mmap) {
    #[cfg(target_os = "linux")]
    let _ = map.advise(memmap2::Advice::NoHugePage);
    #[cfg(not(target_os = "linux"))]
    let _ = map;
}

/// Lets go of the pages of a range of bytes; they are read again when they are used again.
pub fn release(map: &Mmap, bytes: Range<usize>) {
    #[cfg(unix)]
    // SAFETY: the map is read-only, so no page has contents that could be lost; pages of the file that are
    // read later hold the same bytes. A failure leaves pages in memory, no more.
    let _ = unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, bytes.start, bytes.len()) };
    #[cfg(not(unix))]
    let _ = (map, bytes);
}
