//! The columns of norms (docs/protocol.md, section 16.2).

use tessera_circuits::model::MatmulKind;
use tessera_circuits::ops::norms::{
    bound_limbs, epsilon, CARRIES, CARRY, CARRY_BITS, COLUMNS, CROSS_HI, CROSS_LO, GAP, HIGH_LO, LEFT, LIMBS,
    LIMB_BITS, QUOTIENT, REST, ROOM_HI, ROOT, ROOT_CARRIES, SUM, SUM_BITS,
};
use tessera_circuits::shape::Part;
use tessera_circuits::statement::{class_of, norm_of};
use tessera_circuits::statistics::Clip;

use super::{build, felt, Source};
use crate::column::Column;
use tessera_model::forward::{LayerWitness, NormedHeads};

/// What a row of norms is made of.
#[derive(Clone, Copy, Debug)]
pub struct NormRow {
    /// Sums of `hi^2`, `hi lo` and `lo^2`.
    pub sums: [i64; 3],
    pub eps: u64,
    /// The limbs of what is divided by the sum of squares.
    pub bound: [i64; LIMBS + 1],
    pub root: u32,
}

impl NormRow {
    /// A row that says nothing, and is in the tables as any other.
    const PADDING: Self = Self {
        sums: [0; 3],
        eps: 1,
        bound: [0; LIMBS + 1],
        root: 0,
    };

    /// All columns. Of a root that is not that of the sum, they are those of no division, and in range.
    pub fn columns(&self) -> [i64; COLUMNS] {
        let mut row = [0; COLUMNS];
        let radix = 1i64 << LIMB_BITS;
        let write = |row: &mut [i64], at: usize, count: usize, value: i64| {
            for k in 0..count {
                row[at + k] = (value >> (LIMB_BITS as usize * k)) % radix;
            }
        };
        let [high, cross, low] = self.sums;
        let [eps_hi, eps_lo] = epsilon(self.eps);
        let half = 2 * LIMB_BITS;
        row[CROSS_HI] = cross >> SUM_BITS[0];
        row[CROSS_LO] = cross & ((1 << SUM_BITS[0]) - 1);
        row[HIGH_LO] = high & 0xff;
        let below = low + (row[CROSS_LO] << 9) + (row[HIGH_LO] << 16) + eps_lo;
        row[CARRY] = below >> half;
        let above = (high >> 8) + row[CARRY] + row[CROSS_HI] + eps_hi;
        let sum = (above << half) + (below & ((1 << half) - 1));
        write(&mut row, SUM, LIMBS, sum);

        let digits = self.bound.iter().rev();
        let bound = digits.fold(0i128, |value, limb| (value << LIMB_BITS) + i128::from(*limb));
        let quotient = (bound / i128::from(sum)) as i64;
        let left = (bound % i128::from(sum)) as i64;
        write(&mut row, QUOTIENT, LIMBS, quotient);
        write(&mut row, LEFT, LIMBS, left);
        let mut carried = 0;
        for k in 0..GAP - CARRIES {
            let product: i64 = (0..=k).map(|i| row[QUOTIENT + i] * row[SUM + k - i]).sum();
            carried = (product + row[LEFT + k] + carried - self.bound[k]) >> LIMB_BITS;
            row[CARRIES + k] = carried;
        }
        write(&mut row, GAP, LIMBS - 1, (sum - 1 - left) >> LIMB_BITS);

        let root = i64::from(self.root);
        let rest = (quotient - root * root).clamp(0, (1 << (half + 1)) - 1);
        write(&mut row, ROOT, 2, root);
        row[REST] = rest % radix;
        row[REST + 1] = rest >> LIMB_BITS;
        let carry = |value: i64, bits: u32| (value >> LIMB_BITS).clamp(0, (1 << bits) - 1);
        let [root_lo, root_hi] = [row[ROOT], row[ROOT + 1]];
        let first = carry(root_lo * root_lo + row[REST] - row[QUOTIENT], CARRY_BITS[1]);
        row[ROOT_CARRIES] = first;
        let second = 2 * root_lo * root_hi + row[REST + 1] + first - row[QUOTIENT + 1];
        row[ROOT_CARRIES + 1] = carry(second, CARRY_BITS[2]);
        row[ROOM_HI] = (2 * root - rest).max(0) >> LIMB_BITS;
        row
    }
}

impl Source<'_> {
    pub(super) fn norms(&self) -> (Vec<Column>, Vec<Clip>) {
        let (shape, hidden) = (self.shape, self.shape.config.hidden);
        let leading = self.statement.leading(&self.params.leading, shape.token);
        build(shape, Part::NORMS, |[n, i], row| {
            let of_state = |state: &tessera_model::forward::Stream| {
                let norm = norm_of(self.params, n);
                NormRow {
                    sums: state.sums[i],
                    eps: norm.eps.of(class_of(i, leading)),
                    bound: bound_limbs(hidden, norm.scale),
                    root: state.rsqrt[i],
                }
            };
            let own = self.witness.streams.get(n).map_or(NormRow::PADDING, of_state);
            row.iter_mut().zip(own.columns()).for_each(|(to, v)| *to = felt(v));
            [0; 6]
        })
    }

    /// The rows of the norms of heads.
    pub(super) fn head_norms(&self, part: Part) -> (Vec<Column>, Vec<Clip>) {
        let (shape, config) = (self.shape, &self.shape.config);
        let (kind, heads) = match part {
            Part::Q_NORMS => (MatmulKind::Q, config.heads),
            _ => (MatmulKind::K, config.kv_heads),
        };
        build(shape, part, |[l, i, h], row| {
            let layer = self.witness.layers.get(l).filter(|_| h < heads);
            let own = layer.zip(self.params.head_norm(kind.at(l))).map(|(layer, norm)| {
                let normed = normed_heads(layer, kind);
                NormRow {
                    sums: normed.sums[i * heads + h],
                    eps: norm.eps,
                    bound: bound_limbs(config.head_dim, norm.scale),
                    root: normed.rsqrt[i * heads + h],
                }
            });
            let columns = own.unwrap_or(NormRow::PADDING).columns();
            row.iter_mut().zip(columns).for_each(|(to, v)| *to = felt(v));
            [0; 6]
        })
    }
}

/// The norms of queries or keys.
pub(super) const fn normed_heads(layer: &LayerWitness, kind: MatmulKind) -> &NormedHeads {
    match kind {
        MatmulKind::Q => &layer.q_norm,
        _ => &layer.k_norm,
    }
}
