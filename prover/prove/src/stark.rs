//! The aggregator's prover (docs/protocol.md, section 9), twin of the verifier's `stark`: the tables, as often as they are used.

mod suites;

use num_traits::{One, Zero};
use rayon::prelude::*;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::{SecureField, SECURE_EXTENSION_DEGREE};
use stwo::core::fields::FieldExpOps;
use stwo::core::poly::circle::CanonicCoset;
use stwo::core::utils::{bit_reverse_index, coset_index_to_circle_domain_index};
use stwo::prover::backend::simd::column::BaseColumn;
use stwo::prover::backend::simd::SimdBackend;
use stwo::prover::poly::circle::{CircleEvaluation, PolyOps};
use stwo::prover::poly::twiddles::TwiddleTree;
use stwo::prover::poly::BitReversedOrder;
use stwo::prover::{CommitmentSchemeProver, ComponentProver};
use tessera_circuits::air::lookups::Relation;
use tessera_circuits::air::tables::{LookupTables, LOG_ROWS};
use tessera_circuits::air::Relations;
use tessera_circuits::model::{ModelConfig, ModelParams};
use tessera_circuits::table_tree::TableArgument;
use tessera_circuits::trees::{Forest, LookupTree};
use tessera_verifier::labels::CLAIMED_SUM;
use tessera_verifier::policy::{stark_config, STARK_LOG_BLOWUP};
use tessera_verifier::stark::{component, Stark};
use tessera_verifier::suite::SuiteChannel;
use tessera_verifier::transcript::Transcript;
use thiserror::Error;

use super::device::{self, tuples, DeviceError};
use super::trace::Columns;

pub use self::suites::{ProverChannel, ProverTrees};

/// The trees of a proof.
pub type Scheme<'a> = CommitmentSchemeProver<'a, SimdBackend, ProverTrees>;

/// The aggregator could not be proved.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ProveStarkError {
    /// The multiplicities violate a constraint: a defect of this program, never of the input.
    #[error("internal error: the tables do not satisfy the constraints ({0})")]
    Constraints(String),
}

/// Twiddles of the tables' domains.
pub fn twiddles() -> TwiddleTree<SimdBackend> {
    let log_size = LOG_ROWS + 1 + STARK_LOG_BLOWUP;
    SimdBackend::precompute_twiddles(CanonicCoset::new(log_size).circle_domain().half_coset)
}

/// What the key of a model says of its lookup tables: their Merkle root if a STARK proves them, or else zeros.
pub fn tables_root(tables: TableArgument, params: &ModelParams, config: &ModelConfig) -> [u8; 32] {
    match tables {
        TableArgument::Stark => root_of(&LookupTables::new(params, config).columns),
        TableArgument::Gkr => [0; 32],
    }
}

/// Merkle root of columns of `2^16` rows, in row order.
pub fn root_of(columns: &Columns) -> [u8; 32] {
    let twiddles = twiddles();
    let mut scheme = Scheme::new(stark_config(), &twiddles);
    commit(&mut scheme, columns, &mut SuiteChannel::default());
    scheme.roots()[0].0
}

/// Commits to columns, in row order, as the next tree.
pub fn commit(scheme: &mut Scheme<'_>, columns: &[Vec<BaseField>], channel: &mut SuiteChannel) {
    let mut tree = scheme.tree_builder();
    tree.extend_evals(columns.par_iter().map(|column| evaluation(column)).collect());
    ProverChannel::with(channel, |channel| tree.commit(channel));
}

/// A column in stwo's order.
fn evaluation(rows: &[BaseField]) -> CircleEvaluation<SimdBackend, BaseField, BitReversedOrder> {
    let log_size = rows.len().ilog2();
    let mut values = vec![BaseField::zero(); rows.len()];
    for (z, row) in rows.iter().enumerate() {
        let entry = coset_index_to_circle_domain_index(z, log_size);
        values[bit_reverse_index(entry, log_size)] = *row;
    }
    CircleEvaluation::new(
        CanonicCoset::new(log_size).circle_domain(),
        BaseColumn::from_cpu(&values),
    )
}

/// How often the lookups use every row of the tables, as the columns that are committed to: one for each relation. Where balance groups are
/// weighed, the uses in group `m` count `weight^m` times, so that a relation has four columns, their coordinates.
pub fn multiplicities(
    columns: &dyn device::Columns,
    relations: &[Relation],
    (trees, forest): (&[LookupTree], &Forest),
    weight: Option<SecureField>,
) -> Result<Columns, DeviceError> {
    let Some(weight) = weight else {
        return columns.count(relations, trees);
    };
    let mut sums = vec![vec![SecureField::zero(); 1 << LOG_ROWS]; relations.len()];
    let mut power = SecureField::one();
    for balance in forest.balances() {
        let counts = columns.count(relations, &trees[balance])?;
        sums.par_iter_mut().zip(&counts).for_each(|(sums, counts)| {
            sums.iter_mut()
                .zip(counts)
                .for_each(|(sum, count)| *sum += power * *count);
        });
        power *= weight;
    }
    Ok(sums.iter().flat_map(|sums| coordinates(sums)).collect())
}

/// The tables and how often they are used, committed.
pub struct Counted<'a> {
    counts: Columns,
    tables: LookupTables,
    scheme: Scheme<'a>,
}

impl<'a> Counted<'a> {
    /// Commits to the tables and to multiplicities, before the challenges of the lookups.
    pub fn commit(
        (params, config): (&ModelParams, &ModelConfig),
        counts: Columns,
        twiddles: &'a TwiddleTree<SimdBackend>,
        transcript: &mut Transcript,
    ) -> Self {
        let tables = LookupTables::new(params, config);
        let mut scheme = Scheme::new(stark_config(), twiddles);
        // Evaluations out of the domain by coefficients: by barycentric weights they were two thirds of the STARK's time.
        scheme.set_store_polynomials_coefficients();
        for tree in [&tables.columns, &counts] {
            commit(&mut scheme, tree, transcript.channel());
        }
        Self { counts, tables, scheme }
    }

    /// Proves what the entries add up to; `relations` are the challenges of the lookups. Returns the claimed sum and the proof.
    pub fn prove(
        self,
        relations: &Relations,
        transcript: &mut Transcript,
    ) -> Result<(SecureField, Stark), ProveStarkError> {
        let (interaction, sum) = entry_sums(relations, &self.counts, &self.tables);
        transcript.send(CLAIMED_SUM, &sum);
        let component = component(relations, self.counts.len() > relations.drawn.len(), sum);
        let (component, channel) = (&component as &dyn ComponentProver<SimdBackend>, transcript.channel());
        let mut scheme = self.scheme;
        commit(&mut scheme, &interaction, channel);
        let stark = ProverChannel::with(channel, |channel| stwo::prover::prove(&[component], channel, scheme));
        let stark = stark.map_err(|error| ProveStarkError::Constraints(error.to_string()))?;
        Ok((sum, stark))
    }
}

/// The LogUp columns of the tables and their claimed sum: each has the sum of the entries of a row up to a pair, the last one
/// sums on over rows. A relation has one column of `counts`, or the four coordinates of one.
pub fn entry_sums(relations: &Relations, counts: &Columns, tables: &LookupTables) -> (Columns, SecureField) {
    let width = counts.len() / relations.drawn.len();
    let fractions = relations
        .drawn
        .par_iter()
        .zip(counts.par_chunks(width))
        .map(|(drawn, counts)| {
            let denominators = tuples(relations, drawn.relation, tables);
            let inverses = SecureField::batch_inverse(&denominators).into_iter().enumerate();
            match counts {
                [counts] => inverses.map(|(row, inverse)| inverse * -counts[row]).collect(),
                counts => inverses
                    .map(|(row, inverse)| inverse * -element(counts, row))
                    .collect::<Vec<SecureField>>(),
            }
        });
    let fractions: Vec<_> = fractions.collect();
    let mut sums = vec![SecureField::zero(); 1 << LOG_ROWS];
    let mut columns = Columns::new();
    let mut pairs = fractions.chunks(2).peekable();
    while let Some(pair) = pairs.next() {
        for fractions in pair {
            sums.iter_mut().zip(fractions).for_each(|(sum, f)| *sum += *f);
        }
        if pairs.peek().is_some() {
            columns.extend(coordinates(&sums));
        }
    }
    running_sum(columns, &sums)
}

/// The element of a row, of which columns have the coordinates.
fn element(columns: &[Vec<BaseField>], row: usize) -> SecureField {
    SecureField::from_m31_array(std::array::from_fn(|i| columns[i][row]))
}

/// Coordinates of a column.
fn coordinates(values: &[SecureField]) -> Columns {
    (0..SECURE_EXTENSION_DEGREE)
        .map(|i| values.iter().map(|v| v.to_m31_array()[i]).collect())
        .collect()
}

/// Adds the sums of values over the rows so far, shifted to end in zero; also returns their total.
fn running_sum(mut columns: Columns, values: &[SecureField]) -> (Columns, SecureField) {
    let sums: Vec<(Vec<BaseField>, BaseField)> = (0..SECURE_EXTENSION_DEGREE)
        .into_par_iter()
        .map(|i| {
            let mut column: Vec<BaseField> = values.iter().map(|v| v.to_m31_array()[i]).collect();
            let total = column.iter().fold(BaseField::zero(), |sum, v| sum + *v);
            let shift = total * BaseField::from_u32_unchecked(values.len() as u32).inverse();
            let mut sum = BaseField::zero();
            for v in &mut column {
                sum += *v - shift;
                *v = sum;
            }
            (column, total)
        })
        .collect();
    let total = SecureField::from_m31_array(std::array::from_fn(|i| sums[i].1));
    columns.extend(sums.into_iter().map(|(column, _)| column));
    (columns, total)
}
