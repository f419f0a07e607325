//! Pages of memory: which pages of a mapped file are in memory (advice, contents never change), and large tables
//! in large pages.

use std::ops::{Deref, DerefMut, Range};

use memmap2::{Mmap, MmapMut};
use stwo::core::fields::qm31::SecureField;

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

/// Zeros in huge pages where the system has them, none of them touched yet.
pub fn zeros(len: usize) -> Vec<SecureField> {
    const { assert!(size_of::<SecureField>() == 16 && align_of::<SecureField>() == align_of::<[u32; 4]>()) };
    // Memory of the system that is known to be zero.
    let mut zeros = std::mem::ManuallyDrop::new(vec![[0u32; 4]; len]);
    let (start, capacity) = (zeros.as_mut_ptr(), zeros.capacity());
    #[cfg(target_os = "linux")]
    {
        let page = rustix::param::page_size();
        let skipped = start.cast::<u8>().align_offset(page);
        let bytes = size_of_val(zeros.as_slice()).saturating_sub(skipped) / page * page;
        // SAFETY: the pages lie within the memory of the vector, and what they contain does not change. A failure
        // leaves small pages, no more.
        let _ = unsafe {
            let first = start.cast::<u8>().wrapping_add(skipped);
            rustix::mm::madvise(first.cast(), bytes, rustix::mm::Advice::LinuxHugepage)
        };
    }
    // SAFETY: size and alignment of the items are the same, and elements are four integers, of which 0 is one.
    unsafe { Vec::from_raw_parts(start.cast(), len, capacity) }
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
