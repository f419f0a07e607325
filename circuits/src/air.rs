//! What columns and lookups of rows are made of (docs/protocol.md, section 8). Which columns an operator has, and what is looked up
//! in them, stands with the operator, in [`crate::ops`]. Nothing else is said of a row alone: all roundings, sums, broadcasts and
//! products are claims on multilinear extensions.

pub mod gadgets;
mod integers;
pub mod lookups;
mod relations;
pub mod requant;
mod row;
pub mod tables;

pub use self::integers::base;
pub use self::relations::{Drawn, Relations};
pub use self::row::Air;
