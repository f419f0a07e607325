//! A model as the prover has it.

use tessera_model::forward::Placed;
use tessera_model::QuantisedModel;
use tessera_verifier::key::{ModelId, ModelKey};

use crate::device::Device;
use crate::opening::Codeword;

/// A model as the prover needs it.
#[derive(Clone, Copy)]
pub struct ProverModel<'a> {
    pub key: &'a ModelKey,
    pub id: ModelId,
    pub quantised: &'a QuantisedModel,
    pub codeword: &'a Codeword,
    /// The device that proofs are made on; all devices make the same proofs.
    pub device: &'a dyn Device,
}

impl<'a> ProverModel<'a> {
    /// The model as the forward pass takes it.
    pub(crate) fn placed(&self) -> Placed<'a> {
        Placed {
            model: self.quantised,
            linear: self.device.linear(),
        }
    }
}
