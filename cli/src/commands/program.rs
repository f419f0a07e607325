//! `tessera completions` and `tessera man`: what shells and readers get to know of the command line.

use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::roff::{bold, roman, Roff};
use clap_mangen::Man;
use serde_json::json;
use tessera::support::files;
use tessera_verdict::rows::{count, Rows};

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::printer::{Failure, Report};
use crate::version::VERSION;

/// Exit statuses of all commands, for the manual pages.
const EXIT: [(&str, &str); 4] = [
    ("0", "The command has done its work; a proof is accepted, a key is the one of its checkpoint."),
    (
        "1",
        "A proof is rejected (verify, report): it is invalid, malformed, or not about what is expected. The model gives another answer \
         (prove --answer). A key is not the one of a checkpoint (inspect --against).",
    ),
    (
        "2",
        "Something could not be done or decided: a file is not there, a model cannot be read, a key is of another model, memory does \
         not suffice, the arguments are wrong.",
    ),
    ("130", "Ctrl-C interrupted the command."),
];

/// The script that a shell reads.
pub fn completions(args: &CompletionsArgs) -> Result<Report, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tessera", &mut script);
    let script = String::from_utf8(script)?;
    let json = json!({"shell": args.shell.to_string(), "script": script});
    Ok(Report::done(script, json))
}

/// A page for the program and one for each command. `man tessera prove` finds `tessera_prove`; with hyphens, the page of `tessera verify`
/// would have the name of the program `tessera-verify`.
pub fn man(args: &ManArgs) -> Result<Report, Failure> {
    files::create_dir(&args.out_dir)?;
    let mut program = Cli::command().disable_help_subcommand(true);
    // Only then do the commands have their whole names, and the options of all commands.
    program.build();
    let mut pages = Vec::new();
    page(&program, program.get_name(), &args.out_dir, &mut pages)?;
    let text = Rows::default()
        .path("directory", &args.out_dir)
        .row("pages", count(pages.len(), "page"));
    let json = json!({"directory": args.out_dir.display().to_string(), "pages": pages});
    Ok(Report::done(text.to_string(), json))
}

fn page(command: &Command, name: &str, dir: &Path, pages: &mut Vec<String>) -> Result<(), Failure> {
    let version = format!("Tessera {}", VERSION.short());
    let named = command.clone().display_name(name.to_owned()).version(VERSION.program);
    let man = Man::new(named).title(name.to_uppercase());
    // Without a date, the others would stand one place to the left: the footer is the same whenever it is written.
    let man = man.date(" ").source(version).manual("Tessera Manual");
    let mut text = Vec::new();
    man.render(&mut text)?;
    let mut exit = Roff::new();
    exit.control("SH", ["EXIT STATUS"]);
    for (status, meaning) in EXIT {
        exit.control("TP", []).text([bold(status)]).text([roman(meaning)]);
    }
    exit.to_writer(&mut text)?;
    let mut text = String::from_utf8(text)?;
    let hyphens = |text: &str| text.replace('-', r"\-");
    for inner in command.get_subcommands() {
        let listed = |sign: &str| format!("{}{sign}{}(1)", hyphens(name), hyphens(inner.get_name()));
        text = text.replace(&listed(r"\-"), &listed("_"));
    }
    let file = format!("{name}.1");
    files::write(&dir.join(&file), text.as_bytes())?;
    pages.push(file);
    command
        .get_subcommands()
        .try_for_each(|inner| page(inner, &format!("{name}_{}", inner.get_name()), dir, pages))
}
