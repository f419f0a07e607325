//! The verifier of a proof that hides activations.

use stwo::core::fields::qm31::SecureField;

use super::padded::Padded;
use super::tape::{Tape, TapeProducts};
use super::TapeProof;
use crate::labels::{ANSWERS, EQUATIONS, TAPE, TAPE_VALUES, TAPE_WORK};
use crate::listen::{evaluate, FoldedClaim, Listener, Products, TapeClaim, TapeError};
use crate::message::Unread;
use crate::transcript::Transcript;

type K = SecureField;

/// Hears values under pads, and collects what they must satisfy: equations that are linear in the tape.
#[derive(Clone, Debug)]
pub struct Hearing<'a> {
    transcript: Transcript,
    tape: &'a Tape,
    /// The messages about the tape, as soon as the opening begins.
    said: Option<Unread<'a, TapeProof>>,
    /// The pad of the next element.
    next: usize,
    products: Vec<Products<Padded>>,
    /// Values that must be zero.
    equations: Vec<Padded>,
}

impl<'a> Hearing<'a> {
    /// A conversation whose transcript has absorbed everything up to the first message under pads.
    pub const fn new(transcript: Transcript, tape: &'a Tape) -> Self {
        Self {
            transcript,
            tape,
            said: None,
            next: tape.unused,
            products: Vec::new(),
            equations: Vec::new(),
        }
    }

    /// Continues the conversation with an opening, in which the prover sends these messages about the tape.
    pub fn opening<'b>(&self, said: Unread<'b, TapeProof>) -> Hearing<'b>
    where
        'a: 'b,
    {
        let own: Hearing<'b> = self.clone();
        Hearing {
            said: Some(said),
            ..own
        }
    }

    /// The messages about the tape. There are none before [`Self::opening`].
    fn said(&self) -> Result<Unread<'a, TapeProof>, TapeError> {
        self.said.ok_or(TapeError::Unsaid)
    }

    /// Draws the challenge that batches the value of the claim and all equations. Returns `h` and `c` of docs/protocol.md, section 17.4: the weights of the entries
    /// of the tape, and the sum of all that is shown.
    ///
    /// # Errors
    /// If not every pad of the tape has been used.
    pub fn equations(&mut self, value: Padded) -> Result<(Vec<K>, K), TapeError> {
        if self.next != self.tape.entries {
            return Err(TapeError::Layout);
        }
        let challenge = self.transcript.challenge(EQUATIONS);
        let (mut weights, mut constant) = (vec![K::default(); self.tape.entries], K::default());
        let mut power = K::from(1);
        for equation in std::iter::once(&value).chain(&self.equations) {
            constant += power * equation.shown;
            for (entry, weight) in &equation.form {
                let own = weights.get_mut(*entry).ok_or(TapeError::Layout)?;
                *own += power * *weight;
            }
            power *= challenge;
        }
        Ok((weights, constant))
    }

    /// Adds the equations that an equation with products leaves, given the answers about it (docs/protocol.md, section 17.3).
    fn settle(&mut self, equation: &Products<Padded>, tape: &TapeProducts, answers: &[K], challenge: K) {
        let minus = |entry: usize| Padded::under(K::default(), entry);
        let shown: Vec<K> = equation.operands.iter().map(|operand| operand.shown).collect();
        let at = |place: usize| shown.get(place).copied().unwrap_or_default();
        // An operand is `s - p`, what is shown minus its pad, so a product of two is `s s' - s p' - s' p + p p'`; the form of the pads is on the tape.
        let mut left = Padded::from(K::default());
        let mut along = vec![K::default(); shown.len()];
        for (own, (weight, form)) in equation.forms.iter().enumerate() {
            let [of_pads, ..] = tape.scalars(own);
            left = left + (Padded::from(evaluate(form, &shown)) - minus(of_pads)) * *weight;
            for (a, b, factor) in form {
                for (place, other) in [(*a, *b), (*b, *a)] {
                    if let Some(sum) = along.get_mut(place) {
                        *sum += *weight * at(other) * *factor;
                    }
                }
            }
        }
        let linear = tape.operands.iter().zip(along);
        left = linear.fold(left, |sum, (pad, weight)| sum + minus(*pad) * weight);
        self.equations.push(left - equation.sum.clone());
        // An answer is `mask + challenge pad`, and the form of the answers follows from the scalars.
        for ((mask, pad), answer) in tape.masks().zip(&tape.operands).zip(answers) {
            let own = minus(mask) + minus(*pad) * challenge;
            self.equations.push(Padded::from(*answer) + own);
        }
        for (own, (_, form)) in equation.forms.iter().enumerate() {
            let [of_pads, of_both, of_masks] = tape.scalars(own).map(minus);
            let own = of_masks + of_both * challenge + of_pads * (challenge * challenge);
            self.equations.push(Padded::from(evaluate(form, answers)) + own);
        }
    }
}

impl Listener for Hearing<'_> {
    type Value = Padded;

    fn transcript(&mut self) -> &mut Transcript {
        &mut self.transcript
    }

    fn hear(&mut self, said: K) -> Padded {
        self.next += 1;
        Padded::under(said, self.next - 1)
    }

    fn known(&self, _: &Padded) -> K {
        K::default()
    }

    fn zero<E>(&mut self, value: Padded, _: E) -> Result<(), E> {
        self.equations.push(value);
        Ok(())
    }

    fn not_zero<E>(&mut self, _: &Padded, _: E) -> Result<(), E> {
        Ok(())
    }

    fn product<E>(&mut self, equation: Products<Padded>, _: E) -> Result<(), E> {
        self.products.push(equation);
        Ok(())
    }

    fn masks(&self) -> usize {
        1
    }

    fn before_cross_values(&mut self) -> Result<(), TapeError> {
        // The tape was laid out from the shape; what is heard is laid out as it is, or scalars of it would be of other products.
        let products = std::mem::take(&mut self.products);
        let same = |(own, tape): (&Products<Padded>, &TapeProducts)| {
            let operands = own.operands.iter().map(Padded::pad);
            let forms = own.forms.iter().map(|(_, form)| form);
            operands.eq(tape.operands.iter().map(|pad| Some(*pad))) && forms.eq(&tape.forms)
        };
        let tape = self.tape;
        if self.next != tape.messages || products.len() != tape.products.len() {
            return Err(TapeError::Layout);
        }
        if !products.iter().zip(&tape.products).all(same) {
            return Err(TapeError::Layout);
        }
        let challenge = self.transcript.challenge(ANSWERS);
        let expected = tape.products.iter().map(|own| own.operands.len()).sum();
        let said = self.said()?.part(|own| &own.answers);
        let said = said.exactly(expected, |got| TapeError::Answers { got, expected })?;
        let mut answers = self.transcript.receive(ANSWERS, said)?;
        for (equation, tape) in products.iter().zip(&tape.products) {
            let (own, others) = answers.split_at_checked(tape.operands.len()).unwrap_or((answers, &[]));
            self.settle(equation, tape, own, challenge);
            answers = others;
        }
        self.next = tape.cross;
        Ok(())
    }

    fn fold(&mut self, value: Padded) -> Result<FoldedClaim, TapeError> {
        let (weights, constant) = self.equations(value)?;
        let said = self.said()?;
        let [sum, tape, equations] = *self.transcript.receive(TAPE_VALUES, said.part(|own| &own.values))?;
        self.transcript.receive_work(TAPE_WORK, said.part(|own| &own.work))?;
        let [scale, weight] = TAPE.map(|label| self.transcript.challenge(label));
        Ok(FoldedClaim {
            value: sum + scale * tape + weight * (equations + scale * (constant - sum)),
            tape: Some(TapeClaim {
                scale,
                weights: weights.into_iter().map(|own| weight * own).collect(),
            }),
        })
    }
}
