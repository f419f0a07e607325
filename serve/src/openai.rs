//! OpenAI's interface: what requests may say, and what answers look like.
//!
//! A field that this server does not honour is refused by its name, unless it has the value at which it changes nothing.

pub mod answer;
pub mod error;
pub mod fields;
pub mod request;
