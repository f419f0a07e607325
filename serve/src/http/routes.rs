//! Which request is answered by what.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use hyper::body::Incoming;
use hyper::header::{HeaderValue, ALLOW, AUTHORIZATION, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response};
use serde_json::json;
use tessera::text::chat::Json;

use super::app::App;
use super::body::{self, Sent};
use super::{proof, text, vectors};
use crate::answers::Turn;
use crate::id::Id;
use crate::keys::Client;
use crate::metrics::Gauge;
use crate::openai::answer::{self, Form};
use crate::openai::error::Refusal;
use crate::openai::request::{parse, EmbeddingRequest, TextRequest};

/// A route. The only part of a path that a client chooses is an id, which is a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Chat,
    Completions,
    Embeddings,
    Models,
    Model,
    Proof(Id),
    ProofBytes(Id),
    Report(Id),
    Key,
    Health,
    Metrics,
}

impl Route {
    /// The route of a path. Paths are compared as they are: nothing in them is decoded.
    fn of(path: &str, name: &str, model: &str) -> Option<Self> {
        Some(match path {
            "/v1/chat/completions" => Self::Chat,
            "/v1/completions" => Self::Completions,
            "/v1/embeddings" => Self::Embeddings,
            "/v1/models" => Self::Models,
            "/v1/key" => Self::Key,
            "/healthz" => Self::Health,
            "/metrics" => Self::Metrics,
            other => {
                if let Some(own) = other.strip_prefix("/v1/models/") {
                    return (own == name || own == model).then_some(Self::Model);
                }
                let (id, rest) = other.strip_prefix("/v1/proofs/")?.split_at_checked(32)?;
                let id: Id = id.parse().ok()?;
                match rest {
                    "" => Self::Proof(id),
                    "/proof" => Self::ProofBytes(id),
                    "/report" => Self::Report(id),
                    _ => return None,
                }
            }
        })
    }

    /// The name in logs and counters.
    const fn name(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
            Self::Embeddings => "/v1/embeddings",
            Self::Models => "/v1/models",
            Self::Model => "/v1/models/{model}",
            Self::Proof(_) => "/v1/proofs/{id}",
            Self::ProofBytes(_) => "/v1/proofs/{id}/proof",
            Self::Report(_) => "/v1/proofs/{id}/report",
            Self::Key => "/v1/key",
            Self::Health => "/healthz",
            Self::Metrics => "/metrics",
        }
    }

    /// The methods, as a header lists them.
    const fn methods(self) -> &'static str {
        match self {
            Self::Chat | Self::Completions | Self::Embeddings => "POST",
            Self::Proof(_) => "GET, DELETE",
            _ => "GET",
        }
    }

    /// Whether a key is needed where there are keys. The key of a model is for everybody who verifies.
    const fn needs_key(self) -> bool {
        !matches!(self, Self::Key | Self::Health)
    }
}

/// Answers a request, and logs it.
pub async fn handle(app: Arc<App>, request: Request<Incoming>) -> Result<Response<Sent>, Infallible> {
    let clock = Instant::now();
    let served = &app.served;
    let route = Route::of(request.uri().path(), &served.name, &served.id);
    let method = request.method().clone();
    let client = app
        .keys
        .client(request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes));
    let name = client.as_ref().and_then(|client| client.name.clone());
    let mut response = match answer(&app, route, client, request).await {
        Ok(response) => response,
        Err(refusal) => {
            let mut response = body::refused(&refusal);
            match (refusal.status, route) {
                (401, _) => drop(
                    response
                        .headers_mut()
                        .insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")),
                ),
                (405, Some(route)) => {
                    drop(
                        response
                            .headers_mut()
                            .insert(ALLOW, HeaderValue::from_static(route.methods())),
                    );
                }
                _ => {}
            }
            response
        }
    };
    let (status, route) = (response.status().as_u16(), route.map_or("other", Route::name));
    app.metrics.request(route, status);
    app.log.event(
        "request",
        json!({
            "method": method.as_str().chars().take(16).collect::<String>(),
            "route": route,
            "status": status,
            "client": name.as_deref(),
            "milliseconds": clock.elapsed().as_millis() as u64,
        }),
    );
    if app.is_stopping() {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(hyper::header::CONNECTION, close);
    }
    Ok(response)
}

async fn answer(
    app: &Arc<App>,
    route: Option<Route>,
    client: Option<Client>,
    request: Request<Incoming>,
) -> Result<Response<Sent>, Refusal> {
    let missing = || Refusal::not_found("there is no such address, no such proof, or no such model");
    let client = match (client, route) {
        (Some(client), _) => client,
        // Whoever has no key does not learn what there is.
        (None, route) if route.is_none_or(Route::needs_key) => return Err(Refusal::unauthorised()),
        (None, _) => Client {
            name: None,
            priority: 0,
        },
    };
    let route = route.ok_or_else(missing)?;
    let method = request.method().clone();
    if method != Method::GET && is_of_another_site(&request) {
        return Err(Refusal::foreign());
    }
    match (route, method) {
        (Route::Chat, Method::POST) => {
            let (turn, request) = receive(app, request, TextRequest::chat).await?;
            text::answer(app, turn, &client, Form::Chat, request).await
        }
        (Route::Completions, Method::POST) => {
            let (turn, request) = receive(app, request, TextRequest::completion).await?;
            text::answer(app, turn, &client, Form::Completion, request).await
        }
        (Route::Embeddings, Method::POST) => {
            let (turn, request) = receive(app, request, EmbeddingRequest::read).await?;
            vectors::answer(app, turn, &client, request).await
        }
        (Route::Proof(id), Method::GET) => proof::state(app, &client, id).await,
        (Route::Proof(id), Method::DELETE) => proof::delete(app, &client, id).await,
        (Route::ProofBytes(id), Method::GET) => proof::proof(app, &client, id).await,
        (Route::Report(id), Method::GET) => proof::report(app, &client, id).await,
        (Route::Models, Method::GET) => Ok(body::json(200, &model(app, answer::models))),
        (Route::Model, Method::GET) => Ok(body::json(200, &model(app, answer::model))),
        (Route::Key, Method::GET) => Ok(proof::key(app)),
        (Route::Health, Method::GET) => Ok(health(app)),
        (Route::Metrics, Method::GET) => Ok(body::bytes(200, "text/plain; version=0.0.4", metrics(app))),
        (route, _) => Err(Refusal {
            status: 405,
            code: "method_not_allowed",
            ..Refusal::invalid(format!("this address takes {}", route.methods()))
        }),
    }
}

/// Whether a page of another site has a browser ask, which reaches servers that its user alone should reach. Browsers say so.
fn is_of_another_site(request: &Request<Incoming>) -> bool {
    let site = request.headers().get("sec-fetch-site");
    site.is_some_and(|site| site.as_bytes() == b"cross-site")
}

/// Receives the body of a request and reads it. Whoever has sent it has a turn from now on: JSON takes more memory when it is read than
/// as it is sent, and there are fewer turns than connections.
async fn receive<T: Send + 'static>(
    app: &Arc<App>,
    request: Request<Incoming>,
    read: fn(&Json) -> Result<T, Refusal>,
) -> Result<(Turn, T), Refusal> {
    if app.is_stopping() {
        return Err(Refusal::stopping());
    }
    let limits = &app.settings.limits;
    let bytes = body::read(request.into_body(), limits.body, limits.receive).await?;
    let turn = app.answers.turn();
    let turn = turn.ok_or_else(|| Refusal::busy("too many requests wait for an answer", 1))?;
    app.log
        .with_texts("request body", || json!({"body": String::from_utf8_lossy(&bytes)}));
    let request = app.beside(move || parse(&bytes).and_then(|json| read(&json))).await??;
    Ok((turn, request))
}

fn model(app: &App, write: fn(&str, &str, u64) -> serde_json::Value) -> serde_json::Value {
    write(&app.served.name, &app.served.id, app.started)
}

fn health(app: &App) -> Response<Sent> {
    match app.is_stopping() {
        true => body::bytes(503, "text/plain", "stopping\n"),
        false => body::bytes(200, "text/plain", "ok\n"),
    }
}

fn metrics(app: &App) -> String {
    let (waiting, running) = app.queue.len();
    let gauge = |name, help, value| Gauge { name, help, value };
    app.metrics.text(&[
        gauge("proofs_waiting", "Proofs that wait.", waiting as u64),
        gauge("proofs_running", "Proofs that are being made.", running as u64),
        gauge(
            "requests_in_progress",
            "Requests that wait for an answer or get one.",
            app.answers.requests() as u64,
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_route_or_nothing() {
        let of = |path: &str| Route::of(path, "tiny", "ab");
        let id = "0123456789abcdef0123456789abcdef";
        assert_eq!(of("/v1/models/tiny"), Some(Route::Model));
        let number: Id = id.parse().unwrap();
        assert_eq!(of(&format!("/v1/proofs/{id}")), Some(Route::Proof(number)));
        assert_eq!(of(&format!("/v1/proofs/{id}/report")), Some(Route::Report(number)));
        for other in [
            "",
            "/",
            "/v1",
            "/v1/models/",
            "/v1/models/other",
            "/v1/proofs/",
            "/v1/proofs/../requests.redb",
            "/v1/proofs/..%2f..%2f..%2f..%2fetc%2fpasswd",
            &format!("/v1/proofs/{id}/"),
            &format!("/v1/proofs/{}", id.to_uppercase()),
            &format!("/v1/proofs/{id}0"),
            "/v1/proofs/é123456789abcdef0123456789abcde",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
