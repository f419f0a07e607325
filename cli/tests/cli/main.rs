//! The binary from the outside: what it prints, its exit status, and what it leaves on disk.

mod chain;
mod chat;
mod commands;
mod contexts;
mod ending;
mod errors;
mod gguf;
mod limits;
mod mistakes;
mod outputs;
mod policies;
mod prompts;
mod rank;
mod recipe;
mod shown;
mod support;
mod work;
