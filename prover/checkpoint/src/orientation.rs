//! Which axis of a stored weight matrix comes first. The architecture decides; shapes never do, because square matrices
//! would be guessed.

use tessera_circuits::model::MatmulKind;

use super::families::{self, Family};

/// The order of the axes of a stored matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orientation {
    /// `[out, in]`: a row per output channel, as linear layers have it.
    OutputsFirst,
    /// `[in, out]`: a row per input channel, as embeddings and GPT-2's `Conv1D` have it.
    InputsFirst,
}

/// The orientation of the matrices of a kind by the convention of an architecture (as `architectures` of `config.json`
/// names it); `None` if its convention is not known.
pub fn orientation(architecture: &str, kind: MatmulKind) -> Option<Orientation> {
    Some(orientation_of(families::family(architecture)?, kind))
}

/// The same of a family.
pub(super) const fn orientation_of(family: &Family, kind: MatmulKind) -> Orientation {
    use Orientation::{InputsFirst, OutputsFirst};
    match kind {
        // `[vocab, hidden]` everywhere, whether the head is tied or not.
        MatmulKind::Embed => InputsFirst,
        MatmulKind::Head => OutputsFirst,
        _ if family.inputs_first => InputsFirst,
        _ => OutputsFirst,
    }
}

#[cfg(test)]
mod tests {
    use tessera_circuits::model::LAYER_KINDS;

    use super::*;

    #[test]
    fn the_architecture_decides() {
        for kind in LAYER_KINDS {
            assert_eq!(orientation("LlamaForCausalLM", kind), Some(Orientation::OutputsFirst));
            assert_eq!(orientation("GPT2LMHeadModel", kind), Some(Orientation::InputsFirst));
            assert_eq!(orientation("OtherModel", kind), None);
        }
        for architecture in ["LlamaForCausalLM", "MistralForCausalLM", "GPT2LMHeadModel"] {
            assert_eq!(
                orientation(architecture, MatmulKind::Embed),
                Some(Orientation::InputsFirst)
            );
            assert_eq!(
                orientation(architecture, MatmulKind::Head),
                Some(Orientation::OutputsFirst)
            );
        }
    }
}
