//! `oncegate list | counts`: looking at a ledger without a screen. Reads only: SQLite itself refuses to write.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use clap::Args;
use serde_json::{Map, Value, json};

use super::args::{ConfigArg, Failure, LayoutArg, seconds};
use super::out::Out;
use crate::clock::{Clock, SystemClock};
use crate::engine::view::{Filter, Line, STUCK, View, age_words};
use crate::ledger::sqlite::{Access, Hooks, SqliteLedger};
use crate::ledger::{Counts, Ledger};
use crate::state::State;
use crate::visible::visible;

/// What every look takes.
#[derive(Debug, Args)]
pub(super) struct Common {
    /// The ledger's file
    #[arg(long, value_name = "PATH", env = "ONCEGATE_DB", hide_env = true)]
    pub(super) db: PathBuf,
    #[command(flatten)]
    pub(super) layout: LayoutArg,
    #[command(flatten)]
    _config: ConfigArg,
}

const LIST_EXAMPLES: &str = "\
Without --state and --guid it lists what is stuck: RECEIVED, SENT, UNKNOWN and FAILED. Oldest first. DONE \
has no index by age: among millions of rows list it by --guid.

Examples:
  oncegate list --db relay.db
  oncegate list --db relay.db --state UNKNOWN,FAILED --older-than 300 --fail-if-any
  oncegate list --db relay.db --guid 20260928MOB --json
  oncegate list --db relay.db --csv > stuck.csv

--json is for programs. --csv is for spreadsheets: a value that one would take for a formula \
gets a ' in front.

Exit codes: 0 done, also when nothing matches; 3 --fail-if-any and a row was printed; 1 it could not run; 2 usage.";

/// List transfers: what is stuck, or by state, age and GUID
#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub(super) struct ListArgs {
    #[command(flatten)]
    common: Common,
    /// Only these states: RECEIVED, SENT, DONE, UNKNOWN, FAILED [default: all but DONE; with --guid all]
    #[arg(long, value_name = "S,S", value_delimiter = ',')]
    state: Vec<State>,
    /// Only transfers whose last change is at least so long ago
    #[arg(long, value_name = "SECS", value_parser = seconds)]
    older_than: Option<Duration>,
    /// Only GUIDs that begin so
    #[arg(long, value_name = "PREFIX")]
    guid: Option<String>,
    /// At most so many [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// A JSON object a line
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Comma-separated values with a line of names
    #[arg(long)]
    csv: bool,
    /// Exit 3 when a row was printed
    #[arg(long)]
    fail_if_any: bool,
}

const COUNTS_EXAMPLES: &str = "\
The age of the oldest DONE is not looked up: DONE has no index by age.

Examples:
  oncegate counts --db relay.db
  oncegate counts --db relay.db --json

Exit codes: 0 done, 1 it could not run, 2 usage.";

/// Count transfers by state, with the age of the oldest
#[derive(Debug, Args)]
#[command(after_help = COUNTS_EXAMPLES)]
pub(super) struct CountsArgs {
    #[command(flatten)]
    common: Common,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn list(args: &ListArgs) -> Result<ExitCode, Failure> {
    let (layout, clock) = (args.common.layout.read()?, clock());
    let ledger = args.common.open(&clock)?;
    let filter = Filter {
        states: args.states(),
        older_than: args.older_than.map(|age| TimeDelta::from_std(age).unwrap_or(TimeDelta::MAX)),
        guid_prefix: args.guid.clone(),
        rows_max: args.limit.unwrap_or(u64::MAX),
    };
    let view = View { ledger: &ledger, layout: &layout, now: clock.now() };
    let (mut out, mut rows) = (Out::new(), 0_u64);
    view.each(&filter, &mut |line| {
        args.print(&line, rows == 0, &mut out);
        if out.gone() {
            return ControlFlow::Break(());
        }
        rows += 1;
        ControlFlow::Continue(())
    })
    .map_err(Failure::failed)?;
    if rows == 0 && !out.gone() {
        eprintln!("oncegate: {}", args.nothing());
    }
    out.end().map_err(Failure::failed)?;
    Ok(ExitCode::from(if args.fail_if_any && rows > 0 { 3 } else { 0 }))
}

pub(super) fn counts(args: &CountsArgs) -> Result<ExitCode, Failure> {
    let (layout, clock) = (args.common.layout.read()?, clock());
    let ledger = args.common.open(&clock)?;
    let view = View { ledger: &ledger, layout: &layout, now: clock.now() };
    let counts = ledger.counts().map_err(Failure::failed)?;
    let mut out = Out::new();
    if args.json {
        out.json(&counts_json(&counts, &view));
    } else {
        out.lines(&counts_table(&counts, &view));
    }
    out.end().map_err(Failure::failed)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::new())
}

impl Common {
    pub(super) fn open(&self, clock: &Arc<dyn Clock>) -> Result<SqliteLedger, Failure> {
        let opened =
            SqliteLedger::open(&self.db, Access::Read, Arc::clone(clock), Hooks::default());
        opened.map(|(ledger, _)| ledger).map_err(Failure::failed)
    }
}

impl ListArgs {
    fn states(&self) -> Vec<State> {
        let mut states = match (&self.state[..], &self.guid) {
            ([], None) => STUCK.to_vec(),
            ([], Some(_)) => State::ALL.to_vec(),
            (named, _) => named.to_vec(),
        };
        states.sort();
        states.dedup();
        states
    }

    fn print(&self, line: &Line, first: bool, out: &mut Out) {
        if self.csv {
            if first {
                out.bytes(&csv_record(&CSV_NAMES));
            }
            out.bytes(&csv_record(&csv_values(line)));
        } else if self.json {
            out.json(&line_json(line));
        } else {
            if first {
                out.line(LIST_HEAD);
            }
            out.line(&list_line(line));
        }
    }

    /// What to say when no row matches.
    fn nothing(&self) -> String {
        let states: Vec<&str> = self.states().iter().map(|state| state.as_str()).collect();
        let prefix = self.guid.as_ref().map(|p| format!(" whose GUID begins with {}", visible(p)));
        let age = self.older_than.map(|age| format!(" unchanged for {} s", age.as_secs_f64()));
        format!(
            "no transfer in {}{}{}; `oncegate counts` shows what there is",
            states.join(", "),
            prefix.unwrap_or_default(),
            age.unwrap_or_default()
        )
    }
}

const LIST_HEAD: &str = "STATE     AGE          GUID                            TX CODE   CODE  TRIES         AMOUNT  CHANGED (UTC)        REASON";

fn list_line(line: &Line) -> String {
    let age = line.age.map_or("?".to_owned(), age_words);
    let amount = line.amount.map_or("-".to_owned(), |amount| amount.to_string());
    format!(
        "{:<8}  {age:<11}  {:<30}  {:<8}  {:<4}  {:>5}  {amount:>13}  {:<19}  {}",
        line.state.as_str(),
        visible(line.guid.as_str()),
        visible(&line.tx_code),
        visible(line.rsp_code.as_deref().unwrap_or("-")),
        line.attempt.to_string(),
        visible(&line.updated_at),
        visible(line.reason.as_deref().unwrap_or("")),
    )
    .trim_end()
    .to_owned()
}

fn line_json(line: &Line) -> Value {
    json!({
        "guid": line.guid.as_str(),
        "tx_code": line.tx_code,
        "state": line.state.as_str(),
        "rsp_code": line.rsp_code,
        "attempts": line.attempt.0,
        "updated_at": line.updated_at,
        "age_seconds": line.age.map(|age| age.num_seconds()),
        "amount": line.amount,
        "reason": line.reason,
    })
}

const CSV_NAMES: [&str; 9] = [
    "guid",
    "tx_code",
    "state",
    "rsp_code",
    "attempts",
    "updated_at",
    "age_seconds",
    "amount",
    "reason",
];

fn csv_values(line: &Line) -> [String; 9] {
    let number = |number: Option<String>| number.unwrap_or_default();
    [
        csv_text(line.guid.as_str()),
        csv_text(&line.tx_code),
        line.state.to_string(),
        csv_text(line.rsp_code.as_deref().unwrap_or("")),
        line.attempt.to_string(),
        csv_text(&line.updated_at),
        number(line.age.map(|age| age.num_seconds().to_string())),
        number(line.amount.map(|amount| amount.to_string())),
        csv_text(line.reason.as_deref().unwrap_or("")),
    ]
}

/// Text from data for a spreadsheet: visible, and never a formula.
fn csv_text(text: &str) -> String {
    let text = visible(text);
    if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text }
}

fn csv_record<T: AsRef<[u8]>>(values: &[T]) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(values).expect("a Vec takes whatever is written to it");
    writer.into_inner().expect("a Vec takes whatever is written to it")
}

fn counts_table(counts: &Counts, view: &View<'_>) -> Vec<String> {
    let mut lines = vec!["STATE             ROWS  OLDEST".to_owned()];
    for (state, (rows, oldest)) in State::ALL.iter().zip(counts.rows.iter().zip(&counts.oldest)) {
        let age = oldest.as_deref().and_then(|oldest| view.age(oldest)).map(age_words);
        lines.push(format!("{:<8}  {rows:>12}  {}", state.as_str(), age.as_deref().unwrap_or("-")));
    }
    lines
}

fn counts_json(counts: &Counts, view: &View<'_>) -> Value {
    let by_state = State::ALL.iter().zip(counts.rows.iter().zip(&counts.oldest));
    let value = |(state, (rows, oldest)): (&State, (&u64, &Option<String>))| {
        let age = oldest.as_deref().and_then(|oldest| view.age(oldest));
        let age = age.map(|age| age.num_seconds());
        (state.to_string(), json!({"rows": rows, "oldest_seconds": age}))
    };
    Value::Object(by_state.map(value).collect::<Map<String, Value>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spreadsheet_finds_no_formula_and_no_broken_line() {
        assert_eq!(csv_text("=cmd|' /C calc'!A0"), "'=cmd|' /C calc'!A0");
        assert_eq!(csv_text("\t=1"), "^I=1");
        assert_eq!(csv_text("HTTP 503"), "HTTP 503");
        let record = csv_record(&[csv_text("a,\"b\"\r\nc"), csv_text("-1")]);
        assert_eq!(String::from_utf8_lossy(&record), "\"a,\"\"b\"\"^M^Jc\",'-1\n");
    }
}
