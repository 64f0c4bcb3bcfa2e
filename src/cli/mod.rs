//! The command line: arguments become plain data, are validated once, and go to the part that does the work.
//!
//! Exit codes: 0 done; 1 it could not be done; 2 usage; 3 it ran, and something is left. Errors are printed here, once, with
//! their causes.

use std::error::Error;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

pub mod args;
mod config;
mod console;
mod core;
mod demo;
mod fields;
mod look;
mod out;
mod routines;
mod send;
mod serve;
mod show;

use crate::outbox;
use args::{Failure, Usage};

const EXAMPLES: &str = "\
Examples:
  oncegate demo                                     see it work, no set-up
  oncegate --db relay.db --core http://127.0.0.1:9201   the console: what is stuck, and settle it
  oncegate --serve --db relay.db --core http://127.0.0.1:9201
  oncegate list --db relay.db                       what is stuck
  oncegate resolve --db relay.db --core http://127.0.0.1:9201
  oncegate reprocess --db relay.db --core http://127.0.0.1:9201

Every option can stand in a TOML file (--config FILE, the option's own name as key) and in the environment \
(ONCEGATE_ and the name in capitals, with _ for -). The command line wins over the environment, the environment over the file.

Exit codes: 0 done, 1 it could not be done, 2 usage, 3 it ran and something is left.";

/// An idempotency relay with a durable ledger for payment channels: a resend never becomes a second transfer.
#[derive(Debug, Parser)]
#[command(name = "oncegate", version, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: serve::ServeArgs,
    #[command(flatten)]
    console: console::ConsoleArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// See it work: a core that misbehaves, channels that resend, and no double payment
    Demo(demo::DemoArgs),
    /// Run a simulated core, for drills: not idempotent, and it misbehaves on command
    Core(core::CoreArgs),
    /// Send one telegram to a relay and show the reply
    Send(send::SendArgs),
    /// List transfers: what is stuck, or by state, age and GUID
    List(look::ListArgs),
    /// Show one transfer: what is true of it, what to do next, its telegrams and history
    Show(show::ShowArgs),
    /// Count transfers by state, with the age of the oldest
    Counts(look::CountsArgs),
    /// Settle UNKNOWN transfers by asking the core; never sends one
    Resolve(routines::ResolveArgs),
    /// Send again what was certainly never sent (FAILED, E902), under the same GUID
    Reprocess(routines::ReprocessArgs),
    /// Delete DONE transfers older than some days; their GUIDs stay known
    Purge(routines::PurgeArgs),
    /// Orders saved and sent, received and done, each once: the outbox and the inbox
    Outbox(outbox::cli::OutboxArgs),
}

/// Runs the program with these arguments (the first is its name).
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match parse(arguments.collect()).and_then(run) {
        Ok(code) => code,
        Err(Failure::Usage(Usage::Clap(error))) => {
            // Help and version come this way too, and are no errors.
            let code = if error.use_stderr() { 2 } else { 0 };
            let _ = error.print();
            ExitCode::from(code)
        }
        Err(Failure::Usage(Usage::Text(text))) => {
            eprintln!("oncegate: {text}");
            ExitCode::from(2)
        }
        Err(Failure::Failed(error)) => {
            eprintln!("oncegate: {}", chain(&*error));
            ExitCode::from(1)
        }
    }
}

/// Parses the arguments over the defaults of the configuration file that they name.
fn parse(arguments: Vec<OsString>) -> Result<Cli, Failure> {
    let command = config::with_file(Cli::command(), &arguments)?;
    let matches = command.try_get_matches_from(arguments)?;
    Ok(Cli::from_arg_matches(&matches)?)
}

fn run(cli: Cli) -> Result<ExitCode, Failure> {
    match cli.command {
        Some(Command::Demo(args)) => demo::demo(&args),
        Some(Command::Core(args)) => core::core(&args),
        Some(Command::Send(args)) => send::send(&args),
        Some(Command::List(args)) => look::list(&args),
        Some(Command::Show(args)) => show::show(&args),
        Some(Command::Counts(args)) => look::counts(&args),
        Some(Command::Resolve(args)) => routines::resolve(&args),
        Some(Command::Reprocess(args)) => routines::reprocess(&args),
        Some(Command::Purge(args)) => routines::purge(&args),
        Some(Command::Outbox(args)) => Ok(outbox::cli::run(&args)),
        None if cli.serve.serve => serve::serve(cli.serve),
        None => console::open(&cli.serve, &cli.console),
    }
}

/// The console on this ledger before this core, with a line for a newcomer. `late_max`: that core's longest time, in seconds.
fn console_on(
    ledger: &Path,
    core: &str,
    late_max: &str,
    hint: String,
) -> Result<ExitCode, Failure> {
    let words = ["oncegate", "--core", core, "--core-late-max", late_max, "--db"];
    let words = words.iter().map(OsString::from).chain([ledger.as_os_str().to_owned()]);
    let cli = Cli::try_parse_from(words)?;
    console::open_with_hint(&cli.serve, &cli.console, hint)
}

/// An error and its causes, in one line.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let own = error.to_string();
        // An error that shows its cause itself would say it twice.
        if !text.ends_with(&own) {
            text = format!("{text}: {own}");
        }
        cause = error.source();
    }
    text
}
