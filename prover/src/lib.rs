//! This crate makes Tessera proofs: it reads a checkpoint, quantises it, runs the integer model and proves the run.
//!
//! Each step of this way has a module of its own, a *room*. From the ground up, the rooms are [`support`], [`intake`],
//! [`model`], [`run`], [`quantise`], [`prove`], [`tasks`] and [`testing`]. A room uses only rooms before it in this
//! order, so you can read them one after the other. For example, [`prove`] uses the records that [`run`] makes, but
//! [`run`] knows nothing of proofs.
#![feature(portable_simd)]

/// Tools that every room needs: files, digests, pages of memory, progress, and the places where results go.
pub mod support;

/// Readers of untrusted input: checkpoints, tokenizers, chat templates and texts; and makers of random checkpoints.
pub mod intake;

/// The quantised model: its weights in memory or mapped, its directory on disk, and passes over its weights.
pub mod model;

/// The computation of models: the forward pass in integers, generation, and the float model for comparison.
pub mod run;

/// The way from the float model of a checkpoint to the integer model, and the distance between the two.
pub mod quantise;

/// The way from a record of the forward pass to the proof of a chunk: trace, sumchecks, opening and STARK.
pub mod prove;

/// Whole tasks of the commands: set a model up, open it, plan memory, and prove in chunks that survive interruptions.
pub mod tasks;

/// Sample models for tests, examples, benchmarks and the fuzzer; no other room uses this one.
pub mod testing;
