//! The threads that call the core: a call blocks, and the front that reads for all channels must not.
//!
//! There are never fewer of them than telegrams under way, so nothing is claimed for which there would be nobody to call. Whoever
//! was idle last works next: its stack is still warm, and those at the bottom of the pile end after a while.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::limits;
use crate::slot::Slot;

/// What a caller does for one telegram.
type Work = Box<dyn FnOnce() + Send>;

/// All of them.
pub struct Callers(Option<Arc<House>>);

/// A caller for one telegram, when it needs one.
pub struct Promise(Option<Arc<House>>);

struct House {
    state: Mutex<State>,
    /// How long a caller may have nothing to do before it ends.
    idle: Duration,
    stack_bytes: usize,
}

#[derive(Default)]
struct State {
    /// Telegrams that may need a caller.
    promised: usize,
    /// Callers there are or that are just being added, idle or not. Never fewer than promised.
    threads: usize,
    /// Where those wait that have nothing to do; the last one came last.
    idle: Vec<Arc<Slot<Work>>>,
    /// Work for callers that are just coming back. Empty while somebody is idle.
    waiting: VecDeque<Work>,
}

impl Default for Callers {
    fn default() -> Callers {
        Callers::with(limits::CALLER_IDLE, limits::CALLER_STACK_BYTES)
    }
}

impl Callers {
    fn with(idle: Duration, stack_bytes: usize) -> Callers {
        Callers(Some(Arc::new(House { state: Mutex::default(), idle, stack_bytes })))
    }

    /// No threads: whoever has to do with a telegram calls, too. For one who can wait.
    #[must_use]
    pub fn none() -> Callers {
        Callers(None)
    }

    /// Makes sure of a caller. Errors: a thread more can't be had.
    pub fn promise(&self) -> io::Result<Promise> {
        if let Some(house) = &self.0 {
            house.promise()?;
        }
        Ok(Promise(self.0.clone()))
    }
}

impl Promise {
    /// Has a caller do it.
    pub fn call(self, work: impl FnOnce() + Send + 'static) {
        let Some(house) = self.0.clone() else { return work() };
        house.give(Box::new(move || {
            work();
            drop(self);
        }));
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if let Some(house) = &self.0 {
            house.state().promised -= 1;
        }
    }
}

impl House {
    fn promise(self: &Arc<House>) -> io::Result<()> {
        let mut state = self.state();
        state.promised += 1;
        if state.promised <= state.threads {
            return Ok(());
        }
        state.threads += 1;
        // Not with the lock in hand: a thread takes the system longer than anything here takes us.
        drop(state);
        self.add_thread().inspect_err(|_| {
            let mut state = self.state();
            state.threads -= 1;
            state.promised -= 1;
        })
    }

    fn add_thread(self: &Arc<House>) -> io::Result<()> {
        let house = Arc::clone(self);
        let thread = thread::Builder::new().name("caller".to_owned());
        thread.stack_size(self.stack_bytes).spawn(move || house.serve())?;
        Ok(())
    }

    fn give(&self, work: Work) {
        let mut state = self.state();
        if let Some(slot) = state.idle.pop() {
            // Not with the lock in hand: whoever wakes up would wait for it next.
            drop(state);
            slot.put(work);
        } else {
            state.waiting.push_back(work);
        }
    }

    /// A caller's life.
    fn serve(&self) {
        let own = Slot::new();
        while let Some(work) = self.next(&own) {
            // A panic has been reported by the panic hook. It concerns one telegram, whose claim is then given up to the sweep.
            let _ = catch_unwind(AssertUnwindSafe(work));
        }
    }

    /// Waits for work; none: this thread is one too many, and has been struck off.
    fn next(&self, own: &Arc<Slot<Work>>) -> Option<Work> {
        let mut state = self.state();
        if let Some(work) = state.waiting.pop_front() {
            return Some(work);
        }
        state.idle.push(Arc::clone(own));
        drop(state);
        loop {
            if let Some(work) = own.take_within(self.idle) {
                return Some(work);
            }
            let mut state = self.state();
            if state.threads == state.promised {
                continue;
            }
            // Who is not among the idle has been given work in this moment.
            if let Some(at) = state.idle.iter().position(|slot| Arc::ptr_eq(slot, own)) {
                state.idle.remove(at);
                state.threads -= 1;
                return None;
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn state(callers: &Callers) -> MutexGuard<'_, State> {
        callers.0.as_ref().expect("they have threads").state()
    }

    #[test]
    fn each_promise_is_kept_at_once_however_many_wait_for_each_other() {
        let callers = Callers::default();
        let promises: Vec<Promise> =
            (0..50).map(|_| callers.promise().expect("a thread")).collect();
        let barrier = Arc::new(std::sync::Barrier::new(51));
        for promise in promises {
            let barrier = Arc::clone(&barrier);
            promise.call(move || {
                barrier.wait();
            });
        }
        barrier.wait();
        assert_eq!(state(&callers).threads, 50);
    }

    /// A promise ends a moment after its work.
    fn wait_until_all_are_kept(callers: &Callers) {
        let end = Instant::now() + SOON;
        while state(callers).promised > 0 {
            assert!(Instant::now() < end, "a promise is left");
            thread::yield_now();
        }
    }

    #[test]
    fn who_is_idle_works_again_before_a_thread_is_added() {
        let callers = Callers::default();
        for n in 0..100 {
            let (done, is_done) = mpsc::channel();
            let promise = callers.promise().expect("a thread");
            promise.call(move || done.send(n).expect("it is waited for"));
            assert_eq!(is_done.recv_timeout(SOON), Ok(n));
            wait_until_all_are_kept(&callers);
        }
        assert_eq!(state(&callers).threads, 1);
    }

    #[test]
    fn where_no_thread_can_be_had_nothing_is_promised_and_none_is_counted() {
        let callers = Callers::with(limits::CALLER_IDLE, usize::MAX / 2);
        for _ in 0..3 {
            assert!(callers.promise().is_err());
        }
        let state = state(&callers);
        assert_eq!((state.promised, state.threads), (0, 0));
    }

    #[test]
    fn a_caller_that_panics_works_on_and_its_promise_ends() {
        let callers = Callers::default();
        let (done, is_done) = mpsc::channel();
        for n in 0..3 {
            let done = done.clone();
            let promise = callers.promise().expect("a thread");
            promise.call(move || {
                done.send(n).expect("it is waited for");
                panic!("on purpose");
            });
            assert_eq!(is_done.recv_timeout(SOON), Ok(n));
            wait_until_all_are_kept(&callers);
        }
        assert_eq!(state(&callers).threads, 1);
    }

    /// Callers that end and telegrams that come cross each other all the time here; no work may be lost between them.
    #[test]
    fn who_has_nothing_to_do_ends_and_takes_no_work_along() {
        let callers = Callers::with(Duration::from_micros(50), limits::CALLER_STACK_BYTES);
        let (done, is_done) = mpsc::channel();
        for n in 0..2_000 {
            let done = done.clone();
            let promise = callers.promise().expect("a thread");
            promise.call(move || done.send(n).expect("it is waited for"));
            if n % 7 == 0 {
                thread::sleep(Duration::from_micros(60));
            }
        }
        let mut all: Vec<i32> =
            (0..2_000).map(|_| is_done.recv_timeout(SOON).expect("it was done")).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..2_000));
        let end = Instant::now() + SOON;
        while state(&callers).threads > 0 {
            assert!(Instant::now() < end, "{} callers are left", state(&callers).threads);
            thread::yield_now();
        }
    }
}
