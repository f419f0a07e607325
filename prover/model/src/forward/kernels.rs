//! Integer kernels of the forward pass but the matmuls: requantisation with saturation counts, one row of
//! attention.

use std::iter::{repeat, Map, Sum, Zip};
use std::ops::{AddAssign, Range};
use std::slice::Iter;

use rayon::prelude::*;
use tessera_circuits::gains::Gains;
use tessera_circuits::model::{ChannelShift, MatmulKind, ModelConfig, ModelParams, NormParams, RowClass};
use tessera_circuits::semantics::{
    cap_table, exp_table, limbs, norm_element, norm_rsqrt, norm_sums, probability, reciprocal, requantise_residual,
    requantise_within, round_shift, turn_pair, turned, Turn, INT15, INT16, ROPE_BITS,
};

use super::NormedHeads;
use crate::awake::each_of_many;

/// Activations split in limbs, `256 hi + lo`, each limb widened to int16.
#[derive(Clone, Debug, Default)]
pub(super) struct Limbs {
    pub hi: Vec<i16>,
    pub lo: Vec<i16>,
}

impl Limbs {
    pub fn extend(&mut self, a: &[i16]) {
        self.hi.extend(a.iter().map(|&v| limbs(v).0 as i16));
        self.lo.extend(a.iter().map(|&v| limbs(v).1 as i16));
    }
}

/// Limb accumulators of a matmul, `[rows][outputs]`: each is `256 hi + lo`.
#[derive(Clone, Debug, Default)]
pub struct Acc {
    /// Sums over the high limbs of the activations.
    pub hi: Vec<i32>,
    /// Sums over the low limbs of the activations.
    pub lo: Vec<i32>,
}

/// Accumulators `256 hi + lo`.
type Totals<'a> = Map<Zip<Iter<'a, i32>, Iter<'a, i32>>, fn((&'a i32, &'a i32)) -> i64>;

/// The accumulators `256 hi + lo`.
fn totals<'a>(hi: &'a [i32], lo: &'a [i32]) -> Totals<'a> {
    hi.iter().zip(lo).map(|(&hi, &lo)| (i64::from(hi) << 8) + i64::from(lo))
}

/// Columns of a row that a thread takes at a time: a row of logits is shared between threads.
pub(super) const PIECE: usize = 1 << 12;

/// Values that are not worth sharing between threads.
const FEW: usize = 1 << 13;

/// How many items of so many values a thread takes at least.
pub(super) fn least(values: usize) -> usize {
    FEW.div_ceil(values.max(1))
}

/// Dot product. This form compiles to multiply-add instructions on pairs of int16.
fn dot(a: &[i16], b: &[i16]) -> i32 {
    a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum()
}

/// Values that were saturated, at either end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Clipped {
    pub low: u64,
    pub high: u64,
}

impl Clipped {
    /// Counts a value of 16 bits if it is not the one that it was saturated from.
    pub fn count(&mut self, saturated: i16, exact: impl Fn() -> i64) {
        if saturated == i16::MAX || saturated == i16::MIN {
            self.compare(saturated, exact());
        }
    }

    /// Counts a value if it is not the one that it was saturated from, at whichever ends.
    pub fn compare(&mut self, saturated: i16, exact: i64) {
        if i64::from(saturated) != exact {
            *(if saturated < 0 { &mut self.low } else { &mut self.high }) += 1;
        }
    }
}

impl AddAssign for Clipped {
    fn add_assign(&mut self, other: Self) {
        self.low += other.low;
        self.high += other.high;
    }
}

impl Sum for Clipped {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |mut sum, part| {
            sum += part;
            sum
        })
    }
}

/// Requantises `(accumulator, shift)` pairs to 16 bits; returns what saturated.
pub(super) fn requantise_all(pairs: impl Iterator<Item = (i64, u8)>, out: &mut [i16]) -> Clipped {
    requantise_to(INT16, pairs, out)
}

/// Requantises `(accumulator, shift)` pairs, saturating at these ends; returns what saturated.
fn requantise_to(ends: [i64; 2], pairs: impl Iterator<Item = (i64, u8)>, out: &mut [i16]) -> Clipped {
    let mut clipped = Clipped::default();
    for (out, (acc, shift)) in out.iter_mut().zip(pairs) {
        *out = requantise_within(ends, acc, shift);
        clipped.compare(*out, round_shift(acc, 8 + u32::from(shift)));
    }
    clipped
}

/// Requantises the accumulators of a matrix, `[rows][outputs]`, with the shifts of its output channels; counts what saturates. Values of
/// attention have 15 bits.
pub(super) fn requantise_acc(acc: &Acc, kind: MatmulKind, shift: &ChannelShift, outputs: usize) -> (Vec<i16>, Clipped) {
    let ends = if kind == MatmulKind::V { INT15 } else { INT16 };
    let shifts: Vec<u8> = (0..outputs).map(|o| shift.at(o)).collect();
    by_rows(acc, outputs, |_, columns, totals, out| {
        requantise_to(ends, totals.zip(shifts[columns].iter().copied()), out)
    })
}

/// Requantises attention outputs, `[rows][width]`, whose accumulators are no limbs; counts what saturates.
pub(super) fn requantise_outputs(acc: &[i32], width: usize, shift: u8) -> (Vec<i16>, Clipped) {
    in_rows([acc.len() / width, width], |i, out| {
        let own = acc[i * width..][..width].iter();
        requantise_all(own.map(|acc| (i64::from(*acc), shift)), out)
    })
}

/// Rounds accumulators `[rows][outputs]`, with the previous state if there is one, into the residual stream. The exponents
/// of the channels, as [`Update::exponents`] has them, stand in the first list for the first `leading` rows, and in the second one for the
/// others. Counts what saturates.
pub(super) fn requantise_stream(
    acc: &Acc,
    previous: Option<&[i16]>,
    exponents: [&[[u8; 2]]; 2],
    leading: usize,
) -> (Vec<i16>, Clipped) {
    let outputs = exponents[0].len();
    by_rows(acc, outputs, |i, columns, totals, out| {
        let mut clipped = Clipped::default();
        let exponents = &exponents[usize::from(i >= leading)][columns.clone()];
        let previous = previous.map_or([].as_slice(), |p| &p[i * outputs..][columns]);
        let previous = previous.iter().copied().chain(repeat(0));
        for (((acc, p), &[shift, skip]), out) in totals.zip(previous).zip(exponents).zip(out) {
            *out = requantise_residual(acc, p, skip, shift);
            let unclamped = || round_shift(acc + (i64::from(p) << (8 + u32::from(skip))), 8 + u32::from(shift));
            clipped.count(*out, unclamped);
        }
        clipped
    })
}

/// Adds normed rows times their gains to accumulators, before they are rounded with these exponents.
pub(super) fn add_normed(acc: &Acc, y: &[i16], gains: &Gains, exponents: [&[u8]; 2], leading: usize) -> Acc {
    let width = gains.own.len();
    let mut sum = acc.clone();
    let rows = sum.hi.par_chunks_mut(width).zip(sum.lo.par_chunks_mut(width));
    rows.zip(y.par_chunks(width))
        .enumerate()
        .for_each(|(i, ((hi, lo), y))| {
            let skips = exponents[usize::from(i >= leading)].iter().copied();
            for ((hi, lo), [high, low]) in hi.iter_mut().zip(lo).zip(gains.residual(y, skips)) {
                *hi += high as i32;
                *lo += low as i32;
            }
        });
    sum
}

/// Fills rows from accumulators in parallel, as [`in_pieces`]; `fill` gets the totals of a piece, too.
fn by_rows(
    acc: &Acc,
    width: usize,
    fill: impl Fn(usize, Range<usize>, Totals<'_>, &mut [i16]) -> Clipped + Sync,
) -> (Vec<i16>, Clipped) {
    in_pieces([acc.hi.len() / width, width], PIECE, |i, columns, out| {
        let own = i * width + columns.start..i * width + columns.end;
        fill(i, columns, totals(&acc.hi[own.clone()], &acc.lo[own]), out)
    })
}

/// Fills rows of `width` values in parallel; adds their counts.
pub(super) fn in_rows(
    [rows, width]: [usize; 2],
    fill: impl Fn(usize, &mut [i16]) -> Clipped + Sync,
) -> (Vec<i16>, Clipped) {
    in_pieces([rows, width], width, |i, _, out| fill(i, out))
}

/// Fills rows of `width` values in parallel, `piece` columns at a time; adds their counts.
fn in_pieces(
    [rows, width]: [usize; 2],
    piece: usize,
    fill: impl Fn(usize, Range<usize>, &mut [i16]) -> Clipped + Sync,
) -> (Vec<i16>, Clipped) {
    let mut out = vec![0; rows * width];
    let of_row = |(i, row)| split(row, piece).map(move |(start, out)| (i, start, out));
    let pieces: Vec<_> = out.chunks_exact_mut(width).enumerate().flat_map(of_row).collect();
    let mut clipped = vec![Clipped::default(); pieces.len()];
    let pieces = pieces.into_iter().zip(&mut clipped).collect();
    each_of_many(pieces, least(piece.min(width)), |((i, start, out), clipped)| {
        *clipped = fill(i, start..start + out.len(), out);
    });
    (out, clipped.into_iter().sum())
}

/// Pieces of a row, with their first columns.
pub(super) fn split<T>(row: &mut [T], piece: usize) -> impl Iterator<Item = (usize, &mut [T])> {
    row.chunks_mut(piece).enumerate().map(move |(i, out)| (i * piece, out))
}

/// Norms the head vectors of one row (`[heads][head_dim]`): limb sums of squares and reciprocal roots of every head, and the normed
/// values.
pub(super) fn norm_heads(row: &[i16], head_dim: usize, norm: &NormParams) -> (NormedHeads, Clipped) {
    let mut out = NormedHeads::default();
    let (mut clipped, shift) = (Clipped::default(), norm.shift.at(0));
    for head in row.chunks_exact(head_dim) {
        let sums = norm_sums(head, &[]);
        let root = norm_rsqrt(sums, head_dim, norm, RowClass::Body);
        out.sums.push(sums);
        out.rsqrt.push(root);
        out.y.extend(head.iter().map(|&v| {
            let normed = norm_element(v, root, shift);
            clipped.count(normed, || {
                round_shift(i64::from(v) * i64::from(root), 8 + u32::from(shift))
            });
            normed
        }));
    }
    (out, clipped)
}

/// Rotates the head vectors of one row (`[heads][head_dim]`) by what turns the pairs of its position.
pub(super) fn rotate(row: &[i16], head_dim: usize, turns: &[Turn], out: &mut [i16]) -> Clipped {
    let half = head_dim / 2;
    let mut clipped = Clipped::default();
    for (from, to) in row.chunks_exact(head_dim).zip(out.chunks_exact_mut(head_dim)) {
        for (x, &turn) in turns.iter().enumerate() {
            let (a, b) = (from[x], from[x + half]);
            let (first, second) = turn_pair(a, b, turn);
            clipped.count(first, || round_shift(turned(a, b, turn)[0], ROPE_BITS));
            clipped.count(second, || round_shift(turned(a, b, turn)[1], ROPE_BITS));
            (to[x], to[x + half]) = (first, second);
        }
    }
    clipped
}

/// Rotated keys and values of one key/value head, `[positions][head_dim]`.
#[derive(Clone, Debug, Default)]
pub(super) struct HeadCache {
    pub keys: Limbs,
    pub values: Vec<i16>,
}

impl HeadCache {
    /// The first values of keys and values.
    pub fn first(&self, n: usize) -> Self {
        Self {
            keys: Limbs {
                hi: self.keys.hi[..n].to_vec(),
                lo: self.keys.lo[..n].to_vec(),
            },
            values: self.values[..n].to_vec(),
        }
    }
}

/// What query rows see of keys, one entry for each pair.
#[derive(Clone, Debug)]
pub(super) struct Pairs {
    pub acc: Acc,
    pub score: Vec<i16>,
    pub exp: Vec<u32>,
    pub prob: Vec<i16>,
}

/// The pairs of one query row of one head with the keys that were asked for.
pub(super) struct Seen<'a> {
    /// The first of these keys.
    first: usize,
    acc_hi: &'a mut [i32],
    acc_lo: &'a mut [i32],
    score: &'a mut [i16],
    /// Of the visible keys; the others keep what they have.
    exp: &'a mut [u32],
    prob: &'a mut [i16],
}

impl Pairs {
    /// Zeros.
    pub fn new(len: usize) -> Self {
        let acc = Acc {
            hi: vec![0; len],
            lo: vec![0; len],
        };
        Self {
            acc,
            score: vec![0; len],
            exp: vec![0; len],
            prob: vec![0; len],
        }
    }

    /// Rows with so many keys each.
    pub fn rows(&mut self, keys: usize) -> impl IndexedParallelIterator<Item = Seen<'_>> {
        let acc = (self.acc.hi.par_chunks_mut(keys), self.acc.lo.par_chunks_mut(keys));
        let shares = (self.exp.par_chunks_mut(keys), self.prob.par_chunks_mut(keys));
        let rows = (acc, self.score.par_chunks_mut(keys), shares).into_par_iter();
        rows.map(|((acc_hi, acc_lo), score, (exp, prob))| Seen {
            first: 0,
            acc_hi,
            acc_lo,
            score,
            exp,
            prob,
        })
    }

    /// All of them as one row, whose keys begin with `first`.
    pub fn row(&mut self, first: usize) -> Seen<'_> {
        Seen {
            first,
            acc_hi: &mut self.acc.hi,
            acc_lo: &mut self.acc.lo,
            score: &mut self.score,
            exp: &mut self.exp,
            prob: &mut self.prob,
        }
    }
}

/// One query row of one head.
#[derive(Clone, Debug, Default)]
pub(super) struct AttentionRow {
    pub max: i16,
    pub arg: u32,
    pub sum: u32,
    pub recip: u32,
    /// `[head_dim]`: sums of probabilities times values, which no row makes larger than
    /// [`tessera_circuits::bounds::MAX_OUTPUT`].
    pub att_acc: Vec<i32>,
    /// Saturated scores, masked ones not counted.
    pub clipped: Clipped,
}

/// The tables of softmax.
pub(super) struct ScoreTables {
    exp: Vec<u32>,
    /// The table of capped scores, which softmax compares in place of scores where a model caps them.
    cap: Option<Vec<i16>>,
}

impl ScoreTables {
    /// The tables of a model.
    pub fn new(params: &ModelParams, config: &ModelConfig) -> Self {
        let bits = params.score_bits;
        Self {
            exp: exp_table(bits),
            cap: config.blocks.score_cap.map(|cap| cap_table(cap, bits)),
        }
    }
}

/// Scores of a rotated query against the keys that `seen` has entries for; softmax and attention over the `visible` ones of them (at least
/// one), the others are masked.
pub(super) fn attend(
    q: &[i16],
    cache: &HeadCache,
    visible: Range<usize>,
    shift: u8,
    tables: &ScoreTables,
    seen: Seen<'_>,
) -> AttentionRow {
    let (n, first) = (q.len(), seen.first);
    let visible = visible.start - first..visible.end - first;
    for (limbs, acc) in [(&cache.keys.hi, &mut *seen.acc_hi), (&cache.keys.lo, &mut *seen.acc_lo)] {
        let keys = limbs[first * n..].chunks_exact(n).zip(acc);
        keys.for_each(|(key, acc)| *acc = dot(q, key));
    }
    let mut totals = totals(seen.acc_hi, seen.acc_lo).map(|acc| (acc, shift));
    let (before, rest) = seen.score.split_at_mut(visible.start);
    let (open, after) = rest.split_at_mut(visible.len());
    requantise_all(totals.by_ref().take(before.len()), before);
    let clipped = requantise_all(totals.by_ref().take(open.len()), open);
    requantise_all(totals, after);
    if let Some(table) = &tables.cap {
        let scores = seen.score.iter_mut();
        scores.for_each(|score| *score = table[(i32::from(*score) + (1 << 15)) as usize]);
    }

    let open = &seen.score[visible.clone()];
    let scores = (first + visible.start..).zip(open);
    let (arg, max) = scores.fold((0, i16::MIN), |best, (j, &s)| if s > best.1 { (j, s) } else { best });
    let exp = &mut seen.exp[visible.clone()];
    for (exp, score) in exp.iter_mut().zip(open) {
        *exp = tables.exp[(i32::from(max) - i32::from(*score)) as usize];
    }
    let sum = exp.iter().sum();
    let recip = reciprocal(sum);
    let mut att_acc = vec![0; n];
    for (j, (prob, exp)) in (first + visible.start..).zip(seen.prob[visible].iter_mut().zip(exp)) {
        *prob = probability(*exp, recip);
        for (acc, &v) in att_acc.iter_mut().zip(&cache.values[j * n..][..n]) {
            *acc += i32::from(*prob) * i32::from(v);
        }
    }
    AttentionRow {
        max,
        arg: arg as u32,
        sum,
        recip,
        att_acc,
        clipped,
    }
}
