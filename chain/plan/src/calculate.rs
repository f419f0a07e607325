//! Calculates what is public in a proof of a model in one piece, from challenges and statement: with elements of the field, or with
//! the symbols that record a program. Where a verifier has all coefficients of an opening, a program has their extensions.

use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::lookups::Relation;
use tessera_circuits::air::tables::LookupTables;
use tessera_circuits::chunk::{Chunk, Ends};
use tessera_circuits::claims::{batch, Batch, Heard, Operands};
use tessera_circuits::mle::{eq_table, Corners};
use tessera_circuits::model::MIN_ROWS_LOG;
use tessera_circuits::rounding::Powers;
use tessera_circuits::scalar::Scalar;
use tessera_circuits::shape::Shape;
use tessera_circuits::statement::Statement;
use tessera_circuits::statistics::Statistics;
use tessera_circuits::trees::lookup_trees;
use tessera_circuits::wiring::{suffix, Points, Public};
use tessera_verifier::key::ModelKey;
use tessera_verifier::opening::{CommitmentParams, OpenedColumns};
use tessera_verifier::public::{families_of, linear_variables, unit_coefficients, Inputs};
use tessera_verifier::sumcheck::instance_factor;

/// The inputs of a shape: `next` gives one after the other.
pub fn inputs<K: Scalar>(shape: &Shape, mut next: impl FnMut() -> K) -> Inputs<K> {
    let relations = (shape.config.relations().iter()).map(|_| [next(), next()]).collect();
    let trees = lookup_trees(shape);
    let mut point_of = |log: u32| -> Vec<K> { (0..log).map(|_| next()).collect() };
    let trees = trees.iter().map(|tree| tree.log_leaves());
    let tables = shape.table_tree().map(|tree| tree.log_leaves());
    let leaves: Vec<Vec<K>> = trees.chain(tables).map(&mut point_of).collect();
    let denominators = lookup_trees(shape).iter().map(|_| next()).collect();
    let counts = shape.table_tree().map(|_| next());
    let points = (0..Points::count(shape)).map(|_| next()).collect();
    let accumulators = next();
    let products = (0..shape.product_variables()).map(|_| next()).collect();
    let operands = Operands::new(shape.existing().map(|product| (product, [next(), next()])).collect());
    Inputs {
        relations,
        leaves,
        points,
        products,
        heard: Heard {
            accumulators,
            operands,
            denominators,
            counts,
            digits: None,
            boundaries: Default::default(),
        },
        family: next(),
        chi: next(),
        linear: (0..linear_variables(shape)).map(|_| next()).collect(),
    }
}

/// Inputs one after the other, in the order in which [`inputs`] asks for them.
pub fn in_order<K: Scalar>(inputs: &Inputs<K>) -> Vec<K> {
    let heard = &inputs.heard;
    let operands = heard.operands.values();
    let leaves = inputs.leaves.iter().flatten();
    let front = inputs
        .relations
        .as_flattened()
        .iter()
        .chain(leaves)
        .chain(&heard.denominators)
        .chain(&heard.counts)
        .chain(&inputs.points);
    let products = front
        .chain([&heard.accumulators])
        .chain(&inputs.products)
        .chain(operands.as_flattened());
    products
        .chain([&inputs.family, &inputs.chi])
        .chain(&inputs.linear)
        .copied()
        .collect()
}

/// The multilinear extension of [`unit_coefficients`] at a point, group by group: no coefficient is calculated.
fn unit_extension<K: Scalar>(shape: &Shape, batch: &Batch<K>, point: &[K], at: &[K]) -> K {
    let corners = Corners::new(at);
    let (mut start, mut sum) = (0, K::zero());
    for &part in shape.parts() {
        let log_rows = shape.log_rows(part);
        let own = suffix(point, log_rows);
        let (units, _) = own.split_at(own.len().saturating_sub(MIN_ROWS_LOG as usize));
        let table = eq_table(units);
        let committed = shape.committed(part);
        let first = |column: &usize| Some(start + (committed.binary_search(column).ok()? << units.len()));
        let combined = |columns: &[(usize, K)]| {
            let placed = columns.iter().filter_map(|(column, k)| Some((first(column)?, *k)));
            match table.as_slice() {
                [_] => corners.sum(placed),
                table => placed.map(|(first, k)| k * corners.dot(table, first)).sum(),
            }
        };
        sum += batch.combined(part, own, combined) * instance_factor(point.len(), log_rows as usize);
        start += committed.len() << units.len();
    }
    sum
}

/// The columns that an opening of a model in one piece is about: of the weights, and of the activations.
pub fn opened(key: &ModelKey, shape: &Shape) -> [OpenedColumns; 2] {
    let activations = CommitmentParams::of_activations(shape, &key.weights);
    key.opened_all(&Chunk::whole(key.config.layers), &activations)
        .map(|(_, columns)| columns)
}

/// The results of a program: the values that a verifier compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Results<K = SecureField> {
    /// The denominators where the tree of the tables ends.
    pub entries: K,
    /// The operand of the embedding.
    pub embedding: K,
    /// The value of the linear claims.
    pub value: K,
    /// The extensions of the coefficients of bands and of units, where the band sumchecks of the opening end.
    pub coefficients: [K; 2],
}

impl<K: Copy> Results<K> {
    /// One after the other.
    pub fn in_order(&self) -> Vec<K> {
        let [bands, units] = self.coefficients;
        vec![self.entries, self.embedding, self.value, bands, units]
    }
}

/// Calculates the public values of a proof in one piece without clipped values, as a program does. `ends` are the points where the band
/// sumchecks of the opening end.
pub fn calculate<K: Scalar>(
    key: &ModelKey,
    shape: &Shape,
    statement: &Statement,
    inputs: &Inputs<K>,
    [bands, units]: &[Vec<K>; 2],
) -> Results<K> {
    let [columns, _] = opened(key, shape);
    let (families, matrices) = (families_of(shape, inputs.family), (columns.bands(), columns.log_band()));
    let entries = entries(key, shape, inputs);
    with_claims(key, shape, statement, inputs, |public, batch| Results {
        entries,
        embedding: public.embed_operand(&inputs.products),
        // Inputs have a value of every product and tree.
        value: batch.total(&inputs.heard).unwrap_or_default(),
        coefficients: [
            public.band_extension(&inputs.products, &families, matrices, bands),
            unit_extension(shape, batch, &inputs.linear, units),
        ],
    })
}

/// The coefficients of bands and units whose extensions [`calculate`] has.
pub fn coefficients(key: &ModelKey, shape: &Shape, statement: &Statement, inputs: &Inputs) -> [Vec<SecureField>; 2] {
    let [columns, _] = opened(key, shape);
    let families = families_of(shape, inputs.family);
    with_claims(key, shape, statement, inputs, |public, batch| {
        [
            public.band_coefficients(&inputs.products, &families, columns.bands(), columns.log_band()),
            unit_coefficients(shape, batch, &inputs.linear),
        ]
    })
}

/// `z` and `alpha` of a relation; relations of one value have no `alpha`.
fn challenges<K: Scalar>(shape: &Shape, inputs: &Inputs<K>, relation: Relation) -> [K; 2] {
    let relations = shape.config.relations();
    let mut own = relations.iter().zip(&inputs.relations);
    let own = own.find(|(own, _)| **own == relation);
    let [z, alpha] = own.map_or([K::zero(); 2], |(_, own)| *own);
    [z, if relation.values() == 1 { K::zero() } else { alpha }]
}

/// The denominators where the tree of the tables ends; zero without one.
fn entries<K: Scalar>(key: &ModelKey, shape: &Shape, inputs: &Inputs<K>) -> K {
    let (Some(tree), Some(point)) = (shape.table_tree(), inputs.leaves.last()) else {
        return K::zero();
    };
    let tables = LookupTables::new(&key.params, &key.config);
    let value = |column, rows: &[K]| K::function(rows, tables.column(column).unwrap_or_default());
    tree.denominator(|relation| challenges(shape, inputs, relation), value, point)
}

/// All claims of a proof of a model in one piece without clipped values.
fn with_claims<K: Scalar, T>(
    key: &ModelKey,
    shape: &Shape,
    statement: &Statement,
    inputs: &Inputs<K>,
    then: impl FnOnce(&Public<'_, K>, &Batch<K>) -> T,
) -> T {
    let points = Points::new(shape, inputs.points.clone());
    let statistics = Statistics { clips: Vec::new() };
    let public = Public {
        shape,
        params: &key.params,
        statement,
        ends: Ends::default(),
        statistics: &statistics,
        points: &points,
    };
    let mut claims = public.trace_claims();
    claims.extend(public.operand_claims(&inputs.products));
    let powers: Powers<'_> = public.powers();
    let challenges = |relation: Relation| challenges(shape, inputs, relation);
    let trees = lookup_trees(shape);
    for (number, (tree, point)) in trees.iter().zip(&inputs.leaves).enumerate() {
        claims.push(tree.columns_claim(&powers, challenges, number, point));
    }
    // Statements that have plans have one balance group, which has no weight.
    let entries = shape.table_tree().zip(inputs.leaves.last());
    claims.extend(entries.map(|(tree, point)| tree.claim(None, point)));
    then(&public, &batch(claims, inputs.chi))
}
