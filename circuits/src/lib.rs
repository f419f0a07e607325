//! What Tessera proves.
pub mod mle;
pub mod model;
pub mod semantics;
