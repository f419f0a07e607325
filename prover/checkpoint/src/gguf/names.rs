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

/// Matrices of Phi-3: the gate and the other factor are one.
const PHI3: [(&str, &str); 1] = [("ffn_up", "mlp.gate_up_proj")];
/// Matrices of StarCoder2, whose MLP has no gate.
const STARCODER2: [(&str, &str); 2] = [("ffn_up", "mlp.c_fc"), ("ffn_down", "mlp.c_proj")];
/// Those of Phi-1 and Phi-2.
const PHI2: [(&str, &str); 3] = [
    ("attn_output", "self_attn.dense"),
    ("ffn_up", "mlp.fc1"),
    ("ffn_down", "mlp.fc2"),
];

/// As [`canonical`], in Phi-3.
pub(super) fn phi3(stored: &str) -> String {
    with(&PHI3, stored)
}

/// As [`canonical`], in StarCoder2.
pub(super) fn starcoder2(stored: &str) -> String {
    with(&STARCODER2, stored)
}

/// As [`canonical`], in Phi-1 and Phi-2.
pub(super) fn phi2(stored: &str) -> String {
    match stored.strip_prefix("output_norm.") {
        Some(end) => format!("model.final_layernorm.{end}"),
        None => with(&PHI2, stored),
    }
}

/// As [`canonical`], with these names of parts of layers first.
fn with(parts: &[(&str, &str)], stored: &str) -> String {
    of_parts(parts, stored).unwrap_or_else(|| canonical(stored))
}

/// `blk.LAYER.PART.weight` or `.bias`. The number stays as it is written, so that no two names become one.
fn of_layer(stored: &str) -> Option<String> {
    of_parts(&PARTS, stored)
}

/// The same with these names of parts.
fn of_parts(parts: &[(&str, &str)], stored: &str) -> Option<String> {
    let (layer, rest) = stored.strip_prefix("blk.")?.split_once('.')?;
    let (part, suffix) = rest.split_once('.')?;
    let (_, hub) = parts.iter().find(|(own, _)| *own == part)?;
    let suffix = if part == "attn_rot_embd" { "inv_freq" } else { suffix };
    Some(format!("model.layers.{layer}.{hub}.{suffix}"))
}
