//! `tessera report`: the verdict on a proof as a page.

use serde_json::{json, Value};
use tessera::text::chat::Date;
use tessera::{page, PageError};
use tessera_verdict::input;
use tessera_verdict::page::File;
use tessera_verdict::shown;
use tessera_verdict::Status as Decision;

use super::key::unusable_key;
use super::planned::output_beside;
use crate::args::ReportArgs;
use crate::printer::{Failure, Report, Status};
use crate::version::VERSION;

pub fn run(args: &ReportArgs) -> Result<Report, Failure> {
    let inputs = [args.key.as_path(), &args.proof].into_iter();
    input::once(inputs.chain(args.policy.files())).map_err(Failure)?;
    let policy = args.policy.policy().map_err(Failure)?;
    let out = output_beside(&args.out, [&args.key, &args.proof])?;
    let [key_name, proof_name] = [&args.key, &args.proof].map(|path| input::name(path));
    if !input::is_stdin(&args.key) {
        tessera::given::key(&args.key)?;
    }
    let [key, proof] = [input::read(&args.key), input::read(&args.proof)];
    let (key, proof) = (key.map_err(Failure)?, proof.map_err(Failure)?);
    let [key, proof] = [(&key_name, &key), (&proof_name, &proof)].map(|(name, bytes)| File { name, bytes });
    let page = page(&key, &proof, &policy, &made_by()).map_err(|error| match error {
        PageError::Key(error) => unusable_key(&key_name, &error),
        error => error.into(),
    })?;
    let (verdict, time) = (&page.verdict, Some(page.seconds));
    let status = match (verdict.status(), verdict.reason(&proof_name, &key_name)) {
        (Decision::Accepted, _) => Status::Done,
        (Decision::Rejected, _) => Status::Rejected,
        // Without a verdict there is nothing to hand on.
        (Decision::Undecided, reason) => return Err(Failure(reason.unwrap_or_default())),
    };
    out.write(page.html.as_bytes())?;
    let mut json = verdict.json(&proof_name, &key_name, time);
    json.insert("report".to_owned(), json!(args.out.display().to_string()));
    Ok(Report {
        status,
        text: format!(
            "{}report    {}\n",
            verdict.text(&proof_name, &key_name, time),
            shown::path(&args.out)
        ),
        json: Value::Object(json),
    })
}

/// The program, and when it ran.
fn made_by() -> String {
    format!("Made at {} UTC by tessera {}.", Date::now(), VERSION.short())
}
