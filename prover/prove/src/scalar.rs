//! A device that does every step as its definition says, element by element on one thread. It is the reference for other devices: slow,
//! short, and with nothing to go wrong. Tests prove with it what is proved with [`Vectors`](crate::vectors::Vectors), and compare bytes.

mod bands;
mod columns;
mod commitment;
mod layers;
mod products;

use stwo::core::fields::qm31::SecureField;
use tessera_model::forward::{self, Linear};
use tessera_model::passes::Traffic;
use tessera_model::tiles::TileSource;

use self::bands::Sums;
use self::columns::ScalarColumns;
use self::products::Pairs;
use crate::column::Column;
use crate::device::{Bands, Columns, Device, DeviceError, Products, Table};

/// The reference device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scalar;

impl Device for Scalar {
    fn linear(&self) -> &dyn Linear {
        &forward::Scalar
    }

    fn columns(&self, cells: Vec<Vec<Column>>) -> Result<Box<dyn Columns + '_>, DeviceError> {
        Ok(Box::new(ScalarColumns::new(&cells)))
    }

    fn products(&self, pairs: Vec<(Table, Table)>) -> Result<Box<dyn Products + '_>, DeviceError> {
        Ok(Box::new(Pairs::new(pairs)))
    }

    fn bands(
        &self,
        tiles: &dyn TileSource,
        point: &[SecureField],
        _room: usize,
    ) -> Result<(Box<dyn Bands + '_>, Traffic), DeviceError> {
        Ok((Box::new(Sums::new(tiles, point)), Traffic::default()))
    }
}
