//! `config.json` of a Llama checkpoint in the hub layout, or the metadata of another file as if they were one.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};
use tessera_circuits::model::{ModelConfig, MAX_CONTEXT};

use super::CheckpointError;
use crate::support::files;

/// The only architecture that is supported, as `architectures` names it.
pub const ARCHITECTURE: &str = "LlamaForCausalLM";

/// The field of the tokens that end a text.
const EOS: &str = "eos_token_id";

/// `config.json`, parsed field by field so that an error can name the field.
#[derive(Clone, Debug)]
pub struct HubConfig {
    fields: Map<String, Value>,
    /// What they were read from.
    origin: &'static str,
    /// What fields are called there, where they have another name.
    names: BTreeMap<&'static str, String>,
}

const FILE: &str = "config.json";
/// How its makers generate with a model.
pub const GENERATION_FILE: &str = "generation_config.json";

impl HubConfig {
    /// Parses the JSON object.
    pub fn parse(bytes: &[u8]) -> Result<Self, CheckpointError> {
        Self::of_json(FILE, bytes)
    }

    fn of_json(origin: &'static str, bytes: &[u8]) -> Result<Self, CheckpointError> {
        let mut config = Self::of_fields(origin, Map::new(), BTreeMap::new());
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(fields)) => config.fields = fields,
            Ok(_) => return Err(config.error(origin, "not a JSON object")),
            Err(e) => return Err(config.error(origin, e.to_string())),
        }
        Ok(config)
    }

    /// Fields from somewhere else, where they have other names.
    pub fn of_fields(origin: &'static str, fields: Map<String, Value>, names: BTreeMap<&'static str, String>) -> Self {
        Self { fields, origin, names }
    }

    fn error(&self, field: &str, problem: impl Into<String>) -> CheckpointError {
        CheckpointError::Config {
            origin: self.origin,
            field: self.names.get(field).map_or(field, String::as_str).to_string(),
            problem: problem.into(),
        }
    }

    /// Errors unless the architecture is supported.
    pub fn check_architecture(&self) -> Result<(), CheckpointError> {
        let (origin, found) = (self.origin, self.architecture());
        match found == ARCHITECTURE {
            true => Ok(()),
            false => Err(CheckpointError::Architecture { origin, found }),
        }
    }

    /// Reads `config.json` of a checkpoint. The tokens that end a text are those that it names and those that
    /// `generation_config.json` names, where there is one: chat models often have the end of a turn only there.
    pub fn read(dir: &Path) -> Result<Self, CheckpointError> {
        let mut config = Self::parse(&files::read(&dir.join(FILE))?)?;
        let path = dir.join(GENERATION_FILE);
        if path.exists() {
            let mut all = config.token_ids(EOS)?;
            for id in Self::of_json(GENERATION_FILE, &files::read(&path)?)?.token_ids(EOS)? {
                if !all.contains(&id) {
                    all.push(id);
                }
            }
            config.fields.insert(EOS.to_owned(), all.into());
        }
        Ok(config)
    }

    /// A field that is present and not null.
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.fields.get(field).filter(|v| !v.is_null())
    }

    /// Whether a boolean field is present and true.
    pub fn flag(&self, field: &str) -> bool {
        self.get(field).and_then(Value::as_bool).unwrap_or(false)
    }

    /// An unsigned number, if present.
    pub fn integer(&self, field: &str) -> Result<Option<usize>, CheckpointError> {
        self.get(field)
            .map(|v| {
                v.as_u64()
                    .and_then(|n| usize::try_from(n).ok())
                    .ok_or_else(|| self.error(field, format!("{v} is not a whole number")))
            })
            .transpose()
    }

    fn required(&self, field: &str) -> Result<usize, CheckpointError> {
        self.integer(field)?.ok_or_else(|| self.error(field, "missing"))
    }

    fn real(&self, field: &str, default: f64) -> Result<f64, CheckpointError> {
        self.positive(field, self.get(field)).map(|v| v.unwrap_or(default))
    }

    /// What the checkpoint says it is: `architectures`, or else `model_type`.
    pub fn architecture(&self) -> String {
        let named = self.get("architectures").and_then(|v| v.get(0)).and_then(Value::as_str);
        match named.or_else(|| self.get("model_type").and_then(Value::as_str)) {
            Some("llama") => ARCHITECTURE.to_string(),
            Some(name) => name.to_string(),
            None => "unknown".to_string(),
        }
    }

    /// Whether the embedding is also the output head.
    pub fn tied(&self) -> bool {
        self.flag("tie_word_embeddings")
    }

    /// The RoPE object: `rope_parameters` of newer configs or `rope_scaling` of older ones.
    pub fn rope(&self) -> Option<(&'static str, &Map<String, Value>)> {
        ["rope_parameters", "rope_scaling"]
            .into_iter()
            .find_map(|name| Some((name, self.get(name)?.as_object()?)))
    }

    /// The kind of RoPE scaling, `None` for the plain one.
    pub fn rope_scaling(&self) -> Option<String> {
        let (_, rope) = self.rope()?;
        let kind = rope
            .get("rope_type")
            .or_else(|| rope.get("type"))
            .and_then(Value::as_str);
        match kind {
            Some("default") => None,
            Some(kind) => Some(kind.to_string()),
            None => rope.contains_key("factor").then(|| "factor without a type".to_string()),
        }
    }

    fn rope_theta(&self) -> Result<f64, CheckpointError> {
        let nested = self.rope().and_then(|(_, rope)| rope.get("rope_theta"));
        match self.positive("rope_parameters.rope_theta", nested)? {
            Some(theta) => Ok(theta),
            None => self.real("rope_theta", 10_000.0),
        }
    }

    /// A token id or a list of them.
    fn token_ids(&self, field: &str) -> Result<Vec<u32>, CheckpointError> {
        let id = |v: &Value| {
            v.as_u64()
                .and_then(|n| u32::try_from(n).ok())
                .ok_or_else(|| self.error(field, format!("{v} is not a token id")))
        };
        match self.get(field) {
            None => Ok(Vec::new()),
            Some(Value::Array(ids)) => ids.iter().map(id).collect(),
            Some(one) => Ok(vec![id(one)?]),
        }
    }

    /// The dimensions and constants, with the defaults of the hub's Llama config; the context is clamped
    /// to [`MAX_CONTEXT`]. Dimensions are not checked against the limits of the proof system here.
    pub fn model(&self) -> Result<ModelConfig, CheckpointError> {
        let hidden = self.required("hidden_size")?;
        let heads = self.required("num_attention_heads")?;
        let head_dim = match self.integer("head_dim")? {
            Some(d) => d,
            None if heads > 0 && hidden.is_multiple_of(heads) => hidden / heads,
            None => {
                let problem = format!("missing, and hidden_size {hidden} is not a multiple of {heads} heads");
                return Err(self.error("head_dim", problem));
            }
        };
        Ok(ModelConfig {
            hidden,
            layers: self.required("num_hidden_layers")?,
            heads,
            kv_heads: self.integer("num_key_value_heads")?.unwrap_or(heads),
            head_dim,
            ff: self.required("intermediate_size")?,
            vocab: self.required("vocab_size")?,
            context: self
                .integer("max_position_embeddings")?
                .unwrap_or(2048)
                .min(MAX_CONTEXT),
            rms_eps: self.real("rms_norm_eps", 1e-6)?,
            rope_theta: self.rope_theta()?,
            bos: self.token_ids("bos_token_id")?.first().copied(),
            eos: self.token_ids(EOS)?,
        })
    }
    fn positive(&self, field: &str, value: Option<&Value>) -> Result<Option<f64>, CheckpointError> {
        value
            .map(|v| {
                v.as_f64()
                    .filter(|x| x.is_finite() && *x > 0.0)
                    .ok_or_else(|| self.error(field, format!("{v} is not a positive number")))
            })
            .transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(more: &str) -> HubConfig {
        let json = format!(
            r#"{{"hidden_size": 64, "num_attention_heads": 8, "num_hidden_layers": 2, "intermediate_size": 100,
            "vocab_size": 300 {more}}}"#
        );
        HubConfig::parse(json.as_bytes()).unwrap()
    }

    #[test]
    fn defaults_are_those_of_the_hub() {
        let config = parse("").model().unwrap();
        assert_eq!((config.head_dim, config.kv_heads, config.context), (8, 8, 2048));
        assert_eq!((config.rms_eps, config.rope_theta), (1e-6, 10_000.0));
        assert_eq!((config.bos, config.eos), (None, vec![]));
    }

    #[test]
    fn newer_layouts_are_read() {
        let hub = parse(
            r#", "head_dim": 12, "eos_token_id": [7, 9], "bos_token_id": 1, "max_position_embeddings": 131072,
            "rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}, "num_key_value_heads": null"#,
        );
        let config = hub.model().unwrap();
        assert_eq!((config.head_dim, config.kv_heads, config.context), (12, 8, MAX_CONTEXT));
        assert_eq!((config.rope_theta, config.eos), (500_000.0, vec![7, 9]));
        assert_eq!(hub.rope_scaling(), None);
        assert_eq!(
            parse(r#", "rope_scaling": {"type": "linear", "factor": 2.0}"#)
                .rope_scaling()
                .unwrap(),
            "linear"
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
            match parse(json).model() {
                Err(CheckpointError::Config { field: named, .. }) => assert_eq!(named, field),
                other => panic!("{json}: {other:?}"),
            }
        }
        assert!(matches!(HubConfig::parse(b"[]"), Err(CheckpointError::Config { .. })));
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
            let config = HubConfig::read(dir.path()).and_then(|config| config.model());
            config.map(|c| c.eos).map_err(|e| e.to_string())
        };
        let one = r#", "eos_token_id": 7"#;
        assert_eq!(read(one, None).unwrap(), [7]);
        assert_eq!(read(one, Some(r#"{"eos_token_id": [8, 7, 9]}"#)).unwrap(), [7, 8, 9]);
        assert_eq!(read("", Some(r#"{"eos_token_id": 8}"#)).unwrap(), [8]);
        assert_eq!(read(one, Some("{}")).unwrap(), [7]);
        for (generation, words) in [
            ("[]", "not a JSON object"),
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
