//! The constraints: one [`Air`] per kind of row, each purely row-local (docs/protocol.md, sections 8 and 16).
//! Everything that crosses rows (matmuls, sums, broadcasts, wires) is a claim on multilinear extensions,
//! see [`crate::claims`]; [`Bound`] ties those claims to the committed columns.

#![expect(
    clippy::indexing_slicing,
    reason = "columns are indexed by constants below `Air::columns`, whose length `Bound::evaluate` reads"
)]

pub mod ff;
pub mod gadgets;
mod integers;
pub mod logits;
pub mod lookups;
// stwo's macro documents nothing of what it makes.
#[allow(missing_docs)]
mod relations;
pub mod requant;
pub mod rope;
mod row;
pub mod scores;
pub mod stream;
pub mod tables;

use num_traits::{One, Zero};
use stwo::core::fields::qm31::{SecureField, SECURE_EXTENSION_DEGREE};
use stwo::core::Fraction;
use stwo_constraint_framework::{EvalAtRow, FrameworkEval, INTERACTION_TRACE_IDX};

pub use self::integers::base;
pub(crate) use self::integers::constant;
use self::lookups::Lookup;
pub use self::relations::{Bits, Exp, Range16, Relations, Silu};
pub use self::row::Air;

/// The component kinds.
#[derive(Clone, Debug)]
pub enum AnyAir {
    /// Residual states and their norms.
    Stream(stream::Stream),
    /// Queries or keys, rotated.
    Rope(rope::Rope),
    /// Values, or attention outputs.
    Requant(requant::Requant),
    /// Attention scores, and probabilities.
    Scores(scores::Scores),
    /// The MLP.
    Ff(ff::Ff),
    /// Logits of the output tokens.
    Logits(logits::Logits),
    /// The lookup tables.
    Tables(tables::Tables),
}

macro_rules! each {
    ($self:expr, $air:ident => $body:expr) => {
        match $self {
            AnyAir::Stream($air) => $body,
            AnyAir::Rope($air) => $body,
            AnyAir::Requant($air) => $body,
            AnyAir::Scores($air) => $body,
            AnyAir::Ff($air) => $body,
            AnyAir::Logits($air) => $body,
            AnyAir::Tables($air) => $body,
        }
    };
}

impl Air for AnyAir {
    fn log_rows(&self) -> u32 {
        each!(self, air => air.log_rows())
    }
    fn columns(&self) -> usize {
        each!(self, air => air.columns())
    }
    fn constrain<E: EvalAtRow>(&self, e: &mut E, c: &[E::F]) {
        each!(self, air => air.constrain(e, c));
    }
    fn lookups(&self) -> Vec<Lookup> {
        each!(self, air => air.lookups())
    }
}

/// The constraints of a part: those of one kind of row, for every lane. Columns are lane by lane.
#[derive(Clone, Debug)]
pub struct Lanes {
    /// The constraints of a lane.
    pub air: AnyAir,
    /// How many there are.
    pub lanes: usize,
}

impl Air for Lanes {
    fn log_rows(&self) -> u32 {
        self.air.log_rows()
    }
    fn columns(&self) -> usize {
        self.lanes * self.air.columns()
    }
    fn constrain<E: EvalAtRow>(&self, e: &mut E, c: &[E::F]) {
        for lane in c.chunks(self.air.columns()) {
            self.air.constrain(e, lane);
        }
    }
    /// Lane by lane.
    fn lookups(&self) -> Vec<Lookup> {
        let (own, width) = (self.air.lookups(), self.air.columns());
        let lanes = (0..self.lanes).flat_map(|lane| own.iter().map(move |lookup| lookup.shifted(lane * width)));
        lanes.collect()
    }
}

/// Random weights of the evaluation claims on the columns of one component (docs/protocol.md, section 9).
/// The component adds `eq(z) * sum_c weights[c] * column_c(z)` to its running sum, so that its claimed sum
/// grows by `sum_c weights[c] * column_c~(point)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// `eq` of the first row: the product of `1 - coordinate`. It pins the scale of the `eq` column, which
    /// the prover commits when it already knows the weights.
    pub first: SecureField,
    /// One weight per trace column, zero where the column carries no claim.
    pub weights: Vec<SecureField>,
}

/// Interaction columns of a binding before its running sum: `eq` (4 coordinates), `carry` (4), `last` (1).
pub const BINDING_COLUMNS: usize = 9;
/// All interaction columns of a part that has a binding: its running sum is in the extension.
pub const PART_INTERACTION: usize = BINDING_COLUMNS + SECURE_EXTENSION_DEGREE;

/// A component: constraints plus the binding of its columns' evaluation claims. Interaction columns, in
/// order: those of the binding, then the running sum. Tables carry no claims and have no binding; their running sum is that of
/// their entries. What parts look up is in no component ([`crate::trees`]).
#[derive(Clone, Debug)]
pub struct Bound {
    /// The constraints.
    pub air: Lanes,
    /// The challenges of the lookups.
    pub relations: Relations,
    /// The claims on the columns; none for the tables.
    pub binding: Option<Binding>,
}

impl FrameworkEval for Bound {
    fn log_size(&self) -> u32 {
        self.air.log_rows()
    }

    fn max_constraint_log_degree_bound(&self) -> u32 {
        self.air.log_rows() + 1
    }

    fn evaluate<E: EvalAtRow>(&self, mut e: E) -> E {
        let columns: Vec<E::F> = (0..self.air.columns()).map(|_| e.next_trace_mask()).collect();
        if let Some(binding) = &self.binding {
            let masks: [[E::F; 2]; 4] = std::array::from_fn(|_| e.next_interaction_mask(INTERACTION_TRACE_IDX, [0, 1]));
            let carry = std::array::from_fn(|_| {
                let [value] = e.next_interaction_mask(INTERACTION_TRACE_IDX, [0]);
                value
            });
            let [last] = e.next_interaction_mask(INTERACTION_TRACE_IDX, [0]);
            let [now, next] = [0, 1].map(|o| E::combine_ef(masks.each_ref().map(|m| m[o].clone())));
            e.add_constraint(next - now.clone() * E::combine_ef(carry) - E::EF::from(binding.first) * last);
            let mut sum = E::EF::zero();
            for (weight, column) in binding.weights.iter().zip(&columns) {
                if !weight.is_zero() {
                    sum += E::EF::from(*weight) * column.clone();
                }
            }
            e.write_logup_frac(Fraction::new(now * sum, E::EF::one()));
        }
        self.air.constrain(&mut e, &columns);
        if let AnyAir::Tables(tables) = &self.air.air {
            tables.add_entries(&mut e, &columns, &self.relations);
        }
        e.finalize_logup_in_pairs();
        e
    }
}
