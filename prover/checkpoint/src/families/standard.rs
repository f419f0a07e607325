//! What most families have in common: names of fields and of tensors.

use serde_json::{json, Value};
use tessera_circuits::model::{Activation, Blocks, Mask, MatmulKind, ModelConfig, Windows, MAX_CONTEXT, MAX_LAYERS};
use tessera_circuits::wording::count;

use super::description::{Description, Factors, Norm};
use super::place::{HeadPart, Pairs, Parameter, Place};
use super::reader::Reader;
use super::rotation;
use crate::config::EOS;
use crate::CheckpointError;

/// Matrices of attention and of the MLP.
pub const ATTENTION: &[MatmulKind] = &[MatmulKind::Q, MatmulKind::K, MatmulKind::V, MatmulKind::O];
/// Those of an MLP without gates.
pub const PLAIN: &[MatmulKind] = &[MatmulKind::Up, MatmulKind::Down];
const GATED: &[MatmulKind] = &[MatmulKind::Gate, MatmulKind::Up, MatmulKind::Down];

/// What a config leaves out because it is the default of its family.
pub struct Defaults {
    /// Whether there are as many heads of keys and values as of queries; otherwise their number must be given.
    pub kv_heads_as_heads: bool,
    /// The length of a head; `None` where the heads share the residual stream.
    pub head_dim: Option<usize>,
    pub context: usize,
    pub rms_eps: f64,
    /// Where newer configs have the rotations of all layers, or of the layers that see all of a text.
    pub rope: &'static str,
    pub rope_theta: f64,
    pub tied: bool,
    /// Whether `attention_bias` and `mlp_bias` mean something.
    pub biases: bool,
    /// Part of the channels of a head that are rotated.
    pub rotated: f64,
    /// The field of what norms add to the mean square.
    pub eps: &'static str,
    /// The field of the number of layers.
    pub layers: &'static str,
    /// The field of the function of the MLP.
    pub act: &'static str,
    /// What the MLP may compute.
    pub mlp: Mlp,
}

/// What the MLP may compute.
pub enum Mlp {
    /// SiLU of gates, and nothing else.
    Gated,
    /// Another function of gates, of which this is the default.
    GatedBy(&'static str),
    /// A function of which this is the default, without gates.
    Plain(&'static str),
}

impl Defaults {
    /// Those of Llama.
    pub const LLAMA: Self = Self {
        kv_heads_as_heads: true,
        head_dim: None,
        context: 2048,
        rms_eps: 1e-6,
        rope: rotation::NEWER,
        rope_theta: 10_000.0,
        tied: false,
        biases: true,
        rotated: 1.0,
        eps: "rms_norm_eps",
        layers: "num_hidden_layers",
        act: "hidden_act",
        mlp: Mlp::Gated,
    };
}

/// Dimensions and constants. The context is clamped to [`MAX_CONTEXT`]. Dimensions are not checked against the limits of
/// the proof system here.
pub fn describe(reader: &mut Reader<'_>, defaults: &Defaults) -> Result<Description, CheckpointError> {
    let hidden = reader.required("hidden_size")?;
    let heads = reader.required("num_attention_heads")?;
    let own = reader.integer("head_dim")?;
    if own.is_none() && defaults.head_dim.is_some() && reader.states("head_dim") {
        return Err(reader.error("head_dim", "null is no length"));
    }
    let head_dim = match own.or(defaults.head_dim) {
        Some(d) => d,
        None if heads > 0 && hidden.is_multiple_of(heads) => hidden / heads,
        None => {
            let problem = format!("missing, and hidden_size {hidden} is not a multiple of {heads} heads");
            return Err(reader.error("head_dim", problem));
        }
    };
    let kv_heads = match defaults.kv_heads_as_heads {
        true => reader.integer("num_key_value_heads")?.unwrap_or(heads),
        false => reader.required("num_key_value_heads")?,
    };
    let context = reader.integer("max_position_embeddings")?.unwrap_or(defaults.context);
    let config = ModelConfig {
        hidden,
        layers: reader.required(defaults.layers)?,
        heads,
        kv_heads,
        head_dim,
        ff: reader.required("intermediate_size")?,
        vocab: reader.required("vocab_size")?,
        context: context.min(MAX_CONTEXT),
        rms_eps: reader.positive(defaults.eps)?.unwrap_or(defaults.rms_eps),
        rotations: Vec::new(),
        rotation_of: Vec::new(),
        positions: false,
        gated: !matches!(defaults.mlp, Mlp::Plain(_)),
        head_norms: false,
        blocks: Blocks::DECODER,
        bos: reader.token_ids("bos_token_id")?.first().copied(),
        eos: reader.token_ids(EOS)?,
    };
    let tied = reader.switch("tie_word_embeddings")?.unwrap_or(defaults.tied);
    let activation = match defaults.mlp {
        Mlp::Gated => {
            reader.only(defaults.act, &json!("silu"));
            Activation::Silu
        }
        Mlp::GatedBy(default) | Mlp::Plain(default) => activation(reader, defaults.act, default)?,
    };
    let mut biases = Vec::new();
    for (switch, kinds) in [("attention_bias", ATTENTION), ("mlp_bias", GATED)] {
        match defaults.biases {
            true if reader.flag(switch)? => biases.extend(kinds),
            true => {}
            // A family may have read it otherwise.
            false if reader.uses(switch) => {}
            false => reader.only(switch, &json!(false)),
        }
    }
    let mut description = Description {
        config,
        tied,
        types: None,
        labels: None,
        pairs: Pairs::halves(head_dim),
        factors: Factors {
            attention: 1.0 / (head_dim as f64).sqrt(),
            ..Factors::ONE
        },
        norm: Norm::Rms,
        gains_less_one: false,
        activation,
        biases,
        notes: Vec::new(),
    };
    rotation::read(
        reader,
        &mut description,
        (defaults.rope, defaults.rope_theta, defaults.rotated),
    )?;
    Ok(description)
}

/// The function of an MLP, by the name that a field gives it; refused if it has no table.
pub fn activation(reader: &mut Reader<'_>, field: &str, default: &'static str) -> Result<Activation, CheckpointError> {
    let name = reader.text(field)?.unwrap_or(default);
    Ok(Activation::named(name).unwrap_or_else(|| {
        let names = Activation::ALL.iter().flat_map(|(_, names)| names.iter().copied());
        let detail = format!("{name} is none of {}", names.collect::<Vec<_>>().join(", "));
        reader.refuse(field, detail);
        Activation::Gelu
    }))
}

/// The window of attention, in tokens, if the config says one and it is in use. Which layers have it is for the family to say.
pub fn window(reader: &mut Reader<'_>, default_used: bool) -> Result<Option<usize>, CheckpointError> {
    let used = reader.switch("use_sliding_window")?.unwrap_or(default_used);
    for kind in reader
        .get("layer_types")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        if ![json!("full_attention"), json!("sliding_attention")].contains(kind) {
            reader.refuse(
                "layer_types",
                format!("{kind} is neither \"full_attention\" nor \"sliding_attention\""),
            );
        }
    }
    let window = reader.integer("sliding_window")?.filter(|_| used);
    if window == Some(0) {
        return Err(reader.error("sliding_window", "a window of 0 tokens sees nothing"));
    }
    Ok(window)
}

/// The window of a family whose layers of one kind always have one.
pub fn some_window(reader: &mut Reader<'_>, default: usize) -> Result<usize, CheckpointError> {
    let window = window(reader, true)?;
    if reader.get("sliding_window").is_none() && reader.states("sliding_window") {
        reader.refuse("sliding_window", "null is no window");
    }
    Ok(window.unwrap_or(default))
}

/// Puts a window in every layer. Programs differ in whether models of such families have layers of other kinds where `layer_types` says so:
/// texts are then as short as the window, so that every layer sees all of them.
pub fn all_windowed(
    reader: &mut Reader<'_>,
    description: &mut Description,
    window: Option<usize>,
) -> Result<(), CheckpointError> {
    // As families of other kinds have it.
    reader.get("max_window_layers");
    let Some(keys) = window else {
        return Ok(());
    };
    let layers = sliding(reader, description.config.layers, usize::MAX)?;
    match layers.iter().all(|windowed| *windowed) {
        true => windowed(description, keys, &layers),
        false => description.limit_context(keys, &format!("some layers have a window of {keys} tokens")),
    }
    Ok(())
}

/// Puts a window in these layers.
pub fn windowed(description: &mut Description, keys: usize, layers: &[bool]) {
    let keys = u32::try_from(keys).unwrap_or(u32::MAX);
    let layers = layers.iter().enumerate().filter(|(_, windowed)| **windowed);
    description.config.blocks.mask = Mask::Windows(Windows::new(keys, layers.map(|(layer, _)| layer)));
}

/// The window of Qwen's families, which is off where nothing is said of it. Without a list of kinds, layers from `max_window_layers` on
/// have it.
pub fn late_windows(reader: &mut Reader<'_>, description: &mut Description) -> Result<(), CheckpointError> {
    const WINDOW: usize = 4096;
    const FULL_LAYERS: usize = 28;
    let first = reader.integer("max_window_layers")?.unwrap_or(FULL_LAYERS);
    let used = reader.switch("use_sliding_window")?.unwrap_or(false);
    let default = (used && !reader.states("sliding_window")).then_some(WINDOW);
    let Some(keys) = window(reader, false)?.or(default) else {
        return Ok(());
    };
    let layers = match reader.has("layer_types") {
        true => sliding(reader, description.config.layers, 1)?,
        false => (0..description.config.layers.min(MAX_LAYERS))
            .map(|l| l >= first)
            .collect(),
    };
    windowed(description, keys, &layers);
    Ok(())
}

/// Which layers see a window: those that `layer_types` says, or all but every `pattern`-th.
pub fn sliding(reader: &mut Reader<'_>, layers: usize, pattern: usize) -> Result<Vec<bool>, CheckpointError> {
    match reader.list("layer_types")? {
        Some(list) if list.len() == layers => Ok(list.iter().map(|kind| kind != "full_attention").collect()),
        Some(list) => {
            let problem = format!(
                "{}, but the model has {}",
                count(list.len(), "kind"),
                count(layers, "layer")
            );
            Err(reader.error("layer_types", problem))
        }
        // A model of more layers is refused for its dimensions.
        None => Ok((1..=layers.min(1 << 12)).map(|l| l % pattern.max(1) != 0).collect()),
    }
}

/// The names that most checkpoints have.
pub fn place(_: &ModelConfig, parameter: Parameter) -> Place {
    Place::whole(name(parameter))
}

/// The name of the tensor of a parameter, in most checkpoints.
pub fn name(parameter: Parameter) -> String {
    let part = |layer: usize, part: &str| format!("model.layers.{layer}.{part}.weight");
    match parameter {
        Parameter::NormBias(kind, layer) => {
            let gain = match kind {
                MatmulKind::Head => name(Parameter::FinalNorm),
                MatmulKind::Up => name(Parameter::MlpNorm(layer)),
                _ => name(Parameter::AttentionNorm(layer)),
            };
            format!("{}.bias", gain.trim_end_matches(".weight"))
        }
        Parameter::HeadNorm(MatmulKind::Q, l) => part(l, "self_attn.q_norm"),
        Parameter::HeadNorm(_, l) => part(l, "self_attn.k_norm"),
        Parameter::Positions => "model.embed_positions.weight".to_string(),
        Parameter::Types(_) => "model.embed_types.weight".to_string(),
        Parameter::Head(HeadPart::Dense, _) => "model.classifier.dense.weight".to_string(),
        Parameter::Head(HeadPart::DenseBias, _) => "model.classifier.dense.bias".to_string(),
        Parameter::Head(HeadPart::Scores, _) => "model.classifier.out_proj.weight".to_string(),
        Parameter::Head(HeadPart::ScoresBias, _) => "model.classifier.out_proj.bias".to_string(),
        Parameter::Bias(kind, layer) => {
            let weight = name(Parameter::Matrix(kind, layer));
            format!("{}.bias", weight.trim_end_matches(".weight"))
        }
        Parameter::Matrix(MatmulKind::Embed, _) => "model.embed_tokens.weight".to_string(),
        Parameter::Matrix(MatmulKind::Head, _) => "lm_head.weight".to_string(),
        Parameter::Matrix(MatmulKind::Q, l) => part(l, "self_attn.q_proj"),
        Parameter::Matrix(MatmulKind::K, l) => part(l, "self_attn.k_proj"),
        Parameter::Matrix(MatmulKind::V, l) => part(l, "self_attn.v_proj"),
        Parameter::Matrix(MatmulKind::O, l) => part(l, "self_attn.o_proj"),
        Parameter::Matrix(MatmulKind::Gate, l) => part(l, "mlp.gate_proj"),
        Parameter::Matrix(MatmulKind::Up, l) => part(l, "mlp.up_proj"),
        Parameter::Matrix(MatmulKind::Down, l) => part(l, "mlp.down_proj"),
        Parameter::AttentionNorm(l) => part(l, "input_layernorm"),
        Parameter::MlpNorm(l) => part(l, "post_attention_layernorm"),
        Parameter::PostNorm(MatmulKind::O, l) => part(l, "attention_output_norm"),
        Parameter::PostNorm(_, l) => part(l, "post_feedforward_layernorm"),
        Parameter::FinalNorm => "model.norm.weight".to_string(),
    }
}

/// Refuses a length of heads that is not the hidden size divided by their number, because models of some families divide and do not
/// read the field.
pub fn own_head_dim(reader: &mut Reader<'_>, description: &Description) {
    let ModelConfig {
        hidden,
        heads,
        head_dim,
        ..
    } = description.config;
    if heads.saturating_mul(head_dim) != hidden {
        let detail = format!("{heads} heads of {head_dim} channels are not hidden_size {hidden}");
        reader.refuse("head_dim", detail);
    }
}
