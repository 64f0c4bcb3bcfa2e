//! The console's state, and the one function that changes it: `update(message) -> effects`. Pure: times and results come in as
//! messages, wishes go out as effects; knows no terminal, no thread and no SQL.
//!
//! Invariants: an effect that changes data comes only from a confirmed plan ([`confirm`]), a note or a reveal; rows are
//! addressed by GUID, never by their place on the screen.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::input::{Input, Key};
use super::keys::{Keymap, Place};
use super::outbox::{Delivered, Outbox};
use super::theme::Theme;
use super::why::{Broke, Refused};
use super::words::{Lang, Words};
use crate::engine::desk::{Act, Lines, Off, Plan, RowTold, Shown};
use crate::guid::Guid;
use crate::ledger::survey::{Browse, Numbers, Part, TrailQuery};
use crate::ledger::{Counts, HistoryLine, LedgerError};

mod act;
pub mod confirm;
mod copy;
pub mod list;
mod prompt;
pub mod runs;
mod update;

pub use confirm::{Confirm, Focus, Plans};
pub use list::List;
pub use prompt::{Edit, Menu, MenuKind, Prompt, PromptKind};
pub use runs::{Run, RunState};

/// The five screens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tab {
    /// 1.
    Overview,
    /// 2.
    Ledger,
    /// 3.
    Runs,
    /// 4.
    Outbox,
    /// 5.
    History,
}

impl Tab {
    /// In order.
    pub const ALL: [Tab; 5] = [Tab::Overview, Tab::Ledger, Tab::Runs, Tab::Outbox, Tab::History];
}

/// How it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The language.
    pub lang: Lang,
    /// The colours.
    pub theme: Theme,
    /// Only bytes 20-7e.
    pub ascii: bool,
    /// Local time instead of UTC.
    pub local: bool,
    /// The mouse's wheel is listened to.
    pub mouse: bool,
}

/// What does not change while the console is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The ledger's path, for the header.
    pub ledger: String,
    /// user@host.
    pub who: String,
    /// For each routine why it is off.
    pub off: [Option<Off>; 3],
    /// Nothing is changed.
    pub read_only: bool,
    /// There is an outbox to look at.
    pub outbox: bool,
    /// How long resolve waits, in seconds.
    pub min_age_s: i64,
    /// How old rows must be to be purged, in days.
    pub days: Option<u32>,
    /// How often a row may be tried.
    pub attempts_max: i64,
    /// The terminal is inside tmux, which drops OSC 52 unless told otherwise.
    pub tmux: bool,
    /// A line for newcomers, shown until the first key.
    pub hint: Option<String>,
}

/// What the console is doing with its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Keys mean what the table says.
    Normal,
    /// Text is typed.
    Typing(Prompt),
    /// Something is chosen.
    Choosing(Menu),
    /// The engine makes a plan; Esc gives it up.
    Planning(Plans),
    /// A plan is to be confirmed.
    Confirming(Box<Confirm>),
    /// The help; what is typed searches it.
    Help {
        /// What is searched.
        search: String,
        /// The first line shown.
        top: usize,
    },
    /// Quit although runs are going?
    AskQuit,
}

/// What is said in the last line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The text.
    pub text: String,
    /// It must be read.
    pub warning: bool,
}

/// The row that is looked at.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Looking {
    /// Which.
    pub guid: Option<Guid>,
    /// What it is, as of the last answer.
    pub shown: Option<Shown>,
    /// It fills the screen.
    pub open: bool,
    /// Which pane has the keys.
    pub pane: Pane,
    /// The response and not the request.
    pub response: bool,
    /// The byte under the cursor.
    pub at: usize,
    /// The pane fills the screen.
    pub zoom: bool,
    /// The first line of the facts that is shown.
    pub top: usize,
}

/// The panes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Pane {
    /// What it is, what can be done, its history.
    #[default]
    Facts,
    /// The request.
    Request,
    /// The response.
    Response,
}

impl Pane {
    /// In order.
    pub const ALL: [Pane; 3] = [Pane::Facts, Pane::Request, Pane::Response];
}

/// The history screen.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Trail {
    /// The lines, newest first.
    pub lines: Vec<HistoryLine>,
    /// What was typed.
    pub filter: String,
    /// The place of the cursor: a line's id.
    pub cursor: Option<i64>,
    /// The first line shown.
    pub top: usize,
    /// There is nothing older.
    pub whole: bool,
    /// When it was read.
    pub as_of: Option<DateTime<Utc>>,
}

/// Everything.
#[derive(Clone, Debug)]
pub struct App {
    /// What does not change.
    pub facts: Facts,
    /// The keys.
    pub keys: Keymap,
    /// How it looks.
    pub look: Look,
    /// Index into [`super::view::hex::ENCODINGS`] of the text column.
    pub encoding: usize,
    /// The terminal's size: columns and lines.
    pub size: (u16, u16),
    /// The wall clock, as of the last message.
    pub now: DateTime<Utc>,
    /// The screen.
    pub tab: Tab,
    /// What keys do.
    pub mode: Mode,
    /// Keys of a sequence that is not complete.
    pub pending: Vec<Key>,
    /// The last line.
    pub said: Option<Said>,
    /// Refreshing is paused.
    pub paused: bool,
    /// The counts by state.
    pub counts: Option<Counts>,
    /// The numbers of the overview and when they were read.
    pub numbers: Option<(Numbers, DateTime<Utc>)>,
    /// The line of the overview that has the cursor.
    pub overview_at: usize,
    /// The list.
    pub list: List,
    /// The row looked at.
    pub looking: Looking,
    /// Rows whose masked bytes were asked for (and written down).
    pub revealed: HashSet<Guid>,
    /// The runs of this console.
    pub runs: Vec<Run>,
    /// The run that has the cursor.
    pub run_at: usize,
    /// The number of the next run.
    pub next_run: usize,
    /// The first result shown of the run that has the cursor; none: the newest ones.
    pub run_top: Option<usize>,
    /// The outbox.
    pub outbox: Option<(Outbox, DateTime<Utc>)>,
    /// The line of the outbox that has the cursor.
    pub outbox_at: usize,
    /// The history.
    pub trail: Trail,
    /// What is wrong with the ledger, since when.
    pub trouble: Option<(LedgerError, DateTime<Utc>)>,
    /// A part of the console that has died: it looks on, and acts no more.
    pub broken: Option<String>,
    /// The number of the next question whose late answer must be told apart.
    pub serial: u64,
    /// C-c was pressed, and the next one quits.
    pub interrupted: bool,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Msg {
    /// Keys, read at this time of the monotonic clock.
    Input(Input, Duration),
    /// The dialog that is open was drawn at this time of the monotonic clock.
    Drawn(Duration),
    /// The terminal's size changed.
    Resized(u16, u16),
    /// Time has passed.
    Tick,
    /// The ledger has changed.
    Changed,
    /// An answer.
    Answer(Answer),
    /// The ledger can't be read (or asked) now.
    Trouble(LedgerError),
    /// A plan is being made: so many rows of it have been looked at.
    Planning(u64, usize),
    /// A run tells.
    Run(usize, RunNews),
    /// A background thread has died.
    Broken(String),
    /// What was asked for was not done.
    Refused(Refused),
}

/// What a run tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunNews {
    /// A row is finished.
    Row(RowTold),
    /// An event of the outbox is finished.
    Event(Delivered),
    /// It has ended; or it did not begin or broke off, and why.
    Ended(Option<Broke>),
}

/// An answer of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A window of the list, for this question.
    Lines(u64, Box<Lines>),
    /// A row.
    Shown(Guid, Shown),
    /// The numbers.
    Numbers(Box<Numbers>),
    /// The counts by state.
    Counts(Box<Counts>),
    /// The keys of all rows that match, at most one more than can be marked.
    Keys(u64, Vec<Guid>),
    /// What a bare word means; it becomes part of the filter.
    Meaning(u64, Meaning),
    /// A plan; none: it was given up.
    Plan(u64, Option<Plan>),
    /// The plan of the outbox.
    OutboxPlan(u64, Vec<super::outbox::Pending>),
    /// Lines of history, and whether they continue those that are there.
    Trail(Vec<HistoryLine>, bool),
    /// The outbox.
    Outbox(Box<Outbox>),
    /// The note is written.
    Noted(Guid),
    /// The look at masked bytes is written down.
    Revealed(Guid),
    /// The export is written: rows, path.
    Exported(usize, String),
}

/// What a bare word of a filter means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The beginning of a GUID that is there.
    Guid(String),
    /// The beginning of a transaction code of the layout.
    TxCode(String),
    /// A part of a reason.
    Reason(String),
}

/// What is wished for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Ask the engine.
    Ask(Ask),
    /// Run a confirmed plan under this number.
    Run(usize, Box<Plan>, Option<String>),
    /// Send a confirmed batch of the outbox under this number.
    Dispatch(usize, Vec<super::outbox::Pending>),
    /// Ask a run to stop.
    Stop(usize),
    /// Give the plan up that is being made.
    GiveUp,
    /// Copy by OSC 52.
    Copy(String),
    /// Listen to the mouse or not.
    Mouse(bool),
    /// Draw every cell anew.
    Redraw,
    /// Stop the process, as a shell expects.
    Suspend,
    /// Leave.
    Quit,
}

/// A question to the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A window of the list.
    Lines(u64, Box<Browse>, Part),
    /// A row.
    Detail(Guid),
    /// The numbers.
    Numbers,
    /// The counts by state alone, which cost nothing.
    Counts,
    /// The keys of all rows that match.
    Keys(u64, Box<Browse>),
    /// What a bare word means.
    Meaning(u64, String),
    /// A plan for these rows; those in the map are in runs.
    Plan(u64, Act, Vec<Guid>, HashMap<Guid, usize>),
    /// What a batch of the outbox would send.
    OutboxPlan(u64),
    /// Lines of history; true: continues those that are there.
    Trail(TrailQuery, bool),
    /// The outbox.
    Outbox,
    /// Write a note.
    Note(Guid, String),
    /// Write down that masked bytes are looked at.
    Reveal(Guid),
    /// Write a file.
    Export(Box<Export>),
}

/// What is exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Export {
    /// The rows of a list, as CSV.
    Csv(Browse, BTreeSet<Guid>),
    /// The rows of a list, as JSON lines.
    Json(Browse, BTreeSet<Guid>),
    /// Everything about one row, as JSON; masked unless it was revealed.
    Bundle(Guid, bool),
    /// Lines of history, as CSV.
    Trail(Vec<HistoryLine>),
    /// The report of a run, as CSV.
    Report(Box<Run>),
}

impl App {
    /// A console that has just been opened.
    #[must_use]
    pub fn new(
        facts: Facts,
        keys: Keymap,
        look: Look,
        size: (u16, u16),
        now: DateTime<Utc>,
    ) -> App {
        let said = facts.hint.clone().map(|text| Said { text, warning: false });
        App {
            facts,
            keys,
            look,
            encoding: 0,
            size,
            now,
            tab: Tab::Ledger,
            mode: Mode::Normal,
            pending: Vec::new(),
            said,
            paused: false,
            counts: None,
            numbers: None,
            overview_at: 0,
            list: List::default(),
            looking: Looking::default(),
            revealed: HashSet::new(),
            runs: Vec::new(),
            run_at: 0,
            next_run: 1,
            run_top: None,
            outbox: None,
            outbox_at: 0,
            trail: Trail::default(),
            trouble: None,
            broken: None,
            serial: 0,
            interrupted: false,
        }
    }

    /// The words of its language.
    #[must_use]
    pub fn words(&self) -> &'static Words {
        self.look.lang.words()
    }

    /// Where its keys mean something now.
    #[must_use]
    pub fn place(&self) -> Place {
        match self.tab {
            Tab::Overview => Place::Overview,
            Tab::Ledger if self.looking.open => Place::Detail,
            Tab::Ledger => Place::List,
            Tab::Runs => Place::Runs,
            Tab::Outbox => Place::Outbox,
            Tab::History => Place::History,
        }
    }

    /// Why a routine is off now.
    #[must_use]
    pub fn off(&self, act: Act) -> Option<Off> {
        if self.broken.is_some() && !self.facts.read_only {
            return Some(Off::Broken);
        }
        self.facts.off[act as usize]
    }

    /// Whether a run is going.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.runs.iter().any(|run| run.state == RunState::Going)
    }

    /// The row under the cursor: of the open detail, or of the list.
    #[must_use]
    pub fn current(&self) -> Option<&Guid> {
        match self.tab {
            Tab::Ledger if self.looking.open => self.looking.guid.as_ref(),
            Tab::History => {
                let cursor = self.trail.cursor?;
                self.trail.lines.iter().find(|line| line.id == cursor).map(|line| &line.guid)
            }
            _ => self.list.cursor.as_ref(),
        }
    }

    /// The lines that a list has room for.
    #[must_use]
    pub fn page(&self) -> usize {
        super::view::frame::body_lines(self.size).max(1)
    }

    fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    fn say(&mut self, text: impl Into<String>) {
        self.said = Some(Said { text: text.into(), warning: false });
    }

    fn warn(&mut self, text: impl Into<String>) {
        self.said = Some(Said { text: text.into(), warning: true });
    }
}
