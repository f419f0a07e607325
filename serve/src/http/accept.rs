//! Requests for texts that are accepted, and what happens to all of them, however their answers are sent.

use std::sync::Arc;

use serde_json::{json, Value};
use tessera::circuits::statement::Statement;
use tessera::prompt::PromptIds;
use tessera::quantised::generate::token_rows;
use tessera::verifier::context::Context;

use super::app::{App, Wanted};
use crate::answers::Turn;
use crate::id::Id;
use crate::keys::Client;
use crate::log::now;
use crate::openai::answer::{Form, Head, Usage};
use crate::openai::error::Refusal;
use crate::openai::request::{Streaming, TextRequest};
use crate::proofs::record::{Kind, Record, State};

/// A request that is accepted so far.
pub struct Accepted {
    /// The turn at the model.
    pub turn: Turn,
    /// What answers begin with.
    pub head: Head,
    /// The prompt.
    pub prompt: PromptIds,
    /// The most tokens.
    pub tokens: usize,
    /// What is wanted of the proof.
    pub wanted: Option<Wanted>,
    /// The context of the proof.
    pub context: Option<Context>,
    /// How the answer is sent.
    pub streaming: Streaming,
}

/// Accepts a request for a text, if the model can answer it and there is room for it.
///
/// # Errors
/// If it is refused.
pub async fn accept(
    app: &Arc<App>,
    turn: Turn,
    client: &Client,
    form: Form,
    request: TextRequest,
) -> Result<Accepted, Refusal> {
    let served = &app.served;
    app.check_model(&request.model)?;
    if !served.generates() {
        return Err(Refusal::not_found(
            "the model is an encoder: it has /v1/embeddings, and generates no text",
        ));
    }
    if served.model.tokenizer.is_none() {
        return Err(Refusal::not_found(
            "the model has no tokenizer, so its answers have no text",
        ));
    }
    let field = match form {
        Form::Chat => "messages",
        Form::Completion => "prompt",
    };
    let prompt = app.ids(request.prompt, field).await?;
    let tokens = tokens(app, prompt.ids.len(), request.tokens)?;
    let kind = match form {
        Form::Chat => Kind::Chat,
        Form::Completion => Kind::Completion,
    };
    let prompts = std::slice::from_ref(&prompt);
    let wanted = app
        .wanted(client, &request.proving, kind, prompts, Some(tokens))
        .await?;
    let prefix = match form {
        Form::Chat => "chatcmpl",
        Form::Completion => "cmpl",
    };
    let id = Id::random().map_err(|e| Refusal::failed(e.to_string()))?;
    Ok(Accepted {
        turn,
        head: Head {
            form,
            id: format!("{prefix}-{id}"),
            created: now(),
            model: served.name.clone(),
        },
        prompt,
        tokens,
        wanted: wanted.and_then(|mut list| list.pop()),
        context: request.proving.context,
        streaming: request.streaming,
    })
}

/// The most tokens of an answer after a prompt.
fn tokens(app: &App, prompt: usize, asked: Option<usize>) -> Result<usize, Refusal> {
    let (context, most) = (app.served.model.key.config.context, app.settings.limits.tokens);
    if let Some(asked) = asked.filter(|asked| *asked > most) {
        let message = format!("{asked} tokens are more than the {most} of an answer here");
        return Err(Refusal::field("max_tokens", message));
    }
    let room = (context + 1).saturating_sub(prompt).max(1);
    let tokens = asked.unwrap_or(most.min(room));
    let rows = token_rows(prompt, tokens, context).map_err(|e| Refusal {
        code: "context_length_exceeded",
        ..Refusal::invalid(e.to_string())
    })?;
    match rows > app.served.rows {
        true => {
            let most = app.served.rows;
            let message = format!("prompt and answer have {rows} token rows, and this server has memory for {most}");
            Err(Refusal::invalid(message))
        }
        false => Ok(tokens),
    }
}

/// An answer that has ended.
pub struct Ended {
    /// The ids of its tokens.
    pub output: Vec<u32>,
    /// How it ends: `stop` or `length`.
    pub reason: &'static str,
    /// How many tokens there were.
    pub usage: Usage,
}

impl Ended {
    /// An answer of these ids.
    pub fn of(app: &App, prompt: &[u32], output: Vec<u32>) -> Self {
        let usage = Usage {
            prompt: prompt.len(),
            completion: output.len(),
        };
        let prompt = prompt.to_vec();
        let statement = Statement { prompt, output };
        app.metrics.prompt_tokens.add(usage.prompt as u64);
        Self {
            // Nothing of an answer is hidden from whoever asked for it.
            reason: statement
                .finish(&app.served.model.key.config)
                .reason()
                .unwrap_or("length"),
            output: statement.output,
            usage,
        }
    }

    /// Writes the answer into the log.
    pub fn log(&self, app: &App, head: &Head, text: &str, proof: Option<&String>) {
        app.log.event(
            "answer",
            json!({
                "id": head.id,
                "proof_id": proof,
                "prompt_tokens": self.usage.prompt,
                "tokens": self.usage.completion,
                "finish_reason": self.reason,
            }),
        );
        app.log
            .with_texts("answer text", || json!({"id": head.id, "text": text}));
    }
}

/// Stores that the answer of a request has ended, and puts its proof into the queue. `output` is `None` if the answer did not come to
/// its end: the proof is about the answer that the model would have given.
///
/// # Errors
/// If it cannot be stored.
pub async fn release(app: &Arc<App>, id: Id, output: Option<Vec<u32>>) -> Result<(), Refusal> {
    let own = Arc::clone(app);
    let changed = app.briefly(move || {
        let changed = own.store.change(id, |record| {
            let answering = record.state == State::Answering;
            if answering {
                record.state = State::Queued;
                record.output = output;
            }
            answering
        })?;
        if let Some(record) = changed.filter(|record| record.state == State::Queued) {
            own.queue.push(id, &record);
        }
        Ok(())
    });
    changed.await?.map_err(|error| app.broken(&error))
}

/// The record of a request whose answer is being sent.
pub fn answering(record: Record) -> Record {
    Record {
        state: State::Answering,
        ..record
    }
}

/// What is said of the proof of an answer.
pub fn said(app: &App, id: Option<Id>, context: Option<Context>, prompt: &PromptIds) -> Option<Value> {
    id.map(|id| app.tessera(id, context, prompt))
}
