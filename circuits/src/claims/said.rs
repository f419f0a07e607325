//! Values that the prover says before the linear claims, and that these have as their values. Claims name them, so that a claim is the same
//! whether whoever walks it knows them or not.

use stwo::core::fields::qm31::SecureField;

use super::operands::Operands;
use crate::shape::Product;

/// The name of a value that the prover says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// The sum of all accumulators at the random point, which the product sumcheck claims (section 5).
    Accumulators,
    /// The last evaluation of a factor of a product, 0 or 1 (section 6).
    Operand(Product, usize),
    /// The last evaluation of a factor of the product of the digits of hidden ids, 0 or 1 (section 17.6).
    Digit(usize),
    /// The denominators of a tree of lookups at its last point (section 8.5).
    Denominator(usize),
    /// The numerators of the tree of the tables at its last point (section 9.2).
    Counts,
    /// The value of a committed boundary at the random point: of the one that enters the chunk, 0, or of the one that leaves it, 1 (section 15).
    Boundary(usize),
}

/// All values that claims name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard<V = SecureField> {
    /// See [`Said::Accumulators`].
    pub accumulators: V,
    /// See [`Said::Operand`].
    pub operands: Operands<V>,
    /// See [`Said::Digit`]; `None` where no ids of rows are hidden.
    pub digits: Option<[V; 2]>,
    /// See [`Said::Denominator`]: one of every tree.
    pub denominators: Vec<V>,
    /// See [`Said::Counts`]; `None` where a STARK proves the tables.
    pub counts: Option<V>,
    /// See [`Said::Boundary`]; `None` where there is no boundary, or one in clear.
    pub boundaries: [Option<V>; 2],
}

impl<V: Clone> Heard<V> {
    /// The value of a name; `None` if the proof has no such value.
    pub fn get(&self, said: Said) -> Option<V> {
        match said {
            Said::Accumulators => Some(self.accumulators.clone()),
            Said::Operand(product, side) => self.operands.get(product)?.get(side).cloned(),
            Said::Digit(side) => self.digits.as_ref()?.get(side).cloned(),
            Said::Denominator(tree) => self.denominators.get(tree).cloned(),
            Said::Counts => self.counts.clone(),
            Said::Boundary(end) => self.boundaries.get(end)?.clone(),
        }
    }
}
