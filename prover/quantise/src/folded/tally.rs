//! Tallies: what set-up finds out about a matrix while its rows pass by. Any number of them take part in one traversal.

use super::matrix::{Axis, Folded};
use tessera_checkpoint::CheckpointError;

/// A row of a matrix.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    /// The axis whose channels are the rows of the matrix.
    pub axis: Axis,
    /// The channel of that axis.
    pub channel: usize,
    pub weights: &'a [f32],
}

/// Something that set-up finds out about a matrix while its rows pass by. Threads take pieces of the rows, which are joined in
/// the order of the rows, so that no sum of floats depends on the number of threads.
pub(crate) trait Tally: Sync + Sized {
    /// What is known after some of the rows.
    type Piece: Send;
    /// What is known after all rows.
    type Total;

    /// What is known before the first row of a piece.
    fn start(&self, matrix: &Folded<'_>) -> Self::Piece;

    /// Takes in a row.
    fn add(&self, piece: &mut Self::Piece, row: Row<'_>);

    /// Joins all pieces. A tally that needs a second traversal for what it only knows now starts it here.
    fn join(self, matrix: &Folded<'_>, pieces: Vec<Self::Piece>) -> Result<Self::Total, CheckpointError>;
}

impl Folded<'_> {
    /// Reads every row once.
    pub fn tally<T: Tally>(&self, tally: T) -> Result<T::Total, CheckpointError> {
        let width = self.width();
        let pieces = self.pieces(|rows| {
            let (mut row, mut piece) = (vec![0.0; width], tally.start(self));
            for channel in rows {
                self.read(channel, 0..width, &mut row)?;
                let row = Row {
                    axis: self.rows,
                    channel,
                    weights: &row,
                };
                tally.add(&mut piece, row);
            }
            Ok(piece)
        })?;
        tally.join(self, pieces)
    }
}

impl<A: Tally, B: Tally> Tally for (A, B) {
    type Piece = (A::Piece, B::Piece);
    type Total = (A::Total, B::Total);

    fn start(&self, matrix: &Folded<'_>) -> Self::Piece {
        (self.0.start(matrix), self.1.start(matrix))
    }

    fn add(&self, piece: &mut Self::Piece, row: Row<'_>) {
        self.0.add(&mut piece.0, row);
        self.1.add(&mut piece.1, row);
    }

    fn join(self, matrix: &Folded<'_>, pieces: Vec<Self::Piece>) -> Result<Self::Total, CheckpointError> {
        let (first, second) = pieces.into_iter().unzip();
        Ok((self.0.join(matrix, first)?, self.1.join(matrix, second)?))
    }
}

impl<T: Tally> Tally for Vec<T> {
    type Piece = Vec<T::Piece>;
    type Total = Vec<T::Total>;

    fn start(&self, matrix: &Folded<'_>) -> Self::Piece {
        self.iter().map(|tally| tally.start(matrix)).collect()
    }

    fn add(&self, piece: &mut Self::Piece, row: Row<'_>) {
        let tallies = self.iter().zip(piece);
        tallies.for_each(|(tally, piece)| tally.add(piece, row));
    }

    fn join(self, matrix: &Folded<'_>, pieces: Vec<Self::Piece>) -> Result<Self::Total, CheckpointError> {
        let mut pieces: Vec<_> = pieces.into_iter().map(Vec::into_iter).collect();
        let join = |tally: T| {
            let own = pieces.iter_mut().filter_map(Iterator::next).collect();
            tally.join(matrix, own)
        };
        self.into_iter().map(join).collect()
    }
}

/// A tally that is wanted of some matrices only.
impl<T: Tally> Tally for Option<T> {
    type Piece = Option<T::Piece>;
    type Total = Option<T::Total>;

    fn start(&self, matrix: &Folded<'_>) -> Self::Piece {
        self.as_ref().map(|tally| tally.start(matrix))
    }

    fn add(&self, piece: &mut Self::Piece, row: Row<'_>) {
        if let (Some(tally), Some(piece)) = (self, piece) {
            tally.add(piece, row);
        }
    }

    fn join(self, matrix: &Folded<'_>, pieces: Vec<Self::Piece>) -> Result<Self::Total, CheckpointError> {
        let own = |tally: T| tally.join(matrix, pieces.into_iter().flatten().collect());
        self.map(own).transpose()
    }
}

/// A tally of the same matrix in other units of its inputs.
pub(crate) struct InUnits<'a, T> {
    /// The matrix in these units.
    pub matrix: Folded<'a>,
    pub tally: T,
}

impl<T: Tally> Tally for InUnits<'_, T> {
    /// The weights of a row in these units, and what is known of them.
    type Piece = (Vec<f32>, T::Piece);
    type Total = T::Total;

    fn start(&self, _: &Folded<'_>) -> Self::Piece {
        (Vec::new(), self.tally.start(&self.matrix))
    }

    fn add(&self, (weights, piece): &mut Self::Piece, row: Row<'_>) {
        weights.clear();
        weights.extend_from_slice(row.weights);
        self.matrix.scale(row.channel, 0..row.weights.len(), weights);
        self.tally.add(piece, Row { weights, ..row });
    }

    fn join(self, _: &Folded<'_>, pieces: Vec<Self::Piece>) -> Result<Self::Total, CheckpointError> {
        let pieces = pieces.into_iter().map(|(_, piece)| piece).collect();
        self.tally.join(&self.matrix, pieces)
    }
}
