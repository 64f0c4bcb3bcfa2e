//! What people look at: rows as lines, and one transfer whole. Reads only, page by page, so that a ledger of any size can be
//! looked at while the relay works on it.
//!
//! Knows no screen: text comes out as it is in the ledger, and who shows it makes it visible.

use std::ops::ControlFlow;

use chrono::{DateTime, TimeDelta, Utc};

use crate::guid::{Attempt, Guid};
use crate::ledger::{Found, HistoryLine, Ledger, LedgerError, Query, Row, parse_ledger_time};
use crate::limits;
use crate::state::State;
use crate::telegram::Layout;

/// The states of what is not settled: what an operator looks for.
pub const STUCK: [State; 4] = [State::Received, State::Sent, State::Unknown, State::Failed];

/// What looking needs. All ages are of one moment.
pub struct View<'a> {
    /// Where the rows are.
    pub ledger: &'a dyn Ledger,
    /// To read amounts from the stored requests.
    pub layout: &'a Layout,
    /// The moment from which ages are counted.
    pub now: DateTime<Utc>,
}

/// Which rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// The states; must not be empty.
    pub states: Vec<State>,
    /// Only rows whose last change is at least so long ago.
    pub older_than: Option<TimeDelta>,
    /// Only GUIDs that begin so.
    pub guid_prefix: Option<String>,
    /// At most so many.
    pub rows_max: u64,
}

/// A row as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The key.
    pub guid: Guid,
    /// The transaction code.
    pub tx_code: String,
    /// What is true of it.
    pub state: State,
    /// The code of its reply.
    pub rsp_code: Option<String>,
    /// How often it was claimed.
    pub attempt: Attempt,
    /// The last change, UTC, as the ledger has it.
    pub updated_at: String,
    /// How long ago that was; none if the ledger has no time there.
    pub age: Option<TimeDelta>,
    /// The amount of the stored request, if the layout names one and the request can be read.
    pub amount: Option<u64>,
    /// What was seen when its state last changed.
    pub reason: Option<String>,
}

/// What there is to see under a GUID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// It never came.
    Nothing,
    /// It was done and has been purged; its history remains.
    Purged(Vec<HistoryLine>),
    /// The row, and its history, oldest first.
    Here(Box<Row>, Vec<HistoryLine>),
}

impl View<'_> {
    /// Tells of each row that the filter takes, oldest first, until `tell` breaks off. Rows that change meanwhile are told as
    /// they are when their page is read.
    pub fn each(
        &self,
        filter: &Filter,
        tell: &mut dyn FnMut(Line) -> ControlFlow<()>,
    ) -> Result<(), LedgerError> {
        let mut query = Query::of(&filter.states);
        query.until = filter.older_than.map(|age| self.now - age);
        query.guid_prefix.clone_from(&filter.guid_prefix);
        let mut left = filter.rows_max;
        while left > 0 {
            query.rows_max = usize::try_from(left).unwrap_or(usize::MAX).min(limits::PAGE_ROWS_MAX);
            let page = self.ledger.page(&query)?;
            let last_page = page.len() < query.rows_max;
            query.after = page.last().map(Row::place);
            left -= page.len() as u64;
            for row in page {
                if tell(self.line(row)?).is_break() {
                    return Ok(());
                }
            }
            if last_page {
                break;
            }
        }
        Ok(())
    }

    /// One transfer whole.
    pub fn transfer(&self, guid: &Guid) -> Result<Transfer, LedgerError> {
        Ok(match self.ledger.find(guid)? {
            Found::Nothing => Transfer::Nothing,
            Found::Purged => Transfer::Purged(self.ledger.history(guid)?),
            Found::Row(row) => Transfer::Here(row, self.ledger.history(guid)?),
        })
    }

    /// How long ago a time of the ledger's is; a clock that was set back makes no negative age.
    #[must_use]
    pub fn age(&self, ledger_time: &str) -> Option<TimeDelta> {
        parse_ledger_time(ledger_time).map(|at| (self.now - at).max(TimeDelta::zero()))
    }

    /// The amount of a stored request.
    #[must_use]
    pub fn amount(&self, request: &[u8]) -> Option<u64> {
        self.layout.decode_request(request).ok()?.amount()
    }

    fn line(&self, row: Row) -> Result<Line, LedgerError> {
        let reason = last_seen(&self.ledger.history(&row.guid)?);
        Ok(Line {
            age: self.age(&row.updated_at),
            amount: self.amount(&row.request),
            reason,
            guid: row.guid,
            tx_code: row.tx_code,
            state: row.state,
            rsp_code: row.rsp_code,
            attempt: row.attempt,
            updated_at: row.updated_at,
        })
    }
}

/// What was seen when the state last changed; notes change none.
#[must_use]
pub fn last_seen(history: &[HistoryLine]) -> Option<String> {
    history.iter().rfind(|line| line.to_state.is_some()).and_then(|line| line.seen.clone())
}

/// An age for people, in its two largest units: `2 h 14 min`.
#[must_use]
pub fn age_words(age: TimeDelta) -> String {
    let seconds = age.num_seconds().max(0);
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    let (minutes, rest) = (seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{rest} s"),
        (0, 0, _) => format!("{minutes} min {rest} s"),
        (0, _, _) => format!("{hours} h {minutes} min"),
        (_, _, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_told_in_its_two_largest_units() {
        for (seconds, words) in [
            (-5, "0 s"),
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min 0 s"),
            (8_040, "2 h 14 min"),
            (86_399, "23 h 59 min"),
            (180_000, "2 d 2 h"),
        ] {
            assert_eq!(age_words(TimeDelta::seconds(seconds)), words);
        }
    }
}
