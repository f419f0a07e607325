//! Configs of every family, edited, as the newest transformers reads and saves them (`fixtures/configs.py`).

use serde_json::{json, Map, Value};

use super::harmless::{harmless, HARMLESS};
use super::{Description, FAMILIES};
use crate::config::HubConfig;
use crate::families;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/configs.json");

/// The edited config, where `difference` has the fields that are other ones and the names of the fields that are gone.
fn edited(base: &Value, difference: &Value) -> Value {
    let mut fields = base.as_object().unwrap().clone();
    fields.extend(difference["set"].as_object().unwrap().clone());
    for gone in difference["gone"].as_array().unwrap() {
        fields.remove(gone.as_str().unwrap());
    }
    fields.into()
}

/// Reads a config: its description as text, or the reason why it is refused.
fn described(config: &Value) -> Result<Description, String> {
    let hub = HubConfig::parse(config.to_string().as_bytes()).unwrap();
    let read = families::read(&hub);
    let mut description = read.description.map_err(|e| e.to_string())?;
    // The token before a text is the tokenizer's.
    description.config.bos = None;
    // Neither has an id that no token has.
    let vocab = description.config.vocab;
    description.config.eos.retain(|id| (*id as usize) < vocab);
    match read.unsupported.as_slice() {
        [] => Ok(description),
        refused => Err(refused.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
    }
}

fn golden() -> Vec<Map<String, Value>> {
    let golden: Value = serde_json::from_slice(&std::fs::read(FILE).unwrap()).unwrap();
    let families = golden["families"].as_array().unwrap().iter();
    families.map(|f| f.as_object().unwrap().clone()).collect()
}

/// Fields whose values no number of a model depends on: what transformers says of them is not asked.
const UNREAD: [&str; 11] = [
    "bos_token_id",
    "eos_token_id",
    "hidden_activation",
    "max_window_layers",
    "num_kv_heads",
    "qa_dropout",
    "reorder_and_upcast_attn",
    "seq_classif_dropout",
    "sinusoidal_pos_embds",
    "sliding_window",
    "use_sliding_window",
];

/// Whether it does not matter that transformers refuses this edit: of a field that is not read, or of a number that is the same one, written
/// as a float or without a point.
fn is_moot(family: &Value, edit: &Value) -> bool {
    let fields = edit["set"].as_object().unwrap();
    fields.iter().all(|(field, value)| {
        let harmless =
            HARMLESS.iter().any(|(_, names)| names.contains(&field.as_str())) || harmless(field, &json!(false));
        let same = value
            .as_f64()
            .zip(family["given"][field].as_f64())
            .is_some_and(|(a, b)| a == b);
        harmless || UNREAD.contains(&field.as_str()) || same || value.as_f64().is_some()
    })
}

#[test]
fn what_the_newest_transformers_saves_is_read_as_what_it_was_made_of() {
    for family in golden() {
        let (given, saved) = (described(&family["given"]), described(&family["saved"]));
        assert_eq!(given.unwrap(), saved.unwrap(), "{}", family["given"]["architectures"]);
    }
}

#[test]
fn a_field_that_is_edited_is_read_as_transformers_reads_it_or_refused() {
    let (mut wrong, mut read) = (Vec::new(), 0);
    for family in golden() {
        let family = Value::from(family);
        for case in family["cases"].as_array().unwrap() {
            let name = format!("{}, {}", family["given"]["architectures"][0], case["name"]);
            let Ok(given) = described(&edited(&family["given"], &case["given"])) else {
                continue;
            };
            read += 1;
            match &case["saved"] {
                Value::Null if is_moot(&family, &case["given"]) => {}
                Value::Null => wrong.push(format!("{name}: read, but transformers refuses it")),
                // It is another model with the same texts, as long as no text is longer than the window.
                saved if saved["set"]["model_type"] == "ministral" => {}
                saved => match described(&edited(&family["saved"], saved)) {
                    Ok(saved) if saved == given => {}
                    Ok(saved) => wrong.push(format!("{name}: {given:?}\n is not {saved:?}")),
                    Err(e) => wrong.push(format!("{name}: as it is saved: {e}")),
                },
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(read > 1500, "only {read} edited configs are read");
}

#[test]
fn every_family_of_transformers_has_edited_configs() {
    let names: Vec<String> = golden()
        .iter()
        .map(|f| f["given"]["architectures"][0].as_str().unwrap().to_owned())
        .collect();
    for family in FAMILIES {
        let others = ["ExaoneForCausalLM", "InternLM2ForCausalLM"];
        let own = family.architecture;
        assert_eq!(names.iter().any(|name| name == own), !others.contains(&own), "{own}");
    }
}

#[test]
fn advice_about_a_field_is_never_to_remove_it() {
    let mut config = golden()[0]["given"].clone();
    config["new_switch"] = json!(true);
    let refusal = described(&config).unwrap_err();
    assert!(
        refusal.contains("new_switch") && !refusal.contains("remove"),
        "{refusal}"
    );
}

#[test]
fn nulls_and_rotations_that_transformers_does_not_read_are_refused_by_name() {
    let of = |name: &str| {
        let family = golden().into_iter().find(|f| f["given"]["architectures"][0] == name);
        family.unwrap()["given"].clone()
    };
    for (name, edit, words) in [
        (
            "LlamaForCausalLM",
            json!({"tie_word_embeddings": null}),
            "tie_word_embeddings: config.json says null",
        ),
        (
            "LlamaForCausalLM",
            json!({"rms_norm_eps": "1e-5"}),
            "rms_norm_eps: \"1e-5\" is not a positive number",
        ),
        (
            "LlamaForCausalLM",
            json!({"hidden_size": 64.0}),
            "hidden_size: 64.0 is not a whole number",
        ),
        ("LlamaForCausalLM", json!({"hidden_size": null}), "hidden_size: missing"),
        (
            "LlamaForCausalLM",
            json!({"rope_scaling": {"rope_type": "linear", "factor": 2.0}, "rope_parameters": {"rope_type": "default"}}),
            "rope_scaling: stands beside rope_parameters",
        ),
        (
            "LlamaForCausalLM",
            json!({"rope_scaling": {"rope_type": "divisors", "divisors": [1, 1, 1, 1]}}),
            "divisors is none of",
        ),
        (
            "LlamaForCausalLM",
            json!({"rope_parameters": {"full_attention": {"rope_type": "default"}}}),
            "rope_parameters.full_attention",
        ),
        (
            "Gemma3ForCausalLM",
            json!({"rope_parameters": {"rope_type": "linear", "factor": 8.0}}),
            "rope_parameters",
        ),
        (
            "Gemma3ForCausalLM",
            json!({"rope_parameters": {"sliding_attention": {"rope_type": "linear", "factor": 8.0}}}),
            "rope_parameters.sliding_attention.rope_type",
        ),
        (
            "Gemma3ForCausalLM",
            json!({"rope_scaling": {"type": "linear", "factor": 8.0}}),
            "rope_scaling.rope_type",
        ),
        ("BertModel", json!({"is_decoder": true}), "is_decoder"),
    ] {
        let mut config = of(name);
        config
            .as_object_mut()
            .unwrap()
            .extend(edit.as_object().unwrap().clone());
        let refusal = described(&config).unwrap_err();
        assert!(refusal.contains(words), "{refusal}");
    }
}
