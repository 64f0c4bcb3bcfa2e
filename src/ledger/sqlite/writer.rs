//! Group commit: one thread writes, everyone who came meanwhile shares its transaction and its fsync.
//!
//! A claim is answered only after COMMIT has returned: what was answered is on disk. If a batch fails, it is rolled back as a
//! whole and each of its jobs is tried alone, so that one bad job does not spoil its neighbours. Knows no SQL but BEGIN,
//! COMMIT and ROLLBACK.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, ffi};

use super::open::FileId;
use crate::ledger::LedgerError;
use crate::limits;

/// Is told of each commit: how long it took (the sync included), how many operations shared it.
pub type CommitObserver = Box<dyn Fn(Duration, usize) + Send>;

/// Is told that fsync failed.
pub type SyncFailure = Box<dyn Fn(&LedgerError) + Send>;

/// The writer thread's handle. Dropping it lets the thread end what it has and waits for it.
pub(super) struct Writer {
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(
        con: Connection,
        path: PathBuf,
        file: FileId,
        hooks: super::Hooks,
    ) -> Writer {
        let (jobs, queue) = sync_channel(limits::WRITER_QUEUE_OPERATIONS_MAX);
        let work = Loop { con, path, file, hooks, queue };
        let thread = thread::Builder::new()
            .name("ledger-writer".to_owned())
            .spawn(move || work.run())
            .expect("a thread for the ledger's writer can be started");
        Writer { jobs: Some(jobs), thread: Some(thread) }
    }

    /// Runs `work` in a transaction; returns its value once COMMIT has returned. `work` may run more than once: it must not
    /// have effects outside the connection.
    pub(super) fn run<T: Send + 'static>(
        &self,
        deadline: Instant,
        work: impl Fn(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let (answer, wait) = sync_channel(1);
        let task = Box::new(Task { work, value: None, answer });
        let jobs = self.jobs.as_ref().ok_or(LedgerError::Closed)?;
        jobs.send(Job { deadline, task }).map_err(|_| LedgerError::Closed)?;
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
    /// When it is to be answered `Busy`, if the lock could not be had by then.
    deadline: Instant,
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
    path: PathBuf,
    file: FileId,
    hooks: super::Hooks,
    queue: Receiver<Job>,
}

impl Loop {
    fn run(self) {
        while let Ok(first) = self.queue.recv() {
            let mut batch = vec![first];
            self.gather(&mut batch);
            self.commit(batch);
        }
    }

    /// Takes what has come meanwhile, as much as one commit may carry.
    fn gather(&self, batch: &mut Vec<Job>) {
        while batch.len() < limits::BATCH_OPERATIONS_MAX {
            match self.queue.try_recv() {
                Ok(job) => batch.push(job),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
            }
        }
    }

    fn commit(&self, batch: Vec<Job>) {
        let Some(mut batch) = self.begin(batch, true) else { return };
        let start = Instant::now();
        if batch.iter_mut().any(|job| job.task.run(&self.con).is_err()) {
            self.roll_back();
            for job in batch {
                self.commit_alone(job);
            }
            return;
        }
        let size = batch.len();
        let outcome = self.end();
        if let (Ok(()), Some(observer)) = (&outcome, &self.hooks.committed) {
            observer(start.elapsed(), size);
        }
        answer_all(batch, &outcome);
    }

    fn commit_alone(&self, job: Job) {
        let Some(mut batch) = self.begin(vec![job], false) else { return };
        let outcome = batch.iter_mut().try_for_each(|job| job.task.run(&self.con));
        let outcome = match outcome {
            Ok(()) => self.end(),
            Err(error) => {
                self.roll_back();
                Err(self.report(&error))
            }
        };
        answer_all(batch, &outcome);
    }

    /// Begins a transaction for the batch. While another process holds the lock, jobs whose time is up are answered, and (if
    /// `open`) others may join. None: everyone has been answered.
    fn begin(&self, mut batch: Vec<Job>, open: bool) -> Option<Vec<Job>> {
        loop {
            if !self.file.is_at(&self.path) {
                answer_all(batch, &Err(LedgerError::Moved));
                return None;
            }
            let error = match self.con.execute_batch("BEGIN IMMEDIATE") {
                Ok(()) => return Some(batch),
                Err(error) => self.report(&error),
            };
            if error != LedgerError::Busy {
                answer_all(batch, &Err(error));
                return None;
            }
            batch = answer_expired(batch);
            if batch.is_empty() {
                return None;
            }
            thread::sleep(Duration::from_millis(limits::LOCK_POLL_MS));
            if open {
                self.gather(&mut batch);
            }
        }
    }

    fn end(&self) -> Result<(), LedgerError> {
        self.con.execute_batch("COMMIT").map_err(|error| {
            let error = self.report(&error);
            self.roll_back();
            error
        })
    }

    /// After an error SQLite may have rolled back by itself; a ROLLBACK more would be an error of its own.
    fn roll_back(&self) {
        if !self.con.is_autocommit()
            && let Err(error) = self.con.execute_batch("ROLLBACK")
        {
            self.report(&error);
        }
    }

    fn report(&self, error: &rusqlite::Error) -> LedgerError {
        let error = name(error);
        if let (LedgerError::SyncFailed(_), Some(stop)) = (&error, &self.hooks.sync_failed) {
            stop(&error);
        }
        error
    }
}

fn answer_all(batch: Vec<Job>, outcome: &Result<(), LedgerError>) {
    for job in batch {
        job.task.answer(outcome.clone());
    }
}

fn answer_expired(batch: Vec<Job>) -> Vec<Job> {
    let now = Instant::now();
    let (expired, waiting) = batch.into_iter().partition(|job| job.deadline <= now);
    answer_all(expired, &Err(LedgerError::Busy));
    waiting
}

/// What an SQLite error means for the ledger.
pub(super) fn name(error: &rusqlite::Error) -> LedgerError {
    let Some(cause) = error.sqlite_error() else { return LedgerError::Failed(error.to_string()) };
    match cause.extended_code {
        ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC => {
            return LedgerError::SyncFailed(error.to_string());
        }
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
