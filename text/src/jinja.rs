//! Jinja2 3.1.6 as `transformers` 5.24 sets it up for chat templates: a sandbox in which nothing can be changed, with
//! `trim_blocks`, `lstrip_blocks`, loop controls, `{% generation %}`, and its own `tojson`, `dict`, `namespace`,
//! `raise_exception` and `strftime_now` (docs/format.md, section 6.3).
//!
//! Exactly this prompt is what a proof is about, so values are Python's: its integers, texts, printing and order. What
//! Jinja2 can do and this engine cannot is refused by name; nothing is silently different.

mod ast;
mod call;
mod dumps;
mod error;
mod eval;
mod expressions;
mod filters;
mod format;
mod json;
mod letters;
mod lexer;
mod lists;
mod machine;
mod methods;
mod names;
mod numbers;
mod objects;
mod operators;
mod parser;
mod print;
mod sequences;
mod statements;
mod strings;
mod tests;
mod text;
pub(crate) mod time;
mod value;
mod writing;

use std::collections::HashMap;

pub use self::error::Error;
pub use self::json::Json;
pub use self::machine::Rendered;
pub use self::text::Text;

use self::value::Value;

/// The longest template.
const SOURCE_BYTES: usize = 1 << 19;

/// A variable of a template.
#[derive(Clone, Debug)]
pub enum Variable {
    /// A value that a user gave: every text in it stays marked as the user's.
    User(Json),
    /// A text of the checkpoint.
    Own(String),
    Flag(bool),
}

/// Runs a template. `now` is in seconds since 1970, or `None` if a template that asks for it is to fail; `limit` is the most bytes of the
/// result.
pub fn render(
    source: &str,
    variables: Vec<(String, Variable)>,
    now: Option<u64>,
    limit: usize,
) -> Result<Rendered, Error> {
    if source.len() > SOURCE_BYTES {
        let bytes = source.len();
        return Err(Error::Limit(format!("it has {bytes} bytes, more than {SOURCE_BYTES}")));
    }
    let template = names::resolved(parser::parse(source)?)?;
    let mut context = HashMap::new();
    for (name, variable) in variables {
        let value = match variable {
            Variable::User(json) => json.value()?,
            Variable::Own(text) => Value::text(&text),
            Variable::Flag(flag) => Value::Bool(flag),
        };
        context.insert(name, value);
    }
    machine::run(&template, context, now, limit)
}
