//! The last evaluations of the factors of products: a list of the products that a chunk has.

use stwo::core::fields::qm31::SecureField;

use crate::shape::{Product, Shape};

/// How many products there are: more than a chunk has.
pub const PLACES: usize = 16;

/// The last evaluations of both factors of every product that a chunk has, in the order of products.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operands<K = SecureField> {
    list: Vec<(Product, [K; 2])>,
}

impl<K: Clone> Operands<K> {
    /// The evaluations of products, in their order.
    pub const fn new(list: Vec<(Product, [K; 2])>) -> Self {
        Self { list }
    }

    /// The evaluations of the products that a chunk has, in their order. Whoever reads them from a proof checks that there are as many as
    /// [`Shape::existing`] products.
    pub fn of(shape: &Shape, values: &[[K; 2]]) -> Self {
        let list = shape.existing().zip(values.iter().cloned());
        Self { list: list.collect() }
    }

    /// The evaluations, in the order of products.
    pub fn values(&self) -> Vec<[K; 2]> {
        self.list.iter().map(|(_, own)| own.clone()).collect()
    }

    /// The evaluations of a product; `None` if the chunk does not have it.
    pub fn get(&self, product: Product) -> Option<[K; 2]> {
        let own = self.list.iter().find(|(own, _)| *own == product);
        own.map(|(_, evaluations)| evaluations.clone())
    }

    /// All products, each with its evaluations.
    pub fn iter(&self) -> impl Iterator<Item = &(Product, [K; 2])> {
        self.list.iter()
    }
}
