//! What a long operation tells whoever is watching.

/// Receives the progress of a long operation.
pub trait Progress: Sync {
    /// A phase begins; `total` units of work if known.
    fn phase(&self, name: &str, total: Option<u64>);
    /// `n` more units are done.
    fn advance(&self, n: u64);
    /// The operation is over.
    fn done(&self);
}

/// Tells nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn phase(&self, _name: &str, _total: Option<u64>) {}
    fn advance(&self, _n: u64) {}
    fn done(&self) {}
}
