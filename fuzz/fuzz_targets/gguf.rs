//! Bytes as a GGUF file.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tessera_fuzz::gguf(data));
