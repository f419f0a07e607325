//! Arguments of `tessera tokenize`.

use std::path::PathBuf;

use clap::Args;

use super::ChatArgs;

#[derive(Debug, Args)]
#[command(
    override_usage = "tessera tokenize --key <FILE> <TEXT>\n       tessera tokenize --key <FILE> --chat <TEXT> [OPTIONS]\n       tessera tokenize --key <FILE> --messages <FILE> [OPTIONS]"
)]
pub struct TokenizeArgs {
    /// Model key; it has the tokenizer and the chat template
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "model",
        conflicts_with = "model"
    )]
    pub key: Option<PathBuf>,
    /// Model directory written by setup, in place of its key
    #[arg(long, value_name = "DIR")]
    pub model: Option<PathBuf>,
    /// The text; - reads standard input
    #[arg(required_unless_present_any = ["messages", "pair"], allow_hyphen_values = true)]
    pub text: Option<String>,
    /// Conversation in a file, a JSON list of {"role", "content"}, in the words of the chat template
    #[arg(long, value_name = "FILE", conflicts_with = "text")]
    pub messages: Option<PathBuf>,
    /// Query and document, as a reranker gets them
    #[arg(long, num_args = 2, value_names = ["QUERY", "DOCUMENT"], allow_hyphen_values = true,
        conflicts_with_all = ["text", "messages", "chat"])]
    pub pair: Option<Vec<String>>,
    #[command(flatten)]
    pub chat: ChatArgs,
}
