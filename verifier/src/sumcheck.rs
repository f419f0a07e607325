//! Batched product sumcheck of degree 2 (docs/protocol.md, section 6), the twin of the prover's
//! `sumcheck`: the same loop, reading what the other writes.
//!
//! Instance `f` has `k_f` variables and pairs `(A, B)` of tables; its value is
//! `sum_z sum_pairs A(z) B(z)`. The batch claims the sum of all values. With `n` the largest `k_f`, a
//! smaller instance is embedded as `2^-(n - k_f) sum_pairs A(suffix) B(suffix)` over its last `k_f`
//! variables, so that it keeps its value and is bound at the last `k_f` challenges.
//!
//! **What the caller still owes:** [`verify`] rejects nothing but a wrong number of rounds. The batch claim
//! holds only if the returned [`SumcheckClaim`] is discharged, that is, if its value equals
//! `sum_f instance_scale(n, k_f) sum_pairs A~(rho_f) B~(rho_f)` with `rho_f` the last `k_f` coordinates of
//! its point ([`SumcheckClaim::instance_point`]) and evaluations that are themselves proved.

use serde::{Deserialize, Serialize};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use thiserror::Error;

use crate::listen::{Listener, Received};
use crate::message::{Exchange, NoWork, NotCanonical, Unread};
use crate::transcript::{Transcript, Work};

/// `2^-1` in the base field.
const HALF: BaseField = BaseField::from_u32_unchecked(1 << 30);

/// The message of a round: two numbers that say a polynomial of degree 2 of which the claim is known. Here its values at 0 and 2.
pub type Round<V = SecureField> = [V; 2];

/// Messages of the prover: `[s(0), s(2)]` of every round polynomial `s`; `s(1)` is implied by the claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SumcheckProof {
    /// Values at 0 and 2 of every round's polynomial.
    pub rounds: Vec<Round>,
}

/// What remains to be shown after some rounds: the batch polynomial, with its first variables bound to `point`, sums up to `value`.
#[must_use = "a sumcheck proves nothing until its final claim is discharged"]
#[derive(Debug, PartialEq, Eq)]
pub struct SumcheckClaim<V = SecureField> {
    /// The challenges, in the order of the rounds.
    pub point: Vec<SecureField>,
    /// What the claim comes down to at the point.
    pub value: V,
}

impl<V: Received> SumcheckClaim<V> {
    /// The claim before the first round.
    pub const fn new(value: V) -> Self {
        let point = Vec::new();
        Self { point, value }
    }

    /// Receives a round; `value` is that of its polynomial, from the claim, the message and the challenge.
    pub fn round<L: Listener<Value = V>>(
        &mut self,
        labels: Exchange,
        said: Unread<'_, Round>,
        value: impl FnOnce(V, Round<V>, SecureField) -> V,
        listener: &mut L,
    ) -> Result<(), NotCanonical> {
        let (message, r) = listener.exchange(labels, said)?;
        self.value = value(self.value.clone(), message, r);
        self.point.push(r);
        Ok(())
    }

    /// Receives a round of a polynomial that [`round_value`] evaluates. Its challenge may be drawn after a proof of work, with this nonce.
    pub fn worked_round<L: Listener<Value = V>, E: From<NotCanonical> + From<NoWork>>(
        &mut self,
        labels: Exchange,
        said: Unread<'_, Round>,
        work: Option<(Work, Unread<'_, u64>)>,
        listener: &mut L,
    ) -> Result<(), E> {
        let message = listener.receive(labels.0, said)?;
        if let Some((work, nonce)) = work {
            listener.transcript().receive_work(work, nonce)?;
        }
        let r = listener.transcript().challenge(labels.1);
        self.value = round_value(self.value.clone(), message, r);
        self.point.push(r);
        Ok(())
    }

    /// Receives all rounds, of polynomials that [`round_value`] evaluates.
    pub fn rounds<L: Listener<Value = V>>(
        mut self,
        labels: Exchange,
        said: Unread<'_, [Round]>,
        listener: &mut L,
    ) -> Result<Self, NotCanonical> {
        said.each()
            .try_for_each(|said| self.round(labels, said, round_value, listener))?;
        Ok(self)
    }

    /// The point at which an instance of `instance_variables` variables is bound: the last coordinates.
    /// `None` when there are fewer.
    pub fn instance_point(&self, instance_variables: usize) -> Option<&[SecureField]> {
        let skip = self.point.len().checked_sub(instance_variables)?;
        self.point.get(skip..)
    }
}

/// A sumcheck that does not fit its statement.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
// The messages say what each is.
#[allow(missing_docs)]
#[non_exhaustive]
pub enum SumcheckError {
    /// The number of round messages is not the number of variables.
    #[error("sumcheck {label}: {got} rounds, expected {expected}")]
    Rounds { label: String, got: usize, expected: usize },
    #[error(transparent)]
    NotCanonical(#[from] NotCanonical),
    #[error(transparent)]
    Work(#[from] NoWork),
}

/// Absorbs how many variables a batch has. Both sides call it first.
pub fn begin_batch(label: &str, variables: usize, transcript: &mut Transcript) {
    let variables = variables as u64;
    transcript.words(label, &[variables as u32, (variables >> 32) as u32]);
}

/// Begins a batch with what it claims, as far as the transcript absorbs it ([`Listener::known`]).
pub fn open_batch(label: &'static str, claim: SecureField, variables: usize, transcript: &mut Transcript) {
    begin_batch(label, variables, transcript);
    transcript.send(label, &claim);
}

/// The rounds of a batch.
pub const fn rounds_of(label: &'static str) -> Exchange {
    Exchange(label, label)
}

/// `s(r)` of the polynomial of degree 2 with `s(0)`, `s(2)` as given and `s(0) + s(1) = claim`.
pub fn round_value<V: Received>(claim: V, [s0, s2]: Round<V>, r: SecureField) -> V {
    let s1 = claim - s0.clone();
    let slope = s1.clone() - s0.clone();
    let second = (s2 - s1 - slope.clone()) * HALF;
    s0 + (slope + second * (r - BaseField::from_u32_unchecked(1))) * r
}

/// `2^-(variables - instance_variables)`: what the embedding multiplies an instance with.
pub fn instance_scale(variables: usize, instance_variables: usize) -> SecureField {
    instance_factor(variables, instance_variables).into()
}

/// The same as a number.
pub fn instance_factor(variables: usize, instance_variables: usize) -> BaseField {
    // 2 has order 31 modulo 2^31 - 1.
    let exponent = (instance_variables % 31 + 31 - variables % 31) % 31;
    BaseField::from_u32_unchecked(1 << exponent)
}

/// Verifies a batch over `variables` variables whose values add up to `claim`; its last challenge may be drawn after a proof of work. The
/// returned claim must be discharged by the caller (see the module documentation).
pub fn verify<L: Listener>(
    label: &'static str,
    claim: L::Value,
    variables: usize,
    proof: Unread<'_, SumcheckProof>,
    last: Option<(Work, Unread<'_, u64>)>,
    listener: &mut L,
) -> Result<SumcheckClaim<L::Value>, SumcheckError> {
    open_batch(label, listener.known(&claim), variables, listener.transcript());
    let rounds = rounds(label, variables, proof)?;
    let mut end = SumcheckClaim::new(claim);
    for (round, said) in (1..).zip(rounds.each()) {
        let work = last.filter(|_| round == variables);
        end.worked_round::<L, SumcheckError>(rounds_of(label), said, work, listener)?;
    }
    Ok(end)
}

/// As [`verify`], of a claim that is the prover's, and is returned.
pub fn verify_said<L: Listener>(
    label: &'static str,
    claim: Unread<'_, SecureField>,
    variables: usize,
    proof: Unread<'_, SumcheckProof>,
    listener: &mut L,
) -> Result<(L::Value, SumcheckClaim<L::Value>), SumcheckError> {
    begin_batch(label, variables, listener.transcript());
    let claim = listener.receive(label, claim)?;
    let rounds = rounds(label, variables, proof)?;
    let end = SumcheckClaim::new(claim.clone()).rounds(rounds_of(label), rounds, listener)?;
    Ok((claim, end))
}

/// As many rounds as there are variables.
fn rounds<'a>(
    label: &'static str,
    variables: usize,
    proof: Unread<'a, SumcheckProof>,
) -> Result<Unread<'a, [Round]>, SumcheckError> {
    let wrong = |got| SumcheckError::Rounds {
        label: label.to_owned(),
        got,
        expected: variables,
    };
    proof.part(|p| &p.rounds).exactly(variables, wrong)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use num_traits::One;
    use proptest::prelude::*;
    use std::ops::{Add, Mul, Sub};
    use stwo::core::fields::m31::P;

    pub fn secure() -> impl Strategy<Value = SecureField> {
        [0..P, 0..P, 0..P, 0..P].prop_map(|[a, b, c, d]| SecureField::from_u32_unchecked(a, b, c, d))
    }

    /// A value under a mask: what is shown, and the mask in it. Two of them have no product.
    #[derive(Clone, Debug)]
    pub struct Masked {
        shown: SecureField,
        mask: SecureField,
    }

    impl Masked {
        pub fn new(value: SecureField, mask: SecureField) -> Self {
            let shown = value + mask;
            Self { shown, mask }
        }

        pub fn value(&self) -> SecureField {
            self.shown - self.mask
        }
    }

    impl Received for Masked {}

    impl From<SecureField> for Masked {
        fn from(shown: SecureField) -> Self {
            let mask = SecureField::default();
            Self { shown, mask }
        }
    }

    impl Add for Masked {
        type Output = Self;
        fn add(self, other: Self) -> Self {
            let (shown, mask) = (self.shown + other.shown, self.mask + other.mask);
            Self { shown, mask }
        }
    }

    impl Sub for Masked {
        type Output = Self;
        fn sub(self, other: Self) -> Self {
            let (shown, mask) = (self.shown - other.shown, self.mask - other.mask);
            Self { shown, mask }
        }
    }

    impl Mul<SecureField> for Masked {
        type Output = Self;
        fn mul(self, by: SecureField) -> Self {
            let (shown, mask) = (self.shown * by, self.mask * by);
            Self { shown, mask }
        }
    }

    impl Mul<BaseField> for Masked {
        type Output = Self;
        fn mul(self, by: BaseField) -> Self {
            self * SecureField::from(by)
        }
    }

    proptest! {
        /// Rounds end where they do without masks.
        #[test]
        fn rounds_run_on_masked_values(values in [secure(), secure(), secure()], masks in [secure(), secure(), secure()], r in secure()) {
            let [claim, s0, s2] = [0, 1, 2].map(|i| Masked::new(values[i], masks[i]));
            let end = round_value(claim, [s0, s2], r);
            prop_assert_eq!(end.value(), round_value(values[0], [values[1], values[2]], r));
        }

        #[test]
        fn round_value_interpolates([c0, c1, c2, r] in [secure(), secure(), secure(), secure()]) {
            let s = |x: SecureField| c0 + x * (c1 + x * c2);
            let [zero, one, two] = [0u32, 1, 2].map(SecureField::from);
            let claim = s(zero) + s(one);
            prop_assert_eq!(round_value(claim, [s(zero), s(two)], r), s(r));
        }

        #[test]
        fn scale_is_the_inverse_power_of_two(n in 0usize..200, k in 0usize..200) {
            let (large, small) = (n.max(k), n.min(k));
            let power = (small..large).fold(SecureField::one(), |acc, _| acc + acc);
            prop_assert_eq!(instance_scale(large, small) * power, SecureField::one());
        }
    }

    #[test]
    fn the_number_of_rounds_is_checked() {
        for got in [0, 1, 3] {
            let proof = SumcheckProof {
                rounds: vec![[SecureField::one(); 2]; got],
            };
            let result = verify(
                "batch",
                SecureField::one(),
                2,
                Unread::of(&proof),
                None,
                &mut Transcript::new("test"),
            );
            let expected = SumcheckError::Rounds {
                label: "batch".to_owned(),
                got,
                expected: 2,
            };
            assert_eq!(result, Err(expected));
        }
    }

    #[test]
    fn no_variables_leave_the_claim() {
        let proof = SumcheckProof { rounds: vec![] };
        let claim = SecureField::from(7u32);
        let result = verify(
            "batch",
            claim,
            0,
            Unread::of(&proof),
            None,
            &mut Transcript::new("test"),
        );
        assert_eq!(result.as_ref().map(|c| c.value), Ok(claim));
        let claim = result.unwrap();
        assert_eq!(claim.instance_point(0), Some(&[][..]));
        assert_eq!(claim.instance_point(1), None);
    }
}
