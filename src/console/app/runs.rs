//! Runs: plans that were confirmed in this console, and what became of each of their rows.

use chrono::{DateTime, Utc};

use super::RunNews;
use crate::console::outbox::Delivered;
use crate::console::why::{Broke, Why};
use crate::engine::desk::{Act, Became, RowTold};
use crate::guid::Guid;

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A routine over rows.
    Rows(Act),
    /// A batch of the outbox.
    Dispatch,
}

/// Whether it goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunState {
    /// Yes.
    Going,
    /// It has ended.
    Ended(DateTime<Utc>),
    /// It did not begin or broke off, and why.
    Failed(DateTime<Utc>, Broke),
}

/// What became of a row or an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Its key.
    pub guid: Guid,
    /// What became of it.
    pub became: Became,
    /// Why.
    pub why: Why,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its number in this console.
    pub number: usize,
    /// What is run.
    pub kind: Kind,
    /// Why, in the operator's words.
    pub reason: Option<String>,
    /// The rows of the plan, in order.
    pub planned: Vec<Guid>,
    /// When it began.
    pub began: DateTime<Utc>,
    /// Whether it goes on.
    pub state: RunState,
    /// It was asked to stop.
    pub stopping: bool,
    /// The results, in order.
    pub told: Vec<Told>,
}

/// How many rows became what. Their sum and the open ones are the plan, always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Done.
    pub done: usize,
    /// Left as they are, or now unknown.
    pub left: usize,
    /// Skipped.
    pub skipped: usize,
    /// Certainly not sent.
    pub failed: usize,
    /// Not yet told.
    pub open: usize,
}

impl Run {
    /// How many rows became what.
    #[must_use]
    pub fn sum(&self) -> Sum {
        let mut sum = Sum::default();
        for row in &self.told {
            match row.became {
                Became::Done => sum.done += 1,
                Became::Failed => sum.failed += 1,
                Became::Left => sum.left += 1,
                Became::Skipped => sum.skipped += 1,
            }
        }
        sum.open = self.planned.len().saturating_sub(self.told.len());
        sum
    }

    /// The row whose turn it is.
    #[must_use]
    pub fn in_hand(&self) -> Option<&Guid> {
        (self.state == RunState::Going).then(|| self.planned.get(self.told.len())).flatten()
    }

    /// Seconds that it will still take, judged by what it took.
    #[must_use]
    pub fn seconds_left(&self, now: DateTime<Utc>) -> Option<i64> {
        let done = i64::try_from(self.told.len()).ok().filter(|done| *done > 0)?;
        let open = i64::try_from(self.sum().open).ok()?;
        let took_ms = (now - self.began).num_milliseconds().max(0);
        Some(took_ms.saturating_mul(open) / done / 1_000)
    }

    /// Takes news in. Returns the row that is settled now, so that its mark goes.
    pub fn take(&mut self, news: RunNews, now: DateTime<Utc>) -> Option<Guid> {
        match news {
            RunNews::Row(RowTold { guid, became, reason }) => {
                let settled = (became == Became::Done).then(|| guid.clone());
                self.told.push(Told { guid, became, why: Why::Row(reason) });
                settled
            }
            RunNews::Event(Delivered { id, became, why }) => {
                self.told.push(Told { guid: Guid::from_ledger(id), became, why });
                None
            }
            RunNews::Ended(why) => {
                self.end(why, now);
                None
            }
        }
    }

    fn end(&mut self, broke: Option<Broke>, now: DateTime<Utc>) {
        // Whatever was never told was never tried: the sum must be the plan.
        let untold = self.planned.split_off(self.planned.len().min(self.told.len()));
        let why = broke.clone().map_or(Why::RunEnded, Why::Broke);
        for guid in &untold {
            let (guid, became) = (guid.clone(), Became::Skipped);
            self.told.push(Told { guid, became, why: why.clone() });
        }
        self.planned.extend(untold);
        self.state = broke.map_or(RunState::Ended(now), |broke| RunState::Failed(now, broke));
    }
}
