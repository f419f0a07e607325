//! Text to token ids and back, and chat templates, as `transformers` 5.24 makes them from the files of a checkpoint.
//!
//! Tokenizers and templates come with a checkpoint or with a key, from anybody: a tokenizer that could grow a text without bounds
//! is refused, and a template runs within limits of steps, time and output.

#[cfg(feature = "tokenizer")]
pub mod chat;
#[cfg(feature = "tokenizer")]
pub mod jinja;
#[cfg(feature = "tokenizer")]
pub mod json;
pub mod shown;
#[cfg(feature = "tokenizer")]
pub mod tokenizer;

/// The README, whose example is run as a test of the documentation.
#[cfg(all(doctest, feature = "tokenizer"))]
#[doc = include_str!("../README.md")]
mod readme {}
