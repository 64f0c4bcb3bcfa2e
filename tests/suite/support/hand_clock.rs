//! A monotonic clock that a test moves by hand.

use std::sync::Mutex;
use std::time::Duration;

use chrono::{DateTime, Utc};
use oncegate::clock::Clock;

/// Stands until it is moved; its wall clock stands at the beginning of 1970.
#[derive(Debug, Default)]
pub struct HandClock(Mutex<Duration>);

impl HandClock {
    /// Moves it on.
    pub fn forward(&self, by: Duration) {
        *self.0.lock().expect("no test panics while it holds this") += by;
    }
}

impl Clock for HandClock {
    fn now(&self) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH
    }

    fn monotonic(&self) -> Duration {
        *self.0.lock().expect("no test panics while it holds this")
    }
}
