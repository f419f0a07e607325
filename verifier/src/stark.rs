//! Verification of the aggregator (docs/protocol.md, sections 8 and 9): components from the shape, every
//! length of stwo's proof checked before stwo sees it, tables pinned to the key, claimed sums balanced
//! against the evaluation claims, and the `carry` columns compared with their public polynomials.

use std::collections::BTreeMap;

use num_traits::{One, Zero};
use stwo::core::air::{Component, Components};
use stwo::core::channel::{Blake2sChannel, Channel, MerkleChannel};
use stwo::core::circle::CirclePoint;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::fri::{CirclePolyDegreeBound, FriVerifier};
use stwo::core::pcs::utils::prepare_preprocessed_query_positions;
use stwo::core::pcs::{CommitmentSchemeVerifier, TreeVec};
use stwo::core::proof::StarkProof;
use stwo::core::vcs::blake2_hash::Blake2sHash;
use stwo::core::vcs_lifted::blake2_merkle::{Blake2sMerkleChannel, Blake2sMerkleHasher};
use stwo_constraint_framework::preprocessed_columns::PreProcessedColumnId;
use stwo_constraint_framework::{FrameworkComponent, TraceLocationAllocator, INTERACTION_TRACE_IDX};
use tessera_circuits::air::{tables, Binding, Bound, Relations, BINDING_COLUMNS};
use tessera_circuits::claims::Batch;
use tessera_circuits::eq_kernel::{carries, eval_carry, eval_last, first};
use tessera_circuits::shape::{Part, Shape};
use tessera_circuits::wiring::suffix;
use thiserror::Error;

use crate::policy::{TracePolicy, TRACE_LOG_LAST_LAYER};
use crate::transcript::Transcript;

/// stwo's proof over Blake2s.
pub type Stark = StarkProof<Blake2sMerkleHasher>;

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
    #[error("STARK: FRI layers do not fit: {0}")]
    Fri(String),
    #[error("STARK: two answers to one query differ")]
    QueryConflict,
    #[error("STARK: two queries meet in the tables in the wrong order; the prover must take another nonce")]
    QueryOrder,
    #[error("STARK: claimed sums do not balance the evaluation claims")]
    Unbalanced,
    #[error("STARK: the tables do not balance the lookups")]
    Lookups,
    #[error("STARK: an evaluation point has a coordinate 0 or 1")]
    DegeneratePoint,
    #[error("STARK: the carry column of part {0:?} is not the public one")]
    Carry(Part),
    #[error("STARK: the last-row column of part {0:?} is not the public one")]
    LastRow(Part),
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

/// A binding with every weight non-zero: columns and constraints do not depend on the weights' values.
pub fn dummy_binding(shape: &Shape, part: Part) -> Option<Binding> {
    let weights = vec![SecureField::one(); shape.columns(part)];
    (part != Part::Tables).then_some(Binding {
        first: SecureField::one(),
        weights,
    })
}

/// Bindings of all parts at the end point of the linear sumcheck: successive powers of `challenge`, one for
/// each claimed column.
pub fn bindings(shape: &Shape, batch: &Batch, point: &[SecureField], challenge: SecureField) -> Vec<Option<Binding>> {
    let mut power = SecureField::one();
    let mut next = || {
        power *= challenge;
        power
    };
    shape
        .parts()
        .iter()
        .map(|&part| {
            if part == Part::Tables {
                return None;
            }
            let mut weights = vec![SecureField::zero(); shape.columns(part)];
            for column in batch.columns(part) {
                if let Some(weight) = weights.get_mut(column) {
                    *weight = next();
                }
            }
            let first = first(suffix(point, shape.log_rows(part)));
            Some(Binding { first, weights })
        })
        .collect()
}

/// The components of a proof, in commitment order.
pub fn components(
    shape: &Shape,
    relations: &Relations,
    bindings: Vec<Option<Binding>>,
    claimed_sums: &[SecureField],
) -> Vec<FrameworkComponent<Bound>> {
    let ids = tables::PREPROCESSED.map(|id| PreProcessedColumnId { id: id.to_owned() });
    let mut allocator = TraceLocationAllocator::new_with_preprocessed_columns(&ids);
    shape
        .parts()
        .iter()
        .zip(bindings)
        .zip(claimed_sums)
        .map(|((&part, binding), &sum)| {
            let bound = Bound {
                air: shape.air(part),
                relations: relations.clone(),
                binding,
            };
            FrameworkComponent::new(&mut allocator, bound, sum)
        })
        .collect()
}

/// log2 sizes of the columns of the three committed trees (tables, trace, interaction).
pub fn column_sizes(shape: &Shape) -> TreeVec<Vec<u32>> {
    let bindings = shape.parts().iter().map(|p| dummy_binding(shape, *p)).collect();
    let sums = vec![SecureField::zero(); shape.parts().len()];
    let components = components(shape, &Relations::dummy(), bindings, &sums);
    let list: Vec<&dyn Component> = components.iter().map(|c| c as &dyn Component).collect();
    Components {
        components: list,
        n_preprocessed_columns: tables::PREPROCESSED.len(),
    }
    .column_log_sizes()
}

/// What the proof must show, all from the verifier's side.
pub struct StarkClaim<'a> {
    /// The row spaces.
    pub shape: &'a Shape,
    /// The linear claims.
    pub batch: &'a Batch,
    /// End point of the linear sumcheck; a part uses the last coordinates.
    pub point: &'a [SecureField],
    /// Values of the claimed columns, part by part.
    pub evaluations: &'a [Vec<SecureField>],
    /// The challenges of the lookups, drawn before their sums were proved.
    pub relations: &'a Relations,
    /// The sum of the fractions of all lookups.
    pub lookups: SecureField,
    /// Sums of the components.
    pub claimed_sums: &'a [SecureField],
}

/// The commitment scheme after the trees that precede the first challenge: tables (pinned) and trace.
pub fn open_scheme(
    policy: TracePolicy,
    tables_root: &[u8; 32],
    sizes: &TreeVec<Vec<u32>>,
    proof: &Stark,
    transcript: &mut Transcript,
) -> Result<CommitmentSchemeVerifier<Blake2sMerkleChannel>, StarkError> {
    if proof.config != policy.pcs_config() {
        return Err(StarkError::Config);
    }
    let [tables, trace, _, _] = proof.commitments.as_slice() else {
        return Err(StarkError::Length {
            what: "commitments",
            got: proof.commitments.len(),
            expected: 4,
        });
    };
    if tables.0 != *tables_root {
        return Err(StarkError::Tables);
    }
    let mut scheme = CommitmentSchemeVerifier::new(policy.pcs_config());
    for (root, tree) in [tables, trace].into_iter().zip(sizes.iter()) {
        scheme.commit(*root, tree, transcript.channel());
    }
    Ok(scheme)
}

/// Checks the claimed sums: those of the parts are the evaluation claims, and that of the tables cancels the lookups. Two equations:
/// in one, a wrong evaluation could pay for a wrong lookup.
fn check_balance(claim: &StarkClaim<'_>, bindings: &[Option<Binding>]) -> Result<(), StarkError> {
    let mut expected = SecureField::zero();
    for ((part, binding), values) in claim.shape.parts().iter().zip(bindings).zip(claim.evaluations) {
        let Some(binding) = binding else { continue };
        for (column, value) in claim.batch.columns(*part).into_iter().zip(values) {
            expected += binding.weights.get(column).copied().unwrap_or_default() * *value;
        }
    }
    let Some((tables, parts)) = claim.claimed_sums.split_last() else {
        return Err(StarkError::Unbalanced);
    };
    if *tables + claim.lookups != SecureField::zero() {
        return Err(StarkError::Lookups);
    }
    match parts.iter().fold(SecureField::zero(), |sum, s| sum + *s) == expected {
        true => Ok(()),
        false => Err(StarkError::Unbalanced),
    }
}

/// Verifies the aggregator. The transcript must have absorbed everything up to the weight opening; `scheme` is that of
/// [`open_scheme`] for the same proof, which has checked its configuration, its tables and its number of commitments.
pub fn verify(
    claim: &StarkClaim<'_>,
    mut scheme: CommitmentSchemeVerifier<Blake2sMerkleChannel>,
    sizes: &TreeVec<Vec<u32>>,
    proof: &Stark,
    transcript: &mut Transcript,
) -> Result<(), StarkError> {
    let shape = claim.shape;
    length("claimed sums", claim.claimed_sums.len(), shape.parts().len())?;
    let bindings = bindings(shape, claim.batch, claim.point, draw_binding(transcript));
    check_balance(claim, &bindings)?;
    transcript.message("claimed sums", claim.claimed_sums);
    let (Some(root), Some(tree)) = (
        proof.commitments.get(INTERACTION_TRACE_IDX),
        sizes.get(INTERACTION_TRACE_IDX),
    ) else {
        return Err(StarkError::Length {
            what: "commitments",
            got: proof.commitments.len(),
            expected: 4,
        });
    };
    scheme.commit(*root, tree, transcript.channel());

    let components = components(shape, claim.relations, bindings, claim.claimed_sums);
    let list: Vec<&dyn Component> = components.iter().map(|c| c as &dyn Component).collect();
    let oods = check_structure(&list, sizes, shape, proof, transcript.channel().clone())?;
    check_carries(claim, &components, proof, oods)?;

    let channel = transcript.channel();
    // Every length was checked; this is the last line against a panic in the library.
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        stwo::core::verifier::verify(&list, channel, &mut scheme, proof.clone())
    }));
    match result {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(StarkError::Invalid(error.to_string())),
        Err(_) => Err(StarkError::Panicked),
    }
}

/// The challenges of the lookups. Both sides call it when trace and statistics are absorbed.
pub fn draw_relations(transcript: &mut Transcript) -> Relations {
    transcript.words("lookups", &[]);
    Relations::draw(transcript.channel())
}

/// The challenge of the bindings. Both sides call it after the weight opening.
pub fn draw_binding(transcript: &mut Transcript) -> SecureField {
    transcript.challenge("binding")
}

/// Checks every length in the proof by replaying the conversation on a copy of the channel, as far as
/// the query positions; returns the out-of-domain point.
fn check_structure(
    components: &[&dyn Component],
    sizes: &TreeVec<Vec<u32>>,
    shape: &Shape,
    proof: &Stark,
    mut channel: Blake2sChannel,
) -> Result<CirclePoint<SecureField>, StarkError> {
    let config = TracePolicy::of(shape).pcs_config();
    let log_degree = shape.max_log_rows();
    let log_domain = log_degree + config.fri_config.log_blowup_factor;
    length("decommitments", proof.decommitments.len(), 4)?;
    length("sampled trees", proof.sampled_values.len(), 4)?;
    length("queried trees", proof.queried_values.len(), 4)?;

    let _composition_coefficient = channel.draw_secure_felt();
    let composition = proof.commitments.last().copied().unwrap_or(Blake2sHash([0; 32]));
    Blake2sMerkleChannel::mix_root(&mut channel, composition);
    let oods = CirclePoint::<SecureField>::get_random_point(&mut channel);
    let all = Components {
        components: components.to_vec(),
        n_preprocessed_columns: tables::PREPROCESSED.len(),
    };
    let mut points = all.mask_points(oods, log_degree, false);
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
        1 << TRACE_LOG_LAST_LAYER,
    )?;
    let mut fri = FriVerifier::<Blake2sMerkleChannel>::commit(
        &mut channel,
        config.fri_config,
        proof.fri_proof.clone(),
        CirclePolyDegreeBound::new(log_degree),
    )
    .map_err(|e| StarkError::Fri(e.to_string()))?;
    channel.mix_u64(proof.proof_of_work);
    let positions = fri.sample_query_positions(&mut channel);
    let tables_log = sizes.first().and_then(|t| t.iter().max()).copied().unwrap_or(0);
    let tables_domain = tables_log + config.fri_config.log_blowup_factor;
    if !queries_in_order(&positions, log_domain, tables_domain) {
        return Err(StarkError::QueryOrder);
    }
    let tables_positions = prepare_preprocessed_query_positions(&positions, log_domain, tables_domain);
    for (i, tree) in proof.queried_values.iter().enumerate() {
        let width = if i == 3 { 8 } else { sizes.get(i).map_or(0, Vec::len) };
        length("queried columns", tree.len(), width)?;
        for column in tree {
            length("answers of a column", column.len(), positions.len())?;
            if i == 0 {
                check_repeats(&tables_positions, column)?;
            }
        }
    }
    Ok(oods)
}

/// Whether the queries at `positions` of a domain of `2^log_domain` points, ascending, do not decrease in the tables' domain of
/// `2^log_tables`. Under a taller trace, `2^(d + 1)` neighbours of the domain share two neighbours of the tables' domain, so
/// sorted queries can meet there in the wrong order. stwo then hashes siblings in the wrong order, or leaves answers after the
/// second of a pair unchecked.
pub fn queries_in_order(positions: &[usize], log_domain: u32, log_tables: u32) -> bool {
    prepare_preprocessed_query_positions(positions, log_domain, log_tables).is_sorted()
}

/// Equal positions must have equal answers, neighbours or not.
fn check_repeats(positions: &[usize], answers: &[BaseField]) -> Result<(), StarkError> {
    let mut first = BTreeMap::new();
    for (position, answer) in positions.iter().zip(answers) {
        if first.entry(position).or_insert(answer) != &answer {
            return Err(StarkError::QueryConflict);
        }
    }
    Ok(())
}

/// The `carry` and `last` columns at the out-of-domain point against their public polynomials.
fn check_carries(
    claim: &StarkClaim<'_>,
    components: &[FrameworkComponent<Bound>],
    proof: &Stark,
    oods: CirclePoint<SecureField>,
) -> Result<(), StarkError> {
    let log_degree = claim.shape.max_log_rows();
    for (part, component) in claim.shape.claimed().zip(components) {
        let log_rows = claim.shape.log_rows(part);
        let at = oods.repeated_double(log_degree - log_rows);
        let carry = carries(suffix(claim.point, log_rows))
            .and_then(|c| eval_carry(&c, at))
            .ok_or(StarkError::DegeneratePoint)?;
        let last = eval_last(log_rows, at).ok_or(StarkError::DegeneratePoint)?;
        let start = component
            .trace_locations()
            .get(INTERACTION_TRACE_IDX)
            .map_or(0, |span| span.col_start);
        let samples = proof
            .sampled_values
            .get(INTERACTION_TRACE_IDX)
            .and_then(|t| t.get(start..start + BINDING_COLUMNS));
        let values: Option<Vec<SecureField>> =
            samples.and_then(|s| s.iter().map(|column| column.first().copied()).collect());
        let Some([_, _, _, _, a, b, c, d, found_last]) = values.as_deref() else {
            return Err(StarkError::Carry(part));
        };
        if SecureField::from_partial_evals([*a, *b, *c, *d]) != carry {
            return Err(StarkError::Carry(part));
        }
        if *found_last != last {
            return Err(StarkError::LastRow(part));
        }
    }
    Ok(())
}

#[cfg(test)]
mod periodicity;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_position_has_one_answer() {
        let check = |answers: [u32; 4]| check_repeats(&[0, 1, 0, 6], &answers.map(BaseField::from));
        assert_eq!(check([5, 5, 5, 6]), Ok(()));
        assert_eq!(check([5, 6, 5, 5]), Ok(()));
        assert_eq!(check([5, 6, 7, 6]), Err(StarkError::QueryConflict));
    }

    #[test]
    fn queries_that_meet_in_the_wrong_order_are_rejected() {
        let order = |positions: &[usize], d: u32| queries_in_order(positions, tables::LOG_ROWS + d, tables::LOG_ROWS);
        // Four neighbours of a domain twice as large share the positions 0 and 1: as 0, 1, 0, 1.
        assert!(order(&[0, 1, 4, 7], 1));
        assert!(order(&[0, 2, 3], 1));
        assert!(!order(&[1, 2], 1));
        assert!(!order(&[0, 1, 2], 1));
        assert!(order(&[0, 1, 2, 3], 0));
    }
}
