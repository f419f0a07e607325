//! What there is to say in the place of a command's work: help, and why arguments are not understood.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextValue, ErrorKind};
use clap::{Command, Parser};

use crate::shown;

/// Arguments that ask for no work.
#[derive(Debug)]
pub enum Usage {
    /// Help or the version, and nothing else.
    Asked(clap::Error),
    /// The version as JSON, and nothing else.
    Version,
    /// The arguments are wrong, and this is why. What was given is escaped in it.
    Wrong(String),
}

/// Reads arguments, the name of the program first. Behind `--` stand files alone, so that `-` is the file of this name there.
///
/// # Errors
/// If there is no work in them.
pub fn parse<P: Parser>(args: &[OsString]) -> Result<P, Usage> {
    P::try_parse_from(as_files(args)).map_err(|error| match error.kind() {
        kind @ (ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            let others = args.get(1..).unwrap_or_default();
            let json = |arg: &&OsString| *arg == "--json";
            let rest: Vec<OsString> = others.iter().filter(|arg| !json(arg)).cloned().collect();
            match others.iter().any(|arg| json(&arg)) {
                true if kind == ErrorKind::DisplayVersion && stands_alone(&P::command(), &rest) => Usage::Version,
                false if stands_alone(&P::command(), others) => Usage::Asked(error),
                _ => Usage::Wrong(beside_others(args)),
            }
        }
        ErrorKind::InvalidUtf8 => Usage::Wrong(no_text(args)),
        _ => Usage::Wrong(escaped(error)),
    })
}

fn as_files(args: &[OsString]) -> Vec<OsString> {
    let mut behind = false;
    let own = |arg: &OsString| {
        let file = behind && arg == "-";
        behind |= arg == "--";
        if file {
            "./-".into()
        } else {
            arg.clone()
        }
    };
    args.iter().map(own).collect()
}

/// Prints help or the version; returns the exit status.
pub fn print(asked: &clap::Error) -> u8 {
    if asked.print().is_ok() {
        0
    } else {
        2
    }
}

/// The message about wrong arguments, in lines of at most so many columns.
pub fn wrapped(wrong: &str, columns: usize) -> String {
    let columns = columns.saturating_sub(1);
    let lines = wrong.lines().enumerate().flat_map(|(i, line)| match i {
        0 => shown::wrapped(&format!("error: {line}"), columns, shown::CONTINUED),
        _ => shown::wrapped(line, columns, shown::CONTINUED),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Options that ask for help or the version.
const ASKING: [&str; 4] = ["-h", "--help", "-V", "--version"];

/// Whether arguments are names of commands, and one that asks. Files can be named like options: `*` gives `-h.proof` to a
/// program that was asked to verify everything.
fn stands_alone(program: &Command, args: &[OsString]) -> bool {
    let mut words: Vec<&OsString> = args.iter().collect();
    match words.iter().position(|word| *word == "help") {
        Some(at) => drop(words.remove(at)),
        None => {
            let last = words.pop();
            if !last.is_some_and(|last| ASKING.iter().any(|own| last == own)) {
                return false;
            }
        }
    }
    let inner = words
        .into_iter()
        .try_fold(program, |command, word| command.find_subcommand(word));
    inner.is_some()
}

fn beside_others(args: &[OsString]) -> String {
    let asks = |arg: &&OsString| {
        let bytes = arg.as_encoded_bytes();
        ASKING.iter().any(|own| bytes.starts_with(own.as_bytes()))
    };
    let own = args
        .iter()
        .find(asks)
        .map_or_else(String::new, |arg| shown::path(arg.as_ref()));
    format!(
        "'{own}' asks for help or the version, which goes with no other argument. If it is a file, give it as './{own}', or \
         write -- before the files"
    )
}

/// The message about arguments that are no text, where they have to be one.
fn no_text(args: &[OsString]) -> String {
    let others = args.iter().filter(|arg| arg.to_str().is_none());
    let names: Vec<String> = others.map(|arg| format!("'{}'", shown::path(arg.as_ref()))).collect();
    format!(
        "{} is not UTF-8 text, which all arguments but names of files have to be: write the text in UTF-8, or give it as token ids",
        names.join(", ")
    )
}

/// The message, without "error: ", with all that was given escaped.
fn escaped(mut error: clap::Error) -> String {
    let text = |text: &String| shown::line(text);
    let styled = |text: &StyledStr| StyledStr::from(shown::line(&text.to_string()));
    let harmless = |value: &ContextValue| match value {
        ContextValue::String(own) => Some(ContextValue::String(text(own))),
        ContextValue::Strings(own) => Some(ContextValue::Strings(own.iter().map(text).collect())),
        ContextValue::StyledStrs(own) => Some(ContextValue::StyledStrs(own.iter().map(styled).collect())),
        _ => None,
    };
    let values: Vec<_> = error
        .context()
        .filter_map(|(kind, value)| Some((kind, harmless(value)?)))
        .collect();
    for (kind, value) in values {
        error.insert(kind, value);
    }
    let message = error.to_string();
    message.trim().trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests;
