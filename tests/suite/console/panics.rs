//! A panic of the console's own thread and of the threads behind it, in a terminal of its own: the terminal is as it was, what
//! happened can be read, and the exit code says that something went wrong.
//!
//! The console is the real one, run as the program runs it; what it was given to work with panics when it is told to.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ThreadId};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use oncegate::clock::{Clock, SystemClock};
use oncegate::console::app::Look;
use oncegate::console::keys::Keymap;
use oncegate::console::outbox::{Delivered, Outbox, OutboxDesk, Pending};
use oncegate::console::theme::Theme;
use oncegate::console::why::Broke;
use oncegate::console::words::Lang;
use oncegate::console::{self, Setup};
use oncegate::core_api::{Core, Inquiry, Transfer};
use oncegate::engine::desk::{Desk, Settings};
use oncegate::ledger::owner::LockFiles;
use oncegate::ledger::sqlite::{Access, Hooks, SqliteLedger};
use oncegate::ledger::survey::Survey;
use oncegate::telegram::{Layout, Request};
use portable_pty::CommandBuilder;

use super::pty::file;
use super::rig::File;
use super::terminal::{Pty, text};

const LEDGER: &str = "ONCEGATE_TEST_LEDGER";
const BREAKS: &str = "ONCEGATE_TEST_BREAKS";
const FAILED: &str = "20261129MOB0000000000000004712";

/// A clock that panics on the console's own thread once the outbox was looked at.
struct BreakingClock {
    real: SystemClock,
    own: ThreadId,
    is_broken: Arc<AtomicBool>,
}

impl Clock for BreakingClock {
    fn now(&self) -> DateTime<Utc> {
        let is_own = thread::current().id() == self.own;
        assert!(!is_own || !self.is_broken.load(Ordering::SeqCst), "the clock broke");
        self.real.now()
    }

    fn monotonic(&self) -> Duration {
        self.real.monotonic()
    }
}

/// An outbox that panics when it is looked at, or breaks the clock.
struct BreakingOutbox {
    is_broken: Arc<AtomicBool>,
    panics: bool,
}

impl OutboxDesk for BreakingOutbox {
    fn look(&self) -> Result<Outbox, String> {
        assert!(!self.panics, "the outbox broke");
        self.is_broken.store(true, Ordering::SeqCst);
        Ok(Outbox::default())
    }

    fn batch(&self) -> Result<Vec<Pending>, String> {
        Ok(Vec::new())
    }

    fn dispatch(&self, _: &[Pending], _: &mut dyn FnMut(Delivered)) -> Result<(), Broke> {
        Ok(())
    }
}

/// A core whose client panics in the middle of a call.
struct BreakingCore;

impl Core for BreakingCore {
    fn transfer(&self, _: &Request) -> Transfer {
        panic!("the client broke")
    }

    fn inquire(&self, _: &Request) -> Inquiry {
        panic!("the client broke")
    }
}

/// Not a test: the console of the tests below, in a process of its own.
#[test]
#[ignore = "started by the tests below, each in a terminal"]
fn a_console_that_breaks() {
    let Some(path) = std::env::var_os(LEDGER).map(PathBuf::from) else { return };
    let ended = console::run(setup(&path, std::env::var(BREAKS).unwrap() == "outbox")).unwrap();
    // What the program does with it.
    if let Some(told) = ended.told() {
        eprintln!("oncegate: {told}");
    }
    std::process::exit(ended.code().into());
}

fn setup(path: &Path, outbox_panics: bool) -> Setup {
    let is_broken = Arc::new(AtomicBool::new(false));
    let own = thread::current().id();
    let clock: Arc<dyn Clock> =
        Arc::new(BreakingClock { real: SystemClock::new(), own, is_broken: is_broken.clone() });
    let open = {
        let (path, clock) = (path.to_owned(), Arc::clone(&clock));
        move || -> Arc<dyn Survey> {
            let clock = Arc::clone(&clock);
            Arc::new(SqliteLedger::open(&path, Access::Routine, clock, Hooks::default()).unwrap().0)
        }
    };
    let settings = Settings {
        min_age: TimeDelta::seconds(60),
        attempts_max: 3,
        days: None,
        who: "ops@bank".to_owned(),
        read_only: false,
    };
    let desk = Desk {
        ledger: open(),
        core: Some(Arc::new(BreakingCore)),
        layout: Layout::std128(),
        clock,
        locks: Some(LockFiles::beside(path)),
        settings,
    };
    Setup {
        desk,
        ledger: "ledger.db".to_owned(),
        reopen: Box::new(move || Ok(open())),
        outbox: Some(Arc::new(BreakingOutbox { is_broken, panics: outbox_panics })),
        keys: Keymap::default(),
        look: Look { lang: Lang::En, theme: Theme::Dark, ascii: false, local: false, mouse: false },
        hint: None,
    }
}

fn open(file: &File, breaks: &str) -> Pty {
    let mut command = CommandBuilder::new(std::env::current_exe().unwrap());
    command.args(["console::panics::a_console_that_breaks", "--exact", "--ignored", "--nocapture"]);
    command.cwd(file.path.parent().unwrap());
    let pty = Pty::run(command, &[(LEDGER, file.path.to_str().unwrap()), (BREAKS, breaks)]);
    pty.shows("4711");
    pty
}

/// What stands on the normal screen after the console has left its own.
fn left_behind(pty: &Pty) -> String {
    let bytes = text(&pty.bytes());
    bytes.rsplit("\x1b[?1049l").next().unwrap().to_owned()
}

// T36, tui-rs#177: panic text lost; cursor stayed hidden.
#[test]
fn a_panic_of_the_consoles_own_thread_leaves_the_terminal_as_it_was_and_its_words_readable() {
    let file = file();
    let mut pty = open(&file, "clock");
    pty.press("m");
    pty.shows("mouse on");
    pty.press("4");
    assert_eq!(pty.code(), 101, "as of every program that panics");
    pty.is_restored();
    assert!(left_behind(&pty).contains("the clock broke"), "{}", left_behind(&pty));
}

// T37, teamclaude-rs#323: a panic in a background thread tore the screen away under a live UI.
#[test]
fn a_panic_of_a_thread_behind_it_leaves_the_screen_and_turns_the_actions_off() {
    let file = file();
    let mut pty = open(&file, "outbox");
    pty.press("4");
    pty.shows("stopped: refresh: the outbox broke");
    assert!(!text(&pty.bytes()).contains("\x1b[?1049l"), "the screen is still there");
    pty.press("2P");
    pty.shows("off: a part of the console stopped (refresh: the outbox broke)");
    assert!(pty.screen().contains("4711"), "the old rows stay:\n{}", pty.screen());
    pty.press("q");
    assert_eq!(pty.code(), 1);
    pty.is_restored();
    let said = "a part of the console had stopped: refresh: the outbox broke";
    assert!(left_behind(&pty).contains(said), "{}", left_behind(&pty));
}

#[test]
fn a_run_that_panics_in_a_call_is_told_and_its_row_is_left_to_the_sweep() {
    let file = file();
    let mut pty = open(&file, "outbox");
    pty.press("/state:failed\r");
    pty.shows("1-3 of 3");
    pty.press("P");
    pty.confirm("( Send 1 transfer again )", "", 1);
    pty.shows("stopped: run 1: the client broke");
    pty.press("3");
    pty.shows("broke off: the client broke");
    // It may have been sent: the row must not look as if it had not.
    assert_eq!(file.state(FAILED).as_deref(), Some("SENT"));
    pty.press("\x03\x03");
    assert_eq!(pty.code(), 1);
    pty.is_restored();
    let said = "a part of the console had stopped: run 1: the client broke";
    assert!(left_behind(&pty).contains(said), "{}", left_behind(&pty));
}
