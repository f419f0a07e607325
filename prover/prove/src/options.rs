//! Options of a proof.

use tessera_circuits::statement::{HiddenIds, Statement};
use tessera_verifier::context::Context;

/// Options of a proof that its statement does not say.
#[derive(Clone, Copy, Default)]
pub struct ProofOptions<'a> {
    /// The context that the proof holds in, and in no other; any if there is none.
    pub context: Option<Context>,
    /// Whether the proof hides the activations: its readers learn nothing of them but what the statement says. No value may be clipped.
    pub hide_activations: bool,
    /// The ids that the proof hides. If it hides any, it hides the activations, too.
    pub hidden_ids: HiddenIds,
    /// For how many reveals of ids that the proof hides it leaves room. If there are any, [`crate::ProveReport::kept`] has the secret that they need.
    pub reveals: usize,
    /// Whether the proof is refused, before anything is committed to, if it would list clipped values.
    pub without_clips: bool,
    /// Statements that are not to be proved, each with the reason why.
    pub admits: Option<Admits<'a>>,
}

/// Says why a statement is not to be proved, if it is not.
pub type Admits<'a> = &'a (dyn Fn(&Statement) -> Result<(), String> + Sync);

impl From<Option<Context>> for ProofOptions<'_> {
    fn from(context: Option<Context>) -> Self {
        Self {
            context,
            ..Self::default()
        }
    }
}
