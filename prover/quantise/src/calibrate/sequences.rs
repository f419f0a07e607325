//! The sequences that calibration runs, and what their rows are.

use std::ops::Range;

use tessera_circuits::model::RowClass;

/// Which sequences are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    /// Calibration texts.
    Texts,
    /// Lone first tokens, and first tokens with one more.
    Heads,
}

/// The role of a row in a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    /// One of a text, of this class.
    Of(RowClass),
    /// The first row of a head, which may have any token.
    First,
    /// A row of a head after those that are leading.
    Second,
}

/// Sequences on their way through the model.
#[derive(Clone, Debug)]
pub(super) struct Sequences {
    pub set: Set,
    /// Number of rows and of leading rows.
    pub lengths: Vec<(usize, usize)>,
}

impl Sequences {
    /// What the rows of some of them are.
    pub fn classes(&self, sequences: Range<usize>) -> impl Iterator<Item = Row> + '_ {
        let set = self.set;
        let class = move |lead: usize| {
            move |row: usize| match (row < lead, set) {
                (true, Set::Texts) => Row::Of(RowClass::Lead),
                (false, Set::Texts) => Row::Of(RowClass::Body),
                (false, Set::Heads) if row > 0 => Row::Second,
                (_, Set::Heads) => Row::First,
            }
        };
        let lengths = self.lengths[sequences].iter();
        lengths.flat_map(move |(rows, lead)| (0..*rows).map(class(*lead)))
    }

    /// How many second rows some of them have.
    pub fn seconds(&self, sequences: Range<usize>) -> usize {
        self.classes(sequences).filter(|row| *row == Row::Second).count()
    }
}
