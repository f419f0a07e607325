//! What everything that makes a proof stands on and no part is about: files, pages of memory, progress, and where results go.

pub mod arena;
pub mod files;
pub mod heap;
pub mod output;
pub mod pages;
pub mod paths;
pub mod progress;
pub mod random;
