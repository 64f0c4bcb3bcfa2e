//! The operator's desk: what the console shows and what it may do, made by the engine. Plans come from the routines' own
//! `plan`, runs are the routines' own `run`; nothing here decides anew who may be sent.
//!
//! Knows no screen and no key. What a row is left out for is a value, so that a screen can say it in its own language.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::orphans::holds_nothing;
use super::purge::Purge;
use super::reprocess::{self, Reprocess};
use super::resolve::{self, Resolve};
use super::{Operator, Planned, Reason, Step, Stop};
use crate::clock::Clock;
use crate::code::Code;
use crate::core_api::Core;
use crate::guid::Guid;
use crate::ledger::owner::{LockFiles, OwnerLock};
use crate::ledger::survey::{Browse, Noted, Part, Survey, Told, Window};
use crate::ledger::{
    Cause, Counts, Found, HistoryLine, LedgerError, OwnerId, Query, Row, Trail, ledger_time,
    parse_ledger_time,
};
use crate::state::State;
use crate::telegram::{DescribedField, Layout};

/// The three routines that a plan can be for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// Ask the core about UNKNOWN rows.
    Resolve,
    /// Send FAILED rows again.
    Reprocess,
    /// Delete old DONE rows.
    Purge,
}

impl Act {
    /// Every one.
    pub const ALL: [Act; 3] = [Act::Resolve, Act::Reprocess, Act::Purge];

    /// The word in the history and on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Act::Resolve => "resolve",
            Act::Reprocess => "reprocess",
            Act::Purge => "purge",
        }
    }
}

/// Why a routine is off altogether.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Off {
    /// The ledger was opened for reading only.
    ReadOnly,
    /// No core was named.
    NoCore,
    /// No age was named for the purge.
    NoDays,
    /// Something in the console has broken: it looks on, and does nothing more.
    Broken,
}

/// Why a routine leaves a row out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyNot {
    /// It is in another state than the routine takes.
    State(State),
    /// It is `age_s` old, the routine waits until `wait_s`.
    TooYoung {
        /// Seconds since the last change.
        age_s: i64,
        /// Seconds that it has to have.
        wait_s: i64,
    },
    /// FAILED, but not with E902.
    OtherCode(String),
    /// It has been tried as often as is allowed.
    Attempts {
        /// How often.
        tried: i64,
        /// How often it may be.
        most: i64,
    },
    /// The stored request can't be read.
    Unreadable,
    /// It is not in the ledger any more.
    Gone,
    /// A run of this console has it in hand.
    InRun(usize),
}

/// A row for a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The key.
    pub guid: Guid,
    /// What is true of it.
    pub state: State,
    /// The transaction.
    pub tx_code: String,
    /// The reply's code.
    pub code: Option<String>,
    /// How often it was claimed.
    pub attempts: i64,
    /// The last change, as the ledger says it.
    pub updated_at: String,
    /// The amount by the layout, if the request can be read and has one.
    pub amount: Option<u64>,
    /// What was seen last.
    pub seen: Option<String>,
}

/// A window of lines.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Lines {
    /// In order.
    pub rows: Vec<Line>,
    /// How many there are in all.
    pub total: u64,
    /// How many stand before the first of these.
    pub before: u64,
    /// The rows of each state, of the same moment.
    pub counts: Counts,
}

/// Everything about one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    /// The row.
    pub row: Row,
    /// The amount by the layout.
    pub amount: Option<u64>,
    /// Its history, oldest first.
    pub history: Vec<HistoryLine>,
    /// The request's fields.
    pub request: Vec<DescribedField>,
    /// The response's fields; none without a response.
    pub response: Vec<DescribedField>,
    /// For each routine why it leaves the row out; none: it takes it.
    pub can: [Option<WhyNot>; 3],
}

/// What a GUID turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// This.
    Row(Box<Detail>),
    /// Purged; its history is what is left.
    Purged(Vec<HistoryLine>),
    /// Nothing.
    Nothing,
}

/// A frozen list of rows that a routine would take, and those that it would not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The routine.
    pub act: Act,
    /// When it was made.
    pub made_at: DateTime<Utc>,
    /// What will be taken, oldest first.
    pub rows: Vec<PlannedRow>,
    /// What was asked for and will not be taken.
    pub left_out: Vec<(Guid, WhyNot)>,
    /// The sum of the amounts that can be read.
    pub total: u128,
    /// Rows whose amount can't be read, so that the sum does not have them.
    pub without_amount: usize,
}

/// A row of a plan, as it was when the plan was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRow {
    /// The key and the attempt.
    pub planned: Planned,
    /// Its state.
    pub state: State,
    /// Its amount.
    pub amount: Option<u64>,
    /// Its last change.
    pub updated_at: String,
    /// What was seen last.
    pub seen: Option<String>,
}

/// What became of a row of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Became {
    /// Settled, sent or deleted.
    Done,
    /// Certainly not sent.
    Failed,
    /// Its outcome is not known (any more, or still).
    Left,
    /// It was not taken: it had changed, or the run ended before its turn.
    Skipped,
}

/// A row's result, told as it comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowTold {
    /// Which row.
    pub guid: Guid,
    /// What became of it.
    pub became: Became,
    /// Why.
    pub reason: Reason,
}

/// What the operator has set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a row must have been UNKNOWN before the core is asked; never below the core's longest time.
    pub min_age: TimeDelta,
    /// Rows with so many attempts are not sent again.
    pub attempts_max: i64,
    /// How old DONE rows must be to be deleted; none: nothing is deleted here.
    pub days: Option<u32>,
    /// user@host.
    pub who: String,
    /// Nothing is changed.
    pub read_only: bool,
}

/// What a desk works with.
#[derive(Clone)]
pub struct Desk {
    /// Where the rows are.
    pub ledger: Arc<dyn Survey>,
    /// Whom it asks and calls, if anybody.
    pub core: Option<Arc<dyn Core>>,
    /// To read the telegrams.
    pub layout: Layout,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// Where an owner's lock is taken while rows are sent; none: there is no file (the model).
    pub locks: Option<LockFiles>,
    /// What the operator has set.
    pub settings: Settings,
}

/// Why a run did not begin. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum NotRun {
    /// The owner's lock could not be taken.
    #[error("can't take an owner's lock beside the ledger: nothing was sent")]
    Lock(#[from] io::Error),
    /// The routine is off.
    #[error("the routine is off: nothing was changed")]
    Off,
}

impl Desk {
    /// Why `act` is off altogether; none: it is on.
    #[must_use]
    pub fn off(&self, act: Act) -> Option<Off> {
        match act {
            _ if self.settings.read_only => Some(Off::ReadOnly),
            Act::Resolve | Act::Reprocess if self.core.is_none() => Some(Off::NoCore),
            Act::Purge if self.settings.days.is_none() => Some(Off::NoDays),
            Act::Resolve | Act::Reprocess | Act::Purge => None,
        }
    }

    /// A window of lines.
    pub fn lines(
        &self,
        browse: &Browse,
        part: &Part,
        rows_max: usize,
    ) -> Result<Lines, LedgerError> {
        let Window { rows, total, before, counts } = self.ledger.window(browse, part, rows_max)?;
        let rows = rows.into_iter().map(|told| self.line(told)).collect();
        Ok(Lines { rows, total, before, counts })
    }

    fn line(&self, Told { row, seen }: Told) -> Line {
        Line {
            amount: self.amount(&row),
            guid: row.guid,
            state: row.state,
            tx_code: row.tx_code,
            code: row.rsp_code,
            attempts: row.attempt.0,
            updated_at: row.updated_at,
            seen,
        }
    }

    fn amount(&self, row: &Row) -> Option<u64> {
        self.layout.decode_request(&row.request).ok()?.amount()
    }

    /// Everything about one GUID.
    pub fn detail(&self, guid: &Guid) -> Result<Shown, LedgerError> {
        let found = self.ledger.find(guid)?;
        let history = self.ledger.history(guid)?;
        Ok(match found {
            Found::Nothing if history.is_empty() => Shown::Nothing,
            Found::Nothing | Found::Purged => Shown::Purged(history),
            Found::Row(row) => {
                let can = Act::ALL.map(|act| self.why_not(act, &row));
                let request = self.layout.describe(&row.request);
                let response = row.response.as_deref().map(|bytes| self.layout.describe(bytes));
                let amount = self.amount(&row);
                let response = response.unwrap_or_default();
                Shown::Row(Box::new(Detail { row: *row, amount, history, request, response, can }))
            }
        })
    }

    /// Why the routine would leave this row out; none: it would take it. In the order in which its conditions stand.
    #[must_use]
    pub fn why_not(&self, act: Act, row: &Row) -> Option<WhyNot> {
        let age = |wait: TimeDelta| {
            let cutoff = self.clock.now() - wait;
            (row.updated_at > ledger_time(cutoff)).then(|| WhyNot::TooYoung {
                age_s: age_s(&row.updated_at, self.clock.now()).unwrap_or(0),
                wait_s: wait.num_seconds(),
            })
        };
        match (act, row.state) {
            (Act::Resolve, State::Unknown) => age(self.settings.min_age),
            (Act::Reprocess, State::Failed) => self.why_not_sent(row),
            (Act::Purge, State::Done) => {
                age(TimeDelta::days(i64::from(self.settings.days.unwrap_or(0))))
            }
            (Act::Resolve | Act::Reprocess | Act::Purge, state) => Some(WhyNot::State(state)),
        }
    }

    fn why_not_sent(&self, row: &Row) -> Option<WhyNot> {
        let most = self.settings.attempts_max;
        if row.rsp_code.as_deref() != Some(Code::NotSent.as_str()) {
            return Some(WhyNot::OtherCode(row.rsp_code.clone().unwrap_or_default()));
        }
        if row.attempt.0 >= most {
            return Some(WhyNot::Attempts { tried: row.attempt.0, most });
        }
        self.layout.decode_request(&row.request).is_err().then_some(WhyNot::Unreadable)
    }

    /// The plan of a routine for these rows: what the routine itself would take now, and why it leaves out the others. Rows that
    /// a run has in hand (`busy`) are left out. `stop` ends it early; then the plan is not whole and none is returned. `tell` hears
    /// again and again how many rows have been looked at.
    pub fn plan(
        &self,
        act: Act,
        guids: &[Guid],
        busy: &HashMap<Guid, usize>,
        stop: &Stop,
        tell: &mut dyn FnMut(usize),
    ) -> Result<Option<Plan>, LedgerError> {
        let made_at = self.clock.now();
        let free: Vec<Guid> =
            guids.iter().filter(|guid| !busy.contains_key(*guid)).cloned().collect();
        let taken = self.taken(act, &free)?;
        let in_plan: HashSet<&Guid> = taken.iter().map(|planned| &planned.guid).collect();
        let mut plan = Plan {
            act,
            made_at,
            rows: Vec::with_capacity(taken.len()),
            left_out: Vec::new(),
            total: 0,
            without_amount: 0,
        };
        for guid in guids.iter().filter(|guid| !in_plan.contains(guid)) {
            if stop.asked() {
                return Ok(None);
            }
            tell(plan.left_out.len());
            let why = match (busy.get(guid), self.ledger.find(guid)?) {
                (Some(run), _) => WhyNot::InRun(*run),
                (None, Found::Row(row)) => {
                    self.why_not(act, &row).unwrap_or(WhyNot::State(row.state))
                }
                (None, Found::Nothing | Found::Purged) => WhyNot::Gone,
            };
            plan.left_out.push((guid.clone(), why));
        }
        for planned in taken {
            if stop.asked() {
                return Ok(None);
            }
            tell(plan.left_out.len() + plan.rows.len());
            self.add(&mut plan, planned)?;
        }
        Ok(Some(plan))
    }

    fn add(&self, plan: &mut Plan, planned: Planned) -> Result<(), LedgerError> {
        let Found::Row(row) = self.ledger.find(&planned.guid)? else {
            plan.left_out.push((planned.guid, WhyNot::Gone));
            return Ok(());
        };
        if plan.act == Act::Reprocess && self.layout.decode_request(&row.request).is_err() {
            plan.left_out.push((planned.guid, WhyNot::Unreadable));
            return Ok(());
        }
        let amount = self.amount(&row);
        match amount {
            Some(amount) => plan.total += u128::from(amount),
            None => plan.without_amount += 1,
        }
        let seen = self.ledger.history(&row.guid)?.into_iter().rev().find_map(|line| line.seen);
        let updated_at = row.updated_at.clone();
        plan.rows.push(PlannedRow { planned, state: row.state, amount, updated_at, seen });
        Ok(())
    }

    /// What the routine's own plan takes of these.
    fn taken(&self, act: Act, guids: &[Guid]) -> Result<Vec<Planned>, LedgerError> {
        match (act, &self.core) {
            (Act::Resolve, Some(core)) => self.resolve(&**core, None).plan(Some(guids)),
            (Act::Reprocess, Some(core)) => {
                // The plan claims nothing, so its name is nobody's.
                let nobody = OwnerId::from_ledger(String::new());
                self.reprocess(&**core, nobody, None).plan(Some(guids))
            }
            (Act::Resolve | Act::Reprocess, None) => Ok(Vec::new()),
            (Act::Purge, _) => self.purgeable(guids),
        }
    }

    fn purgeable(&self, guids: &[Guid]) -> Result<Vec<Planned>, LedgerError> {
        let Some(purge) = self.purge(None) else { return Ok(Vec::new()) };
        let mut due = HashSet::new();
        purge.dry_run(Some(guids), &Stop::default(), &mut |step| {
            due.insert(step.guid.clone());
        })?;
        // In the order of every other plan: oldest first.
        let mut query = Query::of(&[State::Done]);
        query.guids = Some(guids.iter().filter(|guid| due.contains(*guid)).cloned().collect());
        query.rows_max = usize::MAX;
        let rows = self.ledger.outline(&query)?;
        Ok(rows.into_iter().map(|row| Planned { guid: row.guid, attempt: row.attempt }).collect())
    }

    /// Runs a plan that a person has confirmed; each row is checked again by the routine when its turn comes. Ends after the row
    /// in hand when `stop` is asked. Every row of the plan is told exactly once.
    pub fn run(
        &self,
        plan: &Plan,
        reason: Option<String>,
        serial: u32,
        stop: &Stop,
        tell: &mut dyn FnMut(RowTold),
    ) -> Result<(), NotRun> {
        if self.off(plan.act).is_some() {
            return Err(NotRun::Off);
        }
        let rows: Vec<Planned> = plan.rows.iter().map(|row| row.planned.clone()).collect();
        match (plan.act, &self.core) {
            (Act::Resolve, Some(core)) => {
                let routine = self.resolve(&**core, reason);
                routine.run(&rows, stop, &mut |step| tell(resolved(step)));
            }
            (Act::Reprocess, Some(core)) => {
                let lock = self.lock(serial)?;
                let owner = lock.as_ref().map_or_else(
                    || OwnerId::new(std::process::id(), self.clock.now(), serial),
                    |lock| lock.id().clone(),
                );
                let routine = self.reprocess(&**core, owner.clone(), reason);
                routine.run(&rows, stop, &mut |step| tell(sent(step)));
                // A claim without a recorded result stays; then the file has to stay too, to prove that its owner is dead.
                if let Some(lock) = lock.filter(|_| holds_nothing(&*self.ledger, &owner)) {
                    lock.leave()?;
                }
            }
            (Act::Purge, _) => self.run_purge(&rows, reason, stop, tell),
            (Act::Resolve | Act::Reprocess, None) => return Err(NotRun::Off),
        }
        Ok(())
    }

    fn run_purge(
        &self,
        rows: &[Planned],
        reason: Option<String>,
        stop: &Stop,
        tell: &mut dyn FnMut(RowTold),
    ) {
        let guids: Vec<Guid> = rows.iter().map(|row| row.guid.clone()).collect();
        let mut gone = HashSet::new();
        let ended = self.purge(reason).map(|purge| {
            purge.run(Some(&guids), stop, &mut |step| {
                gone.insert(step.guid.clone());
                let became = Became::Done;
                tell(RowTold { guid: step.guid.clone(), became, reason: Reason::Deleted });
            })
        });
        let why = match ended {
            Some(Err(error)) => Reason::NotDeleted(error),
            Some(Ok(_)) if stop.asked() => Reason::NotTried,
            Some(Ok(_)) | None => Reason::ChangedOrGone,
        };
        for guid in guids.into_iter().filter(|guid| !gone.contains(guid)) {
            tell(RowTold { guid, became: Became::Skipped, reason: why.clone() });
        }
    }

    /// Writes an operator's note.
    pub fn note(&self, guid: &Guid, text: &str) -> Result<Noted, LedgerError> {
        self.leave_line(guid, Cause::Note, Some(text.to_owned()))
    }

    /// Writes that an operator looked at masked bytes; only then may they be shown.
    pub fn reveal(&self, guid: &Guid) -> Result<Noted, LedgerError> {
        self.leave_line(guid, Cause::Reveal, None)
    }

    fn leave_line(
        &self,
        guid: &Guid,
        cause: Cause,
        reason: Option<String>,
    ) -> Result<Noted, LedgerError> {
        let trail = Trail { cause, who: self.settings.who.clone(), reason, seen: None };
        self.ledger.note(guid, &trail)
    }

    fn lock(&self, serial: u32) -> io::Result<Option<OwnerLock>> {
        let id = OwnerId::new(std::process::id(), self.clock.now(), serial);
        self.locks.as_ref().map(|locks| locks.take(id)).transpose()
    }

    fn operator(&self, reason: Option<String>) -> Operator {
        Operator { who: self.settings.who.clone(), reason }
    }

    fn resolve<'a>(&'a self, core: &'a dyn Core, reason: Option<String>) -> Resolve<'a> {
        Resolve {
            ledger: &*self.ledger,
            core,
            layout: &self.layout,
            clock: &*self.clock,
            min_age: self.settings.min_age,
            operator: self.operator(reason),
        }
    }

    fn reprocess<'a>(
        &'a self,
        core: &'a dyn Core,
        owner: OwnerId,
        reason: Option<String>,
    ) -> Reprocess<'a> {
        Reprocess {
            ledger: &*self.ledger,
            core,
            layout: &self.layout,
            clock: &*self.clock,
            owner,
            attempts_max: self.settings.attempts_max,
            keep_going: false,
            operator: self.operator(reason),
        }
    }

    fn purge(&self, reason: Option<String>) -> Option<Purge<'_>> {
        Some(Purge {
            ledger: &*self.ledger,
            clock: &*self.clock,
            age: TimeDelta::days(i64::from(self.settings.days?)),
            operator: self.operator(reason),
        })
    }
}

fn resolved(step: &Step<resolve::Result>) -> RowTold {
    let became = match step.result {
        resolve::Result::Done => Became::Done,
        resolve::Result::Failed => Became::Failed,
        resolve::Result::Left if is_skip(&step.reason) => Became::Skipped,
        resolve::Result::Left => Became::Left,
    };
    RowTold { guid: step.guid.clone(), became, reason: step.reason.clone() }
}

fn sent(step: &Step<reprocess::Result>) -> RowTold {
    let became = match step.result {
        reprocess::Result::Done => Became::Done,
        reprocess::Result::Failed => Became::Failed,
        reprocess::Result::Unknown => Became::Left,
        reprocess::Result::Skipped => Became::Skipped,
    };
    RowTold { guid: step.guid.clone(), became, reason: step.reason.clone() }
}

/// Resolve counts rows that it did not ask about as left; a person wants to know which were never asked about.
fn is_skip(reason: &Reason) -> bool {
    matches!(reason, Reason::Changed(..) | Reason::NotAsked | Reason::Gone | Reason::TooYoung(_))
}

/// Seconds since a time of the ledger; none if another program wrote something else there.
#[must_use]
pub fn age_s(updated_at: &str, now: DateTime<Utc>) -> Option<i64> {
    Some((now - parse_ledger_time(updated_at)?).num_seconds().max(0))
}
