//! Files of other families than Llama.

use super::*;
use tessera_samples::families;

/// Files of Gemma have whole gains, where the hub has them less one.
#[test]
fn files_of_gemma_have_whole_gains() {
    let (_dir, hub, mut gguf) = small(F32);
    for (key, _) in &mut gguf.metadata {
        *key = key.replace("llama.", "gemma.");
    }
    gguf.set("general.architecture", "gemma".into());
    let own = opened(&gguf).unwrap();
    let description = own.description();
    assert!(!description.gains_less_one);
    assert_eq!(description.activation, Activation::GeluTanh);
    assert_eq!(description.factors.embedding, f64::from(20f32.sqrt()));
    for norm in [Parameter::AttentionNorm(1), Parameter::MlpNorm(0), Parameter::FinalNorm] {
        assert_eq!(own.gain(norm).unwrap(), hub.gain(norm).unwrap());
    }
}

/// A family, as `fixtures/families.json` and `general.architecture` call it, keys with the fields that they are, and names of tensors.
type Converted = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
    fn(&str) -> String,
);

const CONVERTED: [Converted; 5] = [
    (
        "granite",
        "granite",
        &[
            ("attention.scale", "attention_multiplier"),
            ("embedding_scale", "embedding_multiplier"),
            ("residual_scale", "residual_multiplier"),
            ("logit_scale", "logits_scaling"),
        ],
        names::canonical,
    ),
    ("phi3", "phi3", &[], names::phi3),
    ("starcoder2", "starcoder2", &[], names::starcoder2),
    ("stablelm", "stablelm", &[], names::canonical),
    ("phi", "phi2", &[], names::phi2),
];

/// What a file calls a tensor of the hub layout.
fn stored(hub: &str, layers: usize, canonical: fn(&str) -> String) -> String {
    let parts = [
        "attn_norm",
        "attn_q",
        "attn_k",
        "attn_v",
        "attn_qkv",
        "attn_output",
        "ffn_norm",
        "ffn_gate",
        "ffn_up",
        "ffn_down",
    ];
    let of_layers = (0..layers).flat_map(|l| parts.map(|part| format!("blk.{l}.{part}")));
    let all = of_layers.chain(["token_embd", "output_norm", "output"].map(String::from));
    let mut ends = all.flat_map(|name| ["weight", "bias"].map(|end| format!("{name}.{end}")));
    let found = ends.find(|own| canonical(own) == hub);
    found.unwrap_or_else(|| panic!("no file has {hub}"))
}

/// The tiny checkpoint of a family, and the same as llama.cpp's converter would write it.
fn converted((case, architecture, scales, canonical): Converted) -> (TempDir, Checkpoint, Gguf) {
    let config = families::case(case).config;
    let dir = tempfile::tempdir().unwrap();
    families::write(dir.path(), &config);
    let hub = Checkpoint::open(dir.path()).unwrap();
    let (c, description) = (hub.config(), hub.description());
    let mut gguf = Gguf {
        version: 3,
        alignment: 32,
        metadata: vec![("general.architecture".into(), architecture.into())],
        tensors: Vec::new(),
    };
    let number = |n: usize| Value::U32(n as u32);
    let real = |field: &str| Value::F32(config[field].as_f64().unwrap() as f32);
    let eps = match description.norm {
        Norm::Rms => "attention.layer_norm_rms_epsilon",
        _ => "attention.layer_norm_epsilon",
    };
    for (key, value) in [
        ("embedding_length", number(c.hidden)),
        ("block_count", number(c.layers)),
        ("attention.head_count", number(c.heads)),
        ("attention.head_count_kv", number(c.kv_heads)),
        ("feed_forward_length", number(c.ff)),
        ("vocab_size", number(c.vocab)),
        ("context_length", number(c.context)),
        ("rope.dimension_count", number(description.pairs.rotated)),
        ("rope.freq_base", real("rope_theta")),
        (eps, Value::F32(c.rms_eps as f32)),
    ] {
        gguf.set(&format!("{architecture}.{key}"), value);
    }
    for (key, field) in scales {
        gguf.set(&format!("{architecture}.{key}"), real(field));
    }
    match architecture {
        "phi3" => {
            gguf.set("phi3.attention.sliding_window", number(2047));
            gguf.set("phi3.rope.scaling.original_context_length", number(c.context));
        }
        "stablelm" => gguf.set("stablelm.use_parallel_residual", Value::Flag(false)),
        _ => {}
    }
    gguf.set("tokenizer.ggml.bos_token_id", Value::U32(1));
    gguf.set("tokenizer.ggml.eos_token_id", Value::U32(2));
    for (name, shape) in expected_tensors(hub.family, description) {
        let (own, mut values) = (stored(&name, c.layers, canonical), hub.values(&name).unwrap());
        let heads = match own.rsplit('.').nth(1) {
            Some("attn_q") => c.heads,
            Some("attn_k") => c.kv_heads,
            _ => 0,
        };
        if architecture == "granite" && heads > 0 {
            values = permuted(&values, heads, c.head_dim, c.hidden);
        }
        let dimensions: Vec<usize> = shape.iter().rev().copied().collect();
        gguf.tensors.push((own, Tensor::of(&dimensions, F32, &values)));
    }
    (dir, hub, gguf)
}

#[test]
fn files_of_other_families_hold_their_checkpoints() {
    for family in CONVERTED {
        let (_dir, hub, gguf) = converted(family);
        let own = opened(&gguf).unwrap();
        let (mut config, architecture) = (own.config().clone(), family.1);
        // Files have numbers of 32 bits.
        assert!((config.rms_eps - hub.config().rms_eps).abs() < 1e-12, "{architecture}");
        config.rms_eps = hub.config().rms_eps;
        assert_eq!((&config, own.tied()), (hub.config(), hub.tied()), "{architecture}");
        let (own_said, said) = (own.description(), hub.description());
        let all = |f: &Factors| [f.embedding, f.attention, f.residual, f.logits, f.rotation];
        let factors = all(&own_said.factors).into_iter().zip(all(&said.factors));
        assert!(
            factors.clone().all(|(a, b)| (a - b).abs() <= 1e-7 * b.abs()),
            "{architecture}"
        );
        assert_eq!(
            (&own_said.pairs, own_said.norm, own_said.activation, &own_said.biases),
            (&said.pairs, said.norm, said.activation, &said.biases),
            "{architecture}"
        );
        for name in expected_tensors(hub.family, said).keys() {
            assert_eq!(
                own.values(name).unwrap(),
                hub.values(name).unwrap(),
                "{architecture}: {name}"
            );
        }
    }
}

/// What of these families is not supported is refused by the name of its key.
#[test]
fn switches_of_other_families_are_refused_by_name() {
    let changes: [(&str, &str, Option<Value>); 8] = [
        ("granite", "attention.scale", None),
        ("granite", "expert_count", Some(Value::U32(8))),
        ("phi3", "rope.scaling.original_context_length", Some(Value::U32(7))),
        ("phi3", "rope.scaling.attn_factor", Some(Value::F32(1.25))),
        ("stablelm", "use_parallel_residual", Some(Value::Flag(true))),
        ("starcoder2", "attention.layer_norm_epsilon", None),
        ("phi2", "use_parallel_residual", Some(Value::Flag(true))),
        ("phi2", "rope.dimension_count", Some(Value::U32(3))),
    ];
    for (architecture, key, value) in changes {
        let family = CONVERTED.into_iter().find(|own| own.1 == architecture).unwrap();
        let (_dir, _, mut gguf) = converted(family);
        let whole = format!("{architecture}.{key}");
        match value {
            Some(value) => gguf.set(&whole, value),
            None => gguf.unset(&whole),
        }
        let error = opened(&gguf).unwrap_err().to_string();
        let named = [key, "partial_rotary_factor"].iter().any(|word| error.contains(word));
        assert!(named, "{whole}: {error}");
    }
    // Files of older converters, and models of long texts, have tensors that are not read.
    let (_dir, _, mut gguf) = converted(CONVERTED[1]);
    let factors = Tensor::of(&[5], F32, &[1.0; 5]);
    gguf.tensors.push(("rope_factors_long.weight".into(), factors));
    assert!(opened(&gguf).unwrap_err().to_string().contains("rope_factors_long"));
}

/// A window of 0 is none, and StarCoder2 has one that its files do not say.
#[test]
fn windows_of_other_families_are_those_of_their_models() {
    let read = |family: Converted, key: &str, value: u32| {
        let (_dir, _, mut gguf) = converted(family);
        gguf.set(&format!("{}.context_length", family.1), Value::U32(8192));
        gguf.unset("phi3.rope.scaling.original_context_length");
        if !key.is_empty() {
            gguf.set(key, Value::U32(value));
        }
        let config = opened(&gguf).unwrap().config().clone();
        assert_eq!(config.context, 8192);
        let layers = (0..config.layers).map(|layer| config.window(layer));
        layers.collect::<Vec<_>>()
    };
    for (family, key, value, window) in [
        (CONVERTED[1], "phi3.attention.sliding_window", 0, None),
        (CONVERTED[1], "phi3.attention.sliding_window", 2047, Some(2047)),
        // No text is longer.
        (CONVERTED[1], "phi3.attention.sliding_window", 8192, None),
        (CONVERTED[2], "", 0, Some(4096)),
    ] {
        let layers = read(family, key, value);
        assert!(layers.iter().all(|own| *own == window), "{key} {value}: {layers:?}");
    }
}

/// A small file of another architecture, with a window and the length of a head.
fn renamed(architecture: &str) -> (TempDir, Checkpoint, Gguf) {
    let (dir, hub, mut gguf) = small(F32);
    for (key, _) in &mut gguf.metadata {
        *key = key.replace("llama.", &format!("{architecture}."));
    }
    gguf.set("general.architecture", architecture.into());
    gguf.set(&format!("{architecture}.attention.sliding_window"), Value::U32(12));
    let head_dim = hub.config().head_dim as u32;
    gguf.set(&format!("{architecture}.attention.key_length"), Value::U32(head_dim));
    (dir, hub, gguf)
}

/// Files of Gemma 2 have the names of norms of Gemma 3, the caps, and no factor of scores: the length of a head says it, but in the largest
/// model.
#[test]
fn files_of_gemma2_are_read() {
    let (_dir, hub, mut gguf) = renamed("gemma2");
    gguf.set("gemma2.attn_logit_softcapping", Value::F32(50.0));
    gguf.set("gemma2.final_logit_softcapping", Value::F32(30.0));
    let (hidden, head_dim) = (hub.config().hidden, hub.config().head_dim);
    for layer in 0..2 {
        for part in ["post_attention_norm", "post_ffw_norm"] {
            let values = Tensor::of(&[hidden], F32, &vec![1.0; hidden]);
            gguf.tensors.push((format!("blk.{layer}.{part}.weight"), values));
        }
    }
    let own = opened(&gguf).unwrap();
    let (config, description) = (own.config(), own.description());
    assert!(config.norms_outputs() && !config.head_norms && !description.gains_less_one);
    assert_eq!(config.blocks.score_cap.map(ScoreCap::value), Some(50.0));
    assert_eq!(
        (config.context, description.factors.attention),
        (25, 1.0 / (head_dim as f64).sqrt())
    );
    assert_eq!([0, 1].map(|layer| config.window(layer)), [Some(12), None]);
    let norm = |parameter| own.gain(parameter).unwrap();
    assert_eq!(norm(Parameter::MlpNorm(1)), hub.gain(Parameter::MlpNorm(1)).unwrap());
    // What no number of units is is refused by name.
    gguf.set("gemma2.attn_logit_softcapping", Value::F32(0.001));
    let error = opened(&gguf).unwrap_err().to_string();
    assert!(error.contains("attn_logit_softcapping"), "{error}");
}

/// Files of Gemma 3 have other names of norms, and a window; the key says of their scores what their heads say.
#[test]
fn files_of_gemma3_are_read() {
    let (_dir, hub, mut gguf) = renamed("gemma3");
    let (hidden, head_dim) = (hub.config().hidden, hub.config().head_dim);
    let gain = |n: usize, length: usize| (0..length).map(|i| (n * 100 + i) as f32 / 8.0).collect::<Vec<_>>();
    let norms = [
        ("post_attention_norm", hidden),
        ("post_ffw_norm", hidden),
        ("attn_q_norm", head_dim),
        ("attn_k_norm", head_dim),
    ];
    for layer in 0..2 {
        for (n, (part, length)) in norms.into_iter().enumerate() {
            let values = Tensor::of(&[length], F32, &gain(10 * layer + n, length));
            gguf.tensors.push((format!("blk.{layer}.{part}.weight"), values));
        }
    }
    let own = opened(&gguf).unwrap();
    let (config, description) = (own.config(), own.description());
    assert!(config.norms_outputs() && config.head_norms && !description.gains_less_one);
    assert_eq!(
        (config.context, description.factors.attention),
        (25, 1.0 / (head_dim as f64).sqrt())
    );
    assert_eq!([0, 1].map(|layer| config.window(layer)), [Some(12), Some(12)]);
    assert_eq!(config.rotations[0], Rotation::Base(10_000.0));
    let norm = |parameter| own.gain(parameter).unwrap();
    assert_eq!(norm(Parameter::MlpNorm(1)), hub.gain(Parameter::MlpNorm(1)).unwrap());
    assert_eq!(norm(Parameter::PostNorm(MatmulKind::O, 1)), gain(10, hidden));
    assert_eq!(norm(Parameter::PostNorm(MatmulKind::Down, 0)), gain(1, hidden));
    assert_eq!(own.head_gain(MatmulKind::K.at(1)).unwrap(), Some(gain(13, head_dim)));
    gguf.set("gemma3.attn_logit_softcapping", Value::F32(50.0));
    let refused = survey(&gguf).unsupported;
    assert!(refused.iter().any(|u| u.detail.contains("attn_logit_softcapping")));
}
