//! Weights of rows, axis by axis.

use stwo::core::fields::qm31::SecureField;

use super::lazy::Lazy;
use super::values::Values;
use crate::band::Band;
use crate::mle::{eq_table, index_eq};
use crate::scalar::{Corner, Scalar, Word};
use crate::text::TextEnd;

/// Weights along one axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Weight<K = SecureField> {
    /// `eq(point, .)`
    Eq(Vec<K>),
    /// `eq(point, .)` on the rows of the text, zero behind it, over `2^k` token rows that have its last one.
    Text(Vec<K>, TextEnd),
    /// An explicit vector, of power-of-two length.
    Dense(Values<K>),
    /// A vector that a list of the key makes of another one.
    Lazy(Lazy<K>),
    /// All ones, over `2^log` entries.
    Ones(u32),
    /// These entries of `2^log`, ascending, zero elsewhere. Lanes without an entry have no group.
    Sparse(u32, Vec<(usize, K)>),
    /// `eq(row, i) eq(key, j)` on the pairs of a band, zero elsewhere, over the queries `i` and the keys `j` of a pair of blocks of tokens, which
    /// are two axes of equal length. With the end of the text, the block of the queries is its last one, and the weight is zero where `i` is
    /// behind the text.
    Open(Vec<K>, Vec<K>, Band, Option<TextEnd>),
}

impl<K: Scalar> Weight<K> {
    /// An explicit vector, of power-of-two length.
    pub fn dense(values: Vec<K>) -> Self {
        Self::Dense(values.into())
    }

    /// A vector that a list of the key makes of another one. Symbols have all of it, as a plan is what is calculated once.
    pub fn made(lazy: Lazy<K>) -> Self {
        match K::SYMBOLIC {
            true => Self::dense(lazy.table()),
            false => Self::Lazy(lazy),
        }
    }

    /// `eq(point, .)` on the rows of the text.
    pub fn text(point: &[K], end: TextEnd) -> Self {
        match end.is_whole::<K>(point.len()) {
            true => Self::Eq(point.to_vec()),
            false => Self::Text(point.to_vec(), end),
        }
    }

    /// `eq(word, .)` over `2^log` entries.
    pub fn one_at(log: u32, word: Word) -> Self {
        match K::corner(log, word) {
            Corner::Index(index) => Self::Sparse(log, vec![(index, K::one())]),
            Corner::Point(point) => Self::Eq(point),
        }
    }

    /// One at an entry of `2^log`, zero elsewhere.
    pub fn single(log: u32, at: usize) -> Self {
        Self::Sparse(log, vec![(at, K::one())])
    }

    /// log2 of the length.
    pub fn log_len(&self) -> u32 {
        match self {
            Self::Eq(point) | Self::Text(point, _) => point.len() as u32,
            Self::Dense(values) => values.len().next_power_of_two().trailing_zeros(),
            Self::Lazy(lazy) => lazy.weights().len().next_power_of_two().trailing_zeros(),
            Self::Ones(log) | Self::Sparse(log, _) => *log,
            Self::Open(row, key, ..) => (row.len() + key.len()) as u32,
        }
    }

    /// All weights.
    pub fn table(&self) -> Vec<K> {
        match self {
            Self::Eq(point) => eq_table(point),
            Self::Text(point, end) => end.cut(eq_table(point)),
            Self::Dense(values) => values.to_vec(),
            Self::Lazy(lazy) => lazy.table(),
            Self::Ones(log) => vec![K::one(); 1 << log],
            Self::Sparse(log, entries) => {
                let mut table = vec![K::zero(); 1 << log];
                for (i, value) in entries {
                    if let Some(own) = table.get_mut(*i) {
                        *own = *value;
                    }
                }
                table
            }
            Self::Open(row, key, band, end) => {
                let keys = eq_table(key);
                let rows = eq_table(row);
                let rows = end.map_or(rows.clone(), |end| end.cut(rows)).into_iter().enumerate();
                let of_row = |(i, w): (usize, K)| {
                    let open = move |j: usize, v: K| if band.has(i, j) { w * v } else { K::zero() };
                    keys.iter()
                        .enumerate()
                        .map(move |(j, v)| open(j, *v))
                        .collect::<Vec<_>>()
                };
                rows.flat_map(of_row).collect()
            }
        }
    }

    /// One weight.
    pub fn at(&self, index: usize) -> K {
        match self {
            Self::Eq(point) => index_eq(index, point),
            Self::Text(point, end) => match end.has(index, point.len()) {
                true => index_eq(index, point),
                false => K::zero(),
            },
            Self::Dense(values) => values.get(index).copied().unwrap_or_default(),
            Self::Lazy(lazy) => lazy.at(index),
            Self::Ones(_) => K::one(),
            Self::Sparse(_, entries) => {
                let own = entries.binary_search_by_key(&index, |(i, _)| *i).ok();
                own.and_then(|at| entries.get(at))
                    .map_or(K::zero(), |(_, value)| *value)
            }
            Self::Open(row, key, band, end) => {
                let (i, j) = (index >> key.len(), index & ((1 << key.len()) - 1));
                match band.has(i, j) && end.is_none_or(|end| end.has(i, row.len())) {
                    true => index_eq(i, row) * index_eq(j, key),
                    false => K::zero(),
                }
            }
        }
    }
}

/// A tensor product: one weight per axis of a part, or for an axis and those after it together.
pub type Tensor<K = SecureField> = Vec<Weight<K>>;
