//! Logits of the generated positions.

use crate::scalar::{Scalar, Source, Word};

use super::{Claims, Rounding};
use crate::air::{base, logits};
use crate::claims::{Group, LinearClaim, Weight};
use crate::mle::eq_table;
use crate::model::MatmulKind;
use crate::rounding::Rounded;
use crate::shape::Part;
use crate::wiring::{padded, Public};

impl<K: Scalar> Public<'_, K> {
    /// The logits of the generated positions, which are those of the output tokens less the margins, and that the margins of
    /// the output tokens are 0.
    pub(super) fn logits(&self, claims: &mut Claims<K>) {
        let (points, config, part) = (self.points, &self.shape.config, Part::Logits);
        let log = self.shape.padded.vocab;
        let outputs: Vec<K> = eq_table(&points.output).into_iter().take(self.shape.outputs).collect();
        let real = |mut values: Vec<K>| {
            values.truncate(config.vocab);
            values
        };
        let plain = eq_table(points.out(log));
        let powered = real(self.channel_powers(MatmulKind::Head, &self.params.head, &plain));
        let plain = real(plain);
        let tensor = |rest: Vec<K>| vec![vec![padded(outputs.clone(), self.lead(part)), padded(rest, log)]];
        // A logit is TOP less one below the output token, less the margin.
        let (mut fixed, all) = (K::zero(), K::sum_of(&powered));
        let tops = self.statistics.tops.iter().enumerate();
        let ids: Vec<Word> = self.output_ids().collect();
        for ((below, (o, top)), weight) in K::sums_below(&powered, &ids).zip(tops).zip(&outputs) {
            fixed += *weight * (all * K::top(*top, o) - below);
        }
        let remainder = logits::remainder(self.shape.limbs.head);
        let factor = points.kind_weight(MatmulKind::Head);
        let rounding = Rounding {
            rounded: Rounded::LOGIT,
            out: vec![(logits::MARGIN, -K::one())],
            plain: tensor(plain),
            powered: tensor(powered),
            factor,
        };
        let scale = base(remainder.scale());
        claims.accumulators.value -= factor * scale * fixed;
        self.add(&mut claims.accumulators, &rounding, remainder);
        self.clipped(claims, &rounding, |place, clip| {
            clip.value() - self.logit_without_margin(place)
        });

        let entry = |(o, (id, weight)): (usize, (Word, &K))| {
            vec![
                Weight::Sparse(self.lead(part), vec![(o, *weight)]),
                Weight::one_at(log, id),
            ]
        };
        let chosen = self.output_ids().zip(&outputs).enumerate().map(entry);
        claims.own.push(LinearClaim {
            name: "chosen logits",
            groups: vec![Group::new_sum(part, chosen.collect(), vec![(logits::MARGIN, K::one())])],
            value: K::zero(),
        });
    }

    /// The generated tokens.
    fn output_ids(&self) -> impl Iterator<Item = Word> + '_ {
        let ids = self.statement.generated().enumerate();
        ids.map(|(o, (_, id))| Word::new(id as usize, Source::OutputId(o)))
    }

    /// What the logit of an entry would be if its margin were 0.
    fn logit_without_margin(&self, place: &[usize]) -> i64 {
        let [output, entry] = place else { return 0 };
        let id = self.statement.output.get(*output).copied().unwrap_or_default() as usize;
        let top = self.statistics.tops.get(*output).copied().unwrap_or_default();
        i64::from(top) - i64::from(*entry < id)
    }
}
