//! A writer of GGUF files: checkpoints of the hub layout as llama.cpp's converter would write them, and broken ones.

use std::path::Path;

use half::{bf16, f16};
use serde_json::Value as Json;
use tessera_circuits::model::{Blocks, ModelConfig, Rotation};

use tessera_checkpoint::{Checkpoint, EMBED, FINAL_NORM, HEAD};

/// A value of the metadata.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    U32(u32),
    I32(i32),
    F32(f32),
    U64(u64),
    Flag(bool),
    Text(String),
    Texts(Vec<String>),
    I32s(Vec<i32>),
    F32s(Vec<f32>),
    /// The number of a type and the bytes that follow, whatever they are.
    Raw(u32, Vec<u8>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_string())
    }
}

/// A tensor with its bytes as they are stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// The one that runs fastest first.
    pub dimensions: Vec<u64>,
    /// 0 is F32, 1 F16, 30 BF16, 8 Q8_0.
    pub kind: u32,
    pub bytes: Vec<u8>,
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Gguf {
    pub version: u32,
    pub alignment: usize,
    pub metadata: Vec<(String, Value)>,
    pub tensors: Vec<(String, Tensor)>,
}

/// Numbers of types.
pub const F32: u32 = 0;
pub const F16: u32 = 1;
pub const BF16: u32 = 30;
pub const Q8_0: u32 = 8;

impl Gguf {
    /// The model of a checkpoint directory with its tokenizer, which must have byte fallback. Matrices are stored as
    /// `kind`, gains of norms as F32.
    ///
    /// # Panics
    /// If the directory is none, or if its tokenizer is of another kind.
    pub fn of_checkpoint(dir: &Path, kind: u32) -> Self {
        let checkpoint = Checkpoint::open(dir).expect("a checkpoint");
        let config = checkpoint.config().clone();
        let mut gguf = Self {
            version: 3,
            alignment: 32,
            metadata: dimensions(&config),
            tensors: Vec::new(),
        };
        gguf.metadata.extend(tokenizer(dir, &config));
        for (hub, own) in names(&config, checkpoint.tied()) {
            let mut values = checkpoint.values(&hub).expect("a tensor");
            let rows = values.len() / config.hidden;
            let heads = match own.rsplit('.').nth(1) {
                Some("attn_q") => Some(config.heads),
                Some("attn_k") => Some(config.kv_heads),
                _ => None,
            };
            if let Some(heads) = heads {
                values = permuted(&values, heads, config.head_dim, config.hidden);
            }
            let tensor = match own.contains("norm") {
                true => Tensor::of(&[values.len()], F32, &values),
                false if own.contains("ffn_down") => Tensor::of(&[config.ff, config.hidden], kind, &values),
                false if own.contains("attn_output") => {
                    Tensor::of(&[config.heads * config.head_dim, config.hidden], kind, &values)
                }
                false => Tensor::of(&[config.hidden, rows], kind, &values),
            };
            gguf.tensors.push((own, tensor));
        }
        gguf
    }

    /// Sets a value, which may be a new one.
    pub fn set(&mut self, key: &str, value: Value) {
        self.unset(key);
        self.metadata.push((key.to_string(), value));
    }

    /// Removes a value.
    pub fn unset(&mut self, key: &str) {
        self.metadata.retain(|(own, _)| own != key);
    }

    /// A tensor.
    ///
    /// # Panics
    /// If there is none of this name.
    pub fn tensor(&mut self, name: &str) -> &mut Tensor {
        let found = self.tensors.iter_mut().find(|(own, _)| own == name);
        &mut found.expect("a tensor").1
    }

    /// The file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.metadata.len() as u64).to_le_bytes());
        for (key, value) in &self.metadata {
            put_text(&mut out, key);
            value.put(&mut out);
        }
        let mut data = Vec::new();
        for (name, tensor) in &self.tensors {
            put_text(&mut out, name);
            out.extend((tensor.dimensions.len() as u32).to_le_bytes());
            tensor.dimensions.iter().for_each(|d| out.extend(d.to_le_bytes()));
            out.extend(tensor.kind.to_le_bytes());
            out.extend((data.len() as u64).to_le_bytes());
            data.extend(&tensor.bytes);
            data.resize(data.len().next_multiple_of(self.alignment), 0);
        }
        out.resize(out.len().next_multiple_of(self.alignment), 0);
        out.extend(data);
        out
    }
}

impl Tensor {
    /// Values as a type stores them.
    ///
    /// # Panics
    /// If it is none of F32, F16, BF16 and Q8_0.
    pub fn of(dimensions: &[usize], kind: u32, values: &[f32]) -> Self {
        let bytes = match kind {
            F32 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            F16 => values.iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()).collect(),
            BF16 => values.iter().flat_map(|v| bf16::from_f32(*v).to_le_bytes()).collect(),
            Q8_0 => values.chunks_exact(32).flat_map(q8_0).collect(),
            other => panic!("type {other} is not written"),
        };
        Self {
            dimensions: dimensions.iter().map(|d| *d as u64).collect(),
            kind,
            bytes,
        }
    }
}

/// A block of signed bytes with their scale.
fn q8_0(values: &[f32]) -> Vec<u8> {
    let largest = values.iter().fold(0.0f32, |m, v| m.max(v.abs()));
    let scale = f16::from_f32(largest / 127.0);
    let integer = |v: &f32| match scale.to_f32() {
        0.0 => 0,
        scale => (v / scale).round().clamp(-127.0, 127.0) as i8 as u8,
    };
    scale
        .to_le_bytes()
        .into_iter()
        .chain(values.iter().map(integer))
        .collect()
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

impl Value {
    fn put(&self, out: &mut Vec<u8>) {
        let kind = |out: &mut Vec<u8>, n: u32| out.extend(n.to_le_bytes());
        let array = |out: &mut Vec<u8>, of: u32, len: usize| {
            kind(out, 9);
            kind(out, of);
            out.extend((len as u64).to_le_bytes());
        };
        match self {
            Self::U32(n) => (kind(out, 4), out.extend(n.to_le_bytes())).1,
            Self::I32(n) => (kind(out, 5), out.extend(n.to_le_bytes())).1,
            Self::F32(x) => (kind(out, 6), out.extend(x.to_le_bytes())).1,
            Self::U64(n) => (kind(out, 10), out.extend(n.to_le_bytes())).1,
            Self::Flag(flag) => (kind(out, 7), out.push(u8::from(*flag))).1,
            Self::Text(text) => (kind(out, 8), put_text(out, text)).1,
            Self::Texts(texts) => {
                array(out, 8, texts.len());
                texts.iter().for_each(|text| put_text(out, text));
            }
            Self::I32s(numbers) => {
                array(out, 5, numbers.len());
                numbers.iter().for_each(|n| out.extend(n.to_le_bytes()));
            }
            Self::F32s(numbers) => {
                array(out, 6, numbers.len());
                numbers.iter().for_each(|n| out.extend(n.to_le_bytes()));
            }
            Self::Raw(n, bytes) => (kind(out, *n), out.extend(bytes)).1,
        }
    }
}

/// Names of the hub layout with those of a GGUF file, in the order in which converters write them.
fn names(config: &ModelConfig, tied: bool) -> Vec<(String, String)> {
    let mut names = vec![(EMBED.to_string(), "token_embd.weight".to_string())];
    for layer in 0..config.layers {
        for (hub, own) in [
            ("input_layernorm", "attn_norm"),
            ("mlp.down_proj", "ffn_down"),
            ("mlp.gate_proj", "ffn_gate"),
            ("mlp.up_proj", "ffn_up"),
            ("post_attention_layernorm", "ffn_norm"),
            ("self_attn.k_proj", "attn_k"),
            ("self_attn.o_proj", "attn_output"),
            ("self_attn.q_proj", "attn_q"),
            ("self_attn.v_proj", "attn_v"),
        ] {
            names.push((
                format!("model.layers.{layer}.{hub}.weight"),
                format!("blk.{layer}.{own}.weight"),
            ));
        }
    }
    names.push((FINAL_NORM.to_string(), "output_norm.weight".to_string()));
    if !tied {
        names.push((HEAD.to_string(), "output.weight".to_string()));
    }
    names
}

/// The rows of q or k as the converter orders them: `[heads][2][half][in]` becomes `[heads][half][2][in]`.
pub fn permuted(values: &[f32], heads: usize, head_dim: usize, width: usize) -> Vec<f32> {
    let half = head_dim / 2;
    let mut out = Vec::with_capacity(values.len());
    for head in 0..heads {
        for x in 0..half {
            for side in 0..2 {
                let row = (head * 2 + side) * half + x;
                out.extend(&values[row * width..][..width]);
            }
        }
    }
    out
}

fn dimensions(c: &ModelConfig) -> Vec<(String, Value)> {
    let size = |n: usize| Value::U32(n as u32);
    let values = [
        ("general.architecture", Value::from("llama")),
        ("general.type", Value::from("model")),
        ("general.alignment", Value::U32(32)),
        ("llama.context_length", size(c.context)),
        ("llama.embedding_length", size(c.hidden)),
        ("llama.block_count", size(c.layers)),
        ("llama.feed_forward_length", size(c.ff)),
        ("llama.attention.head_count", size(c.heads)),
        ("llama.attention.head_count_kv", size(c.kv_heads)),
        ("llama.attention.key_length", size(c.head_dim)),
        ("llama.attention.value_length", size(c.head_dim)),
        ("llama.rope.dimension_count", size(c.head_dim)),
        ("llama.rope.freq_base", Value::F32(base(c) as f32)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(c.rms_eps as f32)),
        ("llama.vocab_size", size(c.vocab)),
    ];
    values
        .into_iter()
        .map(|(key, value)| (key.to_string(), value))
        .collect()
}

/// A tokenizer with byte fallback as pieces with scores: the later a piece can be made, the lower its score.
fn tokenizer(dir: &Path, config: &ModelConfig) -> Vec<(String, Value)> {
    let read = |name: &str| -> Json {
        serde_json::from_slice(&std::fs::read(dir.join(name)).expect("a tokenizer")).expect("JSON")
    };
    let (json, files) = (read("tokenizer.json"), read("tokenizer_config.json"));
    assert_eq!(json["model"]["byte_fallback"], true);
    let vocab = json["model"]["vocab"].as_object().expect("a vocabulary");
    let mut tokens = vec![String::new(); vocab.len()];
    for (token, id) in vocab {
        tokens[id.as_u64().expect("an id") as usize].clone_from(token);
    }
    let kinds: Vec<i32> = tokens
        .iter()
        .enumerate()
        .map(|(id, token)| kind(id, token, &json))
        .collect();
    let mut scores = vec![0.0; tokens.len()];
    for (rank, merge) in json["model"]["merges"]
        .as_array()
        .expect("merges")
        .iter()
        .enumerate()
        .rev()
    {
        let whole: String = match merge.as_str() {
            Some(pair) => pair.split(' ').collect(),
            None => merge
                .as_array()
                .expect("a pair")
                .iter()
                .filter_map(Json::as_str)
                .collect(),
        };
        scores[vocab[&whole].as_u64().expect("an id") as usize] = -1.0 - rank as f32;
    }
    let special = json["added_tokens"].as_array().expect("special tokens");
    let unknown = special.iter().find(|t| t["content"] == json["model"]["unk_token"]);
    let id = |id: Option<u32>| id.map(Value::U32);
    let values = [
        ("tokenizer.ggml.model", Some(Value::from("llama"))),
        ("tokenizer.ggml.pre", Some(Value::from("default"))),
        ("tokenizer.ggml.scores", Some(Value::F32s(scores))),
        ("tokenizer.ggml.tokens", Some(Value::Texts(tokens))),
        ("tokenizer.ggml.token_type", Some(Value::I32s(kinds))),
        ("tokenizer.ggml.bos_token_id", id(config.bos)),
        ("tokenizer.ggml.eos_token_id", id(config.eos.first().copied())),
        (
            "tokenizer.ggml.unknown_token_id",
            id(unknown.and_then(|t| t["id"].as_u64()).map(|id| id as u32)),
        ),
        (
            "tokenizer.ggml.add_bos_token",
            files["add_bos_token"].as_bool().map(Value::Flag),
        ),
        (
            "tokenizer.chat_template",
            files["chat_template"].as_str().map(Value::from),
        ),
    ];
    let values = values
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_string(), value?)));
    values.collect()
}

/// The type of a token: unknown, control, byte or normal.
fn kind(id: usize, token: &str, json: &Json) -> i32 {
    let special = json["added_tokens"]
        .as_array()
        .is_some_and(|all| all.iter().any(|t| t["id"] == id));
    match special {
        true if json["model"]["unk_token"] == token => 2,
        true => 3,
        false if token.len() == 6 && token.starts_with("<0x") => 6,
        false => 1,
    }
}

/// A model of zeros with few weights and few tokens. Its tokenizer is SentencePiece or byte-level BPE.
pub fn tiny(kind: u32, byte_level: bool) -> Gguf {
    // Rows are whole blocks of every simple type.
    let hidden = if kind == Q8_0 { 32 } else { 4 };
    let config = ModelConfig {
        hidden,
        layers: 1,
        heads: 2,
        kv_heads: 1,
        head_dim: hidden / 2,
        ff: hidden,
        vocab: 12,
        context: 8,
        rms_eps: 1e-5,
        rotations: vec![Rotation::Base(10_000.0)],
        rotation_of: Vec::new(),
        positions: false,
        gated: true,
        head_norms: false,
        blocks: Blocks::DECODER,
        bos: Some(1),
        eos: vec![2],
    };
    let mut gguf = Gguf {
        version: 3,
        alignment: 32,
        metadata: dimensions(&config),
        tensors: Vec::new(),
    };
    let space = if byte_level { "\u{120}" } else { "\u{2581}" };
    let letters = [
        "<unk>", "<s>", "</s>", "<0x41>", space, "t", "h", "e", "n", "th", "the", "then",
    ];
    gguf.set(
        "tokenizer.ggml.tokens",
        Value::Texts(letters.map(String::from).to_vec()),
    );
    gguf.set(
        "tokenizer.ggml.token_type",
        Value::I32s(vec![2, 3, 3, 6, 1, 1, 1, 1, 1, 1, 1, 1]),
    );
    gguf.set("tokenizer.ggml.bos_token_id", Value::U32(1));
    gguf.set("tokenizer.ggml.eos_token_id", Value::U32(2));
    match byte_level {
        true => {
            gguf.set("tokenizer.ggml.model", "gpt2".into());
            gguf.set("tokenizer.ggml.pre", "llama-bpe".into());
            let merges = ["t h", "th e", "the n"].map(String::from);
            gguf.set("tokenizer.ggml.merges", Value::Texts(merges.to_vec()));
        }
        false => {
            gguf.set("tokenizer.ggml.model", "llama".into());
            let scores = (0..letters.len()).map(|id| -(id as f32)).collect();
            gguf.set("tokenizer.ggml.scores", Value::F32s(scores));
        }
    }
    gguf.set("tokenizer.chat_template", "{{ messages }}".into());
    for (_, own) in names(&config, true) {
        let (inputs, outputs) = match own.rsplit('.').nth(1) {
            Some("token_embd") => (hidden, config.vocab),
            Some("attn_k" | "attn_v") => (hidden, config.head_dim),
            _ => (hidden, hidden),
        };
        let tensor = match own.contains("norm") {
            true => Tensor::of(&[hidden], F32, &vec![1.0; hidden]),
            false => Tensor::of(&[inputs, outputs], kind, &vec![0.0; inputs * outputs]),
        };
        gguf.tensors.push((own, tensor));
    }
    gguf
}

/// The base of rotations.
///
/// # Panics
/// If there is none.
fn base(config: &ModelConfig) -> f64 {
    match config.rotations.as_slice() {
        [Rotation::Base(theta)] => *theta,
        other => panic!("{other:?} is no base"),
    }
}
