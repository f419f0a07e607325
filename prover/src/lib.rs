//! How a Tessera proof is made: one room for each thing that is done on the way. A room uses those above it here, never those
//! below.
#![feature(portable_simd)]

/// What every room needs and none is about: files, digests, pages of memory, progress, and where results go.
pub mod support;

/// What comes from outside and is not trusted: checkpoints, tokenizers, chat templates and texts, or made-up ones.
pub mod intake;

/// The quantised model: its weights in memory or mapped, its directory on disk, and passes over its weights.
pub mod model;

/// What models compute: the forward pass in integers, generation, and the float model that it is compared with.
pub mod run;

/// From the float model of a checkpoint to the integer model, and how far the two are apart.
pub mod quantise;

/// From a record of the forward pass to the proof of a chunk: trace, sumchecks, weight opening and STARK.
pub mod prove;

/// What a command asks for as a whole: set a model up, open it, plan memory, and prove in chunks that survive.
pub mod tasks;

/// Models for tests, examples, benchmarks and the fuzzer; no other room uses it.
pub mod testing;
