//! Why a template could not be run.

use thiserror::Error as ThisError;

/// Why a template could not be run.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
pub enum Error {
    #[error("syntax error: {0}")]
    Syntax(String),
    /// An error that Jinja2 would raise as well.
    #[error("{0}")]
    Runtime(String),
    /// The template itself refuses, by `raise_exception`.
    #[error("{0}")]
    Raised(String),
    /// Jinja2 could go on here.
    #[error("{0} is not supported")]
    Unsupported(String),
    #[error("{0}")]
    Limit(String),
    /// The template asks for the present time, which nobody has given.
    #[error("it asks for the present time")]
    NoTime,
}

pub type Result<T> = std::result::Result<T, Error>;

/// An error that Jinja2 raises as well.
pub fn fail<T>(problem: impl Into<String>) -> Result<T> {
    Err(Error::Runtime(problem.into()))
}

/// An error where Jinja2 would go on.
pub fn unsupported<T>(what: impl Into<String>) -> Result<T> {
    Err(Error::Unsupported(what.into()))
}
