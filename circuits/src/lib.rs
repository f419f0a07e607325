//! What Tessera proves.
pub mod model;
pub mod semantics;
