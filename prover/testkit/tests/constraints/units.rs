//! From the linear claims to the opening: coefficients of units are those of committed columns alone, and their combination is
//! what the sumcheck ends in.

use num_traits::Zero;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::claims::batch;
use tessera_circuits::model::{WeightFormat, MIN_ROWS_LOG};
use tessera_circuits::ops::norms;
use tessera_circuits::shape::{Part, Shape};
use tessera_circuits::wiring::suffix;
use tessera_kernels::table::Table;
use tessera_model::tiles::tile_bytes;
use tessera_model::weights::PackedWeights;
use tessera_prover::activations::Activations;
use tessera_prover::claims;
use tessera_prover::column::of_elements;
use tessera_prover::device::Device;
use tessera_prover::opening::{self, commit, Codeword, CommittedWeights, ProverClaim, Split};
use tessera_prover::vectors::Vectors;
use tessera_support::progress::Silent;
use tessera_verifier::labels::CLAIMS_WORK;
use tessera_verifier::message::Unread;
use tessera_verifier::opening::{self as verifier, CommitmentParams};
use tessera_verifier::suite::Suite;
use tessera_verifier::sumcheck;
use tessera_verifier::transcript::Transcript;
use tessera_verifier::verify::{linear_variables, unit_coefficients};

use crate::setup::{cases, Case};

/// Weights that the activations are opened with.
const WEIGHTS: CommitmentParams = CommitmentParams {
    tiles: 1,
    log_message: 12,
    log_blowup: 2,
};

/// Whether the rows of a part are those of norms.
fn is_norms(part: Part) -> bool {
    matches!(part, Part::NORMS | Part::Q_NORMS | Part::K_NORMS)
}

/// Parts of lanes as tall as units, or taller.
fn opens(case: &Case) -> bool {
    let tall = |shape: &Shape| shape.parts().iter().all(|part| shape.log_rows(*part) >= MIN_ROWS_LOG);
    tall(&case.shape)
}

#[test]
fn the_linear_claims_end_in_the_committed_units() {
    let tile = PackedWeights::in_memory(WeightFormat::Int8, vec![0; tile_bytes(WeightFormat::Int8)]);
    let tree = commit(Suite::default(), &tile, &WEIGHTS, Split::default(), None, &Silent).expect("one tile");
    let codeword = Codeword::new(WEIGHTS, tree);
    let mut tried = 0;
    for mut case in cases().into_iter().filter(opens) {
        tried += 1;
        let batch = batch(
            std::mem::take(&mut case.claims),
            SecureField::from_u32_unchecked(2, 7, 1, 8),
        );
        let (shape, label) = (&case.shape, "units");
        let columns = Vectors.columns(of_elements(&case.columns)).expect("columns");
        let proved = claims::prove(
            &batch,
            batch.value,
            shape,
            &Vectors,
            &*columns,
            &mut Transcript::new(label),
        )
        .expect("rounds");
        let (variables, nonce) = (linear_variables(shape), proved.nonce.expect("work"));
        let end = sumcheck::verify(
            "claims",
            batch.value,
            variables,
            Unread::of(&proved.proof),
            Some((CLAIMS_WORK, Unread::of(&nonce))),
            &mut Transcript::new(label),
        );
        let end = end.expect("as many rounds as variables");
        // Next to weights of one tile.
        let params = CommitmentParams::of_activations(shape, &WEIGHTS);
        let gamma = unit_coefficients(shape, &batch, &end.point);
        assert_eq!((gamma.len(), gamma.len() as u128), (params.tiles, shape.units()));
        let local = suffix(&end.point, MIN_ROWS_LOG);
        let mut activations = Activations::commit(Suite::default(), shape, &*columns, params, None).expect("a tree");
        let values = activations.unit_values(local).expect("values");
        let zero = [SecureField::zero()];
        let mut weights = CommittedWeights::new(&tile, &codeword, Table::default()).expect("one tile");
        let mut opened = [
            ProverClaim::new(&mut weights, WEIGHTS.all(), local, &zero, &zero),
            ProverClaim::new(&mut *activations.units, params.all(), local, &gamma, &values),
        ];
        assert_eq!(opened[1].claim.value, end.value);
        let own = opening::open(&mut opened, None, &mut Transcript::new(label)).expect("an opening");
        let claims = opened.map(|own| own.claim);
        let verdict = verifier::verify(&claims, Unread::of(&own), &mut Transcript::new(label));
        assert_eq!(verdict, Ok(()));
        // Every committed column has a claim, and so has every of its units; but for those that lookups alone hold.
        let zeros = gamma.iter().filter(|g| g.is_zero()).count();
        let units = |part: Part, columns: usize| (columns * shape.lanes(part)) << (shape.log_rows(part) - MIN_ROWS_LOG);
        let norms = shape.parts().iter().filter(|part| is_norms(**part));
        let alone: usize = norms.map(|part| units(*part, norms::ROOT - norms::GAP + 1)).sum();
        let alone = alone + units(Part::SOFTMAX, 1);
        assert_eq!(zeros, alone, "units without a claim");
    }
    assert!(tried >= 6, "{tried} cases");
}
