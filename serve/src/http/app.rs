//! What all requests share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use serde_json::{json, Value};
use tessera::prompt::{PromptError, PromptIds};
use tessera::text::chat::{ChatError, Date, Json};
use tessera::verifier::context::Context;
use tessera::{lengths, Prompt};
use tokio::sync::Semaphore;

use crate::answers::Answers;
use crate::id::Id;
use crate::keys::{Client, Keys};
use crate::log::Log;
use crate::metrics::Metrics;
use crate::openai::error::Refusal;
use crate::openai::request::{Doubt, Proving};
use crate::proofs::queue::{Full, Queue, Reserved};
use crate::proofs::record::{Kind, Record, State};
use crate::proofs::store::{Store, StoreError};
use crate::served::Served;
use crate::settings::{Proofs, Settings};

/// What all requests share.
pub struct App {
    /// The settings.
    pub settings: Settings,
    /// The model.
    pub served: Arc<Served>,
    /// Who may ask.
    pub keys: Keys,
    /// Asks the model.
    pub answers: Answers,
    /// The order of proofs.
    pub queue: Arc<Queue>,
    /// Requests and proofs on disk.
    pub store: Arc<Store>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// The log.
    pub log: Log,
    /// Work that takes a core: prompts that are encoded, pages that are written.
    pub cores: Semaphore,
    /// The plan of a proof, one at a time.
    pub planning: Semaphore,
    /// Seconds since 1970 of the start.
    pub started: u64,
    /// Whether the server stops.
    pub stopping: AtomicBool,
}

/// Chats have so many fields at most that a template may leave out.
const DOUBTFUL: usize = 32;

/// A proof that is wanted.
pub struct Wanted {
    /// What a record says of it.
    pub record: Record,
    /// The places in the queue.
    pub reserved: Arc<Reserved>,
}

impl App {
    /// Runs something that takes a core for a while, beside the threads that answer; there are as many such tasks at a time as cores.
    ///
    /// # Errors
    /// If it panics, which is a defect.
    pub async fn beside<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
        let _permit = self.cores.acquire().await.map_err(|_| Refusal::stopping())?;
        self.briefly(work).await
    }

    /// Runs something short that waits for the disk or a thread, beside the threads that answer. It waits for no long task.
    ///
    /// # Errors
    /// If it panics, which is a defect.
    pub async fn briefly<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
        let ended = |_| Refusal::failed("internal error, please report it");
        tokio::task::spawn_blocking(work).await.map_err(ended)
    }

    /// Refuses a request for another model.
    ///
    /// # Errors
    /// If `name` is neither the name nor the id of the model that is served.
    pub fn check_model(&self, name: &str) -> Result<(), Refusal> {
        let served = &self.served;
        if name == served.name || name == served.id {
            return Ok(());
        }
        let shown: String = name.chars().take(64).collect();
        let message = format!(
            "there is no model {shown:?}: this server has the model {:?}",
            served.name
        );
        Err(Refusal {
            code: "model_not_found",
            param: Some("model".to_owned()),
            ..Refusal::not_found(message)
        })
    }

    /// The ids of a prompt, exactly as `tessera prove` makes them. `field` is where it stands in the request.
    ///
    /// # Errors
    /// If the model cannot be given the prompt, or its template leaves out a part of it.
    pub async fn ids(&self, prompt: Prompt, field: &'static str) -> Result<PromptIds, Refusal> {
        let served = Arc::clone(&self.served);
        self.beside(move || ids(&served, prompt, field)).await?
    }

    /// What is wanted of the proof of an answer, and places for it; `None` if no proof is wanted. Refused is what could not be proved.
    ///
    /// # Errors
    /// If there is no such proof, the client may not ask for it, or the queue is full.
    pub async fn wanted(
        &self,
        client: &Client,
        proving: &Proving,
        kind: Kind,
        prompts: &[PromptIds],
        tokens: Option<usize>,
    ) -> Result<Option<Vec<Wanted>>, Refusal> {
        if !proving.proof.unwrap_or(self.settings.proofs == Proofs::Always) {
            return match proving.context.is_some() {
                true => Err(Refusal::field(
                    "context",
                    "a context is that of a proof: say \"proof\": true, too",
                )),
                false => Ok(None),
            };
        }
        if proving.priority < client.priority {
            let least = client.priority;
            return Err(Refusal::field(
                "priority",
                format!("this key may give no priority below {least}"),
            ));
        }
        let reserved = self.queue.reserve(prompts.len()).map_err(|Full { retry_after }| {
            Refusal::busy("too many proofs wait: come back, or say \"proof\": false", retry_after)
        })?;
        let reserved = Arc::new(reserved);
        let mut list = Vec::new();
        for prompt in prompts {
            let predicted = self.predicted(prompt.ids.len(), tokens).await?;
            let record = Record {
                client: client.name.as_deref().map(str::to_owned),
                context: proving.context.map(|context| context.to_string()),
                priority: proving.priority,
                predicted,
                ..Record::new(kind, prompt.ids.clone(), tokens.unwrap_or(0), State::Queued)
            };
            let reserved = Arc::clone(&reserved);
            list.push(Wanted { record, reserved });
        }
        Ok(Some(list))
    }

    /// Seconds that a proof takes, if there is one. What is not known yet is planned one after the other, so that it holds up nothing else.
    async fn predicted(&self, prompt: usize, tokens: Option<usize>) -> Result<f64, Refusal> {
        let own = lengths(&self.served.model.key, prompt, tokens).map_err(|e| Refusal::invalid(e.to_string()))?;
        let division = match self.served.known(own) {
            Some(known) => known,
            None => {
                let _permit = self.planning.acquire().await.map_err(|_| Refusal::stopping())?;
                let served = Arc::clone(&self.served);
                self.briefly(move || served.accept(own)).await?
            }
        };
        let advice = match tokens {
            Some(_) => "ask for fewer tokens (max_tokens), or say \"proof\": false",
            None => "give a shorter text, or say \"proof\": false",
        };
        let no = |why| Refusal::field("proof", format!("the answer could not be proved: {why}; {advice}"));
        Ok(division.map_err(no)?.seconds)
    }

    /// Stores a request, and puts its proof into the queue if its answer is known. When this returns, no crash loses it, and its client may
    /// know of it. A client that goes meanwhile changes nothing: what is stored is in the queue.
    ///
    /// # Errors
    /// If it cannot be stored.
    pub async fn insert(self: &Arc<Self>, mut record: Record) -> Result<Id, Refusal> {
        let id = Id::random().map_err(|e| Refusal::failed(e.to_string()))?;
        let app = Arc::clone(self);
        let inserted = self.briefly(move || {
            app.store.insert(id, &mut record)?;
            if record.state == State::Queued {
                app.queue.push(id, &record);
            }
            Ok(())
        });
        inserted.await?.map_err(|error| self.broken(&error))?;
        Ok(id)
    }

    /// What is said of a store that cannot be used; why is for the log.
    pub fn broken(&self, error: &StoreError) -> Refusal {
        self.log.event("store", json!({"error": error.to_string()}));
        Refusal::failed("the store of proofs cannot be used")
    }

    /// What an answer says of its proof.
    pub fn tessera(&self, id: Id, context: Option<Context>, prompt: &PromptIds) -> Value {
        let mut said = json!({
            "proof_id": id.to_string(),
            "model_id": self.served.id,
            "context": context.map(|context| context.to_string()),
        });
        if let Value::Object(said) = &mut said {
            if let Some(date) = prompt.dated {
                said.insert("date".to_owned(), json!(date.to_string()));
            }
            let mut notes = prompt.notes.clone();
            notes.extend(prompt.unknown_note());
            if !prompt.spelled.is_empty() {
                let names = prompt.spelled.join(" ");
                notes.push(format!(
                    "a message spells {names}: encoded as text, not as special tokens"
                ));
            }
            if !notes.is_empty() {
                said.insert("notes".to_owned(), json!(notes));
            }
        }
        said
    }

    /// Whether the server stops.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

fn ids(served: &Served, prompt: Prompt, field: &'static str) -> Result<PromptIds, Refusal> {
    let (key, tokenizer) = (&served.model.key, served.model.tokenizer.as_ref());
    let bytes = bytes_of(&prompt);
    if bytes > served.text_bytes {
        let message = format!("{bytes} bytes of text are more than the context of the model has room for");
        return Err(Refusal {
            code: "context_length_exceeded",
            ..Refusal::field(field, message)
        });
    }
    let doubts = Doubt::of(&prompt);
    if doubts.len() > DOUBTFUL {
        let message = format!("more than {DOUBTFUL} names, calls of tools, or lists of parts");
        return Err(Refusal::field(field, message));
    }
    let prompt = prompt.dated(Date::now());
    let found = prompt.ids(key, tokenizer).map_err(|error| match error {
        PromptError::Chat(ChatError::NoTemplate) => Refusal::field(
            field,
            "the model has no chat template: ask /v1/completions to go on with a text",
        ),
        error => Refusal::field(field, error.to_string()),
    })?;
    for doubt in doubts {
        let same = |other: &Prompt| other.ids(key, tokenizer).is_ok_and(|other| other.ids == found.ids);
        if doubt.without(&prompt).iter().any(same) != doubt.is_form() {
            let param = doubt.param();
            let message = match doubt.is_form() {
                true => format!("{param}: the chat template of the model takes no list of parts: give a text"),
                false => format!("{param}: the chat template of the model does not use it: leave it out"),
            };
            return Err(Refusal::unsupported(&param, message));
        }
    }
    Ok(found)
}

/// Bytes of the texts of a prompt.
fn bytes_of(prompt: &Prompt) -> usize {
    let of = |message: &Json| match message.field("content") {
        Some(Json::Text(text)) => text.len(),
        _ => 0,
    };
    match prompt {
        Prompt::Text(text) => text.len(),
        Prompt::Chat { conversation, .. } => conversation.messages.iter().map(of).sum(),
        _ => 0,
    }
}
