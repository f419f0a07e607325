//! Trees of fractions of lookups, every layer of them in memory.

use num_traits::{One, Zero};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::Relations;
use tessera_circuits::mle::{eq_table, fold_msb_in_place};
use tessera_circuits::trees::{denominator, LookupTree};

use crate::device::{DeviceError, Layers, Rounds};

type K = SecureField;

/// Numerators and denominators.
type Layer = [Vec<K>; 2];

/// The trees of some columns.
pub(super) struct Trees {
    /// The leaves of every tree.
    leaves: Vec<Layer>,
    /// The layers of the tree that is built, from its root on.
    layers: Vec<Layer>,
}

impl Trees {
    pub fn new(trees: &[LookupTree], columns: &[Vec<Vec<BaseField>>], relations: &Relations) -> Self {
        let leaves = trees.iter().map(|tree| leaves(tree, columns, relations));
        Self {
            leaves: leaves.collect(),
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

/// The layer above one: a node is the sum of the fractions at its place in both halves.
fn above([n, d]: &Layer) -> Layer {
    let half = n.len() / 2;
    let numerator = |x: usize| n[x] * d[x + half] + n[x + half] * d[x];
    let denominator = |x: usize| d[x] * d[x + half];
    [(0..half).map(numerator).collect(), (0..half).map(denominator).collect()]
}

impl Layers for Trees {
    fn root(&mut self, tree: usize) -> Result<[K; 2], DeviceError> {
        let mut layers = vec![self.leaves[tree].clone()];
        while let Some(last) = layers.last().filter(|[n, _]| n.len() > 1) {
            layers.push(above(last));
        }
        layers.reverse();
        let root = layers[0].each_ref().map(|values| values[0]);
        self.layers = layers;
        Ok(root)
    }

    fn layer<'a>(&'a mut self, point: &'a [K], lambda: K) -> Result<Box<dyn Rounds + 'a>, DeviceError> {
        let [n, d] = &self.layers[point.len() + 1];
        let halves = |table: &Vec<K>| {
            let (low, high) = table.split_at(table.len() / 2);
            [low.to_vec(), high.to_vec()]
        };
        let ([n0, n1], [d0, d1]) = (halves(n), halves(d));
        Ok(Box::new(LayerRounds {
            lambda,
            rest: point,
            tables: [n0, d0, n1, d1],
        }))
    }
}

/// The rounds of a layer.
struct LayerRounds<'a> {
    lambda: K,
    /// The coordinates of the variables that are not bound.
    rest: &'a [K],
    /// `n0, d0, n1, d1`.
    tables: [Vec<K>; 4],
}

impl LayerRounds<'_> {
    /// The form that is summed. It has no terms of another degree than 2, so its value of differences is a leading coefficient.
    fn form(&self, [n0, d0, n1, d1]: [K; 4]) -> K {
        n0 * d1 + d0 * n1 + self.lambda * d0 * d1
    }
}

impl Rounds for LayerRounds<'_> {
    fn message(&self) -> Result<[K; 2], DeviceError> {
        let mut message = [K::zero(); 2];
        let Some((_, others)) = self.rest.split_first() else {
            return Ok(message);
        };
        for (x, eq) in eq_table(others).into_iter().enumerate() {
            let first = self.tables.each_ref().map(|table| table[x]);
            let differences = self
                .tables
                .each_ref()
                .map(|table| table[x + table.len() / 2] - table[x]);
            message[0] += eq * self.form(first);
            message[1] += eq * self.form(differences);
        }
        Ok(message)
    }

    fn bind(&mut self, challenge: K) -> Result<[K; 2], DeviceError> {
        self.rest = &self.rest[1..];
        self.tables
            .iter_mut()
            .for_each(|table| fold_msb_in_place(table, challenge));
        self.message()
    }

    fn finish(&self) -> Result<Vec<K>, DeviceError> {
        Ok(self.tables.iter().map(|table| table[0]).collect())
    }
}
