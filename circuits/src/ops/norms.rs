//! Norm (docs/protocol.md, section 16.2): of every row of a state the sum of its squares, and its reciprocal root. One row per
//! (state, token).
//!
//! The reciprocal root is that of an integer division: the *quotient* is the bound divided by the sum of squares, epsilon
//! included, rounded down, and the *root* is the square root of the quotient, rounded down.

use stwo::core::fields::qm31::SecureField;

use crate::air::lookups::{Linear, Lookup};
use crate::air::{base, Air};
use crate::claims::{Factor, Group, LinearClaim, Tensor, Weight};
use crate::mle::eq_table;
use crate::model::{log_ceil, Limbs, MatmulKind, MatrixId, NormParams, RowClass};
use crate::rounding::Rounded;
use crate::scalar::Scalar;
use crate::semantics::{limbs, requantise};
use crate::shape::{Instance, Part, Place, Product, Rows, Shape};
use crate::sizes::{of_second_axis, Extent, Sizes};
use crate::statement::norm_of;
use crate::wiring::{alike, claim, eq, felt, padded, power, times, Claims, Points, Public, Rounding};

use super::operator::{Finals, Operator};
use super::stream;

/// The reciprocal square root of RMSNorm is below `2^RSQRT_BITS`: the epsilon of a valid key sees to it.
pub const RSQRT_BITS: u32 = 24;

/// The three limb sums of a row of RMSNorm: sums of `4^k hi^2`, `4^k hi lo`, `4^k lo^2`, `k` the exponent of the channel, or 0
/// where there is none.
pub fn norm_sums(x: &[i16], exponents: &[u8]) -> [i64; 3] {
    let exponents = exponents.iter().copied().chain(std::iter::repeat(0));
    x.iter().zip(exponents).fold([0; 3], |[a, b, c], (&v, k)| {
        let (hi, lo) = limbs(v);
        let (hi, lo) = (i64::from(hi), i64::from(lo));
        let k = 2 * u32::from(k);
        [a + ((hi * hi) << k), b + ((hi * lo) << k), c + ((lo * lo) << k)]
    })
}

/// Floor of the square root.
pub fn isqrt(n: u128) -> u128 {
    n.isqrt()
}

/// `hidden 2^(2 scale)` of a norm.
pub fn norm_bound(hidden: usize, scale: u8) -> u128 {
    (hidden as u128) << (2 * u32::from(scale.min(48)))
}

/// The reciprocal square root of RMSNorm: the largest `r` with
/// `r^2 (2^16 hh + 2^9 hl + ll + eps) <= hidden * 2^(2 scale)`. With a valid key it is below [`RSQRT_BITS`] bits.
pub fn norm_rsqrt(sums: [i64; 3], hidden: usize, p: &NormParams, class: RowClass) -> u32 {
    let eps = i128::from(p.eps.of(class));
    let squares = (i128::from(sums[0]) << 16) + (i128::from(sums[1]) << 9) + i128::from(sums[2]) + eps;
    let squares = squares.max(1) as u128;
    let root = isqrt(norm_bound(hidden, p.scale) / squares);
    u32::try_from(root).unwrap_or(u32::MAX)
}

/// RMSNorm of one element; `shift` is that of its channel.
pub fn norm_element(x: i16, rsqrt: u32, shift: u8) -> i16 {
    requantise(i64::from(x) * i64::from(rsqrt), shift)
}

/// The norm of every state.
pub struct Norm;

impl Part {
    /// (state, token)
    pub const NORMS: Self = Self::new(1, "Norms");
}

impl Product {
    /// Normed states times those of q, k, v, gate and up that are claimed in one limb; variables (state, feature).
    pub const NORM: Self = Self::new(0, "Norm");
    /// Limbs of the normed states times those of q, k, v, gate and up that are claimed in two; variables as those of [`Self::NORM`].
    pub const NORM_LIMBS: Self = Self::new(7, "NormLimbs");
    /// The stream times itself, entry by entry; variables (state, token, feature).
    pub const SQUARE: Self = Self::new(9, "Square");
    /// Of every row of a state: its reciprocal root times its values, quotient times sum of squares, and root times root;
    /// variables (state, token, which of these).
    pub const ROOT: Self = Self::new(11, "Root");
}

/// Bits of a limb: numbers are four limbs, least significant first, a root is two.
pub const LIMB_BITS: u32 = 12;
/// Limbs of the sum of squares and of all that is compared with it.
pub const LIMBS: usize = 4;
/// Bits of the last limb of a sum of squares, which is below `2^45`.
pub const LAST_BITS: u32 = 9;

/// The sum of squares with epsilon, in limbs.
pub const SUM: usize = 0;
/// The sum of products of both limbs of the states, less its low 15 bits, divided by `2^15`.
pub const CROSS_HI: usize = 4;
/// Its low 15 bits.
pub const CROSS_LO: usize = 5;
/// The low byte of the sum of the squares of high limbs.
pub const HIGH_LO: usize = 6;
/// What is carried from the low 24 bits of the sum of squares.
pub const CARRY: usize = 7;
/// The quotient, in limbs.
pub const QUOTIENT: usize = 8;
/// What the division leaves, in limbs.
pub const LEFT: usize = 12;
/// What is carried from limb to limb of the product of quotient and sum.
pub const CARRIES: usize = 16;
/// The sum less one, less what is left: its limbs from the second on. The first is looked up without a column.
pub const GAP: usize = 20;
/// The reciprocal root, in limbs.
pub const ROOT: usize = 23;
/// The quotient less the square of the root, in limbs; the high one has a bit more.
pub const REST: usize = 25;
/// What is carried from limb to limb of the square of the root.
pub const ROOT_CARRIES: usize = 27;
/// The high limb of twice the root, less the rest; the low one is looked up without a column.
pub const ROOM_HI: usize = 29;
/// Number of columns.
pub const COLUMNS: usize = 30;

/// Bits of [`CROSS_LO`], [`HIGH_LO`] and [`CARRY`].
pub const SUM_BITS: [u32; 3] = [15, 8, 7];
/// Bits of [`CARRIES`], and of both [`ROOT_CARRIES`].
pub const CARRY_BITS: [u32; 3] = [15, 13, 14];
/// Bits of the high limb of [`REST`] and of [`ROOM_HI`].
pub const WIDE_BITS: u32 = LIMB_BITS + 1;

/// The high part of an epsilon, and its low part, which is in `1..=2^24`.
pub const fn epsilon(eps: u64) -> [i64; 2] {
    let half = 2 * LIMB_BITS;
    let below = eps.saturating_sub(1);
    [(below >> half) as i64, (below & ((1 << half) - 1)) as i64 + 1]
}

/// The limbs of the bound `hidden 2^(2 scale)` of a norm; one more than a sum of squares has, none of them beyond 12 bits if
/// the key is valid.
pub fn bound_limbs(hidden: usize, scale: u8) -> [i64; LIMBS + 1] {
    let bound = norm_bound(hidden, scale);
    std::array::from_fn(|k| {
        let rest = bound >> (LIMB_BITS as usize * k);
        (if k == LIMBS {
            rest
        } else {
            rest & ((1 << LIMB_BITS) - 1)
        }) as i64
    })
}

/// The columns of a row of norms: sums of squares and reciprocal roots.
pub fn columns() -> Air {
    let column = Linear::column;
    let limbs = |at: usize, count: usize| (at..at + count).map(move |at| Lookup::below(LIMB_BITS, column(at)));
    let radix = base(1 << LIMB_BITS);
    let pair = |at: usize| column(at + 1) * radix + column(at);
    // 2^24 (SUM - LEFT) in their high halves, less what GAP has of them: 0 or 1.
    let borrow = pair(SUM + 2) - pair(LEFT + 2) - pair(GAP + 1);
    let low = pair(SUM) - pair(LEFT) - Linear::constant(1) - column(GAP) * radix;
    let room = column(ROOT + 1) * base(2) - column(REST + 1) - column(ROOM_HI);
    let mut list: Vec<Lookup> = limbs(SUM, LIMBS - 1).collect();
    list.push(Lookup::below(LAST_BITS, column(SUM + LIMBS - 1)));
    list.push(Lookup::int16(CROSS_HI));
    let crosses = (CROSS_LO..).zip(SUM_BITS);
    list.extend(crosses.map(|(at, own)| Lookup::below(own, column(at))));
    list.extend(limbs(QUOTIENT, LIMBS));
    list.extend(limbs(LEFT, LIMBS));
    list.extend((CARRIES..GAP).map(|at| Lookup::below(CARRY_BITS[0], column(at))));
    list.extend(limbs(GAP, LIMBS - 1));
    list.push(Lookup::below(1, borrow.clone()));
    list.push(Lookup::below(LIMB_BITS, borrow * (radix * radix) + low));
    list.extend(limbs(ROOT, 2));
    list.push(Lookup::below(LIMB_BITS, column(REST)));
    list.push(Lookup::below(WIDE_BITS, column(REST + 1)));
    list.push(Lookup::below(CARRY_BITS[1], column(ROOT_CARRIES)));
    list.push(Lookup::below(CARRY_BITS[2], column(ROOT_CARRIES + 1)));
    list.push(Lookup::below(WIDE_BITS, column(ROOM_HI)));
    let room = room * radix + column(ROOT) * base(2) - column(REST);
    list.push(Lookup::below(LIMB_BITS, room));
    Air {
        columns: COLUMNS,
        powers: Vec::new(),
        lookups: list,
    }
}

impl<K: Scalar> Operator<K> for Norm {
    fn parts(&self, sizes: &Sizes) -> Vec<Rows> {
        let states = sizes.states();
        vec![Rows {
            part: Part::NORMS,
            axes: vec![log_ceil(states, 0), sizes.token],
            extents: vec![Extent::of(0, states), sizes.tokens(1)],
            of_text: of_second_axis,
            air: columns(),
            shifts: Vec::new(),
        }]
    }

    fn products(&self, shape: &Shape) -> Vec<Instance> {
        let p = &shape.padded;
        let lead = shape.lead(Part::STREAM);
        let read = |product, limbs, weights: Place| {
            let own = NORMED.iter().any(|kind| shape.limbs.of(*kind) == limbs);
            Instance {
                product,
                variables: own.then_some(lead + p.hidden),
                weights: Some(weights),
            }
        };
        let entries = |product, variables| Instance {
            product,
            variables: Some(variables),
            weights: None,
        };
        vec![
            read(Product::NORM, Limbs::One, |sizes, id| state_of(sizes, id, Limbs::One)),
            read(Product::NORM_LIMBS, Limbs::Two, |sizes, id| {
                state_of(sizes, id, Limbs::Two)
            }),
            entries(Product::SQUARE, lead + shape.token + p.hidden),
            entries(Product::ROOT, shape.lead(Part::NORMS) + shape.token + ROOT_FACTORS),
        ]
    }

    fn numbers(&self, _: &Sizes) -> Vec<usize> {
        NUMBERS.to_vec()
    }

    fn rounded(&self, public: &Public<'_, K>, claims: &mut Claims<K>) {
        public.squares(claims);
        public.quotients(claims);
        public.roots(claims);
        public.normed(claims);
    }

    /// Both claims on what the projections read come first.
    fn operands(&self, public: &Public<'_, K>, finals: &Finals<'_, K>) -> Vec<(Product, LinearClaim<K>)> {
        let read = [(Product::NORM, Limbs::One), (Product::NORM_LIMBS, Limbs::Two)];
        let read = read
            .into_iter()
            .flat_map(|(product, limbs)| finals.claims(product, |at| [public.normed_operand(limbs, at)]));
        read.map(|(_, claim)| (Product::NORM, claim))
            .chain(finals.claims(Product::SQUARE, |at| public.square_operands(at)))
            .chain(finals.claims(Product::ROOT, |at| public.root_operands(at)))
            .collect()
    }
}

/// log2 of the products of a row in [`Product::ROOT`] and its likes, of which one is 0.
pub const ROOT_FACTORS: u32 = 2;

/// Matmuls of normed states.
const NORMED: [MatmulKind; 5] = [
    MatmulKind::Q,
    MatmulKind::K,
    MatmulKind::V,
    MatmulKind::Gate,
    MatmulKind::Up,
];

/// The state that a matmul reads, if it reads a normed state in these limbs.
fn state_of(sizes: &Sizes, id: MatrixId, limbs: Limbs) -> Option<usize> {
    let (kind, layer) = (id.kind(), id.layer());
    let state = match kind {
        MatmulKind::Q | MatmulKind::K | MatmulKind::V => sizes.config.attention_state(layer),
        MatmulKind::Gate | MatmulKind::Up => sizes.config.mlp_state(layer),
        _ => return None,
    };
    (sizes.limbs.of(kind) == limbs).then_some(state)
}

/// The numbers of the products among the accumulators: squares, normed values, quotients, roots.
const NUMBERS: [usize; 4] = [12, 15, 16, 17];

/// What weighs the products of norms among the batched accumulators.
#[derive(Clone, Copy, Debug)]
pub struct NormWeights<K = SecureField> {
    /// Of the squares of what is normed.
    pub square: K,
    /// Of the values times their reciprocal roots.
    pub normed: K,
    /// Of the quotients times the sums of squares.
    pub quotient: K,
    /// Of the squares of reciprocal roots.
    pub root: K,
}

impl<K: Scalar> NormWeights<K> {
    /// Those of these numbers among the accumulators.
    pub(super) fn new(points: &Points<K>, numbers: [usize; 4]) -> Self {
        let [square, normed, quotient, root] = numbers.map(|number| points.weight(number));
        Self {
            square,
            normed,
            quotient,
            root,
        }
    }
}

impl<K: Scalar> Points<K> {
    /// Weights of the products of the norms of states.
    pub fn norms(&self) -> NormWeights<K> {
        NormWeights::new(self, NUMBERS)
    }
}

/// Of squares of limbs `hi + limb lo`: what the sum of squares is made of, with these weights.
pub(super) fn square_columns<K: Scalar>(limb: K, weight: K) -> Vec<(usize, K)> {
    let [high, cross, low] = [weight, weight * limb, weight * limb * limb];
    let (radix, byte) = (base(1 << LIMB_BITS), base(1 << 8));
    let half = radix * radix;
    vec![
        (SUM, low),
        (SUM + 1, low * radix),
        (SUM + 2, high * byte),
        (SUM + 3, high * byte * radix),
        (CROSS_HI, cross * base(2 << SUM_BITS[0]) - high * byte),
        (CROSS_LO, cross * base(2) - low * base(1 << 9)),
        (HIGH_LO, high - low * base(1 << 16)),
        (CARRY, low * half - high * byte),
    ]
}

/// What an epsilon adds to the value of the claim on squares.
pub(super) fn epsilon_value<K: Scalar>(eps: u64, limb: K, weight: K) -> K {
    let [eps_hi, eps_lo] = epsilon(eps).map(base);
    weight * (limb * limb * eps_lo + base(1 << 8) * eps_hi)
}

/// Of quotients times sums of squares: the limbs of the product are those of the bound less what the division leaves.
pub(super) fn quotient_columns<K: Scalar>(limb: K, weight: K) -> Vec<(usize, K)> {
    let radix = base(1 << LIMB_BITS);
    let at = |k: usize| weight * power(limb, k);
    let left = (0..LIMBS).map(|k| (LEFT + k, -at(k)));
    let carries = (0..GAP - CARRIES).map(|k| (CARRIES + k, at(k) * radix - at(k + 1)));
    left.chain(carries).collect()
}

/// The limbs of the bound of a norm of rows of so many values, weighed.
pub(super) fn bound_value<K: Scalar>(width: usize, scale: u8, limb: K, weight: K) -> K {
    let limbs = bound_limbs(width, scale).into_iter().enumerate();
    limbs.fold(K::zero(), |sum, (k, own)| sum + weight * power(limb, k) * base(own))
}

/// Of squares of reciprocal roots: the quotients less the rest.
pub(super) fn root_columns<K: Scalar>(limb: K, weight: K) -> Vec<(usize, K)> {
    let radix = base(1 << LIMB_BITS);
    let at = |k: usize| weight * power(limb, k);
    vec![
        (QUOTIENT, at(0)),
        (QUOTIENT + 1, at(1)),
        (QUOTIENT + 2, at(2)),
        (QUOTIENT + 3, at(2) * radix),
        (REST, -at(0)),
        (REST + 1, -at(1)),
        (ROOT_CARRIES, at(0) * radix - at(1)),
        (ROOT_CARRIES + 1, at(1) * radix - at(2)),
    ]
}

/// What rows of norms multiply, as columns.
pub(super) struct RootFactors<K> {
    /// The first factors: reciprocal roots, quotients, roots.
    pub(super) first: Vec<(usize, K)>,
    /// The second ones: sums of squares and roots.
    pub(super) second: Vec<(usize, K)>,
    /// What weighs the values that reciprocal roots are multiplied with.
    pub(super) values: K,
}

impl<K: Scalar> RootFactors<K> {
    /// At a point of the last axis, with these weights of the products.
    pub(super) fn new(factor: &[K], limb: K, weights: NormWeights<K>) -> Self {
        let factors = eq_table(factor);
        let [scaled, quotient, root] = [0, 1, 2].map(|own| factors.get(own).copied().unwrap_or_default());
        let limbs = |at: usize, count: usize, weight: K, radix: K| -> Vec<(usize, K)> {
            (0..count).map(|k| (at + k, weight * power(radix, k))).collect()
        };
        let first = [
            limbs(ROOT, 2, scaled, felt(1 << LIMB_BITS)),
            limbs(QUOTIENT, LIMBS, quotient, limb),
            limbs(ROOT, 2, root, limb),
        ];
        let second = [
            limbs(SUM, LIMBS, quotient * weights.quotient, limb),
            limbs(ROOT, 2, root * weights.root, limb),
        ];
        Self {
            first: first.concat(),
            second: second.concat(),
            values: scaled * weights.normed,
        }
    }
}

impl<K: Scalar> Public<'_, K> {
    /// Weights of the rows of norms.
    fn norm_rows(&self) -> Tensor<K> {
        let states = self.points.state_weights(self.shape.states());
        vec![padded(states, self.lead(Part::NORMS)), self.rows()]
    }

    /// Squares of the stream's rows, of limbs `hi + limb lo`: the columns say what the sum of squares is made of.
    fn squares(&self, claims: &mut Claims<K>) {
        let (limb, weight) = (self.points.limb, self.points.norms().square);
        let states = self.points.state_weights(self.shape.states());
        let mut epsilons = K::zero();
        for (class, rows) in self.class_weights() {
            for (n, state) in states.iter().enumerate() {
                epsilons += *state * rows * epsilon_value(norm_of(self.params, n).eps.of(class), limb, weight);
            }
        }
        let columns = square_columns(limb, weight);
        let sides = &mut claims.accumulators;
        sides.value += epsilons;
        sides.groups.push(Group::new(Part::NORMS, self.norm_rows(), columns));
    }

    /// Sum of the weights of the rows of each class.
    fn class_weights(&self) -> [(RowClass, K); 2] {
        let rows = eq_table(&self.points.token);
        let most = self.shape.most_leading(&self.params.leading);
        let lead = K::sum_between(&rows, 0, most, self.leading_rows());
        [(RowClass::Lead, lead), (RowClass::Body, self.text() - lead)]
    }

    /// Quotients times sums of squares: the limbs of the product are those of the bound less what the division leaves.
    fn quotients(&self, claims: &mut Claims<K>) {
        let (limb, weight) = (self.points.limb, self.points.norms().quotient);
        let states = self.points.state_weights(self.shape.states());
        let hidden = self.shape.config.hidden;
        let bounds = states.iter().enumerate().fold(K::zero(), |sum, (n, state)| {
            sum + *state * bound_value(hidden, norm_of(self.params, n).scale, limb, weight)
        });
        let bounds = bounds * self.text();
        let columns = quotient_columns(limb, weight);
        let sides = &mut claims.accumulators;
        sides.value -= bounds;
        sides.groups.push(Group::new(Part::NORMS, self.norm_rows(), columns));
    }

    /// Squares of reciprocal roots: the quotients less the rest.
    fn roots(&self, claims: &mut Claims<K>) {
        let columns = root_columns(self.points.limb, self.points.norms().root);
        let group = Group::new(Part::NORMS, self.norm_rows(), columns);
        claims.accumulators.groups.push(group);
    }

    /// The normed states: values times the reciprocal root of their row.
    fn normed(&self, claims: &mut Claims<K>) {
        let (points, part) = (self.points, Part::STREAM);
        let at = points.out(self.shape.padded.hidden);
        let weights = eq_table(at).into();
        let states = points.state_weights(self.shape.states());
        let shifts = states.iter().enumerate();
        let shifts = shifts.map(|(n, weight)| (&norm_of(self.params, n).shift, (n, *weight)));
        let powered = alike(shifts).into_iter().map(|(shift, states)| {
            let features = self.feature_weights(&weights, Factor::Power, &|c| shift.at(c));
            vec![Weight::Sparse(self.lead(part), states), self.rows(), features]
        });
        let out = match self.shape.normed() {
            Limbs::One => vec![(stream::Y, K::one())],
            Limbs::Two => vec![(stream::Y, felt(256)), (stream::Y + 1, K::one())],
        };
        let rounding = Rounding {
            rounded: Rounded::NORM,
            out,
            powered: powered.collect(),
            narrow: Vec::new(),
            plain: vec![vec![padded(states, self.lead(part)), self.rows(), eq(at)]],
            factor: points.norms().normed,
        };
        self.accumulated(claims, &rounding, stream::NORM);
    }

    /// What the projections read.
    fn normed_operand(&self, limbs: Limbs, at: &[K]) -> LinearClaim<K> {
        let (lead, rest) = at.split_at(self.lead(Part::STREAM) as usize);
        let weights = vec![eq(lead), self.rows(), eq(rest)];
        claim("normed state", Part::STREAM, weights, self.normed_columns(limbs))
    }

    /// The stream times itself: the first factor is a table of products, entry by entry.
    fn square_operands(&self, at: &[K]) -> [LinearClaim<K>; 2] {
        let (points, part) = (self.points, Part::STREAM);
        let (state, rest) = at.split_at(self.lead(part) as usize);
        let (token, feature) = rest.split_at(self.shape.token as usize);
        let own_states = times(&points.state_weights(self.shape.states()), &eq_table(state));
        let (tokens, features) = (self.rows_times(&eq_table(token)), eq_table(feature));
        // Outputs that are normed have no exponents.
        let weighted = [false, true].into_iter().filter_map(|outputs| {
            let own = own_states.iter().enumerate();
            let own = own.map(|(n, w)| {
                if self.params.is_output(n) == outputs {
                    *w
                } else {
                    K::zero()
                }
            });
            let own: Vec<K> = own.collect();
            let tensor = vec![
                padded(own, self.lead(part)),
                tokens.clone(),
                padded(
                    times(&self.squared_exponents(outputs), &features),
                    self.shape.padded.hidden,
                ),
            ];
            (!outputs || self.params.norms_outputs()).then_some(tensor)
        });
        let weighted: Vec<Tensor<K>> = weighted.collect();
        let columns = |weight: K| vec![(stream::X_HI, weight), (stream::X_LO, weight * points.limb)];
        let plain = vec![eq(state), eq(token), eq(feature)];
        [
            LinearClaim::of(
                "weighted states",
                vec![Group::new_sum(part, weighted, columns(points.norms().square))],
            ),
            claim("states", part, plain, columns(K::one())),
        ]
    }

    /// What the rows of norms multiply: reciprocal roots and states, quotients and sums of squares, roots and roots. The first
    /// factor is a table of products, entry by entry.
    fn root_operands(&self, at: &[K]) -> [LinearClaim<K>; 2] {
        let (points, part) = (self.points, Part::NORMS);
        let (state, rest) = at.split_at(self.lead(part) as usize);
        let (token, factor) = rest.split_at(self.shape.token as usize);
        let states = eq_table(state);
        let weighted = vec![
            padded(
                times(&points.state_weights(self.shape.states()), &states),
                self.lead(part),
            ),
            self.rows_times(&eq_table(token)),
        ];
        let real = |part: Part| {
            padded(
                states.iter().copied().take(self.shape.states()).collect(),
                self.lead(part),
            )
        };
        let features = eq(points.out(self.shape.padded.hidden));
        let factors = RootFactors::new(factor, points.limb, points.norms());
        let weight = factors.values;
        let values = vec![(stream::X_HI, weight * felt::<K>(256)), (stream::X_LO, weight)];
        [
            claim("reciprocal roots", part, weighted, factors.first),
            LinearClaim::of(
                "states, sums of squares and roots",
                vec![
                    Group::new(part, vec![real(part), eq(token)], factors.second),
                    Group::new(Part::STREAM, vec![real(Part::STREAM), eq(token), features], values),
                ],
            ),
        ]
    }

    /// `4^k` of every real channel, `k` its exponent: that of a state, or that of an output that is normed before it is added, 0.
    pub fn squared_exponents(&self, output: bool) -> Vec<K> {
        let channels = 0..self.shape.config.hidden;
        let exponent = |c| match output {
            true => 0,
            false => 2 * i64::from(self.params.exponent(c)),
        };
        channels.map(|c| felt(1 << exponent(c).min(30))).collect()
    }
}

#[cfg(test)]
mod tests;
