//! What models compute: the integer model, which is proved, and the float model, which it is compared with.

pub mod float;
pub mod forward;
mod gemm;
pub mod generate;
pub mod kernels;
pub mod precision;
