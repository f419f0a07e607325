//! HTTP: connections, routes, and the answers to them.

mod accept;
pub mod app;
mod body;
pub mod listen;
mod patient;
mod proof;
mod routes;
mod stream;
mod text;
mod vectors;
