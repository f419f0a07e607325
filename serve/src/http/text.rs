//! `/v1/chat/completions` and `/v1/completions`.

use std::sync::Arc;

use hyper::Response;

use super::accept::{accept, Accepted, Ended};
use super::app::{App, Wanted};
use super::body::{self, Sent};
use super::stream;
use crate::answers::{Event, Turn, ENDED};
use crate::keys::Client;
use crate::openai::answer::Form;
use crate::openai::error::Refusal;
use crate::openai::request::TextRequest;
use crate::proofs::record::Record;

/// Answers a request for a text.
///
/// # Errors
/// If it is refused.
pub async fn answer(
    app: &Arc<App>,
    turn: Turn,
    client: &Client,
    form: Form,
    request: TextRequest,
) -> Result<Response<Sent>, Refusal> {
    let accepted = accept(app, turn, client, form, request).await?;
    match accepted.streaming.stream {
        true => stream::answer(app, accepted).await,
        false => whole(app, accepted).await,
    }
}

/// Answers with the whole text at once. The request is stored before the answer is sent.
async fn whole(app: &Arc<App>, accepted: Accepted) -> Result<Response<Sent>, Refusal> {
    let Accepted { turn, head, prompt, .. } = accepted;
    let mut events = turn.text(prompt.ids.clone(), accepted.tokens);
    let mut output = Vec::new();
    loop {
        match events.recv().await {
            Some(Event::Token { id, last }) => {
                output.push(id);
                if last {
                    break;
                }
            }
            Some(Event::Failed(error)) => return Err(Refusal::failed(error)),
            None => return Err(Refusal::failed(ENDED)),
        }
    }
    let text = text(app, &prompt.ids, &output).await?;
    let ended = Ended::of(app, &prompt.ids, output);
    let mut ids = Vec::new();
    let mut said = None;
    if let Some(Wanted { record, reserved }) = accepted.wanted {
        let output = Some(ended.output.clone());
        let id = app.insert(Record { output, ..record }).await?;
        drop(reserved);
        said = Some(app.tessera(id, accepted.context, &prompt));
        ids.push(id.to_string());
    }
    ended.log(app, &head, &text, ids.first());
    let json = head.whole(&text, ended.reason, ended.usage, said);
    let mut response = body::json(200, &json);
    body::name_proofs(&mut response, &ids);
    Ok(response)
}

/// The text of an answer.
async fn text(app: &Arc<App>, prompt: &[u32], output: &[u32]) -> Result<String, Refusal> {
    let (own, prompt, output) = (Arc::clone(app), prompt.to_vec(), output.to_vec());
    let texts = app.beside(move || {
        let tokenizer = own.served.model.tokenizer.as_ref()?;
        Some(tokenizer.texts(&prompt, &output))
    });
    match texts.await? {
        Some(Ok(texts)) => Ok(texts.output.text),
        Some(Err(error)) => Err(Refusal::failed(error.to_string())),
        None => Err(Refusal::failed("the model has no tokenizer")),
    }
}
