//! Answers, as OpenAI's clients read them.

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use serde_json::{json, Value};

/// Whether an answer is to a chat or goes on with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/completions`
    Completion,
}

/// What all parts of an answer begin with.
#[derive(Clone, Debug)]
pub struct Head {
    /// The form of the answer.
    pub form: Form,
    /// The id of the answer.
    pub id: String,
    /// Seconds since 1970.
    pub created: u64,
    /// The name of the model.
    pub model: String,
}

/// Tokens of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Generated tokens.
    pub completion: usize,
}

impl Usage {
    fn json(self) -> Value {
        json!({
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
        })
    }
}

/// Adds a field, if it has a value.
fn with(mut json: Value, name: &str, value: Option<Value>) -> Value {
    if let (Value::Object(fields), Some(value)) = (&mut json, value) {
        fields.insert(name.to_owned(), value);
    }
    json
}

impl Head {
    fn json(&self, object: &str, choices: Value) -> Value {
        json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        })
    }

    /// A whole answer. `finish` is `stop` or `length`; `tessera` says where its proof is.
    pub fn whole(&self, text: &str, finish: &str, usage: Usage, tessera: Option<Value>) -> Value {
        let json = match self.form {
            Form::Chat => {
                let message = json!({"role": "assistant", "content": text, "refusal": null});
                let choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": finish});
                self.json("chat.completion", json!([choice]))
            }
            Form::Completion => {
                let choice = json!({"index": 0, "text": text, "logprobs": null, "finish_reason": finish});
                self.json("text_completion", json!([choice]))
            }
        };
        with(with(json, "usage", Some(usage.json())), "tessera", tessera)
    }

    /// The chunk that a chat begins with; completions have none.
    pub fn first_chunk(&self) -> Option<Value> {
        let delta = json!({"role": "assistant", "content": "", "refusal": null});
        (self.form == Form::Chat).then(|| self.chunk(delta, "", None))
    }

    /// A chunk with more text.
    pub fn text_chunk(&self, text: &str) -> Value {
        self.chunk(json!({ "content": text }), text, None)
    }

    /// The chunk that says how the answer ends.
    pub fn last_chunk(&self, finish: &str, tessera: Option<Value>) -> Value {
        with(self.chunk(json!({}), "", Some(finish)), "tessera", tessera)
    }

    /// The chunk that says how many tokens there were, for whoever asked.
    pub fn usage_chunk(&self, usage: Usage, tessera: Option<Value>) -> Value {
        let json = self.json(self.chunk_object(), json!([]));
        with(with(json, "usage", Some(usage.json())), "tessera", tessera)
    }

    const fn chunk_object(&self) -> &'static str {
        match self.form {
            Form::Chat => "chat.completion.chunk",
            Form::Completion => "text_completion",
        }
    }

    fn chunk(&self, delta: Value, text: &str, finish: Option<&str>) -> Value {
        let choice = match self.form {
            Form::Chat => json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}),
            Form::Completion => json!({"index": 0, "text": text, "logprobs": null, "finish_reason": finish}),
        };
        self.json(self.chunk_object(), json!([choice]))
    }
}

/// The vectors of some texts, each with what is said of its proof.
pub fn embeddings(
    model: &str,
    vectors: &[(Vec<f64>, Option<Value>)],
    base64: bool,
    tokens: usize,
    tessera: Option<Value>,
) -> Value {
    let numbers = |vector: &[f64]| match base64 {
        true => {
            let bytes: Vec<u8> = vector.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect();
            json!(STANDARD.encode(bytes))
        }
        false => json!(vector),
    };
    let data = vectors.iter().enumerate().map(|(index, (vector, tessera))| {
        let item = json!({"object": "embedding", "index": index, "embedding": numbers(vector)});
        with(item, "tessera", tessera.clone())
    });
    let json = json!({
        "object": "list",
        "data": data.collect::<Vec<_>>(),
        "model": model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    });
    with(json, "tessera", tessera)
}

/// The list of the only model.
pub fn models(name: &str, id: &str, created: u64) -> Value {
    json!({"object": "list", "data": [model(name, id, created)]})
}

/// The model.
pub fn model(name: &str, id: &str, created: u64) -> Value {
    json!({"id": name, "object": "model", "created": created, "owned_by": "tessera", "tessera": {"model_id": id}})
}
