//! Logits and the choice of the token (docs/protocol.md, section 16.8).

use tessera_circuits::model::MatmulKind;
use tessera_circuits::ops::logits;
use tessera_circuits::rounding::pow_column;
use tessera_circuits::shape::{Part, Product};
use tessera_circuits::statistics::Clip;

use super::operator::Operator;
use crate::column::Column;
use crate::device::DeviceError;
use crate::factors::{entries, Factors, K};
use crate::trace::{build, felt, Accumulator, Clipped, Source};

/// The prover's side of [`tessera_circuits::ops::logits`].
pub(super) const OPERATOR: Operator = Operator {
    fills: &[
        (Part::LOGITS, |source, _| source.logits()),
        (Part::TOPS, |source, _| source.tops()),
    ],
    makes: &[(Product::HEAD, |own| own.head().map(entries))],
};

impl Source<'_> {
    fn logits(&self) -> (Vec<Column>, Vec<Clip>) {
        let (shape, vocab, w) = (self.shape, self.shape.config.vocab, self.witness);
        let remainder = logits::remainder(shape.limbs.head);
        let pows = pow_column(&shape.config, MatmulKind::Head, &self.params.head, shape.padded.vocab);
        let scale = remainder.scale() as u32;
        let first = self.statement.prompt.len() - 1 - w.first_logits;
        let chosen = shape.hidden.outputs.then(|| logits::chosen(shape.limbs.head));
        build(self, Part::LOGITS, (|_| 0, &[]), |[o, v], row| {
            row[remainder.pow()] = pows[v] * scale;
            if o >= shape.outputs || v >= vocab {
                return [0; 6];
            }
            let at = (first + o) * vocab + v;
            let acc = Accumulator::of([w.logits_acc_hi[at].into(), w.logits_acc_lo[at].into()]);
            let shift = pows[v].trailing_zeros();
            let top = self.tops[o] - i64::from(v < self.statement.output[o] as usize);
            // A logit that is clipped for being small needs no place in the list as long as its margin fits, which is 0 at
            // the output token.
            let logit = acc.rounded(shift);
            let margin = top - logit.out - logit.excess;
            let most = if v == self.statement.output[o] as usize {
                0
            } else {
                0xffff
            };
            let value = match (0..=most).contains(&margin) {
                true => Clipped {
                    out: logit.out + logit.excess,
                    excess: 0,
                },
                false => logit,
            };
            row[logits::MARGIN] = felt(top - value.out);
            if let Some(chosen) = chosen {
                row[chosen] = u32::from(v == self.statement.output[o] as usize);
            }
            acc.write(row, remainder, shift, value);
            [value.excess, 0, 0, 0, 0, 0]
        })
    }
}

impl Source<'_> {
    fn tops(&self) -> (Vec<Column>, Vec<Clip>) {
        build(self, Part::TOPS, (|_| 0, &[]), |[o], row| {
            row[logits::TOP] = felt(self.tops.get(o).copied().unwrap_or_default());
            [0; 6]
        })
    }
}

impl Factors<'_> {
    /// The last normed state of the generated positions, and the head; zero in chunks without head.
    fn head(&self) -> Result<(Vec<K>, Vec<K>), DeviceError> {
        let shape = self.public.shape;
        let weights = self.weights(Product::HEAD)?;
        let rows = self.public.generated_rows();
        let columns = self.public.normed_columns(shape.limbs.head);
        let states = self.bound_with(Part::STREAM, &columns, 1, &rows)?;
        let last = &states[(shape.states() - 1) * weights.len()..][..weights.len()];
        Ok((last.to_vec(), weights))
    }
}
