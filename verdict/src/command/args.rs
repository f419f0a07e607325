//! The arguments of `verify`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use crate::input;
use crate::policy::{Given, Kind, Policy, PolicyOption, Spelling, Value, OPTIONS};

/// The arguments of `verify`.
#[derive(Clone, Debug, Args)]
// With the options of the policy in it, the group has no members by itself, and nobody could tell whether it is given.
#[group(arg = "key")]
pub struct VerifyArgs {
    /// Model key, from someone you trust or from your own setup; - is standard input
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// Proof files; - is standard input. Of several, each has a line, and a summary follows; each has to be a regular file.
    /// Write -- before them if their names may begin with a hyphen
    #[arg(required = true)]
    pub proofs: Vec<PathBuf>,
    /// A reveal of ids that the proof hides: the verdict shows them. It can be given several times, with one proof
    #[arg(long, value_name = "FILE", conflicts_with = "lines")]
    pub reveal: Vec<PathBuf>,
    /// A line and a summary for a single proof, too
    #[arg(long)]
    pub lines: bool,
    /// What the proofs have to be about.
    #[command(flatten)]
    pub policy: PolicyArgs,
}

impl VerifyArgs {
    /// The key and the proofs, whose names may come from others.
    pub fn names(&self) -> Vec<&Path> {
        let proofs = self.proofs.iter().map(PathBuf::as_path);
        let reveals = self.reveal.iter().map(PathBuf::as_path);
        [self.key.as_path()].into_iter().chain(proofs).chain(reveals).collect()
    }
}

/// The options that say what a proof has to be about, as they were given.
#[derive(Clone, Debug, Default)]
pub struct PolicyArgs(Vec<(&'static PolicyOption, Vec<OsString>)>);

/// The heading of these options in help texts.
const HEADING: &str = "What is expected of the proofs";
/// Options whose texts may begin with a hyphen.
const FREE: [&str; 4] = ["expect-prompt", "system", "expect-output", "expect-pair"];

impl PolicyArgs {
    /// The files that options name.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let named = |option: &PolicyOption| matches!(option.kind, Kind::JsonFile | Kind::TextFile);
        let files = self.0.iter().filter(move |(option, _)| named(option));
        files.filter_map(|(_, values)| values.first().map(Path::new))
    }

    /// The policy that the options ask for; reads the files that they name.
    ///
    /// # Errors
    /// If a file cannot be read, or options contradict each other: the error names the option.
    pub fn policy(&self) -> Result<Policy, String> {
        Policy::of(self.given()?, Spelling::Command)
    }

    /// The options with their values; reads the files that they name.
    fn given(&self) -> Result<Given, String> {
        let mut given = Given::default();
        for (option, values) in &self.0 {
            let named = |problem: String| format!("--{}: {problem}", option.name);
            let value = match (option.kind, values.as_slice()) {
                (Kind::Flag, _) => Value::Given,
                (Kind::Pair, [query, document]) => {
                    Value::Pair(text(query).map_err(named)?, text(document).map_err(named)?)
                }
                (kind @ (Kind::JsonFile | Kind::TextFile), [path]) => {
                    let path = Path::new(path);
                    let text = input::read_text(path, input::PROMPT_BYTES, "expectation")?;
                    let named = |problem: String| named(format!("{}: {problem}", input::name(path)));
                    Value::of_text(kind, &text).map_err(named)?
                }
                (kind, [value]) => text(value)
                    .and_then(|text| Value::of_text(kind, &text))
                    .map_err(named)?,
                _ => return Err(named("it has another number of values".to_owned())),
            };
            given.add(option.name, value);
        }
        Ok(given)
    }
}

fn text(value: &OsString) -> Result<String, String> {
    let text = value.to_str().map(str::to_owned);
    text.ok_or_else(|| format!("{:?} is not UTF-8 text", value.to_string_lossy()))
}

fn argument(option: &'static PolicyOption) -> Arg {
    let arg = Arg::new(option.name)
        .long(option.name)
        .help(option.help)
        .help_heading(HEADING);
    match option.kind {
        Kind::Flag => arg.action(ArgAction::SetTrue),
        Kind::Pair => arg.num_args(2),
        _ => arg.num_args(1),
    }
    .value_names(option.values.iter().copied())
    .allow_hyphen_values(FREE.contains(&option.name))
    .value_parser_of(option.kind)
}

/// Sets a parser only where there are values.
trait Parsed {
    fn value_parser_of(self, kind: Kind) -> Self;
}

impl Parsed for Arg {
    fn value_parser_of(self, kind: Kind) -> Self {
        match kind {
            Kind::Flag => self,
            Kind::JsonFile | Kind::TextFile => self
                .value_parser(ValueParser::os_string())
                .value_hint(clap::ValueHint::FilePath),
            _ => self.value_parser(ValueParser::os_string()),
        }
    }
}

impl Args for PolicyArgs {
    fn augment_args(command: Command) -> Command {
        command.args(OPTIONS.iter().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for PolicyArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let values = |option: &'static PolicyOption| {
            let values = match option.kind {
                Kind::Flag => matches.get_flag(option.name).then(Vec::new),
                _ => matches
                    .get_many::<OsString>(option.name)
                    .map(|values| values.cloned().collect()),
            };
            values.map(|values| (option, values))
        };
        Ok(Self(OPTIONS.iter().filter_map(values).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
