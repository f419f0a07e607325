//! `tessera completions` and `tessera man`: what shells and readers get to know of the command line.

use clap::CommandFactory;
use serde_json::json;
use tessera::support::files;
use tessera_verdict::rows::{count, Rows};

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::printer::{Failure, Report};
use crate::version::short;

/// The script that a shell reads.
pub fn completions(args: &CompletionsArgs) -> Result<Report, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tessera", &mut script);
    let script = String::from_utf8(script)?;
    let json = json!({"shell": args.shell.to_string(), "script": script});
    Ok(Report::done(script, json))
}

/// A page for the program and one for each command, named as `man` looks for them.
pub fn man(args: &ManArgs) -> Result<Report, Failure> {
    files::create_dir(&args.out_dir)?;
    let mut program = Cli::command().disable_help_subcommand(true);
    // Only then do the commands have their whole names, and the options of all commands.
    program.build();
    let mut pages = Vec::new();
    page(&program, &args.out_dir, &mut pages)?;
    let text = Rows::default()
        .path("directory", &args.out_dir)
        .row("pages", count(pages.len(), "page"));
    let json = json!({"directory": args.out_dir.display().to_string(), "pages": pages});
    Ok(Report::done(text.to_string(), json))
}

fn page(command: &clap::Command, dir: &std::path::Path, pages: &mut Vec<String>) -> Result<(), Failure> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let file = format!("{name}.1");
    let mut text = Vec::new();
    let man = clap_mangen::Man::new(command.clone().version(short()));
    man.title(name.to_uppercase()).render(&mut text)?;
    files::write(&dir.join(&file), &text)?;
    pages.push(file);
    command.get_subcommands().try_for_each(|inner| page(inner, dir, pages))
}
