//! A prover says its messages as they are in a proof that hides nothing ([`Transcript`] is a [`Speaker`]), and under pads in a proof that hides activations
//! ([`crate::hiding`]). Every phase is written once, for both: a message is sent, and put into the proof, as the [`Speaker`] says it.

use std::borrow::Borrow;

use stwo::core::fields::qm31::SecureField;
use tessera_verifier::listen::Spoken;
use tessera_verifier::message::Exchange;
use tessera_verifier::transcript::Transcript;

type K = SecureField;

/// A prover's side of the conversation, up to the folding of the opening.
pub trait Speaker {
    /// The transcript of the conversation.
    fn transcript(&mut self) -> &mut Transcript;

    /// The next element as it is said: under its pad, if it has one.
    fn cover(&mut self, element: K) -> K;

    /// The element that the transcript absorbs for a value that follows from earlier messages: the twin of
    /// [`Listener::known`](tessera_verifier::listen::Listener::known).
    fn known(&self, value: K) -> K;
}

impl dyn Speaker + '_ {
    /// Says a message; returns it as it was said.
    pub fn say<T: Spoken + ?Sized>(&mut self, label: &'static str, message: &T) -> T::Of<K>
    where
        T::Of<K>: Borrow<T>,
    {
        let said = message.each(&mut |element| self.cover(element));
        self.transcript().send(label, said.borrow());
        said
    }

    /// Says a message, and draws the challenge that answers it.
    pub fn exchange<T: Spoken + ?Sized>(&mut self, Exchange(label, answer): Exchange, message: &T) -> (T::Of<K>, K)
    where
        T::Of<K>: Borrow<T>,
    {
        let said = self.say(label, message);
        (said, self.transcript().challenge(answer))
    }
}

/// Says messages as they are.
impl Speaker for Transcript {
    fn transcript(&mut self) -> &mut Transcript {
        self
    }

    fn cover(&mut self, element: K) -> K {
        element
    }

    fn known(&self, value: K) -> K {
        value
    }
}
