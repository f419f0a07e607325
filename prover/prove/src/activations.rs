//! Committing to the activations (docs/protocol.md, section 4): the committed columns of all parts, cut in units, are the tiles
//! of a commitment like the one to the weights.

use stwo::core::fields::qm31::SecureField;
use tessera_circuits::claims::Batch;
use tessera_circuits::model::MIN_ROWS_LOG;
use tessera_circuits::shape::Shape;
use tessera_circuits::wiring::suffix;
use tessera_verifier::opening::{CommitmentParams, OpenedColumns};
use tessera_verifier::suite::{Digest, Suite};
use tessera_verifier::verify::unit_coefficients;

use super::device::{ColumnId, Columns, DeviceError};
use super::hiding::Secrets;
use super::opening::{with_root, Committed, ProverClaim};

/// The activations of a chunk, committed to.
pub struct Activations<'a> {
    columns: &'a dyn Columns,
    /// The columns that are committed to, in order.
    list: Vec<ColumnId>,
    /// The commitment to their units.
    pub units: Box<dyn Committed + 'a>,
    secrets: Option<&'a Secrets>,
}

/// The columns of all parts that are committed to, in order.
pub fn committed_columns(shape: &Shape) -> Vec<ColumnId> {
    let of_part = |part| {
        let own = shape.committed(part).into_iter();
        own.map(move |index| ColumnId { part, index })
    };
    shape.parts().iter().copied().flat_map(of_part).collect()
}

impl<'a> Activations<'a> {
    /// Commits to the columns of all parts in a code, [`CommitmentParams::of_activations`], or in the code of these secrets.
    pub fn commit(
        suite: Suite,
        shape: &Shape,
        columns: &'a dyn Columns,
        params: CommitmentParams,
        secrets: Option<&'a Secrets>,
    ) -> Result<Self, DeviceError> {
        let list = committed_columns(shape);
        let units = columns.commit(suite, list.clone(), params, secrets)?;
        Ok(Self {
            columns,
            units: match secrets.and_then(Secrets::rehearsal).and_then(|own| own.root) {
                Some(root) => with_root(units, root),
                None => units,
            },
            list,
            secrets,
        })
    }

    /// The root of the commitment's tree.
    pub fn root(&self) -> Digest {
        self.units.commitment().root
    }

    /// The columns that hold the activations.
    pub fn opened(&self) -> OpenedColumns {
        match self.secrets {
            Some(secrets) => secrets.code().columns,
            None => self.units.commitment().params.all(),
        }
    }

    /// One entry for each unit, in the order of the columns, with zeros for blind units.
    pub fn placed(&self, units: Vec<SecureField>) -> Vec<SecureField> {
        let zero = SecureField::default();
        match self.secrets {
            Some(secrets) => secrets.code().place(units, zero, |_| zero),
            None => units,
        }
    }

    /// The values of all units of these columns at the last coordinates of a point.
    pub fn unit_values(&self, point: &[SecureField]) -> Result<Vec<SecureField>, DeviceError> {
        let values = self.columns.bind_trailing(&self.list, point)?;
        Ok(match self.secrets {
            Some(secrets) => secrets.unit_values(values, point),
            None => values,
        })
    }
}

/// Where the linear claims end: the units of the activations at a point, each with a factor.
pub struct UnitClaim<'a> {
    gamma: Vec<SecureField>,
    local_point: &'a [SecureField],
    values: Vec<SecureField>,
}

impl<'a> UnitClaim<'a> {
    pub fn of(
        shape: &Shape,
        batch: &Batch,
        point: &'a [SecureField],
        activations: &Activations<'_>,
    ) -> Result<Self, DeviceError> {
        let local_point = suffix(point, MIN_ROWS_LOG);
        Ok(Self {
            gamma: activations.placed(unit_coefficients(shape, batch, point)),
            local_point,
            values: activations.unit_values(local_point)?,
        })
    }

    /// The claim with the activations that it is about, as they are opened.
    pub fn claim<'s>(&'s self, activations: &'s mut Activations<'_>) -> ProverClaim<'s> {
        let opened = activations.opened();
        ProverClaim::new(
            &mut *activations.units,
            opened,
            self.local_point,
            &self.gamma,
            &self.values,
        )
    }
}
