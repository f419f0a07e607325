//! A verifier hears numbers in a proof that hides nothing ([`Transcript`] is a [`Listener`]), and values under pads in a proof that hides
//! activations ([`crate::hiding`]). Every check before the folding of an opening is written once, for both.
//!
//! A value under a pad can be added, and multiplied by what the verifier knows. It cannot be tested, and two of them cannot be multiplied, so a
//! check hands what must be zero to [`Listener::zero`], and equations with products to [`Listener::product`].

use std::ops::{Add, Mul, Sub};

use num_traits::Zero;
use serde::Serialize;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use thiserror::Error;

use crate::message::{Exchange, Message, NoWork, NotCanonical, Unread};
use crate::transcript::Transcript;

type K = SecureField;

/// A value that the prover says, or that follows from such values: it is multiplied with challenges and constants, but no two such values are multiplied with
/// each other. So a verifier can run on values under pads, too. Where a product of two is needed, it is part of an equation
/// ([`Products`]).
pub trait Received:
    Clone
    + From<SecureField>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<SecureField, Output = Self>
    + Mul<BaseField, Output = Self>
{
}

impl Received for SecureField {}

/// A quadratic form: products of two operands, by their places, each with its coefficient. It follows from the shape alone.
pub type Form = Vec<(usize, usize, BaseField)>;

/// An equation with products of received values: `sum_f weight_f form_f(operands) = sum`.
#[derive(Clone, Debug)]
pub struct Products<V> {
    /// The values that are multiplied, each as it was received.
    pub operands: Vec<V>,
    /// The forms, each with its weight: a function of challenges.
    pub forms: Vec<(K, Form)>,
    /// The value that the weighted forms add up to.
    pub sum: V,
}

/// The value of a quadratic form.
pub fn evaluate(form: &Form, operands: &[K]) -> K {
    let at = |place: &usize| operands.get(*place).copied().unwrap_or_default();
    form.iter().map(|(a, b, factor)| at(a) * at(b) * *factor).sum()
}

/// Why what a proof says of its tape is rejected.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
// The messages say what each is.
#[allow(missing_docs)]
#[non_exhaustive]
pub enum TapeError {
    #[error("hiding: the conversation does not fit the tape")]
    Layout,
    #[error("hiding: {got} answers about products, expected {expected}")]
    Answers { got: usize, expected: usize },
    #[error("hiding: nothing is said of the tape")]
    Unsaid,
    #[error(transparent)]
    NotCanonical(#[from] NotCanonical),
    #[error(transparent)]
    Work(#[from] NoWork),
}

/// The claim on the sum of all columns of an opening, as it is folded.
#[derive(Clone, Debug)]
pub struct FoldedClaim {
    /// The claimed value of the weighted sum.
    pub value: K,
    /// The part of the tape; none if the proof hides nothing.
    pub tape: Option<TapeClaim>,
}

/// The part of the tape in the claim on the sum of all columns (docs/protocol.md, section 17.4).
#[derive(Clone, Debug)]
pub struct TapeClaim {
    /// The factor of the tape in the sum.
    pub scale: K,
    /// The weights of the sum at the entries of the tape, from the first entry on.
    pub weights: Vec<K>,
}

/// A message of field elements, which a listener takes element by element.
pub trait Spoken: Message {
    /// The message with a value in the place of every element.
    type Of<V>;

    /// Takes element by element, in the order in which they are absorbed.
    fn each<V>(&self, hear: &mut dyn FnMut(K) -> V) -> Self::Of<V>;
}

impl Spoken for K {
    type Of<V> = V;
    fn each<V>(&self, hear: &mut dyn FnMut(K) -> V) -> V {
        hear(*self)
    }
}

impl<const N: usize> Spoken for [K; N] {
    type Of<V> = [V; N];
    fn each<V>(&self, hear: &mut dyn FnMut(K) -> V) -> [V; N] {
        self.map(hear)
    }
}

impl Spoken for [K] {
    type Of<V> = Vec<V>;
    fn each<V>(&self, hear: &mut dyn FnMut(K) -> V) -> Vec<V> {
        self.iter().map(|said| hear(*said)).collect()
    }
}

impl<const N: usize> Spoken for [[K; N]] {
    type Of<V> = Vec<[V; N]>;
    fn each<V>(&self, hear: &mut dyn FnMut(K) -> V) -> Vec<[V; N]> {
        self.iter().map(|said| said.map(&mut *hear)).collect()
    }
}

/// A verifier's side of the conversation, up to the folding of the opening.
pub trait Listener: Sized {
    /// A received value.
    type Value: Received;

    /// The transcript of the conversation.
    fn transcript(&mut self) -> &mut Transcript;

    /// The next element that is said.
    fn hear(&mut self, said: K) -> Self::Value;

    /// The element that the transcript absorbs for a value that follows from earlier messages: the value, or zero if it is under pads, because the verifier does
    /// not know it.
    fn known(&self, value: &Self::Value) -> K;

    /// A value that must be zero, or the error.
    fn zero<E>(&mut self, value: Self::Value, wrong: E) -> Result<(), E>;

    /// A value that must not be zero, or the error. A value under pads cannot be tested: docs/security.md counts the chance of a zero.
    fn not_zero<E>(&mut self, value: &Self::Value, wrong: E) -> Result<(), E>;

    /// An equation that must hold, or the error.
    fn product<E>(&mut self, equation: Products<Self::Value>, wrong: E) -> Result<(), E>;

    /// Number of columns that an opening adds to those that claims are about: one if there is a mask.
    fn masks(&self) -> usize;

    /// Hears the messages between the last band sumcheck and the cross values: the answers about products, if values are under pads.
    fn before_cross_values(&mut self) -> Result<(), TapeError>;

    /// The claim on the sum of all columns, in clear.
    fn fold(&mut self, value: Self::Value) -> Result<FoldedClaim, TapeError>;

    /// Receives a message.
    fn receive<T: Spoken + Serialize + ?Sized>(
        &mut self,
        label: &'static str,
        said: Unread<'_, T>,
    ) -> Result<T::Of<Self::Value>, NotCanonical> {
        let message = self.transcript().receive(label, said)?;
        Ok(message.each(&mut |element| self.hear(element)))
    }

    /// Receives a message, and draws the challenge that answers it.
    fn exchange<T: Spoken + Serialize + ?Sized>(
        &mut self,
        Exchange(label, answer): Exchange,
        said: Unread<'_, T>,
    ) -> Result<(T::Of<Self::Value>, K), NotCanonical> {
        let message = self.receive(label, said)?;
        Ok((message, self.transcript().challenge(answer)))
    }
}

/// Hears numbers, and tests at once what they must satisfy.
impl Listener for Transcript {
    type Value = K;

    fn transcript(&mut self) -> &mut Transcript {
        self
    }

    fn hear(&mut self, said: K) -> K {
        said
    }

    fn known(&self, value: &K) -> K {
        *value
    }

    fn zero<E>(&mut self, value: K, wrong: E) -> Result<(), E> {
        match value.is_zero() {
            true => Ok(()),
            false => Err(wrong),
        }
    }

    fn not_zero<E>(&mut self, value: &K, wrong: E) -> Result<(), E> {
        match value.is_zero() {
            true => Err(wrong),
            false => Ok(()),
        }
    }

    fn product<E>(&mut self, equation: Products<K>, wrong: E) -> Result<(), E> {
        let Products { operands, forms, sum } = equation;
        let value: K = forms
            .iter()
            .map(|(weight, form)| *weight * evaluate(form, &operands))
            .sum();
        self.zero(value - sum, wrong)
    }

    fn masks(&self) -> usize {
        0
    }

    fn before_cross_values(&mut self) -> Result<(), TapeError> {
        Ok(())
    }

    fn fold(&mut self, value: K) -> Result<FoldedClaim, TapeError> {
        Ok(FoldedClaim { value, tape: None })
    }
}
