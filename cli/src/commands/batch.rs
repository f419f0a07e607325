//! `tessera prove --batch`.

use std::path::Path;
use std::time::Instant;

use serde_json::{json, Map, Value};
use tessera::batch::{self, BatchOutcome, BatchRequest};
use tessera::circuits::wording::count;
use tessera::support::progress::Progress;
use tessera::{Model, ProofRequest, Timetable};
use tessera_verdict::rows::{bytes, seconds};
use tessera_verdict::{add_hidden, input, shown};

use super::claim::claim_of;
use super::interrupt;
use super::proved::{difference_json, Proved};
use crate::args::{GlobalArgs, ProveArgs};
use crate::bars::Display;
use crate::printer::{error_columns, peak_rss_bytes, progress_line, report_columns, Failure, Report, Status};

/// The most bytes of a file of requests.
const FILE_BYTES: u64 = 1 << 28;

/// How many requests came to what.
#[derive(Default)]
struct Tally {
    proved: usize,
    present: usize,
    differs: usize,
    failed: usize,
}

impl Tally {
    /// As the exit status of several proofs: an answer that differs counts before a request that could not be proved.
    const fn status(&self) -> Status {
        match (self.differs, self.failed) {
            (0, 0) => Status::Done,
            (0, _) => Status::Undecided,
            // What is said goes to standard output: the differences are there.
            _ => Status::Rejected,
        }
    }
}

pub fn run(
    args: &ProveArgs,
    requests: &Path,
    dir: &Path,
    display: &Display,
    global: &GlobalArgs,
) -> Result<Report, Failure> {
    let (quiet, json) = (global.quiet, global.json);
    let text = input::read_text(requests, FILE_BYTES, "file of requests").map_err(Failure)?;
    let named = |error| Failure(format!("{}: {error}", shown::path(requests)));
    let mut list = batch::read(&text, args.memory).map_err(named)?;
    list.iter_mut()
        .for_each(|request| request.options.hide_activations = args.hide);
    display.phase("open model", None);
    let model = Model::open(&args.model)?;
    let open = model.batch(dir)?;
    interrupt::answer(|| "what is proved is kept, go on with the same command".to_owned());
    let (clock, mut tally) = (Instant::now(), Tally::default());
    for (at, request) in list.iter().enumerate() {
        display.within(format!("{}/{}: ", at + 1, list.len()));
        let start = Instant::now();
        let read = ProofRequest::new(&model.key, model.tokenizer.as_ref(), &request.prompt, &request.options);
        if let Ok(read) = &read {
            display.expect(Timetable::new(&model, read));
        }
        let outcome = open.prove(request, display);
        display.done();
        let said = Said {
            model: &model,
            request,
            dir,
            seconds: start.elapsed().as_secs_f64(),
        };
        let (status, object) = said.json(&outcome);
        *match status {
            "proved" => &mut tally.proved,
            "present" => &mut tally.present,
            "differs" => &mut tally.differs,
            _ => &mut tally.failed,
        } += 1;
        match (json, said.text(&outcome)) {
            (true, _) => progress_line(&Value::Object(object).to_string()),
            (false, Ok(text)) if !quiet => progress_line(&text),
            (false, Ok(_)) => {}
            (false, Err(text)) => eprintln!("{}", shown::message(&text, error_columns(&[]))),
        }
    }
    let Tally {
        proved,
        present,
        differs,
        failed,
    } = tally;
    let time = clock.elapsed().as_secs_f64();
    let text = format!(
        "{}: {proved} proved, {present} there already, {differs} with another answer, {failed} failed; {}, {}",
        count(list.len(), "request"),
        seconds(time),
        bytes(peak_rss_bytes())
    );
    Ok(Report {
        status: tally.status(),
        text: if quiet { String::new() } else { text },
        json: json!({
            "requests": list.len(), "proved": proved, "present": present, "differs": differs, "failed": failed,
            "model_id": model.id.to_string(), "seconds": time, "peak_rss_bytes": peak_rss_bytes(),
        }),
    })
}

/// A request of which something is said.
struct Said<'a> {
    model: &'a Model,
    request: &'a BatchRequest,
    dir: &'a Path,
    seconds: f64,
}

impl Said<'_> {
    /// The status of the request, and the object that says it to programs.
    fn json(&self, outcome: &BatchOutcome) -> (&'static str, Map<String, Value>) {
        let path = self.request.path(self.dir);
        let (status, more) = match outcome {
            BatchOutcome::Proved(proof) => {
                let expected = self.request.options.answer.is_some();
                let proved = Proved::new(self.model, proof, &path, self.seconds, expected);
                ("proved", proved.json())
            }
            BatchOutcome::Present {
                statement,
                security_bits,
                proof_bytes,
            } => {
                let mut json = Map::new();
                json.insert("model_id".to_owned(), json!(self.model.id.to_string()));
                claim_of(statement, &self.model.key, Ok(self.model.tokenizer.as_ref())).add_to(&mut json);
                add_hidden(self.request.options.hide_activations, statement, &mut json);
                for (key, value) in [
                    ("proof_bytes", json!(proof_bytes)),
                    ("security_bits", json!(security_bits)),
                    ("proof", json!(path.display().to_string())),
                ] {
                    json.insert(key.to_owned(), value);
                }
                ("present", json)
            }
            BatchOutcome::Differs(difference) => {
                let fields = [
                    ("error".to_owned(), json!(difference.to_string())),
                    ("answer".to_owned(), difference_json(difference)),
                ];
                ("differs", Map::from_iter(fields))
            }
            BatchOutcome::Failed(error) => {
                let fields = [("error".to_owned(), json!(error.to_string()))];
                ("failed", Map::from_iter(fields))
            }
        };
        let own = [
            ("id".to_owned(), json!(self.request.id)),
            ("line".to_owned(), json!(self.request.line)),
            ("status".to_owned(), json!(status)),
        ];
        (status, own.into_iter().chain(more).collect())
    }

    /// A line for people, or why there is no proof.
    fn text(&self, outcome: &BatchOutcome) -> Result<String, String> {
        let id = &self.request.id;
        let line = match outcome {
            BatchOutcome::Proved(proof) => {
                let (time, size) = (seconds(self.seconds), bytes(proof.bytes().len() as u64));
                let said = proof.text.as_ref().map(|text| format!(": {}", shown::quoted(text)));
                format!("{id}  proved in {time}, {size}{}", said.unwrap_or_default())
            }
            BatchOutcome::Present { proof_bytes, .. } => format!("{id}  there already, {}", bytes(*proof_bytes as u64)),
            BatchOutcome::Differs(difference) => return Err(format!("{id}  {difference}")),
            BatchOutcome::Failed(error) => return Err(format!("{id}  failed: {error}")),
        };
        let columns = report_columns();
        let lines = shown::wrapped(&line, columns.saturating_sub(8), shown::CONTINUED);
        Ok(lines.join("\n  "))
    }
}
