//! Fields of configs that say nothing about what a model computes from token ids.

use serde_json::Value;

/// Why a field does not matter, whatever its value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Only for training, or for the first values of weights.
    Training,
    /// How a program runs the model, not what it computes.
    Running,
    /// How texts are continued, by default; `generate` takes the most likely token and its own options.
    Generating,
    /// Names and versions of programs, files and persons.
    Provenance,
    /// About texts, for which there is the tokenizer.
    Text,
    /// For models with other tasks: names of classes, say.
    Task,
}

/// The fields that are harmless.
pub const HARMLESS: [(Reason, &[&str]); 6] = [
    (
        Reason::Training,
        &[
            "attention_dropout",
            "attention_probs_dropout_prob",
            "attn_pdrop",
            "classifier_dropout",
            "dropout",
            "embd_pdrop",
            "embedding_dropout",
            "gradient_checkpointing",
            "hidden_dropout",
            "hidden_dropout_prob",
            "initializer_range",
            "neftune_noise_alpha",
            "resid_pdrop",
            "residual_dropout",
            "router_aux_loss_coef",
            "output_router_logits",
        ],
    ),
    (
        Reason::Running,
        &[
            "_attn_implementation",
            "_attn_implementation_autoset",
            "attn_implementation",
            // How a program keeps keys and values of earlier tokens.
            "cache_implementation",
            "chunk_size_feed_forward",
            "dtype",
            "output_attentions",
            "output_hidden_states",
            "output_past",
            // Sums in several parts are the same sums.
            "pretraining_tp",
            "return_dict",
            // The files say of which type each tensor is.
            "torch_dtype",
            "torchscript",
            "use_bfloat16",
            "use_cache",
        ],
    ),
    (
        Reason::Generating,
        &[
            "bad_words_ids",
            "begin_suppress_tokens",
            "diversity_penalty",
            "do_sample",
            "early_stopping",
            "encoder_no_repeat_ngram_size",
            "exponential_decay_length_penalty",
            "forced_bos_token_id",
            "forced_eos_token_id",
            "length_penalty",
            "max_length",
            "min_length",
            "no_repeat_ngram_size",
            "num_beam_groups",
            "num_beams",
            "num_return_sequences",
            "output_scores",
            "remove_invalid_values",
            "repetition_penalty",
            "return_dict_in_generate",
            "suppress_tokens",
            "temperature",
            "top_k",
            "top_p",
            "typical_p",
        ],
    ),
    (
        Reason::Provenance,
        &[
            "_commit_hash",
            "_name_or_path",
            "auto_map",
            "is_llama_config",
            "name_or_path",
            "tokenizer_class",
            "transformers.js_config",
            "transformers_version",
            "unsloth_fixed",
            "unsloth_version",
        ],
    ),
    (
        Reason::Text,
        &[
            "decoder_start_token_id",
            "mask_token_id",
            "max_sequence_length",
            "model_max_length",
            "pad_token_id",
            "prefix",
            "sep_token_id",
            "unk_token_id",
        ],
    ),
    (
        Reason::Task,
        &[
            "finetuning_task",
            "id2label",
            "label2id",
            "num_labels",
            "problem_type",
            "summary_activation",
            "summary_first_dropout",
            "summary_proj_to_labels",
            "summary_type",
            "summary_use_proj",
            "task_specific_params",
        ],
    ),
];

/// Fields that are harmless while they say no.
const NO: [&str; 8] = [
    "add_cross_attention",
    "cross_attention_hidden_size",
    "is_decoder",
    "is_encoder_decoder",
    "pruned_heads",
    // A relic of converters, which no family knows.
    "rope_interleaved",
    "tf_legacy_loss",
    "tie_encoder_decoder",
];

/// Fields that newer programs refuse to read where they are null: each has a value, or its default where it is absent.
pub const NOT_NULL: [&str; 30] = [
    "activation",
    "activation_function",
    "attention_bias",
    "attention_multiplier",
    "embedding_multiplier",
    "hidden_act",
    "layer_norm_eps",
    "layer_norm_epsilon",
    "logit_scale",
    "logits_scaling",
    "max_position_embeddings",
    "max_window_layers",
    "mlp_bias",
    "n_positions",
    "no_rope_layer_interval",
    "norm_epsilon",
    "original_max_position_embeddings",
    "qk_layernorm",
    "query_pre_attn_scalar",
    "residual_multiplier",
    "rms_norm_eps",
    "scale_attn_by_inverse_layer_idx",
    "scale_attn_weights",
    "sliding_window_pattern",
    "tie_word_embeddings",
    "type_vocab_size",
    "use_bias",
    "use_parallel_residual",
    "use_qkv_bias",
    "use_sliding_window",
];

/// Whether a field with this value says nothing about what a model computes.
pub fn harmless(field: &str, value: &Value) -> bool {
    let no = match value {
        Value::Bool(yes) => !yes,
        Value::Object(object) => object.is_empty(),
        _ => false,
    };
    // Newer configs of some programs name the kind of every layer of models that have one kind.
    if field == "layer_types" {
        let mut kinds = value.as_array().into_iter().flatten();
        return value.is_array() && kinds.all(|kind| kind == "full_attention");
    }
    HARMLESS.iter().any(|(_, fields)| fields.contains(&field)) || no && NO.contains(&field)
}
