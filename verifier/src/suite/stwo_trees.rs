//! The suites as stwo takes them: types, not values. Proofs are the same but for their type, as digests are.

use std::marker::PhantomData;

use sha3::{Digest as _, Keccak256};
use stwo::core::channel::MerkleChannel;
use stwo::core::fields::m31::BaseField;
use stwo::core::fri::{FriLayerProof, FriProof};
use stwo::core::pcs::quotients::CommitmentSchemeProof;
use stwo::core::proof::StarkProof;
use stwo::core::vcs::blake2_hash::Blake2sHash;
use stwo::core::vcs_lifted::merkle_hasher::MerkleHasherLifted;
use stwo::core::vcs_lifted::verifier::MerkleDecommitmentLifted;

use super::SuiteChannel;

/// The trees of the STARK, whose leaves and nodes `H` hashes, and the transcript that absorbs their roots.
#[derive(Debug, Default)]
pub struct Trees<H>(PhantomData<H>);

impl<H: MerkleHasherLifted<Hash = Blake2sHash>> MerkleChannel for Trees<H> {
    type C = SuiteChannel;
    type H = H;

    fn mix_root(channel: &mut SuiteChannel, root: Blake2sHash) {
        channel.mix_root(&root.0);
    }
}

/// Keccak-256 of a leaf of the STARK. stwo's type of a digest of 32 bytes serves for both suites.
#[derive(Clone, Debug, Default)]
pub struct KeccakLeaf(Keccak256);

impl MerkleHasherLifted for KeccakLeaf {
    type Hash = Blake2sHash;

    fn hash_children((left, right): (Blake2sHash, Blake2sHash)) -> Blake2sHash {
        let digest = Keccak256::new().chain_update(left.0).chain_update(right.0).finalize();
        Blake2sHash(digest.into())
    }

    fn update_leaf(&mut self, column_values: &[BaseField]) {
        column_values.iter().for_each(|v| self.0.update(v.0.to_be_bytes()));
    }

    fn finalize(self) -> Blake2sHash {
        Blake2sHash(self.0.finalize().into())
    }
}

/// A proof as if another hasher had made it: nothing changes but its type.
pub fn with_hasher<A, B>(StarkProof(proof): StarkProof<A>) -> StarkProof<B>
where
    A: MerkleHasherLifted<Hash = Blake2sHash>,
    B: MerkleHasherLifted<Hash = Blake2sHash>,
{
    StarkProof(CommitmentSchemeProof {
        config: proof.config,
        commitments: proof.commitments,
        sampled_values: proof.sampled_values,
        decommitments: proof.decommitments.map(path),
        queried_values: proof.queried_values,
        proof_of_work: proof.proof_of_work,
        fri_proof: FriProof {
            first_layer: layer(proof.fri_proof.first_layer),
            inner_layers: proof.fri_proof.inner_layers.into_iter().map(layer).collect(),
            last_layer_poly: proof.fri_proof.last_layer_poly,
        },
    })
}

fn layer<A, B>(layer: FriLayerProof<A>) -> FriLayerProof<B>
where
    A: MerkleHasherLifted<Hash = Blake2sHash>,
    B: MerkleHasherLifted<Hash = Blake2sHash>,
{
    FriLayerProof {
        fri_witness: layer.fri_witness,
        decommitment: path(layer.decommitment),
        commitment: layer.commitment,
    }
}

fn path<A, B>(path: MerkleDecommitmentLifted<A>) -> MerkleDecommitmentLifted<B>
where
    A: MerkleHasherLifted<Hash = Blake2sHash>,
    B: MerkleHasherLifted<Hash = Blake2sHash>,
{
    MerkleDecommitmentLifted {
        hash_witness: path.hash_witness,
    }
}
