//! What a key and a proof say of themselves, before anything is verified: for programs, and as rows for people.

use serde_json::{json, Map, Value};
use tessera_circuits::chunk::Chunk;
use tessera_circuits::model::{ModelConfig, ModelParams, Pooling, WeightFormat};
use tessera_circuits::table_tree::TableArgument;
use tessera_recipe::{Class, Fidelity, Figures, Recipe, ScoreFigures, SourceFile, VectorFigures};
use tessera_verifier::codec::{CodecError, FileKind};
use tessera_verifier::key::ModelKey;
use tessera_verifier::ledger::security_bits;
use tessera_verifier::opening::CommitmentParams;
use tessera_verifier::policy::queries;
use tessera_verifier::proof::Proof;

use crate::claim::ids;
use crate::rows::{bytes, count, Rows};
use crate::shown;
use crate::verdict::{add_context, add_hidden, hides};

/// A key and its recipe for machines; `tokens` is the length of the statement, prompt included, that security is said for.
///
/// # Errors
/// If the key cannot be encoded.
pub fn key_json(
    (key, recipe): (&ModelKey, &Recipe),
    tokenizer: bool,
    tokens: usize,
) -> Result<Map<String, Value>, CodecError> {
    let whole = [Chunk::whole(key.config.layers)];
    // The last token of a generation is no row.
    let rows = tokens.saturating_sub(usize::from(key.config.generates()));
    let bits = |rows: usize| security_bits(key, &whole, rows);
    let w = &key.weights;
    let mut json = Map::new();
    for (name, value) in [
        ("kind", json!("model key")),
        ("model_id", json!(key.id()?.to_string())),
        ("format_version", json!(FileKind::Key.version())),
        ("config", json!(key.config)),
        ("strategy", json!(strategy(&key.params))),
        ("hash", json!(key.header.hash_suite.label())),
        ("tables", json!(key.table_argument().name())),
        ("tiles", json!(w.tiles)),
        ("columns", json!(w.columns())),
        ("log_message", json!(w.log_message)),
        ("log_blowup", json!(w.log_blowup)),
        ("weights_root", json!(hex::encode(key.weights_root))),
        ("tables_root", json!(hex::encode(key.tables_root))),
        ("tokenizer", json!(tokenizer)),
        ("computation_digest", json!(hex::encode(key.computation_digest()?))),
        ("tokenizer_digest", json!(hex::encode(key.tokenizer_digest()?))),
        ("recipe", recipe_json(key, recipe)),
        ("security_bits", json!(bits(rows))),
        ("security_bits_at_full_context", json!(bits(key.config.context))),
        (
            "proofs_that_determine_weights",
            json!(proofs_that_determine(&key.weights)),
        ),
    ] {
        json.insert(name.to_owned(), value);
    }
    Ok(json)
}

/// A key and its recipe for people: `tokenizer` is whether it has one, or why that cannot be used, `security` what is said of proofs.
///
/// # Errors
/// If the key cannot be encoded.
pub fn key_rows(
    rows: Rows,
    (key, recipe): (&ModelKey, &Recipe),
    tokenizer: Result<bool, &str>,
    security: &str,
) -> Result<Rows, CodecError> {
    let w = &key.weights;
    let rows = rows
        .row("model", key.id()?)
        .prose("dimensions", dimensions(&key.config))
        .row("strategy", strategy(&key.params))
        .row("hash", key.header.hash_suite.name())
        .row("tables", proved_by(key))
        .row(
            "weights",
            format!(
                "{} of 64 x 64 in {} of 2^{}, rate 2^-{}",
                count(w.tiles, "tile"),
                count(w.columns(), "column"),
                w.log_message,
                w.log_blowup
            ),
        )
        .row("weights root", hex::encode(key.weights_root))
        .row("tables root", tables_root(key))
        .row(
            "tokenizer",
            match tokenizer {
                Ok(true) => "yes",
                Ok(false) => "none: texts are shown as ids",
                Err(error) => error,
            },
        )
        .row("security", security)
        .prose("revealed", revealed(&key.weights));
    Ok(recipe_rows(rows, key, recipe))
}

/// How the lookup tables are proved.
fn proved_by(key: &ModelKey) -> &'static str {
    match key.table_argument() {
        TableArgument::Stark => "proved by a STARK",
        TableArgument::Gkr => "proved by GKR, with the lookups",
    }
}

fn tables_root(key: &ModelKey) -> String {
    match key.table_argument() {
        TableArgument::Stark => hex::encode(key.tables_root),
        TableArgument::Gkr => "none".to_owned(),
    }
}

/// How many proofs of the model, published together, determine all of its weights: from so many on, anybody can calculate them
/// (docs/security.md, section 4.4). Fewer may be enough for somebody who knows something about the weights.
///
/// A proof opens random leaves of the codeword of every column. Any `2^log_message` points of a codeword determine the message,
/// and so large a share of all leaves has been opened after this number of proofs, on average.
pub fn proofs_that_determine(weights: &CommitmentParams) -> u64 {
    let leaves = f64::from(weights.log_message + weights.log_blowup).exp2() / f64::from(CommitmentParams::LEAF_POINTS);
    let share = (-f64::from(weights.log_blowup)).exp2();
    let opened = leaves * -(-share).ln_1p();
    (opened / queries(weights.log_blowup) as f64).ceil() as u64
}

fn revealed(weights: &CommitmentParams) -> String {
    format!(
        "proofs reveal weights: about {} published proofs determine all of them, and fewer may be enough",
        proofs_that_determine(weights)
    )
}

/// A proof of so many bytes for machines.
pub fn proof_json(proof: &Proof, len: usize) -> Value {
    let mut json = json!({
        "kind": "proof",
        "format_version": proof.file_kind().version(),
        "model_id": proof.model.to_string(),
        "prompt_ids": ids(&proof.statement.prompt),
        "chunks": proof.chunks.len(),
        "proof_bytes": len,
        "verified": false,
    });
    let (name, output) = match proof.statement.vector() {
        Some(integers) => ("integers", json!(integers)),
        None => ("output_ids", ids(&proof.statement.output)),
    };
    if let Some(fields) = json.as_object_mut() {
        fields.insert(name.to_owned(), output);
        add_context(proof.context, fields);
        add_hidden(proof.hidden.is_some(), &proof.statement, fields);
        if let Some(hidden) = &proof.hidden {
            fields.insert("reveals_left".to_owned(), json!(hidden.reveals));
        }
    }
    json
}

/// Why a reveal is not inspected: it says nothing by itself.
pub fn of_reveal(name: &str) -> String {
    format!("{name} is a reveal of ids that a proof hides: verify --reveal takes it, and the proof follows")
}

/// A proof of so many bytes, in a file of this name, for people.
pub fn proof_rows(proof: &Proof, name: &str, len: usize) -> Rows {
    let rows = Rows::default()
        .row(
            "proof",
            format!("{}, {}, not verified", shown::line(name), bytes(len as u64)),
        )
        .row("model", proof.model)
        .maybe("context", proof.context)
        .maybe("hides", proof.hidden.as_ref().map(|_| hides(&proof.statement)))
        .ids("prompt", &proof.statement.prompt);
    let rows = match proof.statement.vector() {
        Some(integers) => rows.row("vector", format!("{} integers", integers.len())),
        None => rows.ids("output", &proof.statement.output),
    };
    rows.row("chunks", proof.chunks.len())
}

/// The strategy whose weights a model has.
pub fn strategy(params: &ModelParams) -> &'static str {
    match (params.format, params.weight_bits.iter().max()) {
        (WeightFormat::Int8, _) => "w8",
        (WeightFormat::Int16, Some(..=12)) => "w12",
        (WeightFormat::Int16, _) => "auto",
    }
}

/// The architecture in one line: what an encoder makes its vectors of, too.
pub fn dimensions(c: &ModelConfig) -> String {
    let vector = match (c.reranker(), c.pooling()) {
        (Some(own), _) => {
            let types = own.separator.map(|id| format!(", second type after token {id}"));
            let sigmoid = if own.sigmoid { ", sigmoid" } else { "" };
            format!(", reranker (first token{}{sigmoid})", types.unwrap_or_default())
        }
        (None, None) => String::new(),
        (None, Some(Pooling::Mean)) => ", encoder (mean of all tokens)".to_owned(),
        (None, Some(Pooling::First)) => ", encoder (first token)".to_owned(),
    };
    let cap = c
        .blocks
        .score_cap
        .map_or_else(String::new, |cap| format!(", scores capped at {}", cap.value()));
    let window = c.windows().map_or_else(String::new, |own| {
        let layers = count(own.layers().count(), "layer");
        format!(", a window of {} in {layers}", count(own.keys, "key"))
    });
    format!(
        "{}, hidden {}, {} of {} ({} key/value), feed-forward {}, vocabulary {}, context {}{window}{vector}{cap}",
        count(c.layers, "layer"),
        c.hidden,
        count(c.heads, "head"),
        c.head_dim,
        c.kv_heads,
        c.ff,
        c.vocab,
        c.context
    )
}

/// The recipe of a key for machines.
fn recipe_json(key: &ModelKey, recipe: &Recipe) -> Value {
    let settings = recipe.settings.iter().map(|s| (s.name.clone(), json!(s.value)));
    let file = |f: &SourceFile| json!({"name": f.name, "bytes": f.bytes, "sha256": hex::encode(f.sha256)});
    let files = recipe
        .files
        .as_ref()
        .map(|files| files.iter().map(file).collect::<Vec<_>>());
    json!({
        "digest": hex::encode(key.recipe_digest()),
        "tool": recipe.tool,
        "settings": settings.collect::<serde_json::Map<_, _>>(),
        "calibration": {
            "text": recipe.calibration.text,
            "sha256": recipe.calibration.sha256.map(hex::encode),
            "tokens": recipe.calibration.tokens,
        },
        "files": files,
        "fidelity": fidelity_json(recipe.fidelity.as_ref()),
    })
}

/// The recipe of a key for people.
pub(crate) fn recipe_rows(rows: Rows, key: &ModelKey, recipe: &Recipe) -> Rows {
    let rows = rows
        .row(
            "recipe",
            format!(
                "{}\nclaimed by the maker of the key; --against CHECKPOINT checks it",
                hex::encode(key.recipe_digest())
            ),
        )
        .row("  made by", &recipe.tool)
        .row("  settings", settings(recipe))
        .row("  calibrated", calibration(recipe));
    let rows = match &recipe.files {
        None => rows.row("  files", "left out of the key"),
        Some(files) => files.iter().fold(rows, |rows, file| {
            let value = format!(
                "{}, {}, SHA-256\n{}",
                file.name,
                bytes(file.bytes),
                hex::encode(file.sha256)
            );
            rows.row("  file", value)
        }),
    };
    fidelity_rows(rows, recipe.fidelity.as_ref())
}

fn settings(recipe: &Recipe) -> String {
    let settings = recipe.settings.iter().map(|s| format!("{} {}", s.name, s.value));
    settings.collect::<Vec<_>>().join(", ")
}

fn calibration(recipe: &Recipe) -> String {
    let c = &recipe.calibration;
    let digest = c.sha256.map(|d| format!(", SHA-256\n{}", hex::encode(d)));
    format!(
        "on {}: {}{}",
        count(c.tokens, "token"),
        c.text,
        digest.unwrap_or_default()
    )
}

/// The figures for machines.
pub fn figures_json(f: &Figures) -> Value {
    let [float, integer, bfloat16] = f.perplexities();
    json!({
        "class": f.class().name(),
        "text": f.text,
        "texts": f.windows,
        "tokens": f.tokens,
        "kl": f.kl,
        "kl_p99": f.kl_p99,
        "kl_worst": f.kl_worst,
        "top1": f.top1,
        "perplexity_float": float,
        "perplexity_integer": integer,
        "perplexity_ratio": integer / float,
        "perplexity_change": integer / float - 1.0,
        "saturated_values": f.saturated,
        "kl_bfloat16": f.kl_bfloat16,
        "top1_bfloat16": f.top1_bfloat16,
        "perplexity_bfloat16": bfloat16,
    })
}

/// The figures for people.
pub fn figures_rows(rows: Rows, f: &Figures) -> Rows {
    let [float, integer, bfloat16] = f.perplexities();
    let change = |perplexity: f64| 100.0 * (perplexity / float - 1.0);
    rows.prose("fidelity", class_text(f))
        .row(
            "  on",
            format!(
                "{}: {}, {}",
                f.text,
                count(f.windows, "window"),
                count(f.tokens, "token")
            ),
        )
        .row(
            "  KL",
            format!(
                "{:.2e} nats per position, 99 % up to {:.2e}, worst {:.2e}",
                f.kl, f.kl_p99, f.kl_worst
            ),
        )
        .row("  top-1", format!("{:.2} % of positions agree", 100.0 * f.top1))
        .row(
            "  perplexity",
            format!(
                "{float:.4} float, {integer:.4} integer ({:+.3} %, ratio {:.5})",
                change(integer),
                integer / float
            ),
        )
        .row("  clamped", count(f.saturated, "value"))
        .row(
            "  bfloat16",
            format!(
                "KL {:.2e}, top-1 {:.2} %, perplexity {bfloat16:.4} ({:+.3} %)",
                f.kl_bfloat16,
                100.0 * f.top1_bfloat16,
                change(bfloat16)
            ),
        )
}

/// The figures of an encoder for machines.
pub fn vectors_json(f: &VectorFigures) -> Value {
    json!({
        "measured": true,
        "class": f.class().name(),
        "text": f.text,
        "texts": f.texts,
        "tokens": f.tokens,
        "distance_mean": f.mean,
        "distance_median": f.median,
        "distance_p90": f.p90,
        "distance_p99": f.p99,
        "distance_worst": f.worst,
        "saturated_values": f.saturated,
        "distance_mean_bfloat16": f.mean_bfloat16,
        "distance_worst_bfloat16": f.worst_bfloat16,
    })
}

/// The figures of an encoder for people.
pub fn vectors_rows(rows: Rows, f: &VectorFigures) -> Rows {
    let class = match f.class() {
        Class::Faithful => "faithful: proofs are about the checkpoint, up to the rounding below",
        Class::Close => "close: vectors differ from the checkpoint's in the third digit of a distance",
        Class::Unfaithful => "UNFAITHFUL: a proof is about other vectors than the checkpoint's",
    };
    let spread = format!(
        "mean {:.2e}, half up to {:.2e}, 90 % up to {:.2e}, 99 % up to {:.2e}, worst {:.2e}",
        f.mean, f.median, f.p90, f.p99, f.worst
    );
    rows.prose("fidelity", class.to_owned())
        .row("  on", format!("{}: {} texts, {} tokens", f.text, f.texts, f.tokens))
        .prose("  1 - cosine", spread)
        .row("  clamped", format!("{} values", f.saturated))
        .row(
            "  bfloat16",
            format!(
                "1 - cosine: mean {:.2e}, worst {:.2e}",
                f.mean_bfloat16, f.worst_bfloat16
            ),
        )
}

/// The figures of a reranker for machines.
pub fn scores_json(f: &ScoreFigures) -> Value {
    json!({
        "measured": true,
        "class": f.class().name(),
        "text": f.0.text,
        "texts": f.0.texts,
        "tokens": f.0.tokens,
        "difference_mean": f.0.mean,
        "difference_median": f.0.median,
        "difference_p90": f.0.p90,
        "difference_p99": f.0.p99,
        "difference_worst": f.0.worst,
        "saturated_values": f.0.saturated,
        "difference_mean_bfloat16": f.0.mean_bfloat16,
        "difference_worst_bfloat16": f.0.worst_bfloat16,
    })
}

/// The figures of a reranker for people.
pub fn scores_rows(rows: Rows, f: &ScoreFigures) -> Rows {
    let class = match f.class() {
        Class::Faithful => "faithful: proofs are about the checkpoint, up to the rounding below",
        Class::Close => "close: texts whose scores differ by a tenth may change places",
        Class::Unfaithful => "UNFAITHFUL: a proof is about other scores than the checkpoint's",
    };
    let f = &f.0;
    let spread = format!(
        "mean {:.2e}, half up to {:.2e}, 90 % up to {:.2e}, 99 % up to {:.2e}, worst {:.2e}",
        f.mean, f.median, f.p90, f.p99, f.worst
    );
    let bfloat16 = format!(
        "difference: mean {:.2e}, worst {:.2e}",
        f.mean_bfloat16, f.worst_bfloat16
    );
    rows.prose("fidelity", class.to_owned())
        .row("  on", format!("{}: {} pairs, {} tokens", f.text, f.texts, f.tokens))
        .prose("  difference", format!("of logits: {spread}"))
        .row("  clamped", format!("{} values", f.saturated))
        .row("  bfloat16", bfloat16)
}

/// The class, and what it means for proofs.
fn class_text(f: &Figures) -> String {
    let differs = 100.0 * (1.0 - f.top1);
    match f.class() {
        Class::Faithful => "faithful: proofs are about the checkpoint, up to the rounding below".to_owned(),
        Class::Close => {
            format!("close: texts will differ from the checkpoint's now and then ({differs:.1} % of tokens)")
        }
        Class::Unfaithful => format!(
            "UNFAITHFUL: a proof shows what the integer model says, and that is not what the checkpoint says:\n\
             the most likely token is another one at {differs:.1} % of positions. Do not present such a proof as one\n\
             about the checkpoint."
        ),
    }
}

/// The fidelity of a key or set-up for machines: null if it was left out.
pub fn fidelity_json(fidelity: Option<&Fidelity>) -> Value {
    match fidelity {
        Some(Fidelity::Measured(figures)) => {
            let mut json = figures_json(figures);
            if let Value::Object(fields) = &mut json {
                fields.insert("measured".to_owned(), json!(true));
            }
            json
        }
        Some(Fidelity::Vectors(figures)) => vectors_json(figures),
        Some(Fidelity::Scores(figures)) => scores_json(figures),
        Some(Fidelity::NotMeasured(why)) => json!({"measured": false, "reason": why}),
        None => Value::Null,
    }
}

/// The fidelity of a key or set-up for people.
pub fn fidelity_rows(rows: Rows, fidelity: Option<&Fidelity>) -> Rows {
    match fidelity {
        Some(Fidelity::Measured(figures)) => figures_rows(rows, figures),
        Some(Fidelity::Vectors(figures)) => vectors_rows(rows, figures),
        Some(Fidelity::Scores(figures)) => scores_rows(rows, figures),
        Some(Fidelity::NotMeasured(why)) => rows.row("fidelity", format!("not measured: {why}")),
        None => rows.row("fidelity", "left out of the key"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody should read past it.
    #[test]
    fn an_unfaithful_model_is_announced_with_what_a_proof_then_means() {
        let figures = Figures {
            kl: 0.28,
            top1: 0.7,
            ..Figures::default()
        };
        let text = fidelity_rows(Rows::default(), Some(&Fidelity::Measured(figures))).to_string();
        for words in ["UNFAITHFUL", "not what the checkpoint says", "30.0 %"] {
            assert!(text.contains(words), "{text}");
        }
        let reason = Fidelity::NotMeasured("no memory".to_owned());
        let text = fidelity_rows(Rows::default(), Some(&reason)).to_string();
        assert!(text.contains("not measured: no memory"), "{text}");
        assert_eq!(fidelity_json(None), Value::Null);
    }
}
