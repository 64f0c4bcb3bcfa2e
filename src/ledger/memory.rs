//! What the ledger's methods mean, without a disk: a map behind a lock. The simulation runs on it, and every case that the
//! SQLite ledger passes, it passes too.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};

use super::{
    CallResult, Claim, ClaimFailed, Claimed, ClaimedAgain, ClockNote, Counts, Found, HistoryLine,
    Ledger, LedgerError, Orphan, Outline, Purge, Query, Record, Recorded, Row, Settle, Trail,
    ledger_time, parse_ledger_time,
};
use crate::clock::Clock;
use crate::code::Code;
use crate::guid::{Attempt, Guid};
use crate::limits;
use crate::state::State;

mod survey;

/// A ledger that forgets everything when it is dropped.
pub struct MemoryLedger {
    clock: Arc<dyn Clock>,
    tables: Mutex<Tables>,
}

#[derive(Default)]
struct Tables {
    tx: BTreeMap<Guid, Row>,
    purged: HashMap<Guid, Option<String>>,
    history: Vec<HistoryLine>,
    clock_notes: Vec<ClockNote>,
}

impl MemoryLedger {
    /// An empty ledger that takes its times from `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> MemoryLedger {
        MemoryLedger { clock, tables: Mutex::default() }
    }

    /// Puts a row there as another program would: without a claim, without history.
    pub fn put(&self, row: Row) {
        self.tables().tx.insert(row.guid.clone(), row);
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> String {
        ledger_time(self.clock.now())
    }
}

impl Tables {
    fn find(&self, guid: &Guid) -> Found {
        match self.tx.get(guid) {
            Some(row) => Found::Row(Box::new(row.clone())),
            None if self.purged.contains_key(guid) => Found::Purged,
            None => Found::Nothing,
        }
    }

    /// The row as it is: why a fenced write did not happen.
    fn moved_on(&self, guid: &Guid) -> Recorded {
        self.tx.get(guid).map_or(Recorded::Gone, |row| Recorded::Stale(Box::new(row.clone())))
    }

    fn remember(
        &mut self,
        now: &str,
        guid: &Guid,
        (from, to): (State, Option<State>),
        attempt: Attempt,
        trail: &Trail,
    ) {
        self.history.push(HistoryLine {
            id: i64::try_from(self.history.len()).unwrap_or(i64::MAX - 1) + 1,
            at: now.to_owned(),
            guid: guid.clone(),
            from_state: Some(from.to_string()),
            to_state: to.map(|state| state.to_string()),
            attempt: Some(attempt.0),
            cause: trail.cause.as_str().to_owned(),
            who: trail.who.clone(),
            reason: trail.reason.clone(),
            seen: trail.seen.clone(),
        });
    }

    /// Writes a result to a row that is in `from`.
    fn change(
        &mut self,
        now: &str,
        guid: &Guid,
        (to, code): (State, Code),
        response: Option<Vec<u8>>,
    ) {
        let row = self.tx.get_mut(guid).expect("the caller has seen the row under this lock");
        row.state = to;
        row.rsp_code = Some(code.to_string());
        row.response = response;
        now.clone_into(&mut row.updated_at);
        row.owner = None;
    }
}

impl Ledger for MemoryLedger {
    fn find(&self, guid: &Guid) -> Result<Found, LedgerError> {
        Ok(self.tables().find(guid))
    }

    fn claim(&self, claim: &Claim) -> Result<Claimed, LedgerError> {
        let now = self.now();
        let mut tables = self.tables();
        match tables.find(&claim.guid) {
            Found::Row(row) => return Ok(Claimed::Found(row)),
            Found::Purged => return Ok(Claimed::Purged),
            Found::Nothing => {}
        }
        let row = Row {
            guid: claim.guid.clone(),
            tx_code: claim.tx_code.clone(),
            state: State::Sent,
            rsp_code: None,
            request: claim.request.clone(),
            response: None,
            attempt: Attempt::FIRST,
            updated_at: now,
            owner: Some(claim.owner.clone()),
        };
        tables.tx.insert(claim.guid.clone(), row);
        Ok(Claimed::Claimed(Attempt::FIRST))
    }

    fn claim_failed(&self, claim: &ClaimFailed) -> Result<ClaimedAgain, LedgerError> {
        let now = self.now();
        let mut tables = self.tables();
        let Some(row) = tables.tx.get_mut(&claim.guid) else { return Ok(ClaimedAgain::Lost) };
        let meets = claim.only.is_none_or(|only| {
            row.rsp_code.as_deref() == Some(Code::NotSent.as_str())
                && row.attempt.0 < only.attempts_below
                && row.attempt == only.attempt
        });
        if row.state != State::Failed || !meets {
            return Ok(ClaimedAgain::Lost);
        }
        row.state = State::Sent;
        row.attempt = Attempt(row.attempt.0 + 1);
        row.rsp_code = None;
        row.response = None;
        row.updated_at.clone_from(&now);
        row.owner = Some(claim.owner.clone());
        let attempt = row.attempt;
        let states = (State::Failed, Some(State::Sent));
        tables.remember(&now, &claim.guid, states, attempt, &claim.trail);
        Ok(ClaimedAgain::Claimed(attempt))
    }

    fn record(&self, record: &Record) -> Result<Recorded, LedgerError> {
        let now = self.now();
        let mut tables = self.tables();
        let Some(row) = tables.tx.get(&record.guid) else { return Ok(Recorded::Gone) };
        let from = row.state;
        if row.attempt != record.attempt || !record.result.may_follow(from) {
            return Ok(tables.moved_on(&record.guid));
        }
        let (to, code) = (record.result.state(), record.result.code());
        tables.change(&now, &record.guid, (to, code), Some(record.response.clone()));
        let plain = from == State::Sent
            && matches!(record.result, CallResult::Definite(_))
            && record.attempt == Attempt::FIRST;
        if !plain {
            tables.remember(&now, &record.guid, (from, Some(to)), record.attempt, &record.trail);
        }
        Ok(Recorded::Written)
    }

    fn settle(&self, settle: &Settle) -> Result<Recorded, LedgerError> {
        let now = self.now();
        let mut tables = self.tables();
        let matches = tables
            .tx
            .get(&settle.guid)
            .is_some_and(|row| row.state == State::Unknown && row.attempt == settle.attempt);
        if !matches {
            return Ok(tables.moved_on(&settle.guid));
        }
        let (to, code) = settle.result.becomes();
        tables.change(&now, &settle.guid, (to, code), Some(settle.response.clone()));
        let states = (State::Unknown, Some(to));
        tables.remember(&now, &settle.guid, states, settle.attempt, &settle.trail);
        Ok(Recorded::Written)
    }

    fn sweep_orphans(&self, orphans: &[Orphan]) -> Result<Vec<Guid>, LedgerError> {
        let now = self.now();
        let mut tables = self.tables();
        let mut swept = Vec::new();
        for orphan in orphans {
            let Some((to, code)) = Orphan::becomes(orphan.from) else { continue };
            let as_seen = tables.tx.get(&orphan.guid).is_some_and(|row| {
                row.state == orphan.from
                    && row.attempt == orphan.attempt
                    && row.owner == orphan.owner
                    && row.updated_at == orphan.updated_at
            });
            if as_seen {
                tables.change(&now, &orphan.guid, (to, code), orphan.response.clone());
                let states = (orphan.from, Some(to));
                tables.remember(&now, &orphan.guid, states, orphan.attempt, &orphan.trail);
                swept.push(orphan.guid.clone());
            }
        }
        Ok(swept)
    }

    fn purge_batch(&self, purge: &Purge) -> Result<Vec<Guid>, LedgerError> {
        let now = self.now();
        let cutoff = ledger_time(purge.cutoff);
        let mut tables = self.tables();
        let mut deleted = Vec::new();
        for guid in &purge.guids {
            let Some(row) = tables.tx.get(guid) else { continue };
            if row.state != State::Done || row.updated_at > cutoff {
                continue;
            }
            let (code, attempt) = (row.rsp_code.clone(), row.attempt);
            tables.tx.remove(guid);
            tables.purged.insert(guid.clone(), code);
            tables.remember(&now, guid, (State::Done, None), attempt, &purge.trail);
            deleted.push(guid.clone());
        }
        Ok(deleted)
    }

    fn purgeable(
        &self,
        cutoff: DateTime<Utc>,
        _after: Option<i64>,
    ) -> Result<(Vec<Guid>, Option<i64>), LedgerError> {
        let cutoff = ledger_time(cutoff);
        let tables = self.tables();
        let old = tables.tx.values().filter(|r| r.state == State::Done && r.updated_at <= cutoff);
        Ok((old.map(|row| row.guid.clone()).collect(), None))
    }

    fn outline(&self, query: &Query) -> Result<Vec<Outline>, LedgerError> {
        Ok(self.page(query)?.into_iter().map(Row::outline).collect())
    }

    fn page(&self, query: &Query) -> Result<Vec<Row>, LedgerError> {
        let tables = self.tables();
        let mut rows: Vec<Row> = tables.tx.values().filter(|r| query.takes(r)).cloned().collect();
        rows.sort_by_key(Row::place);
        rows.truncate(query.rows_max);
        Ok(rows)
    }

    fn counts(&self) -> Result<Counts, LedgerError> {
        let tables = self.tables();
        let mut counts = Counts::default();
        for (at, state) in State::ALL.into_iter().enumerate() {
            let rows = || tables.tx.values().filter(|row| row.state == state);
            counts.rows[at] = rows().count() as u64;
            if state != State::Done {
                counts.oldest[at] = rows().map(|row| row.updated_at.clone()).min();
            }
        }
        Ok(counts)
    }

    fn history(&self, guid: &Guid) -> Result<Vec<HistoryLine>, LedgerError> {
        let tables = self.tables();
        let lines = tables.history.iter().filter(|line| line.guid == *guid);
        Ok(lines.take(limits::HISTORY_LINES_MAX).cloned().collect())
    }

    fn clock_notes(&self) -> Result<Vec<ClockNote>, LedgerError> {
        let tables = self.tables();
        let older = tables.clock_notes.len().saturating_sub(limits::CLOCK_NOTES_MAX);
        Ok(tables.clock_notes[older..].to_vec())
    }

    fn note_clock(&self, note: &ClockNote, after: Option<&ClockNote>) -> Result<bool, LedgerError> {
        let mut tables = self.tables();
        let last = tables.clock_notes.iter().rev().find(|known| known.run == note.run);
        if last.map(|note| note.ahead_ms) != after.map(|note| note.ahead_ms) {
            return Ok(false);
        }
        let now = ledger_time(self.clock.now());
        if note.seconds != 0 {
            let open = tables.tx.values_mut().filter(|row| row.state != State::Done);
            for row in open.filter(|row| row.updated_at > now) {
                now.clone_into(&mut row.updated_at);
            }
        }
        // A ledger keeps whole seconds.
        let at = parse_ledger_time(&ledger_time(note.at)).unwrap_or(note.at);
        tables.clock_notes.push(ClockNote { at, ..note.clone() });
        Ok(true)
    }

    fn probe(&self) -> Result<(), LedgerError> {
        Ok(())
    }
}
