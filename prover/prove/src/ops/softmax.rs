//! Scores of attention and their softmax (docs/protocol.md, sections 16.5 and 16.13): how their rows are filled, and the factors of
//! scores and reciprocals.

use crate::bind::eq_table;
use num_traits::Zero;
use rayon::prelude::*;
use stwo::core::fields::m31::BaseField;
use tessera_circuits::ops::softmax::{self, Kind};
use tessera_circuits::semantics::{cap_table, reciprocal, round_shift, MASKED, PROB_BITS, PROB_SHIFT, RECIPROCAL};
use tessera_circuits::shape::{Part, Product};
use tessera_circuits::statistics::Clip;
use tessera_circuits::wiring::suffix;

use super::operator::Operator;
use crate::column::Column;
use crate::device::DeviceError;
use crate::factors::{entries, Factors, K};
use crate::field::zeros;
use crate::trace::{build, felt, Accumulator, Source};

/// The prover's side of [`tessera_circuits::ops::softmax`].
pub(super) const OPERATOR: Operator = Operator {
    fills: &[
        (Part::SCORES, |source, part| source.scores(part)),
        (Part::WINDOWED, |source, part| source.scores(part)),
        (Part::SOFTMAX, |source, _| source.softmax()),
    ],
    makes: &[
        (Product::SCORE, |own| own.scores().map(entries)),
        (Product::RECIPROCAL, |own| own.reciprocals().map(entries)),
    ],
};

/// What the scores of queries behind the text hold beside zeros: the difference of a masked pair.
const FILLER: &[(usize, u32)] = &[(softmax::D, MASKED)];

/// Axes of the scores: queries and keys in their blocks.
pub(super) const QUERIES: usize = 3;
const KEYS: usize = 4;

/// The columns of a row of softmax from [`softmax::SUM_HI`] on: a sum below `2^29`, its reciprocal, and that it is the
/// quotient, rounded down. Of others the columns are those of no division.
pub fn division(sum: u32, recip: u32) -> [u32; softmax::COLUMNS - softmax::SUM_HI] {
    let limbs = |v: u32| [v >> softmax::LIMB_BITS, v & ((1 << softmax::LIMB_BITS) - 1)];
    let ([sum_hi, sum_lo], [recip_hi, recip_lo]) = (limbs(sum), limbs(recip));
    let left = RECIPROCAL.saturating_sub(u64::from(recip) * u64::from(sum)) as u32;
    let ([left_hi, left_lo], [gap_hi, _]) = (limbs(left), limbs(sum.saturating_sub(1 + left)));
    let ([carry, _], high) = (limbs(recip_lo * sum_lo), recip_hi * sum_hi);
    [
        sum_hi, sum_lo, recip_hi, recip_lo, high, carry, left_hi, left_lo, gap_hi,
    ]
}

impl Source<'_> {
    fn scores(&self, part: Part) -> (Vec<Column>, Vec<Clip>) {
        let (shape, config, text) = (self.shape, &self.shape.config, self.shape.rows);
        let mut kinds = shape.kinds().into_iter();
        let Kind { layers, pairs, .. } = kinds.find(|kind| kind.part == part).expect("a part has layers");
        let cap = config
            .blocks
            .score_cap
            .map(|cap| cap_table(cap, self.params.score_bits));
        let tokens_of = |[_, _, pair, i, j]: [usize; 5]| pairs.tokens([pair, i, j]);
        let query_of = |place: [usize; 5]| tokens_of(place).map_or(0, |(query, _)| query);
        build(self, part, (query_of, FILLER), |place, row| {
            let ([at, h, ..], tokens) = (place, tokens_of(place));
            let own = layers.get(at).copied();
            let layer = own.map(|l| &self.witness.layers[l]).filter(|_| h < config.heads);
            let layer = layer.zip(tokens).map(|(layer, (i, j))| (layer, h * text + i, j));
            // A key behind the text is 0, and so are its scores.
            let seen = layer
                .filter(|(_, _, j)| *j < text)
                .map(|(layer, line, j)| (layer, line * text + j));
            let acc = seen.map_or([0, 0], |(w, cell)| {
                [w.score_acc_hi[cell].into(), w.score_acc_lo[cell].into()]
            });
            let shift = own.map_or(1, |l| self.params.layers[l].attention.score).into();
            let acc = Accumulator::of(acc);
            let score = acc.rounded(shift);
            acc.write(row, shape.scores().remainder(), shift, score);
            row[softmax::S] = felt(score.out);
            let compared = match &cap {
                Some(table) => i64::from(table[(score.out + (1 << 15)) as usize]),
                None => score.out,
            };
            if cap.is_some() {
                row[softmax::CAPPED] = felt(compared);
            }
            let (max, recip) = layer.map_or((0, 0), |(w, line, _)| (w.max[line], w.recip[line]));
            let visible = |l: usize, (i, j): (usize, usize)| config.visible(l, i, text).contains(&j);
            let open = own.zip(tokens).is_some_and(|(l, tokens)| visible(l, tokens));
            let exp = match (layer, seen) {
                (Some(_), seen) => seen.map_or(0, |(w, cell)| w.exp[cell]),
                (None, _) => u32::from(open) << 15,
            };
            let difference = if open { i64::from(max) - compared } else { MASKED.into() };
            row[softmax::D] = felt(difference);
            row[softmax::EXP] = exp;
            row[softmax::ZERO] = u32::from(difference == 0);
            let shift = 8 + u32::from(PROB_SHIFT);
            let share = i64::from(exp) * i64::from(recip);
            let p = round_shift(share, shift);
            let rest = share + (1 << (shift - 1)) - (p << shift);
            row[softmax::P] = p as u32;
            row[softmax::P_HI] = (rest >> 8) as u32;
            row[softmax::P_LO] = (rest & 0xff) as u32;
            let high = i64::from(exp) * i64::from(recip >> softmax::LIMB_BITS);
            row[softmax::P_DELTA] = felt(high - (p << (shift - softmax::LIMB_BITS)) + softmax::P_OFFSET);
            [score.excess, 0, 0, 0, 0, 0]
        })
    }

    fn softmax(&self) -> (Vec<Column>, Vec<Clip>) {
        let (text, config) = (self.shape.rows, &self.shape.config);
        build(
            self,
            Part::SOFTMAX,
            (|[_, _, i]| i, &[(softmax::SUM_LO, 1)]),
            |[l, h, i], row| {
                let Some(layer) = self.witness.layers.get(l).filter(|_| h < config.heads) else {
                    // Padding is in the tables, as a row of one key is.
                    let alone = 1 << PROB_BITS;
                    row[softmax::SUM_HI..].copy_from_slice(&division(alone, reciprocal(alone)));
                    return [0; 6];
                };
                let line = h * text + i;
                let scores = &layer.score[line * text..][config.visible(l, i, text)];
                let ties = scores.iter().filter(|score| **score == layer.max[line]).count();
                row[softmax::MAX] = felt(i64::from(layer.max[line]));
                row[softmax::TIES] = felt(ties as i64 - 1);
                row[softmax::SUM_HI..].copy_from_slice(&division(layer.sum[line], layer.recip[line]));
                [0; 6]
            },
        )
    }
}

/// Adds to the values of every block of one layer, of `size` each, those of all blocks that its queries see: of `reach` before it, or of all.
fn seen_blocks(layer: &mut [K], size: usize, reach: Option<usize>) {
    let own = layer.to_vec();
    let add = |to: &mut [K], from: &[K]| to.iter_mut().zip(from).for_each(|(to, v)| *to += *v);
    let mut sum = zeros(size);
    for (block, values) in own.chunks(size).enumerate() {
        add(&mut sum, values);
        if let Some(late) = reach.and_then(|reach| block.checked_sub(reach + 1)) {
            let late = own[late * size..][..size].iter();
            sum.iter_mut().zip(late).for_each(|(sum, v)| *sum -= *v);
        }
        layer[block * size..][..size].copy_from_slice(&sum);
    }
    if reach.is_none() {
        layer.chunks_mut(size).for_each(|values| values.copy_from_slice(&sum));
    }
}

impl Factors<'_> {
    /// Queries or keys of every block of tokens, each block bound at the coordinates within it: (layer, block, head, half,
    /// index).
    fn blocks(
        &self,
        part: Part,
        columns: impl Fn(usize) -> Vec<(usize, K)>,
        point: &[K],
    ) -> Result<Vec<K>, DeviceError> {
        let size = 1usize << self.public.shape.padded.half;
        let within = eq_table(suffix(point, self.public.shape.block()));
        let [first, second] = [0, 1].map(|half| self.bound_with(part, &columns(half), 1, &within));
        let (first, second) = (first?, second?);
        let halves = first.chunks(size).zip(second.chunks(size));
        Ok(halves.flat_map(|(a, b)| [a, b].concat()).collect())
    }

    /// (layer, block, ..) to (layer, head, block, ..), of `heads` heads.
    fn turned(&self, table: &[K], heads: usize, size: usize) -> Vec<K> {
        let blocks = 1usize << self.public.shape.blocks();
        let layers = table.chunks(blocks * heads * size);
        let head = |layer, h| (0..blocks).map(move |b| (layer, b * heads + h));
        let places = layers.flat_map(|layer| (0..heads).flat_map(move |h| head(layer, h)));
        let own = |(layer, at): (&[K], usize)| layer[at * size..][..size].to_vec();
        places.flat_map(own).collect()
    }

    fn scores(&self) -> Result<(Vec<K>, Vec<K>), DeviceError> {
        let (shape, points) = (self.public.shape, self.public.points);
        let p = &shape.padded;
        let (size, blocks) = (1usize << p.head_dim(), 1usize << shape.blocks());
        let (layers, heads) = (points.layer_weights(shape.config.layers), eq_table(&points.head));
        let felt = |v: u32| K::from(BaseField::from_u32_unchecked(v));
        let of = |part: Part, half: usize| shape.rope(part).after(half);
        let mut queries = self.blocks(Part::Q, |half| vec![(of(Part::Q, half), felt(1))], &points.token)?;
        let limbs = |at: usize| vec![(at, felt(1)), (at + 1, points.limb)];
        let mut keys = self.blocks(Part::K, |half| limbs(of(Part::K, half)), &points.key)?;
        let [query, key] = [&points.token, &points.key].map(|point| eq_table(&point[..shape.blocks() as usize]));
        // Each block with its weight; the keys of all blocks that its queries see are added up.
        let own = (size << p.heads, size << p.kv_heads);
        for (values, w) in queries.chunks_mut(own.0).zip(query.iter().cycle()) {
            values.iter_mut().for_each(|v| *v *= *w);
        }
        for (l, layer) in keys.chunks_mut(own.1 * blocks).enumerate() {
            for (values, w) in layer.chunks_mut(own.1).zip(&key) {
                values.iter_mut().for_each(|v| *v *= *w);
            }
            // Blocks behind the text have no pairs.
            layer[own.1 * shape.text_blocks()..].fill(K::zero());
            if let Some(kind) = shape.kind_of(l) {
                seen_blocks(&mut layer[..own.1 * shape.text_blocks()], own.1, kind.pairs.reach());
            }
        }
        let queries = self.turned(&queries, 1 << p.heads, size);
        let keys = self.turned(&keys, 1 << p.kv_heads, size);
        let weight = points.score_weight();
        let kv = |h: usize| shape.config.kv_head(h);
        let block = size * blocks;
        Ok((
            self.spread(&queries, p.heads, block, |h| h, Some((&layers, &heads)), felt(1)),
            self.spread(&keys, p.kv_heads, block, kv, None, weight),
        ))
    }

    /// A column of the scores, times a factor, bound at a point of queries: (layer, head, key); or at one of keys: (layer, head,
    /// query). `axis` is that of what is bound, in its block.
    pub(super) fn pairs(&self, column: (usize, K), axis: usize, point: &[K]) -> Result<Vec<K>, DeviceError> {
        let shape = self.public.shape;
        let (block, tokens, p) = (1usize << shape.block(), 1usize << shape.token, &shape.padded);
        let (blocks, within) = point.split_at(shape.blocks() as usize);
        let blocks = eq_table(blocks);
        let of_layer = tokens << p.heads;
        let mut all = zeros(of_layer << p.layers);
        for Kind { part, layers, pairs } in shape.kinds() {
            // (layer of the kind, head, pair, what is left in its block).
            let of_pairs = self.bound(part, &[column], axis, within)?;
            let pairs: Vec<_> = pairs.iter().collect();
            let line = |(line, sums): (&[K], &mut [K])| {
                for ((query, key), values) in pairs.iter().zip(line.chunks(block)) {
                    let (bound, left) = if axis == QUERIES { (query, key) } else { (key, query) };
                    let own = sums[left * block..].iter_mut().zip(values);
                    own.for_each(|(sum, v)| *sum += blocks[*bound] * *v);
                }
            };
            let length = block << shape.full_axes(part)[2];
            for (at, l) in layers.into_iter().enumerate() {
                let own = of_pairs[(at * length) << p.heads..].par_chunks(length);
                let to = all[l * of_layer..][..of_layer].par_chunks_mut(tokens);
                own.zip(to).for_each(line);
            }
        }
        Ok(all)
    }

    /// Reciprocals of softmax, each times its weight among the accumulators, and what they multiply.
    fn reciprocals(&self) -> Result<(Vec<K>, Vec<K>), DeviceError> {
        let (shape, points) = (self.public.shape, self.public.points);
        let (p, tokens) = (&shape.padded, eq_table(&points.token));
        let mut heads = self.public.head_weights();
        heads.resize(1 << p.heads, K::zero());
        let layers = points.layer_weights(shape.config.layers);
        let pair = |hi: usize, lo: usize| {
            let [hi, lo] = self.wholes(Part::SOFTMAX, [hi, lo])?;
            let both = hi.into_iter().zip(lo);
            Ok(both.map(|(hi, lo)| points.limb * lo + hi).collect::<Vec<K>>())
        };
        let reciprocals = pair(softmax::RECIP_HI, softmax::RECIP_LO)?;
        let sums = pair(softmax::SUM_HI, softmax::SUM_LO)?;
        let weight = points.probability_weight();
        let mut factors = self.pairs((softmax::EXP, weight), KEYS, &points.key)?;
        let size = 1usize << Product::RECIPROCAL.variables(shape);
        let (mut weighted, real) = (zeros(size), shape.config.layers * heads.len() * tokens.len());
        let weight = points.reciprocal_weight();
        factors[..real]
            .iter_mut()
            .zip(&sums)
            .for_each(|(f, sum)| *f += weight * *sum);
        let rows = weighted[..real]
            .chunks_mut(tokens.len())
            .zip(reciprocals.chunks(tokens.len()));
        for (row, (to, from)) in rows.enumerate() {
            let factor = layers[row / heads.len()] * heads[row % heads.len()];
            let values = to.iter_mut().zip(from).zip(&tokens);
            values.for_each(|((to, v), token)| *to = factor * *token * *v);
        }
        Ok((weighted, factors))
    }
}
