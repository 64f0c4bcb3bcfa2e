//! The one place that asks the machine for the time. Everything else takes times as values or a [`Clock`].

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

/// Wall clock and monotonic clock. The wall clock may jump: what it says is shown and stored, and never makes a payment safe.
pub trait Clock: Send + Sync {
    /// The wall clock, UTC.
    fn now(&self) -> DateTime<Utc>;
    /// Time since some fixed point; never goes back.
    fn monotonic(&self) -> Duration;
}

/// The machine's clocks.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time counts from now.
    #[must_use]
    pub fn new() -> SystemClock {
        SystemClock { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}
