//! Bytes of calldata with names of their parts, and reading them again.

use std::ops::Range;

use stwo::core::fields::m31::BaseField;
use tessera_verifier::suite::Digest;

use super::{bytes_of, element, elements, K};

/// Calldata that is written part by part.
#[derive(Default)]
pub struct Calldata {
    pub bytes: Vec<u8>,
    /// What lies where, in order.
    pub parts: Vec<(String, Range<usize>)>,
}

impl Calldata {
    /// Appends a part, which may be empty.
    pub fn put(&mut self, name: &str, bytes: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend(bytes);
        self.parts.push((name.to_owned(), start..self.bytes.len()));
    }

    pub fn elements(&mut self, name: &str, values: &[K]) {
        self.put(name, &bytes_of(values));
    }

    pub fn words(&mut self, name: &str, words: impl IntoIterator<Item = u32>) {
        let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
        self.put(name, &bytes);
    }

    pub fn nonces(&mut self, name: &str, nonces: &[u64]) {
        let bytes: Vec<u8> = nonces.iter().flat_map(|own| own.to_be_bytes()).collect();
        self.put(name, &bytes);
    }

    pub fn digests(&mut self, name: &str, digests: &[Digest]) {
        self.put(name, digests.as_flattened());
    }

    /// Where a part lies.
    pub fn part(&self, name: &str) -> Range<usize> {
        let found = self.parts.iter().find(|(own, _)| own == name);
        found.map(|(_, range)| range.clone()).expect("a part of this name")
    }
}

/// Calldata that is read.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (own, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(own)
    }

    pub fn elements(&mut self, count: usize) -> Option<Vec<K>> {
        elements(self.take(16 * count)?)
    }

    /// Elements whose coordinates need not be reduced: that is for the verifier to say.
    pub fn raw_elements(&mut self, count: usize) -> Option<Vec<K>> {
        let words = self.words(4 * count)?;
        let element = |w: &[u32; 4]| K::from_m31_array(w.map(BaseField::from_u32_unchecked));
        Some(words.as_chunks().0.iter().map(element).collect())
    }

    pub fn element(&mut self) -> Option<K> {
        element(self.take(16)?)
    }

    pub fn words(&mut self, count: usize) -> Option<Vec<u32>> {
        let bytes = self.take(count.checked_mul(4)?)?;
        Some(bytes.as_chunks().0.iter().map(|w| u32::from_be_bytes(*w)).collect())
    }

    pub fn nonce(&mut self) -> Option<u64> {
        self.take(8).and_then(|own| own.try_into().ok()).map(u64::from_be_bytes)
    }

    pub fn nonces(&mut self, count: usize) -> Option<Vec<u64>> {
        (0..count).map(|_| self.nonce()).collect()
    }

    pub fn count(&mut self) -> Option<usize> {
        self.words(1)?.first().map(|n| *n as usize)
    }

    pub fn digest(&mut self) -> Option<Digest> {
        self.take(32)?.try_into().ok()
    }

    pub fn digests(&mut self, count: usize) -> Option<Vec<Digest>> {
        (0..count).map(|_| self.digest()).collect()
    }
}
