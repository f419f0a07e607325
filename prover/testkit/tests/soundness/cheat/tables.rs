//! The tables' side of a cheating prover, in the way of the key.

use stwo::core::channel::Channel;
use stwo::core::circle::CirclePoint;
use stwo::core::proof::StarkProof;
use stwo::prover::backend::simd::SimdBackend;
use stwo::prover::poly::twiddles::TwiddleTree;
use stwo::prover::{ComponentProver, ComponentProvers};
use tessera_circuits::air::tables::{LookupTables, LOG_ROWS};
use tessera_circuits::air::Relations;
use tessera_circuits::shape::{Part, Shape};
use tessera_circuits::table_tree::TableTree;
use tessera_circuits::trees::{lookup_trees, Forest};
use tessera_prover::column::elements;
use tessera_prover::device::Entries;
use tessera_prover::stark::{self, commit, entry_sums, ProverChannel};
use tessera_prover::tables::counts as counts_of_groups;
use tessera_prover::trace::Columns;
use tessera_verifier::key::ModelKey;
use tessera_verifier::labels::CLAIMED_SUM;
use tessera_verifier::policy::stark_config;
use tessera_verifier::proof::{StarkTables, TableProof};
use tessera_verifier::stark::component;
use tessera_verifier::suite::SuiteChannel;
use tessera_verifier::transcript::Transcript;

use super::{held, Hooks, Interaction, Scheme, K};

/// The lookup tables that the prover claims.
fn altered(key: &ModelKey, hooks: &Hooks<'_>) -> LookupTables {
    let mut tables = LookupTables::new(&key.params, &key.config);
    (hooks.tables)(&mut tables.columns);
    tables
}

/// How often the lookups of columns use the tables, where these are a tree: columns of the trace like others.
pub fn add_counts(hooks: &Hooks<'_>, shape: &Shape, columns: &mut [Columns]) {
    let Some(tree) = shape.table_tree() else { return };
    let mut trees = lookup_trees(shape);
    (hooks.counted)(&mut trees);
    let counts = counts_of_groups(&*held(columns), &tree, (&trees, &Forest::of(shape))).expect("counts");
    let mut counts = elements(&counts);
    (hooks.multiplicities)(&mut counts);
    columns[Part::COUNTS.index()] = counts;
}

/// What the prover has of the tables.
pub enum Side<'a> {
    /// Everything of a STARK that is committed before the challenges of the lookups.
    Stark {
        tables: LookupTables,
        counts: Columns,
        scheme: Scheme<'a>,
    },
    /// The entries of a tree.
    Gkr {
        tables: LookupTables,
        tree: TableTree,
        weight: Option<K>,
    },
}

impl<'a> Side<'a> {
    /// Commits to tables and counts if the activations have no counts.
    pub fn absorb(
        key: &ModelKey,
        hooks: &Hooks<'_>,
        (shape, columns): (&Shape, &[Columns]),
        weight: Option<K>,
        twiddles: &'a TwiddleTree<SimdBackend>,
        transcript: &mut Transcript,
    ) -> Self {
        let tables = altered(key, hooks);
        if let Some(tree) = shape.table_tree() {
            return Self::Gkr { tables, tree, weight };
        }
        let config = hooks.pcs.unwrap_or(stark_config());
        let mut scheme = Scheme::new(config, twiddles);
        scheme.set_store_polynomials_coefficients();
        let honest = LookupTables::new(&key.params, &key.config);
        let shown = if hooks.hide_tables { &honest } else { &tables };
        commit(&mut scheme, &shown.columns, transcript.channel());
        if hooks.hide_tables {
            let mut other = Scheme::new(config, twiddles);
            other.set_store_polynomials_coefficients();
            commit(&mut other, &tables.columns, &mut SuiteChannel::default());
            scheme.trees[0] = other.trees.remove(0);
        }
        let (mut trees, relations) = (lookup_trees(shape), shape.config.relations());
        (hooks.counted)(&mut trees);
        let lookups = (&trees[..], &Forest::of(shape));
        let mut counts = stark::multiplicities(&*held(columns), &relations, lookups, weight).expect("counts");
        (hooks.multiplicities)(&mut counts);
        commit(&mut scheme, &counts, transcript.channel());
        Self::Stark { tables, counts, scheme }
    }

    /// What the verifier absorbs of it.
    pub fn shown(&self, key: &ModelKey, hooks: &Hooks<'_>, transcript: &mut Transcript) {
        let Self::Stark { scheme, .. } = self else { return };
        let [tables, counts] = [0, 1].map(|tree| scheme.trees[tree].commitment.root().0);
        transcript.root(if hooks.hide_tables { &key.tables_root } else { &tables });
        transcript.root(&counts);
    }

    /// What the tree of the tables is made of.
    pub fn entries(&self) -> Option<Entries<'_>> {
        match self {
            Self::Stark { .. } => None,
            Self::Gkr { tables, tree, weight } => Some(Entries {
                tree,
                tables,
                weight: *weight,
            }),
        }
    }

    /// `Counted::prove` and stwo's `prove_ex` without the check that the proof is one; `lookups` is what they add up to.
    pub fn close(
        self,
        (relations, weighted, lookups): (&Relations, bool, K),
        key: &ModelKey,
        hooks: &Hooks<'_>,
        transcript: &mut Transcript,
    ) -> TableProof {
        let Self::Stark {
            tables,
            counts,
            mut scheme,
        } = self
        else {
            return TableProof::Gkr;
        };
        let state = Interaction {
            relations,
            counts: &counts,
            weighted,
            tables: &tables,
            lookups,
        };
        let (mut interaction, mut claimed_sum) = entry_sums(relations, &counts, &tables);
        (hooks.interaction)(&state, &mut interaction, &mut claimed_sum);
        transcript.send(CLAIMED_SUM, &claimed_sum);
        commit(&mut scheme, &interaction, transcript.channel());
        let component = component(relations, weighted, claimed_sum);
        let own = ComponentProvers {
            components: vec![&component as &dyn ComponentProver<SimdBackend>],
            n_preprocessed_columns: component.ids().len(),
        };
        let coefficient = transcript.channel().draw_secure_felt();
        let blowup = scheme.config.fri_config.log_blowup_factor;
        let composition = own.compute_composition_polynomial(coefficient, &scheme.trace(), scheme.twiddles, blowup);
        let (mut left, right) = composition.split_at_mid();
        for (polynomial, constant) in left.0.iter_mut().zip(hooks.composition.to_m31_array()) {
            let coefficients = polynomial.coeffs.as_mut_slice();
            coefficients[0] += constant;
        }
        let stark = ProverChannel::with(transcript.channel(), |channel| {
            let mut tree = scheme.tree_builder();
            tree.extend_polys(left.into_coordinate_polys());
            tree.extend_polys(right.into_coordinate_polys());
            tree.commit(channel);
            let oods = CirclePoint::get_random_point(channel);
            let mut points = own.components().mask_points(oods, LOG_ROWS, false);
            points.push(vec![vec![oods]; 8]);
            let mut proof = StarkProof(scheme.prove_values(points, channel).proof);
            if hooks.hide_tables {
                proof.0.commitments[0].0 = key.tables_root;
            }
            proof
        });
        TableProof::Stark(Box::new(StarkTables { claimed_sum, stark }))
    }
}
