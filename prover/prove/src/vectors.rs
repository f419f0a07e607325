//! The device that proofs are made on today: the cores of the machine, sixteen field elements to a vector, on all threads of the
//! pool that calls it. Its memory is the host's, so nothing is copied.

pub mod bands;
mod columns;
mod count;
pub mod layers;
mod leaves;
mod products;
mod rounds;

use stwo::core::fields::qm31::SecureField;
use tessera_model::forward::{self, Linear};
use tessera_model::passes::Traffic;
use tessera_model::tiles::TileSource;

use self::bands::{bind_bands, Sums};
use self::columns::VectorColumns;
use self::products::Pairs;
use crate::column::Column;
use crate::device::{Bands, Columns, Device, DeviceError, Products, Table};

/// The cores of the machine, as a device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Vectors;

impl Device for Vectors {
    fn linear(&self) -> &dyn Linear {
        &forward::Vectors
    }

    fn columns(&self, cells: Vec<Vec<Column>>) -> Result<Box<dyn Columns + '_>, DeviceError> {
        Ok(Box::new(VectorColumns(cells)))
    }

    fn products(&self, pairs: Vec<(Table, Table)>) -> Result<Box<dyn Products + '_>, DeviceError> {
        Ok(Box::new(Pairs::new(pairs)))
    }

    fn bands(
        &self,
        tiles: &dyn TileSource,
        point: &[SecureField],
        room: usize,
    ) -> Result<(Box<dyn Bands + '_>, Traffic), DeviceError> {
        let (sums, traffic) = bind_bands(tiles, point, room);
        Ok((Box::new(Sums(sums)), traffic))
    }
}
