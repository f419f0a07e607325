//! Names of tensors.

/// The parts of a layer: how a GGUF file and how the hub layout calls them. The lower ones are those of models that are
/// not supported; with names of the hub layout they are refused for what they are.
const PARTS: [(&str, &str); 19] = [
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
    ("attn_rot_embd", "self_attn.rotary_emb"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("attn_qkv", "self_attn.qkv_proj"),
    ("ffn_gate_inp", "mlp.router"),
    ("ffn_gate_exps", "mlp.experts.gate"),
    ("ffn_up_exps", "mlp.experts.up"),
    ("ffn_down_exps", "mlp.experts.down"),
    ("ffn_gate_shexp", "mlp.shared_expert.gate"),
    ("ffn_up_shexp", "mlp.shared_expert.up"),
];

/// The name that a tensor has in the hub layout; names that have no equivalent get one that no supported model has.
pub(super) fn canonical(stored: &str) -> String {
    let known = match stored {
        "token_embd.weight" => Some("model.embed_tokens.weight".to_string()),
        "output_norm.weight" => Some("model.norm.weight".to_string()),
        "output.weight" => Some("lm_head.weight".to_string()),
        "output.bias" => Some("lm_head.bias".to_string()),
        "output_norm.bias" => Some("model.norm.bias".to_string()),
        _ => of_layer(stored),
    };
    known.unwrap_or_else(|| format!("other.{stored}"))
}

/// The norms of a layer in models that norm what attention and MLP add, too.
const POST_NORMED: [(&str, &str); 3] = [
    ("ffn_norm", "pre_feedforward_layernorm"),
    ("post_attention_norm", "post_attention_layernorm"),
    ("post_ffw_norm", "post_feedforward_layernorm"),
];

/// As [`canonical`], in such models.
pub(super) fn post_normed(stored: &str) -> String {
    let part = |(own, hub): &(&str, &str)| {
        let layer = stored.strip_prefix("blk.")?.strip_suffix(&format!(".{own}.weight"))?;
        Some(format!("model.layers.{layer}.{hub}.weight"))
    };
    let norm = POST_NORMED.iter().find_map(part);
    norm.unwrap_or_else(|| canonical(stored))
}

/// `blk.LAYER.PART.weight` or `.bias`. The number stays as it is written, so that no two names become one.
fn of_layer(stored: &str) -> Option<String> {
    let (layer, rest) = stored.strip_prefix("blk.")?.split_once('.')?;
    let (part, suffix) = rest.split_once('.')?;
    let (_, hub) = PARTS.iter().find(|(own, _)| *own == part)?;
    let suffix = if part == "attn_rot_embd" { "inv_freq" } else { suffix };
    Some(format!("model.layers.{layer}.{hub}.{suffix}"))
}
