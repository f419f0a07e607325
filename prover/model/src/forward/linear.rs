//! The seam between the forward pass and the device that multiplies by the model's matrices.

use tessera_circuits::model::MatrixId;
use tessera_circuits::semantics::{bias_limbs, limbs};

use super::kernels::Acc;
use super::matmul::{matmul, pieces};
use crate::passes::WeightPass;
use crate::QuantisedModel;
use tessera_kernels::device::DeviceError;

/// A device that multiplies by the matrices of a model.
pub trait Linear: Send + Sync {
    /// Multiplies activations, `[rows][in]`, by a matrix, and adds its biases. The windows of the matrix are the next ones of the pass.
    fn matmul(
        &self,
        model: &QuantisedModel,
        id: MatrixId,
        activations: &[i16],
        pass: &mut WeightPass<'_>,
    ) -> Result<Acc, DeviceError>;
}

/// A model, and the device that multiplies by its matrices.
#[derive(Clone, Copy)]
pub struct Placed<'m> {
    /// The model.
    pub model: &'m QuantisedModel,
    /// The device.
    pub linear: &'m dyn Linear,
}

/// Takes the cores of the machine as the device.
impl<'m> From<&'m QuantisedModel> for Placed<'m> {
    fn from(model: &'m QuantisedModel) -> Self {
        let linear = &Vectors;
        Self { model, linear }
    }
}

/// The cores of the machine, which multiply by the tiles where these lie.
#[derive(Clone, Copy, Debug, Default)]
pub struct Vectors;

impl Linear for Vectors {
    fn matmul(
        &self,
        model: &QuantisedModel,
        id: MatrixId,
        activations: &[i16],
        pass: &mut WeightPass<'_>,
    ) -> Result<Acc, DeviceError> {
        Ok(matmul(model, id, activations, pass))
    }
}

/// The reference for other devices: one weight at a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scalar;

impl Linear for Scalar {
    fn matmul(
        &self,
        model: &QuantisedModel,
        id: MatrixId,
        activations: &[i16],
        pass: &mut WeightPass<'_>,
    ) -> Result<Acc, DeviceError> {
        let kind = id.kind();
        let (inputs, outputs) = model.config.dims(kind);
        let bias = model.params.bias(id);
        let mut acc = Acc::default();
        for row in activations.chunks(inputs) {
            for output in 0..outputs {
                let (mut hi, mut lo) = bias.get(output).map_or((0, 0), |bias| bias_limbs(*bias));
                for (input, activation) in row.iter().enumerate() {
                    let weight = i32::from(model.weight(id, input, output));
                    let (high, low) = limbs(*activation);
                    hi += weight * high;
                    lo += weight * low;
                }
                acc.hi.push(hi);
                acc.lo.push(lo);
            }
        }
        // All windows are read, whatever this device has read before.
        pieces(model, model.matmul(id))
            .into_iter()
            .for_each(|_| pass.next(|| ()));
        Ok(acc)
    }
}
