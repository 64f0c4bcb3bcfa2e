//! The configuration file: its values become the defaults of the options of the same names, so that the command line and the
//! environment win over it, and a bad value is refused by the option's own words.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, Command};
use toml::de::{DeTable, DeValue};

use super::args::{Failure, Usage};

/// Options that make no sense in a file: they name the file itself, or one row, or show what is to be asked for each time.
const NOT_IN_A_FILE: [&str; 7] = ["config", "serve", "help", "version", "guid", "raw", "reveal"];

/// `command` with the values of the file that the arguments (or `ONCEGATE_CONFIG`) name as defaults. No file named: unchanged.
pub(super) fn with_file(command: Command, arguments: &[OsString]) -> Result<Command, Failure> {
    let Some(path) = named(arguments) else { return Ok(command) };
    let usage =
        |text: String| Failure::from(Usage::Text(format!("--config {}: {text}", path.display())));
    let text = std::fs::read_to_string(&path).map_err(|error| usage(error.to_string()))?;
    let table = DeTable::parse(&text)
        .map_err(|error| usage(error.to_string().trim_end().replace('\n', "; ")))?;
    let mut values = Vec::new();
    for (key, value) in table.get_ref() {
        let line = text[..key.span().start].matches('\n').count() + 1;
        let name = key.get_ref().to_string();
        let Some(option) = options(&command).find(|option| option.get_long() == Some(&name)) else {
            return Err(usage(format!("line {line}: there is no option {name:?}")));
        };
        let boolean = matches!(value.get_ref(), DeValue::Boolean(_));
        if boolean != matches!(option.get_action(), ArgAction::SetTrue) {
            let wanted = if boolean { "takes a value" } else { "is true or false" };
            return Err(usage(format!("line {line}: {name} {wanted}")));
        }
        let words = words(value.get_ref()).ok_or_else(|| {
            usage(format!("line {line}: the value of {name} must be text, a number, true or false"))
        })?;
        values.push((name, words));
    }
    Ok(with_defaults(command, &values))
}

/// Looks for `--config` before anything else is parsed: what it holds decides how the rest is parsed.
fn named(arguments: &[OsString]) -> Option<PathBuf> {
    let mut words = arguments.iter().skip(1);
    while let Some(word) = words.next() {
        if word == "--config" {
            return words.next().map(PathBuf::from);
        }
        if let Some(path) = word.to_str().and_then(|word| word.strip_prefix("--config=")) {
            return Some(Path::new(path).to_owned());
        }
    }
    std::env::var_os("ONCEGATE_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Whether a command takes a file: the simulated core and the demo, whose `--listen` and `--db` are other things, do not.
fn takes_a_file(command: &Command) -> bool {
    command.get_arguments().any(|arg| arg.get_long() == Some("config"))
}

/// All options of the commands that take a file: one file serves them all.
fn options(command: &Command) -> Box<dyn Iterator<Item = &Arg> + '_> {
    let own = command.get_arguments().filter(|_| takes_a_file(command));
    let own = own.filter(|arg| arg.get_long().is_some_and(|long| !NOT_IN_A_FILE.contains(&long)));
    Box::new(own.chain(command.get_subcommands().flat_map(options)))
}

fn words(value: &DeValue<'_>) -> Option<Vec<String>> {
    Some(match value {
        DeValue::String(text) => vec![text.to_string()],
        DeValue::Integer(number) => vec![number.to_string()],
        DeValue::Float(number) => vec![number.to_string()],
        DeValue::Boolean(yes) => vec![yes.to_string()],
        DeValue::Array(values) => {
            values.iter().map(|v| words(v.get_ref())).collect::<Option<Vec<_>>>()?.concat()
        }
        DeValue::Datetime(_) | DeValue::Table(_) => return None,
    })
}

fn with_defaults(command: Command, values: &[(String, Vec<String>)]) -> Command {
    let taken = takes_a_file(&command);
    let command = command.mut_args(|arg| {
        let given = arg.get_long().filter(|long| taken && !NOT_IN_A_FILE.contains(long));
        let own = given.and_then(|long| values.iter().find(|(name, _)| name == long));
        match own {
            Some((_, words)) if matches!(arg.get_action(), ArgAction::SetTrue) => {
                let yes = if words == &["true"] { "true" } else { "false" };
                arg.default_value(yes)
            }
            Some((_, words)) => arg.required(false).default_values(words.clone()),
            None => arg,
        }
    });
    let names: Vec<String> =
        command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, |sub| with_defaults(sub, values))
    })
}
