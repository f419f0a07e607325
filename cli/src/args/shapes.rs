//! Models of public dimensions, as the command line has them.

use clap::ValueEnum;
use tessera::synthetic::PublicShape;

/// Public models whose dimensions are known here.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ShapeArg {
    #[value(name = "smollm2-135m")]
    SmolLm2_135m,
    #[value(name = "gpt2-124m-llama")]
    Gpt2_124mLlama,
    #[value(name = "gpt2-124m")]
    Gpt2_124m,
    #[value(name = "pythia-160m")]
    Pythia160m,
    #[value(name = "phi-2")]
    Phi2,
    #[value(name = "stablelm-2-1.6b")]
    StableLm2_1_6b,
    #[value(name = "starcoder2-3b")]
    StarCoder2_3b,
    #[value(name = "qwen2.5-0.5b")]
    Qwen2_5_0_5b,
    #[value(name = "qwen3-0.6b")]
    Qwen3_0_6b,
    #[value(name = "gemma-2b")]
    Gemma2b,
    #[value(name = "gemma2-2b")]
    Gemma2_2b,
    #[value(name = "gemma3-270m")]
    Gemma3_270m,
    #[value(name = "tinyllama-1.1b")]
    TinyLlama1_1b,
    #[value(name = "llama-7b-layer")]
    Llama7bLayer,
    #[value(name = "llama3.2-1b")]
    Llama3_2_1b,
    #[value(name = "mistral-7b")]
    Mistral7b,
    #[value(name = "falcon-7b")]
    Falcon7b,
    #[value(name = "phi-3-mini")]
    Phi3Mini,
    #[value(name = "granite-3-2b")]
    Granite3_2b,
    #[value(name = "smollm3-3b")]
    SmolLm3_3b,
    #[value(name = "ernie-4.5-0.3b")]
    Ernie4_5_0_3b,
    #[value(name = "falcon3-1b")]
    Falcon3_1b,
    #[value(name = "internlm2-1.8b")]
    InternLm2_1_8b,
    #[value(name = "exaone-3.5-2.4b")]
    Exaone3_5_2_4b,
    #[value(name = "minilm-l6")]
    MiniLmL6,
    #[value(name = "multilingual-e5-small")]
    MultilingualE5Small,
    #[value(name = "ms-marco-minilm-l6")]
    MsMarcoMiniLmL6,
    #[value(name = "bge-reranker-base")]
    BgeRerankerBase,
}

impl From<ShapeArg> for PublicShape {
    fn from(arg: ShapeArg) -> Self {
        match arg {
            ShapeArg::SmolLm2_135m => Self::SmolLm2_135m,
            ShapeArg::Gpt2_124mLlama => Self::Gpt2_124mLlama,
            ShapeArg::Gpt2_124m => Self::Gpt2_124m,
            ShapeArg::Pythia160m => Self::Pythia160m,
            ShapeArg::Phi2 => Self::Phi2,
            ShapeArg::StableLm2_1_6b => Self::StableLm2_1_6b,
            ShapeArg::StarCoder2_3b => Self::StarCoder2_3b,
            ShapeArg::Qwen2_5_0_5b => Self::Qwen2_5_0_5b,
            ShapeArg::Qwen3_0_6b => Self::Qwen3_0_6b,
            ShapeArg::Gemma2b => Self::Gemma2b,
            ShapeArg::Gemma2_2b => Self::Gemma2_2b,
            ShapeArg::Gemma3_270m => Self::Gemma3_270m,
            ShapeArg::TinyLlama1_1b => Self::TinyLlama1_1b,
            ShapeArg::Llama7bLayer => Self::Llama7bLayer,
            ShapeArg::Llama3_2_1b => Self::Llama3_2_1b,
            ShapeArg::Mistral7b => Self::Mistral7b,
            ShapeArg::Falcon7b => Self::Falcon7b,
            ShapeArg::Phi3Mini => Self::Phi3Mini,
            ShapeArg::Granite3_2b => Self::Granite3_2b,
            ShapeArg::SmolLm3_3b => Self::SmolLm3_3b,
            ShapeArg::Ernie4_5_0_3b => Self::Ernie4_5_0_3b,
            ShapeArg::Falcon3_1b => Self::Falcon3_1b,
            ShapeArg::InternLm2_1_8b => Self::InternLm2_1_8b,
            ShapeArg::Exaone3_5_2_4b => Self::Exaone3_5_2_4b,
            ShapeArg::MiniLmL6 => Self::MiniLmL6,
            ShapeArg::MultilingualE5Small => Self::MultilingualE5Small,
            ShapeArg::MsMarcoMiniLmL6 => Self::MsMarcoMiniLmL6,
            ShapeArg::BgeRerankerBase => Self::BgeRerankerBase,
        }
    }
}

impl ShapeArg {
    /// As the command line has it.
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |v| v.get_name().to_owned())
    }
}
