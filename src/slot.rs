//! Where one thread waits for one value of another: half of what a channel costs.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// One thread takes from it, any other puts. What is put before the last value was taken replaces it.
pub(crate) struct Slot<T> {
    value: Mutex<Option<T>>,
    waits: Thread,
}

impl<T> Slot<T> {
    /// For the calling thread.
    pub(crate) fn new() -> Arc<Slot<T>> {
        Arc::new(Slot { value: Mutex::new(None), waits: thread::current() })
    }

    pub(crate) fn put(&self, value: T) {
        *self.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        self.waits.unpark();
    }

    /// Blocks until there is one.
    pub(crate) fn take(&self) -> T {
        loop {
            if let Some(value) = self.there() {
                return value;
            }
            thread::park();
        }
    }

    /// Blocks until there is one, but not for longer than `patience`.
    pub(crate) fn take_within(&self, patience: Duration) -> Option<T> {
        let end = Instant::now() + patience;
        loop {
            let value = self.there();
            let left = end.saturating_duration_since(Instant::now());
            if value.is_some() || left.is_zero() {
                return value;
            }
            thread::park_timeout(left);
        }
    }

    fn there(&self) -> Option<T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
