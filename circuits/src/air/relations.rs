//! The challenges of the lookups, by what is looked up.

use std::ops::{Mul, Sub};

use num_traits::Zero;
use stwo::core::channel::Channel;
use stwo::core::fields::qm31::SecureField;
use stwo_constraint_framework::logup::LookupElements;
use stwo_constraint_framework::{Relation as Combine, RelationEFTraitBound};

use super::lookups::Relation;

/// The most values that a tuple has.
const VALUES: usize = 3;

/// The challenges of one relation.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// The relation that these challenges belong to.
    pub relation: Relation,
    elements: LookupElements<VALUES>,
}

impl Drawn {
    /// Draws the challenges of a relation.
    pub fn draw(channel: &mut impl Channel, relation: Relation) -> Self {
        let elements = LookupElements::draw(channel);
        Self { relation, elements }
    }

    /// Both elements that are drawn, `z` and `alpha`.
    pub const fn elements(&self) -> [SecureField; 2] {
        [self.elements.z, self.elements.alpha]
    }

    /// `first + alpha second + alpha^2 third - z`, of as many values as a tuple has.
    pub fn combine<F: Clone, EF>(&self, values: &[F]) -> EF
    where
        EF: Clone + Zero + From<F> + From<SecureField> + Mul<F, Output = EF> + Sub<EF, Output = EF>,
    {
        self.elements.combine(values)
    }
}

/// How stwo adds an entry of a table.
impl<F: Clone, EF: RelationEFTraitBound<F>> Combine<F, EF> for Drawn {
    fn combine(&self, values: &[F]) -> EF {
        self.elements.combine(values)
    }

    fn get_name(&self) -> &str {
        self.relation.name()
    }

    fn get_size(&self) -> usize {
        self.relation.values()
    }
}

/// Lookup challenges, one independent pair for each relation of a model.
#[derive(Clone, Debug)]
pub struct Relations {
    /// The relations in their order.
    pub drawn: Vec<Drawn>,
}

impl Relations {
    /// Draws the challenges of a model with these relations; the trace must have been absorbed.
    pub fn draw(channel: &mut impl Channel, relations: &[Relation]) -> Self {
        let drawn = relations.iter().map(|relation| Drawn::draw(channel, *relation));
        Self { drawn: drawn.collect() }
    }

    /// The challenges of a relation; `None` of one that the model does not have.
    pub fn get(&self, relation: Relation) -> Option<&Drawn> {
        self.drawn.iter().find(|own| own.relation == relation)
    }

    /// `z` and `alpha` of a relation (`alpha` 0 where there is one value): a tuple stands for `first + alpha second + alpha^2
    /// third - z`.
    pub fn challenges(&self, relation: Relation) -> [SecureField; 2] {
        // No lookup and no table of the model has a relation that is not drawn.
        let [z, alpha] = self.get(relation).map_or([SecureField::zero(); 2], Drawn::elements);
        [
            z,
            if relation.values() == 1 {
                SecureField::zero()
            } else {
                alpha
            },
        ]
    }

    /// Fixed challenges, for counting columns and constraints before any exist.
    pub fn dummy(relations: &[Relation]) -> Self {
        let drawn = relations.iter().map(|relation| Drawn {
            relation: *relation,
            elements: LookupElements::dummy(),
        });
        Self { drawn: drawn.collect() }
    }
}
