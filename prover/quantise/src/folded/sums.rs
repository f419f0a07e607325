//! Sums and maxima over the weights of every channel of an axis.

use super::matrix::{Axis, Folded};
use super::tally::{Row, Tally};
use crate::rounding::abs_max;
use tessera_checkpoint::CheckpointError;

/// For every channel of an axis, the sum of a value of its weights, each times a factor of the weight's channel of the other
/// axis.
pub(crate) struct Sums<V, F> {
    axis: Axis,
    value: V,
    factor: F,
}

/// The sums of the weights of every channel of an axis.
pub(super) fn plain(axis: Axis) -> impl Tally<Total = Vec<f64>> {
    Sums {
        axis,
        value: |w| f64::from(w),
        factor: |_| 1.0,
    }
}

/// The sums of the squares of the weights of every channel of an axis, with a factor for every channel of the other axis.
pub(crate) fn squares(axis: Axis, factor: impl Fn(usize) -> f64 + Sync) -> impl Tally<Total = Vec<f64>> {
    Sums {
        axis,
        value: square,
        factor,
    }
}

fn square(w: f32) -> f64 {
    f64::from(w) * f64::from(w)
}

impl<V: Fn(f32) -> f64 + Sync, F: Fn(usize) -> f64 + Sync> Tally for Sums<V, F> {
    /// Where the channels are rows, their sums; else what the rows of the piece add to the sum of every column.
    type Piece = Vec<f64>;
    type Total = Vec<f64>;

    fn start(&self, matrix: &Folded<'_>) -> Vec<f64> {
        match matrix.rows == self.axis {
            true => Vec::new(),
            false => vec![0.0; matrix.width()],
        }
    }

    fn add(&self, sums: &mut Vec<f64>, row: Row<'_>) {
        if row.axis == self.axis {
            let terms = row.weights.iter().enumerate();
            sums.push(terms.map(|(c, w)| (self.value)(*w) * (self.factor)(c)).sum());
            return;
        }
        let factor = (self.factor)(row.channel);
        let columns = sums.iter_mut().zip(row.weights);
        columns.for_each(|(sum, w)| *sum += (self.value)(*w) * factor);
    }

    fn join(self, matrix: &Folded<'_>, pieces: Vec<Vec<f64>>) -> Result<Vec<f64>, CheckpointError> {
        Ok(match matrix.rows == self.axis {
            true => pieces.concat(),
            false => added_up(matrix.width(), pieces),
        })
    }
}

/// The sums of all columns.
fn added_up(width: usize, pieces: impl IntoIterator<Item = Vec<f64>>) -> Vec<f64> {
    let mut sums = vec![0.0; width];
    for piece in pieces {
        sums.iter_mut().zip(piece).for_each(|(sum, own)| *sum += own);
    }
    sums
}

/// The largest absolute weights of every output: of each of some inputs, and of all others together.
pub(crate) struct Maxima<'a> {
    /// The inputs that count on their own, in ascending order.
    pub inputs: &'a [usize],
}

/// Largest absolute weights, by output.
#[derive(Default)]
pub(crate) struct Largest {
    /// The largest weights of each input that counts on its own.
    pub own: Vec<Vec<f32>>,
    /// The largest weights of all other inputs together.
    pub others: Vec<f32>,
}

impl Tally for Maxima<'_> {
    type Piece = Largest;
    type Total = Largest;

    fn start(&self, matrix: &Folded<'_>) -> Largest {
        match matrix.rows {
            Axis::Outputs => Largest {
                own: vec![Vec::new(); self.inputs.len()],
                others: Vec::new(),
            },
            Axis::Inputs => Largest {
                own: Vec::new(),
                others: vec![0.0; matrix.width()],
            },
        }
    }

    fn add(&self, piece: &mut Largest, row: Row<'_>) {
        match row.axis {
            Axis::Outputs => {
                let own = piece.own.iter_mut().zip(self.inputs);
                own.for_each(|(own, c)| own.push(row.weights[*c].abs()));
                let mut weights = row.weights.to_vec();
                self.inputs.iter().for_each(|c| weights[*c] = 0.0);
                piece.others.push(abs_max(&weights));
            }
            Axis::Inputs if self.inputs.contains(&row.channel) => {
                piece.own.push(row.weights.iter().map(|w| w.abs()).collect());
            }
            Axis::Inputs => {
                let others = piece.others.iter_mut().zip(row.weights);
                others.for_each(|(m, w)| *m = m.max(w.abs()));
            }
        }
    }

    fn join(self, matrix: &Folded<'_>, pieces: Vec<Largest>) -> Result<Largest, CheckpointError> {
        let mut all = self.start(matrix);
        for piece in pieces {
            match matrix.rows {
                Axis::Outputs => {
                    all.own.iter_mut().zip(piece.own).for_each(|(all, own)| all.extend(own));
                    all.others.extend(piece.others);
                }
                Axis::Inputs => {
                    all.own.extend(piece.own);
                    let others = all.others.iter_mut().zip(piece.others);
                    others.for_each(|(a, b)| *a = a.max(b));
                }
            }
        }
        Ok(all)
    }
}

/// How much noise in the inputs and in the weights of a matrix disturbs its outputs, each relative to the mean square of the
/// output.
pub(crate) struct NoiseGains {
    /// By input: its squared weights, each relative to the mean square of the output that it enters.
    pub inputs: Vec<f64>,
    /// By output: the reciprocal of its mean square.
    pub outputs: Vec<f64>,
}

/// The [`NoiseGains`] of a matrix whose inputs have these mean squares.
pub(crate) struct Noise<'a> {
    pub mean_squares: &'a [f64],
}

impl Noise<'_> {
    /// The mean squares of all outputs.
    fn outputs(&self) -> impl Tally<Piece = Vec<f64>, Total = Vec<f64>> + '_ {
        Sums {
            axis: Axis::Outputs,
            value: square,
            factor: |c: usize| self.mean_squares[c],
        }
    }
}

/// The reciprocal of a mean square; what is always zero has no noise that matters.
fn reciprocal(square: f64) -> f64 {
    if square > 0.0 {
        1.0 / square
    } else {
        0.0
    }
}

impl Tally for Noise<'_> {
    type Piece = NoiseGains;
    type Total = NoiseGains;

    fn start(&self, matrix: &Folded<'_>) -> NoiseGains {
        let inputs = match matrix.rows {
            Axis::Outputs => vec![0.0; matrix.width()],
            Axis::Inputs => Vec::new(),
        };
        NoiseGains {
            inputs,
            outputs: self.outputs().start(matrix),
        }
    }

    fn add(&self, piece: &mut NoiseGains, row: Row<'_>) {
        self.outputs().add(&mut piece.outputs, row);
        if let (Axis::Outputs, Some(output)) = (row.axis, piece.outputs.last_mut()) {
            *output = reciprocal(*output);
            let columns = piece.inputs.iter_mut().zip(row.weights);
            columns.for_each(|(sum, w)| *sum += square(*w) * *output);
        }
    }

    fn join(self, matrix: &Folded<'_>, pieces: Vec<NoiseGains>) -> Result<NoiseGains, CheckpointError> {
        let (inputs, outputs): (Vec<_>, Vec<_>) = pieces.into_iter().map(|p| (p.inputs, p.outputs)).unzip();
        let mut outputs = self.outputs().join(matrix, outputs)?;
        let inputs = match matrix.rows {
            Axis::Outputs => added_up(matrix.width(), inputs),
            // Outputs are known after the last row only.
            Axis::Inputs => {
                outputs.iter_mut().for_each(|o| *o = reciprocal(*o));
                matrix.tally(squares(Axis::Inputs, |o| outputs[o]))?
            }
        };
        Ok(NoiseGains { inputs, outputs })
    }
}
