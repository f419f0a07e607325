//! Openings that are made to fit.

use std::sync::Arc;

use num_traits::Zero;
use stwo::core::fields::FieldExpOps;
use tessera_circuits::model::MIN_ROWS_LOG;
use tessera_kernels::table::Table;
use tessera_prover::activations::Activations;
use tessera_prover::boundary::{Boundaries, BoundaryValues};
use tessera_prover::device::DeviceError;
use tessera_prover::matmul::PrecomputedMatmuls;
use tessera_prover::opening::parts::value;
use tessera_prover::opening::{self, Committed, CommittedWeights, OpeningProverError, ProverClaim, Twiddles};
use tessera_prover::ProverModel;
use tessera_verifier::opening::parts::{Layout, LeafOpening};
use tessera_verifier::opening::{Claim as OpeningClaim, Commitment, CommitmentName, OpenedColumns, OpeningProof};
use tessera_verifier::suite::Digest;
use tessera_verifier::transcript::Transcript;

use super::hooks::{Fit, Hooks};
use super::K;

/// Activations whose opening is not the honest one.
struct Forged<'a> {
    own: Activations<'a>,
    /// The coordinate that the first fold is at.
    fold: K,
    /// A unit, and a constant that is added to it where it is not committed.
    added: (usize, K),
}

impl Committed for Forged<'_> {
    fn commitment(&self) -> Commitment {
        self.own.units.commitment()
    }

    fn twiddles(&self) -> Arc<Twiddles> {
        self.own.units.twiddles()
    }

    fn combine(&mut self, columns: &OpenedColumns, weights: &[K], _: K) -> Result<Table<K>, DeviceError> {
        let mut message = self.own.units.combine(columns, weights, self.fold)?;
        let (length, half) = (1usize << columns.log_column_tiles(), 1usize << (MIN_ROWS_LOG - 1));
        let (unit, by) = self.added;
        let own = &mut message[unit % length * half..][..half];
        own.iter_mut().for_each(|v| *v += weights[unit / length] * by);
        Ok(message)
    }

    fn open(&mut self, twiddles: &Twiddles, leaves: &[usize]) -> Result<LeafOpening, OpeningProverError> {
        self.own.units.open(twiddles, leaves)
    }
}

/// The claim on the activations.
pub struct Claim<'a> {
    pub gamma: &'a [K],
    pub local: &'a [K],
    pub value: K,
}

/// What is opened of activations.
pub struct Told<'a> {
    forged: Forged<'a>,
    gamma: Vec<K>,
    /// Evaluations of the units.
    values: Vec<K>,
}

/// Makes activations fit a claim.
pub fn told<'a>(hooks: &Hooks<'_>, own: Activations<'a>, claim: &Claim<'_>) -> Told<'a> {
    let (mut gamma, mut local) = (claim.gamma.to_vec(), claim.local.to_vec());
    (hooks.gamma)(&mut gamma);
    (hooks.local)(&mut local);
    let mut values = own.unit_values(&local).expect("values");
    (hooks.unit_values)(&gamma, &mut values);
    let unit = gamma.iter().position(|g| !g.is_zero()).expect("a unit with a claim");
    let by = match hooks.fit {
        Fit::No => K::zero(),
        _ => (claim.value - value(&gamma, &values)) * gamma[unit].inverse(),
    };
    values[unit] += by;
    let forged = Forged {
        own,
        fold: *local.last().expect("twelve coordinates"),
        added: (unit, if hooks.fit == Fit::Message { by } else { K::zero() }),
    };
    Told { forged, gamma, values }
}

/// The claim on the weights.
pub struct BandClaim {
    pub opened: OpenedColumns,
    pub gamma: Vec<K>,
    pub local: Vec<K>,
    pub value: K,
}

/// The boundaries that a prover holds, what they are, and roots and values as the verifier has them.
pub type Opened<'s, 'b> = (
    &'s mut Boundaries<'b>,
    &'s [BoundaryValues],
    &'s [((CommitmentName, Digest), K)],
);

/// Opens weights, activations and boundaries. The claim on activations that is absorbed is the verifier's, and so are the roots of
/// boundaries.
pub fn open(
    model: &ProverModel<'_>,
    hooks: &Hooks<'_>,
    (bands, matmuls): (BandClaim, &mut PrecomputedMatmuls),
    activations: Told<'_>,
    claim: &Claim<'_>,
    ends: Opened<'_, '_>,
    transcript: &mut Transcript,
) -> OpeningProof {
    (hooks.band_values)(&bands.gamma, &mut matmuls.band_values);
    let weights = CommittedWeights::new(&model.quantised.weights, model.codeword, Table::default());
    let mut weights = weights.expect("weights");
    let columns = hooks.opened.unwrap_or(bands.opened);
    let mut weights = ProverClaim::new(&mut weights, columns, &bands.local, &bands.gamma, &matmuls.band_values);
    weights.claim.value = bands.value;
    let Told {
        mut forged,
        gamma,
        values,
    } = activations;
    let commitment = forged.commitment();
    let activations = ProverClaim {
        committed: &mut forged,
        claim: OpeningClaim {
            commitment,
            columns: commitment.params.all(),
            point: claim.local,
            gamma: &gamma,
            value: claim.value,
        },
        values: &values,
    };
    let mut claims = vec![weights, activations];
    let (boundaries, values, claimed) = ends;
    let mut boundaries = boundaries.claims(values);
    for own in &mut boundaries {
        let name = own.claim.commitment.name;
        let said = claimed.iter().find(|((own, _), _)| *own == name);
        let ((_, root), value) = said.expect("a root");
        (own.claim.commitment.root, own.claim.value) = (*root, *value);
    }
    claims.extend(boundaries);
    opening::open(&mut claims, None, transcript).expect("an opening")
}
