//! What is rounded to 16 bits, and by which parameters of the model (docs/protocol.md, section 8.1).

use stwo::core::fields::m31::BaseField;

use crate::air::Air;
use crate::chunk::INPUT_SHIFT;
use crate::mle::eq_table;
use crate::model::{ChannelShift, Limbs, Maker, MatmulKind, ModelConfig, ModelParams, RowClass};
use crate::scalar::{Scalar, Source, Word};
use crate::semantics::ROPE_BITS;
use crate::shape::{Part, Shape};
use crate::statement::{class_of, norm_of};

/// A kind of values that were rounded to int16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rounded {
    /// The part that has it.
    pub part: Part,
    /// Among those of the part.
    pub tensor: u8,
}

impl Rounded {
    /// Residual states.
    pub const STATE: Self = Self::of(Part::Stream, 0);
    /// Normed states.
    pub const NORM: Self = Self::of(Part::Stream, 1);
    /// Values.
    pub const VALUE: Self = Self::of(Part::V, 0);
    /// Scores.
    pub const SCORE: Self = Self::of(Part::Scores, 0);
    /// Attention outputs.
    pub const ATTENTION: Self = Self::of(Part::Att, 0);
    /// Gates.
    pub const GATE: Self = Self::of(Part::Ff, 0);
    /// The other factor of the MLP.
    pub const UP: Self = Self::of(Part::Ff, 1);
    /// Their product.
    pub const PRODUCT: Self = Self::of(Part::Ff, 2);
    /// Logits.
    pub const LOGIT: Self = Self::of(Part::Logits, 0);

    const fn of(part: Part, tensor: u8) -> Self {
        Self { part, tensor }
    }

    /// A half of queries or keys before the rotation.
    pub const fn before(part: Part, half: usize) -> Self {
        Self::of(part, half as u8)
    }

    /// A half of queries or keys after it.
    pub const fn after(part: Part, half: usize) -> Self {
        Self::of(part, 2 + half as u8)
    }

    /// A half of queries or keys after their norm, where heads are normed.
    pub const fn normed(part: Part, half: usize) -> Self {
        Self::of(part, 4 + half as u8)
    }

    /// Whether a model has it: without gates, the MLP rounds its up projection alone.
    pub(crate) fn exists(self, config: &ModelConfig) -> bool {
        let kinds = Self::kinds(self.part, config.head_norms);
        self.tensor < kinds && (config.gated || self.part != Part::Ff || self == Self::UP)
    }

    /// Number of kinds in a part.
    const fn kinds(part: Part, head_norms: bool) -> u8 {
        match part {
            Part::Stream => 2,
            Part::Q | Part::K if head_norms => 6,
            Part::Q | Part::K => 4,
            Part::V | Part::Scores | Part::Att | Part::Logits => 1,
            Part::Ff => 3,
            Part::Norms | Part::Softmax | Part::QNorms | Part::KNorms => 0,
        }
    }
}

/// `2^shift` of every padded output channel.
pub fn pow_column(config: &ModelConfig, kind: MatmulKind, shift: &ChannelShift, log: u32) -> Vec<u32> {
    if let [one] = shift.0.as_slice() {
        return vec![1 << one; 1 << log];
    }
    let mut column = vec![2; 1 << log];
    for (out, s) in shift.0.iter().enumerate() {
        if let Some(at) = column.get_mut(config.pad_out(kind, out)) {
            *at = 1 << s;
        }
    }
    column
}

/// The shifts of a matmul's requantisation; those into the residual stream are those of the body.
pub fn shift_of(params: &ModelParams, kind: MatmulKind, layer: usize) -> Option<&ChannelShift> {
    let of = params.layers.get(layer);
    match kind {
        MatmulKind::Embed => Some(&params.embed.body),
        MatmulKind::Head => Some(&params.head),
        MatmulKind::Q => of.map(|l| &l.q),
        MatmulKind::K => of.map(|l| &l.k),
        MatmulKind::V => of.map(|l| &l.v),
        MatmulKind::O => of.map(|l| &l.o.body),
        MatmulKind::Gate => of.map(|l| &l.gate),
        MatmulKind::Up => of.map(|l| &l.up),
        MatmulKind::Down => of.map(|l| &l.down.body),
    }
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
        let encoder = before.filter(|n| !params.is_post_normed() && !params.gain(*n).is_empty());
        let (shift, skip, added, normed) = match params.maker(state) {
            Maker::Matmul(MatmulKind::Embed, _) => (&params.embed, None, None, None),
            Maker::Matmul(kind, l) => {
                let p = params.layers.get(l)?;
                let (shift, skip) = match kind {
                    MatmulKind::O => (&p.o, p.skip_attn),
                    _ => (&p.down, p.skip_mlp),
                };
                match params.is_post_normed() {
                    true => (shift, None, None, None),
                    false => match encoder {
                        None => (shift, Some(skip), Some(1), None),
                        Some(_) => (shift, Some(skip), None, Some(1)),
                    },
                }
            }
            Maker::Sum(kind, l) => {
                let p = params.layers.get(l)?;
                let skip = match kind {
                    MatmulKind::O => p.skip_attn,
                    _ => p.skip_mlp,
                };
                let sum = &p.post_norms.as_ref()?.of(kind).sum;
                (sum, Some(skip), Some(2), Some(1))
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

/// Both exponents of [`Update::exponents`] where a state has no such channel: padding.
pub const PADDED_EXPONENT: u8 = 1;

/// log2 of what a rounded value is multiplied with in its claim: `8 + s` in one limb, `s` in two. `place` has the indices of
/// the entry along the axes of its part, `leading` is the number of leading rows.
pub fn shift_at(shape: &Shape, params: &ModelParams, rounded: Rounded, place: &[usize], leading: usize) -> u32 {
    let (config, half) = (&shape.config, shape.padded.half);
    let [first, token, third, fourth] = [0, 1, 2, 3].map(|i| place.get(i).copied().unwrap_or(0));
    let class = class_of(token, leading);
    let layer = params.layers.get(first);
    // The shift of an element of a head, of which there are so many.
    let of_head = |kind: MatmulKind, heads: usize, half: usize, x: usize| {
        let real = third < heads && x < config.head_dim / 2;
        let channel = third * config.head_dim + half * (config.head_dim / 2) + x;
        // As in [`pow_column`]: one shift for all is that of padding, too.
        let own = |s: &ChannelShift| (real || s.0.len() == 1).then(|| s.at(channel));
        shift_of(params, kind, first).and_then(own)
    };
    let side = usize::from(rounded.tensor % 2);
    let of_norm = |kind| params.head_norm(kind, first).map(|norm| norm.shift);
    let (shift, limbs) = match (rounded.part, rounded.tensor) {
        (Part::Stream, 0) => {
            let update = Update::of(params, first, class).filter(|_| third < config.hidden);
            (update.map(|u| u.exponents(third)[0]), Limbs::Two)
        }
        (Part::Stream, _) => {
            let real = first < shape.states() && third < config.hidden;
            let shift = norm_of(params, first).shift.at(third);
            (Some(shift).filter(|_| real), Limbs::One)
        }
        (Part::Q, 0 | 1) => (of_head(MatmulKind::Q, config.heads, side, fourth), shape.limbs.q),
        (Part::K, 0 | 1) => (of_head(MatmulKind::K, config.kv_heads, side, fourth), shape.limbs.k),
        (Part::Q | Part::K, 2 | 3) => (Some(ROPE_BITS as u8 - 8), Limbs::One),
        (Part::Q, _) => (of_norm(MatmulKind::Q), Limbs::One),
        (Part::K, _) => (of_norm(MatmulKind::K), Limbs::One),
        (Part::V, _) => {
            let (side, x) = (fourth >> half, fourth & ((1 << half) - 1));
            (of_head(MatmulKind::V, config.kv_heads, side, x), shape.limbs.v)
        }
        (Part::Scores, _) => (layer.map(|l| l.score), Limbs::Two),
        (Part::Att, _) => (layer.map(|l| l.att), Limbs::Two),
        (Part::Ff, 0) => (layer.map(|l| l.gate.at(third)), shape.limbs.gate),
        (Part::Ff, 1) => (layer.map(|l| l.up.at(third)), shape.limbs.up),
        (Part::Ff, _) => (layer.map(|l| l.act.of(class)), Limbs::One),
        (Part::Logits, _) => (Some(params.head.at(token)), shape.limbs.head),
        (Part::Norms | Part::Softmax | Part::QNorms | Part::KNorms, _) => (None, Limbs::One),
    };
    let shift = u32::from(shift.unwrap_or(PADDED_EXPONENT));
    match limbs {
        Limbs::One => 8 + shift,
        Limbs::Two => shift,
    }
}

/// The public columns of a statement (docs/protocol.md, section 8.1): for everything that is rounded, the power of two that a
/// rounded value is multiplied with in its claim, which bounds the remainder.
#[derive(Clone, Copy, Debug)]
pub struct Powers<'a> {
    /// The row spaces.
    pub shape: &'a Shape,
    /// The parameters of the chunk alone.
    pub params: &'a ModelParams,
    /// Number of leading rows.
    pub leading: usize,
}

impl Powers<'_> {
    /// Whether a column of a part, which has those of all lanes, is public.
    pub fn is_power(&self, part: Part, column: usize) -> bool {
        let width = self.shape.lane_columns(part).max(1);
        let powers = self.shape.air(part).air.powers();
        powers.iter().any(|(own, _)| *own == column % width)
    }

    /// The multilinear extension of a public column of a part, which has those of all lanes, at a point of its rows.
    ///
    /// A power depends on the first index of its entry (layer or state), on the class of the token row and on the channel, or on
    /// fewer of them; in the logits, on the channel alone.
    pub fn eval<K: Scalar>(&self, part: Part, column: usize, point: &[K]) -> K {
        self.eval_with(part, column, &self.tables(part, point))
    }

    /// The tables of `eq` of the axes of a part, at a point of its rows.
    pub fn tables<K: Scalar>(&self, part: Part, point: &[K]) -> Vec<Vec<K>> {
        let mut rest = point;
        let axes = self.shape.axes(part);
        let table = |log: &u32| {
            let (own, tail) = rest.split_at((*log as usize).min(rest.len()));
            rest = tail;
            eq_table(own)
        };
        axes.iter().map(table).collect()
    }

    /// As [`Self::eval`], from the tables of the point.
    pub fn eval_with<K: Scalar>(&self, part: Part, column: usize, tables: &[Vec<K>]) -> K {
        let width = self.shape.lane_columns(part).max(1);
        let lane_powers = self.shape.air(part).air.powers();
        let Some((_, tensor)) = lane_powers.iter().find(|(own, _)| *own == column % width) else {
            return K::zero();
        };
        let rounded = Rounded { part, tensor: *tensor };
        let start = self.shape.lane_start(part, column / width);
        let first_of = |axis: usize| {
            start
                .iter()
                .find(|(own, _)| *own == axis)
                .map_or(0, |(_, first)| *first)
        };
        let table = |axis: usize| tables.get(axis).map_or([].as_slice(), Vec::as_slice);
        let power = |place: [usize; 4]| {
            let bits = shift_at(self.shape, self.params, rounded, &place, self.leading);
            BaseField::from_u32_unchecked(1 << bits.min(30))
        };
        let by_layer = || K::combine(table(0), |l| power([first_of(0) + l, 0, 0, 0]));
        match part {
            Part::Logits => K::combine(table(1), |v| power([0, first_of(1) + v, 0, 0])),
            Part::Scores | Part::Att => by_layer(),
            Part::Q | Part::K if *tensor >= 4 => by_layer(),
            _ => {
                let classes = self.classes(rounded, table(1));
                let mut sum = K::zero();
                for (l, layer) in table(0).iter().enumerate() {
                    for (token, rows) in &classes {
                        let at =
                            |third: usize, fourth: usize| power([first_of(0) + l, *token, first_of(2) + third, fourth]);
                        sum += *layer * *rows * self.channels(rounded, [table(2), table(3)], &at);
                    }
                }
                sum
            }
        }
    }

    /// A token row of each class that matters, with the weights of all rows of the class.
    fn classes<K: Scalar>(&self, rounded: Rounded, tokens: &[K]) -> Vec<(usize, K)> {
        // The weights of all tokens add up to one.
        if !matches!(rounded, Rounded::STATE | Rounded::PRODUCT) || self.leading == 0 {
            return vec![(self.leading, K::one())];
        }
        let lead = K::sum_below(tokens, Word::new(self.leading, Source::Leading));
        vec![(0, lead), (self.leading, K::one() - lead)]
    }

    /// The weighted powers of the channels of one layer or state in one class of rows.
    fn channels<K: Scalar>(
        &self,
        rounded: Rounded,
        [third, fourth]: [&[K]; 2],
        at: &impl Fn(usize, usize) -> BaseField,
    ) -> K {
        if rounded == Rounded::PRODUCT {
            return at(0, 0).into();
        }
        if fourth.is_empty() {
            return K::combine(third, |i| at(i, 0));
        }
        let heads = third.iter().enumerate();
        heads.fold(K::zero(), |sum, (i, w)| sum + *w * K::combine(fourth, |j| at(i, j)))
    }
}
