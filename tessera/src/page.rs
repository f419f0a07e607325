//! A page about a proof, for people: the verdict, the conversation, the soundness ledger, and how to check it again.

use std::time::Instant;

use tessera_recipe::KeyFileError;
use tessera_verdict::page::{File, Page};
use tessera_verdict::policy::{Expectations, Policy};
use tessera_verdict::rows::{bytes, seconds, Rows};
use tessera_verdict::{mistaken, Key, Verdict};
use tessera_verifier::key::ModelKey;
use thiserror::Error;

use crate::prediction::Prediction;

/// The verdict on a proof, and the page that shows it.
#[derive(Clone, Debug)]
pub struct ProofPage {
    /// The verdict.
    pub verdict: Verdict,
    /// The page: one file of HTML, which fetches nothing.
    pub html: String,
    /// Seconds that it took to read the key and to verify the proof.
    pub seconds: f64,
}

/// Why there is no page about a proof.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PageError {
    /// The key cannot be used: there is no verdict without one.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// What the policy asks for cannot be decided with this key.
    #[error("{0}")]
    Policy(String),
}

/// Verifies a proof, which has to be as a policy expects, and writes the page about it. A proof that is rejected has a page, too, which
/// says why. `made_by` is the line at the end of the page: the program, and when it ran.
///
/// ```no_run
/// use tessera_verdict::page::File;
/// use tessera_verdict::policy::Policy;
///
/// let [key, proof] = ["model.key", "story.proof"].map(|name| (name, std::fs::read(name)));
/// let [key, proof] = [(key.0, key.1?), (proof.0, proof.1?)];
/// let [key, proof] = [&key, &proof].map(|(name, bytes)| File { name, bytes });
/// let policy = Policy {
///     complete: true,
///     ..Policy::default()
/// };
/// let page = tessera::page(&key, &proof, &policy, "my program")?;
/// std::fs::write("story.html", page.html)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the key cannot be used, or if the policy cannot be applied with it.
pub fn page(
    key_file: &File<'_>,
    proof_file: &File<'_>,
    policy: &Policy,
    made_by: &str,
) -> Result<ProofPage, PageError> {
    let clock = Instant::now();
    let key = Key::from_bytes(key_file.bytes)?;
    let verdict = key.verify(proof_file.bytes);
    let time = clock.elapsed().as_secs_f64();
    let expected = Expectations::of(policy, &key).map_err(PageError::Policy)?;
    let verdict = verdict.because(mistaken(proof_file.name, proof_file.bytes));
    let verdict = expected.judge(verdict).map_err(PageError::Policy)?;
    let proved = verdict.proved().map(|proved| proved.statement());
    let model = key.model_key();
    let costs = costs(
        model,
        proved.map(|statement| statement.rows() + usize::from(model.config.generates())),
        time,
    );
    let page = Page {
        verdict: &verdict,
        key: (model, key.recipe()),
        key_file: key_file.clone(),
        proof_file: proof_file.clone(),
        costs: &costs,
        expected: &expected,
        made_by,
    };
    let html = page.html();
    Ok(ProofPage {
        html,
        verdict,
        seconds: time,
    })
}

fn costs(key: &ModelKey, tokens: Option<usize>, time: f64) -> Rows {
    let rows = Rows::default().row("verification", format!("{}, with reading the key", seconds(time)));
    let Some(tokens) = tokens else { return rows };
    let predicted = Prediction::new(key, true, Some(tokens));
    rows.row(
        "proving",
        format!(
            "about {} and {} of memory, as predicted for two cores; the proof does not say what it took",
            seconds(predicted.prove_seconds),
            bytes(predicted.memory.predicted_bytes())
        ),
    )
}
