//! Renders templates for `fixtures/sweeps/templates.py`: reads lines of JSON with `template` and `vars`, and writes a line
//! with the result for each.

use std::io::{self, BufRead, Write};

use serde_json::json;
use tessera_text::jinja::{render, Error, Json, Variable};

/// The recursion limit of templates needs it.
const STACK: usize = 16 << 20;

fn main() -> io::Result<()> {
    let work = std::thread::Builder::new().stack_size(STACK).spawn(lines)?;
    work.join()
        .unwrap_or_else(|_| Err(io::Error::other("a template panicked")))
}

fn lines() -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let job = Json::parse(&line?).map_err(io::Error::other)?;
        let Some(Json::Text(template)) = job.field("template") else {
            return Err(io::Error::other("a line has no template"));
        };
        let vars = match job.field("vars") {
            Some(Json::Map(fields)) => fields.as_slice(),
            _ => &[],
        };
        let vars = vars
            .iter()
            .map(|(name, value)| (name.clone(), Variable::User(value.clone())));
        let result = match render(template, vars.collect(), Some(0), 1 << 20) {
            Ok(rendered) => json!({"ok": rendered.text.as_str()}),
            Err(Error::Raised(message)) => json!({"raised": message}),
            Err(Error::Unsupported(what)) => json!({"unsupported": what}),
            Err(Error::Limit(which)) => json!({"limit": which}),
            Err(other) => json!({"error": other.to_string()}),
        };
        writeln!(out, "{result}")?;
    }
    Ok(())
}
