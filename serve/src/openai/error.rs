//! Refusals, in the form that OpenAI's clients read.

use serde_json::{json, Value};

/// A request that is refused, or could not be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status of HTTP.
    pub status: u16,
    /// What is wrong, and what helps.
    pub message: String,
    /// The field that is wrong.
    pub param: Option<String>,
    /// A word for programs.
    pub code: &'static str,
    /// Seconds after which the same request may be answered.
    pub retry_after: Option<u64>,
}

impl Refusal {
    fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            param: None,
            code,
            retry_after: None,
        }
    }

    /// A request that is wrong as a whole.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(400, "invalid_request", message)
    }

    /// A field that is wrong.
    pub fn field(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            param: Some(name.into()),
            ..Self::new(400, "invalid_value", message)
        }
    }

    /// A field, or a value of it, that this server does not honour.
    pub fn unsupported(name: &str, message: impl Into<String>) -> Self {
        Self {
            code: "unsupported_parameter",
            ..Self::field(name, message)
        }
    }

    /// No key, or a wrong one.
    pub fn unauthorised() -> Self {
        let message = "this server needs an API key, in the header Authorization: Bearer KEY";
        Self::new(401, "invalid_api_key", message)
    }

    /// A page of another site asks, by the browser of somebody who may not know of it.
    pub fn foreign() -> Self {
        let message = "a page of another site may not ask this server by your browser";
        Self::new(403, "foreign_site", message)
    }

    /// Something that is not there, or belongs to somebody else.
    pub fn not_found(what: impl Into<String>) -> Self {
        Self::new(404, "not_found", what)
    }

    /// Something that is there, but not now.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(409, "not_ready", message)
    }

    /// A body that is too long.
    pub fn too_large(most: usize) -> Self {
        Self::new(413, "too_large", format!("the request is longer than {most} bytes"))
    }

    /// A body that took too long.
    pub fn too_slow() -> Self {
        Self::new(408, "too_slow", "the request took too long to arrive")
    }

    /// Too many requests.
    pub fn busy(message: impl Into<String>, retry_after: u64) -> Self {
        Self {
            retry_after: Some(retry_after),
            ..Self::new(429, "busy", message)
        }
    }

    /// A failure of the server.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(500, "internal_error", message)
    }

    /// A server that stops.
    pub fn stopping() -> Self {
        Self {
            retry_after: Some(5),
            ..Self::new(503, "stopping", "the server is stopping")
        }
    }

    /// OpenAI's word for errors of this status.
    const fn kind(&self) -> &'static str {
        match self.status {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            429 => "rate_limit_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        }
    }

    /// The body of the answer.
    pub fn json(&self) -> Value {
        json!({"error": {"message": self.message, "type": self.kind(), "param": self.param, "code": self.code}})
    }
}
