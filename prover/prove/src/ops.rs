//! What the prover adds to the operators of the forward pass ([`tessera_circuits::ops`]), one file each: how the columns of an
//! operator's parts are filled from a witness, and what the factors of its products are.

mod attention;
mod ff;
mod head_norms;
mod ids;
mod logits;
mod norms;
mod operator;
mod rope;
mod softmax;
mod stream;
mod values;

pub use self::norms::NormRow;
pub use self::softmax::division;

use tessera_circuits::shape::{Part, Product};
use tessera_circuits::statistics::Clip;

use self::operator::Operator;
use crate::column::Column;
use crate::device::{DeviceError, Table};
use crate::factors::Factors;
use crate::trace::Source;

const OPERATORS: [&Operator; 10] = [
    &stream::OPERATOR,
    &norms::OPERATOR,
    &rope::OPERATOR,
    &head_norms::OPERATOR,
    &values::OPERATOR,
    &softmax::OPERATOR,
    &attention::OPERATOR,
    &ff::OPERATOR,
    &logits::OPERATOR,
    &ids::OPERATOR,
];

impl Source<'_> {
    /// All columns of a part, public ones included; and the values that were clipped, ascending.
    pub fn columns(&self, part: Part) -> (Vec<Column>, Vec<Clip>) {
        // Counts are made of all other columns ([`crate::tables::add_counts`]).
        if part == Part::COUNTS {
            return (Vec::new(), Vec::new());
        }
        let mut all = OPERATORS.iter().flat_map(|own| own.fills);
        let (_, fill) = all.find(|(own, _)| *own == part).expect("every part is filled");
        fill(self, part)
    }
}

impl Factors<'_> {
    /// The factor tables of a product.
    pub(crate) fn of(&self, product: Product) -> Result<(Table, Table), DeviceError> {
        let mut all = OPERATORS.iter().flat_map(|own| own.makes);
        let (_, make) = all.find(|(own, _)| *own == product).expect("every product has factors");
        make(self)
    }
}

#[cfg(test)]
mod tests {
    use stwo::core::fields::qm31::SecureField;
    use tessera_circuits::model::{Blocks, Mask, ModelConfig, Windows};
    use tessera_circuits::ops::operators;
    use tessera_circuits::shape::Shape;
    use tessera_circuits::statement::Lengths;

    use super::*;
    use crate::small::config;

    /// Whatever the verifier's operators name, the prover's can make, and nothing is named twice.
    #[test]
    fn every_part_and_product_has_one_maker() {
        let mut parts: Vec<Part> = OPERATORS
            .iter()
            .flat_map(|own| own.fills)
            .map(|(part, _)| *part)
            .collect();
        let products = OPERATORS.iter().flat_map(|own| own.makes).map(|(product, _)| *product);
        let mut products: Vec<Product> = products.collect();
        let (mut named, mut multiplied) = (Vec::new(), Vec::new());
        for (gated, head_norms, mask) in [
            (true, true, Mask::Causal),
            (false, false, Mask::Windows(Windows::new(3, [0]))),
        ] {
            let own = ModelConfig {
                gated,
                head_norms,
                blocks: Blocks {
                    mask,
                    ..config().blocks
                },
                ..config()
            };
            let shape = Shape::new(&own, Lengths::from(4).all_hidden());
            let operators = operators::<SecureField>().into_iter();
            named.extend(
                operators
                    .flat_map(|operator| operator.parts(&shape))
                    .map(|rows| rows.part),
            );
            multiplied.extend(shape.products().iter().map(|own| own.product));
        }
        named.sort_unstable();
        named.dedup();
        multiplied.sort_unstable();
        multiplied.dedup();
        parts.sort_unstable();
        products.sort_unstable();
        assert_eq!((parts, products), (named, multiplied));
    }
}
