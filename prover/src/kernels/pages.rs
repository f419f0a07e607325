//! Pages of memory: which pages of a mapped file are in memory (advice, contents never change), and large tables
//! in large pages.

use std::ops::{Deref, DerefMut, Range};

use memmap2::{Mmap, MmapMut};

use super::Elements;

/// A table of elements, at first zeros, in huge pages where the system has them: the pages of a table that is as
/// long as there are tiles take longer to enter than to fill.
#[derive(Debug)]
pub struct Table {
    /// `None` if the table is empty.
    map: Option<MmapMut>,
    len: usize,
}

impl Table {
    /// Zeros.
    ///
    /// # Panics
    /// If there is no memory.
    pub fn new(len: usize) -> Self {
        let map = (len > 0).then(|| {
            let map = MmapMut::map_anon(len * size_of::<Elements>()).expect("memory for a table");
            #[cfg(target_os = "linux")]
            let _ = map.advise(memmap2::Advice::HugePage);
            map
        });
        Self { map, len }
    }
}

impl Deref for Table {
    type Target = [Elements];

    fn deref(&self) -> &[Elements] {
        // SAFETY: the map has the bytes of `len` elements and the alignment of a page, and any bytes are elements:
        // they are arrays of integers.
        let slice = |map: &'_ MmapMut| unsafe { std::slice::from_raw_parts(map.as_ptr().cast(), self.len) };
        self.map.as_ref().map_or(&[], slice)
    }
}

impl DerefMut for Table {
    fn deref_mut(&mut self) -> &mut [Elements] {
        match &mut self.map {
            // SAFETY: as above; the map is borrowed as long as the slice.
            Some(map) => unsafe { std::slice::from_raw_parts_mut(map.as_mut_ptr().cast(), self.len) },
            None => &mut [],
        }
    }
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

/// Lets go of the pages of a range of bytes; they are read again when they are used again.
pub fn release(map: &Mmap, bytes: Range<usize>) {
    #[cfg(unix)]
    // SAFETY: the map is read-only, so no page has contents that could be lost; pages of the file that are
    // read later hold the same bytes. A failure leaves pages in memory, no more.
    let _ = unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, bytes.start, bytes.len()) };
    #[cfg(not(unix))]
    let _ = (map, bytes);
}
