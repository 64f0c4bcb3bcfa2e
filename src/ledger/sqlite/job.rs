//! What is asked of the writer, and how its answer comes back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use rusqlite::Connection;

use super::ballast::Need;
use crate::ledger::LedgerError;

/// Some work inside a transaction, and whom to tell.
pub(super) struct Job {
    /// What it may do when the disk is full.
    pub(super) need: Need,
    /// When it is to be answered, if the lock could not be had, or a result not be written, by then.
    pub(super) deadline: Instant,
    /// It was in a batch that failed, so it shares no transaction any more.
    pub(super) alone: bool,
    /// None: its caller tries it at once.
    pub(super) place: Option<InLine>,
    task: Box<dyn Task + Send>,
}

impl Job {
    /// `work` may run more than once: it must not have effects outside the connection. `then` is called exactly once, after
    /// COMMIT has returned, on whichever thread that was; with `Closed` if the job is dropped.
    pub(super) fn new<T: Send + 'static>(
        need: Need,
        deadline: Instant,
        work: impl Fn(&Connection, &str) -> rusqlite::Result<T> + Send + 'static,
        then: impl FnOnce(Result<T, LedgerError>) + Send + 'static,
    ) -> Job {
        let task = Box::new(Pending { work: Some(work), value: None, then: Some(then) });
        Job { need, deadline, alone: false, place: None, task }
    }

    /// Inside the transaction; `now` is its time.
    pub(super) fn run(&mut self, con: &Connection, now: &str) -> rusqlite::Result<()> {
        self.task.run(con, now)
    }

    /// From now on it shares no transaction.
    pub(super) fn set_apart(self) -> Job {
        Job { alone: true, ..self }
    }

    pub(super) fn answer(mut self, outcome: Result<(), LedgerError>) {
        // Its caller may ask again at once, and is then not to find itself in line.
        self.place = None;
        self.task.answer(outcome);
    }

    /// Whether it is worth trying again in a moment: the money may have moved, and a disk may have room again soon.
    pub(super) fn is_patient(&self, error: &LedgerError) -> bool {
        self.need == Need::Result
            && matches!(
                error,
                LedgerError::Full | LedgerError::ReadOnly(_) | LedgerError::Failed(_)
            )
            && Instant::now() < self.deadline
    }
}

/// A job whose value's type is its own business.
trait Task {
    fn run(&mut self, con: &Connection, now: &str) -> rusqlite::Result<()>;
    fn answer(&mut self, outcome: Result<(), LedgerError>);
}

struct Pending<T, W, A: FnOnce(Result<T, LedgerError>)> {
    work: Option<W>,
    value: Option<T>,
    then: Option<A>,
}

impl<T, W, A> Task for Pending<T, W, A>
where
    W: Fn(&Connection, &str) -> rusqlite::Result<T>,
    A: FnOnce(Result<T, LedgerError>),
{
    fn run(&mut self, con: &Connection, now: &str) -> rusqlite::Result<()> {
        self.value = self.work.as_ref().map(|work| work(con, now)).transpose()?;
        Ok(())
    }

    fn answer(&mut self, outcome: Result<(), LedgerError>) {
        // What the work holds, `then` may want back.
        self.work = None;
        let Some(then) = self.then.take() else { return };
        let value = self.value.take();
        let outcome = outcome.and_then(|()| value.ok_or(LedgerError::Closed));
        // A panic there has been reported by the panic hook. It concerns the one who asked, not those who still wait.
        let _ = catch_unwind(AssertUnwindSafe(|| then(outcome)));
    }
}

impl<T, W, A: FnOnce(Result<T, LedgerError>)> Drop for Pending<T, W, A> {
    fn drop(&mut self) {
        if let Some(then) = self.then.take() {
            let _ = catch_unwind(AssertUnwindSafe(|| then(Err(LedgerError::Closed))));
        }
    }
}

/// How many jobs wait for the writer's thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Line(Arc<AtomicUsize>);

impl Line {
    /// A guess, as everything that others may change in the next moment.
    pub(super) fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    pub(super) fn join(&self) -> InLine {
        self.0.fetch_add(1, Ordering::Relaxed);
        InLine(self.clone())
    }
}

/// A job's place in the line.
pub(super) struct InLine(Line);

impl Drop for InLine {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
