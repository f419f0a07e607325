//! The arguments of `reveal`.

use std::path::PathBuf;

use clap::Args;
use tessera::Span;

/// The arguments of `tessera reveal`.
#[derive(Debug, Args)]
#[command(
    after_help = "For example, --rows 5..9,12 reveals the ids at 5, 6, 7, 8 and 12. The first id of the prompt is at 0, and the \
    output follows the prompt. --rows output reveals all of the output that is hidden."
)]
pub struct RevealArgs {
    /// The proof that hides ids
    pub proof: PathBuf,
    /// Model key of the proof
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// The secret that prove --secret wrote with the proof. It counts your reveals, so do not use a copy, which would not know of them
    #[arg(long, value_name = "FILE")]
    pub secret: PathBuf,
    /// Positions of the ids in the text, such as 5..9,12; or prompt, or output: all hidden ids of it
    #[arg(long, value_name = "ROWS", required = true, value_delimiter = ',', value_parser = span)]
    pub rows: Vec<Span>,
    /// Reveal to write; - is standard output, and the report goes to standard error
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

/// The most positions that a text can have: far more than any context, so that no list of them is long.
const MOST: usize = 1 << 20;

/// Positions, `5` or `5..9`, or the name of a part of the text.
fn span(text: &str) -> Result<Span, String> {
    let wrong = || format!("expected positions, such as 5 or 5..9, or prompt, or output, not {text:?}");
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
        digits.then(|| text.parse().ok()).flatten().filter(|own| *own <= MOST)
    };
    match text.split_once("..") {
        _ if text == "prompt" => Ok(Span::Prompt),
        _ if text == "output" => Ok(Span::Output),
        None => {
            let first = number(text).ok_or_else(wrong)?;
            let end = first + 1;
            Ok(Span::Positions { first, end })
        }
        Some((first, end)) => match (number(first), number(end)) {
            (Some(first), Some(end)) if first < end => Ok(Span::Positions { first, end }),
            (Some(_), Some(_)) => Err(format!(
                "{text} has no position: the second number comes behind the last one"
            )),
            _ => Err(wrong()),
        },
    }
}
