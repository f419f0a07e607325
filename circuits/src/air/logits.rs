//! Logits and arg max of the generated positions. One row per (output token, vocabulary entry). No constraint: the claims on
//! accumulators and on the chosen entries say everything, with the logits of the output tokens in clear.

use super::gadgets::Remainder;
use super::lookups::{Linear, Lookup};
use super::Air;
use crate::model::Limbs;

/// By how much the logit is below that of the output token, less one below its id: at least 0.
pub const MARGIN: usize = 0;

/// Logits and their distance from the output token's.
#[derive(Clone, Debug)]
pub struct Logits {
    /// How accumulators are claimed.
    pub limbs: Limbs,
}

/// Of the logit.
pub const fn remainder(limbs: Limbs) -> Remainder {
    Remainder { at: 1, limbs }
}

impl Air for Logits {
    fn columns(&self) -> usize {
        1 + Remainder::columns(self.limbs)
    }
    fn powers(&self) -> Vec<(usize, u8)> {
        vec![(remainder(self.limbs).pow(), 0)]
    }
    fn lookups(&self) -> Vec<Lookup> {
        let mut list = vec![Lookup::range16(Linear::column(MARGIN))];
        list.extend(remainder(self.limbs).lookups());
        list
    }
}
