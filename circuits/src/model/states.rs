//! The states of the residual stream, and what makes them.

use super::{MatmulKind, MatrixId, ModelConfig};

/// What makes a state of the residual stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// A matmul, with a layer: the embedding, or O or Down, whose output is added to a state, or, where it is normed before, is the
    /// state.
    Matmul(MatrixId),
    /// The state before O or Down of a layer, to which its normed output is added.
    Sum(MatrixId),
}

impl Maker {
    /// Of a state, where what attention and MLP add is normed or not.
    pub(super) const fn of(state: usize, post_normed: bool) -> Self {
        let (step, is_sum) = match (state.checked_sub(1), post_normed) {
            (None, _) => return Self::Matmul(MatrixId::EMBED),
            (Some(step), false) => (step, false),
            (Some(step), true) => (step / 2, step % 2 == 1),
        };
        let kind = if step % 2 == 0 { MatmulKind::O } else { MatmulKind::Down };
        if is_sum {
            Self::Sum(kind.at(step / 2))
        } else {
            Self::Matmul(kind.at(step / 2))
        }
    }
}

impl ModelConfig {
    /// How many states a layer makes: two, or four where what attention and MLP add is normed before, and a state of its own.
    pub const fn states_per_layer(&self) -> usize {
        if self.norms_outputs() {
            4
        } else {
            2
        }
    }

    /// Number of states, the first of which is the embedding.
    pub const fn states(&self) -> usize {
        self.states_per_layer() * self.layers + 1
    }

    /// The state that the attention of a layer reads.
    pub const fn attention_state(&self, layer: usize) -> usize {
        self.states_per_layer() * layer
    }

    /// The state that the MLP of a layer reads.
    pub const fn mlp_state(&self, layer: usize) -> usize {
        let after_attention = if self.is_parallel() {
            0
        } else {
            self.states_per_layer() / 2
        };
        self.attention_state(layer) + after_attention
    }

    /// What makes a state.
    pub const fn maker(&self, state: usize) -> Maker {
        Maker::of(state, self.norms_outputs())
    }
}
