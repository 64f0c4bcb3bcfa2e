//! How many calls may be in flight, and the end of it: one counter that also knows when the last one has left.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Lets calls in until it is full or closed.
#[derive(Debug)]
pub struct Gate {
    calls_max: usize,
    state: Mutex<State>,
    left: Condvar,
}

#[derive(Debug)]
struct State {
    inside: usize,
    open: bool,
    /// Somebody waits for the last one to leave: only at the end, and waking nobody would cost a system call each time.
    awaited: bool,
}

/// One call in flight, from before its claim until its reply has left. Dropping it makes room.
#[derive(Debug)]
pub struct Permit(Arc<Gate>);

impl Gate {
    /// An open gate for at most `calls_max` at once.
    #[must_use]
    pub fn new(calls_max: usize) -> Arc<Gate> {
        let state = Mutex::new(State { inside: 0, open: true, awaited: false });
        Arc::new(Gate { calls_max, state, left: Condvar::new() })
    }

    /// Goes in; none if it is full or closed.
    #[must_use]
    pub fn enter(self: &Arc<Gate>) -> Option<Permit> {
        let mut state = self.state();
        if !state.open || state.inside >= self.calls_max {
            return None;
        }
        state.inside += 1;
        Some(Permit(Arc::clone(self)))
    }

    /// How many are inside.
    #[must_use]
    pub fn inside(&self) -> usize {
        self.state().inside
    }

    /// From now on nobody gets in.
    pub fn close(&self) {
        self.state().open = false;
    }

    /// Whether it has been closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        !self.state().open
    }

    /// Waits until nobody is inside; false if somebody still is after `wait`.
    #[must_use]
    pub fn wait_empty(&self, wait: Duration) -> bool {
        let end = Instant::now() + wait;
        let mut state = self.state();
        while state.inside > 0 {
            state.awaited = true;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.left.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.inside -= 1;
        if state.inside == 0 && state.awaited {
            self.0.left.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_full_at_its_limit_and_has_room_again_when_one_leaves() {
        let gate = Gate::new(2);
        let (first, second) = (gate.enter(), gate.enter());
        assert!(first.is_some() && second.is_some() && gate.enter().is_none());
        drop(first);
        assert!(gate.enter().is_some());
    }

    #[test]
    fn a_closed_gate_lets_nobody_in_and_waits_for_who_is_inside() {
        let gate = Gate::new(2);
        let inside = gate.enter();
        gate.close();
        assert!(gate.enter().is_none());
        assert!(!gate.wait_empty(Duration::ZERO));
        let leaver = std::thread::spawn(move || drop(inside));
        assert!(gate.wait_empty(Duration::from_secs(10)));
        assert!(leaver.join().is_ok());
    }
}
