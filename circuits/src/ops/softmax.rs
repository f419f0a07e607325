//! Scores and softmax (docs/protocol.md, sections 16.5 and 16.13). One row per (layer, head, pair of tokens) has a score, its
//! exponential and the probability; one per (layer, head, query token) the largest score, the sum of the exponentials, and the
//! reciprocal of the sum.

mod kinds;
mod pairs;

use crate::air::gadgets::Remainder;
use crate::air::lookups::{Linear, Lookup, Relation};
use crate::air::{base, Air};
use crate::claims::{Group, LinearClaim, Tensor, Weight};
use crate::mle::eq_table;
use crate::model::{log_ceil, Limbs};
use crate::rounding::Rounded;
use crate::scalar::Scalar;
use crate::semantics::{requantise, PROB_BITS};
use crate::shape::{Along, Entry, Instance, OfText, Part, Product, Rows, Shape, Shifts};
use crate::sizes::{Extent, Sizes};
use crate::wiring::{claim, eq, felt, padded, times, Claims, Points, Public, Rounding};

pub use self::kinds::{BlockPairs, Kind};
pub(super) use self::pairs::Keys;
use self::pairs::Pairs;
use super::operator::{Finals, Operator};

/// `RECIPROCAL / (sum of exponentials)` is the reciprocal used by softmax: the largest number for which every probability is
/// rounded to less than 1, that is to at most `2^15 - 1`.
pub const RECIPROCAL: u64 = (1 << 36) - (1 << 20) - 1;

/// Shift (minus 8) from `exp * reciprocal` to a probability: 36 - 15 - 8.
pub const PROB_SHIFT: u8 = 13;

/// Softmax reciprocal of a sum of exponentials (`sum >= 2^15`, the maximum contributes `2^15`).
pub fn reciprocal(sum: u32) -> u32 {
    (RECIPROCAL / u64::from(sum.max(1 << PROB_BITS))) as u32
}

/// Probability of an entry with exponential `e` in a row with reciprocal `r`.
pub fn probability(e: u32, r: u32) -> i16 {
    requantise(i64::from(e) * i64::from(r), PROB_SHIFT)
}

/// Scores, and the softmax of the scores of every query.
pub struct Softmax;

/// The number of the scores among the accumulators.
const SCORES: usize = 9;
/// That of the sums of exponentials times their reciprocals.
const RECIPROCALS: usize = 13;
/// That of the exponentials times their reciprocals.
const PROBABILITIES: usize = 14;

impl Part {
    /// (layer, head, pair of blocks of tokens, query in its block, key in its block), of the layers without a window.
    pub const SCORES: Self = Self::new(5, "Scores");
    /// (layer, head, pair of blocks of tokens, query in its block, key in its block), of the layers with a window.
    pub const WINDOWED: Self = Self::new(13, "Windowed");
    /// (layer, head, query token)
    pub const SOFTMAX: Self = Self::new(6, "Softmax");
}

impl Product {
    /// Queries times the keys of the committed pairs of blocks; variables (layer, head, block, half, index).
    pub const SCORE: Self = Self::new(4, "Score");
    /// Reciprocals of softmax times the sums of exponentials, and times the exponentials; variables (layer, head, query).
    pub const RECIPROCAL: Self = Self::new(10, "Reciprocal");
}

impl Rounded {
    /// Scores of a part of scores.
    pub const fn score(part: Part) -> Self {
        Self::of(part, 0)
    }
}

/// The score.
pub const S: usize = 0;
/// The row's maximum less the score; 65535 where the query does not see the key.
pub const D: usize = 1;
/// Its exponential, 0 where masked; the sums over keys are statistics bound by claim.
pub const EXP: usize = 2;
/// 1 where the difference is 0. At least one key of every row attains the maximum, by claim.
pub const ZERO: usize = 3;
/// The probability.
pub const P: usize = 4;
/// Its remainder, `2^8 P_HI + P_LO`, of 21 bits.
pub const P_HI: usize = 5;
/// Low byte of the remainder.
pub const P_LO: usize = 6;
/// The difference of its high limb, plus [`P_OFFSET`].
pub const P_DELTA: usize = 7;
/// Of the score.
pub const SCORE: Remainder = Remainder {
    at: 8,
    limbs: Limbs::Two,
    narrow: None,
};
/// The capped score, where scores are capped.
pub const CAPPED: usize = 13;
/// Number of columns where they are not.
const PLAIN: usize = 13;
/// `DELTA` of a probability is in -36736..=4095.
pub const P_OFFSET: i64 = 40960;

/// The largest score of the keys that are not masked.
pub const MAX: usize = 0;
/// How many keys have it, less one.
pub const TIES: usize = 1;
/// The sum of the exponentials, in limbs.
pub const SUM_HI: usize = 2;
/// Its low limb.
pub const SUM_LO: usize = 3;
/// Its reciprocal, in limbs.
pub const RECIP_HI: usize = 4;
/// Its low limb.
pub const RECIP_LO: usize = 5;
/// The product of both high limbs.
pub const HIGH: usize = 6;
/// The high limb of the product of both low limbs.
pub const CARRY: usize = 7;
/// What the division leaves, in limbs.
pub const LEFT_HI: usize = 8;
/// Its low limb.
pub const LEFT_LO: usize = 9;
/// The high limb of the sum less one, less what is left; the low limb is looked up without a column.
pub const GAP_HI: usize = 10;
/// Number of columns.
pub const COLUMNS: usize = 11;

/// Bits of a low limb.
pub const LIMB_BITS: u32 = 13;
/// Bits of the high limb of a reciprocal.
pub const RECIP_HI_BITS: u32 = 8;
/// Bits of the product of the high limbs: `2^(2 LIMB_BITS)` times it is at most [`RECIPROCAL`].
pub const HIGH_BITS: u32 = 10;

/// The limbs of what is divided.
pub const fn dividend() -> [i64; 2] {
    let radix = 1 << LIMB_BITS;
    [(RECIPROCAL / radix) as i64, (RECIPROCAL % radix) as i64]
}

/// The shift of an entry of a part of scores.
fn shift(entry: &Entry<'_>, part: Part) -> Option<u8> {
    let [index, ..] = entry.place;
    let layer = entry.sizes.layer_of(part, index)?;
    entry.params.layers.get(layer).map(|layer| layer.attention.score)
}

/// Scores, their exponentials and probabilities.
#[derive(Clone, Copy, Debug)]
pub struct Scores {
    /// Whether scores are capped before differences are taken.
    pub capped: bool,
    /// Whether heads are longer than [`LONGEST`] and not normed.
    pub long: bool,
}

/// The longest heads whose scores are in limbs that do not wrap, whatever their queries are: `255 2^15 128 < 2^30 - 2^21`.
pub const LONGEST: usize = 128;

impl Scores {
    /// The column of the scores whose maximum and differences softmax takes.
    pub const fn compared(self) -> usize {
        if self.capped {
            CAPPED
        } else {
            S
        }
    }

    /// The score in its range, or with what the table has for it.
    fn score(self) -> Lookup {
        let index = Linear::column(S) + Linear::constant(1 << 15);
        match self.capped {
            true => Lookup::new(Relation::Cap, [index, Linear::column(CAPPED)]),
            false => Lookup::int16(S),
        }
    }
}

impl Scores {
    /// The remainder of the score. The norms in the key alone bound the queries of long heads.
    pub const fn remainder(self) -> Remainder {
        Remainder {
            narrow: if self.long { Remainder::NARROW } else { None },
            ..SCORE
        }
    }

    /// All columns of a row.
    pub fn air(self) -> Air {
        let mut list = vec![
            self.score(),
            Lookup::new(Relation::Exp, [D, EXP, ZERO].map(Linear::column)),
            Lookup::range16(Linear::column(P)),
            Lookup::below(13, Linear::column(P_HI)),
            Lookup::below(8, Linear::column(P_LO)),
            Lookup::range16(Linear::column(P_DELTA)),
        ];
        list.extend(SCORE.lookups());
        Air {
            columns: PLAIN + usize::from(self.capped),
            powers: vec![(SCORE.pow(), Rounded::score(Part::SCORES).tensor)],
            lookups: list,
        }
    }
}

/// The columns of a row of softmax.
pub fn columns() -> Air {
    let column = Linear::column;
    let wide = |at: usize| Lookup::range16(column(at));
    let gap_hi = column(SUM_HI) - column(LEFT_HI) - column(GAP_HI);
    let gap_lo = column(SUM_LO) - column(LEFT_LO) - Linear::constant(1);
    let lookups = vec![
        wide(TIES),
        wide(SUM_HI),
        Lookup::below(LIMB_BITS, column(SUM_LO)),
        Lookup::below(RECIP_HI_BITS, column(RECIP_HI)),
        Lookup::below(LIMB_BITS, column(RECIP_LO)),
        Lookup::below(HIGH_BITS, column(HIGH)),
        Lookup::below(LIMB_BITS, column(CARRY)),
        wide(LEFT_HI),
        Lookup::below(LIMB_BITS, column(LEFT_LO)),
        wide(GAP_HI),
        Lookup::below(LIMB_BITS, gap_hi * base(1 << LIMB_BITS) + gap_lo),
    ];
    Air {
        columns: COLUMNS,
        powers: Vec::new(),
        lookups,
    }
}

impl Sizes {
    /// The columns of the scores.
    pub const fn scores(&self) -> Scores {
        Scores {
            capped: self.config.blocks.score_cap.is_some(),
            long: self.config.head_dim > LONGEST && !self.config.head_norms,
        }
    }
}

impl<K: Scalar> Operator<K> for Softmax {
    fn parts(&self, sizes: &Sizes) -> Vec<Rows> {
        let (p, config, block) = (&sizes.padded, &sizes.config, sizes.block());
        let (layers, heads) = (Extent::of(0, config.layers), Extent::of(1, config.heads));
        let scores = |kind: Kind| {
            let (layers, pairs) = (kind.layers.len(), kind.pairs.count());
            let shifts = |of| Shifts {
                tensor: Rounded::score(kind.part).tensor,
                limbs: Limbs::Two,
                along: Along::First,
                of,
            };
            let (of_text, shifts): (OfText, _) = match kind.part {
                Part::WINDOWED => (
                    |sizes, place| sizes.is_pair_of_text(Part::WINDOWED, place),
                    shifts(|entry| shift(entry, Part::WINDOWED)),
                ),
                _ => (
                    |sizes, place| sizes.is_pair_of_text(Part::SCORES, place),
                    shifts(|entry| shift(entry, Part::SCORES)),
                ),
            };
            Rows {
                part: kind.part,
                axes: vec![log_ceil(layers, 0), p.heads, log_ceil(pairs, 0), block, block],
                extents: vec![Extent::of(0, layers), heads, Extent::of(2, pairs)],
                of_text,
                air: sizes.scores().air(),
                shifts: vec![shifts],
            }
        };
        let rows = Rows {
            part: Part::SOFTMAX,
            axes: vec![p.layers, p.heads, sizes.token],
            extents: vec![layers, heads, sizes.tokens(2)],
            of_text: |sizes, place| place.get(2).is_some_and(|row| *row < sizes.rows),
            air: columns(),
            shifts: Vec::new(),
        };
        let scores = sizes.kinds().into_iter().map(scores);
        scores.chain([rows]).collect()
    }

    fn products(&self, shape: &Shape) -> Vec<Instance> {
        let p = &shape.padded;
        let own = |product, variables| Instance {
            product,
            variables: Some(p.layers + p.heads + variables),
            weights: None,
        };
        vec![
            own(Product::SCORE, shape.blocks() + p.head_dim()),
            own(Product::RECIPROCAL, shape.token),
        ]
    }

    fn numbers(&self, _: &Sizes) -> Vec<usize> {
        vec![SCORES, RECIPROCALS, PROBABILITIES]
    }

    fn rounded(&self, public: &Public<'_, K>, claims: &mut Claims<K>) {
        public.scores(claims);
        public.reciprocals(claims);
        public.probabilities(claims);
    }

    fn across(&self, public: &Public<'_, K>) -> Vec<LinearClaim<K>> {
        public.softmax()
    }

    fn operands(&self, public: &Public<'_, K>, finals: &Finals<'_, K>) -> Vec<(Product, LinearClaim<K>)> {
        let mut claims = finals.claims(Product::SCORE, |at| public.score_operands(at));
        let reciprocals = finals.claims(Product::RECIPROCAL, |at| public.reciprocal_operands(at));
        claims.extend(reciprocals);
        claims
    }
}

impl<K: Scalar> Points<K> {
    /// Weight of the scores among the batched accumulators.
    pub fn score_weight(&self) -> K {
        self.weight(SCORES)
    }

    /// Weight of the sums of exponentials times their reciprocals among the batched accumulators.
    pub fn reciprocal_weight(&self) -> K {
        self.weight(RECIPROCALS)
    }

    /// Weight of the exponentials times their reciprocals among the batched accumulators.
    pub fn probability_weight(&self) -> K {
        self.weight(PROBABILITIES)
    }
}

impl<K: Scalar> Public<'_, K> {
    /// Scores: products of queries and keys, rounded.
    fn scores(&self, claims: &mut Claims<K>) {
        for kind in self.shape.kinds() {
            self.scores_of(&kind, claims);
        }
    }

    fn scores_of(&self, kind: &Kind, claims: &mut Claims<K>) {
        let (points, lead) = (self.points, self.lead(kind.part));
        let tensors = |layers: Weight<K>| {
            let front = [layers, eq(&points.head)];
            self.score_tensors(kind, front, Keys::At(&points.key))
        };
        let weights = points.layer_weights(self.layers());
        let shift = |l: usize| self.params.layers.get(l).map_or(1, |p| p.attention.score);
        let powers = weights.iter().enumerate().map(|(l, w)| *w * base(1 << shift(l)));
        let powers: Vec<K> = powers.collect();
        let remainder = self.shape.scores().remainder();
        let narrow = kind.layers.iter().enumerate();
        let narrow: Vec<(usize, K)> = narrow
            .filter(|(_, l)| remainder.is_narrow(shift(**l).into(), None))
            .map(|(index, l)| (index, weights.get(*l).copied().unwrap_or_default()))
            .collect();
        let plain = tensors(self.layers_of(kind, &weights));
        let powered = tensors(self.layers_of(kind, &powers));
        let narrow = (!narrow.is_empty()).then(|| tensors(Weight::Sparse(lead, narrow)));
        let rounding = Rounding {
            rounded: Rounded::score(kind.part),
            out: vec![(S, K::one())],
            plain,
            powered,
            narrow: narrow.unwrap_or_default(),
            factor: points.score_weight(),
        };
        self.accumulated(claims, &rounding, remainder);
    }

    /// Probabilities: the limbs of `E R` are `2^8 P + DELTA` and `REM - 2^20 - 2^13 DELTA`.
    fn probabilities(&self, claims: &mut Claims<K>) {
        let points = self.points;
        let (limb, weight) = (points.limb, points.probability_weight());
        let weights = points.layer_weights(self.layers());
        for kind in self.shape.kinds() {
            let part = kind.part;
            let front = [self.layers_of(&kind, &weights), eq(&points.head)];
            let plain = self.score_tensors(&kind, front, Keys::At(&points.key));
            let (low, delta) = (weight * limb, weight - weight * limb * base(1 << LIMB_BITS));
            let columns = vec![
                (P, weight * base(1 << 8)),
                (P_DELTA, delta),
                (P_HI, low * base(256)),
                (P_LO, low),
            ];
            let sides = &mut claims.accumulators;
            sides.value += (delta * base(P_OFFSET) + low * base(1 << 20)) * self.totals(part, &plain);
            sides.groups.push(Group::new_sum(part, plain, columns));
        }
    }

    /// Reciprocals: the limbs of `Z R`, of which there are three, are those of the dividend less what is left.
    fn reciprocals(&self, claims: &mut Claims<K>) {
        let (part, limb, weight) = (Part::SOFTMAX, self.points.limb, self.points.reciprocal_weight());
        let plain = self.rows_of_heads(self.rows());
        let (middle, low) = (weight * limb, weight * limb * limb);
        let radix = base(1 << LIMB_BITS);
        let columns = vec![
            (HIGH, weight - middle * radix),
            (CARRY, low * radix - middle),
            (LEFT_HI, -middle),
            (LEFT_LO, -low),
        ];
        let [dividend_hi, dividend_lo] = dividend().map(base);
        let sides = &mut claims.accumulators;
        sides.value -= (middle * dividend_hi + low * dividend_lo) * self.total(part, &plain);
        sides.groups.push(Group::new(part, plain, columns));
    }

    /// Weights of rows of softmax: real layers, real heads, and what is along the tokens.
    fn rows_of_heads(&self, tokens: Weight<K>) -> Tensor<K> {
        let heads = padded(self.head_weights(), self.shape.padded.heads);
        vec![self.plain_layers(Part::SOFTMAX), heads, tokens]
    }

    /// Softmax: differences to the maximum, which is attained, masked pairs, sums.
    fn softmax(&self) -> Vec<LinearClaim<K>> {
        let (points, kinds) = (self.points, self.shape.kinds());
        let layers = points.layer_weights(self.layers());
        let heads = padded(self.head_weights(), self.shape.padded.heads);
        let front = |kind: &Kind| [self.layers_of(kind, &layers), heads.clone()];
        let ones = |columns: &[usize]| columns.iter().map(|column| (*column, K::one())).collect::<Vec<_>>();
        let minus = |columns: &[(usize, i64)]| columns.iter().map(|(column, k)| (*column, -felt::<K>(*k))).collect();
        let rows =
            |columns: &[(usize, i64)]| Group::new(Part::SOFTMAX, self.rows_of_heads(self.rows()), minus(columns));
        let masked = |kind: &Kind, of: Pairs, columns: &[usize]| {
            let weights = self.masked_tensors(kind, front(kind), of);
            Group::new_sum(kind.part, weights, ones(columns))
        };
        let pairs = |column: usize| {
            let of = |kind: &Kind| {
                let weights = self.score_tensors(kind, front(kind), Keys::All);
                Group::new_sum(kind.part, weights, ones(&[column]))
            };
            kinds.iter().map(of).collect::<Vec<_>>()
        };
        let claim = |name, groups, value| LinearClaim::of(name, groups).of_value(value);
        let compared = self.shape.scores().compared();
        let differences = kinds.iter().flat_map(|kind| {
            let queries = self.rows_times(&self.seen(kind));
            let weights = vec![self.all_layers_of(kind, &layers, Part::SOFTMAX), heads.clone(), queries];
            [
                masked(kind, Pairs::Open, &[compared, D]),
                Group::new(Part::SOFTMAX, weights, minus(&[(MAX, 1)])),
            ]
        });
        let differences = claim("differences", differences.collect(), K::zero());
        let masked = kinds.iter().map(|kind| masked(kind, Pairs::Masked, &[EXP]));
        let masked = claim("masked pairs", masked.collect(), K::zero());
        let sum = |values: &[K]| values.iter().fold(K::zero(), |sum, w| sum + *w);
        let attained = claim(
            "a maximum is attained",
            [pairs(ZERO), vec![rows(&[(TIES, 1)])]].concat(),
            sum(&layers) * sum(&self.head_weights()) * self.text(),
        );
        let limbs = [(SUM_HI, 1 << LIMB_BITS), (SUM_LO, 1)];
        let sums = claim("softmax sums", [pairs(EXP), vec![rows(&limbs)]].concat(), K::zero());
        vec![differences, masked, attained, sums]
    }

    /// Queries and keys.
    fn score_operands(&self, at: &[K]) -> [LinearClaim<K>; 2] {
        let (p, points, shape) = (&self.shape.padded, self.points, self.shape);
        let (layer, rest) = at.split_at(p.layers as usize);
        let (head, rest) = rest.split_at(p.heads as usize);
        let (block, rest) = rest.split_at(shape.blocks() as usize);
        let (half, index) = rest.split_at(1);
        let half = half.first().copied().unwrap_or_default();
        let halves = [K::one() - half, half];
        let (layer, head, mut block) = (eq_table(layer), eq_table(head), eq_table(block));
        // Blocks behind the text have no pairs.
        block
            .iter_mut()
            .skip(shape.text_blocks())
            .for_each(|own| *own = K::zero());
        // A query is in the block, a key in that block or before it, as far as the query sees; without a causal mask in any one of the text.
        let from = |kind: &Kind| {
            let mut from = block.clone();
            for i in (1..from.len()).rev() {
                let after = from.get(i).copied().unwrap_or_default();
                from.get_mut(i - 1).into_iter().for_each(|own| *own += after);
            }
            let Some(reach) = kind.pairs.reach() else {
                let all = from.first().copied().unwrap_or_default();
                from.iter_mut().take(shape.text_blocks()).for_each(|own| *own = all);
                return from;
            };
            // Less the blocks whose queries come too late.
            for i in 0..shape.text_blocks().saturating_sub(reach + 1) {
                let late = from.get(i + reach + 1).copied().unwrap_or_default();
                from.get_mut(i).into_iter().for_each(|own| *own -= late);
            }
            from
        };
        let in_blocks = |point: &[K], blocks: &[K]| {
            let tokens = eq_table(point);
            let blocks = tokens.chunks(1 << shape.block()).zip(blocks);
            blocks
                .flat_map(|(own, w)| own.iter().map(|t| *t * *w))
                .collect::<Vec<K>>()
        };
        // Queries are one column of each half, keys two.
        let of_halves = |part: Part, coefficients: &[K]| {
            let rope = shape.rope(part);
            let of = |(side, k): (usize, K)| {
                let columns = (rope.after(side)..).zip(coefficients);
                columns.map(move |(c, own)| (c, k * *own)).collect::<Vec<_>>()
            };
            halves.into_iter().enumerate().flat_map(of).collect::<Vec<_>>()
        };
        let queries = vec![
            padded(times(&points.layer_weights(self.layers()), &layer), self.lead(Part::Q)),
            Weight::dense(shape.end().cut(in_blocks(&points.token, &block))),
            padded(times(&eq_table(&points.head), &head), p.heads),
            eq(index),
        ];
        let kinds = shape.kinds();
        let keys = kinds.iter().map(|kind| {
            vec![
                self.all_layers_of(kind, &layer, Part::K),
                Weight::dense(in_blocks(&points.key, &from(kind))),
                padded(self.grouped(&head), p.kv_heads),
                eq(index),
            ]
        });
        let keys = keys.collect();
        let weight = points.score_weight();
        let limbs = of_halves(Part::K, &[weight, weight * points.limb]);
        [
            claim("queries", Part::Q, queries, of_halves(Part::Q, &[K::one()])),
            LinearClaim::of("keys", vec![Group::new_sum(Part::K, keys, limbs)]),
        ]
    }

    /// Reciprocals of softmax, and what they multiply: the sums of exponentials, and the exponentials at the key point. The
    /// first factor is a table of products, entry by entry.
    fn reciprocal_operands(&self, at: &[K]) -> [LinearClaim<K>; 2] {
        let (p, points, part) = (&self.shape.padded, self.points, Part::SOFTMAX);
        let (layer, rest) = at.split_at(p.layers as usize);
        let (head, token) = rest.split_at(p.heads as usize);
        let layers = eq_table(layer);
        let weighted = vec![
            padded(times(&points.layer_weights(self.layers()), &layers), self.lead(part)),
            padded(times(&self.head_weights(), &eq_table(head)), p.heads),
            self.rows_times(&eq_table(token)),
        ];
        let limbs = |hi: usize, lo: usize, weight: K| vec![(hi, weight), (lo, weight * points.limb)];
        let sums = vec![self.real_layers(part, &layers), eq(head), eq(token)];
        let sums = Group::new(part, sums, limbs(SUM_HI, SUM_LO, points.reciprocal_weight()));
        let exponentials = self.shape.kinds().into_iter().map(|kind| {
            let front = [self.layers_of(&kind, &layers), eq(head)];
            let weights = self.score_tensor(&kind, front, token, Keys::At(&points.key));
            Group::new(kind.part, weights, vec![(EXP, points.probability_weight())])
        });
        let columns = limbs(RECIP_HI, RECIP_LO, K::one());
        [
            claim("reciprocals", part, weighted, columns),
            LinearClaim::of(
                "sums and exponentials",
                std::iter::once(sums).chain(exponentials).collect(),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::semantics::round_shift;

    /// The reciprocal is that of the sum, of `2^15` for sums that no row has, and a probability of 1 is the largest int16 without
    /// being clipped.
    #[test]
    fn softmax_in_integers() {
        assert_eq!(reciprocal(0), (1 << 21) - 33);
        assert_eq!(reciprocal(1 << 15), (1 << 21) - 33);
        assert_eq!(reciprocal(3 << 15), ((1 << 21) - 33) / 3);
        let alone = i64::from(reciprocal(1 << 15)) << 15;
        assert_eq!(round_shift(alone, 8 + u32::from(PROB_SHIFT)), i64::from(i16::MAX));
        assert_eq!(probability(1 << 15, reciprocal(1 << 15)), i16::MAX);
        assert_eq!(probability(1 << 14, reciprocal(1 << 16)), 1 << 13);
    }
}
