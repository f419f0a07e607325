//! The families of models that can be proved. A family is one file: it reads `config.json` (through a [`Reader`], which
//! refuses what it was not asked for), says where the tensors are, and what is folded into weights. One that needs
//! nothing new of the proof is such a file and its line in [`FAMILIES`].

mod bert;
mod cohere;
mod description;
mod distilbert;
mod ernie4_5;
mod exaone;
mod falcon;
mod gemma;
mod gemma2;
mod gemma3;
mod glm;
mod gpt2;
mod gpt_neox;
mod granite;
mod harmless;
mod internlm2;
mod llama;
mod mistral;
mod phi;
mod phi3;
mod place;
mod qwen2;
mod qwen3;
mod reader;
mod reranker;
mod roberta;
mod rotation;
#[cfg(test)]
mod saved;
mod smollm3;
mod stablelm;
mod standard;
mod starcoder2;

use serde_json::Value;

use super::config::{HubConfig, EOS};
use super::error::{CheckpointError, Unsupported};

pub use description::{Description, Factors, Family, Norm};
pub use harmless::{Reason, HARMLESS};
pub use place::{HeadPart, PairOrder, Pairs, Parameter, Place};
pub use reader::Reader;

/// As which other architectures are read, to say what is known of them.
pub(super) const LLAMA: Family = llama::FAMILY;

/// All families.
pub const FAMILIES: [&Family; 29] = [
    &llama::FAMILY,
    &mistral::FAMILY,
    &phi3::FAMILY,
    &granite::FAMILY,
    &smollm3::FAMILY,
    &ernie4_5::FAMILY,
    &qwen2::FAMILY,
    &qwen3::FAMILY,
    &gemma::FAMILY,
    &gemma2::FAMILY,
    &gemma3::FAMILY,
    &gpt2::FAMILY,
    &gpt_neox::FAMILY,
    &phi::FAMILY,
    &stablelm::FAMILY,
    &starcoder2::FAMILY,
    &falcon::FAMILY,
    &internlm2::FAMILY,
    &exaone::FAMILY,
    &glm::FAMILY,
    &cohere::FAMILY,
    &cohere::SECOND,
    &bert::FAMILY,
    &distilbert::FAMILY,
    &roberta::FAMILY,
    &roberta::MULTILINGUAL,
    &reranker::BERT,
    &reranker::ROBERTA,
    &reranker::MULTILINGUAL,
];

/// The tokens that end a text where a config says nothing of them, by the family's `model_type`: the defaults of transformers 5.24, and of
/// the code in their repositories for the two families that are not part of it.
const ENDS: [(&[&str], &[u32]); 9] = [
    (
        &[
            "llama",
            "mistral",
            "granite",
            "ernie4_5",
            "gpt_neox",
            "phi",
            "internlm2",
            "exaone",
        ],
        &[2],
    ),
    (&["gemma", "gemma2", "gemma3_text"], &[1]),
    (&["stablelm"], &[0]),
    (&["falcon"], &[11]),
    (&["phi3"], &[32_000]),
    (&["gpt2", "starcoder2"], &[50_256]),
    (&["smollm3"], &[128_001]),
    (&["glm"], &[151_329, 151_336, 151_338]),
    (&["cohere", "cohere2"], &[255_001]),
];

/// Architectures that people ask for, and what they need that is missing.
const MISSING: [(&[&str], &str); 8] = [
    (
        &["Gemma3ForConditionalGeneration", "gemma3"],
        "images are missing; the text model alone, Gemma3ForCausalLM, can be read",
    ),
    (
        &[
            "Mistral3ForConditionalGeneration",
            "mistral3",
            "LlavaForConditionalGeneration",
            "llava",
            "LlavaNextForConditionalGeneration",
            "llava_next",
            "Qwen2VLForConditionalGeneration",
            "qwen2_vl",
            "Qwen2_5_VLForConditionalGeneration",
            "qwen2_5_vl",
            "Qwen3VLForConditionalGeneration",
            "qwen3_vl",
            "PaliGemmaForConditionalGeneration",
            "paligemma",
            "MllamaForConditionalGeneration",
            "mllama",
            "Llama4ForConditionalGeneration",
            "llama4",
            "Gemma3nForConditionalGeneration",
            "gemma3n",
            "Idefics3ForConditionalGeneration",
            "idefics3",
            "SmolVLMForConditionalGeneration",
            "smolvlm",
        ],
        "images are missing; the text model in it is no checkpoint of its own",
    ),
    (
        &["Olmo2ForCausalLM", "olmo2"],
        "models without norms before attention and MLP, and one norm of all heads together, are missing",
    ),
    (
        &[
            "MixtralForCausalLM",
            "mixtral",
            "Qwen2MoeForCausalLM",
            "qwen2_moe",
            "qwen2moe",
            "Qwen3MoeForCausalLM",
            "qwen3_moe",
            "qwen3moe",
            "GraniteMoeForCausalLM",
            "granitemoe",
            "GptOssForCausalLM",
            "gpt_oss",
            "gpt-oss",
        ],
        "mixtures of experts are missing",
    ),
    (
        &[
            "DeepseekV2ForCausalLM",
            "deepseek_v2",
            "deepseek2",
            "DeepseekV3ForCausalLM",
            "deepseek_v3",
        ],
        "mixtures of experts and attention through latents are missing",
    ),
    (
        &[
            "BertForMaskedLM",
            "DistilBertForMaskedLM",
            "DistilBertForSequenceClassification",
            "RobertaForMaskedLM",
            "XLMRobertaForMaskedLM",
        ],
        "of heads of encoders only those of rerankers are read: a dense layer of the first row, tanh, and scores",
    ),
    (
        &[
            "DebertaV2ForSequenceClassification",
            "deberta-v2",
            "ModernBertForSequenceClassification",
            "modernbert",
            "NewForSequenceClassification",
        ],
        "attention by relative positions or with rotations is missing in encoders",
    ),
    (
        &["MambaForCausalLM", "mamba", "Mamba2ForCausalLM", "mamba2"],
        "recurrences over tokens are missing",
    ),
];

/// A config as its family reads it.
#[derive(Debug)]
pub(super) struct Read {
    /// `None` if the architecture is not supported; it is then described as if it were Llama, as far as that goes.
    pub(super) family: Option<&'static Family>,
    pub(super) description: Result<Description, CheckpointError>,
    pub(super) unsupported: Vec<Unsupported>,
}

/// The family of an architecture, by either of its names.
pub(super) fn family(name: &str) -> Option<&'static Family> {
    FAMILIES
        .into_iter()
        .find(|f| f.architecture == name || f.model_type == name)
}

/// What all families are called, for messages and documents.
pub fn supported() -> String {
    let models: Vec<&str> = FAMILIES.iter().map(|f| f.models).collect();
    models.join("; ")
}

/// Why an architecture is not supported, and what is.
pub(super) fn refusal(architecture: &str) -> String {
    let known = MISSING.iter().find(|(names, _)| names.contains(&architecture));
    let why = known.map_or("no family of this program has this name", |(_, why)| why);
    format!(
        "the architecture {architecture} is not supported: {why}; supported are {}",
        supported()
    )
}

/// What a parameter is called in most checkpoints, and in messages about all.
pub(super) fn name(parameter: Parameter) -> String {
    standard::name(parameter)
}

/// Reads a config.
pub(super) fn read(hub: &HubConfig) -> Read {
    let name = hub.architecture();
    let family = family(&name);
    let mut reader = Reader::new(hub);
    // Both names, where there are both, are those of the family.
    let model_type = reader.get("model_type").and_then(|v| v.as_str());
    reader.get("architectures");
    match (family, model_type) {
        (None, _) => reader.refuse("architecture", refusal(&name)),
        (Some(family), Some(other)) if other != family.model_type => {
            let detail = format!("{name}, but model_type is {other}, not {}", family.model_type);
            reader.refuse("architecture", detail);
        }
        _ => {}
    }
    // Weights would have to be unpacked.
    if reader.get("quantization_config").is_some() {
        reader.refuse(
            "quantised weights",
            "quantization_config is present; the checkpoint before its quantisation can be read",
        );
    }
    let mut description = (family.unwrap_or(&LLAMA).describe)(&mut reader);
    if let Ok(description) = &mut description {
        let most = description.config.max_context();
        description.limit_context(most, "layers whose heads are normed have rotations of their own");
        description.drop_idle_windows();
        // Of one family null is as good as nothing.
        let says = |family: &Family| reader.states(EOS) && (family.model_type != "glm" || reader.has(EOS));
        if let Some(family) = family.filter(|family| !hub.is_converted() && !says(family)) {
            let ends = ENDS.iter().find(|(names, _)| names.contains(&family.model_type));
            let ends = ends.into_iter().flat_map(|(_, ids)| *ids).copied();
            // An id that no token has ends no text.
            description.config.eos = ends.filter(|id| (*id as usize) < description.config.vocab).collect();
        }
    }
    let mut unsupported = reader.finish();
    // What comes after an error was not asked for, and another architecture has other fields.
    if description.is_err() || family.is_none() {
        unsupported.retain(|u| ["architecture", "quantised weights"].contains(&u.feature.as_str()));
    }
    Read {
        family,
        description,
        unsupported,
    }
}

impl HubConfig {
    /// What the checkpoint says it is: `architectures`, or else `model_type`; where that is known, as `architectures` would
    /// have it.
    pub fn architecture(&self) -> String {
        let named = self.get("architectures").and_then(|v| v.get(0)).and_then(Value::as_str);
        let name = named.or_else(|| self.get("model_type").and_then(Value::as_str));
        let name = name.unwrap_or("unknown");
        family(name).map_or(name, |f| f.architecture).to_string()
    }

    /// Errors unless the architecture is supported.
    pub fn check_architecture(&self) -> Result<(), CheckpointError> {
        let (origin, found) = (self.origin, self.architecture());
        match family(&found) {
            Some(_) => Ok(()),
            None => Err(CheckpointError::Architecture {
                origin,
                refusal: refusal(&found),
                found,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_of_no_family_that_there_is() {
        for (names, why) in MISSING {
            for name in names {
                assert!(family(name).is_none(), "{name}");
                let refusal = refusal(name);
                assert!(
                    refusal.contains(why) && refusal.contains(FAMILIES[0].models),
                    "{refusal}"
                );
            }
        }
        assert!(refusal("NewForCausalLM").contains("no family of this program has this name"));
    }

    /// A channel of the proof is one stored channel, and pairs of the proof are pairs of the checkpoint.
    #[test]
    fn pairs_are_a_permutation_of_the_channels_of_a_head() {
        for order in [PairOrder::Halves, PairOrder::Neighbours] {
            for rotated in [2, 4, 8, 12] {
                let pairs = Pairs { rotated, order };
                let mut all: Vec<usize> = (0..12).map(|x| pairs.stored(x, 12)).collect();
                for (a, b) in (0..rotated / 2).map(|x| (all[x], all[x + 6])) {
                    let expected = match order {
                        PairOrder::Halves => (b - rotated / 2, a + rotated / 2),
                        PairOrder::Neighbours => (b - 1, a + 1),
                    };
                    assert_eq!((a, b), expected);
                }
                all.sort_unstable();
                assert_eq!(all, (0..12).collect::<Vec<_>>());
            }
        }
    }
}
