//! What a proof carries in clear beside the statement (docs/protocol.md, section 8.3).

use serde::{Deserialize, Serialize};

use crate::model::ModelParams;
use crate::rounding::{ends, shift_at, Rounded};
use crate::shape::Shape;
use crate::statement::Statement;

/// The list of values that the prover clipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// Values that did not fit their 16 bits, or 15, by part and place.
    pub clips: Vec<Clip>,
}

/// A value that did not fit its bits and was clipped to the largest or smallest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clip {
    /// `Part::index`.
    pub part: u8,
    /// [`Rounded::tensor`].
    pub tensor: u8,
    /// Index of the entry in the row space of the part.
    pub at: u64,
    /// The value less what it was clipped to; not 0.
    pub excess: i32,
}

impl Clip {
    /// What the value was clipped to.
    pub const fn value(&self) -> i64 {
        let [least, most] = ends(self.part as usize);
        match self.excess > 0 {
            true => most,
            false => least,
        }
    }

    /// The indices of the entry along axes of these log lengths.
    pub fn place(&self, axes: &[u32]) -> Vec<usize> {
        let mut rest = self.at;
        let mut place: Vec<usize> = axes
            .iter()
            .rev()
            .map(|log| {
                let index = rest & ((1 << log) - 1);
                rest >>= log;
                index as usize
            })
            .collect();
        place.reverse();
        place
    }
}

/// Clipped values that are too many, or of no proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
// The messages say what each is.
#[allow(missing_docs)]
#[non_exhaustive]
pub enum StatisticsError {
    #[error("{got} clipped values are more than {most}")]
    TooManyClips { got: usize, most: usize },
    #[error("clipped value {index} is not one of the proof, or not after the one before it")]
    ClipPlace { index: usize },
    #[error("clipped value {index} exceeds its range by {excess}, which no accumulator can")]
    ClipRange { index: usize, excess: i32 },
}

impl Statistics {
    /// The most clipped values that a proof may list.
    pub const MAX_CLIPS: usize = 1 << 16;

    /// The clipped values of a kind.
    pub fn clips(&self, rounded: Rounded) -> impl Iterator<Item = &Clip> {
        let own = move |clip: &&Clip| usize::from(clip.part) == rounded.part.index() && clip.tensor == rounded.tensor;
        self.clips.iter().filter(own)
    }

    /// Checks lengths, ranges and places.
    pub fn check(&self, shape: &Shape, params: &ModelParams, statement: &Statement) -> Result<(), StatisticsError> {
        self.check_clips(shape, params, statement.leading(&params.leading))
    }

    /// Strictly ascending places of committed entries, none of a row behind the text, and values that do not wrap: section 8.1.
    fn check_clips(&self, shape: &Shape, params: &ModelParams, leading: usize) -> Result<(), StatisticsError> {
        let (got, most) = (self.clips.len(), Self::MAX_CLIPS);
        if got > most {
            return Err(StatisticsError::TooManyClips { got, most });
        }
        let mut before = None;
        for (index, clip) in self.clips.iter().enumerate() {
            let order = (clip.part, clip.tensor, clip.at);
            let part = shape
                .parts()
                .iter()
                .copied()
                .find(|part| part.index() == usize::from(clip.part));
            let part = part.filter(|part| shape.shifts(*part, clip.tensor).is_some());
            let Some(part) = part.filter(|_| before.is_none_or(|before| before < order)) else {
                return Err(StatisticsError::ClipPlace { index });
            };
            before = Some(order);
            let axes = shape.full_axes(part);
            let place = clip.place(&axes);
            let mut extents = place.iter().enumerate();
            let within = extents.all(|(axis, i)| *i < shape.extent(part, axis)) && shape.is_of_text(part, &place);
            if !within || axes.iter().sum::<u32>() < 64 && clip.at >> axes.iter().sum::<u32>() != 0 {
                return Err(StatisticsError::ClipPlace { index });
            }
            let value = clip.value() + i64::from(clip.excess);
            let rounded = Rounded {
                part,
                tensor: clip.tensor,
            };
            let bits = shift_at(shape, params, rounded, &place, leading);
            if clip.excess == 0 || value.unsigned_abs() >= 1 << (30 - bits.min(30)) {
                let excess = clip.excess;
                return Err(StatisticsError::ClipRange { index, excess });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
