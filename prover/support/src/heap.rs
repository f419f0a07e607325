//! How the allocator of the system shares out memory, and when it gives memory back.

/// Lets blocks of half a megabyte and more have pages of their own, which go back to the system when a block is freed. The
/// C library of GNU systems otherwise gives up this limit as soon as one is freed, and columns of a trace leave holes between
/// their codewords, which are longer and do not fit them.
///
/// Each heap keeps 16 MiB of freed blocks that are shorter, because otherwise pages of a table that every token needs for a moment
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
