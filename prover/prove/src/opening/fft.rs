//! Encoding in the circle code: evaluation of circle FFT coefficients on the canonic circle domain, or on
//! the line domain after the first fold, in bit-reversed order.
//!
//! Three layers at a time, depth first: the passes over memory are a third of the layers, and what fits a
//! cache is finished there.

use std::ops::{Add, Mul, Sub};
use std::simd::i16x16;

use num_traits::One;
use rayon::prelude::*;
use stwo::core::circle::{CirclePoint, Coset};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;

use super::packed::Packed;
use crate::field;

/// Values are transformed on one thread below this length.
const SEQUENTIAL: usize = 1 << 13;
/// Blocks of this length are transformed layer by layer.
const CACHED: usize = 1 << 9;
/// Values of a block that are put together in the cache.
const PIECE: usize = 1 << 8;
/// Elements of the extension field in a vector.
const QUAD: usize = 4;
/// log2 of the elements of the base field in a vector.
const LOG_VECTOR: u32 = 4;

/// What the transform works on: a field element or a vector of them.
pub trait Value: Copy + Send + Sync + Add<Output = Self> + Sub<Output = Self> + Mul<BaseField, Output = Self> {}
impl<T> Value for T where T: Copy + Send + Sync + Add<Output = T> + Sub<Output = T> + Mul<BaseField, Output = T> {}

/// Coefficients of sixteen messages.
pub trait Coefficients: Copy + Send + Sync {
    /// As elements of the field.
    fn packed(self) -> Packed;
}

impl Coefficients for i16x16 {
    #[inline(always)]
    fn packed(self) -> Packed {
        Packed::from_weights(self)
    }
}

impl Coefficients for Packed {
    #[inline(always)]
    fn packed(self) -> Packed {
        self
    }
}

/// Twiddle factors of a circle code.
pub struct Twiddles {
    log_blowup: u32,
    /// Entry 0 has the `y` of the fibres of the circle domain, entry `i` the `x` of the first points of
    /// the pairs of the line domain after `i` folds.
    layers: Vec<Vec<BaseField>>,
}

impl Twiddles {
    /// Twiddles for messages of `2^log_message` values, evaluated on `2^(log_message + log_blowup)` points.
    pub fn new(log_message: u32, log_blowup: u32) -> Self {
        let points = bit_reversed_points(log_message + log_blowup - 1);
        let mut layers = vec![points.par_iter().map(|p| p.y).collect()];
        let mut line: Vec<_> = points.into_par_iter().map(|p| p.x).collect();
        for _ in 1..log_message {
            let layer: Vec<_> = line.par_iter().step_by(2).copied().collect();
            line = layer.par_iter().copied().map(CirclePoint::double_x).collect();
            layers.push(layer);
        }
        Self { log_blowup, layers }
    }

    /// Codeword of a message after `folds` folds (`2^(log_message - folds)` coefficients).
    pub fn encode<T: Value>(&self, message: &[T], folds: u32) -> Vec<T> {
        let layers = &self.layers[folds as usize..];
        assert_eq!(message.len(), 1 << layers.len(), "message length");
        let mut codeword = message.repeat(1 << self.log_blowup);
        let blocks = codeword.par_chunks_mut(message.len()).enumerate();
        blocks.for_each(|(block, values)| transform(values, block, layers, Wanted::All));
        codeword
    }

    /// As [`Self::encode`]: an element of the extension is four of the base field to the transform, and four
    /// elements a vector, until the neighbours in a vector meet.
    pub fn encode_secure(&self, message: &[SecureField], folds: u32) -> Vec<SecureField> {
        let layers = &self.layers[folds as usize..];
        assert_eq!(message.len(), 1 << layers.len(), "message length");
        if message.len() < QUAD {
            return self.encode(message, folds);
        }
        let (last, first) = layers.split_at(QUAD.ilog2() as usize);
        let length = message.len() / QUAD;
        let mut codeword: Vec<Packed> = Vec::with_capacity(length << self.log_blowup);
        message.par_chunks_exact(QUAD).map(pack).collect_into_vec(&mut codeword);
        for _ in 1..1 << self.log_blowup {
            codeword.extend_from_within(..length);
        }
        let blocks = codeword.par_chunks_mut(length).enumerate();
        blocks.for_each(|(block, values)| transform(values, block, first, Wanted::All));
        let mut values = field::zeros(message.len() << self.log_blowup);
        let quads = values.par_chunks_exact_mut(QUAD).zip(codeword).enumerate();
        quads
            .with_min_len(SEQUENTIAL / QUAD)
            .for_each(|(block, (quad, packed))| {
                unpack(packed, quad);
                layer_by_layer(quad, block, last);
            });
        values
    }

    /// What the coefficients with bit `first`, `first + 1` and so on are multiplied with in block `block` of `2^first` values
    /// of the codeword.
    pub fn factors(&self, block: usize, first: u32) -> Vec<BaseField> {
        let layers = self.layers[first as usize..].iter().enumerate();
        let factor = |(i, layer): (usize, &Vec<BaseField>)| match (layer[block >> (i + 1)], block >> i & 1) {
            (twiddle, 0) => twiddle,
            (twiddle, _) => -twiddle,
        };
        layers.map(factor).collect()
    }

    /// Block `block` of the codeword, from sums of the coefficients with the [factors](Self::factors) of all bits that do
    /// not count values of the block.
    pub fn last_layers(&self, values: &mut [BaseField], block: usize) {
        transform(
            values,
            block,
            &self.layers[..values.len().ilog2() as usize],
            Wanted::All,
        );
    }

    /// The first layers of block `block` of the codeword of one message, whose coefficients are sixteen to a vector: those before
    /// neighbours in a vector meet, for which there is [`Self::last_layers`].
    pub fn first_layers(&self, vectors: &mut [Packed], block: usize, wanted: Wanted<'_>) {
        let layers = &self.layers[LOG_VECTOR as usize..];
        assert_eq!(vectors.len(), 1 << layers.len(), "vectors of a message");
        transform(vectors, block, layers, wanted.in_vectors());
    }

    /// Writes block `block` of the codeword of a message to `values`: the codeword is
    /// `2^log_blowup` blocks of the length of the message, or more blocks that are shorter by a power of two. The
    /// shorter the blocks, the less memory and the more work: of the layers that cut the message in as many parts as
    /// it has blocks, only what belongs to this block is computed. Values that are not wanted are any.
    pub fn encode_block<M: Coefficients>(
        &self,
        message: &[M],
        values: &mut [Packed],
        block: usize,
        wanted: Wanted<'_>,
    ) {
        assert_eq!(message.len(), 1 << self.layers.len(), "message length");
        let split = (message.len() / values.len()).ilog2() as usize;
        assert_eq!(values.len() << split, message.len(), "length of a block");
        if !wanted.is_in(block, values.len()) {
            return;
        }
        if split == 0 && message.len() > SEQUENTIAL {
            return self.encode_coset(message, values, block, wanted);
        }
        let (rest, first) = self.layers.split_at(self.layers.len() - split);
        // A part of the message is multiplied with one twiddle, or its negative, for every bit of its index.
        let factors = (0..1usize << split).map(|part| {
            let layers = first.iter().rev().enumerate();
            layers.fold(BaseField::one(), |factor, (depth, layer)| {
                let parent = block >> (split - depth);
                match (part >> (split - depth - 1) & 1, block >> (split - depth - 1) & 1) {
                    (0, _) => factor,
                    (_, 0) => factor * layer[parent],
                    _ => -factor * layer[parent],
                }
            })
        });
        let factors: Vec<BaseField> = factors.collect();
        let length = values.len();
        let pieces = values
            .par_chunks_mut(PIECE)
            .enumerate()
            .with_min_len(SEQUENTIAL / PIECE);
        pieces.for_each(|(i, values)| {
            let part = |part: usize| &message[part * length + i * PIECE..];
            for (value, weights) in values.iter_mut().zip(part(0)) {
                *value = weights.packed();
            }
            for (k, &factor) in factors.iter().enumerate().skip(1) {
                for (value, weights) in values.iter_mut().zip(part(k)) {
                    *value = *value + weights.packed() * factor;
                }
            }
        });
        transform(values, block, rest, wanted);
    }
}

impl Twiddles {
    /// As [`Self::encode_block`], of a block as long as the message: the first three layers are made of the message, so that the block is
    /// passed once less.
    fn encode_coset<M: Coefficients>(&self, message: &[M], values: &mut [Packed], block: usize, wanted: Wanted<'_>) {
        let [rest @ .., c, b, a] = &self.layers[..] else {
            unreachable!("layers of a long message");
        };
        let (twiddles, eighth) = (Radix8::new(block, a, b, c), message.len() / 8);
        let piece = (eighth / 16).max(CACHED / 8);
        let [v0, v1, v2, v3, v4, v5, v6, v7] = eighths(values).map(|v| v.par_chunks_mut(piece));
        let pieces = (v0, v1, v2, v3, v4, v5, v6, v7).into_par_iter().enumerate();
        pieces.for_each(|(i, (v0, v1, v2, v3, v4, v5, v6, v7))| {
            let from: [&[M]; 8] = std::array::from_fn(|k| &message[k * eighth + i * piece..][..v0.len()]);
            twiddles.apply_to([v0, v1, v2, v3, v4, v5, v6, v7], |k, i| from[k][i].packed());
        });
        let eighths = values.par_chunks_exact_mut(eighth).enumerate();
        eighths.for_each(|(i, values)| transform(values, 8 * block + i, rest, wanted));
    }
}

/// The points of the half coset of `2^log` points in bit-reversed order.
fn bit_reversed_points(log: u32) -> Vec<CirclePoint<BaseField>> {
    let coset = Coset::half_odds(log);
    let mut points = Vec::with_capacity(1 << log);
    points.push(coset.at(0));
    // Bit `i` of the reversed index is bit `log - 1 - i` of the index.
    for i in 0..log {
        let step = coset.step.repeated_double(log - 1 - i);
        let more: Vec<_> = points.par_iter().map(|&p| p + step).collect();
        points.extend(more);
    }
    points
}

fn pack(quad: &[SecureField]) -> Packed {
    let coordinates = |i: usize| quad[i / QUAD].to_m31_array()[i % QUAD];
    Packed::from_array(std::array::from_fn(coordinates))
}

fn unpack(packed: Packed, quad: &mut [SecureField]) {
    for (value, coordinates) in quad.iter_mut().zip(packed.to_array().as_chunks::<QUAD>().0) {
        *value = SecureField::from_m31_array(*coordinates);
    }
}

/// What of a codeword is wanted.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    All,
    /// The parts of so many values, a power of two, with these numbers, increasing.
    Parts(usize, &'a [usize]),
}

impl Wanted<'_> {
    /// The same of values that are sixteen to a vector, or more.
    fn in_vectors(self) -> Self {
        match self {
            Self::Parts(size, parts) if size >= 1 << LOG_VECTOR => Self::Parts(size >> LOG_VECTOR, parts),
            _ => Self::All,
        }
    }

    /// Whether block `block` of `len` values has some of it.
    pub fn is_in(self, block: usize, len: usize) -> bool {
        match self {
            Self::All => true,
            Self::Parts(size, parts) => {
                let next = parts.partition_point(|part| (part + 1) * size <= block * len);
                parts.get(next).is_some_and(|part| part * size < (block + 1) * len)
            }
        }
    }
}

/// Transforms block `block` of `2^layers.len()` values, most significant coefficient bit first, as far as it is wanted.
fn transform<T: Value>(values: &mut [T], block: usize, layers: &[Vec<BaseField>], wanted: Wanted<'_>) {
    if !wanted.is_in(block, values.len()) {
        return;
    }
    let [rest @ .., c, b, a] = layers else {
        return layer_by_layer(values, block, layers);
    };
    if values.len() <= CACHED {
        return layer_by_layer(values, block, layers);
    }
    let twiddles = Radix8::new(block, a, b, c);
    let eighth = values.len() / 8;
    if values.len() <= SEQUENTIAL {
        twiddles.apply(eighths(values));
        for (i, values) in values.chunks_exact_mut(eighth).enumerate() {
            transform(values, 8 * block + i, rest, wanted);
        }
        return;
    }
    let piece = (eighth / 16).max(CACHED / 8);
    let [v0, v1, v2, v3, v4, v5, v6, v7] = eighths(values).map(|v| v.par_chunks_mut(piece));
    let pieces = (v0, v1, v2, v3, v4, v5, v6, v7).into_par_iter();
    pieces.for_each(|(v0, v1, v2, v3, v4, v5, v6, v7)| twiddles.apply([v0, v1, v2, v3, v4, v5, v6, v7]));
    let eighths = values.par_chunks_exact_mut(eighth).enumerate();
    eighths.for_each(|(i, values)| transform(values, 8 * block + i, rest, wanted));
}

/// As [`transform`], one pass for three layers, then one for every layer that is left.
fn layer_by_layer<T: Value>(values: &mut [T], block: usize, layers: &[Vec<BaseField>]) {
    let mut left = layers;
    while let [rest @ .., c, b, a] = left {
        let first = block << (layers.len() - left.len());
        let blocks = values.chunks_exact_mut(1 << left.len()).enumerate();
        blocks.for_each(|(i, values)| Radix8::new(first + i, a, b, c).apply(eighths(values)));
        left = rest;
    }
    while let [rest @ .., layer] = left {
        let first = block << (layers.len() - left.len());
        let blocks = values.chunks_exact_mut(1 << left.len()).zip(&layer[first..]);
        for (values, &twiddle) in blocks {
            let (low, high) = values.split_at_mut(values.len() / 2);
            for (a, b) in low.iter_mut().zip(high) {
                butterfly(a, b, twiddle);
            }
        }
        left = rest;
    }
}

/// The eight parts of a slice of a multiple of eight values.
fn eighths<T>(values: &mut [T]) -> [&mut [T]; 8] {
    let mut parts = values.chunks_exact_mut(values.len() / 8);
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

/// Twiddles of three layers of one block.
struct Radix8 {
    a: BaseField,
    b: [BaseField; 2],
    c: [BaseField; 4],
}

impl Radix8 {
    fn new(block: usize, a: &[BaseField], b: &[BaseField], c: &[BaseField]) -> Self {
        Self {
            a: a[block],
            b: std::array::from_fn(|i| b[2 * block + i]),
            c: std::array::from_fn(|i| c[4 * block + i]),
        }
    }

    /// Three layers of the eight parts of a block, or of equal pieces of them.
    #[inline(always)]
    fn apply<T: Value>(&self, parts: [&mut [T]; 8]) {
        let len = parts[0].len();
        let mut parts = parts.map(|part| &mut part[..len]);
        (0..len).for_each(|i| {
            let values = self.layers(std::array::from_fn(|k| parts[k][i]));
            for (part, value) in parts.iter_mut().zip(values) {
                part[i] = value;
            }
        });
    }

    /// The same of what `from` says of each part and place, written to the parts.
    #[inline(always)]
    fn apply_to<T: Value>(&self, parts: [&mut [T]; 8], from: impl Fn(usize, usize) -> T) {
        let len = parts[0].len();
        let mut parts = parts.map(|part| &mut part[..len]);
        for i in 0..len {
            let values = self.layers(std::array::from_fn(|k| from(k, i)));
            for (part, value) in parts.iter_mut().zip(values) {
                part[i] = value;
            }
        }
    }

    /// Three layers of a value of each part.
    #[inline(always)]
    fn layers<T: Value>(&self, mut v: [T; 8]) -> [T; 8] {
        for k in 0..4 {
            pair(&mut v, k, k + 4, self.a);
        }
        for k in [0, 1, 4, 5] {
            pair(&mut v, k, k + 2, self.b[k / 4]);
        }
        for k in [0, 2, 4, 6] {
            pair(&mut v, k, k + 1, self.c[k / 2]);
        }
        v
    }
}

#[inline(always)]
fn pair<T: Value>(values: &mut [T; 8], low: usize, high: usize, twiddle: BaseField) {
    let (mut a, mut b) = (values[low], values[high]);
    butterfly(&mut a, &mut b, twiddle);
    (values[low], values[high]) = (a, b);
}

#[inline(always)]
fn butterfly<T: Value>(a: &mut T, b: &mut T, twiddle: BaseField) {
    let product = *b * twiddle;
    (*a, *b) = (*a + product, *a - product);
}
