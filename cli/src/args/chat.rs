//! The arguments that make a chat.

use std::path::PathBuf;

use clap::Args;
use tessera::text::chat::Date;

/// How a prompt becomes a conversation. All but the first argument need a conversation, which is one of `--chat` or of `--messages`.
#[derive(Debug, Args)]
pub struct ChatArgs {
    /// Ask as in a conversation: the prompt is what a user says, in the words of the model's chat template
    #[arg(long)]
    pub chat: bool,
    /// System message that goes before the conversation
    #[arg(long, value_name = "TEXT", conflicts_with = "messages", allow_hyphen_values = true)]
    pub system: Option<String>,
    /// Chat template (Jinja) to use in place of the model's own
    #[arg(long, value_name = "FILE")]
    pub chat_template: Option<PathBuf>,
    /// Name of the chat template, where the model has several; without, tool_use if there are tools, or else default
    #[arg(long, value_name = "NAME", conflicts_with = "chat_template")]
    pub chat_template_name: Option<String>,
    /// The day of the conversation (UTC), for chat templates that write it into the prompt; with a time of the day as
    /// 2026-11-26T17:00:05 [default: now]
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub date: Option<Date>,
    /// Tools that the model may call, in a file: a JSON list of functions as in OpenAI's interface
    #[arg(long, value_name = "FILE")]
    pub tools: Option<PathBuf>,
}

impl ChatArgs {
    /// Refuses what says how a conversation is asked where there is none; `messages` says whether one is given.
    ///
    /// # Errors
    /// If an option has no conversation: the text names it.
    pub fn check(&self, messages: bool) -> Result<(), String> {
        let own = [
            ("--system", self.system.is_some()),
            ("--chat-template", self.chat_template.is_some()),
            ("--chat-template-name", self.chat_template_name.is_some()),
            ("--date", self.date.is_some()),
            ("--tools", self.tools.is_some()),
        ];
        match own.into_iter().find(|(_, given)| *given && !self.chat && !messages) {
            Some((name, _)) => Err(format!("{name} is about a chat: it goes with --chat or --messages")),
            None => Ok(()),
        }
    }
}
