//! Notes on the wall clock: what it was set to while somebody looked. Kept in the ledger, because whoever judges an age must know
//! of jumps that others have seen.
//!
//! Knows nothing of ages; `engine::age` counts with these notes.

use chrono::{DateTime, TimeDelta, Utc};

use crate::clock::Clock;
use crate::limits;

/// A look at the clocks that was worth a note: the first one of a run of the machine, or one that saw a jump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockNote {
    /// When, by the wall clock after the jump, to the second.
    pub at: DateTime<Utc>,
    /// How far it has jumped forward (negative: back) since the last note of this run, rounded up; 0 in the first one.
    pub seconds: i64,
    /// The run of the machine.
    pub run: String,
    /// By how much the wall clock is ahead of the time since the machine's start.
    pub ahead_ms: i64,
    /// Who looked.
    pub seen_by: String,
}

/// A look at the clocks, not yet compared with anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockLook {
    /// The wall clock.
    pub now: DateTime<Utc>,
    run: String,
    ahead_ms: i64,
}

impl ClockLook {
    /// Looks.
    #[must_use]
    pub fn at(clock: &dyn Clock) -> ClockLook {
        let (now, uptime) = (clock.now(), clock.uptime());
        let since_ms = i64::try_from(uptime.since.as_millis()).unwrap_or(i64::MAX);
        let ahead_ms = now.timestamp_millis().saturating_sub(since_ms);
        ClockLook { now, run: uptime.run, ahead_ms }
    }

    /// The last note of this run of the machine.
    #[must_use]
    pub fn last<'a>(&self, notes: &'a [ClockNote]) -> Option<&'a ClockNote> {
        notes.iter().rev().find(|note| note.run == self.run)
    }

    /// What is to be noted; none if the clock is as it was noted last.
    #[must_use]
    pub fn note(&self, last: Option<&ClockNote>, seen_by: &str) -> Option<ClockNote> {
        let moved_ms = last.map_or(0, |last| self.ahead_ms.saturating_sub(last.ahead_ms));
        if last.is_some() && moved_ms.abs() < limits::CLOCK_JUMP_MS_MIN {
            return None;
        }
        Some(ClockNote {
            at: self.now,
            // Up, so that an age is never counted too long.
            seconds: moved_ms.saturating_add(999).div_euclid(1_000),
            run: self.run.clone(),
            ahead_ms: self.ahead_ms,
            seen_by: seen_by.to_owned(),
        })
    }
}

impl ClockNote {
    /// What the clock could have said at most just before the jump. Times are kept to the second: two of them are room for that.
    #[must_use]
    pub fn before_at_most(&self) -> DateTime<Utc> {
        let jump = TimeDelta::try_seconds(self.seconds.saturating_sub(2)).unwrap_or_default();
        self.at.checked_sub_signed(jump).unwrap_or(self.at)
    }
}
