//! The prompt of the command line as ids.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use tessera_circuits::model::ModelConfig;
use tessera_text::chat::{self, ChatTemplate, Choice, Conversation};
use tessera_text::tokenizer::Tokenizer;
use tessera_verdict::rows::Rows;
use tessera_verdict::shown;
use tessera_verifier::key::ModelKey;

use crate::args::{Ids, PromptArgs};
use crate::printer::Failure;

/// The most bytes of a file with a prompt.
const FILE_BYTES: u64 = 1 << 24;
/// What stands for standard input.
const STDIN: &str = "-";

pub const NO_ENCODER: &str = "the model is no encoder: it generates tokens and makes no vectors";
pub const NO_RERANKER: &str = "the model is no reranker: it makes no scores of a query and a document";
pub const NO_EMBEDDING: &str = "the model is a reranker: it makes scores of a query and a document, and no embeddings";
/// Why a text is not enough.
pub const NO_TOKENIZER: &str = "the model has no tokenizer, so texts must be given as token ids";

/// A prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    pub ids: Vec<u32>,
    /// Special tokens that messages spell; they were encoded as text.
    pub spelled: Vec<String>,
    /// Notes for the user about the ids, for example that a text was cut.
    pub notes: Vec<String>,
}

impl Prompt {
    /// Reads and encodes the prompt. Errors unless every id is one of the model.
    pub fn of(args: &PromptArgs, key: &ModelKey, tokenizer: Option<&Tokenizer>) -> Result<Self, Failure> {
        let prompt = Self::read(args, key, tokenizer)?;
        let vocab = key.config.vocab;
        if prompt.ids.is_empty() {
            let empty =
                "the prompt has no tokens: its text encodes to nothing, and a model needs a token to go on from";
            return Err(Failure(empty.to_owned()));
        }
        match prompt.ids.iter().position(|id| *id as usize >= vocab) {
            Some(at) => Err(Failure(format!(
                "the prompt has the token id {} at position {at} (counted from 0), but the model's vocabulary ends at {}",
                prompt.ids[at],
                vocab.saturating_sub(1)
            ))),
            None => Ok(prompt),
        }
    }

    fn read(args: &PromptArgs, key: &ModelKey, tokenizer: Option<&Tokenizer>) -> Result<Self, Failure> {
        let source = &args.source;
        if (source.embed.is_some() || source.embed_ids.is_some()) && !key.config.is_encoder() {
            return Err(Failure(format!("{NO_ENCODER} (--prompt)")));
        }
        let ranks = key.config.reranker().is_some();
        if (source.rank.is_some() || source.rank_ids.is_some()) && !ranks {
            return Err(Failure(format!("{NO_RERANKER} (--embed or --prompt)")));
        }
        if (source.embed.is_some() || source.embed_ids.is_some()) && ranks {
            return Err(Failure(format!("{NO_EMBEDDING} (--rank)")));
        }
        let ids = source.prompt_ids.as_ref().or(source.embed_ids.as_ref());
        if let Some(given) = ids.or(source.rank_ids.as_ref()) {
            return Ok(Self::of_ids(given));
        }
        if let Some(path) = &source.prompt_ids_file {
            let text = read_text(path)?;
            let parsed: Result<Ids, String> = text.parse();
            return Ok(Self::of_ids(
                &parsed.map_err(|e| Failure(format!("{}: {e}", path.display())))?,
            ));
        }
        let ids = match (&source.embed, &source.rank) {
            (Some(_), _) => "--embed-ids",
            (_, Some(_)) => "--rank-ids",
            (None, None) => "--prompt-ids",
        };
        let tokenizer = tokenizer.ok_or_else(|| Failure(format!("{NO_TOKENIZER} ({ids})")))?;
        if let Some(text) = &source.embed {
            return Self::of_text(text, tokenizer);
        }
        if let Some([query, document]) = source.rank.as_deref() {
            return Self::of_pair(query, document, &key.config, tokenizer);
        }
        let mut conversation = match (&source.messages, args.chat.chat) {
            (Some(path), _) => Conversation {
                messages: json_of(path, chat::messages)?,
                tools: None,
            },
            (None, false) => return encoded(&source_text(args)?, tokenizer),
            (None, true) => chat::question(args.chat.system.as_deref(), &source_text(args)?),
        };
        if let Some(path) = &args.chat.tools {
            conversation.tools = Some(json_of(path, chat::tools)?);
        }
        Self::of_chat(args, &conversation, key, tokenizer)
    }

    /// Ids that are given.
    pub fn of_ids(ids: &Ids) -> Self {
        Self {
            ids: ids.0.clone(),
            ..Self::default()
        }
    }

    /// A text, or what standard input has.
    pub fn of_text(text: &str, tokenizer: &Tokenizer) -> Result<Self, Failure> {
        match text {
            STDIN => encoded(&read_text(Path::new(STDIN))?, tokenizer),
            text => encoded(text, tokenizer),
        }
    }

    /// A query and a document.
    pub fn of_pair(query: &str, document: &str, config: &ModelConfig, tokenizer: &Tokenizer) -> Result<Self, Failure> {
        Ok(Self {
            ids: tokenizer.encode_pair(query, document, config)?,
            ..Self::default()
        })
    }

    fn of_chat(
        args: &PromptArgs,
        conversation: &Conversation,
        key: &ModelKey,
        tokenizer: &Tokenizer,
    ) -> Result<Self, Failure> {
        let choice = match (&args.chat.chat_template, &args.chat.chat_template_name) {
            (Some(path), _) => Choice::Given(read_whole(path)?),
            (None, Some(name)) => Choice::Named(name.clone()),
            (None, None) => Choice::Own,
        };
        let template = ChatTemplate::new(&key.tokenizer_config, choice, conversation.tools.is_some())?;
        let prompt = template.prompt(conversation, tokenizer)?;
        Ok(Self {
            ids: prompt.ids,
            spelled: prompt.spelled,
            notes: Vec::new(),
        })
    }

    /// What the user should know of it.
    pub fn rows(&self, rows: Rows) -> Rows {
        let names: Vec<String> = self.spelled.iter().map(|text| shown::name(text)).collect();
        let note = (!names.is_empty()).then(|| {
            let names = names.join(" ");
            format!("a message spells {names}: encoded as text, not as special tokens")
        });
        let notes = self.notes.iter().map(|note| shown::line(note));
        notes.fold(rows.maybe("note", note), |rows, note| rows.row("note", note))
    }
}

fn encoded(text: &str, tokenizer: &Tokenizer) -> Result<Prompt, Failure> {
    let encoded = tokenizer.encode_text(text)?;
    Ok(Prompt {
        ids: encoded.ids,
        notes: encoded.notes,
        ..Prompt::default()
    })
}

/// The text of `--prompt` or `--prompt-file`.
fn source_text(args: &PromptArgs) -> Result<String, Failure> {
    match (&args.source.prompt, &args.source.prompt_file) {
        (Some(text), _) if text == STDIN => read_text(Path::new(STDIN)),
        (Some(text), _) => Ok(text.clone()),
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
    let (name, failed) = match path.to_str() {
        Some(STDIN) => ("standard input".to_owned(), "cannot read standard input".to_owned()),
        _ => (path.display().to_string(), format!("cannot read {}", path.display())),
    };
    let mut bytes = Vec::new();
    let read = match path.to_str() {
        Some(STDIN) => io::stdin().take(FILE_BYTES + 1).read_to_end(&mut bytes),
        _ => File::open(path).and_then(|file| file.take(FILE_BYTES + 1).read_to_end(&mut bytes)),
    };
    read.map_err(|e| Failure(format!("{failed}: {e}")))?;
    if bytes.len() as u64 > FILE_BYTES {
        return Err(Failure(format!(
            "{name} has more than {FILE_BYTES} bytes, which is no prompt"
        )));
    }
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Failure(format!("{name} is not UTF-8 text: invalid byte at {at}"))
    })
}
