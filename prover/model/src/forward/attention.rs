//! Attention of the integer forward pass: rotation, scores, softmax and values.

use std::ops::Range;

use rayon::prelude::*;
use tessera_circuits::model::MatmulKind;
use tessera_circuits::semantics::{turn, Turn};

use super::kernels::{attend, in_rows, norm_heads, requantise_outputs, rotate, AttentionRow, Clipped, Pairs, Seen};
use super::{ForwardState, LayerWitness, NormedHeads, Pass, Stream};
use tessera_kernels::device::DeviceError;

/// Pairs of a query and a key that are not worth sharing between threads.
const MIN_PAIRS: usize = 1 << 10;

impl ForwardState<'_> {
    /// The attention block of layer `l`, from the stream before it to the stream after it, and to its output where that is a state. The scores of
    /// all pairs of rows are computed and recorded only if `pairs`.
    pub(super) fn attention(
        &mut self,
        l: usize,
        stream: &Stream,
        pairs: bool,
        out: &mut LayerWitness,
        pass: &mut Pass<'_>,
    ) -> Result<(Option<Stream>, Stream), DeviceError> {
        let (model, name) = (self.model, |tensor: &str| format!("layers.{l}.{tensor}"));
        let (config, params) = (&model.config, &model.params.layers[l]);
        let (q_acc, q) = self.project(name("q"), MatmulKind::Q, l, &stream.y, &params.attention.q, pass)?;
        let (k_acc, k) = self.project(name("k"), MatmulKind::K, l, &stream.y, &params.attention.k, pass)?;
        let (v_acc, v) = self.project(name("v"), MatmulKind::V, l, &stream.y, &params.attention.v, pass)?;
        let q_norm = self.norm_heads(name("q_norm"), MatmulKind::Q, l, &q);
        let k_norm = self.norm_heads(name("k_norm"), MatmulKind::K, l, &k);
        let [turned_q, turned_k] = match config.head_norms {
            true => [&q_norm.y, &k_norm.y],
            false => [&q, &k],
        };
        let q_rot = self.rotate(name("q_rot"), MatmulKind::Q, l, turned_q);
        let k_rot = self.rotate(name("k_rot"), MatmulKind::K, l, turned_k);
        let width = config.kv_heads * config.head_dim;
        for (i, (k, v)) in k_rot.chunks_exact(width).zip(v.chunks_exact(width)).enumerate() {
            let heads = k.chunks_exact(config.head_dim).zip(v.chunks_exact(config.head_dim));
            let text = self.place(i).text;
            for (cache, (k, v)) in self.caches[text][l].iter_mut().zip(heads) {
                cache.keys.extend(k);
                cache.values.extend_from_slice(v);
            }
        }
        let att_acc = self.attend(l, &q_rot, pairs, out);
        let (att, clipped) = requantise_outputs(&att_acc, config.heads * config.head_dim, params.attention.att);
        self.count(name("att"), clipped, att.len());

        let o_acc = self.linear.matmul(model, MatmulKind::O.at(l), &att, pass)?;
        (out.q_acc_hi, out.q_acc_lo, out.q, out.q_rot) = (q_acc.hi, q_acc.lo, q, q_rot);
        (out.k_acc_hi, out.k_acc_lo, out.k, out.k_rot) = (k_acc.hi, k_acc.lo, k, k_rot);
        (out.q_norm, out.k_norm) = (q_norm, k_norm);
        (out.v_acc_hi, out.v_acc_lo, out.v) = (v_acc.hi, v_acc.lo, v);
        (out.att_acc, out.att) = (att_acc, att);
        Ok(self.add(l, MatmulKind::O, o_acc, stream, name("norm_mlp")))
    }

    /// The norms of the heads of queries or keys of layer `l`, `[rows][heads][head_dim]`; nothing where they are not normed.
    fn norm_heads(&mut self, tensor: String, kind: MatmulKind, l: usize, rows: &[i16]) -> NormedHeads {
        let model = self.model;
        let Some(norm) = model.params.head_norm(kind.at(l)) else {
            return NormedHeads::default();
        };
        let (head_dim, (_, width)) = (model.config.head_dim, model.config.dims(kind));
        let norm = norm.norm();
        let normed: Vec<(NormedHeads, Clipped)> = rows
            .par_chunks_exact(width)
            .map(|row| norm_heads(row, head_dim, &norm))
            .collect();
        let clipped = normed.iter().map(|(_, clipped)| *clipped).sum();
        self.count(tensor, clipped, rows.len());
        let mut out = NormedHeads::default();
        for (row, _) in normed {
            out.sums.extend(row.sums);
            out.rsqrt.extend(row.rsqrt);
            out.y.extend(row.y);
        }
        out
    }

    /// RoPE of new rows of queries or keys of layer `l`, `[rows][heads][head_dim]`, with the gains of their norms.
    fn rotate(&mut self, tensor: String, kind: MatmulKind, l: usize, rows: &[i16]) -> Vec<i16> {
        let (model, (_, width)) = (self.model, self.model.config.dims(kind));
        let (head_dim, gains) = (model.config.head_dim, model.params.head_norm(kind.at(l)));
        let (half, gains) = (head_dim / 2, gains.map_or(&[][..], |norm| &norm.gains));
        let directions = &self.rope[model.config.rotation(l)];
        let (out, clipped) = in_rows([rows.len() / width, width], |i, out| {
            let own = directions[self.place(i).position * half..][..half].iter().enumerate();
            let turns: Vec<Turn> = own.map(|(x, direction)| turn(*direction, gains, x, half)).collect();
            rotate(&rows[i * width..][..width], head_dim, &turns, out)
        });
        self.count(tensor, clipped, out.len());
        out
    }

    /// Softmax attention of the rotated queries `[rows][heads][head_dim]` over the cache, which holds their
    /// rows already; returns the accumulators of the attention output, `[rows][heads * head_dim]`.
    pub(super) fn attend(&mut self, l: usize, q_rot: &[i16], keep: bool, out: &mut LayerWitness) -> Vec<i32> {
        let (config, shift) = (&self.model.config, self.model.params.layers[l].attention.score);
        let (heads, head_dim) = (config.heads, config.head_dim);
        let rows = q_rot.len() / (heads * head_dim);
        let of = |at: usize, seen: Seen<'_>| {
            let (h, i) = (at / rows, at % rows);
            let q = &q_rot[(i * heads + h) * head_dim..][..head_dim];
            let cache = &self.caches[self.place(i).text][l][config.kv_head(h)];
            attend(q, cache, self.visible(l, i, rows), shift, &self.scores, seen)
        };
        let keys = (0..rows).map(|i| self.place(i).position + 1).max().unwrap_or(1);
        let attended: Vec<AttentionRow> = if keep {
            let mut pairs = Pairs::new(heads * rows * keys);
            let attended = pairs.rows(keys).enumerate().map(|(at, seen)| of(at, seen)).collect();
            (out.score_acc_hi, out.score_acc_lo) = (pairs.acc.hi, pairs.acc.lo);
            (out.score, out.exp, out.prob) = (pairs.score, pairs.exp, pairs.prob);
            attended
        } else {
            let lines = (0..heads * rows).into_par_iter();
            let of = |at| {
                let visible = self.visible(l, at % rows, rows);
                of(at, Pairs::new(visible.len()).row(visible.start))
            };
            lines.with_min_len(MIN_PAIRS.div_ceil(keys)).map(of).collect()
        };
        self.count(
            format!("layers.{l}.score"),
            attended.iter().map(|row| row.clipped).sum(),
            heads * (0..rows).map(|i| self.visible(l, i, rows).len()).sum::<usize>(),
        );

        let mut acc = Vec::new();
        for row in (0..rows)
            .flat_map(|i| (0..heads).map(move |h| h * rows + i))
            .map(|at| &attended[at])
        {
            acc.extend(&row.att_acc);
        }
        for row in attended.into_iter().filter(|_| keep) {
            out.max.push(row.max);
            out.arg.push(row.arg);
            out.sum.push(row.sum);
            out.recip.push(row.recip);
        }
        acc
    }

    /// The keys that the row `i` of `rows` that are being processed sees in layer `l`: those up to itself, or the last of these, or without a
    /// causal mask those of the whole text.
    fn visible(&self, l: usize, i: usize, rows: usize) -> Range<usize> {
        let text = self.keys.min(self.rows + rows);
        self.model.config.visible(l, self.place(i).position, text)
    }
}
