//! Trees of fractions of lookups, every layer of them in memory.

use std::ops::Range;

use num_traits::{One, Zero};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::Relations;
use tessera_circuits::mle::{eq_table, fold_msb_in_place};
use tessera_circuits::shape::Part;
use tessera_circuits::trees::{denominator, LookupTree};

use crate::device::{DeviceError, Entries, Layers, Rounds};

type K = SecureField;

/// Numerators and denominators.
type Layer = [Vec<K>; 2];

/// The trees of some columns.
pub(super) struct Trees {
    /// The leaves of every tree.
    leaves: Vec<Layer>,
    /// The first of the trees that are built.
    first: usize,
    /// The layers of each of them, from its root on.
    layers: Vec<Vec<Layer>>,
}

impl Trees {
    pub fn new(
        trees: &[LookupTree],
        entries: Option<&Entries<'_>>,
        columns: &[Vec<Vec<BaseField>>],
        relations: &Relations,
    ) -> Self {
        let leaves = trees.iter().map(|tree| leaves(tree, columns, relations));
        let entries = entries.map(|own| leaves_of_tables(own, &columns[Part::COUNTS.index()], relations));
        Self {
            leaves: leaves.chain(entries).collect(),
            first: 0,
            layers: Vec::new(),
        }
    }
}

/// The leaves of a tree: numerators are one, and so are the denominators of padding.
fn leaves(tree: &LookupTree, columns: &[Vec<Vec<BaseField>>], relations: &Relations) -> Layer {
    let mut denominators = Vec::new();
    for plane in &tree.planes {
        let own = &columns[plane.part.index()];
        let row = |row: usize| denominator(plane, relations, |column| own[column][row]);
        denominators.extend((0..1 << plane.log_rows).map(row));
    }
    let size = 1 << tree.log_leaves();
    denominators.resize(size, K::one());
    [vec![K::one(); size], denominators]
}

/// The leaves of the tree of the tables: padding is `0 / 1`.
fn leaves_of_tables(entries: &Entries<'_>, counts: &[Vec<BaseField>], relations: &Relations) -> Layer {
    let [mut numerators, mut denominators] = entries.leaves(relations, |column, row| counts[column][row]);
    let size = 1 << entries.tree.log_leaves();
    numerators.resize(size, K::zero());
    denominators.resize(size, K::one());
    [numerators, denominators]
}

/// The layer above one: a node is the sum of the fractions at its place in both halves.
fn above([n, d]: &Layer) -> Layer {
    let half = n.len() / 2;
    let numerator = |x: usize| n[x] * d[x + half] + n[x + half] * d[x];
    let denominator = |x: usize| d[x] * d[x + half];
    [(0..half).map(numerator).collect(), (0..half).map(denominator).collect()]
}

/// The layers of a tree, from its root on.
fn layers(leaves: &Layer) -> Vec<Layer> {
    let mut layers = vec![leaves.clone()];
    while let Some(last) = layers.last().filter(|[n, _]| n.len() > 1) {
        layers.push(above(last));
    }
    layers.reverse();
    layers
}

impl Layers for Trees {
    fn roots(&mut self, trees: Range<usize>) -> Result<Vec<[K; 2]>, DeviceError> {
        self.first = trees.start;
        self.layers = self.leaves[trees].iter().map(layers).collect();
        let roots = self.layers.iter().map(|own| own[0].each_ref().map(|values| values[0]));
        Ok(roots.collect())
    }

    fn layer<'a>(
        &'a mut self,
        trees: &[usize],
        point: &'a [K],
        lambda: K,
    ) -> Result<Box<dyn Rounds + 'a>, DeviceError> {
        let halves = |table: &Vec<K>| {
            let (low, high) = table.split_at(table.len() / 2);
            [low.to_vec(), high.to_vec()]
        };
        let tables = trees.iter().map(|tree| {
            let [n, d] = &self.layers[tree - self.first][point.len() + 1];
            let ([n0, n1], [d0, d1]) = (halves(n), halves(d));
            [n0, d0, n1, d1]
        });
        Ok(Box::new(LayerRounds {
            lambda,
            rest: point,
            tables: tables.collect(),
        }))
    }
}

/// The rounds of a layer.
struct LayerRounds<'a> {
    lambda: K,
    /// The coordinates of the variables that are not bound.
    rest: &'a [K],
    /// `n0, d0, n1, d1` of every tree.
    tables: Vec<[Vec<K>; 4]>,
}

impl LayerRounds<'_> {
    /// The form that is summed, of `n0, d0, n1, d1` of every tree. It has no terms of another degree than 2, so its value of differences
    /// is a leading coefficient.
    fn form(&self, values: impl Fn(&[Vec<K>; 4]) -> [K; 4]) -> K {
        let (mut sum, mut weight) = (K::zero(), K::one());
        for tables in &self.tables {
            let [n0, d0, n1, d1] = values(tables);
            sum += weight * (n0 * d1 + d0 * n1 + self.lambda * d0 * d1);
            weight *= self.lambda * self.lambda;
        }
        sum
    }
}

impl Rounds for LayerRounds<'_> {
    fn message(&self) -> Result<[K; 2], DeviceError> {
        let mut message = [K::zero(); 2];
        let Some((_, others)) = self.rest.split_first() else {
            return Ok(message);
        };
        for (x, eq) in eq_table(others).into_iter().enumerate() {
            let first = |tables: &[Vec<K>; 4]| tables.each_ref().map(|table| table[x]);
            let differences =
                |tables: &[Vec<K>; 4]| tables.each_ref().map(|table| table[x + table.len() / 2] - table[x]);
            message[0] += eq * self.form(first);
            message[1] += eq * self.form(differences);
        }
        Ok(message)
    }

    fn bind(&mut self, challenge: K) -> Result<[K; 2], DeviceError> {
        self.rest = &self.rest[1..];
        let tables = self.tables.iter_mut().flatten();
        tables.for_each(|table| fold_msb_in_place(table, challenge));
        self.message()
    }

    fn finish(&self) -> Result<Vec<K>, DeviceError> {
        Ok(self.tables.iter().flatten().map(|table| table[0]).collect())
    }
}
