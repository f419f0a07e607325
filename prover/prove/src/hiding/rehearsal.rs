//! Proofs that tests make with secrets of their own choice: with lies under pads, and with the messages of another proof, to show that these messages fit
//! other activations, too. A prover without a [`Rehearsal`] sends its own messages.

use std::sync::{Arc, Mutex, PoisonError};

use stwo::core::fields::qm31::SecureField;
use tessera_verifier::suite::Digest;

use crate::column::Column;

type K = SecureField;

/// Changes that a test makes to a proof that hides activations.
#[derive(Clone, Debug, Default)]
pub struct Rehearsal {
    /// Pads, and the element that is added to the message under each: lies.
    pub lies: Vec<(usize, K)>,
    /// Changes how often the entries of the tables are said to be used.
    pub change_counts: Option<fn(&mut [Column])>,
    /// Changes the answers about products.
    pub change_answers: Option<fn(&mut [K])>,
    /// Elements that are added to the values of the tape: lies.
    pub tape_lies: [K; 3],
    /// The root that the prover sends instead of the root of its activations.
    pub root: Option<Digest>,
    /// The messages of another proof, which the prover sends instead of its own.
    pub script: Option<Script>,
    /// The prover records its own messages here.
    pub record: Arc<Mutex<Record>>,
}

/// The messages of another proof.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// By entry of the tape, the message that is said under this pad.
    pub messages: Vec<K>,
    /// The answers about products.
    pub answers: Vec<K>,
    /// The values of the tape.
    pub tape_values: [K; 3],
    /// The word that is folded.
    pub word: Vec<K>,
}

/// The messages of a prover without their pads, and the challenges that a test needs.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// By entry of the tape, the message without its pad.
    pub messages: Vec<K>,
    /// The word that is to be folded: the sum of all columns with mask and tape.
    pub word: Vec<K>,
    /// The factors of columns and mask in the word.
    pub scales: Vec<K>,
    /// The factor of the tape.
    pub tape_scale: K,
    /// The points of the claims on the word, each with its weight.
    pub points: Vec<(K, Vec<K>)>,
}

impl Rehearsal {
    /// The message to say under a pad, given the entry of the pad.
    pub(crate) fn say(&self, entry: usize, pad: K, message: K) -> K {
        self.record(|record| {
            let length = record.messages.len().max(entry + 1);
            record.messages.resize(length, K::default());
            record.messages[entry] = message;
        });
        match &self.script {
            Some(script) => script.messages[entry],
            None => {
                let lies = self.lies.iter().filter(|(at, _)| *at == entry);
                lies.fold(message + pad, |sum, (_, by)| sum + *by)
            }
        }
    }

    /// The answers to give.
    pub(crate) fn answers(&self, mut own: Vec<K>) -> Vec<K> {
        if let Some(change) = self.change_answers {
            change(&mut own);
        }
        self.script.as_ref().map_or(own, |script| script.answers.clone())
    }

    /// The values of the tape to say.
    pub(crate) fn tape_values(&self, own: [K; 3]) -> [K; 3] {
        let told = std::array::from_fn(|at| own[at] + self.tape_lies[at]);
        self.script.as_ref().map_or(told, |script| script.tape_values)
    }

    /// Records the word, the points of its claims and its factors, and returns the word to fold instead if there is a script.
    pub(crate) fn word(&self, own: &[K], points: &[(K, Vec<K>)], scales: &[K], tape_scale: K) -> Option<&[K]> {
        self.record(|record| {
            record.word = own.to_vec();
            record.scales = scales.to_vec();
            record.points = points.to_vec();
            record.tape_scale = tape_scale;
        });
        self.script.as_ref().map(|script| &*script.word)
    }

    fn record(&self, write: impl FnOnce(&mut Record)) {
        write(&mut self.record.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
