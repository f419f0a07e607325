//! Large tables in large pages.

use std::alloc::{handle_alloc_error, Layout};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;
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
