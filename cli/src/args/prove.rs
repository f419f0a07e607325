//! Parts of the arguments of `tessera prove`.

use std::path::PathBuf;

use clap::Args;
use tessera_verdict::policy::Ids;

/// The ways to use the command.
pub const USAGE: &str = "tessera prove --model <DIR> --prompt <TEXT> --tokens <N> --out <FILE>
       [OPTIONS]
       tessera prove --model <DIR> --prompt <TEXT> --answer <TEXT> --out <FILE>
       [OPTIONS]
       tessera prove --model <DIR> --batch <FILE> --out-dir <DIR> [OPTIONS]
       tessera prove --model <DIR> --embed <TEXT> --out <FILE> [OPTIONS]
       tessera prove --model <DIR> --rank <QUERY> <DOCUMENT> --out <FILE>
       [OPTIONS]";

/// What a request of a batch is.
pub const BATCH: &str = "\
Requests of --batch are lines such as
  {\"id\": \"a\", \"prompt\": \"Once upon a time\", \"tokens\": 48}
  {\"id\": \"b\", \"prompt\": \"Why?\", \"chat\": true, \"answer\": \"Because.\"}
with the fields id, prompt, prompt_ids, messages, chat, system, tools,
chat_template_name, date, embed, embed_ids, rank, rank_ids, tokens,
ignore_eos, answer, answer_ids and context, which mean what the options mean. The proof of
request a is a.proof. Without an id, a request is named by its line.";

/// An answer that exists already.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub struct AnswerArgs {
    /// Prove exactly this answer; if the model gives another one, end with exit status 1 before any proving. After the
    /// answer the model has to end the text, unless the answer has as many tokens as --tokens; - reads standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub answer: Option<String>,
    /// The same in a text file, without the line end at its end; - reads standard input
    #[arg(long, value_name = "FILE")]
    pub answer_file: Option<PathBuf>,
    /// The same as token ids, between commas or spaces, for an answer whose very tokens are known
    #[arg(long, value_name = "IDS")]
    pub answer_ids: Option<Ids>,
}

/// A number of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunksArg {
    /// As few as fit in memory.
    Auto,
    Number(usize),
}

impl std::str::FromStr for ChunksArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(n @ 1..) => Ok(Self::Number(n)),
            _ if text == "auto" => Ok(Self::Auto),
            _ => Err("expected a positive number, or auto".to_owned()),
        }
    }
}
