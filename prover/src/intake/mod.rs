//! What comes from outside and is not trusted, or is made up in its place.

pub mod chat;
pub mod checkpoint;
pub mod jinja;
mod json;
pub mod synth;
pub mod texts;
pub mod tokenizer;
