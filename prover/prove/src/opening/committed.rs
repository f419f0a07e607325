//! Committed data as the prover opens it.

use std::sync::Arc;

use stwo::core::fields::qm31::SecureField;
use tessera_verifier::opening::parts::{Layout, LeafOpening};
use tessera_verifier::opening::{Commitment, CommitmentName, OpenedColumns};
use tessera_verifier::suite::Digest;

use super::combine::combine_columns;
use super::fft::Twiddles;
use super::{length, Codeword, OpeningProverError};
use tessera_kernels::device::DeviceError;
use tessera_kernels::table::Table;
use tessera_kernels::weights::Elements;
use tessera_model::passes::Traffic;
use tessera_model::tiles::{TileRange, TileSource};

/// Committed data as an opening needs it.
pub trait Committed {
    /// The commitment.
    fn commitment(&self) -> Commitment;

    /// The twiddles of its code.
    fn twiddles(&self) -> Arc<Twiddles>;

    /// Some columns combined to one message with a weight each, whose least significant variable is bound to `fold`.
    fn combine(
        &mut self,
        columns: &OpenedColumns,
        weights: &[SecureField],
        fold: SecureField,
    ) -> Result<Table<SecureField>, DeviceError>;

    /// Opens leaves, increasing.
    fn open(&mut self, twiddles: &Twiddles, leaves: &[usize]) -> Result<LeafOpening, OpeningProverError>;

    /// Returns how much of a file has been read so far.
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }
}

/// A commitment that says another root than its own: for tests, which prove with the challenges of another commitment.
pub fn with_root<'a>(own: Box<dyn Committed + 'a>, root: Digest) -> Box<dyn Committed + 'a> {
    Box::new(WithRoot { own, root })
}

/// A commitment with another root.
struct WithRoot<'a> {
    own: Box<dyn Committed + 'a>,
    root: Digest,
}

impl Committed for WithRoot<'_> {
    fn commitment(&self) -> Commitment {
        Commitment {
            root: self.root,
            ..self.own.commitment()
        }
    }

    fn twiddles(&self) -> Arc<Twiddles> {
        self.own.twiddles()
    }

    fn combine(
        &mut self,
        columns: &OpenedColumns,
        weights: &[SecureField],
        fold: SecureField,
    ) -> Result<Table<SecureField>, DeviceError> {
        self.own.combine(columns, weights, fold)
    }

    fn open(&mut self, twiddles: &Twiddles, leaves: &[usize]) -> Result<LeafOpening, OpeningProverError> {
        self.own.open(twiddles, leaves)
    }
}

/// Weights with their commitment.
pub struct CommittedWeights<'a> {
    source: &'a dyn TileSource,
    codeword: &'a Codeword,
    memory: Table<Elements>,
    traffic: Traffic,
}

impl<'a> CommittedWeights<'a> {
    /// The weights of `source`, all of them. The combined column takes the place of `memory`.
    pub fn new(
        source: &'a dyn TileSource,
        codeword: &'a Codeword,
        memory: Table<Elements>,
    ) -> Result<Self, OpeningProverError> {
        length("tiles of the source", source.tiles(), codeword.params().tiles)?;
        Ok(Self {
            source,
            codeword,
            memory,
            traffic: Traffic::default(),
        })
    }
}

impl Committed for CommittedWeights<'_> {
    fn commitment(&self) -> Commitment {
        Commitment {
            name: CommitmentName::Weights,
            params: *self.codeword.params(),
            root: *self.codeword.root(),
        }
    }

    fn twiddles(&self) -> Arc<Twiddles> {
        let params = self.codeword.params();
        Arc::new(Twiddles::new(params.log_message, params.log_blowup))
    }

    fn combine(
        &mut self,
        columns: &OpenedColumns,
        weights: &[SecureField],
        fold: SecureField,
    ) -> Result<Table<SecureField>, DeviceError> {
        let tiles = TileRange::new(self.source, columns.tiles());
        let memory = std::mem::take(&mut self.memory);
        let (message, traffic) = combine_columns(&tiles, columns.params(), weights, fold, memory);
        self.traffic += traffic;
        Ok(message)
    }

    fn open(&mut self, twiddles: &Twiddles, leaves: &[usize]) -> Result<LeafOpening, OpeningProverError> {
        let (opening, traffic) = self.codeword.open_with(self.source, twiddles, leaves)?;
        self.traffic += traffic;
        Ok(opening)
    }

    /// The weights are read once for the combined column, and once for the opened rows if there is no file of the codeword.
    fn traffic(&self) -> Traffic {
        self.traffic
    }
}
