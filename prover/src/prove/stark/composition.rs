//! The constraints over the extended trace: what [`FrameworkComponent`] does, with the LogUp constraints of a pair made as
//! soon as its two fractions are known. Kept until the end of a row, as the library does, the fractions of many lanes are
//! more than the caches hold, and it sorts them with a hash table.

use num_traits::Zero;
use rayon::prelude::*;
use stwo::core::air::accumulation::PointEvaluationAccumulator;
use stwo::core::air::Component;
use stwo::core::circle::CirclePoint;
use stwo::core::constraints::coset_vanishing;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::{SecureField, SECURE_EXTENSION_DEGREE};
use stwo::core::pcs::TreeVec;
use stwo::core::poly::circle::CanonicCoset;
use stwo::core::utils::{bit_reverse, offset_bit_reversed_circle_domain_index};
use stwo::core::ColumnVec;
use stwo::prover::backend::simd::column::BaseColumn;
use stwo::prover::backend::simd::m31::{PackedBaseField, LOG_N_LANES, N_LANES};
use stwo::prover::backend::simd::qm31::PackedSecureField;
use stwo::prover::backend::simd::SimdBackend;
use stwo::prover::{ComponentProver, DomainEvaluationAccumulator, EvaluationMode, Trace};
use stwo_constraint_framework::preprocessed_columns::PreProcessedColumnId;
use stwo_constraint_framework::{
    EvalAtRow, FrameworkComponent, FrameworkEval, INTERACTION_TRACE_IDX, PREPROCESSED_TRACE_IDX,
};
use tessera_circuits::air::{Bound, BINDING_COLUMNS};

use super::packed::{Base, Secure, SecureFraction};

/// Vectors of rows that a thread takes at a time: whole runs of all columns are copied next to each other, which costs less than
/// to wait for a line of every column.
const VECTORS: usize = 8;

/// A component whose constraints are evaluated here.
pub struct Composed<'a>(pub &'a FrameworkComponent<Bound>);

impl Component for Composed<'_> {
    fn n_constraints(&self) -> usize {
        self.0.n_constraints()
    }

    fn max_constraint_log_degree_bound(&self) -> u32 {
        Component::max_constraint_log_degree_bound(self.0)
    }

    fn trace_log_degree_bounds(&self) -> TreeVec<ColumnVec<u32>> {
        self.0.trace_log_degree_bounds()
    }

    fn mask_points(
        &self,
        point: CirclePoint<SecureField>,
        max_log_degree_bound: u32,
    ) -> TreeVec<ColumnVec<Vec<CirclePoint<SecureField>>>> {
        self.0.mask_points(point, max_log_degree_bound)
    }

    fn preprocessed_column_indices(&self) -> ColumnVec<usize> {
        Component::preprocessed_column_indices(self.0)
    }

    fn evaluate_constraint_quotients_at_point(
        &self,
        point: CirclePoint<SecureField>,
        mask: &TreeVec<ColumnVec<Vec<SecureField>>>,
        evaluation_accumulator: &mut PointEvaluationAccumulator,
        max_log_degree_bound: u32,
    ) {
        self.0
            .evaluate_constraint_quotients_at_point(point, mask, evaluation_accumulator, max_log_degree_bound);
    }
}

impl ComponentProver<SimdBackend> for Composed<'_> {
    fn evaluate_constraint_quotients_on_domain(
        &self,
        trace: &Trace<'_, SimdBackend>,
        accumulator: &mut DomainEvaluationAccumulator<SimdBackend>,
    ) {
        let (component, bound) = (self.0, &**self.0);
        // All components have the same degree, so that the committed values are those that are needed.
        let EvaluationMode::SubDomain { log_expansion } = accumulator.evaluation_mode() else {
            return component.evaluate_constraint_quotients_on_domain(trace, accumulator);
        };
        let log_rows = bound.log_size();
        let log_domain = FrameworkEval::max_constraint_log_degree_bound(bound);
        let committed = CanonicCoset::new(log_domain + log_expansion).circle_domain();
        let (domain, _) = committed.split(log_expansion);
        let coset = CanonicCoset::new(log_rows).coset();
        let mut inverses: Vec<BaseField> = (0..1 << (log_domain - log_rows))
            .map(|i| coset_vanishing(coset, domain.at(i)).inverse())
            .collect();
        bit_reverse(&mut inverses);

        let mut trees = trace.polys.sub_tree(component.trace_locations());
        trees[PREPROCESSED_TRACE_IDX] = component
            .preprocessed_column_indices()
            .iter()
            .map(|column| &trace.polys[PREPROCESSED_TRACE_IDX][*column])
            .collect();
        let columns: Vec<Vec<&BaseColumn>> = trees
            .iter()
            .map(|tree| tree.iter().map(|poly| &poly.evals.values).collect())
            .collect();
        let starts = [0, columns[0].len(), columns[0].len() + columns[1].len()];
        let width = columns.iter().map(Vec::len).sum::<usize>();
        let binding = bound.binding.as_ref().map_or(0, |_| BINDING_COLUMNS);
        let sums = (columns[INTERACTION_TRACE_IDX].len() - binding) / SECURE_EXTENSION_DEGREE;
        let [accumulated] = accumulator.columns([(log_domain, component.n_constraints())]);
        let mut coefficients = accumulated.random_coeff_powers;
        coefficients.reverse();
        let (local, lookups) = coefficients.split_at(coefficients.len() - sums);
        let shift = component.claimed_sum() / BaseField::from_u32_unchecked(1 << log_rows);

        let [a, b, c, d] = &mut accumulated.col.columns;
        let [a, b, c, d] = [a, b, c, d].map(|column| column.data.par_chunks_mut(VECTORS));
        let tasks = a.zip(b).zip(c.zip(d)).enumerate();
        tasks.for_each_init(Vec::new, |values, (task, ((a, b), (c, d)))| {
            let first = task * VECTORS;
            values.resize(a.len() * width, PackedBaseField::zero());
            for (at, column) in columns.iter().flatten().enumerate() {
                for (vector, value) in column.data[first..][..a.len()].iter().enumerate() {
                    values[vector * width + at] = *value;
                }
            }
            let sums = a.iter_mut().zip(b).zip(c.iter_mut().zip(d));
            for (i, ((a, b), (c, d))) in sums.enumerate() {
                let row = first + i;
                let evaluated = bound.evaluate(Rows {
                    columns: &columns,
                    values: &values[i * width..][..width],
                    starts,
                    next: [0; 3],
                    row,
                    neighbours: None,
                    log_rows,
                    log_domain,
                    local: local.iter(),
                    lookups: lookups.iter(),
                    shift,
                    sum: PackedSecureField::zero(),
                    first: None,
                    pair: None,
                    before: PackedSecureField::zero(),
                });
                let inverse = inverses[row >> (log_rows - LOG_N_LANES)];
                let quotients = (evaluated.sum * inverse).into_packed_m31s();
                for (sum, quotient) in [a, b, c, d].into_iter().zip(quotients) {
                    *sum += quotient;
                }
            }
        });
    }
}

/// Sixteen points of the domain.
struct Rows<'a> {
    /// Columns of the trees.
    columns: &'a [Vec<&'a BaseColumn>],
    /// The values of all columns at the points.
    values: &'a [PackedBaseField],
    /// Where the values of a tree begin.
    starts: [usize; 3],
    /// The column of every tree that is read next.
    next: [usize; 3],
    /// Number of the vector.
    row: usize,
    /// Places of the points at the last offset asked for.
    neighbours: Option<(isize, [usize; N_LANES])>,
    log_rows: u32,
    log_domain: u32,
    /// Coefficients of the constraints that are not LogUp's, from the next one on.
    local: std::slice::Iter<'a, SecureField>,
    /// Coefficients of LogUp's constraints.
    lookups: std::slice::Iter<'a, SecureField>,
    /// The claimed sum over the number of rows.
    shift: SecureField,
    /// The sum so far.
    sum: PackedSecureField,
    /// The first fraction of a pair that is not complete.
    first: Option<SecureFraction>,
    /// The last complete pair, which may be the last one of all.
    pair: Option<SecureFraction>,
    /// The LogUp column before.
    before: PackedSecureField,
}

impl Rows<'_> {
    /// Four columns of the interaction as one.
    fn secure_column<const N: usize>(&mut self, offsets: [isize; N]) -> [PackedSecureField; N] {
        let columns: [[Base; N]; 4] =
            std::array::from_fn(|_| self.next_interaction_mask(INTERACTION_TRACE_IDX, offsets));
        std::array::from_fn(|i| PackedSecureField::from_packed_m31s(columns.each_ref().map(|column| column[i].0)))
    }

    /// The constraint of a pair that is not the last one.
    fn complete(&mut self, pair: SecureFraction) {
        let [sum] = self.secure_column([0]);
        let before = std::mem::replace(&mut self.before, sum);
        self.constrain(sum - before, pair);
    }

    /// The constraint that `difference` is the sum of a pair.
    fn constrain(&mut self, difference: PackedSecureField, pair: SecureFraction) {
        let constraint = difference * pair.denominator.packed() - pair.numerator.packed();
        let coefficient = *self.lookups.next().expect("a coefficient for every pair");
        self.sum += constraint * PackedSecureField::broadcast(coefficient);
    }
}

impl EvalAtRow for Rows<'_> {
    type F = Base;
    type EF = Secure;

    fn next_interaction_mask<const N: usize>(&mut self, interaction: usize, offsets: [isize; N]) -> [Base; N] {
        let at = self.next[interaction];
        self.next[interaction] += 1;
        offsets.map(|offset| {
            if offset == 0 {
                return Base(self.values[self.starts[interaction] + at]);
            }
            let places = match self.neighbours {
                Some((at, places)) if at == offset => places,
                _ => std::array::from_fn(|i| {
                    let place = self.row * N_LANES + i;
                    offset_bit_reversed_circle_domain_index(place, self.log_rows, self.log_domain, offset)
                }),
            };
            self.neighbours = Some((offset, places));
            let values = self.columns[interaction][at].as_slice();
            Base(PackedBaseField::from_array(places.map(|place| values[place])))
        })
    }

    fn get_preprocessed_column(&mut self, _column: PreProcessedColumnId) -> Base {
        let [value] = self.next_interaction_mask(PREPROCESSED_TRACE_IDX, [0]);
        value
    }

    fn add_constraint<G>(&mut self, constraint: G)
    where
        Secure: std::ops::Mul<G, Output = Secure> + From<G>,
    {
        let coefficient = *self.local.next().expect("a coefficient for every constraint");
        let term = Secure::Full(PackedSecureField::broadcast(coefficient)) * constraint;
        self.sum += term.packed();
    }

    fn combine_ef(values: [Base; SECURE_EXTENSION_DEGREE]) -> Secure {
        Secure::Full(PackedSecureField::from_packed_m31s(values.map(|v| v.0)))
    }

    fn write_logup_frac(&mut self, fraction: SecureFraction) {
        let Some(first) = self.first.take() else {
            self.first = Some(fraction);
            return;
        };
        let pair = first + fraction;
        if let Some(pair) = self.pair.replace(pair) {
            self.complete(pair);
        }
    }

    fn finalize_logup_in_pairs(&mut self) {
        // A single fraction is the last pair.
        if let (Some(single), Some(pair)) = (self.first, self.pair) {
            self.complete(pair);
            self.pair = Some(single);
        }
        let Some(last) = self.pair.or(self.first) else { return };
        let [above, now] = self.secure_column([-1, 0]);
        let difference = now - above - self.before + PackedSecureField::broadcast(self.shift);
        self.constrain(difference, last);
    }
}

#[cfg(test)]
mod tests {
    use stwo::core::channel::Blake2sChannel;
    use stwo::prover::poly::circle::PolyOps;
    use tessera_circuits::air::{tables, Binding, Relations};
    use tessera_circuits::chunk::Chunk;
    use tessera_circuits::shape::Shape;
    use tessera_verifier::policy::TracePolicy;
    use tessera_verifier::stark::components;

    use super::super::extend::{commit_extended, extend, Scheme};
    use super::super::trace::Columns;
    use super::*;
    use crate::testing::{fixture_size_config, SplitMix};

    /// Columns of random values, which satisfy nothing, so that every constraint and its coefficient count; at either rate.
    #[test]
    fn compositions_are_those_of_the_library() {
        let mut rng = SplitMix(11);
        let mut word = || BaseField::from_u32_unchecked(rng.below(u64::from(stwo::core::fields::m31::P)) as u32);
        let mut secure = || SecureField::from_m31(word(), word(), word(), word());
        let config = tessera_circuits::model::ModelConfig {
            vocab: 200,
            ..fixture_size_config()
        };
        let shape = Shape::of(&config, &Chunk::whole(config.layers), 2);
        let bindings = shape.parts().iter().map(|part| {
            let weights = (0..shape.columns(*part)).map(|c| if c % 3 == 0 { secure() } else { Default::default() });
            let weights = weights.collect();
            let first = secure();
            shape
                .claimed()
                .any(|claimed| claimed == *part)
                .then_some(Binding { first, weights })
        });
        let bindings: Vec<Option<Binding>> = bindings.collect();
        let sums: Vec<SecureField> = shape.parts().iter().map(|_| secure()).collect();
        let relations = Relations::draw(&mut Blake2sChannel::default());
        let components = components(&shape, &relations, bindings, &sums);
        let coefficient = secure();
        for policy in TracePolicy::ALL {
            let domain = CanonicCoset::new(shape.max_log_rows() + 1 + policy.log_blowup).circle_domain();
            let twiddles = SimdBackend::precompute_twiddles(domain.half_coset);
            let mut scheme = Scheme::new(policy.pcs_config(), &twiddles);
            for tree in 0..3 {
                let sizes = components.iter().flat_map(|c| match tree {
                    PREPROCESSED_TRACE_IDX => Vec::new(),
                    _ => c.trace_log_degree_bounds()[tree].clone(),
                });
                let sizes = match tree {
                    PREPROCESSED_TRACE_IDX => vec![tables::LOG_ROWS; tables::PREPROCESSED.len()],
                    _ => sizes.collect(),
                };
                let columns: Columns = sizes
                    .iter()
                    .map(|log| (0..1 << log).map(|_| word()).collect())
                    .collect();
                let extended = extend(&scheme, &columns);
                commit_extended(&mut scheme, extended, &mut Blake2sChannel::default());
            }
            let compose = |provers: Vec<&dyn ComponentProver<SimdBackend>>| {
                let provers = stwo::prover::ComponentProvers {
                    components: provers,
                    n_preprocessed_columns: tables::PREPROCESSED.len(),
                };
                let composition =
                    provers.compute_composition_polynomial(coefficient, &scheme.trace(), &twiddles, policy.log_blowup);
                composition.0.map(|polynomial| polynomial.coeffs.as_slice().to_vec())
            };
            let composed: Vec<Composed<'_>> = components.iter().map(Composed).collect();
            let own = compose(composed.iter().map(|c| c as _).collect());
            assert!(own.iter().flatten().any(|v| !v.is_zero()));
            assert!(own == compose(components.iter().map(|c| c as _).collect()));
        }
    }
}
