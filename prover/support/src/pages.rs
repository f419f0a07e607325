//! Which pages of a mapped file are in memory: advice to the system, by which contents never change.

use std::ops::Range;

use memmap2::Mmap;

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

/// Enters a mapped file in small pages, because huge pages would hold several times a short range.
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
