//! The bytes that contracts are sent, piece by piece.

use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;

/// The opening: its conversation, and its queries, stage by stage.
#[derive(Clone, Debug)]
pub struct Part {
    /// The messages that are sent before the positions are drawn.
    pub conversation: Vec<u8>,
    /// The values and paths that trees or oracles have at all positions.
    pub stages: Vec<Vec<u8>>,
    /// How many of them, the first ones, are of trees.
    pub trees: usize,
}

/// Bytes that are written one after the other.
#[derive(Default)]
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    pub fn words(&mut self, words: impl IntoIterator<Item = u32>) {
        self.0.extend(words.into_iter().flat_map(u32::to_be_bytes));
    }

    pub fn counts(&mut self, values: usize, nodes: usize) {
        self.words([values as u32, nodes as u32]);
    }

    pub fn numbers<'a>(&mut self, numbers: impl IntoIterator<Item = &'a BaseField>) {
        self.words(numbers.into_iter().map(|own| own.0));
    }

    pub fn elements(&mut self, elements: &[SecureField]) {
        self.words(elements.iter().flat_map(|own| own.to_m31_array().map(|own| own.0)));
    }

    pub fn nonces(&mut self, nonces: &[u64]) {
        self.0.extend(nonces.iter().flat_map(|own| own.to_be_bytes()));
    }
}

/// States have a digest of the last message: the last stage has it once more.
pub fn again(stages: &mut [Vec<u8>], message: &[SecureField]) {
    if let Some(last) = stages.last_mut() {
        let mut bytes = Bytes::default();
        bytes.elements(message);
        last.extend(bytes.0);
    }
}
