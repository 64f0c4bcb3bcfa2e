//! `oncegate` without a command: the operator console.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use clap::{Args, ValueEnum};

use super::args::{Failure, Usage, seconds};
use super::serve::ServeArgs;
use crate::clock::{Clock, SystemClock};
use crate::console::app::Look;
use crate::console::keys::Keymap;
use crate::console::outbox::{OutboxDesk, Stores};
use crate::console::theme::Theme;
use crate::console::words::Lang;
use crate::console::{Ended, Setup};
use crate::core_api::Core;
use crate::engine::desk::{Desk, Settings};
use crate::ledger::owner::LockFiles;
use crate::ledger::sqlite::{Access, Hooks, SqliteLedger};
use crate::ledger::survey::Survey;

/// What the console takes beyond `--db`, `--core`, `--layout` and the timeouts, which it shares with the relay.
#[derive(Debug, Args)]
#[command(next_help_heading = "Console")]
pub(super) struct ConsoleArgs {
    /// Open the ledger for reading only: SQLite itself refuses to write
    #[arg(long, env = "ONCEGATE_READ_ONLY", hide_env = true)]
    read_only: bool,
    /// The outbox to look at and dispatch: its source
    #[arg(long, value_name = "SOURCE.db", env = "ONCEGATE_OUTBOX", hide_env = true)]
    outbox: Option<PathBuf>,
    /// Where the outbox sends: `http://127.0.0.1:PORT/events`
    #[arg(long, value_name = "URL", env = "ONCEGATE_OUTBOX_URL", hide_env = true)]
    outbox_url: Option<String>,
    /// The other side of the outbox: its sink
    #[arg(long, value_name = "SINK.db", env = "ONCEGATE_INBOX", hide_env = true)]
    inbox: Option<PathBuf>,
    /// Language
    #[arg(long, value_enum, default_value_t = LangArg::En, env = "ONCEGATE_LANG", hide_env = true)]
    lang: LangArg,
    /// Colours; `mono` is also what `NO_COLOR` chooses
    #[arg(long, value_enum, default_value_t = ThemeArg::Dark, env = "ONCEGATE_THEME", hide_env = true)]
    theme: ThemeArg,
    /// Only plain characters (also without a UTF-8 locale)
    #[arg(long, env = "ONCEGATE_ASCII", hide_env = true)]
    ascii: bool,
    /// TOML file that binds keys anew: action name = key or list of keys
    #[arg(long, value_name = "FILE", env = "ONCEGATE_KEYS", hide_env = true)]
    keys: Option<PathBuf>,
    /// R takes only transfers that have been UNKNOWN for so long; never less than --core-late-max
    #[arg(long, value_name = "SECS", value_parser = seconds, env = "ONCEGATE_MIN_AGE", hide_env = true)]
    min_age: Option<Duration>,
    /// The longest time in which the core executes a transfer it has heard
    #[arg(long, value_name = "SECS", default_value = "60", value_parser = seconds,
          env = "ONCEGATE_CORE_LATE_MAX", hide_env = true)]
    core_late_max: Duration,
    /// P takes only transfers with fewer attempts than this
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(i64).range(1..),
          env = "ONCEGATE_MAX_ATTEMPTS", hide_env = true)]
    max_attempts: i64,
    /// X takes only transfers that were done at least so many days ago [default: X is off]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=36_600),
          env = "ONCEGATE_DAYS", hide_env = true)]
    days: Option<u32>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LangArg {
    /// English
    En,
    /// 한국어
    Ko,
    /// 日本語
    Ja,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ThemeArg {
    /// For dark backgrounds
    Dark,
    /// For light backgrounds
    Light,
    /// No colours
    Mono,
}

pub(super) fn open(shared: &ServeArgs, own: &ConsoleArgs) -> Result<ExitCode, Failure> {
    ended(crate::console::run(checked(shared, own)?))
}

/// The same with a line for a newcomer.
pub(super) fn open_with_hint(
    shared: &ServeArgs,
    own: &ConsoleArgs,
    hint: String,
) -> Result<ExitCode, Failure> {
    ended(crate::console::run(Setup { hint: Some(hint), ..checked(shared, own)? }))
}

fn checked(shared: &ServeArgs, own: &ConsoleArgs) -> Result<Setup, Failure> {
    let Some(db) = &shared.db else {
        let text =
            "no ledger named: --db PATH opens the console, `oncegate --help` shows everything";
        return Err(Usage::Text(text.to_owned()).into());
    };
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        let text = "the console needs a terminal; `oncegate list --db PATH` prints the rows";
        return Err(Usage::Text(text.to_owned()).into());
    }
    Ok(Setup { keys: own.keymap()?, outbox: own.outbox()?, ..setup(shared, own, db)? })
}

/// The desk, and how its ledger is opened again.
fn setup(shared: &ServeArgs, own: &ConsoleArgs, db: &std::path::Path) -> Result<Setup, Failure> {
    let layout = shared.layout.read()?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let core = match &shared.core {
        Some(url) => Some(Arc::new(shared.calls.client(url, &layout, &clock)?) as Arc<dyn Core>),
        None => None,
    };
    let access = if own.read_only { Access::Read } else { Access::Routine };
    let (ledger, _) = SqliteLedger::open(db, access, Arc::clone(&clock), Hooks::default())
        .map_err(Failure::failed)?;
    let locks = Some(LockFiles::beside(db));
    let (path, again) = (db.to_owned(), Arc::clone(&clock));
    let reopen = move || {
        let opened = SqliteLedger::open(&path, access, Arc::clone(&again), Hooks::default());
        opened
            .map(|(ledger, _)| Arc::new(ledger) as Arc<dyn Survey>)
            .map_err(|error| error.to_string())
    };
    let late_max = own.core_late_max;
    // An inquiry before the core's longest time proves nothing: here nobody can go below it.
    let min_age = own.min_age.unwrap_or(late_max + Duration::from_secs(1)).max(late_max);
    let settings = Settings {
        min_age: TimeDelta::from_std(min_age).unwrap_or(TimeDelta::MAX),
        attempts_max: own.max_attempts,
        days: own.days,
        who: super::routines::who(),
        read_only: own.read_only,
    };
    Ok(Setup {
        desk: Desk { ledger: Arc::new(ledger), core, layout, clock, locks, settings },
        ledger: db.display().to_string(),
        reopen: Box::new(reopen),
        outbox: None,
        keys: Keymap::default(),
        look: own.look(),
        hint: None,
    })
}

impl ConsoleArgs {
    fn keymap(&self) -> Result<Keymap, Failure> {
        let Some(path) = &self.keys else { return Ok(Keymap::default()) };
        let bad = |text: String| Usage::Text(format!("--keys {}: {text}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
        Keymap::parse(&text).map_err(|error| bad(error.to_string()).into())
    }

    fn look(&self) -> Look {
        let ascii = self.ascii || !locale_is_utf8();
        let lang = match self.lang {
            // Nothing of them would be left.
            _ if ascii => Lang::En,
            LangArg::En => Lang::En,
            LangArg::Ko => Lang::Ko,
            LangArg::Ja => Lang::Ja,
        };
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let theme = match self.theme {
            _ if no_colour => Theme::Mono,
            ThemeArg::Dark => Theme::Dark,
            ThemeArg::Light => Theme::Light,
            ThemeArg::Mono => Theme::Mono,
        };
        Look { lang, theme, ascii, local: false, mouse: false }
    }

    fn outbox(&self) -> Result<Option<Arc<dyn OutboxDesk>>, Failure> {
        if self.outbox.is_none() && (self.inbox.is_some() || self.outbox_url.is_some()) {
            let text = "--inbox and --outbox-url want --outbox SOURCE.db";
            return Err(Usage::Text(text.to_owned()).into());
        }
        let Some(source) = self.outbox.clone() else { return Ok(None) };
        let (sink, url) = (self.inbox.clone(), self.outbox_url.clone());
        let stores = Stores { source, sink, url };
        // A wrong path is told now and not on the fourth screen.
        stores.look().map_err(|why| Failure::Failed(why.into()))?;
        Ok(Some(Arc::new(stores)))
    }
}

/// Whether the locale says UTF-8; where nothing is said at all, it is taken for granted.
fn locale_is_utf8() -> bool {
    let said = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .filter_map(std::env::var_os)
        .find(|value| !value.is_empty());
    said.is_none_or(|value| {
        let value = value.to_string_lossy().to_ascii_lowercase();
        value.contains("utf-8") || value.contains("utf8")
    })
}

/// How it ended becomes an exit code, and a line where something has to be said.
fn ended(ended: std::io::Result<Ended>) -> Result<ExitCode, Failure> {
    let ended = ended.map_err(Failure::failed)?;
    if let Some(told) = ended.told() {
        say(&told);
    }
    Ok(ExitCode::from(ended.code()))
}

/// A line on stderr, which may have gone with the terminal.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "oncegate: {}", crate::visible::visible(text));
}
