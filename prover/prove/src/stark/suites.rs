//! The suites as stwo's prover takes them. Its traits can be implemented for types of this crate only, so that those of the
//! verifier are wrapped here.

use std::marker::PhantomData;
use std::simd::u32x16;

use rayon::prelude::*;
use stwo::core::channel::{Channel, MerkleChannel};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::proof_of_work::GrindOps;
use stwo::core::vcs::blake2_hash::Blake2sHash;
use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleHasher;
use stwo::core::vcs_lifted::merkle_hasher::MerkleHasherLifted;
use stwo::prover::backend::simd::column::BaseColumn;
use stwo::prover::backend::simd::SimdBackend;
use stwo::prover::backend::{BackendForChannel, Column, CpuBackend};
use stwo::prover::vcs_lifted::ops::MerkleOpsLifted;
use tessera_verifier::suite::{Digest, KeccakLeaf, Suite, SuiteChannel};

use crate::grind;
use crate::trees;
use tessera_kernels::hashes::{keccak, Domain, LaneHash, SIMD_LANES};

/// The trees of a proof, whose leaves and nodes `H` hashes.
#[derive(Debug, Default)]
pub struct ProverTrees<H>(PhantomData<H>);

impl<H: MerkleHasherLifted<Hash = Blake2sHash>> MerkleChannel for ProverTrees<H> {
    type C = ProverChannel;
    type H = H;

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

/// Keccak-256 of leaves and nodes.
#[derive(Clone, Debug, Default)]
pub struct Keccak(KeccakLeaf);

impl MerkleHasherLifted for Keccak {
    type Hash = Blake2sHash;

    fn hash_children(children: (Blake2sHash, Blake2sHash)) -> Blake2sHash {
        KeccakLeaf::hash_children(children)
    }

    fn update_leaf(&mut self, column_values: &[BaseField]) {
        self.0.update_leaf(column_values);
    }

    fn finalize(self) -> Blake2sHash {
        MerkleHasherLifted::finalize(self.0)
    }
}

impl MerkleOpsLifted<Keccak> for SimdBackend {
    fn build_leaves(columns: &[&BaseColumn], lifting_log_size: u32) -> Vec<Blake2sHash> {
        let rows = 1 << lifting_log_size;
        if rows < SIMD_LANES || columns.is_empty() || columns.iter().any(|column| column.len() != rows) {
            let columns: Vec<Vec<BaseField>> = columns.iter().map(|column| column.to_cpu()).collect();
            let columns: Vec<&Vec<BaseField>> = columns.iter().collect();
            return <CpuBackend as MerkleOpsLifted<Keccak>>::build_leaves(&columns, lifting_log_size);
        }
        let groups = (0..rows / SIMD_LANES).into_par_iter();
        let leaves = groups.flat_map_iter(|group| {
            let words: Vec<u32x16> = columns.iter().map(|column| column.data[group].into_simd()).collect();
            keccak::Hashes::new(Domain::Leaf).finish(0, &words).map(Blake2sHash)
        });
        leaves.collect()
    }

    fn build_next_layer(prev_layer: &Vec<Blake2sHash>) -> Vec<Blake2sHash> {
        let nodes: Vec<Digest> = prev_layer.iter().map(|node| node.0).collect();
        let parents = trees::parents(Suite::Keccak, &nodes);
        parents.into_iter().map(Blake2sHash).collect()
    }
}

impl BackendForChannel<ProverTrees<Blake2sMerkleHasher>> for SimdBackend {}
impl BackendForChannel<ProverTrees<Keccak>> for SimdBackend {}
