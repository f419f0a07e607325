//! The binary from the outside: what it prints, its exit status, and what it leaves on disk.

mod chat;
mod commands;
mod ending;
mod errors;
mod prompts;
mod shown;
mod support;
mod work;
