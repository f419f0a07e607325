//! `/v1/proofs/{id}`: a proof by its id, for the client that asked for it.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use hyper::header::{HeaderValue, CONTENT_DISPOSITION};
use hyper::Response;
use serde_json::{json, Value};
use tessera::support::files::{self, FileError};
use tessera_verdict::page;
use tessera_verdict::policy::Policy;

use super::app::App;
use super::body::{self, Sent};
use crate::id::Id;
use crate::keys::Client;
use crate::openai::error::Refusal;
use crate::proofs::queue::Place;
use crate::proofs::record::{Record, State};

/// The record of a proof that a client may see: its own.
async fn own(app: &Arc<App>, client: &Client, id: Id) -> Result<Record, Refusal> {
    let store = Arc::clone(&app.store);
    let found = app
        .briefly(move || store.get(id))
        .await?
        .map_err(|error| app.broken(&error))?;
    // Whose it is decides where there are keys.
    found
        .filter(|record| record.client.as_deref() == client.name.as_deref())
        .ok_or_else(|| Refusal::not_found("there is no such proof"))
}

/// How far a proof is.
///
/// # Errors
/// If the client has no such proof.
pub async fn state(app: &Arc<App>, client: &Client, id: Id) -> Result<Response<Sent>, Refusal> {
    let record = own(app, client, id).await?;
    Ok(body::json(200, &json(app, id, &record)))
}

fn json(app: &App, id: Id, record: &Record) -> Value {
    let place = app.queue.place(id);
    let (state, position, seconds_left) = match (record.state, place) {
        (State::Answering, _) => ("queued", None, None),
        (State::Queued, Some(Place::Running { seconds_left })) => ("proving", None, Some(seconds_left)),
        (State::Queued, Some(Place::Waiting { position, seconds_left })) => {
            ("queued", Some(position), Some(seconds_left))
        }
        (State::Queued, None) => ("queued", None, None),
        (State::Done, _) => ("done", None, None),
        (State::Failed, _) => ("failed", None, None),
        (State::Gone, _) => ("gone", None, None),
    };
    let verdict = record
        .verdict
        .as_ref()
        .map(|own| json!({"verdict": "accepted", "security_bits": own.security_bits, "chunks": own.chunks}));
    let is_done = record.state == State::Done;
    json!({
        "id": id.to_string(),
        "object": "proof",
        "state": state,
        "position": position,
        "seconds_left": seconds_left.map(|seconds| (seconds * 10.0).round() / 10.0),
        "verdict": verdict,
        "error": record.error,
        "kind": record.kind,
        "model_id": app.served.id,
        "context": record.context,
        "priority": record.priority,
        "created": record.created,
        "ended": record.ended,
        "proof_bytes": is_done.then_some(record.bytes),
        "seconds": is_done.then_some(record.seconds),
        "proof": is_done.then(|| format!("/v1/proofs/{id}/proof")),
        "report": is_done.then(|| format!("/v1/proofs/{id}/report")),
    })
}

/// The file of a finished proof.
async fn finished(app: &Arc<App>, client: &Client, id: Id) -> Result<PathBuf, Refusal> {
    let record = own(app, client, id).await?;
    let not_yet = |what: &str| {
        Err(Refusal::conflict(format!(
            "{what}: GET /v1/proofs/{id} says how far it is"
        )))
    };
    match record.state {
        State::Done => {}
        State::Answering | State::Queued => return not_yet("the proof is not made yet"),
        State::Failed => return not_yet("the proof could not be made"),
        State::Gone => {
            return Err(Refusal {
                status: 410,
                code: "gone",
                ..Refusal::not_found("the proof is gone: it was deleted")
            })
        }
    }
    Ok(app.store.proof_path(id))
}

/// What is said of a proof that cannot be read; why is for the log.
fn unreadable(app: &App, id: Id, error: &dyn std::error::Error) -> Refusal {
    app.log
        .event("proof", json!({"id": id.to_string(), "error": error.to_string()}));
    Refusal::failed("the proof cannot be read")
}

/// The bytes of a proof.
///
/// # Errors
/// If the client has no such proof, or it is not done.
pub async fn proof(app: &Arc<App>, client: &Client, id: Id) -> Result<Response<Sent>, Refusal> {
    let path = finished(app, client, id).await?;
    let opened = app.briefly(move || {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Ok((file, length))
    });
    let (file, length) = opened.await?.map_err(|e: std::io::Error| unreadable(app, id, &e))?;
    let mut response = body::file("application/octet-stream", file, length);
    attach(&mut response, &format!("{id}.proof"));
    Ok(response)
}

/// The page about a proof.
///
/// # Errors
/// As [`proof`].
pub async fn report(app: &Arc<App>, client: &Client, id: Id) -> Result<Response<Sent>, Refusal> {
    let (own, path) = (Arc::clone(app), finished(app, client, id).await?);
    let written = app.beside(move || {
        let bytes = files::read(&path)?;
        let name = format!("{id}.proof");
        let key = page::File {
            name: "model.key",
            bytes: &own.served.key,
        };
        let proof = page::File {
            name: &name,
            bytes: &bytes,
        };
        let made_by = concat!("tessera serve ", env!("CARGO_PKG_VERSION"));
        Ok(tessera::page(&key, &proof, &Policy::default(), made_by))
    });
    match written.await?.map_err(|e: FileError| unreadable(app, id, &e))? {
        Ok(page) => {
            let mut response = body::bytes(200, "text/html; charset=utf-8", page.html);
            // The page needs nothing but its own styles.
            let policy = HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; img-src data:");
            response.headers_mut().insert("content-security-policy", policy);
            Ok(response)
        }
        Err(error) => Err(Refusal::failed(error.to_string())),
    }
}

/// Deletes a proof, or gives up one that is to be made.
///
/// # Errors
/// If the client has no such proof.
pub async fn delete(app: &Arc<App>, client: &Client, id: Id) -> Result<Response<Sent>, Refusal> {
    own(app, client, id).await?;
    let shared = Arc::clone(app);
    let forgotten = app.briefly(move || {
        shared.store.forget(id)?;
        let running = shared.queue.remove(id);
        match shared.store.remove_files(id) {
            // Its worker still writes, and removes the files when it has ended.
            Err(_) if running => Ok(()),
            removed => removed,
        }
    });
    forgotten.await?.map_err(|error| app.broken(&error))?;
    Ok(body::json(
        200,
        &json!({"id": id.to_string(), "object": "proof", "deleted": true}),
    ))
}

/// The key of the model, which verifiers need.
pub fn key(app: &App) -> Response<Sent> {
    let mut response = body::bytes(200, "application/octet-stream", app.served.key.clone());
    attach(&mut response, "model.key");
    if let Ok(id) = HeaderValue::from_str(&app.served.id) {
        response.headers_mut().insert("x-tessera-model-id", id);
    }
    response
}

fn attach(response: &mut Response<Sent>, name: &str) {
    if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        response.headers_mut().insert(CONTENT_DISPOSITION, value);
    }
}
