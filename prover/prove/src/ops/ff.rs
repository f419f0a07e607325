//! The MLP (docs/protocol.md, section 16.7): how its rows are filled, and the factors of gates times up projections and of Down.

use crate::bind::eq_table;
use tessera_circuits::model::{Limbs, MatmulKind};
use tessera_circuits::ops::ff;
use tessera_circuits::shape::{Part, Product};
use tessera_circuits::statement::class_of;
use tessera_circuits::statistics::Clip;

use super::operator::Operator;
use crate::column::Column;
use crate::device::DeviceError;
use crate::device::Table as Factor;
use crate::factors::{base_rows, text_rows, Factors, K};
use crate::field::Factor as Scalar;
use crate::field::{pack, words, Packed};
use crate::trace::{build, felt, get, write, Accumulator, Source};

/// The prover's side of [`tessera_circuits::ops::ff`].
pub(super) const OPERATOR: Operator = Operator {
    fills: &[(Part::FF, |source, _| source.ff())],
    makes: &[
        (Product::FF, |own| {
            let [high, low] = own.public.shape.ff().product();
            own.weighted(Product::FF, Part::FF, &own.limbs(high, low))
        }),
        (Product::ACT, |own| own.act()),
    ],
};

impl Source<'_> {
    fn ff(&self) -> (Vec<Column>, Vec<Clip>) {
        match self.shape.config.gated {
            true => self.gated(),
            false => self.plain(),
        }
    }

    /// The MLP without gates: what the table has for the up projection.
    fn plain(&self) -> (Vec<Column>, Vec<Clip>) {
        let (shape, width, air) = (self.shape, self.shape.config.ff, self.shape.ff());
        let ups = self.pows(MatmulKind::Up, shape.padded.ff);
        // What is padded is 0, and so is what the table has for it.
        build(self, Part::FF, (|[_, i, _]| i, &[]), |[l, i, x], row| {
            let layer = self.witness.layers.get(l);
            let at = (x < width).then_some(i * width + x);
            let acc = Accumulator::of(layer.map_or([0, 0], |w| [get(&w.up_acc_hi, at), get(&w.up_acc_lo, at)]));
            let shift = ups.get(l).map_or(2, |p| p[x]).trailing_zeros();
            let up = acc.rounded(shift);
            acc.write(row, air.up_remainder(), shift, up);
            row[air.up()] = felt(up.out);
            let [high, _] = air.product();
            write(row, high, Limbs::Two, layer.map_or(0, |w| get(&w.h, at)));
            [0, up.excess, 0, 0, 0, 0]
        })
    }

    fn gated(&self) -> (Vec<Column>, Vec<Clip>) {
        let (shape, width) = (self.shape, self.shape.config.ff);
        let air = shape.ff();
        let [gates, ups] = [MatmulKind::Gate, MatmulKind::Up].map(|k| self.pows(k, shape.padded.ff));
        let leading = self.statement.leading(&self.params.leading);
        // Padded gates are 0, and so is their SiLU.
        build(self, Part::FF, (|[_, i, _]| i, &[]), |[l, i, x], row| {
            let layer = self.witness.layers.get(l);
            let at = (x < width).then_some(i * width + x);
            let acc = Accumulator::of(layer.map_or([0, 0], |w| [get(&w.gate_acc_hi, at), get(&w.gate_acc_lo, at)]));
            let shift = gates.get(l).map_or(2, |p| p[x]).trailing_zeros();
            let gate = acc.rounded(shift);
            acc.write(row, air.gate_remainder(), shift, gate);
            row[ff::GATE] = felt(gate.out);
            let silu = layer.map_or(0, |w| get(&w.silu, at));
            row[ff::SILU] = felt(silu);

            let acc = Accumulator::of(layer.map_or([0, 0], |w| [get(&w.up_acc_hi, at), get(&w.up_acc_lo, at)]));
            let shift = ups.get(l).map_or(2, |p| p[x]).trailing_zeros();
            let up = acc.rounded(shift);
            acc.write(row, air.up_remainder(), shift, up);
            row[ff::UP] = felt(up.out);

            let class = class_of(i, leading);
            let shift = self.params.layers.get(l).map_or(1, |p| p.mlp.act.of(class)).into();
            let acc = Accumulator::product(silu * up.out);
            let h = acc.rounded(shift);
            acc.write(row, ff::PRODUCT, shift, h);
            write(row, ff::H_HI, Limbs::Two, h.out);
            [gate.excess, up.excess, h.excess, 0, 0, 0]
        })
    }
}

impl Factors<'_> {
    /// SiLU of the gates, each times its weight among the accumulators, and up projections.
    fn act(&self) -> Result<(Factor, Factor), DeviceError> {
        let (shape, points) = (self.public.shape, self.public.points);
        let layers = points.layer_weights(shape.config.layers);
        let layers: Vec<K> = layers.into_iter().map(|w| points.act_weight() * w).collect();
        let (tokens, features) = (eq_table(&points.token), pack(&eq_table(points.out(shape.padded.ff))));
        let [silu, up] = self.wholes(Part::FF, [ff::SILU, ff::UP])?;
        let (silu, up) = (base_rows(&silu, features.len()), base_rows(&up, features.len()));
        let (sizes, lead) = (shape.sizes(), shape.lead(Part::FF));
        let gates = text_rows(sizes, lead, features.len(), |row, out| {
            let Some(layer) = layers.get(row / tokens.len()) else {
                return;
            };
            let factor = Scalar::new(*layer * tokens[row % tokens.len()]);
            let values = silu[row].iter().zip(&features);
            let terms = out.iter_mut().zip(values);
            terms.for_each(|(out, (v, w))| *out = (*w * factor).mul_add(words::load(v), Packed::ZERO));
        });
        let ups = text_rows(sizes, lead, features.len(), |row, out| {
            let values = out.iter_mut().zip(up[row]);
            values.for_each(|(out, v)| *out = Packed::from_base(words::load(v)));
        });
        Ok((gates, ups))
    }
}
