//! The claim on all accumulators (docs/protocol.md, sections 5, 6 and 8.1): those that are columns, and those that follow from
//! what they are rounded to.

use num_traits::{One, Zero};

use super::{eq, padded, pow_column, suffix, update_of, Public, K};
use crate::air::gadgets::Remainder;
use crate::air::{base, ff, logits, requant, rope, scores, stream};
use crate::claims::{Group, LinearClaim, Tensor, Weight};
use crate::mle::eq_table;
use crate::model::MatmulKind;
use crate::shape::Part;
use crate::statement::Clip;

/// The terms of the claim on accumulators.
struct Rounded {
    groups: Vec<Group>,
    /// What the groups add up to.
    value: K,
}

/// What weighs the entries of a tensor of accumulators: products of a factor of the first axes and one of the others, each
/// as a tensor and as the sum of its weights.
struct Weighed {
    /// The weights of the accumulators.
    plain: Vec<Tensor>,
    plain_sum: K,
    /// The same, times `2^s` of the entry.
    powered: Vec<Tensor>,
    powered_sum: K,
}

impl Public<'_> {
    /// Accumulators of `columns` (high, low) of one part as terms of the batched matmul claim.
    fn accumulator(&self, part: Part, weights: Vec<Weight>, columns: [usize; 2], factor: K) -> Group {
        let [hi, lo] = columns;
        Group::new(part, weights, vec![(hi, factor), (lo, factor * self.points.limb)])
    }

    /// Coordinates of the output point along (head, half, index) for `heads_log` heads.
    pub(super) fn head_point(&self, heads_log: u32) -> (&[K], K, &[K]) {
        let half = self.shape.padded.half as usize;
        let point = self.points.out(heads_log + 1 + self.shape.padded.half);
        let (heads, rest) = point.split_at((heads_log as usize).min(point.len()));
        let index = suffix(rest, half as u32);
        (heads, rest.first().copied().unwrap_or_default(), index)
    }

    /// Section 5 and 6: all accumulators at the random point, batched; the value is the claim of the
    /// product sumcheck.
    pub(super) fn accumulators(&self, product: K) -> Vec<LinearClaim> {
        let (p, points) = (&self.shape.padded, self.points);
        let mut groups = Vec::new();
        let stream = self.state_axis(|n| {
            let (kind, layer) = update_of(n);
            points.matmul_weight(kind, layer)
        });
        let weights = vec![stream, eq(&points.token), eq(points.out(p.hidden))];
        groups.push(self.accumulator(Part::Stream, weights, [stream::ACC_HI, stream::ACC_LO], K::one()));

        for (part, kind, heads) in [(Part::Q, MatmulKind::Q, p.heads), (Part::K, MatmulKind::K, p.kv_heads)] {
            let (head, half, index) = self.head_point(heads);
            for (lane, coefficient) in [K::one() - half, half].into_iter().enumerate() {
                let weights = vec![self.plain_layers(part), eq(&points.token), eq(head), eq(index)];
                let columns = [rope::ACC_HI, rope::ACC_LO].map(|c| rope::before(lane, c));
                groups.push(self.accumulator(part, weights, columns, coefficient * points.kind_weight(kind)));
            }
        }
        let (head, ..) = self.head_point(p.kv_heads);
        let weights = vec![
            self.plain_layers(Part::V),
            eq(&points.token),
            eq(head),
            eq(points.out(p.head_dim())),
        ];
        let factor = points.kind_weight(MatmulKind::V);
        groups.push(self.accumulator(Part::V, weights, [requant::ACC_HI, requant::ACC_LO], factor));

        let weights = vec![self.plain_layers(Part::Ff), eq(&points.token), eq(points.out(p.ff))];
        for (kind, columns) in [
            (MatmulKind::Gate, [ff::GATE_HI, ff::GATE_LO]),
            (MatmulKind::Up, [ff::UP_HI, ff::UP_LO]),
        ] {
            groups.push(self.accumulator(Part::Ff, weights.clone(), columns, points.kind_weight(kind)));
        }
        let weights = self.score_weights(eq(&points.key));
        groups.push(self.accumulator(
            Part::Scores,
            weights,
            [scores::ACC_HI, scores::ACC_LO],
            points.score_weight(),
        ));
        let weights = vec![
            self.plain_layers(Part::Att),
            eq(&points.token),
            eq(&points.head),
            eq(points.out(p.head_dim())),
        ];
        groups.push(self.accumulator(
            Part::Att,
            weights,
            [requant::ACC_HI, requant::ACC_LO],
            points.att_weight(),
        ));
        let mut rounded = Rounded { groups, value: product };
        let mut others = Vec::new();
        if self.shape.chunk.is_last() {
            self.logits(&mut rounded, &mut others);
        }
        let all = LinearClaim {
            name: "accumulators",
            groups: rounded.groups,
            value: rounded.value,
        };
        std::iter::once(all).chain(others).collect()
    }

    /// Accumulators that were rounded to `out` with this remainder, times `factor`: by section 8.1 the high limb is
    /// `2^s OUT + DELTA`, the low one `REM - 2^(7 + s) - 256 DELTA`.
    fn rounded(
        &self,
        to: &mut Rounded,
        part: Part,
        weighed: Weighed,
        out: &[(usize, K)],
        remainder: Remainder,
        factor: K,
    ) {
        let limb = self.points.limb * factor;
        let delta = factor - limb * base(256);
        to.groups.push(Group::new_sum(part, weighed.powered, out.to_vec()));
        let columns = vec![
            (remainder.r_hi(), limb * base(256)),
            (remainder.r_lo(), limb),
            (remainder.d_hi(), delta * base(64)),
            (remainder.d_lo(), delta),
        ];
        to.groups.push(Group::new_sum(part, weighed.plain, columns));
        to.value += delta * base(Remainder::OFFSET) * weighed.plain_sum + limb * base(128) * weighed.powered_sum;
    }

    /// The logits of the generated positions, which are those of the output tokens less the margins, and that the margins of
    /// the output tokens are 0.
    fn logits(&self, to: &mut Rounded, others: &mut Vec<LinearClaim>) {
        let (points, config) = (self.points, &self.shape.config);
        let log = self.shape.padded.vocab;
        let outputs: Vec<K> = eq_table(&points.output).into_iter().take(self.shape.outputs).collect();
        let vocab: Vec<K> = eq_table(points.out(log)).into_iter().take(config.vocab).collect();
        let powers = pow_column(config, MatmulKind::Head, &self.params.head, log);
        let powered: Vec<K> = vocab.iter().zip(powers).map(|(w, p)| *w * base(i64::from(p))).collect();
        let total = |values: &[K]| values.iter().fold(K::zero(), |sum, v| sum + *v);
        let (all, of_powers) = (total(&outputs), total(&powered));
        let tensor = |rest: Vec<K>| vec![vec![padded(outputs.clone(), self.shape.output()), padded(rest, log)]];
        let factor = points.kind_weight(MatmulKind::Head);
        // A logit is TOP less one below the output token, less the margin.
        let mut fixed = K::zero();
        for (((_, id), top), weight) in self.statement.generated().zip(&self.statistics.tops).zip(&outputs) {
            let below = total(powered.get(..id as usize).unwrap_or_default());
            fixed += *weight * (of_powers * base(i64::from(*top)) - below);
        }
        for clip in self.statistics.clips(Part::Logits) {
            let [o, v] = clip.place(log);
            let weight = |values: &[K], at: usize| values.get(at).copied().unwrap_or_default();
            fixed += weight(&outputs, o) * weight(&powered, v) * base(i64::from(clip.excess));
        }
        to.value -= factor * fixed;
        let weighed = Weighed {
            plain_sum: all * total(&vocab),
            plain: tensor(vocab),
            powered_sum: all * of_powers,
            powered: tensor(powered),
        };
        self.rounded(
            to,
            Part::Logits,
            weighed,
            &[(logits::MARGIN, -factor)],
            logits::REMAINDER,
            factor,
        );

        let entry = |o: usize, v: usize, weight: K| {
            vec![
                Weight::Sparse(self.shape.output(), vec![(o, weight)]),
                Weight::Sparse(log, vec![(v, K::one())]),
            ]
        };
        let margins = |name, entries: Vec<Tensor>, value| LinearClaim {
            name,
            groups: vec![Group::new_sum(Part::Logits, entries, vec![(logits::MARGIN, K::one())])],
            value,
        };
        let chosen = self.statement.generated().zip(&outputs).enumerate();
        let chosen = chosen.map(|(o, ((_, id), weight))| entry(o, id as usize, *weight));
        others.push(margins("chosen logits", chosen.collect(), K::zero()));
        // A clipped logit is the largest or smallest value there is.
        let (mut power, mut value, mut entries) = (K::one(), K::zero(), Vec::new());
        for clip in self.statistics.clips(Part::Logits) {
            let [o, v] = clip.place(log);
            let margin = self.margin(o, v, clip);
            value += power * base(margin);
            entries.push(entry(o, v, power));
            power *= points.clip;
        }
        others.push(margins("clipped logits", entries, value));
    }

    /// Margin of a clipped logit.
    fn margin(&self, output: usize, entry: usize, clip: &Clip) -> i64 {
        let id = self.statement.output.get(output).copied().unwrap_or_default() as usize;
        let top = self.statistics.tops.get(output).copied().unwrap_or_default();
        i64::from(top) - i64::from(entry < id) - clip.value()
    }
}
