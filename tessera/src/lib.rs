//! What a command asks for as a whole: set a model up, open it, plan memory, and prove in chunks that survive.

pub mod lengths;
pub mod loaded;
pub mod plan;
pub mod setup;
pub mod work;
