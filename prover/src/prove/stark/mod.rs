//! The aggregator's prover (docs/protocol.md, sections 8 and 9), twin of the verifier's `stark`: the same
//! phases, writing what the other reads.

pub mod check;
pub mod composition;
pub mod extend;
pub mod lookups;
mod packed;
pub mod queries;
pub mod trace;

use num_traits::{One, Zero};
use stwo::core::channel::Blake2sChannel;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::poly::circle::CanonicCoset;
use stwo::prover::backend::simd::SimdBackend;
use stwo::prover::poly::circle::PolyOps;
use stwo::prover::poly::twiddles::TwiddleTree;
use stwo::prover::ComponentProver;
use tessera_circuits::air::{tables, Binding, Relations};
use tessera_circuits::claims::Batch;
use tessera_circuits::eq_kernel::carries;
use tessera_circuits::mle::eq_table;
use tessera_circuits::model::ModelParams;
use tessera_circuits::shape::Shape;
use tessera_circuits::wiring::suffix;
use tessera_verifier::policy::TracePolicy;
use tessera_verifier::stark::{bindings, components, draw_binding, Stark};
use tessera_verifier::transcript::Transcript;
use thiserror::Error;

use self::composition::Composed;
use self::extend::{commit_extended, extend, Scheme};
use self::lookups::{binding_sums, coordinates, entry_sums};
use self::queries::{ordered, OrderedChannel};
use self::trace::Columns;

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
pub fn commit<'c>(scheme: &mut Scheme<'_>, groups: impl Iterator<Item = &'c Columns>, channel: &mut Blake2sChannel) {
    let extended = groups.flat_map(|columns| extend(scheme, columns)).collect();
    commit_extended(scheme, extended, channel);
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
    /// of all columns are kept beside their extensions: a third more memory, less work.
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

    /// Proves the constraints, with the evaluation claims of `batch` at `point` bound to the trace; `relations` are
    /// the challenges of the lookups.
    /// Returns the claimed sums and the proof.
    pub fn prove(
        mut self,
        relations: &Relations,
        batch: &Batch,
        point: &[SecureField],
        transcript: &mut Transcript,
    ) -> Result<(Vec<SecureField>, Stark), ProveStarkError> {
        let bindings = bindings(self.shape, batch, point, draw_binding(transcript));
        let (mut interaction, mut sums) = (Vec::new(), Vec::new());
        for (at, binding) in bindings.iter().enumerate() {
            let (columns, sum) = self.interaction(at, relations, binding, point)?;
            // Of the part's trace only the codeword is needed from now on.
            self.columns[at] = Columns::new();
            interaction.extend(extend(&self.scheme, columns));
            sums.push(sum);
        }
        transcript.message("claimed sums", &sums);
        commit_extended(&mut self.scheme, interaction, transcript.channel());
        let components = components(self.shape, relations, bindings, &sums);
        let composed: Vec<Composed<'_>> = components.iter().map(Composed).collect();
        let provers: Vec<&dyn ComponentProver<SimdBackend>> = composed.iter().map(|c| c as _).collect();
        let mut channel = OrderedChannel::new(transcript.channel().clone(), &self.scheme, self.shape.max_log_rows());
        let stark = stwo::prover::prove(&provers, &mut channel, ordered(self.scheme))
            .map_err(|error| ProveStarkError::Constraints(error.to_string()))?;
        *transcript.channel() = channel.into_inner();
        Ok((sums, stark))
    }

    /// Interaction columns of part `at` of [`Shape::parts`]: `eq`, `carry`, `last`, the running sum; and its claimed sum.
    ///
    /// # Panics
    /// If there are not so many parts.
    pub fn interaction(
        &self,
        at: usize,
        relations: &Relations,
        binding: &Option<Binding>,
        point: &[SecureField],
    ) -> Result<(Columns, SecureField), ProveStarkError> {
        let part = self.shape.parts()[at];
        let own = &self.columns[at];
        let Some(binding) = binding else {
            return Ok(entry_sums(relations, own, &self.tables));
        };
        let mut columns = eq_columns(suffix(point, self.shape.log_rows(part)))?;
        let (sums, claimed) = binding_sums(&binding.weights, own, &columns);
        columns.extend(sums);
        Ok((columns, claimed))
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
