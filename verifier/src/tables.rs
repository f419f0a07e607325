//! The tables' side of the lookups (docs/protocol.md, section 9), in the way that the key says, or by a tree in a proof that hides its
//! activations. [`Tables`] has three calls, and nothing else in the verification of a chunk knows of ways: one for the messages before the
//! challenges of the lookups ([`Tables::absorb`]), one for the tree of the tables ([`Tables::side`]), and one that checks that both sides
//! balance ([`Tables::close`]).

use stwo::core::fields::qm31::SecureField;
use tessera_circuits::air::lookups::Relation;
use tessera_circuits::air::Relations;
use tessera_circuits::claims::LinearClaim;
use tessera_circuits::table_tree::{TableArgument, TableTree};
use tessera_circuits::trees::{Forest, LeafClaim};
use thiserror::Error;

use crate::key::ModelKey;
use crate::known_tables::tables;
use crate::labels::TREES;
use crate::listen::Listener;
use crate::message::Unread;
use crate::proof::{StarkTables, TableProof};
use crate::stark::{self, StarkClaim, StarkError};
use crate::transcript::Transcript;

/// Why the tables' side of a proof is rejected.
#[derive(Debug, Error, PartialEq, Eq)]
// The messages say what each is.
#[allow(missing_docs)]
#[non_exhaustive]
pub enum TablesError {
    #[error("the proof proves its lookup tables by {got}, but proofs of this kind under this model key prove them by {expected}: it is no proof of this key")]
    Argument {
        got: TableArgument,
        expected: TableArgument,
    },
    #[error("lookups: the tables do not balance the lookups")]
    Lookups,
    #[error("lookups: the tree of the tables does not end in the tables of the model key")]
    Entries,
    #[error("{0}")]
    Stark(#[from] StarkError),
}

/// The challenge that weighs the balance groups of these trees: that many uses of a tuple are zero in the field helps nobody who does not
/// know it. `None` if there is one group. Both sides call it when everything is absorbed that says how often a tuple is used.
pub fn draw_weight(forest: &Forest, transcript: &mut Transcript) -> Option<SecureField> {
    forest.is_weighted().then(|| transcript.challenge(TREES))
}

/// The challenges of the lookups of a model with these relations. Both sides call it when activations, statistics and the counts of both
/// ways are absorbed.
pub fn draw_relations(transcript: &mut Transcript, relations: &[Relation]) -> Relations {
    transcript.words("lookups", &[]);
    Relations::draw(transcript.channel(), relations)
}

/// What the sums of lookups come to.
#[derive(Clone, Debug)]
pub struct Balance<V = SecureField> {
    /// The challenges of the lookups.
    pub relations: Relations,
    /// Whether there are two balance groups or more.
    pub weighted: bool,
    /// The sum of all lookups, weighed.
    pub lookups: V,
    /// The sum of the entries of the tables, if they have a tree.
    pub entries: Option<V>,
}

/// The tables' side in the verification of a chunk.
#[derive(Clone, Copy, Debug)]
pub struct Tables<'a> {
    key: &'a ModelKey,
    /// What the proof has, if it is a STARK.
    stark: Option<Unread<'a, StarkTables>>,
}

impl<'a> Tables<'a> {
    /// What a proof has for the tables of a key, in the way that is expected of it ([`ModelKey::tables_of_proof`]).
    pub fn of(key: &'a ModelKey, expected: TableArgument, proof: Unread<'a, TableProof>) -> Result<Self, TablesError> {
        let stark = proof.case(TableProof::stark);
        let got = match stark {
            Some(_) => TableArgument::Stark,
            None => TableArgument::Gkr,
        };
        match got == expected {
            true => Ok(Self { key, stark }),
            false => Err(TablesError::Argument { got, expected }),
        }
    }

    /// Absorbs what says how often the tables are used and what they are, before the challenges of the lookups: the roots of the STARK. A tree
    /// has nothing here, as its counts are among the activations.
    pub fn absorb(&self, transcript: &mut Transcript) -> Result<(), TablesError> {
        if let Some(own) = self.stark {
            let stark = own.part(|own| &own.stark).bound("STARK").map_err(StarkError::from)?;
            stark::absorb(&self.key.tables_root, stark, transcript)?;
        }
        Ok(())
    }

    /// Where the tree of the tables ends: checks its denominators, and returns the claim on the counts that is left of its numerators. A
    /// STARK has no tree.
    pub fn side<L: Listener>(
        &self,
        tree: Option<&TableTree>,
        relations: &Relations,
        weight: Option<SecureField>,
        leaf: Option<&LeafClaim<SecureField, L::Value>>,
        listener: &mut L,
    ) -> Result<Option<LinearClaim>, TablesError> {
        let (tree, leaf) = match (tree, leaf) {
            (Some(tree), Some(leaf)) => (tree, leaf),
            (None, None) => return Ok(None),
            // Both follow from the shape. A leaf without a tree would be claimed of nothing.
            _ => return Err(TablesError::Entries),
        };
        let tables = tables(&self.key.params, &self.key.config);
        let expected = tree.denominator(
            |relation| relations.challenges(relation),
            |column, rows| tables.at(column, rows),
            &leaf.point,
        );
        let left = leaf.denominator.clone() - expected.into();
        listener.zero(left, TablesError::Entries)?;
        Ok(Some(tree.claim(weight, &leaf.point)))
    }

    /// That the entries of the tables balance the lookups. A STARK continues the conversation behind the opening; the sum of a tree is a value
    /// that must be zero.
    pub fn close<L: Listener>(&self, balance: &Balance<L::Value>, listener: &mut L) -> Result<(), TablesError> {
        let Some(own) = self.stark else {
            let entries = balance.entries.clone().ok_or(TablesError::Lookups)?;
            return listener.zero(balance.lookups.clone() + entries, TablesError::Lookups);
        };
        let claim = StarkClaim {
            relations: &balance.relations,
            weighted: balance.weighted,
            lookups: listener.known(&balance.lookups),
            claimed_sum: own.part(|own| &own.claimed_sum),
        };
        let stark = own.part(|own| &own.stark).bound("STARK").map_err(StarkError::from)?;
        let point = stark::verify(&claim, stark, listener.transcript())?;
        Ok(stark::check_tables((&self.key.params, &self.key.config), stark, point)?)
    }
}
