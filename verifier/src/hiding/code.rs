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

/// Points at which the values of a column with a blind unit say nothing of its other units (docs/security.md, lemma 34).
const BLIND_POINTS: usize = BLIND as usize - 1;

/// The most reveals that a proof under a key of these weights can leave room for: a column may be opened at so many points, two for each query of
/// each opening.
pub const fn most_reveals(weights: &CommitmentParams) -> usize {
    (BLIND_POINTS / (2 * weights.queries())).saturating_sub(1)
}

/// Entries of a tape that are never used if its leaves are opened so many times: a query shows an entry of the tape's word, and the claim on the tape
/// says one more thing of it.
const fn unused(openings: usize, queries: usize) -> usize {
    openings * queries + 2
}

/// How hidden activations are committed to: columns that end in a blind unit, and behind them four columns of mask and tape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HiddenCode {
    /// All columns, including the four of mask and tape.
    pub params: CommitmentParams,
    /// The columns of the activations, with their blind units.
    pub columns: OpenedColumns,
    /// The tape.
    pub tape: Tape,
    /// For how many reveals the tape has room.
    pub reveals: usize,
}

impl HiddenCode {
    /// The code of a chunk whose proof leaves room for so many reveals. `None` if blind units do not hide so many openings, if the tape does not fit the
    /// longest code that activations may have, or if the chunk is one of those that are too large for any proof: their tapes are not laid out, because
    /// some would not fit in memory.
    pub fn of(key: &ModelKey, chunk: &Chunk, shape: &Shape, reveals: usize) -> Option<Self> {
        if shape.max_log_rows() > MAX_ROWS_LOG || shape.is_too_large() || reveals > most_reveals(&key.weights) {
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
            let tape = Tape::of(shape, unused(1 + reveals, queries), &[key.opened(chunk), columns]);
            let own = Self {
                params,
                columns,
                tape,
                reveals,
            };
            own.fitting()
        })
    }

    /// The code of the commitment that a reveal adds to the one to hidden activations: the mask and the tape of its own, behind blind columns, in messages of
    /// the same length. `variables` are those of the sumcheck of what is claimed of the activations.
    pub fn of_reveal(&self, variables: usize) -> Option<Self> {
        let slots = Slots::of(&self.columns);
        let (params, columns) = slots.commitment(LEAST_COLUMNS);
        let tape = Tape::of_reveal(variables, unused(1, params.queries()), &[self.columns, columns]);
        let own = Self {
            params,
            columns,
            tape,
            reveals: 0,
        };
        own.fitting()
    }

    /// The code, if its tape has room in it.
    fn fitting(self) -> Option<Self> {
        let fits = self.tape.entries <= Slots::of(&self.columns).tape() && self.params.check().is_ok();
        fits.then_some(self)
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

    /// The parameters of [`Self::of_reveal`] for activations of these, which are the longest that a proof hides.
    pub fn longest_of_reveal(activations: &CommitmentParams) -> CommitmentParams {
        Slots::of(&activations.all()).commitment(LEAST_COLUMNS).0
    }

    /// The parameters as a transcript absorbs them, after flags that say what is hidden.
    pub fn words(&self) -> [u32; 5] {
        [
            BLIND,
            self.columns.tiles().len() as u32,
            self.tape.unused as u32,
            self.tape.entries as u32,
            self.reveals as u32,
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
