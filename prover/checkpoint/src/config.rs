//! `config.json` of a checkpoint in the hub layout, or the metadata of another file as if they were one.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{json, Map, Value};

use super::error::CheckpointError;
use tessera_support::files;
use tessera_text::json as python;
use tessera_text::tokenizer::{token_text, TOKENIZER_CONFIG_FILE, TOKENIZER_FILE};

/// The kind of rotations whose frequencies have a divisor each, in the field of this name: of GGUF files alone.
pub(super) const DIVISORS: &str = "divisors";
/// The field of the tokens that end a text.
pub(super) const EOS: &str = "eos_token_id";

/// `config.json`, parsed but not understood: a family reads it ([`super::families`]).
#[derive(Clone, Debug)]
pub struct HubConfig {
    fields: Map<String, Value>,
    /// What they were read from.
    pub(super) origin: &'static str,
    /// What fields are called there, where they have another name.
    names: BTreeMap<&'static str, String>,
}

pub(super) const FILE: &str = "config.json";
/// How its makers generate with a model.
pub const GENERATION_FILE: &str = "generation_config.json";

/// The field under which the steps of an encoder stand, which are those of `modules.json`.
pub(super) const MODULES: &str = "modules";
/// The field under which it stands how the vector of an encoder is made.
pub(super) const POOLING: &str = "1_Pooling";
/// The field of the token that stands between two texts.
pub(super) const SEPARATOR: &str = "sep_token_id";
/// The separator of BERT.
const SEP: &str = "[SEP]";
/// Files beside `config.json` that say what a vector is, by the field under which they stand.
const BESIDE: [(&str, &str); 2] = [(MODULES, "modules.json"), (POOLING, "1_Pooling/config.json")];

impl HubConfig {
    /// Parses the JSON object.
    pub fn parse(bytes: &[u8]) -> Result<Self, CheckpointError> {
        Self::of_json(FILE, bytes)
    }

    fn of_json(origin: &'static str, bytes: &[u8]) -> Result<Self, CheckpointError> {
        let unread = |problem| CheckpointError::Unread { origin, problem };
        match python::parse(bytes).map_err(unread)? {
            Value::Object(fields) => Ok(Self::of_fields(origin, fields, BTreeMap::new())),
            _ => Err(unread("the file holds no JSON object".to_owned())),
        }
    }

    /// Fields from somewhere else, where they have other names.
    pub fn of_fields(origin: &'static str, fields: Map<String, Value>, names: BTreeMap<&'static str, String>) -> Self {
        Self { fields, origin, names }
    }

    /// Says what every frequency of the rotations is divided by. Divisors of 1 say nothing.
    pub(super) fn divide_frequencies(&mut self, divisors: Vec<f32>) {
        if divisors.iter().any(|divisor| *divisor != 1.0) {
            let scaling = json!({"rope_type": DIVISORS, DIVISORS: divisors});
            self.fields.insert("rope_scaling".to_owned(), scaling);
        }
    }

    /// An error about a field.
    pub(super) fn error(&self, field: &str, problem: impl Into<String>) -> CheckpointError {
        CheckpointError::Config {
            origin: self.origin,
            field: self.names.get(field).map_or(field, String::as_str).to_string(),
            problem: problem.into(),
        }
    }

    /// What the fields were read from.
    pub(super) const fn origin(&self) -> &'static str {
        self.origin
    }

    /// Whether they were read from another file than the `config.json` of the hub layout.
    pub(super) fn is_converted(&self) -> bool {
        self.origin != FILE
    }

    /// All fields.
    pub(super) const fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// Reads `config.json` of a checkpoint. The tokens that end a text are those that it names and those that
    /// `generation_config.json` names, where there is one: chat models often have the end of a turn only there. What makes vectors
    /// stands beside `config.json`.
    pub fn read(dir: &Path) -> Result<Self, CheckpointError> {
        let mut config = Self::parse(&files::read(&dir.join(FILE))?)?;
        let path = dir.join(GENERATION_FILE);
        if path.exists() {
            let mut all = config.token_ids(EOS, config.get(EOS))?;
            let generation = Self::of_json(GENERATION_FILE, &files::read(&path)?)?;
            for id in generation.token_ids(EOS, generation.get(EOS))? {
                if !all.contains(&id) {
                    all.push(id);
                }
            }
            config.fields.insert(EOS.to_owned(), all.into());
        }
        for (field, file) in BESIDE {
            let path = dir.join(file);
            if path.exists() {
                let value = python::parse(&files::read(&path)?).map_err(|problem| config.error(field, problem))?;
                config.fields.insert(field.to_owned(), value);
            }
        }
        config.find_separator(dir)?;
        Ok(config)
    }

    /// Of a model whose head reads two texts of two types of tokens, the token between them is that of the tokenizer, unless the config
    /// names it.
    fn find_separator(&mut self, dir: &Path) -> Result<(), CheckpointError> {
        let reads_pairs = self.architecture().ends_with("ForSequenceClassification");
        let types = self.get("type_vocab_size").and_then(Value::as_u64).unwrap_or(2);
        let path = dir.join(TOKENIZER_FILE);
        if !reads_pairs || types < 2 || self.get(SEPARATOR).is_some() || !path.exists() {
            return Ok(());
        }
        let read = |path: &Path| {
            let value = python::parse(&files::read(path)?);
            value.map_err(|e| self.error(SEPARATOR, format!("{}: {e}", path.display())))
        };
        let beside = dir.join(TOKENIZER_CONFIG_FILE);
        let name = match beside.exists() {
            true => read(&beside)?.get("sep_token").and_then(token_text),
            false => None,
        };
        let name = name.unwrap_or_else(|| SEP.to_owned());
        let tokenizer = read(&path)?;
        let tokens = tokenizer.get("added_tokens").and_then(Value::as_array);
        let mut tokens = tokens.into_iter().flatten();
        let found = tokens.find(|token| token.get("content").and_then(Value::as_str) == Some(&name));
        if let Some(id) = found.and_then(|token| token.get("id")) {
            self.fields.insert(SEPARATOR.to_owned(), id.clone());
        }
        Ok(())
    }

    /// A field that is present and not null.
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.fields.get(field).filter(|v| !v.is_null())
    }

    /// A token id or a list of them.
    pub(super) fn token_ids(&self, field: &str, value: Option<&Value>) -> Result<Vec<u32>, CheckpointError> {
        let id = |v: &Value| {
            v.as_u64()
                .and_then(|n| u32::try_from(n).ok())
                .ok_or_else(|| self.error(field, format!("{v} is not a token id")))
        };
        match value {
            None => Ok(Vec::new()),
            Some(Value::Array(ids)) => ids.iter().map(id).collect(),
            Some(one) => Ok(vec![id(one)?]),
        }
    }
}

#[cfg(test)]
mod tests {
    use tessera_circuits::model::{ModelConfig, Rotation, MAX_CONTEXT};

    use super::*;
    use crate::families;

    fn parse(more: &str) -> HubConfig {
        let json = format!(
            r#"{{"hidden_size": 64, "num_attention_heads": 8, "num_hidden_layers": 2, "intermediate_size": 100,
            "vocab_size": 300 {more}}}"#
        );
        HubConfig::parse(json.as_bytes()).unwrap()
    }

    fn model(hub: &HubConfig) -> Result<ModelConfig, CheckpointError> {
        families::read(hub).description.map(|d| d.config)
    }

    #[test]
    fn defaults_are_those_of_the_hub() {
        let config = model(&parse("")).unwrap();
        assert_eq!((config.head_dim, config.kv_heads, config.context), (8, 8, 2048));
        assert_eq!(
            (config.rms_eps, config.rotations),
            (1e-6, vec![Rotation::Base(10_000.0)])
        );
        assert_eq!((config.bos, config.eos), (None, vec![]));
    }

    #[test]
    fn newer_layouts_are_read() {
        let hub = parse(
            r#", "head_dim": 12, "eos_token_id": [7, 9], "bos_token_id": 1, "max_position_embeddings": 131072,
            "rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}, "num_key_value_heads": null"#,
        );
        let config = model(&hub).unwrap();
        assert_eq!((config.head_dim, config.kv_heads, config.context), (12, 8, MAX_CONTEXT));
        assert_eq!(
            (config.rotations, config.eos),
            (vec![Rotation::Base(500_000.0)], vec![7, 9])
        );
    }

    #[test]
    fn errors_name_the_field() {
        for (json, field) in [
            (r#", "eos_token_id": "x""#, "eos_token_id"),
            (r#", "rms_norm_eps": -1"#, "rms_norm_eps"),
            (r#", "head_dim": 1.5"#, "head_dim"),
            (
                r#", "rope_parameters": {"rope_theta": "a"}"#,
                "rope_parameters.rope_theta",
            ),
        ] {
            match model(&parse(json)) {
                Err(CheckpointError::Config { field: named, .. }) => assert_eq!(named, field),
                other => panic!("{json}: {other:?}"),
            }
        }
        assert!(matches!(HubConfig::parse(b"[]"), Err(CheckpointError::Unread { .. })));
    }

    #[test]
    fn the_tokens_that_end_a_text_are_those_of_both_files() {
        let dir = tempfile::tempdir().unwrap();
        let read = |config: &str, generation: Option<&str>| {
            let json = format!(
                r#"{{"hidden_size": 64, "num_attention_heads": 8, "num_hidden_layers": 2, "intermediate_size": 100,
                "vocab_size": 300 {config}}}"#
            );
            std::fs::write(dir.path().join("config.json"), json).unwrap();
            let path = dir.path().join("generation_config.json");
            let _ = std::fs::remove_file(&path);
            if let Some(generation) = generation {
                std::fs::write(path, generation).unwrap();
            }
            let config = HubConfig::read(dir.path()).and_then(|config| model(&config));
            config.map(|c| c.eos).map_err(|e| e.to_string())
        };
        let one = r#", "eos_token_id": 7"#;
        assert_eq!(read(one, None).unwrap(), [7]);
        assert_eq!(read(one, Some(r#"{"eos_token_id": [8, 7, 9]}"#)).unwrap(), [7, 8, 9]);
        assert_eq!(read("", Some(r#"{"eos_token_id": 8}"#)).unwrap(), [8]);
        assert!(read("", Some("{}")).unwrap().is_empty());
        assert_eq!(read(one, Some("{}")).unwrap(), [7]);
        for (generation, words) in [
            ("[]", "no JSON object"),
            ("{", "generation_config.json: "),
            (r#"{"eos_token_id": "x"}"#, "eos_token_id: \"x\" is not a token id"),
        ] {
            let error = read(one, Some(generation)).unwrap_err();
            assert!(
                error.contains("generation_config.json") && error.contains(words),
                "{error}"
            );
        }
    }
}
