//! This crate defines the statement that Tessera proves: the quantised model, its integer semantics, the columns with
//! their lookups, and the claims that tie the columns together.
//!
//! Prover and verifier call the same functions here, so that they cannot disagree about the statement. For example,
//! both compute the height of every table with [`shape`], from the model and the number of rows. Neither reads a size,
//! a table or a parameter from a proof, because a prover could lie there.
//!
//! Start at [`ops`], which has one file for each step of the forward pass, and at [`semantics`] for the integers that
//! each step computes. [`wiring`] explains how claims relate cells of different rows, and [`air`] how lookups relate
//! the cells within a row.
#![forbid(unsafe_code)]
#![deny(missing_docs)]
// What a verifier runs has no way to panic. Tests may: that is how they fail.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::todo,
        clippy::indexing_slicing
    )
)]

pub mod air;
pub mod band;
pub mod boundary;
pub mod bounds;
pub mod chunk;
pub mod claims;
pub mod gains;
pub mod mle;
pub mod model;
pub mod ops;
pub mod reranker;
pub mod reveal;
pub mod rounding;
pub mod scalar;
pub mod semantics;
pub mod shape;
pub mod sizes;
pub mod statement;
pub mod statistics;
pub mod table_tree;
pub mod text;
pub mod trees;
pub mod wiring;
pub mod wording;
