//! Multiplicities and LogUp columns, derived by running the constraints themselves over the trace with a
//! recording evaluator: a lookup is written once, in `tessera_circuits::air`.

use num_traits::{One, Zero};
use rayon::prelude::*;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::{SecureField, SECURE_EXTENSION_DEGREE};
use stwo::core::fields::FieldExpOps;
use stwo::core::Fraction;
use stwo::prover::backend::simd::very_packed_m31::{VeryPackedBaseField, VeryPackedSecureField};
use stwo_constraint_framework::preprocessed_columns::PreProcessedColumnId;
use stwo_constraint_framework::{EvalAtRow, FrameworkEval, INTERACTION_TRACE_IDX, ORIGINAL_TRACE_IDX};
use tessera_circuits::air::{tables, Air, Bound, Lanes, Relations};

use super::trace::Columns;

type F = VeryPackedBaseField;
type EF = VeryPackedSecureField;

/// Rows handled at once.
pub const LANES: usize = 32;

fn load(column: &[BaseField], block: usize) -> F {
    F::from_array(
        column[block * LANES..(block + 1) * LANES]
            .try_into()
            .expect("a block of rows"),
    )
}

/// Reads one block of rows and records what the constraints look up.
struct Recorder<'a> {
    trace: &'a Columns,
    tables: &'a [Vec<BaseField>],
    /// Coordinates of the `eq` column, empty while counting.
    eq: &'a [Vec<BaseField>],
    block: usize,
    next_column: usize,
    next_eq: usize,
    fractions: Vec<Fraction<EF, EF>>,
}

impl EvalAtRow for Recorder<'_> {
    type F = F;
    type EF = EF;

    fn next_interaction_mask<const N: usize>(&mut self, interaction: usize, _offsets: [isize; N]) -> [F; N] {
        let value = match interaction {
            ORIGINAL_TRACE_IDX => {
                self.next_column += 1;
                load(&self.trace[self.next_column - 1], self.block)
            }
            // The eq column comes first; nothing else of the interaction is looked up.
            INTERACTION_TRACE_IDX => {
                self.next_eq += 1;
                self.eq
                    .get(self.next_eq - 1)
                    .map_or_else(F::zero, |c| load(c, self.block))
            }
            _ => F::zero(),
        };
        std::array::from_fn(|i| if i == 0 { value } else { F::zero() })
    }

    fn get_preprocessed_column(&mut self, column: PreProcessedColumnId) -> F {
        let at = tables::PREPROCESSED
            .iter()
            .position(|id| *id == column.id)
            .expect("a known table column");
        load(&self.tables[at], self.block)
    }

    fn add_constraint<G>(&mut self, _constraint: G) {}

    fn combine_ef(values: [F; SECURE_EXTENSION_DEGREE]) -> EF {
        EF::from_very_packed_m31s(values)
    }

    fn write_logup_frac(&mut self, fraction: Fraction<EF, EF>) {
        self.fractions.push(fraction);
    }

    fn finalize_logup_in_pairs(&mut self) {}
}

/// Fractions of one block of rows, in the order of the constraints.
fn fractions(
    bound: &Bound,
    trace: &Columns,
    tables: &[Vec<BaseField>],
    eq: &[Vec<BaseField>],
    block: usize,
) -> Vec<Fraction<EF, EF>> {
    let recorder = Recorder {
        trace,
        tables,
        eq,
        block,
        next_column: 0,
        next_eq: 0,
        fractions: Vec::new(),
    };
    bound.evaluate(recorder).fractions
}

/// Multiplicity columns of the tables: how often each row is used by the given parts.
pub fn multiplicities<'a>(parts: impl Iterator<Item = (Lanes, &'a Columns)>) -> Columns {
    let size = 1usize << tables::LOG_ROWS;
    let empty = || vec![0u32; tables::COLUMNS * size];
    let mut totals = empty();
    for (air, trace) in parts {
        let blocks = (1usize << air.log_rows()) / LANES;
        let bound = Bound {
            air,
            relations: Relations::transparent(),
            binding: None,
        };
        let counts = (0..blocks)
            .into_par_iter()
            .with_min_len(64)
            .fold(empty, |mut counts, block| {
                for fraction in fractions(&bound, trace, &[], &[], block) {
                    count(&mut counts, &fraction);
                }
                counts
            })
            .reduce(empty, |a, b| a.iter().zip(&b).map(|(a, b)| a + b).collect());
        totals.iter_mut().zip(&counts).for_each(|(t, c)| *t += c);
    }
    totals
        .chunks(size)
        .map(|c| c.iter().copied().map(BaseField::from_u32_unchecked).collect())
        .collect()
}

/// Adds the lookups of one recorded fraction, made with [`Relations::transparent`].
fn count(counts: &mut [u32], fraction: &Fraction<EF, EF>) {
    let [uses, ..] = fraction.numerator.into_very_packed_m31s();
    let [first, second, relation, _] = fraction.denominator.into_very_packed_m31s();
    let lanes = uses
        .to_array()
        .into_iter()
        .zip(first.to_array())
        .zip(second.to_array())
        .zip(relation.to_array());
    for (((uses, first), second), relation) in lanes {
        let row = match relation.0 as usize {
            tables::BITS => tables::bits_row(first.0, second.0),
            _ => first.0 as usize,
        };
        // A value outside its table has no row; the proof would not balance. Honest traces have none.
        if let Some(c) = counts.get_mut(relation.0 as usize * (1 << tables::LOG_ROWS) + row) {
            *c += uses.0;
        }
    }
}

/// The LogUp columns of a component (four coordinates per pair of fractions) and its claimed sum.
pub fn logup(
    bound: &Bound,
    trace: &Columns,
    tables: &[Vec<BaseField>],
    eq: &[Vec<BaseField>],
) -> (Columns, SecureField) {
    let rows = 1usize << bound.air.log_rows();
    let blocks: Vec<Vec<EF>> = (0..rows / LANES)
        .into_par_iter()
        .map(|block| partial_sums(&fractions(bound, trace, tables, eq, block)))
        .collect();
    let batches = blocks.first().map_or(0, Vec::len);
    let mut columns: Columns = (0..batches * SECURE_EXTENSION_DEGREE)
        .into_par_iter()
        .map(|c| {
            let (batch, coordinate) = (c / SECURE_EXTENSION_DEGREE, c % SECURE_EXTENSION_DEGREE);
            blocks
                .iter()
                .flat_map(|b| b[batch].into_very_packed_m31s()[coordinate].to_array())
                .collect()
        })
        .collect();
    // The last batch becomes a running sum over the rows, shifted to end in zero.
    let first = (batches - 1) * SECURE_EXTENSION_DEGREE;
    let mut claimed = [BaseField::zero(); SECURE_EXTENSION_DEGREE];
    columns[first..]
        .par_iter_mut()
        .zip(&mut claimed)
        .for_each(|(column, total)| {
            *total = column.iter().fold(BaseField::zero(), |sum, v| sum + *v);
            let shift = *total * BaseField::from_u32_unchecked(rows as u32).inverse();
            let mut sum = BaseField::zero();
            for v in column.iter_mut() {
                sum += *v - shift;
                *v = sum;
            }
        });
    (columns, SecureField::from_m31_array(claimed))
}

/// Sums of the fractions of a row, in pairs, accumulated.
fn partial_sums(fractions: &[Fraction<EF, EF>]) -> Vec<EF> {
    let pairs: Vec<Fraction<EF, EF>> = fractions
        .chunks(2)
        .map(|pair| match pair {
            [a, b] => Fraction::new(
                a.numerator * b.denominator + b.numerator * a.denominator,
                a.denominator * b.denominator,
            ),
            _ => pair[0],
        })
        .collect();
    let mut prefix = EF::one();
    let prefixes: Vec<EF> = pairs
        .iter()
        .map(|p| {
            let before = prefix;
            prefix *= p.denominator;
            before
        })
        .collect();
    let mut inverse = prefix.inverse();
    let mut values = vec![EF::zero(); pairs.len()];
    for (i, pair) in pairs.iter().enumerate().rev() {
        values[i] = pair.numerator * inverse * prefixes[i];
        inverse *= pair.denominator;
    }
    let mut sum = EF::zero();
    for v in &mut values {
        sum += *v;
        *v = sum;
    }
    values
}
