//! What a command asks for as a whole.

pub mod lengths;
pub mod loaded;
pub mod plan;
pub mod setup;
pub mod work;
