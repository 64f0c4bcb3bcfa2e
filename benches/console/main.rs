//! `cargo bench --bench console`: the operator's console on a ledger of a million rows, half of them UNKNOWN.
//!
//! The real program runs in a pseudo-terminal and is spoken to with keys; a time ends when the last byte of the screen that was
//! waited for has come. The relay then serves a copy of that ledger, and its p99 is measured in turns without and beside an open
//! console. Prints medians with minimum and maximum, the bound of each figure, and whether it was missed.
//!
//! (T59, ratatui#1004: large tables are slow; T23, temporalio/cli#216: the count timed out.)
//!
//! The ledger is made once and kept under `target/tmp`. Options after `--`: `--rounds N` (7), `--seconds S` of load a turn (2),
//! `--only WORD` (parts whose name contains it: keys, memory, draw, idle, relay).

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures for people"
)]

mod beside;
mod drawing;
mod figures;
mod keys;
mod ledger;
#[path = "../relay/load.rs"]
#[expect(dead_code, reason = "the relay's benchmark needs more of it")]
mod load;
#[path = "../relay/machine.rs"]
#[expect(dead_code, reason = "the relay's benchmark needs more of it")]
mod machine;
#[path = "../relay/roles.rs"]
mod roles;
#[path = "../relay/subjects.rs"]
#[expect(dead_code, reason = "the relay's benchmark needs more of it")]
mod subjects;
mod terminal;

use std::error::Error;
use std::process::ExitCode;

/// What can go wrong in a benchmark is told and ends it.
pub type Anyhow<T> = Result<T, Box<dyn Error>>;

/// What the command line asks for.
pub struct Options {
    /// Turns of each measurement.
    pub rounds: usize,
    /// How long a turn of load takes.
    pub seconds: f64,
    only: Option<String>,
}

impl Options {
    fn parse(arguments: &[String]) -> Options {
        let value = |name: &str| {
            arguments.iter().position(|word| word == name).and_then(|at| arguments.get(at + 1))
        };
        Options {
            rounds: value("--rounds").and_then(|n| n.parse().ok()).unwrap_or(7),
            seconds: value("--seconds").and_then(|n| n.parse().ok()).unwrap_or(2.0),
            only: value("--only").cloned(),
        }
    }

    fn wants(&self, part: &str) -> bool {
        self.only.as_ref().is_none_or(|only| part.contains(only.as_str()))
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|word| word == "role") {
        return roles::run(&arguments[at + 1..]);
    }
    match run(&Options::parse(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Anyhow<()> {
    let ledger = ledger::million()?;
    figures::heads();
    if options.wants("keys") {
        keys::measure(&ledger, options.rounds)?;
    }
    if options.wants("draw") {
        drawing::measure(&ledger)?;
    }
    if options.wants("idle") {
        keys::idle(&ledger)?;
    }
    if options.wants("relay") {
        beside::measure(&ledger, options)?;
    }
    Ok(())
}
