//! Bytes as edits of an honest proof and its key.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tessera_fuzz::verify_edited(data));
