//! The one connection that writes, and one transaction on it.
//!
//! Whoever holds the committer commits: the writer's thread for everyone who waits, or a caller for itself alone when nobody
//! waits. What was answered is on disk, under the ledger's name. After a failed fsync nothing is written any more: a second fsync
//! may succeed although the data is lost. Knows no SQL but BEGIN, COMMIT, ROLLBACK and the checkpoint.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, ffi};

use super::ballast::{Ballast, Need};
use super::job::Job;
use super::mark::Mark;
use super::open::{Beside, Files};
use crate::clock::Clock;
use crate::ledger::{LedgerError, ledger_time};
use crate::limits;

const CUT_LOG: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

/// Is told of each commit: how long it took (the sync included), how many operations shared it.
pub type CommitObserver = Box<dyn Fn(Duration, usize) + Send>;

/// Is told that the ledger can't be written any more: `SyncFailed`, or `Closed` if a thread has panicked while it wrote.
pub type SyncFailure = Box<dyn Fn(&LedgerError) + Send>;

pub(super) struct Committer {
    con: Connection,
    clock: Arc<dyn Clock>,
    files: Files,
    ballast: Ballast,
    mark: Mark,
    committed: Option<CommitObserver>,
    alarm: Arc<Alarm>,
    /// What fsync said when it failed.
    lost: Option<LedgerError>,
    /// When there was last a look at what lies beside the ledger.
    looked: Option<Instant>,
    /// When the log was last cut.
    cut: Option<Instant>,
}

/// Tells once that nothing can be written any more. A relay that can record nothing, and yet lives, keeps its claims: nobody else
/// may take them over.
pub(super) struct Alarm(Mutex<Option<SyncFailure>>);

impl Alarm {
    pub(super) fn new(tell: Option<SyncFailure>) -> Arc<Alarm> {
        Arc::new(Alarm(Mutex::new(tell)))
    }

    fn ring(&self, error: &LedgerError) {
        let tell = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(tell) = tell {
            tell(error);
        }
    }
}

/// Rings if its thread panics: a panic of whoever writes must not go unheard.
pub(super) struct Watch(pub(super) Arc<Alarm>);

impl Drop for Watch {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.ring(&LedgerError::Closed);
        }
    }
}

impl Committer {
    pub(super) fn new(
        con: Connection,
        clock: Arc<dyn Clock>,
        files: Files,
        beside: Beside,
        committed: Option<CommitObserver>,
        alarm: Arc<Alarm>,
    ) -> Committer {
        let Beside { ballast, mark } = beside;
        Committer {
            con,
            clock,
            files,
            ballast,
            mark,
            committed,
            alarm,
            lost: None,
            looked: None,
            cut: None,
        }
    }

    /// Why no transaction may begin, whatever for.
    pub(super) fn hindrance(&self) -> Option<LedgerError> {
        if let Some(lost) = &self.lost {
            return Some(lost.clone());
        }
        // Each commit looks too, so that nothing is answered that is in no ledger; this look is for the write that would be in vain.
        (!self.files.in_place()).then_some(LedgerError::Moved)
    }

    /// Whether there is room for the results of claims.
    pub(super) fn allows_claims(&mut self) -> bool {
        self.ballast.allows_claims()
    }

    /// Makes room for a result; false if there was none to make.
    pub(super) fn make_room(&mut self) -> bool {
        self.ballast.release()
    }

    /// One transaction for one job; what does not succeed at once comes back untold, for the writer's thread.
    pub(super) fn alone(&mut self, mut job: Job) -> Result<Job, Job> {
        let may = self.hindrance().is_none()
            && (job.need != Need::Claim || self.ballast.lets_claims_pass());
        if may && self.begin().is_ok() && self.transact(std::slice::from_mut(&mut job)).is_ok() {
            Ok(job)
        } else {
            Err(job)
        }
    }

    /// Takes the write lock, if no other process has it.
    pub(super) fn begin(&mut self) -> Result<(), LedgerError> {
        self.con.execute_batch("BEGIN IMMEDIATE").map_err(|error| self.report(&error))
    }

    /// Runs `batch` in the transaction that has begun, all or nothing.
    pub(super) fn transact(&mut self, batch: &mut [Job]) -> Result<(), LedgerError> {
        let begun = Instant::now();
        // One transaction, one time.
        let now = ledger_time(self.clock.now());
        let ran = batch.iter_mut().try_for_each(|job| job.run(&self.con, &now));
        let done = ran.and_then(|()| self.con.execute_batch("COMMIT"));
        let took = begun.elapsed();
        let outcome = match done {
            Err(error) => Err(self.report(&error)),
            // Replaced while we wrote: what was committed is in no ledger that anybody will read.
            Ok(()) if !self.files.in_place() => Err(LedgerError::Moved),
            Ok(()) => Ok(()),
        };
        self.roll_back();
        if outcome.is_ok() {
            if let Some(observer) = &self.committed {
                observer(took, batch.len());
            }
            self.mark.committed();
        }
        outcome
    }

    /// What has to be done now and then beside the jobs.
    pub(super) fn look_after(&mut self) {
        let pause = Duration::from_millis(limits::LOOK_PAUSE_MS);
        if self.looked.is_some_and(|looked| looked.elapsed() < pause) {
            return;
        }
        self.looked = Some(Instant::now());
        self.ballast.look_after();
        self.cut_log();
        self.move_mark();
    }

    /// Empties a log that has grown long. SQLite writes a log from its beginning again only when it finds nobody reading in it,
    /// and between the commits of a busy relay and a purge beside it that may never be. This holds the writers up for a moment,
    /// so that the readers leave it.
    fn cut_log(&mut self) {
        let pause = Duration::from_secs(limits::WAL_CUT_PAUSE_SECS);
        if self.lost.is_some()
            || self.cut.is_some_and(|cut| cut.elapsed() < pause)
            || self.files.log_bytes() <= limits::WAL_BYTES_KEPT
        {
            return;
        }
        self.cut = Some(Instant::now());
        let patient = self.con.busy_timeout(Duration::from_millis(limits::WAL_CUT_TRY_MS));
        let cut = patient.and_then(|()| self.con.query_row(CUT_LOG, [], |_| Ok(())));
        let cut = self.con.busy_timeout(Duration::ZERO).and(cut);
        if let Err(error) = cut {
            // Still read or written by somebody: it is tried again. A failed fsync has been told.
            self.report(&error);
        }
    }

    /// Moves the mark on, now and then, in a transaction of its own. What fails is tried again the next time: nobody waits for it.
    fn move_mark(&mut self) {
        if self.lost.is_some() || !self.mark.is_due() || !self.files.in_place() {
            return;
        }
        let begun = self.con.execute_batch("BEGIN IMMEDIATE");
        let moved = begun.and_then(|()| self.mark.advance(&self.con));
        match moved.and_then(|()| self.con.execute_batch("COMMIT")) {
            Ok(()) => self.mark.keep(&self.con),
            Err(error) => drop(self.report(&error)),
        }
        self.roll_back();
    }

    /// After an error SQLite may have rolled back by itself; a ROLLBACK more would be an error of its own.
    fn roll_back(&mut self) {
        if !self.con.is_autocommit()
            && let Err(error) = self.con.execute_batch("ROLLBACK")
        {
            self.report(&error);
        }
    }

    /// What the error means; a failed fsync is told once and ends the writing for good.
    fn report(&mut self, error: &rusqlite::Error) -> LedgerError {
        let error = name(error);
        if matches!(error, LedgerError::SyncFailed(_)) && self.lost.is_none() {
            self.lost = Some(error.clone());
            self.alarm.ring(&error);
        }
        error
    }
}

/// What an SQLite error means for the ledger.
pub(super) fn name(error: &rusqlite::Error) -> LedgerError {
    let Some(cause) = error.sqlite_error() else { return LedgerError::Failed(error.to_string()) };
    match cause.extended_code {
        ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC => {
            return LedgerError::SyncFailed(error.to_string());
        }
        // The -shm file could not grow: SQLite calls that an I/O error, and it is a full disk.
        ffi::SQLITE_IOERR_SHMSIZE => return LedgerError::Full,
        ffi::SQLITE_READONLY_DBMOVED => return LedgerError::Moved,
        _ => {}
    }
    match cause.code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => LedgerError::Busy,
        ErrorCode::DiskFull => LedgerError::Full,
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen => {
            LedgerError::ReadOnly(error.to_string())
        }
        _ => LedgerError::Failed(error.to_string()),
    }
}
