//! What an operator is to the prover.

use tessera_circuits::shape::{Part, Product};
use tessera_circuits::statistics::Clip;

use crate::column::Column;
use crate::device::{DeviceError, Table};
use crate::factors::Factors;
use crate::trace::Source;

/// What fills the columns of a part, and lists the values that were clipped, ascending.
pub(super) type Fill = fn(&Source<'_>, Part) -> (Vec<Column>, Vec<Clip>);

/// What makes the factor tables of a product, of the columns and of the bound bands.
pub(super) type Make = fn(&Factors<'_>) -> Result<(Table, Table), DeviceError>;

/// An operator, as the prover sees it.
pub(super) struct Operator {
    /// By part.
    pub fills: &'static [(Part, Fill)],
    /// By product.
    pub makes: &'static [(Product, Make)],
}
