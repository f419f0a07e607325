//! Values (docs/protocol.md, section 16.3).

use tessera_circuits::air::requant;
use tessera_circuits::model::{Limbs, MatmulKind};
use tessera_circuits::rounding::Rounded;
use tessera_circuits::shape::Part;
use tessera_circuits::statistics::Clip;

use super::operator::Operator;
use crate::column::Column;
use crate::trace::{get, Source};

/// The prover's side of [`tessera_circuits::ops::values`].
pub(super) const OPERATOR: Operator = Operator {
    fills: &[(Part::V, |source, _| source.values())],
    makes: &[],
};

impl Source<'_> {
    fn values(&self) -> (Vec<Column>, Vec<Clip>) {
        let pows = self.pows(MatmulKind::V, self.shape.padded.kv());
        let head_dim = self.shape.padded.head_dim();
        self.requant(
            Rounded::VALUE,
            (
                self.shape.config.kv_heads,
                Limbs::One,
                requant::remainder(self.shape.limbs.v),
            ),
            |l, at| {
                self.witness
                    .layers
                    .get(l)
                    .map_or([0, 0], |w| [get(&w.v_acc_hi, at), get(&w.v_acc_lo, at)])
            },
            |l, h, x| pows[l][(h << head_dim) | x],
        )
    }
}
