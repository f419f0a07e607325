//! How a Tessera proof is made.
