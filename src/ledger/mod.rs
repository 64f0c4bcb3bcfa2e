//! The ledger: what is known of every transfer, durably.
//!
//! The trait is the contract; [`sqlite`] keeps it on disk, [`memory`] says what it means. Each method is one transaction, and
//! says what is durable when it returns. Only this module writes a state, always with the expected state and attempt in the
//! condition; the outcomes have names, never a silent "0 rows". Knows no telegram: requests and replies are bytes here.

use chrono::{DateTime, Utc};

use crate::code::Code;
use crate::guid::{Attempt, Guid};
use crate::state::State;

pub mod clock_note;
pub mod memory;
pub mod owner;
pub mod sqlite;
pub mod survey;

pub use clock_note::{ClockLook, ClockNote};
pub use owner::OwnerId;

/// One transfer, as the ledger has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The key.
    pub guid: Guid,
    /// The transaction code of the telegram.
    pub tx_code: String,
    /// What is true of it.
    pub state: State,
    /// The code of `response`; none in SENT and RECEIVED.
    pub rsp_code: Option<String>,
    /// The first telegram under this GUID, as it came.
    pub request: Vec<u8>,
    /// The reply that goes with the state; none in SENT and RECEIVED.
    pub response: Option<Vec<u8>>,
    /// How often it was claimed.
    pub attempt: Attempt,
    /// The last change, UTC, `YYYY-MM-DD hh:mm:ss`.
    pub updated_at: String,
    /// The process that holds the claim, if the claimant named itself.
    pub owner: Option<OwnerId>,
}

/// What the ledger has under a GUID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing: it never came.
    Nothing,
    /// This row.
    Row(Box<Row>),
    /// It was done and has been purged.
    Purged,
}

impl Found {
    /// The row, if there is one.
    #[must_use]
    pub fn row(&self) -> Option<&Row> {
        match self {
            Found::Row(row) => Some(row),
            Found::Nothing | Found::Purged => None,
        }
    }
}

/// A wish to claim a GUID for a first call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The key.
    pub guid: Guid,
    /// The transaction code.
    pub tx_code: String,
    /// The telegram as it came.
    pub request: Vec<u8>,
    /// Who will make the call.
    pub owner: OwnerId,
}

/// What came of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// It is ours: SENT, this attempt, on disk.
    Claimed(Attempt),
    /// It is not ours; this row was there. Nothing changed.
    Found(Box<Row>),
    /// It is not ours: purged. Nothing changed.
    Purged,
}

/// A wish to claim a FAILED row again. Each condition stands in the statement's WHERE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimFailed {
    /// The key.
    pub guid: Guid,
    /// Who will make the call.
    pub owner: OwnerId,
    /// What reprocess asks for beyond "FAILED"; the relay asks for nothing more.
    pub only: Option<OnlyFailed>,
    /// Who does it and why, for the history.
    pub trail: Trail,
}

/// The conditions of reprocess: `rsp_code = 'E902' AND attempts < attempts_below`, and the attempt that the plan saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnlyFailed {
    /// Attempts must be fewer than this.
    pub attempts_below: i64,
    /// The attempt that was seen when the row was chosen.
    pub attempt: Attempt,
}

/// What came of a second claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimedAgain {
    /// It is ours: SENT, this attempt, on disk.
    Claimed(Attempt),
    /// The row did not meet the conditions (any more). Nothing changed.
    Lost,
}

/// The result of a call, to be recorded under the attempt that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key.
    pub guid: Guid,
    /// The attempt whose result it is.
    pub attempt: Attempt,
    /// Its kind.
    pub result: CallResult,
    /// The reply telegram.
    pub response: Vec<u8>,
    /// Who and what was seen, for the history.
    pub trail: Trail,
}

/// The three kinds of result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallResult {
    /// The result is known: 0000 or a refusal. Written over any state but DONE.
    Definite(Code),
    /// The outcome is open: E901. Written over SENT and (the safe direction) FAILED.
    Open,
    /// It was certainly not sent: E902. Written over SENT and UNKNOWN of its own attempt.
    NotSent,
}

impl CallResult {
    /// The state it leads to.
    #[must_use]
    pub const fn state(self) -> State {
        match self {
            CallResult::Definite(_) => State::Done,
            CallResult::Open => State::Unknown,
            CallResult::NotSent => State::Failed,
        }
    }

    /// The code that goes with it.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            CallResult::Definite(code) => code,
            CallResult::Open => Code::Unknown,
            CallResult::NotSent => Code::NotSent,
        }
    }

    /// Whether it may be written over `from`. `schema.sql` knows nothing of this: the statement's WHERE does.
    #[must_use]
    pub const fn may_follow(self, from: State) -> bool {
        match (self, from) {
            (CallResult::Definite(_), State::Done) => false,
            (CallResult::Definite(_), _) => true,
            (CallResult::Open, State::Sent | State::Failed) => true,
            (CallResult::Open, State::Received | State::Done | State::Unknown) => false,
            (CallResult::NotSent, State::Sent | State::Unknown) => true,
            (CallResult::NotSent, State::Received | State::Done | State::Failed) => false,
        }
    }
}

/// What came of recording a result or settling a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// Written, on disk.
    Written,
    /// The row had moved on; it is as it was, and this is it.
    Stale(Box<Row>),
    /// There is no such row (purged, or removed by another program). Nothing changed.
    Gone,
}

/// What an inquiry found, to be written to an UNKNOWN row: `WHERE state = 'UNKNOWN' AND attempts = attempt`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settle {
    /// The key.
    pub guid: Guid,
    /// The attempt that was seen when the row was chosen.
    pub attempt: Attempt,
    /// What it turned out to be.
    pub result: Settled,
    /// The reply telegram.
    pub response: Vec<u8>,
    /// Who, why, and what was seen.
    pub trail: Trail,
}

/// The two ways in which an UNKNOWN row is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The core has it: DONE, 0000.
    Known,
    /// The core does not have it: FAILED, E902.
    Absent,
}

impl Settled {
    /// The state it leads to, and the code that goes with it.
    #[must_use]
    pub const fn becomes(self) -> (State, Code) {
        match self {
            Settled::Known => (State::Done, Code::Done),
            Settled::Absent => (State::Failed, Code::NotSent),
        }
    }
}

/// A row whose claimant is proven dead, has given it up, or (where nobody is named) is old.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// The key.
    pub guid: Guid,
    /// SENT (becomes UNKNOWN, E901) or RECEIVED (becomes FAILED, E902); nothing else is ever swept.
    pub from: State,
    /// The attempt that was seen.
    pub attempt: Attempt,
    /// The owner that was seen; the row is left alone if it has another one now.
    pub owner: Option<OwnerId>,
    /// The last change that was seen: a row that was touched since is not old.
    pub updated_at: String,
    /// The reply telegram; none if the stored request can't be read.
    pub response: Option<Vec<u8>>,
    /// What is known of the owner.
    pub trail: Trail,
}

impl Orphan {
    /// What a row of this state turns into and the code that goes with it; none if such a row is never swept.
    #[must_use]
    pub const fn becomes(from: State) -> Option<(State, Code)> {
        match from {
            // Its call may have been made.
            State::Sent => Some((State::Unknown, Code::Unknown)),
            // It was certainly not sent.
            State::Received => Some((State::Failed, Code::NotSent)),
            State::Done | State::Unknown | State::Failed => None,
        }
    }
}

/// Which DONE rows a purge takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purge {
    /// Rows last changed at or before this.
    pub cutoff: DateTime<Utc>,
    /// The rows of this batch, at most [`crate::limits::PURGE_BATCH_ROWS`]; each is checked again.
    pub guids: Vec<Guid>,
    /// Who and why.
    pub trail: Trail,
}

/// Who changes a row and why: what the history gets beside the change itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trail {
    /// The routine.
    pub cause: Cause,
    /// user@host, or `relay`.
    pub who: String,
    /// The operator's reason.
    pub reason: Option<String>,
    /// What was seen of the core.
    pub seen: Option<String>,
}

impl Trail {
    /// The relay itself, which has seen nothing worth telling yet.
    #[must_use]
    pub fn relay() -> Trail {
        Trail { cause: Cause::Relay, who: "relay".to_owned(), reason: None, seen: None }
    }

    /// The same, with what was seen.
    #[must_use]
    pub fn seen(mut self, seen: impl Into<String>) -> Trail {
        self.seen = Some(seen.into());
        self
    }
}

/// What made a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// A telegram.
    Relay,
    /// The orphan sweep.
    Orphan,
    /// An inquiry.
    Resolve,
    /// A second sending.
    Reprocess,
    /// The purge.
    Purge,
    /// An operator's note; changes no state.
    Note,
    /// An operator's look at bytes that are masked; changes no state.
    Reveal,
}

impl Cause {
    /// The word in the history.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Cause::Relay => "relay",
            Cause::Orphan => "orphan",
            Cause::Resolve => "resolve",
            Cause::Reprocess => "reprocess",
            Cause::Purge => "purge",
            Cause::Note => "note",
            Cause::Reveal => "reveal",
        }
    }
}

/// A line of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryLine {
    /// Its place, ascending.
    pub id: i64,
    /// When, UTC, `YYYY-MM-DD hh:mm:ss`.
    pub at: String,
    /// Of which transfer.
    pub guid: Guid,
    /// The state before; none for a note.
    pub from_state: Option<String>,
    /// The state after; none for a purge.
    pub to_state: Option<String>,
    /// The attempt.
    pub attempt: Option<i64>,
    /// relay, orphan, resolve, reprocess, purge; note and reveal change no state.
    pub cause: String,
    /// user@host, or relay.
    pub who: String,
    /// The operator's reason.
    pub reason: Option<String>,
    /// What was seen of the core.
    pub seen: Option<String>,
}

/// Which rows a page shows. Rows come ordered by `(updated_at, guid)`, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The states; must not be empty.
    pub states: Vec<State>,
    /// Only rows last changed at or before this.
    pub until: Option<DateTime<Utc>>,
    /// Only GUIDs that begin so.
    pub guid_prefix: Option<String>,
    /// Only these GUIDs.
    pub guids: Option<Vec<Guid>>,
    /// Only rows after this place.
    pub after: Option<Place>,
    /// At most so many.
    pub rows_max: usize,
}

/// A place in the order of a page.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The row's last change.
    pub updated_at: String,
    /// The row's key.
    pub guid: Guid,
}

impl Row {
    /// Its place in the order of a page.
    #[must_use]
    pub fn place(&self) -> Place {
        Place { updated_at: self.updated_at.clone(), guid: self.guid.clone() }
    }

    /// The row without its telegrams.
    #[must_use]
    pub fn outline(self) -> Outline {
        Outline {
            guid: self.guid,
            state: self.state,
            rsp_code: self.rsp_code,
            attempt: self.attempt,
            updated_at: self.updated_at,
            owner: self.owner,
        }
    }
}

impl Outline {
    /// Its place in the order of a page.
    #[must_use]
    pub fn place(&self) -> Place {
        Place { updated_at: self.updated_at.clone(), guid: self.guid.clone() }
    }
}

impl Query {
    /// The first page of all rows in these states.
    #[must_use]
    pub fn of(states: &[State]) -> Query {
        Query {
            states: states.to_vec(),
            until: None,
            guid_prefix: None,
            guids: None,
            after: None,
            rows_max: crate::limits::PAGE_ROWS_MAX,
        }
    }

    /// Whether `row` belongs to the page, but for the page's end.
    #[must_use]
    pub fn takes(&self, row: &Row) -> bool {
        self.states.contains(&row.state)
            && self.until.is_none_or(|until| row.updated_at <= ledger_time(until))
            && self.guid_prefix.as_ref().is_none_or(|p| row.guid.as_str().starts_with(p.as_str()))
            && self.guids.as_ref().is_none_or(|guids| guids.contains(&row.guid))
            && self.after.as_ref().is_none_or(|after| row.place() > *after)
    }
}

/// A row without its telegrams: what plans and the orphan sweep look at, a million at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// The key.
    pub guid: Guid,
    /// What is true of it.
    pub state: State,
    /// The code of its reply.
    pub rsp_code: Option<String>,
    /// The attempt.
    pub attempt: Attempt,
    /// The last change.
    pub updated_at: String,
    /// Who holds the claim.
    pub owner: Option<OwnerId>,
}

/// How many rows there are in each state, and how long the oldest has been there; of one moment.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Counts {
    /// In the order of [`State::ALL`].
    pub rows: [u64; State::ALL.len()],
    /// The oldest `updated_at`, in the order of [`State::ALL`]; none if there is no row. DONE's is not looked up: it has no index.
    pub oldest: [Option<String>; State::ALL.len()],
}

impl Counts {
    /// How many rows are in this state.
    #[must_use]
    pub fn of(&self, state: State) -> u64 {
        State::ALL
            .into_iter()
            .zip(self.rows)
            .find(|(other, _)| *other == state)
            .map_or(0, |(_, n)| n)
    }
}

/// Why the ledger did not do it. Nothing was changed unless the text says that this is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// Another process held the write lock all the time.
    #[error("the ledger is locked by another process")]
    Busy,
    /// No room: for this write, or (a claim) for the results of what is under way.
    #[error("the disk of the ledger is full")]
    Full,
    /// It can be read, not written.
    #[error("the ledger can't be written: {0}")]
    ReadOnly(String),
    /// The file under the path is not the one that was opened. Nothing was changed in what is there now.
    #[error("the ledger was moved, deleted or replaced while it was open")]
    Moved,
    /// fsync failed: what is on disk is not known any more.
    #[error("the ledger's disk failed to sync: what is on disk is not known ({0})")]
    SyncFailed(String),
    /// Anything else that SQLite says.
    #[error("the ledger failed: {0}")]
    Failed(String),
    /// The ledger has been closed.
    #[error("the ledger is closed")]
    Closed,
}

/// Is told what became of a record, and gets it back.
pub type Told = Box<dyn FnOnce(Record, Result<Recorded, LedgerError>) + Send>;

/// Is told what became of a claim.
pub type ClaimTold = Box<dyn FnOnce(Result<Claimed, LedgerError>) + Send>;

/// What holds the ledger. All methods may be called from any thread. All may fail with a [`LedgerError`]; unless it is
/// `SyncFailed`, nothing was changed then.
pub trait Ledger: Send + Sync {
    /// What there is under this GUID, as of some moment since the last write that this ledger answered. Changes nothing, waits for no writer.
    fn find(&self, guid: &Guid) -> Result<Found, LedgerError>;

    /// Claims a GUID that is not there: one INSERT, judged by its row count. `Claimed` means SENT and on disk. Waits
    /// [`crate::limits::CLAIM_TRY_MS`] at most for another process's lock.
    fn claim(&self, claim: &Claim) -> Result<Claimed, LedgerError>;

    /// Claims as [`Ledger::claim`] does, but the caller never waits: `then` is told once, on whichever thread that wrote. It must be
    /// quick, and must not ask the ledger to write anything. A ledger that has no such thread tells before it returns.
    fn claim_then(&self, claim: Claim, then: ClaimTold) {
        then(self.claim(&claim));
    }

    /// Claims a FAILED row again: one UPDATE with its conditions, judged by its row count, and a line of history. `Claimed`
    /// means SENT with one attempt more, no code, no response, and on disk. Waits as `claim` does.
    fn claim_failed(&self, claim: &ClaimFailed) -> Result<ClaimedAgain, LedgerError>;

    /// Records the result of a call, fenced by attempt and state ([`CallResult::may_follow`]), with a line of history unless
    /// it is the plain way SENT → DONE of a first attempt. `Written` means on disk. Tries for [`crate::limits::RECORD_TRY_MS`].
    fn record(&self, record: &Record) -> Result<Recorded, LedgerError>;

    /// Records as [`Ledger::record`] does, without making the caller wait: `then` is told once, on whichever thread that wrote. It
    /// must be quick, and must not ask the ledger to write anything. A ledger that has no such thread tells before it returns.
    fn record_then(&self, record: Record, then: Told) {
        let recorded = self.record(&record);
        then(record, recorded);
    }

    /// Settles an UNKNOWN row by what an inquiry found, fenced by attempt and state, with a line of history. Waits as `claim` does.
    fn settle(&self, settle: &Settle) -> Result<Recorded, LedgerError>;

    /// Turns orphans into UNKNOWN (from SENT) or FAILED (from RECEIVED), each only if it is still as it was seen, each with a
    /// line of history; all in one transaction. Returns those that were turned. At most [`crate::limits::BATCH_OPERATIONS_MAX`].
    fn sweep_orphans(&self, orphans: &[Orphan]) -> Result<Vec<Guid>, LedgerError>;

    /// Deletes those of the given rows that are DONE and old enough; their GUIDs and codes stay in `purged`, each with a line
    /// of history; all in one transaction. Returns those that were deleted.
    fn purge_batch(&self, purge: &Purge) -> Result<Vec<Guid>, LedgerError>;

    /// DONE rows last changed at or before `cutoff`, in no particular order, in pages: pass `None` first, then what came back,
    /// until it is `None`. A page may be empty. Reads only a bounded stretch of the table at a time.
    fn purgeable(
        &self,
        cutoff: DateTime<Utc>,
        after: Option<i64>,
    ) -> Result<(Vec<Guid>, Option<i64>), LedgerError>;

    /// The same page as [`Ledger::page`], without the telegrams. Reads only, in one short transaction.
    fn outline(&self, query: &Query) -> Result<Vec<Outline>, LedgerError>;

    /// A page of rows. Reads only, in one short transaction.
    fn page(&self, query: &Query) -> Result<Vec<Row>, LedgerError>;

    /// Counts by state and the oldest of each, of one moment. Reads only.
    fn counts(&self) -> Result<Counts, LedgerError>;

    /// The history of one transfer, oldest first, at most [`crate::limits::HISTORY_LINES_MAX`]. Reads only.
    fn history(&self, guid: &Guid) -> Result<Vec<HistoryLine>, LedgerError>;

    /// Notes on the wall clock, oldest first, the newest [`crate::limits::CLOCK_NOTES_MAX`]. Reads only.
    fn clock_notes(&self) -> Result<Vec<ClockNote>, LedgerError>;

    /// Adds a note if the last one of its run of the machine is still `after`; false if somebody else has added one meanwhile.
    /// With a jump, rows that are not DONE and whose last change lies in the future are changed "now", in the same transaction, by
    /// its time and not by the note's, which may be old: they age from here on, and nothing has to wait until the clock gets there. True means on disk. Waits as `claim` does.
    fn note_clock(&self, note: &ClockNote, after: Option<&ClockNote>) -> Result<bool, LedgerError>;

    /// Takes and releases the write lock, waiting [`crate::limits::CLAIM_TRY_MS`] at most: could a claim be written now?
    fn probe(&self) -> Result<(), LedgerError>;
}

/// A time as the ledger writes it: UTC, to the second, the form of `datetime('now')`.
#[must_use]
pub fn ledger_time(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S").to_string()
}

/// A ledger's time read back; none if another program wrote something else there.
#[must_use]
pub fn parse_ledger_time(text: &str) -> Option<DateTime<Utc>> {
    chrono::NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S").ok().map(|t| t.and_utc())
}
