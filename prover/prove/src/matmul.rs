//! All matmuls of a forward pass as one batched product sumcheck (docs/protocol.md, sections 5 and 6): the
//! [`PrecomputedMatmuls`] that are injected into the aggregator, which never sees a weight.

use stwo::core::fields::qm31::SecureField;
use tessera_circuits::claims::Operands;
use tessera_circuits::model::TILE_LOG;
use tessera_circuits::wiring::{suffix, Public};
use tessera_verifier::labels::{MATMULS, OPERANDS};
use tessera_verifier::opening::OpenedColumns;
use tessera_verifier::proof::MatmulProof;

use crate::device::{Bands, Columns, Device, DeviceError, Table as Factor};
use crate::digits::HiddenDigits;
use crate::factors::Factors;
use crate::opening::memory::message_bytes;
use crate::speak::Speaker;
use crate::sumcheck::{self, Instance};
use tessera_model::passes::Traffic;
use tessera_model::tiles::{TileRange, TileSource};

type K = SecureField;

/// The matmuls, proved: what the aggregator is given instead of the weights.
pub struct PrecomputedMatmuls {
    pub proof: MatmulProof,
    /// The batched accumulators at the random point.
    pub claim: K,
    /// The last evaluations of the factors of the products that the chunk has.
    pub operands: Operands,
    /// End point of the sumcheck.
    pub point: Vec<K>,
    /// `B~(local point)` of every opened band, for the opening.
    pub band_values: Vec<K>,
    /// What the pass over the weights read.
    pub traffic: Traffic,
}

/// Proves all matmuls of a chunk, whose tiles are among those of `opened`, and says what its committed boundaries are at the random point,
/// if it has any. Also returns the sums of the bands, whose memory the opening can take over.
pub fn prove<'a>(
    public: &Public<'_>,
    device: &'a dyn Device,
    (columns, digits): (&dyn Columns, &HiddenDigits),
    tiles: &dyn TileSource,
    opened: &OpenedColumns,
    boundaries: Option<[K; 2]>,
    speaker: &mut dyn Speaker,
) -> Result<(PrecomputedMatmuls, Box<dyn Bands + 'a>), DeviceError> {
    let tiles = TileRange::new(tiles, opened.tiles());
    let point = suffix(&public.points.out, opened.log_band() + TILE_LOG);
    let (bands, traffic) = device.bands(&tiles, point, message_bytes(opened))?;
    let witness = Factors {
        public,
        columns,
        digits,
        opened,
        bands: &*bands,
    };
    let instances = public.shape.existing().map(|product| {
        Ok(Instance {
            pairs: vec![witness.of(product)?],
            variables: product.variables(public.shape) as usize,
        })
    });
    let instances: Vec<Instance<Factor>> = instances.collect::<Result<_, DeviceError>>()?;
    debug_assert_eq!(
        instances.iter().map(|i| i.variables).max(),
        Some(public.shape.product_variables() as usize)
    );
    let (claim, proved) = sumcheck::prove_sum(device, MATMULS, instances, speaker)?;
    let finals = proved.finals.iter().map(|finals| finals[0]);
    let finals: Vec<_> = finals.map(|(a, b)| [a, b]).chain(boundaries).collect();
    let said = speaker.say(OPERANDS, finals.as_slice());
    let operands = Operands::of(public.shape, &finals);
    let band_values = bands.values(suffix(&proved.point, TILE_LOG))?;
    let proof = MatmulProof {
        claim: proved.claim,
        sumcheck: proved.proof,
        operands: said,
    };
    let proved = PrecomputedMatmuls {
        proof,
        claim,
        operands,
        point: proved.point,
        band_values,
        traffic,
    };
    Ok((proved, bands))
}
