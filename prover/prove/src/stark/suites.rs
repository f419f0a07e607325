//! Trees and channel as stwo's prover takes them. Its traits can be implemented for types of this crate only, so that those of the
//! verifier are wrapped here.

use stwo::core::channel::{Channel, MerkleChannel};
use stwo::core::fields::qm31::SecureField;
use stwo::core::proof_of_work::GrindOps;
use stwo::core::vcs::blake2_hash::Blake2sHash;
use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleHasher;
use stwo::prover::backend::simd::SimdBackend;
use stwo::prover::backend::BackendForChannel;
use tessera_verifier::suite::SuiteChannel;

use crate::grind;

/// The trees of a proof.
#[derive(Debug, Default)]
pub struct ProverTrees;

impl MerkleChannel for ProverTrees {
    type C = ProverChannel;
    type H = Blake2sMerkleHasher;

    fn mix_root(channel: &mut ProverChannel, root: Blake2sHash) {
        channel.0.mix_root(&root.0);
    }
}

/// The channel of a transcript.
#[derive(Clone, Debug, Default)]
pub struct ProverChannel(pub SuiteChannel);

impl ProverChannel {
    /// Lets stwo talk to a channel.
    pub fn with<T>(channel: &mut SuiteChannel, talk: impl FnOnce(&mut Self) -> T) -> T {
        let mut own = Self(std::mem::take(channel));
        let said = talk(&mut own);
        *channel = own.0;
        said
    }
}

impl Channel for ProverChannel {
    const BYTES_PER_HASH: usize = SuiteChannel::BYTES_PER_HASH;

    fn verify_pow_nonce(&self, bits: u32, nonce: u64) -> bool {
        self.0.verify_pow_nonce(bits, nonce)
    }

    fn mix_u32s(&mut self, data: &[u32]) {
        self.0.mix_u32s(data);
    }

    fn mix_felts(&mut self, felts: &[SecureField]) {
        self.0.mix_felts(felts);
    }

    fn mix_u64(&mut self, value: u64) {
        self.0.mix_u64(value);
    }

    fn draw_secure_felt(&mut self) -> SecureField {
        self.0.draw_secure_felt()
    }

    fn draw_secure_felts(&mut self, n_felts: usize) -> Vec<SecureField> {
        self.0.draw_secure_felts(n_felts)
    }

    fn draw_u32s(&mut self) -> Vec<u32> {
        self.0.draw_u32s()
    }
}

impl GrindOps<ProverChannel> for SimdBackend {
    fn grind(channel: &ProverChannel, bits: u32) -> u64 {
        grind::nonce(&channel.0, bits)
    }
}

impl BackendForChannel<ProverTrees> for SimdBackend {}
