//! Proofs of work (docs/protocol.md, section 11).

use stwo::core::channel::Blake2sChannel;
use stwo::core::proof_of_work::GrindOps;
use stwo::core::vcs::blake2_hash::Blake2sHash;
use stwo::prover::backend::simd::SimdBackend;
use tessera_verifier::suite::{Suite, SuiteChannel};
use tessera_verifier::transcript::{Transcript, Work};

use tessera_kernels::hashes::keccak;

/// Sends the nonce of a proof of work over everything absorbed so far; always the same one.
pub fn send(work: Work, transcript: &mut Transcript) -> u64 {
    let nonce = nonce(transcript.channel(), work.bits);
    let done = transcript.work(work, nonce);
    debug_assert!(done, "the nonce was looked for until it had the bits");
    nonce
}

/// A nonce with so many bits of work over everything absorbed; always the same one.
pub fn nonce(channel: &SuiteChannel, bits: u32) -> u64 {
    match channel.suite() {
        Suite::Blake2s => {
            let mut own = Blake2sChannel::default();
            own.update_digest(Blake2sHash(*channel.digest()));
            SimdBackend::grind(&own, bits)
        }
        Suite::Keccak => keccak::grind(&channel.work_digest(bits), bits),
    }
}
