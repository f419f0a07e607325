//! What is public in a proof: what a verifier calculates from challenges and the statement before the opening.

use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::claims::{Batch, Heard};
use tessera_circuits::mle::eq_table;
use tessera_circuits::model::MIN_ROWS_LOG;
use tessera_circuits::scalar::Scalar;
use tessera_circuits::shape::{Product, Shape};
use tessera_circuits::wiring::suffix;

use crate::listen::Form;
use crate::sumcheck::instance_factor;

/// What the public part of a proof is calculated from, but for its statement: challenges, and what the proof ends in before its opening.
#[derive(Clone, Debug)]
pub struct Inputs<K = SecureField, V = K> {
    /// `z` and `alpha` of every relation.
    pub relations: Vec<[K; 2]>,
    /// Of every tree of lookups the point of its leaves.
    pub leaves: Vec<Vec<K>>,
    /// The random point with its scalars.
    pub points: Vec<K>,
    /// Where the sumcheck of the products ends.
    pub products: Vec<K>,
    /// What the prover says of accumulators, operands and lookups.
    pub heard: Heard<V>,
    /// The challenge of the claim on the weights.
    pub family: K,
    /// The challenge of the linear claims.
    pub chi: K,
    /// Where their sumcheck ends.
    pub linear: Vec<K>,
}

/// What is calculated: what a verifier compares, and what the opening is about.
#[derive(Clone, Debug)]
pub struct Outputs<K = SecureField, V = K> {
    /// The denominators where the tree of the tables ends, if they have one.
    pub entries: Option<V>,
    /// The operand of the embedding.
    pub embedding: K,
    /// The value of the linear claims.
    pub value: V,
    /// Coefficients of the bands of weights.
    pub bands: Vec<K>,
    /// Coefficients of the units of activations.
    pub units: Vec<K>,
    /// The point of a band.
    pub band_point: Vec<K>,
    /// The point of a unit.
    pub unit_point: Vec<K>,
}

/// The quadratic form at the end of the batch of the matmuls: the sum of the products of both operands of each matmul, in order.
pub fn products_form(shape: &Shape) -> Form {
    let variables = shape.product_variables() as usize;
    let term = |(at, product): (usize, Product)| {
        let factor = instance_factor(variables, product.variables(shape) as usize);
        (2 * at, 2 * at + 1, factor)
    };
    shape.existing().enumerate().map(term).collect()
}

/// The quadratic form at the end of the sumcheck of the digits of hidden ids: the product of both factors.
pub fn digits_form() -> Form {
    vec![(0, 1, BaseField::from(1))]
}

/// The powers of the challenge of the claim on the weights: random weights of the weighted products.
pub fn families_of<K: Scalar>(shape: &Shape, challenge: K) -> Vec<(Product, K)> {
    let mut power = challenge;
    let weighted = shape.weighted().map(|product| {
        let own = power;
        power *= challenge;
        (product, own)
    });
    weighted.collect()
}

/// What weighs the evaluations of the units of activations, in the order in which they are committed, in the claim that the
/// linear sumcheck ends in at `point` (section 7).
pub fn unit_coefficients<K: Scalar>(shape: &Shape, batch: &Batch<K>, point: &[K]) -> Vec<K> {
    let mut gamma = Vec::with_capacity(usize::try_from(shape.units()).unwrap_or(0));
    for &part in shape.parts() {
        let log_rows = shape.log_rows(part);
        let own = suffix(point, log_rows);
        let scale = instance_factor(point.len(), log_rows as usize);
        let coefficients = batch.coefficients(part, own);
        let (units, _) = own.split_at(own.len().saturating_sub(MIN_ROWS_LOG as usize));
        let units = eq_table(units);
        for column in shape.committed(part) {
            let coefficient = coefficients.get(&column).copied().unwrap_or_default() * scale;
            gamma.extend(units.iter().map(|unit| *unit * coefficient));
        }
    }
    gamma
}

/// Number of variables of the linear sumcheck: the tallest part with claims.
pub fn linear_variables(shape: &Shape) -> usize {
    shape.max_log_rows() as usize
}
