//! A stored matrix with what is folded into it, read in pieces: never whole, but for matrices that are turned across their
//! rows.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use crate::rotation::Rotation;
use tessera_checkpoint::{CheckpointError, Tensor};

/// Rows that a thread reads at once. Sums over rows are made per piece, so they depend on it.
const PIECE_ROWS: usize = 64;
/// Columns that are turned at once.
const PANEL: usize = 64;

/// An axis of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axis {
    /// The channels that the matrix reads.
    Inputs,
    /// The channels that the matrix makes.
    Outputs,
}

impl Axis {
    /// The axis across this one.
    pub(super) const fn other(self) -> Self {
        match self {
            Self::Inputs => Self::Outputs,
            Self::Outputs => Self::Inputs,
        }
    }
}

/// An operation on weights, with a value for every channel of an axis.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    Subtract(Vec<f32>),
    Multiply(Vec<f32>),
}

/// An operation on the weights of the channels of an axis.
#[derive(Clone, Debug)]
struct Step {
    axis: Axis,
    operation: Operation,
}

impl Step {
    /// Applies the step to the columns `columns` of row `row` of a matrix whose rows are the channels of `rows`.
    fn apply(&self, rows: Axis, row: usize, columns: Range<usize>, out: &mut [f32]) {
        match (&self.operation, self.axis == rows) {
            (Operation::Subtract(values), true) => {
                let value = values[row];
                out.iter_mut().for_each(|w| *w -= value);
            }
            (Operation::Subtract(values), false) => out.iter_mut().zip(&values[columns]).for_each(|(w, v)| *w -= v),
            (Operation::Multiply(values), true) => {
                let value = values[row];
                out.iter_mut().for_each(|w| *w *= value);
            }
            (Operation::Multiply(values), false) => out.iter_mut().zip(&values[columns]).for_each(|(w, v)| *w *= v),
        }
    }
}

/// A float matrix with what is folded into it.
#[derive(Clone)]
pub(crate) struct Folded<'a> {
    /// The matrix as it is stored.
    tensor: Tensor<'a>,
    /// The axis whose channels are the rows that are read.
    pub rows: Axis,
    /// What is folded into the stored matrix, in this order.
    steps: Vec<Step>,
    turned: Turned<'a>,
    /// Powers of two of the input channels, last of all; `None` if all are 1.
    units: Option<Step>,
}

/// How a matrix turns with the residual stream, which every matrix reads or writes.
#[derive(Clone)]
enum Turned<'a> {
    No,
    /// The stream's channels are those of a row, which is turned where it is read.
    Rows(&'a Rotation),
    /// They are those of a column: the whole matrix, turned and transposed, so that they are those of a row here, too.
    Transposed {
        width: usize,
        values: Arc<Vec<f32>>,
    },
}

impl<'a> Folded<'a> {
    /// A matrix as it is stored, whose rows are the channels of an axis.
    pub(super) const fn stored(tensor: Tensor<'a>, rows: Axis) -> Self {
        Self {
            tensor,
            rows,
            steps: Vec::new(),
            turned: Turned::No,
            units: None,
        }
    }

    /// Folds an operation into the matrix, after those that are folded into it. A matrix that is turned takes no more of them.
    pub(super) fn fold(&mut self, axis: Axis, operation: Operation) {
        self.steps.push(Step { axis, operation });
    }

    /// Turns the matrix with the stream, whose channels are those of the axis `stream`.
    pub(super) fn turn(&mut self, stream: Axis, rotation: &'a Rotation) -> Result<(), CheckpointError> {
        if stream == self.rows {
            return self.transpose(rotation);
        }
        self.turned = Turned::Rows(rotation);
        Ok(())
    }

    /// The matrix with the weights of every input channel times `2^k`, `k` its exponent, because its values are in units so
    /// many times as large.
    pub fn in_units(mut self, exponents: &[u8]) -> Self {
        let units: Vec<f32> = exponents.iter().map(|k| f32::from(*k).exp2()).collect();
        self.units = (!units.is_empty()).then_some(Step {
            axis: Axis::Inputs,
            operation: Operation::Multiply(units),
        });
        self
    }

    /// Reads, turns and transposes all.
    fn transpose(&mut self, rotation: &Rotation) -> Result<(), CheckpointError> {
        let (columns, rows) = (self.tensor.width(), self.height());
        let mut values = vec![0.0; rows * columns];
        let panels = values.par_chunks_mut(PANEL * rows).enumerate();
        panels.try_for_each(|(i, panel)| {
            let range = i * PANEL..columns.min((i + 1) * PANEL);
            let mut row = vec![0.0; range.len()];
            for r in 0..rows {
                self.read_stored(r, range.clone(), &mut row)?;
                panel
                    .iter_mut()
                    .skip(r)
                    .step_by(rows)
                    .zip(&row)
                    .for_each(|(to, w)| *to = *w);
            }
            panel.chunks_exact_mut(rows).for_each(|column| rotation.turn(column));
            Ok::<_, CheckpointError>(())
        })?;
        self.tensor.release();
        self.rows = self.rows.other();
        self.turned = Turned::Transposed {
            width: rows,
            values: Arc::new(values),
        };
        Ok(())
    }

    /// Length of the rows that are read.
    pub fn width(&self) -> usize {
        match &self.turned {
            Turned::Transposed { width, .. } => *width,
            Turned::No | Turned::Rows(_) => self.tensor.width(),
        }
    }

    /// Number of the channels of an axis.
    pub(super) fn channels(&self, axis: Axis) -> usize {
        match axis == self.rows {
            true => self.height(),
            false => self.width(),
        }
    }

    /// Number of the rows that are read.
    fn height(&self) -> usize {
        self.tensor.len() / self.width()
    }

    /// Lets the system take back the memory of what is stored.
    pub fn release(&self) {
        self.tensor.release();
    }

    /// Reads the columns `columns` of row `row`.
    pub fn read(&self, row: usize, columns: Range<usize>, out: &mut [f32]) -> Result<(), CheckpointError> {
        match &self.turned {
            Turned::No => self.read_stored(row, columns.clone(), out)?,
            Turned::Rows(rotation) => {
                let mut whole = vec![0.0; self.width()];
                self.read_stored(row, 0..whole.len(), &mut whole)?;
                rotation.turn(&mut whole);
                out.copy_from_slice(&whole[columns.clone()]);
            }
            Turned::Transposed { width, values } => out.copy_from_slice(&values[row * width..][columns.clone()]),
        }
        self.scale(row, columns, out);
        Ok(())
    }

    /// Brings the columns `columns` of row `row` into the units of the inputs.
    pub(super) fn scale(&self, row: usize, columns: Range<usize>, out: &mut [f32]) {
        if let Some(units) = &self.units {
            units.apply(self.rows, row, columns, out);
        }
    }

    fn read_stored(&self, row: usize, columns: Range<usize>, out: &mut [f32]) -> Result<(), CheckpointError> {
        self.tensor.read(row * self.tensor.width() + columns.start, out)?;
        for step in &self.steps {
            step.apply(self.rows, row, columns.clone(), out);
        }
        Ok(())
    }

    /// Makes something of every piece of the rows, in the order of the rows, by all threads.
    pub(super) fn pieces<T: Send>(
        &self,
        piece: impl Fn(Range<usize>) -> Result<T, CheckpointError> + Sync,
    ) -> Result<Vec<T>, CheckpointError> {
        let rows = self.height();
        let starts = (0..rows).into_par_iter().step_by(PIECE_ROWS);
        starts.map(|first| piece(first..rows.min(first + PIECE_ROWS))).collect()
    }
}
