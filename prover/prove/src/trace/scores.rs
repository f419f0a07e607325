//! Scores of attention, and the rows of softmax.

use tessera_circuits::ops::softmax;
use tessera_circuits::semantics::{cap_table, reciprocal, round_shift, MASKED, PROB_BITS, PROB_SHIFT, RECIPROCAL};
use tessera_circuits::shape::Part;
use tessera_circuits::statistics::Clip;

use super::{build, felt, Accumulator, Source};
use crate::column::Column;

/// The columns of a row of softmax from [`softmax::SUM_HI`] on: a sum below `2^29`, its reciprocal, and that it is the
/// quotient, rounded down. Of others the columns are those of no division.
pub fn division(sum: u32, recip: u32) -> [u32; softmax::COLUMNS - softmax::SUM_HI] {
    let limbs = |v: u32| [v >> softmax::LIMB_BITS, v & ((1 << softmax::LIMB_BITS) - 1)];
    let ([sum_hi, sum_lo], [recip_hi, recip_lo]) = (limbs(sum), limbs(recip));
    let left = RECIPROCAL.saturating_sub(u64::from(recip) * u64::from(sum)) as u32;
    let ([left_hi, left_lo], [gap_hi, _]) = (limbs(left), limbs(sum.saturating_sub(1 + left)));
    let ([carry, _], high) = (limbs(recip_lo * sum_lo), recip_hi * sum_hi);
    [
        sum_hi, sum_lo, recip_hi, recip_lo, high, carry, left_hi, left_lo, gap_hi,
    ]
}

impl Source<'_> {
    pub(super) fn scores(&self) -> (Vec<Column>, Vec<Clip>) {
        let (shape, config) = (self.shape, &self.shape.config);
        let tokens = 1usize << shape.token;
        let pairs: Vec<_> = shape.pairs().collect();
        let cap = config
            .blocks
            .score_cap
            .map(|cap| cap_table(cap, self.params.score_bits));
        build(shape, Part::SCORES, |[l, h, pair, i, j], row| {
            let blocks = pairs.get(pair).copied();
            let (query, key) = blocks.unwrap_or_default();
            let (i, j) = ((query << shape.block()) | i, (key << shape.block()) | j);
            let layers = self.witness.layers.get(l);
            let layer = layers.filter(|_| h < config.heads && blocks.is_some());
            let line = h * tokens + i;
            let cell = line * tokens + j;
            let acc = layer.map_or([0, 0], |w| [w.score_acc_hi[cell].into(), w.score_acc_lo[cell].into()]);
            let shift = self.params.layers.get(l).map_or(1, |p| p.attention.score).into();
            let acc = Accumulator::of(acc);
            let score = acc.rounded(shift);
            acc.write(row, shape.scores().remainder(), shift, score);
            row[softmax::S] = felt(score.out);
            let compared = match &cap {
                Some(table) => i64::from(table[(score.out + (1 << 15)) as usize]),
                None => score.out,
            };
            if cap.is_some() {
                row[softmax::CAPPED] = felt(compared);
            }
            let (max, recip) = layer.map_or((0, 0), |w| (w.max[line], w.recip[line]));
            let open = l < config.layers && blocks.is_some() && j < self.visible(i);
            let exp = layer.map_or(u32::from(open) << 15, |w| w.exp[cell]);
            let difference = if open { i64::from(max) - compared } else { MASKED.into() };
            row[softmax::D] = felt(difference);
            row[softmax::EXP] = exp;
            row[softmax::ZERO] = u32::from(difference == 0);
            let shift = 8 + u32::from(PROB_SHIFT);
            let share = i64::from(exp) * i64::from(recip);
            let p = round_shift(share, shift);
            let rest = share + (1 << (shift - 1)) - (p << shift);
            row[softmax::P] = p as u32;
            row[softmax::P_HI] = (rest >> 8) as u32;
            row[softmax::P_LO] = (rest & 0xff) as u32;
            let high = i64::from(exp) * i64::from(recip >> softmax::LIMB_BITS);
            row[softmax::P_DELTA] = felt(high - (p << (shift - softmax::LIMB_BITS)) + softmax::P_OFFSET);
            [score.excess, 0, 0, 0, 0, 0]
        })
    }

    pub(super) fn softmax(&self) -> (Vec<Column>, Vec<Clip>) {
        let (shape, config) = (self.shape, &self.shape.config);
        let tokens = 1usize << shape.token;
        build(shape, Part::SOFTMAX, |[l, h, i], row| {
            let Some(layer) = self.witness.layers.get(l).filter(|_| h < config.heads) else {
                // Padding is in the tables, as a row of one key is.
                let alone = 1 << PROB_BITS;
                row[softmax::SUM_HI..].copy_from_slice(&division(alone, reciprocal(alone)));
                return [0; 6];
            };
            let line = h * tokens + i;
            let scores = &layer.score[line * tokens..][..self.visible(i)];
            let ties = scores.iter().filter(|score| **score == layer.max[line]).count();
            row[softmax::MAX] = felt(i64::from(layer.max[line]));
            row[softmax::TIES] = felt(ties as i64 - 1);
            row[softmax::SUM_HI..].copy_from_slice(&division(layer.sum[line], layer.recip[line]));
            [0; 6]
        })
    }
}
