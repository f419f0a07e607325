//! Bytes as a proof.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: {
        let _ = tessera_fuzz::honest();
    },
    |data: &[u8]| tessera_fuzz::decode_proof(data)
);
