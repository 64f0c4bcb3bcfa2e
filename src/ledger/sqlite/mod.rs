//! The ledger on SQLite: WAL, `synchronous=FULL`, one writer thread with group commit, a few readers.
//!
//! [`open`] makes sure that a file is a ledger, `mark` that it is no old copy, `writer` says who shares a commit and `committer` makes
//! it, `ballast` keeps room for results, `statements` has the SQL texts of the trait's methods, `clock` those of the notes on the clock.
//! Knows no telegram.

use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use rusqlite::Connection;

use super::{
    Claim, ClaimFailed, ClaimTold, Claimed, ClaimedAgain, ClockNote, Counts, Found, HistoryLine,
    Ledger, LedgerError, Orphan, Outline, Purge, Query, Record, Recorded, Row, Settle, Told,
};
use crate::clock::Clock;
use crate::guid::Guid;
use crate::limits;

mod ballast;
mod clock;
mod committer;
mod job;
mod mark;
pub mod open;
mod statements;
mod survey;
mod writer;

use ballast::{Ballast, Need};
pub use ballast::{BallastNews, BallastObserver};
pub use committer::{CommitObserver, SyncFailure};
use job::Job;
use mark::{Mark, Stand};
pub use mark::{MarkNews, MarkObserver};
pub use open::{Access, Created, OpenError};
use open::{Beside, Files, Place};
use writer::Writer;

/// A ledger file, open.
pub struct SqliteLedger {
    readers: Readers,
    /// None: opened for reading only.
    writer: Option<Writer>,
}

/// What a ledger tells of itself. All are called on the thread that writes, which may be a caller's: they must be quick, and must not
/// ask the ledger anything.
#[derive(Default)]
pub struct Hooks {
    /// Called after each commit.
    pub committed: Option<CommitObserver>,
    /// Called once when nothing can be written any more: fsync failed (what is on disk is not known), or a thread
    /// panicked while it wrote. The process must stop: its claims are taken over only when it is dead.
    pub sync_failed: Option<SyncFailure>,
    /// Called when the ballast was laid, used, or can't be laid.
    pub ballast: Option<BallastObserver>,
    /// Called when the mark beside the ledger was missing, did not fit, or can't be written.
    pub mark: Option<MarkObserver>,
}

impl SqliteLedger {
    /// Opens the ledger at `path`. With [`Access::Serve`] a missing one is created and the second value says so; whatever is no
    /// ledger is refused, and not a byte of it changes. Proves by a real write that it can be written, unless it is only read.
    pub fn open(
        path: &Path,
        access: Access,
        clock: Arc<dyn Clock>,
        mut hooks: Hooks,
    ) -> Result<(SqliteLedger, Created), OpenError> {
        let marked = Stand::marked(path);
        let (place, created) = open::prepare(path, access, clock.now(), marked.as_ref())?;
        let ballast = match access {
            Access::Read => None,
            Access::Serve { .. } | Access::ServeRestored => {
                Some(Ballast::laid(&place, hooks.ballast.take()))
            }
            Access::Routine => Some(Ballast::used(&place)),
        };
        let writer = ballast.map(|ballast| {
            let mark = Mark::new(&place, marked, access, hooks.mark.take());
            open::writer(&place, Beside { ballast, mark }, created, clock, hooks)
        });
        let writer = writer.transpose()?;
        let readers = Readers::open(place)?;
        Ok((SqliteLedger { readers, writer }, created))
    }

    /// Where the file is: absolute, all symbolic links followed.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.readers.place.file
    }

    /// Runs `work` in a write transaction that it shares with others, and returns its value once it is on disk.
    fn write<T: Send + 'static>(
        &self,
        need: Need,
        try_ms: u64,
        work: impl Fn(&Connection, &str) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        self.writer()?.run(need, end_of(try_ms), work)
    }

    fn writer(&self) -> Result<&Writer, LedgerError> {
        let only_read = || LedgerError::ReadOnly("it was opened for reading only".to_owned());
        self.writer.as_ref().ok_or_else(only_read)
    }

    fn read<T>(&self, work: impl Fn(&Connection) -> rusqlite::Result<T>) -> Result<T, LedgerError> {
        let con = self.readers.take()?;
        work(&con).map_err(|error| unreadable(&error))
    }
}

impl Ledger for SqliteLedger {
    fn find(&self, guid: &Guid) -> Result<Found, LedgerError> {
        self.read(|con| statements::find(con, guid))
    }

    fn claim(&self, claim: &Claim) -> Result<Claimed, LedgerError> {
        let claim = claim.clone();
        self.write(Need::Claim, limits::CLAIM_TRY_MS, move |con, now| {
            statements::claim(con, &claim, now)
        })
    }

    fn claim_then(&self, claim: Claim, then: ClaimTold) {
        let writer = match self.writer() {
            Ok(writer) => writer,
            Err(error) => return then(Err(error)),
        };
        let work = move |con: &Connection, now: &str| statements::claim(con, &claim, now);
        writer.leave(Job::new(Need::Claim, end_of(limits::CLAIM_TRY_MS), work, then));
    }

    fn claim_failed(&self, claim: &ClaimFailed) -> Result<ClaimedAgain, LedgerError> {
        let claim = claim.clone();
        self.write(Need::Claim, limits::CLAIM_TRY_MS, move |con, now| {
            statements::claim_failed(con, &claim, now)
        })
    }

    fn record(&self, record: &Record) -> Result<Recorded, LedgerError> {
        let record = record.clone();
        self.write(Need::Result, limits::RECORD_TRY_MS, move |con, now| {
            statements::record(con, &record, now)
        })
    }

    fn record_then(&self, record: Record, then: Told) {
        let writer = match self.writer() {
            Ok(writer) => writer,
            Err(error) => return then(record, Err(error)),
        };
        let record = Arc::new(record);
        let written = Arc::clone(&record);
        let work = move |con: &Connection, now: &str| statements::record(con, &written, now);
        let then = move |recorded| then(Arc::unwrap_or_clone(record), recorded);
        writer.ask(Job::new(Need::Result, end_of(limits::RECORD_TRY_MS), work, then));
    }

    fn settle(&self, settle: &Settle) -> Result<Recorded, LedgerError> {
        let settle = settle.clone();
        self.write(Need::Result, limits::CLAIM_TRY_MS, move |con, now| {
            statements::settle(con, &settle, now)
        })
    }

    fn sweep_orphans(&self, orphans: &[Orphan]) -> Result<Vec<Guid>, LedgerError> {
        let orphans = orphans.to_vec();
        self.write(Need::Result, limits::CLAIM_TRY_MS, move |con, now| {
            statements::sweep(con, &orphans, now)
        })
    }

    fn purge_batch(&self, purge: &Purge) -> Result<Vec<Guid>, LedgerError> {
        let purge = purge.clone();
        self.write(Need::Upkeep, limits::CLAIM_TRY_MS, move |con, now| {
            statements::purge(con, &purge, now)
        })
    }

    fn purgeable(
        &self,
        cutoff: DateTime<Utc>,
        after: Option<i64>,
    ) -> Result<(Vec<Guid>, Option<i64>), LedgerError> {
        self.read(|con| statements::purgeable(con, cutoff, after))
    }

    fn outline(&self, query: &Query) -> Result<Vec<Outline>, LedgerError> {
        self.read(|con| statements::outline(con, query))
    }

    fn page(&self, query: &Query) -> Result<Vec<Row>, LedgerError> {
        self.read(|con| statements::page(con, query))
    }

    fn counts(&self) -> Result<Counts, LedgerError> {
        self.read(statements::counts)
    }

    fn history(&self, guid: &Guid) -> Result<Vec<HistoryLine>, LedgerError> {
        self.read(|con| statements::history(con, guid))
    }

    fn clock_notes(&self) -> Result<Vec<ClockNote>, LedgerError> {
        self.read(clock::notes)
    }

    fn note_clock(&self, note: &ClockNote, after: Option<&ClockNote>) -> Result<bool, LedgerError> {
        let (note, after_ms) = (note.clone(), after.map(|after| after.ahead_ms));
        self.write(Need::Result, limits::CLAIM_TRY_MS, move |con, now| {
            clock::note(con, &note, after_ms, now)
        })
    }

    fn probe(&self) -> Result<(), LedgerError> {
        self.write(Need::Claim, limits::CLAIM_TRY_MS, |_, _| Ok(()))
    }
}

fn end_of(try_ms: u64) -> Instant {
    Instant::now() + Duration::from_millis(try_ms)
}

/// What an error of a reading connection means. SQLite can't open files for lack of rights or of file handles, and (in a
/// directory that can't be written) not even for reading; none of these is about writing.
fn unreadable(error: &rusqlite::Error) -> LedgerError {
    match committer::name(error) {
        LedgerError::ReadOnly(why) => LedgerError::Failed(format!("it can't be read: {why}")),
        other => other,
    }
}

/// A few connections for reading, handed out one at a time. More would not read faster on the cores there are.
struct Readers {
    place: Place,
    /// The ledger when it was opened: a later reader must not open another file that took its name.
    files: Files,
    pool: Mutex<Pool>,
    returned: Condvar,
}

struct Pool {
    idle: Vec<Connection>,
    /// How many are open, idle or handed out.
    open: usize,
}

/// A connection that is handed out. It comes back however its reading ends, or the pool would run dry.
struct Reading<'a> {
    readers: &'a Readers,
    con: Option<Connection>,
}

impl Readers {
    fn open(place: Place) -> Result<Readers, OpenError> {
        let files = Files::of(&place)
            .map_err(|source| OpenError::Io { path: place.given.clone(), source })?;
        let con = open::reader(&place.file)?;
        // SQLite opens a file when it is first read; what fails is to fail now.
        statements::find(&con, &Guid::from_ledger(String::new())).map_err(|error| {
            OpenError::Ledger { path: place.given.clone(), source: unreadable(&error) }
        })?;
        let pool = Mutex::new(Pool { idle: vec![con], open: 1 });
        Ok(Readers { place, files, pool, returned: Condvar::new() })
    }

    fn take(&self) -> Result<Reading<'_>, LedgerError> {
        let mut pool = self.pool();
        loop {
            if let Some(con) = pool.idle.pop() {
                return Ok(Reading { readers: self, con: Some(con) });
            }
            if pool.open < limits::READERS_MAX {
                let con = self.another()?;
                pool.open += 1;
                return Ok(Reading { readers: self, con: Some(con) });
            }
            pool = self.returned.wait(pool).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn another(&self) -> Result<Connection, LedgerError> {
        let con = open::reader(&self.place.file).map_err(|error| match error {
            OpenError::Ledger { source, .. } => source,
            other => LedgerError::Failed(other.to_string()),
        })?;
        if self.files.in_place() { Ok(con) } else { Err(LedgerError::Moved) }
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deref for Reading<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.con.as_ref().expect("it is taken back only when this is dropped")
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.readers.pool().idle.extend(self.con.take());
        self.readers.returned.notify_one();
    }
}
