//! How both sides talk (docs/protocol.md, section 11): the prover sends a message, the verifier receives it, and either absorbs it.
//! Labels are written once for both ([`crate::labels`]), and so is what is absorbed of a message ([`Message`]).
//!
//! What a proof holds is [`Unread`]: to receive a message is the only way to its values, so none is used that is not absorbed.

use std::fmt;

use serde::Serialize;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::statistics::Clip;
use thiserror::Error;

use crate::codec::check_canonical_fields;
use crate::suite::Digest;
use crate::transcript::{Transcript, Work};

type K = SecureField;

/// A part of a proof that is not read yet.
///
/// ```compile_fail
/// # use tessera_verifier::message::Unread;
/// # use stwo::core::fields::qm31::SecureField as K;
/// fn value(said: Unread<'_, K>) -> K {
///     *said.0
/// }
/// ```
/// To choose a part takes a function, which cannot take values along as a closure could:
/// ```compile_fail
/// # use tessera_verifier::message::Unread;
/// # use stwo::core::fields::qm31::SecureField as K;
/// fn value(said: Unread<'_, [K; 2]>) -> K {
///     let mut value = K::default();
///     said.part(|both| { value = both[0]; both });
///     value
/// }
/// ```
/// A list of unknown length is no message:
/// ```compile_fail
/// # use tessera_verifier::{message::Unread, transcript::Transcript};
/// # use stwo::core::fields::qm31::SecureField as K;
/// fn values<'a>(said: Unread<'a, Vec<K>>, transcript: &mut Transcript) -> &'a [K] {
///     transcript.receive("values", said).unwrap()
/// }
/// ```
/// This is how it is read:
/// ```
/// # use tessera_verifier::{message::Unread, transcript::Transcript};
/// # use stwo::core::fields::qm31::SecureField as K;
/// fn values<'a>(said: Unread<'a, Vec<K>>, transcript: &mut Transcript) -> Result<&'a [K], String> {
///     let said = said.exactly(3, |got| format!("{got} values, expected 3"))?;
///     transcript.receive("values", said).map_err(|error| error.to_string())
/// }
/// # assert!(values(Unread::of(&vec![K::default(); 3]), &mut Transcript::new("example")).is_ok());
/// # assert!(values(Unread::of(&vec![K::default(); 4]), &mut Transcript::new("example")).is_err());
/// ```
pub struct Unread<'a, T: ?Sized>(&'a T);

/// Shows nothing of it.
impl<T: ?Sized> fmt::Debug for Unread<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unread")
    }
}

impl<T: ?Sized> Clone for Unread<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Unread<'_, T> {}

impl<'a, T> Unread<'a, T> {
    /// What somebody says.
    pub const fn of(said: &'a T) -> Self {
        Self(said)
    }

    /// A part of it.
    pub fn part<U>(self, of: fn(&T) -> &U) -> Unread<'a, U> {
        Unread(of(self.0))
    }

    /// A part that some kinds of it have. Whether it is there can be seen, so this is for kinds between which the verifier chooses.
    pub fn case<U>(self, of: fn(&T) -> Option<&U>) -> Option<Unread<'a, U>> {
        of(self.0).map(Unread)
    }
}

impl<'a, T> Unread<'a, Vec<T>> {
    /// A list of which the verifier knows how long it is. Another number is an error.
    pub fn exactly<E>(self, expected: usize, wrong: impl FnOnce(usize) -> E) -> Result<Unread<'a, [T]>, E> {
        match self.0.len() {
            got if got == expected => Ok(Unread(self.0)),
            got => Err(wrong(got)),
        }
    }

    /// A list that is as long as the prover likes: clipped values, and nothing else.
    pub fn of_any_length(self) -> Unread<'a, [T]> {
        Unread(self.0)
    }
}

impl<'a, T> Unread<'a, [T]> {
    /// The entries, each of them not read yet.
    pub fn each(self) -> impl Iterator<Item = Unread<'a, T>> {
        self.0.iter().map(Unread)
    }
}

impl<'a, T: Bound + Serialize> Unread<'a, T> {
    /// What needs no absorbing, under its name in errors.
    pub fn bound(self, what: &'static str) -> Result<&'a T, NotCanonical> {
        self.canonical(what)
    }
}

impl<'a, T: Serialize + ?Sized> Unread<'a, T> {
    /// All field elements are below the modulus.
    fn canonical(self, what: &'static str) -> Result<&'a T, NotCanonical> {
        let checked = check_canonical_fields(self.0).map(|()| self.0);
        checked.map_err(|_| NotCanonical { what })
    }
}

/// What is read without being absorbed, as messages that are absorbed bind it: opened leaves, which hash to a root, and the proof
/// of the STARK, of which stwo absorbs what it reads.
pub trait Bound {}

/// A nonce without the work that is asked for.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("{}: the nonce {nonce} does not have {} bits", work.label, work.bits)]
pub struct NoWork {
    /// What is asked for.
    pub work: Work,
    /// What the proof has.
    pub nonce: u64,
    /// The digest that the work is over.
    pub over: Digest,
}

/// What can be sent: how it is absorbed.
pub trait Message {
    /// Absorbs it.
    fn absorb(&self, label: &str, transcript: &mut Transcript);
}

impl Message for [K] {
    fn absorb(&self, label: &str, transcript: &mut Transcript) {
        transcript.message(label, self);
    }
}

impl Message for K {
    fn absorb(&self, label: &str, transcript: &mut Transcript) {
        transcript.message(label, &[*self]);
    }
}

impl<const N: usize> Message for [K; N] {
    fn absorb(&self, label: &str, transcript: &mut Transcript) {
        transcript.message(label, self);
    }
}

/// What there is of every tree of a group, or of every product.
impl<const N: usize> Message for [[K; N]] {
    fn absorb(&self, label: &str, transcript: &mut Transcript) {
        transcript.message(label, self.as_flattened());
    }
}

impl Message for Digest {
    fn absorb(&self, label: &str, transcript: &mut Transcript) {
        transcript.bytes(label, self);
    }
}

impl Message for [Clip] {
    fn absorb(&self, label: &str, transcript: &mut Transcript) {
        let words = |c: &Clip| {
            let [low, high] = [c.at as u32, (c.at >> 32) as u32];
            [c.part.into(), c.tensor.into(), low, high, c.excess as u32]
        };
        let words: Vec<u32> = self.iter().flat_map(words).collect();
        transcript.words(label, &words);
    }
}

/// A field element that is not reduced.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("{what}: a field element is not canonical")]
pub struct NotCanonical {
    /// Where: the label of a message, or what is opened.
    pub what: &'static str,
}

/// The conversation itself.
impl Transcript {
    /// The prover says something.
    pub fn send<T: Message + ?Sized>(&mut self, label: &'static str, message: &T) {
        message.absorb(label, self);
    }

    /// The verifier hears it.
    pub fn receive<'a, T: Message + Serialize + ?Sized>(
        &mut self,
        label: &'static str,
        said: Unread<'a, T>,
    ) -> Result<&'a T, NotCanonical> {
        let message = said.canonical(label)?;
        self.send(label, message);
        Ok(message)
    }

    /// The nonce of a proof of work over everything absorbed so far.
    pub fn receive_work(&mut self, work: Work, nonce: Unread<'_, u64>) -> Result<(), NoWork> {
        let (nonce, over) = (*nonce.0, *self.channel().digest());
        let done = self.work(work, nonce);
        done.then_some(()).ok_or(NoWork { work, nonce, over })
    }
}

/// The labels of a message and of the challenge that answers it.
#[derive(Clone, Copy, Debug)]
pub struct Exchange(pub &'static str, pub &'static str);

impl Exchange {
    /// Sends the message; returns the challenge.
    pub fn send<T: Message + ?Sized>(self, message: &T, transcript: &mut Transcript) -> K {
        transcript.send(self.0, message);
        transcript.challenge(self.1)
    }

    /// Receives the message; also returns the challenge.
    pub fn receive<T: Message + Serialize + Copy>(
        self,
        said: Unread<'_, T>,
        transcript: &mut Transcript,
    ) -> Result<(T, K), NotCanonical> {
        let message = *transcript.receive(self.0, said)?;
        Ok((message, transcript.challenge(self.1)))
    }
}

#[cfg(test)]
mod tests;
