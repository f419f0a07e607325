//! Shifts, which bring accumulators to the units of what is made of them, by channel and by class of rows (docs/protocol.md, section 2).

use serde::{Deserialize, Serialize};

/// Shifts of one requantisation: total right shift minus 8, in `1..=13`; one entry for the whole
/// tensor or one per (real) output channel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChannelShift(pub Vec<u8>);

impl ChannelShift {
    /// One shift for all channels.
    pub fn one(shift: u8) -> Self {
        Self(vec![shift])
    }

    /// Shift of (real) output channel `out`.
    pub fn at(&self, out: usize) -> u8 {
        match self.0.as_slice() {
            [one] => *one,
            many => many.get(out).copied().unwrap_or(1),
        }
    }
}

/// The two classes of token rows (docs/protocol.md, section 2.1). In many models the residual stream of the first row, and
/// of rows that repeat it, is a thousand times as large as that of all others: these *leading* rows have units of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowClass {
    /// All other rows.
    Body,
    /// Leading rows.
    Lead,
}

/// A value for each class of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByClass<T> {
    /// The value of body rows.
    pub body: T,
    /// The value of leading rows.
    pub lead: T,
}

impl<T: Copy> ByClass<T> {
    /// The same value for all rows.
    pub const fn both(value: T) -> Self {
        Self {
            body: value,
            lead: value,
        }
    }

    /// Value of the rows of a class.
    pub const fn of(&self, class: RowClass) -> T {
        match class {
            RowClass::Body => self.body,
            RowClass::Lead => self.lead,
        }
    }
}

/// Shifts into a state of the residual stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamShift {
    /// The shifts of body rows.
    pub body: ChannelShift,
    /// The difference that leading rows add to the shifts of body rows.
    pub lead: i8,
}

impl StreamShift {
    /// The same shift for all channels and rows.
    pub fn one(shift: u8) -> Self {
        Self {
            body: ChannelShift::one(shift),
            lead: 0,
        }
    }

    /// Shift of (real) output channel `out` in the rows of a class; out of `1..=13` if the parameters are not checked.
    pub fn at(&self, out: usize, class: RowClass) -> i32 {
        let lead = match class {
            RowClass::Body => 0,
            RowClass::Lead => i32::from(self.lead),
        };
        i32::from(self.body.at(out)) + lead
    }
}
