//! The last evaluations of the factors of products: a list of the products that a chunk has, and their places in a proof.

use stwo::core::fields::qm31::SecureField;

use crate::scalar::Scalar;
use crate::shape::{Product, Shape};

/// How many products have a place in a proof.
pub const PLACES: usize = 16;

/// The evaluations as a proof has them, by [`Product::index`]: zeros in the places of products that the chunk does not have.
pub type Placed<K = SecureField> = [[K; 2]; PLACES];

/// The last evaluations of both factors of every product that a chunk has, in the order of products.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operands<K = SecureField> {
    list: Vec<(Product, [K; 2])>,
}

impl<K: Scalar> Operands<K> {
    /// The evaluations of products, in their order.
    pub const fn new(list: Vec<(Product, [K; 2])>) -> Self {
        Self { list }
    }

    /// The evaluations that a proof has in the places of the products of a chunk. What it has in other places is not among them:
    /// whoever reads a proof compares it with [`Self::placed`].
    pub fn of(shape: &Shape, placed: &Placed<K>) -> Self {
        let products = shape.products().iter().map(|own| own.product);
        let products = products.filter(|product| product.exists(shape));
        let list = products.filter_map(|product| Some((product, *placed.get(product.index())?)));
        Self { list: list.collect() }
    }

    /// The evaluations in the places that a proof has for them.
    pub fn placed(&self) -> Placed<K> {
        let mut placed = [[K::zero(); 2]; PLACES];
        for (product, own) in &self.list {
            if let Some(place) = placed.get_mut(product.index()) {
                *place = *own;
            }
        }
        placed
    }

    /// The evaluations of a product; `None` if the chunk does not have it.
    pub fn get(&self, product: Product) -> Option<[K; 2]> {
        let own = self.list.iter().find(|(own, _)| *own == product);
        own.map(|(_, evaluations)| *evaluations)
    }

    /// All products, each with its evaluations.
    pub fn iter(&self) -> impl Iterator<Item = &(Product, [K; 2])> {
        self.list.iter()
    }
}
