//! Attempts made once more by a prover that hides activations: a trace is false whether it is shown or hidden.

use std::cell::Cell;

use stwo::core::fields::m31::BaseField;
use tessera_circuits::shape::LeafLimits;
use tessera_prover::column::{elements, of_elements};
use tessera_prover::hiding::{Secrets, TapeKey};
use tessera_prover::trace::Columns;
use tessera_prover::{count_clips, prove_with_secrets, ProveError};
use tessera_verifier::opening::OpeningError;
use tessera_verifier::verify::{hidden_code, verify_hidden, ChunkStatement, VerifyError};

use crate::Scene;

/// The verdict on a proof that hides a trace.
struct Hidden {
    /// Whether the trace is another one than the honest prover has for the statement.
    altered: bool,
    verdict: Result<(), VerifyError>,
}

impl Scene {
    /// Proves all layers with this trace, hidden, and gives the proof to the verifier. `None` if the statement cannot be hidden, because values of it
    /// clip.
    fn hide(&self, trace: &[Columns]) -> Option<Hidden> {
        let prover = self.model.prover();
        match count_clips(&prover, &self.statement) {
            Ok(0) => (),
            Ok(_) | Err(ProveError::SmallestLogit { .. }) => return None,
            Err(error) => panic!("{error}"),
        }
        let claim = ChunkStatement::whole(&self.model.key, &prover.id, &self.statement, &self.chunk, None);
        let code = hidden_code(&claim, LeafLimits::OF_STATEMENTS, 0).expect("a model whose proofs can hide");
        let (secrets, altered) = (Secrets::draw(code, &TapeKey::of_test(1)), Cell::new(false));
        let made = prove_with_secrets(&prover, &claim, &self.statement, secrets, &|_, columns| {
            // Counts of a tree of the tables come later.
            let columns = &mut columns[..trace.len()];
            altered.set(columns.iter().zip(trace).any(|(own, other)| elements(own) != *other));
            columns.clone_from_slice(&of_elements(trace));
        });
        let (proof, hidden, _) = made.expect("a proof");
        Some(Hidden {
            altered: altered.get(),
            verdict: verify_hidden(&claim, LeafLimits::OF_STATEMENTS, &proof, &hidden),
        })
    }

    /// Asserts that a verifier says of this trace, if it can be hidden, what another one says of the proof that shows it: `shown`. Of a proof that
    /// shows the honest trace and was refused for what it says beside it, nothing follows.
    pub fn assert_same_when_hidden(&self, trace: &[Columns], shown: &Result<(), VerifyError>) {
        let Some(Hidden { altered, verdict }) = self.hide(trace) else {
            return;
        };
        let folded = matches!(verdict, Err(VerifyError::Opening(OpeningError::FoldClaim)));
        let same = match shown {
            Ok(()) => verdict.is_ok(),
            // All equations of a hidden trace are proved by the folding.
            Err(_) => folded || !altered,
        };
        assert!(same, "shown: {shown:?}, hidden: {verdict:?}");
    }
}

/// A true statement is accepted with its own trace, which is not the trace of another statement, nor with another cell.
#[test]
fn false_traces_are_refused_when_they_are_hidden() {
    let hidden = |scene: &Scene, trace: &[Columns]| scene.hide(trace).expect("a statement that can be hidden");
    let (scene, other) = (Scene::honest(), Scene::false_output());
    let mut trace = scene.trace().0;
    let own = hidden(&scene, &trace);
    assert!(!own.altered && own.verdict.is_ok(), "{:?}", own.verdict);
    assert!(hidden(&other, &other.trace().0).verdict.is_err());
    trace[0][0][0] += BaseField::from(1);
    let own = hidden(&scene, &trace);
    assert!(own.altered && own.verdict.is_err());
}
