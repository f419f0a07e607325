//! Proofs that hide activations (docs/protocol.md, section 17): a reader of such a proof learns nothing of them beyond what the statement says.
//!
//! Every message of the prover before the folding of the opening is under one-time pads: entries of a committed *tape*. The verifier runs the
//! checks of a proof in clear on [`Padded`] values ([`Hearing`] is a [`crate::listen::Listener`]), and what is left, equations that are linear in the tape, is opened
//! in the folding. A *mask* of uniform values makes the folded word uniform. Both are committed to behind the columns of the activations, each of
//! which ends in a *blind unit* of uniform values ([`HiddenCode`]).

mod code;
mod hearing;
mod padded;
mod tape;

use serde::{Deserialize, Serialize};
use stwo::core::fields::qm31::SecureField;

use crate::sumcheck::SumcheckProof;

pub use self::code::{most_reveals, HiddenCode};
pub use self::hearing::Hearing;
pub use self::padded::Padded;
pub use self::tape::{Tape, TapeProducts};

/// The messages of a proof that hides activations and of no other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HiddenProof {
    /// For how many reveals the tape has room (docs/protocol.md, section 17.7).
    pub reveals: u32,
    /// The messages of its opening that are about the tape.
    pub tape: TapeProof,
    /// The product of the digits of hidden ids.
    pub digits: DigitsProof,
}

/// The messages of an opening that are about its tape. An opening without a tape has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TapeProof {
    /// The answers about products: of every operand of every equation, in order, its mask plus a challenge times its pad.
    pub answers: Vec<SecureField>,
    /// The sum of all columns weighed as it is claimed, the tape weighed in the same way, and the sum of all columns weighed as the equations weigh the
    /// tape.
    pub values: [SecureField; 3],
    /// Nonce of the proof of work before the tape is added to the sum.
    pub work: u64,
}

/// The sumcheck of the product of the digits of hidden ids (docs/protocol.md, section 17.6). All lists are empty if no ids of rows are hidden.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigitsProof {
    /// The rounds.
    pub rounds: SumcheckProof,
    /// The last evaluations of both factors: one pair.
    pub factors: Vec<[SecureField; 2]>,
}
