//! The batch of linear claims (docs/protocol.md, section 7), proved at the cost of a few passes over the columns.
//!
//! A part's share is `sum_z sum_g W_g(z) C_g(z)`, with `C_g` a combination of columns and `W_g` a sum of tensor products.
//! The variables of a row are split at a boundary of axes, `z = (outer, inner)`. With `W_g = sum_v U_v (x) v` over the
//! distinct inner factors `v`, the rounds of the outer variables run on
//!
//! ```text
//! sum_outer U_v(outer) D_v(outer),    D_v(outer) = sum_inner v(inner) C_g(outer, inner)
//! ```
//!
//! and those of the inner variables, the outer ones being bound to `r`, on
//!
//! ```text
//! sum_inner (sum_v U_v~(r) v(inner)) C_g~(r, inner)
//! ```
//!
//! so that no table of extension field elements is as long as a column. The messages are the same as without a split.

use std::collections::HashMap;

use num_traits::{One, Zero};
use rayon::prelude::*;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::claims::{sketch, Batch, Group, Weight};
use tessera_circuits::shape::{Part, Shape};
use tessera_verifier::labels::{CLAIMS, CLAIMS_WORK};

use super::bind::{add_scaled, dot, dot_packed, eq_table};
use super::device::{ColumnId, Columns, Device, DeviceError, Table, Weights};
use super::field::{pack, zeros, Packed, SIMD_LANES};
use super::speak::Speaker;
use super::sumcheck::{self, Instance, Proved, Staged};

type K = SecureField;

/// Time of a product of two extension field elements in those of a base field element and one.
const SECURE_COST: usize = 5;
/// What a row's sum costs beside its products.
const ROW_COST: usize = 12;
/// The most distinct weights of an axis that columns are summed along first.
const MOST_SHARED: usize = 128;
/// An inner factor with fewer entries than this part of its length is walked entry by entry.
const SPARSE: usize = 8;

/// Proves the batch, up to a claim on the columns at its end point. `value` is the claimed sum.
pub fn prove(
    batch: &Batch,
    value: K,
    shape: &Shape,
    device: &dyn Device,
    columns: &dyn Columns,
    speaker: &mut dyn Speaker,
) -> Result<Proved, DeviceError> {
    let parts = shape.parts().par_iter();
    let parts: Vec<Split> = parts
        .map(|part| Split::new(batch, *part, shape.log_rows(*part), columns))
        .collect();
    let instances = parts.iter().map(Split::instance).collect::<Result<_, _>>()?;
    sumcheck::prove_staged(device, CLAIMS, value, instances, Some(CLAIMS_WORK), speaker)
}

/// Bytes of the tables that a part's share of a batch takes: those of the outer variables with what they are made of, those of
/// the inner ones.
pub fn bytes(batch: &Batch, shape: &Shape, part: Part) -> [u64; 2] {
    const SECURE: u64 = size_of::<K>() as u64;
    let log_rows = shape.log_rows(part);
    let groups: Vec<&Group> = batch.of(part).collect();
    let outer = best_boundary(&groups, log_rows);
    let inner = log_rows - outer;
    let (mut pairs, mut largest) = (0, 0);
    for group in &groups {
        let split = SplitGroup::new(group, outer);
        pairs += split.factors.len() as u64;
        let along = split.shared_axis().map_or(1, |(axis, distinct)| {
            let rest = inner - split.factors[0].inner[axis].log_len();
            (distinct as u64) << (outer + rest)
        });
        largest = largest.max(along + (1 << inner));
    }
    let threads = rayon::current_num_threads() as u64;
    let columns = batch.columns(part).len() as u64;
    let first = ((2 * pairs) << outer) + threads * largest;
    let second = (columns + 2 * groups.len() as u64) << inner;
    [SECURE * first, SECURE * second]
}

/// A part's share of the batch.
struct Split<'a> {
    log_rows: u32,
    /// Variables of the first rounds.
    outer: u32,
    part: Part,
    columns: &'a dyn Columns,
    /// Columns that carry a claim, ascending.
    claimed: Vec<usize>,
    groups: Vec<SplitGroup<'a>>,
}

/// A group whose tensors are cut at the boundary.
struct SplitGroup<'a> {
    part: Part,
    terms: &'a [(usize, K)],
    factors: Vec<Factor<'a>>,
}

/// The tensors of a group that have one inner factor.
struct Factor<'a> {
    inner: &'a [Weight],
    outer: Vec<&'a [Weight]>,
}

impl<'a> Split<'a> {
    fn new(batch: &'a Batch, part: Part, log_rows: u32, columns: &'a dyn Columns) -> Self {
        let groups: Vec<&Group> = batch.of(part).collect();
        let outer = best_boundary(&groups, log_rows);
        Self {
            log_rows,
            outer,
            part,
            columns,
            claimed: batch.columns(part),
            groups: groups.into_iter().map(|group| SplitGroup::new(group, outer)).collect(),
        }
    }

    fn inner(&self) -> u32 {
        self.log_rows - self.outer
    }

    fn instance(&self) -> Result<Staged<'_>, DeviceError> {
        let tables = self.groups.par_iter().map(|group| {
            let weights = group.factors.iter().map(|f| sum_of(&f.outer, self.outer));
            let sums = group.sums(self.columns, self.outer, self.inner())?;
            let pairs = weights.zip(sums).map(|(u, d)| (u.into(), d.into()));
            Ok(pairs.collect::<Vec<(Table, Table)>>())
        });
        let tables = tables.collect::<Result<Vec<_>, DeviceError>>()?;
        Ok(Staged {
            first: Instance {
                pairs: tables.into_iter().flatten().collect(),
                variables: self.outer as usize,
            },
            variables: self.log_rows as usize,
            second: Box::new(|finals, point| self.inner_tables(finals, point)),
        })
    }

    /// The tables of the inner variables, when the outer ones are bound to `point`; `finals` are the evaluations
    /// `(U_v~, D_v~)` there.
    fn inner_tables(&self, finals: &[(K, K)], point: &[K]) -> Result<Vec<(Table, Table)>, DeviceError> {
        let part = self.part;
        let claimed: Vec<ColumnId> = self.claimed.iter().map(|&index| ColumnId { part, index }).collect();
        let bound = self.columns.bind_leading(&claimed, point)?;
        let mut starts = Vec::with_capacity(self.groups.len());
        let mut start = 0;
        for group in &self.groups {
            starts.push(start);
            start += group.factors.len();
        }
        let tables = self.groups.par_iter().zip(starts).map(|(group, start)| {
            let mut weights = zeros(1 << self.inner());
            for (factor, (scale, _)) in group.factors.iter().zip(&finals[start..]) {
                add_tensor(&mut weights, factor.inner, *scale);
            }
            let mut combined = zeros(1 << self.inner());
            for (column, k) in group.terms {
                let at = self
                    .claimed
                    .binary_search(column)
                    .expect("columns of groups are claimed");
                add_scaled(&mut combined, &bound[at], *k);
            }
            (weights.into(), combined.into())
        });
        Ok(tables.collect())
    }
}

/// Cuts a tensor where its first factors have `outer` variables.
fn cut(tensor: &[Weight], outer: u32) -> Option<(&[Weight], &[Weight])> {
    let mut variables = 0;
    let mut at = 0;
    while variables < outer {
        variables += tensor.get(at)?.log_len();
        at += 1;
    }
    (variables == outer).then(|| tensor.split_at(at))
}

/// The boundary at which a part's share is cheapest to prove.
fn best_boundary(groups: &[&Group], log_rows: u32) -> u32 {
    let cost = |outer: u32| {
        let fits = groups.iter().all(|g| g.weights.iter().all(|t| cut(t, outer).is_some()));
        let of = |group: &&Group| SplitGroup::new(group, outer).cost(outer, log_rows - outer);
        fits.then(|| (groups.iter().map(of).sum::<usize>(), outer))
    };
    (0..=log_rows).filter_map(cost).min().map_or(0, |(_, outer)| outer)
}

impl<'a> SplitGroup<'a> {
    fn new(group: &'a Group, outer: u32) -> Self {
        let mut factors: Vec<Factor<'a>> = Vec::new();
        // A long list of clipped values has as many tensors.
        let mut known: HashMap<_, Vec<usize>> = HashMap::new();
        for tensor in &group.weights {
            let (first, inner) = cut(tensor, outer).unwrap_or((&[], tensor));
            let alike = known.entry(sketch(inner)).or_default();
            match alike.iter().find(|i| factors[**i].inner == inner) {
                Some(same) => factors[*same].outer.push(first),
                None => {
                    alike.push(factors.len());
                    factors.push(Factor {
                        inner,
                        outer: vec![first],
                    });
                }
            }
        }
        Self {
            part: group.part,
            terms: &group.columns,
            factors,
        }
    }

    /// Products of a base field element and an extension field element that it takes to prove.
    fn cost(&self, outer: u32, inner: u32) -> usize {
        let passes: usize = match self.shared_axis() {
            Some((axis, distinct)) => {
                let rest = inner - self.factors[0].inner[axis].log_len();
                ((self.terms.len() * distinct) << inner) + ((SECURE_COST * self.factors.len()) << rest)
            }
            None => {
                let entries = |f: &Factor| entries(f.inner) + ROW_COST;
                self.terms.len() * self.factors.iter().map(entries).sum::<usize>()
            }
        };
        let first = SECURE_COST * 5 * self.factors.len();
        let weights: usize = self.factors.iter().map(|f| entries(f.inner)).sum();
        let second = SECURE_COST * (((self.terms.len() + 5) << inner) + weights);
        ((passes + first) << outer) + second
    }

    /// The axis along which fewer distinct weights occur than there are inner factors, and their number: the columns are
    /// summed along this axis first, once for each.
    fn shared_axis(&self) -> Option<(usize, usize)> {
        let [first, rest @ ..] = self.factors.as_slice() else {
            return None;
        };
        let lengths = |f: &Factor| f.inner.iter().map(Weight::log_len).collect::<Vec<_>>();
        if first.inner.len() < 2 || rest.iter().any(|f| lengths(f) != lengths(first)) {
            return None;
        }
        let of = (0..first.inner.len()).filter_map(|axis| {
            let weights = || self.factors.iter().map(|f| &f.inner[axis]);
            // A rotation has as many as there are tokens, which are not compared with each other.
            let few = distinct(weights().take(2 * MOST_SHARED)).len() <= MOST_SHARED;
            few.then(|| (distinct(weights()).len(), axis))
        });
        let (number, axis) = of.min()?;
        (number < self.factors.len()).then_some((axis, number))
    }

    /// `D_v`, for every inner factor.
    fn sums(&self, columns: &dyn Columns, outer: u32, inner: u32) -> Result<Vec<Vec<K>>, DeviceError> {
        let terms = self.terms();
        let Some((axis, _)) = self.shared_axis() else {
            let of = |factor: &Factor| {
                let entries = Entries::of(factor.inner);
                columns.bind(&terms, entries.weights(1 << inner), [1 << outer, 1])
            };
            return self.factors.par_iter().map(of).collect();
        };
        let log = |weights: &[Weight]| weights.iter().map(Weight::log_len).sum::<u32>();
        let shared = distinct(self.factors.iter().map(|f| &f.inner[axis]));
        let before = log(&self.factors[0].inner[..axis]);
        let after = log(&self.factors[0].inner[axis + 1..]);
        let along = shared.par_iter().map(|weight| {
            let axes = [1 << (outer + before), 1 << after];
            columns.bind(&terms, Weights::All(&weight.table()), axes)
        });
        let length = 1usize << (before + after);
        let along = along.map(|own| own.map(|own| Rows::new(own, length)));
        let along = along.collect::<Result<Vec<Rows>, _>>()?;
        let of = |factor: &Factor| {
            let position = shared.iter().position(|w| **w == factor.inner[axis]);
            let rows = &along[position.expect("every factor has one of the shared weights")];
            let rest: Vec<Weight> = [&factor.inner[..axis], &factor.inner[axis + 1..]].concat();
            rows.dot(&Entries::of(&rest))
        };
        Ok(self.factors.par_iter().map(of).collect())
    }

    /// The columns of the group, with their coefficients.
    fn terms(&self) -> Vec<(ColumnId, K)> {
        let part = self.part;
        let term = |&(index, k): &(usize, K)| (ColumnId { part, index }, k);
        self.terms.iter().map(term).collect()
    }
}

/// The distinct weights, in the order of their first occurrence.
fn distinct<'a>(weights: impl Iterator<Item = &'a Weight>) -> Vec<&'a Weight> {
    let mut list: Vec<&Weight> = Vec::new();
    for weight in weights {
        if !list.contains(&weight) {
            list.push(weight);
        }
    }
    list
}

/// Entries of a tensor product that are not known to be zero.
fn entries(tensor: &[Weight]) -> usize {
    let of = |weight: &Weight| match weight {
        Weight::Sparse(_, entries) => entries.len(),
        other => 1 << other.log_len(),
    };
    tensor.iter().map(of).product()
}

/// A tensor product, entry by entry.
enum Entries {
    All(Vec<K>),
    /// Ascending; the others are zero.
    Some(Vec<(usize, K)>),
}

impl Entries {
    fn of(tensor: &[Weight]) -> Self {
        let log: u32 = tensor.iter().map(Weight::log_len).sum();
        if entries(tensor) < (1 << log) / SPARSE {
            return Self::Some(listed(tensor));
        }
        let mut all = zeros(1 << log);
        add_tensor(&mut all, tensor, K::one());
        Self::All(all)
    }

    /// As weights of the `length` entries of the product.
    fn weights(&self, length: usize) -> Weights<'_> {
        match self {
            Self::All(all) => Weights::All(all),
            Self::Some(entries) => Weights::Some { entries, length },
        }
    }
}

/// Rows of a table, which are multiplied with the entries of several products.
struct Rows {
    entries: Vec<K>,
    /// The entries sixteen to a vector; empty where a row does not fill its vectors.
    packs: Vec<Packed>,
    length: usize,
}

impl Rows {
    fn new(entries: Vec<K>, length: usize) -> Self {
        let packs = match length.is_multiple_of(SIMD_LANES) {
            true => pack(&entries),
            false => Vec::new(),
        };
        Self { entries, packs, length }
    }

    /// The sum of the products of each row and these entries.
    fn dot(&self, with: &Entries) -> Vec<K> {
        let rows = self.entries.chunks(self.length);
        match with {
            Entries::All(all) if !self.packs.is_empty() => {
                let (all, rows) = (pack(all), self.packs.chunks(self.length / SIMD_LANES));
                rows.map(|row| dot_packed(&all, row)).collect()
            }
            Entries::All(all) => rows.map(|row| dot(all, row)).collect(),
            Entries::Some(entries) => {
                let of = |row: &[K]| entries.iter().fold(K::zero(), |sum, (i, w)| sum + *w * row[*i]);
                rows.map(of).collect()
            }
        }
    }
}

/// [`tessera_circuits::claims::add_tensor`], in vectors.
fn add_tensor(sum: &mut [K], tensor: &[Weight], scale: K) {
    let Some((first, rest)) = tensor.split_first() else {
        sum.iter_mut().for_each(|s| *s += scale);
        return;
    };
    let size = sum.len() >> first.log_len();
    let table = match first {
        Weight::Sparse(_, entries) => {
            for (i, value) in entries {
                add_tensor(&mut sum[i * size..(i + 1) * size], rest, scale * *value);
            }
            return;
        }
        Weight::Eq(point) => eq_table(point),
        other => other.table(),
    };
    match rest.is_empty() {
        true => add_scaled(sum, &table, scale),
        false => {
            let slices = sum.chunks_mut(size.max(1)).zip(table);
            slices.for_each(|(slice, value)| add_tensor(slice, rest, scale * value));
        }
    }
}

/// The entries of a tensor product that are not known to be zero, with their places.
fn listed(tensor: &[Weight]) -> Vec<(usize, K)> {
    tensor.iter().fold(vec![(0, K::one())], |left, weight| {
        let own: Vec<(usize, K)> = match weight {
            Weight::Sparse(_, entries) => entries.clone(),
            other => other.table().into_iter().enumerate().collect(),
        };
        let log = weight.log_len();
        let with = |(i, v): &(usize, K)| own.iter().map(|(j, w)| ((i << log) + j, *v * *w)).collect::<Vec<_>>();
        left.iter().flat_map(with).collect()
    })
}

/// The sum of tensor products of `variables` variables.
fn sum_of(tensors: &[&[Weight]], variables: u32) -> Vec<K> {
    let mut sum = zeros(1 << variables);
    for tensor in tensors {
        add_tensor(&mut sum, tensor, K::one());
    }
    sum
}

#[cfg(test)]
mod tests;
