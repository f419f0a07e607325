//! What an operator is: the description of one step of the forward pass, from which everything that is proved of it follows.

use crate::claims::{LinearClaim, Said};
use crate::scalar::Scalar;
use crate::shape::{Instance, Product, Rows, Shape};
use crate::sizes::Sizes;
use crate::wiring::{suffix, Claims, Public};

/// A step of the forward pass (docs/protocol.md, section 16). Its file has in this order what it computes, its parts with their
/// columns and lookups, the claims on what it rounds, the claims across rows, and those on what its products end in.
pub trait Operator<K: Scalar> {
    /// The parts that it has in a chunk and a statement of these sizes.
    fn parts(&self, sizes: &Sizes) -> Vec<Rows>;

    /// Its products, those that the chunk does not have included. The parts of the shape are laid.
    fn products(&self, _: &Shape) -> Vec<Instance> {
        Vec::new()
    }

    /// The numbers of its accumulators: a number is the power of the challenge that weighs them in the sum of all (section 5), and
    /// no other operator's.
    fn numbers(&self, sizes: &Sizes) -> Vec<usize>;

    /// Adds its share to the claims on roundings (section 8.1).
    fn rounded(&self, public: &Public<'_, K>, claims: &mut Claims<K>);

    /// Its claims that are fixed with the trace, but for those on roundings.
    fn across(&self, _: &Public<'_, K>) -> Vec<LinearClaim<K>> {
        Vec::new()
    }

    /// The claims on the committed factors of its products, each with the product in whose place it stands among all.
    fn operands(&self, _: &Public<'_, K>, _: &Finals<'_, K>) -> Vec<(Product, LinearClaim<K>)> {
        Vec::new()
    }
}

/// Where the product sumcheck ends.
pub struct Finals<'a, K> {
    /// The row spaces.
    pub shape: &'a Shape,
    /// The point of the sumcheck.
    pub point: &'a [K],
}

impl<'a, K: Scalar> Finals<'a, K> {
    /// The claims on the first factor of a product, or on both, made from the product's own point, in the product's place. Their values are
    /// what the prover says of the factors. None if the chunk has no such product.
    pub fn claims<const N: usize>(
        &self,
        product: Product,
        claims: impl FnOnce(&'a [K]) -> [LinearClaim<K>; N],
    ) -> Vec<(Product, LinearClaim<K>)> {
        if !self.shape.existing().any(|own| own == product) {
            return Vec::new();
        }
        let at = suffix(self.point, product.variables(self.shape));
        let sides = claims(at).into_iter().enumerate();
        sides
            .map(|(side, claim)| (product, claim.and(Said::Operand(product, side))))
            .collect()
    }
}
