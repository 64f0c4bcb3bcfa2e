//! The engine: relay, resolve, reprocess, purge and the orphan sweep. Server, command line and console all call this code;
//! it knows neither sockets nor screens, and no SQL.
//!
//! What a routine did is told row by row through a callback; a [`Stop`] ends it after the row in hand.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::guid::{Attempt, Guid};
use crate::ledger::{Cause, Ledger, LedgerError, Outline, Query, Trail};

pub mod age;
pub mod callers;
pub mod decide;
pub mod desk;
pub mod gate;
pub mod orphans;
pub mod purge;
pub mod reason;
pub mod relay;
pub mod reprocess;
pub mod resolve;
pub mod view;

pub use reason::Reason;

/// Asks a routine to stop after the row in hand. Clones share one wish.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// From now on, stop.
    pub fn ask(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether somebody has asked.
    #[must_use]
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// The flag itself, for a signal handler to set.
    #[must_use]
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

/// Who runs a routine, and why: both go into the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// user@host.
    pub who: String,
    /// The operator's reason, if one was given.
    pub reason: Option<String>,
}

impl Operator {
    fn trail(&self, cause: Cause) -> Trail {
        Trail { cause, who: self.who.clone(), reason: self.reason.clone(), seen: None }
    }
}

/// A row that a routine is going to take, as it was when the plan was made. Rows that come later never join, and each is checked
/// again by the routine's own condition when its turn comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The key.
    pub guid: Guid,
    /// The attempt that the plan saw.
    pub attempt: Attempt,
}

/// What became of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step<R> {
    /// Which row.
    pub guid: Guid,
    /// What it counts as.
    pub result: R,
    /// Why.
    pub reason: Reason,
}

/// Is told of each row as it is finished.
pub type Progress<'a, R> = &'a mut dyn FnMut(&Step<R>);

/// All rows of `query` that `takes` lets through, oldest first, page by page; `only` limits it to those GUIDs.
fn plan(
    ledger: &dyn Ledger,
    mut query: Query,
    only: Option<&[Guid]>,
    takes: impl Fn(&Outline) -> bool,
) -> Result<Vec<Planned>, LedgerError> {
    if let Some(only) = only {
        query.guids = Some(only.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect());
        query.rows_max = usize::MAX;
    }
    let mut plan = Vec::new();
    loop {
        let page = ledger.outline(&query)?;
        query.after = page.last().map(Outline::place);
        let whole = page.len() < query.rows_max;
        let rows = page.into_iter().filter(|row| takes(row));
        plan.extend(rows.map(|row| Planned { guid: row.guid, attempt: row.attempt }));
        if whole {
            return Ok(plan);
        }
    }
}
