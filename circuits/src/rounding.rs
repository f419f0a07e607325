//! Which values a model rounds, to 16 bits or to 15, and the parameters that say by how much (docs/protocol.md, section 8.1).

use stwo::core::fields::m31::BaseField;

use crate::mle::eq_table;
use crate::model::{ChannelShift, Limbs, MatmulKind, MatrixId, ModelConfig, ModelParams};
use crate::scalar::{Scalar, Source, Word};
use crate::semantics::{INT15, INT16};
use crate::shape::{Along, Entry, Part, Shape};

/// A kind of values that were rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rounded {
    /// The part that has it.
    pub part: Part,
    /// Among those of the part.
    pub tensor: u8,
}

impl Rounded {
    /// A kind of values of a part, by its number among those of the part.
    pub const fn of(part: Part, tensor: u8) -> Self {
        Self { part, tensor }
    }

    /// The smallest and the largest value of this kind that is not clipped.
    pub const fn ends(self) -> [i64; 2] {
        ends(self.part.index())
    }
}

/// The smallest and the largest value that the roundings of a part, by its number, are clipped to.
pub const fn ends(part: usize) -> [i64; 2] {
    if part == Part::V.index() {
        INT15
    } else {
        INT16
    }
}

/// The shift of every padded output channel.
pub fn exponent_column(config: &ModelConfig, kind: MatmulKind, shift: &ChannelShift, log: u32) -> Vec<u8> {
    if let [one] = shift.0.as_slice() {
        return vec![*one; 1 << log];
    }
    let mut column = vec![PADDED_EXPONENT; 1 << log];
    for (out, s) in shift.0.iter().enumerate() {
        if let Some(at) = column.get_mut(config.pad_out(kind, out)) {
            *at = *s;
        }
    }
    column
}

/// `2^shift` of every padded output channel.
pub fn pow_column(config: &ModelConfig, kind: MatmulKind, shift: &ChannelShift, log: u32) -> Vec<u32> {
    let exponents = exponent_column(config, kind, shift, log);
    exponents.into_iter().map(|s| 1 << s.min(30)).collect()
}

/// The shifts of a matmul's requantisation; those into the residual stream are those of the body.
pub fn shift_of(params: &ModelParams, id: MatrixId) -> Option<&ChannelShift> {
    let (kind, layer) = (id.kind(), id.layer());
    let of = params.layers.get(layer);
    match kind {
        MatmulKind::Embed => Some(&params.embed.body),
        MatmulKind::Head => Some(&params.head),
        MatmulKind::Q => of.map(|l| &l.attention.q),
        MatmulKind::K => of.map(|l| &l.attention.k),
        MatmulKind::V => of.map(|l| &l.attention.v),
        MatmulKind::O => of.map(|l| &l.attention.o.body),
        MatmulKind::Gate => of.map(|l| &l.mlp.gate),
        MatmulKind::Up => of.map(|l| &l.mlp.up),
        MatmulKind::Down => of.map(|l| &l.mlp.down.body),
    }
}

/// The exponent of a shift where there is none: padding.
pub const PADDED_EXPONENT: u8 = 1;

/// log2 of what a rounded value is multiplied with in its claim: `8 + s` in one limb, `s` in two. `place` has the indices of
/// the entry along the axes of its part, `leading` is the number of leading rows.
pub fn shift_at(shape: &Shape, params: &ModelParams, rounded: Rounded, place: &[usize], leading: usize) -> u32 {
    let entry = Entry {
        sizes: shape.sizes(),
        params,
        place: [0, 1, 2, 3].map(|axis| place.get(axis).copied().unwrap_or(0)),
        leading,
    };
    let shifts = shape.shifts(rounded.part, rounded.tensor);
    let shift = shifts.and_then(|shifts| (shifts.of)(&entry));
    let shift = u32::from(shift.unwrap_or(PADDED_EXPONENT));
    match shifts.map_or(Limbs::One, |shifts| shifts.limbs) {
        Limbs::One => 8 + shift,
        Limbs::Two => shift,
    }
}

/// The shift of an element of a head that a matmul makes, of which there are so many: `None` of padding, but for the one shift of
/// all channels, which is that of padding, too. The third axis of the entry are the heads.
pub fn shift_of_head(entry: &Entry<'_>, kind: MatmulKind, heads: usize, half: usize, x: usize) -> Option<u8> {
    let (config, [layer, _, head, _]) = (&entry.sizes.config, entry.place);
    let real = head < heads && x < config.head_dim / 2;
    let channel = head * config.head_dim + half * (config.head_dim / 2) + x;
    let own = |s: &ChannelShift| (real || s.0.len() == 1).then(|| s.at(channel));
    shift_of(entry.params, kind.at(layer)).and_then(own)
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
        let air = self.shape.lane_air(part);
        air.powers.iter().any(|(own, _)| *own == column % air.columns.max(1))
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
        let air = self.shape.lane_air(part);
        let width = air.columns.max(1);
        let tensor = air.powers.iter().find(|(own, _)| *own == column % width);
        let Some(shifts) = tensor.and_then(|(_, tensor)| self.shape.shifts(part, *tensor)) else {
            return K::zero();
        };
        let rounded = Rounded::of(part, shifts.tensor);
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
        match shifts.along {
            Along::First => K::combine(table(0), |l| power([first_of(0) + l, 0, 0, 0])),
            Along::Second => K::combine(table(1), |v| power([0, first_of(1) + v, 0, 0])),
            Along::Tokens { classes, channels } => {
                let classes = self.classes(classes, table(1), first_of(1));
                let mut sum = K::zero();
                for (l, layer) in table(0).iter().enumerate() {
                    for (token, rows) in &classes {
                        let at =
                            |third: usize, fourth: usize| power([first_of(0) + l, *token, first_of(2) + third, fourth]);
                        let own = match channels {
                            true => channels_sum([table(2), table(3)], &at),
                            false => at(0, 0).into(),
                        };
                        sum += *layer * *rows * own;
                    }
                }
                sum
            }
        }
    }

    /// A token row of each class, if they matter, with the weights of all rows of the class in a lane that begins at `first`. Rows behind
    /// the text are of the body.
    fn classes<K: Scalar>(&self, matter: bool, tokens: &[K], first: usize) -> Vec<(usize, K)> {
        // The weights of all tokens of a lane add up to one.
        // By the rule alone: what a plan records is for all statements, with leading rows or without.
        let most = self.shape.most_leading(&self.params.leading);
        if !matter || most <= first {
            return vec![(self.leading, K::one())];
        }
        let lead = K::sum_between(tokens, first, most, Word::new(self.leading, Source::Leading));
        vec![(0, lead), (self.leading, K::one() - lead)]
    }
}

/// The weighted powers of the channels of one layer or state in one class of rows.
fn channels_sum<K: Scalar>([third, fourth]: [&[K]; 2], at: &impl Fn(usize, usize) -> BaseField) -> K {
    if fourth.is_empty() {
        return K::combine(third, |i| at(i, 0));
    }
    let heads = third.iter().enumerate();
    heads.fold(K::zero(), |sum, (i, w)| sum + *w * K::combine(fourth, |j| at(i, j)))
}
