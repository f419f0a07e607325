//! The witness as trace columns (docs/protocol.md, section 4): for every part its columns in row order.
//! Padded features, layers and heads are rows like any other, computed from zero accumulators.

use num_traits::Zero;
use rayon::prelude::*;
use stwo::core::fields::m31::{BaseField, P};
use tessera_circuits::air::gadgets::Remainder;
use tessera_circuits::air::{ff, logits, requant, rope, scores, stream};
use tessera_circuits::chunk::Boundary;
use tessera_circuits::model::{ChannelShift, MatmulKind, ModelParams, RowClass};
use tessera_circuits::semantics::{rope_angle, round_shift, sat16, PROB_SHIFT, ROPE_BITS};
use tessera_circuits::shape::{Part, Shape};
use tessera_circuits::statement::{class_of, norm_of, Clip, Statement, Statistics};
use tessera_circuits::wiring::{pow_column, shift_of, Update, PADDED_EXPONENT};

use crate::forward::Witness;

/// Columns of one part, each in row order.
pub type Columns = Vec<Vec<BaseField>>;

/// Everything the trace is made from.
pub struct Source<'a> {
    pub shape: &'a Shape,
    /// The parameters of the chunk alone.
    pub params: &'a ModelParams,
    pub statement: &'a Statement,
    /// What enters the chunk; `None` in the first one.
    pub input: Option<&'a Boundary>,
    pub witness: &'a Witness,
    pub statistics: &'a Statistics,
}

/// Row statistics of a witness of a chunk.
pub fn statistics(shape: &Shape, params: &ModelParams, statement: &Statement, witness: &Witness) -> Statistics {
    let norms = witness
        .streams
        .iter()
        .flat_map(|s| s.sums.iter().map(|v| v.map(|v| v as i32)))
        .collect();
    let sums = witness.layers.iter().flat_map(|l| l.sum.iter().copied()).collect();
    let vocab = shape.config.vocab;
    let generated = statement.generated().filter(|_| shape.chunk.is_last());
    let top = |(row, id): (usize, u32)| witness.logits[(row - witness.first_logits) * vocab + id as usize];
    let tops: Vec<i16> = generated.map(top).collect();
    let logits = LogitRows::new(shape, params, statement, witness, &tops);
    Statistics {
        norms,
        sums,
        clips: logits.clips(),
        tops,
    }
}

/// The logits of the generated positions, before they are clipped.
struct LogitRows<'a> {
    shape: &'a Shape,
    params: &'a ModelParams,
    statement: &'a Statement,
    witness: &'a Witness,
    tops: &'a [i16],
    first: usize,
}

impl<'a> LogitRows<'a> {
    fn new(
        shape: &'a Shape,
        params: &'a ModelParams,
        statement: &'a Statement,
        witness: &'a Witness,
        tops: &'a [i16],
    ) -> Self {
        let first = statement.prompt.len() - 1 - witness.first_logits.min(statement.prompt.len() - 1);
        Self {
            shape,
            params,
            statement,
            witness,
            tops,
            first,
        }
    }

    /// Limbs of the accumulator of an entry.
    fn accumulator(&self, output: usize, entry: usize) -> [i64; 2] {
        let at = (self.first + output) * self.shape.config.vocab + entry;
        [&self.witness.logits_acc_hi, &self.witness.logits_acc_lo].map(|acc| acc[at].into())
    }

    /// Margin of an entry, and what its logit exceeds the clipped one by that the margin is made of.
    fn margin(&self, output: usize, entry: usize) -> (i64, i64) {
        let [hi, lo] = self.accumulator(output, entry);
        let logit = round_shift(256 * hi + lo, 8 + u32::from(self.params.head.at(entry)));
        let top = i64::from(self.tops[output]) - i64::from(entry < self.statement.output[output] as usize);
        let clipped = i64::from(sat16(logit));
        match (0..1 << 16).contains(&(top - logit)) {
            true => (top - logit, 0),
            false => (top - clipped, logit - clipped),
        }
    }

    /// All clipped values, ascending.
    fn clips(&self) -> Vec<Clip> {
        let (vocab, log) = (self.shape.config.vocab, self.shape.padded.vocab);
        let entries = (0..self.tops.len()).into_par_iter().flat_map_iter(|output| {
            let excess = move |entry| (self.margin(output, entry).1, entry);
            let clipped = (0..vocab).map(excess).filter(|(excess, _)| *excess != 0);
            clipped.map(move |(excess, entry)| Clip {
                part: Part::Logits.index() as u8,
                at: ((output << log) | entry) as u64,
                excess: excess as i32,
            })
        });
        entries.collect()
    }
}

fn felt(v: i64) -> u32 {
    v.rem_euclid(i64::from(P)) as u32
}

/// One rounding: output and witness columns.
struct Rounded {
    out: i64,
    columns: [u32; 5],
}

/// Rounds `t` (residual included) by `shift`, as `semantics::requantise` does, with its witness.
fn round(t: i64, shift: u32) -> Rounded {
    let pow = 1i64 << shift;
    let base = t + pow / 2;
    let q = base >> shift;
    let (out, w, pos, neg) = if q > i64::from(i16::MAX) {
        let out = i64::from(i16::MAX);
        (out, base - pow * out, 1, 0)
    } else if q < i64::from(i16::MIN) {
        let out = i64::from(i16::MIN);
        (out, pow - 1 - (base - pow * out), 0, 1)
    } else {
        return Rounded {
            out: q,
            columns: [(base - pow * q) as u32, 0, 0, 0, pow as u32],
        };
    };
    Rounded {
        out,
        columns: [(w & 0x7fff) as u32, (w >> 15) as u32, pos, neg, 1 << 15],
    }
}

/// `acc_hi + floor(acc_lo / 2^8)` with the low byte and the 16-bit limb of the wide join.
fn join(acc_hi: i64, acc_lo: i64) -> (i64, u32, u32) {
    let u = acc_lo >> 8;
    (acc_hi + u, (acc_lo & 0xff) as u32, ((u + (1 << 22)) & 0xffff) as u32)
}

fn limbs(out: i64) -> [u32; 2] {
    [felt(out >> 8), (out & 0xff) as u32]
}

/// Rows filled at once.
const BLOCK: usize = 256;

/// The columns of a part, lane by lane. `fill` gets the indices of an entry along the part's axes and writes its
/// columns.
fn build<const N: usize>(shape: &Shape, part: Part, fill: impl Fn([usize; N], &mut [u32]) + Sync) -> Columns {
    let axes = shape.axes(part);
    let (rows, width) = (1usize << shape.log_rows(part), shape.lane_columns(part));
    let mut columns: Columns = (0..shape.columns(part))
        .map(|_| vec![BaseField::zero(); rows])
        .collect();
    for (lane, columns) in columns.chunks_mut(width).enumerate() {
        let start = shape.lane_start(part, lane);
        let mut blocks: Vec<Vec<&mut [BaseField]>> = (0..rows.div_ceil(BLOCK)).map(|_| Vec::new()).collect();
        for column in columns {
            for (block, piece) in blocks.iter_mut().zip(column.chunks_mut(BLOCK)) {
                block.push(piece);
            }
        }
        blocks.par_iter_mut().enumerate().for_each(|(b, block)| {
            let mut row = vec![0u32; width];
            for i in 0..BLOCK.min(rows) {
                let mut indices = unpack(b * BLOCK + i, &axes);
                for (axis, first) in start {
                    if let Some(index) = indices.get_mut(axis) {
                        *index += first;
                    }
                }
                row.fill(0);
                fill(indices, &mut row);
                for (piece, value) in block.iter_mut().zip(&row) {
                    piece[i] = BaseField::from_u32_unchecked(*value);
                }
            }
        });
    }
    columns
}

/// Splits a row index into the indices along axes of the given log lengths.
fn unpack<const N: usize>(row: usize, axes: &[u32]) -> [usize; N] {
    let mut rest = row;
    let mut out = [0; N];
    for (o, log) in out.iter_mut().zip(axes).rev() {
        *o = rest & ((1 << log) - 1);
        rest >>= log;
    }
    out
}

/// A value of a real-dimension tensor, 0 outside it.
fn get<T: Copy + Into<i64>>(values: &[T], at: Option<usize>) -> i64 {
    at.map_or(0, |i| values[i].into())
}

/// Writes accumulator, join limbs and rounding of one requantisation; returns the output.
fn requantise(row: &mut [u32], acc: [i64; 2], at: [usize; 4], rounding: usize, previous: i64, shift: u32) -> i64 {
    let [hi, lo] = acc;
    let (t, v, u) = join(hi, lo);
    let rounded = round(t + previous, shift);
    let [at_hi, at_lo, at_v, at_u] = at;
    row[at_hi] = felt(hi);
    row[at_lo] = felt(lo);
    row[at_v] = v;
    row[at_u] = u;
    row[rounding..rounding + 5].copy_from_slice(&rounded.columns);
    rounded.out
}

/// Writes join limbs and rounding of a product `a * (256 b_hi + b_lo)`; returns the output.
fn requantise_product(row: &mut [u32], a: i64, b: [i64; 2], at: [usize; 2], rounding: usize, shift: u32) -> i64 {
    let (t, v, _) = join(a * b[0], a * b[1]);
    let rounded = round(t, shift);
    row[at[0]] = v;
    row[at[1]] = (((a * b[1]) >> 8) + (1 << 15)) as u32;
    row[rounding..rounding + 5].copy_from_slice(&rounded.columns);
    rounded.out
}

impl Source<'_> {
    /// All columns of a part (the tables' multiplicities are counted separately).
    pub fn columns(&self, part: Part) -> Columns {
        match part {
            Part::Stream => self.stream(),
            Part::Q => self.rope(part),
            Part::K => self.rope(part),
            Part::V => self.values(),
            Part::Scores => self.scores(),
            Part::Att => self.attention(),
            Part::Ff => self.ff(),
            Part::Logits => self.logits(),
            Part::Tables => Vec::new(),
        }
    }

    fn pows(&self, kind: MatmulKind, log: u32) -> Vec<Vec<u32>> {
        (0..self.shape.config.layers)
            .map(|l| pow_column(&self.shape.config, kind, self.shift(kind, l), log))
            .collect()
    }

    fn shift(&self, kind: MatmulKind, layer: usize) -> &ChannelShift {
        shift_of(self.params, kind, layer).expect("the layer exists")
    }

    fn stream(&self) -> Columns {
        let (shape, w) = (self.shape, self.witness);
        let (states, hidden) = (shape.states(), shape.config.hidden);
        let leading = self.statement.leading(&self.params.leading, shape.token);
        let updates: Vec<[Update<'_>; 2]> = (0..states)
            .map(|n| [RowClass::Body, RowClass::Lead].map(|c| Update::of(self.params, n, c).expect("the state exists")))
            .collect();
        build(shape, Part::Stream, |[n, i, x], row| {
            let state = w.streams.get(n);
            let at = (x < hidden).then_some(i * hidden + x);
            let acc = state.map_or([0, 0], |s| [get(&s.acc_hi, at), get(&s.acc_lo, at)]);
            // Beyond the last state the stream repeats itself: no update, unit scale.
            let before = match n.checked_sub(1) {
                Some(n) => get(&w.streams[n.min(states - 1)].x, at),
                None => self.input.map_or(0, |boundary| get(&boundary.0, at)),
            };
            let exponents = updates.get(n).filter(|_| x < hidden);
            let [shift, skip] = exponents.map_or([PADDED_EXPONENT; 2], |u| u[usize::from(i < leading)].exponents(x));
            let (pow, skip) = (1u32 << shift, 1u32 << skip);
            let cols = [stream::ACC_HI, stream::ACC_LO, stream::V1, stream::U1];
            let scaled = before * i64::from(skip);
            let out = requantise(row, acc, cols, stream::ROUND1, scaled, pow.trailing_zeros());
            debug_assert!(state.is_none_or(|s| get(&s.x, at) == out));
            row[stream::PREV] = felt(before);
            row[stream::POW1] = pow;
            row[stream::SKIP] = skip;
            let (hi, lo) = (out >> 8, out & 0xff);
            [row[stream::X_HI], row[stream::X_LO]] = limbs(out);
            row[stream::HH] = felt(hi * hi);
            row[stream::HL] = felt(hi * lo);
            row[stream::LL] = felt(lo * lo);
            let r = state.map_or(0, |s| s.rsqrt[i]);
            let pow: u32 = match state {
                Some(_) if x < hidden => 1 << (norm_of(self.params, n).shift - self.params.exponent(x)),
                _ => 1 << PADDED_EXPONENT,
            };
            row[stream::R_HI] = r >> 8;
            row[stream::R_LO] = r & 0xff;
            row[stream::POW2] = pow;
            let factor = [i64::from(r >> 8), i64::from(r & 0xff)];
            let y = requantise_product(
                row,
                out,
                factor,
                [stream::V2, stream::U2],
                stream::ROUND2,
                u32::trailing_zeros(pow),
            );
            debug_assert!(state.is_none_or(|s| get(&s.y, at) == y));
            [row[stream::Y_HI], row[stream::Y_LO]] = limbs(y);
        })
    }

    fn rope(&self, part: Part) -> Columns {
        let (shape, config) = (self.shape, &self.shape.config);
        let half_dim = config.head_dim / 2;
        let (kind, heads, width) = match part {
            Part::Q => (MatmulKind::Q, config.heads, shape.padded.q()),
            _ => (MatmulKind::K, config.kv_heads, shape.padded.kv()),
        };
        let pows = self.pows(kind, width);
        let angles: Vec<(i32, i32)> = (0..(1 << shape.token) * half_dim)
            .into_par_iter()
            .map(|i| rope_angle(config, i / half_dim, i % half_dim))
            .collect();
        build(shape, part, |[l, i, h, x], row| {
            let layer = self.witness.layers.get(l);
            let real = layer.is_some() && h < heads && x < half_dim;
            let mut pair = [0; 2];
            for (half, value) in pair.iter_mut().enumerate() {
                let at = real.then(|| (i * heads + h) * config.head_dim + half * half_dim + x);
                let acc = layer.map_or([0, 0], |w| match part {
                    Part::Q => [get(&w.q_acc_hi, at), get(&w.q_acc_lo, at)],
                    _ => [get(&w.k_acc_hi, at), get(&w.k_acc_lo, at)],
                });
                let pow = pows
                    .get(l)
                    .map_or(2, |p| p[(((h << 1) | half) << shape.padded.half) | x]);
                let cols = [rope::ACC_HI, rope::ACC_LO, rope::V, rope::U].map(|c| rope::before(half, c));
                let rounding = rope::before(half, rope::ROUND);
                *value = requantise(row, acc, cols, rounding, 0, pow.trailing_zeros());
                row[rope::before(half, rope::A)] = felt(*value);
                row[rope::before(half, rope::POW)] = pow;
            }
            let (cos, sin) = if x < half_dim { angles[i * half_dim + x] } else { (0, 0) };
            row[rope::COS] = felt(i64::from(cos));
            row[rope::SIN] = felt(i64::from(sin));
            let ([a, b], cos, sin) = (pair, i64::from(cos), i64::from(sin));
            for (half, t) in [a * cos - b * sin, b * cos + a * sin].into_iter().enumerate() {
                let rounded = round(t, ROPE_BITS);
                let at = rope::after(half, rope::OUT_ROUND);
                row[at..at + 5].copy_from_slice(&rounded.columns);
                let [hi, lo] = limbs(rounded.out);
                row[rope::after(half, rope::OUT_HI)] = hi;
                row[rope::after(half, rope::OUT_LO)] = lo;
            }
        })
    }

    fn requant(
        &self,
        part: Part,
        heads: usize,
        source: impl Fn(usize, Option<usize>) -> [i64; 2] + Sync,
        pow: impl Fn(usize, usize, usize) -> u32 + Sync,
    ) -> Columns {
        let (shape, config) = (self.shape, &self.shape.config);
        let (half_dim, half) = (config.head_dim / 2, shape.padded.half);
        build(shape, part, |[l, i, h, x], row| {
            let (side, within) = (x >> half, x & ((1 << half) - 1));
            let real = l < config.layers && h < heads && within < half_dim;
            let at = real.then(|| (i * heads + h) * config.head_dim + side * half_dim + within);
            let acc = source(l, at);
            let pow = if l < config.layers { pow(l, h, x) } else { 2 };
            let cols = [requant::ACC_HI, requant::ACC_LO, requant::V, requant::U];
            let out = requantise(row, acc, cols, requant::ROUND, 0, pow.trailing_zeros());
            row[requant::POW] = pow;
            [row[requant::OUT_HI], row[requant::OUT_LO]] = limbs(out);
        })
    }

    fn values(&self) -> Columns {
        let pows = self.pows(MatmulKind::V, self.shape.padded.kv());
        let head_dim = self.shape.padded.head_dim();
        self.requant(
            Part::V,
            self.shape.config.kv_heads,
            |l, at| {
                self.witness
                    .layers
                    .get(l)
                    .map_or([0, 0], |w| [get(&w.v_acc_hi, at), get(&w.v_acc_lo, at)])
            },
            |l, h, x| pows[l][(h << head_dim) | x],
        )
    }

    fn attention(&self) -> Columns {
        self.requant(
            Part::Att,
            self.shape.config.heads,
            |l, at| {
                self.witness
                    .layers
                    .get(l)
                    .map_or([0, 0], |w| [get(&w.att_acc_hi, at), get(&w.att_acc_lo, at)])
            },
            |l, _, _| 1 << self.params.layers[l].att,
        )
    }

    fn scores(&self) -> Columns {
        let (shape, config) = (self.shape, &self.shape.config);
        let tokens = 1usize << shape.token;
        build(shape, Part::Scores, |[l, h, i, j], row| {
            let layer = self.witness.layers.get(l).filter(|_| h < config.heads);
            let line = h * tokens + i;
            let cell = line * tokens + j;
            let acc = layer.map_or([0, 0], |w| [w.score_acc_hi[cell].into(), w.score_acc_lo[cell].into()]);
            let pow = self.params.layers.get(l).map_or(2, |p| 1u32 << p.score);
            let cols = [scores::ACC_HI, scores::ACC_LO, scores::V, scores::U];
            let s = requantise(row, acc, cols, scores::ROUND, 0, pow.trailing_zeros());
            row[scores::S] = felt(s);
            row[scores::POW] = pow;
            let (max, arg, recip) = layer.map_or((0, 0, 0), |w| (w.max[line], w.arg[line] as usize, w.recip[line]));
            let open = l < config.layers && j <= i;
            let exp = layer.map_or(u32::from(open) << 15, |w| w.exp[cell]);
            row[scores::MAX] = felt(i64::from(max));
            row[scores::MASK] = u32::from(open);
            row[scores::D] = if open { felt(i64::from(max) - s) } else { 0 };
            row[scores::EXP] = exp;
            row[scores::SELECT] = u32::from(open && j == arg);
            row[scores::R_HI] = recip >> 8;
            row[scores::R_LO] = recip & 0xff;
            let factor = [i64::from(recip >> 8), i64::from(recip & 0xff)];
            let shift = u32::from(PROB_SHIFT);
            let p = requantise_product(
                row,
                i64::from(exp),
                factor,
                [scores::V2, scores::U2],
                scores::ROUND2,
                shift,
            );
            row[scores::P] = felt(p);
        })
    }

    fn ff(&self) -> Columns {
        let (shape, width) = (self.shape, self.shape.config.ff);
        let [gates, ups] = [MatmulKind::Gate, MatmulKind::Up].map(|k| self.pows(k, shape.padded.ff));
        let leading = self.statement.leading(&self.params.leading, shape.token);
        // Padded gates are 0, and so is their SiLU.
        build(shape, Part::Ff, |[l, i, x], row| {
            let layer = self.witness.layers.get(l);
            let at = (x < width).then_some(i * width + x);
            let acc = layer.map_or([0, 0], |w| [get(&w.gate_acc_hi, at), get(&w.gate_acc_lo, at)]);
            let pow = gates.get(l).map_or(2, |p| p[x]);
            let cols = [ff::GATE_HI, ff::GATE_LO, ff::GATE_V, ff::GATE_U];
            let gate = requantise(row, acc, cols, ff::GATE_ROUND, 0, pow.trailing_zeros());
            row[ff::GATE] = felt(gate);
            row[ff::GATE_POW] = pow;
            let silu = layer.map_or(0, |w| get(&w.silu, at));
            row[ff::SILU] = felt(silu);

            let acc = layer.map_or([0, 0], |w| [get(&w.up_acc_hi, at), get(&w.up_acc_lo, at)]);
            let pow = ups.get(l).map_or(2, |p| p[x]);
            let cols = [ff::UP_HI, ff::UP_LO, ff::UP_V, ff::UP_U];
            let up = requantise(row, acc, cols, ff::UP_ROUND, 0, pow.trailing_zeros());
            [row[ff::UP_OUT_HI], row[ff::UP_OUT_LO]] = limbs(up);
            row[ff::UP_POW] = pow;

            let class = class_of(i, leading);
            let pow = self.params.layers.get(l).map_or(2, |p| 1u32 << p.act.of(class));
            row[ff::POW] = pow;
            let factor = [up >> 8, up & 0xff];
            let h = requantise_product(row, silu, factor, [ff::V, ff::U], ff::ROUND, pow.trailing_zeros());
            [row[ff::H_HI], row[ff::H_LO]] = limbs(h);
        })
    }

    fn logits(&self) -> Columns {
        let (shape, vocab) = (self.shape, self.shape.config.vocab);
        let pows = pow_column(&shape.config, MatmulKind::Head, &self.params.head, shape.padded.vocab);
        let rows = LogitRows::new(shape, self.params, self.statement, self.witness, &self.statistics.tops);
        build(shape, Part::Logits, |[o, v], row| {
            row[logits::REMAINDER.pow()] = pows[v];
            if o < shape.outputs && v < vocab {
                let top = i64::from(self.statistics.tops[o]) - i64::from(v < self.statement.output[o] as usize);
                let (margin, excess) = rows.margin(o, v);
                row[logits::MARGIN] = felt(margin);
                let shift = pows[v].trailing_zeros();
                remainder(
                    row,
                    logits::REMAINDER,
                    rows.accumulator(o, v),
                    shift,
                    top - margin + excess,
                );
            }
        })
    }
}

/// Writes what the claim on accumulators needs beside the value that one is rounded to.
fn remainder(row: &mut [u32], at: Remainder, [hi, lo]: [i64; 2], shift: u32, value: i64) {
    let rest = 256 * hi + lo + (1 << (7 + shift)) - (value << (8 + shift));
    debug_assert!((0..1 << (8 + shift)).contains(&rest), "a remainder");
    let delta = hi - (value << shift) + Remainder::OFFSET;
    let high = (delta >> 6).min(0xffff);
    row[at.r_hi()] = (rest >> 8) as u32;
    row[at.r_lo()] = (rest & 0xff) as u32;
    row[at.d_hi()] = felt(high);
    row[at.d_lo()] = felt(delta - (high << 6));
    row[at.pow()] = 1 << shift;
}
