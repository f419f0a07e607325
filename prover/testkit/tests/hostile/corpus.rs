//! The targets of the fuzzer over its seeds and over mutations of them with a fixed seed.

use std::path::{Path, PathBuf};

use tessera_testkit::SplitMix;

use crate::beside;
use crate::targets::{honest, Target, TARGETS};

const SEEDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds");

/// The seeds of a target: what is honest, and what was found.
fn seeds(name: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(SEEDS).join(name);
    let entries = std::fs::read_dir(&directory).expect("every target has a directory of seeds");
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    paths.sort();
    let mut seeds: Vec<Vec<u8>> = paths.iter().map(|p| std::fs::read(p).expect("a seed")).collect();
    match name {
        "decode_proof" => seeds.extend(honest().encoded.clone()),
        "decode_key" => seeds.push(honest().key.to_bytes().expect("an honest key encodes")),
        _ => {}
    }
    seeds
}

/// Changes a few bytes, runs of bytes, or the length.
fn mutate(bytes: &mut Vec<u8>, other: &[u8], rng: &mut SplitMix) {
    for _ in 0..1 + rng.below(3) {
        let at = match bytes.len() {
            0 => 0,
            // Lengths and small fields are near the start.
            len if rng.below(2) == 0 => rng.below(len.min(600) as u64) as usize,
            len => rng.below(len as u64) as usize,
        };
        let log_run = rng.below(9);
        let end = (at + 1 + rng.below(1 << log_run) as usize).min(bytes.len());
        match rng.below(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
            1 if at < bytes.len() => bytes[at] = rng.next_u64() as u8,
            2 => bytes[at..end].fill(if rng.below(2) == 0 { 0 } else { 0xff }),
            3 => drop(bytes.drain(at..end)),
            4 => {
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            5 => bytes.truncate(at),
            6 => bytes
                .splice(at..at, (0..rng.below(12)).map(|_| rng.next_u64() as u8))
                .for_each(drop),
            _ => {
                let end = end.min(other.len());
                if at < end {
                    bytes[at..end].copy_from_slice(&other[at..end]);
                }
            }
        }
    }
}

/// Runs a target over its seeds and over mutations of them.
fn run(name: &str, mutations: usize) {
    let _beside = beside();
    let target: Target = TARGETS.iter().find(|(own, _)| *own == name).expect("a target").1;
    let seeds = seeds(name);
    assert!(!seeds.is_empty(), "{name} has no seeds");
    seeds.iter().for_each(|seed| target(seed));
    let mut rng = SplitMix(name.len() as u64);
    for _ in 0..mutations {
        let [seed, other] = [(); 2].map(|()| &seeds[rng.below(seeds.len() as u64) as usize]);
        let mut input = seed.clone();
        mutate(&mut input, other, &mut rng);
        target(&input);
    }
}

#[test]
fn decoded_proofs_are_canonical_and_false_ones_rejected() {
    run("decode_proof", 1000);
}

#[test]
fn decoded_keys_are_canonical_and_usable() {
    run("decode_key", 3000);
}

#[test]
fn edited_proofs_and_keys_are_rejected_without_a_panic() {
    run("verify", 700);
    let _beside = beside();
    // Bytes that are edits from the first to the last.
    let mut rng = SplitMix(5);
    for _ in 0..700 {
        let input: Vec<u8> = (0..40).map(|_| rng.next_u64() as u8).collect();
        crate::targets::verify_edited(&input);
    }
}

#[test]
fn checkpoints_are_read_or_refused() {
    run("checkpoint", 3000);
}

#[test]
fn gguf_files_are_read_or_refused() {
    run("gguf", 3000);
}

#[test]
fn tokenizers_are_read_or_refused() {
    run("tokenizer", 1500);
}
