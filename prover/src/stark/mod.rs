//! The aggregator's prover (docs/protocol.md, sections 8 and 9), twin of the verifier's `stark`: the same
//! phases, writing what the other reads.

pub mod check;
pub mod lookups;
pub mod trace;

use std::borrow::Borrow;

use num_traits::{One, Zero};
use rayon::prelude::*;
use stwo::core::channel::Blake2sChannel;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::poly::circle::CanonicCoset;
use stwo::core::utils::{bit_reverse_index, coset_index_to_circle_domain_index};
use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleChannel;
use stwo::prover::backend::simd::column::BaseColumn;
use stwo::prover::backend::simd::SimdBackend;
use stwo::prover::backend::Column as _;
use stwo::prover::poly::circle::{CircleEvaluation, PolyOps};
use stwo::prover::poly::twiddles::TwiddleTree;
use stwo::prover::poly::BitReversedOrder;
use stwo::prover::{CommitmentSchemeProver, ComponentProver};
use stwo_constraint_framework::FrameworkComponent;
use tessera_circuits::air::{tables, Binding, Bound, Relations};
use tessera_circuits::claims::Batch;
use tessera_circuits::eq_kernel::carries;
use tessera_circuits::mle::eq_table;
use tessera_circuits::model::ModelParams;
use tessera_circuits::shape::Shape;
use tessera_circuits::wiring::suffix;
use tessera_verifier::security::TracePolicy;
use tessera_verifier::stark::{bindings, components, draw_relations, Stark};
use tessera_verifier::transcript::Transcript;
use thiserror::Error;

use self::lookups::logup;
use self::trace::Columns;

type Evaluation = CircleEvaluation<SimdBackend, BaseField, BitReversedOrder>;
/// The commitment scheme of the trees.
pub type Scheme<'a> = CommitmentSchemeProver<'a, SimdBackend, Blake2sMerkleChannel>;

/// The aggregator could not be proved.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ProveStarkError {
    /// The trace violates a constraint: a defect of this program, never of the input.
    #[error("internal error: the trace does not satisfy the constraints ({0})")]
    Constraints(String),
    /// A challenge hit 0 or 1 (probability below 2^-110).
    #[error("a challenge is degenerate; try again with another statement")]
    DegeneratePoint,
}

/// A column in stwo's order: row `z` at the position of coset index `z` in the bit-reversed circle domain.
fn evaluation(column: &[BaseField], order: &[u32]) -> Evaluation {
    let log_size = column.len().trailing_zeros();
    let mut values = BaseColumn::zeros(column.len());
    let slots = values.as_mut_slice();
    for (v, at) in column.iter().zip(order) {
        slots[*at as usize] = *v;
    }
    CircleEvaluation::new(CanonicCoset::new(log_size).circle_domain(), values)
}

fn row_order(log_size: u32) -> Vec<u32> {
    let position = |z| bit_reverse_index(coset_index_to_circle_domain_index(z, log_size), log_size) as u32;
    (0..1usize << log_size).map(position).collect()
}

/// Evaluations of groups of columns; columns of a group have one length.
/// Owned groups are freed one by one.
fn evaluations<C: Borrow<Columns>>(groups: impl Iterator<Item = C>) -> Vec<Evaluation> {
    groups
        .filter(|g| !g.borrow().is_empty())
        .flat_map(|group| {
            let group = group.borrow();
            let order = row_order(group[0].len().trailing_zeros());
            group.par_iter().map(|c| evaluation(c, &order)).collect::<Vec<_>>()
        })
        .collect()
}

/// Twiddles for the largest domain of a shape.
pub fn twiddles(shape: &Shape) -> TwiddleTree<SimdBackend> {
    let log_size = shape.max_log_rows() + 1 + TracePolicy::of(shape).log_blowup;
    SimdBackend::precompute_twiddles(CanonicCoset::new(log_size).circle_domain().half_coset)
}

/// Merkle roots of the preprocessed columns of a model, for every code of the trace.
pub fn tables_roots(params: &ModelParams) -> [[u8; 32]; 2] {
    TracePolicy::ALL.map(|policy| tables_root(params, policy))
}

fn tables_root(params: &ModelParams, policy: TracePolicy) -> [u8; 32] {
    let log_size = tables::LOG_ROWS + 1 + policy.log_blowup;
    let twiddles = SimdBackend::precompute_twiddles(CanonicCoset::new(log_size).circle_domain().half_coset);
    let mut scheme = Scheme::new(policy.pcs_config(), &twiddles);
    commit(
        &mut scheme,
        std::iter::once(&tables::preprocessed(params)),
        &mut Blake2sChannel::default(),
    );
    scheme.roots()[0].0
}

/// Commits groups of columns as the next tree; columns of a group have one length.
pub fn commit<C: Borrow<Columns>>(
    scheme: &mut Scheme<'_>,
    groups: impl Iterator<Item = C>,
    channel: &mut Blake2sChannel,
) {
    let mut tree = scheme.tree_builder();
    tree.extend_evals(evaluations(groups));
    tree.commit(channel);
}

/// The committed trace: columns in row order and stwo's trees.
pub struct Trace<'a> {
    pub shape: &'a Shape,
    /// Columns by part, in the order of [`Shape::parts`].
    pub columns: Vec<Columns>,
    /// The lookup tables (preprocessed columns).
    pub tables: Columns,
    /// The trees committed so far.
    pub scheme: Scheme<'a>,
}

impl<'a> Trace<'a> {
    /// Counts the lookups and commits tables and trace, before any challenge. If `keep_coefficients`, the coefficients
    /// of all columns are kept beside their extensions: a third more memory, a tenth less work.
    pub fn commit(
        shape: &'a Shape,
        params: &ModelParams,
        mut columns: Vec<Columns>,
        keep_coefficients: bool,
        twiddles: &'a TwiddleTree<SimdBackend>,
        transcript: &mut Transcript,
    ) -> Self {
        let parts = shape.parts().iter().zip(&columns).filter(|(_, c)| !c.is_empty());
        let counts = lookups::multiplicities(parts.map(|(part, c)| (shape.air(*part), c)));
        if let Some(last) = columns.last_mut() {
            *last = counts;
        }
        let tables = tables::preprocessed(params);
        let mut scheme = Scheme::new(TracePolicy::of(shape).pcs_config(), twiddles);
        if keep_coefficients {
            scheme.set_store_polynomials_coefficients();
        }
        commit(&mut scheme, std::iter::once(&tables), transcript.channel());
        commit(&mut scheme, columns.iter(), transcript.channel());
        Self {
            shape,
            columns,
            tables,
            scheme,
        }
    }

    /// Proves the constraints, with the evaluation claims of `batch` at `point` bound to the trace.
    /// Returns the claimed sums and the proof.
    pub fn prove(
        self,
        batch: &Batch,
        point: &[SecureField],
        transcript: &mut Transcript,
    ) -> Result<(Vec<SecureField>, Stark), ProveStarkError> {
        let (relations, challenge) = draw_relations(transcript);
        let bindings = bindings(self.shape, batch, point, challenge);
        let (interaction, sums) = self.interaction(&relations, &bindings, point)?;
        let stark = self.finish(&relations, bindings, interaction, &sums, transcript)?;
        Ok((sums, stark))
    }

    /// Commits the interaction columns and proves the constraints over all committed columns.
    pub fn finish(
        self,
        relations: &Relations,
        bindings: Vec<Option<Binding>>,
        interaction: Vec<Columns>,
        sums: &[SecureField],
        transcript: &mut Transcript,
    ) -> Result<Stark, ProveStarkError> {
        transcript.message("claimed sums", sums);
        let Self {
            shape,
            columns,
            mut scheme,
            ..
        } = self;
        drop(columns);
        commit(&mut scheme, interaction.into_iter(), transcript.channel());
        let components = components(shape, relations, bindings, sums);
        let provers: Vec<&dyn ComponentProver<SimdBackend>> = components
            .iter()
            .map(|c: &FrameworkComponent<Bound>| c as &dyn ComponentProver<SimdBackend>)
            .collect();
        stwo::prover::prove(&provers, transcript.channel(), scheme)
            .map_err(|error| ProveStarkError::Constraints(error.to_string()))
    }

    /// Interaction columns of every part: `eq`, `carry`, `last`, LogUp; and the claimed sums.
    pub fn interaction(
        &self,
        relations: &Relations,
        bindings: &[Option<Binding>],
        point: &[SecureField],
    ) -> Result<(Vec<Columns>, Vec<SecureField>), ProveStarkError> {
        let mut all = Vec::new();
        let mut sums = Vec::new();
        for ((part, binding), columns) in self.shape.parts().iter().zip(bindings).zip(&self.columns) {
            let air = self.shape.air(*part);
            let bound = Bound {
                air,
                relations: relations.clone(),
                binding: binding.clone(),
            };
            let mut own = match binding {
                Some(_) => eq_columns(suffix(point, self.shape.log_rows(*part)))?,
                None => Columns::new(),
            };
            let (logup, sum) = logup(&bound, columns, &self.tables, &own);
            own.extend(logup);
            all.push(own);
            sums.push(sum);
        }
        Ok((all, sums))
    }
}

/// Coordinates of the `eq` and `carry` columns of a point, and the `last` column.
pub fn eq_columns(point: &[SecureField]) -> Result<Columns, ProveStarkError> {
    let list = carries(point).ok_or(ProveStarkError::DegeneratePoint)?;
    let eq = eq_table(point);
    let of = |z: usize| list.get(z.trailing_ones() as usize).copied().unwrap_or_default();
    let carry: Vec<SecureField> = (0..eq.len()).map(of).collect();
    let mut columns: Columns = [&eq, &carry]
        .into_iter()
        .flat_map(|values| coordinates(values))
        .collect();
    let mut last = vec![BaseField::zero(); eq.len()];
    last[eq.len() - 1] = BaseField::one();
    columns.push(last);
    Ok(columns)
}

fn coordinates(values: &[SecureField]) -> [Vec<BaseField>; 4] {
    std::array::from_fn(|i| values.iter().map(|v| v.to_m31_array()[i]).collect())
}
