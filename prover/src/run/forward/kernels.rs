//! Integer kernels of the forward pass but the matmuls: requantisation with saturation counts, one row of
//! attention.

use std::iter::{repeat, Sum};
use std::ops::AddAssign;

use rayon::prelude::*;
use tessera_circuits::gains::Gains;
use tessera_circuits::model::{ChannelShift, NormParams, RowClass};
use tessera_circuits::semantics::{
    limbs, norm_element, norm_rsqrt, norm_sums, probability, reciprocal, requantise, requantise_residual, round_shift,
    turn_pair, turned, Turn, ROPE_BITS,
};

use super::NormedHeads;

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

/// Limb accumulators of a matmul, `[rows][outputs]`.
#[derive(Clone, Debug, Default)]
pub(super) struct Acc {
    pub hi: Vec<i32>,
    pub lo: Vec<i32>,
}

/// The accumulators `256 hi + lo`.
fn totals<'a>(hi: &'a [i32], lo: &'a [i32]) -> impl Iterator<Item = i64> + 'a {
    hi.iter().zip(lo).map(|(&hi, &lo)| (i64::from(hi) << 8) + i64::from(lo))
}

/// Dot product. This form compiles to multiply-add instructions on pairs of int16.
fn dot(a: &[i16], b: &[i16]) -> i32 {
    a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum()
}

/// Values that were clamped, at either end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Clipped {
    pub low: u64,
    pub high: u64,
}

impl Clipped {
    /// Counts a value if it is not the one that it was clamped from.
    pub fn count(&mut self, clamped: i16, unclamped: impl Fn() -> i64) {
        if (clamped == i16::MAX || clamped == i16::MIN) && i64::from(clamped) != unclamped() {
            *(if clamped < 0 { &mut self.low } else { &mut self.high }) += 1;
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

/// Requantises `(accumulator, shift)` pairs; also returns what saturated.
pub(super) fn requantise_all(pairs: impl Iterator<Item = (i64, u8)>) -> (Vec<i16>, Clipped) {
    let mut clipped = Clipped::default();
    let out = pairs.map(|(acc, shift)| {
        let v = requantise(acc, shift);
        clipped.count(v, || round_shift(acc, 8 + u32::from(shift)));
        v
    });
    (out.collect(), clipped)
}

/// Requantises accumulators `[rows][outputs]` with the shifts of the output channels; counts what saturates in the first
/// `counted` rows.
pub(super) fn requantise_acc(acc: &Acc, shift: &ChannelShift, outputs: usize, counted: usize) -> (Vec<i16>, Clipped) {
    let shifts: Vec<u8> = (0..outputs).map(|o| shift.at(o)).collect();
    requantise_rows(acc, &shifts, counted)
}

/// The same with the shifts of the output channels one by one.
pub(super) fn requantise_rows(acc: &Acc, shifts: &[u8], counted: usize) -> (Vec<i16>, Clipped) {
    by_rows(acc, shifts.len(), counted, |_, hi, lo| {
        requantise_all(totals(hi, lo).zip(shifts.iter().copied()))
    })
}

/// Rounds accumulators `[rows][outputs]`, with the previous state if there is one, into the residual stream. The exponents
/// of the channels, as [`Update::exponents`] has them, are those of the first list in the first `leading` rows. Counts what saturates in the first
/// `counted` rows.
pub(super) fn requantise_stream(
    acc: &Acc,
    previous: Option<&[i16]>,
    exponents: [&[[u8; 2]]; 2],
    leading: usize,
    counted: usize,
) -> (Vec<i16>, Clipped) {
    let outputs = exponents[0].len();
    by_rows(acc, outputs, counted, |i, hi, lo| {
        let mut clipped = Clipped::default();
        let exponents = exponents[usize::from(i >= leading)];
        let previous = previous.map_or([].as_slice(), |p| &p[i * outputs..][..outputs]);
        let previous = previous.iter().copied().chain(repeat(0));
        let row = totals(hi, lo).zip(previous).zip(exponents);
        let row = row.map(|((acc, p), &[shift, skip])| {
            let v = requantise_residual(acc, p, skip, shift);
            let unclamped = || round_shift(acc + (i64::from(p) << (8 + u32::from(skip))), 8 + u32::from(shift));
            clipped.count(v, unclamped);
            v
        });
        (row.collect(), clipped)
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

/// Maps rows of accumulators in parallel, as [`in_rows`].
fn by_rows(
    acc: &Acc,
    width: usize,
    counted: usize,
    f: impl Fn(usize, &[i32], &[i32]) -> (Vec<i16>, Clipped) + Sync,
) -> (Vec<i16>, Clipped) {
    in_rows(acc.hi.len() / width, counted, |i| {
        let own = i * width..(i + 1) * width;
        f(i, &acc.hi[own.clone()], &acc.lo[own])
    })
}

/// Makes rows in parallel; concatenates them and adds the counts of the first `counted`.
pub(super) fn in_rows(
    rows: usize,
    counted: usize,
    row: impl Fn(usize) -> (Vec<i16>, Clipped) + Sync,
) -> (Vec<i16>, Clipped) {
    let (rows, clipped): (Vec<Vec<i16>>, Vec<Clipped>) = (0..rows).into_par_iter().map(&row).unzip();
    (rows.concat(), clipped.into_iter().take(counted).sum())
}

/// Norms the head vectors of one row (`[heads][head_dim]`): limb sums of squares and reciprocal roots of every head, and the normed
/// values.
pub(super) fn norm_heads(row: &[i16], head_dim: usize, norm: &NormParams) -> (NormedHeads, Clipped) {
    let mut out = NormedHeads::default();
    let mut clipped = Clipped::default();
    for head in row.chunks_exact(head_dim) {
        let sums = norm_sums(head, &[]);
        let root = norm_rsqrt(sums, head_dim, norm, RowClass::Body);
        out.sums.push(sums);
        out.rsqrt.push(root);
        out.y.extend(head.iter().map(|&v| {
            let normed = norm_element(v, root, norm.shift);
            clipped.count(normed, || {
                round_shift(i64::from(v) * i64::from(root), 8 + u32::from(norm.shift))
            });
            normed
        }));
    }
    (out, clipped)
}

/// Rotates the head vectors of one row (`[heads][head_dim]`) by what turns the pairs of its position.
pub(super) fn rotate(row: &[i16], head_dim: usize, turns: &[Turn]) -> (Vec<i16>, Clipped) {
    let half = head_dim / 2;
    let mut out = vec![0; row.len()];
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
    (out, clipped)
}

/// Rotated keys and values of one key/value head, `[positions][head_dim]`.
#[derive(Clone, Debug, Default)]
pub(super) struct HeadCache {
    pub keys: Limbs,
    pub values: Limbs,
}

/// One query row of one head. Vectors over keys have one entry per key that was asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct AttentionRow {
    pub score_acc: Acc,
    pub score: Vec<i16>,
    pub max: i16,
    pub arg: u32,
    pub exp: Vec<u32>,
    pub sum: u32,
    pub recip: u32,
    pub prob: Vec<i16>,
    /// `[head_dim]`
    pub att_acc: Acc,
    /// Saturated scores, masked ones not counted.
    pub clipped: Clipped,
}

/// Scores of a rotated query against the first `keys` keys; softmax and attention over the first
/// `visible` of them (at least one), the others are masked. Softmax has what the second table, if there is one, has for scores.
pub(super) fn attend(
    q: &[i16],
    cache: &HeadCache,
    (keys, visible): (usize, usize),
    shift: u8,
    (exp_table, cap_table): (&[u32], Option<&[i16]>),
) -> AttentionRow {
    let n = q.len();
    let mut row = AttentionRow::default();
    for (k_hi, k_lo) in cache
        .keys
        .hi
        .chunks_exact(n)
        .zip(cache.keys.lo.chunks_exact(n))
        .take(keys)
    {
        row.score_acc.hi.push(dot(q, k_hi));
        row.score_acc.lo.push(dot(q, k_lo));
    }
    let pairs = |range: std::ops::Range<usize>| {
        totals(&row.score_acc.hi[range.clone()], &row.score_acc.lo[range]).map(|acc| (acc, shift))
    };
    let (mut score, clipped) = requantise_all(pairs(0..visible));
    score.extend(requantise_all(pairs(visible..keys)).0);
    if let Some(table) = cap_table {
        let capped = |s: &mut i16| *s = table[(i32::from(*s) + (1 << 15)) as usize];
        score.iter_mut().for_each(capped);
    }

    let (arg, max) = score[..visible]
        .iter()
        .enumerate()
        .fold((0, i16::MIN), |best, (j, &s)| if s > best.1 { (j, s) } else { best });
    let mut exp: Vec<u32> = score[..visible]
        .iter()
        .map(|&s| exp_table[(i32::from(max) - i32::from(s)) as usize])
        .collect();
    let sum = exp.iter().sum();
    let recip = reciprocal(sum);
    let mut prob: Vec<i16> = exp.iter().map(|&e| probability(e, recip)).collect();

    row.att_acc = Acc {
        hi: vec![0; n],
        lo: vec![0; n],
    };
    for (j, &p) in prob.iter().enumerate() {
        let (v_hi, v_lo) = (&cache.values.hi[j * n..][..n], &cache.values.lo[j * n..][..n]);
        for (acc, &v) in row.att_acc.hi.iter_mut().zip(v_hi) {
            *acc += i32::from(p) * i32::from(v);
        }
        for (acc, &v) in row.att_acc.lo.iter_mut().zip(v_lo) {
            *acc += i32::from(p) * i32::from(v);
        }
    }
    exp.resize(keys, 0);
    prob.resize(keys, 0);
    AttentionRow {
        score,
        max,
        arg: arg as u32,
        exp,
        sum,
        recip,
        prob,
        clipped,
        ..row
    }
}
