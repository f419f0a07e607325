//! A proof as what contracts are sent (docs/chain.md): needs key and proof, and nothing else.

mod calls;
mod estimate;

pub use self::calls::{PackError, Packed, Part};
pub use self::estimate::Call;
