//! How a Tessera proof is made.
pub mod bind;
pub mod checkpoint;
pub mod files;
pub mod float;
pub mod forward;
pub mod generate;
pub mod model;
pub mod model_dir;
pub mod opening;
pub mod quantise;
pub mod sumcheck;
pub mod synth;
pub mod testing;
pub mod tokenizer;
