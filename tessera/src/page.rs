//! A page about a proof, for people: the verdict, the conversation, the soundness ledger, and how to check it again.

use std::time::Instant;

use tessera_recipe::KeyFileError;
use tessera_verdict::page::{File, Page};
use tessera_verdict::rows::{bytes, seconds, Rows};
use tessera_verdict::{mistaken, Verdict};
use tessera_verifier::key::ModelKey;
use tessera_verifier::verify::verify_bytes;

use crate::model::{claim_of, read_tokenizer};
use crate::prediction::{keeps_codeword, Prediction};

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

/// Verifies a proof and writes the page about it. A proof that is rejected has a page, too, which says why. `made_by` is the line
/// at the end of the page: the program, and when it ran.
///
/// ```no_run
/// use tessera_verdict::page::File;
///
/// let [key, proof] = ["model.key", "story.proof"].map(|name| (name, std::fs::read(name)));
/// let [key, proof] = [(key.0, key.1?), (proof.0, proof.1?)];
/// let page = tessera::page(&File { name: key.0, bytes: &key.1 }, &File { name: proof.0, bytes: &proof.1 }, "my program")?;
/// std::fs::write("story.html", page.html)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the key cannot be used: there is no verdict without one.
pub fn page(key_file: &File<'_>, proof_file: &File<'_>, made_by: &str) -> Result<ProofPage, KeyFileError> {
    let clock = Instant::now();
    let (key, recipe) = tessera_recipe::read_key(key_file.bytes)?;
    let id = key.id().map_err(tessera_verifier::key::KeyError::from)?;
    let found = verify_bytes(&key, proof_file.bytes);
    let time = clock.elapsed().as_secs_f64();
    // Of a proof that is rejected no text is shown.
    let tokenizer = match &found {
        Ok(_) => read_tokenizer(&key).map_err(|e| e.to_string()),
        Err(_) => Ok(None),
    };
    let shown = tokenizer.as_ref().map(Option::as_ref).map_err(Clone::clone);
    let verdict = Verdict::new(id, proof_file.bytes.len(), found, |statement| {
        claim_of(statement, &key, shown)
    });
    let verdict = verdict.because(mistaken(proof_file.name, proof_file.bytes));
    let proved = verdict.proved().map(|proved| proved.statement());
    let costs = costs(
        &key,
        proved.map(|statement| statement.rows() + usize::from(key.config.generates())),
        time,
    );
    let page = Page {
        verdict: &verdict,
        key: (&key, &recipe),
        key_file: key_file.clone(),
        proof_file: proof_file.clone(),
        costs: &costs,
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
    let predicted = Prediction::new(key, keeps_codeword(&key.config), tokens);
    rows.row(
        "proving",
        format!(
            "about {} and {} of memory, as predicted for two cores; the proof does not say what it took",
            seconds(predicted.prove_seconds),
            bytes(predicted.memory.predicted_bytes())
        ),
    )
}
