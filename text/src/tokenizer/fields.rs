//! The fields of `tokenizer_config.json`: each one is used, known to be harmless, noted or refused by name.

use serde_json::{Map, Value};

use super::class::{Class, NAMED};
use super::error::TokenizerError;

/// Fields that decide no ids: they are about decoding, padding, batches, names of files and older programs.
const HARMLESS: [&str; 35] = [
    "_commit_hash",
    "backend",
    "chat_control_tokens",
    "clean_up_tokenization_spaces",
    "device_map",
    "do_basic_tokenize",
    "errors",
    "files_loaded",
    "from_slow",
    "init_inputs",
    "is_local",
    "local_files_only",
    "max_len",
    "max_length",
    "merges_file",
    "model_input_names",
    "name_or_path",
    "never_split",
    "pad_to_multiple_of",
    "pad_token_type_id",
    "padding",
    "padding_side",
    "processor_class",
    "response_schema",
    "response_template",
    "return_token_type_ids",
    "sp_model_kwargs",
    "spaces_between_special_tokens",
    "special_tokens_map_file",
    "stride",
    "tokenizer_file",
    "trim_offsets",
    "truncation",
    "truncation_strategy",
    "use_default_system_prompt",
];
/// More of them.
const HARMLESS_TOO: [&str; 6] = [
    "use_fast",
    "vocab_file",
    "vocab_size",
    "verbose",
    "truncation_direction",
    "transformers_version",
];

/// The fields, sorted by their effect on ids.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// Fields that decide ids.
    pub used: Vec<String>,
    /// Fields that do not.
    pub ignored: Vec<String>,
    /// Notes for the user, for example about fields that nobody knows.
    pub notes: Vec<String>,
}

impl Fields {
    /// Sorts the fields of a config by what a class does with them. Errors name a field that changes ids in a way that is not
    /// supported.
    pub fn of(config: &Map<String, Value>, class: Class, encoder: bool) -> Result<Self, TokenizerError> {
        let mut fields = Self::default();
        let mut unknown = Vec::new();
        for (name, value) in config {
            match use_of(name, value, class, encoder) {
                Use::Decides => fields.used.push(name.clone()),
                Use::Nothing => fields.ignored.push(name.clone()),
                Use::Unknown => {
                    fields.ignored.push(name.clone());
                    unknown.push(name.as_str());
                }
                Use::Note(note) => {
                    fields.ignored.push(name.clone());
                    fields.notes.push(format!("tokenizer_config.json: {note}"));
                }
                Use::Refused(problem) => return Err(TokenizerError::Config(problem)),
            }
        }
        if !unknown.is_empty() {
            let list = unknown.join(", ");
            fields.notes.push(format!(
                "tokenizer_config.json: {list}: neither transformers 5.24 nor this program knows what to do with it"
            ));
        }
        Ok(fields)
    }
}

/// The effect of a field on ids.
enum Use {
    Decides,
    Nothing,
    Unknown,
    /// It does nothing, and did something in other versions or programs.
    Note(String),
    Refused(String),
}

fn use_of(name: &str, value: &Value, class: Class, encoder: bool) -> Use {
    let on = value.as_bool() == Some(true);
    let by_class = |reads: bool| match (reads, value.is_null()) {
        (true, _) => Use::Decides,
        (false, true) => Use::Nothing,
        (false, false) => Use::Note(format!(
            "{name} is {value}, which transformers 5.24 does not use for this tokenizer: tokenizer.json decides"
        )),
    };
    match name {
        "tokenizer_class"
        | "added_tokens_decoder"
        | "extra_special_tokens"
        | "additional_special_tokens"
        | "model_specific_special_tokens"
        | "chat_template" => Use::Decides,
        // What is said of them needs the ids: `super::files` does so.
        "add_bos_token" | "add_eos_token" => Use::Nothing,
        "truncation_side" if !matches!(value.as_str(), Some("left" | "right")) => {
            Use::Refused(format!("{name} is {value}, which is neither left nor right"))
        }
        "model_max_length" | "truncation_side" if encoder => Use::Decides,
        "model_max_length" | "truncation_side" => Use::Nothing,
        "split_special_tokens" if on => Use::Refused(format!(
            "{name} is true: special tokens that a text spells would be split, which is not supported"
        )),
        "fix_mistral_regex" if on => Use::Refused(format!(
            "{name} is true: another pattern splits the texts, which is not supported"
        )),
        "split_special_tokens" | "fix_mistral_regex" => Use::Nothing,
        "add_prefix_space" => by_class(!matches!(class, Class::Stored | Class::Gemma | Class::Bert)),
        "legacy" => match class {
            Class::Llama => Use::Decides,
            _ => Use::Nothing,
        },
        "do_lower_case" | "strip_accents" | "tokenize_chinese_chars" => by_class(class == Class::Bert),
        "auto_map" => Use::Note(
            "auto_map names Python code that comes with the checkpoint, which is not run: tokenizer.json decides"
                .to_owned(),
        ),
        _ if NAMED.contains(&name) || name.ends_with("_token") => Use::Decides,
        _ if HARMLESS.contains(&name) || HARMLESS_TOO.contains(&name) => Use::Nothing,
        _ => Use::Unknown,
    }
}
