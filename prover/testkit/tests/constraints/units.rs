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
use tessera_prover::opening::{self, commit, Codeword, Committed, CommittedWeights, Side, Split};
use tessera_prover::vectors::Vectors;
use tessera_support::progress::Silent;
use tessera_verifier::message::Unread;
use tessera_verifier::opening::{self as verifier, Claimed, CommitmentParams, OpeningClaim};
use tessera_verifier::policy::opening_policy;
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
        let proved = claims::prove(&batch, shape, &Vectors, &*columns, &mut Transcript::new(label)).expect("rounds");
        let variables = linear_variables(shape);
        let end = sumcheck::verify(
            "claims",
            batch.value,
            variables,
            Unread::of(&proved.proof),
            &mut Transcript::new(label),
        );
        let end = end.expect("as many rounds as variables");
        // Next to weights of one tile.
        let params = CommitmentParams::of_activations(shape, &WEIGHTS);
        let gamma = unit_coefficients(shape, &batch, &end.point);
        assert_eq!((gamma.len(), gamma.len() as u128), (params.tiles, shape.units()));
        let local = suffix(&end.point, MIN_ROWS_LOG);
        let mut activations = Activations::commit(Suite::default(), shape, &*columns, params).expect("a tree");
        let values = activations.unit_values(local).expect("values");
        assert_eq!(opening::value(&gamma, &values), end.value);
        let claim = OpeningClaim {
            columns: params.columns_of(&(0..params.tiles), 0),
            gamma: &gamma,
            local_point: local,
            value: end.value,
        };
        let policy = opening_policy(params.log_blowup);
        let committed = [WEIGHTS, params];
        let roots = [*codeword.root(), *activations.root()];
        let zero = [SecureField::zero()];
        let weights_claim = OpeningClaim {
            columns: WEIGHTS.columns_of(&(0..1), 0),
            gamma: &zero,
            local_point: local,
            value: zero[0],
        };
        let mut weights = CommittedWeights::new(&tile, &codeword, Table::default()).expect("one tile");
        let own = opening::open(
            &policy,
            Side {
                committed: &mut weights,
                claim: weights_claim,
                values: &zero,
            },
            Side {
                committed: &mut activations,
                claim,
                values: &values,
            },
            &mut Transcript::new(label),
        );
        let own = own.expect("an opening");
        let claimed = [0, 1].map(|i| Claimed {
            commitment: committed[i],
            root: roots[i],
            claim: [weights_claim, claim][i],
        });
        let verdict = verifier::verify(&policy, &claimed, Unread::of(&own), &mut Transcript::new(label));
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
