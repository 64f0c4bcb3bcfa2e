//! What a person who looks at a ledger needs beyond the routines: windows of rows in any order, tallies, the trail across all
//! transfers, numbers of one moment, and the one thing he may write: a line of history that changes no state.
//!
//! Windows are cut by key, never by offset: a million rows cost as much as a hundred. Knows no telegram and no screen.

use chrono::{DateTime, Utc};

use super::{Counts, HistoryLine, Ledger, LedgerError, Row, Trail, ledger_time};
use crate::guid::Guid;
use crate::state::State;

/// The column by which rows are ordered; rows that are equal in it are ordered by GUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Column {
    /// The last change: oldest first.
    Age,
    /// The key.
    Guid,
    /// How often it was claimed: fewest first.
    Attempts,
}

impl Column {
    /// Every column, in the order in which a screen offers them.
    pub const ALL: [Column; 3] = [Column::Age, Column::Guid, Column::Attempts];
}

/// A row's place in every order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The key.
    pub guid: Guid,
    /// The last change.
    pub updated_at: String,
    /// How often it was claimed.
    pub attempts: i64,
}

impl Spot {
    /// The spot of `row`.
    #[must_use]
    pub fn of(row: &Row) -> Spot {
        Spot { guid: row.guid.clone(), updated_at: row.updated_at.clone(), attempts: row.attempt.0 }
    }

    /// How it stands to `other` in the order of `column`, ascending.
    #[must_use]
    pub fn compare(&self, other: &Spot, column: Column) -> std::cmp::Ordering {
        let by_guid = || self.guid.cmp(&other.guid);
        match column {
            Column::Age => self.updated_at.cmp(&other.updated_at).then_with(by_guid),
            Column::Guid => by_guid(),
            Column::Attempts => self.attempts.cmp(&other.attempts).then_with(by_guid),
        }
    }
}

/// Which rows are looked at, and in which order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Browse {
    /// The states, each at most once; must not be empty.
    pub states: Vec<State>,
    /// Only rows last changed at or before this, in these states only.
    pub until: Option<DateTime<Utc>>,
    /// States whose rows `until` does not hide.
    pub any_age: Vec<State>,
    /// Only rows last changed after this.
    pub since: Option<DateTime<Utc>>,
    /// Only GUIDs that begin so.
    pub guid_prefix: Option<String>,
    /// Only transaction codes that begin so.
    pub tx_prefix: Option<String>,
    /// Only this reply code.
    pub code: Option<String>,
    /// Only rows whose last line of history has this text in what was seen.
    pub seen: Option<String>,
    /// The order.
    pub column: Column,
    /// The other way round.
    pub descending: bool,
}

impl Browse {
    /// All rows in these states, oldest first.
    #[must_use]
    pub fn of(states: &[State]) -> Browse {
        Browse {
            states: states.to_vec(),
            until: None,
            any_age: Vec::new(),
            since: None,
            guid_prefix: None,
            tx_prefix: None,
            code: None,
            seen: None,
            column: Column::Age,
            descending: false,
        }
    }

    /// The latest change that a row in `state` may have; none: any.
    #[must_use]
    pub fn until_of(&self, state: State) -> Option<String> {
        if self.any_age.contains(&state) { None } else { self.until.map(ledger_time) }
    }

    /// Whether every row in `state` is one of them.
    #[must_use]
    pub fn is_whole(&self, state: State) -> bool {
        self.until_of(state).is_none() && self.since.is_none() && self.has_no_words()
    }

    /// Whether rows are told apart by state and age alone.
    #[must_use]
    pub fn has_no_words(&self) -> bool {
        self.guid_prefix.is_none()
            && self.tx_prefix.is_none()
            && self.code.is_none()
            && self.seen.is_none()
    }

    /// Whether `row`, whose last line of history says `seen`, is one of them.
    #[must_use]
    pub fn takes(&self, row: &Row, seen: Option<&str>) -> bool {
        let begins = |text: &str, prefix: &Option<String>| {
            prefix.as_ref().is_none_or(|prefix| text.starts_with(prefix.as_str()))
        };
        self.states.contains(&row.state)
            && self.until_of(row.state).is_none_or(|until| row.updated_at <= until)
            && self.since.is_none_or(|since| row.updated_at > ledger_time(since))
            && begins(row.guid.as_str(), &self.guid_prefix)
            && begins(&row.tx_code, &self.tx_prefix)
            && self.code.as_ref().is_none_or(|code| row.rsp_code.as_ref() == Some(code))
            && self.seen.as_ref().is_none_or(|text| seen.is_some_and(|seen| seen.contains(text)))
    }

    /// How two spots stand in this order.
    #[must_use]
    pub fn compare(&self, a: &Spot, b: &Spot) -> std::cmp::Ordering {
        let ascending = a.compare(b, self.column);
        if self.descending { ascending.reverse() } else { ascending }
    }
}

/// Which part of the rows a window shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The first ones.
    Start,
    /// The last ones.
    End,
    /// Those around a spot, half of them before it; the row itself need not be there any more.
    Around(Spot),
}

/// A row and the last line of history that tells what was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The row.
    pub row: Row,
    /// What was seen last.
    pub seen: Option<String>,
}

/// A window, of one moment.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Window {
    /// The rows, in order.
    pub rows: Vec<Told>,
    /// How many rows there are in all.
    pub total: u64,
    /// How many of them stand before the first one here.
    pub before: u64,
    /// The rows of each state, of the same moment.
    pub counts: Counts,
}

/// Which lines of the history are looked at: newest first.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TrailQuery {
    /// Only GUIDs that begin so.
    pub guid_prefix: Option<String>,
    /// Only this cause.
    pub cause: Option<String>,
    /// Only lines whose `who` begins so.
    pub who_prefix: Option<String>,
    /// Only lines before this one.
    pub before: Option<i64>,
    /// At most so many.
    pub rows_max: usize,
}

impl TrailQuery {
    /// Whether `line` is one of them.
    #[must_use]
    pub fn takes(&self, line: &HistoryLine) -> bool {
        let begins = |text: &str, prefix: &Option<String>| {
            prefix.as_ref().is_none_or(|prefix| text.starts_with(prefix.as_str()))
        };
        begins(line.guid.as_str(), &self.guid_prefix)
            && self.cause.as_ref().is_none_or(|cause| line.cause == *cause)
            && begins(&line.who, &self.who_prefix)
            && self.before.is_none_or(|before| line.id < before)
    }
}

/// How many ages are told apart: under 1, 5, 30 minutes, 2 hours, a day, and above.
pub const AGES: usize = 6;

/// The upper bounds of all ages but the last, in seconds.
pub const AGE_BOUNDS_S: [i64; AGES - 1] = [60, 300, 1_800, 7_200, 86_400];

/// How many minutes of the past are told apart.
pub const MINUTES: usize = 60;

/// A reason, and the rows that have it as their last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// What was seen.
    pub seen: String,
    /// How many rows.
    pub rows: u64,
    /// The oldest line that says so.
    pub oldest: String,
}

/// The numbers of one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// By state.
    pub counts: Counts,
    /// By state (in the order of [`State::ALL`]) and age. DONE's are not counted: it has no index, and their age is no news.
    pub ages: [[u64; AGES]; State::ALL.len()],
    /// Rows that became UNKNOWN in each of the last minutes, oldest first.
    pub unknown_per_minute: [u64; MINUTES],
    /// Rows that became FAILED in each of the last minutes, oldest first.
    pub failed_per_minute: [u64; MINUTES],
    /// Why rows are UNKNOWN or FAILED: the most frequent reasons among the newest lines of history.
    pub reasons: Vec<Reason>,
    /// The newest lines of history that an operator's routine left.
    pub last_lines: Vec<HistoryLine>,
}

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers {
            counts: Counts::default(),
            ages: Default::default(),
            unknown_per_minute: [0; MINUTES],
            failed_per_minute: [0; MINUTES],
            reasons: Vec::new(),
            last_lines: Vec::new(),
        }
    }
}

/// What came of a line that was to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// It is on disk.
    Written,
    /// There is no such transfer. Nothing changed.
    Gone,
}

/// Tells whether a ledger has changed, without reading it.
pub trait Watch: Send {
    /// Whether anything was committed since the last call; the first call says yes. `Moved` if another file stands there now.
    fn changed(&mut self) -> Result<bool, LedgerError>;
}

/// A ledger that can be looked at. Each method but `note` only reads, in one short transaction; `note` is one transaction.
pub trait Survey: Ledger {
    /// A window of at most `rows_max` rows in the order of `browse`, with the tallies, all of one moment.
    fn window(&self, browse: &Browse, part: &Part, rows_max: usize) -> Result<Window, LedgerError>;

    /// The keys of the rows, in order; at most `rows_max`.
    fn keys(&self, browse: &Browse, rows_max: usize) -> Result<Vec<Guid>, LedgerError>;

    /// Lines of history, newest first.
    fn trail(&self, query: &TrailQuery) -> Result<Vec<HistoryLine>, LedgerError>;

    /// The numbers of this moment, `now` being its time.
    fn numbers(&self, now: DateTime<Utc>) -> Result<Numbers, LedgerError>;

    /// Writes a line of history that changes no state (a note, a look at masked bytes), under the row's present attempt.
    /// `Written` means on disk. Waits as [`Ledger::claim`] does.
    fn note(&self, guid: &Guid, trail: &Trail) -> Result<Noted, LedgerError>;

    /// Begins to watch for changes.
    fn watch(&self) -> Result<Box<dyn Watch>, LedgerError>;
}

/// Which of the ages a row has that was last changed `age_s` seconds ago.
#[must_use]
pub fn age_class(age_s: i64) -> usize {
    AGE_BOUNDS_S.iter().position(|bound| age_s < *bound).unwrap_or(AGES - 1)
}

/// Which of the last minutes `at` belongs to, oldest first; none if it is none of them.
#[must_use]
pub fn minute(at: DateTime<Utc>, now: DateTime<Utc>) -> Option<usize> {
    let ago = usize::try_from((now - at).num_seconds().max(0) / 60).ok()?;
    (MINUTES - 1).checked_sub(ago)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that panics has failed, and says where")]
mod tests {
    use super::*;

    #[test]
    fn an_age_on_its_bound_belongs_to_the_older_class() {
        let classes: Vec<usize> =
            [0, 59, 60, 299, 300, 1_799, 1_800, 86_399, 86_400].map(age_class).to_vec();
        assert_eq!(classes, [0, 0, 1, 1, 2, 2, 3, 4, 5]);
    }

    #[test]
    fn the_newest_minute_is_the_last_one_and_an_hour_ago_is_none() {
        let now = super::super::parse_ledger_time("2026-03-01 12:00:00").unwrap();
        let ago = |s| minute(now - chrono::TimeDelta::seconds(s), now);
        assert_eq!([ago(0), ago(59), ago(60), ago(3_599)], [Some(59), Some(59), Some(58), Some(0)]);
        assert_eq!(ago(3_600), None);
        assert_eq!(ago(-5), Some(59), "a clock that jumped back hides nothing");
    }
}
