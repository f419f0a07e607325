//! Every field of a proof that hides activations has a reason why it says nothing of them (docs/security.md, lemma 37), and as many elements are under pads
//! as the tape has pads.

use serde_json::Value;
use tessera_circuits::statement::{HiddenIds, HiddenPrompt};
use tessera_prover::ProofOptions;
use tessera_testkit::odd_config;
use tessera_verifier::hiding::HiddenProof;
use tessera_verifier::proof::Proof;
use tessera_verifier::suite::Suite;

use super::{Scene, HIDING};

/// Why a field says nothing of the activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// Each element is under a pad of its own.
    Padded,
    /// The values are uniform: by masks of products, by blind units and the mask, or because they are hashes of what is.
    Uniform,
    /// The values follow from other fields.
    Determined,
    /// The values follow from statement and key.
    Public,
}

/// All fields, lists without their indices.
const FIELDS: [(&str, Reason); 37] = [
    ("layers", Reason::Public),
    ("statistics.clips", Reason::Public),
    ("activations", Reason::Uniform),
    ("lookup_work", Reason::Determined),
    ("lookups.roots", Reason::Padded),
    ("lookups.layers.rounds", Reason::Padded),
    ("lookups.layers.children", Reason::Padded),
    ("points_work", Reason::Determined),
    ("matmuls.claim", Reason::Padded),
    ("matmuls.sumcheck.rounds", Reason::Padded),
    ("matmuls.operands", Reason::Padded),
    ("linear.rounds", Reason::Padded),
    ("linear_work", Reason::Determined),
    ("opening.codes.band_rounds", Reason::Padded),
    ("opening.codes.column_work", Reason::Determined),
    ("opening.codes.band_value", Reason::Padded),
    // Rows of the weights are public.
    ("opening.codes.rows.values", Reason::Uniform),
    ("opening.codes.rows.path", Reason::Uniform),
    ("opening.cross_values", Reason::Padded),
    ("opening.sum_work", Reason::Determined),
    // The word that is folded is uniform, and all of this follows from it.
    ("opening.fold_rounds", Reason::Determined),
    ("opening.fold_work", Reason::Determined),
    ("opening.roots", Reason::Determined),
    ("opening.final_message", Reason::Determined),
    ("opening.nonce", Reason::Determined),
    ("opening.oracles.values", Reason::Determined),
    ("opening.oracles.path", Reason::Determined),
    ("tables", Reason::Public),
    ("reveals", Reason::Public),
    ("tape.answers", Reason::Uniform),
    // The second is uniform, and the others follow from it and from the word.
    ("tape.values", Reason::Uniform),
    ("tape.work", Reason::Determined),
    ("digits.rounds", Reason::Padded),
    ("digits.factors", Reason::Padded),
    ("statement", Reason::Public),
    ("boundaries", Reason::Public),
    ("model", Reason::Public),
];

/// Words of an element of the extension field.
const WORDS: usize = 4;

/// Counts the numbers and texts of a value by the field that they are in.
fn count(value: &Value, field: &str, fields: &mut Vec<(String, usize)>) {
    match value {
        Value::Object(own) => own.iter().for_each(|(name, own)| {
            let dot = if field.is_empty() { "" } else { "." };
            count(own, &format!("{field}{dot}{name}"), fields);
        }),
        Value::Array(own) => {
            if own.is_empty() {
                fields.push((field.to_owned(), 0));
            }
            own.iter().for_each(|own| count(own, field, fields));
        }
        _ => fields.push((field.to_owned(), 1)),
    }
}

fn reason(field: &str) -> Option<Reason> {
    let own = FIELDS.iter().find(|(name, _)| {
        field
            .strip_prefix(name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    });
    own.map(|(_, reason)| *reason)
}

/// Every field of a proof, of its chunk and of its hiding messages, with the number of its values.
fn fields(proof: &Proof, hidden: &HiddenProof) -> Vec<(String, usize)> {
    let mut fields = Vec::new();
    for value in [serde_json::to_value(proof), serde_json::to_value(hidden)] {
        count(&value.expect("a proof is a tree"), "", &mut fields);
    }
    let own = fields
        .into_iter()
        .map(|(field, values)| match field.strip_prefix("chunks.") {
            Some(rest) => (rest.to_owned(), values),
            None => (field, values),
        });
    own.collect()
}

#[test]
fn every_field_has_a_reason_and_every_padded_element_a_pad() {
    let ids = HiddenIds {
        prompt: Some(HiddenPrompt { prefix: 1, suffix: 0 }),
        output: true,
    };
    covered(Scene::small(), HIDING);
    let asked = ProofOptions {
        hidden_ids: ids,
        ..HIDING
    };
    covered(&Scene::new(Suite::default(), odd_config()).hiding(&ids), asked);
}

fn covered(scene: &Scene, asked: ProofOptions<'_>) {
    let proof = scene.prove(asked).expect("a proof").proof;
    let hidden = proof.hidden.as_ref().expect("a proof that hides");
    let (mut padded, mut words, mut seen) = (0, 0, vec![false; FIELDS.len()]);
    for (field, values) in fields(&proof, hidden) {
        let own = reason(&field).unwrap_or_else(|| panic!("{field} has no reason to say nothing"));
        words += values;
        padded += if own == Reason::Padded { values } else { 0 };
        for (seen, (name, _)) in seen.iter_mut().zip(&FIELDS) {
            *seen |= field.starts_with(name);
        }
        if field == "statistics.clips" {
            assert_eq!(values, 0, "a list of clipped values");
        }
    }
    let tape = scene.code().tape;
    let pads = (tape.messages - tape.unused) + (tape.entries - tape.cross);
    assert_eq!(padded, WORDS * pads, "words under pads, of {words}");
    let missing = seen.iter().zip(&FIELDS).filter(|(seen, _)| !**seen);
    let missing: Vec<_> = missing.map(|(_, (name, _))| *name).collect();
    assert!(missing.is_empty(), "fields that no proof has: {missing:?}");
    assert!(proof.boundaries.is_empty());
    let clear = scene.prove(ProofOptions::default()).expect("a proof").proof;
    assert_eq!(proof.model, clear.model);
    assert_eq!(proof.statement, scene.statement);
}
