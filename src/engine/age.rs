//! How long ago a row was last changed, whatever the wall clock did meanwhile.
//!
//! A row's time is the wall clock's of its change. Set forward by an hour, the clock makes a fresh UNKNOWN an hour old, the
//! core that is still working says "not found", and the payment is made twice. So every routine and every sweep compares the
//! wall clock with the time since the machine's start, notes a jump in the ledger, and counts the noted jumps out of every age.
//!
//! # How it is counted
//! Between two jumps the wall clock goes steadily, so a row was written in one of these stretches, and its true age is the
//! difference of the times less all jumps after its stretch. Which stretch it was can be ambiguous after a jump back (some times
//! come twice); a stretch is possible if it ended at or after the row's time, and the least of the possible ages counts.
//! The plain difference is always among them: no jump makes a row older than the clock says. A time that the clock has leapt
//! over was written between the jump and the look that saw it, and counts from that look.
//!
//! # What it does not know
//! A jump while the machine was off, one before anybody looked for the first time in this run of it or after the last look, that
//! several jumps between two looks were more than one, and jumps whose sum stays below [`crate::limits::CLOCK_JUMP_MS_MIN`].

use chrono::{DateTime, TimeDelta, Utc};
use tracing::warn;

use crate::clock::Clock;
use crate::ledger::{ClockLook, ClockNote, Ledger, LedgerError, parse_ledger_time};
use crate::limits;

/// A moment, and what is known of the wall clock before it.
#[derive(Clone, Debug)]
pub struct Ages {
    now: DateTime<Utc>,
    notes: Vec<ClockNote>,
}

impl Ages {
    /// Looks at the clocks now. A jump is noted in the ledger; one that can't be noted counts all the same, here.
    pub fn look(
        ledger: &dyn Ledger,
        clock: &dyn Clock,
        seen_by: &str,
    ) -> Result<Ages, LedgerError> {
        let mut tries = 0;
        loop {
            // The notes first: a look that is older than the last of them would take it for a jump back.
            let mut notes = ledger.clock_notes()?;
            let look = ClockLook::at(clock);
            let last = look.last(&notes);
            let Some(note) = look.note(last, seen_by) else { return Ok(Ages::at(look.now, notes)) };
            if tries < limits::CLOCK_NOTE_TRIES_MAX && ledger.note_clock(&note, last) == Ok(false) {
                // Somebody was quicker: perhaps it is noted already.
                tries += 1;
                continue;
            }
            if note.seconds != 0 {
                warn!(seconds = note.seconds, "the wall clock jumped: ages are counted without it");
            }
            notes.push(note);
            return Ok(Ages::at(look.now, notes));
        }
    }

    /// The same from values.
    #[must_use]
    pub fn at(now: DateTime<Utc>, notes: Vec<ClockNote>) -> Ages {
        Ages { now, notes }
    }

    /// The wall clock at the look.
    #[must_use]
    pub fn now(&self) -> DateTime<Utc> {
        self.now
    }

    /// The least time that can have passed since the wall clock said `since`.
    #[must_use]
    pub fn of(&self, since: DateTime<Utc>) -> TimeDelta {
        let plain = self.now - since;
        let (mut least, mut later) = (plain, 0_i64);
        for note in self.notes.iter().rev().filter(|note| note.seconds != 0) {
            // As if it had been there at that look; whichever it was, the least counts.
            let seen = if since <= note.before_at_most() {
                less(plain, later.saturating_add(note.seconds))
            } else if since <= note.at {
                less(self.now - note.at, later)
            } else {
                plain
            };
            least = least.min(seen);
            later = later.saturating_add(note.seconds);
        }
        least
    }

    /// Whether a row that was last changed at `updated_at` is certainly so old. One without a readable time is not.
    #[must_use]
    pub fn reached(&self, updated_at: &str, age: TimeDelta) -> bool {
        parse_ledger_time(updated_at).is_some_and(|since| self.of(since) >= age)
    }

    /// Whether the plain difference of times is every row's age: no jump is known.
    #[must_use]
    pub fn plain(&self) -> bool {
        self.notes.iter().all(|note| note.seconds == 0)
    }
}

fn less(age: TimeDelta, seconds: i64) -> TimeDelta {
    let seconds = TimeDelta::try_seconds(seconds).unwrap_or(TimeDelta::MAX);
    age.checked_sub(&seconds).unwrap_or(TimeDelta::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_785_000_000 + second, 0).expect("a time of this century")
    }

    fn jump(second: i64, seconds: i64) -> ClockNote {
        let (run, seen_by) = ("r".to_owned(), "test".to_owned());
        ClockNote { at: at(second), seconds, run, ahead_ms: 0, seen_by }
    }

    fn age(now: i64, notes: &[ClockNote], since: i64) -> i64 {
        Ages::at(at(now), notes.to_vec()).of(at(since)).num_seconds()
    }

    #[test]
    fn without_a_jump_it_is_the_difference_of_the_times() {
        assert_eq!(age(100, &[], 40), 60);
        assert_eq!(age(100, &[jump(50, 0)], 40), 60);
        assert_eq!(age(100, &[], 140), -40);
    }

    #[test]
    fn a_jump_forward_makes_nothing_older() {
        let notes = [jump(HOUR + 10, HOUR)];
        assert_eq!(age(HOUR + 20, &notes, 0), 20, "it was there before");
        assert_eq!(age(HOUR + 20, &notes, HOUR + 15), 5, "it came after");
        assert_eq!(
            age(HOUR + 20, &notes, HOUR + 8),
            10,
            "it came before anybody had seen the jump"
        );
    }

    #[test]
    fn a_jump_that_was_taken_back_changes_nothing_in_the_end() {
        let notes = [jump(HOUR + 10, HOUR), jump(20, -HOUR)];
        assert_eq!(age(100, &notes, 0), 100);
        assert_eq!(age(100, &notes, 50), 50);
    }

    #[test]
    fn a_jump_back_makes_nothing_younger_than_the_clock_says() {
        let notes = [jump(100, -HOUR)];
        assert_eq!(age(200, &notes, 100), 100, "it came after: the other stretch is no excuse");
        assert_eq!(
            age(200, &notes, HOUR),
            200 - HOUR,
            "it came before, and its time is still to come"
        );
    }

    #[test]
    fn of_several_jumps_those_since_the_row_count() {
        let notes = [jump(1_000, 500), jump(3_000, 1_000), jump(5_000, 100)];
        assert_eq!(age(5_050, &notes, 4_000), 950);
        assert_eq!(age(5_050, &notes, 1_500), 2_450);
        assert_eq!(age(5_050, &notes, 100), 3_350);
    }

    #[test]
    fn a_time_that_comes_twice_is_taken_for_the_later_one() {
        // At 1,010 set back to 10; at 20 set forward to 1,020: 15 was before the first jump or between the two.
        let notes = [jump(10, -1_000), jump(1_020, 1_000)];
        assert_eq!(age(1_030, &notes, 15), 15);
    }
}
