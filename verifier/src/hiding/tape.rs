//! Which entry of the tape is the pad of which message: a function of the shape and of the commitments alone (docs/protocol.md, section 17.3).

use tessera_circuits::shape::Shape;
use tessera_circuits::trees::{groups, Forest};

use crate::gkr;
use crate::listen::Form;
use crate::opening::OpenedColumns;
use crate::public::{digits_form, linear_variables, products_form};

/// Scalars that the tape has for a quadratic form: of the pads, of pads and masks, of the masks.
const SCALARS: usize = 3;

/// The entries of an equation with products.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapeProducts {
    /// The pads of its operands.
    pub operands: Vec<usize>,
    /// Its quadratic forms.
    pub forms: Vec<Form>,
    /// The first entry of its own: a mask for each operand, then three scalars for each form.
    pub first: usize,
}

impl TapeProducts {
    /// The entries of the masks of the operands.
    pub fn masks(&self) -> impl Iterator<Item = usize> {
        self.first..self.first + self.operands.len()
    }

    /// The entries of the scalars of a form.
    pub const fn scalars(&self, form: usize) -> [usize; SCALARS] {
        let at = self.first + self.operands.len() + SCALARS * form;
        [at, at + 1, at + 2]
    }
}

/// The entries of a tape, in order: some that are never used, the pads of all messages before the cross values, the masks and scalars of all equations
/// with products, and the pads of the cross values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tape {
    /// Number of entries that are never used: they keep opened positions of the tape from saying anything of the others.
    pub unused: usize,
    /// The equations with products, in order.
    pub products: Vec<TapeProducts>,
    /// The first entry that is not a pad of a message before the cross values.
    pub messages: usize,
    /// The pad of the first cross value.
    pub cross: usize,
    /// Number of entries.
    pub entries: usize,
}

impl Tape {
    /// The tape of a chunk, with so many unused entries, for an opening of these columns.
    pub fn of(shape: &Shape, unused: usize, opened: &[OpenedColumns]) -> Self {
        let (mut next, mut products) = (unused, Vec::new());
        let mut take = |count: usize| {
            next += count;
            next - count..next
        };
        // Trees of lookups, group by group.
        let logs = Forest::of(shape).logs_with(shape.table_tree().as_ref());
        for trees in groups(&logs) {
            let logs = logs.get(trees).unwrap_or_default();
            let roots: Vec<_> = logs.iter().map(|_| take(2)).collect();
            for layer in 0..logs.iter().max().map_or(0, |log| *log as usize) {
                take(2 * layer);
                let active: Vec<_> = logs
                    .iter()
                    .zip(&roots)
                    .filter(|(log, _)| **log as usize > layer)
                    .collect();
                let operands = active.iter().flat_map(|(_, root)| {
                    let root = if layer == 0 { (*root).clone() } else { 0..0 };
                    take(4).chain(root)
                });
                products.push((operands.collect(), gkr::forms(active.len(), layer == 0)));
            }
        }
        // Matmuls: the claim, the rounds, and both factors of every product.
        take(1 + 2 * shape.product_variables() as usize);
        let operands = take(2 * shape.existing().count()).collect();
        products.push((operands, vec![products_form(shape)]));
        // The digits of hidden ids: the rounds, and both factors.
        if let Some(variables) = shape.digit_variables() {
            take(2 * variables);
            products.push((take(2).collect(), vec![digits_form()]));
        }
        let before = take(0).start;
        Self::of_opening(unused, before, linear_variables(shape), products, opened)
    }

    /// The tape of a reveal whose linear claims have so many variables.
    pub fn of_reveal(variables: usize, unused: usize, opened: &[OpenedColumns]) -> Self {
        Self::of_opening(unused, unused, variables, Vec::new(), opened)
    }

    /// The tape of an opening of these columns behind a sumcheck of linear claims, whose first pad is the entry `next`; `products` are the equations that
    /// come before it, each with the pads of its operands and its forms.
    fn of_opening(
        unused: usize,
        mut next: usize,
        variables: usize,
        products: Vec<(Vec<usize>, Vec<Form>)>,
        opened: &[OpenedColumns],
    ) -> Self {
        let mut take = |count: usize| {
            next += count;
            next - count..next
        };
        // Linear claims, then the band sumcheck of every commitment with the evaluation at its end.
        take(2 * variables);
        for columns in opened {
            take(2 * columns.log_bands() as usize + 1);
        }
        let messages = take(0).start;
        let own = |(operands, forms): (Vec<usize>, Vec<Form>)| {
            let first = take(operands.len() + SCALARS * forms.len()).start;
            TapeProducts { operands, forms, first }
        };
        let products: Vec<TapeProducts> = products.into_iter().map(own).collect();
        // The column of every claim, and the mask, at the points of all claims, but for what the claims say.
        let cross = take(opened.len() * opened.len());
        Self {
            unused,
            products,
            messages,
            cross: cross.start,
            entries: cross.end,
        }
    }
}
