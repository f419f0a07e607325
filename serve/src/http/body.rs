//! Bodies of requests and answers.

use std::convert::Infallible;
use std::fs::File;
use std::io::Read;
use std::time::Duration;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited, StreamBody};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::header::{HeaderValue, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use hyper::{Response, StatusCode};
use serde_json::Value;
use tokio::sync::mpsc::channel;
use tokio_stream::wrappers::ReceiverStream;

use crate::openai::error::Refusal;

/// The body of an answer.
pub type Sent = UnsyncBoxBody<Bytes, Infallible>;

/// The header that names the proof of an answer.
pub const PROOF_ID: &str = "x-tessera-proof-id";

/// Reads the body of a request, up to so many bytes and in so much time.
///
/// # Errors
/// If it is longer, takes longer, or ends before its end.
pub async fn read(body: Incoming, most: usize, time: Duration) -> Result<Bytes, Refusal> {
    if body.size_hint().lower() > most as u64 {
        return Err(Refusal::too_large(most));
    }
    let read = tokio::time::timeout(time, Limited::new(body, most).collect()).await;
    match read.map_err(|_| Refusal::too_slow())? {
        Ok(read) => Ok(read.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Refusal::too_large(most)),
        Err(_) => Err(Refusal::invalid("the request ends before its end")),
    }
}

/// An answer of bytes.
pub fn bytes(status: u16, kind: &'static str, bytes: impl Into<Bytes>) -> Response<Sent> {
    with_body(status, kind, Full::new(bytes.into()).boxed_unsync())
}

/// Bytes of a file that are read before its client takes them, twice over.
const PIECE: usize = 64 << 10;

/// An answer of a file, which is read as its client takes it: it may be large, and many may ask for it.
pub fn file(kind: &'static str, mut file: File, length: u64) -> Response<Sent> {
    let (sender, receiver) = channel(1);
    tokio::spawn(async move {
        loop {
            let read = tokio::task::spawn_blocking(move || {
                let mut piece = Vec::with_capacity(PIECE);
                let read = (&mut file).take(PIECE as u64).read_to_end(&mut piece);
                read.map(|_| (file, piece))
            });
            // A client notices an answer that is shorter than was said.
            let Ok(Ok((rest, piece))) = read.await else { return };
            file = rest;
            if piece.is_empty() || sender.send(Ok(Frame::data(piece.into()))).await.is_err() {
                return;
            }
        }
    });
    let mut response = with_body(200, kind, StreamBody::new(ReceiverStream::new(receiver)).boxed_unsync());
    response.headers_mut().insert(CONTENT_LENGTH, length.into());
    response
}

/// An answer with a body.
pub fn with_body(status: u16, kind: &'static str, body: Sent) -> Response<Sent> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    headers.insert("cache-control", HeaderValue::from_static("no-store"));
    response
}

/// An answer of JSON, with the end of a line for terminals.
pub fn json(status: u16, value: &Value) -> Response<Sent> {
    bytes(status, "application/json", format!("{value}\n"))
}

/// A refusal.
pub fn refused(refusal: &Refusal) -> Response<Sent> {
    let mut response = json(refusal.status, &refusal.json());
    if let Some(seconds) = refusal.retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// Names proofs in the header of an answer, if there are any.
pub fn name_proofs(response: &mut Response<Sent>, ids: &[String]) {
    if ids.is_empty() {
        return;
    }
    if let Ok(value) = HeaderValue::from_str(&ids.join(", ")) {
        response.headers_mut().insert(PROOF_ID, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many clients may ask for large proofs and take nothing.
    #[tokio::test]
    async fn a_file_is_read_as_its_client_takes_it() {
        let mut own = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut own, &vec![7; 64 * PIECE]).unwrap();
        std::io::Seek::rewind(&mut own).unwrap();
        let mut response = file("application/octet-stream", own.try_clone().unwrap(), 64 * PIECE as u64);
        let first = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(first.len(), PIECE);
        tokio::time::sleep(Duration::from_millis(200)).await;
        // What nobody has asked for is not in memory.
        own.set_len(8 * PIECE as u64).unwrap();
        let rest = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(rest.len(), 7 * PIECE);
    }
}
