//! Everything that is said of a chunk, in its order: the table of docs/protocol.md, section 11, from the commitments on. What is
//! public is absorbed before it ([`crate::verify::open_transcript`]), and what is claimed of commitments before their opening
//! ([`crate::opening::verify`]).

use crate::message::Exchange;

/// Root of the activations.
pub const ACTIVATIONS: &str = "activations";
/// Logits of output tokens.
pub const OUTPUT_LOGITS: &str = "output logits";
/// Values that did not fit: the one message whose length depends on activations.
pub const CLIPPED_VALUES: &str = "clipped values";
/// The challenge whose powers weigh the balance groups, where there are two or more.
pub const TREES: &str = "trees";
/// Proof of work before the challenges of the lookups.
pub const LOOKUP_GRIND: &str = "lookup work";

/// Of every tree of a group its sum, and its denominator.
pub const LOOKUP_SUM: &str = "lookup sum";
/// The challenge that combines numerators and denominators of a layer of all trees.
pub const LOOKUP_LAYER: &str = "lookup layer";
/// A round of a layer.
pub const LOOKUP_ROUND: Exchange = Exchange("lookup round", "lookup round");
/// The values of both children of every tree, and the coordinate that chooses between them.
pub const LOOKUP_CHILDREN: Exchange = Exchange("lookup children", "lookup children");

/// The random point with its scalars.
pub const POINTS: &str = "points";
/// The sumcheck of the matmuls.
pub const MATMULS: &str = "matmuls";
/// What it ends in.
pub const OPERANDS: &str = "operands";
/// The challenge of the claim on the weights.
pub const FAMILIES: &str = "weight families";
/// The challenge of the linear claims, and their sumcheck.
pub const CLAIMS: &str = "claims";

/// A round of a band sumcheck.
pub const BAND_ROUND: Exchange = Exchange("opening band round", "opening band challenge");
/// The evaluation that it ends at.
pub const EVALUATION: &str = "opening evaluation";
/// The values of every combined column at the points of the other claims.
pub const CROSS_VALUES: &str = "opening cross values";
/// The challenge that adds the columns, and the one that adds the claims on their sum.
pub const SUM: [&str; 2] = ["opening sum", "opening points"];
/// Root of a folded oracle.
pub const ORACLE: &str = "opening oracle";
/// A fold.
pub const FOLD_ROUND: Exchange = Exchange("opening fold round", "opening fold challenge");
/// The last folded message.
pub const FINAL_MESSAGE: &str = "opening final message";
/// Proof of work before the queries.
pub const OPENING_GRIND: &str = "opening work";

/// What the entries of the tables add up to.
pub const CLAIMED_SUM: &str = "claimed sum";
