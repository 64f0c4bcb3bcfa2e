//! Group commit: one thread writes, everyone who came meanwhile shares its transaction and its fsync.
//!
//! A claim is answered only after COMMIT has returned and the file is still the ledger: what was answered is on disk, under its
//! name. If a batch fails, it is rolled back as a whole and each of its jobs is tried alone, so that one bad job does not spoil
//! its neighbours. After a failed fsync nothing is written any more: a second fsync may succeed although the data is lost.
//! Knows no SQL but BEGIN, COMMIT, ROLLBACK and the checkpoint.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, ffi};

use super::ballast::{Ballast, Need};
use super::open::Files;
use crate::ledger::LedgerError;
use crate::limits;

const CUT_LOG: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

/// Is told of each commit: how long it took (the sync included), how many operations shared it.
pub type CommitObserver = Box<dyn Fn(Duration, usize) + Send>;

/// Is told that the ledger can't be written any more: `SyncFailed`, or `Closed` if the writer's thread has panicked.
pub type SyncFailure = Box<dyn Fn(&LedgerError) + Send>;

/// The writer thread's handle. Dropping it lets the thread end what it has and waits for it.
pub(super) struct Writer {
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(
        con: Connection,
        files: Files,
        ballast: Ballast,
        mut hooks: super::Hooks,
    ) -> io::Result<Writer> {
        let (jobs, queue) = sync_channel(limits::WRITER_QUEUE_OPERATIONS_MAX);
        let alarm = Alarm(hooks.sync_failed.take());
        let waiting = VecDeque::new();
        let work =
            Loop { con, files, ballast, hooks, queue, waiting, lost: None, cut: None, alarm };
        let thread =
            thread::Builder::new().name("ledger-writer".to_owned()).spawn(move || work.run())?;
        Ok(Writer { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Runs `work` in a transaction; returns its value once COMMIT has returned. `work` may run more than once: it must not
    /// have effects outside the connection.
    pub(super) fn run<T: Send + 'static>(
        &self,
        need: Need,
        deadline: Instant,
        work: impl Fn(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let (answer, wait) = sync_channel(1);
        let task = Box::new(Task { work, value: None, answer });
        let jobs = self.jobs.as_ref().ok_or(LedgerError::Closed)?;
        jobs.send(Job { need, deadline, alone: false, task }).map_err(|_| LedgerError::Closed)?;
        wait.recv().map_err(|_| LedgerError::Closed)?
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by the panic hook; its callers got `Closed`.
            let _ = thread.join();
        }
    }
}

struct Job {
    /// What it may do when the disk is full.
    need: Need,
    /// When it is to be answered `Busy`, if the lock could not be had by then.
    deadline: Instant,
    /// It was in a batch that failed, so it shares no transaction any more.
    alone: bool,
    task: Box<dyn Run + Send>,
}

/// A job whose value's type is its own business.
trait Run {
    fn run(&mut self, con: &Connection) -> rusqlite::Result<()>;
    fn answer(self: Box<Self>, outcome: Result<(), LedgerError>);
}

struct Task<T, F> {
    work: F,
    value: Option<T>,
    answer: SyncSender<Result<T, LedgerError>>,
}

impl<T: Send, F: Fn(&Connection) -> rusqlite::Result<T>> Run for Task<T, F> {
    fn run(&mut self, con: &Connection) -> rusqlite::Result<()> {
        self.value = Some((self.work)(con)?);
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<(), LedgerError>) {
        let Task { value, answer, .. } = *self;
        let value = outcome.map(|()| value.expect("a committed job has run"));
        // Whoever asked may be gone; the row says what happened.
        let _ = answer.send(value);
    }
}

struct Loop {
    con: Connection,
    files: Files,
    ballast: Ballast,
    hooks: super::Hooks,
    queue: Receiver<Job>,
    /// Taken from the queue, not answered yet. All of them, not just a batch: time runs out for each of them.
    waiting: VecDeque<Job>,
    /// What fsync said when it failed.
    lost: Option<LedgerError>,
    /// When the log was last cut.
    cut: Option<Instant>,
    alarm: Alarm,
}

/// Tells once that the writer is lost. A panic of its thread must not go unheard: a relay whose writer is dead can record
/// nothing, and yet it lives, so nobody else may take its claims over.
struct Alarm(Option<SyncFailure>);

impl Alarm {
    fn ring(&mut self, error: &LedgerError) {
        if let Some(tell) = self.0.take() {
            tell(error);
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if thread::panicking() {
            self.ring(&LedgerError::Closed);
        }
    }
}

impl Loop {
    fn run(mut self) {
        self.ballast.look_after();
        while self.gather() {
            self.ballast.look_after();
            if self.begin() {
                self.commit();
            }
        }
    }

    /// Waits for work and takes all there is; false: nobody can ask any more, and everyone has been answered.
    fn gather(&mut self) -> bool {
        if self.waiting.is_empty() {
            match self.queue.recv_timeout(Duration::from_secs(limits::WRITER_IDLE_SECS)) {
                Ok(job) => self.waiting.push_back(job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        self.join();
        true
    }

    fn join(&mut self) {
        let room = limits::WRITER_QUEUE_OPERATIONS_MAX.saturating_sub(self.waiting.len());
        self.waiting.extend(self.queue.try_iter().take(room));
    }

    /// Begins a transaction. While another process holds the lock, whose time is up is answered, and others join. False:
    /// everyone who waited has been answered.
    fn begin(&mut self) -> bool {
        loop {
            self.refuse();
            if self.waiting.is_empty() {
                return false;
            }
            let Err(error) = self.con.execute_batch("BEGIN IMMEDIATE") else { return true };
            let error = self.report(&error);
            if error != LedgerError::Busy {
                self.answer_waiting(&error);
                return false;
            }
            self.answer_expired();
            thread::sleep(Duration::from_millis(limits::LOCK_POLL_MS));
            self.join();
        }
    }

    /// Answers those for whom a transaction would be in vain.
    fn refuse(&mut self) {
        if let Some(lost) = self.lost.clone() {
            self.answer_waiting(&lost);
        } else if !self.waiting.is_empty() && !self.files.in_place() {
            self.answer_waiting(&LedgerError::Moved);
        } else if self.waiting.iter().any(|job| job.need == Need::Claim)
            && !self.ballast.allows_claims()
        {
            self.answer_those(&LedgerError::Full, |job| job.need == Need::Claim);
        }
    }

    fn answer_waiting(&mut self, error: &LedgerError) {
        answer_all(self.waiting.drain(..), &Err(error.clone()));
    }

    fn answer_expired(&mut self) {
        let now = Instant::now();
        self.answer_those(&LedgerError::Busy, |job| job.deadline <= now);
    }

    fn answer_those(&mut self, error: &LedgerError, those: impl Fn(&Job) -> bool) {
        let (those, others): (VecDeque<_>, VecDeque<_>) = self.waiting.drain(..).partition(those);
        answer_all(those, &Err(error.clone()));
        self.waiting = others;
    }

    /// Runs one batch in the transaction that has begun.
    fn commit(&mut self) {
        let begun = Instant::now();
        let mut batch = self.batch();
        let ran = batch.iter_mut().try_for_each(|job| job.task.run(&self.con));
        let done = ran.and_then(|()| self.con.execute_batch("COMMIT"));
        let took = begun.elapsed();
        let outcome = match done {
            Err(error) => Err(self.report(&error)),
            // Replaced while we wrote: what was committed is in no ledger that anybody will read.
            Ok(()) if !self.files.in_place() => Err(LedgerError::Moved),
            Ok(()) => Ok(()),
        };
        self.roll_back();
        match outcome {
            Ok(()) => {
                let size = batch.len();
                answer_all(batch, &Ok(()));
                if let Some(observer) = &self.hooks.committed {
                    observer(took, size);
                }
                self.cut_log();
            }
            Err(error) => self.failed(batch, &error),
        }
    }

    /// Empties a log that has grown long. SQLite writes a log from its beginning again only when it finds nobody reading in it,
    /// and between the commits of a busy relay and a purge beside it that may never be. This holds the writers up for a moment,
    /// so that the readers leave it.
    fn cut_log(&mut self) {
        let pause = Duration::from_secs(limits::WAL_CUT_PAUSE_SECS);
        if self.files.log_bytes() <= limits::WAL_BYTES_KEPT
            || self.cut.is_some_and(|cut| cut.elapsed() < pause)
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

    fn batch(&mut self) -> Vec<Job> {
        let together = self.waiting.iter().take_while(|job| !job.alone).count();
        let size = together.clamp(1, limits::BATCH_OPERATIONS_MAX);
        self.waiting.drain(..size).collect()
    }

    /// The batch was rolled back. Who shared it is tried alone, and so is a result for which the ballast made room; whoever
    /// else was alone is answered.
    fn failed(&mut self, batch: Vec<Job>, error: &LedgerError) {
        let shared = batch.len() > 1;
        let made_room = *error == LedgerError::Full
            && batch.iter().any(|job| job.need == Need::Result)
            && self.ballast.release();
        for job in batch.into_iter().rev() {
            let again = match error {
                LedgerError::SyncFailed(_) | LedgerError::Moved | LedgerError::Closed => false,
                LedgerError::Full => job.need != Need::Claim && (shared || made_room),
                LedgerError::Busy | LedgerError::ReadOnly(_) | LedgerError::Failed(_) => shared,
            };
            if again {
                self.waiting.push_front(Job { alone: true, ..job });
            } else {
                job.task.answer(Err(error.clone()));
            }
        }
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

fn answer_all(jobs: impl IntoIterator<Item = Job>, outcome: &Result<(), LedgerError>) {
    for job in jobs {
        job.task.answer(outcome.clone());
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
