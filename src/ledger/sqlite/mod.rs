//! The ledger on SQLite: WAL, `synchronous=FULL`, one writer thread with group commit, a few readers.
//!
//! [`open`] makes sure that a file is a ledger, `writer` commits, `statements` has every SQL text of the trait's methods.
//! Knows no telegram.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use rusqlite::Connection;

use super::{
    Claim, ClaimFailed, Claimed, ClaimedAgain, Counts, Found, HistoryLine, Ledger, LedgerError,
    Orphan, Outline, Purge, Query, Record, Recorded, Row, Settle,
};
use crate::clock::Clock;
use crate::guid::Guid;
use crate::limits;

pub mod open;
mod statements;
mod writer;

pub use open::{Access, Created, OpenError};
use writer::Writer;
pub use writer::{CommitObserver, SyncFailure};

/// A ledger file, open.
pub struct SqliteLedger {
    path: PathBuf,
    readers: Readers,
    /// None: opened for reading only.
    writer: Option<Writer>,
    clock: Arc<dyn Clock>,
}

/// What a ledger tells about its commits, and whom it tells that the disk failed to sync. Both are called on the writer's thread.
#[derive(Default)]
pub struct Hooks {
    /// Called after each commit.
    pub committed: Option<CommitObserver>,
    /// Called once when fsync failed: the process must stop, it can't know what is on disk.
    pub sync_failed: Option<SyncFailure>,
}

impl SqliteLedger {
    /// Opens the ledger at `path`. With [`Access::Serve`] a missing one is created and the second value says so; whatever is no
    /// ledger is refused, and not a byte of it changes. Proves by a real write that it can be written, unless it is only read.
    pub fn open(
        path: &Path,
        access: Access,
        clock: Arc<dyn Clock>,
        hooks: Hooks,
    ) -> Result<(SqliteLedger, Created), OpenError> {
        let created = open::prepare(path, access)?;
        let writer = match access {
            Access::Read => None,
            Access::Serve { .. } | Access::Routine => Some(open::writer(path, hooks)?),
        };
        let readers = Readers { idle: Mutex::new(vec![open::reader(path)?]), ..Readers::new(path) };
        let ledger = SqliteLedger { path: path.to_owned(), readers, writer, clock };
        Ok((ledger, created))
    }

    /// The file's path, as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `work` in a write transaction that it shares with others, and returns its value once it is on disk.
    fn write<T: Send + 'static>(
        &self,
        try_ms: u64,
        work: impl Fn(&Connection, &str) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let Some(writer) = &self.writer else {
            return Err(LedgerError::ReadOnly("it was opened for reading only".to_owned()));
        };
        let clock = Arc::clone(&self.clock);
        let work = move |con: &Connection| work(con, &super::ledger_time(clock.now()));
        writer.run(Instant::now() + Duration::from_millis(try_ms), work)
    }

    fn read<T>(&self, work: impl Fn(&Connection) -> rusqlite::Result<T>) -> Result<T, LedgerError> {
        self.readers.with(|con| work(con).map_err(|error| writer::name(&error)))
    }
}

impl Ledger for SqliteLedger {
    fn find(&self, guid: &Guid) -> Result<Found, LedgerError> {
        self.read(|con| statements::find(con, guid))
    }

    fn claim(&self, claim: &Claim) -> Result<Claimed, LedgerError> {
        let claim = claim.clone();
        self.write(limits::CLAIM_TRY_MS, move |con, now| statements::claim(con, &claim, now))
    }

    fn claim_failed(&self, claim: &ClaimFailed) -> Result<ClaimedAgain, LedgerError> {
        let claim = claim.clone();
        self.write(limits::CLAIM_TRY_MS, move |con, now| statements::claim_failed(con, &claim, now))
    }

    fn record(&self, record: &Record) -> Result<Recorded, LedgerError> {
        let end = Instant::now() + Duration::from_millis(limits::RECORD_TRY_MS);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let try_ms = u64::try_from(left.as_millis()).unwrap_or(limits::RECORD_TRY_MS);
            let record = record.clone();
            let tried = self.write(try_ms, move |con, now| statements::record(con, &record, now));
            match tried {
                Err(LedgerError::Full | LedgerError::ReadOnly(_) | LedgerError::Failed(_))
                    if Instant::now() < end =>
                {
                    std::thread::sleep(Duration::from_millis(limits::RECORD_PAUSE_MS));
                }
                other => return other,
            }
        }
    }

    fn settle(&self, settle: &Settle) -> Result<Recorded, LedgerError> {
        let settle = settle.clone();
        self.write(limits::CLAIM_TRY_MS, move |con, now| statements::settle(con, &settle, now))
    }

    fn sweep_orphans(&self, orphans: &[Orphan]) -> Result<Vec<Guid>, LedgerError> {
        let orphans = orphans.to_vec();
        self.write(limits::CLAIM_TRY_MS, move |con, now| statements::sweep(con, &orphans, now))
    }

    fn purge_batch(&self, purge: &Purge) -> Result<Vec<Guid>, LedgerError> {
        let purge = purge.clone();
        self.write(limits::CLAIM_TRY_MS, move |con, now| statements::purge(con, &purge, now))
    }

    fn purgeable(
        &self,
        cutoff: DateTime<Utc>,
        after: Option<i64>,
    ) -> Result<(Vec<Guid>, Option<i64>), LedgerError> {
        self.read(|con| statements::purgeable(con, cutoff, after.unwrap_or(0)))
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

    fn probe(&self) -> Result<(), LedgerError> {
        self.write(limits::CLAIM_TRY_MS, |_, _| Ok(()))
    }
}

/// A few connections for reading, handed out one at a time. More would not read faster on the cores there are.
struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
    returned: Condvar,
    /// How many are open, idle or handed out.
    open: Mutex<usize>,
}

impl Readers {
    fn new(path: &Path) -> Readers {
        Readers {
            path: path.to_owned(),
            idle: Mutex::new(Vec::new()),
            returned: Condvar::new(),
            open: Mutex::new(1),
        }
    }

    fn with<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let con = self.take()?;
        let done = work(&con);
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(con);
        self.returned.notify_one();
        done
    }

    fn take(&self) -> Result<Connection, LedgerError> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(con) = idle.pop() {
                return Ok(con);
            }
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            if *open < limits::READERS_MAX {
                let con = open::reader(&self.path)
                    .map_err(|error| LedgerError::Failed(error.to_string()))?;
                *open += 1;
                return Ok(con);
            }
            drop(open);
            idle = self.returned.wait(idle).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
