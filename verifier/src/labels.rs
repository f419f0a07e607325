//! Everything that is said of a chunk, in its order: the table of docs/protocol.md, section 11, from the commitments on. What is
//! public is absorbed before it ([`crate::verify::open_transcript`]), and what is claimed of commitments before their opening
//! ([`crate::opening::verify`]).

use crate::message::Exchange;
use crate::policy::{CHALLENGE_GRIND_BITS, LOOKUP_GRIND_BITS};
use crate::transcript::Work;

/// Root of the activations.
pub const ACTIVATIONS: &str = "activations";
/// Values that did not fit: the one message whose length depends on activations.
pub const CLIPPED_VALUES: &str = "clipped values";
/// The challenge whose powers weigh the balance groups, where there are two or more.
pub const TREES: &str = "trees";
/// Proof of work before the challenges of the lookups.
pub const LOOKUP_WORK: Work = Work {
    label: "lookup work",
    bits: LOOKUP_GRIND_BITS,
};

/// Of every tree of a group its sum, and its denominator.
pub const LOOKUP_SUM: &str = "lookup sum";
/// The challenge that combines numerators and denominators of a layer of all trees.
pub const LOOKUP_LAYER: &str = "lookup layer";
/// A round of a layer.
pub const LOOKUP_ROUND: Exchange = Exchange("lookup round", "lookup round");
/// The values of both children of every tree, and the coordinate that chooses between them.
pub const LOOKUP_CHILDREN: Exchange = Exchange("lookup children", "lookup children");

/// Proof of work before the random point: its last coordinate of outputs is the first fold of the weights.
pub const POINTS_WORK: Work = before("points work");
/// The random point with its scalars.
pub const POINTS: &str = "points";
/// The sumcheck of the matmuls.
pub const MATMULS: &str = "matmuls";
/// What it ends in, and what committed boundaries are at the random point.
pub const OPERANDS: &str = "operands";
/// The sumcheck of the product of the digits of hidden ids.
pub const DIGITS: &str = "digits";
/// The factors that this sumcheck ends in.
pub const DIGIT_FACTORS: &str = "digit factors";
/// The challenge of the claim on the weights.
pub const FAMILIES: &str = "weight families";
/// The challenge of the linear claims, and their sumcheck.
pub const CLAIMS: &str = "claims";
/// Proof of work before the last challenge of the linear claims, which is the first fold of the activations.
pub const CLAIMS_WORK: Work = before("claims work");

/// A round of a band sumcheck.
pub const BAND_ROUND: Exchange = Exchange("opening band round", "opening band challenge");
/// The label of the proof of work before each challenge that weighs columns.
pub const COLUMN_WORK: &str = "opening column work";
/// The evaluation that it ends at.
pub const EVALUATION: &str = "opening evaluation";
/// The challenge of the equations with products of a proof that hides activations, and the answers to it.
pub const ANSWERS: &str = "products";
/// The values of every combined column at the points of the other claims.
pub const CROSS_VALUES: &str = "opening cross values";
/// The label of the proof of work before both challenges that follow.
pub const SUM_WORK: &str = "opening sum work";
/// The challenge that adds the columns, and the one that adds the claims on their sum.
pub const SUM: [&str; 2] = ["opening sum", "opening points"];
/// The challenge that adds all equations of a proof that hides activations.
pub const EQUATIONS: &str = "equations";
/// What the sum of all columns and the tape come to under both weights.
pub const TAPE_VALUES: &str = "tape values";
/// Proof of work before both challenges that follow.
pub const TAPE_WORK: Work = before("tape work");
/// The challenge that adds the tape to the sum, and the one that adds the claims on both.
pub const TAPE: [&str; 2] = ["tape", "tape sum"];
/// Root of a folded oracle.
pub const ORACLE: &str = "opening oracle";
/// A fold.
pub const FOLD_ROUND: Exchange = Exchange("opening fold round", "opening fold challenge");
/// The label of the proof of work before each of the first folds of the sum.
pub const FOLD_WORK: &str = "opening fold work";
/// The last folded message.
pub const FINAL_MESSAGE: &str = "opening final message";
/// The label of the proof of work before the queries.
pub const QUERY_WORK: &str = "opening work";

/// Protocol name and version of reveals, the first thing their transcripts absorb, with the suffix of the suite.
pub const REVEALS: &str = "tessera/12 reveal";
/// The digest of the proof that hides ids.
pub const PROOF: &str = "proof";
/// The positions of revealed ids.
pub const POSITIONS: &str = "positions";
/// The revealed ids.
pub const IDS: &str = "ids";
/// Root of mask and tape of a reveal.
pub const MASK: &str = "mask";

/// What the entries of the tables add up to.
pub const CLAIMED_SUM: &str = "claimed sum";

/// The proof of work before a challenge that has as many bad values as a code has points.
const fn before(label: &'static str) -> Work {
    Work {
        label,
        bits: CHALLENGE_GRIND_BITS,
    }
}
