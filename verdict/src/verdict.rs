use serde_json::{json, Map, Value};
use tessera_circuits::statement::Statement;
use tessera_verifier::codec::FileKind;
use tessera_verifier::context::Context;
use tessera_verifier::key::ModelId;
use tessera_verifier::verify::{Verified, VerifyError};

use crate::check::{self, Check, Finding};
use crate::claim::Claim;
use crate::rows::{count, seconds, width, Rows};
use crate::shown;

/// What a key says of a proof.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The model that the key is of.
    pub key: ModelId,
    /// Length of the proof.
    pub proof_bytes: usize,
    /// How it was decided.
    pub outcome: Outcome,
    /// The expectations, if there are any, and whether the proof meets them.
    pub checks: Vec<Check>,
    /// The number of a reveal that is not true of the proof, from 1 on, and why.
    refused_reveal: Option<(usize, String)>,
}

/// How it was decided.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The proof is valid, and about what was expected.
    Accepted(Box<Proved>),
    /// The proof is invalid, malformed, or not about what was expected.
    Rejected {
        /// Why.
        reason: String,
        /// What it proves all the same, if it is only not what was expected.
        proved: Option<Box<Proved>>,
    },
    /// The proof is about another model: this key cannot decide about it.
    OtherModel {
        /// The model that the proof says it is about.
        about: ModelId,
    },
}

/// What a proof proves.
#[derive(Clone, Debug)]
pub struct Proved {
    verified: Verified,
    claim: Claim,
}

impl Proved {
    /// The statement: prompt and output as ids.
    pub const fn statement(&self) -> &Statement {
        &self.verified.statement
    }

    /// The statement with its texts, and how it ends.
    pub const fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Bits of security that were enforced.
    pub const fn security_bits(&self) -> f64 {
        self.verified.security_bits
    }

    /// Number of chunks that the model was proved in.
    pub const fn chunks(&self) -> usize {
        self.verified.chunks
    }

    /// The context that the proof is tied to, if any.
    pub const fn context(&self) -> Option<Context> {
        self.verified.context
    }

    /// Whether the proof hides activations.
    pub const fn hides_activations(&self) -> bool {
        self.verified.hides_activations
    }

    /// For how many reveals the proof leaves room.
    pub const fn reveals(&self) -> usize {
        self.verified.reveals
    }

    /// The positions of ids that the proof hides and reveals say, ascending: prompt first, from 0 on. The statement has these ids.
    pub fn revealed(&self) -> &[usize] {
        &self.verified.revealed
    }

    /// For how many reveals there is room left, as far as those go that were verified with the proof.
    pub const fn reveals_left(&self) -> usize {
        self.verified.reveals.saturating_sub(self.verified.reveals_seen)
    }

    fn rows(&self, time: Option<f64>) -> Rows {
        self.claim
            .rows(Rows::default().row("model", self.verified.model))
            .maybe("context", self.verified.context)
            .row("mode", mode_text(self.verified.chunks))
            .maybe(
                "hides",
                self.verified.hides_activations.then(|| hides(&self.verified.statement)),
            )
            .maybe("revealed", self.revealed_text())
            .row(
                "security",
                format!("{:.1} bits, proven (unique decoding)", self.verified.security_bits),
            )
            .maybe("time", time.map(seconds))
    }

    /// Says which ids are known by reveals, and how many more reveals there may be; `None` if there are and can be none.
    fn revealed_text(&self) -> Option<String> {
        let (said, mut left) = (self.revealed(), self.reveals_left());
        // Where nothing is hidden, nothing can be revealed.
        if !self.statement().hides_ids() {
            left = 0;
        }
        (!said.is_empty() || left > 0).then(|| {
            let more = match left {
                0 => "room for no more reveals".to_owned(),
                left => format!("room for {}", count(left, "more reveal")),
            };
            match said {
                [] => format!("nothing; {more}"),
                _ => format!("{} at {}; {more}", count(said.len(), "id"), runs(said)),
            }
        })
    }

    fn add_to(&self, json: &mut Map<String, Value>) {
        self.claim.add_to(json);
        add_context(self.verified.context, json);
        add_hidden(self.verified.hides_activations, &self.verified.statement, json);
        if self.verified.hides_activations {
            json.insert("revealed".to_owned(), json!(self.revealed()));
            json.insert("reveals_left".to_owned(), json!(self.reveals_left()));
        }
        json.insert("mode".to_owned(), json!(mode(self.verified.chunks)));
        json.insert("chunks".to_owned(), json!(self.verified.chunks));
        json.insert("security_bits".to_owned(), json!(self.verified.security_bits));
    }
}

/// Ascending numbers in runs, as in `1, 4 to 6`.
pub fn runs(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [first, .., last] => format!("{first} to {last}"),
        [only] => only.to_string(),
        [] => String::new(),
    });
    runs.collect::<Vec<_>>().join(", ")
}

/// What a verdict comes to; the exit status of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// The proof is accepted.
    Accepted,
    /// The proof is rejected.
    Rejected,
    /// It could not be decided.
    Undecided,
}

impl Status {
    /// As processes say it: 0 accepted, 1 rejected, 2 undecided.
    pub const fn code(self) -> u8 {
        match self {
            Self::Accepted => 0,
            Self::Rejected => 1,
            Self::Undecided => 2,
        }
    }
}

impl Verdict {
    /// From what the verifier found with the key of a model in a proof of so many bytes; `claim` says what a statement
    /// says.
    pub fn new(
        key: ModelId,
        proof_bytes: usize,
        found: Result<Verified, VerifyError>,
        claim: impl FnOnce(&Statement) -> Claim,
    ) -> Self {
        let refused_reveal = match &found {
            Err(VerifyError::Reveal { number, error }) => Some((*number, error.to_string())),
            _ => None,
        };
        let outcome = match found {
            Ok(verified) => Outcome::Accepted(Box::new(Proved {
                claim: claim(&verified.statement),
                verified,
            })),
            // The key cannot decide about a proof of another model, whatever that is worth.
            Err(VerifyError::OtherModel { got, .. }) => Outcome::OtherModel { about: got },
            Err(error) => Outcome::Rejected {
                reason: error.to_string(),
                proved: None,
            },
        };
        Self {
            key,
            proof_bytes,
            outcome,
            checks: Vec::new(),
            refused_reveal,
        }
    }

    /// The number of a reveal for which the proof was rejected, from 1 on in the order in which they were given, and why.
    pub fn refused_reveal(&self) -> Option<(usize, &str)> {
        let (number, error) = self.refused_reveal.as_ref()?;
        Some((*number, error))
    }

    /// The same with another reason, if there is one and the proof was rejected.
    #[must_use]
    pub fn because(mut self, other: Option<String>) -> Self {
        if let (Outcome::Rejected { reason, .. }, Some(other)) = (&mut self.outcome, other) {
            *reason = other;
        }
        self
    }

    /// The same after its proof was compared with what is expected: one that is otherwise is rejected.
    ///
    /// # Errors
    /// If nothing speaks against the proof, but an expectation cannot be decided.
    pub(crate) fn checked(mut self, checks: Vec<Check>) -> Result<Self, String> {
        let unmet = checks.iter().find_map(|check| match &check.finding {
            Finding::Unmet { reason, .. } => Some(reason.clone()),
            _ => None,
        });
        let open = checks.iter().find_map(|check| match &check.finding {
            Finding::Open { reason } => Some(reason.clone()),
            _ => None,
        });
        self.checks = checks;
        self.outcome = match (self.outcome, unmet, open) {
            (Outcome::Accepted(proved), Some(reason), _) => Outcome::Rejected {
                reason,
                proved: Some(proved),
            },
            (_, Some(reason), _) => Outcome::Rejected { reason, proved: None },
            (_, None, Some(open)) => return Err(open),
            (outcome, None, None) => outcome,
        };
        Ok(self)
    }

    /// A sentence on what may help with an expectation that the proof does not meet: with the one that [`Verdict::reason`] is about.
    pub fn help(&self) -> Option<&str> {
        let unmet = self.checks.iter().find_map(|check| match &check.finding {
            Finding::Unmet { help, .. } => Some(help),
            _ => None,
        });
        unmet?.as_deref()
    }

    /// Why expectations that are met say less than they seem to.
    pub fn warnings(&self) -> impl Iterator<Item = &String> {
        self.checks.iter().flat_map(Check::warnings)
    }

    /// What it comes to.
    pub const fn status(&self) -> Status {
        match self.outcome {
            Outcome::Accepted(_) => Status::Accepted,
            Outcome::Rejected { .. } => Status::Rejected,
            Outcome::OtherModel { .. } => Status::Undecided,
        }
    }

    /// What the proof proves, accepted or not.
    pub fn proved(&self) -> Option<&Proved> {
        match &self.outcome {
            Outcome::Accepted(proved) => Some(proved),
            Outcome::Rejected { proved, .. } => proved.as_deref(),
            Outcome::OtherModel { .. } => None,
        }
    }

    /// Why the proof is not accepted, if it is not. Proof and key are named as the caller knows them.
    pub fn reason(&self, proof: &str, key: &str) -> Option<String> {
        match &self.outcome {
            Outcome::Accepted(_) => None,
            Outcome::Rejected { reason, .. } => Some(reason.clone()),
            Outcome::OtherModel { about } => Some(format!(
                "{proof} is about model {about}, {key} is the key of another model, {}",
                self.key
            )),
        }
    }

    /// For people; `time` is how many seconds it took, if anybody measured.
    pub fn text(&self, proof: &str, key: &str, time: Option<f64>) -> String {
        // "undecided: " is three columns longer than "error: ".
        let message = |text: &str| shown::message(&shown::line(text), width().saturating_sub(4));
        let mut reason = message(&self.reason(proof, key).unwrap_or_default());
        if let Some(help) = self.help() {
            reason.push_str(&format!("\nhelp: {}", message(help)));
        }
        match &self.outcome {
            Outcome::Accepted(proved) => {
                format!(
                    "accepted\n{}",
                    meaning(self.expected(proved.rows(time)), proved.claim())
                )
            }
            Outcome::Rejected { proved: None, .. } => format!("rejected: {reason}\n"),
            Outcome::Rejected {
                proved: Some(proved), ..
            } => format!(
                "rejected: {reason}\nthe proof proves\n{}",
                self.expected(proved.rows(time))
            ),
            Outcome::OtherModel { .. } => format!("undecided: {reason}\n"),
        }
    }

    /// The expectations, and whether the proof meets them.
    pub(crate) fn expected(&self, rows: Rows) -> Rows {
        let checks: Vec<String> = self.checks.iter().map(Check::words).collect();
        let rows = rows.maybe("policy", (!checks.is_empty()).then(|| checks.join("\n")));
        self.warnings()
            .fold(rows, |rows, warning| rows.row("WARNING", shown::line(warning)))
    }

    /// For programs.
    pub fn json(&self, proof: &str, key: &str, time: Option<f64>) -> Map<String, Value> {
        let mut json = Map::new();
        let reason = self.reason(proof, key);
        if let Outcome::OtherModel { .. } = self.outcome {
            json.insert("error".to_owned(), json!(reason));
            return json;
        }
        json.insert("model_id".to_owned(), json!(self.key.to_string()));
        if let Some(time) = time {
            json.insert("verify_seconds".to_owned(), json!(time));
        }
        json.insert("proof_bytes".to_owned(), json!(self.proof_bytes));
        if let Some(proved) = self.proved() {
            proved.add_to(&mut json);
        }
        let verdict = match self.outcome {
            Outcome::Accepted(_) => "accept",
            _ => "reject",
        };
        json.insert("verdict".to_owned(), json!(verdict));
        if let Some(reason) = reason {
            json.insert("reason".to_owned(), json!(reason));
        }
        if let Some(help) = self.help() {
            json.insert("help".to_owned(), json!(help));
        }
        check::add_to(&self.checks, &mut json);
        json
    }
}

/// What an accepted proof says, and what a reader might take it for.
fn meaning(rows: Rows, claim: &Claim) -> Rows {
    rows.prose("proves", proves(claim)).prose("but not", BUT_NOT)
}

/// What is proved, in a sentence.
pub(crate) fn proves(claim: &Claim) -> &'static str {
    let statement = claim.statement();
    match (statement.hides_prompt(), statement.hides_output()) {
        (false, false) => {}
        (true, false) => {
            return match claim.vector() {
                None => {
                    "whoever made the proof knows hidden prompt ids with which the model with this id, run in its integer arithmetic, generates exactly \
                     these output ids"
                }
                Some(_) => {
                    "whoever made the proof knows hidden ids with which the model with this id, run in its integer arithmetic, makes exactly these \
                     integers"
                }
            };
        }
        (false, true) => {
            return "whoever made the proof knows the output ids that the model with this id, run in its integer arithmetic on exactly these prompt ids, \
                    generates"
        }
        (true, true) => {
            return "whoever made the proof knows a prompt with the ids that are shown, and the output ids that the model with this id, run in its \
                    integer arithmetic, generates after it"
        }
    }
    match claim.vector().map(|vector| vector.scores.is_some()) {
        None => "the model with this id, run in its integer arithmetic on exactly these prompt ids, generates exactly these output ids",
        Some(true) => {
            "the reranker with this id, run in its integer arithmetic on exactly these prompt ids, makes exactly these integers; logits \
             and scores follow from them and from the key"
        }
        Some(false) => {
            "the encoder with this id, run in its integer arithmetic on exactly these prompt ids, makes exactly these integers; norm \
             and embedding follow from them and from the key"
        }
    }
}

/// What a reader might take for proved.
pub(crate) const BUT_NOT: &str =
    "that the text is true, or that the id is of the model that you have in mind: compare it with one that you trust";

/// Adds the context of a proof, if it has one, to what machines read of it.
pub fn add_context(context: Option<Context>, json: &mut Map<String, Value>) {
    if let Some(context) = context {
        json.insert("context".to_owned(), json!(context.to_string()));
    }
}

/// Names for people the parts that a proof hides if it hides its activations and the hidden ids of this statement.
pub fn hidden_parts(statement: &Statement) -> &'static str {
    match (statement.hides_prompt(), statement.hides_output()) {
        (false, false) => "the activations",
        (true, false) => "ids of the prompt, and the activations",
        (false, true) => "the output, and the activations",
        (true, true) => "ids of the prompt, the output, and the activations",
    }
}

/// Names the hidden parts for whoever has the proof alone, who cannot see how its maker drew the pads.
pub fn hides(statement: &Statement) -> String {
    format!("{}, if its maker drew the pads at random", hidden_parts(statement))
}

/// Says what a proof hides, if it hides anything.
pub fn add_hidden(activations: bool, statement: &Statement, json: &mut Map<String, Value>) {
    if activations {
        let (prompt, output) = (statement.hides_prompt(), statement.hides_output());
        let hidden = json!({"activations": true, "prompt": prompt, "output": output, "weights": false});
        json.insert("hidden".to_owned(), hidden);
    }
}

/// How a proof is composed: one STARK for all layers, or one for every chunk of them.
pub const fn mode(chunks: usize) -> &'static str {
    match chunks {
        1 => "unified",
        _ => "chain",
    }
}

/// The same for people.
pub(crate) fn mode_text(chunks: usize) -> String {
    match chunks {
        1 => "unified: all layers in one piece".to_owned(),
        n => format!("chain of {n} chunks"),
    }
}

/// Why bytes that were given as a proof are none, if they are known to be something else.
pub fn mistaken(name: &str, bytes: &[u8]) -> Option<String> {
    let begins = |kind: FileKind| bytes.starts_with(&kind.magic());
    if begins(FileKind::Reveal) {
        return Some(format!(
            "{name} is a reveal, not a proof; --reveal takes it, and the proof that it is of follows"
        ));
    }
    begins(FileKind::Key).then(|| format!("{name} is a model key, not a proof; --key takes the key, the proof follows"))
}
