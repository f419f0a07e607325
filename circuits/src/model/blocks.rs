//! How the blocks of a model follow each other, and what comes out of it.

use serde::{Deserialize, Serialize};

/// What a block adds to, and what attention sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "u8", try_from = "u8")]
pub enum Blocks {
    /// Norms are before attention and MLP, each of which adds to the state before. A token sees itself and those before it. Tokens
    /// are generated.
    Sequential,
    /// The same, but that the MLP reads the state that attention reads, not the one that attention writes.
    Parallel,
    /// Norms are after attention and MLP: each adds to the normed state before, and the sum is normed. All tokens of the text see each
    /// other. Nothing is generated: a vector is made of the normed last states.
    Encoder(Pooling),
    /// As sequential ones, but that what attention and MLP add is normed, too, each channel times a gain.
    PostNormed,
}

/// How an encoder makes one vector of the last states of all token rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pooling {
    /// The sum over the rows of the text, of which the mean is a multiple.
    Mean,
    /// The first row.
    First,
}

impl From<Blocks> for u8 {
    fn from(blocks: Blocks) -> Self {
        match blocks {
            Blocks::Sequential => 0,
            Blocks::Parallel => 1,
            Blocks::Encoder(Pooling::Mean) => 2,
            Blocks::Encoder(Pooling::First) => 3,
            Blocks::PostNormed => 4,
        }
    }
}

impl TryFrom<u8> for Blocks {
    type Error = String;

    fn try_from(number: u8) -> Result<Self, String> {
        match number {
            0 => Ok(Self::Sequential),
            1 => Ok(Self::Parallel),
            2 => Ok(Self::Encoder(Pooling::Mean)),
            3 => Ok(Self::Encoder(Pooling::First)),
            4 => Ok(Self::PostNormed),
            other => Err(format!("{other} is no order of blocks")),
        }
    }
}
