//! Why a device, a processor with memory of its own perhaps, could not do a step of a proof.

use thiserror::Error;

/// Why a device could not do a step of a proof.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DeviceError {
    /// The device has too little free memory for the step; another device, or a smaller chunk, may help.
    #[error("the device has {free} free bytes of memory, and the next step needs {wanted}")]
    Memory {
        /// Bytes that the step needs.
        wanted: u64,
        /// Bytes that are free on the device.
        free: u64,
    },
    /// The device no longer answers, so nothing that lies on it can be read again.
    #[error("the device is lost: {0}")]
    Lost(String),
}
