//! The MLP between its matmuls.

use crate::scalar::Scalar;

use super::{Claims, Rounding};
use crate::air::ff;
use crate::mle::eq_table;
use crate::model::{ChannelShift, MatmulKind};
use crate::rounding::Rounded;
use crate::shape::Part;
use crate::wiring::{eq, felt, Public};

impl<K: Scalar> Public<'_, K> {
    pub(super) fn mlp(&self, claims: &mut Claims<K>) {
        let (points, part) = (self.points, Part::Ff);
        let at = points.out(self.shape.padded.ff);
        let air = self.shape.ff();
        let plain = vec![self.plain_layers(part), eq(&points.token), eq(at)];
        let weights = eq_table(at);
        let matmuls = [
            (Rounded::GATE, MatmulKind::Gate, ff::GATE, air.gate_remainder()),
            (Rounded::UP, MatmulKind::Up, air.up(), air.up_remainder()),
        ];
        // Without gates, the table gives the product.
        let gated = self.shape.config.gated;
        for (rounded, kind, column, remainder) in matmuls.into_iter().skip(usize::from(!gated)) {
            let channels = |shifts: &ChannelShift| self.channel_powers(kind, shifts, &weights);
            let rounding = Rounding {
                rounded,
                out: vec![(column, K::one())],
                plain: vec![plain.clone()],
                powered: self.by_layer(part, kind, &channels),
                factor: points.kind_weight(kind),
            };
            self.accumulated(claims, &rounding, remainder);
        }
        if !gated {
            return;
        }
        let powered = self.classes().into_iter().map(|(class, rows)| {
            let powers = self.layer_powers(part, |l| self.params.layers.get(l).map_or(1, |p| p.act.of(class)));
            vec![powers, rows, eq(at)]
        });
        let rounding = Rounding {
            rounded: Rounded::PRODUCT,
            out: vec![(ff::H_HI, felt(256)), (ff::H_LO, K::one())],
            plain: vec![plain],
            powered: powered.collect(),
            factor: points.act_weight(),
        };
        self.accumulated(claims, &rounding, ff::PRODUCT);
    }
}
