//! The loops in which a proof spends most of its time. They know nothing of models and proofs: integer products over stored weights
//! ([`weights`]), large tables ([`table`]), and hashes of sixteen messages at a time ([`hashes`], [`digest`]). Loops can also run on
//! another device, which may fail ([`device`]).
#![feature(portable_simd)]

pub mod device;
pub mod digest;
pub mod hashes;
pub mod table;
pub mod weights;
