//! Bytes as a model key.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tessera_fuzz::decode_key(data));
