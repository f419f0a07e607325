//! A proof as what contracts are sent (docs/chain.md): needs key and proof, and nothing else.

mod bytes;
mod calls;
mod estimate;
mod lengths;
mod opening;

pub use self::bytes::Part;
pub use self::calls::{PackError, Packed};
pub use self::estimate::Call;
pub use self::opening::band_ends;
