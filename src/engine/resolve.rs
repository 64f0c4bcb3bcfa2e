//! resolve: settles UNKNOWN rows by inquiry. Never sends a transfer.
//!
//! Absence is not proof: a core that is still working answers "not found" too. So only rows older than the longest time the
//! core may take are asked about; `min_age` is that time, and the caller warns when it is short.

use chrono::TimeDelta;

use super::age::Ages;
use super::{Operator, Planned, Progress, Reason, Step, Stop};
use crate::clock::Clock;
use crate::code::Code;
use crate::core_api::{Core, Inquiry, Seen};
use crate::guid::Guid;
use crate::ledger::{
    Cause, Found, Ledger, LedgerError, Query, Recorded, Row, Settle, Settled, ledger_time,
};
use crate::state::State;
use crate::telegram::Layout;

/// What resolve works with.
pub struct Resolve<'a> {
    /// Where the rows are.
    pub ledger: &'a dyn Ledger,
    /// Whom it asks.
    pub core: &'a dyn Core,
    /// To read the stored requests and build the replies.
    pub layout: &'a Layout,
    /// The wall clock, for ages.
    pub clock: &'a dyn Clock,
    /// How long a row must have been UNKNOWN.
    pub min_age: TimeDelta,
    /// Who runs it.
    pub operator: Operator,
}

/// What an examined row counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Result {
    /// The core has it: DONE.
    Done,
    /// The core does not have it: FAILED, E902.
    Failed,
    /// Still UNKNOWN, or changed by somebody else meanwhile.
    Left,
}

/// How many rows counted as what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Rows of the plan.
    pub examined: u64,
    /// Settled as done.
    pub done: u64,
    /// Settled as not sent.
    pub failed: u64,
    /// Left as they are.
    pub left: u64,
}

impl Resolve<'_> {
    /// The rows that meet the conditions now, oldest first; `only` limits it to those.
    pub fn plan(&self, only: Option<&[Guid]>) -> std::result::Result<Vec<Planned>, LedgerError> {
        let ages = self.ages()?;
        let mut query = Query::of(&[State::Unknown]);
        query.until = Some(ages.now() - self.min_age);
        super::plan(self.ledger, query, only, |row| ages.reached(&row.updated_at, self.min_age))
    }

    /// Asks about each row of the plan in turn.
    pub fn run(&self, plan: &[Planned], stop: &Stop, progress: Progress<'_, Result>) -> Summary {
        let mut summary = Summary { examined: plan.len() as u64, ..Summary::default() };
        for planned in plan {
            let (result, reason) = if stop.asked() {
                (Result::Left, Reason::NotAsked)
            } else {
                self.ask(planned).unwrap_or_else(|error| (Result::Left, Reason::Ledger(error)))
            };
            match result {
                Result::Done => summary.done += 1,
                Result::Failed => summary.failed += 1,
                Result::Left => summary.left += 1,
            }
            progress(&Step { guid: planned.guid.clone(), result, reason });
        }
        summary
    }

    fn ask(&self, planned: &Planned) -> std::result::Result<(Result, Reason), LedgerError> {
        let row = match self.ledger.find(&planned.guid)? {
            Found::Row(row) => row,
            Found::Nothing | Found::Purged => return Ok((Result::Left, Reason::Gone)),
        };
        if let Some(why) = self.not_due(planned, &row)? {
            return Ok((Result::Left, why));
        }
        let request = match self.layout.decode_request(&row.request) {
            Ok(request) => request,
            Err(error) => {
                return Ok((Result::Left, Reason::Unreadable(error.to_string())));
            }
        };
        let at = self.clock.now();
        let (settled, response, reason) = match self.core.inquire(&request) {
            Inquiry::Known(body) => {
                (Settled::Known, self.layout.done_reply(&request, &body, at), Reason::Known)
            }
            Inquiry::Absent => {
                let reply = self.layout.error_reply(&request, Code::NotSent, at);
                (Settled::Absent, reply, Reason::Absent)
            }
            Inquiry::NoAnswer(Seen(seen)) => return Ok((Result::Left, Reason::Seen(seen))),
        };
        let trail = self.operator.trail(Cause::Resolve).seen(reason.to_string());
        let settle = Settle {
            guid: row.guid.clone(),
            attempt: row.attempt,
            result: settled,
            response,
            trail,
        };
        Ok(match (self.ledger.settle(&settle)?, settled) {
            (Recorded::Written, Settled::Known) => (Result::Done, reason),
            (Recorded::Written, Settled::Absent) => (Result::Failed, reason),
            (Recorded::Stale(row), _) => (Result::Left, Reason::changed(&row)),
            (Recorded::Gone, _) => (Result::Left, Reason::Gone),
        })
    }

    /// The conditions once more, now that its turn has come.
    fn not_due(
        &self,
        planned: &Planned,
        row: &Row,
    ) -> std::result::Result<Option<Reason>, LedgerError> {
        if row.state != State::Unknown || row.attempt != planned.attempt {
            return Ok(Some(Reason::changed(row)));
        }
        let ages = self.ages()?;
        let due = row.updated_at <= ledger_time(ages.now() - self.min_age)
            && ages.reached(&row.updated_at, self.min_age);
        Ok((!due).then(|| Reason::TooYoung(row.updated_at.clone())))
    }

    fn ages(&self) -> std::result::Result<Ages, LedgerError> {
        Ages::look(self.ledger, self.clock, &self.operator.who)
    }
}
