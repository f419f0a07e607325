//! The code of hidden activations (docs/protocol.md, section 17.2).

use tessera_circuits::chunk::Chunk;
use tessera_circuits::model::MAX_ROWS_LOG;
use tessera_circuits::shape::Shape;

use super::tape::Tape;
use crate::key::ModelKey;
use crate::opening::{CommitmentParams, OpenedColumns, Slots};

/// Values of a blind unit, as a transcript absorbs their number.
const BLIND: u32 = 1 << 12;
/// Columns of hidden activations at least: a leaf has 248 bits then that nobody knows.
const LEAST_COLUMNS: usize = 2;

/// How hidden activations are committed to: columns that end in a blind unit, and behind them four columns of mask and tape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HiddenCode {
    /// All columns, including the four of mask and tape.
    pub params: CommitmentParams,
    /// The columns of the activations, with their blind units.
    pub columns: OpenedColumns,
    /// The tape.
    pub tape: Tape,
}

impl HiddenCode {
    /// The code of a chunk. `None` if the tape does not fit the longest code that activations may have, or if the chunk is one of those that are too large
    /// for any proof: their tapes are not laid out, because some would not fit in memory.
    pub fn of(key: &ModelKey, chunk: &Chunk, shape: &Shape) -> Option<Self> {
        if shape.max_log_rows() > MAX_ROWS_LOG || shape.is_too_large() {
            return None;
        }
        let clear = CommitmentParams::of_activations(shape, &key.weights);
        let units = usize::try_from(shape.units()).ok()?;
        let queries = clear.queries();
        let mut lengths = (clear.log_message..).map_while(|log_message| Slots::new(&clear, &key.weights, log_message));
        lengths.find_map(|slots| {
            let columns = units.div_ceil(slots.units().max(1)).max(LEAST_COLUMNS);
            if columns > slots.most_columns() {
                return None;
            }
            let (params, columns) = slots.commitment(columns);
            // A query shows an entry of the tape's word, and the claim on the tape says one more thing of it.
            let tape = Tape::of(shape, queries + 2, &[key.opened(chunk), columns]);
            let fits = tape.entries <= slots.tape() && params.check().is_ok();
            fits.then_some(Self { params, columns, tape })
        })
    }

    /// An upper bound for the code of the key's longest statement where [`Self::of`] gives none: no statement has a longer code or more columns.
    pub fn longest(key: &ModelKey, shape: &Shape) -> CommitmentParams {
        let clear = CommitmentParams::of_activations(shape, &key.weights);
        let lengths = (clear.log_message..).map_while(|log_message| Slots::new(&clear, &key.weights, log_message));
        let units = usize::try_from(shape.units()).unwrap_or(usize::MAX);
        lengths
            .last()
            .map_or(clear, |slots| slots.commitment(units.div_ceil(slots.units().max(1))).0)
    }

    /// The parameters as a transcript absorbs them, after flags that say what is hidden.
    pub fn words(&self) -> [u32; 4] {
        [
            BLIND,
            self.columns.tiles().len() as u32,
            self.tape.unused as u32,
            self.tape.entries as u32,
        ]
    }

    /// Arranges one entry for each unit as the columns hold the units: slots without a unit get `empty`, and the blind slot of column `c` gets `blind(c)`.
    pub fn place<T: Clone>(&self, units: Vec<T>, empty: T, blind: impl Fn(usize) -> T) -> Vec<T> {
        let slots = self.columns.column_tiles();
        let mut units = units.into_iter();
        let of_slot = |tile: usize| match tile % slots == slots - 1 {
            true => blind(tile / slots),
            false => units.next().unwrap_or_else(|| empty.clone()),
        };
        self.columns.tiles().map(of_slot).collect()
    }
}
