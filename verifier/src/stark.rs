//! Verification of the aggregator (docs/protocol.md, section 9): stwo's proof that the entries of the lookup tables, as often as
//! the committed multiplicities say, add up to the claimed sum. Every length of the proof is checked before stwo sees it, and the
//! tables are pinned to the key.

mod tables;

use num_traits::Zero;
use stwo::core::air::{Component, Components};
use stwo::core::channel::Channel;
use stwo::core::circle::CirclePoint;
use stwo::core::fields::qm31::SecureField;
use stwo::core::fri::{CirclePolyDegreeBound, FriVerifier};
use stwo::core::pcs::{CommitmentSchemeVerifier, TreeVec};
use stwo::core::proof::StarkProof;
use stwo::core::vcs::blake2_hash::Blake2sHash;
use stwo::core::vcs_lifted::blake2_merkle::Blake2sMerkleHasher;
use stwo_constraint_framework::{FrameworkComponent, TraceLocationAllocator, INTERACTION_TRACE_IDX};
use tessera_circuits::air::lookups::Relation;
use tessera_circuits::air::tables::{TableEntries, LOG_ROWS};
use tessera_circuits::air::Relations;
use thiserror::Error;

use crate::labels::CLAIMED_SUM;
use crate::message::{Bound, NotCanonical, Unread};
use crate::policy::{stark_config, STARK_LOG_LAST_LAYER};
use crate::suite::{SuiteChannel, Trees};
use crate::transcript::Transcript;

pub use self::tables::check_tables;

/// stwo's proof. Only keys of Blake2s ask for one.
pub type Stark = StarkProof<Blake2sMerkleHasher>;

impl Bound for Stark {}

/// Why the aggregator's proof is rejected.
#[derive(Debug, Error, PartialEq, Eq)]
// The messages say what each is.
#[allow(missing_docs)]
#[non_exhaustive]
pub enum StarkError {
    #[error("STARK: {what} has {got} entries, expected {expected}")]
    Length {
        what: &'static str,
        got: usize,
        expected: usize,
    },
    #[error("STARK: the configuration in the proof is not the verifier's")]
    Config,
    #[error("STARK: the tables are not those of the model key")]
    Tables,
    #[error(
        "STARK: the tables of the model key do not follow from its parameters; no proof with this key proves anything"
    )]
    OtherTables,
    #[error("STARK: FRI layers do not fit: {0}")]
    Fri(String),
    #[error("STARK: the tables do not balance the lookups")]
    Lookups,
    #[error("STARK: {0}")]
    NotCanonical(#[from] NotCanonical),
    #[error("STARK: {0}")]
    Invalid(String),
    #[error("STARK: the verifier library gave up on this proof")]
    Panicked,
}

fn length(what: &'static str, got: usize, expected: usize) -> Result<(), StarkError> {
    if got != expected {
        return Err(StarkError::Length { what, got, expected });
    }
    Ok(())
}

/// The component of the tables, whose multiplicities are `weighted` where there are two balance groups or more.
pub fn component(relations: &Relations, weighted: bool, claimed_sum: SecureField) -> FrameworkComponent<TableEntries> {
    let entries = TableEntries::new(relations, weighted);
    let mut allocator = TraceLocationAllocator::new_with_preprocessed_columns(&entries.ids());
    FrameworkComponent::new(&mut allocator, entries, claimed_sum)
}

fn components(component: &FrameworkComponent<TableEntries>) -> Components<'_> {
    Components {
        components: vec![component],
        n_preprocessed_columns: component.ids().len(),
    }
}

/// How many samples each column of each of the four trees has, of a model with these relations.
pub fn samples(relations: &[Relation], weighted: bool) -> Vec<Vec<usize>> {
    let (anywhere, own) = (
        CirclePoint::zero(),
        component(&Relations::dummy(relations), weighted, SecureField::zero()),
    );
    let mut points = components(&own).mask_points(anywhere, LOG_ROWS, false);
    points.push(vec![vec![anywhere]; 8]);
    let of_tree = |columns: &Vec<Vec<_>>| columns.iter().map(Vec::len).collect();
    points.iter().map(of_tree).collect()
}

/// What the proof must show, all from the verifier's side.
pub struct StarkClaim<'a> {
    /// The challenges of the lookups, drawn before their sums were proved.
    pub relations: &'a Relations,
    /// Whether there are two balance groups or more.
    pub weighted: bool,
    /// The sum of the fractions of all lookups, weighed.
    pub lookups: SecureField,
    /// What the prover says that the entries add up to.
    pub claimed_sum: Unread<'a, SecureField>,
}

/// Absorbs the trees of the tables, which is pinned, and of the multiplicities, before the challenges of the lookups.
pub fn absorb(tables_root: &[u8; 32], proof: &Stark, transcript: &mut Transcript) -> Result<(), StarkError> {
    let [tables, counts, ..] = roots(proof)?;
    if tables.0 != *tables_root {
        return Err(StarkError::Tables);
    }
    transcript.root(&tables.0);
    transcript.root(&counts.0);
    Ok(())
}

/// The roots of all trees of a proof with the verifier's configuration.
fn roots(proof: &Stark) -> Result<[Blake2sHash; 4], StarkError> {
    if proof.config != stark_config() {
        return Err(StarkError::Config);
    }
    let got = proof.commitments.len();
    let roots = proof.commitments.as_slice().try_into();
    roots.map_err(|_| StarkError::Length {
        what: "commitments",
        got,
        expected: 4,
    })
}

/// Verifies the aggregator. The transcript must have absorbed everything up to the openings, with [`absorb`] for the
/// same proof. Returns the out-of-domain point, at which [`check_tables`] compares the tables.
pub fn verify(
    claim: &StarkClaim<'_>,
    proof: &Stark,
    transcript: &mut Transcript,
) -> Result<CirclePoint<SecureField>, StarkError> {
    let claimed_sum = *transcript.receive(CLAIMED_SUM, claim.claimed_sum)?;
    if claimed_sum + claim.lookups != SecureField::zero() {
        return Err(StarkError::Lookups);
    }
    let component = &component(claim.relations, claim.weighted, claimed_sum);
    let [tables, counts, interaction, _] = roots(proof)?;
    let mut scheme = CommitmentSchemeVerifier::<Trees>::new(stark_config());
    let sizes = components(component).column_log_sizes();
    let mut committed = [tables, counts, interaction].into_iter().zip(sizes.iter());
    // The first two are absorbed: this is what made the challenges of the lookups.
    for (root, tree) in committed.by_ref().take(INTERACTION_TRACE_IDX) {
        scheme.commit(root, tree, &mut SuiteChannel::default());
    }
    for (root, tree) in committed {
        scheme.commit(root, tree, transcript.channel());
    }
    let point = check_structure(component, &sizes, proof, transcript.channel().clone())?;

    let channel = transcript.channel();
    // Every length was checked; this is the last line against a panic in the library.
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        stwo::core::verifier::verify(&[component as &dyn Component], channel, &mut scheme, proof.clone())
    }));
    match result {
        Ok(Ok(())) => Ok(point),
        Ok(Err(error)) => Err(StarkError::Invalid(error.to_string())),
        Err(_) => Err(StarkError::Panicked),
    }
}

/// Checks every length in the proof by replaying the conversation on a copy of the channel, as far as the query positions. Returns the
/// out-of-domain point.
fn check_structure(
    component: &FrameworkComponent<TableEntries>,
    sizes: &TreeVec<Vec<u32>>,
    proof: &Stark,
    mut channel: SuiteChannel,
) -> Result<CirclePoint<SecureField>, StarkError> {
    let config = stark_config();
    length("decommitments", proof.decommitments.len(), 4)?;
    length("sampled trees", proof.sampled_values.len(), 4)?;
    length("queried trees", proof.queried_values.len(), 4)?;

    let _composition_coefficient = channel.draw_secure_felt();
    let composition = proof.commitments.last().copied().unwrap_or(Blake2sHash([0; 32]));
    channel.mix_root(&composition.0);
    let oods = CirclePoint::<SecureField>::get_random_point(&mut channel);
    let mut points = components(component).mask_points(oods, LOG_ROWS, false);
    points.push(vec![vec![oods]; 8]);
    for (tree, values) in points.iter().zip(proof.sampled_values.iter()) {
        length("sampled columns", values.len(), tree.len())?;
        for (column, values) in tree.iter().zip(values) {
            length("samples of a column", values.len(), column.len())?;
        }
    }
    channel.mix_felts(&proof.sampled_values.clone().flatten_cols());
    let _quotient_coefficient = channel.draw_secure_felt();
    length(
        "last FRI layer",
        proof.fri_proof.last_layer_poly.len(),
        1 << STARK_LOG_LAST_LAYER,
    )?;
    let mut fri = FriVerifier::<Trees>::commit(
        &mut channel,
        config.fri_config,
        proof.fri_proof.clone(),
        CirclePolyDegreeBound::new(LOG_ROWS),
    )
    .map_err(|e| StarkError::Fri(e.to_string()))?;
    channel.mix_u64(proof.proof_of_work);
    let positions = fri.sample_query_positions(&mut channel);
    for (i, tree) in proof.queried_values.iter().enumerate() {
        let width = if i == 3 { 8 } else { sizes.get(i).map_or(0, Vec::len) };
        length("queried columns", tree.len(), width)?;
        for column in tree {
            length("answers of a column", column.len(), positions.len())?;
        }
    }
    Ok(oods)
}

#[cfg(test)]
mod tests;
