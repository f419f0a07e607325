//! The seam between a proof and the processor that does its heavy work (docs/architecture.md, "Devices").
//!
//! A phase owns the transcript: it sends the messages that a device returns, and gives the device the challenges that come
//! back. A device never sees the transcript. It holds the columns of a chunk and whatever is made of them, under handles; each
//! method is a whole step (a message, a binding, a layer of a tree, a pass over the weights) and may fail, because memory can run
//! out and hardware can break. All arithmetic is exact, so every device makes the same proof.

use std::iter::successors;
use std::ops::Range;

use num_traits::One;
use rayon::prelude::*;
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::lookups::Relation;
use tessera_circuits::air::tables::{LookupTables, LOG_ROWS};
use tessera_circuits::air::Relations;
use tessera_circuits::shape::Part;
use tessera_circuits::table_tree::TableTree;
use tessera_circuits::trees::LookupTree;
use tessera_model::forward::Linear;
use tessera_model::passes::Traffic;
use tessera_model::tiles::TileSource;
use tessera_verifier::opening::CommitmentParams;
use tessera_verifier::suite::Suite;

pub use tessera_kernels::device::DeviceError;

use crate::column::Column;
use crate::field::{pack, unpack, Packed, SIMD_LANES};
use crate::hiding::Secrets;
use crate::opening::{Codeword, Committed, OpeningProverError};

type K = SecureField;

/// A processor that does the heavy steps of a proof.
pub trait Device: Send + Sync {
    /// The part of the device that multiplies by the matrices of the forward pass.
    fn linear(&self) -> &dyn Linear;

    /// Takes the columns of a chunk, by part. They lie where the device works until the handle is dropped.
    fn columns(&self, cells: Vec<Vec<Column>>) -> Result<Box<dyn Columns + '_>, DeviceError>;

    /// Takes pairs of tables of equal length, whose products a sumcheck adds up.
    fn products(&self, pairs: Vec<(Table, Table)>) -> Result<Box<dyn Products + '_>, DeviceError>;

    /// Reads the tiles once and sums every band: `t_B(x) = sum_(d, y) B(d, x, y) eq(point, (d, y))`, where `x` is the lane and
    /// `d` the tile in the band. A point of six coordinates has bands of one tile, and each further coordinate doubles them.
    /// [`Bands::into_committed`] will need `room` bytes for the message of the opened columns.
    fn bands(
        &self,
        tiles: &dyn TileSource,
        point: &[K],
        room: usize,
    ) -> Result<(Box<dyn Bands + '_>, Traffic), DeviceError>;
}

/// A column of a chunk: its part, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnId {
    /// The part whose rows the column has.
    pub part: Part,
    /// The number of the column in its part.
    pub index: usize,
}

/// Weights of the entries along an axis.
#[derive(Clone, Copy, Debug)]
pub enum Weights<'a> {
    /// The weight of every entry.
    All(&'a [K]),
    /// The weights that are not zero, each with the number of its entry, ascending, on an axis of `length` entries.
    Some {
        /// Numbers of entries with their weights.
        entries: &'a [(usize, K)],
        /// Entries of the axis.
        length: usize,
    },
}

/// The columns of a chunk on a device.
pub trait Columns: Send + Sync {
    /// Reads the cells of a column.
    fn read(&self, column: ColumnId) -> Result<Vec<BaseField>, DeviceError>;

    /// Gives away the cells of some columns.
    fn take(self: Box<Self>, columns: &[ColumnId]) -> Result<Vec<Column>, DeviceError> {
        columns.iter().map(|own| Ok(Column::from(self.read(*own)?))).collect()
    }

    /// Counts how often the lookups of these trees use each row of the table of each relation.
    fn count(&self, relations: &[Relation], trees: &[LookupTree]) -> Result<Vec<Vec<BaseField>>, DeviceError>;

    /// `out[o][i] = sum_terms factor * sum_m weights[m] column[o][m][i]`, for columns laid out as `[outer][weights][inner]`.
    fn bind(&self, terms: &[(ColumnId, K)], weights: Weights<'_>, axes: [usize; 2]) -> Result<Vec<K>, DeviceError>;

    /// Binds the first `point.len()` variables of each column: `out[z] = sum_m eq(point, m) column[m][z]`.
    fn bind_leading(&self, columns: &[ColumnId], point: &[K]) -> Result<Vec<Vec<K>>, DeviceError>;

    /// Binds the last `point.len()` variables of each column, one column after the other:
    /// `out[z] = sum_m column[z][m] eq(point, m)`.
    fn bind_trailing(&self, columns: &[ColumnId], point: &[K]) -> Result<Vec<K>, DeviceError>;

    /// Takes the columns of a part more, which were made of the others.
    fn add(&mut self, part: Part, cells: Vec<Column>) -> Result<(), DeviceError>;

    /// Prepares the trees of lookups in these columns, and behind them the one of the tables, if there is one.
    fn layers<'a>(
        &'a self,
        trees: &[LookupTree],
        entries: Option<&Entries<'_>>,
        relations: &Relations,
    ) -> Result<Box<dyn Layers + 'a>, DeviceError>;

    /// Commits to these columns, one after the other, cut in units, which secrets put in their places among others.
    fn commit<'a>(
        &'a self,
        suite: Suite,
        columns: Vec<ColumnId>,
        params: CommitmentParams,
        secrets: Option<&'a Secrets>,
    ) -> Result<Box<dyn Committed + 'a>, DeviceError>;
}

/// What the tree of the tables is made of, beside the columns of [`Part::COUNTS`].
#[derive(Clone, Copy, Debug)]
pub struct Entries<'a> {
    /// Where its planes are.
    pub tree: &'a TableTree,
    /// The tuples.
    pub tables: &'a LookupTables,
    /// The weight of the balance groups.
    pub weight: Option<K>,
}

impl Entries<'_> {
    /// The leaves without padding, numerators and denominators, of these counts and challenges. `counts` has the cell of a column in a row.
    pub fn leaves(&self, relations: &Relations, counts: impl Fn(usize, usize) -> BaseField + Sync) -> [Vec<K>; 2] {
        let weight = self.weight.unwrap_or_else(K::one);
        let powers: Vec<K> = successors(Some(K::one()), |power| Some(*power * weight))
            .take(self.tree.balances)
            .collect();
        let planes = self.tree.relations.par_iter().enumerate().map(|(plane, relation)| {
            let numerator = |row: usize| {
                let columns = powers.iter().enumerate();
                -columns
                    .map(|(balance, power)| *power * counts(self.tree.column(balance, plane), row))
                    .sum::<K>()
            };
            let numerators: Vec<K> = (0..1 << LOG_ROWS).map(numerator).collect();
            (numerators, tuples(relations, *relation, self.tables))
        });
        let (numerators, denominators): (Vec<_>, Vec<_>) = planes.unzip();
        [numerators.concat(), denominators.concat()]
    }
}

/// What the tuples of a relation stand for, row by row.
pub fn tuples(relations: &Relations, relation: Relation, tables: &LookupTables) -> Vec<K> {
    let values = tables.of(relation);
    let [z, alpha] = relations.challenges(relation);
    let powers = successors(Some(K::one()), |power| Some(*power * alpha));
    let terms: Vec<_> = values.iter().zip(powers).collect();
    let tuple = |row: usize| terms.iter().fold(-z, |sum, (values, power)| sum + *power * values[row]);
    (0..1 << LOG_ROWS).map(tuple).collect()
}

/// A sumcheck on a device, one variable after the other, the most significant one first.
pub trait Rounds: Send + Sync {
    /// The message of the first variable; zero if there is none.
    fn message(&self) -> Result<[K; 2], DeviceError>;

    /// Binds the next variable, and returns the message of the one behind it; zero if there is none.
    fn bind(&mut self, challenge: K) -> Result<[K; 2], DeviceError>;

    /// The values that are left when all variables are bound.
    fn finish(&self) -> Result<Vec<K>, DeviceError>;
}

/// The rounds of `sum_z sum_pairs A(z) B(z)`: a message is `[s(0), s(2)]`, and what is left is `A, B` of every pair.
pub trait Products: Rounds {
    /// The sum itself, before any variable is bound.
    fn value(&self) -> Result<K, DeviceError>;
}

/// Trees of fractions of lookups on a device: one group at a time, from the roots to the leaves.
pub trait Layers: Send {
    /// Builds consecutive trees, in the place of those before; returns numerator and denominator of each root.
    fn roots(&mut self, trees: Range<usize>) -> Result<Vec<[K; 2]>, DeviceError>;

    /// The rounds from the layer of `2^point.len()` nodes of some of the trees that are built to the one below it: `sum_x eq(point, x)
    /// sum_a lambda^(2 a) (n0 d1 + d0 n1 + lambda d0 d1)`, where each node `n, d` of tree `trees[a]` is the sum of the fractions `n0, d0`
    /// and `n1, d1`. The factor `eq` is taken out of each round, so that a message is `[q(0), leading coefficient]`; what is left is
    /// `n0, d0, n1, d1` of each of these trees. Each layer can be proved once, in this order, and `lambda` is not zero.
    fn layer<'a>(&'a mut self, trees: &[usize], point: &'a [K], lambda: K)
        -> Result<Box<dyn Rounds + 'a>, DeviceError>;
}

/// Sums of the bands of weights on a device, sixty-four for each band.
pub trait Bands: Send + Sync {
    /// Adds up rows of bands, each band times its factor: the sums of the first row, then those of the next.
    fn rows(&self, bands: Range<usize>, factors: &[K]) -> Result<Vec<K>, DeviceError>;

    /// `B~(d, point, y)` of every band.
    fn values(&self, point: &[K]) -> Result<Vec<K>, DeviceError>;

    /// Makes the weights ready to be opened, in place of their sums: all tiles of `source`, which were committed to with this
    /// codeword.
    fn into_committed<'a>(
        self: Box<Self>,
        source: &'a dyn TileSource,
        codeword: &'a Codeword,
    ) -> Result<Box<dyn Committed + 'a>, OpeningProverError>
    where
        Self: 'a;
}

/// A table of a product, as the host has made it.
#[derive(Clone, Debug)]
pub enum Table {
    /// Entry by entry.
    Entries(Vec<K>),
    /// Sixteen entries each.
    Packs(Vec<Packed>),
    /// Packs of a table whose first `lead` variables name slices. The host has made the beginning of each slice; the rest of its `slice`
    /// packs is zero. For example, a slice is a layer, and its beginning has the rows of the text.
    Beginnings {
        /// As many packs of each slice.
        packs: Vec<Packed>,
        /// Number of variables of the slices.
        lead: u32,
        /// Packs of a whole slice.
        slice: usize,
    },
}

impl From<Vec<K>> for Table {
    fn from(entries: Vec<K>) -> Self {
        Self::Entries(entries)
    }
}

impl Table {
    /// Number of entries.
    pub fn entry_count(&self) -> usize {
        match self {
            Self::Entries(entries) => entries.len(),
            Self::Packs(packs) => packs.len() * SIMD_LANES,
            Self::Beginnings { lead, slice, .. } => (slice << lead) * SIMD_LANES,
        }
    }

    /// The entries one by one.
    pub fn into_entries(self) -> Vec<K> {
        match self {
            Self::Entries(entries) => entries,
            own => unpack(&own.into_packs()),
        }
    }

    /// The entries sixteen by sixteen, as many as fill a pack.
    pub fn into_packs(self) -> Vec<Packed> {
        match self {
            Self::Entries(entries) => pack(&entries),
            Self::Packs(packs) => packs,
            Self::Beginnings { packs, lead, slice } => {
                let mut all = Packed::zeros(slice << lead).into_vec();
                let slices = all.chunks_mut(slice).zip(packs.chunks(packs.len() >> lead));
                slices.for_each(|(to, from)| to[..from.len()].copy_from_slice(from));
                all
            }
        }
    }
}
