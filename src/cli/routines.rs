//! `oncegate resolve | reprocess | purge`: the routines from the command line: a line per row as it goes, a summary at the end.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::args::{ConfigArg, CoreArgs, Failure, LayoutArg, Usage, seconds};
use super::out::{Out, json_line};
use crate::clock::{Clock, SystemClock};
use crate::core_api::CoreUrl;
use crate::engine::orphans::holds_nothing;
use crate::engine::purge::Purge;
use crate::engine::reprocess::{self, Reprocess};
use crate::engine::resolve::{self, Resolve};
use crate::engine::{Operator, Planned, Step, Stop};
use crate::guid::Guid;
use crate::ledger::OwnerId;
use crate::ledger::owner::LockFiles;
use crate::ledger::sqlite::{Access, Hooks, SqliteLedger};
use crate::limits;
use crate::visible::visible;

/// What every routine takes.
#[derive(Debug, Args)]
pub(super) struct Common {
    /// The ledger's file
    #[arg(long, value_name = "PATH", env = "ONCEGATE_DB", hide_env = true)]
    db: PathBuf,
    /// Only this transfer (may be given more than once); all conditions still hold
    #[arg(long, value_name = "GUID")]
    guid: Vec<String>,
    /// Show what it would take, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// A JSON object per row, then {"summary":{…}}
    #[arg(long)]
    json: bool,
    /// Why, for the history
    #[arg(long, value_name = "TEXT", env = "ONCEGATE_REASON", hide_env = true)]
    reason: Option<String>,
    #[command(flatten)]
    _config: ConfigArg,
}

const RESOLVE_EXAMPLES: &str = "\
Examples:
  oncegate resolve --db relay.db --core http://core.bank:8080 --dry-run
  oncegate resolve --db relay.db --core http://core.bank:8080 --min-age 300 --json

Exit codes: 0 all that was examined is settled, 3 some rows are left, 1 it could not run, 2 usage.";

/// Settle UNKNOWN transfers by asking the core; never sends one
#[derive(Debug, Args)]
#[command(after_help = RESOLVE_EXAMPLES)]
pub(super) struct ResolveArgs {
    #[command(flatten)]
    common: Common,
    /// The core
    #[arg(long, value_name = "URL", env = "ONCEGATE_CORE", hide_env = true)]
    core: CoreUrl,
    /// Only transfers that have been UNKNOWN for so long [default: --core-late-max and one second]
    #[arg(long, value_name = "SECS", value_parser = seconds, env = "ONCEGATE_MIN_AGE", hide_env = true)]
    min_age: Option<Duration>,
    /// The longest time in which the core executes a transfer it has heard; "not found" before that proves nothing
    #[arg(long, value_name = "SECS", default_value = limits::CORE_LATE_MAX_S, value_parser = seconds,
          env = "ONCEGATE_CORE_LATE_MAX", hide_env = true)]
    core_late_max: Duration,
    #[command(flatten)]
    calls: CoreArgs,
    #[command(flatten)]
    layout: LayoutArg,
}

const REPROCESS_EXAMPLES: &str = "\
Examples:
  oncegate reprocess --db relay.db --core http://core.bank:8080 --dry-run
  oncegate reprocess --db relay.db --core http://core.bank:8080 --guid 20260928MOBAP00100000000000123 --reason 'core is up again'

UNKNOWN transfers are never sent: `oncegate resolve` settles them first.
Exit codes: 0 all that was examined is done, 3 some rows are not, 1 it could not run, 2 usage.";

/// Send again what was certainly never sent (FAILED, E902), under the same GUID
#[derive(Debug, Args)]
#[command(after_help = REPROCESS_EXAMPLES)]
pub(super) struct ReprocessArgs {
    #[command(flatten)]
    common: Common,
    /// The core
    #[arg(long, value_name = "URL", env = "ONCEGATE_CORE", hide_env = true)]
    core: CoreUrl,
    /// Only transfers with fewer attempts than this
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(i64).range(1..),
          env = "ONCEGATE_MAX_ATTEMPTS", hide_env = true)]
    max_attempts: i64,
    /// Go on when the core can't be reached three times in a row
    #[arg(long)]
    keep_going: bool,
    #[command(flatten)]
    calls: CoreArgs,
    #[command(flatten)]
    layout: LayoutArg,
}

const PURGE_EXAMPLES: &str = "\
Examples:
  oncegate purge --db relay.db --days 90 --dry-run
  oncegate purge --db relay.db --days 90 --json

UNKNOWN, FAILED, SENT and RECEIVED stay, however old. A late resend of a purged GUID gets E906.
Exit codes: 0 done, 1 it could not run or was stopped by an error, 2 usage.";

/// Delete DONE transfers older than some days; their GUIDs stay known
#[derive(Debug, Args)]
#[command(after_help = PURGE_EXAMPLES)]
pub(super) struct PurgeArgs {
    #[command(flatten)]
    common: Common,
    /// Only transfers that were done at least so many days ago
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=36_600),
          env = "ONCEGATE_DAYS", hide_env = true)]
    days: u32,
    #[command(flatten)]
    _layout: LayoutArg,
    #[command(flatten)]
    _calls: CoreArgs,
}

pub(super) fn resolve(args: &ResolveArgs) -> Result<ExitCode, Failure> {
    let (only, layout) = (args.common.guids()?, args.layout.read()?);
    let late_max = args.core_late_max;
    let min_age = args.min_age.unwrap_or(late_max + Duration::from_secs(1));
    if min_age < late_max {
        eprintln!(
            "oncegate: warning: --min-age {} is shorter than the core may take (--core-late-max {}): a core that is still working answers \"not found\", and a transfer it makes later could be sent a second time",
            min_age.as_secs_f64(),
            late_max.as_secs_f64()
        );
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let (ledger, core) =
        (args.common.open(&clock)?, args.calls.client(&args.core, &layout, &clock)?);
    let routine = Resolve {
        ledger: &ledger,
        core: &core,
        layout: &layout,
        clock: &*clock,
        min_age: TimeDelta::from_std(min_age).unwrap_or(TimeDelta::MAX),
        operator: args.common.operator(),
    };
    let plan = routine.plan(only.as_deref()).map_err(Failure::failed)?;
    let mut report = Report::new("resolve", &args.common, Some(plan.len()));
    if args.common.dry_run {
        return report.dry_run(&plan, &[("done", 0), ("failed", 0), ("left", 0)]);
    }
    let stop = stop_on_signals()?;
    let sum = routine.run(&plan, &stop, &mut |step| report.step(step));
    let counts = [
        ("examined", sum.examined),
        ("done", sum.done),
        ("failed", sum.failed),
        ("left", sum.left),
    ];
    report.end(&counts, sum.left == 0)
}

pub(super) fn reprocess(args: &ReprocessArgs) -> Result<ExitCode, Failure> {
    let (only, layout) = (args.common.guids()?, args.layout.read()?);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let (ledger, core) =
        (args.common.open(&clock)?, args.calls.client(&args.core, &layout, &clock)?);
    let owner = OwnerId::new(std::process::id(), clock.now(), 0);
    // A dry run claims nothing and leaves nothing beside the ledger.
    let lock = (!args.common.dry_run)
        .then(|| LockFiles::beside(&args.common.db).take(owner.clone()))
        .transpose()
        .map_err(Failure::failed)?;
    let routine = Reprocess {
        ledger: &ledger,
        core: &core,
        layout: &layout,
        clock: &*clock,
        owner,
        attempts_max: args.max_attempts,
        keep_going: args.keep_going,
        operator: args.common.operator(),
    };
    let plan = routine.plan(only.as_deref()).map_err(Failure::failed)?;
    let mut report = Report::new("reprocess", &args.common, Some(plan.len()));
    let ended = if args.common.dry_run {
        report.dry_run(&plan, &[("done", 0), ("failed", 0), ("unknown", 0), ("skipped", 0)])
    } else {
        let stop = stop_on_signals()?;
        let sum = routine.run(&plan, &stop, &mut |step| report.step(step));
        let counts = [
            ("examined", sum.examined),
            ("done", sum.done),
            ("failed", sum.failed),
            ("unknown", sum.unknown),
            ("skipped", sum.skipped),
        ];
        report.end(&counts, sum.done == sum.examined)
    };
    // A claim whose result could not be recorded stays; then the file has to stay too, to prove that its owner is dead.
    if let Some(lock) = lock
        && holds_nothing(&ledger, lock.id())
    {
        lock.leave().map_err(Failure::failed)?;
    }
    ended
}

pub(super) fn purge(args: &PurgeArgs) -> Result<ExitCode, Failure> {
    let only = args.common.guids()?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let ledger = args.common.open(&clock)?;
    let routine = Purge {
        ledger: &ledger,
        clock: &*clock,
        age: TimeDelta::days(i64::from(args.days)),
        operator: args.common.operator(),
    };
    let stop = stop_on_signals()?;
    let mut report = Report::new("purge", &args.common, None);
    if args.common.dry_run {
        let examined = routine.dry_run(only.as_deref(), &stop, &mut |step| {
            report.line(&step.guid, "examined", "would be deleted");
        });
        let examined = examined.map_err(Failure::failed)?;
        return report.end(&[("examined", examined), ("deleted", 0)], true);
    }
    let deleted = routine.run(only.as_deref(), &stop, &mut |step| {
        report.line(&step.guid, "deleted", "");
    });
    match deleted {
        Ok(deleted) => report.end(&[("deleted", deleted)], true),
        Err(error) => {
            report.bar.finish_and_clear();
            Err(Failure::failed(error))
        }
    }
}

impl Common {
    fn guids(&self) -> Result<Option<Vec<Guid>>, Failure> {
        if self.guid.is_empty() {
            return Ok(None);
        }
        let guid = |text: &String| {
            Guid::parse(text.as_bytes())
                .map_err(|error| Usage::Text(format!("--guid {}: {error}", visible(text))).into())
        };
        self.guid.iter().map(guid).collect::<Result<Vec<_>, Failure>>().map(Some)
    }

    /// A dry run reads only: SQLite itself refuses to write.
    fn open(&self, clock: &Arc<dyn Clock>) -> Result<SqliteLedger, Failure> {
        let access = if self.dry_run { Access::Read } else { Access::Routine };
        let hooks = Hooks {
            sync_failed: Some(Box::new(|error| {
                eprintln!("oncegate: {error}: stopped");
                std::process::exit(1);
            })),
            ..Hooks::default()
        };
        let opened = SqliteLedger::open(&self.db, access, Arc::clone(clock), hooks);
        opened.map(|(ledger, _)| ledger).map_err(Failure::failed)
    }

    fn operator(&self) -> Operator {
        Operator { who: who(), reason: self.reason.clone() }
    }
}

/// user@host, for the history.
pub(super) fn who() -> String {
    let user = whoami::username().unwrap_or_else(|_| "unknown".to_owned());
    let host = whoami::hostname().unwrap_or_else(|_| "unknown".to_owned());
    format!("{user}@{host}")
}

fn stop_on_signals() -> Result<Stop, Failure> {
    let stop = Stop::default();
    for signal in [SIGINT, SIGTERM] {
        // A second signal ends it at once; the ledger stays right.
        signal_hook::flag::register_conditional_shutdown(signal, 1, stop.flag())
            .and_then(|_| signal_hook::flag::register(signal, stop.flag()))
            .map_err(Failure::failed)?;
    }
    Ok(stop)
}

/// Tells of a routine: a line per row on stdout, a bar on stderr where that is a terminal, the summary last.
struct Report {
    routine: &'static str,
    json: bool,
    out: Out,
    bar: ProgressBar,
}

impl Report {
    fn new(routine: &'static str, common: &Common, rows: Option<usize>) -> Report {
        let bar = match rows {
            Some(rows) => ProgressBar::new(rows as u64)
                .with_style(style("{msg} [{bar:30}] {pos}/{len} {eta}")),
            None => ProgressBar::new_spinner().with_style(style("{spinner} {msg} {pos} {per_sec}")),
        };
        Report { routine, json: common.json, out: Out::new(), bar: bar.with_message(routine) }
    }

    fn step<R: Word>(&mut self, step: &Step<R>) {
        self.line(&step.guid, step.result.word(), &step.reason.to_string());
    }

    fn line(&mut self, guid: &Guid, result: &str, reason: &str) {
        let text = if self.json {
            json_line(&json!({"guid": guid.as_str(), "result": result, "reason": reason}))
        } else {
            format!("{:<30}  {result:<8}  {}", visible(guid.as_str()), visible(reason))
                .trim_end()
                .to_owned()
        };
        self.bar.suspend(|| self.out.line(&text));
        self.bar.inc(1);
    }

    fn dry_run(mut self, plan: &[Planned], others: &[(&str, u64)]) -> Result<ExitCode, Failure> {
        for planned in plan {
            let reason = format!("attempt {}: would be taken", planned.attempt);
            self.line(&planned.guid, "examined", &reason);
        }
        let mut counts = vec![("examined", plan.len() as u64)];
        counts.extend_from_slice(others);
        self.end(&counts, true)
    }

    fn end(mut self, counts: &[(&str, u64)], settled: bool) -> Result<ExitCode, Failure> {
        self.bar.finish_and_clear();
        let text = if self.json {
            let summary: Map<String, Value> =
                counts.iter().map(|(key, n)| ((*key).to_owned(), json!(n))).collect();
            json!({ "summary": summary }).to_string()
        } else {
            let words: Vec<String> = counts.iter().map(|(key, n)| format!("{key} {n}")).collect();
            format!("{}: {}", self.routine, words.join(", "))
        };
        self.out.line(&text);
        self.out.end().map_err(Failure::failed)?;
        Ok(ExitCode::from(if settled { 0 } else { 3 }))
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("our own template is well-formed")
}

/// The summary key under which a row counts.
trait Word {
    fn word(&self) -> &'static str;
}

impl Word for resolve::Result {
    fn word(&self) -> &'static str {
        match self {
            resolve::Result::Done => "done",
            resolve::Result::Failed => "failed",
            resolve::Result::Left => "left",
        }
    }
}

impl Word for reprocess::Result {
    fn word(&self) -> &'static str {
        match self {
            reprocess::Result::Done => "done",
            reprocess::Result::Failed => "failed",
            reprocess::Result::Unknown => "unknown",
            reprocess::Result::Skipped => "skipped",
        }
    }
}
