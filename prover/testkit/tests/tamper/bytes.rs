//! The bytes of honest proofs, mutated at random with a fixed seed: no panic, no acceptance.

use std::panic::{catch_unwind, AssertUnwindSafe};

use serde::Deserialize;
use tessera_testkit::SplitMix;
use tessera_verifier::codec::CodecError;
use tessera_verifier::proof::ChunkProof;
use tessera_verifier::stark::StarkError;
use tessera_verifier::verify::{verify_bytes, VerifyError};

use crate::{hidden, honest, Honest};

const MUTATIONS: u64 = 3000;

/// A mutated copy of `bytes`; `other` is another honest proof.
fn mutate(bytes: &[u8], other: &[u8], rng: &mut SplitMix) -> (&'static str, Vec<u8>) {
    let mut out = bytes.to_vec();
    let at = rng.below(bytes.len() as u64) as usize;
    // Half of the time near the start, where lengths and small fields are dense.
    let at = if rng.below(2) == 0 { at } else { at % 4096 };
    let log_run = rng.below(12);
    let run = 1 + rng.below(1 << log_run) as usize;
    let end = (at + run).min(bytes.len());
    let name = match rng.below(9) {
        0 => {
            out[at] ^= 1 << rng.below(8);
            "a flipped bit"
        }
        1 => {
            out[at] = rng.next_u64() as u8;
            "a random byte"
        }
        2 => {
            out[at..end].fill_with(|| rng.next_u64() as u8);
            "random bytes"
        }
        3 => {
            out[at..end].fill(if rng.below(2) == 0 { 0 } else { 0xff });
            "a constant run"
        }
        4 => {
            out.truncate(at);
            "the end cut off"
        }
        5 => {
            out.drain(at..end);
            "a run left out"
        }
        6 => {
            let copy = bytes[at..end].to_vec();
            out.splice(at..at, copy);
            "a run repeated"
        }
        7 => {
            let end = end.min(other.len());
            let at = at.min(end);
            out[at..end].copy_from_slice(&other[at..end]);
            "a run of another proof"
        }
        _ => {
            let split = at.min(other.len());
            out.truncate(split);
            out.extend_from_slice(&other[split..]);
            "the end of another proof"
        }
    };
    (name, out)
}

#[test]
fn mutated_bytes_are_rejected() {
    rejects_mutated_bytes(honest());
    rejects_mutated_bytes(hidden::honest());
}

fn rejects_mutated_bytes([Honest { key, bytes, .. }, other]: &[Honest; 2]) {
    let others = [&other.bytes, bytes];
    let mut rng = SplitMix(0x7465_7373);
    let mut tried = 0;
    for case in 0..MUTATIONS {
        let (name, mutated) = mutate(bytes, others[rng.below(2) as usize], &mut rng);
        // A proof is accepted if it is honest: copies of what was there, and the other proof as a whole.
        if mutated == *bytes || mutated == other.bytes {
            continue;
        }
        tried += 1;
        let result = catch_unwind(AssertUnwindSafe(|| verify_bytes(key, &mutated)));
        match result {
            Err(_) => panic!("case {case}, {name}: the verifier panics"),
            Ok(Ok(_)) => panic!("case {case}, {name}: accepted"),
            Ok(Err(VerifyError::Stark(StarkError::Panicked))) => panic!("case {case}, {name}: the library panics"),
            Ok(Err(_)) => {}
        }
    }
    assert!(tried > MUTATIONS * 3 / 4, "only {tried} mutations change anything");
}

/// The empty file, and every beginning of a proof up to the end of its statement.
#[test]
fn every_short_beginning_is_rejected() {
    let [Honest { key, bytes, .. }, _] = honest();
    for len in 0..200 {
        let result = verify_bytes(key, &bytes[..len]);
        assert!(
            matches!(result, Err(VerifyError::Malformed(_))),
            "{len} bytes: {result:?}"
        );
    }
}

/// The file of a chunk, from which a chain is composed on another machine: it holds the proof, and what no proof is is not
/// read from it.
#[test]
fn files_of_chunks_hold_their_proofs() {
    let [Honest { proof, .. }, _] = honest();
    for chunk in &proof.chunks {
        let bytes = chunk.to_bytes().expect("a chunk is encoded");
        let read = ChunkProof::from_bytes(&bytes).expect("a chunk is read");
        assert_eq!(read.to_bytes().expect("it is encoded again"), bytes);
        assert_eq!(read.layers, chunk.layers);
        let mut value = serde_json::to_value(chunk).expect("a chunk is a tree");
        let last = &mut value["tables"]["Stark"]["stark"]["fri_proof"]["last_layer_poly"];
        let coefficients = last["coeffs"].as_array().expect("coefficients").len();
        last["log_size"] = 9.into();
        let other = ChunkProof::deserialize(&value).expect("a chunk");
        let result = ChunkProof::from_bytes(&other.to_bytes().expect("it is encoded"));
        let expected = CodecError::LastLayer { coefficients };
        assert!(matches!(&result, Err(error) if *error == expected), "{result:?}");
    }
}
