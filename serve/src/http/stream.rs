//! Answers that are sent token by token, as server-sent events.
//!
//! The request is stored before its answer begins. What happens to the client then does not matter to the proof: an answer that nobody
//! listens to is given up, and the proof is about the answer that the model would have given.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::Response;
use serde_json::Value;
use tessera::text::tokenizer::Streamed;
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::accept::{answering, release, said, Accepted, Ended};
use super::app::{App, Wanted};
use super::body::{self, Sent};
use crate::answers::{Event, ENDED};
use crate::id::Id;
use crate::openai::error::Refusal;

/// A request that cannot be stored is tried again after so long.
const AGAIN: Duration = Duration::from_secs(10);

/// Where the events of an answer go.
struct Client(UnboundedSender<Result<Frame<Bytes>, Infallible>>);

impl Client {
    /// Sends an event; false if nobody listens any more.
    fn send(&self, event: &str) -> bool {
        let bytes = Bytes::from(format!("data: {event}\n\n"));
        self.0.send(Ok(Frame::data(bytes))).is_ok()
    }

    fn json(&self, event: &Value) -> bool {
        self.send(&event.to_string())
    }
}

/// Begins an answer that is sent token by token.
///
/// # Errors
/// If the request cannot be stored.
pub async fn answer(app: &Arc<App>, accepted: Accepted) -> Result<Response<Sent>, Refusal> {
    // A client that goes ends the task that reads its request, and must not end what is to happen to a request that is stored.
    let begun = tokio::spawn(begin(Arc::clone(app), accepted)).await;
    let (proof, receiver) = begun.map_err(|_| Refusal::failed("internal error, please report it"))??;
    let stream = StreamBody::new(UnboundedReceiverStream::new(receiver));
    let mut response = body::with_body(200, "text/event-stream", BodyExt::boxed_unsync(stream));
    let ids: Vec<String> = proof.iter().map(Id::to_string).collect();
    body::name_proofs(&mut response, &ids);
    Ok(response)
}

/// The events of an answer.
type Events = UnboundedReceiver<Result<Frame<Bytes>, Infallible>>;

/// Stores a request, and begins its answer.
async fn begin(app: Arc<App>, mut accepted: Accepted) -> Result<(Option<Id>, Events), Refusal> {
    let wanted = accepted.wanted.take();
    let proof = match &wanted {
        Some(Wanted { record, .. }) => Some(app.insert(answering(record.clone())).await?),
        None => None,
    };
    let (sender, receiver) = unbounded_channel();
    tokio::spawn(async move {
        send(&app, accepted, proof, Client(sender)).await;
        drop(wanted);
    });
    Ok((proof, receiver))
}

/// Sends an answer, and then lets its proof be made, whether or not somebody listens.
async fn send(app: &Arc<App>, accepted: Accepted, proof: Option<Id>, client: Client) {
    let events = accepted.turn.text(accepted.prompt.ids.clone(), accepted.tokens);
    let ended = pump(app, &accepted, events, &client).await;
    let output = ended
        .as_ref()
        .ok()
        .and_then(|ended| Some(ended.as_ref()?.output.clone()));
    let mut failed = ended.as_ref().err().cloned();
    let mut released = match proof {
        Some(id) => release(app, id, output.clone()).await,
        None => Ok(()),
    };
    failed = failed.or(released.as_ref().err().cloned());
    match (failed, ended) {
        (Some(refusal), _) => drop(client.json(&refusal.json())),
        (None, Ok(Some(ended))) => close(app, &accepted, proof, &ended, &client),
        (None, _) => {}
    }
    drop((accepted, client));
    // The client knows the id of the proof, so it is made as soon as the store can be written again.
    while let (Some(id), Err(_), false) = (proof, &released, app.is_stopping()) {
        tokio::time::sleep(AGAIN).await;
        released = release(app, id, output.clone()).await;
    }
}

/// Sends the text of an answer; returns `None` if nobody listens any more.
async fn pump(
    app: &Arc<App>,
    accepted: &Accepted,
    mut events: UnboundedReceiver<Event>,
    client: &Client,
) -> Result<Option<Ended>, Refusal> {
    let failed = |e: tessera::text::tokenizer::TokenizerError| Refusal::failed(e.to_string());
    let (own, prompt) = (Arc::clone(app), accepted.prompt.ids.clone());
    let streamed = app.briefly(move || {
        let tokenizer = own.served.model.tokenizer.as_ref();
        tokenizer.map(|tokenizer| Streamed::new(tokenizer, &prompt))
    });
    let streamed = streamed
        .await?
        .ok_or_else(|| Refusal::failed("the model has no tokenizer"))?;
    let mut streamed = streamed.map_err(failed)?;
    if accepted.head.first_chunk().is_some_and(|chunk| !client.json(&chunk)) {
        return Ok(None);
    }
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            () = client.0.closed() => return Ok(None),
        };
        let (id, last) = match event {
            Some(Event::Token { id, last }) => (id, last),
            Some(Event::Failed(error)) => return Err(Refusal::failed(error)),
            None => return Err(Refusal::failed(ENDED)),
        };
        let work = app.briefly(move || {
            let text = streamed.push(id);
            let text = match last {
                true => text.and_then(|text| Ok(text + &streamed.finish()?)),
                false => text,
            };
            (streamed, text)
        });
        let text;
        (streamed, text) = work.await?;
        let text = text.map_err(failed)?;
        let listens = match text.is_empty() {
            true => !client.0.is_closed(),
            false => client.json(&accepted.head.text_chunk(&text)),
        };
        if !listens {
            return Ok(None);
        }
        if last {
            return Ok(Some(Ended::of(app, &accepted.prompt.ids, streamed.output().to_vec())));
        }
    }
}

/// Sends what comes after the text.
fn close(app: &Arc<App>, accepted: &Accepted, proof: Option<Id>, ended: &Ended, client: &Client) {
    let said = said(app, proof, accepted.context, &accepted.prompt);
    let head = &accepted.head;
    // Nobody need listen any more.
    let _ = client.json(&head.last_chunk(ended.reason, said.clone()));
    if accepted.streaming.usage {
        let _ = client.json(&head.usage_chunk(ended.usage, said));
    }
    let _ = client.send("[DONE]");
    let proof = proof.map(|id| id.to_string());
    ended.log(app, head, "", proof.as_ref());
}
