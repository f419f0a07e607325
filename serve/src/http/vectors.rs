//! `/v1/embeddings`.

use std::sync::Arc;

use hyper::Response;
use serde_json::{json, Value};
use tessera::prompt::check_encoder;
use tessera::quantised::generate::token_rows;
use tessera_verdict::vector::Vector;

use super::app::App;
use super::body::{self, Sent};
use crate::answers::Turn;
use crate::keys::Client;
use crate::openai::answer;
use crate::openai::error::Refusal;
use crate::openai::request::EmbeddingRequest;
use crate::proofs::record::{Kind, Record};

/// Answers a request for embeddings. Every text has a proof of its own; they are stored before the answer is sent.
///
/// # Errors
/// If it is refused.
pub async fn answer(
    app: &Arc<App>,
    turn: Turn,
    client: &Client,
    request: EmbeddingRequest,
) -> Result<Response<Sent>, Refusal> {
    let (served, most) = (&app.served, app.settings.limits.inputs);
    let key = &served.model.key;
    app.check_model(&request.model)?;
    check_encoder(key).map_err(|e| Refusal::not_found(e.to_string()))?;
    if request.inputs.len() > most {
        let n = request.inputs.len();
        return Err(Refusal::field(
            "input",
            format!("{n} texts are more than the {most} of a request here"),
        ));
    }
    if let Some(dimensions) = request.dimensions.filter(|n| *n != key.config.hidden) {
        let own = key.config.hidden;
        let message = format!("the vectors have {own} dimensions, and are not cut to {dimensions}");
        return Err(Refusal::unsupported("dimensions", message));
    }
    let mut prompts = Vec::new();
    for input in request.inputs {
        let prompt = app.ids(input, "input").await?;
        token_rows(prompt.ids.len(), 1, key.config.context).map_err(|e| Refusal::field("input", e.to_string()))?;
        prompts.push(prompt);
    }
    let wanted = app
        .wanted(client, &request.proving, Kind::Embedding, &prompts, None)
        .await?;
    let mut wanted = wanted.map(Vec::into_iter);
    let (mut vectors, mut records) = (Vec::new(), Vec::new());
    for prompt in &prompts {
        let statement = turn.vector(prompt.ids.clone()).await.map_err(Refusal::failed)?;
        let vector = Vector::of(&statement, key).ok_or_else(|| Refusal::failed("the model made no vector"))?;
        vectors.push(vector.embedding);
        if let Some(wanted) = wanted.as_mut().and_then(Iterator::next) {
            let output = Some(statement.output);
            records.push((
                Record {
                    output,
                    ..wanted.record
                },
                wanted.reserved,
                prompt,
            ));
        }
    }
    let (mut said, mut ids): (Vec<Value>, Vec<String>) = (Vec::new(), Vec::new());
    for (record, reserved, prompt) in records {
        let id = app.insert(record).await?;
        drop(reserved);
        said.push(app.tessera(id, request.proving.context, prompt));
        ids.push(id.to_string());
    }
    let tokens: usize = prompts.iter().map(|prompt| prompt.ids.len()).sum();
    app.metrics.prompt_tokens.add(tokens as u64);
    app.log.event(
        "vectors",
        json!({"proof_ids": ids, "texts": prompts.len(), "prompt_tokens": tokens}),
    );
    // A request for one text has one proof; of several, each vector says which is its own.
    let whole = match &said[..] {
        [] => None,
        [one] => Some(one.clone()),
        [first, ..] => {
            let mut all = first.clone();
            all["proof_ids"] = json!(ids);
            Some(all)
        }
    };
    let mut said = said.into_iter().map(Some);
    let vectors: Vec<_> = vectors.into_iter().map(|own| (own, said.next().flatten())).collect();
    let json = answer::embeddings(&served.name, &vectors, request.base64, tokens, whole);
    let mut response = body::json(200, &json);
    body::name_proofs(&mut response, &ids);
    Ok(response)
}
