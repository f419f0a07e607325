//! The channel of a transcript: stwo's Blake2s channel, and the same over the other suites.

use stwo::core::channel::Channel;
use stwo::core::fields::m31::{BaseField, P};
use stwo::core::fields::qm31::{SecureField, SECURE_EXTENSION_DEGREE};

use super::{Digest, Suite};

/// Words of a digest.
const WORDS: usize = 8;
/// The first word of what a proof of work is about.
const WORK_PREFIX: u32 = 0x1234_5678;

/// A digest of what was absorbed, and how often it was drawn from since.
#[derive(Clone, Debug, Default)]
pub struct SuiteChannel {
    suite: Suite,
    digest: Digest,
    draws: u32,
}

impl SuiteChannel {
    /// Nothing absorbed yet.
    pub fn new(suite: Suite) -> Self {
        Self {
            suite,
            ..Self::default()
        }
    }

    /// What was absorbed has this digest.
    pub const fn at(suite: Suite, digest: Digest) -> Self {
        let draws = 0;
        Self { suite, digest, draws }
    }

    /// The suite.
    pub const fn suite(&self) -> Suite {
        self.suite
    }

    /// Digest of everything absorbed.
    pub const fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Absorbs the root of a tree of the STARK.
    pub fn mix_root(&mut self, root: &Digest) {
        let mut hasher = self.suite.hasher();
        hasher.update(&self.digest);
        hasher.update(root);
        self.set(hasher.finalize());
    }

    /// What a nonce is hashed with: a digest of everything absorbed and of the bits of work.
    pub fn work_digest(&self, bits: u32) -> Digest {
        let mut hasher = self.suite.hasher();
        hasher.words([WORK_PREFIX, 0, 0, 0]);
        hasher.update(&self.digest);
        hasher.words([bits]);
        hasher.finalize()
    }

    fn mix(&mut self, words: impl IntoIterator<Item = u32>) {
        let mut hasher = self.suite.hasher();
        hasher.update(&self.digest);
        hasher.words(words);
        self.set(hasher.finalize());
    }

    fn set(&mut self, digest: Digest) {
        self.digest = digest;
        self.draws = 0;
    }

    fn draw(&mut self) -> [u32; WORDS] {
        let mut hasher = self.suite.hasher();
        hasher.update(&self.digest);
        hasher.words([self.draws]);
        // No absorbed message has such a length: what is drawn is no digest of a transcript.
        hasher.update(&[0]);
        self.draws += 1;
        let (digest, mut words) = (hasher.finalize(), [0; WORDS]);
        for (word, bytes) in words.iter_mut().zip(digest.as_chunks().0) {
            *word = self.suite.word(*bytes);
        }
        words
    }

    /// Draws until all words are below `2p`, so that reduced ones are uniform.
    fn draw_fields(&mut self) -> [BaseField; WORDS] {
        loop {
            let words = self.draw();
            if words.iter().all(|word| *word < 2 * P) {
                return words.map(|word| BaseField::reduce(word.into()));
            }
        }
    }
}

impl Channel for SuiteChannel {
    const BYTES_PER_HASH: usize = 32;

    fn verify_pow_nonce(&self, bits: u32, nonce: u64) -> bool {
        let mut hasher = self.suite.hasher();
        hasher.update(&self.work_digest(bits));
        let nonce = match self.suite {
            Suite::Blake2s => nonce.to_le_bytes(),
            Suite::Keccak => nonce.to_be_bytes(),
        };
        hasher.update(&nonce);
        let digest = hasher.finalize();
        let first = digest.first_chunk().copied().unwrap_or([u8::MAX; 16]);
        let number = match self.suite {
            Suite::Blake2s => u128::from_le_bytes(first),
            Suite::Keccak => u128::from_be_bytes(first),
        };
        number.trailing_zeros() >= bits
    }

    fn mix_u32s(&mut self, data: &[u32]) {
        self.mix(data.iter().copied());
    }

    fn mix_felts(&mut self, felts: &[SecureField]) {
        self.mix(felts.iter().flat_map(|felt| felt.to_m31_array()).map(|word| word.0));
    }

    fn mix_u64(&mut self, value: u64) {
        self.mix([value as u32, (value >> 32) as u32]);
    }

    fn draw_secure_felt(&mut self) -> SecureField {
        let [a, b, c, d, ..] = self.draw_fields();
        SecureField::from_m31_array([a, b, c, d])
    }

    fn draw_secure_felts(&mut self, n_felts: usize) -> Vec<SecureField> {
        let mut felts = Vec::with_capacity(n_felts + 1);
        while felts.len() < n_felts {
            let fields = self.draw_fields();
            let pairs = fields.as_chunks::<SECURE_EXTENSION_DEGREE>().0;
            felts.extend(pairs.iter().map(|own| SecureField::from_m31_array(*own)));
        }
        felts.truncate(n_felts);
        felts
    }

    fn draw_u32s(&mut self) -> Vec<u32> {
        self.draw().into()
    }
}
