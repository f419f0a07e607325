//! The insides of an opening, for those who have to know them: the prover's opening and the scalar device's commitments, which
//! make what the verifier's opening reads; what contracts are sent (`chain/plan`); and tests. `fixtures/check_imports.py` has
//! their list. Everybody else holds commitments, claims and proofs, and passes them on.

pub use super::circle::{circle_fibre, evaluate_line, fold_leaf, fold_pair, line_coordinate, line_fibre};
pub use super::lift::{extend, factor, longest};
pub use super::merkle::{hash_base_leaf, hash_secure_leaf, verify_batch, CommittedTree};
pub use super::params::{said_columns, Layout, FIBRE, FINAL_LOG, FOLD_LOG, MAX_MESSAGE_LOG, TILE_AREA_LOG};
pub use super::policy::OpeningPolicy;
pub use super::proof::{parts_of, parts_of_mut, proof_of, CodeOpening, LeafOpening, OracleOpening, ProofParts};
pub use super::verify::{absorb_claims, cross, draw_leaves, verify_under, Combined};
