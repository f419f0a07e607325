//! Embedding and residual stream (docs/protocol.md, section 16.1). One row per (state n, token, feature); state 0 is the
//! embedding, 2l+1 follows attention, 2l+2 the MLP of layer l. The rows have the normed state, too (section 16.2).

use std::collections::BTreeMap;

use crate::air::gadgets::{int16, Remainder};
use crate::air::{base, Air};
use crate::chunk::{Boundary, PublicBoundary, INPUT_SHIFT};
use crate::claims::{Factor, Group, Lazy, LinearClaim, Residual, Said, Values, Weight};
use crate::mle::{eq_table, index_eq};
use crate::model::{
    log_ceil, ChannelShift, LimbSet, Limbs, Maker, MatmulKind, MatrixId, ModelParams, RowClass, Writer,
};
use crate::rounding::{Rounded, PADDED_EXPONENT};
use crate::scalar::{Scalar, Source, Word};
use crate::semantics::requantise;
use crate::shape::{Along, Entry, Instance, Part, Product, Rows, Shape, Shifts};
use crate::sizes::{of_second_axis, Extent, Sizes};
use crate::statement::{class_of, norm_of, HIDDEN};
use crate::wiring::{alike, eq, felt, padded, scaled, suffix, Claims, Points, Public, Rounding};

use super::operator::Operator;

/// Residual update: `acc` and the previous residual, scaled by `2^(8 + skip)`, in one rounding.
pub fn requantise_residual(acc: i64, previous: i16, skip: u8, shift: u8) -> i16 {
    requantise(acc + (i64::from(previous) << (8 + u32::from(skip))), shift)
}

/// How the rows of a class are rounded into a state of the residual stream. Its shifts are those of the body, plus `lead`;
/// the exponent of the factor of the previous state is the shift plus `skip`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Update<'a> {
    /// The shift of every channel.
    pub channels: &'a ChannelShift,
    /// What leading rows have more.
    pub lead: i8,
    /// `None` for state 0: the factor of what enters the chunk is `2^INPUT_SHIFT`. `None`, too, where nothing is added.
    pub skip: Option<i8>,
    /// What the factors of channels have less: in encoders, where normed states are added, the exponents of the channels.
    pub units: &'a [u8],
    /// How many states before is the one that is added as it is.
    pub added: Option<usize>,
    /// How many before is the one whose normed values are added, times gains.
    pub normed: Option<usize>,
}

impl<'a> Update<'a> {
    /// Of a state, in the rows of a class; `None` if there is no such state.
    pub fn of(params: &'a ModelParams, state: usize, class: RowClass) -> Option<Self> {
        let before = state.checked_sub(1);
        let encoder = before.filter(|n| !params.norms_outputs() && !params.gain(*n).is_empty());
        let (shift, skip, added, normed) = match params.maker(state) {
            Maker::Matmul(MatrixId::EMBED) => (&params.embed, None, None, None),
            Maker::Matmul(id) => {
                let Writer { shift, skip, .. } = params.layers.get(id.layer())?.writer(id.kind());
                match params.norms_outputs() {
                    true => (shift, None, None, None),
                    false => match encoder {
                        None => (shift, Some(skip), Some(1), None),
                        Some(_) => (shift, Some(skip), None, Some(1)),
                    },
                }
            }
            Maker::Sum(id) => {
                let Writer { skip, post_norm, .. } = params.layers.get(id.layer())?.writer(id.kind());
                (&post_norm?.sum, Some(skip), Some(2), Some(1))
            }
        };
        Some(Self {
            added,
            normed,
            channels: &shift.body,
            lead: match class {
                RowClass::Body => 0,
                RowClass::Lead => shift.lead,
            },
            skip: skip.map(|skip| skip.of(class)),
            units: match encoder {
                None => &[],
                Some(_) => &params.exponents,
            },
        })
    }

    /// Exponents of channel `c`: of the divisor (minus 8), and of the factor of the previous state (minus 8). In range if the
    /// parameters are checked.
    pub fn exponents(&self, c: usize) -> [u8; 2] {
        let shift = i32::from(self.channels.at(c)) + i32::from(self.lead);
        let unit = self.units.get(c).copied().map_or(0, i32::from);
        let skip = self
            .skip
            .map_or(i32::from(INPUT_SHIFT), |skip| shift + i32::from(skip) - unit);
        [shift, skip].map(|e| e.clamp(0, 30) as u8)
    }

    /// Exponent of the factor of channel `c` of the normed state that is added: gains of outputs that are normed have all of it.
    pub fn normed_exponent(&self, c: usize) -> u8 {
        match self.added {
            Some(_) => 0,
            None => self.exponents(c)[1],
        }
    }
}

/// The residual stream.
pub struct Stream;

/// The numbers among the accumulators of the sums of a state and a normed output, after attention and after the MLP.
const SUMS: [usize; 2] = [26, 27];

impl Part {
    /// (state, token, feature)
    pub const STREAM: Self = Self::new(0, "Stream");
}

impl Product {
    /// Public one-hot matrix times embedding, its rows of positions included; variables (row of the embedding).
    pub const EMBED: Self = Self::new(3, "Embed");
}

impl Rounded {
    /// Residual states.
    pub const STATE: Self = Self::of(Part::STREAM, 0);
    /// Normed states.
    pub const NORM: Self = Self::of(Part::STREAM, 1);
}

/// The state, in limbs.
pub const X_HI: usize = 0;
/// Low byte of the state.
pub const X_LO: usize = 1;
/// Of the state.
pub const UPDATE: Remainder = Remainder {
    at: 2,
    limbs: Limbs::Two,
    narrow: Remainder::NARROW,
};
/// Of the normed state.
pub const NORM: Remainder = Remainder {
    at: 7,
    limbs: Limbs::One,
    narrow: None,
};
/// The normed state, or its high limb before its low one.
pub const Y: usize = 9;

/// The columns of a row, the normed state in limbs or not.
fn columns(normed: Limbs) -> Air {
    let mut lookups = vec![int16(X_HI, Limbs::Two)];
    lookups.extend(UPDATE.lookups());
    lookups.extend(NORM.lookups());
    lookups.push(int16(Y, normed));
    Air {
        columns: Y + normed.columns(),
        powers: vec![
            (UPDATE.pow(), Rounded::STATE.tensor),
            (NORM.pow(), Rounded::NORM.tensor),
        ],
        lookups,
    }
}

/// The shift of a channel of a state.
fn state_shift(entry: &Entry<'_>) -> Option<u8> {
    let [state, token, channel, _] = entry.place;
    let update = Update::of(entry.params, state, class_of(token, entry.leading));
    let update = update.filter(|_| channel < entry.sizes.config.hidden);
    update.map(|update| update.exponents(channel)[0])
}

/// The shift of a channel of a normed state.
fn norm_shift(entry: &Entry<'_>) -> Option<u8> {
    let [state, _, channel, _] = entry.place;
    let shift = norm_of(entry.params, state).shift.at(channel);
    let real = state < entry.sizes.states() && channel < entry.sizes.config.hidden;
    real.then_some(shift)
}

impl<K: Scalar> Operator<K> for Stream {
    fn parts(&self, sizes: &Sizes) -> Vec<Rows> {
        let states = sizes.states();
        let shifts = |rounded: Rounded, limbs, classes, of| Shifts {
            tensor: rounded.tensor,
            limbs,
            along: Along::Tokens {
                classes,
                channels: true,
            },
            of,
        };
        vec![Rows {
            part: Part::STREAM,
            axes: vec![log_ceil(states, 0), sizes.token, sizes.padded.hidden],
            extents: vec![
                Extent::of(0, states),
                sizes.tokens(1),
                Extent::of(2, sizes.config.hidden),
            ],
            of_text: of_second_axis,
            air: columns(sizes.normed()),
            shifts: vec![
                shifts(Rounded::STATE, Limbs::Two, true, state_shift),
                shifts(Rounded::NORM, Limbs::One, false, norm_shift),
            ],
        }]
    }

    fn products(&self, shape: &Shape) -> Vec<Instance> {
        vec![Instance {
            product: Product::EMBED,
            variables: shape.chunk.is_first().then_some(shape.padded.embed),
            weights: Some(|_, id| (id == MatrixId::EMBED).then_some(0)),
        }]
    }

    fn numbers(&self, sizes: &Sizes) -> Vec<usize> {
        let mut numbers = [MatmulKind::Embed, MatmulKind::O, MatmulKind::Down]
            .map(|kind| kind as usize)
            .to_vec();
        if sizes.config.norms_outputs() {
            numbers.extend(SUMS);
        }
        numbers
    }

    fn rounded(&self, public: &Public<'_, K>, claims: &mut Claims<K>) {
        public.updates(claims);
    }

    fn across(&self, public: &Public<'_, K>) -> Vec<LinearClaim<K>> {
        [public.first_state(), public.last_state()]
            .into_iter()
            .flatten()
            .collect()
    }
}

impl Sizes {
    /// How the normed state enters its matmuls: in limbs if one of them wants them.
    pub fn normed(&self) -> Limbs {
        let LimbSet {
            q,
            k,
            v,
            gate,
            up,
            head,
        } = self.limbs;
        [q, k, v, gate, up, head].into_iter().max().unwrap_or(Limbs::Two)
    }
}

impl<K: Scalar> Points<K> {
    /// Weight of what makes a state among the batched accumulators.
    pub fn maker_weight(&self, maker: Maker) -> K {
        match maker {
            Maker::Matmul(id) => self.matmul_weight(id),
            Maker::Sum(id) => {
                let [attention, mlp] = SUMS;
                let number = if id.kind() == MatmulKind::O { attention } else { mlp };
                self.weight(number) * index_eq(id.layer(), &self.layer)
            }
        }
    }
}

impl<K: Scalar> Public<'_, K> {
    /// What updates the residual stream: embedding, O and Down, with the state before, or sums of a state and a normed output.
    fn updates(&self, claims: &mut Claims<K>) {
        let (points, part) = (self.points, Part::STREAM);
        let at = points.out(self.shape.padded.hidden);
        let weights = eq_table(at).into();
        // What says that state 0 is the input says it of a committed one without a rounding.
        let weight = |n: usize| match (n, self.ends.input) {
            (0, Some(PublicBoundary::Committed(_))) => K::zero(),
            _ => points.maker_weight(self.params.maker(n)),
        };
        let on = |states: Vec<(usize, K)>| Weight::Sparse(self.lead(part), states);
        let hidden = self.shape.config.hidden;
        let (mut plain, mut powered, mut residual) = (Vec::new(), Vec::new(), Vec::new());
        let (mut narrow, mut normed) = (Vec::new(), Vec::new());
        let all: Vec<K> = (0..self.shape.states()).map(weight).collect();
        plain.push(vec![padded(all, self.lead(part)), self.rows(), eq(at)]);
        // What enters the chunk, if something does, is multiplied by 2^1 in all rows and channels.
        if let Some(PublicBoundary::Clear(input)) = self.ends.input {
            claims.accumulators.value += weight(0) * felt::<K>(2) * self.boundary_eval(input);
        }
        for (class, rows) in self.classes() {
            let states = 0..self.shape.states();
            let updates = states.filter_map(|n| Some((Update::of(self.params, n, class)?, (n, weight(n)))));
            for (update, states) in alike(updates) {
                let powers = |pick: fn([u8; 2]) -> u8, factor| {
                    self.feature_weights(&weights, factor, &|c| pick(update.exponents(c)))
                };
                let divisors = |factor| vec![on(states.clone()), rows.clone(), powers(|[divisor, _]| divisor, factor)];
                powered.push(divisors(Factor::Power));
                let least = UPDATE.narrow.unwrap_or(u8::MAX);
                if (0..hidden).any(|c| update.exponents(c)[0] >= least) {
                    narrow.push(divisors(Factor::From(least)));
                }
                let before = |back: Option<usize>| {
                    let states = states
                        .iter()
                        .filter_map(move |(n, weight)| Some((n.checked_sub(back?)?, -*weight)));
                    states.collect::<Vec<_>>()
                };
                for (n, weight) in before(update.normed) {
                    let gains = self.params.gain(n);
                    if gains.is_empty() {
                        continue;
                    }
                    let factors = self.normed_residual(gains, &weights, &|c| update.normed_exponent(c));
                    normed.push(vec![on(vec![(n, weight)]), rows.clone(), factors]);
                }
                let added = before(update.added);
                if !added.is_empty() {
                    residual.push(vec![
                        on(added),
                        rows.clone(),
                        powers(|[_, factor]| factor, Factor::Power),
                    ]);
                }
            }
        }
        let out = vec![(X_HI, felt(256)), (X_LO, K::one())];
        let columns = [(residual, out.clone()), (normed, self.normed_columns(Limbs::One))];
        let groups = columns.into_iter().filter(|(tensors, _)| !tensors.is_empty());
        let groups = groups.map(|(tensors, columns)| Group::new_sum(part, tensors, columns));
        claims.accumulators.groups.extend(groups);
        let rounding = Rounding {
            rounded: Rounded::STATE,
            out,
            plain,
            powered,
            narrow,
            factor: K::one(),
        };
        self.accumulated(claims, &rounding, UPDATE);
    }

    /// Weights of the channels of a normed state in what it adds to the accumulators, whose channels weigh these and have factors of
    /// these exponents: limbs of [`Gains::residual`], the low one times its challenge.
    fn normed_residual(&self, gains: &[i32], weights: &Values<K>, skip: &dyn Fn(usize) -> u8) -> Weight<K> {
        let mut skips: Vec<u8> = (0..gains.len()).map(skip).collect();
        // The sums of the weights of all channels of an exponent. A mean is taken off only where sums are normed.
        let mut sums: BTreeMap<u8, K> = BTreeMap::new();
        if self.shape.config.sums_first() {
            for (skip, weight) in skips.iter().zip(weights.iter()) {
                *sums.entry(*skip).or_default() += *weight;
            }
        }
        let mut own = gains.to_vec();
        own.resize(weights.len(), 0);
        skips.resize(weights.len(), 0);
        Weight::made(Lazy::Residual(Residual {
            weights: weights.clone(),
            gains: own.into(),
            skips: skips.into(),
            sums: sums.into_iter().collect(),
            channels: gains.len(),
            limb: self.points.limb,
        }))
    }

    /// Weights of the features, each times the factor of its channel's exponent; padding has [`PADDED_EXPONENT`].
    pub(crate) fn feature_weights(
        &self,
        weights: &Values<K>,
        factor: Factor,
        exponent: &dyn Fn(usize) -> u8,
    ) -> Weight<K> {
        let hidden = self.shape.config.hidden;
        let exponent = |c: usize| if c < hidden { exponent(c) } else { PADDED_EXPONENT };
        scaled(weights, (0..weights.len()).map(exponent).collect(), factor)
    }

    /// MLE of a boundary at the point of tokens and features.
    fn boundary_eval(&self, boundary: &Boundary) -> K {
        let features = eq_table(self.points.out(self.shape.padded.hidden));
        let rows = boundary.0.chunks(self.shape.config.hidden.max(1));
        let row = |row: &[i16]| {
            let values = row.iter().zip(&features);
            values.fold(K::zero(), |sum, (v, w)| sum + *w * base(i64::from(*v)))
        };
        let tokens = eq_table(&self.points.token);
        rows.zip(tokens)
            .fold(K::zero(), |sum, (values, w)| sum + w * row(values))
    }

    /// Section 16.1: what leaves the chunk, or the vector of an encoder.
    fn last_state(&self) -> Option<LinearClaim<K>> {
        let last = self.shape.states().saturating_sub(1);
        if self.shape.chunk.is_last() {
            return self.vector(self.one_state(last));
        }
        let claim = self.is_state("what leaves the chunk", last);
        Some(match self.ends.output {
            Some(PublicBoundary::Clear(output)) => claim.of_value(self.boundary_eval(output)),
            Some(PublicBoundary::Committed(_)) => claim.and(Said::Boundary(1)),
            // A verifier has refused that.
            None => claim,
        })
    }

    /// Section 16.1: what enters the chunk, if it is committed to.
    fn first_state(&self) -> Option<LinearClaim<K>> {
        let committed = matches!(self.ends.input, Some(PublicBoundary::Committed(_)));
        let claim = || self.is_state("what enters the chunk", 0).and(Said::Boundary(0));
        committed.then(claim)
    }

    /// A state on the axis of states.
    fn one_state(&self, state: usize) -> Weight<K> {
        let mut states = vec![K::zero(); self.shape.states()];
        states.get_mut(state).into_iter().for_each(|w| *w = K::one());
        padded(states, self.lead(Part::STREAM))
    }

    /// The claim about a state at the point of tokens and features, still without its value.
    fn is_state(&self, name: &'static str, state: usize) -> LinearClaim<K> {
        let at = self.points.out(self.shape.padded.hidden);
        let weights = vec![self.one_state(state), self.rows(), eq(at)];
        let columns = vec![(X_HI, felt(256)), (X_LO, K::one())];
        LinearClaim::of(name, vec![Group::new(Part::STREAM, weights, columns)])
    }

    /// Section 16.10: the vector of an encoder is the sum of rows of the last normed state.
    fn vector(&self, last: Weight<K>) -> Option<LinearClaim<K>> {
        let vector = self.statement.vector().filter(|_| !self.shape.config.generates())?;
        let rows = self.shape.config.pooled_rows(self.statement.rows());
        let rows = (0..1 << self.shape.token).map(|i| if i < rows { K::one() } else { K::zero() });
        let at = self.points.out(self.shape.padded.hidden);
        let weights = vec![last, Weight::dense(rows.collect()), eq(at)];
        let values = vector.iter().zip(eq_table(at));
        let groups = vec![Group::new(Part::STREAM, weights, self.normed_columns(Limbs::One))];
        let value = values.fold(K::zero(), |sum, (v, w)| sum + w * base(i64::from(*v)));
        Some(LinearClaim::of("vector", groups).of_value(value))
    }

    /// The normed state as an operand: as it is, or its limbs apart.
    pub fn normed_columns(&self, limbs: Limbs) -> Vec<(usize, K)> {
        let (high, low) = match limbs {
            Limbs::One => (felt(256), K::one()),
            Limbs::Two => (K::one(), self.points.limb),
        };
        match self.shape.normed() {
            Limbs::One => vec![(Y, K::one())],
            Limbs::Two => vec![(Y, high), (Y + 1, low)],
        }
    }

    /// The public part of the operand of the embedding: the one-hot matrix of the row tokens that are not hidden, and of the positions of all
    /// rows, times `2^embed_exponent`, at (token point, `point`).
    pub fn embed_operand(&self, point: &[K]) -> K {
        if !self.shape.chunk.is_first() {
            return K::zero();
        }
        let tokens = eq_table(&self.points.token);
        let vocab = suffix(point, Product::EMBED.variables(self.shape));
        let ids = self.statement.row_ids();
        let types = self.shape.config.types_of(&ids);
        let rows = ids.into_iter().zip(types);
        let tokens = self.shape.end().cut(tokens);
        let sum = tokens
            .iter()
            .zip(rows)
            .enumerate()
            .fold(K::zero(), |sum, (i, (t, (id, token_type)))| {
                let token = match id {
                    HIDDEN => K::zero(),
                    id => K::word_eq(Word::new(id as usize, Source::RowId(i)), vocab),
                };
                let position = self.shape.config.position_row(i, token_type);
                let position = position.map_or(K::zero(), |row| index_eq(row, vocab));
                sum + *t * (token + position)
            });
        sum * felt::<K>(1 << self.params.embed_exponent)
    }
}
