//! The prompt of the command line as ids.

use std::path::Path;

use tessera::circuits::statement::{HiddenIds, HiddenPrompt, StatementError};
use tessera::prompt::{check_encoder, check_reranker, PromptError};
use tessera::prover::ProveError;
use tessera::quantised::generate::GenerateError;
use tessera::text::chat::{self, question, ChatError, Choice, Conversation, Date};
use tessera::text::tokenizer::Tokenizer;
use tessera::verifier::key::ModelKey;
use tessera::{take_answer, Error, ExpectedAnswer, Options, Prompt, PromptIds, ProofRequest};
use tessera_verdict::input::{self, PROMPT_BYTES};
use tessera_verdict::rows::Rows;
use tessera_verdict::shown;

use crate::args::{AnswerArgs, ChatArgs, HiddenArgs, Ids, LengthArgs, PromptArgs, PromptSource, ProveArgs};
use crate::printer::Failure;

/// What stands for standard input.
const STDIN: &str = "-";

/// The ids of the prompt that the arguments give.
pub fn prompt_ids(args: &PromptArgs, key: &ModelKey, tokenizer: Option<&Tokenizer>) -> Result<PromptIds, Failure> {
    ids_of(&args.source, &prompt(args)?, key, tokenizer)
}

/// The ids of a prompt that was read from these arguments.
fn ids_of(
    source: &PromptSource,
    prompt: &Prompt,
    key: &ModelKey,
    tokenizer: Option<&Tokenizer>,
) -> Result<PromptIds, Failure> {
    let (embeds, ranks) = (source.embeds(), source.ranks());
    let checked = match (embeds, ranks) {
        (true, _) => check_encoder(key),
        (_, true) => check_reranker(key),
        _ => Ok(()),
    };
    checked.map_err(|error| instead(error, [" (--prompt)", " (--embed or --prompt)", " (--rank)"]))?;
    let ids = match (embeds, ranks) {
        (true, _) => " (--embed-ids)",
        (_, true) => " (--rank-ids)",
        _ => " (--prompt-ids)",
    };
    encoded(prompt, key, tokenizer, ids)
}

/// The tokens to generate after a prompt from these arguments; none for vectors and scores.
pub fn tokens(source: &PromptSource, length: &LengthArgs) -> Result<Option<usize>, Failure> {
    match (length.tokens, source.asks_for_vector()) {
        (None, false) => Err(Failure(
            "say how many tokens to generate at most, with --tokens N".to_owned(),
        )),
        (tokens, _) => Ok(tokens),
    }
}

/// A prompt, and what is to be proved of it, as the arguments say.
pub struct Asked<'a> {
    source: &'a PromptSource,
    prompt: Prompt,
    options: Options,
    hidden: HiddenArgs,
}

impl HiddenArgs {
    /// Returns which of the prompt's ids the proof hides: it shows as many at both ends as the options say, or else the ids around the text, and hides the
    /// rest.
    fn ids(
        &self,
        prompt: &Prompt,
        key: &ModelKey,
        tokenizer: Option<&Tokenizer>,
        ids: &[u32],
    ) -> Result<HiddenIds, Failure> {
        let around = || prompt.around_text(key, tokenizer, ids);
        let shown = match (self.public_prefix, self.public_suffix) {
            _ if !self.hide_prompt => None,
            (Some(prefix), Some(suffix)) => Some(HiddenPrompt { prefix, suffix }),
            (None, None) => Some(around().map_err(|error| match error {
                PromptError::NoBorder => Failure(format!("{error} (--public-prefix, --public-suffix)")),
                error => error.into(),
            })?),
            (prefix, suffix) => {
                let around = around().unwrap_or_default();
                Some(HiddenPrompt {
                    prefix: prefix.unwrap_or(around.prefix),
                    suffix: suffix.unwrap_or(around.suffix),
                })
            }
        };
        Ok(HiddenIds {
            prompt: shown,
            output: self.hide_output,
        })
    }
}

impl<'a> Asked<'a> {
    /// Reads the prompt, and the answer if there is one: the last message of a conversation is one if an assistant has said it.
    pub fn read(args: &'a ProveArgs) -> Result<Self, Failure> {
        let (source, length) = (&args.prompt.source, &args.length);
        if reads_stdin(source) && args.answer.reads_stdin() {
            return Err(Failure(
                "prompt and answer cannot both come from standard input: put one into a file".to_owned(),
            ));
        }
        let mut prompt = prompt(&args.prompt)?;
        let answer = match (args.answer.read()?, take_answer(&mut prompt)?) {
            (Some(_), Some(_)) => {
                let problem = "the last message of --messages is an answer, too: leave one of the two out";
                return Err(Failure(problem.to_owned()));
            }
            (given, said) => given.or(said.map(ExpectedAnswer::Text)),
        };
        let tokens = match &answer {
            Some(_) => length.tokens.or(Some(usize::MAX)),
            None => tokens(source, length)?,
        };
        let mut options = Options::at_most(tokens.unwrap_or(1));
        options.generate.ignore_eos = length.ignore_eos;
        (options.context, options.answer) = (args.context, answer);
        (options.hide_activations, options.for_chain) = (args.hide, args.for_chain);
        options.reveals = args.hidden.reveals.map_or(0, usize::from);
        Ok(Self {
            source,
            prompt,
            options,
            hidden: args.hidden.clone(),
        })
    }

    /// The request for the model of a key.
    pub fn request(&self, key: &ModelKey, tokenizer: Option<&Tokenizer>) -> Result<ProofRequest, Failure> {
        let ids = ids_of(self.source, &self.prompt, key, tokenizer)?;
        if !key.config.generates() && !self.source.asks_for_vector() {
            return Err(GenerateError::Encoder.into());
        }
        let mut options = self.options.clone();
        options.hidden_ids = self.hidden.ids(&self.prompt, key, tokenizer, &ids.ids)?;
        ProofRequest::of_ids(key, tokenizer, ids, &options).map_err(|error| match error {
            Error::Prove(ProveError::Statement(StatementError::HiddenLeading { needed: Some(needed) })) => {
                Failure(format!("{error} (--public-prefix {needed})"))
            }
            error => error.into(),
        })
    }
}

impl AnswerArgs {
    fn reads_stdin(&self) -> bool {
        self.answer.as_deref() == Some(STDIN) || is_stdin(self.answer_file.as_deref())
    }

    fn read(&self) -> Result<Option<ExpectedAnswer>, Failure> {
        Ok(match (&self.answer, &self.answer_file, &self.answer_ids) {
            (Some(text), ..) => Some(text_or_input(text)?.into()),
            (_, Some(path), _) => Some(read_text(path)?.into()),
            (.., Some(Ids(ids))) => Some(ids.clone().into()),
            _ => None,
        })
    }
}

fn is_stdin(path: Option<&Path>) -> bool {
    path == Some(Path::new(STDIN))
}

fn reads_stdin(source: &PromptSource) -> bool {
    let files = [&source.prompt_file, &source.prompt_ids_file, &source.messages];
    source.prompt.as_deref() == Some(STDIN) || files.into_iter().any(|file| is_stdin(file.as_deref()))
}

/// The ids of a prompt; `ids` names the option that takes ids, for models without a tokenizer.
pub fn encoded(
    prompt: &Prompt,
    key: &ModelKey,
    tokenizer: Option<&Tokenizer>,
    ids: &str,
) -> Result<PromptIds, Failure> {
    prompt.ids(key, tokenizer).map_err(|error| match error {
        PromptError::NoTokenizer => Failure(format!("{error}{ids}")),
        PromptError::Chat(ChatError::NoTemplate) => Failure(format!("{error} (--chat-template)")),
        error => error.into(),
    })
}

/// The error of a model that is asked for something that it does not do, with the options that ask for what it does: for models that
/// generate, for encoders and for rerankers.
pub fn instead(error: PromptError, [generator, encoder, reranker]: [&str; 3]) -> Failure {
    let advice = match error {
        PromptError::NoEncoder => generator,
        PromptError::NoReranker => encoder,
        PromptError::NoEmbedding => reranker,
        _ => "",
    };
    Failure(format!("{error}{advice}"))
}

/// The prompt that the arguments give.
fn prompt(args: &PromptArgs) -> Result<Prompt, Failure> {
    let source = &args.source;
    args.chat.check(source.messages.is_some()).map_err(Failure)?;
    let ids = source.prompt_ids.as_ref().or(source.embed_ids.as_ref());
    if let Some(Ids(given)) = ids.or(source.rank_ids.as_ref()) {
        return Ok(given.clone().into());
    }
    if let Some(path) = &source.prompt_ids_file {
        let parsed: Result<Ids, String> = read_text(path)?.parse();
        let Ids(ids) = parsed.map_err(|e| Failure(format!("{}: {e}", path.display())))?;
        return Ok(ids.into());
    }
    if let Some(text) = &source.embed {
        return Ok(text_or_input(text)?.into());
    }
    if let Some([query, document]) = source.rank.as_deref() {
        let (query, document) = (query.clone(), document.clone());
        return Ok(Prompt::Pair { query, document });
    }
    text_or_chat(source.messages.as_deref(), &args.chat, || source_text(args))
}

/// A text, or the conversation that it is asked in, or one in a file.
pub fn text_or_chat(
    messages: Option<&Path>,
    chat: &ChatArgs,
    text: impl FnOnce() -> Result<String, Failure>,
) -> Result<Prompt, Failure> {
    let mut conversation = match (messages, chat.chat) {
        (Some(path), _) => Conversation {
            messages: json_of(path, chat::messages)?,
            tools: None,
            date: None,
        },
        (None, false) => return Ok(text()?.into()),
        (None, true) => question(chat.system.as_deref(), &text()?),
    };
    conversation.date = Some(chat.date.unwrap_or_else(Date::now));
    if let Some(path) = &chat.tools {
        conversation.tools = Some(json_of(path, chat::tools)?);
    }
    let template = match (&chat.chat_template, &chat.chat_template_name) {
        (Some(path), _) => Choice::Given(read_whole(path)?),
        (None, Some(name)) => Choice::Named(name.clone()),
        (None, None) => Choice::Own,
    };
    Ok(Prompt::Chat { conversation, template })
}

/// Rows about a prompt that the user should know of.
pub fn rows(prompt: &PromptIds, rows: Rows) -> Rows {
    notes(prompt)
        .into_iter()
        .fold(rows, |rows, note| rows.row("note", note))
}

/// What the user should know of a prompt. Texts of others are escaped.
pub fn notes(prompt: &PromptIds) -> Vec<String> {
    let names: Vec<String> = prompt.spelled.iter().map(|text| shown::name(text)).collect();
    let spelled = (!names.is_empty()).then(|| {
        let names = names.join(" ");
        format!("a message spells {names}: encoded as text, not as special tokens")
    });
    let dated = prompt.dated.map(|date| {
        format!("the chat template writes the day into the prompt: who verifies the chat says --date {date}")
    });
    let own = prompt.notes.iter().map(|note| shown::line(note));
    spelled
        .into_iter()
        .chain(own)
        .chain(prompt.unknown_note())
        .chain(dated)
        .collect()
}

/// A text, or the text of standard input.
pub fn text_or_input(text: &str) -> Result<String, Failure> {
    match text {
        STDIN => read_text(Path::new(STDIN)),
        text => Ok(text.to_owned()),
    }
}

/// The text of `--prompt` or `--prompt-file`.
fn source_text(args: &PromptArgs) -> Result<String, Failure> {
    match (&args.source.prompt, &args.source.prompt_file) {
        (Some(text), _) => text_or_input(text),
        (None, Some(path)) => read_text(path),
        (None, None) => Err(Failure("no prompt is given".to_owned())),
    }
}

/// Parses a file as JSON.
fn json_of<T>(path: &Path, read: impl Fn(&str) -> Result<T, chat::ChatError>) -> Result<T, Failure> {
    read(&read_text(path)?).map_err(|e| Failure(format!("{}: {e}", path.display())))
}

/// A text file, or standard input, without the line end at its end.
fn read_text(path: &Path) -> Result<String, Failure> {
    let mut text = read_whole(path)?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

/// A text file, or standard input.
fn read_whole(path: &Path) -> Result<String, Failure> {
    input::read_text(path, PROMPT_BYTES, "prompt").map_err(Failure)
}
