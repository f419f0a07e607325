//! The largest score of every query. One row per (layer, head, query token).

use super::lookups::{Linear, Lookup};
use super::Air;

/// The largest score of the keys that are not masked.
pub const MAX: usize = 0;
/// How many keys have it, less one.
pub const TIES: usize = 1;
/// Number of columns.
pub const COLUMNS: usize = 2;

/// The maxima, and how often each is attained.
#[derive(Clone, Copy, Debug)]
pub struct Maxima;

impl Air for Maxima {
    fn columns(&self) -> usize {
        COLUMNS
    }
    fn powers(&self) -> Vec<(usize, u8)> {
        Vec::new()
    }
    fn lookups(&self) -> Vec<Lookup> {
        vec![Lookup::range16(Linear::column(TIES))]
    }
}
