//! The orphan sweep: a claim whose owner is proven dead must not say "in progress" for ever, and one whose owner merely
//! sleeps must not be taken from it.
//!
//! Proof is a free owner lock. Only where there is no owner to ask (another program's row, a ledger that was copied here) age
//! decides. A SENT orphan becomes UNKNOWN, never FAILED: its call may have been made. A RECEIVED one was certainly not sent.

use std::collections::{HashMap, HashSet};
use std::io;

use tracing::warn;

use super::age::Ages;
use super::relay::GivenUp;
use crate::clock::Clock;
use crate::code::Code;
use crate::guid::{Attempt, Guid};
use crate::ledger::owner::{Fate, Owners};
use crate::ledger::{
    Cause, Found, Ledger, LedgerError, Orphan, Outline, OwnerId, Query, Row, Trail,
};
use crate::limits;
use crate::state::State;
use crate::telegram::Layout;

/// What a sweep needs.
pub struct Sweep<'a> {
    /// Where the rows are.
    pub ledger: &'a dyn Ledger,
    /// Who can say whether an owner lives.
    pub owners: &'a dyn Owners,
    /// To build the replies that go with the new states.
    pub layout: &'a Layout,
    /// The wall clock, for ages.
    pub clock: &'a dyn Clock,
    /// The sweeping process's own name.
    pub own: &'a OwnerId,
    /// Its claims that it has given up.
    pub given_up: &'a GivenUp,
    /// How old a row must be where nobody can be asked.
    pub orphan_after: chrono::TimeDelta,
}

/// Why a sweep ended early. What it had turned until then stays turned; the next one goes on.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The ledger could not be read or written.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The directory of the owners' locks could not be read.
    #[error("can't look for the owners' lock files")]
    Owners(#[from] io::Error),
}

impl Sweep<'_> {
    /// Sweeps once; returns the rows that were turned.
    pub fn run(&self) -> Result<Vec<Guid>, SweepError> {
        // Asked before the rows are read: who was dead then can have claimed nothing since.
        let dead = self.dead_owners()?;
        let ages = Ages::look(self.ledger, self.clock, self.own.as_str())?;
        let mut swept = self.take_given_up()?;
        let mut fates: HashMap<OwnerId, Fate> =
            dead.iter().map(|owner| (owner.clone(), Fate::Dead)).collect();
        let mut query = Query::of(&[State::Sent, State::Received]);
        loop {
            let page = self.ledger.outline(&query)?;
            let Some(last) = page.last() else { break };
            query.after = Some(last.place());
            let mut orphans = Vec::new();
            for row in &page {
                if let Some(seen) = self.is_orphan(row, &ages, &mut fates) {
                    orphans.extend(self.orphan(row, seen)?);
                }
            }
            swept.extend(self.turn(&orphans)?);
        }
        for owner in &dead {
            if let Err(error) = self.owners.forget(owner) {
                warn!(%owner, "the lock of a dead owner can't be removed: {error}");
            }
        }
        Ok(swept)
    }

    fn dead_owners(&self) -> io::Result<HashSet<OwnerId>> {
        let mut dead = HashSet::new();
        for owner in self.owners.all()? {
            if owner != *self.own && self.fate(&owner) == Fate::Dead {
                dead.insert(owner);
            }
        }
        Ok(dead)
    }

    /// An owner whose lock can't be looked at (another user's, say) is not proven dead; his rows stay, and all others are swept.
    fn fate(&self, owner: &OwnerId) -> Fate {
        self.owners.fate(owner).unwrap_or_else(|error| {
            warn!(%owner, "can't look at the lock, so the rows of this owner stay: {error}");
            Fate::Alive
        })
    }

    /// Why the row is an orphan; none if it is none.
    fn is_orphan(
        &self,
        row: &Outline,
        ages: &Ages,
        fates: &mut HashMap<OwnerId, Fate>,
    ) -> Option<String> {
        // A row without a readable time is not old: nothing is known of its age.
        let by_age = || {
            let old = ages.reached(&row.updated_at, self.orphan_after);
            old.then(|| format!("nobody to ask, unchanged since {}", row.updated_at))
        };
        let Some(owner) = row.owner.as_ref().filter(|_| row.state == State::Sent) else {
            return by_age();
        };
        if owner == self.own {
            return None;
        }
        let fate = *fates.entry(owner.clone()).or_insert_with(|| self.fate(owner));
        match fate {
            Fate::Alive => None,
            Fate::Dead => Some(format!("its owner {owner} is dead")),
            Fate::NoLock => by_age(),
        }
    }

    fn take_given_up(&self) -> Result<Vec<Guid>, SweepError> {
        let given_up = self.given_up.take();
        let mut orphans = Vec::new();
        for (guid, attempt) in &given_up {
            match self.given_up_row(guid, *attempt) {
                Ok(row) => orphans.extend(
                    row.map(|row| self.of(&row, "its result could not be recorded".to_owned())),
                ),
                Err(error) => return Err(self.give_back(given_up, error)),
            }
        }
        let swept = match self.turn(&orphans) {
            Ok(swept) => swept,
            Err(error) => return Err(self.give_back(given_up, error)),
        };
        // Not as it was seen any more, if only because a jump of the clock was noted: nobody else may take it, so the next sweep
        // looks again.
        let taken: HashSet<&Guid> = swept.iter().collect();
        for orphan in orphans.iter().filter(|orphan| !taken.contains(&orphan.guid)) {
            self.given_up.push(orphan.guid.clone(), orphan.attempt);
        }
        Ok(swept)
    }

    fn given_up_row(&self, guid: &Guid, attempt: Attempt) -> Result<Option<Row>, LedgerError> {
        Ok(match self.ledger.find(guid)? {
            Found::Row(row) if row.state == State::Sent && row.attempt == attempt => Some(*row),
            Found::Row(_) | Found::Nothing | Found::Purged => None,
        })
    }

    fn give_back(&self, given_up: Vec<(Guid, Attempt)>, error: LedgerError) -> SweepError {
        for (guid, attempt) in given_up {
            self.given_up.push(guid, attempt);
        }
        error.into()
    }

    /// The orphan with the reply that goes with its new state; none if the row has moved on.
    fn orphan(&self, seen: &Outline, why: String) -> Result<Option<Orphan>, LedgerError> {
        Ok(match self.ledger.find(&seen.guid)? {
            Found::Row(row) if row.state == seen.state && row.attempt == seen.attempt => {
                Some(Orphan {
                    updated_at: seen.updated_at.clone(),
                    owner: seen.owner.clone(),
                    ..self.of(&row, why)
                })
            }
            Found::Row(_) | Found::Nothing | Found::Purged => None,
        })
    }

    fn of(&self, row: &Row, why: String) -> Orphan {
        let code = Orphan::becomes(row.state).map_or(Code::Unknown, |(_, code)| code);
        let request = self.layout.decode_request(&row.request).ok();
        let reply = request.map(|r| self.layout.error_reply(&r, code, self.clock.now()));
        let trail =
            Trail { cause: Cause::Orphan, who: "relay".to_owned(), reason: None, seen: Some(why) };
        Orphan {
            guid: row.guid.clone(),
            from: row.state,
            attempt: row.attempt,
            owner: row.owner.clone(),
            updated_at: row.updated_at.clone(),
            response: reply,
            trail,
        }
    }

    fn turn(&self, orphans: &[Orphan]) -> Result<Vec<Guid>, LedgerError> {
        let mut swept = Vec::new();
        for batch in orphans.chunks(limits::BATCH_OPERATIONS_MAX) {
            swept.extend(self.ledger.sweep_orphans(batch)?);
        }
        Ok(swept)
    }
}

/// Whether no claim of `owner` is left in the ledger, as far as it can be read. Only then may the owner's lock file go: as long as
/// there is a claim, the file is the proof that the owner is dead.
#[must_use]
pub fn holds_nothing(ledger: &dyn Ledger, owner: &OwnerId) -> bool {
    let mut query = Query::of(&[State::Sent]);
    loop {
        let Ok(page) = ledger.outline(&query) else { return false };
        let Some(last) = page.last() else { return true };
        query.after = Some(last.place());
        if page.iter().any(|row| row.owner.as_ref() == Some(owner)) {
            return false;
        }
    }
}
