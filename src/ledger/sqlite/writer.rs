//! Group commit: one thread writes, everyone who came meanwhile shares its transaction and its fsync. Who comes when nobody
//! writes commits for itself, which saves waking two threads.
//!
//! If a batch fails, it is rolled back as a whole and each of its jobs is tried alone, so that one bad job does not spoil its
//! neighbours. Knows no SQL and no files: those are the [`Committer`]'s.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::ballast::Need;
use super::committer::{Alarm, Committer, Watch};
use super::job::{InLine, Job, Line};
use super::open::{Beside, Files};
use crate::clock::Clock;
use crate::ledger::LedgerError;
use crate::limits;
use crate::slot::Slot;

/// The writer's handle. Dropping it lets the thread end what it has and waits for it.
pub(super) struct Writer {
    committer: Arc<Mutex<Committer>>,
    alarm: Arc<Alarm>,
    line: Line,
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(
        con: Connection,
        clock: Arc<dyn Clock>,
        files: Files,
        beside: Beside,
        mut hooks: super::Hooks,
    ) -> io::Result<Writer> {
        let (jobs, queue) = sync_channel(limits::WRITER_QUEUE_OPERATIONS_MAX);
        let alarm = Alarm::new(hooks.sync_failed.take());
        let committer =
            Committer::new(con, clock, files, beside, hooks.committed.take(), Arc::clone(&alarm));
        let (committer, line) = (Arc::new(Mutex::new(committer)), Line::default());
        let work = Loop {
            committer: Arc::clone(&committer),
            queue,
            waiting: VecDeque::new(),
            later: Vec::new(),
            later_from: Instant::now(),
            beginning: Some(line.join()),
            _watch: Watch(Arc::clone(&alarm)),
        };
        let thread =
            thread::Builder::new().name("ledger-writer".to_owned()).spawn(move || work.run())?;
        Ok(Writer { committer, alarm, line, jobs: Some(jobs), thread: Some(thread) })
    }

    /// Runs `work` in a transaction; returns its value once COMMIT has returned. `work` may run more than once: it must not
    /// have effects outside the connection.
    pub(super) fn run<T: Send + 'static>(
        &self,
        need: Need,
        deadline: Instant,
        work: impl Fn(&Connection, &str) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let slot = Slot::new();
        let told = Arc::clone(&slot);
        self.ask(Job::new(need, deadline, work, move |outcome| told.put(outcome)));
        slot.take()
    }

    /// Has the job done. Whom it tells, it tells on this thread or on the writer's.
    pub(super) fn ask(&self, job: Job) {
        let mut job = match self.alone(job) {
            Ok(done) => return done.answer(Ok(())),
            Err(job) => job,
        };
        job.place = Some(self.line.join());
        if let Some(jobs) = &self.jobs {
            // Without a thread to take it, it is dropped and says `Closed`.
            let _ = jobs.send(job);
        }
    }

    /// Has the job done on the writer's thread, and never waits: if too many are in line, it is told so at once.
    pub(super) fn leave(&self, mut job: Job) {
        job.place = Some(self.line.join());
        let Some(jobs) = &self.jobs else { return };
        if let Err(TrySendError::Full(job)) = jobs.try_send(job) {
            job.answer(Err(LedgerError::Busy));
        }
    }

    /// While nobody writes and nobody waits, the caller commits by itself. What does not succeed is the thread's to try again.
    fn alone(&self, job: Job) -> Result<Job, Job> {
        if !self.line.is_empty() {
            return Err(job);
        }
        let _watch = Watch(Arc::clone(&self.alarm));
        match self.committer.try_lock() {
            Ok(mut committer) => committer.alone(job),
            Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => Err(job),
        }
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

struct Loop {
    committer: Arc<Mutex<Committer>>,
    queue: Receiver<Job>,
    /// Taken from the queue, not answered yet. All of them, not just a batch: time runs out for each of them.
    waiting: VecDeque<Job>,
    /// Results that could not be written and have time left.
    later: Vec<Job>,
    /// When they are tried again.
    later_from: Instant,
    /// Keeps callers from committing by themselves until there has been a look at what lies beside the ledger.
    beginning: Option<InLine>,
    _watch: Watch,
}

impl Loop {
    fn run(mut self) {
        let committer = Arc::clone(&self.committer);
        loop {
            // Somebody has panicked in the middle of a transaction. That has been told; who waits gets `Closed`.
            let Ok(mut committer) = committer.lock() else { return };
            self.join();
            committer.look_after();
            self.beginning = None;
            if self.begin(&mut committer) {
                self.commit(&mut committer);
            }
            drop(committer);
            if !self.gather() {
                return;
            }
        }
    }

    /// Waits for work; false: nobody can ask any more, and everyone has been answered.
    fn gather(&mut self) -> bool {
        if !self.waiting.is_empty() {
            return true;
        }
        let wait = if self.later.is_empty() {
            Duration::from_secs(limits::WRITER_IDLE_SECS)
        } else {
            self.later_from.saturating_duration_since(Instant::now())
        };
        match self.queue.recv_timeout(wait) {
            Ok(job) => self.waiting.push_back(job),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) if self.later.is_empty() => return false,
            Err(RecvTimeoutError::Disconnected) => thread::sleep(wait),
        }
        true
    }

    /// Takes all there is.
    fn join(&mut self) {
        if Instant::now() >= self.later_from {
            self.waiting.extend(self.later.drain(..));
        }
        let room = limits::WRITER_QUEUE_OPERATIONS_MAX.saturating_sub(self.waiting.len());
        self.waiting.extend(self.queue.try_iter().take(room));
    }

    /// Begins a transaction. While another process holds the lock, whose time is up is answered, and others join. False:
    /// everyone who waited has been answered, or waits for a better time.
    fn begin(&mut self, committer: &mut MutexGuard<'_, Committer>) -> bool {
        loop {
            self.refuse(committer);
            if self.waiting.is_empty() {
                return false;
            }
            let Err(error) = committer.begin() else { return true };
            if error != LedgerError::Busy {
                self.give_up(&error);
                return false;
            }
            let now = Instant::now();
            self.answer_those(&error, |job| job.deadline <= now);
            thread::sleep(Duration::from_millis(limits::LOCK_POLL_MS));
            self.join();
        }
    }

    /// Answers those for whom a transaction would be in vain.
    fn refuse(&mut self, committer: &mut Committer) {
        if self.waiting.is_empty() {
            return;
        }
        if let Some(hindrance) = committer.hindrance() {
            self.give_up(&hindrance);
        } else if self.waiting.iter().any(|job| job.need == Need::Claim)
            && !committer.allows_claims()
        {
            self.answer_those(&LedgerError::Full, |job| job.need == Need::Claim);
        }
    }

    /// Nobody can be helped now.
    fn give_up(&mut self, error: &LedgerError) {
        for job in std::mem::take(&mut self.waiting) {
            self.put_off(job, error);
        }
    }

    /// Keeps what is worth another try in a moment, and answers what is not.
    fn put_off(&mut self, job: Job, error: &LedgerError) {
        if job.is_patient(error) {
            self.later.push(job.set_apart());
            self.later_from = Instant::now() + Duration::from_millis(limits::RECORD_PAUSE_MS);
        } else {
            job.answer(Err(error.clone()));
        }
    }

    fn answer_those(&mut self, error: &LedgerError, those: impl Fn(&Job) -> bool) {
        let (those, others): (VecDeque<_>, VecDeque<_>) = self.waiting.drain(..).partition(those);
        self.waiting = others;
        for job in those {
            job.answer(Err(error.clone()));
        }
    }

    /// Runs one batch in the transaction that has begun.
    fn commit(&mut self, committer: &mut Committer) {
        let mut batch = self.batch();
        match committer.transact(&mut batch) {
            Ok(()) => batch.into_iter().for_each(|job| job.answer(Ok(()))),
            Err(error) => self.failed(batch, &error, committer),
        }
    }

    fn batch(&mut self) -> Vec<Job> {
        let together = self.waiting.iter().take_while(|job| !job.alone).count();
        let size = together.clamp(1, limits::BATCH_OPERATIONS_MAX);
        self.waiting.drain(..size).collect()
    }

    /// The batch was rolled back. Who shared it is tried alone, and so is a result for which the ballast made room.
    fn failed(&mut self, batch: Vec<Job>, error: &LedgerError, committer: &mut Committer) {
        let shared = batch.len() > 1;
        let made_room = *error == LedgerError::Full
            && batch.iter().any(|job| job.need == Need::Result)
            && committer.make_room();
        for job in batch.into_iter().rev() {
            let again = match error {
                LedgerError::SyncFailed(_) | LedgerError::Moved | LedgerError::Closed => false,
                LedgerError::Full => job.need != Need::Claim && (shared || made_room),
                LedgerError::Busy | LedgerError::ReadOnly(_) | LedgerError::Failed(_) => shared,
            };
            if again {
                self.waiting.push_front(job.set_apart());
            } else {
                self.put_off(job, error);
            }
        }
    }
}
