//! Bytes as edits of an honest proof and its key.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: {
        let _ = tessera_fuzz::honest();
    },
    |data: &[u8]| tessera_fuzz::verify_edited(data)
);
