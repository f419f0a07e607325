//! How a Tessera proof is made.
#![feature(portable_simd)]

pub mod bind;
pub mod chat;
pub mod checkpoint;
pub mod digest;
pub mod fidelity;
pub mod files;
pub mod float;
pub mod forward;
mod gemm;
pub mod generate;
pub mod gkr;
pub mod kernels;
pub mod library;
pub mod limits;
pub mod matmul;
pub mod model;
pub mod model_dir;
pub mod opening;
pub mod output;
pub mod plan;
pub mod precision;
pub mod progress;
pub mod prove;
pub mod quantise;
pub mod setup;
pub mod stark;
pub mod stream;
pub mod sumcheck;
pub mod synth;
pub mod testing;
pub mod texts;
pub mod tiles;
pub mod tokenizer;
pub mod weights;
pub mod work;
