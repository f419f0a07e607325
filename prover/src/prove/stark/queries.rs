//! A last nonce whose queries do not meet in the tables in the wrong order (docs/protocol.md, section 9). The STARK library
//! takes the nonce that its channel's proof of work finds; this channel looks for one that also suits the queries that follow
//! from it. A verifier accepts any nonce with enough work.

use stwo::core::channel::{Blake2sChannel, Channel, MerkleChannel};
use stwo::core::fields::qm31::SecureField;
use stwo::core::proof_of_work::GrindOps;
use stwo::core::queries::{draw_queries, Queries};
use stwo::core::utils::MaybeOwned;
use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleChannel;
use stwo::core::vcs_lifted::merkle_hasher::MerkleHasherLifted;
use stwo::prover::backend::simd::SimdBackend;
use stwo::prover::backend::BackendForChannel;
use stwo::prover::{CommitmentSchemeProver, CommitmentTreeProver};
use tessera_circuits::air::tables;
use tessera_verifier::stark::queries_in_order;

use super::extend::Scheme;

/// A channel of the same digests, whose proofs of work have queries in order.
#[derive(Clone, Debug, Default)]
pub struct OrderedChannel {
    channel: Blake2sChannel,
    queries: usize,
    /// log2 of the positions that are drawn, and of those of the tables.
    log_domain: u32,
    log_tables: u32,
}

impl OrderedChannel {
    /// For the last proof of work of `scheme`, whose longest columns have `2^log_rows` rows.
    pub fn new(channel: Blake2sChannel, scheme: &Scheme<'_>, log_rows: u32) -> Self {
        let config = scheme.config.fri_config;
        Self {
            channel,
            queries: config.n_queries,
            log_domain: log_rows + config.log_blowup_factor,
            log_tables: tables::LOG_ROWS + config.log_blowup_factor,
        }
    }

    /// The channel with the digest of this one.
    pub fn into_inner(self) -> Blake2sChannel {
        self.channel
    }

    /// Whether the queries after `nonce` are in order.
    fn suits(&self, nonce: u64) -> bool {
        let mut channel = self.channel.clone();
        channel.mix_u64(nonce);
        let drawn = draw_queries(&mut channel, self.log_domain, self.queries);
        let queries = Queries::new(&drawn, self.log_domain);
        queries_in_order(&queries.positions, self.log_domain, self.log_tables)
    }
}

impl Channel for OrderedChannel {
    const BYTES_PER_HASH: usize = Blake2sChannel::BYTES_PER_HASH;

    fn verify_pow_nonce(&self, n_bits: u32, nonce: u64) -> bool {
        self.channel.verify_pow_nonce(n_bits, nonce)
    }
    fn mix_u32s(&mut self, data: &[u32]) {
        self.channel.mix_u32s(data);
    }
    fn mix_felts(&mut self, felts: &[SecureField]) {
        self.channel.mix_felts(felts);
    }
    fn mix_u64(&mut self, value: u64) {
        self.channel.mix_u64(value);
    }
    fn draw_secure_felt(&mut self) -> SecureField {
        self.channel.draw_secure_felt()
    }
    fn draw_secure_felts(&mut self, n_felts: usize) -> Vec<SecureField> {
        self.channel.draw_secure_felts(n_felts)
    }
    fn draw_u32s(&mut self) -> Vec<u32> {
        self.channel.draw_u32s()
    }
}

impl GrindOps<OrderedChannel> for SimdBackend {
    /// The smallest nonce with enough work that suits, from the smallest with enough work on.
    fn grind(channel: &OrderedChannel, pow_bits: u32) -> u64 {
        let first = <Self as GrindOps<Blake2sChannel>>::grind(&channel.channel, pow_bits);
        let suits = |nonce: &u64| channel.verify_pow_nonce(pow_bits, *nonce) && channel.suits(*nonce);
        (first..).find(suits).unwrap_or(first)
    }
}

/// Roots and proofs of work over [`OrderedChannel`].
#[derive(Default)]
pub struct OrderedMerkleChannel;

type Hasher = <Blake2sMerkleChannel as MerkleChannel>::H;

impl MerkleChannel for OrderedMerkleChannel {
    type C = OrderedChannel;
    type H = Hasher;

    fn mix_root(channel: &mut OrderedChannel, root: <Hasher as MerkleHasherLifted>::Hash) {
        Blake2sMerkleChannel::mix_root(&mut channel.channel, root);
    }
}

impl BackendForChannel<OrderedMerkleChannel> for SimdBackend {}

/// The same trees, for [`OrderedChannel`].
pub fn ordered(scheme: Scheme<'_>) -> CommitmentSchemeProver<'_, SimdBackend, OrderedMerkleChannel> {
    let mut ordered = CommitmentSchemeProver::new(scheme.config, scheme.twiddles);
    ordered.store_polynomials_coefficients = scheme.store_polynomials_coefficients;
    for tree in scheme.trees.0 {
        if let MaybeOwned::Owned(tree) = tree {
            let tree = CommitmentTreeProver {
                polynomials: tree.polynomials,
                commitment: tree.commitment,
            };
            ordered.trees.push(MaybeOwned::Owned(tree));
        }
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With so many queries most nonces do not suit.
    #[test]
    fn queries_of_a_found_nonce_are_in_order() {
        let mut passed_over = 0;
        for i in 0..20 {
            let mut channel = OrderedChannel {
                channel: Blake2sChannel::default(),
                queries: 400,
                log_domain: 18,
                log_tables: 16,
            };
            channel.mix_u64(i);
            let nonce = SimdBackend::grind(&channel, 5);
            assert!(channel.verify_pow_nonce(5, nonce) && channel.suits(nonce));
            passed_over += (0..nonce).filter(|n| channel.verify_pow_nonce(5, *n)).count();
            assert!((0..nonce).all(|n| !channel.verify_pow_nonce(5, n) || !channel.suits(n)));
        }
        assert!(passed_over > 0);
    }
}
