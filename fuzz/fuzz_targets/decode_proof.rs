//! Bytes as a proof.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tessera_fuzz::decode_proof(data));
