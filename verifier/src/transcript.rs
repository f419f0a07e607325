//! The Fiat-Shamir transcript (docs/protocol.md, section 11): one per proof, shared by both sides. Three
//! verbs: absorb a message, draw a challenge, draw query positions. Every operation carries a label and
//! its length, so two different conversations never produce the same transcript.

use stwo::core::channel::Channel;
use stwo::core::fields::qm31::SecureField;

use crate::suite::{Digest, Suite, SuiteChannel};

/// A proof of work before a challenge: the label of its nonce, and how many bits it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The label of the nonce.
    pub label: &'static str,
    /// Bits, at most 32.
    pub bits: u32,
}

/// A transcript over a channel that stwo takes, so that the STARK continues the same conversation.
#[derive(Clone, Debug)]
pub struct Transcript {
    channel: SuiteChannel,
}

impl Transcript {
    /// A transcript of the default suite for one protocol; `protocol` separates domains and versions.
    pub fn new(protocol: &str) -> Self {
        Self::of(Suite::default(), protocol)
    }

    /// A transcript of a suite for one protocol: what it absorbs first names both.
    pub fn of(suite: Suite, protocol: &str) -> Self {
        let mut transcript = Self {
            channel: SuiteChannel::new(suite),
        };
        transcript.label(&[protocol, suite.suffix()].concat(), 0);
        transcript
    }

    /// The suite of the key.
    pub const fn suite(&self) -> Suite {
        self.channel.suite()
    }

    fn label(&mut self, label: &str, len: usize) {
        let mut words = vec![label.len() as u32, len as u32];
        words.extend(self.packed(label.as_bytes()));
        self.channel.mix_u32s(&words);
    }

    /// Bytes as the words that are hashed as these bytes, with zeros behind them.
    fn packed(&self, bytes: &[u8]) -> Vec<u32> {
        let word = |chunk: &[u8]| {
            let mut word = [0; 4];
            word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            self.suite().word(word)
        };
        bytes.chunks(4).map(word).collect()
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
        let words = self.packed(bytes);
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

    /// Receives the nonce of a proof of work over everything absorbed so far: says whether it has the bits, and absorbs it.
    #[must_use]
    pub fn work(&mut self, work: Work, nonce: u64) -> bool {
        let done = self.channel.verify_pow_nonce(work.bits, nonce);
        self.words(work.label, &[nonce as u32, (nonce >> 32) as u32]);
        done
    }

    /// Absorbs the root of a tree of the STARK, which has no label.
    pub fn root(&mut self, root: &Digest) {
        self.channel.mix_root(root);
    }

    /// The channel, for stwo.
    pub fn channel(&mut self) -> &mut SuiteChannel {
        &mut self.channel
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a conversation is about to draw.
    fn drawn(of: impl Fn(&mut Transcript)) -> SecureField {
        let mut transcript = Transcript::new("test");
        of(&mut transcript);
        transcript.challenge("after")
    }

    /// Both halves of a nonce are absorbed: every proof of work has queries of its own.
    #[test]
    fn nonces_are_absorbed_as_a_whole() {
        let nonces = [0, 1, 1 << 31, 1 << 32, 1 << 63, (1 << 32) + 1];
        let work = Work { label: "work", bits: 0 };
        let challenges = nonces.map(|nonce| drawn(|t| assert!(t.work(work, nonce))));
        for (i, challenge) in challenges.iter().enumerate() {
            assert!(!challenges[..i].contains(challenge), "{}", nonces[i]);
        }
    }

    /// Bytes are words in little-endian order, and their number counts.
    #[test]
    fn bytes_are_absorbed_in_their_order() {
        let of = |bytes: &[u8]| drawn(|t| t.bytes("bytes", bytes));
        let words = drawn(|t| {
            t.label("bytes", 5);
            t.channel().mix_u32s(&[0x0403_0201, 5]);
        });
        assert_eq!(of(&[1, 2, 3, 4, 5]), words);
        assert_ne!(of(&[1, 2, 3, 4, 5, 0]), words);
    }

    /// As many positions as asked for, all of them below the size, and not all in one half.
    #[test]
    fn positions_are_below_the_size() {
        for (n, log_size) in [(0, 5), (1, 1), (118, 7), (193, 20), (9, 32)] {
            let positions = Transcript::new("test").positions("queries", n, log_size);
            assert_eq!(positions.len(), n);
            assert!(positions.iter().all(|p| (*p as u64) < 1 << log_size));
            assert!(n < 9 || positions.iter().any(|p| *p >> (log_size - 1) == 1));
        }
    }
}
