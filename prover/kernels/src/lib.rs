//! The loops in which a proof spends most of its time. They know nothing of models and proofs: integer products over stored weights
//! ([`weights`]), large tables ([`table`]), and hashes of sixteen messages at a time ([`hashes`], [`digest`]).
#![feature(portable_simd)]

pub mod digest;
pub mod hashes;
pub mod table;
pub mod weights;
