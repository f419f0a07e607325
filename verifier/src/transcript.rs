//! The Fiat-Shamir transcript (docs/protocol.md, section 11): one per proof, shared by both sides. Three
//! verbs: absorb a message, draw a challenge, draw query positions. Every operation carries a label and
//! its length, so two different conversations never produce the same transcript.

use stwo::core::channel::{Blake2sChannel, Channel};
use stwo::core::fields::qm31::SecureField;

/// Blake2s transcript over stwo's channel, so that the STARK continues the same conversation.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    channel: Blake2sChannel,
}

impl Transcript {
    /// A transcript for one protocol; `protocol` separates domains and versions.
    pub fn new(protocol: &str) -> Self {
        let mut transcript = Self::default();
        transcript.label(protocol, 0);
        transcript
    }

    fn label(&mut self, label: &str, len: usize) {
        let mut words = vec![label.len() as u32, len as u32];
        for chunk in label.as_bytes().chunks(4) {
            let mut word = [0; 4];
            for (to, from) in word.iter_mut().zip(chunk) {
                *to = *from;
            }
            words.push(u32::from_le_bytes(word));
        }
        self.channel.mix_u32s(&words);
    }

    /// Absorbs field elements.
    pub fn message(&mut self, label: &str, values: &[SecureField]) {
        self.label(label, values.len());
        self.channel.mix_felts(values);
    }

    /// Absorbs 32-bit words.
    pub fn words(&mut self, label: &str, words: &[u32]) {
        self.label(label, words.len());
        self.channel.mix_u32s(words);
    }

    /// Absorbs bytes (a digest or a Merkle root).
    pub fn bytes(&mut self, label: &str, bytes: &[u8]) {
        let words: Vec<u32> = bytes
            .chunks(4)
            .map(|chunk| chunk.iter().rev().fold(0, |word, &b| (word << 8) | u32::from(b)))
            .collect();
        self.label(label, bytes.len());
        self.channel.mix_u32s(&words);
    }

    /// Draws one challenge.
    pub fn challenge(&mut self, label: &str) -> SecureField {
        self.label(label, 1);
        self.channel.draw_secure_felt()
    }

    /// Draws `n` challenges.
    pub fn challenges(&mut self, label: &str, n: usize) -> Vec<SecureField> {
        self.label(label, n);
        (0..n).map(|_| self.channel.draw_secure_felt()).collect()
    }

    /// Draws `n` positions below `2^log_size` (with repetition, in the order drawn).
    pub fn positions(&mut self, label: &str, n: usize, log_size: u32) -> Vec<usize> {
        self.label(label, n);
        let mask = (1u64 << log_size.min(32)) - 1;
        let mut out = Vec::with_capacity(n);
        while out.len() < n {
            for word in self.channel.draw_u32s() {
                if out.len() < n {
                    out.push((u64::from(word) & mask) as usize);
                }
            }
        }
        out
    }

    /// Checks a proof of work of `bits` bits over everything absorbed so far.
    pub fn check_work(&self, bits: u32, nonce: u64) -> bool {
        self.channel.verify_pow_nonce(bits, nonce)
    }

    /// Absorbs the nonce of a proof of work.
    pub fn nonce(&mut self, label: &str, nonce: u64) {
        self.words(label, &[nonce as u32, (nonce >> 32) as u32]);
    }

    /// The channel, for stwo.
    pub fn channel(&mut self) -> &mut Blake2sChannel {
        &mut self.channel
    }
}
