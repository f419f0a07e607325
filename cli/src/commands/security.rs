//! What the security of proofs allows: how many tokens in one piece, and how many chunks for more.

use tessera::circuits::chunk::Chunk;
use tessera::circuits::statement::Lengths;
use tessera::lengths::{fewest_chunks, most_rows};
use tessera::verifier::key::ModelKey;
use tessera::verifier::ledger::security_bits;
use tessera::verifier::policy::MIN_BITS;

use crate::printer::Failure;

/// Errors unless a statement of these lengths can be proved in one piece; says what can.
pub fn check_whole(key: &ModelKey, lengths: impl Into<Lengths>) -> Result<(), Failure> {
    check(key, &[Chunk::whole(key.config.layers)], lengths)
}

/// Errors unless a statement of these lengths can be proved in these chunks; says what can.
pub fn check(key: &ModelKey, chunks: &[Chunk], lengths: impl Into<Lengths>) -> Result<(), Failure> {
    let lengths = lengths.into();
    let bits = security_bits(key, chunks, lengths);
    if bits >= MIN_BITS {
        return Ok(());
    }
    let pieces = match chunks.len() {
        1 => "one piece".to_owned(),
        n => format!("these {n} chunks"),
    };
    Err(Failure(format!(
        "{} tokens, prompt included, cannot be proved in {pieces}: the proof would have {} bits of security, and {MIN_BITS} \
         are the minimum; {}",
        lengths.rows + 1,
        rounded_down(bits),
        instead(key, lengths)
    )))
}

/// What can be proved where a statement of these lengths cannot.
fn instead(key: &ModelKey, lengths: Lengths) -> String {
    let whole = match most_rows(key) {
        Some(most) => format!("up to {} tokens can be", most + 1),
        None => "no text of this model can be".to_owned(),
    };
    match fewest_chunks(key, lengths) {
        Some(1) => whole,
        Some(n) => format!("{whole}; prove --work DIR proves more, in {n} chunks of layers or more"),
        None => format!("{whole}, and so many not even in chunks of layers (--work)"),
    }
}

/// The security of proofs in one piece, as `inspect` shows it: of `tokens` tokens and of the full context.
pub fn shown(key: &ModelKey, tokens: usize) -> String {
    let whole = [Chunk::whole(key.config.layers)];
    let one = |tokens: usize, name: String| {
        let rows = tokens - usize::from(key.config.generates());
        let bits = security_bits(key, &whole, rows);
        match bits >= MIN_BITS {
            // As verify prints it: what is below the minimum is not shown here.
            true => format!("{bits:.1} bits for {name}"),
            false => format!("{name} cannot be proved in one piece: {}", instead(key, rows.into())),
        }
    };
    // The last token of a generation is no row, an encoder makes none.
    let (full, name) = match key.config.generates() {
        true => (key.config.context + 1, "the context and one more"),
        false => (key.config.context, "the context"),
    };
    let given = one(tokens, format!("{tokens} tokens"));
    match tokens == full {
        true => given,
        false => format!("{given}\n{}", one(full, format!("{full} tokens ({name})"))),
    }
}

/// So that what is below a minimum does not read as if it were not.
fn rounded_down(bits: f64) -> String {
    format!("{:.1}", (bits * 10.0).floor() / 10.0)
}
