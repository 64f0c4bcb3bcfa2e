//! The one place that asks the machine for the time. Everything else takes times as values or a [`Clock`].

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

/// Wall clock and monotonic clock. The wall clock may jump: what it says is shown and stored, and never makes a payment safe.
pub trait Clock: Send + Sync {
    /// The wall clock, UTC.
    fn now(&self) -> DateTime<Utc>;
    /// Time since some fixed point; never goes back.
    fn monotonic(&self) -> Duration;
    /// A clock that neither jumps nor starts anew while the machine runs: every process of the machine reads the same. Without
    /// one, the monotonic clock of this process alone.
    fn uptime(&self) -> Uptime {
        Uptime { run: "this clock's own".to_owned(), since: self.monotonic() }
    }
}

/// How long this run of the machine has lasted, sleep included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uptime {
    /// The name of the run. Readings under two names can't be compared.
    pub run: String,
    /// Time since its beginning.
    pub since: Duration,
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

    fn uptime(&self) -> Uptime {
        match machine_run() {
            Some(run) => Uptime { run: run.to_owned(), since: since_boot() },
            None => Uptime { run: process_run().to_owned(), since: process_start().elapsed() },
        }
    }
}

/// The name that Linux gives to each of its starts, and that of our view of its clocks: a container may have one of its own.
fn machine_run() -> Option<&'static str> {
    static RUN: OnceLock<Option<String>> = OnceLock::new();
    let read = || {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let view = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
        Some(format!("{} {}", boot.trim(), view.display()).trim_end().to_owned())
    };
    RUN.get_or_init(read).as_deref()
}

#[cfg(target_os = "linux")]
fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(not(target_os = "linux"))]
fn since_boot() -> Duration {
    process_start().elapsed()
}

fn process_run() -> &'static str {
    static RUN: OnceLock<String> = OnceLock::new();
    RUN.get_or_init(|| {
        format!("process {} of {}", std::process::id(), Utc::now().timestamp_micros())
    })
}

fn process_start() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now)
}
