//! Float matrix products for calibration: token rows times a stored weight matrix, converted block by block.
//!
//! Sums are fused multiply-adds in an order that depends on nothing but the number of inputs, so every machine gets the
//! same values: scales, and with them the model id, follow from them.

use std::ops::Range;
use std::simd::num::SimdFloat;
use std::simd::{f32x16, StdFloat};

use rayon::prelude::*;

use crate::precision::Precision;
use tessera_checkpoint::{CheckpointError, Orientation, Tensor};
use tessera_kernels::hashes::transpose;

/// Outputs of a block: two vectors.
const OUTPUTS: usize = 2 * SIMD_LANES;
const SIMD_LANES: usize = 16;
/// Inputs of a block; its sums are added to those of the blocks before.
const INPUTS: usize = 512;
/// Token rows that share a pass over a block.
const ROWS: usize = 12;

type Block = [[f32; OUTPUTS]];

/// `x` (rows of `in_dim` values) times the outputs `outputs` of the matrix `w`: rows of `outputs.len()` values. Weights
/// and results are rounded to what is stored of them.
pub fn matmul(
    x: &[f32],
    in_dim: usize,
    w: &Tensor<'_>,
    orientation: Orientation,
    outputs: Range<usize>,
    precision: Precision,
) -> Result<Vec<f32>, CheckpointError> {
    let (rows, width) = (x.len() / in_dim, outputs.len());
    let blocks: Vec<Vec<[f32; OUTPUTS]>> = outputs
        .clone()
        .into_par_iter()
        .step_by(OUTPUTS)
        .map_init(
            || (vec![[0.0; OUTPUTS]; INPUTS], Vec::new()),
            |(block, stored), first| {
                let mut sums = vec![[0.0; OUTPUTS]; rows];
                let outputs = first..outputs.end.min(first + OUTPUTS);
                for start in (0..in_dim).step_by(INPUTS) {
                    let inputs = start..in_dim.min(start + INPUTS);
                    let block = &mut block[..inputs.len()];
                    load(w, orientation, &inputs, &outputs, stored, block)?;
                    precision.store_here(block.as_flattened_mut());
                    multiply(x, in_dim, start, block, &mut sums);
                }
                precision.store_here(sums.as_flattened_mut());
                Ok(sums)
            },
        )
        .collect::<Result<_, CheckpointError>>()?;
    let mut out = vec![0.0; rows * width];
    out.par_chunks_exact_mut(width.max(1)).enumerate().for_each(|(r, row)| {
        for (out, block) in row.chunks_mut(OUTPUTS).zip(&blocks) {
            out.copy_from_slice(&block[r][..out.len()]);
        }
    });
    Ok(out)
}

/// The weights from `inputs` to `outputs`, one entry per input; zero for outputs that are not there.
fn load(
    w: &Tensor<'_>,
    orientation: Orientation,
    inputs: &Range<usize>,
    outputs: &Range<usize>,
    stored: &mut Vec<f32>,
    block: &mut Block,
) -> Result<(), CheckpointError> {
    block.fill([0.0; OUTPUTS]);
    match orientation {
        Orientation::OutputsFirst => {
            // Padded, so that squares are transposed whatever the number of inputs is.
            let stride = inputs.len().next_multiple_of(SIMD_LANES);
            stored.clear();
            stored.resize(OUTPUTS * stride, 0.0);
            for (row, out) in stored.chunks_exact_mut(stride).zip(outputs.clone()) {
                w.read(out * w.width() + inputs.start, &mut row[..inputs.len()])?;
            }
            for half in 0..OUTPUTS / SIMD_LANES {
                for (i, entries) in block.chunks_mut(SIMD_LANES).enumerate() {
                    let at = |lane: usize| (half * SIMD_LANES + lane) * stride + i * SIMD_LANES;
                    let square = std::array::from_fn(|lane| f32x16::from_slice(&stored[at(lane)..]).to_bits());
                    for (entry, values) in entries.iter_mut().zip(transpose(square)) {
                        f32x16::from_bits(values).copy_to_slice(&mut entry[half * SIMD_LANES..][..SIMD_LANES]);
                    }
                }
            }
        }
        Orientation::InputsFirst => {
            for (entry, input) in block.iter_mut().zip(inputs.clone()) {
                w.read(input * w.width() + outputs.start, &mut entry[..outputs.len()])?;
            }
        }
    }
    Ok(())
}

/// Adds the products of the inputs from `start` on to the sums of all token rows.
fn multiply(x: &[f32], in_dim: usize, start: usize, block: &Block, sums: &mut Block) {
    let rows: Vec<&[f32]> = x.chunks_exact(in_dim).map(|row| &row[start..][..block.len()]).collect();
    let (rows, rest) = rows.as_chunks::<ROWS>();
    let (sums, rest_sums) = sums.as_chunks_mut::<ROWS>();
    for (rows, sums) in rows.iter().zip(sums) {
        multiply_rows(rows, block, sums);
    }
    for (row, sums) in rest.iter().zip(rest_sums) {
        multiply_rows(&[*row], block, std::array::from_mut(sums));
    }
}

#[inline(always)]
fn multiply_rows<const N: usize>(rows: &[&[f32]; N], block: &Block, sums: &mut [[f32; OUTPUTS]; N]) {
    let mut acc = [[f32x16::splat(0.0); 2]; N];
    let rows = rows.map(|row| &row[..block.len()]);
    for (i, weights) in block.iter().enumerate() {
        let weights = [f32x16::from_slice(weights), f32x16::from_slice(&weights[SIMD_LANES..])];
        for (acc, row) in acc.iter_mut().zip(&rows) {
            let value = f32x16::splat(row[i]);
            acc[0] = value.mul_add(weights[0], acc[0]);
            acc[1] = value.mul_add(weights[1], acc[1]);
        }
    }
    for (sums, acc) in sums.iter_mut().zip(acc) {
        for (half, acc) in acc.into_iter().enumerate() {
            let sums = &mut sums[half * SIMD_LANES..][..SIMD_LANES];
            (f32x16::from_slice(sums) + acc).copy_to_slice(sums);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tessera_checkpoint::Checkpoint;
    use tessera_circuits::model::{MatmulKind, ModelConfig};
    use tessera_samples::{odd_config, SplitMix};
    use tessera_synthetic::{write_synthetic, Dtype};

    /// Every product of a model whose sizes are not those of the blocks, in both orientations.
    #[test]
    fn products_are_those_of_the_definition() {
        let config = ModelConfig {
            hidden: 36,
            ff: 1100,
            layers: 1,
            ..odd_config()
        };
        let mut rng = SplitMix(5);
        for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16] {
            let dir = tempfile::tempdir().unwrap();
            write_synthetic(dir.path(), &config, 3, dtype).unwrap();
            let checkpoint = Checkpoint::open(dir.path()).unwrap();
            for kind in [MatmulKind::Q, MatmulKind::Down, MatmulKind::Head, MatmulKind::Embed] {
                let (inputs, outputs) = config.dims(kind);
                let tensor = checkpoint.matrix(kind.at(0)).unwrap();
                let (w, orientation) = (tensor.values().unwrap(), checkpoint.orientation(kind));
                let x: Vec<f32> = (0..29 * inputs)
                    .map(|_| rng.below(2000) as f32 / 1000.0 - 1.0)
                    .collect();
                let range = outputs / 3..outputs;
                let got = matmul(&x, inputs, &tensor, orientation, range.clone(), Precision::Float32).unwrap();
                assert_eq!(got.len(), 29 * range.len());
                for (r, row) in got.chunks(range.len()).enumerate() {
                    for (out, got) in range.clone().zip(row) {
                        let weight = |i: usize| match orientation {
                            Orientation::OutputsFirst => w[out * inputs + i],
                            Orientation::InputsFirst => w[i * outputs + out],
                        };
                        let terms = (0..inputs).map(|i| f64::from(x[r * inputs + i]) * f64::from(weight(i)));
                        let exact: f64 = terms.sum();
                        assert!(
                            (f64::from(*got) - exact).abs() < 1e-4,
                            "{kind:?} {r} {out}: {got} {exact}"
                        );
                    }
                }
            }
        }
    }
}
