//! The arguments that make a chat.

use std::path::PathBuf;

use clap::Args;
use tessera::text::chat::Date;

/// How a prompt becomes a conversation.
#[derive(Debug, Args)]
pub struct ChatArgs {
    /// Ask as in a conversation: the prompt is what a user says, in the words of the model's chat template
    #[arg(long)]
    pub chat: bool,
    /// System message that goes before the conversation
    #[arg(
        long,
        value_name = "TEXT",
        requires = "chat",
        conflicts_with = "messages",
        allow_hyphen_values = true
    )]
    pub system: Option<String>,
    /// Chat template (Jinja) to use in place of the model's own
    #[arg(long, value_name = "FILE", requires = "chat")]
    pub chat_template: Option<PathBuf>,
    /// Name of the chat template, where the model has several; without, tool_use if there are tools, or else default
    #[arg(long, value_name = "NAME", requires = "chat", conflicts_with = "chat_template")]
    pub chat_template_name: Option<String>,
    /// The day of the conversation (UTC), for chat templates that write it into the prompt; with a time of the day as
    /// 2026-11-26T17:00:05 [default: now]
    #[arg(long, value_name = "YYYY-MM-DD", requires = "chat")]
    pub date: Option<Date>,
    /// Tools that the model may call, in a file: a JSON list of functions as in OpenAI's interface
    #[arg(long, value_name = "FILE", requires = "chat")]
    pub tools: Option<PathBuf>,
}
