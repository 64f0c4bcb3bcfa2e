//! reprocess: sends again what was certainly never sent, under the same GUID. UNKNOWN is never sent.
//!
//! Each row is claimed first (FAILED and E902 and fewer attempts than allowed, all in the claim's own condition), then called
//! once, then recorded by the relay's rules.

use super::relay::record_of;
use super::{Operator, Planned, Progress, Reason, Step, Stop};
use crate::clock::Clock;
use crate::code::Code;
use crate::core_api::{Core, Transfer};
use crate::guid::{Attempt, Guid};
use crate::ledger::{
    Cause, ClaimFailed, ClaimedAgain, Found, Ledger, LedgerError, OnlyFailed, OwnerId, Query,
    Recorded, Row,
};
use crate::limits;
use crate::state::State;
use crate::telegram::{Layout, Request};

/// What reprocess works with.
pub struct Reprocess<'a> {
    /// Where the rows are.
    pub ledger: &'a dyn Ledger,
    /// Whom it calls.
    pub core: &'a dyn Core,
    /// To read the stored requests and build the replies.
    pub layout: &'a Layout,
    /// The time for replies.
    pub clock: &'a dyn Clock,
    /// The name under which it claims; its lock is held meanwhile.
    pub owner: OwnerId,
    /// Rows with this many attempts or more are left.
    pub attempts_max: i64,
    /// Go on when the core can't be reached.
    pub keep_going: bool,
    /// Who runs it.
    pub operator: Operator,
}

/// What an examined row counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Result {
    /// Sent, and the result is known (a refusal is a result).
    Done,
    /// Certainly not sent, again.
    Failed,
    /// Sent, outcome unknown.
    Unknown,
    /// Somebody else has taken it, or it was not tried.
    Skipped,
}

/// How many rows counted as what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Rows of the plan.
    pub examined: u64,
    /// Done.
    pub done: u64,
    /// Failed again.
    pub failed: u64,
    /// Now UNKNOWN.
    pub unknown: u64,
    /// Not ours, or not tried.
    pub skipped: u64,
}

impl Reprocess<'_> {
    /// The rows that meet the conditions now, oldest first; `only` limits it to those.
    pub fn plan(&self, only: Option<&[Guid]>) -> std::result::Result<Vec<Planned>, LedgerError> {
        super::plan(self.ledger, Query::of(&[State::Failed]), only, |row| {
            row.rsp_code.as_deref() == Some(Code::NotSent.as_str())
                && row.attempt.0 < self.attempts_max
        })
    }

    /// Sends each row of the plan in turn; stops after some connect failures in a row, unless it is to keep going.
    pub fn run(&self, plan: &[Planned], stop: &Stop, progress: Progress<'_, Result>) -> Summary {
        let mut summary = Summary { examined: plan.len() as u64, ..Summary::default() };
        let mut failures = 0;
        for planned in plan {
            let unreachable = failures >= limits::REPROCESS_FAILURES_MAX && !self.keep_going;
            let (result, reason) = if unreachable {
                (Result::Skipped, Reason::Unreachable)
            } else if stop.asked() {
                (Result::Skipped, Reason::NotTried)
            } else {
                self.send(planned).unwrap_or_else(|error| (Result::Skipped, Reason::Ledger(error)))
            };
            match result {
                Result::Done => summary.done += 1,
                Result::Failed => summary.failed += 1,
                Result::Unknown => summary.unknown += 1,
                Result::Skipped => summary.skipped += 1,
            }
            failures = match result {
                Result::Failed => failures + 1,
                Result::Done | Result::Unknown => 0,
                Result::Skipped => failures,
            };
            progress(&Step { guid: planned.guid.clone(), result, reason });
        }
        summary
    }

    /// An error means: not claimed, nothing was sent.
    fn send(&self, planned: &Planned) -> std::result::Result<(Result, Reason), LedgerError> {
        let skipped = |why: Reason| Ok((Result::Skipped, why));
        let row = match self.ledger.find(&planned.guid)? {
            Found::Row(row) => row,
            Found::Nothing | Found::Purged => return skipped(Reason::Gone),
        };
        let request = match self.layout.decode_request(&row.request) {
            Ok(request) if request.guid() == &planned.guid => request,
            Ok(_) => return skipped(Reason::OtherGuid),
            Err(error) => return skipped(Reason::Unreadable(error.to_string())),
        };
        let claim = ClaimFailed {
            guid: planned.guid.clone(),
            owner: self.owner.clone(),
            only: Some(OnlyFailed { attempts_below: self.attempts_max, attempt: planned.attempt }),
            trail: self.operator.trail(Cause::Reprocess),
        };
        match self.ledger.claim_failed(&claim)? {
            ClaimedAgain::Claimed(attempt) => Ok(self.call(&request, attempt)),
            ClaimedAgain::Lost => skipped(self.why_lost(&planned.guid)?),
        }
    }

    fn why_lost(&self, guid: &Guid) -> std::result::Result<Reason, LedgerError> {
        Ok(match self.ledger.find(guid)? {
            Found::Row(row) => Reason::changed(&row),
            Found::Nothing | Found::Purged => Reason::Gone,
        })
    }

    fn call(&self, request: &Request, attempt: Attempt) -> (Result, Reason) {
        let outcome = self.core.transfer(request);
        let told = tell(&outcome);
        let trail = self.operator.trail(Cause::Reprocess);
        let record = record_of(self.layout, request, attempt, outcome, self.clock.now(), trail);
        match self.ledger.record(&record) {
            Ok(Recorded::Written) => told,
            Ok(Recorded::Stale(row)) => (stands(&row), Reason::changed(&row)),
            Ok(Recorded::Gone) => (Result::Unknown, Reason::SentAndGone),
            // The owner's lock goes with this process; the sweep turns the row into UNKNOWN.
            Err(error) => (Result::Unknown, Reason::NotRecorded(error)),
        }
    }
}

fn tell(outcome: &Transfer) -> (Result, Reason) {
    match outcome {
        Transfer::Done(_) => (Result::Done, Reason::Done),
        Transfer::Refused(code) => (Result::Done, Reason::Refused(*code)),
        Transfer::NotSent(seen) => (Result::Failed, Reason::Seen(seen.0.clone())),
        Transfer::Unknown(seen) => (Result::Unknown, Reason::Seen(seen.0.clone())),
    }
}

fn stands(row: &Row) -> Result {
    match row.state {
        State::Done => Result::Done,
        State::Failed => Result::Failed,
        State::Sent | State::Received | State::Unknown => Result::Unknown,
    }
}
