//! The binary from the outside: what it prints, its exit status, and what it leaves on disk.

mod answers;
mod batches;
mod chain;
mod chat;
mod commands;
mod contexts;
mod ending;
mod errors;
mod gguf;
mod hidden;
mod inspect;
mod limits;
mod mistakes;
mod outputs;
mod policies;
mod prompts;
mod proved;
mod rank;
mod recipe;
mod report;
mod shown;
mod support;
mod work;
