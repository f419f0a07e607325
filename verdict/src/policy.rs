//! What a verifier expects of a proof: the policy, which every front end reads, applies and explains in the same way.
//!
//! A [`Policy`] says what a proof has to be about. With a key it becomes [`Expectations`], because the key has the tokenizer and the chat
//! template that turn expected texts into ids, and these decide about any number of proofs.

mod compare;
mod hints;
mod options;

use std::sync::OnceLock;

use tessera_text::chat::{self, question, ChatError, Choice, Conversation, Date};
use tessera_text::jinja::Json;
pub use tessera_verifier::context::Context;
use tessera_verifier::key::ModelId;
use tessera_verifier::policy::MIN_BITS;

pub use self::options::{Given, Ids, Kind, PolicyOption, Spelling, Value, OPTIONS};

use self::hints::Hint;
use crate::check::{Aspect, Check, Finding};
use crate::key::Key;
use crate::prompt::{check_reranker, Prompt, PromptError, PromptIds};
use crate::verdict::{Outcome, Proved, Verdict};

/// The output that is expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// These ids.
    Ids(Vec<u32>),
    /// A text that reads exactly like this, special tokens left out.
    Text(String),
}

/// The expectations that a proof has to meet; none if it may be about anything.
///
/// ```
/// use tessera_verdict::policy::{Output, Policy, Spelling};
///
/// let policy = Policy::parse("{\"expect_output\": \"42\", \"min_bits\": 95}", Spelling::Snake)?;
/// assert_eq!((policy.output, policy.min_bits), (Some(Output::Text("42".to_owned())), Some(95.0)));
/// // An option that is misspelt would leave out what it asks for.
/// assert!(Policy::parse("{\"expectOutput\": \"42\"}", Spelling::Snake).is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// The prompt. A chat without a date has one on no day.
    pub prompt: Option<Prompt>,
    /// The output.
    pub output: Option<Output>,
    /// The model ended the text with the last token of the output, and not before.
    pub complete: bool,
    /// The model.
    pub model: Option<ModelId>,
    /// The context that the proof was made in.
    pub context: Option<Context>,
    /// The fewest bits of security.
    pub min_bits: Option<f64>,
    /// How messages call options.
    pub spelling: Spelling,
}

/// Options that say how an expected prompt becomes a chat.
const OF_CHATS: [&str; 5] = ["system", "date", "tools", "chat-template", "chat-template-name"];
/// Options each of which says what the prompt is.
const PROMPTS: [&str; 4] = ["expect-messages", "expect-prompt", "expect-pair", "expect-prompt-ids"];
/// Options each of which says what the output is.
const OUTPUTS: [&str; 2] = ["expect-output", "expect-output-ids"];

impl Policy {
    /// Reads a JSON object of options in the spelling of a front end.
    ///
    /// # Errors
    /// If the text is no such object, or asks for what cannot be: the error names the option.
    pub fn parse(json: &str, spelling: Spelling) -> Result<Self, String> {
        Self::of(Given::parse(json, spelling)?, spelling)
    }

    /// The policy that options ask for; messages will spell them in this way.
    ///
    /// # Errors
    /// If they contradict each other, or have values that are none: the error names the option.
    pub fn of(mut given: Given, spelling: Spelling) -> Result<Self, String> {
        let name = |option: &str| spelling.name(option);
        one_of(&PROMPTS, &given, spelling)?;
        one_of(&OUTPUTS, &given, spelling)?;
        one_of(&["chat-template", "chat-template-name"], &given, spelling)?;
        one_of(&["system", "expect-messages"], &given, spelling)?;
        let chats = given.has("chat") || given.has("expect-messages");
        if let Some(own) = OF_CHATS.iter().find(|own| given.has(own) && !chats) {
            let [own, chat, messages] = [own, "chat", "expect-messages"].map(name);
            return Err(format!("{own} is about a chat: it goes with {chat} or {messages}"));
        }
        if given.has("chat") && !given.has("expect-prompt") && !given.has("expect-messages") {
            let [chat, prompt] = ["chat", "expect-prompt"].map(name);
            return Err(format!(
                "{chat} goes with {prompt}: it says that the expected prompt is asked in a chat"
            ));
        }
        let text = |given: &mut Given, option: &str| match given.take(option) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        };
        let parsed = |option: &str, problem: String| format!("{}: {problem}", name(option));
        let model = text(&mut given, "expect-model").map(|digits| model_id(&digits));
        let context = text(&mut given, "expect-context").map(|digits| digits.parse::<Context>());
        let min_bits = match given.take("min-bits") {
            Some(Value::Number(bits)) => Some(least(bits).map_err(|problem| parsed("min-bits", problem))?),
            _ => None,
        };
        let output = match given.take("expect-output-ids") {
            Some(Value::Ids(ids)) => Some(Output::Ids(ids)),
            _ => text(&mut given, "expect-output").map(Output::Text),
        };
        Ok(Self {
            prompt: prompt(&mut given, &parsed)?,
            output,
            complete: given.has("expect-complete"),
            model: model.transpose().map_err(|problem| parsed("expect-model", problem))?,
            context: context
                .transpose()
                .map_err(|problem| parsed("expect-context", problem.to_string()))?,
            min_bits,
            spelling,
        })
    }

    /// Whether nothing is expected.
    pub fn is_empty(&self) -> bool {
        let spelling = self.spelling;
        *self
            == Self {
                spelling,
                ..Self::default()
            }
    }
}

/// Refuses options of which only one can be given.
fn one_of(options: &[&str], given: &Given, spelling: Spelling) -> Result<(), String> {
    let mut found = options.iter().filter(|option| given.has(option));
    match (found.next(), found.next()) {
        (Some(a), Some(b)) => Err(format!(
            "{} and {} cannot be used together",
            spelling.name(a),
            spelling.name(b)
        )),
        _ => Ok(()),
    }
}

/// The prompt that options ask for.
fn prompt(given: &mut Given, parsed: &impl Fn(&str, String) -> String) -> Result<Option<Prompt>, String> {
    let text = |given: &mut Given, option: &str| match given.take(option) {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    };
    let json = |given: &mut Given, option: &str| match given.take(option) {
        Some(Value::Json(json)) => Some(json),
        _ => None,
    };
    if let Some(Value::Ids(ids)) = given.take("expect-prompt-ids") {
        return Ok(Some(Prompt::Ids(ids)));
    }
    if let Some(Value::Pair(query, document)) = given.take("expect-pair") {
        return Ok(Some(Prompt::Pair { query, document }));
    }
    let chats = given.has("chat");
    let mut conversation = match (json(given, "expect-messages"), text(given, "expect-prompt")) {
        (Some(messages), _) => Conversation {
            messages: read(chat::messages_of(messages)).map_err(|problem| parsed("expect-messages", problem))?,
            tools: None,
            date: None,
        },
        (None, Some(own)) if chats => question(text(given, "system").as_deref(), &own),
        (None, own) => return Ok(own.map(Prompt::Text)),
    };
    if let Some(tools) = json(given, "tools") {
        conversation.tools = Some(read(chat::tools_of(tools)).map_err(|problem| parsed("tools", problem))?);
    }
    let date = text(given, "date").map(|date| date.parse::<Date>());
    conversation.date = date.transpose().map_err(|problem| parsed("date", problem))?;
    let template = match (text(given, "chat-template"), text(given, "chat-template-name")) {
        (Some(source), _) => Choice::Given(source),
        (None, Some(name)) => Choice::Named(name),
        (None, None) => Choice::Own,
    };
    Ok(Some(Prompt::Chat { conversation, template }))
}

fn read(list: Result<Vec<Json>, ChatError>) -> Result<Vec<Json>, String> {
    list.map_err(|problem| problem.to_string())
}

fn model_id(digits: &str) -> Result<ModelId, String> {
    let mut id = [0; 32];
    let read = hex::decode_to_slice(digits.strip_prefix("0x").unwrap_or(digits), &mut id);
    let wrong = |_| "a model id has 64 hexadecimal digits, as the row \"model\" of a verdict shows them".to_owned();
    read.map(|()| ModelId(id)).map_err(wrong)
}

/// A number of bits that can be asked for.
fn least(bits: f64) -> Result<f64, String> {
    match bits {
        bits if !bits.is_finite() => Err("expected a number of bits, such as 95".to_owned()),
        bits if bits < MIN_BITS => Err(format!(
            "no proof is accepted below {MIN_BITS} bits of security, and nothing lowers that: ask for at least {MIN_BITS}"
        )),
        bits => Ok(bits),
    }
}

/// A policy, with what the key makes of its texts: it decides about proofs.
#[derive(Debug)]
pub struct Expectations<'a> {
    key: &'a Key,
    policy: &'a Policy,
    prompt: Option<PromptIds>,
    /// Other prompts that somebody may have meant, made when the first proof has another prompt than expected.
    hints: OnceLock<Vec<Hint>>,
}

impl<'a> Expectations<'a> {
    /// Turns the texts of a policy into ids, by the tokenizer and the chat template of a key.
    ///
    /// # Errors
    /// If the key has neither, or they cannot be used, so that no proof could be decided: the error says what helps.
    pub fn of(policy: &'a Policy, key: &'a Key) -> Result<Self, String> {
        let spell = policy.spelling;
        let prompt = match &policy.prompt {
            None => None,
            // Ids are not checked: a proof with others is rejected, and says which it has.
            Some(Prompt::Ids(ids)) => Some(PromptIds::from(ids.clone())),
            Some(prompt) => {
                if let Prompt::Pair { .. } = prompt {
                    let other = |error: PromptError| format!("{error} ({})", spell.name("expect-prompt"));
                    check_reranker(key.model_key()).map_err(other)?;
                }
                let ids = spell.name("expect-prompt-ids");
                let template = spell.name("chat-template");
                let advised = |error: PromptError| match error {
                    PromptError::Chat(ChatError::NoTemplate) => format!("{error} ({template})"),
                    PromptError::NoTokenizer => format!("{error} ({ids})"),
                    PromptError::Chat(ChatError::NoDate) => format!("{error} ({})", spell.name("date")),
                    error => error.to_string(),
                };
                Some(prompt.ids(key.model_key(), key.encoder()?).map_err(advised)?)
            }
        };
        // A tokenizer that cannot be used is no problem as long as nothing is expected of a text.
        let reads = matches!(policy.output, Some(Output::Text(_)));
        if reads && !key.tokenizer()? {
            let none = PromptError::NoTokenizer;
            return Err(format!("{none} ({})", spell.name("expect-output-ids")));
        }
        Ok(Self {
            key,
            policy,
            prompt,
            hints: OnceLock::new(),
        })
    }

    /// The policy.
    pub const fn policy(&self) -> &Policy {
        self.policy
    }

    /// The ids of the expected prompt, if one is expected.
    pub fn prompt_ids(&self) -> Option<&[u32]> {
        self.prompt.as_ref().map(|prompt| prompt.ids.as_slice())
    }

    /// The verdict on a proof that has to be as expected: one that is not is rejected, with the reason and what may help.
    ///
    /// # Errors
    /// If the proof holds and nothing else speaks against it, but an expectation cannot be decided: its output has no text.
    pub fn judge(&self, verdict: Verdict) -> Result<Verdict, String> {
        match (&verdict.outcome, self.policy.model) {
            (Outcome::Accepted(proved), _) => {
                let checks = self.checks(proved);
                verdict.checked(checks)
            }
            // Whatever it is worth, it is about another model than the expected one.
            (Outcome::OtherModel { about }, Some(expected)) if *about != expected => {
                let finding = Finding::unmet(other_model(*about, expected), None);
                let aspect = Aspect::Model;
                verdict.checked(vec![Check { aspect, finding }])
            }
            _ => Ok(verdict),
        }
    }

    fn checks(&self, proved: &Proved) -> Vec<Check> {
        let Policy {
            output,
            complete,
            model,
            context,
            min_bits,
            ..
        } = self.policy;
        let found = [
            (Aspect::Model, model.map(|expected| self.model(expected))),
            (
                Aspect::Prompt,
                self.prompt
                    .as_ref()
                    .map(|expected| self.prompt(expected, proved.claim())),
            ),
            (
                Aspect::Output,
                output.as_ref().map(|expected| self.output(expected, proved.claim())),
            ),
            (Aspect::Complete, complete.then(|| self.complete(proved.claim()))),
            (
                Aspect::Context,
                context.map(|expected| in_context(proved.context(), expected)),
            ),
            (
                Aspect::Bits,
                min_bits.map(|expected| enough(proved.security_bits(), expected)),
            ),
        ];
        let check = |(aspect, finding): (Aspect, Option<Finding>)| {
            Some(Check {
                aspect,
                finding: finding?,
            })
        };
        found.into_iter().filter_map(check).collect()
    }

    fn model(&self, expected: ModelId) -> Finding {
        match self.key.id() == expected {
            true => Finding::MET,
            false => Finding::unmet(other_model(self.key.id(), expected), None),
        }
    }
}

impl Key {
    /// The verdict on a proof that has to be as a policy expects. For many proofs, make [`Expectations`] once.
    ///
    /// # Errors
    /// If the policy cannot be applied with this key, or if the proof holds, but whether it is as expected cannot be decided.
    ///
    /// ```no_run
    /// use tessera_verdict::policy::Policy;
    /// use tessera_verdict::Key;
    ///
    /// let key = Key::from_bytes(&std::fs::read("model.key")?)?;
    /// let policy = Policy {
    ///     prompt: Some("Once upon a time".into()),
    ///     ..Policy::default()
    /// };
    /// let verdict = key.verify_expecting(&std::fs::read("story.proof")?, &policy)?;
    /// println!("{}", verdict.text("story.proof", "model.key", None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn verify_expecting(&self, proof: &[u8], policy: &Policy) -> Result<Verdict, String> {
        Expectations::of(policy, self)?.judge(self.verify(proof))
    }
}

fn other_model(got: ModelId, expected: ModelId) -> String {
    format!("the model is not the expected one: {got}, expected {expected}")
}

fn in_context(got: Option<Context>, expected: Context) -> Finding {
    match got {
        Some(got) if got == expected => Finding::MET,
        Some(got) => Finding::unmet(
            format!("the context is not the expected one: {got}, expected {expected}"),
            None,
        ),
        None => Finding::unmet(format!("the proof has no context, expected {expected}"), None),
    }
}

/// Compares bits as they are, and shows no more than there are.
fn enough(got: f64, expected: f64) -> Finding {
    let shown = |bits: f64| match (bits * 10.0).floor() / 10.0 {
        tenths if tenths >= expected => format!("{bits}"),
        tenths => format!("{tenths:.1}"),
    };
    match got >= expected {
        true => Finding::MET,
        false => Finding::unmet(
            format!(
                "the proof has {} bits of security, expected at least {expected}",
                shown(got)
            ),
            None,
        ),
    }
}

#[cfg(test)]
mod tests;
