//! Bytes as a tokenizer. Panics of the library are caught below the target, and no finding.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: drop(std::panic::take_hook()),
    |data: &[u8]| tessera_fuzz::tokenizer(data)
);
