//! The class by which transformers 5.24 builds a tokenizer, as `AutoTokenizer` picks it.
//!
//! `tokenizer.json` describes a whole tokenizer, but most classes take only its vocabulary, its merges and its
//! post-processor, and build everything else by rules of their own ([`super::rebuild`]). So the class decides ids: for
//! example, `GPT2Tokenizer` obeys `add_prefix_space` of `tokenizer_config.json`, whatever `tokenizer.json` says.

use serde_json::{Map, Value};

/// A way to build a tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// `TokenizersBackend`, also called `PreTrainedTokenizerFast`: `tokenizer.json` as it stands.
    Stored,
    /// `LlamaTokenizer`.
    Llama,
    /// `GPT2Tokenizer` and `CodeGenTokenizer`, which build the same tokenizer.
    Gpt2,
    /// `Qwen2Tokenizer`.
    Qwen2,
    /// `GemmaTokenizer`.
    Gemma,
    /// `CohereTokenizer`.
    Cohere,
    /// `GPTNeoXTokenizer`.
    GptNeoX,
    /// `BertTokenizer` and `DistilBertTokenizer`.
    Bert,
    /// `RobertaTokenizer`.
    Roberta,
    /// `XLMRobertaTokenizer`.
    XlmRoberta,
}

/// Special tokens with a name, in the order in which transformers adds them.
pub(crate) const NAMED: [&str; 7] = [
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
];

/// The class that is registered for a `model_type`; `None` where `tokenizer_config.json` alone decides.
const REGISTERED: [(&str, &str); 22] = [
    ("mistral", STORED),
    ("phi3", STORED),
    ("granite", STORED),
    ("ernie4_5", STORED),
    ("internlm2", STORED),
    ("glm", STORED),
    ("stablelm", STORED),
    ("qwen2", "Qwen2Tokenizer"),
    ("qwen3", "Qwen2Tokenizer"),
    ("gemma", "GemmaTokenizer"),
    ("gemma2", "GemmaTokenizer"),
    ("gemma3_text", "GemmaTokenizer"),
    ("gpt2", "GPT2Tokenizer"),
    ("phi", "GPT2Tokenizer"),
    ("starcoder2", "GPT2Tokenizer"),
    ("gpt_neox", "GPTNeoXTokenizer"),
    ("cohere", "CohereTokenizer"),
    ("cohere2", "CohereTokenizer"),
    ("bert", "BertTokenizer"),
    ("distilbert", "BertTokenizer"),
    ("roberta", "RobertaTokenizer"),
    ("xlm-roberta", "XLMRobertaTokenizer"),
];

/// Model types whose checkpoints are known to name a wrong class: the registered one is taken in its place.
const MISNAMED: [&str; 4] = ["ernie4_5", "internlm2", "phi3", "qwen2"];

/// The name under which transformers 5 keeps tokenizers that `tokenizer.json` describes completely.
const STORED: &str = "TokenizersBackend";

/// Classes of transformers that no supported family needs, and whose rules are not known here.
const OTHERS: &str =
    " Albert Barthez Bartpho BertGeneration BertJapanese Bertweet BigBird BioGpt Blenderbot BlenderbotSmall ByT5 \
    CLIP CTRL Camembert Canine Clvp CodeLlama ConvBert Cpm CpmAnt Deberta DebertaV2 Dia Esm Esmc FNet FSMT Flaubert \
    Funnel GPTNeoXJapanese GPTSw3 Herbert LayoutLMv2 LayoutLMv3 LayoutXLM Luke M2M100 MBart MBart50 MLuke MPNet Marian \
    MarkupLM Mgpstr MyT5 Nllb Nougat OpenAIGPT PLBart Parakeet Pegasus Perceiver Phobert Pop2Piano ProphetNet Qwen3_5 \
    Reformer RemBert RoCBert RoFormer SeamlessM4T Siglip Siglip2 Speech2Text SpeechT5 Splinter T5 Tapas Udop Vits \
    Wav2Vec2CTC Whisper XGLM XLM XLNet ";

impl Class {
    /// The class of this name, with or without the ending `Fast`; `None` if transformers builds it by rules that are not known
    /// here. A name that transformers does not know either is that of code beside the checkpoint, in whose place it takes
    /// `tokenizer.json` as it stands.
    pub fn named(name: &str) -> Option<Self> {
        Some(match plain(name) {
            "LlamaTokenizer" => Self::Llama,
            "GPT2Tokenizer" | "CodeGenTokenizer" => Self::Gpt2,
            "Qwen2Tokenizer" => Self::Qwen2,
            "GemmaTokenizer" => Self::Gemma,
            "CohereTokenizer" => Self::Cohere,
            "GPTNeoXTokenizer" => Self::GptNeoX,
            "BertTokenizer" | "DistilBertTokenizer" => Self::Bert,
            "RobertaTokenizer" => Self::Roberta,
            "XLMRobertaTokenizer" => Self::XlmRoberta,
            other => {
                let stem = other.strip_suffix("Tokenizer").unwrap_or(other);
                return match !stem.is_empty() && OTHERS.contains(&format!(" {stem} ")) {
                    true => None,
                    false => Some(Self::Stored),
                };
            }
        })
    }

    /// The class that the fields of `tokenizer_config.json` name, beside this `tokenizer.json`.
    pub fn of(config: &Map<String, Value>, document: &Value) -> Self {
        let name = config
            .get("tokenizer_class")
            .and_then(Value::as_str)
            .unwrap_or_default();
        match Self::named(name).unwrap_or(Self::Stored) {
            Self::Llama if has_byte_level(document) => Self::Stored,
            class => class,
        }
    }

    /// Special tokens that the class has where no file names them.
    pub const fn defaults(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Stored => &[],
            Self::Llama => &[("unk_token", "<unk>"), ("bos_token", "<s>"), ("eos_token", "</s>")],
            Self::Gpt2 => &[
                ("unk_token", "<|endoftext|>"),
                ("bos_token", "<|endoftext|>"),
                ("eos_token", "<|endoftext|>"),
            ],
            Self::Qwen2 => &[
                ("unk_token", "<|endoftext|>"),
                ("eos_token", "<|endoftext|>"),
                ("pad_token", "<|endoftext|>"),
            ],
            Self::Gemma => &[
                ("unk_token", "<unk>"),
                ("bos_token", "<bos>"),
                ("eos_token", "<eos>"),
                ("pad_token", "<pad>"),
                ("mask_token", "<mask>"),
            ],
            Self::Cohere => &[
                ("unk_token", "<UNK>"),
                ("bos_token", "<BOS_TOKEN>"),
                ("eos_token", "<|END_OF_TURN_TOKEN|>"),
                ("pad_token", "<PAD>"),
                ("cls_token", "<CLS>"),
                ("sep_token", "<SEP>"),
                ("mask_token", "<MASK_TOKEN>"),
            ],
            Self::GptNeoX => &[
                ("unk_token", "<|endoftext|>"),
                ("bos_token", "<|endoftext|>"),
                ("eos_token", "<|endoftext|>"),
                ("pad_token", "<|padding|>"),
            ],
            Self::Bert => &[
                ("unk_token", "[UNK]"),
                ("sep_token", "[SEP]"),
                ("pad_token", "[PAD]"),
                ("cls_token", "[CLS]"),
                ("mask_token", "[MASK]"),
            ],
            Self::Roberta | Self::XlmRoberta => &[
                ("bos_token", "<s>"),
                ("eos_token", "</s>"),
                ("sep_token", "</s>"),
                ("cls_token", "<s>"),
                ("unk_token", "<unk>"),
                ("pad_token", "<pad>"),
                ("mask_token", "<mask>"),
            ],
        }
    }

    /// A special token by its name: as the config says it, or else as the class has it. A null in the config is no token.
    pub fn token(self, config: &Map<String, Value>, name: &str) -> Option<String> {
        match config.get(name) {
            Some(value) => token_text(value),
            None => {
                let default = self.defaults().iter().find(|(own, _)| *own == name);
                default.map(|(_, text)| (*text).to_owned())
            }
        }
    }
}

/// The special tokens that have a name, as `transformers` gives them to templates: names and texts.
pub fn special_tokens(config: &Map<String, Value>) -> Vec<(String, String)> {
    let name = config
        .get("tokenizer_class")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let class = Class::named(name).unwrap_or(Class::Stored);
    let known = NAMED
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), class.token(config, name)?)));
    let is_own = |name: &str| name.ends_with("_token") && !NAMED.contains(&name);
    let own = config.iter().filter(|(name, _)| is_own(name));
    let listed = ["extra_special_tokens", "additional_special_tokens"];
    let models = listed
        .iter()
        .filter_map(|name| config.get(*name)?.as_object())
        .flatten();
    let own = own
        .chain(models)
        .filter_map(|(name, value)| Some((name.clone(), token_text(value)?)));
    known.chain(own).collect()
}

/// The field of the config of a GGUF file by which chats, too, get the tokens that go around a text, each once: llama.cpp adds them,
/// transformers does not.
pub const IN_CHATS: &str = "special_tokens_around_chats";

/// The decision of `AutoTokenizer`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Picked {
    /// The name of the class.
    pub name: String,
    /// Whether its rules are known here.
    pub known: bool,
}

/// The class that `AutoTokenizer` picks for a model of this type, where `tokenizer_config.json` or `config.json` names one or
/// none.
pub(super) fn pick(model_type: &str, named: Option<&str>, document: &Value) -> Picked {
    let registered = REGISTERED
        .iter()
        .find(|(own, _)| *own == model_type)
        .map(|(_, class)| *class);
    let misnamed = MISNAMED.contains(&model_type);
    let name = match (named, registered) {
        (Some(named), _) if plain(named) == "LlamaTokenizer" && !misnamed && has_byte_level(document) => STORED,
        (Some(named), Some(registered)) if plain(named) != registered => match (registered, misnamed) {
            (STORED, _) => STORED,
            (registered, true) => registered,
            (_, false) => named,
        },
        (Some(named), _) => named,
        (None, registered) => registered.unwrap_or(STORED),
    };
    Picked {
        name: plain(name).to_owned(),
        known: Class::named(name).is_some(),
    }
}

/// The name of a class without the ending that transformers 5 no longer tells apart.
fn plain(name: &str) -> &str {
    name.strip_suffix("Fast").unwrap_or(name)
}

/// Whether a tokenizer works on bytes, as transformers looks for it: by the name anywhere in its parts.
fn has_byte_level(document: &Value) -> bool {
    fn names(value: &Value) -> bool {
        match value {
            Value::String(text) => text == "ByteLevel",
            Value::Array(list) => list.iter().any(names),
            Value::Object(fields) => fields
                .iter()
                .any(|(name, value)| name != "vocab" && name != "merges" && names(value)),
            _ => false,
        }
    }
    names(document)
}

/// The text of a token: the value itself, or the field `content` of an object with flags.
pub fn token_text(token: &Value) -> Option<String> {
    token.get("content").unwrap_or(token).as_str().map(str::to_owned)
}
