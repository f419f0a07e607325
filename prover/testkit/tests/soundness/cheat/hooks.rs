//! Where a cheating prover departs from the honest one.

use stwo::core::pcs::PcsConfig;
use tessera_circuits::air::tables::LookupTables;
use tessera_circuits::air::Relations;
use tessera_circuits::chunk::{Boundary, Chunk, Ends, PublicBoundary};
use tessera_circuits::claims::LinearClaim;
use tessera_circuits::model::LimbSet;
use tessera_circuits::shape::{LeafLimits, Shape};
use tessera_circuits::statistics::Statistics;
use tessera_circuits::trees::LookupTree;
use tessera_model::tiles::TileSource;
use tessera_model::QuantisedModel;
use tessera_prover::trace::Columns;
use tessera_verifier::gkr::GroupProof;
use tessera_verifier::opening::{CommitmentParams, OpenedColumns};
use tessera_verifier::transcript::Transcript;
use tessera_verifier::verify::{open_transcript, ChunkStatement};

use super::K;

/// How a sumcheck is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounds {
    /// As the honest prover does, whatever the claim is.
    Honest,
    /// The claim is what the other side expects, every round polynomial is a constant, and a final evaluation is
    /// chosen such that the last check passes.
    Constant,
    /// The same for the matmuls, with all operands honest but those of the embedding, which make up for everything.
    Embedding,
}

/// How the opening of the activations is made to fit a false claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Not at all.
    No,
    /// The evaluation of a unit makes up for what is missing.
    Values,
    /// The message of the first oracle, too: of that unit with a constant added.
    Message,
}

/// What the last hook before the aggregator sees.
pub struct Interaction<'a> {
    pub relations: &'a Relations,
    /// How often the tables are used.
    pub counts: &'a Columns,
    /// Whether these are weighed sums of balance groups.
    pub weighted: bool,
    pub tables: &'a LookupTables,
    /// The sum of all lookups, weighed.
    pub lookups: K,
}

impl Interaction<'_> {
    /// What the sum of the entries lacks.
    pub fn missing_entries(&self, sum: K) -> K {
        -self.lookups - sum
    }
}

/// Finds the names of the linear claims that do not hold of the trace.
pub type BrokenClaims<'a> = &'a dyn Fn() -> Vec<&'static str>;

/// Alters interaction columns and claimed sum.
pub type AlterInteraction<'a> = dyn Fn(&Interaction<'_>, &mut Columns, &mut K) + 'a;

/// Alters the committed columns when the coefficients of the units and the point in a unit are known.
pub type AlterLate<'a> = dyn Fn(&Shape, &[K], &[K], &mut [Columns]) + 'a;

/// Makes the transcript that a proof starts with.
pub type OpenTranscript<'a> = dyn Fn(&ChunkStatement<'_>, &CommitmentParams) -> Transcript + 'a;

/// Where the prover cheats; [`HONEST`] does not.
#[derive(Clone, Copy)]
pub struct Hooks<'a> {
    /// What the prover absorbs before anything else.
    pub transcript: &'a OpenTranscript<'a>,
    /// The configuration of the STARK, if not the verifier's.
    pub pcs: Option<PcsConfig>,
    /// The model that the trace is built for, if not the proved one.
    pub source: Option<&'a QuantisedModel>,
    /// The chunk that is proved and what leaves it, if not the claimed one.
    pub proved: Option<(Chunk, &'a PublicBoundary)>,
    /// What enters the chunk in the trace, if not what the statement says.
    pub input: Option<&'a Boundary>,
    /// What the prover commits to, if not what really enters and leaves: the roots of the statement are those of the truth.
    pub held: Option<Ends<&'a Boundary>>,
    /// What the prover says of what enters the chunk, if not what it holds.
    pub told: Option<&'a Boundary>,
    /// Alters the units of boundaries that are committed to.
    pub units: &'a dyn Fn(&mut Vec<i16>),
    /// How many lookups are summed together, for prover and verifier.
    pub limits: LeafLimits,
    /// Alters the weight of the balance groups, given the transcripts before the activations' root and before what is in clear.
    pub weight: &'a dyn Fn(&mut K, [&Transcript; 2]),
    /// Alters the trees as their lookups are counted, by balance group.
    pub counted: &'a dyn Fn(&mut Vec<LookupTree>),
    /// How accumulators are claimed, if not as the key says.
    pub limbs: Option<LimbSet>,
    /// Alters the trace, before the lookups are counted.
    pub columns: &'a dyn Fn(&Shape, &mut [Columns]),
    /// Alters the columns that are committed to and opened, and no others.
    pub committed: &'a dyn Fn(&Shape, &mut [Columns]),
    /// Alters what is committed to after everything up to the opening: the root of before is absorbed, the one of after is shown.
    pub late: Option<&'a AlterLate<'a>>,
    /// Alters the lookup tables.
    pub tables: &'a dyn Fn(&mut Columns),
    /// Claims the honest root of altered tables.
    pub hide_tables: bool,
    /// Alters the multiplicities of the lookup tables.
    pub multiplicities: &'a dyn Fn(&mut Columns),
    /// Alters the logits of output tokens that the trace is made from.
    pub made: &'a dyn Fn(&mut Vec<i64>),
    /// Alters the clipped values that the trace lists.
    pub statistics: &'a dyn Fn(&mut Statistics),
    /// Alters the challenges of the lookups, as if they were known.
    pub relations: &'a dyn Fn(&mut Relations),
    /// Alters the columns whose lookups are summed.
    pub looked_up: &'a dyn Fn(&Shape, &mut [Columns]),
    /// Alters the sums of the lookups, after they are proved.
    pub lookups: &'a dyn Fn(&mut Vec<GroupProof>),
    /// Alters the statistics after they are absorbed.
    pub shown: &'a dyn Fn(&mut Statistics),
    /// The weights that the matmuls are proved with, if not the committed ones.
    pub tiles: Option<&'a dyn TileSource>,
    pub matmuls: Rounds,
    /// Alters the operands that the matmuls end in, before they are absorbed.
    pub operands: &'a dyn Fn(&mut Vec<[K; 2]>),
    pub linear: Rounds,
    /// Sees which linear claims do not hold of the trace.
    pub broken_claims: &'a dyn Fn(BrokenClaims<'_>),
    /// Alters the list of claims that the prover sums.
    pub claims: &'a dyn Fn(&mut Vec<LinearClaim>),
    /// Alters the evaluations of the bands in the opening, given their coefficients.
    pub band_values: &'a dyn Fn(&[K], &mut [K]),
    /// The columns of the commitment that are opened, if not those of the chunk.
    pub opened: Option<OpenedColumns>,
    /// log2 of the number of tiles of a band, if not that of the architecture.
    pub bands: Option<u32>,
    /// Alters the coefficients that the activations are opened with.
    pub gamma: &'a dyn Fn(&mut Vec<K>),
    /// Alters the point in a unit at which activations are opened, though not what is absorbed of it.
    pub local: &'a dyn Fn(&mut Vec<K>),
    /// Alters the evaluations of the units in the opening, given their coefficients.
    pub unit_values: &'a dyn Fn(&[K], &mut [K]),
    pub fit: Fit,
    /// Alters interaction columns and claimed sum.
    pub interaction: &'a AlterInteraction<'a>,
    /// Added to the composition polynomial.
    pub composition: K,
}

/// No cheating.
pub const HONEST: Hooks<'static> = Hooks {
    transcript: &|claim, activations| open_transcript(claim, activations, None),
    pcs: None,
    source: None,
    proved: None,
    input: None,
    held: None,
    told: None,
    units: &|_| (),
    limits: LeafLimits::OF_STATEMENTS,
    weight: &|_, _| (),
    counted: &|_| (),
    limbs: None,
    columns: &|_, _| (),
    committed: &|_, _| (),
    late: None,
    tables: &|_| (),
    hide_tables: false,
    multiplicities: &|_| (),
    made: &|_| (),
    statistics: &|_| (),
    relations: &|_| (),
    looked_up: &|_, _| (),
    lookups: &|_| (),
    shown: &|_| (),
    tiles: None,
    matmuls: Rounds::Honest,
    operands: &|_| (),
    linear: Rounds::Honest,
    broken_claims: &|_| (),
    claims: &|_| (),
    band_values: &|_, _| (),
    opened: None,
    bands: None,
    gamma: &|_| (),
    local: &|_| (),
    unit_values: &|_, _| (),
    fit: Fit::No,
    interaction: &|_, _, _| (),
    composition: K::from_u32_unchecked(0, 0, 0, 0),
};
