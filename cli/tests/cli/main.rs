//! The binary from the outside: what it prints, its exit status, and what it leaves on disk.

mod commands;
mod errors;
mod gguf;
mod limits;
mod mistakes;
mod outputs;
mod recipe;
mod support;
mod work;
