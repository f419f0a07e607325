//! The tables' side of the lookups, twin of the verifier's `tables`: by a STARK or by one more tree of the sums of lookups, as the key says.

use std::cell::OnceCell;

use stwo::core::fields::qm31::SecureField;
use stwo::prover::backend::simd::SimdBackend;
use stwo::prover::poly::twiddles::TwiddleTree;
use tessera_circuits::air::tables::LookupTables;
use tessera_circuits::air::Relations;
use tessera_circuits::claims::LinearClaim;
use tessera_circuits::model::ModelParams;
use tessera_circuits::shape::{Part, Shape};
use tessera_circuits::table_tree::TableTree;
use tessera_circuits::trees::{Forest, LeafClaim, LookupTree};
use tessera_verifier::proof::{StarkTables, TableProof};
use tessera_verifier::transcript::Transcript;

use super::column::Column;
use super::device::{Columns, DeviceError, Entries};
use super::stark::{multiplicities, twiddles, Counted, ProveStarkError};
use super::stopwatch::Stopwatch;

/// Twiddles, if a STARK asks for them.
pub(crate) type Twiddles = OnceCell<TwiddleTree<SimdBackend>>;

/// The columns of [`Part::COUNTS`]: how often the lookups of each balance group use every row of the tables.
pub fn counts(
    columns: &dyn Columns,
    tree: &TableTree,
    (trees, forest): (&[LookupTree], &Forest),
) -> Result<Vec<Column>, DeviceError> {
    let mut counts = Vec::new();
    for balance in forest.balances() {
        let own = columns.count(&tree.relations, &trees[balance])?;
        counts.extend(own.into_iter().map(Column::from));
    }
    Ok(counts)
}

/// Adds the counts to the columns that are committed to, if the tables are a tree. A test may change them.
pub(crate) fn add_counts(
    columns: &mut dyn Columns,
    shape: &Shape,
    lookups: (&[LookupTree], &Forest),
    change: Option<fn(&mut [Column])>,
    watch: &mut Stopwatch<'_>,
) -> Result<(), DeviceError> {
    let Some(tree) = shape.table_tree() else {
        return Ok(());
    };
    watch.phase("count lookups", || {
        let mut counts = counts(&*columns, &tree, lookups)?;
        if let Some(change) = change {
            change(&mut counts);
        }
        columns.add(Part::COUNTS, counts)
    })
}

/// The tables' side of the proof of a chunk.
pub(crate) enum Tables<'a> {
    /// Committed, with how often they are used.
    Stark(Box<Counted<'a>>),
    /// Leaves of a tree.
    Gkr {
        tree: TableTree,
        tables: LookupTables,
        weight: Option<SecureField>,
    },
}

impl<'a> Tables<'a> {
    /// Commits to tables and counts if the activations have no counts, before the challenges of the lookups. `weight` weighs balance groups.
    pub fn absorb(
        (shape, params): (&Shape, &ModelParams),
        columns: &dyn Columns,
        lookups: (&[LookupTree], &Forest),
        weight: Option<SecureField>,
        room: &'a Twiddles,
        transcript: &mut Transcript,
    ) -> Result<Self, DeviceError> {
        if let Some(tree) = shape.table_tree() {
            let tables = LookupTables::new(params, &shape.config);
            return Ok(Self::Gkr { tree, tables, weight });
        }
        let counts = multiplicities(columns, &shape.config.relations(), lookups, weight)?;
        let twiddles = room.get_or_init(twiddles);
        let counted = Counted::commit((params, &shape.config), counts, twiddles, transcript);
        Ok(Self::Stark(Box::new(counted)))
    }

    /// What the tree of the tables is made of, if there is one.
    pub const fn entries(&self) -> Option<Entries<'_>> {
        match self {
            Self::Stark(_) => None,
            Self::Gkr { tree, tables, weight } => Some(Entries {
                tree,
                tables,
                weight: *weight,
            }),
        }
    }

    /// The claim on the counts that is left where the tree of the tables ends.
    pub fn side(&self, leaf: Option<&LeafClaim>) -> Option<LinearClaim> {
        let entries = self.entries()?;
        leaf.map(|leaf| entries.tree.claim(entries.weight, &leaf.point))
    }

    /// Proves what is left of the tables after the opening; `relations` are the challenges of the lookups.
    pub fn close(
        self,
        relations: &Relations,
        watch: &mut Stopwatch<'_>,
        transcript: &mut Transcript,
    ) -> Result<TableProof, ProveStarkError> {
        match self {
            Self::Stark(counted) => {
                let (claimed_sum, stark) = watch.phase("stark", || counted.prove(relations, transcript))?;
                Ok(TableProof::Stark(Box::new(StarkTables { claimed_sum, stark })))
            }
            Self::Gkr { .. } => Ok(TableProof::Gkr),
        }
    }
}
