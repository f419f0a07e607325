//! Quantised weights, written tile by tile as they are read from the checkpoint.

use std::ops::Range;
use std::simd::f32x16;
use std::simd::num::SimdFloat;

use rayon::prelude::*;
use tessera_circuits::model::{ColumnNorms, Matmul, MatmulKind, ModelConfig, WeightFormat, TILE};

use super::feedback::{self, Factor, Feedback, LARGEST_MATRIX};
use super::folded::{Axis, Folded};
use super::rounding::{rounded, unit, SIMD_LANES};
use super::source::read_state;
use super::{texts, Quantisation, QuantiseError};
use tessera_checkpoint::{Checkpoint, CheckpointError};
use tessera_kernels::digest::{Digester, FileDigest};
use tessera_model::tiles::{pack_tile, tile_bytes, TILE_WEIGHTS};
use tessera_model::weights::{channels, ModelNorms};
use tessera_support::files::AtomicFile;
use tessera_support::progress::Progress;

/// Bytes of tiles that are made before they are written.
const SLAB: usize = 16 << 20;

impl Quantisation {
    /// Writes the weights file of the model, in the order of `ModelConfig::matmuls`, and returns its digest and the norms
    /// of its columns; progress is in tiles. While tiles are made those before them are written. `calibration_ids` must be those of [`quantise`]:
    /// errors of rounding are fed back on them.
    ///
    /// [`quantise`]: super::quantise
    pub fn write_weights(
        &self,
        checkpoint: &Checkpoint,
        calibration_ids: &[Vec<u32>],
        file: &mut AtomicFile,
        progress: &dyn Progress,
    ) -> Result<(FileDigest, Vec<ColumnNorms>), QuantiseError> {
        let format = self.params.format;
        let mut digest = Digester::default();
        let mut norms = ModelNorms::new(checkpoint.config(), format);
        let mut made = Vec::new();
        let mut write = |slab: Vec<u8>| {
            digest.update(&slab);
            norms.add(&slab);
            progress.advance((slab.len() / tile_bytes(format)) as u64);
            file.append(&slab)
        };
        let texts = texts(checkpoint.config(), calibration_ids)?;
        let rotation = self.options.rotation_of(checkpoint.config())?;
        let kinds = self.fed_back(checkpoint.config());
        let mut feedback = Feedback::new(
            checkpoint,
            &kinds,
            &texts,
            rotation.as_ref(),
            [&self.products, &self.normed],
        )?;
        for (m, bits) in checkpoint.config().matmuls().iter().zip(&self.bits) {
            let max = self.params.max_weight(m.id.kind());
            let factors = match &mut feedback {
                Some(feedback) => feedback.factors(m.id)?,
                None => &[],
            };
            let mut weights = Folded::new(checkpoint, m.id, rotation.as_ref())?;
            if m.id.kind() == MatmulKind::Down {
                weights = weights.in_units(&self.products[m.id.layer()]);
            } else if let Some(state) = read_state(checkpoint.config(), m.id) {
                weights = weights.in_units(&self.normed[state]);
            }
            let matrix = Matrix::new(checkpoint.config(), m, weights, (format, max), bits, factors);
            let rows = match factors.is_empty() {
                true => (SLAB / (m.out_blocks * tile_bytes(format))).clamp(1, m.in_blocks),
                // What is fed back comes from all inputs.
                false => m.in_blocks,
            };
            for first in (0..m.in_blocks).step_by(rows) {
                let before = std::mem::take(&mut made);
                let blocks = first..m.in_blocks.min(first + rows);
                let (slab, written) = rayon::join(|| matrix.slab(blocks), || write(before));
                written?;
                made = slab?;
            }
            matrix.weights.release();
        }
        write(made)?;
        Ok((digest.finish(), norms.finish()))
    }

    /// Kinds of matmul in which errors of rounding are fed back.
    fn fed_back(&self, config: &ModelConfig) -> Vec<MatmulKind> {
        let size = tile_bytes(self.params.format);
        let fits = |kind: MatmulKind| {
            let mut matmuls = config.matmuls().into_iter().filter(|m| m.id.kind() == kind);
            matmuls.all(|m| m.tiles() * size <= LARGEST_MATRIX)
        };
        let few = |kind: &MatmulKind| self.params.weight_bits.of(*kind) <= self.options.feedback_bits;
        MatmulKind::ALL
            .into_iter()
            .filter(few)
            .filter(|kind| fits(*kind))
            .collect()
    }
}

/// A matrix on its way into tiles.
struct Matrix<'a> {
    weights: Folded<'a>,
    format: WeightFormat,
    max: i32,
    out_blocks: usize,
    /// Real channels by padded position.
    inputs: Vec<Option<usize>>,
    outputs: Vec<Option<usize>>,
    /// Fractional bits by real output channel.
    bits: &'a [i32],
    /// Where errors are fed back: of all inputs.
    factors: &'a [Factor],
}

impl<'a> Matrix<'a> {
    fn new(
        config: &ModelConfig,
        m: &Matmul,
        weights: Folded<'a>,
        (format, max): (WeightFormat, i32),
        bits: &'a [i32],
        factors: &'a [Factor],
    ) -> Self {
        let (inputs, outputs) = channels(config, m);
        Self {
            weights,
            format,
            max,
            out_blocks: m.out_blocks,
            inputs,
            outputs,
            bits,
            factors,
        }
    }

    /// The tiles of some in-blocks, in file order.
    fn slab(&self, blocks: Range<usize>) -> Result<Vec<u8>, CheckpointError> {
        let size = tile_bytes(self.format);
        let inputs = &self.inputs[blocks.start * TILE..blocks.end * TILE];
        let columns: Vec<Vec<u8>> = self
            .outputs
            .par_chunks_exact(TILE)
            .map(|outputs| self.column(inputs, outputs))
            .collect::<Result<_, _>>()?;
        let mut slab = vec![0; blocks.len() * self.out_blocks * size];
        slab.par_chunks_exact_mut(self.out_blocks * size)
            .enumerate()
            .for_each(|(b, row)| {
                for (tile, column) in row.chunks_exact_mut(size).zip(&columns) {
                    tile.copy_from_slice(&column[b * size..][..size]);
                }
            });
        Ok(slab)
    }

    /// The tiles of one out-block.
    fn column(&self, inputs: &[Option<usize>], outputs: &[Option<usize>]) -> Result<Vec<u8>, CheckpointError> {
        let mut weights = vec![[0; TILE_WEIGHTS]; inputs.len() / TILE];
        if !self.factors.is_empty() {
            self.fed_back(inputs, outputs, &mut weights)?;
            return Ok(self.packed(&weights));
        }
        match self.weights.rows {
            Axis::Outputs => self.each_row(outputs, inputs, |y, row| {
                for (tile, row) in weights.iter_mut().zip(row.as_chunks::<TILE>().0) {
                    row.iter().enumerate().for_each(|(x, w)| tile[x * TILE + y] = *w);
                }
            })?,
            Axis::Inputs => self.each_row(inputs, outputs, |x, row| {
                weights[x / TILE][x % TILE * TILE..][..TILE].copy_from_slice(row);
            })?,
        }
        Ok(self.packed(&weights))
    }

    fn packed(&self, weights: &[[i16; TILE_WEIGHTS]]) -> Vec<u8> {
        let size = tile_bytes(self.format);
        let mut bytes = vec![0; weights.len() * size];
        for (weights, bytes) in weights.iter().zip(bytes.chunks_exact_mut(size)) {
            pack_tile(self.format, weights, bytes);
        }
        bytes
    }

    /// The weights of one out-block from all inputs, with errors fed back.
    fn fed_back(
        &self,
        inputs: &[Option<usize>],
        outputs: &[Option<usize>],
        tiles: &mut [[i16; TILE_WEIGHTS]],
    ) -> Result<(), CheckpointError> {
        let width = self.weights.width();
        let in_dim = inputs.iter().flatten().count();
        let mut weights = vec![[0.0; TILE]; in_dim];
        let mut bits = [0; TILE];
        let mut row = vec![0.0; width];
        for (y, output) in outputs.iter().enumerate() {
            let Some(output) = *output else { continue };
            bits[y] = self.bits[output];
            if self.weights.rows == Axis::Outputs {
                self.weights.read(output, 0..width, &mut row)?;
                weights.iter_mut().zip(&row).for_each(|(to, w)| to[y] = *w);
            }
        }
        if self.weights.rows == Axis::Inputs {
            // Real channels keep their order in the padded layout.
            let mut real = outputs.iter().flatten();
            let first = real.next().copied().unwrap_or_default();
            let range = first..real.last().map_or(first, |last| *last) + 1;
            let row = &mut row[..range.len()];
            for (x, to) in weights.iter_mut().enumerate() {
                self.weights.read(x, range.clone(), row)?;
                let real = to.iter_mut().zip(outputs);
                real.for_each(|(to, output)| *to = output.map_or(0.0, |output| row[output - first]));
            }
        }
        let integers = feedback::round(self.factors, weights, &bits, self.max);
        for (position, x) in inputs.iter().enumerate() {
            if let Some(x) = x {
                tiles[position / TILE][position % TILE * TILE..][..TILE].copy_from_slice(&integers[*x]);
            }
        }
        Ok(())
    }

    /// Quantises some stored rows at some stored columns, both by padded position: `each` gets the position of a row
    /// that is there and its integers, zero where there is no column.
    fn each_row(
        &self,
        rows: &[Option<usize>],
        columns: &[Option<usize>],
        mut each: impl FnMut(usize, &[i16]),
    ) -> Result<(), CheckpointError> {
        // Real channels keep their order in the padded layout.
        let mut real = columns.iter().flatten();
        let Some(first) = real.next().copied() else {
            return Ok(());
        };
        let range = first..real.last().map_or(first, |last| *last) + 1;
        let mut values = vec![0.0; range.len()];
        let mut integers = vec![0; range.len()];
        let mut padded = vec![0; columns.len()];
        let gaps = columns.iter().enumerate().any(|(i, c)| *c != Some(first + i));
        for (position, row) in rows.iter().enumerate() {
            let Some(row) = *row else { continue };
            self.weights.read(row, range.clone(), &mut values)?;
            match self.weights.rows {
                Axis::Outputs => self.round(&values, |_| unit(self.bits[row]), &mut integers),
                Axis::Inputs => {
                    let many = &self.bits[range.clone()];
                    let units = |i: usize| {
                        let bits = |lane: usize| many.get(i + lane).copied().unwrap_or_default();
                        f32x16::from_array(std::array::from_fn(|lane| f64::from(bits(lane)).exp2() as f32))
                    };
                    self.round(&values, units, &mut integers);
                }
            }
            if !gaps {
                each(position, &integers);
                continue;
            }
            for (to, column) in padded.iter_mut().zip(columns) {
                *to = column.map_or(0, |c| integers[c - first]);
            }
            each(position, &padded);
        }
        Ok(())
    }

    /// Integers of values; `units(i)` are the scales from value `i` on.
    fn round(&self, values: &[f32], units: impl Fn(usize) -> f32x16, out: &mut [i16]) {
        let max = self.max;
        let pieces = out.chunks_mut(SIMD_LANES).zip(values.chunks(SIMD_LANES)).enumerate();
        for (i, (out, values)) in pieces {
            let scaled = f32x16::load_or_default(values) * units(i * SIMD_LANES);
            let integers = rounded(scaled, max).cast::<i16>().to_array();
            out.copy_from_slice(&integers[..out.len()]);
        }
    }
}
